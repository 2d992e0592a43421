"""Fractional max pooling: windows whose places are drawn, so that the sizes shrink by any ratio.

Input: (N, C, *sizes) or (C, *sizes), the sizes of the result or their ratio to the input's, and draws in [0, 1) for
each (n, c) and dimension. Graham, "Fractional max-pooling" (2014).
"""

from __future__ import annotations

from typing import Any

from stage0_eager.functions import creation
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt


def _starts(size: int, out: int, window: int, draw: Tensor) -> Tensor:
    """Where each of `out` windows begins, (N, C, out): the rounded steps of a ratio, shifted by the draw."""
    last = size - window
    if out == 1:
        return creation.full((*draw.shape, 1), last, dtype=dt.int64, device=draw.device)
    ratio = last / (out - 1)
    i = creation.arange(out, dtype=draw.dtype, device=draw.device)
    draw = draw.unsqueeze(-1)
    begin = ((i + draw) * ratio).to(dt.int64) - (draw * ratio).to(dt.int64)
    return (begin * (i < out - 1) + last * i.eq(out - 1)).to(dt.int64)


def _each(value: Any, rank: int) -> tuple:
    return (value,) * rank if isinstance(value, (int, float)) else tuple(value)


def _pooled(
    rank: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Any
) -> tuple:
    name = f"fractional_max_pool{rank}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if input.ndim == rank + 1:
        return tuple(
            part[0] for part in _pooled(rank, input[None], kernel_size, output_size, output_ratio, samples)
        )
    window, sizes = _each(kernel_size, rank), input.shape[2:]
    if output_size is None:
        ratios = _each(output_ratio, rank)
        if not all(0 < ratio < 1 for ratio in ratios):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")
        output_size = tuple(int(size * ratio) for size, ratio in zip(sizes, ratios, strict=True))
    out = _each(output_size, rank)
    if samples is None:
        samples = creation.rand(*input.shape[:2], rank, dtype=input.dtype, device=input.device)
    flat: Any = 0  # the place of each element of each window in the flattened sizes: (N, C, *out, *window)
    for d in range(rank):
        if out[d] + window[d] - 1 > sizes[d] - (rank == 3):  # torch has it so
            raise RuntimeError(
                f"{name}: pool size {window[d]} and output size {out[d]} are too large for {sizes[d]}"
            )
        # torch takes the draws of a picture's width first
        begin = _starts(sizes[d], out[d], window[d], samples[..., 1 - d if rank == 2 else d])
        place = begin.unsqueeze(-1) + creation.arange(window[d], device=input.device)
        shape = [1] * (2 * rank)
        shape[d], shape[rank + d] = out[d], window[d]
        flat = flat * sizes[d] + place.reshape(*input.shape[:2], *shape)
    count = 1
    for size in window:
        count *= size
    flat = flat.reshape(*input.shape[:2], -1, count)
    elements = input.reshape(*input.shape[:2], 1, -1).expand(*flat.shape[:3], -1)
    values, which = elements.gather(-1, flat).max(-1)
    places = flat.gather(-1, which.unsqueeze(-1))
    made = (*input.shape[:2], *out)
    return values.reshape(made), places.reshape(made)


def _public(rank: int) -> tuple[Any, Any]:
    def with_indices(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> tuple:  # fmt: skip
        return _pooled(rank, input, kernel_size, output_size, output_ratio, _random_samples)

    def pool(
        input: Tensor, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ) -> Any:  # fmt: skip
        both = _pooled(rank, input, kernel_size, output_size, output_ratio, _random_samples)
        return both if return_indices else both[0]

    pool.__name__, with_indices.__name__ = (
        f"fractional_max_pool{rank}d",
        f"fractional_max_pool{rank}d_with_indices",
    )
    pool.__doc__ = "The largest of each window; return_indices gives its place among the flattened sizes too."
    with_indices.__doc__ = f"{pool.__name__}(return_indices=True)."
    return pool, with_indices


fractional_max_pool2d, fractional_max_pool2d_with_indices = _public(2)
fractional_max_pool3d, fractional_max_pool3d_with_indices = _public(3)
