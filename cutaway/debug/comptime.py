"""comptime: functions of yours that run while the function around their call is compiled, and look at capture there.

Input: calls of `comptime` in compiled code; stage 1 gives them the frame under way. Elsewhere they do nothing. They
add no node to the graph.
"""

from __future__ import annotations

import builtins
import dis
import sys
import time
import types
from collections.abc import Callable
from typing import Any, TextIO

from stage1_capture.variables.base import NotConstant, Variable, as_constant, realize
from stage1_capture.variables.function import CellVariable, UserFunctionVariable
from stage_contracts.controls import Rule, set_rule
from stage_contracts.graph import Graph


class ComptimeVar:
    """A value of the program as capture has it."""

    def __init__(self, tx: Any, variable: Variable) -> None:
        self._tx, self._variable = tx, realize(variable)

    def as_fake(self) -> Any:
        """A tensor's type: shape, strides, dtype, device."""
        if not self._variable.is_tensor():
            raise TypeError(f"as_fake expects a tensor, got {self._variable.describe()}")
        return self._variable.meta

    def size(self, dim: int | None = None) -> Any:
        shape = self.as_fake().shape
        return shape if dim is None else shape[dim]

    def python_type(self) -> type:
        return self._variable.python_type(self._tx)

    def is_python_constant(self) -> bool:
        try:
            as_constant(self._variable)
        except NotConstant:
            return False
        return True

    def as_python_constant(self) -> Any:
        return self._tx.constant(self._variable, "as_python_constant")

    def is_dynamic(self) -> bool:
        """Whether it is a number that was left open, and is not known by now."""
        sym = getattr(self._variable, "sym", None)
        known = sym is not None and sym.env.simplify(sym.expr).is_Integer
        return bool(self._variable.is_open()) and not known

    def force_static(self) -> None:
        """An open number is fixed from now on, with a guard; a tensor, all of its sizes."""
        if self._variable.is_tensor():
            for size in self.as_fake().shape:
                int(size)
        else:
            self._tx.constant(self._variable, "force_static")

    def __repr__(self) -> str:
        return self._variable.describe()


