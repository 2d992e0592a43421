"""The C++ of a loop over bfloat16 values, two at a time: a word holds both, and each is a shift or a mask of it.

Input: cpp_kernel.py's kernel, a nest of it, and the loop over elements that lie side by side. One at a time, a half is
made wide and narrow again by instructions that move lanes: a third of an RMS norm's time (AMD Zen 4). A pair's lanes
stay where they are. What the loop reads and writes must all be pairs, so each keeps the order of its elements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stage3_lowering.lowering.accesses import stride
from stage3_lowering.lowering.cpp_accumulators import accumulators
from stage3_lowering.lowering.cpp_math import BINARY, OWN, UNARY
from stage3_lowering.lowering.cpp_ops import REDUCTIONS
from stage3_lowering.lowering.cpp_statements import INDENT, Statements, cpp_index, rows_of_floats
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import Instr, LoopNest, Value

if TYPE_CHECKING:
    from stage3_lowering.lowering.cpp_kernel import KernelText

_TYPES: set[DType | None] = {dt.bfloat16, dt.float32, dt.bool_, None}
# A function that is called needs all registers: what waits in them would go to memory.
_CALLED = {*UNARY, *BINARY} - {name for name, of in OWN if of == "float"}
_ONE_BY_ONE = {"fmod", "remainder", "floor_divide", "scan", "random_bits", "indirect_index", "index_expr"}


@dataclass(frozen=True)
class Pairs:
    """The loop that runs by pairs: its variable, and the name of a pair's first element."""

    loop: str
    first: str
    before: list[str] = field(default_factory=list)  # what stands before a pair's two elements
    after: list[str] = field(default_factory=list)

    def start(self, buffer: str, index: Any) -> str:
        """Where the pair lies of the element at this index."""
        return f"{buffer}[{cpp_index(index.subs(symbol(self.loop), symbol(self.first)))}]"

    def load(self, name: str, start: str) -> str:
        """The half of this element, from a pair that is loaded before both."""
        self.before.append(f"const cutaway::Pair {name}(&{start});")
        return f"{name}[{self.loop} - {self.first}]"

    def store(self, name: str, start: str, value: str) -> str:
        self.before.append(f"cutaway::Pair {name};")
        self.after.append(f"{name}.to(&{start});")
        return f"{name}.set({self.loop} - {self.first}, {value});"

    def head(self, first: str, last: str) -> str:
        return f"for (int64_t {self.first} = {first}; {self.first} < {last}; {self.first} += 2) {{"

    def body(self, lines: list[str]) -> list[str]:
        """The statements for one element, for both; where their values come from, and where they go."""
        v, first = self.loop, self.first
        each = f"for (int64_t {v} = {first}; {v} < {first} + 2; ++{v}) {{"
        return [*self.before, "#pragma GCC unroll 2", each, *(INDENT + x for x in lines), "}", *self.after]


def in_pairs(writer: Statements, lines: list[str]) -> list[str]:
    """The statements of the last loop: for a pair's two elements, where it runs by pairs."""
    return writer.pairs.body(lines) if writer.pairs else lines


def nests_in_pairs(text: KernelText) -> tuple[list[LoopNest], set[str]]:
    """The nests of a kernel whose last loop can run by pairs, and the rows of halves that are kept as float32.

    A row that such loops alone write and read is kept as halves, which are pairs.
    """
    kernel, floats = text.kernel, rows_of_floats(text.kernel)
    nests = [n for n in kernel.nests if _is_plain(text) and _fits(text, n) and accumulators(text, n) is None]
    while True:
        rows = {b: [n for n in kernel.nests if b in _row_names(text, n)] for b in floats}
        alone = {b for b, of in rows.items() if of and all(n in nests for n in of)}
        kept = [nest for nest in nests if not _row_names(text, nest) & (floats - alone)]
        if len(kept) == len(nests):
            return nests, floats - alone
        nests = kept


def _is_plain(text: KernelText) -> bool:
    """Whether its loops run over each row as it lies, in one piece."""
    schedule = text.schedule
    return not (text.kernel.rows or text.column or schedule.split or schedule.pieces or schedule.turned)


def _loop(text: KernelText, nest: LoopNest) -> str:
    inside = [str(v) for v in nest.reduction_variables]
    return (inside or list(text.schedule.order) or [""])[-1]


def _row_names(text: KernelText, nest: LoopNest) -> set[str]:
    """The internal buffers with an element for each step of the nest's reduction."""
    body = nest.body[: nest.split] if nest.reduction_ranges else ()
    found = {i.args[0] for i in body if i.op in ("load", "store")}
    rows = {
        i.args[0]
        for n in text.kernel.nests
        for i in n.body[: n.split]
        if n.reduction_ranges and i.op == "store"
    }
    return found & rows & set(text.kernel.internal)


def _fits(text: KernelText, nest: LoopNest) -> bool:
    """Whether all that the last loop changes are bfloat16 values side by side, and what is computed of them inline."""
    loop, inner = _loop(text, nest), bool(nest.reduction_ranges)
    size, tile = text.sizes.get(loop), dict(text.schedule.tiles).get(loop, 2)
    if (
        not isinstance(size, int)
        or size % 2
        or tile % 2
        or len(nest.reduction_ranges) > 1
        or inner != bool(text.inner)
    ):
        return False
    body = nest.body[: nest.split] if inner else nest.body
    loops = (loop,) if inner else text.schedule.order
    depths, types = Statements(nest, text, loops), dict[str, DType | None]()
    accesses = 0
    for instr in body:
        types[instr.name] = instr.dtype
        if depths.depth_of(instr) < len(loops):
            continue
        if not _elementwise(text, instr, types, loop):
            return False
        accesses += instr.op in ("load", "store")
    return accesses > 0


def _elementwise(text: KernelText, instr: Instr, types: dict[str, DType | None], loop: str) -> bool:
    of = {types[str(a)] for a in instr.args if isinstance(a, Value)} | {instr.dtype}
    if not of <= _TYPES or instr.op in _ONE_BY_ONE or instr.op in _CALLED:
        return False
    if instr.op in ("load", "store"):
        half = types[str(instr.args[2])] if instr.op == "store" else instr.dtype
        return (
            half is dt.bfloat16
            and len(instr.args) == 2 + (instr.op == "store")
            and stride(instr.args[1], loop) == 1
        )
    return instr.args[0] in REDUCTIONS if instr.op == "reduction" else True
