"""The columns of the oracle's table: each a function of a case that raises Mismatch, and a line of COLUMNS.

Input: cases.py's cases. A later stage adds its column with one function and one line; it may say which cases it
walks, and what it needs installed.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import cutaway as ct
from stage0_eager.autograd.backward_pass import grad
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import run_on_metas
from stage_contracts import events
from stage_contracts.breaks import Unsupported
from stage_contracts.tensor_meta import TensorMeta
from tests.oracle import cases as c
from tests.oracle import compiled as stage2
from tests.oracle import torch_side as other
from tests.oracle.cases import Case, leaves
from tests.oracle.compare import DIFFERENCES, Mismatch, magnitude, same
from tests.oracle.spec import Operand, Row


class NotHere(Exception):
    """The column has nothing to say on this case: counted as neither passed nor failed. Its text is the reason."""


def values(result: Any) -> list:
    """The arrays of a result, flat; Python numbers as they are."""
    found = [x for x in leaves(result) if x is not None]
    return [x.detach()._data if isinstance(x, Tensor) else np.asarray(x) for x in found]


def settled(case: Case, arrays: list) -> list:
    return [case.row.canonical(a) for a in arrays] if case.row.canonical else arrays


def scale_of(case: Case, *trees: Any) -> float:
    """What values are measured by, however small they are: see compare.py."""
    if case.row.scale is not None:
        return case.row.scale
    return 0.0 if case.row.elementwise else magnitude(leaves(trees, np.ndarray))


def run(case: Case, arrays: tuple | None = None) -> Any:
    """Eager's result; an in-place row gives the tensor it wrote."""
    args, kwargs = case.arrays() if arrays is None else arrays
    return c.call(case.row.name, args, kwargs)


# ---- values -----------------------------------------------------------------------------------------------------


def eager_is_numpy(case: Case) -> None:
    """Values and shapes against the reference in float64."""
    if case.row.numpy is None:
        raise NotHere
    args, kwargs = c.as_reference(case.arrays())
    with np.errstate(all="ignore"):
        want = leaves(case.row.numpy(*args, **kwargs))
    got = values(run(case))
    if len(got) != len(want):
        raise Mismatch(f"{len(got)} results, expected {len(want)}")
    scale = scale_of(case, args, kwargs, [np.asarray(w) for w in want])
    for g, w in zip(settled(case, got), settled(case, want)):
        same(g, w, case.row.units, scale)


def eager_is_torch(case: Case) -> None:
    """Values, shapes, dtypes; whether the result shares the first operand's storage; or the same exception type."""
    given, theirs_given = case.arrays(), case.arrays()
    got, want = outcome(lambda: run(case, given)), outcome(lambda: other.run(case, theirs_given))
    if isinstance(want, Exception):
        if other.lacks_kernel(want) or (isinstance(got, Exception) and type(got) is type(want)):
            return
        raise Mismatch(f"torch raises {type(want).__name__} ({str(want)[:80]}); here: {describe(got)}")
    if isinstance(got, Exception):
        raise Mismatch(
            f"raises {type(got).__name__} ({str(got)[:100]}); torch gives {describe(want)}"
        ) from got
    found, expected = values(got), leaves(want)
    if len(found) != len(expected):
        raise Mismatch(f"{len(found)} results, torch gives {len(expected)}")
    scale = scale_of(case, case.arrays(), expected)
    for mine, theirs in zip(settled(case, found), settled(case, expected)):
        if mine.dtype != theirs.dtype:
            raise Mismatch(f"dtype {mine.dtype}, torch gives {theirs.dtype}")
        compared = case.layout == "contiguous" and not case.row.aliasing
        if compared and shares(mine, given) != shares(theirs, theirs_given):
            raise Mismatch(
                f"shares memory with an operand: {shares(mine, given)}; in torch it is the other way"
            )
        same(mine, theirs, case.row.units, scale)


def shares(result: np.ndarray, arrays: tuple) -> bool:
    return any(np.may_share_memory(result, a) for a in leaves(arrays, np.ndarray))


def meta_is_kernel(case: Case) -> None:
    """Shape, dtype, strides and device from metas alone, against what the kernels gave."""
    args, kwargs = c.tensors(case.arrays())
    function = c.function_of(case.row.name)
    to_meta = lambda t: t.meta  # noqa: E731
    metas = c.map_leaves(args, to_meta, Tensor), c.map_leaves(kwargs, to_meta, Tensor)
    try:
        if isinstance(function, Operator):
            predicted = function.meta(*metas[0], **metas[1])
        else:
            predicted = run_on_metas(lambda *a: function(*a, **kwargs), metas[0])
    except Unsupported as error:
        if error.graph_break.code in ("GB0004", "GB0014"):  # it is read, or it decides the shape
            raise NotHere("the shape of the result depends on the data") from error
        raise
    same_metas(leaves(predicted, TensorMeta), function(*args, **kwargs))


