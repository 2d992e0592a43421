"""DataParallel and SyncBatchNorm as far as one device goes: what published code wraps its model in.

Input: a module, or (N, C, ...). Several devices are several processes: torch.nn.parallel.DistributedDataParallel.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.nn.module import Module
from stage0_eager.nn.normalization import _BatchNorm


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
    """Batch norm over (N, C, ...). In a process group of one its statistics are those of the batch."""

    ranks = (2, 3, 4, 5)

    def __init__(self, *args: Any, process_group: Any = None, **options: Any) -> None:
        if process_group is not None and process_group.size() > 1:
            raise NotImplementedError("SyncBatchNorm over several processes is not supported; use GroupNorm")
        super().__init__(*args, **options)

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
