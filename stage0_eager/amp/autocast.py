"""autocast: operators in a region choose their operands' dtype, by the lists of autocast_lists.py.

Input: a kind of device and a dtype. operator.py calls `call_with_casts` at each public call in a region; capture calls
`wanted_dtype` and puts the same casts into the graph. Operators that an operator calls inside are not cast again.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import ContextDecorator
from typing import Any

from stage0_eager.amp import autocast_lists as lists
from stage0_eager.arrays import gpu_is_there
from stage0_eager.state import STATE, settle
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType, dtype_of

# What a kind of device uses unless told otherwise, and what it can use.
DEFAULT_DTYPES = (("cpu", dt.bfloat16), ("cuda", dt.float16))
SUPPORTED = (dt.bfloat16, dt.float16)


# ---- the region --------------------------------------------------------------------------------------------------


class autocast(ContextDecorator):
    """`with autocast("cuda"):` products run in float16 (on the CPU bfloat16), losses and norms in float32.

    Context manager and decorator; regions nest, and `enabled=False` switches autocast off inside one. A weight is
    cast once per region (`cache_enabled`), so that its gradient is added up in the lower precision, as in torch.
    Raises ValueError for a device_type that is no string, RuntimeError for an unknown one; warns and stays off for
    a dtype or device that cannot be used.
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if device_type not in ("cpu", "cuda"):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'; expected 'cpu' or 'cuda'"
            )
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        if enabled and device_type == "cuda" and not gpu_is_there():
            warnings.warn(
                "User provided device_type of 'cuda', but CUDA is not available. Disabling", stacklevel=2
            )
            enabled = False
        if enabled and self.fast_dtype not in SUPPORTED:
            name = device_type.upper()
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} autocast only supports dtype of bfloat16, float16 currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = bool(enabled)
        self._cache_enabled = STATE.autocast_cache if cache_enabled is None else bool(cache_enabled)
        self._before: list[tuple] = []

    def __enter__(self) -> autocast:
        self._before.append((STATE.autocast, STATE.autocast_cache))
        STATE.autocast = with_device(STATE.autocast, self.device, self.fast_dtype if self._enabled else None)
        STATE.autocast_cache = self._cache_enabled
        settle()
        return self

    def __exit__(self, *_: object) -> None:
        STATE.autocast, STATE.autocast_cache = self._before.pop()
        settle()
        if not STATE.autocast:
            clear_autocast_cache()

    def _recreate_cm(self) -> autocast:
        """For each call of a decorated function, one of its own."""
        return autocast(self.device, self.fast_dtype, self._enabled, self._cache_enabled)


def with_device(settings: tuple, device_type: str, dtype: DType | None) -> tuple:
    """`settings` with one kind of device changed; dtype None takes it out."""
    others = tuple([s for s in settings if s[0] != device_type])
    return others if dtype is None else (*others, (device_type, dtype))


def _of(settings: Iterable[tuple], device_type: str) -> DType | None:
    for kind, dtype in settings:
        if kind == device_type:
            return dtype
    return None


# ---- torch's questions and switches ------------------------------------------------------------------------------


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast knows this kind of device."""
    return device_type in ("cpu", "cuda")


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether the calls made here are cast, on this kind of device."""
    return _of(STATE.autocast, device_type) is not None


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switch autocast on or off from here on, in this thread. `set_autocast_enabled(True)` is about "cuda"."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    dtype = get_autocast_dtype(device_type) if enabled else None
    STATE.autocast = with_device(STATE.autocast, device_type, dtype)
    settle()


def get_autocast_dtype(device_type: str) -> DType:
    """The dtype of a region on this kind of device: bfloat16 on the CPU, float16 on CUDA, unless set."""
    for settings in (STATE.autocast, STATE.autocast_dtypes, DEFAULT_DTYPES):
        found = _of(settings, device_type)
        if found is not None:
            return found
    raise RuntimeError(f"unsupported scalarType: autocast expects 'cpu' or 'cuda', but got {device_type!r}")


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """The dtype of regions on this kind of device that name none, from here on, in this thread."""
    dtype = dtype_of(dtype)
    at_first = (device_type, dtype) in DEFAULT_DTYPES  # then it is as if none was ever chosen
    STATE.autocast_dtypes = with_device(STATE.autocast_dtypes, device_type, None if at_first else dtype)
    if is_autocast_enabled(device_type):
        STATE.autocast = with_device(STATE.autocast, device_type, dtype)
    settle()


def is_autocast_cache_enabled() -> bool:
    return STATE.autocast_cache


def set_autocast_cache_enabled(enabled: bool) -> None:
    STATE.autocast_cache = bool(enabled)
    settle()