def same_metas(found: list[TensorMeta], result: Any, device: Any = None) -> None:
    """The metas are those of the results, on `device` if it is given."""
    got = [x.meta for x in leaves(result, Tensor)]
    if len(got) != len(found):
        raise Mismatch(f"{len(found)} metas for {len(got)} results")
    for mine, real in zip(found, got):
        wanted = (real.shape, real.dtype, real.strides, device or real.device)
        if (mine.shape, mine.dtype, mine.strides, mine.device) != wanted:
            raise Mismatch(f"meta says {mine}, the kernel gave {real}")


def without_data_is_with_data(case: Case) -> None:
    """The same call on the device meta gives tensors of the same kind there, in place too."""
    args, kwargs = c.tensors(case.arrays())
    function = c.function_of(case.row.name)
    moved = c.map_leaves((args, kwargs), lambda t: t.to("meta"), Tensor)
    try:
        with ct.device("meta"):
            there = function(*moved[0], **moved[1])
    except (Unsupported, RuntimeError) as error:
        if isinstance(error, Unsupported) or "cannot be called on meta tensors" in str(error):
            raise NotHere("the result depends on the data") from error
        raise
    here = function(*args, **kwargs)
    there, here = (moved[0][0], args[0]) if here is None else (there, here)  # setitem
    same_metas([x.meta for x in leaves(there, Tensor)], here, ct.device("meta"))


# ---- derivatives ------------------------------------------------------------------------------------------------


def differentiable(case: Case) -> tuple[tuple, list[bool]]:
    """The case's arrays, and for each of them whether it is differentiated."""
    arrays = case.arrays()
    operands = leaves((case.sample.args, case.sample.kwargs), Operand)
    flags = [
        o.grad and a.dtype.kind in "fc" and (o.dtype is None or a.dtype.kind == "c")
        for o, a in zip(operands, leaves(arrays, np.ndarray))
    ]
    if not any(flags) or not any(a.dtype.kind in "fc" for a in values(run(case))):
        raise NotHere
    return arrays, flags


def rebuild(arrays: tuple, flat: list) -> tuple:
    """`arrays` with its leaves replaced, in order."""
    items = iter(flat)
    return c.map_leaves(arrays, lambda _: next(items), np.ndarray)


def weighted(case: Case, arrays: tuple, flat: list) -> Tensor:
    """The sum of all floating results under fixed weights: a scalar to differentiate."""
    args, kwargs = rebuild(arrays, flat)
    if case.row.in_place_of:  # not into a leaf
        args = (args[0].clone(), *args[1:])
    rng, total = np.random.default_rng(7), None
    for out in leaves(c.call(case.row.name, args, kwargs), Tensor):
        if out.is_complex():  # a real loss of both parts
            out = ct.view_as_real(out)
        if out.is_floating_point():
            part = (out * Tensor(rng.uniform(0.5, 1.5, out.shape).astype(out.dtype.numpy))).sum()
            total = part if total is None else total + part
    return total


def gradients(case: Case, arrays: tuple, flags: list[bool], flat: list, create_graph: bool = False) -> tuple:
    """(the differentiated tensors, their gradients; None becomes zeros)."""
    moving = [Tensor(np.array(a, copy=True), flag) for a, flag in zip(flat, flags)]
    wanted = [t for t, flag in zip(moving, flags) if flag]
    loss = weighted(case, arrays, moving)
    if not loss.requires_grad:
        raise NotHere
    found = grad([loss], wanted, create_graph=create_graph, allow_unused=True)
    return wanted, [ct.zeros_like(t) if g is None else g for t, g in zip(wanted, found)]


def direction(array: np.ndarray, rng: Any) -> np.ndarray:
    drawn = rng.normal(size=array.shape)
    return drawn + 1j * rng.normal(size=array.shape) if array.dtype.kind == "c" else drawn


def central(
    function: Callable, flat: list, flags: list[bool], step: float = 1e-6
) -> list[tuple[list, float]]:
    """(a direction, the derivative of `function` along it) for two random directions."""
    rng, found = np.random.default_rng(3), []
    for _ in range(2):
        along = [direction(a, rng) if flag else None for a, flag in zip(flat, flags)]
        ends = [
            function([a if v is None else np.asarray(a + sign * step * v) for a, v in zip(flat, along)])
            for sign in (1, -1)
        ]
        if not np.isfinite(ends).all():
            raise NotHere
        found.append(([v for v in along if v is not None], (ends[0] - ends[1]) / (2 * step)))
    return found


