"""Stage 1 on one screen: run a function's bytecode on stand-ins for its tensors, and write down what was seen.

Input: a function and the arguments of one call. Read `capture`, `read` (which makes the guards), `residual` (what runs
instead), `run` with the table of opcodes, `call`, `attribute`. The language: straight lines over tensors, numbers,
functions and modules (inlined). All else, loops and branches on data included, is a break.
"""

from __future__ import annotations

import dis
import inspect
import linecache
import operator as python
import sys
import types
from dataclasses import dataclass
from typing import Any, NoReturn

from stage0_eager import TABLE, is_grad_enabled
from stage0_eager.nn import Module, Parameter
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor
from stage_contracts import breaks, dtype, graph
from stage_contracts.capture import CapturedFrame
from stage_contracts.graph import Node
from stage_contracts.guards import Guard, TensorOf
from stage_contracts.origin import Origin
from stage_contracts.signature import signature_text
from stage_contracts.sizes import STATIC, SizePolicy
from stage_contracts.source import ArgSource, AttrSource, FunctionSource, ItemSource, Source


@dataclass(frozen=True, eq=False)
class Object:
    """Any value but a tensor (which is a Node), and how to reach it again. No source: the library's own, no guards."""

    real: Any
    source: Source | None = None
    receiver: Any = None  # of a bound method


CONSTANTS = (int, float, str, bool, type(None), type(...), dtype.DType)
SAME = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, Operator, Module)
# What Python calls it, the operator, the operator with its operands exchanged.
BINARY = {"+": "add add add", "-": "sub sub rsub", "*": "mul mul mul", "/": "truediv div rdiv", "**": "pow pow rpow",
          "@": "matmul matmul ?", "<": "lt lt gt", "<=": "le le ge", ">": "gt gt lt", ">=": "ge ge le"}  # fmt: skip


def capture(function: Any, args: tuple, kwargs: dict[str, Any], policy: SizePolicy = STATIC) -> CapturedFrame:
    """The seam: one call's graph, guards and residual code. Your function is never run; no size is left open."""
    c, fields = Capture(function), dict[str, Any](graph=None, inputs=(), residual=None)
    try:
        given = inspect.signature(function, follow_wrapped=False).bind(*args, **kwargs).arguments
        local = {name: c.read(value, ArgSource(name)) for name, value in given.items()}
        result = c.run(Object(function, FunctionSource(function.__name__)), local)
        fields |= c.residual(result) if c.graph.calls else {}
    except breaks.Unsupported as stop:
        fields["breaks"] = (stop.graph_break,)
    except Exception as error:  # the user's mistake, such as shapes that do not fit: eager raises it
        fields["breaks"] = (breaks.GraphBreak("GB0066", f"{type(error).__name__}: {error}", c.origin),)
    return CapturedFrame(function.__qualname__, function.__code__, guards=tuple(c.guards.values()), **fields)


