"""Controls: what a program tells capture about a function, such as never to follow it, or to make it one node.

Input: user functions. `cutaway.compiler` offers these controls; capture calls `rule_of` for each call that it sees. No
control changes what a program computes. Names and meanings are those of torch.compiler.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from stage_contracts.messages import checks_options

# The kinds of rules, and what capture does at a call of the function.
RULE_KINDS: dict[str, str] = {
    "disable": "the function runs in Python: capture breaks before it",
    "plain": "the function's own frame runs in Python, what it calls is compiled",
    "disallow": "its calls stay out of the graph: capture breaks at each",
    "allow": "its call is one node of the graph; what it does inside is not looked at",
    "nonstrict": "as allow, for any arguments and results: modules, nested containers",
    "region": "as if there were no rule, but its graph is compiled once for all calls with an equal graph",
    "constant": "it is called now, and what it returns is a constant",
    "substitute": "another Python function is followed in its place",
    "break": "the program asks for a break here",
    "compiling": "it answers whether the program is being compiled",
    "module": "a compiled module: the call of a plain module is followed",
    "forbid": "calling it in compiled code is an error of the program's (`detail` says which)",
    "reorder": "its calls, in order, are made after the graph has run: reorderable_logging_functions",
    "ignore": "its calls are left out: ignore_logging_functions",
    "comptime": "`detail` runs now, on the frame under way, and adds no node: comptime's functions",
    "follow": "an object that stands for a Python function (its attribute `detail`), which is followed",
}


@dataclass(frozen=True)
class Rule:
    """`kind` of RULE_KINDS; `detail` is the reason (disable), or the function to follow or to call."""

    kind: str
    detail: Any = None

    def __post_init__(self) -> None:
        if self.kind not in RULE_KINDS:
            raise ValueError(f"unknown rule {self.kind!r}; expected one of {', '.join(RULE_KINDS)}")


# An `__import__` that modules have for their own functions -> the modules it gives, by name; others are sys.modules'.
OWN_IMPORTS: dict[Any, dict[str, types.ModuleType]] = {}

# Functions that only write a log: their calls wait for the end of the graph, or are left out. A program puts them into
# torch._dynamo.config's sets of these names, which are these sets.
LOGGING: dict[str, set[Any]] = {"reorder": set(), "ignore": set()}

_LOCK = threading.RLock()  # an object may die, and its number be forgotten, while the lock is held
_RULES: dict[int, tuple[Any, Rule]] = {}  # by id; the object is kept, so that no other object gets its id
# Objects that guards and residual code need, but that no variable of the program holds (or only a key of a dict).
_REGISTERED: dict[int, Callable[[], Any]] = {}


def set_rule(function: Any, rule: Rule) -> None:
    """From now on, capture applies this rule to calls of `function`. Entries that exist already stay as they are."""
    with _LOCK:
        _RULES[id(function)] = (function, rule)


def rule_of(function: Any) -> Rule | None:
    """The rule a user gave for this very object, if any."""
    known = _RULES.get(id(function))
    if known is not None:
        return known[1]
    for kind, members in LOGGING.items():  # asked at every call that capture sees: most often there are none
        if members and any(f is function for f in members):
            return Rule(kind)
    return None


def is_ignored_method(function: Any, receiver: Any) -> bool:
    """Whether this method of this very object is left out: `logger.info` in ignore_logging_functions."""
    return any(
        getattr(f, "__self__", None) is receiver and getattr(f, "__func__", None) is function
        for f in LOGGING["ignore"]
    )


def register(value: Any) -> int:
    """A number with which guards and residual code find `value` again, as long as the program keeps the value."""
    number = id(value)

    def forget(gone: Any, lock: Any = _LOCK, registered: dict = _REGISTERED) -> None:
        with lock:  # and not the module's names, which are gone when the process ends
            if registered.get(number) is gone:
                del registered[number]

    with _LOCK:
        try:
            _REGISTERED[number] = weakref.ref(value, forget)
        except TypeError:  # a plain dict (a module's globals) has no weak references: it is kept for ever
            _REGISTERED[number] = lambda: value
    return number


def registered(number: int) -> Any:
    """The object that `register` gave this number."""
    return _REGISTERED[number]()


def is_registered(number: int) -> bool:
    """Whether it is the number of an object that is still there."""
    return number in _REGISTERED


def reference(number: int) -> Callable[[], Any]:
    """As `registered`, for what asks again and again: a function that gives the object, or None when it is gone."""
    return _REGISTERED[number]


# ---- what users write -----------------------------------------------------------------------------------------


@checks_options
def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A version of `fn` that is never captured. With `recursive=False`, the functions that it calls are captured, if
    compiled code calls it.

    Without `fn`, disable returns a decorator. The graph break in a caller shows `reason`.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not callable(fn):
        raise TypeError(f"disable expects a callable, but got {type(fn).__name__}")
    inner = getattr(
        fn, "_torchdynamo_orig_callable", fn
    )  # for a compiled function: the function that it was made from

    @functools.wraps(inner, updated=())
    def disabled(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    plain = None if recursive or not isinstance(inner, types.FunctionType) else _marked(inner)
    set_rule(disabled, Rule("disable", reason or "") if plain is None else Rule("plain", plain))
    return disabled


def _marked(function: types.FunctionType) -> types.FunctionType:
    """A copy of the function with a mark in its code: capture leaves frames of such code to Python."""
    code = function.__code__.replace(co_consts=(*function.__code__.co_consts, object()))
    made = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__, made.__qualname__, made.__module__ = (
        function.__kwdefaults__,
        function.__qualname__,
        function.__module__,
    )
    set_rule(code, Rule("plain", made))
    return made


def disallow_in_graph(fn: Any) -> Any:
    """Keep calls of `fn` (or of each function in a list) out of graphs: capture breaks there. Returns `fn`."""
    return _each(fn, "disallow_in_graph", lambda f: Rule("disallow"))


def allow_in_graph(fn: Any) -> Any:
    """Make each call of `fn` (tensors in, tensors out) one node of the graph. Capture does not look inside. Returns
    `fn`."""
    return _each(fn, "allow_in_graph", lambda f: Rule("allow", f))


def forbid_in_graph(fn: Any) -> Any:
    """Make capture raise RuntimeError at a call of `fn` (or of a function in a list). Returns `fn`."""
    return _each(
        fn, "forbid_in_graph", lambda f: Rule("forbid", "forbid_in_graph keeps it out; call it outside")
    )


@checks_options
def nested_compile_region(fn: Any = None) -> Any:
    """Compile a function that is called often once: calls whose graphs are equal (a model's blocks) share one set of
    kernels. Returns `fn`; without `fn`, a decorator. The results stay eager's.

    Capture follows each call. A call that cannot be a graph of its own is followed as if there were no mark: one with
    a side effect, a write to an argument, random numbers, a graph break, open sizes, or a result that is a view or
    that is not row-major. `explain()` and the log "fallback" name the reason.
    """
    if fn is None:
        return nested_compile_region
    return _each(fn, "nested_compile_region", lambda f: Rule("region"))


def nonstrict_trace(traceable_fn: Any) -> Any:
    """Make each call of a function one node, as allow_in_graph does. Its tensors may also be those of modules, and be
    in nested tuples, lists and dicts. Stage 2 traces it. Other values that it reads are constants. Returns the
    function."""
    return _each(traceable_fn, "nonstrict_trace", lambda f: Rule("nonstrict", f))


def assume_constant_result(fn: Any) -> Any:
    """Promise that `fn` returns the same value for the same arguments: capture calls it once and keeps the result.
    Returns `fn`."""
    return _each(fn, "assume_constant_result", lambda f: Rule("constant", f))


def substitute_in_graph(
    original_fn: Any, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Callable[[Any], Any]:
    """Decorator: where the program calls `original_fn` (a C function), capture follows the decorated Python function.

    Eager code still calls `original_fn`. Raises TypeError if one is not a function, or if their parameters differ
    (unless skip_signature_check=True), and ValueError if the function has a substitute already.
    """
    if not _is_function(original_fn):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)!r}")

    def register(traceable: Any) -> Any:
        if not isinstance(traceable, types.FunctionType):
            raise TypeError(f"@substitute_in_graph(...) expects a function but got {type(traceable)!r}")
        if not skip_signature_check:
            _check_signatures(original_fn, traceable)
        known = rule_of(original_fn)
        if known is not None and known.kind == "substitute":
            raise ValueError(f"Duplicate polyfilled object {original_fn}")
        set_rule(original_fn, Rule("substitute", traceable))
        return traceable

    return register


def _is_function(value: Any) -> bool:
    kinds = (
        types.FunctionType,
        types.BuiltinFunctionType,
        types.MethodDescriptorType,
        types.WrapperDescriptorType,
    )
    return isinstance(value, kinds)


def _check_signatures(original: Any, traceable: Any) -> None:
    try:
        wanted = inspect.signature(original)
    except ValueError:  # a C function without a signature
        return
    given = inspect.signature(traceable)
    seen = [_parameters(s) for s in (wanted, given)]
    if seen[0] != seen[1] and ((), {}) not in seen:
        raise TypeError(f"Signature mismatch between {original} and {traceable}: {wanted} != {given}")


def _parameters(signature: inspect.Signature) -> tuple:
    """What must agree: the names of positional parameters, and the defaults by name. *args and **kwargs accept
    anything."""
    named = [p for p in signature.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    positional = tuple(p.name for p in named if p.kind is not p.KEYWORD_ONLY)
    return positional, {p.name: p.default for p in named}


def graph_break(msg: str = "") -> None:
    """End the graph here, with `msg` as the reason. Does nothing outside of compiled code."""


def is_compiling() -> bool:
    """True in code that is being captured, and in compiled code. False in eager code."""
    return False


is_dynamo_compiling = is_compiling
set_rule(graph_break, Rule("break"))
set_rule(is_compiling, Rule("compiling"))


def _each(fn: Any, name: str, rule: Callable[[Any], Rule]) -> Any:
    if isinstance(fn, Iterable) and not callable(fn):
        return [_each(f, name, rule) for f in fn]
    if not callable(fn):
        raise TypeError(f"{name} expects a callable, but got {type(fn).__name__}")
    set_rule(fn, rule(fn))
    return fn
