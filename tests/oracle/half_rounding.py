"""How far halves are from the exact result, beside rounding once and beside torch: every row, both half dtypes.

Input: the samples of each row, drawn often enough that their mean error says something; results, or gradients. The exact
ones are eager's in float64 of the same halves; rounding once is eager's in float32, cast. `python -m
tests.oracle.half_rounding [ROW]` prints the cases that are further away than either.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cutaway as ct
from stage0_eager.autograd.backward_pass import grad
from stage0_eager.tensor import Tensor
from tests.oracle import samples, torch_side  # noqa: F401  (samples declares the rows)
from tests.oracle.cases import Case, function_of, leaves, map_leaves
from tests.oracle.spec import ROWS, Operand
from tests.oracle.torch_side import to_array

HALVES = ("bfloat16", "float16")
DRAWS, ENOUGH = 32, 400  # of a sample: as many draws, or as many numbers
SAME = 4  # so many draws that all round once: no more are needed
MORE = 1.15  # times the other's error is no more than chance and another order of sums
CHANCE = 2.0  # standard deviations

_IN_TORCH = "torch rounds there, too: "
# Rows that round between their steps, each with the reason. Where torch is installed, it is no closer than we are.
EXCEPTIONS = {
    "normalize": _IN_TORCH + "the norm is a half",
    "mse_loss": _IN_TORCH + "the difference is a half, and what is averaged",
    "cross_entropy": _IN_TORCH + "log_softmax gives halves, which a loss of classes only adds up",
    "nll_loss": _IN_TORCH + "each loss is a half, and the weighted ones again",
    "kl_div": _IN_TORCH + "a composite there, too, each step of which rounds",
    "cosine_similarity": _IN_TORCH + "the two unit vectors are halves",
    "cosine_embedding_loss": _IN_TORCH + "the products and the cosine are halves",
    "pairwise_distance": _IN_TORCH + "the difference is a half, and again with eps",
    "triplet_margin_loss": _IN_TORCH + "the two distances are halves, and nearly alike",
    "gaussian_nll_loss": _IN_TORCH + "a composite there, too, each step of which rounds",
    "poisson_nll_loss": _IN_TORCH + "a composite there, too, each step of which rounds",
    "multilabel_soft_margin_loss": _IN_TORCH + "each loss is a half before their mean",
    "local_response_norm": _IN_TORCH + "the squares, their mean and its power are halves",
    "gumbel_softmax": "random numbers are drawn as halves",
    "alpha_dropout": "random numbers are drawn as halves, and the two steps after them round",
    "entr": _IN_TORCH + "the logarithm is a half",
    "logit": _IN_TORCH + "the odds are a half",
    "softsign": _IN_TORCH + "the divisor is a half",
    "tanhshrink": _IN_TORCH + "the tanh is a half",
    "xlogy": _IN_TORCH + "the logarithm is a half",
    "xlog1py": _IN_TORCH + "the logarithm is a half",
    "ldexp": _IN_TORCH + "the power of two is a half",
    "matrix_power": _IN_TORCH + "each product is a half",
    "einsum": _IN_TORCH + "the product of two operands is a half before the third",
    "nanmean": _IN_TORCH + "the sum is a half",
    "cov": _IN_TORCH + "the mean and the product are halves",
    "diff": _IN_TORCH + "the second difference is one of rounded first ones",
    "trapezoid": _IN_TORCH + "each trapezoid is a half",
    "cumulative_trapezoid": _IN_TORCH + "each trapezoid is a half",
}


Sides = Callable[[Case], tuple]


@dataclass
class Errors:
    """Distances from the exact numbers, relative to them; one entry for each number."""

    here: list[np.ndarray] = field(default_factory=list)
    once: list[np.ndarray] = field(default_factory=list)
    torch: list[np.ndarray] = field(default_factory=list)

    @property
    def differ(self) -> bool:
        """Whether any number is not rounded once."""
        return any(not np.array_equal(a, b) for a, b in zip(self.here, self.once, strict=True))

    def excess(self, other: str) -> float | None:
        """Our mean error over the other's, where it is clearly larger; else None."""
        beside = getattr(self, other)
        if not beside:  # torch is not installed, or has no such kernel
            return None
        mine, theirs = np.concatenate(self.here), np.concatenate(beside)
        by_chance = CHANCE * float(np.sqrt(np.square(mine - theirs).sum()))
        larger = mine.sum() > MORE * theirs.sum() + by_chance
        return float(mine.sum() / max(theirs.sum(), 1e-9)) if larger else None


