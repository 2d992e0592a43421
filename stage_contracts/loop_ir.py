"""The loop IR: a buffer is a loop nest whose body is a list of single-assignment instructions, calls of an `ops`
handler.

Input: lowering makes one LoopNest per computed buffer, or an ExternCall where a library or the eager kernel
does the work. One body, many readings: `run(nest, handler)` with different handlers gives dependencies, text,
C++, Triton, or NumPy values. Idea: the define-by-run IR of TorchInductor (its design post, "inductor IR").
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import is_
from typing import Any

from stage_contracts.checked_once import checked_once
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.dtype import DType
from stage_contracts.graph import GraphError
from stage_contracts.index_expr import parse_index, print_index, symbol
from stage_contracts.origin import Origin
from stage_contracts.printing import printed
from stage_contracts.tensor_meta import TensorMeta
from stage_contracts.unbacked import VALUE

# The ops of instructions, besides the pointwise core operators under their names (whose operands have the same dtype,
# except where's condition; `cast` and `bitcast` take a value and a DType).
LOOP_OPS = {
    "load": "(buffer, index) or (buffer, index, mask): the element of a buffer at an index, in elements from its "
    "start; where the mask is false nothing is read, and the value is not used",
    "store": "(buffer, index, value): write it; yields nothing",
    "atomic_add": "(buffer, index, value, start): the buffer is `start` with each point's value added at its index, in "
    "any order; where both are one buffer, to what is there; yields nothing",
    "store_last": "(buffer, index, value, start): as atomic_add, but at an index is the value of the last of its "
    "points, in the order of the loops",
    "constant": "(value,): a Python number, of the instruction's dtype",
    "index_expr": "(index,): an index as a value of the instruction's dtype",
    "indirect_index": "(value, size): an int64 value made usable in indices: negatives wrap, out of range raises",
    "reduction": "(kind, value): reduce over all reduction variables; what follows runs once per outer point",
    "scan": "(kind, value): the reduction over the points so far, this one included, in their order",
    "argsort": "(kind, value): where in its row, over all reduction variables, the value lies that comes at this point "
    "of the sorted row; equal ones keep their order, and NaN is the largest",
    "random_bits": "(seed, counter, index): the Philox word of core.random_bits, from int64 values and an index",
}
AT_PLACES = ("atomic_add", "store_last")  # that the data decides: several points may have one
WRITES = ("store", *AT_PLACES)
SCAN_KINDS = ("sum", "prod", "amax", "amin")
SORT_KINDS = ("ascending", "descending")
REDUCTION_KINDS = ("sum", "prod", "amax", "amin", "any", "all", "argmax", "argmin")


_LOOP_VARIABLE = re.compile(r"[ir]\d+")


class Value(str):
    """An argument that is the result of another instruction: its name."""

    __slots__ = ()


@dataclass(frozen=True)
class Instr:
    """`name = ops.op(*args)` of type `dtype`. Args: Values, sympy indices, buffer names, constants, DTypes."""

    name: str  # "" for a store
    op: str
    args: tuple[Any, ...]
    dtype: DType | None
    origins: tuple[
        Origin, ...
    ] = ()  # in a fused nest: where this instruction came from; (): the same as the nest

    def __str__(self) -> str:
        words = [_print_arg(a) for a in self.args]
        call = f"ops.{self.op}({', '.join(words)})"
        return f"{self.name} = {call}  # {self.dtype.name}" if self.name and self.dtype else call

    # `dataclasses.replace` takes four times as long, and a compile makes tens of thousands of these.
    def with_args(self, args: tuple[Any, ...]) -> Instr:
        """The instruction with other arguments; itself if they are the same objects."""
        if all(map(is_, args, self.args)):
            return self
        return Instr(self.name, self.op, args, self.dtype, self.origins)

    def with_origins(self, origins: tuple[Origin, ...]) -> Instr:
        """The instruction, which came from there."""
        return self if origins is self.origins else Instr(self.name, self.op, self.args, self.dtype, origins)


def _print_arg(arg: Any) -> str:
    if isinstance(arg, Value):
        return str(arg)
    if isinstance(arg, float) and arg - arg != 0:
        return f"float({str(arg)!r})"
    if isinstance(arg, (str, bool, int, float, DType)):
        return repr(arg)
    return print_index(arg)


@dataclass(frozen=True)
class LoopNest:
    """Loops `i0..` over `ranges` and, inside, `r0..` over `reduction_ranges`, around one body.

    Instructions up to the last `reduction` run in the full nest; those after it once per outer point. A body
    with no `reduction` runs in the full nest entirely (pointwise, also when it has reduction_ranges: that is how
    a pointwise section of a fused reduction kernel is written). Sizes are ints or symbolic expressions.
    """

    name: str  # the buffer that it defines
    ranges: tuple[Any, ...]
    reduction_ranges: tuple[Any, ...]
    body: tuple[Instr, ...]
    origins: tuple[Origin, ...] = ()

    @cached_property
    def loop_variables(self) -> tuple[Any, ...]:
        return tuple(symbol(f"i{k}") for k in range(len(self.ranges)))

    @cached_property
    def reduction_variables(self) -> tuple[Any, ...]:
        return tuple(symbol(f"r{k}") for k in range(len(self.reduction_ranges)))

    @cached_property
    def sizes(self) -> tuple[str, ...]:
        """The names of the open sizes that it uses."""
        made = {i.name for i in self.body} | {
            v.name for v in (*self.loop_variables, *self.reduction_variables)
        }
        used = [*self.ranges, *self.reduction_ranges, *(a for i in self.body for a in i.args)]
        free = (name for e in used if hasattr(e, "free_symbols") for name in _free_names(e))
        return tuple(sorted(set(free) - made))

    @property
    def is_reduction(self) -> bool:
        return bool(self.reduction_ranges)

    @property
    def split(self) -> int:
        """The number of instructions that run in the full nest."""
        last = [k for k, instr in enumerate(self.body) if instr.op == "reduction"]
        return last[-1] + 1 if last else len(self.body)

    @cached_property
    def reads(self) -> tuple[str, ...]:
        places = {"load": 0, **dict.fromkeys(AT_PLACES, 3)}
        return tuple(dict.fromkeys(i.args[places[i.op]] for i in self.body if i.op in places))

    @cached_property
    def writes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(i.args[0] for i in self.body if i.op in WRITES))

    @cached_property
    def ops(self) -> tuple[str, ...]:
        """The loop operations that it has, each once."""
        return tuple(dict.fromkeys(i.op for i in self.body))

    def __str__(self) -> str:
        return printed("LoopNest", self)

    def verify(self, buffers: Mapping[str, TensorMeta] | None = None) -> LoopNest:
        """Check single assignment, known ops, index variables and, if given, buffer names. Raises GraphError."""
        self._verify_body()
        if buffers is not None:
            for name in (*self.reads, *self.writes):
                if name not in buffers:
                    raise GraphError(f"{self.name}: unknown buffer {name!r}")
        return self

    @checked_once
    def _verify_body(self) -> LoopNest:
        defined: set[str] = set()
        variables = {v.name for v in (*self.loop_variables, *self.reduction_variables)}
        for instr in self.body:
            if problem := self._misused(instr) or _undefined(instr, defined, variables):
                raise GraphError(f"{self.name}: {problem}")
            if instr.name in defined:
                raise GraphError(f"{self.name}: {instr.name} is assigned twice")
            defined.update({instr.name} - {""})
        if not self.writes:
            raise GraphError(f"{self.name}: the loop nest has no store; expected at least one")
        return self

    def _misused(self, instr: Instr) -> str:
        """What is wrong with an instruction's op or kind, in words; "" if nothing is."""
        if instr.op not in LOOP_OPS and getattr(CORE_OPS.get(instr.op), "kind", "") != "pointwise":
            return f"unknown loop op {instr.op!r}"
        if instr.op == "reduction" and instr.args[0] not in REDUCTION_KINDS:
            return f"unknown reduction {instr.args[0]!r}"
        kinds = {"scan": SCAN_KINDS, "argsort": SORT_KINDS}.get(instr.op)
        if kinds and (instr.args[0] not in kinds or not self.reduction_ranges):
            return f"{instr} needs a known kind and loops to run along"
        return ""


