"""vmap: runs a function written for one example on a batch of examples at once.

Input: functions of tensors. Inside, an argument is a tensor whose data is a BatchedArray: a tensor with one more
dimension, which the function does not see. Batcher is the interpreter that carries that dimension along, call by call,
with the rules of vmap_rules.py. The interpreter around it (none, a tracer, another Batcher) does the work, so vmap,
grad and tracing nest in any order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from stage0_eager.state import STATE, interpreting, transforming
from stage0_eager.table.core import core as c
from stage0_eager.table.evaluation import remember_view
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import map_tensors
from stage0_eager.transforms.vmap_rules import RULES, Call, dim_first, loop
from stage_contracts.tensor_meta import TensorMeta


class BatchedArray:
    """The data of a tensor inside vmap: the whole batch, with the batch dimension first, and the vmap that it belongs
    to."""

    __slots__ = ("level", "meta", "whole")

    def __init__(self, whole: Tensor, level: Batcher) -> None:
        self.whole, self.level = whole, level
        meta = whole.meta
        self.meta = TensorMeta(meta.shape[1:], meta.dtype, meta.strides[1:], meta.device)

    shape = property(lambda self: self.meta.shape)
    ndim = property(lambda self: len(self.meta.shape))
    size = property(lambda self: self.meta.numel)
    dtype: Any = property(lambda self: self.meta.dtype.numpy)
    itemsize = property(lambda self: self.meta.dtype.itemsize)
    strides = property(lambda self: tuple(s * self.itemsize for s in self.meta.strides))

    def refuse(self, what: str) -> NoReturn:
        """Raise for an operation that needs the numbers of one example, because there are many examples."""
        if what == "bool()":
            raise RuntimeError(
                "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
                "support that, because each example could take another branch; use where() instead of if"
            )
        raise RuntimeError(
            f"vmap: It looks like you're calling .{what} on a Tensor. We don't support vmap over calling .{what} on "
            "a Tensor, because the Tensor stands for a whole batch; call it on the result, after vmap"
        )


class Batcher:
    """The interpreter of one vmap."""

    def __init__(self, size: Any, randomness: str) -> None:
        self.outer = STATE.interpreter
        self.size, self.randomness = size, randomness
        self._origins: tuple = ()

    @property
    def origins(self) -> tuple:
        """The origins that are traced around this vmap."""
        return self._origins if self.outer is None else self.outer.origins

    @origins.setter
    def origins(self, value: tuple) -> None:
        if self.outer is None:
            self._origins = value
        else:
            self.outer.origins = value

    def keeps(self, op: Any) -> bool:
        """Keeps core operators, and composites with their own derivative, because the tape around this vmap must record
        them."""
        return op.whole

    def concerns(self, op: Any, args: tuple) -> bool:
        """Whether a call is for this vmap: it has a batched argument, or each example draws its own numbers."""
        if op.core is not None and op.core.kind == "random":
            return self.randomness != "same"
        return any(self.batched(a) or (type(a) in (list, tuple) and any(map(self.batched, a))) for a in args)

    def batched(self, value: Any) -> bool:
        return isinstance(value, Tensor) and getattr(value._data, "level", None) is self

    def process(self, op: Any, args: tuple) -> Any:
        """Run the call on the whole batch with the operator's rule or, without a rule, example by example."""
        if op.core is not None and op.core.kind == "random":
            return self._draw(op, args)
        if (
            op.core is not None and op.name != "nonzero"
        ):  # so that an error is about the shapes of one example
            op.core.meta(*map_tensors(args, lambda t: t.meta))
        with interpreting(self.outer):
            rule = loop if op.opaque else RULES.get(op.name, loop)
            out = rule(Call(op, args, self))
        if op.mutates:
            args[0]._bump_version()
            return args[0]
        out = map_tensors(out, self.wrap)
        if op.core is not None and op.core.kind == "view" and out._data.whole._base is not None:
            remember_view(out, op, args[0], args[1:])
        return out

    def _draw(self, op: Any, args: tuple) -> Tensor:
        if self.randomness == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                "'different' randomness flags on vmap or perform the randomness operation out of vmap"
            )
        rng, offset, shape = args
        with interpreting(self.outer):
            return self.wrap(op(rng, offset, (self.size, *shape)))

    def wrap(self, whole: Tensor) -> Tensor:
        return Tensor(BatchedArray(whole, self))

    def whole(self, tensor: Tensor) -> Tensor:
        """The batch of a tensor. A tensor that is not batched is expanded, as a view."""
        if self.batched(tensor):
            return tensor._data.whole
        return c.expand(tensor, (self.size, *tensor.shape))


