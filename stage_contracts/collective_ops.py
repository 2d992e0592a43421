"""The core operators that talk to other processes: what each gives, and its meta rule.

Input: none; core_ops.py makes rows of these. The last argument names the group; `size` is its number of ranks. Every
rank runs the same ones in the order of the graph, so no pass may remove, merge or reorder them (`has_effect`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage_contracts.core_metas import clone
from stage_contracts.dtype import DType
from stage_contracts.tensor_meta import TensorMeta

REDUCTIONS = ("sum", "avg", "product", "min", "max", "band", "bor", "bxor")


def _reducible(reduction: str, dtype: DType) -> None:
    if reduction not in REDUCTIONS:
        raise ValueError(f"the reduction is {reduction!r}; expected one of {', '.join(REDUCTIONS)}")
    if reduction == "avg" and not dtype.is_differentiable:
        raise TypeError(f"ReduceOp.AVG divides, which {dtype} cannot; use ReduceOp.SUM and divide yourself")
    if reduction.startswith("b") and dtype.is_differentiable:
        raise TypeError(f"ReduceOp.{reduction.upper()} works on the bits of integers, not on {dtype}")


def of_gradient(gradient: str) -> tuple[str, str]:
    """all_gather's word for its gradient as (reduction, dtype): "avg" is ("avg", ""), "avg in float32" has a dtype."""
    reduction, _, dtype = gradient.partition(" in ")
    return reduction, dtype


def _same(meta: TensorMeta) -> TensorMeta:
    return TensorMeta(meta.shape, meta.dtype, device=meta.device)


def reduced(input: TensorMeta, reduction: str, group: str) -> TensorMeta:
    _reducible(reduction, input.dtype)
    return _same(input)


def reduced_at(input: TensorMeta, reduction: str, dst: int, group: str) -> TensorMeta:
    _reducible(reduction, input.dtype)
    return _same(input)


def averaged(input: TensorMeta, limit: int, group: str) -> TensorMeta:
    _reducible("avg", input.dtype)
    return _same(input)


def sent(input: TensorMeta, src: int, group: str) -> TensorMeta:
    return _same(input)


def copied(input: TensorMeta, limit: int, group: str) -> TensorMeta:
    return clone(input)


def _rows(input: TensorMeta, name: str, size: int) -> Any:
    if not input.ndim:
        raise ValueError(
            f"{name} joins and cuts dimension 0, but the tensor has no dimensions; reshape it first"
        )
    return input.shape[0]


def gathered(input: TensorMeta, size: int, gradient: str, group: str) -> TensorMeta:
    reduction, _ = of_gradient(gradient)
    _reducible(reduction, input.dtype) if reduction != "sum" else None
    rows = _rows(input, "all_gather", size)
    return TensorMeta((rows * size, *input.shape[1:]), input.dtype, device=input.device)


def scattered(input: TensorMeta, reduction: str, size: int, group: str) -> TensorMeta:
    _reducible(reduction, input.dtype)
    rows = _rows(input, "reduce_scatter", size)
    return TensorMeta((_share(rows, size), *input.shape[1:]), input.dtype, device=input.device)


def exchanged(input: TensorMeta, size: int, group: str) -> TensorMeta:
    _share(_rows(input, "all_to_all", size), size)
    return _same(input)


def split(input: TensorMeta, received: tuple[int, ...], sent: tuple[int, ...], group: str) -> TensorMeta:
    rows = _rows(input, "all_to_all_splits", len(sent))
    if sum(sent) != rows or len(received) != len(sent) or min(*received, *sent) < 0:
        raise ValueError(
            f"dimension 0 has {rows} rows, but {[*sent]} are to be sent and {[*received]} received; give each rank its "
            "rows in both lists, and the rows of the tensor in all"
        )
    return TensorMeta((sum(received), *input.shape[1:]), input.dtype, device=input.device)


def _share(rows: Any, size: int) -> Any:
    if rows % size != 0:
        raise ValueError(
            f"dimension 0 has {rows} rows, which {size} ranks cannot share equally; pad it first"
        )
    return rows // size


# (parameters, meta rule, one `name: meaning` per line)
COLLECTIVE: list[tuple[str, Callable, str]] = [
    ("input, reduction, group", reduced, "all_reduce: on every rank, the reduction of all ranks' inputs"),
    ("input, reduction, dst, group", reduced_at, "reduce: the same on rank dst of the group; zeros on the others"),
    ("input, limit, group", averaged, "average: the mean of all ranks' inputs, which may travel with other means"),
    ("input, src, group", sent, "broadcast: on every rank, the input of rank src of the group"),
    ("input, size, gradient, group", gathered,
     "all_gather: the inputs of all ranks one after another along dimension 0; gradient is the reduction of its own, "
     "'avg' say, or 'avg in float32'"),
    ("input, reduction, size, group", scattered,
     "reduce_scatter: rank i gets the i-th part along dimension 0 of the reduction of all inputs"),
    ("input, size, group", exchanged,
     "all_to_all: the i-th part along dimension 0 goes to rank i; what comes, in the order of the ranks"),
    ("input, received, sent, group", split,
     "all_to_all_splits: the same with sent[i] rows for rank i, and received[i] from it"),
]  # fmt: skip
