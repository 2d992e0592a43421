"""The function transforms inside captured functions: grad, vjp, jvp, Jacobians and vmap as one node each.

Input: an abstract function among the arguments. It is followed once, into a graph of its own; tensors it takes from
around it become further operands. The call is then one node, whose body transforms what runs the subgraph.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from stage0_eager.tensor import Tensor
from stage0_eager.transforms import func
from stage0_eager.transforms import vmap as batching
from stage0_eager.transforms.func import tensors_in
from stage0_eager.transforms.trace import TracedArray, map_tensors
from stage1_capture.higher_order.nonstrict import record_body
from stage1_capture.higher_order.subgraph import Slot, Subgraph, filled, follow, variable_of
from stage1_capture.state.machine import CALLED, Args, Kwargs, Tx, builtin
from stage1_capture.variables.base import Variable, realize
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.function import PartialVariable, TransformVariable
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.sequence import ListVariable, TupleVariable
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts.tensor_meta import TensorMeta

FALSE = ConstantVariable(False)


# ---- trees of values, and of Python objects -----------------------------------------------------------------------


def _template(tx: Tx, value: Variable, name: str, tensors: list[TensorVariable]) -> Any:
    """The Python tree that `value` is, with slots for the tensors, which are put into `tensors`."""
    match realize(value):
        case TensorVariable() as tensor:
            tensors.append(tensor)
            return Slot(len(tensors) - 1)
        case TupleVariable(items=items, kind=kind):
            made = [_template(tx, v, name, tensors) for v in items]
            return tuple(made) if kind is tuple else kind._make(made)  # type: ignore[attr-defined]
        case ListVariable(items=items):
            return [_template(tx, v, name, tensors) for v in items]
        case ConstDictVariable(items=entries):
            return {k: _template(tx, v, name, tensors) for k, v in entries.items()}
        case other:
            return tx.constant(other, name)


def _followed(
    tx: Tx, function: Variable, args: Args, kwargs: Kwargs, metas: list, name: str
) -> tuple[Subgraph, Any]:
    """The function as a graph of the tensors in its arguments, and the tree that it returns."""
    tree = _template(tx, TupleVariable([TupleVariable(args), ConstDictVariable(kwargs)]), name, [])
    named: dict[str, Variable] = {}

    def arguments(tensors: list[Variable]) -> list[Variable]:
        words, options = filled(tree, tensors)
        named.update({key: variable_of(v) for key, v in options.items()})
        return [variable_of(v) for v in words]

    called = PartialVariable(function, [], named) if kwargs else function
    inside = follow(tx, called, metas, name, arguments)
    return inside, _template(tx, inside.result, name, [])


def _node(
    tx: Tx,
    name: str,
    inside: tuple[Subgraph, Any],
    given: list[Variable],
    run: Callable[..., Any],
) -> Variable:
    """The call `run(function, *given)`, where the function runs the subgraph on the tensors it gets."""
    graph, result = inside
    tensors: list[TensorVariable] = []
    tree = tuple(_template(tx, v, name, tensors) for v in given)
    count = len(tensors)
    shape: list[Any] = []

    def body(*operands: Any) -> Any:
        def function(*args: Any, **kwargs: Any) -> Any:
            return filled(result, graph.run(*tensors_in((args, kwargs)), *operands[count:]))

        made = run(function, *filled(tree, operands[:count]))
        found = tensors_in(made)
        numbers = iter(range(len(found)))
        shape[:] = [map_tensors(made, lambda _: Slot(next(numbers)))]
        return found[0] if len(found) == 1 else tuple(found)

    made = record_body(tx, name, body, [*tensors, *graph.taken], "higher_order")
    return variable_of(filled(shape[0], [made] if made.is_tensor() else made.items))


def _metas(tx: Tx, values: list[Variable], name: str) -> list[TensorMeta]:
    """The metas of the tensors in a function's arguments, as the function sees them under the transform."""
    tensors: list[TensorVariable] = []
    for value in values:
        _template(tx, value, name, tensors)
    return [t.meta.with_(requires_grad=False, strides=t.meta.strides) for t in tensors]


# ---- transforms that give a function ------------------------------------------------------------------------------


