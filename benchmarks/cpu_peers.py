"""A server of fresh processes for one framework: it imports, then forks one process per request and measures there.

Input: a library (cutaway, torch, jax), a number of threads, a cache folder; requests in JSON from `cpu_speed.py`.
The fork is fresh (nothing compiled, no threads, no caches in memory), yet imports are no part of what it measures, nor
is the copy of a page that both processes have: a process that imported for itself has its own.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Client
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.cpu_rows import PRIME, ROWS, SEED, Row
from benchmarks.given_memory import write_to_free_memory
from benchmarks.late_imports import import_all, keep_names

IMPORTS = {
    "cutaway": ("cutaway", "cutaway.torch_api", "cutaway.nn.functional"),
    "torch": ("torch", "torch._dynamo", "torch._inductor.compile_fx", "torch._inductor.codegen.cpp"),
    "jax": ("jax", "jax.numpy", "jax.nn"),
}
ENOUGH = 0.1  # seconds of calls in one timed run


def jax_names() -> tuple[Any, Any]:
    """torch's names, as far as the rows use them, in jax."""
    import jax
    import jax.numpy as jnp

    def normal(x: Any, axes: tuple, w: Any, b: Any, shape: tuple) -> Any:
        centred = x - jnp.mean(x, axes, keepdims=True)
        scale = jax.lax.rsqrt(jnp.mean(centred * centred, axes, keepdims=True) + 1e-5)
        return centred * scale * w.reshape(shape) + b.reshape(shape)

    def cross_entropy(x: Any, target: Any) -> Any:
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x, -1), target[:, None], 1))

    m = SimpleNamespace(
        **{name: getattr(jnp, name) for name in "sin cos tanh exp sum matmul swapaxes cumsum".split()},
        mean=lambda x, dim, keepdim=False: jnp.mean(x, dim, keepdims=keepdim),
        rsqrt=jax.lax.rsqrt,
        softmax=jax.nn.softmax,
        log_softmax=jax.nn.log_softmax,
        gather=lambda x, dim, index: jnp.take_along_axis(x, index, dim),
    )
    f = SimpleNamespace(
        layer_norm=lambda x, shape, w, b: normal(x, (-1,), w, b, (-1,)),
        batch_norm=lambda x, mean, var, w, b, training: normal(x, (0, 2, 3), w, b, (1, -1, 1, 1)),
        cross_entropy=cross_entropy,
        embedding=lambda rows, table: table[rows],
        gelu=lambda x: jax.nn.gelu(x, approximate=False),
    )
    return m, f


def names(library: str) -> tuple[Any, Any]:
    if library == "jax":
        return jax_names()
    return importlib.import_module(library), importlib.import_module(f"{library}.nn.functional")


COPY = """extern "C" void copy(const float* from, float* to, long count) {
    #pragma omp parallel for simd schedule(static)
    for (long k = 0; k < count; ++k) to[k] = from[k];
}
extern "C" void read(const float* from, float* to, long count) {
    float sums[64] = {};
    #pragma omp parallel for schedule(static) reduction(+: sums)
    for (long k = 0; k < count; k += 64)
        for (int lane = 0; lane < 64; ++lane) sums[lane] += from[k + lane];
    for (int lane = 0; lane < 64; ++lane) to[lane] = sums[lane];
}
"""


