"""Triton statements for the instructions of a kernel: an `ops` handler that writes text for blocks of points.

Input: emit_triton.py passes the sections in order. A value is a block: [XBLOCK] in a pointwise kernel, otherwise
[XBLOCK, RBLOCK], with a 1 in a dimension along which it does not vary. If a block holds a whole row, the next section
reuses the values that a section loaded, computed or stored.
"""

from __future__ import annotations

import math
from typing import Any

from sympy import Basic, Symbol

from stage3_lowering.lowering.triton_blocks import Blocks
from stage3_lowering.lowering.triton_ops import (
    ASK_DTYPE,
    EXCEPTIONS,
    REDUCTIONS,
    SCANS,
    TRITON_OPS,
    TRITON_TYPES,
)
from stage3_lowering.lowering.values import dot
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType
from stage_contracts.index_expr import FloorDiv, Mod, print_index
from stage_contracts.loop_ir import Instr, LoopNest, Value
from stage_contracts.program import Kernel
from stage_contracts.size_vars import is_open, plain
from stage_contracts.tensor_meta import contiguous_strides

_INLINE = ("float32", "int32")  # Triton gives a bare number one of these types
_BITS = {"bool": 1}
# How whole rows are loaded, each element once. Their lines are the last to leave the caches, so those of results leave
# first, on their way to memory: 3 to 4 % of a norm's or a softmax's time on an H200 (layer norm 133 to 128 us).
HELD = 'eviction_policy="evict_last"'


# The last one that stores at a place is the last in the order of the programs: Triton's interpreter runs them in turn.
# No such kernel is made for a GPU, where nobody knows it (realize.py).
AT_PLACES = {"atomic_add": 'tl.atomic_add({}, sem="relaxed")', "store_last": "tl.store({})"}


