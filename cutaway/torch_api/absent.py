"""Names that libraries import, annotate with or test types by, and that Cutaway does not have: each raises when used.

Input: the table below, from what transformers, timm and torchvision read while they are imported. A stand-in is a
class, so that `isinstance(x, DTensor)` is False and `class Mine(Tracer)` can be written; calling it raises.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NoReturn

from cutaway.subjects import no_attribute
from stage0_eager.table import overriding
from stage0_eager.tensor import Tensor


class Absent(type):
    """The class of stand-ins. `path`: torch's name for it."""

    path: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(no_attribute(cls.path, ()))

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(no_attribute(f"{cls.path}.{name}", ()))

    def __repr__(cls) -> str:
        return f"<{cls.path}, which Cutaway does not have>"


def absent(path: str) -> Absent:
    """The stand-in for torch's `path`."""
    return Absent(path.rpartition(".")[2], (), {"path": path})


class _Keys(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class DispatchKey(metaclass=_Keys):
    """The name of any of torch's dispatch keys. Nothing is dispatched by them here."""


class DispatchKeySet(frozenset):
    """A set of such names."""

    def __new__(cls, *keys: Any) -> Any:
        return super().__new__(cls, keys)

    def has(self, key: Any) -> bool:
        return key in self


# torch's module path -> the names that libraries read from it on import.
NAMES: dict[str, str] = {
    "torch._custom_ops": "get_ctx",
    "torch._subclasses": "FakeTensor FakeTensorMode",
    "torch.ao.quantization": "DeQuantStub QuantStub quantize_dynamic",
    "torch.cuda": "CUDAGraph Stream StreamContext graph",
    "torch.distributed.checkpoint.hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
    "torch.distributed.device_mesh": "DeviceMesh init_device_mesh",
    "torch.distributed.fsdp": "CPUOffloadPolicy FullyShardedDataParallel",
    "torch.distributed.tensor": "DTensor distribute_tensor",
    "torch.distributed.tensor._utils": "compute_local_shape_and_global_offset",
    "torch.distributed.tensor.placement_types": "_StridedShard",
    "torch.onnx": "export symbolic_opset11",
}


@dataclass(frozen=True)
class Shard:
    """A tensor is cut along `dim`. A description only: there are no distributed tensors."""

    dim: int


@dataclass(frozen=True)
class Replicate:
    """Every process has the whole tensor. A description only."""


@dataclass(frozen=True)
class Partial:
    """The tensor is the sum of the processes' parts. A description only."""

    reduce_op: str = "sum"


def _as_it_is(*unused: Any, **options: Any) -> Any:
    return lambda decorated: decorated


_PLACEMENTS = {"Shard": Shard, "Replicate": Replicate, "Partial": Partial}

# What libraries also do with these modules on import; it has no effect here.
HARMLESS: dict[str, dict[str, Any]] = {
    "torch._C": {
        "DispatchKey": DispatchKey,
        "DispatchKeySet": DispatchKeySet,
        "DisableTorchFunction": overriding.disabled,
        "DisableTorchFunctionSubclass": overriding.disabled,
        "TensorType": Tensor,
        "_get_tracing_state": lambda: None,
        "_ExcludeDispatchKeyGuard": nullcontext,
        "_log_api_usage_once": lambda event: None,
    },
    "torch._dynamo._trace_wrapped_higher_order_op": {"TransformGetItemToIndex": nullcontext},
    "torch.distributed.tensor": _PLACEMENTS,
    "torch.distributed.tensor.placement_types": _PLACEMENTS,
    "torch.onnx": {
        "is_in_onnx_export": lambda: False,
        "register_custom_op_symbolic": lambda *registration: None,
    },
    "torch.onnx.symbolic_helper": {"parse_args": _as_it_is},
}


def _paths() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {path: dict(names) for path, names in HARMLESS.items()}
    for path, names in NAMES.items():
        found.setdefault(path, {}).update({name: absent(f"{path}.{name}") for name in names.split()})
    for path in list(found):  # the packages on the way
        parent = path.rpartition(".")[0]
        while parent:
            found.setdefault(parent, {})
            parent = parent.rpartition(".")[0]
    return found


PATHS = _paths()
