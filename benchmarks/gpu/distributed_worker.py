"""One rank of `benchmarks/gpu/distributed.py`, as torch or as Cutaway: it builds, then measures what it is asked.

Input: `PEER MODEL DEVICE` and torchrun's variables. Each line that it reads is a measurement's name; it answers each
with a line of JSON. `step`: DistributedDataParallel; `alone`: the same step in a group of each rank alone, on the
slowest, for which the others would wait; `moved`: the gradients' bytes by themselves; `link`: all_reduces of many
sizes; `memory`: bytes per GPU of a sharded model, and the formula's; `beside`: for what of the collectives' time the
step waits.
"""

from __future__ import annotations

import copy
import cProfile
import gc
import importlib.util
import io
import json
import os
import pstats
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from benchmarks.gpu.timeline import of_the_last, real_torch, recorded, waits

PEER, MODEL, DEVICE = sys.argv[1:4]
STEPS = 10 if DEVICE == "cuda" else 3  # in one round
SIZES = [1 << k for k in range(12, 28 if DEVICE == "cuda" else 20, 2)]
OURS = PEER == "cutaway"
PROFILER = real_torch() if OURS and DEVICE == "cuda" and importlib.util.find_spec("torch") else None
if OURS:
    from cutaway import torch_api
    from cutaway.distributed.buckets import in_buckets

    torch_api.be_torch()
    if DEVICE == "cpu":
        from tests.distributed import nccl_standin

        nccl_standin.install()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from benchmarks.gpu.distributed_models import MODELS, loss_of  # noqa: E402


def synchronize() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


class Training:
    """The model on this rank's device; `step(ddp)` is a call that trains it once."""

    def __init__(self) -> None:
        make, sizes, draw, about = MODELS[MODEL]
        torch.manual_seed(0)
        dtype = torch.bfloat16
        self.start = make(*sizes).to(dtype)
        self.make: Callable[[], Any] = lambda: copy.deepcopy(self.start).to(DEVICE)
        torch.manual_seed(1 + dist.get_rank())
        self.x, self.y = draw(*about, DEVICE, dtype)
        groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
        self.alone = groups[dist.get_rank()]  # with it a step does all that DDP does, but for the link
        self.calls: dict[bool, Callable[[], Any]] = {}
        self.cold: dict[bool, float] = {}

    def step(self, ddp: bool) -> Callable[[], Any]:
        if ddp not in self.calls:
            start = time.perf_counter()
            torch.manual_seed(0)
            self.calls[ddp] = self._built(ddp)
            self.loss = float(self.calls[ddp]())
            self.calls[ddp]()
            synchronize()
            self.cold[ddp] = time.perf_counter() - start
        return self.calls[ddp]

    def _built(self, ddp: bool) -> Callable[[], Any]:
        model = self.make()
        run = DistributedDataParallel(model, process_group=None if ddp else self.alone)
        if not OURS:
            run = torch.compile(run)
        fused = {} if OURS or DEVICE == "cpu" else {"fused": True}
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, **fused)

        for (
            parameter
        ) in model.parameters():  # momenta from the start: one graph, not one for the first step too
            parameter.grad = torch.zeros_like(parameter)
        optimizer.step()

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = loss_of(run(x), y)
            loss.backward()
            optimizer.step()
            return loss

        whole = torch.compile(step) if OURS else step
        return lambda: whole(self.x, self.y)


def round_of(call: Callable[[], Any], count: int = STEPS) -> float:
    """Seconds for one of `count` calls."""
    dist.barrier()
    synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    synchronize()
    return (time.perf_counter() - start) / count


def slowest(seconds: float) -> float:
    """Of all ranks: their hosts differ by as much as half where many programs share a machine."""
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, seconds)
    return max(told)


def build(training: Training, ddp: bool) -> dict[str, Any]:
    """The step, so that what is measured later is ready."""
    training.step(ddp)
    return {"loss": training.loss, "cold": training.cold[ddp]}


def gradients(training: Training) -> list[int]:
    return [p.numel() * p.element_size() for p in training.start.parameters()]


