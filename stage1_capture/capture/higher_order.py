"""The function transforms grad and vmap inside captured functions: one node, whose body transforms a subgraph.

Input: an abstract function among the arguments. It is followed once, into a graph of its own; tensors it takes from
around it become further operands. The call is then one node, whose body runs the subgraph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stage0_eager import func
from stage1_capture.capture.builtin_functions import builtin
from stage1_capture.capture.calls import CALLED
from stage1_capture.capture.nonstrict import operator_of_tensors
from stage1_capture.capture.operators import record_node
from stage1_capture.capture.subgraphs import all_tensors, follow
from stage1_capture.capture.symbolic_convert import InstructionTranslator
from stage1_capture.capture.variables import TensorVariable, Variable, realize
from stage_contracts.tensor_meta import TensorMeta

Tx = InstructionTranslator


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
    tensors = all_tensors(tx, [realize(a) for a in args], name)
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
    op = operator_of_tensors(name, body, len(operands))
    op.namespace = "higher_order"
    try:
        metas_out = op.meta(*(t.meta for t in operands))
    except Exception as error:  # eager raises it
        tx.unsupported("GB0002", f"{name} raises {type(error).__name__}: {error}")
    return record_node(tx, op, list(operands), {}, metas_out)


def _bare(meta: TensorMeta) -> TensorMeta:
    return meta.with_(requires_grad=False, strides=meta.strides)


CALLED[TransformVariable] = call_transform
