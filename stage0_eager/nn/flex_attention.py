"""flex_attention: attention whose scores a function of the program's changes and another one masks.

Input: query, key and value; `score_mod(score, b, h, q_idx, kv_idx)`; a BlockMask made from `mask_mod(b, h, q_idx,
kv_idx)`. Both are called once, with whole tensors of indices that broadcast against the scores (B, H, L, S), so they
must be made of operations on single elements, which compiled code puts into one kernel. (Dong et al., Flex Attention,
2024.)
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from stage0_eager.functions import comparison, creation, gather_scatter, reductions, sorting
from stage0_eager.functions.linalg import products
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt

_DEFAULT_SPARSE_BLOCK_SIZE = 128
Pair = tuple[int, int]


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Tensor:
    """The mask that keeps everything."""
    return (token_q >= 0) & (token_kv >= 0)


def and_masks(*mask_mods: Callable) -> Callable:
    """The mask that keeps what every one of these keeps."""
    return _joined(mask_mods, lambda a, b: a & b)


def or_masks(*mask_mods: Callable) -> Callable:
    """The mask that keeps what one of these keeps."""
    return _joined(mask_mods, lambda a, b: a | b)


def _joined(mask_mods: tuple[Callable, ...], join: Callable[[Any, Any], Any]) -> Callable:
    if not mask_mods or not all(callable(mask_mod) for mask_mod in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def joined(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = mask_mods[0](b, h, q_idx, kv_idx)
        for mask_mod in mask_mods[1:]:
            result = join(result, mask_mod(b, h, q_idx, kv_idx))
        return result

    return joined


def _indices(sizes: tuple[Any, Any, Any, Any], device: Any) -> list[Tensor]:
    """b, h, q_idx and kv_idx, each along its own dimension of four."""
    shapes = [(-1, 1, 1, 1), (1, -1, 1, 1), (1, 1, -1, 1), (1, 1, 1, -1)]
    return [creation.arange(n, device=device).reshape(shape) for n, shape in zip(sizes, shapes, strict=True)]


def create_mask(
    mod_fn: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """(B, H, Q_LEN, KV_LEN): what a mask_mod keeps, or what a score_mod makes of scores that are 0."""
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    scored = len(inspect.signature(mod_fn).parameters) == 5
    words = (creation.zeros(sizes, device=device),) if scored else ()
    return mod_fn(*words, *_indices(sizes, device)).expand(sizes)


class BlockMask:
    """Which blocks of a score matrix are computed. kv_num_blocks (B, H, rows of blocks) says how many of each row's
    kv_indices (B, H, rows, columns) count. Blocks under full_* are kept whole; in the others mask_mod decides."""

    def __init__(
        self, seq_lengths: Pair, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None, BLOCK_SIZE: Pair, mask_mod: Callable, exact: bool = False,
    ) -> None:  # fmt: skip
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self._exact = exact  # whether mask_mod alone says all that the blocks say

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None, BLOCK_SIZE: int | Pair = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: Callable | None = None, seq_lengths: Pair | None = None, compute_q_blocks: bool = True,
    ) -> BlockMask:  # fmt: skip
        """A mask of these blocks. Raises RuntimeError for indices of fewer than two dimensions."""
        if kv_indices.ndim < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        lengths = seq_lengths or (kv_indices.shape[-2] * block[0], kv_indices.shape[-1] * block[1])
        return cls(
            lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            block,
            mask_mod or noop_mask,
        )

    @property
    def shape(self) -> tuple:
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        return math.prod(self.shape)

    def to_dense(self) -> Tensor:
        """(B, H, rows, columns) of int32: 1 for each block that is computed."""
        found = _block_flags(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None:
            found = found | _block_flags(self.full_kv_num_blocks, self.full_kv_indices)
        return found.to(dt.int32)

    def sparsity(self) -> float:
        """How many of 100 blocks are left out."""
        dense = self.to_dense()
        return 100 * (1 - float(dense.sum().item()) / dense.numel())

    def keeps(self, sizes: tuple, device: Any) -> Tensor:
        """What it keeps of scores of this shape."""
        kept = self.mask_mod(*_indices(sizes, device))
        if self._exact:
            return kept
        whole = sizes[-2:]
        partial = self._spread(_block_flags(self.kv_num_blocks, self.kv_indices), whole)
        if self.full_kv_num_blocks is None:
            return partial & kept
        return (partial & kept) | self._spread(
            _block_flags(self.full_kv_num_blocks, self.full_kv_indices), whole
        )

    def _spread(self, flags: Tensor, lengths: tuple) -> Tensor:
        for dim, (size, length) in enumerate(
            zip(self.BLOCK_SIZE, lengths, strict=True), start=flags.ndim - 2
        ):
            flags = flags.repeat_interleave(size, dim=dim).narrow(dim, 0, length)
        return flags

    def to(self, device: Any) -> BlockMask:
        """The same mask on another device."""
        twin = BlockMask.__new__(type(self))
        twin.__dict__.update({k: v.to(device) if isinstance(v, Tensor) else v for k, v in vars(self).items()})
        return twin

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some of the batch and the heads."""
        twin = BlockMask.__new__(type(self))
        twin.__dict__.update({k: v[index] if isinstance(v, Tensor) else v for k, v in vars(self).items()})
        twin._exact = False
        return twin

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def _block_flags(count: Tensor, indices: Any) -> Tensor:
    """Whether each block is among the first `count` indices of its row."""
    columns = indices.shape[-1]
    listed = creation.arange(columns, device=indices.device) < count.unsqueeze(-1)
    places = indices.to(dt.int64).unsqueeze(-1) == creation.arange(columns, device=indices.device)
    return (places & listed.unsqueeze(-1)).any(-2)


