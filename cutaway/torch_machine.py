"""What torch says about the machine and what it lets one ask of it: torch.cuda, torch.backends, torch.amp.

Input: CuPy where it is installed. A setting that could change speed only is accepted and kept; one that would have to
change results and does not here raises, so that no program runs as something other than what it says.
"""

from __future__ import annotations

import os
from contextlib import ContextDecorator
from types import ModuleType
from typing import Any

from stage0_eager.random import manual_seed

# ---- torch.cuda --------------------------------------------------------------------------------------------------


def _runtime() -> Any:
    """CUDA's runtime through CuPy. Raises RuntimeError without one."""
    from stage0_eager.arrays import cupy

    return cupy().cuda.runtime


def device_count() -> int:
    """How many GPUs can be used; 0 without CuPy or without a GPU."""
    try:
        return int(_runtime().getDeviceCount())
    except RuntimeError:
        return 0


def is_available() -> bool:
    """Whether tensors can live on a GPU here."""
    return device_count() > 0


def current_device() -> int:
    return int(_runtime().getDevice())


def synchronize(device: Any = None) -> None:
    """Wait until the GPU has done all it was given."""
    _runtime().deviceSynchronize()


def get_device_name(device: Any = None) -> str:
    index = device if isinstance(device, int) else current_device()
    return _runtime().getDeviceProperties(index)["name"].decode()


def is_bf16_supported() -> bool:
    return is_available()


def empty_cache() -> None:
    """Give the memory that CuPy's pool holds and no tensor uses back to the driver."""
    if is_available():
        from stage0_eager.arrays import cupy

        cupy().get_default_memory_pool().free_all_blocks()


def manual_seed_all(seed: int) -> None:
    """The one generator serves every device."""
    manual_seed(seed)


CUDA = {f.__name__: f for f in (device_count, is_available, current_device, synchronize, get_device_name,
                                is_bf16_supported, empty_cache, manual_seed_all, manual_seed)}  # fmt: skip


# ---- torch.amp ---------------------------------------------------------------------------------------------------


class autocast(ContextDecorator):
    """Off, it changes nothing. On, it would choose dtypes operator by operator, which Cutaway does not: it raises."""

    def __init__(
        self, device_type: str = "cuda", dtype: Any = None, enabled: bool = True, cache_enabled: Any = None
    ) -> None:
        if enabled:
            raise NotImplementedError(
                "Cutaway has no autocast: cast the model and its inputs with .to(dtype), or pass enabled=False"
            )

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class GradScaler:
    """Off, it hands losses and steps through. On, it would scale gradients of float16, which raises here."""

    def __init__(self, device: Any = "cuda", enabled: bool = True, **options: Any) -> None:
        if enabled:
            raise NotImplementedError("Cutaway has no autocast and so no GradScaler; pass enabled=False")

    def scale(self, outputs: Any) -> Any:
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        return None

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        return None

    def is_enabled(self) -> bool:
        return False

    def get_scale(self) -> float:
        return 1.0

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state_dict: dict) -> None:
        return None


AMP = {"autocast": autocast, "GradScaler": GradScaler}


# ---- settings ----------------------------------------------------------------------------------------------------


class Settings(ModuleType):
    """Switches that ask for speed (or for the determinism that always holds): kept, and without effect."""

    def __init__(self, name: str, **defaults: Any) -> None:
        super().__init__(name, Settings.__doc__)
        self.__dict__.update(defaults)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__") and name not in self.__dict__:
            raise AttributeError(f"Cutaway has no {self.__name__}.{name}")
        super().__setattr__(name, value)


def backends() -> dict[str, ModuleType]:
    """torch.backends and what published code sets in it, by path."""
    absent = {"is_available": lambda: False, "is_built": lambda: False}
    parts: dict[str, dict[str, Any]] = {
        "cudnn": {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False,
                  "is_available": is_available, "version": lambda: None},
        "cuda": {"is_built": is_available},
        "cuda.matmul": {"allow_tf32": False, "allow_fp16_reduced_precision_reduction": False,
                        "allow_bf16_reduced_precision_reduction": False},
        "mps": absent, "mkldnn": {"enabled": False, **absent}, "openmp": absent,
    }  # fmt: skip
    found: dict[str, ModuleType] = {"torch.backends": Settings("torch.backends")}
    for path, defaults in parts.items():
        found[f"torch.backends.{path}"] = Settings(f"torch.backends.{path}", **defaults)
    return found


def set_float32_matmul_precision(precision: str) -> None:
    """Products of float32 are always done in float32; "high" and "medium" only allow less."""
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"expected highest, high or medium, got {precision!r}")


def get_float32_matmul_precision() -> str:
    return "highest"


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Every result is deterministic already."""


def are_deterministic_algorithms_enabled() -> bool:
    return True


class MemoryFormat:
    """A name for a layout. Convolutions here choose theirs themselves, so that asking for one changes nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


def get_num_threads() -> int:
    """How many threads the array library may use, as OMP_NUM_THREADS says."""
    return int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)


def set_num_threads(num: int) -> None:
    """Nothing: the array library reads OMP_NUM_THREADS when it is loaded."""
    if num <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")


def typename(obj: Any) -> str:
    """The name of an object's type: torch.FloatTensor for a tensor."""
    return (
        obj.type()
        if hasattr(obj, "type") and hasattr(obj, "dtype")
        else f"{type(obj).__module__}.{type(obj).__name__}"
    )


_FORMATS = {name: MemoryFormat(name) for name in ("contiguous_format", "preserve_format", "channels_last",
                                                  "channels_last_3d", "strided")}  # fmt: skip
_FUNCTIONS = (
    autocast, set_float32_matmul_precision, get_float32_matmul_precision, use_deterministic_algorithms,
    are_deterministic_algorithms_enabled, get_num_threads, set_num_threads, typename,
)  # fmt: skip
TOP: dict[str, Any] = {f.__name__: f for f in _FUNCTIONS} | _FORMATS

__all__ = ["AMP", "CUDA", "TOP", "Settings", "backends"]