def accesses_of(nests: Iterable[LoopNest]) -> tuple[frozenset[str], frozenset[str]]:
    """(buffers that nests, one after the other, read before they write them, buffers that they write)"""
    first_reads, written = set[str](), set[str]()
    for nest in nests:
        first_reads.update(r for r in nest.reads if r not in written)
        written.update(nest.writes)
    return frozenset(first_reads), frozenset(written)


def _undefined(instr: Instr, defined: Collection[str], variables: Collection[str]) -> str:
    """A value or index that an instruction reads, but that no earlier one defines, in words; "" if there is none."""
    for arg in instr.args:
        if isinstance(arg, Value) and arg not in defined:
            return f"{instr} reads {arg}, which is not defined before it"
        for free in _free_names(arg) if hasattr(arg, "free_symbols") else ():
            if free not in variables and free not in defined and _LOOP_VARIABLE.fullmatch(free):
                return f"{instr} uses the unknown index {free}"
    return ""


@lru_cache(1 << 14)  # every pass is followed by a check
def _free_names(index: Any) -> tuple[str, ...]:
    return tuple(symbol.name for symbol in index.free_symbols)


def run(nest: LoopNest, ops: Any) -> dict[str, Any]:
    """Run a body with a handler: each instruction calls `ops.<op>(*args)`, with values in place of names.

    Returns every value by name. A handler without `__getattr__` must have a method for each op in the body. Indices are
    sympy expressions. If the handler has an attribute `current`, it is set to the instruction that runs.
    """
    values: dict[str, Any] = {}
    tracks = hasattr(ops, "current")
    for instr in nest.body:
        if tracks:
            ops.current = instr
        args = [values[a] if isinstance(a, Value) else a for a in instr.args]
        result = getattr(ops, instr.op)(*args)
        if instr.name:
            values[instr.name] = result
    return values


