"""Embedding and EmbeddingBag: tables of vectors, read by index.

Input: integer tensors.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.functions import creation
from stage0_eager.nn import functional as F
from stage0_eager.nn import init
from stage0_eager.nn.module import Module, Parameter
from stage0_eager.state import no_grad


class EmbeddingBag(Module):
    """The sum, mean or max of the vectors of each bag of indices; the vector at padding_idx is 0 at first."""

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm=None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Any = None,
        include_last_offset: bool = False, padding_idx: int | None = None, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.mode = num_embeddings, embedding_dim, mode
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.sparse, self.include_last_offset = sparse, include_last_offset
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        shape = (num_embeddings, embedding_dim)
        self.weight = Parameter(
            creation.randn(shape, device=device, dtype=dtype) if _weight is None else _weight
        )
        if self.padding_idx is not None and _weight is None:
            with no_grad():
                self.weight[self.padding_idx].zero_()

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
            self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, mode={self.mode!r}"


class Embedding(Module):
    """A table of vectors, standard normal at first, looked up by integer tensors; padding_idx's is 0 and stays so."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        self.weight = Parameter(creation.empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0

    @classmethod
    def from_pretrained(cls, embeddings, freeze: bool = True, padding_idx: int | None = None) -> Embedding:
        """A table that is `embeddings`, (rows, width); not trained unless freeze is False."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, width = embeddings.shape
        module = cls(rows, width, padding_idx)
        module.weight = Parameter(embeddings, requires_grad=not freeze)
        return module

    def forward(self, input):
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
