"""Random convolutions, compiled with their gradients beside eager: any rank, stride, padding, dilation, groups, dtype.

Input: a seed. Eager is the oracle, itself held against sums written out in stage 0's tests. Of a large run:
`python -m tests.kernels.test_convolutions_compiled --programs 2000 --seed 0 --report FILE`. Planted faults that it finds in
seeds 0 to 39: the columns ignore the padding (15 seeds, first 5), images and channels change places (5, first 2),
the kernel of the adjoint is not turned (3, first 13).
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

import cutaway
from stage_contracts import events
from stage_contracts.tests.many_programs import Fuzzer, main

F = cutaway.nn.functional
TOLERANCES = {"float32": 1e-4, "float64": 1e-11}  # of the largest element; sums of up to a thousand products
OPTIONS = {"runtime.cache": False, "runtime.cxx_flags": "-O0"}


def draw(seed: int) -> dict[str, Any]:
    """A convolution and its shapes; now and then one whose columns are its input."""
    rng = random.Random(seed)
    d, groups = rng.choice([1, 2, 2, 2, 3]), rng.choice([1, 1, 1, 2, 3])
    pick = lambda *of: tuple(rng.choice(of) for _ in range(d))  # noqa: E731
    kernel, stride, padding, dilation = pick(1, 2, 3), pick(1, 1, 2, 3), pick(0, 1, 2), pick(1, 1, 2)
    if rng.random() < 0.3:
        kernel, stride, padding = (1,) * d, (1,) * d, (0,) * d
    reach = [e * (k - 1) + 1 - 2 * p for e, k, p in zip(dilation, kernel, padding, strict=True)]
    most = {1: 400, 2: 20, 3: 7}[d]  # on both sides of the size from which images have products of their own
    sizes = tuple(max(rng.randrange(1, most), least) for least in reach)
    return {
        "name": rng.choice(["conv", "conv", "conv_transpose"]) + f"{d}d",
        "input": (rng.choice([0, 1, 1, 2, 3]), groups * rng.choice([1, 3, 8]), *sizes),
        "outs": groups * rng.choice([1, 8, 9, 16]),
        "kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
        "dtype": rng.choice(["float32", "float32", "float64"]),
    }  # fmt: skip


def arrays(seed: int, case: dict[str, Any]) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    channels, outs, groups = case["input"][1], case["outs"], case["groups"]
    turned = case["name"].startswith("conv_transpose")
    pair = (channels, outs // groups) if turned else (outs, channels // groups)
    shapes = (case["input"], (*pair, *case["kernel"]), (outs,))
    return [rng.standard_normal(shape).astype(case["dtype"]) for shape in shapes]


def results(run: Any, given: list[np.ndarray]) -> list[np.ndarray]:
    """Both outputs and the three gradients."""
    tensors = [cutaway.from_numpy(a.copy()).requires_grad_() for a in given]
    plain, after = run(*tensors)
    ((after * after).sum() + plain.sum()).backward()
    return [plain.detach().numpy(), after.detach().numpy(), *[t.grad.numpy() for t in tensors]]


def run_one(seed: int) -> tuple[Counter, str]:
    case = draw(seed)
    how = {key: case[key] for key in ("stride", "padding", "dilation", "groups")}

    def program(x: Any, w: Any, b: Any) -> Any:
        y = getattr(F, case["name"])(x, w, b, **how)
        return y, F.relu(y) * 0.5

    given = arrays(seed, case)
    try:
        wanted = results(program, given)
    except RuntimeError as error:
        return Counter(refused=1), "" if "size" in str(error) else f"{case}: {error}"
    mark = events.EVENT_LOG.mark()
    found = results(cutaway.compile(program, options=OPTIONS), given)
    reasons = [
        e.details["reason"] for e in events.EVENT_LOG.since(mark, "fallback") if e.name == "convolution"
    ]
    for what, got, want in zip(("output", "after", "input", "weight", "bias"), found, wanted, strict=True):
        if (got.shape, got.dtype) != (want.shape, want.dtype):
            return Counter(), f"{case}: {what} is {got.shape} {got.dtype}, expected {want.shape} {want.dtype}"
        largest = max(1.0, float(np.abs(want).max(initial=0)))
        far = float(np.abs(got - want).max(initial=0)) / largest
        if not far <= TOLERANCES[case["dtype"]]:
            return Counter(), f"{case}: {what} differs by {far:.1e} of its largest element"
    return Counter(reasons) + Counter(inside=not reasons), ""


def lines(counts: Counter) -> list[str]:
    said = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    return [f"{said} (`inside`: no convolution was left to the eager kernel; else the reasons why)"]


@pytest.mark.parametrize("seed", range(8))
def test_random_convolutions_give_what_eager_gives(seed):
    assert not run_one(seed)[1]


@pytest.mark.parametrize("stride", [1, 2])
def test_narrow_groups_stay_inside_for_any_number_of_images(stride):
    """The second number of images leaves it open; forward and both gradients are kernels, for the numbers after too."""
    how, w = (
        {"padding": 1, "groups": 4, "stride": stride},
        np.random.default_rng(0).standard_normal((4, 2, 3, 3)),
    )

    def program(x: Any, w: Any, b: Any) -> Any:
        y = F.conv2d(x, w, b, **how)
        return y, F.relu(y) * 0.5

    mark, compiled = events.EVENT_LOG.mark(), cutaway.compile(program, options=OPTIONS)
    for images in (3, 5, 1, 2):
        given = [np.random.default_rng(images).standard_normal((images, 8, 9, 7)), w, np.ones(4)]
        for got, want in zip(results(compiled, given), results(program, given), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)
    assert not [e for e in events.EVENT_LOG.since(mark, "fallback") if e.name == "convolution"]
    assert len(compiled.artifacts) == 2


def test_results_share_no_memory():
    """What a product makes is returned under the convolution's shape; a second result of the same elements is a copy."""
    x, w = cutaway.randn(1, 3, 9, 9), cutaway.randn(8, 3, 3, 3)

    def program(x: Any, w: Any) -> Any:
        y = F.conv2d(x, w)
        return y, y.clone().flatten(1), y.clone()

    found = cutaway.compile(program, options=OPTIONS)(x, w)
    for k, changed in enumerate(found):
        before = [t.numpy().copy() for t in found]
        changed.add_(1.0)
        assert [bool((t.numpy() == b).all()) for t, b in zip(found, before, strict=True)] == [
            j != k for j in range(3)
        ]


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main(Fuzzer(
        "Random convolutions, compiled beside eager", "python -m tests.kernels.test_convolutions_compiled", run_one, lines
    )))  # fmt: skip
