"""The state of a thread that runs operators: whether gradients are recorded, the current interpreter, and other modes.

Input: `no_grad()` and tracers set it; `table/operator.py` reads it at every call. Each thread has its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from typing import Any

from stage_contracts.device import CPU
from stage_contracts.dtype import DEFAULT_DTYPE, float32
from stage_contracts.matmul_precision import HIGHEST, MATMUL


class _State(threading.local):
    grad_enabled: bool = True
    interpreter: Any = None  # None: evaluate on arrays
    inference: bool = False
    # func.grad, vmap, ...: the transforms whose functions are running, outermost first
    transforms: tuple[str, ...] = ()
    autocast: tuple = ()  # (device type, dtype) for each device type for which autocast is on
    autocast_dtypes: tuple = ()  # the same for the dtypes of set_autocast_dtype
    autocast_cache: bool = True  # whether weights are cast only once in a region
    error_on_break: bool | None = None  # the value of the innermost error_on_graph_break
    devices: tuple = (CPU,)  # the last one is the default device
    plain: bool = True  # no interpreter, inference mode or autocast: the only field that every call reads
    modes: tuple = ()  # the modes that are not at their defaults, as text, for guards
    saved_hooks: Any = None  # (pack, unpack) of the innermost saved_tensors_hooks

    @property
    def matmul_precision(self) -> str:
        """The precision of products of float32. The process has one, as in torch."""
        return MATMUL.word

    @matmul_precision.setter
    def matmul_precision(self, word: str) -> None:
        MATMUL.word = word


STATE = _State()


def is_grad_enabled() -> bool:
    """Whether operators on tensors that require grad are recorded on the tape."""
    return STATE.grad_enabled


class set_grad_enabled(ContextDecorator):
    """`set_grad_enabled(False)` takes effect immediately. As a context manager or decorator, it restores the mode. In
    inference mode nothing is recorded in any case."""

    def __init__(self, mode: bool) -> None:
        self.mode, self.previous = bool(mode), STATE.grad_enabled
        STATE.grad_enabled = self.mode and not STATE.inference

    def __call__(self, function: Any) -> Any:
        STATE.grad_enabled = self.previous  # used as a decorator: the mode changes at the call
        return super().__call__(function)

    def _recreate_cm(self) -> set_grad_enabled:
        return type(self)(self.mode)

    def __enter__(self) -> None:
        STATE.grad_enabled = self.mode and not STATE.inference

    def __exit__(self, *_: object) -> None:
        STATE.grad_enabled = self.previous


class _GradMode(ContextDecorator):
    mode: bool

    def __new__(cls, function: Any = None) -> Any:
        self = super().__new__(cls)
        if function is not None:  # @no_grad without parentheses
            self.__init__()  # type: ignore[misc]
            return self(function)
        return self

    def __init__(self) -> None:
        self._previous: list[bool] = []

    def __enter__(self) -> None:
        self._previous.append(STATE.grad_enabled)
        STATE.grad_enabled = self.mode and not STATE.inference

    def __exit__(self, *_: object) -> None:
        STATE.grad_enabled = self._previous.pop()

    def _recreate_cm(self) -> _GradMode:
        return type(self)()


class no_grad(_GradMode):
    """Operators in this block, or in the decorated function, are not recorded."""

    mode = False


class enable_grad(_GradMode):
    """Operators in this block are recorded, also inside no_grad, but not inside inference_mode."""

    mode = True


def is_inference_mode_enabled() -> bool:
    return STATE.inference


class inference_mode(ContextDecorator):
    """A stricter no_grad: tensors made in this block can never be saved for a backward, nor be written to outside."""

    def __new__(cls, mode: Any = True) -> Any:
        self = super().__new__(cls)
        if callable(mode):  # @inference_mode without parentheses
            self.__init__()  # type: ignore[misc]
            return self(mode)
        return self

    def __init__(self, mode: bool = True) -> None:
        self.mode = bool(mode)
        self._previous: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._previous.append((STATE.grad_enabled, STATE.inference))
        STATE.grad_enabled, STATE.inference = not self.mode, self.mode
        settle()

    def __exit__(self, *_: object) -> None:
        STATE.grad_enabled, STATE.inference = self._previous.pop()
        settle()

    def _recreate_cm(self) -> inference_mode:
        return type(self)(self.mode)


@contextmanager
def transforming(name: str) -> Iterator[None]:
    """In this block, the function of a transform runs."""
    previous, STATE.transforms = STATE.transforms, (*STATE.transforms, name)
    try:
        yield
    finally:
        STATE.transforms = previous


@contextmanager
def interpreting(interpreter: Any) -> Iterator[Any]:
    """Every operator that this thread calls in the block is passed to `interpreter.process(op, args)`."""
    previous, STATE.interpreter = STATE.interpreter, interpreter
    _set_plain()
    try:
        yield interpreter
    finally:
        STATE.interpreter = previous
        _set_plain()


def _set_plain() -> None:
    STATE.plain = STATE.interpreter is None and not STATE.inference and not STATE.autocast


def settle() -> None:
    """Call this after a change of the state: it updates the fields that depend on others."""
    _set_plain()
    STATE.modes = _switched(followed())


# The modes that a program can change and compiled code follows, besides grad mode, with their defaults.
FOLLOWED: dict[str, Any] = {
    "inference": False, "autocast": (), "autocast_dtypes": (), "autocast_cache": True, "devices": (CPU,),
    "error_on_break": None, "matmul_precision": HIGHEST,
}  # fmt: skip
_NO_WORDS = ("error_on_break", "matmul_precision")  # the second has another: the process's


def _in_words(name: str, value: Any) -> tuple[str, str]:
    settings = value if isinstance(value, tuple) else (value,)
    return name, ", ".join(f"{s[0]} {s[1].name}" if isinstance(s, tuple) else str(s) for s in settings)


def modes() -> tuple:
    """The modes that are not at their defaults: inference mode, autocast, the default device and dtype, TF32."""
    usual = DEFAULT_DTYPE.dtype is float32 and MATMUL.word == HIGHEST
    return STATE.modes if usual else _with_those_of_the_process(STATE.modes, MATMUL.word)


def words_of(state: dict[str, Any]) -> tuple:
    """The result of `modes` in a followed state."""
    return _with_those_of_the_process(_switched(state), state["matmul_precision"])


def _switched(state: dict[str, Any]) -> tuple:
    changed = [name for name, value in state.items() if value != FOLLOWED[name] and name not in _NO_WORDS]
    return tuple(_in_words(name, state[name]) for name in changed)


def _with_those_of_the_process(switched: tuple, precision: str) -> tuple:
    dtype = DEFAULT_DTYPE.dtype
    if dtype is not float32:
        switched = (*switched, ("default_dtype", dtype.name))
    return switched if precision == HIGHEST else (*switched, ("matmul_allow_tf32", "True"))


def followed() -> dict[str, Any]:
    """The current values of the modes that a program can change."""
    return {name: getattr(STATE, name) for name in FOLLOWED}


def set_modes(**changes: Any) -> None:
    """Set several modes by name, in one step."""
    for name, value in changes.items():
        setattr(STATE, name, value)
    settle()


@contextmanager
def ordinary_modes() -> Iterator[None]:
    """In this block all modes of the thread have their defaults: for capture, and for compiling its graphs."""
    before = {name: value for name, value in followed().items() if name != "matmul_precision"}
    set_modes(**{name: FOLLOWED[name] for name in before})
    try:
        yield
    finally:
        set_modes(**before)