class ComptimeContext:
    """The frame that is being captured. What prints takes `file=`; `stacklevel=1` is the frame that called this one."""

    def __init__(self, tx: Any) -> None:
        self._tx = tx

    def _frame(self, stacklevel: int = 0) -> Any:
        frames = self._tx.output.frames
        place = next(i for i, frame in enumerate(frames) if frame is self._tx) - stacklevel
        if not 0 <= place < len(frames):
            raise ValueError(
                f"stacklevel={stacklevel}: there are {place + stacklevel} frames around this one"
            )
        return frames[place]

    def parent(self) -> ComptimeContext:
        """The frame that called this one."""
        return ComptimeContext(self._frame(1))

    def graph(self) -> Graph:
        """The graph as it is now; it has no output yet."""
        return self._tx.output.graph

    def graph_break(self, msg: str = "ComptimeContext.graph_break") -> None:
        self._tx.unsupported("GB0021", f"graph_break() is called: {msg}")

    def get_local(self, name: str, *, stacklevel: int = 0) -> ComptimeVar:
        held = _locals(self._frame(stacklevel))
        if name not in held:
            raise KeyError(f"there is no local {name!r} yet; there are {', '.join(held) or 'none'}")
        return ComptimeVar(self._tx, held[name])

    def assert_static(self, val: ComptimeVar) -> None:
        if val.is_dynamic():
            raise AssertionError(f"expected static but got dynamic: {val!r} (run with TORCH_LOGS=dynamic)")

    def print(self, val: Any, *, file: TextIO | None = None) -> None:
        builtins.print(repr(val), file=_to(file))

    def print_graph(self, *, verbose: bool = True, file: TextIO | None = None) -> None:
        builtins.print(str(self.graph()), file=_to(file))

    def print_disas(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        builtins.print(self.disas(stacklevel=stacklevel), file=_to(file))

    def disas(self, *, stacklevel: int = 0) -> str:
        """The bytecode of the function, as `dis` shows it."""
        frame = self._frame(stacklevel)
        at = frame.current.start if frame.current is not None else -1
        return dis.Bytecode(frame.function.code, current_offset=at).dis()

    def print_value_stack(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        for value in self._frame(stacklevel).stack:
            builtins.print(f"- {realize(value).describe()}", file=_to(file))

    def print_locals(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        for name, value in _locals(self._frame(stacklevel)).items():
            builtins.print(f"{name} = {realize(value).describe()}", file=_to(file))

    def print_bt(self, *, file: TextIO | None = None, stacklevel: int = 0) -> None:
        """The frames of the program, outermost first."""
        frames = self._tx.output.frames
        for frame in frames[: len(frames) - stacklevel]:
            if frame.current is not None:
                origin = frame.current.origin
                place = f'File "{origin.file}", line {origin.line}, in {frame.function.name}'
                builtins.print(f"  {place}\n    {origin.text}", file=_to(file))

    def print_guards(self, *, file: TextIO | None = None) -> None:
        for guard in self._tx.output.guards.values():
            builtins.print(str(guard), file=_to(file))

    def sleep(self, sec: float) -> None:
        time.sleep(sec)


def _to(file: TextIO | None) -> TextIO:
    return sys.stdout if file is None else file


def _locals(frame: Any) -> dict[str, Variable]:
    """By name; of a variable that functions share, what it holds."""
    found = {name: realize(value) for name, value in frame.locals.items()}
    cells = {
        n: v.contents for n, v in found.items() if isinstance(v, CellVariable) and v.contents is not None
    }
    return {n: v for n, v in {**found, **cells}.items() if not isinstance(v, CellVariable)}


def _real_function(tx: Any, given: Variable) -> Callable[..., Any]:
    """The function that the program hands to comptime: a real one, or one made inside."""
    if not isinstance(given, UserFunctionVariable):
        raise TypeError(f"comptime expects a function of the context, got {given.describe()}")
    if given.real is not None:
        return given.real
    constant = lambda value: tx.constant(value, "a function for comptime")  # noqa: E731
    held = [realize(cell).contents for cell in given.closure]
    closure = tuple(types.CellType(*[constant(value)] * (value is not None)) for value in held)
    made = types.FunctionType(
        given.code, given.globals, given.name, tuple(map(constant, given.defaults)), closure
    )
    made.__kwdefaults__ = {name: constant(value) for name, value in given.kwdefaults.items()}
    return made


def _call(tx: Any, fn: Variable, fallback_fn: Variable | None = None) -> None:
    """comptime(fn): while this is compiled, fn(context)."""
    _real_function(tx, fn)(ComptimeContext(tx))


class _Comptime:
    """`comptime(lambda ctx: ...)` and, for one look, `comptime.print_graph()` and its like."""

    __capture_rule__ = Rule("comptime", _call)

    def __call__(
        self, fn: Callable[[ComptimeContext], Any], fallback_fn: Callable[[], Any] = lambda: None
    ) -> None:
        """In compiled code `fn(context)` runs while it is compiled. Elsewhere `fallback_fn()` runs."""
        fallback_fn()


def _enter(
    name: str, looks: Callable[..., Any], outside: Callable[..., Any] = lambda *args, **kwargs: None
) -> None:
    """comptime.<name>: `looks(tx, *values)` in compiled code, `outside` elsewhere."""

    def look(*args: Any, **kwargs: Any) -> Any:
        return outside(*args, **kwargs)

    look.__name__ = look.__qualname__ = name
    look.__doc__ = (
        f"In compiled code: ComptimeContext.{name}, while it is compiled. Elsewhere it does nothing."
    )
    set_rule(look, Rule("comptime", looks))
    setattr(_Comptime, name, staticmethod(look))


def _method(name: str, of_values: bool = False) -> Callable[..., Any]:
    """The context's method of this name; its arguments are values of the program, or constants and files."""

    def looks(tx: Any, *args: Variable, **kwargs: Variable) -> None:
        given = [ComptimeVar(tx, value) if of_values else _plain(tx, value) for value in args]
        getattr(ComptimeContext(tx), name)(*given, **{key: _plain(tx, v) for key, v in kwargs.items()})

    return looks


def _plain(tx: Any, value: Variable) -> Any:
    """A real object from outside (a file), or a constant."""
    real = getattr(value, "real", None)
    return tx.constant(value, "an argument of comptime's") if real is None else real


def _breakpoint(tx: Any) -> None:
    ctx = ComptimeContext(tx)  # so it is called in the debugger
    breakpoint()
    del ctx


def _stack_and_value(tx: Any, value: Variable, **options: Variable) -> Variable:
    _method("print_value_stack")(tx, **options)
    return value


for (
    _name
) in "graph_break print_graph print_disas print_value_stack print_locals print_bt print_guards sleep".split():
    _enter(_name, _method(_name))
for _name in ("print", "assert_static"):
    _enter(_name, _method(_name, of_values=True))
_enter("breakpoint", _breakpoint)
_enter("force_static", lambda tx, value: ComptimeVar(tx, value).force_static())
_enter("print_value_stack_and_return", _stack_and_value, lambda value, **options: value)

comptime = _Comptime()
