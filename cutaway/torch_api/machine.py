"""torch's functions about the machine and its settings: torch.cuda, torch.backends, torch.amp.

Input: CuPy if it is installed. A setting that can only change speed is accepted and stored. A setting that should
change results, but cannot here, raises, so that no program gets other results than it asks for without an error.
"""

from __future__ import annotations

import os
from functools import partial
from types import ModuleType
from typing import Any

from cutaway.torch_api.streams import STREAMS
from stage0_eager.amp import autocast as autocast_module
from stage0_eager.functions.tensor_attributes import Layout, strided
from stage0_eager.matmul_precision import (
    allow_tf32,
    get_float32_matmul_precision,
    is_tf32_allowed,
    set_float32_matmul_precision,
)
from stage0_eager.namespaces import amp
from stage0_eager.random.generator import manual_seed
from stage_contracts import config
from stage_contracts.device import Device
from stage_contracts.dtype import bfloat16, float16
from stage_contracts.memory_format import FORMATS, MemoryFormat

# ---- torch.cuda --------------------------------------------------------------------------------------------------


def _runtime() -> Any:
    """CUDA's runtime, through CuPy. Raises RuntimeError if there is none."""
    from stage0_eager.arrays import cupy

    return cupy().cuda.runtime


def device_count() -> int:
    """How many GPUs can be used; 0 without CuPy or without a GPU."""
    try:
        return int(_runtime().getDeviceCount())
    except RuntimeError:
        return 0


def is_available() -> bool:
    """Whether tensors can be on a GPU here."""
    return device_count() > 0


def current_device() -> int:
    return int(_runtime().getDevice())


def set_device(device: Any) -> None:
    """Accepts the first GPU, which "cuda" means. Raises RuntimeError for another one: a tensor's device names it."""
    index = device if isinstance(device, int) else Device(str(device)).index
    if index:
        raise RuntimeError(
            f'torch.cuda.set_device({device!r}): "cuda" always means the first GPU that the process sees; write '
            f'device="cuda:{index}", or start the process with CUDA_VISIBLE_DEVICES={index}'
        )


def synchronize(device: Any = None) -> None:
    """Wait until the GPU has finished all its work."""
    _runtime().deviceSynchronize()


def get_device_name(device: Any = None) -> str:
    index = device if isinstance(device, int) else current_device()
    return _runtime().getDeviceProperties(index)["name"].decode()


def is_bf16_supported() -> bool:
    return is_available()


def empty_cache() -> None:
    """Return the memory in CuPy's pool that no tensor uses to the driver."""
    if is_available():
        from stage0_eager.arrays import cupy

        cupy().get_default_memory_pool().free_all_blocks()


def manual_seed_all(seed: int) -> None:
    """The same as manual_seed: one generator serves all devices."""
    manual_seed(seed)


CUDA = {f.__name__: f for f in (device_count, is_available, current_device, set_device, synchronize, get_device_name,
                                is_bf16_supported, empty_cache, manual_seed_all, manual_seed)} | STREAMS  # fmt: skip


# ---- torch.accelerator -------------------------------------------------------------------------------------------


def current_accelerator(check_available: bool = False) -> Device | None:
    """The device that is not a CPU, if there is one."""
    return Device("cuda") if is_available() else None


ACCELERATOR: dict[str, Any] = {
    "current_accelerator": current_accelerator,
    **{name: CUDA[name] for name in ("is_available", "device_count", "synchronize", "empty_cache")},
    "current_device_index": current_device,
}


# ---- torch.amp ---------------------------------------------------------------------------------------------------


