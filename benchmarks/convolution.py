"""Convolution, pooling and interpolation run eagerly, beside torch: typical layers, and ResNet-50 as a whole.

Input: torch beside it (the extra `oracle`). `make convolution` keeps what this prints in reports/convolution.txt.
Both sides run in one process, in turns, on one thread; each figure is the least CPU time of several calls.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy
import torch

import cutaway
from benchmarks.quick import too_slow, unless_quick
from stage_contracts.tests.report_heading import heading

ROUNDS, LIMIT = unless_quick(9, 1), 5.0
F, T = cutaway.nn.functional, torch.nn.functional

# name, input shape, weight shape or None, function of (functional, x, w)
LAYERS: list[tuple[str, tuple, tuple | None, Callable]] = [
    ("conv 7x7, stride 2", (2, 3, 64, 64), (64, 3, 7, 7), lambda f, x, w: f.conv2d(x, w, None, 2, 3)),
    ("conv 3x3, 64 channels", (2, 64, 16, 16), (64, 64, 3, 3), lambda f, x, w: f.conv2d(x, w, None, 1, 1)),
    ("conv 3x3, 256 channels", (2, 256, 14, 14), (256, 256, 3, 3), lambda f, x, w: f.conv2d(x, w, None, 1, 1)),
    ("conv 1x1, 1024 to 256", (2, 1024, 14, 14), (256, 1024, 1, 1), lambda f, x, w: f.conv2d(x, w)),
    ("conv 3x3, 32 groups of 8", (2, 256, 28, 28), (256, 8, 3, 3), lambda f, x, w: f.conv2d(x, w, None, 1, 1, 1, 32)),
    ("conv 3x3, depthwise", (2, 96, 28, 28), (96, 1, 3, 3), lambda f, x, w: f.conv2d(x, w, None, 1, 1, 1, 96)),
    ("transposed 2x2, stride 2", (2, 128, 16, 16), (128, 64, 2, 2), lambda f, x, w: f.conv_transpose2d(x, w, None, 2)),
    ("max pool 3x3, stride 2", (2, 64, 56, 56), None, lambda f, x, w: f.max_pool2d(x, 3, 2, 1)),
    ("max pool 2x2", (2, 64, 64, 64), None, lambda f, x, w: f.max_pool2d(x, 2)),
    ("average pool 2x2", (2, 64, 64, 64), None, lambda f, x, w: f.avg_pool2d(x, 2)),
    ("adaptive average to 1x1", (2, 512, 7, 7), None, lambda f, x, w: f.adaptive_avg_pool2d(x, 1)),
    ("nearest, twice the size", (2, 64, 32, 32), None, lambda f, x, w: f.interpolate(x, scale_factor=2)),
    ("bilinear, twice the size", (2, 64, 32, 32), None,
     lambda f, x, w: f.interpolate(x, scale_factor=2, mode="bilinear")),
]  # fmt: skip


def least(functions: list[Callable[[], Any]]) -> list[float]:
    """Milliseconds of CPU time of each function, the least over rounds in which they take turns."""
    best = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for i, function in enumerate(functions):
            start = time.process_time()
            function()
            best[i] = min(best[i], (time.process_time() - start) * 1e3)
    return best


def layer(name: str, shape: tuple, weight: tuple | None, function: Callable) -> None:
    """One line: forward and gradients, here and in torch."""
    draw = numpy.random.default_rng(0)
    arrays = [draw.standard_normal(s).astype("f4") for s in (shape, weight) if s is not None]
    mine = [cutaway.from_numpy(a).requires_grad_() for a in arrays]
    theirs = [torch.from_numpy(a.copy()).requires_grad_() for a in arrays]
    ours, want = function(F, mine[0], mine[-1]), function(T, theirs[0], theirs[-1])
    assert numpy.allclose(ours.detach().numpy(), want.detach().numpy(), rtol=1e-3, atol=1e-3), name
    g, h = cutaway.ones(*ours.shape), torch.ones_like(want)
    took = least([
        lambda: function(T, theirs[0], theirs[-1]), lambda: function(F, mine[0], mine[-1]),
        lambda: torch.autograd.grad([want], theirs, [h], retain_graph=True),
        lambda: cutaway.autograd.grad([ours], mine, [g], retain_graph=True),
    ])  # fmt: skip
    print(
        f"{name:<26}{took[0]:13.2f} ms{took[1]:7.2f} ms{took[1] / took[0]:7.1f}   "
        f"{took[2]:14.2f} ms{took[3]:7.2f} ms{took[3] / took[2]:7.1f}"
    )


def resnet50(nn: Any) -> Any:
    """Torchvision's ResNet-50, as a Sequential, in either library."""

    class Bottleneck(nn.Module):
        def __init__(self, inner: int, width: int, stride: int):
            super().__init__()
            norm, relu = nn.BatchNorm2d, nn.ReLU
            self.body = nn.Sequential(
                nn.Conv2d(inner, width, 1, bias=False), norm(width), relu(),
                nn.Conv2d(width, width, 3, stride, 1, bias=False), norm(width), relu(),
                nn.Conv2d(width, 4 * width, 1, bias=False), norm(4 * width),
            )  # fmt: skip
            same = stride == 1 and inner == 4 * width
            short = (nn.Conv2d(inner, 4 * width, 1, stride, bias=False), norm(4 * width))
            self.short, self.relu = nn.Identity() if same else nn.Sequential(*short), relu()

        def forward(self, x):
            return self.relu(self.body(x) + self.short(x))

    parts = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inner = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            parts.append(Bottleneck(inner, 64 * 2**stage, 2 if stage and not block else 1))
            inner = 256 * 2**stage
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def whole_network() -> bool:
    x = numpy.random.default_rng(1).standard_normal((2, 3, 64, 64)).astype("f4")
    mine, theirs = resnet50(cutaway.nn), resnet50(torch.nn)
    mine.load_state_dict({k: cutaway.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    a, b = cutaway.from_numpy(x), torch.from_numpy(x)
    mine.eval(), theirs.eval()
    with cutaway.no_grad(), torch.no_grad():
        far = float(numpy.abs(mine(a).numpy() - theirs(b).numpy()).max() / numpy.abs(theirs(b).numpy()).max())
        forward = least([lambda: theirs(b), lambda: mine(a)])
    mine.train(), theirs.train()
    step = least([lambda: theirs(b).sum().backward(), lambda: mine(a).sum().backward()])
    ratio = forward[1] / forward[0]
    print(f"ResNet-50 on 2x3x64x64, the same weights: outputs differ by {far:.1e} of the largest")
    for name, (t, c) in {"forward": forward, "forward and backward": step}.items():
        print(f"     {name:<21} torch {t:8.1f} ms, cutaway {c:8.1f} ms, ratio {c / t:.2f}")
    holds = not too_slow(ratio > LIMIT) and far < 1e-4
    print(f"{'ok  ' if holds else 'FAIL'} ResNet-50 forward: {ratio:.2f} of torch's time, at most {LIMIT:g}")
    return holds


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(heading("Convolution, eager", "make convolution", "0 and 1", "torch", more="one thread"))
    print(
        f"{'':26}{'forward: torch':>16}{'cutaway':>10}{'ratio':>7}   {'gradients: torch':>17}{'cutaway':>10}  ratio"
    )
    for line in LAYERS:
        layer(*line)
    holds = whole_network()
    print("all hold" if holds else "failed: ResNet-50 forward")
    sys.exit(0 if holds else 1)
