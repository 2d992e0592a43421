"""C++ statements for the instructions of one section: an `ops` handler that writes text.

Input: emit_cpp.py gives it one LoopNest of a kernel. Constants and values kept inside the kernel are written
where they are used; every other instruction becomes one declaration under its own name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from stage3_lowering.lowering.accesses import stride
from stage3_lowering.lowering.cpp_ops import (
    ACCUMULATED,
    CPP_OPS,
    CPP_TYPES,
    EXTREMA_SO_FAR,
    POSITIONS,
    REDUCTIONS,
)
from stage3_lowering.lowering.values import dot, is_half
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType
from stage_contracts.index_expr import print_index, symbol
from stage_contracts.loop_ir import WRITES, Instr, LoopNest, Value
from stage_contracts.program import Kernel
from stage_contracts.tensor_meta import contiguous_strides

if TYPE_CHECKING:
    from stage3_lowering.lowering.cpp_accumulators import Accumulators
    from stage3_lowering.lowering.cpp_lanes import RowLanes
    from stage3_lowering.lowering.cpp_nest import Tile
    from stage3_lowering.lowering.cpp_pairs import Pairs
    from stage3_lowering.lowering.cpp_streamed import Streams

INDENT = "    "
ASSIGNS = {"atomic_add": "+=", "store_last": "="}


class Statements:
    """Writes the instructions of one section. `write` gives the statements of one instruction.

    `loops`: the names of the section's loops, outermost first. `before`: the writer of the same section's first part,
    whose values this one may use.
    """

    def __init__(
        self, nest: LoopNest, kernel: Any, loops: Iterable[str], before: Statements | None = None
    ) -> None:
        self.nest, self.kernel = nest, kernel
        self.loops = {loop: depth for depth, loop in enumerate(loops, 1)}
        self.text: dict[str, str] = before.text if before else {}  # value -> its name, or a literal
        self.types: dict[str, DType] = before.types if before else {}
        self.rounds: dict[str, str] = (
            before.rounds if before else {}
        )  # half value -> the float32 it is made of
        self.rounded: dict[str, str] = before.rounded if before else {}  # half value -> the same as a float32
        self.depth: dict[str, int] = {}  # value -> how many of the loops it depends on stand around it
        self.checked: set[str] = set()  # the innermost loops of index checks
        self.accumulators: list[str] = []  # arrays that hold one per lane
        self.starts: list[str] = []  # before the reduction loops
        self.results: list[str] = []  # after them
        self.tile: Tile | None = before.tile if before else None  # of the one loop that runs tile by tile
        self.tile_starts: list[str] = []  # before the loop over a tile
        self.arrays: list[str] = []  # what one section hands another, per lane
        self.reductions: dict[str, list[str]] = {}  # OpenMP's name of a reduction -> accumulators
        # of reductions in parts: the accumulators with their types, and what adds those of one part to them
        self.partials: list[tuple[list[tuple[str, str]], Callable[..., str]]] = []
        self.parts: list[tuple[str, str]] = []  # of sums in blocks: before a block's loop, and after it
        self.gathered: dict[str, str] = {}  # load -> the tile of elements that a loop before has loaded
        self.turned: dict[str, str] = {}  # load -> its element in a tile that is turned before the loops
        # results written past the caches: buffer -> the element of the array that holds a block of it
        self.streamed: dict[str, str] = {}
        self.streams: Streams | None = None  # by the loop over a row
        self.lanes: RowLanes | None = (
            None  # of a row of open length: its elements are lanes, of which some count
        )
        self.side_by_side: Accumulators | None = None  # of a row of known length
        self.elsewhere: frozenset[str] = frozenset()  # values that only such a loop needs
        self.pairs: Pairs | None = None  # the loop over elements takes two halves at a time

    def depth_of(self, instr: Instr) -> int:
        """How many of the section's loops must stand around the instruction: those it depends on."""
        deepest = max(self.loops.values(), default=0)
        if instr.op in (*WRITES, "reduction", "scan"):
            self.depth[instr.name] = deepest
            return deepest
        names = {str(a) for a in instr.args if isinstance(a, Value)}
        names |= {s.name for a in instr.args for s in getattr(a, "free_symbols", ())}
        if instr.op == "load" and self.kernel.lane and instr.args[0] in self.kernel.inside:
            names.add(self.kernel.column)
        if instr.op == "load" and instr.args[0] in self.kernel.kept_rows:
            names |= {str(v) for v in self.nest.reduction_variables}  # of a row of one, the index names none
        depth = max((self.loops.get(n, self.depth.get(n, 0)) for n in names), default=0)
        self.depth[instr.name] = depth
        if instr.op == "indirect_index" and instr.name not in self.elsewhere:
            self.checked |= {v for v, at in self.loops.items() if at == depth}
        return depth

    def write(self, instr: Instr) -> list[str]:
        if instr.dtype is not None:
            self.types[instr.name] = instr.dtype
            self.text[instr.name] = instr.name
        special = getattr(self, f"_{instr.op}", None)
        if special is not None:
            return special(instr, *[self.text[a] if isinstance(a, Value) else a for a in instr.args])
        operands = [a for a in instr.args if isinstance(a, Value)]
        of = self.types[operands[-1]]  # where's last operand is a value, its first the condition
        template = CPP_OPS[of.category][instr.op]
        written = template.format(
            *[self.text[a] for a in operands], T=CPP_TYPES[of.name], f="f" * (of is dt.float32)
        )
        return [self._declare(instr, written)]

    def _declare(self, instr: Instr, expression: str) -> str:
        assert instr.dtype is not None
        return f"{CPP_TYPES[instr.dtype.name]} {instr.name} = {expression};"

    def _load(self, instr: Instr, buffer: str, index: Any, mask: str = "") -> list[str]:
        if self.pairs and self.depth_of(instr) == max(self.loops.values()):
            start = self.pairs.start(self.kernel.kept_rows.get(buffer, buffer), self._place(buffer, index))
            return [self._declare(instr, self.pairs.load(self.kernel.fresh(f"{instr.name}_pair"), start))]
        if buffer in self.kernel.inside:
            # a row of one has no loop here
            one = buffer in self.kernel.kept_rows and not self.nest.reduction_variables
            self.text[instr.name] = (
                f"{self.kernel.kept_rows[buffer]}[0]" if one else self.kernel.inside[buffer]
            )
            if buffer in self.kernel.float_rows:
                self.rounded[instr.name] = self.text[instr.name]
            if self.lanes and self.depth_of(instr):
                element, self.text[instr.name] = self.lanes.element(self.text[instr.name]), instr.name
                return [self._declare(instr, element)]
            return []
        if instr.name in self.turned:
            return [self._declare(instr, self.turned[instr.name])]
        if instr.name in self.gathered:
            assert self.tile is not None
            return [self._declare(instr, f"{self.gathered[instr.name]}[{self.tile.place}]")]
        element = f"{buffer}[{cpp_index(index)}]"
        if self.lanes and self.depth_of(instr):
            return [self._declare(instr, self.lanes.element(element, mask))]
        return [self._declare(instr, f"{mask} ? {element} : 0" if mask else element)]

    def _atomic_add(self, instr: Instr, buffer: str, index: Any, value: str, start: str) -> list[str]:
        """One thread, in the order of the loops."""
        if start != buffer:
            raise ValueError(
                f"kernel {self.kernel.kernel.name} adds to {start} and gives the sum as {buffer}; C++ adds in place: "
                "call the seam `schedule`, whose first pass is additions_in_place"
            )
        elsewhere = {s: symbol(self.text[s.name]) for s in index.free_symbols if s.name in self.text}
        return [f"{buffer}[{cpp_index(index.xreplace(elsewhere))}] {ASSIGNS[instr.op]} {value};"]

    _store_last = _atomic_add

    def _store(self, instr: Instr, buffer: str, index: Any, value: str) -> list[str]:
        if self.pairs:
            start = self.pairs.start(self.kernel.kept_rows.get(buffer, buffer), self._place(buffer, index))
            pair = self.kernel.fresh(f"{buffer}_pair")
            return [self.pairs.store(pair, self.streamed.get(buffer, start), value)]
        if buffer in self.streamed:
            return [f"{self.streamed[buffer]} = {value};"]
        if self.lanes:
            return [
                self.lanes.store(self.kernel.inside.get(buffer) or f"{buffer}[{cpp_index(index)}]", value)
            ]
        if buffer not in self.kernel.kernel.internal:
            return [f"{buffer}[{cpp_index(index)}] = {value};"]
        if buffer in self.kernel.float_rows:
            value = self.rounded.get(instr.args[2]) or self.as_float(instr.args[2])
        if buffer in self.kernel.inside:
            return [f"{self.kernel.inside[buffer]} = {value};"]
        if not self.kernel.lane:
            self.kernel.inside[buffer] = value  # one value per outer point: it has a name already
            return []
        array = self.kernel.fresh(f"{instr.args[2]}_of_lane")
        of = "float" if buffer in self.kernel.float_rows else CPP_TYPES[self.types[instr.args[2]].name]
        self.arrays.append(f"{of} {array}[{self.kernel.width}];")
        self.kernel.inside[buffer] = f"{array}[{self.kernel.lane}]"
        return [f"{self.kernel.inside[buffer]} = {value};"]

    def _place(self, buffer: str, index: Any) -> Any:
        """The index of an element: in a kept row, of the row's own."""
        row = dot(contiguous_strides(self.nest.reduction_ranges), self.nest.reduction_variables)
        return row if buffer in self.kernel.kept_rows else index

    def _constant(self, instr: Instr, value: Any) -> list[str]:
        assert instr.dtype is not None
        self.text[instr.name] = literal(value, instr.dtype)
        return []

    def _index_expr(self, instr: Instr, index: Any) -> list[str]:
        return [self._declare(instr, cpp_index(index))]

    def _indirect_index(self, instr: Instr, value: str, size: Any) -> list[str]:
        """What stands outside a loop is looked at only if that has a step."""
        inside = [loop for loop, at in self.loops.items() if at > self.depth_of(instr)]
        sizes = [self.kernel.sizes[loop] for loop in inside]
        steps = [cpp_index(n) for n in sizes if not isinstance(n, int) or n == 0]
        there = " && ".join(f"{n} > 0" for n in steps)
        place = f"cutaway::wrap_index({value}, {cpp_index(size)}, bad_index)"
        return [self._declare(instr, f"{there} ? {place} : 0" if there else place)]

    def _cast(self, instr: Instr, value: str, dtype: DType) -> list[str]:
        if dtype is dt.bool_:
            return [self._declare(instr, f"{value} != 0")]
        half = next((d for d in (dtype, self.types[instr.args[0]]) if is_half(d)), None)
        if half is not None:
            return self._half(instr, value, half)
        if self.types[instr.args[0]] is dt.bool_:  # a selection: compilers make no lanes of a bool as a float
            of = CPP_TYPES[dtype.name]
            return [self._declare(instr, f"{value} ? {of}(1) : {of}(0)")]
        whole = self.types[instr.args[0]].is_floating_point and not dtype.is_floating_point
        convert = "cutaway::to_integer<{T}>" if whole else "{T}"
        return [self._declare(instr, f"{convert.format(T=CPP_TYPES[dtype.name])}({value})")]

    def _half(self, instr: Instr, value: str, half: DType) -> list[str]:
        """A conversion between float32 and a half type. There and back is one rounding in float32 lanes."""
        if instr.dtype is half:
            self.rounds[instr.name] = value
            if not any(self._wants_half(i) for i in self.nest.body if instr.name in i.args):
                return []
            plain = half is dt.bfloat16 and self._of_halves()
            return [self._declare(instr, f"cutaway::{'narrow' if plain else 'to'}_{half.name}({value})")]
        given = instr.args[0]
        if self.rounded.get(given, instr.name) != instr.name:
            return [self._declare(instr, self.rounded[given])]
        if given in self.rounds:
            self.rounded[given] = instr.name
            return [self._declare(instr, self.as_float(given))]
        return [self._declare(instr, f"cutaway::from_{half.name}({value})")]

    def _wants_half(self, user: Instr) -> bool:
        """Whether an instruction needs the bits of a half value, not the float32 it stands for."""
        return user.op != "cast" and not (user.op == "store" and user.args[0] in self.kernel.float_rows)

    def as_float(self, half: str) -> str:
        """The float32 that the half value stands for, from the one it is made of."""
        of, name = self.rounds[half], self.types[half].name
        if name == "bfloat16":
            return f"cutaway::{'round' if self._of_halves() else 'through'}_bfloat16({of})"
        return f"cutaway::from_{name}(cutaway::to_{name}({of}))"

    def _of_halves(self) -> bool:
        """Whether all the kernel reads are halves: then no NaN ends in bits that a rounding carries into its sign."""
        body = [i for nest in self.kernel.kernel.nests for i in nest.body]
        given = {i.dtype for i in body if i.op == "load" and i.args[0] in self.kernel.kernel.params}
        return {d for d in given if d and d.is_floating_point} <= {dt.bfloat16} and "bitcast" not in {
            i.op for i in body
        }

    def _bitcast(self, instr: Instr, value: str, dtype: DType) -> list[str]:
        return [self._declare(instr, f"cutaway::bitcast<{CPP_TYPES[dtype.name]}>({value})")]

    def _random_bits(self, instr: Instr, seed: str, counter: str, index: Any) -> list[str]:
        tile = self.tile
        if tile is None or stride(index, tile.loop) != 1:
            return [self._declare(instr, f"cutaway::random_word({seed}, {counter}, {cpp_index(index)})")]
        words, start = self.kernel.fresh(f"{instr.name}_words"), cpp_index(tile.at_block(index))
        given = f"{seed}, {counter}, {start}, {tile.left}"
        self.tile_starts.append(f"cutaway::RandomWords<{tile.size}> {words}({given});")
        return [self._declare(instr, f"{words}[{tile.place}]")]

    def _reduction(self, instr: Instr, kind: str, value: str) -> list[str]:
        assert instr.dtype is not None
        if kind in ("argmax", "argmin"):
            return self._position(instr, kind, value)
        result, name = CPP_TYPES[instr.dtype.name], instr.name
        wide = ACCUMULATED.get((kind, result), "")
        wide = "" if wide == "double" and self.kernel.in_floats(self.nest) else wide
        reduction, start, openmp = REDUCTIONS[kind]
        start = start.format(lowest=_limit(instr.dtype, False), highest=_limit(instr.dtype, True))
        if self.kernel.lane:
            accumulator = self._accumulator_of_lane(instr, kind, wide or result, start)
        elif (self.lanes or self.side_by_side) and not wide:
            accumulator = self._accumulators_of_row(name, kind, result, start)
        else:
            accumulator = self._accumulator_of_row(name, kind, result, wide, start)
            self.reductions.setdefault(openmp, []).append(accumulator)
        value = self.lanes.reduced(value, start) if self.lanes else value
        value = f"{wide}({value})" if wide == "uint64_t" else value
        return [reduction.format(acc=accumulator, value=value, T=result)]

    def _accumulator_of_row(self, name: str, kind: str, of: str, wide: str, start: str) -> str:
        """One accumulator, whose lanes the compiler makes; a float of each block, where blocks ask for it."""
        accumulator = self.kernel.fresh(f"{name}_wide") if wide else name
        self.starts.append(f"{wide or of} {accumulator} = {start};")
        self.results += [f"{of} {name} = {of}({accumulator});"] * bool(wide)
        self._partial(kind, wide or of, accumulator)
        blocked = wide == "double" and self.kernel.blocked(self.nest)
        return self._accumulator_of_block(name, kind, of, accumulator) if blocked else accumulator

    def _accumulators_of_row(self, name: str, kind: str, of: str, start: str) -> str:
        """One for each lane."""
        if self.side_by_side:
            lanes = self.kernel.fresh(f"{name}_lanes")
            declared, accumulator, reduced = self.side_by_side.accumulator(lanes, of, kind, start)
        else:
            assert self.lanes is not None
            names = self.kernel.fresh(f"{name}_so_far"), self.kernel.fresh(f"{name}_lanes")
            declared, accumulator, reduced = self.lanes.accumulator(*names, of, kind, start)
        self.starts.append(declared)
        self.results.append(f"{of} {name} = {reduced};")
        return accumulator

    def _accumulator_of_block(self, name: str, kind: str, of: str, wide: str) -> str:
        """Float lanes over a block, which doubles add up."""
        part = self.kernel.fresh(f"{name}_part")
        declared, accumulator, reduced = f"{of} {part} = 0;", part, part
        if self.lanes:
            lanes = self.kernel.fresh(f"{name}_lanes")
            declared, accumulator, reduced = self.lanes.accumulator(part, lanes, of, kind, "0")
        if self.side_by_side:
            declared, accumulator, reduced = self.side_by_side.accumulator(part, of, kind, "0")
        self.parts.append((declared, f"{wide} += {reduced};"))
        return accumulator

    def _accumulator_of_lane(self, instr: Instr, kind: str, of: str, start: str) -> str:
        """An element of an array with one accumulator per lane; or a register that holds it for some rows."""
        assert instr.dtype is not None
        result, name = CPP_TYPES[instr.dtype.name], instr.name
        array = self.kernel.fresh(f"{name}_lanes")
        accumulator = f"{array}[{self.kernel.lane}]"
        self.accumulators.append(f"{of} {array}[{self.kernel.width}];")
        self.starts.append(f"{accumulator} = {start};")
        self.results.append(
            f"{result} {name} = {accumulator if of == result else f'{result}({accumulator})'};"
        )
        self._partial(kind, of, accumulator)
        return self._so_far(name, of, result, accumulator)

    def _so_far(self, name: str, of: str, result: str, accumulator: str) -> str:
        """The register that holds a lane's accumulator for some rows, where rows run in groups."""
        if not self.kernel.in_groups(self.nest):
            return accumulator
        so_far = self.kernel.fresh(f"{name}_so_far")
        if of == "double" and result == "float":  # a float of these rows, which the double takes
            self.parts.append((f"float {so_far} = 0;", f"{accumulator} += {so_far};"))
        else:
            self.parts.append((f"{of} {so_far} = {accumulator};", f"{accumulator} = {so_far};"))
        return so_far

    def _partial(self, kind: str, of: str, accumulator: str) -> None:
        reduction = REDUCTIONS[kind][0]
        combined = lambda value: reduction.format(acc=accumulator, value=value, T=of)  # noqa: E731
        self.partials.append(([(of, accumulator)], combined))

    def _scan(self, instr: Instr, kind: str, value: str) -> list[str]:
        """A running sum or the like, in the accumulator of such a reduction: a sum of float32 in double."""
        assert instr.dtype is not None
        result, (step, start, _) = CPP_TYPES[instr.dtype.name], REDUCTIONS[kind]
        wide = ACCUMULATED.get((kind, result), result)
        start = start.format(lowest=_limit(instr.dtype, False), highest=_limit(instr.dtype, True))
        running = self.kernel.fresh(f"{instr.name}_running")
        if self.kernel.lane:
            self.accumulators.append(f"{wide} {running}[{self.kernel.width}];")
            running = f"{running}[{self.kernel.lane}]"
        self.starts.append(f"{running} = {start};" if self.kernel.lane else f"{wide} {running} = {start};")
        if kind in EXTREMA_SO_FAR and instr.dtype.is_floating_point and not self.kernel.lane:
            missing = self.kernel.fresh(f"{instr.name}_missing")
            self.starts.append(f"bool {missing} = false;")
            so_far = EXTREMA_SO_FAR[kind].format(T=result, value=value, best=running, missing=missing)
            return [self._declare(instr, so_far)]
        return [
            step.format(acc=running, value=f"{wide}({value})", T=result),
            self._declare(instr, f"{result}({running})"),
        ]

    def _position(self, instr: Instr, kind: str, value: str) -> list[str]:
        dtype, name = self.types[instr.args[1]], instr.name
        row = cpp_index(dot(contiguous_strides(self.nest.reduction_ranges), self.nest.reduction_variables))
        keep, start = POSITIONS[kind]
        start = start.format(lowest=_limit(dtype, False), highest=_limit(dtype, True))
        of, best = CPP_TYPES[dtype.name], self.kernel.fresh(f"{name}_best")
        if self.kernel.lane:
            return self._position_of_lane(instr, (keep, start, row), value)
        if self.side_by_side:
            lanes = self.kernel.fresh(f"{name}_lanes")
            declared, (best, place), first = self.side_by_side.positions(lanes, of, kind, start)
            self.starts.append(declared)
            self.results.append(f"int64_t {name} = {first};")
            return [keep.format(T=of, value=value, at=f"int32_t({row})", best=best, place=place)]
        better = "larger" if kind == "argmax" else "smaller"
        self.starts += [f"{of} {best} = 0;", f"int64_t {name} = -1;"]
        return [
            f"if ({name} < 0 || cutaway::{better}<{of}>({value}, {best})) {{",
            f"{INDENT}{best} = {value};",
            f"{INDENT}{name} = {row};",
            "}",
        ]

    def _position_of_lane(self, instr: Instr, how: tuple[str, str, str], value: str) -> list[str]:
        """Two elements of arrays with one per lane: the best value so far, and its place, as wide if that fits."""
        (keep, start, row), dtype, name = how, self.types[instr.args[1]], instr.name
        of, size = CPP_TYPES[dtype.name], math.prod(self.nest.reduction_ranges)
        narrow = dtype.itemsize <= 4 and isinstance(size, int) and size < 1 << 31
        whole = "int32_t" if narrow else "int64_t"
        held, kept = [], []
        for what, type_, first in ((f"{name}_best", of, start), (name, whole, "0")):
            array = self.kernel.fresh(f"{what}_lanes")
            held.append((type_, f"{array}[{self.kernel.lane}]"))
            self.accumulators.append(f"{type_} {array}[{self.kernel.width}];")
            self.starts.append(f"{held[-1][1]} = {first};")
            kept.append(self._so_far(what, type_, type_, held[-1][1]))
        (_, best), (_, place) = held
        self.results.append(f"int64_t {name} = {place};")
        combined = lambda value, at: keep.format(T=of, value=value, at=at, best=best, place=place)  # noqa: E731
        self.partials.append((held, combined))
        return [keep.format(T=of, value=value, at=f"{whole}({row})", best=kept[0], place=kept[1])]


