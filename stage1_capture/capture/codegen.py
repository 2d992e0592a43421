"""Residual code: what runs in place of the user's function, as Python source and as a code object.

Input: the abstract return value and the finished graph. The text gathers the graph's inputs by their
sources, calls the compiled graph, and builds the return value; its parameters and free variables are the
user's own.
"""

from __future__ import annotations

import math
import types
from collections import Counter
from collections.abc import Callable
from typing import Any

from stage1_capture.capture.gather import gather
from stage1_capture.capture.numbers import NumberVariable
from stage1_capture.capture.output_graph import OutputGraph
from stage1_capture.capture.signature import fresh_name, signature_text
from stage1_capture.capture.variables import (
    ConstantVariable,
    ConstDictVariable,
    LazyVariable,
    ListVariable,
    SliceVariable,
    TensorVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    Variable,
    describe,
    realize,
)
from stage_contracts.controls import registered
from stage_contracts.graph import Node
from stage_contracts.source import (
    ArgSource,
    AttrSource,
    ClosureSource,
    FunctionSource,
    ItemSource,
    RegisteredSource,
    Source,
)

_INLINE = (bool, int, str, bytes, type(None))


class PyCodegen:
    """Writes the residual function of one capture. Named as in Dynamo, which writes bytecode here."""

    def __init__(self, output: OutputGraph, function: types.FunctionType, graph_name: str) -> None:
        self.output, self.function, self.graph_name = output, function, graph_name
        self.globals: dict[str, Any] = {}
        self.outputs: dict[Node, int] = {}  # what the graph returns, each node once
        self.lines: list[str] = []
        self.before: list[str] = []  # what is computed before the graph runs
        self.shared: dict[int, str] = {}  # containers that occur twice in the result -> their local name
        self.seen: Counter[int] = Counter()
        self.open: set[int] = set()  # containers being walked: one inside itself cannot be written
        taken = {*function.__code__.co_varnames, *function.__code__.co_freevars}
        self.name_of: Callable[[str], str] = lambda base: fresh_name(base, taken)
        self.outputs_name = self.name_of("outputs")

    def generate(self, result: Variable) -> tuple[str, types.CodeType]:
        """The source of the residual function, and its code."""
        self._count(result)
        value = self._expression(result)
        self.output.graph.output(list(self.outputs))
        sources = [n.meta["source"] for n in self.output.graph.placeholders]
        lines, arguments, needed = gather(sources, self.output.kept_inputs(), self.source, self.name_of)
        self.before += lines
        self.globals |= needed
        call = f"{self.graph_name}({arguments})"
        if self.outputs:
            call = f"{self.outputs_name} = {call}"
        signature, bound = signature_text(self.function)
        name = self.function.__name__ if self.function.__name__.isidentifier() else "residual"
        text = (
            "\n    ".join([f"def {name}({signature}):", *self.before, call, *self.lines, f"return {value}"])
            + "\n"
        )
        return text, _compile(text, name, self.function, bound)

    def source(self, source: Source) -> str:
        """How residual code reaches a value: as guards do, but closures by their own names."""
        match source:
            case ClosureSource(name=name):
                return name
            case AttrSource(base=base, name=name):
                return f"{self.source(base)}.{name}"
            case ItemSource(base=base, key=key):
                return f"{self.source(base)}[{key!r}]"
            case FunctionSource():
                self.globals["__function__"] = self.function
            case RegisteredSource():
                self.globals["registered"] = registered
        return source.expression()

    # ---- the return value ------------------------------------------------------------------------

    def _count(self, value: Variable) -> None:
        """Find containers that the result holds more than once: they must stay one object."""
        if isinstance(value, LazyVariable) or value.source is not None or not _children(value):
            return
        if id(value) in self.open:
            self.output.unsupported("GB0001", f"returning {describe(value)} that contains itself")
        self.seen[id(value)] += 1
        if self.seen[id(value)] == 1:
            self.open.add(id(value))
            for child in _children(value):
                self._count(child)
            self.open.remove(id(value))

    def _expression(self, value: Variable) -> str:
        """Python that makes the value when the graph has run."""
        if isinstance(value, LazyVariable) and isinstance(value.value, NumberVariable):
            value = value.value
        if isinstance(value, NumberVariable) and not isinstance(value.source, ArgSource):
            assert value.source is not None
            name = self.name_of(f"number_{len(self.before)}")
            self.before.append(f"{name} = {self.source(value.source)}")  # the arguments may change later
            return name
        if value.source is not None:
            return self.source(value.source)
        value = realize(value)
        if id(value) in self.shared:
            return self.shared[id(value)]
        text = self._fresh_expression(value)
        if self.seen[id(value)] > 1:
            name = self.shared[id(value)] = self.name_of(f"value_{len(self.shared)}")
            self.lines.append(f"{name} = {text}")
            return name
        return text

    def _fresh_expression(self, value: Variable) -> str:
        match value:
            case TensorVariable(node=node) if node is not None:
                index = self.outputs.setdefault(node, len(self.outputs))
                return f"{self.outputs_name}[{index}]"
            case ConstantVariable(value=constant):
                return self._constant(constant)
            case TupleVariable(items=items, kind=kind) if kind is not tuple:
                return f"{self._named(kind)}({', '.join(map(self._expression, items))})"
            case TupleVariable(items=items):
                return f"({', '.join(map(self._expression, items))}{',' * (len(items) == 1)})"
            case ListVariable(items=items):
                return f"[{', '.join(map(self._expression, items))}]"
            case ConstDictVariable(items=entries, kind=kind) if kind is dict:
                words = [f"{self._constant(k)}: {self._expression(v)}" for k, v in entries.items()]
                return f"{{{', '.join(words)}}}"
            case SliceVariable(items=items):
                return f"{self._named(slice)}({', '.join(map(self._expression, items))})"
            case UserDefinedObjectVariable(real=real):
                return self._named(real)
        self.output.unsupported("GB0001", f"returning {describe(value)}")

    def _constant(self, value: Any) -> str:
        plain = type(value) in _INLINE or (type(value) is float and math.isfinite(value))
        return repr(value) if plain else self._named(value)

    def _named(self, value: Any) -> str:
        """An object the text cannot spell: a global of the residual code."""
        for name, known in self.globals.items():
            if known is value:
                return name
        name = self.name_of(f"__constant_{len(self.globals)}")
        self.globals[name] = value
        return name


def _children(value: Variable) -> list[Variable]:
    match value:
        case ListVariable(items=items) | TupleVariable(items=items):
            return items
        case ConstDictVariable(items=entries):
            return list(entries.values())
    return []


def _compile(text: str, name: str, function: types.FunctionType, bound: dict[str, Any]) -> types.CodeType:
    """The code object of `text`, compiled inside a function that has the free variables as its locals."""
    free = function.__code__.co_freevars
    defaults = [n for n in bound if n.startswith("__default_")]
    inner = "\n".join("    " + line for line in text.splitlines())
    wrapped = f"def __outer__({', '.join((*free, *defaults))}):\n{inner}\n    return {name}\n"
    module = compile(wrapped, f"<cutaway residual {function.__qualname__}>", "exec", dont_inherit=True)
    outer = next(c for c in module.co_consts if isinstance(c, types.CodeType))
    return next(c for c in outer.co_consts if isinstance(c, types.CodeType) and c.co_name == name)
