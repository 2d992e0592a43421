"""torch.distributed and what stands beside it, imported from cutaway.distributed when first asked for.

Input: the names that a program asks of these modules. A program of one process pays nothing for them.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

_OURS = "cutaway.distributed"
_C10D = ("GroupMember", "ProcessGroup", "_set_pg_timeout", "get_rank", "get_world_size", "is_initialized")
_FSDP = ("MixedPrecisionPolicy", "fully_shard")


def paths(module: type[ModuleType], data: ModuleType) -> dict[str, ModuleType]:
    """torch's module paths and a module for each. `module` is TorchModule, `data` what stands in torch.utils.data."""

    class Later(module):  # type: ignore[misc, valid-type]
        """A module with names that a first use imports: all of cutaway.distributed, or some."""

        def __init__(self, name: str, source: Any, *names: str, ours: str = _OURS) -> None:
            super().__init__(name, source)
            self.__dict__["_later"], self.__dict__["_ours"] = names, ours

        def __getattr__(self, name: str) -> Any:
            later = self.__dict__["_later"]
            if not name.startswith("__") and (name in later or not later):
                found = vars(importlib.import_module(self.__dict__["_ours"]))
                self.__dict__.update({n: found[n] for n in later or found["__all__"]})
                if name in self.__dict__:
                    return self.__dict__[name]
            return super().__getattr__(name)

    return {
        "torch.distributed": Later("torch.distributed", None),
        "torch.distributed._functional_collectives": Later(
            "torch.distributed._functional_collectives", None, ours=f"{_OURS}.functional"
        ),
        "torch.distributed.distributed_c10d": Later(
            "torch.distributed.distributed_c10d", None, *_C10D, ours=f"{_OURS}.group"
        ),
        "torch.distributed.fsdp": Later("torch.distributed.fsdp", None, *_FSDP, ours=f"{_OURS}.fully_shard"),
        "torch.distributed._composable": Later("torch.distributed._composable", None, "fully_shard"),
        "torch.distributed._composable.fsdp": Later(
            "torch.distributed._composable.fsdp", None, *_FSDP, ours=f"{_OURS}.fully_shard"
        ),
        "torch.nn.parallel": Later("torch.nn.parallel", None, "DistributedDataParallel"),
        "torch.nn.parallel.distributed": Later(
            "torch.nn.parallel.distributed", None, "DistributedDataParallel"
        ),
        "torch.utils.data": Later("torch.utils.data", data, "DistributedSampler"),
        "torch.utils.data.distributed": Later("torch.utils.data.distributed", None, "DistributedSampler"),
    }