def _transform(
    transform: Any, names: str, tx: Tx, function: Variable, *args: Variable, **kwargs: Variable
) -> Variable:
    given = dict(zip(names.split(), args)) | kwargs
    options = {name: tx.constant(v, transform.__name__) for name, v in given.items()}
    return TransformVariable(transform, function, options)


for _function, _names in (
    *((f, "argnums has_aux") for f in (func.grad, func.grad_and_value, func.jacfwd)),
    *((f, "argnums") for f in (func.jacrev, func.hessian)),
    (func.vmap, "in_dims out_dims randomness"),
):
    builtin(_function)(partial(_transform, _function, _names))


def call_transform(tx: Tx, function: TransformVariable, args: Args, kwargs: Kwargs) -> Variable:
    """The transformed function on tensors: a node whose body transforms the subgraph."""
    name = function.transform.__name__
    metas = _metas(tx, [*args, *kwargs.values()], name)
    if name == "vmap":
        metas = _of_one_example(tx, function.options.get("in_dims", 0), args, metas)
    inside = _followed(tx, function.function, args, kwargs, metas, name)

    def run(plain: Callable, args: tuple, kwargs: dict) -> Any:
        return function.transform(plain, **function.options)(*args, **kwargs)

    return _node(tx, name, inside, [TupleVariable(args), ConstDictVariable(kwargs)], run)


def _of_one_example(tx: Tx, in_dims: Any, args: list[Variable], metas: list[TensorMeta]) -> list[TensorMeta]:
    """The metas without the dimensions that are mapped over."""
    tree = _template(tx, TupleVariable(args), "vmap", [])
    try:
        given = filled(tree, [Tensor(TracedArray(m)) for m in metas])
        pairs = batching._pairs(tuple(in_dims) if isinstance(in_dims, list) else in_dims, given, "vmap")
        dims = [dim for leaf, dim in pairs if isinstance(leaf, Tensor)]
    except ValueError as error:
        tx.unsupported("GB0066", f"vmap raises ValueError: {error}")
    dims += [None] * (len(metas) - len(dims))  # keyword arguments are as they are
    return [
        m if dim is None else m.with_(shape=[s for d, s in enumerate(m.shape) if d != dim])
        for m, dim in zip(metas, dims, strict=True)
    ]


CALLED[TransformVariable] = call_transform


# ---- transforms that call the function at once --------------------------------------------------------------------


@builtin(func.jvp)
def jvp(
    tx: Tx, function: Variable, primals: Variable, tangents: Variable, *, has_aux: Variable = FALSE
) -> Variable:
    options = {"has_aux": tx.constant(has_aux, "jvp")}
    items = getattr(realize(primals), "items", None)
    if realize(primals).family() is not tuple:
        tx.unsupported("GB0066", "jvp raises RuntimeError: Expected primals and tangents to be tuples")
    inside = _followed(tx, function, items, {}, _metas(tx, items, "jvp"), "jvp")  # type: ignore[arg-type]
    return _node(tx, "jvp", inside, [primals, tangents], lambda plain, p, t: func.jvp(plain, p, t, **options))


class PullVariable(Variable):
    """What vjp returns beside the output: cotangents to gradients."""

    inside: tuple[Subgraph, Any]
    primals: TupleVariable
    has_aux: bool


@builtin(func.vjp)
def vjp(tx: Tx, function: Variable, *primals: Variable, has_aux: Variable = FALSE) -> Variable:
    aux, given = tx.constant(has_aux, "vjp"), TupleVariable(list(primals))
    inside = _followed(tx, function, list(primals), {}, _metas(tx, [given], "vjp"), "vjp")

    def run(plain: Callable, primals: tuple) -> Any:
        output, _, *more = func.vjp(plain, *primals, has_aux=aux)
        return (output, *more)

    output, *more = _node(tx, "vjp", inside, [given], run).items
    return TupleVariable([output, PullVariable(inside, given, aux), *more])


def call_pull(tx: Tx, pull: PullVariable, args: Args, kwargs: Kwargs) -> Variable:
    if len(args) != 1 or kwargs:
        tx.unsupported("GB0065", "a call of vjp's function with other than one argument")

    def run(plain: Callable, primals: tuple, cotangents: Any) -> Any:
        return func.vjp(plain, *primals, has_aux=pull.has_aux)[1](cotangents)

    return _node(tx, "vjp_pull", pull.inside, [pull.primals, args[0]], run)


CALLED[PullVariable] = call_pull