def plain_copy(moves: int, reads: bool) -> Callable[[], Any]:
    """A copy by OpenMP that reads and writes `moves` bytes in all; stores are plain: the compiler calls no memcpy.

    With `reads`: a loop that reads so many bytes and keeps 64 sums, the most that a sum can reach here.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "copy.cpp", Path(folder) / "copy.so"
        source.write_text(COPY)
        flags = ["-O3", "-march=native", "-fopenmp", "-fno-tree-loop-distribute-patterns", "-shared", "-fPIC"]
        subprocess.run(["c++", *flags, str(source), "-o", str(made)], check=True)
        library = ctypes.CDLL(str(made))
    count = moves // 4 if reads else moves // 8
    ones, to = np.ones(count, np.float32), np.zeros(64 if reads else count, np.float32)
    loop = library.read if reads else library.copy
    places = [ctypes.c_void_p(array.ctypes.data) for array in (ones, to)]  # of memory that the closure keeps

    def call() -> Any:
        loop(*places, ctypes.c_long(ones.size))
        return to

    return call


def program(row: Row, library: str, runs: str) -> Callable[[], Any]:
    """One call of the row in this framework, results ready when it returns."""
    if runs == "copy":
        return plain_copy(row.moves, row.reads)
    arrays = row.inputs(np.random.default_rng(SEED))
    if library == "jax":
        return in_jax(row, arrays)
    m, f = names(library)
    compiled = m.compile if runs == "compiled" else lambda function: function
    if row.group == "numpy":
        run = compiled(lambda *args: row.function(np, None, *args))
        return lambda: run(*arrays)
    tensors = [m.from_numpy(a) for a in arrays]
    if row.group == "half":
        tensors = [t.to(m.bfloat16) for t in tensors]
    if row.group == "model":
        if library == "cutaway":
            from cutaway.torch_api import as_torch

            with as_torch():
                return row.function(importlib.import_module("torch"), compiled, *tensors)
        return row.function(m, compiled, *tensors)
    function = row.function
    if row.group == "growth":
        function = row.function()
    run = compiled(lambda *args: function(m, f, *args))
    if not row.gradients:
        return lambda: run(*tensors)
    wanting = tensors[: row.gradients]
    for tensor in wanting:
        tensor.requires_grad_(True)

    def step() -> Any:
        for tensor in wanting:
            tensor.grad = None
        out = run(*tensors)
        out.backward(m.ones_like(out))
        return wanting[0].grad

    return step


def in_jax(row: Row, arrays: list) -> Callable[[], Any]:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)  # NumPy programs are float64, the others say float32 themselves
    m, f = (jnp, None) if row.group == "numpy" else jax_names()
    values = [jnp.asarray(a) for a in arrays]
    if row.group == "half":
        values = [v.astype(jnp.bfloat16) for v in values]

    def forward(*args: Any) -> Any:
        return row.function(m, f, *args)

    def step(tangent: Any, *args: Any) -> Any:
        """As in torch: the result, and the gradient of each input that wants one, from a tangent given from outside."""
        out, pull = jax.vjp(lambda *some: forward(*some, *args[row.gradients :]), *args[: row.gradients])
        return out, *pull(tangent)

    if not row.gradients:
        run = jax.jit(forward)
        return lambda: run(*values).block_until_ready()
    run, shape = jax.jit(step), jax.eval_shape(forward, *values)
    return lambda: jax.block_until_ready(run(jnp.ones(shape.shape, shape.dtype), *values))[1]


def fingerprint(value: Any) -> float:
    """The mean magnitude of a result: enough to see that frameworks computed the same thing."""
    value = value.detach().float().numpy() if hasattr(value, "detach") else value
    return float(np.abs(np.asarray(value, np.float64)).mean())


def timed_run(call: Callable[[], Any], count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - started) / count


def use_cache(library: str, folder: str) -> None:
    """A cache on disk of this run's own: the first process finds none of its row in it, the second one all."""
    if library == "cutaway":
        from stage_contracts import config

        config.change(cache_dir=folder, never_slower=False)
    elif library == "torch":
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    else:
        import jax

        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def longest_passes(library: str) -> str:
    """Where our own first call went."""
    if library != "cutaway":
        return ""
    from stage_contracts.events import EVENT_LOG

    took: dict[str, float] = {}
    for event in EVENT_LOG.since(0, "pass"):
        took[event.name] = took.get(event.name, 0.0) + event.duration_ns / 1e9
    longest = sorted(took.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in longest)


POPULATE_WRITE = 23  # MADV_POPULATE_WRITE of Linux 5.14: as if a byte of each page were written


def own_pages() -> None:
    """Copy now what a fork shares with its parent. Otherwise each page is copied at the first write to it, and Python
    writes to every object that it reads: in a small first call that was half of the time. An older system refuses."""
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for line in Path("/proc/self/maps").read_text().splitlines():
        places, mode = line.split()[:2]
        if mode == "rw-p":
            start, end = (int(place, 16) for place in places.split("-"))
            advise(start, end - start, POPULATE_WRITE)


def measure(library: str, request: dict[str, Any]) -> None:
    """In the fork: the first call, then a timed run each time it is asked, until the connection closes."""
    with Client(request["address"]) as talk:
        talk.send(os.getpid())
        try:
            row = next(row for row in ROWS if row.name == request["row"])
            use_cache(library, request["cache"])
            runs = request["runs"]
            call, again = program(row, library, "compiled" if runs == "blas" else runs), timed_run
            if runs == "blas":
                from benchmarks.blas_time import blas_counter  # a peer's Python has not what it imports

                again = blas_counter()
            own_pages()
            write_to_free_memory()
            started = time.perf_counter()
            result = call()
            cold = time.perf_counter() - started
            said = {"cold": cold, "result": fingerprint(result), "passes": longest_passes(library)}
            talk.send({**said, "next": timed_run(call, 1)})
            for task in Path("/proc/self/task").iterdir() if request["pinned"] else ():
                os.sched_setaffinity(int(task.name), request["pinned"])
            call()
            once = timed_run(call, 1)
            count = max(1, min(10_000, int(ENOUGH / max(once, 1e-7))))
            while talk.recv() == "run":
                talk.send(again(call, count))
        except EOFError:
            pass
        except Exception as error:  # told in the table: one framework's refusal is a result
            talk.send({"error": f"{type(error).__name__}: {str(error).strip().splitlines()[0][:150]}"})


def prime(library: str, cache: str) -> None:
    """Compile once in a process of its own; keep the names of the modules that it took."""
    use_cache(library, cache)
    program(PRIME, library, "compiled")()
    keep_names(Path(f"{cache}.modules"))


def main(library: str, threads: str, cache: str) -> None:
    import_all(IMPORTS[library], Path(f"{cache}.modules"))
    module = importlib.import_module(library)
    if library == "torch":
        module.set_num_threads(int(threads))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for
    print(json.dumps({"version": f"{library} {module.__version__}"}), flush=True)
    for line in sys.stdin:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            try:
                measure(library, json.loads(line))
            finally:
                os._exit(0)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    if sys.argv[4:] == ["prime"]:
        prime(sys.argv[1], sys.argv[3])
    else:
        main(*sys.argv[1:])
