"""Proxy: stands for a value while a function is traced, and records in a graph what is done with it.

Input: a tracer, which owns the graph. Functions of the language that are called with a Proxy reach it through
`__torch_function__`; Python's operators, attributes and methods through the class.
"""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

from cutaway.fx.graph import Graph
from cutaway.fx.naming import INFIX, REFLECTABLE, whole_call
from cutaway.fx.node import Node
from stage0_eager.table import overriding
from stage0_eager.tensor import Tensor
from stage_contracts.device import Device
from stage_contracts.dtype import DType
from stage_contracts.memory_format import MemoryFormat


class TraceError(ValueError):
    """The traced program asked something that only a value could answer."""


BASE_TYPES = (
    str,
    int,
    float,
    bool,
    complex,
    bytes,
    type(None),
    type(...),
    DType,
    Device,
    MemoryFormat,
    range,
)


class TracerBase:
    """Makes nodes and proxies. `create_arg` says what may be an argument of a node."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    param_shapes_constant = False

    def create_node(
        self, kind: str, target: Any, args: tuple, kwargs: dict[str, Any], name: str | None = None,
        type_expr: Any = None,
    ) -> Node:  # fmt: skip
        """Add a node to the graph. Override it to see or change each."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """The proxy of a node. Override it for a class of your own."""
        return Proxy(node, self)

    def create_proxy(
        self, kind: str, target: Any, args: tuple, kwargs: dict[str, Any], name: str | None = None,
        type_expr: Any = None, proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:  # fmt: skip
        """Add a node whose arguments may contain proxies. Returns the node's proxy."""
        words, named = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, words, named, name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Any:
        """A value as an argument of a node. Raises NotImplementedError for what cannot be one."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, (tuple, list)):
            parts = [self.create_arg(x) for x in a]
            return (
                type(a)(*parts)
                if hasattr(a, "_fields")
                else type(a)(parts)
                if type(a) in (tuple, list)
                else parts
            )
        if isinstance(a, dict):
            for key in a:
                if isinstance(key, Proxy):
                    raise RuntimeError(
                        f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {key}"
                    )
            return {k: self.create_arg(v) for k, v in a.items()}
        if isinstance(a, slice):
            return slice(*(self.create_arg(x) for x in (a.start, a.stop, a.step)))
        if isinstance(a, (*BASE_TYPES, Node)) or hasattr(a, "qualname"):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """Called when a proxy is converted to a bool (`if x:`). Raises TraceError."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Any) -> Iterator[Any]:
        """Called when a proxy is iterated over. `a, b = x` gives x[0] and x[1]; any other loop raises TraceError."""
        count = _unpacked_into(sys._getframe(2))
        if count is None:
            raise TraceError(
                "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args "
                "or **kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation "
                "of what types of control flow can be traced, and check out the Proxy docstring for help "
                "troubleshooting Proxy iteration errors"
            )
        return (obj[i] for i in range(count))

    def keys(self, obj: Any) -> Any:
        """Called for `**x`: what x.keys() gives."""
        return Attribute(obj, "keys")()

    def path_of_module(self, mod: Any) -> str:
        raise NotImplementedError("path_of_module is a method of Tracer")


def _unpacked_into(frame: Any) -> int | None:
    """The number of names that the statement which runs in `frame` unpacks a value into."""
    if frame.f_lasti < 0:
        return None
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return instruction.arg if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


class GraphAppendingTracer(TracerBase):
    """A tracer for proxies that a program makes itself: what is done with them is appended to `graph`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """Records what is done with it. `node` is its node, `tracer` its tracer."""

    node: Node
    tracer: TracerBase

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        overriding.enable()
        self.__dict__["node"] = node
        self.__dict__["tracer"] = GraphAppendingTracer(node.graph) if tracer is None else tracer

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        if k in ("node", "tracer") or (k.startswith("__") and k.endswith("__")):
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self) -> dict:
        return self.__dict__

    def __deepcopy__(self, memo: dict) -> Proxy:
        return type(self)(self.node, self.tracer)

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    def __contains__(self, item: Any) -> bool:
        raise TraceError(
            f"`{item!r} in {self!r}` needs the value of {self!r}, which is not known while tracing"
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(f"'{type(self).__name__}' object does not support item assignment")

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        tracer = next((p.tracer for p in overriding.leaves((args, kwargs)) if isinstance(p, Proxy)), None)
        if tracer is None:
            return orig_method(*args, **kwargs)
        name = getattr(orig_method, "__name__", "")
        if name and getattr(Tensor, name, None) is orig_method and not hasattr(orig_method, "qualname"):
            return tracer.create_proxy("call_method", name, args, kwargs)
        args, kwargs = whole_call(orig_method, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


class Attribute(Proxy):
    """`x.name` of a proxy: a call of getattr, unless it is called itself, which is a call of the method."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.__dict__.update(root=root, attr=attr, tracer=root.tracer, _node=None)

    @property
    def node(self) -> Node:  # type: ignore[override]
        # the node is made when it is first needed: most attributes are methods that are called
        if self.__dict__["_node"] is None:
            self.__dict__["_node"] = self.tracer.create_proxy(
                "call_function", getattr, (self.root, self.attr), {}
            ).node
        return self.__dict__["_node"]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter, whose shape and dtype are known while tracing (Tracer(param_shapes_constant=True))."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.__dict__.update(param=param, name=name)

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        return self.param.shape

    @property
    def ndim(self) -> int:
        return self.param.ndim

    def size(self, *args: Any) -> Any:
        return self.param.size(*args)

    def dim(self) -> int:
        return self.param.dim()

    def numel(self) -> int:
        return self.param.numel()

    def nelement(self) -> int:
        return self.param.nelement()


def _recording(function: Any, swapped: bool = False) -> Callable[..., Any]:
    def record(self: Proxy, *others: Any) -> Any:
        args = (*others, self) if swapped else (self, *others)
        return self.tracer.create_proxy("call_function", function, args, {})

    return record


for _function in (*INFIX, operator.abs):
    setattr(Proxy, f"__{_function.__name__.strip('_')}__", _recording(_function))
for _name in REFLECTABLE:
    setattr(Proxy, f"__r{_name.strip('_')}__", _recording(getattr(operator, _name), swapped=True))
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]
