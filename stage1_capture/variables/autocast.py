"""What autocast and inference mode do to a call of an operator: operands are cast, results are marked.

Input: the calls that variables/operators.py records, under the modes that the program switched. Autocast's casts
become nodes of the graph, so that nothing is left to switch while the graph runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage0_eager.amp import autocast, autocast_lists
from stage0_eager.table.operator import Operator
from stage0_eager.table.registry import TABLE
from stage0_eager.tensor import UNTRACKED
from stage1_capture.state.machine import Args, Kwargs, Tx
from stage1_capture.variables.base import SEQUENCES, Variable, realize
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.tensor import TensorVariable

Record = Callable[[Tx, Operator, Args, Kwargs], Variable]


def with_casts(tx: Tx, op: Operator, args: Args, kwargs: Kwargs, record: Record) -> tuple[Args, Kwargs]:
    """The operands of a call as autocast makes them; `record` puts a cast into the graph."""
    tensors = _tensors_in([*args, *kwargs.values()])
    device = tensors[0].meta.device.type if tensors else ""
    lower = next((dtype for kind, dtype in tx.output.modes["autocast"] if kind == device), None)
    if lower is None or op.mutates or op.core is not None:
        return args, kwargs
    try:
        bound = dict(zip(op.params, op.bind(*args, **kwargs), strict=True))
    except TypeError:  # the call's own mistake: the operator says so
        return args, kwargs

    def known(value: Any) -> Any:
        looked_at = isinstance(value, Variable)
        return tx.constant(value, "an argument that autocast looks at") if looked_at else value

    policy = autocast.policy_of(op, device, _Shown(bound), known)
    if policy == autocast_lists.REFUSE:
        tx.throw(RuntimeError, autocast_lists.REFUSALS[op.name])
    dtypes = [t.meta.dtype for t in tensors if t.meta.device.type == device]
    dtype = autocast.wanted_dtype(policy, lower, dtypes)
    if dtype is None:
        return args, kwargs

    def cast(value: Variable) -> Variable:
        value = realize(value)
        if not value.is_tensor():
            return value.mapped(cast) if value.family() in SEQUENCES and value.tensors() else value
        if value.meta.dtype is dtype or not autocast.eligible(value.meta.dtype):
            return value
        if value.meta.device.type != device:
            return value
        return _cast(tx, value, dtype, policy == autocast_lists.LOWER, record)  # type: ignore[arg-type]

    return list(map(cast, args)), {name: cast(v) for name, v in kwargs.items()}


class _Shown(dict):
    """Bound arguments as a list's conditions look at them: a tensor by its meta."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        known = realize(value) if isinstance(value, Variable) else None
        return value if known is None or not known.is_tensor() else known.meta


def _cast(tx: Tx, tensor: TensorVariable, dtype: Any, cached: bool, record: Record) -> Variable:
    """A weight is cast once in a region, as in eager mode: that decides how its gradient is added up."""
    output = tx.output
    weight = cached and output.modes["autocast_cache"] and tensor.real is not None and _is_weight(tensor)
    key = tensor, dtype, output.grad_enabled, output.graph
    written = tensor in output.mutated
    if not weight or written or key not in output.casts:
        made = record(tx, TABLE["cutaway.cast"], [tensor, ConstantVariable(dtype)], {})
        if not weight or written:
            return made
        output.casts[key] = made  # type: ignore[assignment]
    return output.casts[key]


def _is_weight(tensor: TensorVariable) -> bool:
    real = tensor.real
    return real.requires_grad and real.is_leaf and real._base is None and real.dtype.name == "float32"


def _tensors_in(values: list[Variable]) -> list[TensorVariable]:
    return [t for value in values for t in realize(value).tensors()]


def check_inference(tx: Tx, op: Operator, args: Args, kwargs: Kwargs) -> None:
    """Outside of inference mode its tensors can neither be written to nor saved for backward: eager refuses."""
    if tx.output.modes["inference"]:
        return
    tensors = _tensors_in([*args, *kwargs.values()])
    some = tx.output.inference or tx.output.options.modes["inference"]  # most frames know no inference mode
    if any(
        (some and tx.output.in_inference(t)) or (t.real is not None and t.real._version is UNTRACKED)
        for t in tensors
    ) and (op.mutates or tx.output.grad_enabled and any(t.meta.requires_grad for t in tensors)):
        tx.unsupported("GB0070", f"{op.name} of a tensor made in inference mode, outside of it")


def mark_inference(tx: Tx, result: Variable, args: Args, kwargs: Kwargs) -> None:
    """Results of calls inside an inference mode that began in this frame; residual code marks those that leave."""
    if tx.output.modes["inference"] and not tx.output.options.modes["inference"]:
        given = {id(t) for t in _tensors_in([*args, *kwargs.values()])}
        tx.output.inference.update(t for t in _tensors_in([result]) if id(t) not in given)