class Capture:
    def __init__(self, function: types.FunctionType) -> None:
        self.function, self.graph = function, graph.Graph()
        self.origin = Origin(function.__code__.co_filename, function.__code__.co_firstlineno)
        self.guards: dict[Any, Guard] = {None: Guard("GRAD_MODE", None, is_grad_enabled(), self.origin)}
        self.inputs: dict[Source, Node] = {}

    def stop(self, reason: str, code: str) -> NoReturn:
        raise breaks.Unsupported(reason, self.origin, code=code)

    def guard(self, kind: str, source: Source | None, expected: Any, epoch: bool = False) -> None:
        if source is not None:
            self.guards.setdefault((kind, source), Guard(kind, source, expected, self.origin, epoch))

    def read(self, real: Any, source: Source | None, epoch: bool = False) -> Any:
        """The abstract value of a real one, and its guard. `epoch`: a module holds it, and will tell of a change."""
        if type(real) in (Tensor, Parameter) and source is not None:
            wanted = TensorOf(type(real), real.meta)
            self.guard("TENSOR", source, wanted, epoch and isinstance(real, Parameter))
            if source not in self.inputs:
                self.inputs[source] = self.graph.placeholder(
                    str(source).split(".")[-1], real.meta, source=source
                )
            return self.inputs[source]
        if type(real) not in CONSTANTS and not isinstance(real, SAME):
            self.stop(f"{source} is a {type(real).__name__}", "GB0005")
        self.guard("EQUALS" if type(real) in (int, float, str) else "IDENTITY", source, real, epoch)
        return Object(real, None if _is_ours(real) else source)

    def residual(self, result: Any) -> dict[str, Any]:
        """Close the graph, and write what runs in the function's place: gather inputs, call, rebuild the result."""
        outputs: dict[Node, int] = {}
        names: dict[str, Any] = {"__function__": self.function}

        def text(value: Any) -> str:
            if isinstance(value, (tuple, list)):
                words = "".join(f"{text(item)}, " for item in value)
                return f"[{words}]" if isinstance(value, list) else f"({words})"
            source = value.meta.get("source") if isinstance(value, Node) else getattr(value, "source", None)
            if source is not None and getattr(value, "receiver", None) is None:
                return source.expression()
            if isinstance(value, Node):
                return f"__outputs[{outputs.setdefault(value, len(outputs))}]"
            names[f"__constant_{len(names)}"] = self.plain(value)
            return f"__constant_{len(names) - 1}"

        value = text(result)
        for unused in [n for n in self.graph.placeholders if not n.users]:
            self.graph.erase_node(unused)
        self.graph.output(list(outputs))
        inputs = tuple(n.meta["source"] for n in self.graph.placeholders)
        gather = f"__outputs = __compiled_graph_0({', '.join(s.expression() for s in inputs)})"
        body = f"def residual({signature_text(self.function)[0]}):\n    {gather}\n    return {value}\n"
        code = compile(body, "<residual>", "exec").co_consts
        fields = {"residual": next(c for c in code if isinstance(c, types.CodeType)), "residual_source": body}
        return {"graph": self.graph.verify(), "inputs": inputs, "residual_globals": names, **fields}

    def run(self, function: Object, local: dict[str, Any]) -> Any:
        """Interpret a function, instruction by instruction. A call in it comes back here: that is inlining."""
        f = types.SimpleNamespace(function=function, local=local, stack=[], at=0, names=())
        code = function.real.__code__
        f.program = list(dis.get_instructions(code))
        if code.co_exceptiontable or len(local) < code.co_argcount + code.co_kwonlyargcount:
            self.stop("a try or with block, a comprehension, or a parameter left to its default", "GB0001")
        while True:
            i = f.program[f.at]
            f.at += 1
            if function.source and i.positions:  # else a line of the library's, which the user did not write
                line = linecache.getline(code.co_filename, i.positions.lineno or 0)
                span = i.positions.col_offset or 0, i.positions.end_col_offset or 0
                self.origin = Origin(code.co_filename, i.positions.lineno or 0, line[slice(*span)], *span)
            if i.opname not in OPCODES:
                self.stop(f"the instruction {i.opname}", "GB0001")
            OPCODES[i.opname](self, f, i)
            if i.opname.startswith("RETURN"):
                return f.stack.pop()

    def defaults(
        self, real: types.FunctionType, source: Source | None, bound: dict[str, Any]
    ) -> dict[str, Any]:
        """The parameters that a call leaves out. Those after `*` are in a dict, which may be written to: guard each."""
        left = [p for p in inspect.signature(real).parameters.values() if p.name not in bound]
        keywords = source and AttrSource(source, "__kwdefaults__")
        return {
            p.name: self.read(p.default, keywords and ItemSource(keywords, p.name))
            if p.kind == p.KEYWORD_ONLY
            else constant(p.default)
            for p in left
        }

    def call(self, function: Any, args: list, kwargs: dict[str, Any]) -> Any:
        real, source = getattr(function, "real", None), getattr(function, "source", None)
        if isinstance(function, Object) and function.receiver is not None:
            args = [function.receiver, *args]
        if isinstance(real, types.FunctionType):
            self.guard("IDENTITY", source and AttrSource(source, "__defaults__"), real.__defaults__)
            bound = inspect.signature(real).bind(*args, **kwargs).arguments
            return self.run(function, bound | self.defaults(real, source, bound))
        if isinstance(real, Module) and not (real._forward_hooks or real._forward_pre_hooks):
            for hooks in ("_forward_hooks", "_forward_pre_hooks"):
                self.guard("KEYS", source and AttrSource(source, hooks), (), epoch=True)
            return self.call(self.attribute(function, "forward"), args, kwargs)
        if not isinstance(real, Operator) or real.mutates:
            self.stop(f"a call of {getattr(real, '__name__', real)}", "GB0002")
        nodes, options = self.plain(args), self.plain(kwargs)
        metas, words = graph.map_args((nodes, options), lambda node: node.meta["val"])
        node = self.graph.call_function(real, nodes, options, val=real.meta(*metas, **words))
        node.meta["origins"] = (self.origin,)
        return node

    def plain(self, value: Any) -> Any:
        """Abstract to plain: nodes stay nodes, Objects become the constants they hold."""
        if isinstance(value, dict):
            return {key: self.plain(item) for key, item in value.items()}
        if isinstance(value, (tuple, list)):
            return type(value)(map(self.plain, value))
        if isinstance(value, Node):
            return value
        if type(value.real) not in CONSTANTS or value.receiver is not None:
            self.stop(f"{value.real} where a tensor or a constant is needed", "GB0069")
        return value.real

    def binary(self, symbol: str, left: Any, right: Any) -> Any:
        if symbol not in BINARY:
            self.stop(f"the operator {symbol}", "GB0038")
        name, op, exchanged = BINARY[symbol].split()
        if not isinstance(left, Node) and not isinstance(right, Node):
            return Object(getattr(python, name)(self.plain(left), self.plain(right)))
        left, right, op = (left, right, op) if isinstance(left, Node) else (right, left, exchanged)
        return self.call(Object(TABLE[f"cutaway.{op}"]), [left, right], {})

    def attribute(self, value: Any, name: str) -> Any:
        """`value.name`: a fact of a tensor, an operator that is its method, or what a module holds."""
        if isinstance(value, Node):
            found = inspect.getattr_static(Tensor, name, None)
            if isinstance(found, Operator):
                return Object(found, None, value)
            self.stop(f"the attribute {name} of a tensor", "GB0022")
        real, child = value.real, value.source and AttrSource(value.source, name)
        homes = [vars(real)] if isinstance(real, (types.ModuleType, Module)) else []
        homes += [real._parameters, real._buffers, real._modules] if isinstance(real, Module) else []
        for home in homes:
            if name in home:
                return self.read(home[name], child, epoch=isinstance(real, Module))
        method = inspect.getattr_static(type(real), name, None)
        if isinstance(real, Module) and isinstance(method, types.FunctionType):
            source = child and AttrSource(child, "__func__")
            self.guard("IDENTITY", source, method, epoch=_is_ours(method))
            return Object(method, None if _is_ours(method) else source, value)
        self.stop(f"the attribute {name} of {real}", "GB0022")


