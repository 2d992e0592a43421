"""The state of one thread while it runs operators: whether gradients are recorded, and who interprets the operators.

Input: `no_grad()` and tracers set it; `table/operator.py` reads it at every call. Each thread has its own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from typing import Any

from stage_contracts.device import CPU
from stage_contracts.dtype import DEFAULT_DTYPE, float32


class _State(threading.local):
    grad_enabled: bool = True
    interpreter: Any = None  # None: evaluate on arrays
    inference: bool = False
    # func.grad, vmap, ...: those whose function runs, outermost first
    transforms: tuple[str, ...] = ()
    autocast: tuple = ()  # (device type, dtype) of each kind of device that autocast is on for
    autocast_dtypes: tuple = ()  # likewise, what set_autocast_dtype has chosen
    autocast_cache: bool = True  # whether weights are cast once in a region
    error_on_break: bool | None = None  # what the innermost error_on_graph_break says
    devices: tuple = (CPU,)  # the last is where tensors are made that say no device
    plain: bool = True  # no interpreter, inference mode or autocast: the one thing every call looks at
    modes: tuple = ()  # what is not as it is at first, in words: what compiled code relies on
    saved_hooks: Any = None  # (pack, unpack) of the innermost saved_tensors_hooks


STATE = _State()


def is_grad_enabled() -> bool:
    """Whether operators on tensors that require grad are recorded on the tape."""
    return STATE.grad_enabled


class set_grad_enabled(ContextDecorator):
    """`set_grad_enabled(False)` acts at once; as a context manager or decorator it restores the mode after."""

    def __init__(self, mode: bool) -> None:
        self.mode, self.previous = bool(mode), STATE.grad_enabled
        STATE.grad_enabled = self.mode

    def __call__(self, function: Any) -> Any:
        STATE.grad_enabled = self.previous  # used as a decorator: nothing has happened yet
        return super().__call__(function)

    def _recreate_cm(self) -> set_grad_enabled:
        return type(self)(self.mode)

    def __enter__(self) -> None:
        STATE.grad_enabled = self.mode

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
        STATE.grad_enabled = self.mode

    def __exit__(self, *_: object) -> None:
        STATE.grad_enabled = self._previous.pop()

    def _recreate_cm(self) -> _GradMode:
        return type(self)()


class no_grad(_GradMode):
    """Operators in this block, or in the decorated function, are not recorded."""

    mode = False


class enable_grad(_GradMode):
    """Operators in this block are recorded, also inside no_grad."""

    mode = True


def is_inference_mode_enabled() -> bool:
    return STATE.inference


class inference_mode(ContextDecorator):
    """no_grad for good: tensors made in this block can neither be saved for backward later, nor be written to."""

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
    """In this block runs the function that a transform was given."""
    previous, STATE.transforms = STATE.transforms, (*STATE.transforms, name)
    try:
        yield
    finally:
        STATE.transforms = previous


@contextmanager
def interpreting(interpreter: Any) -> Iterator[Any]:
    """Every operator called in this block, in this thread, goes to `interpreter.process(op, args)`."""
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
    """To be called after a change of the state: bring what is derived from it up to date."""
    _set_plain()
    STATE.modes = _switched(followed())


# What a program can switch and compiled code follows, beside whether gradients are recorded; and how it is at first.
FOLLOWED: dict[str, Any] = {
    "inference": False, "autocast": (), "autocast_dtypes": (), "autocast_cache": True, "devices": (CPU,),
    "error_on_break": None,
}  # fmt: skip


def _in_words(name: str, value: Any) -> tuple[str, str]:
    settings = value if isinstance(value, tuple) else (value,)
    return name, ", ".join(f"{s[0]} {s[1].name}" if isinstance(s, tuple) else str(s) for s in settings)


def modes() -> tuple:
    """What is switched to something else than at first: inference mode, autocast, the default device and dtype."""
    return _with_dtype(STATE.modes)


def words_of(state: dict[str, Any]) -> tuple:
    """What `modes` would give in a followed state."""
    return _with_dtype(_switched(state))


def _switched(state: dict[str, Any]) -> tuple:
    changed = [name for name, value in state.items() if value != FOLLOWED[name] and name != "error_on_break"]
    return tuple(_in_words(name, state[name]) for name in changed)


def _with_dtype(switched: tuple) -> tuple:
    dtype = DEFAULT_DTYPE.dtype
    return switched if dtype is float32 else (*switched, ("default_dtype", dtype.name))


def followed() -> dict[str, Any]:
    """The state a program can switch, as it is here."""
    return {name: getattr(STATE, name) for name in FOLLOWED}


def set_modes(**changes: Any) -> None:
    """Switch parts of the state by name, at once."""
    for name, value in changes.items():
        setattr(STATE, name, value)
    settle()


@contextmanager
def ordinary_modes() -> Iterator[None]:
    """In this block operators run as written: for capture and for what compiles its graphs."""
    before = followed()
    set_modes(**FOLLOWED)
    try:
        yield
    finally:
        set_modes(**before)