class _OfCuda(amp.autocast):
    """torch.cuda.amp.autocast: autocast for the device "cuda"."""

    def __init__(self, enabled: bool = True, dtype: Any = float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class _OfCpu(amp.autocast):
    """torch.cpu.amp.autocast: autocast for the device "cpu"."""

    def __init__(self, enabled: bool = True, dtype: Any = bfloat16, cache_enabled: bool = True) -> None:
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class _ScalerOfCuda(amp.GradScaler):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__("cuda", *args, **options)


AMP_PATHS: dict[str, dict[str, Any]] = {
    "torch.amp": {name: getattr(amp, name) for name in amp.__all__},
    "torch.cuda.amp": {
        "autocast": _OfCuda,
        "GradScaler": _ScalerOfCuda,
        "custom_fwd": partial(amp.custom_fwd, device_type="cuda"),
        "custom_bwd": partial(amp.custom_bwd, device_type="cuda"),
    },
    "torch.cpu.amp": {"autocast": _OfCpu},
}
for _path, _class in (("autocast_mode", "autocast"), ("grad_scaler", "GradScaler")):
    AMP_PATHS[f"torch.amp.{_path}"] = {_class: getattr(amp, _class)}
AUTOCAST = (
    "autocast clear_autocast_cache get_autocast_dtype is_autocast_available is_autocast_cache_enabled "
    "is_autocast_enabled set_autocast_cache_enabled set_autocast_dtype set_autocast_enabled"
).split()


# ---- settings ----------------------------------------------------------------------------------------------------


# Those that have an effect: the field of the configuration that is set.
_OURS = {
    "torch.backends.cudnn.benchmark": "runtime.cudnn_benchmark",
    "torch.backends.cudnn.allow_tf32": "runtime.cudnn_allow_tf32",
}


class Settings(ModuleType):
    """Settings for speed, or for determinism. They are stored; some of cuDNN's set fields of the configuration."""

    def __init__(self, name: str, **defaults: Any) -> None:
        super().__init__(name, Settings.__doc__)
        self.__dict__.update(defaults)

    def __setattr__(self, name: str, value: Any) -> None:
        known = {**vars(type(self)), **self.__dict__}
        if not name.startswith("__") and name not in known:
            raise AttributeError(
                f"Cutaway has no {self.__name__}.{name}; it has {', '.join(k for k in known if k[0] != '_')}"
            )
        super().__setattr__(name, value)
        if field := _OURS.get(f"{self.__name__}.{name}"):
            config.change(**{field: bool(value)})


class MatmulSettings(Settings):
    """As Settings; `allow_tf32` is another name of the precision that set_float32_matmul_precision sets."""

    @property
    def allow_tf32(self) -> bool:
        return is_tf32_allowed()

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        allow_tf32(allowed)


# The classes of modules whose settings are not only stored.
_CLASSES = {"cuda.matmul": MatmulSettings}


def backends() -> dict[str, ModuleType]:
    """torch.backends and its modules that published code uses, by path."""
    absent = {"is_available": lambda: False, "is_built": lambda: False}
    parts: dict[str, dict[str, Any]] = {
        "cudnn": {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False,
                  "is_available": is_available, "version": lambda: None},
        "cuda": {"is_built": is_available},
        "cuda.matmul": {"allow_fp16_reduced_precision_reduction": False,
                        "allow_bf16_reduced_precision_reduction": False},
        "mps": absent, "mkldnn": {"enabled": False, **absent}, "openmp": absent,
    }  # fmt: skip
    found: dict[str, ModuleType] = {"torch.backends": Settings("torch.backends")}
    for path, defaults in parts.items():
        found[f"torch.backends.{path}"] = _CLASSES.get(path, Settings)(f"torch.backends.{path}", **defaults)
    return found


# A setting that has no effect, stored so that a program can read what it set.
_threads = 0


def get_num_threads() -> int:
    """The number of set_num_threads, or else of OMP_NUM_THREADS, or else of CPUs."""
    return _threads or int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)


def set_num_threads(num: int) -> None:
    """Store the number. It has no effect: the array library reads OMP_NUM_THREADS when it is loaded."""
    global _threads
    if type(num) is not int or num <= 0:
        raise RuntimeError(f"set_num_threads expects a positive integer, but got {num!r}")
    _threads = num


def typename(obj: Any) -> str:
    """The name of an object's type: torch.FloatTensor for a tensor."""
    return (
        obj.type()
        if hasattr(obj, "type") and hasattr(obj, "dtype")
        else f"{type(obj).__module__}.{type(obj).__name__}"
    )


_FUNCTIONS = (
    set_float32_matmul_precision, get_float32_matmul_precision, get_num_threads, set_num_threads, typename,
)  # fmt: skip
TOP: dict[str, Any] = (
    {f.__name__: f for f in _FUNCTIONS}
    | FORMATS
    | {"strided": strided, "layout": Layout, "memory_format": MemoryFormat}
)
TOP |= {name: getattr(autocast_module, name) for name in AUTOCAST}
TOP |= {
    "get_autocast_gpu_dtype": partial(autocast_module.get_autocast_dtype, "cuda"),
    "get_autocast_cpu_dtype": partial(autocast_module.get_autocast_dtype, "cpu"),
    "is_autocast_cpu_enabled": partial(autocast_module.is_autocast_enabled, "cpu"),
    "set_autocast_cpu_enabled": partial(autocast_module.set_autocast_enabled, "cpu"),
    "set_autocast_gpu_dtype": partial(autocast_module.set_autocast_dtype, "cuda"),
    "set_autocast_cpu_dtype": partial(autocast_module.set_autocast_dtype, "cpu"),
}

__all__ = ["AMP_PATHS", "CUDA", "TOP", "Settings", "backends"]
