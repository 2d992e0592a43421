"""DataParallel as far as one device goes, and SyncBatchNorm: what published code wraps its model in.

Input: a module, or (N, C, ...). Several devices are several processes: torch.nn.parallel.DistributedDataParallel.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.functions.creation import full
from stage0_eager.functions.joining import cat
from stage0_eager.nn.module import Module
from stage0_eager.nn.normalization import _BatchNorm
from stage0_eager.state import no_grad
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage_contracts.communicators import WORLD, ranks_of


class DataParallel(Module):
    """The module itself, as `.module`: one process has one device here. Raises ValueError for several devices."""

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError(
                f"DataParallel over {len(device_ids)} devices is not supported; use DistributedDataParallel, with a "
                "process for each device"
            )
        self.module, self.device_ids, self.dim = module, list(device_ids or []), dim

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


class SyncBatchNorm(_BatchNorm):
    """Batch norm over (N, C, ...), whose statistics in training are those of all ranks' batches together.

    Two collectives forward and two backward; compiled, they are in the graph. `process_group`: all processes, if None.
    """

    ranks = (2, 3, 4, 5)

    def __init__(self, *args: Any, process_group: Any = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.group = WORLD if process_group is None else process_group.name

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or ranks_of(self.group) < 2:
            return super().forward(input)
        self._check_rank(input)
        dims = (0, *range(2, input.ndim))
        shape = (1, -1, *[1] * (input.ndim - 2))
        count = full((1,), input.numel() // input.shape[1], dtype=input.dtype, device=input.device)
        sums = c.all_reduce(cat([input.sum(dims), count]), "sum", self.group)
        total = sums[-1]
        centred = input - (sums[:-1] / total).reshape(shape)
        var = c.all_reduce((centred * centred).sum(dims), "sum", self.group) / total
        if self.track_running_stats:
            self._follow((sums[:-1] / total).detach(), var.detach(), total.detach())
        out = centred * (var + self.eps).rsqrt().reshape(shape)
        if self.weight is None or self.bias is None:
            return out
        return out * self.weight.reshape(shape) + self.bias.reshape(shape)

    def _follow(self, mean: Tensor, var: Tensor, total: Tensor) -> None:
        """Move the running statistics towards this batch's."""
        with no_grad():
            self.num_batches_tracked.add_(1)
            share: Any = self.momentum
            if share is None:
                share = 1.0 / self.num_batches_tracked.to(mean.dtype)
            self.running_mean.copy_(self.running_mean * (1 - share) + mean * share)
            self.running_var.copy_(self.running_var * (1 - share) + var * (total / (total - 1)) * share)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with each BatchNorm1d, 2d and 3d in it replaced by a SyncBatchNorm with its parameters."""
        if isinstance(module, _BatchNorm):
            made = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                       process_group=process_group)  # fmt: skip
            made.training = module.training
            for registry in ("_parameters", "_buffers"):
                for name, value in module.__dict__[registry].items():
                    setattr(made, name, value)
            return made
        for name, child in module.named_children():
            setattr(module, name, cls.convert_sync_batchnorm(child, process_group))
        return module
