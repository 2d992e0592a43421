"""Tracer: runs a module's forward, or a function, on proxies, and gives the graph of what was done with them.

Input: the module or function. Layers of torch.nn become `call_module` nodes; other modules are followed. While a trace
runs, calls of modules, readings of parameters, the language's plain functions and those given to `wrap` are recorded.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from cutaway.fx import naming
from cutaway.fx.graph import Graph
from cutaway.fx.graph_module import GraphModule
from cutaway.fx.proxy import ParameterProxy, Proxy, TracerBase
from stage0_eager.nn import Module, Parameter, Sequential
from stage0_eager.table import overriding
from stage0_eager.tensor import Tensor

_TRACING = threading.local()
_PATCHING = threading.RLock()  # one trace at a time: what it replaces is replaced for the whole process


def is_fx_tracing() -> bool:
    """Whether this thread runs a Tracer's trace."""
    return getattr(_TRACING, "depth", 0) > 0


class Tracer(TracerBase):
    """Override is_leaf_module, call_module, create_arg, create_proxy, ... for a tracer of your own.

    autowrap_modules: each function of these modules becomes one node, when it is called by a name of its own
    (`from math import sqrt`) or as `math.sqrt`. autowrap_functions: further functions.
    """

    def __init__(
        self, autowrap_modules: tuple[types.ModuleType, ...] = (math,), autowrap_functions: tuple[Callable, ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:  # fmt: skip
        self._autowrap_search = list(autowrap_modules)
        self._autowrap_function_ids = {
            id(v)
            for m in autowrap_modules
            for n, v in vars(m).items()
            if callable(v) and not n.startswith("_")
        } | {id(f) for f in autowrap_functions}
        self.param_shapes_constant = param_shapes_constant
        self.root: Module = Module()
        self.root_module_name = ""
        self.tensor_attrs: dict[int, str] = {}
        self.submodule_paths: dict[int, str] = {}
        self._kept: list[Any] = []

    # ---- what may be overridden --------------------------------------------------------------------------------

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a module becomes one node: the layers of torch.nn do, except Sequential."""
        return type(m).__module__.startswith("stage0_eager.nn") and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The path of a module below the root. Raises NameError for a module that is not there."""
        path = self.submodule_paths.get(id(mod))
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """What a call of a module gives: a node's proxy for a leaf, else what `forward` gives."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What reading `attr` of a module gives: a parameter's proxy (and, with proxy_buffer_attributes, a
        buffer's), else the value itself."""
        found: Any = None
        if isinstance(attr_val, Parameter):
            found = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            found = self.root.named_buffers()
        for name, value in found or ():
            if value is attr_val:
                if name not in parameter_proxy_cache:
                    parameter_proxy_cache[name] = self._proxy_of(name, value)
                return parameter_proxy_cache[name]
        return attr_val

    def _proxy_of(self, name: str, value: Any) -> Proxy:
        if not self.param_shapes_constant:
            return self.create_proxy("get_attr", name, (), {})
        made = lambda node: ParameterProxy(self, node, name, value)  # noqa: E731
        return self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=made)

    def create_arg(self, a: Any) -> Any:
        """Tensors, parameters and modules become readings of the root's attributes; else as in TracerBase."""
        if isinstance(a, Tensor):
            return self.create_node("get_attr", self._path_of_tensor(a), (), {})
        if isinstance(a, Module):
            return self.create_node("get_attr", self.path_of_module(a), (), {})
        return super().create_arg(a)

    def _path_of_tensor(self, a: Tensor) -> str:
        if isinstance(a, Parameter):
            found = next((n for n, p in self.root.named_parameters() if p is a), None)
            if found is None:
                raise NameError("parameter is not a member of this module")
            return found
        path = self.tensor_attrs.get(id(a)) or next((n for n, b in self.root.named_buffers() if b is a), None)
        if path is None:
            number = next(i for i in range(sys.maxsize) if not hasattr(self.root, f"_tensor_constant{i}"))
            path = f"_tensor_constant{number}"
            object.__setattr__(self.root, path, a)
            self.tensor_attrs[id(a)] = path
            self._kept.append(a)
        return path

    # ---- tracing -----------------------------------------------------------------------------------------------

    def create_args_for_root(
        self, root_fn: Any, is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list]:
        """The function to run, and its arguments: a placeholder's proxy for each parameter, or its concrete value."""
        fn = inspect.unwrap(root_fn)
        code, annotations = fn.__code__, fn.__annotations__
        if code.co_kwonlyargcount:
            raise RuntimeError(
                "Tracing functions with keyword-only arguments is not supported; give them a place"
            )
        names = list(code.co_varnames[: code.co_argcount])
        args: list[Any] = [self.root] if is_module else []
        if is_module and not names:
            raise RuntimeError("``self`` argument cannot be part of *args expansion!")
        parameters = inspect.signature(fn).parameters
        for name in names[is_module:]:
            default = parameters[name].default
            words = () if default is inspect.Parameter.empty else (default,)
            if concrete_args is not None and name in concrete_args:
                args.append(self._specialized(name, concrete_args[name], words))
            else:
                args.append(
                    self.create_proxy("placeholder", name, words, {}, type_expr=annotations.get(name))
                )
        extra = code.co_varnames[code.co_argcount :]
        for flag, star in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
            if code.co_flags & flag:
                args.append(self.create_proxy("placeholder", star + extra[0], (), {}))
                extra = extra[1:]
        return (_with_stars(fn) if len(args) > len(names) else root_fn), args

    def _specialized(self, name: str, value: Any, default: tuple) -> Any:
        """A parameter whose value is given: an input that is checked, but not read."""
        if isinstance(value, (tuple, list, dict)):
            raise NotImplementedError(
                f"concrete_args: {name} is a {type(value).__name__}; give numbers, bools, strings or None"
            )
        if isinstance(value, PH):
            return self.create_proxy("placeholder", f"{name}_1", default, {})
        placed: Any = self.create_proxy("placeholder", f"{name}_1", default, {})
        if value is None:
            said = f"{name} has been specialized to have value None but got another value"
            self.create_proxy("call_function", _assert_is_none, (placed, said), {})
        elif isinstance(value, (bool, int, float, str)):
            said = f"{name} has been specialized to have value {value} but got another value"
            self.create_proxy("call_function", _assert_of(), (placed == value, said), {})
        else:
            warnings.warn(f"Was not able to add assertion to guarantee correct input {name} to specialized function. "
                          "It is up to the user to make sure that your inputs match the inputs you specialized the "
                          "function with.", stacklevel=2)  # fmt: skip
        return value

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of `root`. concrete_args: the values of parameters that are not inputs, by name.

        Raises TraceError where the program asks for a value that only data could give.
        """
        is_module = isinstance(root, Module)
        self.graph = Graph(tracer_cls=type(self))
        if isinstance(root, Module):
            self.root, fn = root, getattr(type(root), self.traced_func_name)
            self.root_module_name = type(root).__name__
            self.submodule_paths = {id(m): name for name, m in root.named_modules()}
        else:
            self.root, fn = Module(), root
        self.tensor_attrs = _tensors_of(self.root)
        with ExitStack() as patches:
            patches.enter_context(_patched(self))
            patches.enter_context(_wrapped_names(self, fn))
            fn, args = self.create_args_for_root(fn, is_module, concrete_args)
            result = self.create_arg(fn(*args))
            annotated = getattr(fn, "__annotations__", {}).get("return")
            self.create_node("output", "output", (result,), {}, type_expr=annotated)
        return self.graph


class PH:
    """For concrete_args: the parameter stays an input."""

    def __repr__(self) -> str:
        return "PH"


def _assert_is_none(value: Any, msg: str) -> None:
    assert value is None, msg


def _assert(condition: Any, message: Any) -> None:
    assert condition, message


def _assert_of() -> Callable[..., None]:
    module = naming.MODULES.get("torch")
    return _assert if module is None else module._assert


def _with_stars(function: Any) -> Any:
    """The function, of which *args and **kwargs are one plain parameter each."""
    code = function.__code__
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    plain = code.replace(co_argcount=code.co_argcount + stars, co_flags=flags)
    made = types.FunctionType(plain, function.__globals__, function.__name__, None, function.__closure__)
    return made


def _tensors_of(root: Module) -> dict[int, str]:
    """Tensors that are plain attributes of modules, neither parameters nor buffers: id -> path."""
    return {
        id(value): f"{path}.{name}" if path else name
        for path, module in root.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, Tensor)
    }


# ---- what is replaced while a trace runs ---------------------------------------------------------------------------


@contextmanager
def _patched(tracer: Tracer) -> Iterator[None]:
    """Calls of modules, readings of their parameters and plain functions of the language go to the tracer, in this
    thread."""
    call, get, here = Module.__call__, Module.__getattr__, threading.get_ident()
    cache: dict[str, Any] = {}

    def module_call(mod: Module, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != here:
            return call(mod, *args, **kwargs)
        forward = functools.partial(call, mod)
        _autowrap(tracer, getattr(getattr(mod, "forward", mod), "__globals__", {}))
        return tracer.call_module(mod, forward, args, kwargs)

    def module_getattr(mod: Module, name: str) -> Any:
        value = get(mod, name)
        return value if threading.get_ident() != here else tracer.getattr(name, value, cache)

    with _PATCHING, _plain_functions_recorded():
        Module.__call__, Module.__getattr__ = module_call, module_getattr  # type: ignore
        _TRACING.depth = getattr(_TRACING, "depth", 0) + 1
        try:
            yield
        finally:
            _TRACING.depth -= 1
            Module.__call__, Module.__getattr__ = call, get  # type: ignore
            _RESTORE.pop_all(tracer)


class _Restoring:
    """Names in the globals of traced files that a trace replaced."""

    def __init__(self) -> None:
        self.by_tracer: dict[int, list[tuple[dict, str, Any]]] = {}

    def put(self, tracer: Tracer, names: dict[str, Any], name: str, value: Any) -> None:
        self.by_tracer.setdefault(id(tracer), []).append((names, name, names.get(name, _NOTHING)))
        names[name] = value

    def pop_all(self, tracer: Tracer) -> None:
        for names, name, before in reversed(self.by_tracer.pop(id(tracer), [])):
            if before is _NOTHING:
                del names[name]
            else:
                names[name] = before


_NOTHING = object()
_RESTORE = _Restoring()


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that makes a call with a proxy one node."""

    @functools.wraps(function, updated=())
    def record(*args: Any, **kwargs: Any) -> Any:
        proxy = next((leaf for leaf in overriding.leaves((args, kwargs)) if isinstance(leaf, Proxy)), None)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    record._fx_records = True  # type: ignore[attr-defined]
    return record


@contextmanager
def _wrapped_names(tracer: Tracer, fn: Any) -> Iterator[None]:
    for names, name in list(_TO_WRAP):
        original = names.get(name) or getattr(__import__("builtins"), name, None)
        if original is not None and not hasattr(original, "_fx_records"):
            _RESTORE.put(tracer, names, name, _recorded(original))
    _autowrap(tracer, getattr(fn, "__globals__", {}))
    for module in tracer._autowrap_search:
        for name, value in list(vars(module).items()):
            if not name.startswith("_") and callable(value) and not hasattr(value, "_fx_records"):
                _RESTORE.put(tracer, vars(module), name, _recorded(value))
    yield


def _autowrap(tracer: Tracer, names: dict[str, Any]) -> None:
    """Record the calls that a file makes, by names of its own, of the functions that the tracer wraps."""
    for name, value in list(names.items()):
        if id(value) in tracer._autowrap_function_ids and not name.startswith("_") and callable(value):
            _RESTORE.put(tracer, names, name, _recorded(value))


_TO_WRAP: list[tuple[dict[str, Any], str]] = []


def wrap(fn_or_name: str | Callable) -> Any:
    """Make a function one node of every trace. Call it at the top of a file, `wrap("len")` or `wrap(my_function)`, or
    use it as a decorator."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            f"Unsupported type for global function! Must be either a callable or string name, got {fn_or_name!r}"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _TO_WRAP.append((frame.f_globals, name))
    return fn_or_name


@contextmanager
def _plain_functions_recorded() -> Iterator[None]:
    """Plain functions of the language record a call with a proxy, under whatever name a file has imported them.

    Operators do so by themselves (`overriding`). A function is given another code object meanwhile.
    """
    changed: list[tuple[Any, types.CodeType]] = []
    for function in _plain_functions():
        if not hasattr(function, "_fx_code"):
            changed.append((function, function.__code__))
            function.__code__ = _recording_code(function)
    try:
        yield
    finally:
        for function, code in changed:
            function.__code__ = code


def _plain_functions() -> list[types.FunctionType]:
    found: dict[int, types.FunctionType] = {}
    for path in _OF_TENSORS:
        for name, value in vars(naming.MODULES[path]).items() if path in naming.MODULES else ():
            if (
                type(value) is types.FunctionType
                and (name[0] != "_" or name == "_assert")
                and name not in _NOT_OF_TENSORS
            ):
                found[id(value)] = value
    return list(found.values())


_OF_TENSORS = ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft")
_NOT_OF_TENSORS = {"compile", "is_tensor", "save", "load", "typename", "vmap"}


def _recording_code(function: types.FunctionType) -> types.CodeType:
    """Code with the function's free variables that records a call with a proxy, and else runs what the function did."""
    original = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    original.__kwdefaults__ = function.__kwdefaults__

    def hook(args: tuple, kwargs: dict[str, Any]) -> Any:
        result = overriding.NOT_OVERRIDDEN
        if overriding.overriding_types(args, kwargs):
            result = overriding.answer(function, *naming.whole_call(function, args, kwargs, original))
        return original(*args, **kwargs) if result is overriding.NOT_OVERRIDDEN else result

    free = function.__code__.co_freevars
    if free not in _TEMPLATES:
        held = "".join(f"        {name}\n" for name in free)
        text = (
            f"def make({', '.join(free)}):\n"
            "    def call(*args, **kwargs):\n        hook = '__hook__'\n        return hook(args, kwargs)\n"
            f"{held}    return call\n"
        )
        names: dict[str, Any] = {}
        exec(text, names)
        _TEMPLATES[free] = names["make"](*[None] * len(free)).__code__
    code = _TEMPLATES[free]
    consts = tuple(hook if c == "__hook__" else c for c in code.co_consts)
    return code.replace(co_consts=consts, co_name=function.__code__.co_name)


_TEMPLATES: dict[tuple[str, ...], types.CodeType] = {}


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """A GraphModule that does what `root`, a module or a function, does. concrete_args: values of parameters that are
    not inputs, by name."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "GraphModule")
    return GraphModule(tracer.root, graph, name)
