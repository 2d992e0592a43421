"""One operand of another dtype: every row, each of its operands in turn, beside torch; and compiled, beside eager.

Input: the samples of rows that take two operands or more of the dtype under test. Where torch gives a result, so do we:
of its dtype, and no farther from the exact one than torch's. What torch refuses is refused.
`python -m tests.oracle.mixed_dtypes [ROW]` prints the cases that differ.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import cutaway as ct
from stage0_eager.tensor import Tensor
from stage_contracts.dtype import DTYPES
from tests.oracle import compare, samples, torch_side  # noqa: F401  (samples declares the rows)
from tests.oracle.cases import Case, function_of, leaves, map_leaves
from tests.oracle.compare import Mismatch
from tests.oracle.spec import ROWS, Operand

BASES = ("float32", "int64")
OTHERS = ("float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64")

# Rows whose dtype is another than torch's, with torch's reason.
DTYPE_IS_OURS = {
    "binary_cross_entropy": "torch's is the input's, whatever a weight promotes to",
    "binary_cross_entropy_with_logits": "torch writes into 1 - target, and gives the target's dtype",
    "hinge_embedding_loss": "torch writes the losses into tensors like the input and like the target",
    "soft_margin_loss": "torch writes into -target, and gives its dtype",
    "poisson_nll_loss": "torch takes the logarithm of an integer's half in that half",
}
# What torch gives and we refuse: with the reason.
REFUSED = {
    "index_put": "torch fills through a mask with a number of any dtype; as setitem, we do, too",
    "bmm": "torch does not look at the dtypes of an empty product",
    "linalg_solve_triangular": "torch does not look at the dtypes, and solves in one of them",
    "maximum_ minimum_": "torch has no such method: the harness copies a result into place",
    "conv_transpose1d conv_transpose2d conv_transpose3d": "torch adds a bias of any integer dtype",
    "triplet_margin_loss": "torch promotes where a difference is taken",
}
# What torch refuses and we give: with the reason.
GIVEN = {
    "hinge_embedding_loss": "torch writes the losses into integers, which have no mean",
    "index_add index_add_": "torch casts a bool source for some dtypes",
    "index_fill index_fill_": "torch asks what the number of a tensor is, which traced code cannot",
    "ldexp ldexp_": "torch has no loop for a bool exponent",
    "linear": "torch adds a complex bias in place",
    "poisson_nll_loss": "torch subtracts a target from a number",
}
# Losses whose steps see some of the operands: what is of float32 there is as good as float32.
STEP_BY_STEP = (
    "binary_cross_entropy_with_logits", "kl_div", "triplet_margin_loss", "gaussian_nll_loss", "poisson_nll_loss",
    "multilabel_soft_margin_loss",
)  # fmt: skip
# Results that are not comparable.
APART = {"normal": "random"}

_FLOATS = {"float64": "complex128", "float32": "complex64", "float16": "", "bfloat16": ""}
FLOATING_UNITS = {
    name: ct.finfo(getattr(ct, real)).eps for real, pair in _FLOATS.items() for name in (real, pair) if name
}


@dataclass(frozen=True)
class Mixed:
    """A case, one operand of which has another dtype."""

    case: Case
    place: int  # of the operand, among the arrays
    other: str

    def __str__(self) -> str:
        return f"{self.case}, operand {self.place} {self.other}"

    def arrays(self, wide: bool = False) -> tuple[tuple, dict]:
        """(args, kwargs). `wide`: the same numbers in the widest dtype of their kind."""
        places = iter(range(100))

        def drawn(array: np.ndarray) -> np.ndarray:
            if next(places) == self.place:
                magnitude = np.abs(array) if self.other in ("uint8", "bool") else array
                array = np.asarray(magnitude).astype(DTYPES[self.other].numpy)
            if not wide:
                return array
            kind = "complex128" if array.dtype.kind == "c" else "float64"
            return np.asarray(array).astype(kind) if ct.tensor(array).is_floating_point() else array

        return map_leaves(self.case.arrays(), drawn, np.ndarray)


def rows() -> list[str]:
    return [n for n, row in ROWS.items() if n not in APART and not row.alias_of and any(mixed_cases(n))]


def mixed_cases(name: str) -> Iterator[Mixed]:
    row = ROWS[name]
    for base in (b for b in BASES if b in row.dtypes):
        for index, sample in enumerate(row.samples):
            operands = leaves((sample.args, sample.kwargs), Operand)
            free = [place for place, operand in enumerate(operands) if operand.dtype is None]
            for place in free if len(free) > 1 else ():
                yield from (Mixed(Case(row, index, base), place, o) for o in OTHERS if o != base)


def beside_torch(mixed: Mixed) -> str:
    """Compare one case with torch. Raises Mismatch. Gives 'same', 'torch refuses' or 'refused'."""
    name = mixed.case.row.name
    try:
        want = _torch(mixed)
    except Exception as error:
        if _named(GIVEN, name) or isinstance(error, LookupError):
            return "torch refuses"
        return _both_refuse(mixed, error)
    try:
        got = _eager(mixed)
    except Exception as error:
        if mixed.other == "complex64" or _named(REFUSED, name):
            return "refused"
        raise Mismatch(f"raises {type(error).__name__} ({str(error)[:100]}); torch gives a value") from error
    for mine, theirs, exact in zip(got, want, _eager(mixed, wide=True), strict=True):
        if mine.dtype == theirs.dtype:
            _no_farther(mine, theirs, exact, mixed.case.dtype if name in STEP_BY_STEP else mine.dtype.name)
        elif not _named(DTYPE_IS_OURS, name):
            raise Mismatch(f"dtype {mine.dtype}, torch gives {theirs.dtype}")
    return "same"


def _both_refuse(mixed: Mixed, theirs: Exception) -> str:
    try:
        _eager(mixed)
    except Exception:
        return "both refuse"
    raise Mismatch(f"gives a value; torch raises {type(theirs).__name__} ({str(theirs)[:100]})")


def beside_eager(mixed: Mixed) -> str:
    """Compare the compiled row with eager. Raises Mismatch."""
    function = function_of(mixed.case.row.name)
    try:
        want = _eager(mixed)
    except Exception as error:
        want = error
    with ct.config.patch({"capture.suppress_errors": False}):
        try:
            got = _results(ct.compile(lambda *args, **kwargs: function(*args, **kwargs)), mixed, False)
        except Exception as error:
            if type(error) is type(want):
                return "both refuse"
            raise Mismatch(f"compiled raises {type(error).__name__} ({str(error)[:100]})") from error
    if isinstance(want, Exception):
        raise Mismatch(f"eager raises {type(want).__name__} ({str(want)[:100]}); compiled gives a value")
    for mine, eager in zip(got, want, strict=True):
        if mine.dtype != eager.dtype:
            raise Mismatch(f"dtype {mine.dtype}, eager gives {eager.dtype}")
        compare.same(mine, eager, 4 * mixed.case.row.units * _coarser(mixed, mine), _size(eager))
    return "same"


def _coarser(mixed: Mixed, result: np.ndarray) -> float:
    """How many units of the result one unit of an operand is: a sum of those has an order of its own."""
    if result.dtype.name not in FLOATING_UNITS:
        return 1.0
    units = [FLOATING_UNITS.get(array.dtype.name, 0.0) for array in leaves(mixed.arrays(), np.ndarray)]
    return max(1.0, max(units) / FLOATING_UNITS[result.dtype.name])


def _no_farther(mine: np.ndarray, theirs: np.ndarray, exact: np.ndarray, dtype: str) -> None:
    """No farther from the exact result than torch's is, but for a few units of that dtype."""
    if mine.shape != theirs.shape:
        raise Mismatch(f"shape {mine.shape}, torch gives {theirs.shape}")
    far = float(_distance(theirs, exact).max(initial=0))
    unit = ct.finfo(getattr(ct, dtype)).eps if "int" not in dtype and dtype != "bool" else 0.0
    allowed = 1.5 * far + 8 * unit * max(1.0, _size(exact))
    worst = float(_distance(mine, exact).max(initial=0))
    if not worst <= allowed:
        raise Mismatch(f"{worst:.3g} from the exact result; torch is {far:.3g} from it")


