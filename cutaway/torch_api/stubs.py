"""What libraries touch when they are imported: torch.jit, torch.types, torch.onnx, torch._C and the like.

Input: imports and decorators of published code. A name whose work is nothing here does nothing; what would need a part
that Cutaway leaves out is there and raises NotImplementedError when it is used, with what stands instead.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from cutaway.subjects import SUBJECTS
from cutaway.torch_api.hub import HUB
from cutaway.torch_api.tree import PYTREE
from stage0_eager import nn
from stage0_eager.functions import results
from stage0_eager.tensor import Tensor
from stage_contracts.device import Device
from stage_contracts.dtype import DType


def raising(path: str, subject: str) -> Callable[..., Any]:
    """A function that is there, and raises when it is called."""

    def absent(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{path}: {SUBJECTS[subject]}")

    absent.__name__, absent.__doc__ = path.rpartition(".")[2], f"Not here: {SUBJECTS[subject]}."
    return absent


class Absent(ModuleType):
    """A module all of whose names are there, and raise when they are called."""

    def __init__(self, name: str, subject: str, **names: Any) -> None:
        super().__init__(name, f"Not here: {SUBJECTS[subject]}.")
        self.__path__: list[str] = []
        self.__dict__.update(names, _subject=subject)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        made = raising(f"{self.__name__}.{name}", self.__dict__["_subject"])
        self.__dict__[name] = made
        return made


def unchanged(function: Any = None, *args: Any, **options: Any) -> Any:
    """A decorator, with or without arguments, that changes nothing."""
    return function if callable(function) else lambda given: given


# ---- torch.jit: Python runs as Python ------------------------------------------------------------------------------


class ScriptModule(nn.Module):
    """For isinstance: no module here is scripted."""


class ScriptFunction:
    """For isinstance: no function here is scripted."""


_UNCHANGED = (
    "unused ignore export interface script_method _overload _overload_method script_if_tracing script".split()
)
_TRACED = "trace trace_module save load freeze optimize_for_inference fork wait".split()
JIT: dict[str, Any] = {
    **dict.fromkeys(_UNCHANGED, unchanged), **{name: raising(f"torch.jit.{name}", "jit") for name in _TRACED},
    "Final": typing.Final, "ScriptModule": ScriptModule, "ScriptFunction": ScriptFunction,
    "annotate": lambda the_type, the_value: the_value, "isinstance": lambda obj, kind: isinstance(obj, kind),
    "is_scripting": lambda: False, "is_tracing": lambda: False,
    "Attribute": lambda value, type: value, "Error": RuntimeError,
}  # fmt: skip


# ---- the rest ------------------------------------------------------------------------------------------------------


@contextmanager
def nothing(*args: Any, **options: Any) -> Any:
    """A context without effect."""
    yield


class _Words(type):
    """A class any attribute of which is its own name: DispatchKey.CPU."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class DispatchKey(metaclass=_Words):
    """torch's names of dispatch keys; nothing here dispatches on them."""


class DispatchKeySet:
    """A set of dispatch keys, which nothing here dispatches on."""

    def __init__(self, *keys: Any) -> None:
        self.keys = frozenset(keys)

    def has(self, key: Any) -> bool:
        return key in self.keys

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(*self.keys, *other.keys)


def fuse_conv_bn_eval(conv: nn.Module, bn: nn.Module, transpose: bool = False) -> nn.Module:
    """A convolution with the batch norm after it, both in eval mode, in its weights."""
    import copy

    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(conv)
    scale = bn.weight * (bn.running_var + bn.eps).rsqrt()
    out = 1 if transpose else 0
    shape = [-1 if d == out else 1 for d in range(conv.weight.ndim)]
    before = bn.running_mean * 0 if conv.bias is None else conv.bias
    fused.weight = nn.Parameter((conv.weight * scale.reshape(shape)).detach())
    fused.bias = nn.Parameter(((before - bn.running_mean) * scale + bn.bias).detach())
    return fused


