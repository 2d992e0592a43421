"""The programs of the guide on graph breaks, and what each prints when the site is built: PROGRAMS and SHOWN.

Input: nothing from elsewhere. guide_page.py runs them.
"""

PROGRAMS = {
    "forward.py": """\
import cutaway

@cutaway.compile
def forward(x):
    y = x.sin()
    if y.sum() > 0:
        y = y * 2
    print("mean", y.mean().item())
    return y.relu()

forward(cutaway.ones(4))
""",
    "whole.py": """\
import cutaway

@cutaway.compile(fullgraph=True)
def forward(x):
    y = x.sin()
    y = cutaway.where(y.sum() > 0, y * 2, y)
    return y.relu(), y.mean()

y, mean = forward(cutaway.ones(4))
print("mean", mean.item())
print(len(forward.artifacts), "graph,", len(forward.breaks), "breaks")
""",
}
SHOWN = {
    "breaks": ("CUTAWAY_LOGS=graph_breaks python forward.py", 40),
    "whole": ("python whole.py", 10),
}
