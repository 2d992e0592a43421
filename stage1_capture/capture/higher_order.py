"""Operators that hold subgraphs: cond, while_loop, and the function transforms grad and vmap.

Input: abstract functions among the arguments. Each is followed once, into a graph of its own; tensors it takes from
around it become further operands. The call is then one node, whose body runs the subgraphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from stage0_eager import func, is_grad_enabled
from stage0_eager.control_flow import cond, while_loop
from stage0_eager.operator import Operator
from stage1_capture.capture.arithmetic import truth
from stage1_capture.capture.builtin_functions import EMPTY, builtin
from stage1_capture.capture.calls import CALLED, call_function, iterate
from stage1_capture.capture.operators import record_node
from stage1_capture.capture.symbolic_convert import InstructionTranslator
from stage1_capture.capture.variables import (
    ListVariable,
    TensorVariable,
    TupleVariable,
    Variable,
    describe,
    realize,
)
from stage_contracts.graph import Graph
from stage_contracts.graph_module import GraphModule
from stage_contracts.symbolic import same_shape
from stage_contracts.tensor_meta import TensorMeta

Tx = InstructionTranslator


@dataclass
class Subgraph:
    """A function as a graph: `run(*arguments, *taken)` gives its tensors; `result` is what it returns."""

    run: GraphModule
    taken: list[TensorVariable]  # tensors from around it, behind the arguments
    result: Variable
    metas: list[TensorMeta]


def follow(tx: Tx, function: Variable, metas: Sequence[TensorMeta], name: str) -> Subgraph:
    """Follow `function` on tensors of these metas. A side effect inside is a break."""
    output = tx.output
    before = len(output.effects.changed), len(output.effects.globals), len(output.mutated)
    with _graph_of_its_own(tx, name) as (graph, taken):
        args: list[Variable] = [TensorVariable(m, graph.placeholder(f"a{i}", m)) for i, m in enumerate(metas)]
        result = call_function(tx, function, args, {})
        leaves = list(_tensors(tx, result, name))
        graph.output([output.node_of(t) for t in leaves])
    if before != (len(output.effects.changed), len(output.effects.globals), len(output.mutated)):
        tx.unsupported("GB0006", f"a side effect inside a function given to {name}")
    return Subgraph(GraphModule(graph), list(taken), result, [t.meta for t in leaves])


@contextmanager
def _graph_of_its_own(tx: Tx, name: str) -> Iterator[tuple[Graph, dict]]:
    output = tx.output
    outer = output.graph, output.taken
    output.graph, output.taken = Graph(f"{name}_body"), {}
    try:
        yield output.graph, output.taken
    finally:
        output.graph, output.taken = outer


def _tensors(tx: Tx, value: Variable, name: str) -> Iterator[TensorVariable]:
    value = realize(value)
    if isinstance(value, TensorVariable):
        yield value
    elif isinstance(value, (TupleVariable, ListVariable)):
        for item in value.items:
            yield from _tensors(tx, item, name)
    else:
        tx.unsupported("GB0002", f"{name} of a function that returns {describe(value)}")


def _rebuilt(value: Variable, tensors: Iterator[Variable]) -> Variable:
    """What a function returned, with the results of the node in place of its tensors."""
    value = realize(value)
    if isinstance(value, TupleVariable):
        return TupleVariable([_rebuilt(v, tensors) for v in value.items], value.kind)
    if isinstance(value, ListVariable):
        return ListVariable([_rebuilt(v, tensors) for v in value.items])
    return next(tensors)


def _operator(name: str, body: Callable[..., Any], count: int) -> Operator:
    """A row of its own, outside the table, of `count` tensors."""
    words = ", ".join(f"t{i}" for i in range(count))
    names: dict[str, Any] = {"body": body}
    exec(f"def {name}({words}): return body({words})", names)
    op = Operator(name, "", body=names[name])
    op.namespace = "higher_order"
    return op


def _call(
    tx: Tx,
    name: str,
    body: Callable,
    operands: list[TensorVariable],
    shape: Variable,
    metas: Sequence[TensorMeta],
) -> Variable:
    """One node; `shape` is the value whose tensors its results replace."""
    wants_grad = is_grad_enabled() and any(t.meta.requires_grad for t in operands)
    made = tuple(
        m.with_(requires_grad=wants_grad and m.dtype.is_floating_point, strides=m.strides) for m in metas
    )
    op = _operator(name, body, len(operands))
    results = record_node(tx, op, list(operands), {}, made)
    return _rebuilt(shape, iter(results.items))  # type: ignore[attr-defined]


# ---- control flow -----------------------------------------------------------------------------------------------


@builtin(cond)
def cond_(
    tx: Tx, pred: Variable, true_fn: Variable, false_fn: Variable, operands: Variable = EMPTY
) -> Variable:
    given = [realize(o) for o in iterate(tx, operands)]
    if not isinstance(pred, TensorVariable):
        return call_function(tx, true_fn if truth(tx, pred) else false_fn, given, {})
    tensors = _all_tensors(tx, given, "cond")
    metas = [t.meta for t in tensors]
    yes, no = follow(tx, true_fn, metas, "cond"), follow(tx, false_fn, metas, "cond")
    if not _agree(yes.metas, no.metas):
        shown = " and ".join(", ".join(map(str, side.metas)) for side in (yes, no))
        tx.unsupported("GB0002", f"cond whose branches return {shown}")
    taken = list(dict.fromkeys([*yes.taken, *no.taken]))
    sides = [_selecting(side, len(tensors), taken) for side in (no, yes)]
    return _call(
        tx, "cond", lambda p, *rest: sides[bool(p)](*rest), [pred, *tensors, *taken], yes.result, yes.metas
    )


@builtin(while_loop)
def while_loop_(tx: Tx, cond_fn: Variable, body_fn: Variable, carried_inputs: Variable) -> Variable:
    tensors = _all_tensors(tx, [realize(c) for c in iterate(tx, carried_inputs)], "while_loop")
    metas = [t.meta for t in tensors]
    test, step = follow(tx, cond_fn, metas, "while_loop"), follow(tx, body_fn, metas, "while_loop")
    if not _agree(step.metas, metas) or len(test.metas) != 1:
        tx.unsupported("GB0002", "while_loop whose body changes the shapes or dtypes it carries")
    taken = list(dict.fromkeys([*test.taken, *step.taken]))
    count = len(tensors)
    goes_on, advance = _selecting(test, count, taken), _selecting(step, count, taken)

    def loop(*operands: Any) -> tuple:
        carried, around = operands[:count], operands[count:]
        while bool(goes_on(*carried, *around)[0]):
            carried = tuple(advance(*carried, *around))
        return carried

    return _call(tx, "while_loop", loop, [*tensors, *taken], TupleVariable(list(tensors)), metas)


def _all_tensors(tx: Tx, values: list[Variable], name: str) -> list[TensorVariable]:
    for value in values:
        if not isinstance(value, TensorVariable):
            tx.unsupported("GB0002", f"{name} with {describe(value)} as an operand")
    return values  # type: ignore[return-value]


def _agree(some: Sequence[TensorMeta], others: Sequence[TensorMeta]) -> bool:
    return len(some) == len(others) and all(
        a.dtype is b.dtype and a.device == b.device and same_shape(a.shape, b.shape)
        for a, b in zip(some, others, strict=True)
    )


def _selecting(side: Subgraph, count: int, taken: list[TensorVariable]) -> Callable[..., tuple]:
    """The subgraph as a function of the arguments and of all that several subgraphs take from around them."""
    places = [taken.index(t) for t in side.taken]
    return lambda *given: side.run(*given[:count], *(given[count + i] for i in places))


# ---- function transforms ----------------------------------------------------------------------------------------


@dataclass(eq=False)
class TransformVariable(Variable):
    """`func.grad(f)` or `func.vmap(f)`, not called yet."""

    transform: Callable
    function: Variable
    options: dict[str, Any] = field(default_factory=dict)


def _transform(transform: Callable, names: tuple[str, ...]) -> None:
    @builtin(transform)
    def enter(tx: Tx, function: Variable, *args: Variable, **kwargs: Variable) -> Variable:
        given = dict(zip(names, args)) | kwargs
        options = {name: tx.constant(v, transform.__name__) for name, v in given.items()}
        return TransformVariable(transform, function, options)


_transform(func.grad, ("argnums",))
_transform(func.grad_and_value, ("argnums",))
_transform(func.vmap, ("in_dims", "out_dims"))


def call_transform(
    tx: Tx, function: TransformVariable, args: list[Variable], kwargs: dict[str, Variable]
) -> Variable:
    """The transformed function on tensors: a node whose body transforms the subgraph."""
    name = function.transform.__name__
    if kwargs or not {*function.options} <= {"argnums", "in_dims", "out_dims"}:
        tx.unsupported("GB0002", f"{name} with keyword arguments")
    tensors = _all_tensors(tx, [realize(a) for a in args], name)
    metas = [_bare(t.meta) for t in tensors]
    if name == "vmap":
        if type(function.options.get("in_dims", 0)) is not int:
            tx.unsupported("GB0002", "vmap over other dimensions for each argument")
        dim = function.options.get("in_dims", 0)
        metas = [
            m.with_(shape=[s for d, s in enumerate(m.shape) if d != dim % max(m.ndim, 1)]) for m in metas
        ]
    inside = follow(tx, function.function, metas, name)
    single = isinstance(realize(inside.result), TensorVariable)
    count = len(tensors)

    def body(*operands: Any) -> Any:
        def plain(*given: Any) -> Any:
            made = inside.run(*given, *operands[count:])
            return made[0] if single else tuple(made)

        return function.transform(plain, **function.options)(*operands[:count])

    operands = [*tensors, *inside.taken]
    op = _operator(name, body, len(operands))
    try:
        metas_out = op.meta(*(t.meta for t in operands))
    except Exception as error:  # eager raises it
        tx.unsupported("GB0002", f"{name} raises {type(error).__name__}: {error}")
    return record_node(tx, op, list(operands), {}, metas_out)


def _bare(meta: TensorMeta) -> TensorMeta:
    return meta.with_(requires_grad=False, strides=meta.strides)


CALLED[TransformVariable] = call_transform
