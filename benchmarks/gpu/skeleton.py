"""The walking skeleton on a real GPU, with torch out of reach: run it, keep what it prints beside it.

Input: a machine with an NVIDIA GPU, CuPy and Triton. Usage, from the repository's root:
    python3 benchmarks/gpu/skeleton.py > reports/gpu-skeleton.txt
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.modules["torch"] = None  # type: ignore[assignment]  # any import of torch from here on raises ImportError

import cupy as cp  # noqa: E402
import numpy as np  # noqa: E402
from cutaway.nn import functional as F  # noqa: E402

import cutaway  # noqa: E402
from cutaway import nn  # noqa: E402
from stage_contracts import events  # noqa: E402
from stage_contracts.tests.report_heading import heading  # noqa: E402

SEED = 0
FAILED: list[str] = []


def check(name: str, holds: bool, detail: str = "") -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {name}{': ' + detail if detail else ''}", flush=True)
    if not holds:
        FAILED.append(name)


def ulps(a: np.ndarray, b: np.ndarray) -> int:
    """The largest distance between two float arrays, in units of the last place of the larger."""
    spacing = np.spacing(np.maximum(np.abs(a), np.abs(b)))
    return int(np.max(np.abs(a - b) / spacing, initial=0))


def microseconds(function, repeats: int = 300) -> tuple[float, float]:
    """(host time, whole time) of one call: the issue alone, and with the device drained."""
    for _ in range(20):
        function()
    cp.cuda.Device().synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        function()
    issued = time.perf_counter()
    cp.cuda.Device().synchronize()
    return (issued - start) / repeats * 1e6, (time.perf_counter() - start) / repeats * 1e6


def sin_of_cos(x):
    return cutaway.sin(cutaway.cos(x))


def block_loss(x, w, b, gain, shift):
    h = F.gelu(F.layer_norm(F.linear(x, w, b), (w.shape[0],), gain, shift))
    return h.square().mean()


def classifier_loss(model, x, y):
    return F.cross_entropy(model(x), y)


def run_pointwise() -> None:
    x = cutaway.randn(1 << 20, device="cuda")
    wanted = sin_of_cos(x).cpu().numpy()
    reference = np.sin(np.cos(x.cpu().numpy().astype(np.float64)))
    for mode, name in ((None, "plain"), ("reduce-overhead", "captured as a CUDA graph")):
        compiled = cutaway.compile(sin_of_cos, mode=mode, fullgraph=True)
        got = compiled(x)
        again = compiled(x)
        seen = got.cpu().numpy()
        apart, exact = ulps(seen, wanted), ulps(seen, reference.astype(np.float32))
        check(f"sin(cos(x)), {name}: equal to eager", apart <= 4, f"{apart} ulps; {exact} from float64")
        check(f"sin(cos(x)), {name}: a second result does not overwrite the first",
              again._data.data.ptr != got._data.data.ptr)  # fmt: skip
        program = compiled.artifacts[-1].forward.emitted["triton"]
        check(f"sin(cos(x)), {name}: one kernel", len(program.kernels) == 1)
        fallbacks = [str(e) for e in events.EVENT_LOG.since(0, "fallback")]
        check(f"sin(cos(x)), {name}: nothing fell back", not fallbacks, "; ".join(fallbacks))
        y = cutaway.randn(1 << 20, device="cuda")
        fresh = compiled(y).cpu().numpy()
        check(f"sin(cos(x)), {name}: other data, no recompile",
              ulps(fresh, sin_of_cos(y).cpu().numpy()) <= 4 and len(compiled.entries) == 1)  # fmt: skip
        host, whole = microseconds(lambda compiled=compiled: compiled(x))
        print(f"     host {host:.1f} us per call, with the device {whole:.1f} us")
    host, whole = microseconds(lambda: sin_of_cos(x))
    print(f"     eager: host {host:.1f} us per call, with the device {whole:.1f} us")
    print(program.units[0].text)


def run_gradients() -> None:
    cutaway.manual_seed(SEED)
    shapes = [(256, 128), (64, 128), (64,), (64,), (64,)]
    leaves = [cutaway.randn(*s, device="cuda").requires_grad_() for s in shapes]
    loss = block_loss(*leaves)
    loss.backward()
    wanted = [leaf.grad.cpu().numpy() for leaf in leaves]
    for leaf in leaves:
        leaf.grad = None
    compiled = cutaway.compile(block_loss, fullgraph=True)
    got = compiled(*leaves)
    got.backward()
    check("linear, layer_norm, gelu: loss", abs(got.item() - loss.item()) <= 1e-5 * abs(loss.item()))
    for name, leaf, want in zip(("x", "w", "b", "gain", "shift"), leaves, wanted, strict=True):
        error = np.linalg.norm(leaf.grad.cpu().numpy() - want) / np.linalg.norm(want)
        check(f"linear, layer_norm, gelu: gradient of {name}", error < 1e-5, f"relative error {error:.1e}")


def run_training() -> None:
    losses = {}
    for name in ("eager", "compiled"):
        cutaway.manual_seed(SEED)
        model = nn.Sequential(
            nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Dropout(0.1), nn.Linear(128, 10)
        )
        model.to("cuda")
        optimizer = cutaway.optim.AdamW(model.parameters(), lr=3e-3)
        step = cutaway.compile(classifier_loss) if name == "compiled" else classifier_loss
        x, y = cutaway.randn(128, 64, device="cuda"), cutaway.randint(10, (128,), device="cuda")
        losses[name] = []
        for _ in range(50):
            loss = step(model, x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[name].append(loss.item())
    worst = max(abs(a - b) / abs(a) for a, b in zip(losses["eager"], losses["compiled"], strict=True))
    first, last = losses["eager"][0], losses["eager"][-1]
    seen = f"loss {first:.4f} to {last:.4f}, largest relative difference {worst:.1e}"
    check("a classifier with dropout, 50 steps: compiled equals eager", worst < 1e-3, seen)


def main() -> None:
    properties = cp.cuda.runtime.getDeviceProperties(0)
    title = "The skeleton: one function through every stage, on a GPU"
    print(heading(title, "make gpu", SEED, "cupy", "triton", more=properties["name"].decode()))
    cutaway.manual_seed(SEED)
    for part in (run_pointwise, run_gradients, run_training):
        try:
            part()
        except Exception:
            import traceback

            traceback.print_exc(file=sys.stdout)
            FAILED.append(part.__name__)
    check("torch was never imported", sys.modules.get("torch") is None)
    print(f"{len(FAILED)} failed" if FAILED else "all passed")
    sys.exit(bool(FAILED))


if __name__ == "__main__":
    main()