class Statements:
    """Writes one kernel. `write` gives the lines of one instruction."""

    def __init__(self, kernel: Kernel, blocks: Blocks) -> None:
        self.kernel = kernel
        self.columns, self.rblock, self.whole_row = blocks.rblock > 0, blocks.rblock, blocks.whole_row
        self.axis = {f"i{blocks.across}": "r"}
        self.partial = _partial(kernel, blocks)
        both = [name for axis, name in (("x", "xmask"), ("r", "rmask")) if self.partial[axis]]
        self.both = "mask" if len(both) == 2 else "".join(both)
        self.no_points = 0 in kernel.nests[0].ranges
        self.sizes = {*kernel.sizes, *kernel.row_sizes}
        points = math.prod(kernel.nests[0].ranges)
        self.any_points = f"{print_index(points)} > 0" if is_open(points) else ""  # else known
        self.text: dict[str, str] = {}  # value -> its name, or a number
        self.types: dict[str, DType] = {}
        self.varies: dict[str, str] = {}  # value -> "", "x", "r" or "xr": along which axes it varies
        self.constants: dict[str, Any] = {}  # by value, what the kernel's constants are
        self.numbers: dict[str, str] = {}  # constants that are written where they are used -> as a block
        self.held: dict[tuple, str] = {}  # (buffer, index), (buffer, index, mask) -> the value that is there
        self.loop = False
        self.divided_rows = any(_divides_places(nest) for nest in kernel.nests)
        self.far_rows = False  # whether what a place along a row is multiplied with may go beyond 32 bits

    def both_masks(self) -> list[str]:
        """The mask of a whole block, where it needs one of its own."""
        return ["mask = xmask & rmask"] if self.both == "mask" else []

    def begin(self, nest: LoopNest, loop: bool) -> list[str]:
        """What stands before a section: the accumulators of its reductions, when they run in a loop."""
        self.nest, self.loop = nest, loop
        self.ends: list[str] = []
        self.inner_loads: list[tuple] = []
        types = {i.name: i.dtype for i in nest.body}
        lines = []
        for instr in nest.body if loop else ():
            if instr.op == "scan":
                assert instr.dtype is not None
                full = f"{_start(instr.args[0], instr.dtype)}, {TRITON_TYPES[instr.dtype.name]}"
                lines.append(f"{instr.name}_acc = tl.full([XBLOCK, 1], {full})")
            if instr.op == "reduction":
                assert instr.dtype is not None
                of = types[instr.args[1]] or instr.dtype
                lines += self._accumulators(instr, instr.args[0], of)
        return lines

    def end(self) -> list[str]:
        """After the loop: each accumulator reduced along its rows."""
        for key in self.inner_loads:
            self.held.pop(key, None)  # a value of the loop's last step is no use outside it
        return self.ends

    def write(self, instr: Instr, inner: bool) -> list[str]:
        self.inner = inner
        if instr.dtype is not None:
            self.types[instr.name], self.text[instr.name] = instr.dtype, instr.name
        operands = [a for a in instr.args if isinstance(a, Value)]
        self.varies.setdefault(instr.name, _union(self.varies[v] for v in operands))
        special = getattr(self, f"_{instr.op}", None)
        if special is not None:
            return special(instr, *[self.text[a] if isinstance(a, Value) else a for a in instr.args])
        of = self.types[operands[-1]]
        if (inverse := self._inverse(instr)) is not None:
            return [f"{instr.name} = {self.text[operands[0]]} * {inverse!r}"]
        template = EXCEPTIONS.get(of.name, {}).get(instr.op) or TRITON_OPS[of.category][instr.op]
        blocks = instr.op in ASK_DTYPE or all(v in self.numbers for v in operands)
        words = [self.numbers.get(v, self.text[v]) if blocks else self.text[v] for v in operands]
        bits = _BITS.get(of.name, 8 * of.itemsize)
        return [f"{instr.name} = {template.format(*words, T=TRITON_TYPES[of.name], bits=bits)}"]

    def _inverse(self, instr: Instr) -> float | None:
        """What to multiply by instead of a division by a power of two: the same bits, and no slow division."""
        divisor = self.constants.get(instr.args[1]) if instr.op == "div" else None
        if instr.args[0] in self.numbers or not isinstance(divisor, float) or not divisor:
            return None
        return (
            1 / divisor
            if math.frexp(abs(divisor))[0] == 0.5 and 2.0**-100 < abs(divisor) < 2.0**100
            else None
        )

    # ---- memory --------------------------------------------------------------------------------------

    def _mask(self, varies: str) -> str:
        if self.no_points or (self.inner and 0 in self.nest.reduction_ranges):
            return "False"  # what there is to load may be empty
        if not varies:
            return self.any_points
        if not self.columns:
            return "mask" * self.partial["x"]
        return self.both if varies == "xr" else f"{varies}mask" * self.partial[varies]

    def _axes(self, index: Any) -> str:
        """Along which axes an index varies."""
        names = {s.name for s in index.free_symbols} - self.sizes
        return _union(self.varies.get(s, self.axis.get(s, "r" if s[0] == "r" else "x")) for s in names)

    def _load(self, instr: Instr, buffer: str, index: Any, where: str = "") -> list[str]:
        axes = self._axes(index)
        masked = self.varies[instr.args[2]] if where else ""
        self.varies[instr.name] = _union((axes, masked))
        key = (buffer, index) if (buffer, index) in self.held else (buffer, index, where)[: 2 + bool(where)]
        if key in self.held:
            self.text[instr.name] = self.held[key]
            return []
        self.held[key] = instr.name
        if self.loop and self.inner:
            self.inner_loads.append(key)
        mask = self._mask(self.varies[instr.name])
        if where:  # a block of the index and the mask, so that Triton sees their shapes agree
            both = f"{where} & {mask}" if mask else where
            place = print_index(index)
            place = place if axes else f"tl.where({where}, {place}, 0)"
            return [f"{instr.name} = tl.load({buffer} + {place}, {both}, 0)"]
        if (axis := self._only_row_axis(index)) is not None:
            return self._load_along(instr.name, buffer, index, axis, mask)
        words = [f"{buffer} + {print_index(index)}", *[mask] * bool(mask), *[HELD] * self._is_whole_row(axes)]
        return [f"{instr.name} = tl.load({', '.join(words)})"]

    def _is_whole_row(self, axes: str) -> bool:
        return self.whole_row and axes == "xr"

    def _only_row_axis(self, index: Any) -> int | None:
        """The one of several reduced axes along which an index varies, if blocks hold all points of each."""
        sizes = self.nest.reduction_ranges
        if not self.whole_row or math.prod(sizes) != self.rblock:
            return None
        along = {s.name for s in index.free_symbols if "r" in self._axes(s)}
        found = [k for k, variable in enumerate(self.nest.reduction_variables) if along == {str(variable)}]
        return found[0] if found and sizes[found[0]] < self.rblock else None

    def _load_along(self, name: str, buffer: str, index: Any, axis: int, mask: str) -> list[str]:
        """A load of one of the reduced axes, spread over the others: each value is loaded once by a thread."""
        sizes, variable = self.nest.reduction_ranges, self.nest.reduction_variables[axis]
        rows = "XBLOCK" if "x" in self._axes(index) else "1"
        place = print_index(index.xreplace({variable: Symbol(f"{variable}_alone")}))
        along = ", ".join(":" if k == axis else "None" for k in range(len(sizes)))
        return [
            f"{variable}_alone = tl.arange(0, {sizes[axis]})[None, :]",
            f"{name}_alone = tl.load({buffer} + {place}{', ' * bool(mask)}{mask})",
            f"{name} = tl.broadcast_to({name}_alone[:, {along}], [{rows}, {', '.join(map(str, sizes))}])",
            f"{name} = tl.reshape({name}, [{rows}, RBLOCK])",
        ]

    def _store(self, instr: Instr, buffer: str, index: Any, value: str) -> list[str]:
        if not (self.loop and self.inner):
            self.held[buffer, index] = value
        if buffer in self.kernel.internal:
            return []
        axes = self._axes(index)
        if not axes:  # the kernel has one point: its number is the index
            outer = self.kernel.nests[0].ranges
            place, axes = "i0" if len(outer) == 1 else "xindex", "x"
        else:
            place = print_index(index)
        mask = self._mask(axes)
        return [f"tl.store({buffer} + {place}, {value}{', ' * bool(mask)}{mask})"]

    def _atomic_add(self, instr: Instr, buffer: str, index: Any, value: str, start: str) -> list[str]:
        """Each point adds once, so the places are a whole block also where the index varies along fewer axes."""
        if start != buffer:
            raise ValueError(
                f"kernel {self.kernel.name} adds to {start} and gives the sum as {buffer}, and Triton adds in place: "
                "call the seam `fuse`, whose last pass is additions_in_place"
            )
        block, axes = ("[XBLOCK, RBLOCK]", "xr") if self.columns else ("[XBLOCK]", "x")
        place, value, mask = print_index(index), self.block_text(instr.args[2]), self._mask(axes)
        if self._axes(index) != axes:
            place = f"(tl.zeros({block}, tl.int64) + {place})"
        if self.varies.get(instr.args[2], "") != axes:
            value = f"tl.broadcast_to({value}, {block})"
        return [AT_PLACES[instr.op].format(f"{buffer} + {place}, {value}{', ' * bool(mask)}{mask}")]

    _store_last = _atomic_add

    # ---- values that are no operator -----------------------------------------------------------------

    def _constant(self, instr: Instr, value: Any) -> list[str]:
        assert instr.dtype is not None
        shape = "[1, 1]" if self.columns else "[1]"
        self.constants[instr.name] = value
        block = f"tl.full({shape}, {_number(value)}, {TRITON_TYPES[instr.dtype.name]})"
        if instr.dtype.name not in _INLINE:
            return [f"{instr.name} = {block}"]
        negative = _number(value).startswith("-")
        self.text[instr.name] = f"({_number(value)})" if negative else _number(value)
        self.numbers[instr.name] = block
        return []

    def _index_expr(self, instr: Instr, index: Any) -> list[str]:
        assert instr.dtype is not None
        self.varies[instr.name] = self._axes(index)
        written = print_index(index)
        if is_open(index) and not self._axes(index):
            block = f"tl.zeros({'[1, 1]' if self.columns else '[1]'}, tl.int64)"
            return [f"{instr.name} = ({block} + {written}).to({TRITON_TYPES[instr.dtype.name]})"]
        if not self._axes(index):
            return self._constant(instr, int(index))
        return [f"{instr.name} = ({written}).to({TRITON_TYPES[instr.dtype.name]})"]

    def _indirect_index(self, instr: Instr, value: str, size: Any) -> list[str]:
        mask = self._mask(self.varies[instr.name]) or "True"
        return [f"{instr.name} = _wrap_index({value}, {print_index(size)}, {mask})"]

    def _cast(self, instr: Instr, value: str, dtype: DType) -> list[str]:
        source = self.numbers.get(instr.args[0], value)
        if dtype is dt.bool_:
            return [f"{instr.name} = {source} != 0"]
        if self.types[instr.args[0]].is_floating_point and not dtype.is_floating_point:
            between = "tl.int64" if dtype is dt.int64 else "tl.int32"
            low = float(-(2**63) if dtype is dt.int64 else -(2**31))
            return [f"{instr.name} = _to_integer({source}, {low}, {between}).to({TRITON_TYPES[dtype.name]})"]
        return [f"{instr.name} = {source}.to({TRITON_TYPES[dtype.name]})"]

    def _bitcast(self, instr: Instr, value: str, dtype: DType) -> list[str]:
        source = self.numbers.get(instr.args[0], value)
        return [f"{instr.name} = {source}.to({TRITON_TYPES[dtype.name]}, bitcast=True)"]

    def _random_bits(self, instr: Instr, seed: str, counter: str, index: Any) -> list[str]:
        self.varies[instr.name] = self._axes(index)
        if not self._axes(index):
            index = f"0 * {'i0' if len(self.kernel.nests[0].ranges) == 1 else 'xindex'}"
            return [f"{instr.name} = _philox({seed}, {counter}, {index})"]
        return [f"{instr.name} = _philox({seed}, {counter}, {print_index(index)})"]

    def _scan(self, instr: Instr, kind: str, value: str) -> list[str]:
        self.varies[instr.name] = "xr"
        assert instr.dtype is not None
        name, terms = instr.name, self._block(instr.args[1], value, _start(kind, instr.dtype))
        if not self.loop:
            return [f"{name} = {SCANS[kind].format(v=terms)}"]
        acc, block, (_, step, reduction) = f"{name}_acc", f"{name}_terms", REDUCTIONS[kind]
        return [
            f"{block} = {terms}",
            f"{name} = {step.format(acc=acc, v=SCANS[kind].format(v=block))}",
            f"{acc} = {step.format(acc=acc, v=f'{reduction.format(acc=block)}[:, None]')}",
        ]

    def block_text(self, value: Any) -> str:
        """A value as text that is a block also where it is a number."""
        return self.numbers.get(value, self.text[value])

    def masked(self, value: Any, neutral: str) -> str:
        """A value as a whole block, `neutral` where there are no points."""
        return self._block(value, self.text[value], neutral)

    def known(self, instr: Instr, varies: str) -> None:
        """An instruction whose result another text computes, under its name."""
        assert instr.dtype is not None
        self.types[instr.name], self.text[instr.name] = instr.dtype, instr.name
        self.varies[instr.name] = varies

    def _block(self, value: Any, text: str, neutral: str) -> str:
        """A value as a whole block, `neutral` where there are no points."""
        text = self.numbers.get(value, text)
        if self.both or self.no_points or 0 in self.nest.reduction_ranges:
            return f"tl.where({self._everywhere()}, {text}, {neutral})"
        return text if self.varies[value] == "xr" else f"tl.broadcast_to({text}, [XBLOCK, RBLOCK])"

    def _everywhere(self) -> str:
        """The mask of a block; of the whole block also where one axis decides."""
        return "mask" if self.both == "mask" else f"tl.broadcast_to({self.both}, [XBLOCK, RBLOCK])"

    # ---- reductions ---------------------------------------------------------------------------------------

    def _reduction(self, instr: Instr, kind: str, value: str) -> list[str]:
        assert instr.dtype is not None
        self.varies[instr.name] = "x"
        value = self.numbers.get(instr.args[1], value)
        of = self.types[instr.args[1]]
        if kind in ("argmax", "argmin"):
            return self._position(instr, kind, value, of)
        start, (_, step, reduction) = _start(kind, of), REDUCTIONS[kind]
        if self.loop:
            acc = f"{instr.name}_acc"
            self.ends.append(f"{instr.name} = {reduction.format(acc=acc)}[:, None]")
            stepped = step.format(acc=acc, v=value)
            return [f"{acc} = tl.where({self.both}, {stepped}, {acc})" if self.both else f"{acc} = {stepped}"]
        kept = self._block(instr.args[1], value, start)
        if of is dt.bool_ and self.both:
            mask = self._everywhere()
            kept = f"({mask} & {value})" if kind == "any" else f"(({mask} == 0) | {value})"
        return [f"{instr.name} = {reduction.format(acc=kept)}[:, None]"]

    def _position(self, instr: Instr, kind: str, value: str, of: DType) -> list[str]:
        combine = "_first_largest" if kind == "argmax" else "_first_smallest"
        row = print_index(dot(contiguous_strides(self.nest.reduction_ranges), self.nest.reduction_variables))
        row = f"({row}).to(tl.int32)" if any(map(is_open, self.nest.reduction_ranges)) else row
        name, best = instr.name, f"{instr.name}_best"
        reduction = f"{best}, {name} = tl.reduce(({best}, {name}), 1, {combine})"
        widen = f"{name} = {name}[:, None].to(tl.int64)"
        if self.loop:
            self.ends += [reduction.replace(f"({best}, {name})", f"({best}_acc, {name}_acc)"), widen]
            return [
                f"{best}, {name} = {combine}({best}_acc, {name}_acc, {value}, {row})",
                *(f"{n}_acc = tl.where({self.both}, {n}, {n}_acc)" if self.both else f"{n}_acc = {n}"
                  for n in (best, name)),
            ]  # fmt: skip
        start = _limit(of, kind == "argmin")
        return [
            f"{best} = {self._block(instr.args[1], value, start)}",
            f"{name} = tl.broadcast_to({row}, [XBLOCK, RBLOCK])"
            if not self.both
            else f"{name} = tl.where({self._everywhere()}, {row}, 2147483647)",
            reduction,
            widen,
        ]

    def _accumulators(self, instr: Instr, kind: str, of: DType) -> list[str]:
        block = "[XBLOCK, RBLOCK]"
        if kind in ("argmax", "argmin"):
            best = f"tl.full({block}, {_limit(of, kind == 'argmin')}, {TRITON_TYPES[of.name]})"
            place = f"tl.full({block}, 2147483647, tl.int32)"
            return [f"{instr.name}_best_acc = {best}", f"{instr.name}_acc = {place}"]
        start = _start(kind, of)
        return [f"{instr.name}_acc = tl.full({block}, {start}, {TRITON_TYPES[of.name]})"]