def _is_ours(function: Any) -> bool:
    """A function of the library's: nothing in it needs a guard, and its lines are not the user's."""
    return isinstance(function, types.FunctionType) and function.__module__.startswith("stage0_eager.")


def load_global(c: Capture, f: Any, i: Any) -> None:
    names, home = (
        f.function.real.__globals__,
        f.function.source and AttrSource(f.function.source, "__globals__"),
    )
    if i.argval not in names:
        c.stop(f"the builtin {i.argval}", "GB0002")
    f.stack += [None, c.read(names[i.argval], home and ItemSource(home, i.argval))][not i.arg & 1 :]


def load_deref(c: Capture, f: Any, i: Any) -> None:
    index = f.function.real.__code__.co_freevars.index(i.argval)
    home = f.function.source and ItemSource(AttrSource(f.function.source, "__closure__"), index)
    cell = f.function.real.__closure__[index]
    f.stack.append(c.read(cell.cell_contents, home and AttrSource(home, "cell_contents")))


def load_attr(c: Capture, f: Any, i: Any) -> None:
    with_null = i.opname == "LOAD_METHOD" or (sys.version_info >= (3, 12) and i.arg & 1)
    f.stack += [None, c.attribute(f.stack.pop(), i.argval)][not with_null :]


def call(c: Capture, f: Any, i: Any) -> None:
    names = c.plain(f.stack.pop()) if i.opname == "CALL_KW" else f.names
    a, b, *args = popn(f, i.arg + 2)  # one of the two is NULL, and which one depends on the version
    split = len(args) - len(names)
    f.names, value = (), c.call(a or b, args[:split], dict(zip(names, args[split:])))
    f.stack.append(value)