def print_sizes(sizes: tuple[Any, ...]) -> str:
    """A shape or strides as the text of a Python tuple; open sizes as expressions of their names."""
    return f"({', '.join(map(print_index, sizes))}{',' * (len(sizes) == 1)})"


@dataclass(frozen=True)
class BufferRef:
    """A buffer, or a strided view of it: shape, strides and offset in elements. None: the whole buffer."""

    name: str
    shape: tuple[Any, ...] | None = None
    strides: tuple[Any, ...] | None = None
    offset: Any = 0

    def __str__(self) -> str:
        if self.shape is None:
            return self.name
        place = print_sizes(self.shape), print_sizes(self.strides or ()), print_index(self.offset)
        return f"view({self.name}, {', '.join(place)})"


@dataclass(frozen=True)
class SubgraphRef:
    """A subgraph of control flow as an argument of an external call. Its program is compiled separately. `launch` gets
    the callable under this name, like a constant."""

    name: str

    def __str__(self) -> str:
        return f"subgraph({self.name!r})"

    __repr__ = __str__


@dataclass(frozen=True)
class ExternCall:
    """`outputs = target(*args)`: a core operator that a library or its eager kernel computes, not a loop nest."""

    outputs: tuple[str, ...]
    target: str  # the name of a core operator, or the qualname of an opaque one (its kernel is found by that)
    args: tuple[Any, ...]  # BufferRefs, tuples of them, SubgraphRefs, and constants
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    origins: tuple[Origin, ...] = ()

    @property
    def name(self) -> str:
        return self.outputs[0]

    @cached_property
    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(ref.name for ref in buffer_refs((self.args, dict(self.kwargs)))))

    @property
    def writes(self) -> tuple[str, ...]:
        return self.outputs


def buffer_refs(tree: Any) -> list[BufferRef]:
    """Every BufferRef in nested tuples, lists and dicts."""
    if isinstance(tree, BufferRef):
        return [tree]
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, (tuple, list)):
        return [ref for item in tree for ref in buffer_refs(item)]
    return []


@dataclass(frozen=True)
class SizeVar:
    """A size by `name`: dimension `dim` of `buffer`, or (without one) an expression of sizes before it.

    The buffer is an input, or the result of a call whose size only the data decides. VALUE as `dim`: its one element.
    """

    name: str
    buffer: str = ""
    dim: int = 0
    expr: Any = None

    def __str__(self) -> str:
        if self.buffer and self.dim == VALUE:
            return f"{self.name} = item({self.buffer})"
        return f"{self.name} = " + (
            f"size({self.buffer}, {self.dim})" if self.buffer else print_index(self.expr)
        )


@dataclass(frozen=True)
class LoweredGraph:
    """The result of `lower`: buffers by name, the nests and calls that compute them in order, inputs and outputs.

    A size is an int, or a sympy expression of the names in `sizes`; sizes are equal when their expressions are.
    """

    name: str
    buffers: Mapping[str, TensorMeta]
    inputs: tuple[str, ...]
    constants: Mapping[str, Any]  # name -> array, for each constant tensor of the graph
    nodes: tuple[LoopNest | ExternCall, ...]
    outputs: tuple[BufferRef | None | int | float | bool, ...]
    sizes: tuple[SizeVar, ...] = ()  # the sizes that each call decides, in the order in which to compute them

    def __str__(self) -> str:
        return printed("LoweredGraph", self)

    def verify(self) -> LoweredGraph:
        """Check that every buffer is defined once, before it is read. Raises GraphError."""
        known = {*self.inputs, *self.constants}
        for node in self.nodes:
            if isinstance(node, LoopNest):
                node.verify(self.buffers)
            for name in node.reads:
                if name not in known and name not in node.writes:
                    raise GraphError(f"{node.name} reads {name}, which is not computed before it")
            for name in node.writes:
                if name in known:
                    raise GraphError(f"buffer {name} is computed twice")
                known.add(name)
        for ref in buffer_refs(self.outputs):
            if ref.name not in known:
                raise GraphError(f"output {ref} is never computed")
        return self


__all__ = [
    "AT_PLACES", "LOOP_OPS", "REDUCTION_KINDS", "WRITES", "BufferRef", "ExternCall", "Instr", "LoopNest",
    "LoweredGraph", "SizeVar", "SubgraphRef", "Value",
    "buffer_refs", "parse_index", "print_index", "print_sizes", "run", "symbol",
]  # fmt: skip