def create_block_mask(
    mask_mod: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
    BLOCK_SIZE: int | Pair = _DEFAULT_SPARSE_BLOCK_SIZE, _compile: bool = False,
) -> BlockMask:  # fmt: skip
    """The BlockMask of a mask_mod. B and H: None if the mask is the same for all of the batch or all heads."""
    rows, columns = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    down, across = -(-Q_LEN // rows), -(-KV_LEN // columns)
    padded = creation.zeros((*mask.shape[:2], down * rows, across * columns), dtype=dt.int64, device=device)
    padded[:, :, :Q_LEN, :KV_LEN] = mask.to(dt.int64)
    kept = padded.reshape(*mask.shape[:2], down, rows, across, columns).sum((3, 5))
    full = kept >= rows * columns
    partial = (kept > 0) & (kept < rows * columns)
    return BlockMask(
        (Q_LEN, KV_LEN), *_listed(partial), *_listed(full), (rows, columns), mask_mod, exact=True
    )  # fmt: skip


def _listed(flags: Tensor) -> tuple[Tensor, Tensor]:
    """For each row how many flags are set, and the columns with those first."""
    order = sorting.argsort(flags.to(dt.int32), dim=-1, descending=True, stable=True)
    return flags.sum(-1).to(dt.int32), order.to(dt.int32)


class AuxRequest(NamedTuple):
    """What flex_attention gives besides: the logarithm of each row's sum, its largest score."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    lse: Tensor | None = None
    max_scores: Tensor | None = None


def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Callable | None = None, block_mask: BlockMask | None = None,
    scale: float | None = None, enable_gqa: bool = False, return_lse: bool = False, kernel_options: Any = None, *,
    return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """softmax(score_mod(query @ key.T * scale), masked) @ value. (B, H, L, E), (B, H, S, E), (B, H, S, Ev).

    scale None is 1/sqrt(E). A row of which nothing is left is 0. enable_gqa: each head of key and value serves a group
    of query heads. return_lse: (result, log of each row's sum). kernel_options has no effect: there is one kernel.
    """
    _check(query, key, value, enable_gqa)
    if enable_gqa:
        groups = query.shape[1] // key.shape[1]
        key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = products.matmul(query, key.transpose(-2, -1))
    scores = scores.to(dt.float64 if query.dtype is dt.float64 else dt.float32) * scale
    sizes = tuple(scores.shape)
    if score_mod is not None:
        scores = score_mod(scores, *_indices(sizes, query.device)).to(scores.dtype)
    if block_mask is not None:
        _check_lengths(block_mask, sizes)
        scores = gather_scatter.where(block_mask.keeps(sizes, query.device), scores, -math.inf)
    largest = reductions.amax(scores, -1, True)
    nothing = comparison.isneginf(largest)
    weights = reductions.softmax(gather_scatter.where(nothing, 0.0, scores), -1)
    weights = gather_scatter.where(nothing, 0.0, weights)
    out = products.matmul(weights.to(query.dtype), value)
    if not return_lse and return_aux is None:
        return out
    lse = reductions.logsumexp(scores, -1)
    if return_aux is None:
        return out, lse
    aux = AuxOutput(lse if return_aux.lse else None, largest.squeeze(-1) if return_aux.max_scores else None)
    return out, aux


def _check(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    if query.ndim != 4 or key.ndim != 4 or value.ndim != 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if not enable_gqa and query.shape[1] != key.shape[1]:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={query.shape[1]} and "
            f"Hkv={key.shape[1]}. Try setting enable_gqa=True for GQA."
        )
    if enable_gqa and query.shape[1] % key.shape[1]:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={query.shape[1]} and "
            f"Hkv={key.shape[1]}."
        )


def _check_lengths(block_mask: BlockMask, sizes: tuple) -> None:
    rows, columns = block_mask.seq_lengths
    if sizes[-2] > rows or sizes[-1] > columns:
        raise ValueError(
            f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={sizes[-2]} and "
            f"kv_len={sizes[-1]}. As the block mask was created for a smaller length than you're using it for, you "
            "likely need to create a new block mask."
        )