def _divides_places(nest: LoopNest) -> bool:
    """Whether places along its rows are divided: by the size of an inner loop, or in an index."""
    indices = (arg for instr in nest.body for arg in instr.args if isinstance(arg, Basic))
    divided = any(index.has(FloorDiv, Mod) for index in indices)
    return bool(nest.reduction_ranges) and (len(nest.reduction_ranges) > 1 or divided)


def _partial(kernel: Kernel, blocks: Blocks) -> dict[str, bool]:
    """By axis, whether the last block there may be partly outside."""
    outer = kernel.nests[0].ranges
    rows = [nest.reduction_ranges for nest in kernel.nests if nest.reduction_ranges]
    across = (outer[blocks.across],) if blocks.across is not None else rows[0] if rows else ()
    sizes = {
        "x": (plain(math.prod(outer[k] for k in blocks.x)), blocks.xblock),
        "r": (plain(math.prod(across)), blocks.rblock),
    }
    return {
        axis: block > 0 and (is_open(n) or n == 0 or n % block != 0) for axis, (n, block) in sizes.items()
    }


def _union(parts: Any) -> str:
    letters = set("".join(parts))
    return "".join(letter for letter in "xr" if letter in letters)


def _number(value: Any) -> str:
    """A constant as Python that Triton reads."""
    if isinstance(value, float) and value - value != 0:
        return f"float('{value}')"
    return repr(value)


def _start(kind: str, dtype: DType) -> str:
    """What a reduction or a scan begins with."""
    return REDUCTIONS[kind][0].format(lowest=_limit(dtype, False), highest=_limit(dtype, True))


def _limit(dtype: DType, highest: bool) -> str:
    if dtype.is_floating_point:
        return "float('inf')" if highest else "float('-inf')"
    low, high = dtype.limits or (0, 1)
    return str(int(high if highest else low))
