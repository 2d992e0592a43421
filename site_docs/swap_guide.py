"""The programs of the guide on swapping a stage, and what each prints when the site is built: PROGRAMS and SHOWN.

Input: a first version of `fuse`, which the tests of the tiers run. guide_page.py runs the others.
"""

from pathlib import Path

NAIVE = Path(__file__).parent.parent / "tests/architecture/naive"

PROGRAMS = {
    "mine.py": (NAIVE / "fuse.py").read_text(encoding="utf-8"),
    "my_partition.py": '''\
"""A partition that computes pointwise values again in the backward, whatever their size."""

from stage2_autograd.partition import recompute_pointwise as partition
''',
    "swapped.py": """\
from dataclasses import replace

import cutaway
from my_partition import partition

def loss(x, w):
    y = (x @ w).softmax(-1)
    return (y * y.log()).sum()

x, w = cutaway.ones(64, 32), cutaway.ones(32, 16, requires_grad=True)
mine = replace(cutaway.DEFAULT_PIPELINE, partition=partition)
for name, pipeline in (("default", cutaway.DEFAULT_PIPELINE), ("mine", mine)):
    compiled = cutaway.compile(loss, pipeline=pipeline)
    compiled(x, w).backward()
    part = compiled.artifacts[-1].partition
    print(name, part.saved_bytes, "bytes saved,", len(part.backward.calls), "operators in the backward")
""",
}
SHOWN = {
    "swapped": ("python swapped.py", 10),
}