def buckets(training: Training) -> list[int]:
    """Bytes of each bucket of gradients, as the backward makes them: the last parameter's first."""
    if OURS:
        made = in_buckets([*training.start.parameters()])
        return [sum(p.numel() * p.element_size() for p in bucket) for bucket in made]
    found, most = [0], 1 << 20
    for size in reversed(gradients(training)):
        if found[-1] and found[-1] + size > most:
            found.append(0)
            most = 25 << 20
        found[-1] += size
    return found


def moved(training: Training) -> dict[str, Any]:
    """The bytes of all gradients, a bucket in one call, one call after the other."""
    counts = buckets(training)
    flat = [torch.ones(max(n // 2, 1), device=DEVICE, dtype=torch.bfloat16) for n in counts]

    def call() -> None:
        for work in [dist.all_reduce(f, async_op=True) for f in flat]:
            work.wait()

    call()
    seconds = statistics.median(round_of(call, 5) for _ in range(5))
    return {"seconds": seconds, "bytes": sum(counts), "buckets": counts}


def beside(training: Training) -> dict[str, Any]:
    """Seconds of a step's collectives, and of these the ones for which a step waited, if torch can tell."""
    if DEVICE != "cuda" or (OURS and PROFILER is None):
        return {}
    call = training.step(True)
    dist.barrier()
    spans = recorded(PROFILER or torch, call, STEPS)
    ranks: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(ranks, waits(spans))
    ran, waited = (us / 1e6 / STEPS for us in of_the_last(ranks))
    known = sum(span.issued > 0 for span in spans) / len(spans)
    return {"ran": ran, "waited": waited, "known": known}


def link(training: Training) -> dict[str, Any]:
    """[bytes, seconds] of an all_reduce of each size, on a stream that does nothing else."""
    samples = []
    for nbytes in SIZES:
        x = torch.ones(nbytes // 2, device=DEVICE, dtype=torch.bfloat16)

        def call(x: Any = x) -> None:
            dist.all_reduce(x, async_op=True).wait()

        call()
        samples.append(
            [nbytes, statistics.median(round_of(call, 20 if DEVICE == "cuda" else 2) for _ in range(3))]
        )
    return {"samples": samples}


def memory(training: Training) -> dict[str, Any]:
    """Bytes that stay on this rank: a shard of parameters, of gradients and of momenta."""
    import cupy
    from torch.distributed.fsdp import fully_shard

    pool = cupy.get_default_memory_pool()
    gc.collect()
    before = pool.used_bytes()
    model = fully_shard(training.make())
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    loss_of(model(training.x), training.y).backward()
    optimizer.step()
    gc.collect()
    synchronize()
    used = pool.used_bytes() - before
    size = dist.get_world_size()
    each = sum(-(-p // 2 // size) * 2 for p in gradients(training))
    return {"used": used, "formula": 3 * each}


def profile(training: Training) -> dict[str, Any]:
    """Where the host's time of three steps goes, as text."""
    call, seen = training.step(True), cProfile.Profile()
    synchronize()
    seen.runcall(lambda: [call() for _ in range(3)])
    synchronize()
    text = io.StringIO()
    pstats.Stats(seen, stream=text).sort_stats("tottime").print_stats(25)
    return {"text": text.getvalue()}


MEASURES: dict[str, Callable[[Training], dict[str, Any]]] = {
    "step": lambda t: {"seconds": round_of(t.step(True))},
    "alone": lambda t: {"seconds": slowest(round_of(t.step(False)))},
    "build": lambda t: build(t, True),
    "build alone": lambda t: build(t, False),
    "moved": moved,
    "beside": beside,
    "link": link,
    "memory": memory,
    "profile": profile,
}


def say(found: dict[str, Any]) -> None:
    print("JSON " + json.dumps(found), flush=True)


def story(error: Exception) -> dict[str, str]:
    return {"error": f"{type(error).__name__}: {error}\n{''.join(traceback.format_exc(limit=-6))}"[:4000]}


def main() -> None:
    dist.init_process_group("nccl" if OURS or DEVICE == "cuda" else "gloo")
    training = Training()
    say({"ready": dist.get_rank()})
    for line in sys.stdin:
        try:
            say(MEASURES[line.strip()](training))
        except Exception as error:
            say(story(error))
    dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        say(story(error))
        sys.stdout.flush()
        os._exit(1)