def derivative_is_difference(case: Case) -> None:
    """The gradient along two random directions, against central differences."""
    arrays, flags = differentiable(case)
    if any(
        a.dtype.kind not in "iub" and a.dtype not in (np.float64, np.complex128) for a in values(run(case))
    ):
        raise NotHere  # differences need every bit
    flat = leaves(arrays, np.ndarray)
    _, found = gradients(case, arrays, flags, flat)
    slope = central(lambda a: weighted(case, arrays, [Tensor(x) for x in a]).item(), flat, flags)
    agree([g.detach().numpy() for g in found], slope)


def second_derivative_is_difference(case: Case) -> None:
    """The gradient of the gradient's weighted sum, against central differences of it."""
    arrays, flags = differentiable(case)
    flat = leaves(arrays, np.ndarray)

    def folded(found: list) -> Tensor:
        rng = np.random.default_rng(11)
        found = [ct.view_as_real(g) if g.is_complex() else g for g in found]
        parts = [(g * Tensor(rng.uniform(0.5, 1.5, g.shape))).sum() for g in found]
        return sum(parts[1:], parts[0])

    wanted, found = gradients(case, arrays, flags, flat, create_graph=True)
    loss = folded(found)
    if not loss.requires_grad:
        raise NotHere
    second = grad([loss], wanted, allow_unused=True)
    slope = central(lambda a: folded(gradients(case, arrays, flags, a)[1]).item(), flat, flags)
    agree([np.zeros(t.shape) if g is None else g.detach().numpy() for t, g in zip(wanted, second)], slope)


def agree(found: list, slopes: list[tuple[list, float]]) -> None:
    for directions, slope in slopes:
        terms = [float((g.conj() * v).real.sum()) for g, v in zip(found, directions)]
        size = 1.0 + max(magnitude([g]) for g in found)
        if not abs(sum(terms) - slope) <= DIFFERENCES * max(size, abs(slope)):
            raise Mismatch(f"derivative along a direction is {sum(terms):.9g}, differences give {slope:.9g}")


def derivative_is_torch(case: Case) -> None:
    """Every gradient tensor, also at ties and kinks: operands of whole numbers."""
    arrays, flags = differentiable(case)
    flat = leaves(arrays, np.ndarray)
    _, found = gradients(case, arrays, flags, flat)
    expected = outcome(lambda: other.gradients(case, arrays, flags))
    if isinstance(expected, Exception):
        if other.lacks_kernel(expected):
            raise NotHere
        raise expected
    for mine, theirs in zip(found, expected):
        same(mine.detach().numpy(), theirs, 64 * case.row.units, magnitude([theirs]))


# ---- transformations --------------------------------------------------------------------------------------------


def vmap_is_loop(case: Case) -> None:
    """func.vmap over a new first dimension of every operand, against one call per slice."""
    draws = [Case(case.row, case.index, case.dtype, draw=d).arrays() for d in range(2)]
    flats = [leaves(d, np.ndarray) for d in draws]
    if not flats[0]:
        raise NotHere
    function = c.function_of(case.row.name)

    def on_flat(*flat: Tensor) -> Any:
        args, kwargs = rebuild(draws[0], list(flat))
        return function(*args, **kwargs)

    want = [values(on_flat(*c.tensors(copies(flat)))) for flat in flats]
    try:
        got = values(ct.func.vmap(on_flat)(*(Tensor(np.stack(group)) for group in zip(*flats))))
    except RuntimeError as error:
        if "dynamic shape" in str(error) or ".tolist()" in str(error):  # refused, as torch refuses it
            raise NotHere("the shape of the result depends on the data") from error
        raise
    for k, g in enumerate(got):
        same(g, np.stack([w[k] for w in want]), case.row.units, scale_of(case, draws[0]))


def copies(flat: list) -> list:
    return [np.array(a, copy=True) for a in flat]


def aot_eager_is_eager(case: Case) -> None:
    """The call compiled with backend="aot_eager", against eager: values, dtypes and shapes, exactly."""
    compiled_is_eager(case, "aot_eager")


def compiled_is_eager(case: Case, backend: str) -> None:
    arrays = case.arrays()
    function, shape = c.function_of(case.row.name), c.map_leaves(arrays, lambda a: a, np.ndarray)
    flat = c.tensors(leaves(arrays, np.ndarray))
    program = program_of(function, shape, len(flat))
    ct.manual_seed(0)
    want = values(program(*c.tensors(copies(leaves(arrays, np.ndarray)))))
    ct.manual_seed(0)
    ct.reset()  # every case compiles the same code object, which has its limit
    try:
        with events.no_internal_errors():
            got = values(ct.compile(program, backend=backend, fullgraph=True)(*flat))
    except Unsupported as error:
        raise NotHere(error.graph_break.code) from error
    for g, w in zip(got, want, strict=True):
        if g.dtype != w.dtype:
            raise Mismatch(f"dtype {g.dtype}, eager gives {w.dtype}")
        same(g, w, case.row.units, scale_of(case, arrays))