# ---- the transform -----------------------------------------------------------------------------------------------


def vmap(
    func: Callable,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable:
    """A function that runs `func` on all examples along a dimension of its arguments at once.

    `in_dims` and `out_dims` are an int for all tensors, or have the same nesting as the arguments and results, with
    None for a value that is not mapped over. `randomness`: "error" refuses random operators, "different" draws for each
    example, "same" draws once for all. `chunk_size`: the number of examples to run at a time, which limits the memory.
    Raises ValueError for dims that do not fit, and RuntimeError for an operation that needs the numbers of one example
    (x.item(), `if x`).
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    name = f"vmap({getattr(func, '__name__', repr(func))}, in_dims={in_dims}, ...)(<inputs>)"

    @functools.wraps(func)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_dims, (tuple, list)) and len(in_dims) != len(args):
            raise ValueError(
                f"{name}: in_dims is not compatible with the structure of inputs: it has {len(in_dims)} entries, "
                f"there are {len(args)} inputs"
            )
        pairs = _pairs(tuple(in_dims) if isinstance(in_dims, list) else in_dims, args, name)
        size = _batch_size(pairs, name)

        def run(start: int, length: Any) -> Any:
            level = Batcher(length, randomness)
            fresh = iter(
                [
                    value if dim is None else level.wrap(_part(dim_first(value, dim), start, length, size))
                    for value, dim in pairs
                ]
            )
            inside = _rebuilt(args, lambda _: next(fresh))
            with transforming("vmap"), interpreting(level):
                out = func(*inside, **kwargs)
            return _results(level, out, out_dims, func)

        if chunk_size is None or not isinstance(size, int) or size <= chunk_size:
            return run(0, size)
        chunks = [run(at, min(chunk_size, size - at)) for at in range(0, size, chunk_size)]
        return _joined(chunks, out_dims)

    options = {"in_dims": in_dims, "out_dims": out_dims, "randomness": randomness, "chunk_size": chunk_size}
    return known_as(transformed, vmap, func, options)


def known_as(transformed: Any, transform: Callable, func: Callable, options: dict[str, Any]) -> Callable:
    """`transformed`, with a mark for capture that says what it was made from. A wrapper that copies the mark does not
    count."""
    transformed.__transform__ = (transformed, transform, func, options)
    return transformed


def is_transformed(function: Any) -> bool:
    """Whether a transform made this function."""
    return getattr(function, "__transform__", (None,))[0] is function


def _pairs(dims: Any, tree: Any, name: str) -> list[tuple[Any, int | None]]:
    """(leaf, its dimension) for every leaf of `tree`, in order. `dims` is an int, None, or nested like the tree."""
    if isinstance(tree, (tuple, list, dict)):
        inner = list(tree.values()) if isinstance(tree, dict) else list(tree)
        if isinstance(dims, (tuple, list, dict)):
            if len(dims) != len(inner) or isinstance(dims, dict) != isinstance(tree, dict):
                raise ValueError(
                    f"{name}: in_dims is not compatible with the structure of inputs: {dims} for {len(inner)} values"
                )
            each = [dims[key] for key in tree] if isinstance(tree, dict) else list(dims)
        else:
            each = [dims] * len(inner)
        return [pair for value, dim in zip(inner, each, strict=True) for pair in _pairs(dim, value, name)]
    if dims is None:
        return [(tree, None)]
    if not isinstance(dims, int):
        raise ValueError(f"{name}: in_dims must be an int, None or a (nested) tuple of them, got {dims!r}")
    if not isinstance(tree, Tensor):
        raise ValueError(
            f"{name}: Got in_dim={dims} for an input but the input is of type {type(tree)}. We cannot vmap over "
            "non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -tree.ndim <= dims < tree.ndim:
        raise ValueError(
            f"{name}: Got in_dim={dims} for some input, but that input is a Tensor of dimensionality {tree.ndim} so "
            f"expected in_dim to satisfy -{tree.ndim} <= in_dim < {tree.ndim}."
        )
    return [(tree, dims % tree.ndim)]


def _rebuilt(tree: Any, function: Callable[[Any], Any]) -> Any:
    """`tree` with every leaf replaced, in the order of _pairs."""
    if isinstance(tree, dict):
        return {key: _rebuilt(value, function) for key, value in tree.items()}
    if isinstance(tree, (tuple, list)):
        items = [_rebuilt(value, function) for value in tree]
        return tree._make(items) if hasattr(tree, "_make") else type(tree)(items)
    return function(tree)


def _batch_size(pairs: Sequence[tuple], name: str) -> Any:
    sizes = list(dict.fromkeys(value.shape[dim] for value, dim in pairs if dim is not None))
    if not sizes:
        raise ValueError(
            f"{name}: at least one input has to be mapped over: in_dims is None for all, or there are no inputs"
        )
    if len(sizes) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
            "mapped dimension"
        )
    return sizes[0]


def _part(whole: Tensor, start: int, length: Any, size: Any) -> Tensor:
    return whole if length is size else c.slice(whole, 0, start, start + length, 1)


def _results(level: Batcher, out: Any, out_dims: Any, func: Callable) -> Any:
    """The results of `func`, with the batch dimension at out_dims."""
    name = f"vmap({getattr(func, '__name__', repr(func))}, ...)"

    def leave(value: Any, dim: int | None) -> Any:
        if dim is None:
            if level.batched(value):
                raise ValueError(f"{name}: `func` can not return a BatchedTensor when out_dim is None")
            return value
        if not isinstance(value, Tensor):
            raise ValueError(
                f"{name}: `func` must only return Tensors, got type {type(value)}. Did you mean to set out_dims= to "
                "None for output?"
            )
        whole = level.whole(value)
        if not -whole.ndim <= dim < whole.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-whole.ndim}, {whole.ndim - 1}], but got {dim})"
            )
        order = list(range(1, whole.ndim))
        order.insert(dim % whole.ndim, 0)
        return whole if dim % whole.ndim == 0 else c.permute(whole, tuple(order))

    dims = iter(_spread(out_dims, out, name))
    return _rebuilt(out, lambda value: leave(value, next(dims)))


def _spread(dims: Any, tree: Any, name: str) -> list:
    """out_dims for every leaf of the results."""
    if isinstance(tree, (tuple, list, dict)):
        inner = list(tree.values()) if isinstance(tree, dict) else list(tree)
        if isinstance(dims, (tuple, list)):
            if len(dims) != len(inner):
                raise ValueError(
                    f"{name}: out_dims is not compatible with the structure of outputs: {dims} for {len(inner)} results"
                )
            return [d for one, value in zip(dims, inner, strict=True) for d in _spread(one, value, name)]
        return [d for value in inner for d in _spread(dims, value, name)]
    if isinstance(dims, (tuple, list)):
        if len(dims) != 1:
            raise ValueError(
                f"{name}: out_dims is not compatible with the structure of outputs: {dims} for one"
            )
        return [dims[0]]
    return [dims]


def _joined(chunks: list, out_dims: Any) -> Any:
    """The results of all chunks, concatenated."""
    flat: list[list] = []
    for chunk in chunks:
        leaves: list = []
        _rebuilt(chunk, leaves.append)
        flat.append(leaves)
    dims = iter(_spread(out_dims, chunks[0], "vmap"))
    columns = iter(zip(*flat, strict=True))

    def join(_: Any) -> Any:
        parts, dim = next(columns), next(dims)
        return parts[0] if dim is None else c.cat(list(parts), dim % parts[0].ndim)

    return _rebuilt(chunks[0], join)


def unit_tensors(like: Tensor) -> Tensor:
    """(n, *shape): the n unit tensors of a shape, as a batch."""
    rows = np.eye(like.numel(), dtype=like.dtype.numpy).reshape(like.numel(), *like.shape)
    return c.to_device(Tensor(rows), like.device)
