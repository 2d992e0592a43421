"""Copies between the host and a GPU: how much of them is hidden, whether values are right, and NumPy programs there.

Input: a machine with an NVIDIA GPU and CuPy. A loop copies a batch and works on it for about as long as the copy takes;
random loops copy, compute, drop and read, and are compared with NumPy; NumPy programs run under a device context.
    python3 -m benchmarks.gpu.copies > reports/gpu-copies.txt
"""

from __future__ import annotations

import random
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

import cutaway as ct  # noqa: E402
from stage_contracts.events import EVENT_LOG  # noqa: E402
from stage_contracts.tests.report_heading import heading  # noqa: E402

BATCHES, ELEMENTS = 20, 1 << 24  # 64 MB each
LOOPS, STEPS, REPEATS = 200, 40, 7


def synchronize() -> None:
    import cupy

    cupy.cuda.runtime.deviceSynchronize()


def measured(run: Callable[[], Any], repeats: int = REPEATS) -> float:
    """The median time of a run in ms, from an idle GPU to an idle GPU."""
    times = []
    for _ in range(repeats):
        synchronize()
        start = time.perf_counter()
        run()
        synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


# ---- a loop of copies and work -----------------------------------------------------------------------------------


def _step(x: Any) -> Any:
    for _ in range(8):
        x = (x * 1.25).sin()
    return x


def loop_times() -> bool:
    """The table of the loop. Whether all of its ways give the same results."""
    step = ct.compile(_step, fullgraph=True)
    rng = np.random.default_rng(0)
    plain = [ct.from_numpy(rng.random(ELEMENTS, np.float32)) for _ in range(4)]
    pinned = [x.pin_memory() for x in plain]
    assert all(x.is_pinned() for x in pinned) and not plain[0].is_pinned()
    there = pinned[0].to("cuda")
    step(there)
    unit = measured(lambda: [step(there) for _ in range(20)]) / 20
    copy = measured(lambda: [pinned[k % 4].to("cuda", non_blocking=True) for k in range(BATCHES)]) / BATCHES
    back = measured(lambda: [there.to("cpu", non_blocking=True) for _ in range(BATCHES)]) / BATCHES
    rounds = max(1, round(copy / unit))

    def work(x: Any) -> Any:
        for _ in range(rounds):
            x = step(x)
        return x

    first = ct.compile(lambda batch: _step(batch.to("cuda", non_blocking=True)), fullgraph=True)

    def work_in_graph(batch: Any) -> Any:
        x = first(batch)
        for _ in range(rounds - 1):
            x = step(x)
        return x

    ways: dict[str, Callable[[int], Any]] = {
        "pageable": lambda k: work(plain[k % 4].to("cuda")),
        "pinned": lambda k: work(pinned[k % 4].to("cuda")),
        "pinned, non_blocking": lambda k: work(pinned[k % 4].to("cuda", non_blocking=True)),
        "the same, compiled": lambda k: work_in_graph(pinned[k % 4]),
        "and the result back": lambda k: work(pinned[k % 4].to("cuda", non_blocking=True)).to("cpu", non_blocking=True),
        "and back, blocking": lambda k: work(pinned[k % 4].to("cuda")).to("cpu"),
    }  # fmt: skip
    alone = measured(lambda: [work(there) for _ in range(BATCHES)]) / BATCHES
    ideal, both = max(copy, alone), max(copy, back, alone)
    size = 4 * ELEMENTS / 1e6
    print(f"\nA batch of {size:.0f} MB: copy {copy:.2f} ms ({size / copy:.1f} GB/s), copy back {back:.2f}, "
          f"work {alone:.2f} ms; {BATCHES} batches, ms a batch\n")  # fmt: skip
    print(f"{'':24}{'ms':>8}{'ideal':>8}{'share hidden':>14}   host alone, results")
    results, good = [], True
    for name, way in ways.items():
        got = [np.array(way(k).to("cpu").numpy()[::4097]) for k in range(4)]
        results.append(got)
        same = all(np.array_equal(a, b) for a, b in zip(got, results[0], strict=True))
        good = good and same
        took = measured(lambda way=way: [way(k) for k in range(BATCHES)]) / BATCHES  # type: ignore[misc]
        start = time.perf_counter()
        for k in range(BATCHES):
            way(k)
        host = 1e3 * (time.perf_counter() - start) / BATCHES
        synchronize()
        aim = both if "back" in name else ideal
        apart = copy + alone + (back if "back" in name else 0.0)
        hidden = (apart - took) / (apart - aim)
        print(f"{name:24}{took:8.2f}{aim:8.2f}{hidden:13.0%}    {host:.2f} {'same' if same else 'DIFFER'}")
    return good


