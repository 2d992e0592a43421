"""Random tensor programs, compiled against eager: `python -m tests.tensor_programs.fuzz --programs 20000 --report FILE`.

Input: how many programs, the first seed, how many processes. What differs is made smaller and printed.
"""

from __future__ import annotations

import sys
from collections import Counter
from unittest import mock

from cutaway import inductor
from stage_contracts.tests.many_programs import main
from tests.tensor_programs.compare import INDUCTOR, ONLY_CAPTURED, STAGE_2, VERIFIED, WAYS, check
from tests.tensor_programs.family import Family, Way, fuzzer
from tests.tensor_programs.grammar import TensorProgram, write_program
from tests.tensor_programs.layouts import checking_interpreter

INDUCTOR_EVERY, VERIFIED_EVERY = 50, 20


def way_of(seed: int, program: TensorProgram) -> Way:
    """Which backend and partitioner a seed gets; some get stage 3 too, some the check of every pass."""
    if seed % INDUCTOR_EVERY == INDUCTOR_EVERY - 1:
        return INDUCTOR
    if seed % 5 == 2 and not ONLY_CAPTURED.search("".join(program.body)):
        return STAGE_2
    return VERIFIED if seed % VERIFIED_EVERY == VERIFIED_EVERY - 1 else WAYS[seed % len(WAYS)]


def ways(seed: int, program: TensorProgram) -> list[Way]:
    return [way_of(seed, program)]


def check_layouts_too(program: TensorProgram, way: Way) -> Counter:
    """check, where what a half is given must also lie in memory as its graph says."""
    with mock.patch.object(inductor, "interpreter", checking_interpreter):
        return check(program, way)


FAMILY = Family(
    "Random tensor programs, compiled against eager",
    "make fuzz-autograd",
    write_program,
    ways,
    check_layouts_too,
    ("aot_eager", "stage 2", "inductor"),
    "three calls each",
)

if __name__ == "__main__":
    sys.exit(main(fuzzer(FAMILY)))
