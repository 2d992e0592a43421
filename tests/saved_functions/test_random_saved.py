"""Random programs on arrays, compiled ahead of time, saved and loaded: they do what NumPy does, and nothing is captured.

Input: the grammar of tests/numpy_programs: arithmetic, reductions, views, writes into views.
"""

import numpy as np
from hypothesis import HealthCheck, assume, given, seed, settings

import cutaway
from cutaway.compiler import load_compiled_function
from stage_contracts import events
from stage_contracts.breaks import Unsupported
from tests.numpy_programs.compare import assert_same, observe
from tests.numpy_programs.test_numpy_random import matrix, programs

QUICK = {"runtime.cxx_flags": "-O0 -march=native -fopenmp -ffp-contract=off"}
CHECKED = []


def arguments(dtypes):
    return tuple(matrix(dtype, k) for k, dtype in enumerate(dtypes))


@seed(6)
@settings(max_examples=20, deadline=None, database=None, suppress_health_check=[*HealthCheck])
@given(made=programs())
def test_a_random_program_that_was_saved_gives_what_numpy_gives(made, tmp_path):
    text, dtypes = made
    names = {"np": np, "__name__": "a_random_program"}
    exec(text, names)
    wanted = observe(names["f"], arguments(dtypes))
    assume(not wanted.error)
    try:
        compiled = cutaway.compile(names["f"], fullgraph=True, options=QUICK)
        compiled.aot_compile((arguments(dtypes), {})).save_compiled_function(tmp_path / "f")
    except Unsupported:  # a function that NumPy runs itself
        assume(False)
    mark = events.EVENT_LOG.mark()
    loaded = load_compiled_function(tmp_path / "f", f_globals={"np": np}, trust=True)
    assert_same(
        observe(loaded, arguments(dtypes)), wanted, f"{text}on {dtypes}, saved and loaded", exact=False
    )
    kinds = {event.kind for event in events.EVENT_LOG.since(mark)}
    assert not {"compile", "build", "cache", "fallback"} & kinds
    CHECKED.append(text)


def test_enough_of_them_were_saved():
    assert len({*CHECKED}) >= 12
