"""Inputs that share memory, if one of them is written: the graph is compiled for the memory, with the inputs as views.

Input: a captured graph, and the tensors of a call that the run-time wrapper refused. torch calls such memory a
synthetic base. Only the call shows where each input is in it, so each pattern of positions has its own graph. Inputs
that require grad must be views of one tensor, which is then the base, with its history; otherwise the call runs
eagerly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stage0_eager import arrays
from stage0_eager.autograd.tape import version_of
from stage0_eager.state import STATE
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor, root, steps_from_base, up_to_date
from stage_contracts.graph import Graph
from stage_contracts.joint import FunctionalGraph
from stage_contracts.tensor_meta import TensorMeta

Chain = tuple[tuple[Any, tuple], ...]  # (core view operator, its arguments after the tensor), outermost first


@dataclass(frozen=True)
class Pattern:
    """Which inputs are views of the memory `meta`, and how (`chains`: input -> the view operators that make it).

    whole: the memory is a tensor of the user, whose views they are; otherwise it is a 1-d tensor of all elements.
    """

    chains: tuple[tuple[int, Chain], ...]
    meta: TensorMeta
    whole: bool = False

    @property
    def members(self) -> list[int]:
        return [i for i, _ in self.chains]


def pattern_of(tensors: Sequence[Tensor], functional: FunctionalGraph) -> Pattern | None:
    """The pattern of a call. None if it has to run eagerly: two dtypes, two groups, or gradients without one base."""
    spans = {i: _span(t._data) for i, t in enumerate(tensors) if t.numel()}
    meets = {i: [j for j in spans if j != i and _meet(spans[i], spans[j])] for i in spans}
    written = [i for i in functional.writes if meets.get(i)]
    if not written:
        return None
    reaching = {i for w in written for i in (w, *meets[w])}
    if STATE.grad_enabled:  # the memory may get onto the tape, and then its views do, too
        reaching |= _read_by(functional, written)
    if any(tensors[i].requires_grad for i in reaching):
        return _of_one_base(tensors, spans, written, functional.silent)
    return _of_one_row(tensors, spans, written)


def _read_by(functional: FunctionalGraph, written: list[int]) -> set[int]:
    """The inputs that the values written on the tape are computed from."""
    graph, values = functional.graph, functional.graph.outputs[functional.num_outputs :]
    noticed = {*written} - {*functional.silent}
    waiting = [v for i, v in zip(functional.writes, values, strict=True) if i in noticed]
    seen = set(waiting)
    while waiting:
        new = set(waiting.pop().all_input_nodes) - seen
        seen |= new
        waiting += new
    return {i for i, node in enumerate(graph.placeholders) if node in seen and node.meta.get("role") != "rng"}


def _of_one_row(tensors: Sequence[Tensor], spans: dict[int, tuple], written: list[int]) -> Pattern | None:
    """Without gradients: arrays anywhere in one range of memory."""
    members = _touching(written[0], spans)
    group = [tensors[i] for i in sorted(members)]
    home = arrays.owner(group[0]._data)
    same = all(t.dtype is group[0].dtype and arrays.owner(t._data) is home for t in group)
    if not same or any(t.requires_grad for t in group) or not members.issuperset(written):
        return None
    if getattr(home, "dtype", None) != group[0]._data.dtype or not home.flags.c_contiguous:
        return None
    low, high = min(spans[i][0] for i in members), max(spans[i][1] for i in members)
    size = group[0].dtype.itemsize
    chains = tuple(
        (i, ((c.as_strided, (tensors[i].shape, tensors[i].stride(), (spans[i][0] - low) // size)),))
        for i in sorted(members)
    )
    return Pattern(chains, TensorMeta(((high - low) // size,), group[0].dtype, device=group[0].device))


def _of_one_base(
    tensors: Sequence[Tensor], spans: dict[int, tuple], written: list[int], silent: Sequence[int]
) -> Pattern | None:
    """With gradients: views of one tensor (or the tensor itself), all with its place on the tape, and none with a
    hook."""
    base = root(tensors[written[0]])
    members = [i for i, t in enumerate(tensors) if root(t) is base]
    reached = {i for i in spans if _meet(spans[i], _span(base._data))}
    if not (reached | set(written)) <= set(members):
        return None
    if _eager_refuses(base) and not set(written) <= set(silent):
        return None  # eager raises the error at the right place
    group = [up_to_date(tensors[i]) for i in members]
    if not all(_on_the_tape_of(base, t) for t in group):
        return None
    chains = tuple((i, tuple((op, tuple(rest)) for op, rest in steps_from_base(tensors[i]))) for i in members)
    shown = {i: _metas(base.meta, chain) for i, chain in chains}
    if any(shown[i][-1].with_(requires_grad=tensors[i].requires_grad) != tensors[i].meta for i in members):
        return None
    return Pattern(chains, base.meta, whole=True)


def _eager_refuses(base: Tensor) -> bool:
    """Whether a write to the tensor, or to a view of it, is an error in eager."""
    return base.is_leaf and base.requires_grad and STATE.grad_enabled


def _on_the_tape_of(base: Tensor, tensor: Tensor) -> bool:
    """Whether a gradient of the tensor flows only to its base."""
    if tensor is base:
        return True
    if tensor.requires_grad != base.requires_grad or _watched(tensor):
        return False
    # a leaf whose shape was changed in place: the gradient belongs to it, not to the base
    return not (tensor.requires_grad and tensor.is_leaf)


def _touching(first: int, spans: dict[int, tuple]) -> set[int]:
    """The inputs whose memory overlaps with the first one's, directly or through other inputs."""
    members = {first}
    while grown := {i for i in spans if i not in members and any(_meet(spans[i], spans[j]) for j in members)}:
        members |= grown
    return members