def stage2_is_eager(case: Case) -> None:
    """The call through stage 2, traced: results and gradients against eager."""
    try:
        stage2.stage2_is_eager(case)
    except stage2.Refused as error:
        raise NotHere(str(error)) from error


def program_of(function: Any, arrays: tuple, count: int) -> Any:
    """`def program(a0, a1): return function(a0, dim=0, other=a1)`, so that capture sees plain code."""
    names, constants = iter(range(count)), {}

    def word(value: Any) -> str:
        if isinstance(value, np.ndarray):
            return f"a{next(names)}"
        if type(value) in (list, tuple):
            inside = "".join(f"{word(v)}, " for v in value)
            return f"[{inside}]" if type(value) is list else f"({inside})"
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        constants[f"k{len(constants)}"] = value
        return f"k{len(constants) - 1}"

    args, kwargs = arrays
    words = [word(a) for a in args] + [f"{key}={word(v)}" for key, v in kwargs.items()]
    parameters = ", ".join(f"a{i}" for i in range(count))
    namespace = {"function": function, **constants}
    exec(f"def program({parameters}): return function({', '.join(words)})", namespace)
    return namespace["program"]


# ---- refusals ---------------------------------------------------------------------------------------------------


def outcome(attempt: Callable) -> Any:
    """What a call gives, or the exception it raises."""
    try:
        return attempt()
    except Exception as error:  # the type is what is compared
        return error


def describe(result: Any) -> str:
    if isinstance(result, Exception):
        return f"{type(result).__name__} ({str(result)[:80]})"
    return ", ".join(f"{a.dtype}{list(a.shape)}" for a in values(result))


def refuses_as_torch(case: Case) -> None:
    """Each invalid sample raises the declared type with the declared words; torch, where installed, the same type."""
    if case.index:
        raise NotHere  # once per row
    for invalid in case.row.invalid:
        refuse(Row(case.row.name, None, (invalid.sample,), torch=case.row.torch), invalid.dtype, invalid)


def refuse(row: Row, dtype: str, invalid: Any) -> None:
    one = Case(row, 0, dtype)
    got = outcome(lambda: run(one))
    if not isinstance(got, invalid.error) or invalid.says not in str(got):
        raise Mismatch(
            f"{invalid.sample}: expected {invalid.error.__name__} {invalid.says!r}, got {describe(got)}"
        )
    if other.torch is not None:
        theirs = outcome(lambda: other.run(one))
        if type(theirs) is not (invalid.torch_error or invalid.error):
            raise Mismatch(f"{invalid.sample}: {describe(got)}; torch: {describe(theirs)}")


# ---- the table --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """`check(case)` on every case of `cases(row, full)`; `needs` is a package that has to be installed."""

    name: str
    check: Callable[[Case], None]
    cases: Callable[[Row, bool], Iterator[Case]]
    needs: str | None = None
    slow: bool = False  # only in the full run

    @property
    def installed(self) -> bool:
        return self.needs is None or importlib.util.find_spec(self.needs) is not None


COLUMNS = (
    Column("NumPy", eager_is_numpy, c.forward_cases),
    Column("torch", eager_is_torch, c.moderate_cases, needs="torch"),
    Column("meta", meta_is_kernel, c.forward_cases),
    Column("device meta", without_data_is_with_data, c.plain_cases),
    Column("derivative", derivative_is_difference, c.double_cases),
    Column("second derivative", second_derivative_is_difference, c.double_cases),
    Column("torch's derivative", derivative_is_torch, c.double_cases, needs="torch"),
    Column("vmap", vmap_is_loop, c.plain_cases),
    Column("refusals", refuses_as_torch, c.plain_cases),
    Column("aot_eager", aot_eager_is_eager, c.plain_cases, slow=True),
    Column("stage 2", stage2_is_eager, c.plain_cases),
)


@dataclass
class Outcome:
    """One cell of the table: how many cases passed, what the failed ones said, why others had nothing to say."""

    passed: int
    failures: list[str]
    notes: list[str]


def check(column: Column, row: Row, full: bool) -> Outcome:
    """A column on all cases of a row; `full` walks every dtype, layout and edge value."""
    found = Outcome(0, [], [])
    if column.name in row.exceptions:
        return found
    for case in column.cases(row, full):
        if case.edge and column.name in row.edge_exceptions:
            continue
        try:
            column.check(case)
            found.passed += 1
        except NotHere as nothing:
            found.notes += [str(nothing)] if str(nothing) and str(nothing) not in found.notes else []
        except Exception as error:  # a crash is a failure of that case
            kind = "" if isinstance(error, Mismatch) else f"{type(error).__name__}: "
            if not any(words in str(error) for words in row.may_refuse):
                found.failures.append(f"{case}: {kind}{error}"[:400])
    return found