# ---- values ------------------------------------------------------------------------------------------------------


def one_random_loop(seed: int, affine: Callable[[Any], Any], heavy: Any) -> str:
    """A loop of copies, kernels, drops and reads. What was wrong; "" if nothing."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    sizes = [draw.choice((1, 100, 4096, 100_000, 1_000_000)) for _ in range(3)]
    there: list[tuple[Any, np.ndarray]] = []  # tensors on the GPU, and what they should hold
    here: list[tuple[Any, np.ndarray]] = []  # tensors on their way to the host

    def any_of(held: list) -> int:
        return draw.randrange(max(0, len(held) - 3), len(held))

    for _ in range(STEPS):
        kind = draw.choice(("bring", "bring", "bring", "compute", "compute", "delay", "send", "send", "read", "drop",
                            "drop", "return"))  # fmt: skip
        if kind == "bring":
            n = draw.choice(sizes)
            values = rng.integers(0, 1000, (n, 2)).astype(np.float32)
            batch = ct.from_numpy(values.T if draw.random() < 0.3 else values).pin_memory()
            later, expected = draw.random() < 0.7, batch.numpy().copy()
            there.append((batch.to("cuda", non_blocking=later), expected))
            if not later:
                batch.numpy()[...] = -1  # allowed: the copy is done
        elif kind == "delay":  # the program's stream falls behind
            for _ in range(draw.choice((1, 4))):
                _ = heavy @ heavy
        elif kind == "compute" and there:
            x, expected = there[any_of(there)]
            there.append(((x * 2 + 1) if draw.random() < 0.5 else affine(x), expected * 2 + 1))
        elif kind == "send" and there:
            x, expected = there[any_of(there)]
            here.append((x.to("cpu", non_blocking=True), expected))
        elif kind == "return" and here:
            y, expected = here[any_of(here)]
            there.append((y.to("cuda", non_blocking=True), expected))
        elif kind == "read" and here:
            y, expected = here.pop(any_of(here))
            if not np.array_equal(y.numpy(), expected):
                return "what came to the host"
        elif kind == "drop":
            for held in (there, here):
                if held and draw.random() < 0.7:
                    held.pop(any_of(held))
    for x, expected in there:
        if not np.array_equal(x.cpu().numpy(), expected):
            return "what was on the GPU"
    synchronize()
    return "" if all(np.array_equal(y._data, expected) for y, expected in here) else "what came after the end"


def values_hold() -> bool:
    affine = ct.compile(lambda x: x * 2 + 1, fullgraph=True)
    heavy = ct.ones(3000, 3000, device="cuda")
    start = time.perf_counter()
    wrong = {seed: said for seed in range(LOOPS) if (said := one_random_loop(seed, affine, heavy))}
    print(f"\n{LOOPS - len(wrong)} of {LOOPS} random loops of {STEPS} steps have NumPy's values, in "
          f"{time.perf_counter() - start:.0f} s" + (f"; wrong: {wrong}" if wrong else ""))  # fmt: skip
    return not wrong


# ---- NumPy programs ----------------------------------------------------------------------------------------------


def outer_sum(x: Any, y: Any) -> Any:
    return np.sum(x[:, None] * y[None, :])


def normalized(a: Any) -> Any:
    return (a - a.mean(axis=0)) / (a.std(axis=0) + 1e-6)


def polynomial(a: Any) -> Any:
    return np.where(a > 0, ((0.5 * a - 1.5) * a + 2.0) * a - 1.0, np.exp(a) - 1)


def distances(a: Any, b: Any) -> Any:
    return np.sqrt(np.maximum((a**2).sum(1)[:, None] + (b**2).sum(1)[None, :] - 2 * a @ b.T, 0))


def relaxed(a: Any) -> Any:
    """Writes to its input, and returns a view of it."""
    for _ in range(8):
        a[1:-1, 1:-1] = 0.25 * (a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2])
    return a[::2]


PROGRAMS: dict[Callable[..., Any], tuple[tuple[int, ...], ...]] = {
    outer_sum: ((8192,), (8192,)),
    normalized: ((4096, 2048),),
    polynomial: ((4096, 2048),),
    distances: ((2048, 64), (4096, 64)),
    relaxed: ((2048, 2048),),
}


def programs_hold() -> bool:
    rng, good = np.random.default_rng(0), True
    print(f"\n{'NumPy program':14}{'NumPy':>10}{'compiled':>10}{'on the GPU':>12} ms   difference, where")
    for function, shapes in PROGRAMS.items():
        given = [rng.standard_normal(shape) for shape in shapes]

        def fresh(given: list = given) -> list:
            return [a.copy() for a in given]

        compiled, want_args, got_args = ct.compile(function), fresh(), fresh()
        mark = EVENT_LOG.mark()
        want = function(*want_args)
        with ct.device("cuda"):
            result = compiled(*got_args)
            got = result.copy()  # another call may write to what it shows
            where = sorted({str(n.val.device) for n in compiled.artifacts[-1].halves.forward.calls})
            on_gpu = measured(lambda: compiled(*got_args))  # noqa: B023
        failed = [e.name for e in EVENT_LOG.since(mark, "fallback")]
        first, second = fresh(), fresh()
        with ct.device("cpu"):
            compiled(*first)
            on_cpu = measured(lambda: compiled(*first))  # noqa: B023
        by_numpy = measured(lambda: function(*second))  # noqa: B023
        again = fresh()
        with ct.device("cuda"):  # after all: the same entry, other memory
            got_again = compiled(*again)
        pairs = [(got, want), (got_again, want), *zip(again, want_args, strict=True)]
        apart = max(float(np.max(np.abs(a - b) / (1 + np.abs(b)))) for a, b in pairs)
        shared = np.shares_memory(got_again, again[0]) == np.shares_memory(want, want_args[0])
        kinds = type(result) is np.ndarray and got.dtype == np.float64 and len(compiled.entries) == 2
        fine = apart < 1e-8 and shared and kinds and "cuda:0" in where and not failed
        good = good and fine
        print(f"{function.__name__:14}{by_numpy:10.2f}{on_cpu:10.2f}{on_gpu:12.2f}      {apart:.1e}, {' '.join(where)}"
              + ("" if fine else f"  FAILS (type {type(result).__name__}, memory {shared}, {failed})"))  # fmt: skip
    return good


def main() -> None:
    import cupy

    device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(heading("Copies between the host and a GPU, and NumPy programs under a device context",
                  "make gpu", 0, "cupy", "triton", more=device))  # fmt: skip
    held = []
    for part in (loop_times, values_hold, programs_hold):
        try:
            held.append(part())
        except Exception:
            traceback.print_exc(file=sys.stdout)
            held.append(False)
        sys.stdout.flush()
    print("\n" + ("all hold" if all(held) else "some failed"))
    sys.exit(not all(held))


if __name__ == "__main__":
    main()
