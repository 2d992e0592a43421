"""Random programs for the rewrites, compiled against eager: `python -m tests.rewrite_programs.fuzz --programs 20000`.

Input: how many programs, the first seed, how many processes. Each is compiled by every backend, and by inductor as it
is without a C++ compiler; one with an open batch is called at several sizes.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from functools import partial

import cutaway
from stage_contracts import events
from stage_contracts.tests.many_programs import main
from tests.rewrite_programs.grammar import BATCHES, NAMES, is_open, write_program
from tests.tensor_programs.compare import WAYS, Differs, compare, functions_of, observe, roundings
from tests.tensor_programs.family import Family, Way, fuzzer
from tests.tensor_programs.grammar import TensorProgram

NO_COMPILER = ("inductor", {"runtime.cxx": "/nowhere/g++"})
# Without the disk cache: each store walks all of it, which took most of the time of many programs.
INDUCTOR = ("inductor", {"runtime.cache": False})
# Most kernels are built without optimisation, which takes half of the time; what is tested is the code that we write.
UNOPTIMISED = ("inductor", {**INDUCTOR[1], "runtime.cxx_flags": "-O0"})
VERIFIED_EVERY, NO_COMPILER_EVERY, OPTIMISED_EVERY = 4, 4, 8


def quick_ways(seed: int, program: TensorProgram) -> list[Way]:
    """Those that run no compiler: the partitioners by turns, some with the check of every pass."""
    backend, options = WAYS[seed % len(WAYS)]
    checked = {"autograd.verify_passes": True} if seed % VERIFIED_EVERY == 1 else {}
    return [("eager", {}), (backend, {**options, **checked}), NO_COMPILER]


def ways(seed: int, program: TensorProgram) -> list[Way]:
    """Every backend. A share runs without a compiler too, which is what inductor does until it builds kernels.

    FUZZ_COMPILER=0 leaves the compiler out, which takes a third of the time: then all run without."""
    captured, ahead_of_time, no_compiler = quick_ways(seed, program)
    if os.environ.get("FUZZ_COMPILER") == "0":
        return [captured, ahead_of_time, no_compiler]
    compiled = INDUCTOR if seed % OPTIMISED_EVERY == 0 else UNOPTIMISED
    too = [no_compiler] if seed % NO_COMPILER_EVERY == 2 else []
    return [captured, ahead_of_time, *too, compiled]


def check(program: TensorProgram, way: Way) -> Counter:
    """A call at each size, and one under no_grad where stage 2 runs alone (it has no backward then). Raises Differs."""
    names, (backend, options) = functions_of(program, NAMES), way
    function, sizes = names["program"], BATCHES if is_open(program) else BATCHES[:1]
    compiled = cutaway.compile(function, backend=backend, options=options, dynamic=is_open(program))
    mark, refused, rounded = events.EVENT_LOG.mark(), False, False
    calls = [(size, contextlib.nullcontext) for size in sizes]
    if backend == "aot_eager":
        calls.append((sizes[0], cutaway.no_grad))
    for size, mode in calls:
        names["BATCH"] = size
        expected, got = (observe(names, f, program, mode) for f in (function, compiled))
        refused |= "error" in dict(expected)
        if is_open(program):  # of an open size nobody asks whether it is 1, which only a layout would tell
            got, expected = ([(w, v) for w, v in seen if "strides" not in w] for seen in (got, expected))
        unused = len(program.used) < len(program.results)
        runs = partial(roundings, {w for w, _ in expected}, names, function, program, mode)
        rounded |= compare(got, expected, backend == "inductor", unused, runs)
    seen = Counter(e.kind for e in events.EVENT_LOG.since(mark))
    unbuilt = [e.details for e in events.EVENT_LOG.since(mark, "fallback") if e.name == "numpy"]
    if unbuilt and way != NO_COMPILER:
        raise Differs(f"no kernels: {unbuilt[0]}")
    eagerly = sum(e.name == "eager" for e in events.EVENT_LOG.since(mark, "fallback"))
    return Counter(breaks=seen["graph_break"], fallbacks=eagerly, refused=refused, rounded=rounded)


def label(way: Way) -> str:
    named = {str(NO_COMPILER): "no compiler", str(UNOPTIMISED): "inductor, -O0"}
    return named.get(str(way), way[0])


FAMILY = Family(
    "Random programs for the rewrites, compiled against eager",
    "make fuzz-rewrites",
    write_program,
    ways,
    check,
    ("eager", "aot_eager", "no compiler", "inductor", "inductor, -O0"),
    "each compiled with",
    label,
)

if __name__ == "__main__":
    sys.exit(main(fuzzer(FAMILY)))