class autocast_as:
    """`with autocast_as(settings):` the settings of another time: those of a forward that is run again."""

    def __init__(self, settings: tuple, cache: bool | None = None) -> None:
        self.settings, self.cache = settings, STATE.autocast_cache if cache is None else cache

    def __enter__(self) -> None:
        self.before = STATE.autocast, STATE.autocast_cache
        STATE.autocast, STATE.autocast_cache = self.settings, self.cache
        settle()

    def __exit__(self, *_: object) -> None:
        STATE.autocast, STATE.autocast_cache = self.before
        settle()


def autocast_off() -> autocast_as:
    """No casts inside: for code that has its casts already, a graph or a backward."""
    return autocast_as(())


# ---- one call ----------------------------------------------------------------------------------------------------


def policy_of(op: Any, device_type: str, bound: Mapping[str, Any], value: Callable[[Any], Any]) -> str | None:
    """Which list the call is on, if any. `value` reads an argument that is no tensor."""
    special = lists.SOMETIMES.get((device_type, op.name))
    if special is not None:
        policy, holds = special
        return policy if holds(bound, value) else None
    found = lists.POLICIES[device_type].get(op.name)
    if found == lists.FLOAT32_UNLESS_ASKED:
        return None if value(bound.get("dtype")) is not None else lists.FLOAT32
    return found


def eligible(dtype: DType) -> bool:
    """Casts are between the narrow floats and float32: float64 and integers stay what they are."""
    return dtype.is_floating_point and dtype is not dt.float64


def wanted_dtype(policy: str | None, lower: DType, dtypes: Iterable[DType]) -> DType | None:
    """What the eligible operands of a call become; `dtypes` are those of its tensors on autocast's device."""
    if policy == lists.WIDEST:
        found = [d for d in dtypes if eligible(d)]
        return dt.float32 if dt.float32 in found else lower if lower in found else found[0] if found else None
    return {lists.LOWER: lower, lists.FLOAT32: dt.float32}.get(policy or "")


def call_with_casts(op: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A public operator's call in a region."""
    settings = STATE.autocast
    tensors = _tensors_in((args, tuple(kwargs.values())))
    device = tensors[0].device.type if tensors else ""
    lower = _of(settings, device)
    if lower is None or op.mutates:
        with autocast_off():
            return op(*args, **kwargs)
    policy = policy_of(op, device, dict(zip(op.params, op.bind(*args, **kwargs), strict=True)), lambda v: v)
    if policy == lists.REFUSE:
        raise RuntimeError(lists.REFUSALS[op.name])
    with autocast_off():
        dtype = wanted_dtype(policy, lower, [t.dtype for t in tensors if t.device.type == device])
        if dtype is not None:
            args, kwargs = _cast((args, kwargs), device, dtype, dtype is lower and policy == lists.LOWER)
        return op(*args, **kwargs)


def in_lower_precision(value: Any) -> Any:
    """What a function on the list of products, written as several calls, does to its operands in a region."""
    if isinstance(value, (tuple, list)):
        return type(value)([in_lower_precision(v) for v in value])
    dtype = None if value is None else _of(STATE.autocast, value.device.type)
    return value.to(dtype) if dtype is not None and eligible(value.dtype) else value


def _tensors_in(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    return [t for item in tree for t in _tensors_in(item)] if type(tree) in (tuple, list) else []


def _cast(tree: Any, device: str, dtype: DType, cached: bool) -> Any:
    if isinstance(tree, Tensor):
        if tree.dtype is dtype or not eligible(tree.dtype) or tree.device.type != device:
            return tree
        return cast_once(tree, dtype) if cached else tree.to(dtype)
    if type(tree) is dict:
        return {key: _cast(item, device, dtype, cached) for key, item in tree.items()}
    return type(tree)(_cast(i, device, dtype, cached) for i in tree) if type(tree) in (tuple, list) else tree


# ---- weights are cast once ---------------------------------------------------------------------------------------


class _Cache(threading.local):
    """By (weight, dtype, grad mode): the weight, its version, and the cast. Held until the outermost region ends."""

    def __init__(self) -> None:
        self.casts: dict[tuple, tuple[Tensor, int, Tensor]] = {}


_CACHE = _Cache()


def cast_once(tensor: Tensor, dtype: DType) -> Tensor:
    """The cast of a weight (a leaf of float32 that requires grad), made once; of anything else, made anew."""
    weight = tensor.requires_grad and tensor._grad_fn is None and tensor._base is None
    if not (weight and tensor.dtype is dt.float32 and STATE.autocast_cache and STATE.interpreter is None):
        return tensor.to(dtype)
    key = id(tensor), dtype, STATE.grad_enabled
    known = _CACHE.casts.get(key)
    if known is None or known[1] != tensor.version:  # an optimizer's step inside the region changes it
        known = _CACHE.casts[key] = (tensor, tensor.version, tensor.to(dtype))
    return known[2]


def clear_autocast_cache() -> None:
    """Forget the casts of weights."""
    _CACHE.casts.clear()