def rows() -> list[str]:
    """The rows that take halves and float32, each under one name."""
    return [
        name
        for name, row in ROWS.items()
        if not (row.alias_of or row.in_place_of) and "float32" in row.dtypes and {*HALVES} & {*row.dtypes}
    ]


def measured(name: str, sides: Sides, most: int = DRAWS) -> Iterator[tuple[str, Errors]]:
    """(which case, its errors) of each sample in each half dtype. `sides`: of_results or of_gradients."""
    row = ROWS[name]
    for dtype in (half for half in HALVES if half in row.dtypes):
        for index in range(len(row.samples)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                draws = [Case(row, index, dtype, draw=draw) for draw in range(most)]
                yield f"sample {index}, {dtype}", _errors(draws, sides)


def _errors(draws: list[Case], sides: Sides) -> Errors:
    errors, count, same = Errors(), 0, True
    for case in draws:
        exact, here, single, theirs = sides(case)
        for k, (wanted, mine, wide) in enumerate(zip(exact, here, single, strict=True)):
            if mine.dtype.name != case.dtype:
                continue
            found = {"here": mine, "once": _rounded(wide, case.dtype)}
            if theirs is not None:
                found["torch"] = theirs[k]
            same = same and np.array_equal(found["here"], found["once"], equal_nan=True)
            count += _enter(errors, wanted, found)
        if count >= ENOUGH or (same and case.draw + 1 == SAME):
            break
    return errors


def _enter(errors: Errors, exact: np.ndarray, sides: dict[str, np.ndarray]) -> int:
    """Enter the numbers that are finite on all sides; how many."""
    with np.errstate(all="ignore"):
        wide = {name: np.asarray(a).astype(np.float64) for name, a in sides.items()}
    seen = np.isfinite(exact) & np.logical_and.reduce([np.isfinite(a) for a in wide.values()])
    # what cancels to nearly nothing counts no more than what is a hundredth of the largest
    unit = np.abs(exact[seen]) + 1e-2 * float(np.abs(exact[seen]).max(initial=0)) + 1e-6
    for name, a in wide.items():
        getattr(errors, name).append(np.abs(a[seen] - exact[seen]) / unit)
    return int(seen.sum())


# ---- the two sides: what a case gives ------------------------------------------------------------------------------


def of_results(case: Case) -> tuple:
    """Results: (eager's in float64, in halves, in float32, torch's or None)."""

    def eager(dtype: str) -> list[np.ndarray]:
        return [_settled(case, x.detach()._data) for x in _floats(_eager(case, dtype)[0], Tensor)]

    def torch() -> list[np.ndarray]:
        return [_settled(case, to_array(x)) for x in _floats(_torch(case)[0], torch_side.torch.Tensor)]

    return *map(eager, ("float64", case.dtype, "float32")), _attempt(case, torch)


def of_gradients(case: Case) -> tuple:
    """The same of the operands' gradients. Those of the results are numbers that every half holds."""

    def eager(dtype: str) -> list[np.ndarray]:
        results, operands = _eager(case, dtype)
        outs = [x for x in _floats(results, Tensor) if x.requires_grad]
        tangents = [Tensor(_tangent(x.shape)).to(x.dtype) for x in outs]
        found = grad(outs, operands, tangents, allow_unused=True) if outs else []
        return [_or_zeros(g if g is None else g._data, x) for g, x in zip(found, operands)]

    def torch() -> list[np.ndarray]:
        results, operands = _torch(case)
        outs = [x for x in _floats(results, torch_side.torch.Tensor) if x.requires_grad]
        tangents = [torch_side.to_torch(_tangent(x.shape)).to(x.dtype) for x in outs]
        found = torch_side.torch.autograd.grad(outs, operands, tangents, allow_unused=True)
        return [_or_zeros(g if g is None else to_array(g), x) for g, x in zip(found, operands)]

    return *map(eager, ("float64", case.dtype, "float32")), _attempt(case, torch)


def _eager(case: Case, dtype: str) -> tuple:
    """(results, operands that have gradients), the case's halves as numbers of `dtype`."""
    ct.manual_seed(0)
    wide = getattr(ct, dtype)
    make = lambda a: Tensor(a).to(wide) if a.dtype.name == case.dtype else Tensor(a)  # noqa: E731
    (args, kwargs), operands = _given(case, make)
    return function_of(case.row.name)(*args, **kwargs), operands


def _torch(case: Case) -> tuple:
    """As _eager, in torch as it computes by itself, oneDNN included."""
    (args, kwargs), operands = _given(case, torch_side.to_torch)
    args, kwargs = torch_side.words((args, kwargs))
    return torch_side.function_of(case.row)(*args, **kwargs), operands


def _given(case: Case, make: Callable[[np.ndarray], Any]) -> tuple[Any, list]:
    """The arguments, their arrays made tensors, and those that are differentiated."""
    flags = iter(
        [o.grad and o.dtype is None for o in leaves((case.sample.args, case.sample.kwargs), Operand)]
    )
    operands = []

    def tensor(array: np.ndarray) -> Any:
        made = make(array)
        if next(flags):
            made = made.detach().requires_grad_()
            operands.append(made)
        return made

    return map_leaves(case.arrays(), tensor, np.ndarray), operands


def _attempt(case: Case, torch: Callable[[], list[np.ndarray]]) -> list[np.ndarray] | None:
    """torch's, of a row that takes part in its column; None without torch, or where it has no such kernel."""
    if torch_side.torch is None or "torch" in case.row.exceptions:
        return None
    try:
        return torch()
    except Exception:  # whether it refuses rightly is the column "torch"'s question
        return None


def _floats(results: Any, kind: type) -> list:
    """The floating tensors of a result."""
    return [x for x in leaves(results, kind) if "float" in str(x.dtype)]


def _tangent(shape: Any) -> np.ndarray:
    drawn = np.random.default_rng(7).uniform(0.5, 1.5, tuple(shape))
    return np.asarray(np.round(drawn * 64) / 64)


def _or_zeros(gradient: Any, operand: Any) -> np.ndarray:
    return np.zeros(tuple(operand.shape)) if gradient is None else gradient


def _settled(case: Case, array: np.ndarray) -> np.ndarray:
    return case.row.canonical(array) if case.row.canonical else array


def _rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    return Tensor(array).to(getattr(ct, dtype)).numpy() if array.dtype.name == "float32" else array


def has_gradients(name: str) -> bool:
    """Whether the row takes part in the derivative's column, and in torch's."""
    return not {"torch", "derivative", "torch's derivative"} & {*ROWS[name].exceptions}


def main(names: list[str]) -> None:
    for name in names or rows():
        for sides in (of_results, of_gradients) if has_gradients(name) else (of_results,):
            for case, errors in measured(name, sides):
                found = {other: errors.excess(other) for other in ("torch", "once")}
                if any(found.values()):
                    text = (f"{v:6.2f} times {k}'s" for k, v in found.items() if v)
                    print(f"{name:32s} {sides.__name__:12s} {case:20s}", *text)


if __name__ == "__main__":
    main(sys.argv[1:])
