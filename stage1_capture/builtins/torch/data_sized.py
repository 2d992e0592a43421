"""Operators whose result the data sizes: nonzero, boolean indexing, unique, repeat_interleave, bincount.

Input: abstract arguments of such an operator, with capture_dynamic_output_shape_ops. A call of `unbacked` makes the
symbol; what it is part of (masked_select, x[mask]) is followed as eager's code does it.
"""

from __future__ import annotations

from typing import Any

from stage0_eager import TABLE
from stage0_eager.functions import unbacked as ops
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import is_traced
from stage1_capture.state.machine import Args, Kwargs, Tx, builtin
from stage1_capture.variables.base import SEQUENCES, Variable, realize
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.function import function_variable
from stage1_capture.variables.operators import DATA_SIZED, call_operator
from stage1_capture.variables.sequence import TupleVariable
from stage1_capture.variables.unbacked import maker, new_symbol
from stage_contracts import config
from stage_contracts import dtype as dt


def _followed(tx: Tx, op: Operator, given: dict[str, Any]) -> Variable:
    body: Any = op.body
    return tx.inline(function_variable(tx.output, body, None), [], given)


def _unique(tx: Tx, op: Operator, given: dict[str, Any]) -> Variable | None:
    if not given["dim"].is_none():
        return _followed(tx, op, given)
    plain = call_operator(tx, TABLE["cutaway.detach"], [given["input"]], {})
    found: Any = maker(tx, ops.unique, [plain], new_symbol(tx, 0))
    wanted = [True, *(given[name].truth(tx) for name in ("return_inverse", "return_counts"))]
    kept = [value for value, keep in zip(found.items, wanted, strict=True) if keep]
    return kept[0] if len(kept) == 1 else TupleVariable(kept)


def _bincount(tx: Tx, op: Operator, given: dict[str, Any]) -> Variable | None:
    counted = given["input"].meta
    if counted.ndim != 1 or counted.dtype.is_floating_point or counted.dtype is dt.bool_:
        return None
    words = [given["input"], given["weights"], given["minlength"]]
    if words[1].is_tensor():
        words[1] = call_operator(tx, TABLE["cutaway.detach"], [words[1]], {})
    return maker(tx, ops.bincount, words, new_symbol(tx, 0))


def _repeat_interleave(tx: Tx, op: Operator, given: dict[str, Any]) -> Variable | None:
    """The place of each element of the result, and those elements."""
    if not given["repeats"].is_tensor() or given["repeats"].meta.ndim != 1:
        return None
    source, dim = given["input"], given["dim"]
    if dim.is_none():
        source = call_operator(tx, TABLE["cutaway.flatten"], [source], {})
        dim = ConstantVariable(0)
    if given["repeats"].meta.shape[0] != source.meta.shape[tx.constant(dim, "dim")]:
        return None
    places = maker(tx, ops.repeated, [given["repeats"]], new_symbol(tx, 0))
    return call_operator(tx, TABLE["cutaway.index_select"], [source, dim, places], {})


def _is_mask(value: Variable) -> bool:
    value = realize(value)
    if value.family() in SEQUENCES:
        return any(map(_is_mask, value.items))
    return value.is_tensor() and value.meta.dtype in (dt.bool_, dt.uint8)


def _setitem(tx: Tx, op: Operator, given: dict[str, Any]) -> Variable | None:
    """`x[mask] = values`: at the places where the mask holds. One number for all needs no places."""
    index, value = given["index"], given["value"]
    if not (value.is_tensor() and value.meta.shape and _is_mask(index)):
        return None
    items: list[Variable] = []
    for item in map(realize, index.items if index.family() is tuple else [index]):
        if not item.is_tensor() or not _is_mask(item):
            items.append(item)
            continue
        words = {"as_tuple": ConstantVariable(True)}
        items += call_operator(tx, TABLE["cutaway.nonzero"], [item], words).items  # type: ignore[arg-type]
    return call_operator(tx, op, [given["input"], TupleVariable(items), value], {})


# As while a graph is traced: nothing looks at the data.
builtin(is_traced)(lambda tx, tensor: ConstantVariable(tensor.is_tensor()))

_RULES: dict[str, Any] = {
    # a row for each place
    "core.nonzero": lambda tx, op, given: maker(tx, ops.nonzero, [given["input"]], new_symbol(tx, 0)),
    **dict.fromkeys(
        ("cutaway.nonzero", "cutaway.argwhere", "cutaway.masked_select", "cutaway.unique_consecutive"),
        _followed,
    ),
    "cutaway.getitem": lambda tx, op, given: (
        _followed(tx, op, given) if _is_mask(given[op.params[1]]) else None
    ),
    "cutaway.setitem": _setitem,
    "cutaway.where": lambda tx, op, given: (
        _followed(tx, op, given) if given["input"].is_none() and given["other"].is_none() else None
    ),
    "cutaway.unique": _unique,
    "cutaway.bincount": _bincount,
    "cutaway.repeat_interleave": _repeat_interleave,
}


def _recorded(tx: Tx, op: Operator, args: Args, kwargs: Kwargs) -> Variable | None:
    rule = _RULES.get(op.qualname)
    if rule is None or not config.current().capture.capture_dynamic_output_shape_ops:
        return None
    bound = zip(op.params, op.bind(*args, **kwargs), strict=True)  # a default is the value itself
    given = {n: realize(v) if isinstance(v, Variable) else ConstantVariable(v) for n, v in bound}
    return rule(tx, op, given)


DATA_SIZED.update({name.rpartition(".")[2]: _recorded for name in _RULES})