def _watched(tensor: Tensor) -> bool:
    return bool(tensor._grad_fn is not None and tensor._grad_fn.hooks)


def _metas(meta: TensorMeta, chain: Chain) -> list[TensorMeta]:
    """The metas after each step of a chain, beginning with the whole."""
    found = [meta]
    for op, rest in chain:
        found.append(op.meta(found[-1], *rest))
    return found


def _span(array: Any) -> tuple[int, int]:
    """The first and the last address of an array. No stride is negative, because no operator makes one."""
    start = arrays.address(array)
    reach = sum(s * (n - 1) for s, n in zip(array.strides, array.shape, strict=True))
    return start, start + reach + array.itemsize


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def on_their_memory(graph: Graph, pattern: Pattern) -> Graph:
    """The graph with one input for the memory, which comes last, in place of the inputs that share it."""
    graph = graph.copy()
    inputs = graph.placeholders
    memory = graph.placeholder("memory", pattern.meta)
    body = next(n for n in graph.nodes if n.op != "placeholder")
    for i, chain in pattern.chains:
        seen = memory
        with graph.inserting_before(body):
            for (op, rest), meta in zip(chain, _metas(pattern.meta, chain)[1:], strict=True):
                seen = graph.call_function(op, (seen, *rest), val=meta, name=inputs[i].name)
        graph.replace_all_uses_with(inputs[i], seen)
        graph.erase_node(inputs[i])
    return graph


def run_on_their_memory(
    pattern: Pattern, graph: Graph, apart: FunctionalGraph, run: Callable[..., tuple]
) -> Callable[..., tuple]:
    """A callable on the user's tensors, from a callable on the graph that `on_their_memory` made from `graph`.

    apart: the functional graph for inputs that share no memory. It has the number of writes to each input, and which
    input a result is a view of. A result that is an input, or a view of one, is that tensor or a view of it.
    """
    members = set(pattern.members)
    themselves = [
        (k, which)
        for k, (kind, which, *steps) in enumerate(apart.results or ())
        if kind == "input" and which in members and not steps
    ]
    if not pattern.whole:
        return _run_on_a_row(pattern, apart, run)

    def call(*tensors: Tensor) -> tuple:
        base = root(tensors[pattern.members[0]])
        results = list(run(*(t for i, t in enumerate(tensors) if i not in members), base))
        for k, i in themselves:
            results[k] = tensors[i]
        return tuple(results)

    return call


def _run_on_a_row(
    pattern: Pattern, apart: FunctionalGraph, run: Callable[..., tuple]
) -> Callable[..., tuple]:
    members = set(pattern.members)
    # not by their positions in the memory, which may be the same for two of them
    known = [
        (which, steps) if kind == "input" and which in members else None
        for kind, which, *steps in apart.results or (("output", i) for i in range(apart.num_outputs))
    ]
    counts = apart.versions[apart.num_outputs :] or (1,) * len(apart.writes)
    writes = {i: seen for i, seen in zip(apart.writes, counts, strict=True) if i in members}
    lowest = next(i for i, chain in pattern.chains if chain[0][1][2] == 0)

    def call(*tensors: Tensor) -> tuple:
        memory = Tensor(_stretch(tensors[lowest]._data, pattern.meta.shape[0]))
        results = run(*(t for i, t in enumerate(tensors) if i not in members), memory)
        # views of one tensor share a version counter; other tensors on the same memory have their own
        for i, seen in writes.items():
            version_of(tensors[i])[0] += seen
        made = []
        for result, view in zip(results, known, strict=True):
            if view is not None:
                result = tensors[view[0]]
                for op, rest in view[1]:
                    result = op(result, *rest)
            made.append(result)
        return tuple(made)

    return call


def _stretch(array: Any, length: int) -> Any:
    """The memory from the start of `array`, as a 1-d array of `length` elements."""
    home = arrays.owner(array)
    start = (arrays.address(array) - arrays.address(home)) // array.itemsize
    return home.reshape(-1)[start : start + length]
