"""Independent branches on parallel streams of a GPU: what they gain in a CUDA graph, and the rule's numbers, measured.

Input: a machine with an NVIDIA GPU, CuPy and Triton. Each program is captured once on one stream ("off"), once with all
branches beside one another ("force") and once as the rule says ("auto"), in one process. Graphs are timed alone, in
turns; the bits must be the same.
    python3 -m benchmarks.gpu.streams [part of a case's name] > reports/gpu-streams.txt
"""

from __future__ import annotations

import statistics
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import cutaway.nn.functional as F  # noqa: E402
import numpy as np  # noqa: E402

import cutaway as ct  # noqa: E402
from stage4_runtime.runtime import stream_costs  # noqa: E402
from stage4_runtime.runtime.parallel_streams import dependencies, place  # noqa: E402
from stage_contracts import config, events  # noqa: E402
from stage_contracts.program import Allocate, External, Free, Launch, WaitEvent  # noqa: E402
from stage_contracts.stream_order import stream_of  # noqa: E402
from stage_contracts.tests.report_heading import heading  # noqa: E402

WAYS = "off", "force", "auto"
ROUNDS, REPLAYS = 15, 40  # medians of so many rounds, each of so many replays in a row


@dataclass(frozen=True)
class Case:
    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "bfloat16"


def experts(x: Any, *weights: Any) -> Any:
    """MLPs that all read x; their results are added."""
    ups, downs = weights[::2], weights[1::2]
    made = [F.gelu(x @ up) @ down for up, down in zip(ups, downs, strict=True)]
    total = made[0]
    for one in made[1:]:
        total = total + one
    return total


def projections(x: Any, q: Any, k: Any, v: Any) -> Any:
    return x @ q, x @ k, x @ v


def inception(x: Any, one: Any, three_in: Any, three: Any, five_in: Any, five: Any, pooled: Any) -> Any:
    """The four branches of a block of Inception."""
    a = F.relu(F.conv2d(x, one))
    b = F.relu(F.conv2d(F.relu(F.conv2d(x, three_in)), three, padding=1))
    c = F.relu(F.conv2d(F.relu(F.conv2d(x, five_in)), five, padding=2))
    d = F.relu(F.conv2d(F.avg_pool2d(x, 3, stride=1, padding=1), pooled))
    return ct.cat([a, b, c, d], 1)


def two_large(x: Any, y: Any) -> Any:
    return x.cos().sin(), (y.tanh() + 1).sqrt()


def norms(*rows: Any) -> Any:
    return [F.layer_norm(F.layer_norm(x, (x.shape[-1],)).cumsum(-1), (x.shape[-1],)) for x in rows]


def towers(x: Any, y: Any, *weights: Any) -> Any:
    """Two networks of six layers that meet at the end."""
    for a, b in zip(weights[::2], weights[1::2], strict=True):
        x, y = F.relu(x @ a), F.gelu(y @ b)
    return (x * y).sum(-1)


SQUARE = (512, 512)
CASES = (
    Case("8 experts of 64x512, bfloat16", experts, ((64, 512), *[SQUARE] * 16)),
    Case("8 experts of 64x512, float32", experts, ((64, 512), *[SQUARE] * 16), "float32"),
    Case("8 experts of 1024x2048, bfloat16", experts, ((1024, 2048), *[(2048, 2048)] * 16)),
    Case("q, k and v of 32x768, bfloat16", projections, ((32, 768), *[(768, 768)] * 3)),
    Case("q, k and v of 32x768, float32", projections, ((32, 768), *[(768, 768)] * 3), "float32"),
    Case("Inception, 1 image, bfloat16", inception, ((1, 480, 14, 14), (192, 480, 1, 1), (96, 480, 1, 1),
         (208, 96, 3, 3), (16, 480, 1, 1), (48, 16, 5, 5), (64, 480, 1, 1))),
    Case("Inception, 1 image, float32", inception, ((1, 480, 14, 14), (192, 480, 1, 1), (96, 480, 1, 1),
         (208, 96, 3, 3), (16, 480, 1, 1), (48, 16, 5, 5), (64, 480, 1, 1)), "float32"),
    Case("Inception, 32 images, bfloat16", inception, ((32, 480, 14, 14), (192, 480, 1, 1), (96, 480, 1, 1),
         (208, 96, 3, 3), (16, 480, 1, 1), (48, 16, 5, 5), (64, 480, 1, 1))),
    Case("2 nests of 32M, float32", two_large, ((32 << 20,), (32 << 20,)), "float32"),
    Case("norms of 16 rows, 8 of them, float32", norms, tuple((16, 4096 - 128 * k) for k in range(8)), "float32"),
    Case("2 towers of 64x512, bfloat16", towers, ((64, 512), (64, 512), *[SQUARE] * 12)),
)  # fmt: skip


