"""Faults planted in the compiler, one a row: where it is, what breaks, and in which small model it is met.

Input: FAULTS. `planted(fault)` puts the fault into this process, `step_with(fault)` is a function that compiles one
training step afresh with it; the bisector (and debug.verify, where values differ) has to name what the row names.
`python -m tests.debug.planted_faults` runs all of them and writes the report.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from math import log2
from typing import Any
from unittest import mock

import numpy as np

import cutaway
from cutaway import compile_frame, config
from cutaway.debug.bisect import Finding, bisect_function, passes_of
from stage0_eager.table.registry import TABLE
from stage2_autograd.decompose.passes import DECOMPOSE
from stage3_lowering.lowering.fuse import FUSE
from stage4_runtime.runtime.plan_memory import PLAN_MEMORY
from stage_contracts import dtype as dtypes
from stage_contracts.errors import VerifyError
from stage_contracts.graph import GraphError
from stage_contracts.passes import PassTable
from stage_contracts.tests.report_heading import heading
from tests.debug.two_cores_each import side_by_side
from tests.models.cases import TINY, load_file, tensors

# the modules, not the functions that share their names
fusion = importlib.import_module("stage3_lowering.lowering.fuse")
memory = importlib.import_module("stage4_runtime.runtime.plan_memory")
CASES = {case.name: case for case in TINY}
SEED = 1
# what is compared is the same at any level of the C++ compiler, and this one is quick
SETTINGS = {"runtime.cxx_flags": "-O0 -ffp-contract=off", "runtime.force_disable_caches": True}


@dataclass(frozen=True)
class Fault:
    """A planted fault. `named` is what the bisector's finding has to say: its kind, and what is in its line."""

    kind: str
    model: str
    place: str
    named: tuple[str, str]

    def __str__(self) -> str:
        return f"{self.kind} {self.place} in {self.model}"

    @property
    def differs(self) -> bool:
        """Whether it is a wrong value, not an error. A plan whose bytes overlap is refused before it runs."""
        return not self.kind.startswith(("crash", "segfault", "wrong in-place reuse"))


# ---- how each kind is planted: (object, attribute, what it is in the fault's time) -----------------------------------

Plant = tuple[Any, str, Any]


def _seam(name: str, instead: Callable) -> Plant:
    return cutaway.DEFAULT_PIPELINE, name, instead


def _wrong_lowering(place: str) -> Plant:
    """Stage 3 sees one operator twice: exp(exp(x)) for exp(x)."""
    return _lowering(place, lambda graph, node: graph.call_function(node.target, node.args, val=node.val))


def _precision(place: str) -> Plant:
    """What the operator reads was rounded to float16 on the way."""
    cast = TABLE["core.cast"]

    def rounded(graph: Any, node: Any) -> Any:
        x = node.args[0]
        half = graph.call_function(cast, (x, dtypes.float16), val=x.val.with_(dtype=dtypes.float16))
        return graph.call_function(cast, (half, x.val.dtype), val=x.val)

    return _lowering(place, rounded)


def _lowering(place: str, instead: Callable[[Any, Any], Any]) -> Plant:
    """`lower` sees another operand than the graph has, wherever the operator stands."""
    ours = cutaway.DEFAULT_PIPELINE.lower

    def lower(graph: Any) -> Any:
        wrong = graph.copy()
        for node in [n for n in wrong.calls if getattr(n.target, "qualname", "") == place]:
            with wrong.inserting_before(node):
                operand = instead(wrong, node)
            wrong.set_args(node, (operand, *node.args[1:]))
        return ours(wrong)

    return _seam("lower", lower)


def _segfault(place: str) -> Plant:
    """The C++ of each kernel with this function reads where nothing is."""
    ours = cutaway.DEFAULT_PIPELINE.emit
    call = re.compile(rf"(?<== )(\w+::{place.removeprefix('core.')}\()")

    def emit(program: Any, target: Any) -> Any:
        made = ours(program, target)
        units = (replace(u, text=call.sub(r"*(volatile float*)8 + \1", u.text)) for u in made.units)
        return made.with_(units=tuple(units))

    return _seam("emit", emit)


def _wrong_fusion(place: str) -> Plant:
    """In a kernel of several nests, the function becomes another one."""
    ours, op = fusion.build_kernel, place.removeprefix("core.")

    def build_kernel(number: int, nests: Any, *rest: Any) -> Any:
        if len(nests) > 1:
            nests = [replace(n, body=tuple(_other(i, op) for i in n.body)) for n in nests]
        return ours(number, nests, *rest)

    return fusion, "build_kernel", build_kernel


def _other(instr: Any, op: str) -> Any:
    return replace(instr, op="abs") if instr.op == op else instr


