"""The corpus, with a break behind every instruction: `python -m stage1_capture.tests.breaks_anywhere [--every N]`.

Input: corpus.py, of which every Nth program is run. A program that breaks where it says so breaks at calls, mostly; here
each instruction that the frame may break at does, and has done all it does by then, so one that is two (3.13's
LOAD_FAST_LOAD_FAST) breaks in its last half. What the program does must not change.
"""

import argparse
import contextlib
import sys
from collections import Counter
from unittest import mock

from stage1_capture.frame.translator import InstructionTranslator
from stage1_capture.tests.corpus import cases, run

# They need no value, so capture never breaks there, and resume.py has no way on from them.
NEVER = {
    *("RESUME", "NOP", "KW_NAMES", "PRECALL", "MAKE_CELL", "COPY_FREE_VARS", "JUMP_FORWARD", "JUMP_BACKWARD"),
    *("PUSH_NULL", "SWAP", "COPY", "END_FOR", "LOAD_CONST", "LOAD_CLOSURE", "LOAD_FAST_AND_CLEAR"),
    *(
        "PUSH_EXC_INFO",
        "POP_EXCEPT",
        "CHECK_EXC_MATCH",
        "RERAISE",
        "LOAD_ASSERTION_ERROR",
        "LOAD_BUILD_CLASS",
    ),
}
# The frames of a traceback that lives on after a break are others (README.md, "Known differences").
TELLS = "breaks_in_exception_chains.line_of_the_error"


@contextlib.contextmanager
def breaking():
    """Force the breaks; yields how many there were, by instruction."""
    step, seen = InstructionTranslator.step, Counter()

    def forced(frame):
        instruction = frame.program[frame.index]
        step(frame)
        if frame.is_root and instruction.opname not in NEVER and frame.output.options.stop_at is None:
            seen[instruction.opname] += 1
            frame.unsupported("GB0010", f"a break behind {instruction.opname}")

    with mock.patch.object(InstructionTranslator, "step", forced):
        yield seen


def broken_everywhere(name):
    """What differs from eager, or None; and the breaks, by instruction."""
    with breaking() as seen:
        try:
            run(name, "whole")
        except Exception as error:
            return f"{name}: {type(error).__name__}: {error}", seen
    return None, seen


def names(every):
    return [name for name, variant in cases() if variant == "whole" and name != TELLS][::every]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="one program of so many")
    total, differ = Counter(), 0
    chosen = names(parser.parse_args().every)
    for name in chosen:
        problem, seen = broken_everywhere(name)
        total += seen
        if problem:
            differ += 1
            print(problem, flush=True)
    print(
        f"{len(chosen)} programs, {total.total()} breaks at {len(total)} instructions, {differ} differ: {dict(total)}"
    )
    sys.exit(differ > 0)
