"""Faults planted in the compiler, one a row: where it is, what breaks, and in which small model it is met.

Input: FAULTS. `compiled_with(fault)` is a function that compiles one training step afresh with the fault in it; the
bisector (and debug.verify, where values differ) has to name what the row names. `python -m tests.debug.planted_faults`
runs all of them and writes the report.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log2
from typing import Any

import numpy as np

import cutaway
from cutaway import config
from cutaway.debug.bisect import Finding, bisect_function, passes_of
from stage2_autograd.decompose.passes import DECOMPOSE
from stage3_lowering.lowering.fuse import FUSE
from stage4_runtime.runtime.plan_memory import PLAN_MEMORY
from stage_contracts.errors import VerifyError
from stage_contracts.passes import PassTable
from stage_contracts.tests.report_heading import heading
from tests.models.cases import TINY, load_file, tensors

CASES = {case.name: case for case in TINY}
SEED = 1


@dataclass(frozen=True)
class Fault:
    """A planted fault. `named` is what the bisector's finding has to say: its kind, and the name within it."""

    kind: str
    model: str
    place: str
    named: tuple[str, str]

    def __str__(self) -> str:
        return f"{self.kind} {self.place} in {self.model}"


# ---- how each kind is planted -------------------------------------------------------------------------------------


def _wrong_lowering(place: str) -> Any:
    """Stage 3 sees one operator twice: exp(exp(x)) for exp(x)."""
    return _lowering(place, lambda graph, node: graph.call_function(node.target, node.args, val=node.val))


def _precision(place: str) -> Any:
    """What the operator reads was rounded to float16 on the way."""
    from stage0_eager.table.registry import TABLE
    from stage_contracts import dtype as dtypes

    cast = TABLE["core.cast"]

    def rounded(graph: Any, node: Any) -> Any:
        x = node.args[0]
        half = graph.call_function(cast, (x, dtypes.float16), val=x.val.with_(dtype=dtypes.float16))
        return graph.call_function(cast, (half, x.val.dtype), val=x.val)

    return _lowering(place, rounded)


def _lowering(place: str, instead: Callable[[Any, Any], Any]) -> Any:
    """A pipeline whose `lower` sees another operand than the graph has, wherever the operator stands."""
    ours = cutaway.DEFAULT_PIPELINE

    def lower(graph: Any) -> Any:
        wrong = graph.copy()
        for node in [n for n in wrong.calls if getattr(n.target, "qualname", "") == place]:
            with wrong.inserting_before(node):
                operand = instead(wrong, node)
            wrong.set_args(node, (operand, *node.args[1:]))
        return ours.lower(wrong)

    return replace(ours, lower=lower)


def _crash(place: str) -> tuple[PassTable, str, Callable]:
    def crashing(*_: Any) -> Any:
        raise KeyError(f"planted in {place}")

    return _table(place), place.rpartition(".")[2], lambda run: crashing


def _wrong_values(place: str) -> tuple[PassTable, str, Callable]:
    """The pass also turns one addition of the graph into a subtraction."""

    def with_fault(run: Callable) -> Callable:
        def wrong(graph: Any) -> Any:
            made = run(graph)
            made = graph if made is None else made
            for node in [n for n in made.calls if getattr(n.target, "qualname", "") == "core.exp"][:1]:
                with made.inserting_before(node):
                    twice = made.call_function(node.target, node.args, val=node.val)
                made.set_args(node, [twice])
            return made

        return wrong

    return _table(place), place, with_fault


def _table(place: str) -> PassTable:
    tables = {"fuse": FUSE, "plan_memory": PLAN_MEMORY}
    return tables.get(place.partition(".")[0], DECOMPOSE)


PLANTS: dict[str, Callable[[str], Any]] = {
    "wrong lowering of": _wrong_lowering,
    "precision lost before": _precision,
    "crash in pass": _crash,
    "wrong values from pass": _wrong_values,
}

_MODELS = ("gpt2", "bert", "resnet")
FAULTS: tuple[Fault, ...] = (
    *(Fault("wrong lowering of", m, op, ("operator", op)) for m in ("gpt2", "bert")
      for op in ("core.exp", "core.tanh", "core.rsqrt", "core.log")),
    *(Fault("precision lost before", m, op, ("operator", op)) for m in ("gpt2", "bert")
      for op in ("core.log", "core.rsqrt")),
    *(Fault("crash in pass", m, p, ("pass", p)) for m in _MODELS
      for p in ("casts", "views", "linear", "identities", "fuse.unused_nests")),
    *(Fault("wrong values from pass", m, p, ("pass", p)) for m in _MODELS for p in ("views",)),
)  # fmt: skip


# ---- running one --------------------------------------------------------------------------------------------------


def step_with(fault: Fault | None) -> Callable[[], list[Any]]:
    """A function that compiles one training step afresh and gives the loss and some gradients."""
    case = CASES[fault.model if fault else "gpt2"]
    planted = PLANTS[fault.kind](fault.place) if fault else cutaway.DEFAULT_PIPELINE
    module = load_file(case.file, cutaways=True)

    def run() -> list[Any]:
        cutaway.manual_seed(0)
        model = case.build(module)
        batch = tensors(cutaway, case.batch(np.random.default_rng(SEED)), "float32")
        pipeline = cutaway.DEFAULT_PIPELINE if isinstance(planted, tuple) else planted
        step = cutaway.compile(lambda *b: case.run(module, model, b)[1], pipeline=pipeline)
        loss = step(*batch)
        loss.backward()
        return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)][:6]

    return (lambda: _with_table(planted, run)) if isinstance(planted, tuple) else run


def _with_table(planted: tuple[PassTable, str, Callable], run: Callable[[], list[Any]]) -> list[Any]:
    """`run` while one row of a pass table is another."""
    table, name, with_fault = planted
    before = table.passes
    rows = tuple(replace(p, run=with_fault(p.run)) if p.name == name else p for p in before)
    object.__setattr__(table, "passes", rows)
    try:
        return run()
    finally:
        object.__setattr__(table, "passes", before)


def as_expected(eager: list[Any], found: list[Any]) -> bool:
    """Whether loss and gradients are eager's, as far as float32 through a whole model has them."""
    return all(
        np.allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=1e-6) for a, b in zip(eager, found, strict=True)
    )


def bisected(fault: Fault) -> Finding:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # a crash is what is looked for: without all passes ResNet's gradients are rounded otherwise, and right
        crash = fault.kind == "crash in pass"
        return bisect_function(step_with(fault), None if crash else as_expected)


def names(finding: Finding, fault: Fault) -> bool:
    kind, name = fault.named
    return finding.kind == kind and finding.name.split(" = ")[-1] == name


def most_runs() -> float:
    return 2 * log2(len(passes_of("inductor"))) + 10


def verified(fault: Fault) -> str:
    """What debug.verify says of the fault; "" if nothing."""
    with config.patch({"debug.verify": True, "runtime.force_disable_caches": True}):
        try:
            step_with(fault)()
        except VerifyError as error:
            return str(error)
    return ""


def main() -> None:
    began, right = time.perf_counter(), 0
    print(
        heading("Faults planted in the compiler: does the bisector name each?", "make planted-faults", SEED)
    )
    for fault in FAULTS[: int(sys.argv[1]) if len(sys.argv) > 1 else None]:
        finding = bisected(fault)
        good = names(finding, fault) and finding.runs <= most_runs()
        right += good
        print(f"{'named ' if good else 'MISSED'}  {fault!s:50} {str(finding).splitlines()[0]}", flush=True)
    print(f"the bisector names {right} of {len(FAULTS)}, in at most {most_runs():.1f} runs each")
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