def _wrong_reuse(place: str) -> Plant:
    """After planning and its check, a buffer's bytes are given away after its first reader."""
    ours, lifetimes = cutaway.DEFAULT_PIPELINE.plan_memory, memory.lifetimes

    def shorter(program: Any) -> Any:
        lives = lifetimes(program)
        return {name: replace(life, last=min(life.last, life.first + 1)) for name, life in lives.items()}

    def plan_memory(program: Any) -> Any:
        made = ours(program)
        if not config.current().runtime.reuse_memory:
            return made
        with mock.patch.object(memory, "lifetimes", shorter):
            wrong = memory.slots(memory.calls_into_memory(made))
        return made.with_(buffers=wrong.buffers, pools=wrong.pools)

    return _seam("plan_memory", plan_memory)


def _wrong_guard(place: str) -> Plant:
    """The function that checks the guards of an entry lacks those on this name."""
    ours = compile_frame.guard_function

    def guard_function(guards: Any, fn: Any, *epoch: Any) -> Any:
        return ours(tuple(g for g in guards if not str(g.source).endswith(place)), fn, *epoch)

    return compile_frame, "guard_function", guard_function


def _crash(place: str) -> Plant:
    def crashing(*_: Any) -> Any:
        raise KeyError(f"planted in {place}")

    return _row(_table(place), place.rpartition(".")[2], lambda run: crashing)


def _wrong_values(place: str) -> Plant:
    """The pass also makes the graph's first exp(x) an exp(exp(x))."""

    def with_fault(run: Callable) -> Callable:
        def wrong(graph: Any) -> Any:
            made = run(graph)
            made = graph if made is None else made
            for node in [n for n in made.calls if getattr(n.target, "qualname", "") == "core.exp"][:1]:
                with made.inserting_before(node):
                    meta = {"region": node.meta["region"]} if "region" in node.meta else {}
                    twice = made.call_function(node.target, node.args, val=node.val, **meta)
                made.set_args(node, [twice])
            return made

        return wrong

    return _row(_table(place), place, with_fault)


def _table(place: str) -> PassTable:
    tables = {"fuse": FUSE, "plan_memory": PLAN_MEMORY}
    return tables.get(place.partition(".")[0], DECOMPOSE)


def _row(table: PassTable, name: str, with_fault: Callable) -> Plant:
    """One row of a pass table is another."""
    rows = tuple(replace(p, run=with_fault(p.run)) if p.name == name else p for p in table.passes)
    return table, "passes", rows


PLANTS: dict[str, Callable[[str], Plant]] = {
    "wrong lowering of": _wrong_lowering,
    "precision lost before": _precision,
    "segfault at": _segfault,
    "wrong fusion of": _wrong_fusion,
    "wrong in-place reuse": _wrong_reuse,
    "wrong guard on": _wrong_guard,
    "crash in pass": _crash,
    "wrong values from pass": _wrong_values,
}


def _rows(kind: str, named: str, *places: tuple[str, str], name: str | None = None) -> tuple[Fault, ...]:
    return tuple(
        Fault(kind, model, place, (named, place if name is None else name)) for model, place in places
    )


FAULTS: tuple[Fault, ...] = (
    *_rows("wrong lowering of", "operator", ("gpt2", "core.exp"), ("gpt2", "core.tanh"), ("bert", "core.exp"),
           ("bert", "core.rsqrt"), ("resnet", "core.log"), ("resnet", "core.rsqrt")),
    *_rows("precision lost before", "operator", ("gpt2", "core.log"), ("bert", "core.rsqrt"), ("resnet", "core.log")),
    *_rows("crash in pass", "pass", ("gpt2", "casts"), ("gpt2", "linear"), ("bert", "views"), ("bert", "identities"),
           ("resnet", "views"), ("resnet", "fuse.unused_nests")),
    *_rows("wrong values from pass", "pass", ("gpt2", "views"), ("bert", "views"), ("resnet", "views")),
    *_rows("segfault at", "operator", ("gpt2", "core.tanh"), ("bert", "core.exp"), ("resnet", "core.exp")),
    *_rows("wrong fusion of", "fusion", ("gpt2", "core.tanh"), ("bert", "core.exp"), ("resnet", "core.exp")),
    *_rows("wrong in-place reuse", "reuse of memory (plan_memory.slots)", ("gpt2", ""), ("bert", ""), ("resnet", "")),
    *_rows("wrong guard on", "guard", ("gpt2", "sign"), ("bert", "sign"), ("resnet", "sign")),
)  # fmt: skip


# ---- running one --------------------------------------------------------------------------------------------------


@contextmanager
def planted(fault: Fault | None) -> Iterator[None]:
    """The fault is in this process, and in what it forks."""
    with ExitStack() as stack:
        if fault is not None:
            thing, name, instead = PLANTS[fault.kind](fault.place)
            before = getattr(thing, name)
            object.__setattr__(thing, name, instead)  # tables and pipelines are frozen
            stack.callback(object.__setattr__, thing, name, before)
        stack.enter_context(config.patch(dict(SETTINGS)))
        yield