# ---- one case ------------------------------------------------------------------------------------------------------


@dataclass
class Captured:
    """A program, its graph, and the arrays that a replay writes."""

    program: Any
    graph: Any
    results: list[np.ndarray]
    kept: Any


def captured(case: Case, given: list[Any], way: str) -> Captured:
    """The case as a graph. Raises RuntimeError where it cannot be captured."""
    with config.patch({"runtime.parallel_streams": way, "runtime.deterministic": True}):
        run = ct.compile(
            lambda *tensors: case.function(*tensors), fullgraph=True, dynamic=False, mode="reduce-overhead"
        )
        mark = events.EVENT_LOG.mark()
        for _ in range(6):
            made = run(*given)
            results = [t.float().cpu().numpy() for t in (made if isinstance(made, (tuple, list)) else [made])]
            del made
    half = run.artifacts[-1].forward
    replays = [each for each in getattr(half.run, "state", {}).values() if each is not None]
    if not replays or replays[0].captured is None:
        reasons = [str(e) for e in events.EVENT_LOG.since(mark, "fallback")]
        raise RuntimeError(f"not captured: {'; '.join(reasons)[:300]}")
    return Captured(half.run.program, replays[0].captured.graph, results, run)


def replay_us(cp: Any, graphs: list[Any]) -> list[float]:
    """Microseconds of a replay of each, by turns."""
    stream = cp.cuda.Stream(non_blocking=True)
    times: list[list[float]] = [[] for _ in graphs]
    for _ in range(ROUNDS):
        for graph, of_it in zip(graphs, times, strict=True):
            graph.launch(stream)
            start, end = cp.cuda.Event(), cp.cuda.Event()
            start.record(stream)
            for _ in range(REPLAYS):
                graph.launch(stream)
            end.record(stream)
            end.synchronize()
            of_it.append(cp.cuda.get_elapsed_time(start, end) * 1e3 / REPLAYS)
    return [statistics.median(of_it) for of_it in times]


def used(program: Any) -> str:
    """`3 streams, 9 waits`, or `one stream`."""
    streams = len({stream_of(s) for s in program.steps if isinstance(s, Launch | External)})
    waits = sum(isinstance(step, WaitEvent) for step in program.steps)
    return f"{streams} streams, {waits} waits" if streams > 1 else "one stream"


def gain(before: float, after: float) -> str:
    return f"{100 * (1 - after / before):+.0f} %"


def measured(cp: Any, case: Case) -> bool:
    ct.manual_seed(0)
    dtype = getattr(ct, case.dtype)
    given = [(ct.randn(*shape, device="cuda") * 0.1).to(dtype) for shape in case.shapes]
    all_ = {way: captured(case, given, way) for way in WAYS}
    same = all(
        np.array_equal(a, b, equal_nan=True)
        for way in WAYS[1:]
        for a, b in zip(all_["off"].results, all_[way].results, strict=True)
    )
    off, force, auto = replay_us(cp, [all_[way].graph for way in WAYS])
    planned = all_["off"].program
    program = planned.with_(steps=tuple(s for s in planned.steps if not isinstance(s, Allocate | Free)))
    said = place(program, dependencies(program))
    forced, chosen = (used(all_[way].program) for way in WAYS[1:])
    print(f"{'ok  ' if same else 'FAIL'} {case.name}: off {off:.1f} us, force {force:.1f} ({forced}), "
          f"auto {auto:.1f} ({chosen}); force gains {gain(off, force)}, auto {gain(off, auto)}; "
          f"predicted {said.alone:.1f} -> {said.together:.1f} us, {gain(said.alone, said.together)}",
          flush=True)  # fmt: skip
    return same


# ---- the rule's numbers --------------------------------------------------------------------------------------------

SOURCE = """
extern "C" __global__ void nothing(float* x) {}
extern "C" __global__ void copies(float4* x, int n) {
  float4* mine = x + (long long)blockIdx.x * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) { float4 v = mine[i]; v.x += 1; mine[i] = v; }
}
"""
HOPS = 64


