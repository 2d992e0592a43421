"""SyncBatchNorm: batch normalization whose mean and variance are those of all ranks' batches together.

Input: (N, C, ...) on each rank, of any N. Two collectives forward and two backward; compiled, they are in the graph.
"""

from __future__ import annotations

from typing import Any

from cutaway.distributed import functional
from cutaway.distributed.group import is_initialized, resolve
from stage0_eager import Tensor, nn, no_grad
from stage0_eager.functions.creation import full
from stage0_eager.functions.joining import cat


class SyncBatchNorm(nn.BatchNorm1d):
    """torch.nn.SyncBatchNorm. In eval mode, or in one process, it is plain batch normalization."""

    def __init__(self, *args: Any, process_group: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.process_group = process_group

    def _check_rank(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        if not (self.training and is_initialized() and resolve(self.process_group).size() > 1):
            return super().forward(input)
        self._check_rank(input)
        group = resolve(self.process_group)
        dims = [0, *range(2, input.ndim)]
        shape = [1, -1, *[1] * (input.ndim - 2)]
        count = full((1,), input.numel() // input.shape[1], dtype=input.dtype, device=input.device)
        sums = functional.all_reduce(cat([input.sum(dims), count]), "sum", group)
        total = sums[-1]
        mean = sums[:-1] / total
        centred = input - mean.reshape(shape)
        var = functional.all_reduce((centred * centred).sum(dims), "sum", group) / total
        if self.track_running_stats:
            self._follow(mean, var, total)
        out = centred * (var + self.eps).rsqrt().reshape(shape)
        if self.affine:
            out = out * self.weight.reshape(shape) + self.bias.reshape(shape)
        return out

    def _follow(self, mean: Tensor, var: Tensor, total: Tensor) -> None:
        with no_grad():
            self.num_batches_tracked.add_(1)
            momentum = self.momentum
            if momentum is None:
                momentum = 1.0 / self.num_batches_tracked.to(mean.dtype)
            self.running_mean.copy_(self.running_mean * (1 - momentum) + mean.detach() * momentum)
            unbiased = var.detach() * (total / (total - 1))
            self.running_var.copy_(self.running_var * (1 - momentum) + unbiased * momentum)

    @classmethod
    def convert_sync_batchnorm(cls, module: nn.Module, process_group: Any = None) -> nn.Module:
        """The module with each batch normalization in it replaced by one of these, on the same tensors."""
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)) and not isinstance(module, cls):
            made = cls(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                process_group=process_group,
            )  # fmt: skip
            made.weight, made.bias = module.weight, module.bias
            made.running_mean, made.running_var = module.running_mean, module.running_var
            made.num_batches_tracked, made.training = module.num_batches_tracked, module.training
            return made
        for name, child in module.named_children():
            setattr(module, name, cls.convert_sync_batchnorm(child, process_group))
        return module

