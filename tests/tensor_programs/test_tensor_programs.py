"""Random tensor programs through AOT autograd: a slice, the same every time, and those that once differed from eager.

Input: tests/tensor_programs. `make fuzz-autograd` runs twenty thousand others.
"""

import gc
import threading
import weakref

import numpy as np
import pytest

import cutaway
from tests.tensor_programs.compare import (
    ONLY_CAPTURED,
    STAGE_2,
    WAYS,
    functions_of,
    observe,
)
from tests.tensor_programs.found import FOUND
from tests.tensor_programs.fuzz import check_layouts_too as check
from tests.tensor_programs.fuzz import way_of
from tests.tensor_programs.grammar import write_program

SLICE = range(0, 30)


@pytest.mark.parametrize("first", range(SLICE.start, SLICE.stop, 10))
def test_random_programs_are_as_in_eager(first):
    for seed in range(first, first + 10):
        program = write_program(seed)
        way = way_of(seed, program)
        check(program, WAYS[0] if way[0] == "inductor" else way)  # which needs a compiler


def test_a_seed_is_a_program_and_a_program_may_end_in_an_error():
    assert write_program(3) == write_program(3)
    last = [
        observe(functions_of(p), functions_of(p)["program"], p, cutaway.enable_grad)
        for p in map(write_program, range(40))
    ]
    assert 1 <= sum(("error" in dict(seen)) for seen in last) <= 20


def test_what_differs_is_found():
    """A compiled function that forgets a write, or a gradient, is not eager."""
    program = FOUND["a view of a leaf is written"]
    for body in ("return [x * 1]", "with torch.no_grad():\n        x[0] = 1\n    return [x * 1]"):
        names = functions_of(program)
        exec(f"def wrong(x):\n    {body}\n", names)
        assert observe(names, names["wrong"], program, cutaway.enable_grad) != observe(
            names, names["program"], program, cutaway.enable_grad
        )


# ---- what the random programs found, made smaller ---------------------------------------------------------------


@pytest.mark.parametrize("way", [WAYS[0], WAYS[1], STAGE_2], ids=("min_cut", "save_everything", "stage 2"))
@pytest.mark.parametrize("name", FOUND)
def test_what_once_differed(name, way):
    if way is not STAGE_2 or not ONLY_CAPTURED.search("".join(FOUND[name].body)):
        check(FOUND[name], way)


# ---- memory, failures, threads -----------------------------------------------------------------------------------


def test_nothing_is_kept_after_the_backward():
    """Arguments, results and what was saved are gone when the user lets go of them."""
    for seed in (3, 6, 9, 12):
        program = write_program(seed)
        names = functions_of(program)
        compiled = cutaway.compile(names["program"], backend="aot_eager")
        for _ in range(2):
            inputs, leaves = names["inputs"]()
            with np.errstate(all="ignore"):
                results = compiled(*inputs)
                total = sum((r.double().sum() for r in results if r.requires_grad), cutaway.zeros(()))
                if total.requires_grad:
                    total.backward()
            gone = [weakref.ref(t) for t in (*inputs, *leaves, *results, total)]
            del inputs, leaves, results, total
            gc.collect()
            assert not [r for r in gone if r() is not None], program.source()


def test_a_backward_that_fails_leaves_no_gradient():
    x, y = (cutaway.ones(3, requires_grad=True) for _ in range(2))

    def refuse(gradient):
        raise KeyError("from the hook")

    a, b = cutaway.compile(lambda x, y: (x * y, (x + y).sin()), backend="aot_eager")(x, y)
    b.register_hook(refuse)
    with pytest.raises(KeyError):
        (a.sum() + b.sum()).backward()
    assert x.grad is None and y.grad is None


def test_two_threads_run_one_compiled_program():
    programs = [write_program(seed) for seed in (1, 4, 13, 21)]
    everything = [functions_of(p) for p in programs]
    compiled = [cutaway.compile(names["program"], backend="aot_eager") for names in everything]
    problems = []

    def work(turn):
        for program, names, function in list(zip(programs, everything, compiled, strict=True))[::turn]:
            for _ in range(3):
                inputs, leaves = names["inputs"]()
                seen = []
                try:
                    results = function(*inputs)
                    for r in results:
                        if r.requires_grad:
                            r.double().sum().backward(retain_graph=True)
                    seen = [t.tolist() for t in (*inputs, *results)] + [
                        t.grad is None or t.grad.tolist() for t in leaves
                    ]
                except Exception as error:
                    seen = [str(error)]
                problems.append((program, seen))

    threads = [threading.Thread(target=work, args=(turn,)) for turn in (1, -1)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for program in programs:
        runs = [repr(seen) for p, seen in problems if p is program]
        assert len(runs) == 6 and len(set(runs)) == 1