def graph_of(cp: Any, work: Callable[[Any, Any], None]) -> Any:
    """What `work(stream, other)` launches, as a graph; `other` has to be joined."""
    stream, other = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        work(stream, other)
        return stream.end_capture()


def empty_graph(cp: Any) -> Any:
    """A graph of one kernel that does nothing."""
    nothing, memory = cp.RawModule(code=SOURCE).get_function("nothing"), cp.zeros(4)
    nothing((1,), (128,), (memory,))
    cp.cuda.Device().synchronize()
    return graph_of(cp, lambda stream, other: nothing((1,), (128,), (memory,)))


def constants(cp: Any) -> None:
    """KERNEL, EVENT and BYTES as this device has them, beside what stands in stream_costs.py."""
    module = cp.RawModule(code=SOURCE)
    nothing, copies = module.get_function("nothing"), module.get_function("copies")
    memory = cp.zeros(64 << 20, "uint8")
    blocks, each = 8, 64 << 10  # of 16 bytes
    for kernel, words in ((nothing, (memory,)), (copies, (memory, np.int32(each)))):
        kernel((1,), (128,), words)  # loaded before a capture, in which that might be refused
    cp.cuda.Device().synchronize()

    def chain(stream: Any, other: Any) -> None:
        for _ in range(HOPS):
            nothing((1,), (128,), (memory,))

    def hops(stream: Any, other: Any) -> None:
        for k in range(HOPS):
            of, last = (other, stream) if k % 2 else (stream, other)
            if k:
                of.wait_event(last.record())
            with of:
                nothing((1,), (128,), (memory,))
        stream.wait_event(other.record())

    def forks(stream: Any, other: Any) -> None:
        for _ in range(HOPS // 2):
            other.wait_event(stream.record())
            for each in (stream, other):
                with each:
                    nothing((1,), (128,), (memory,))
            stream.wait_event(other.record())

    def moves(stream: Any, other: Any) -> None:
        copies((blocks,), (512,), (memory, np.int32(each)))

    one, hop, fork, move = replay_us(cp, [graph_of(cp, work) for work in (chain, hops, forks, moves)])
    empty = replay_us(cp, [empty_graph(cp)])[0]
    in_row = one / HOPS
    number = int(cp.cuda.runtime.getDeviceProperties(0)["multiProcessorCount"])
    for name, here, stands in (
        ("MULTIPROCESSORS", number, stream_costs.MULTIPROCESSORS),
        ("KERNEL, of kernels in a row", in_row, stream_costs.KERNEL),
        ("a graph of one kernel, in a row of graphs", empty, None),
        ("EVENT, of kernels that hop between streams", hop / HOPS - in_row, stream_costs.EVENT),
        ("EVENT, of a fork and its join", fork / (HOPS // 2) - in_row, stream_costs.EVENT),
        ("BYTES of one multiprocessor in 1 us", 2 * 16 * each / max(move - empty, 0.1), stream_costs.BYTES),
    ):
        print(f"     {name}: {here:,.2f}" + (f"; the rule has {stands:,}" if stands is not None else ""))


def products(cp: Any) -> None:
    """FLOPS of one multiprocessor, from a product that fills eight of them."""
    for dtype in ("bfloat16", "float32"):
        case = Case("", lambda a, b: a @ b, ((64, 2048), (2048, 512)), dtype)
        given = [(ct.randn(*shape, device="cuda")).to(getattr(ct, dtype)) for shape in case.shapes]
        made = captured(case, given, "off")  # kept: a graph's memory goes with it
        took, least = replay_us(cp, [made.graph, empty_graph(cp)])
        here = 2 * 64 * 2048 * 512 / 8 / max(took - least, 0.1)
        print(f"     FLOPS of {dtype}, 64x2048 by 2048x512 in {took:.1f} us: {here:,.0f}; the rule has "
              f"{stream_costs.FLOPS[dtype]:,}")  # fmt: skip


def main(wanted: str) -> None:
    import cupy as cp

    device = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(heading("Independent branches on parallel streams", "make gpu", 0, "cupy", "triton", more=device))
    failed = []
    for name, part in [("the rule's numbers", constants), ("products", products),
                       *((c.name, lambda cp, c=c: measured(cp, c)) for c in CASES if wanted in c.name)]:  # fmt: skip
        try:
            failed += [name] if part(cp) is False else []
        except Exception:
            print(f"FAIL {name}")
            traceback.print_exc(limit=-6, file=sys.stdout)
            failed.append(name)
    print(f"{len(failed)} failed" if failed else "all hold")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "")