def jump_if(c: Capture, f: Any, i: Any) -> None:
    condition = f.stack.pop()
    if isinstance(condition, Node):
        c.stop("a branch on the elements of a tensor", "GB0003")
    # The condition is known now, and guarded: the other branch needs no code.
    if bool(c.plain(condition)) is i.opname.endswith("TRUE"):
        f.at = next(at for at, other in enumerate(f.program) if other.offset == i.argval)


def constant(value: Any) -> Any:
    return tuple(map(constant, value)) if isinstance(value, tuple) else Object(value)


def popn(f: Any, count: int) -> list:
    taken, f.stack[len(f.stack) - count :] = f.stack[len(f.stack) - count :], []
    return taken


# Each takes the capture, the frame under way and the instruction.
OPCODES: dict[str, Any] = {
    **dict.fromkeys("RESUME NOP COPY_FREE_VARS PRECALL EXTENDED_ARG RETURN_VALUE".split(), lambda c, f, i: None),
    **dict.fromkeys(("LOAD_CONST", "RETURN_CONST"), lambda c, f, i: f.stack.append(constant(i.argval))),
    "PUSH_NULL": lambda c, f, i: f.stack.append(None),
    "POP_TOP": lambda c, f, i: f.stack.pop(),
    "LOAD_FAST": lambda c, f, i: f.stack.append(f.local[i.argval]),
    "LOAD_FAST_LOAD_FAST": lambda c, f, i: f.stack.extend(f.local[name] for name in i.argval),
    "STORE_FAST": lambda c, f, i: f.local.update({i.argval: f.stack.pop()}),
    "STORE_FAST_LOAD_FAST": lambda c, f, i: (
        f.local.update({i.argval[0]: f.stack.pop()}), f.stack.append(f.local[i.argval[1]])),
    "LOAD_GLOBAL": load_global, "LOAD_DEREF": load_deref, "LOAD_ATTR": load_attr, "LOAD_METHOD": load_attr,
    "BINARY_OP": lambda c, f, i: f.stack.append(c.binary(i.argrepr, *popn(f, 2))),
    "COMPARE_OP": lambda c, f, i: f.stack.append(c.binary(i.argval, *popn(f, 2))),
    "UNARY_NEGATIVE": lambda c, f, i: f.stack.append(c.call(Object(TABLE["cutaway.neg"]), popn(f, 1), {})),
    "BUILD_TUPLE": lambda c, f, i: f.stack.append(tuple(popn(f, i.arg))),
    "BUILD_LIST": lambda c, f, i: f.stack.append(popn(f, i.arg)),
    "KW_NAMES": lambda c, f, i: setattr(f, "names", f.function.real.__code__.co_consts[i.arg]),
    "CALL": call, "CALL_KW": call, "TO_BOOL": lambda c, f, i: None,
    **dict.fromkeys((f"POP_JUMP_{way}IF_{it}" for way in ("", "FORWARD_") for it in ("TRUE", "FALSE")), jump_if),
}  # fmt: skip
