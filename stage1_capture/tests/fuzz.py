"""Random programs compared with themselves: `python -m stage1_capture.tests.fuzz --programs 20000 --report FILE`.

Input: how many programs, the first seed, how many processes. Each program is called three times, compiled and eager, on
equal arguments; the third call changes something that guards must notice. Compared are results, what is one object,
what is left in the arguments, printed output, the log, the global, exceptions.
"""

import contextlib
import copy
import gc
import io
import sys
from collections import Counter

import numpy as np

from stage0_eager import is_grad_enabled, no_grad
from stage1_capture.capture import capture as default_capture
from stage1_capture.tests.driver import Compiled
from stage1_capture.tests.grammar import function_of, write_program
from stage1_capture.tests.harness import described, sharing, tensor
from stage1_capture.tests.many import fuzzer
from stage1_capture.tests.vocabulary import ENDED, LOG, Box
from stage_contracts.tests.many_programs import main

# ---- one call ----------------------------------------------------------------------------------------

KWARGS = ({}, {"m": 2}, {"m": 0.5}, {"n": 1})
# What the third call has other than the first two: what changes, and to what.
CHANGES = {
    "numbers": {"kwargs": {"n": 2, "m": 3}},
    "kinds": {"kwargs": {"n": 2.5, "m": True}},
    "shape": {"size": 4},
    "aliasing": {"same": True},
    "list": {"longer": True},
    "key order": {"reordered": True},
    "global": {"G": 2},
    "attribute": {"limit": 1},
    "grad mode": {"mode": no_grad},
    "tape": {"grad": True},
}


def arguments(seed, size=3, same=False, longer=False, reordered=False, grad=False):
    """Two tensors (the same one in a fifth of the programs, on the tape in another), a list and a dict of them."""
    grad = grad or seed % 5 == 1
    a = tensor(size, 3, requires_grad=grad)
    b = a if same or seed % 5 == 0 else tensor(size, 3, seed=1)
    d = {1: 2, "k": b} if reordered else {"k": b, 1: 2}
    return a, b, [a, b, a] if longer else [a, b], d


def observe(function, seed, kwargs=None, G=1.5, limit=3, mode=contextlib.nullcontext, **changed):
    """All that can be seen of one call."""
    args = arguments(seed, **changed)
    LOG.clear()
    ENDED.clear()
    names = getattr(function, "function", function).__globals__
    names["G"], Box.limit = G, limit
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), mode():
        try:
            result = function(*args, **(KWARGS[seed % 4] if kwargs is None else kwargs))
            seen = ["returned", described(result), sharing(result, args)]
        except Exception as error:
            cause, context = error.__cause__, error.__context__
            seen = ["raised", type(error), str(error), repr(cause), type(context), error.__suppress_context__]
        after = is_grad_enabled(), type(sys.exc_info()[1])
    return [*seen, described(args), printed.getvalue(), copy.copy(LOG), names["G"], after]


def check(seed, capture=default_capture):
    """(None or what differs, the compiled function)."""
    function = function_of(seed)
    compiled = Compiled(function, capture=capture)
    name, change = list(CHANGES.items())[seed % len(CHANGES)]
    with np.errstate(all="ignore"):
        for call, changed in (("first call", {}), ("second call", {}), (f"third call, {name}", change)):
            expected = observe(function, seed, **changed)
            if expected[0] == "raised":
                gc.collect()  # what the frames of eager's exception hold, or it ends during the compiled call
            ended = Counter(ENDED)
            got = observe(compiled, seed, **changed)
            if Counter(ENDED) != ended:
                gc.collect()
                expected, got = [*expected, ended], [*got, Counter(ENDED)]
            if got != expected:
                return f"{call}\n  got      {got}\n  expected {expected}", compiled
    return None, compiled


TITLE = "Random programs, captured, against eager"
FUZZ = fuzzer(TITLE, "make fuzz-capture", write_program, check, "three calls each")

if __name__ == "__main__":
    sys.exit(main(FUZZ))
