"""Every operator's eager kernel on a GPU beside the same kernel on NumPy: values, dtypes, strides, refusals.

Input: the oracle's samples; a machine with an NVIDIA GPU and CuPy. Usage, from the repository's root:
    python3 benchmarks/gpu/eager.py > reports/gpu-eager.txt
"""

from __future__ import annotations

import inspect
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


class OutOfReach:
    """An import of torch from here on raises ImportError. (None in sys.modules would: SciPy looks there, and trips.)"""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ImportError("torch is out of reach here")


sys.meta_path.insert(0, OutOfReach)  # type: ignore[arg-type]

import cupy as cp  # noqa: E402
import numpy as np  # noqa: E402

import cutaway as ct  # noqa: E402
from stage0_eager.tensor import Tensor  # noqa: E402
from stage_contracts.tests.report_heading import heading  # noqa: E402
from tests.oracle import samples  # noqa: E402, F401  (fills ROWS)
from tests.oracle.cases import SEED, Case, function_of, leaves, map_leaves, moderate_cases, plain_cases  # noqa: E402
from tests.oracle.columns import outcome, scale_of, settled  # noqa: E402
from tests.oracle.compare import Mismatch, same  # noqa: E402
from tests.oracle.spec import ROWS, Row  # noqa: E402

# A GPU's exp, tanh and sums round differently from the CPU's: what the oracle allows between a kernel and its
# reference in float64 is allowed to both.
BOTH = 2


FLUSHED = ("pow", "nextafter")  # whose results are denormals on edge values that are none
DTYPES = ("float64", "float16", "int64", "bool")


def cases(row: Row) -> Iterator[Case]:
    """Every sample in the row's first dtype, the first sample in others, in two more layouts, with edge values."""
    found = [
        *plain_cases(row, full=True),
        *(Case(row, 0, dtype) for dtype in DTYPES if dtype in row.dtypes),
        *moderate_cases(row, full=False),  # without denormals, which CuPy's kernels flush to zero in float32
    ]
    found = [c for c in found if c.layout != "backwards"]  # a negative stride does not survive the move
    if row.edge_exceptions or row.name.removesuffix("_") in FLUSHED:
        found = [c for c in found if not c.edge]
    yield from {str(case): case for case in found}.values()


def run(case: Case, device: str) -> list[Tensor]:
    """The tensors that a call gives on one device; one that gives None has written its first operand."""
    args, kwargs = (map_leaves(tree, lambda a: Tensor(a).to(device), np.ndarray) for tree in case.arrays())
    function = function_of(case.row.name)
    if not leaves((args, kwargs), Tensor) and "device" in inspect.signature(function).parameters:
        kwargs = {**kwargs, "device": device}
    ct.manual_seed(0)
    out = function(*args, **kwargs)
    return leaves(args[0] if out is None else out, Tensor)


def compare(case: Case) -> None:
    got, want = outcome(lambda: run(case, "cuda")), outcome(lambda: run(case, "cpu"))
    if isinstance(want, Exception):
        if type(got) is not type(want):
            raise Mismatch(f"NumPy raises {type(want).__name__}, CuPy: {got!r:.100}")
        return
    if isinstance(got, Exception):
        raise got
    scale = scale_of(case, case.arrays(), [w.detach().numpy() for w in want])
    for g, w in zip(got, want, strict=True):
        if not g.is_cuda:
            raise Mismatch("the result is not on the GPU")
        if (g.dtype, g.shape, g.stride()) != (w.dtype, w.shape, w.stride()):
            raise Mismatch(f"{g.meta}, on NumPy {w.meta}")
        mine, theirs = settled(case, [g.detach().cpu().numpy(), w.detach().numpy()])
        same(mine, theirs, BOTH * case.row.units, scale)


def main() -> int:
    warnings.simplefilter("ignore")
    name = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    title = "Every operator's eager kernel on CuPy beside NumPy, torch out of reach"
    print(heading(title, "make gpu", SEED, "cupy", "ml_dtypes", more=name))
    print()
    start, passed, failed = time.monotonic(), 0, []
    for number, row in enumerate(ROWS.values()):
        for case in cases(row):
            try:
                compare(case)
                passed += 1
            except Exception as error:  # a crash is a failure of that case
                failed.append((row.name, f"{case}: {type(error).__name__}: {error}"[:300]))
        if number % 20 == 0:
            print(f"{number} of {len(ROWS)}: {row.name}, {len(failed)} failed", file=sys.stderr, flush=True)
    for row_name, text in failed:
        print(f"FAIL {row_name}: {text}")
    rows = len(ROWS) - len({row_name for row_name, _ in failed})
    print(f"{rows} of {len(ROWS)} rows agree; {passed} cases passed, {len(failed)} failed, "
          f"{time.monotonic() - start:.0f} s")  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
