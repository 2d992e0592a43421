"""torch's switches that change no result here: determinism, warnings, threads, denormals; and dtypes by older names.

Input: the values that a program sets. They are stored, so that it can read them again. What should change results, and
cannot here, raises or answers that it did not happen.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from stage0_eager.defaults import set_default_dtype
from stage0_eager.functions.creation import from_numpy
from stage0_eager.functions.tensor_attributes import dtype_by_type_name
from stage0_eager.random.generator import get_rng_state as int64_state
from stage0_eager.random.generator import manual_seed
from stage0_eager.random.generator import set_rng_state as set_int64_state
from stage_contracts import config

_MODES = {"default": 0, "warn": 1, "error": 2}
_STORED = {"deterministic": 0, "warn_always": False, "interop_threads": 1}


# ---- determinism -------------------------------------------------------------------------------------------------


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """0 ("default"), 1 ("warn"), 2 ("error"). Results are deterministic in any case: 1 and 2 also switch off choices by
    measurement (runtime.deterministic)."""
    if debug_mode not in (*_MODES, *_MODES.values()):
        raise RuntimeError(f"invalid value of debug_mode, expected one of 0, 1, 2 or {', '.join(_MODES)}")
    _STORED["deterministic"] = _MODES[debug_mode] if isinstance(debug_mode, str) else debug_mode
    config.change(**{"runtime.deterministic": bool(_STORED["deterministic"])})


def get_deterministic_debug_mode() -> int:
    return _STORED["deterministic"]


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Results are deterministic in any case. This also switches off choices by measurement (runtime.deterministic)."""
    set_deterministic_debug_mode(0 if not mode else 1 if warn_only else 2)


def are_deterministic_algorithms_enabled() -> bool:
    return _STORED["deterministic"] > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    return _STORED["deterministic"] == 1


# ---- stored, without effect ----------------------------------------------------------------------------------------


def set_warn_always(b: bool) -> None:
    """Has no effect: a warning here comes once."""
    _STORED["warn_always"] = bool(b)


def is_warn_always_enabled() -> bool:
    return bool(_STORED["warn_always"])


def set_num_interop_threads(num: int) -> None:
    """Has no effect: operators do not run beside each other."""
    if type(num) is not int or num <= 0:
        raise RuntimeError(f"set_num_interop_threads expects a positive integer, but got {num!r}")
    _STORED["interop_threads"] = num


def get_num_interop_threads() -> int:
    return _STORED["interop_threads"]


def set_flush_denormal(mode: bool) -> bool:
    """Whether the mode is in force: denormals are never flushed to 0."""
    return not mode


# ---- dtypes, random states -----------------------------------------------------------------------------------------


def set_default_tensor_type(t: Any) -> None:
    """set_default_dtype, by the name of a type such as "torch.DoubleTensor"."""
    set_default_dtype(dtype_by_type_name(t) if isinstance(t, str) else t)


def seed() -> int:
    """Start the default generator at a number that the clock gives, and return it."""
    return manual_seed(time.time_ns() & 0x7FFFFFFFFFFFFFFF).initial_seed()


def get_rng_state() -> Any:
    """The default generator's state, as bytes."""
    return from_numpy(int64_state().numpy().view(np.uint8))


def set_rng_state(new_state: Any) -> None:
    """Give the default generator a state that get_rng_state returned."""
    set_int64_state(from_numpy(new_state.numpy().view(np.int64)))


@contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, _caller: str = "fork_rng", _devices_kw: str = "devices",
    device_type: str | None = None,
) -> Iterator[None]:  # fmt: skip
    """Afterwards the default generator is as it was before the block. There is one generator for all devices."""
    before = int64_state()
    try:
        yield
    finally:
        if enabled:
            set_int64_state(before)


_FUNCTIONS = (
    set_deterministic_debug_mode, get_deterministic_debug_mode, use_deterministic_algorithms,
    are_deterministic_algorithms_enabled, is_deterministic_algorithms_warn_only_enabled, set_warn_always,
    is_warn_always_enabled, set_num_interop_threads, get_num_interop_threads, set_flush_denormal,
    set_default_tensor_type, seed, get_rng_state, set_rng_state, fork_rng,
)  # fmt: skip
SETTINGS: dict[str, Any] = {f.__name__: f for f in _FUNCTIONS}
