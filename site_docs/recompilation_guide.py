"""The programs of the guide on recompilation, and what each prints when the site is built: PROGRAMS and SHOWN.

Input: nothing from elsewhere. guide_page.py runs them.
"""

PROGRAMS = {
    "scaled.py": """\
import cutaway

@cutaway.compile
def scaled(x, mode, factor):
    return x.sin() * factor if mode == "sine" else x * factor

x = cutaway.ones(4, 8)
scaled(x, "sine", 0.5)                    # compiles
scaled(x, "sine", 0.7)                    # a number that is only computed with is an input of the graph
scaled(x, "plain", 0.5)                   # another string: compiles
scaled(cutaway.ones(5, 8), "sine", 0.5)   # another size: compiles, and leaves that size open
scaled(cutaway.ones(6, 8), "sine", 0.5)   # so this one fits
print(scaled)
""",
    "limited.py": """\
import cutaway

@cutaway.compile
def power(x, n: int):
    for _ in range(n):                    # a number that decides how often a loop runs is a guard
        x = x * x
    return x

with cutaway.config.patch(recompile_limit=3):
    for n in range(5):
        power(cutaway.ones(2), n)
print(power)
""",
}
SHOWN = {
    "recompiles": ("CUTAWAY_LOGS=recompiles python scaled.py", 12),
    "limit": ("python limited.py", 12),
}
