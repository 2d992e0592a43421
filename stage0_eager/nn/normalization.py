"""Normalising modules: BatchNorm1d-3d, InstanceNorm1d-3d, GroupNorm and RMSNorm, with torch's arguments and names.

Input: (N, C, ...) of the rank the name says. Running statistics are buffers, updated in training.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.functions import creation
from stage0_eager.nn import functional as F
from stage0_eager.nn.module import Module, Parameter
from stage0_eager.table.numpy_numbers import for_each
from stage_contracts import dtype as dt


class _Norm(Module):
    """What batch and instance norms share: affine parameters and running statistics per channel."""

    ranks: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        where = {"device": device, "dtype": dtype}
        self.weight = Parameter(creation.ones(num_features, **where)) if affine else None
        self.bias = Parameter(creation.zeros(num_features, **where)) if affine else None
        tracked = track_running_stats
        self.register_buffer("running_mean", creation.zeros(num_features, **where) if tracked else None)
        self.register_buffer("running_var", creation.ones(num_features, **where) if tracked else None)
        count = creation.full((), 0, dtype=dt.int64, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)

    _version = 2  # torch's; entries of version 1 have no num_batches_tracked

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *args: Any) -> None:
        """Old files, and dicts without versions, may lack the count of batches: then it stays as it is."""
        key = prefix + "num_batches_tracked"
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats and key not in state_dict:
            state_dict[key] = self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    def reset_running_stats(self) -> None:
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def _check_rank(self, input: Any) -> None:
        if input.ndim not in self.ranks:
            raise ValueError(
                f"expected {' or '.join(f'{r}D' for r in self.ranks)} input (got {input.ndim}D input)"
            )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Norm):
    def forward(self, input):
        self._check_rank(input)
        momentum = self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if momentum is None:  # the running statistics are the plain average of all batches so far
                momentum = 1.0 / self.num_batches_tracked.to(self.running_mean.dtype)
        use_batch = self.training or self.running_mean is None
        mean = self.running_mean if not self.training or self.track_running_stats else None
        var = self.running_var if not self.training or self.track_running_stats else None
        return F.batch_norm(input, mean, var, self.weight, self.bias, use_batch, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """Over (N, C) or (N, C, L)."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Over (N, C, H, W)."""

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Over (N, C, D, H, W)."""

    ranks = (5,)


class _InstanceNorm(_Norm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)

    def forward(self, input):
        self._check_rank(input)
        alone = input.ndim == self.ranks[0]  # one instance without a batch
        x = input.unsqueeze(0) if alone else input
        own = self.training or not self.track_running_stats
        out = F.instance_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, own, self.momentum, self.eps
        )
        return out.squeeze(0) if alone else out


class InstanceNorm1d(_InstanceNorm):
    """Over (N, C, L) or (C, L)."""

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Over (N, C, H, W) or (C, H, W)."""

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Over (N, C, D, H, W) or (C, D, H, W)."""

    ranks = (4, 5)


class GroupNorm(Module):
    """Normalise each of num_groups groups of channels of (N, C, ...)."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.weight = Parameter(creation.ones(num_channels, device=device, dtype=dtype)) if affine else None
        self.bias = Parameter(creation.zeros(num_channels, device=device, dtype=dtype)) if affine else None

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class RMSNorm(Module):
    """Divide by the root mean square over the last dimensions, then scale."""

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        shape = for_each(normalized_shape, 1)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        self.weight = (
            Parameter(creation.ones(shape, device=device, dtype=dtype)) if elementwise_affine else None
        )

    def forward(self, input):
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LocalResponseNorm(Module):
    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input):
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LayerNorm(Module):
    """Normalise over the last dimensions, then scale and shift."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        shape = for_each(normalized_shape, 1)
        self.normalized_shape, self.eps, self.elementwise_affine = shape, eps, elementwise_affine
        where = {"device": device, "dtype": dtype}
        self.weight = Parameter(creation.ones(shape, **where)) if elementwise_affine else None
        self.bias = Parameter(creation.zeros(shape, **where)) if elementwise_affine and bias else None

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
