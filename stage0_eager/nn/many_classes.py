"""Losses over many classes that hold the last layer themselves: adaptive softmax, and cross entropy of a Linear.

Input: features (N, in_features) or (in_features,), and the class of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from stage0_eager.functions import joining
from stage0_eager.functions.gather_scatter import where
from stage0_eager.nn import functional as F
from stage0_eager.nn.containers import ModuleList, Sequential
from stage0_eager.nn.linear import Linear
from stage0_eager.nn.module import Module
from stage0_eager.tensor import Tensor


class ASMoutput(NamedTuple):
    """The log-probability of each target, and the mean of their negatives."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Frequent classes in a head; the rarer ones in clusters with smaller projections. Grave et al. (2017).

    cutoffs: where each cluster begins, rising; the classes below the first are in the head.
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0, head_bias: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        cutoffs = list(cutoffs)
        rising = cutoffs == sorted(set(cutoffs)) and all(0 < int(c) == c for c in cutoffs)
        if not cutoffs or not rising or cutoffs[-1] > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes, self.div_value = in_features, n_classes, div_value
        self.cutoffs = [*cutoffs, n_classes]
        self.head_bias = head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        place = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **place)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width, size = int(in_features // div_value ** (i + 1)), self.cutoffs[i + 1] - self.cutoffs[i]
            first = Linear(in_features, width, bias=False, **place)
            self.tail.append(Sequential(first, Linear(width, size, bias=False, **place)))

    def reset_parameters(self) -> None:
        self.head.reset_parameters()
        for cluster in self.tail:
            for layer in cluster.children():
                layer.reset_parameters()

    def forward(self, input, target):
        """(log-probability of each target, their mean negative)."""
        if input.ndim == 1:
            output, loss = self(input.unsqueeze(0), target.unsqueeze(0))
            return ASMoutput(output.squeeze(0), loss)
        if input.shape[0] != target.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        output = self.log_prob(input).gather(1, target.unsqueeze(1)).squeeze(1)
        return ASMoutput(output, (-output).mean())

    def log_prob(self, input):
        """The log-probability of every class: (N, n_classes)."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            inside = F.log_softmax(cluster(input), 1)
            parts.append(inside + head[:, self.shortlist_size + i : self.shortlist_size + i + 1])
        return joining.cat(parts, 1)

    def predict(self, input):
        """The likeliest class of each row: by the head alone where that names a class of its own."""
        best = self.head(input).argmax(1)
        return where(best < self.shortlist_size, best, self.log_prob(input).argmax(1))


class LinearCrossEntropyLoss(Module):
    """cross_entropy of what a Linear, which it holds, makes of the features."""

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (), bias: bool = False,
        device: Any = None, dtype: Any = None, reduction: str = "mean", weight: Tensor | None = None,
        ignore_index: int | None = None, label_smoothing: float = 0.0, options: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if out_features:
            raise NotImplementedError("LinearCrossEntropyLoss: only out_features=() is supported")
        self.linear = Linear(in_features, num_classes, bias=bias, device=device, dtype=dtype)
        self.register_buffer("weight", weight)
        self.reduction, self.ignore_index, self.label_smoothing = reduction, ignore_index, label_smoothing

    def forward(self, input, target):
        return F.linear_cross_entropy(
            input, self.linear.weight, target, linear_bias=self.linear.bias, weight=self.weight,
            reduction=self.reduction, ignore_index=self.ignore_index, label_smoothing=self.label_smoothing,
        )  # fmt: skip


__all__ = ["ASMoutput", "AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss"]
