"""The attribute space of every row of every rewrite table: (pass, operator) -> what a call of that operator may look like.

Input: nothing; this is the table that test_stage2_rewrites.py walks. A Space has axes, whose product are its cases, and a
function that builds a case in core operators. `shape`, `dtype` and `layout` describe the operand.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stage0_eager import TABLE
from stage_contracts import dtype as dt
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.device import CPU

c = {name.removeprefix("core."): op for name, op in TABLE.items() if name.startswith("core.")}


class Operand:
    """x of a case, and others beside it: `of(shape, dtype)` gives one, the same for the same arguments."""

    def __init__(self, x: Any, of: Callable[..., Any]) -> None:
        self.x, self.of = x, of


@dataclass(frozen=True)
class Space:
    """`build(operand, **attributes)` gives the value whose rewrite is asked for."""

    build: Callable[..., Any]
    axes: dict[str, tuple]
    shapes: tuple[tuple[int, ...], ...] = ((4, 6),)
    dtypes: tuple[str, ...] = ("float64",)
    layouts: tuple[str, ...] = ("dense",)
    most: int = 60  # how many cases one run takes, so that the row fires among them

    def cases(self, most: int) -> Iterator[dict[str, Any]]:
        """The product of the axes; `most` of it, drawn the same every time, unless that is 0."""
        axes = {"shape": self.shapes, "dtype": self.dtypes, "layout": self.layouts, **self.axes}
        count = math.prod(map(len, axes.values()))
        drawn = sorted(random.Random(0).sample(range(count), most)) if 0 < most < count else range(count)
        for at in drawn:
            case = {}
            for name, values in axes.items():
                at, place = divmod(at, len(values))
                case[name] = values[place]
            yield case


FLOATS = ("float64", "float32", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
DTYPES = (*FLOATS, *INTEGERS, "bool")
LAYOUTS = ("dense", "transposed", "stepped", "expanded")
INF, NAN = float("inf"), float("nan")
NUMBERS = (0, 1, -1, 2, 0.0, -0.0, 1.0, -1.0, True, False, INF, NAN)
# Tensors that are one number, of other shapes and dtypes, so that a result is broadcast or promoted, either way.
CONSTANTS = tuple(
    (shape, value, name)
    for shape in ((), (6,), (4, 6), (2, 4, 6))
    for value in (0, 1)
    for name in ("float64", "int64", "bool")
)
SQUARES = ((4, 4), (1, 3), (0, 3))
PADS = ((0, 0), (1, -1), (-1, 1), (2, -2), (1, 1), (-1, -1), (1, 0), (0, -1))
WINDOWS = ((None, None, 1), (0, 4, 1), (0, 2, 1), (2, 4, 1), (-2, None, 1), (1, 3, 1), (0, 9, 1), (-9, -1, 1), (3, 1, 1),
           (None, None, 2), (1, None, 2), (0, 1, 3))  # fmt: skip
PERMUTATIONS = tuple(itertools.permutations(range(3)))
ORDERS = (*PERMUTATIONS, *(tuple(d - 3 if d != 1 else d for d in order) for order in PERMUTATIONS))


def _number(operand: Operand, name: str, other: Any, swapped: bool) -> Any:
    """One operator of x and a number, a constant tensor or another tensor, on either side."""
    if isinstance(other, tuple):
        shape, value, dtype = other
        other = c["full"](shape, value, dt.DTYPES[dtype], CPU)
    elif other == "tensor":
        other = operand.of((6,), "float32")
    return c[name](other, operand.x) if swapped else c[name](operand.x, other)


def _with_a_number(name: str) -> Space:
    others = (*NUMBERS, *CONSTANTS, "tensor")
    axes = {"name": (name,), "other": others, "swapped": (False, True)}
    return Space(_number, axes, ((4, 6), (4, 1), ()), DTYPES, most=400)


def _repeated(operand: Operand, name: str, between: str, times: int) -> Any:
    value = operand.x
    for i in range(times):
        value = c[between](value) if between and i else value
        value = c[name](value)
    return value


def _undone(name: str) -> Space:
    axes = {"name": (name,), "between": ("", "clone", "neg", "logical_not"), "times": (1, 2, 3)}
    return Space(_repeated, axes, ((4, 6), (0, 3), ()), DTYPES)


def _where(operand: Operand, condition: tuple, first: Any, second: Any) -> Any:
    pick = {"x": operand.x, "copy": c["clone"](operand.x), "float32": operand.of((6,), "float32")}
    return c["where"](operand.of(condition, "bool"), pick.get(first, first), pick.get(second, second))


def _reshaped(operand: Operand, first: tuple | None, last: tuple) -> Any:
    return c["reshape"](operand.x if first is None else c["reshape"](operand.x, first), last)


SHAPES = ((4, 6), (6, 4), (24,), (2, 12), (4, 1, 6), (1, 4, 6), (-1, 6), (3, 2, 4))


def _permuted(operand: Operand, first: tuple | None, last: tuple) -> Any:
    return c["permute"](operand.x if first is None else c["permute"](operand.x, first), last)


def _expanded(operand: Operand, first: tuple | None, last: tuple) -> Any:
    return c["expand"](operand.x if first is None else c["expand"](operand.x, first), last)


LARGER = (
    (3, 1),
    (3, 4),
    (-1, -1),
    (-1, 1),
    (2, 3, 4),
    (2, -1, -1),
    (1, 3, 1),
    (0, 3, 1),
    (2, 2, 3, 4),
    (1, 1, 3, 1),
)


def _copied(operand: Operand, name: str, rest: tuple) -> Any:
    return c[name](operand.x, *rest)


def _copy(name: str, *rest: Any) -> Space:
    return Space(
        _copied,
        {"name": (name,), "rest": (rest,)},
        ((4, 6), (0, 3), (1, 1), ()),
        ("float32", "int64"),
        LAYOUTS,
    )


def _sliced(operand: Operand, dim: int, window: tuple) -> Any:
    return c["slice"](operand.x, dim, *window)


def _padded(operand: Operand, first: tuple, second: tuple, value: Any) -> Any:
    return c["constant_pad"](operand.x, (first, second), value)


def _cat_of(operand: Operand, parts: str, dim: int) -> Any:
    named = {
        "x": operand.x,
        "i": operand.of(operand.x.shape, "int64"),
        "y": operand.of(operand.x.shape, "float64"),
    }
    return c["cat"]([named[p] for p in parts], dim)


def _cast(operand: Operand, dtypes: tuple[str, ...]) -> Any:
    value = operand.x
    for name in dtypes:
        value = c["cast"](value, dt.DTYPES[name])
    return value


def _window_shape(x: Any, dim: int, window: tuple) -> tuple:
    return c["slice"].meta(x.meta, dim, *window).shape


def _read_of_a_write(
    operand: Operand, dim: int, window: tuple, there: int, window_there: tuple, kind: str
) -> Any:
    source = operand.of(_window_shape(operand.x, dim, window), kind)
    return c["slice"](c["slice_scatter"](operand.x, source, dim, *window), there, *window_there)


def _write_over_a_write(operand: Operand, dim: int, window: tuple, there: int, window_there: tuple) -> Any:
    one = operand.of(_window_shape(operand.x, dim, window), "float64")
    other = c["sin"](operand.of(_window_shape(operand.x, there, window_there), "float64"))
    return c["slice_scatter"](c["slice_scatter"](operand.x, one, dim, *window), other, there, *window_there)


def _part_of_a_cat(operand: Operand, sizes: tuple, along: int, dim: int, window: tuple, kind: str) -> Any:
    shape = list(operand.x.shape)
    parts = []
    for i, size in enumerate(sizes):
        shape[along] = size
        parts.append(operand.of(tuple(shape), kind if i else "float64", i))
    return c["slice"](c["cat"](parts, along), dim, *window)


def _cat_of_parts(operand: Operand, windows: tuple, dims: tuple, along: int, other: bool) -> Any:
    parts = [c["slice"](operand.x, dim, *window) for dim, window in zip(dims, windows, strict=False)]
    if other:
        parts[-1] = c["slice"](operand.of(operand.x.shape, "float64"), dims[0], *windows[-1])
    return c["cat"](parts, along)


def _cat_of_cats(operand: Operand, inner: tuple, kind: str, along: int, second: bool) -> Any:
    first = c["cat"]([operand.x, operand.of(operand.x.shape, kind)], inner[0])
    parts = [first, c["cat"]([operand.x, operand.x], inner[1])] if second else [operand.x, first]
    parts = [first, first] if second is None else parts
    return c["cat"](parts, along)


PARTS = (
    ((0, 2, 1), (2, 4, 1)), ((2, 4, 1), (0, 2, 1)), ((0, 1, 1), (2, 4, 1)), ((0, 3, 1), (2, 4, 1)), ((0, 4, 1),), ((0, 0, 1), (0, 4, 1)),
    ((None, -2, 1), (-2, None, 1)), ((0, None, 2), (1, None, 2)), ((0, 2, 1), (2, 3, 1)), ((0, 1, 1), (1, 3, 1), (3, 9, 1)),
)  # fmt: skip


def _constant(operand: Operand, name: str, values: tuple, dtypes: tuple, shapes: tuple) -> Any:
    """An operator over constants; a shape of None is a Python number."""
    made = [
        value if shape is None else c["full"](shape, value, dt.DTYPES[dtype], CPU)
        for value, dtype, shape in zip(values, dtypes, shapes, strict=True)
    ]
    condition = [c["full"](shapes[0] or (), bool(values[0]), dt.bool_, CPU)] if name == "where" else []
    return c[name](*condition, *made)


def _constant_cast(operand: Operand, name: str, value: float, kind: str, into: str, sizes: tuple) -> Any:
    return c[name](c["full"](sizes, value, dt.DTYPES[kind], CPU), dt.DTYPES[into])


def _constants(name: str) -> Space:
    shapes = ((4, 6), (), (0, 3), (2, 1, 1))
    if name in ("cast", "bitcast"):
        values = {"value": (0, 1, 3.0, -0.0), "kind": DTYPES, "into": DTYPES, "sizes": shapes}
        return Space(_constant_cast, {"name": (name,), **values})
    values = ((0, 1), (2, -1), (3, 0), (1, 3), (-2, 2), (-0.0, 0.0), (NAN, 1), (INF, -INF))
    dtypes = (("float64", "float64"), ("float32", "float64"), ("int64", "float32"), ("int32", "uint8"), ("float16", "int64"),
              ("bool", "bool"), ("bfloat16", "float16"))  # fmt: skip
    pairs = (
        ((4, 6), (4, 6)),
        ((), (6,)),
        ((6,), None),
        (None, (4, 1)),
        ((0, 3), (1, 1)),
        ((2, 1, 1), (4, 6)),
    )
    if name != "where" and "," not in CORE_OPS[name].params:
        values, dtypes, pairs = (
            tuple((v,) for v in some) for some in ((0, 1, -1, 0.5, 2, -0.0, INF, NAN), DTYPES, shapes)
        )
    return Space(_constant, {"name": (name,), "values": values, "dtypes": dtypes, "shapes": pairs})


SPACES: dict[tuple[str, str], Space | tuple[Space, ...]] = {
    **{("constant_folding", row.name): _constants(row.name) for row in CORE_OPS.values() if row.kind == "pointwise"},
    **{("identities", name): _with_a_number(name) for name in ("mul", "div", "sub", "add", "pow")},
    **{("identities", name): _undone(name) for name in ("neg", "bitwise_not", "logical_not")},
    ("identities", "where"): Space(_where, {"condition": ((4, 6), (6,), (2, 4, 6), ()), "first": ("x", "copy", "float32", 0.0, NAN),
                                            "second": ("x", "copy", "float32", -0.0)}, ((4, 6), (4, 1)), DTYPES),
    ("identities", "cast"): Space(_cast, {"dtypes": tuple((d,) for d in DTYPES)}, ((4, 6), ()), ("float64", "float32", "int64", "bool"), LAYOUTS),
    ("identities", "reshape"): Space(_reshaped, {"first": (None,), "last": SHAPES}, layouts=LAYOUTS),
    ("identities", "permute"): Space(_permuted, {"first": (None,), "last": ORDERS}, ((3, 3, 3), (1, 3, 1), (0, 3, 0))),
    ("identities", "expand"): Space(_expanded, {"first": (None,), "last": LARGER}, ((3, 1), (3, 4), (1, 1), (0, 1))),
    ("identities", "slice"): Space(_sliced, {"dim": (0, 1, -1), "window": WINDOWS}, SQUARES, ("float64", "int8"), LAYOUTS),
    ("identities", "constant_pad"): Space(_padded, {"first": PADS, "second": PADS, "value": (0.0, 1.5, -0.0, NAN)}, SQUARES, ("float32",)),
    ("identities", "detach"): _copy("detach"),
    ("identities", "clone"): _copy("clone"),
    ("identities", "contiguous"): _copy("contiguous"),
    ("identities", "to_device"): _copy("to_device", CPU),
    ("identities", "cat"): Space(_cat_of, {"parts": ("x", "xx", "xi", "ix", "xy", "i"), "dim": (0, 1, -1)}, SQUARES, ("float64", "float32"), LAYOUTS),
    ("casts", "cast"): Space(_cast, {"dtypes": tuple(itertools.product(DTYPES, DTYPES))}, dtypes=DTYPES),
    ("views", "reshape"): Space(_reshaped, {"first": SHAPES, "last": SHAPES}, layouts=LAYOUTS),
    ("views", "permute"): Space(_permuted, {"first": ORDERS, "last": ORDERS}, ((3, 3, 3), (1, 3, 0))),
    ("views", "expand"): Space(_expanded, {"first": LARGER, "last": LARGER}, ((3, 1), (1, 1), (1,))),
    ("views", "slice"): Space(_read_of_a_write, {"dim": (0, 1, -1), "window": WINDOWS, "there": (0, 1), "window_there": WINDOWS,
                                                 "kind": ("float64", "float32")}, ((4, 4), (0, 4))),
    ("views", "slice_scatter"): Space(_write_over_a_write, {"dim": (0, 1), "window": WINDOWS, "there": (0, 1, -1),
                                                            "window_there": WINDOWS}, ((4, 4), (0, 4))),
    ("joins", "slice"): Space(_part_of_a_cat, {"sizes": ((2, 2), (0, 4), (4, 0), (1, 0, 3), (4,), (4, 4)), "along": (0, 1, -1), "dim": (0, 1, -1),
                                               "window": WINDOWS, "kind": ("float64", "int64")}, ((4, 4),)),
    ("joins", "cat"): (Space(_cat_of_parts, {"windows": PARTS, "dims": ((0, 0, 0), (1, 1, 1), (-1, 1, -1), (0, 1, 0)), "along": (0, 1, -1),
                                             "other": (False, True)}, ((4, 4), (4, 0))),
                       Space(_cat_of_cats, {"inner": ((0, 0), (0, 1), (1, 0), (-1, 1)), "kind": ("float64", "int64", "float32"),
                                            "along": (0, 1, -2), "second": (True, False, None)}, ((4, 4), (2, 0)), ("float64", "int8"))),
}  # fmt: skip

# Where an operand of an equal kind is the result, whatever the attributes: there is nothing to catch. Layout is part of
# the kind, so a permuted value, or a part of another, is of its operand's kind only where nothing moved or was cut off.
EQUAL_KIND_SUFFICES = frozenset(
    [
        *(
            ("identities", name)
            for name in "cast reshape permute expand slice detach clone contiguous to_device".split()
        ),
        *(("views", name) for name in ("reshape", "permute", "expand", "slice")),
        ("joins", "slice"),
    ]
)