def _distance(found: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Of what is finite; anything else has to be the same."""
    with np.errstate(all="ignore"):
        wide, exact = (np.asarray(a).astype(np.complex128) for a in (found, exact))
        apart = np.abs(wide - exact)
    alike = (wide == exact) | (np.isnan(wide) & np.isnan(exact))
    return np.where(alike, 0.0, np.where(np.isnan(apart), np.inf, apart))


def _size(array: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        magnitude = np.abs(np.asarray(array).astype(np.complex128))
    return float(magnitude[np.isfinite(magnitude)].max(initial=0))


def _eager(mixed: Mixed, wide: bool = False) -> list[np.ndarray]:
    return _results(function_of(mixed.case.row.name), mixed, wide)


def _results(function: Any, mixed: Mixed, wide: bool) -> list[np.ndarray]:
    args, kwargs = map_leaves(mixed.arrays(wide), Tensor, np.ndarray)
    out = function(*args, **kwargs)
    return [x.detach().numpy() for x in leaves(args[0] if out is None else out, Tensor)]


def _torch(mixed: Mixed) -> list[np.ndarray]:
    return [np.asarray(x) for x in torch_side.run(mixed.case, mixed.arrays())]


def _named(table: dict[str, str], name: str) -> bool:
    return any(name.rstrip("_") in names.replace("_ ", " ").rstrip("_").split() for names in table)


def check(name: str, compare_with: Any, every: int = 1, first: int = 0) -> tuple[dict[str, int], list[str]]:
    """How many cases showed what, and what the failed ones said."""
    counts: dict[str, int] = {}
    failures = []
    for mixed in list(mixed_cases(name))[first::every]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                kind = compare_with(mixed)
                counts[kind] = counts.get(kind, 0) + 1
            except Exception as error:
                failures.append(f"{mixed}: {type(error).__name__}: {error}"[:300])
    return counts, failures


def main(names: list[str]) -> None:
    compiled = "--compiled" in names
    for name in [n for n in names if n != "--compiled"] or rows():
        _, failures = check(name, beside_eager if compiled else beside_torch)
        for failure in failures:
            print(f"{name:32s} {failure}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
