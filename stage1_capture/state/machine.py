"""What every part of capture may ask of the machine, and the tables that say what it does with a callable.

Input: nothing. A frame (frame/translator.py) is a `Tx`; the folders above fill the tables when tables.py imports them.
So a value can be called, inlined or raised without importing who does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from stage_contracts.class_lookup import MISSING, class_lookup
from stage_contracts.controls import Rule, rule_of

if TYPE_CHECKING:
    from stage1_capture.state.graph_builder import OutputGraph
    from stage1_capture.variables.base import Variable
    from stage1_capture.variables.function import UserFunctionVariable


class Tx(Protocol):
    """The frame under way, for who computes with its values."""

    output: OutputGraph  # the graph, the guards, the side effects
    function: Any  # whose frame it is
    locals: dict[str, Variable]

    def wrap(self, real: Any, source: Any) -> Variable:
        """The value of a real object that `source` reaches."""

    def lazily(self, real: Any, source: Any) -> Variable:
        """As `wrap`, but the value is looked at and guarded only when something reads it."""

    def call(self, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
        """`function(*args, **kwargs)`."""

    def inline(self, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
        """A call of a Python function: its body is interpreted inside this frame."""

    def class_body(self, body: UserFunctionVariable) -> dict[str, Variable]:
        """What the body of a class statement stores."""

    def fold(self, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Variable:
        """A pure function of constants, computed now."""

    def compare(self, symbol: str, left: Variable, right: Variable) -> Variable:
        """`left == right` and its like."""

    def constant(self, value: Variable, what: str) -> Any:
        """The value, which must be known now. Else a break; `what` says who needs it."""

    def throw(self, cls: type[BaseException], *args: Any, **attributes: Any) -> NoReturn:
        """The program raises an exception of Python's own, which has these attributes (abstract values)."""

    def unsupported(self, code: str, reason: str) -> NoReturn:
        """A break."""

    def resume_here(self) -> None:
        """The frames inside this one are left: it took an exception of theirs."""

    def load_cell(self, name: str) -> Variable:
        """What a variable holds that functions share."""


class Raised(Exception):
    """The program raises: `value` is the abstract exception on its way to a handler."""

    def __init__(self, value: Any) -> None:
        self.value = value


Args = list["Variable"]
Kwargs = dict[str, "Variable"]
Builtin = Callable[[Tx, Args, Kwargs], "Variable"]
Called = Callable[[Tx, Any, Args, Kwargs], "Variable"]

BUILTINS: dict[Any, Builtin] = {}  # builtin functions and classes -> what they do
FOLDED: set[Any] = set()  # pure functions, computed at capture when all arguments are constants
CALLED: dict[type, Called] = {}  # kinds of value that are called in their own way
CALLED_BY_CLASS: dict[type, Called] = {}  # objects of C's that are called, by their class
CALLED_BY_CODE: dict[Any, Called] = {}  # Python's own functions that are not followed, by their code
CONTROLLED: dict[str, Callable[..., Variable]] = {}  # what the user said of a function -> how it is called
KINDS: dict[str, Any] = {}  # kinds of value that files below theirs make
CONSTRUCTORS: dict[type, Called] = {}  # classes that are called, by a base of theirs
METHODS: dict[tuple[type, str], Builtin] = {}  # of lists, dicts, iterators: (kind, name)
SPECIAL_METHODS: dict[str, Any] = {}  # special methods of all containers, by name


def attempt(tx: Tx, what: str, compute: Callable[[], Any], exact: bool = False) -> Any:
    """Run a piece of Python's own semantics on abstract containers; what it raises, the program raises.

    exact: on Python's own values, so that what an error says is right too.
    """
    try:
        return compute()
    except (LookupError, ValueError) as error:
        tx.throw(type(error), *error.args)
    except (TypeError, ArithmeticError, AttributeError) as error:
        if exact and all(isinstance(a, str) for a in error.args):
            tx.throw(type(error), *error.args)
        tx.unsupported("GB0066", f"{what} raises {type(error).__name__}: {error}")


def control_of(real: Any) -> Rule | None:
    """The rule for what is called here, if the user gave one."""
    if real is None:
        return None
    of_class = class_lookup(type(real), "__capture_rule__")  # past any metaclass of the user's
    return rule_of(real) or (None if of_class is MISSING else of_class)


def spread(handler: Any, what: str, code: str = "GB0065") -> Builtin:
    """A handler of (tx, *args, **kwargs) as the tables have it. A call that does not fit it is a break; a handler that
    gives nothing is the program's None."""

    def call(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
        try:
            return handler(tx, *args, **kwargs) or KINDS["none"]
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # not the call itself: an error of our own
            tx.unsupported(code, f"{what}: {error}")

    return call


def builtin(*functions: Any) -> Any:
    """Decorator: enter a handler of (tx, *args, **kwargs)."""

    def enter(handler: Any) -> Any:
        BUILTINS.update(dict.fromkeys(functions, spread(handler, f"a call of {functions[0].__name__}")))
        return handler

    return enter


def builtins_(rows: dict[Any, Callable[..., Any]]) -> None:
    """Enter handlers of (tx, *args, **kwargs), each under its function."""
    for function, handler in rows.items():
        builtin(function)(handler)


def method(kind: type, *names: str) -> Callable[[Any], Any]:
    """Decorator: enter a handler of (tx, receiver, *args, **kwargs) for methods of a kind of value."""

    def enter(handler: Any) -> Any:
        call = spread(handler, f"a call of the method {names[0]}")
        METHODS.update({(kind, name): call for name in names})
        return handler

    return enter
