"""The doctor's self-test: one training step through every stage, compared with eager after each, as rows of JSON.

Input: a small program with a reduction, a product and a backward. Run as `python -m cutaway.debug.self_test`, so that a
crash of what is tested is seen from outside.
"""

from __future__ import annotations

import json
import time
from typing import Any

import cutaway
from cutaway import config
from stage_contracts.events import EVENT_LOG

# What each backend adds, in the order in which a fault would be looked for.
BACKENDS = {
    "eager": "capture",
    "aot_eager": "ahead-of-time autograd",
    "inductor": "lowering, the C++ compiler and the runtime",
}


def step(x: Any, w: Any) -> Any:
    """What is compiled: a layer, a softmax and a loss."""
    return -(x @ w).relu().softmax(dim=1).log().mean()


def outcome(backend: str) -> dict[str, str]:
    """How one backend fares, as the fields of a finding."""
    began = time.perf_counter()
    mark = EVENT_LOG.mark()
    x = cutaway.randn(32, 64)
    w = cutaway.randn(64, 16, requires_grad=True)
    expected = _run(step, x, w)
    what = BACKENDS[backend]
    try:
        with config.patch(suppress_errors=False):
            found = _run(cutaway.compile(step, backend=backend, fullgraph=True), x, w)
    except Exception as error:
        seen = f"{what}: {type(error).__name__}: {error}".splitlines()[0]
        advice = "if no finding above explains it, report it with `cutaway doctor --report`"
        return {"check": "self-test", "status": "problem", "seen": seen, "advice": advice}
    taken = f"{time.perf_counter() - began:.1f} s"
    worst = max(float((a - b).abs().max()) for a, b in zip(expected, found, strict=True))
    if not worst < 1e-4:
        seen = f"{what}: differs from eager by {worst:.2g}"
        advice = "report it with `cutaway doctor --report`; CUTAWAY_AUTOGRAD_VERIFY_PASSES=1 names the pass"
        return {"check": "self-test", "status": "problem", "seen": seen, "advice": advice}
    on_numpy = [e for e in EVENT_LOG.since(mark, "fallback") if e.name == "numpy"]
    if on_numpy:
        seen = f"{what}: as eager, {taken}, but on NumPy: {on_numpy[0].details.get('reason', '')}"
        return {"check": "self-test", "status": "note", "seen": seen}
    return {"check": "self-test", "status": "ok", "seen": f"{what}: as eager, {taken}"}


def _run(function: Any, x: Any, w: Any) -> list[Any]:
    """The loss and the gradient."""
    loss = function(x, w)
    loss.backward()
    found = [loss.detach(), w.grad]
    w.grad = None
    return found


if __name__ == "__main__":
    print(json.dumps([outcome(backend) for backend in BACKENDS]))