def step_with(fault: Fault | None) -> Callable[[], list[Any]]:
    """A function that compiles one training step afresh and gives the loss and some gradients. A wrong guard shows at
    the second call of two."""
    case = CASES[fault.model if fault else "gpt2"]
    module = load_file(case.file, cutaways=True)
    signs = (1.0, -1.0) if fault and fault.kind == "wrong guard on" else (1.0,)

    def run() -> list[Any]:
        cutaway.manual_seed(0)
        model = case.build(module)
        batch = tensors(cutaway, case.batch(np.random.default_rng(SEED)), "float32")

        def step(sign: float, *inputs: Any) -> Any:
            # a float that stays open, as in `* sign`, has no guard that could be wrong
            return case.run(module, model, inputs)[1].copysign(sign)

        with planted(fault):
            compiled = cutaway.compile(step)
            for sign in signs:
                loss = compiled(sign, *batch)
            loss.backward()
        return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)][:6]

    return run


def as_expected(eager: list[Any], found: list[Any], model: str = "") -> bool:
    """Whether loss and gradients are eager's, as far as float32 through a whole model has them. ResNet's gradients move
    more: a value that is rounded to the other side of 0 before a ReLU changes them."""
    (loss, *wanted), (other, *gradients) = [[one.numpy() for one in values] for values in (eager, found)]
    loose = model == "resnet"
    return np.allclose(loss, other, rtol=2e-5, atol=1e-6) and all(
        np.allclose(a, b, rtol=2e-5, atol=1e-2 * abs(a).max() if loose else 1e-6)
        for a, b in zip(wanted, gradients, strict=True)
    )


def bisected(fault: Fault) -> Finding:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # an error is what is looked for: without all passes ResNet's gradients are rounded otherwise, and right
        expected = functools.partial(as_expected, model=fault.model) if fault.differs else None
        return bisect_function(step_with(fault), expected, in_forks=fault.kind == "segfault at")


def names(finding: Finding, fault: Fault) -> bool:
    kind, name = fault.named
    return finding.kind == kind and name in finding.name


def most_runs() -> float:
    return 2 * log2(len(passes_of("inductor"))) + 10


def verified(fault: Fault) -> str:
    """What debug.verify says of the fault or, if that is silent, autograd.verify_passes; "" if both are."""
    for field in ("debug.verify", "autograd.verify_passes"):
        with warnings.catch_warnings(), config.patch({field: True, "capture.suppress_errors": False}):
            warnings.simplefilter("ignore")
            try:
                step_with(fault)()
            except (VerifyError, GraphError) as error:
                return str(error)
    return ""


# Where each wrong value is made first, as it stands in the model's file: what debug.verify has to show.
LINES = {
    ("gpt2", "core.exp"): "F.scaled_dot_product_attention(",
    ("gpt2", "core.tanh"): "self.c_proj(self.act(self.c_fc(x)))",
    ("gpt2", "core.log"): "F.cross_entropy(",
    ("gpt2", "views"): "F.scaled_dot_product_attention(",
    ("bert", "core.exp"): "nn.functional.softmax(scores, dim=-1)",
    ("bert", "core.rsqrt"): "self.LayerNorm(embeddings)",
    ("bert", "views"): "nn.functional.softmax(scores, dim=-1)",
    ("resnet", "core.exp"): "F.cross_entropy(",
    ("resnet", "core.log"): "F.cross_entropy(",
    ("resnet", "core.rsqrt"): "self.maxpool(self.relu(self.bn1(self.conv1(x))))",
    ("resnet", "views"): "F.cross_entropy(",
}
SIGNED = "case.run(module, model, inputs)[1].copysign(sign)"  # where the wrong guards come from


def right_line(fault: Fault, said: str) -> bool:
    """Whether the line that is shown is the one where the fault first changes a value."""
    shown = re.findall(r'^  File "[^"]*", line \d+\n +(.*)', said, re.MULTILINE)
    return bool(shown) and LINES.get((fault.model, fault.place), SIGNED) in shown[0]


def looked_for(fault: Fault) -> tuple[Finding, str]:
    """What the bisector finds and, where values differ, what debug.verify says."""
    return bisected(fault), verified(fault) if fault.differs else ""


def main() -> None:
    began, right, lines, differing = time.perf_counter(), 0, 0, 0
    print(
        heading("Faults planted in the compiler: does the bisector name each?", "make planted-faults", SEED)
    )
    print("Below each wrong value: whether debug.verify (for a pass: autograd.verify_passes) shows its line.")
    faults = FAULTS[: 2 if "--quick" in sys.argv else None]
    for fault, (finding, said) in zip(faults, side_by_side(looked_for, faults), strict=True):
        good = names(finding, fault) and finding.runs <= most_runs()
        right += good
        print(f"{'named ' if good else 'MISSED'}  {fault!s:50} {str(finding).splitlines()[0]}", flush=True)
        if fault.differs:
            differing += 1
            lines += (told := right_line(fault, said))
            shown = re.findall(r'^  File "[^"]*?(\w+\.py)", (line \d+)', said, re.MULTILINE)
            print(
                f"        {'the right line' if told else 'NOT the line'}: {' '.join(shown[0]) if shown else said[:200]}"
            )
    print(f"the bisector names {right} of {len(FAULTS)}, in at most {most_runs():.1f} runs each")
    print(f"verify shows the right line of {lines} of {differing} that differ in value")
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