def fuse_linear_bn_eval(linear: nn.Module, bn: nn.Module) -> nn.Module:
    """The same for a Linear."""
    return fuse_conv_bn_eval(linear, bn)


_DOWNLOADS = ("load_state_dict_from_url", "download_url_to_file")
_RETURNS = {
    **dict.fromkeys("max min median nanmedian mode sort topk kthvalue cummax cummin".split(), results.ValuesIndices),
    "aminmax": results.MinMax, "frexp": results.MantissaExponent, "slogdet": results.SignLogabsdet,
    "linalg_slogdet": results.SignLogabsdet, "qr": results.QR, "linalg_qr": results.QR, "svd": results.OldSVD,
    "linalg_svd": results.SVD, "linalg_eigh": results.Eigh, "linalg_lstsq": results.Lstsq, "linalg_lu": results.LU,
    "lu_unpack": results.LU, "linalg_lu_factor": results.LUFactor, "linalg_lu_factor_ex": results.LUFactorInfo,
    "linalg_inv_ex": results.InverseInfo, "linalg_cholesky_ex": results.FactorInfo, "geqrf": results.Geqrf,
    "linalg_solve_ex": results.SolveInfo, "triangular_solve": results.SolutionCopy, "histogram": results.Histogram,
    "histogramdd": results.Histogramdd,
}  # fmt: skip
_TYPES = {
    "Number": int | float | bool, "Device": Device | str | int | None, "_TensorOrTensors": Any, "Tensor": Tensor,
    "_dtype": DType, "_device": Device, "_int": int, "_float": float, "_bool": bool, "_size": tuple | list,
    "_layout": Any, "FileLike": Any, "IntLikeType": int, "FloatLikeType": float, "BoolLikeType": bool,
}  # fmt: skip


def modules(make: Any) -> dict[str, ModuleType]:
    """torch's module paths and a module for each; `make(name, source, **names)` makes one."""
    load_url = raising("torch.utils.model_zoo.load_url", "model_zoo")
    downloads = {name: raising(f"torch.hub.{name}", "hub") for name in _DOWNLOADS}
    return {
        "torch.jit": make("torch.jit", **JIT),
        "torch.jit.annotations": make("torch.jit.annotations", **{name: JIT[name] for name in ("Final", "annotate")}),
        "torch.types": make("torch.types", **_TYPES),
        "torch.return_types": make("torch.return_types", **_RETURNS),
        "torch.hub": make("torch.hub", **HUB, **downloads),
        "torch.utils.model_zoo": make("torch.utils.model_zoo", load_url=load_url),
        "torch.utils._pytree": make("torch.utils._pytree", **PYTREE),
        "torch.nn.utils.fusion": make(
            "torch.nn.utils.fusion", fuse_conv_bn_eval=fuse_conv_bn_eval, fuse_linear_bn_eval=fuse_linear_bn_eval
        ),
        "torch.onnx": Absent("torch.onnx", "onnx", is_in_onnx_export=lambda: False),
        "torch.ao": Absent("torch.ao", "ao"),
        "torch.ao.quantization": Absent("torch.ao.quantization", "ao"),
        "torch.overrides": make(
            "torch.overrides", has_torch_function=lambda arguments: False,
            is_tensor_like=lambda x: isinstance(x, Tensor),
            handle_torch_function=raising("torch.overrides.handle_torch_function", "overrides"),
        ),
        "torch._C": make(
            "torch._C", DispatchKey=DispatchKey, DispatchKeySet=DispatchKeySet, DisableTorchFunctionSubclass=nothing,
            DisableTorchFunction=nothing, _log_api_usage_once=lambda *what: None, _get_tracing_state=lambda: None,
            TensorType=Tensor, ScriptModule=ScriptModule, ScriptFunction=ScriptFunction,
        ),
    }  # fmt: skip