def rows_of_floats(kernel: Kernel) -> set[str]:
    """Internal buffers of halves that are made of float32 and read as float32: their rows are kept as float32.

    No value changes, since each is rounded first; what is saved is to make it narrow, and wide again.
    """
    kept = set[str](kernel.internal)
    for nest in kernel.nests:
        made = {i.name: i for i in nest.body}
        for instr in nest.body:
            if instr.op == "store" and instr.args[0] in kept:
                value = made[instr.args[2]]
                narrowed = value.op == "cast" and value.dtype in (dt.float16, dt.bfloat16)
                if not (narrowed and made[value.args[0]].dtype is dt.float32):
                    kept.discard(instr.args[0])
            if instr.op == "load" and instr.args[0] in kept:
                users = [i for i in nest.body if instr.name in i.args]
                if not all(i.op == "cast" and i.dtype is dt.float32 for i in users):
                    kept.discard(instr.args[0])
    return kept


def comma_list(head: str, words: Iterable[str], end: str, width: int = 100) -> list[str]:
    """`head`, the words with commas, `end`: on one line, or on as many as they need."""
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) + 2 > width:
            lines.append("")
        lines[-1] += f"{word}, "
    if len(lines) == 1 and len(head) + len(lines[0]) < width:
        return [head + lines[0].removesuffix(", ") + end]
    return [head, *(INDENT + line.rstrip() for line in lines), end]


def cpp_index(index: Any) -> str:
    return print_index(index).replace("//", "/")


def _limit(dtype: DType, highest: bool) -> str:
    """The start of a minimum (highest) or a maximum."""
    if dtype.is_floating_point:
        return "INFINITY" if highest else "-INFINITY"
    return literal((dtype.limits or (0, 1))[highest], dtype)


def literal(value: Any, dtype: DType) -> str:
    """A constant of `dtype` as C++."""
    if dtype is dt.bool_:
        return "true" if value else "false"
    if dtype.is_floating_point:
        with np.errstate(over="ignore"):
            number = dtype.numpy.type(value)
        if not np.isfinite(number):
            word = "NAN" if np.isnan(number) else "INFINITY" if number > 0 else "-INFINITY"
            return word if dtype is dt.float32 else f"double({word})"
        text = (
            np.format_float_scientific(number, trim="0") if abs(number) >= 1e16 else repr(float(str(number)))
        )
        text += "f" * (dtype is dt.float32)
        return f"({text})" if text.startswith("-") else text
    if value == np.iinfo(np.int64).min:
        return "INT64_MIN"
    text = f"{value}" + "LL" * (abs(value) > 0x7FFFFFFF)
    return f"({text})" if value < 0 else text
