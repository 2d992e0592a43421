"""`make gpu-compiled`: compiled code on a GPU against eager: every operator in three dtypes, random programs, bits.

Input: the oracle's samples and the programs written here; a GPU, CuPy and Triton. Many processes share the GPU; each
compiles kernels in its own process, which is quick. A float64 run of the same program judges both: compiled code may be
twice as far from it as eager, or a few units of its dtype.
    python -m benchmarks.gpu.compiled [--device cuda] [--programs 1000] [--networks 100] [--seconds 300] [--only KINDS]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import queue
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import cutaway.nn.functional as F
import numpy as np

import cutaway as ct
from benchmarks.gpu import attentions, networks
from stage0_eager.tensor import Tensor
from stage_contracts import config, events
from stage_contracts.errors import BuildError
from stage_contracts.tests.report_heading import heading

DTYPES = ("float32", "bfloat16", "float16")
UNITS = {"float64": 2.0**-52, "float32": 2.0**-22, "float16": 2.0**-9, "bfloat16": 2.0**-6}
Task = tuple[str, Any]
REFUSES = "PassManager::run failed"  # what Triton says when a pass of its own fails


def build_in_this_process() -> None:
    """Compile Triton kernels here instead of in a child: a child imports Triton anew, for two thirds of its time."""
    import importlib.util
    import tempfile
    from pathlib import Path

    from stage4_runtime.runtime import triton_compile, triton_units

    def compiled(unit: Any, name: str) -> dict[str, bytes]:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / f"{name}.py"
            source.write_text(unit.text)
            spec = importlib.util.spec_from_file_location("generated_kernel", source)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            request = triton_units._request(unit, name)
            try:
                files, facts = triton_compile.compile_kernel(getattr(module, name), request)
            except RuntimeError as error:
                if REFUSES not in str(error):
                    raise
                raise BuildError(
                    str(error)
                ) from error  # as the product says it, which then goes on without it
        return {**files, "json": json.dumps(facts).encode()}

    triton_units._compile = compiled


# ---- comparing ----------------------------------------------------------------------------------------------------


def flat(result: Any) -> list[np.ndarray]:
    items = result if isinstance(result, (tuple, list)) else [result]
    return [t.detach().cpu().numpy() for item in items for t in ([item] if isinstance(item, Tensor) else [])]


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def difference(got: list, eager: list, exact: list | None, dtype: str) -> str:
    """What is wrong, or ""."""
    if len(got) != len(eager):
        return f"{len(got)} results, eager gives {len(eager)}"
    sizes = [
        np.abs(wide(a)[np.isfinite(wide(a))]).max(initial=0) for a in exact or eager if a.dtype.kind == "f"
    ]
    rounding = UNITS["float32"] * max(sizes, default=0)
    for k, (a, b) in enumerate(zip(got, eager, strict=True)):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"result {k} is {a.dtype}{a.shape}, eager's {b.dtype}{b.shape}"
        if a.dtype.kind in "biu":
            if (a != b).any() and exact is None:
                return f"result {k}: {int((a != b).sum())} of {a.size} elements differ"
            continue
        a, b = wide(a), wide(b)
        want = wide(exact[k]) if exact is not None and exact[k].shape == a.shape else b
        finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(want)
        odd = (np.isnan(a) != np.isnan(b)) & ~_is_right(
            a, want, dtype
        )  # a half's overflow in eager is no fault
        if odd.any():
            return f"result {k}: {int(odd.sum())} of {a.size} are NaN in one only"
        if not finite.any():
            continue
        largest, allowed = np.abs(want[finite]).max(), 8 * UNITS[dtype]
        scale = max(largest, UNITS[dtype] ** 2)
        if largest <= rounding:  # it cancels: what is left is what its terms lost on the way, to a half once
            scale, allowed = rounding / UNITS["float32"], max(8 * UNITS["float32"], UNITS[dtype] / 4)
        mine, theirs = (np.abs(x - want)[finite].max() / (scale or 1) for x in (a, b))
        if mine > 2 * theirs + allowed:
            return f"result {k}: {mine:.1e} from float64, eager {theirs:.1e}"
    return ""


def _is_right(a: np.ndarray, want: np.ndarray, dtype: str) -> np.ndarray:
    """Where a value is a number, and float64's: scores in float32 do not overflow where a half's do."""
    both = np.isfinite(a) & np.isfinite(want)
    scale = np.abs(want[np.isfinite(want)]).max(initial=0) + 1e-30
    return both & (np.abs(np.where(both, a - want, 0)) <= 8 * UNITS[dtype] * scale)


EAGERS = "the same, by eager's kernel"  # of a convolution where there is no cuDNN
OP_BY_OP = "the same, op by op: a pass of Triton's own fails"


def fell_back(mark: Any) -> str:
    lost = [
        e
        for e in events.EVENT_LOG.since(mark, "fallback")
        if e.name not in ("cuda_graph", "numpy", "convolution", "cudnn_plan") and not _is_refusal(e)
    ]
    lost += list(events.EVENT_LOG.since(mark, "internal_error"))
    return "; ".join(map(str, lost))[:300]


def by_eager(mark: Any) -> str:
    """How a result that is right was made, where no kernel of ours made it."""
    fallbacks = [*events.EVENT_LOG.since(mark, "fallback")]
    if any(_is_refusal(e) for e in fallbacks):
        return OP_BY_OP
    return EAGERS if any(e.name == "convolution" for e in fallbacks) else ""


def _is_refusal(event: Any) -> bool:
    return event.name == "eager kernels" and REFUSES in str(event)


# ---- every operator ------------------------------------------------------------------------------------------------


def operator_tasks() -> Iterator[Task]:
    from tests.oracle import samples  # noqa: F401  (fills ROWS)
    from tests.oracle.spec import ROWS

    for row in ROWS.values():
        for dtype in DTYPES:
            if dtype in row.dtypes:
                yield "operators", (row.name, dtype)


def run_operator(name: str, dtype: str, device: str) -> str:
    from tests.oracle import samples  # noqa: F401
    from tests.oracle.cases import Case, function_of, map_leaves
    from tests.oracle.spec import ROWS

    case, function = Case(ROWS[name], 0, dtype), function_of(name)

    def call(run: Callable) -> list[np.ndarray]:
        args, kwargs = (map_leaves(t, lambda a: Tensor(a).to(device), np.ndarray) for t in case.arrays())
        ct.manual_seed(0)
        out = run(*args, **kwargs)
        return flat(args[0] if out is None else out)

    try:
        eager = call(function)
    except Exception:
        return "eager has none"
    ct.compiler.reset()  # each operator is another function of the same code, of which a process compiles 256
    mark = events.EVENT_LOG.mark()
    got = call(ct.compile(lambda *args, **kwargs: function(*args, **kwargs)))
    return fell_back(mark) or difference(got, eager, None, dtype) or by_eager(mark)


# ---- random programs ----------------------------------------------------------------------------------------------

UNARY = "sin cos tanh sigmoid exp relu neg abs square sqrt1 log1 gelu silu softplus floor".split()
BINARY = "add sub mul div maximum minimum where".split()
SHAPING = "t reshape flip slice cat pad expand".split()
REDUCING = "sum mean amax softmax log_softmax layer_norm cumsum logsumexp var matmul attention argmax".split()


def random_program(seed: int) -> tuple[str, list[tuple[str, int]], Callable]:
    """(dtype, shapes by name, function of tensors)."""
    rng = random.Random(seed)
    dtype = rng.choice(DTYPES)
    rows, columns = rng.choice([1, 3, 16, 33, 64, 100]), rng.choice([1, 5, 32, 64, 130, 257, 1000, 4100])
    steps = [
        (rng.choice(rng.choice([UNARY, UNARY, BINARY, SHAPING, REDUCING])), rng.random())
        for _ in range(rng.randint(2, 7))
    ]

    def function(x: Any, y: Any) -> Any:
        kept = [x, y]
        for name, draw in steps:
            value = kept[-1]
            value = STEPS[name](value, kept[int(draw * len(kept))], draw)
            kept.append(value)
        return kept[-1], kept[len(kept) // 2]

    return dtype, [("x", rows), ("y", columns)], function


LONG_CODE = ["sin", "cos", "tan", "remainder", "pow"]  # functions of a hundred instructions for each element


def random_long_rows(seed: int) -> tuple[str, list[tuple[str, int]], Callable]:
    """The same of rows that one block holds, between functions of long code: what a lane has is written out."""
    rng = random.Random(seed)
    dtype, rows, columns = rng.choice(DTYPES), rng.randint(1, 9), rng.randint(2049, 16384)
    before = [rng.choice(rng.choice([LONG_CODE, UNARY])) for _ in range(rng.randint(1, 4))]
    small = ["sin", "cos", "pow", "tanh"]  # an error of the reduction stays as small
    after = [rng.choice(small) for _ in range(rng.randint(0, 2))]
    reduce, draw = rng.choice(["mean", "softmax", "layer_norm", "logsumexp", "var", "all"]), rng.random() / 2

    def function(x: Any, y: Any) -> Any:
        value = x
        for name in before:
            value = STEPS[name](value, y, draw)
        reduced = value - value.mean() if reduce == "all" else STEPS[reduce](value, y, draw)
        for name in after:
            reduced = STEPS[name](reduced, y, draw)
        return reduced, value

    return dtype, [("x", rows), ("y", columns)], function


def like(value: Any, other: Any) -> Any:
    """`other` brought to where it broadcasts with `value`: its mean where it does not."""
    return other if other.shape == value.shape else other.mean()


STEPS: dict[str, Callable[[Any, Any, float], Any]] = {
    **{n: lambda v, o, d, n=n: getattr(v, n)() for n in "sin cos tan tanh sigmoid relu neg abs square floor".split()},
    "remainder": lambda v, o, d: v.remainder(like(v, o).abs() + 1),
    "pow": lambda v, o, d: (v.abs() + 0.5).pow(like(v, o).sigmoid()),
    "exp": lambda v, o, d: v.clamp(-5, 5).exp(),
    "sqrt1": lambda v, o, d: (v.abs() + 1).sqrt(),
    "log1": lambda v, o, d: (v.abs() + 1).log(),
    "gelu": lambda v, o, d: F.gelu(v),
    "silu": lambda v, o, d: F.silu(v),
    "softplus": lambda v, o, d: F.softplus(v),
    "add": lambda v, o, d: v + like(v, o),
    "sub": lambda v, o, d: v - like(v, o),
    "mul": lambda v, o, d: v * like(v, o).tanh(),
    "div": lambda v, o, d: v / (like(v, o).abs() + 1),
    "maximum": lambda v, o, d: ct.maximum(v, like(v, o)),
    "minimum": lambda v, o, d: ct.minimum(v, like(v, o)),
    "where": lambda v, o, d: ct.where(v > 0, v, like(v, o)),
    "t": lambda v, o, d: v.transpose(0, -1),
    "reshape": lambda v, o, d: v.reshape(-1, v.shape[0]),
    "flip": lambda v, o, d: v.flip(0),
    "slice": lambda v, o, d: v[: max(1, int(d * v.shape[0])), ...],
    "cat": lambda v, o, d: ct.cat([v, v * 2], -1),
    "pad": lambda v, o, d: F.pad(v, (1, 2)),
    "expand": lambda v, o, d: v.unsqueeze(0).expand(2, *v.shape).sum(0),
    "sum": lambda v, o, d: v.sum(-1 if d < 0.5 else 0, keepdim=True) * 0.1,
    "mean": lambda v, o, d: v - v.mean(-1 if d < 0.5 else 0, keepdim=True),
    "amax": lambda v, o, d: v - v.amax(-1, keepdim=True),
    "softmax": lambda v, o, d: v.softmax(-1 if d < 0.5 else 0),
    "log_softmax": lambda v, o, d: v.log_softmax(-1),
    "layer_norm": lambda v, o, d: F.layer_norm(v, v.shape[-1:]),
    "cumsum": lambda v, o, d: v.cumsum(-1) * 0.1,
    "logsumexp": lambda v, o, d: v.logsumexp(-1, keepdim=True),
    "var": lambda v, o, d: v / (v.var(-1, unbiased=False, keepdim=True) + 1),
    "matmul": lambda v, o, d: (v @ v.transpose(-1, -2)) * (1 / v.shape[-1]),
    "attention": lambda v, o, d: ((v @ v.transpose(-1, -2)) * 0.1).softmax(-1) @ v,
    "argmax": lambda v, o, d: v + v.argmax(-1, keepdim=True) * 0,
}  # fmt: skip


def most_of_five(run: Callable[[int, int, str], str], seed: int, device: str) -> str:
    """Of one input a last bit early in the program can decide the error: what differs has to in most of five."""
    found = [run(seed, 0, device)]
    if found[0] in (EAGERS, OP_BY_OP):
        return found[0]
    if found[0] and " from float64" in found[0]:
        found += [run(seed, draw, device) for draw in range(1, 5)]
    wrong = [words for words in found if words]
    return wrong[0] if 2 * len(wrong) > len(found) else ""


def run_draw(program: Callable, seed: int, draw: int, device: str) -> str:
    dtype, ((_, rows), (_, columns)), function = program(seed)
    draws = np.random.default_rng([seed, draw] if draw else seed).standard_normal((2, rows, columns))
    given = [Tensor(d.astype(np.float32)).to(device).to(getattr(ct, dtype)) for d in draws]
    gradients = seed % 3 == 0

    def call(run: Callable, tensors: list) -> list[np.ndarray]:
        leaves = [t.detach().clone().requires_grad_(gradients) for t in tensors]
        out = run(*leaves)
        grads = (
            ct.autograd.grad(out[0].sum(), leaves, allow_unused=True)
            if gradients and out[0].requires_grad
            else ()
        )
        return flat([*out, *(g for g in grads if g is not None)])

    try:
        eager = call(function, given)
    except (RuntimeError, ValueError, IndexError):
        return "eager has none"
    exact = call(function, [t.double() for t in given])
    mark = events.EVENT_LOG.mark()
    got = call(ct.compile(function, fullgraph=True), given)
    return fell_back(mark) or difference(got, eager, exact, dtype) or by_eager(mark)


# ---- convolutional networks, attention ------------------------------------------------------------------------------


def run_given(module: Any, seed: int, draw: int, device: str) -> str:
    """A program of networks.py or attentions.py."""
    dtype, function, tensors = module.given(seed, device, draw)
    eager = flat(module.call(function, tensors))
    exact = flat(module.call(function, [t.double() for t in tensors]))
    mark = events.EVENT_LOG.mark()
    got = flat(module.call(ct.compile(function, fullgraph=True), tensors))
    return fell_back(mark) or difference(got, eager, exact, dtype) or by_eager(mark)


# ---- the same bits twice --------------------------------------------------------------------------------------------


def run_bits(name: str, device: str) -> str:
    """Two runs with deterministic switches."""
    found = []
    for _ in range(2):
        ct.manual_seed(0)
        function, given = BITS[name](device)
        compiled = ct.compile(function, fullgraph=True, options={"runtime.deterministic": True})
        leaves = [t.requires_grad_() if t.dtype.is_floating_point else t for t in given]
        out = compiled(*leaves)
        grads = ct.autograd.grad(out.float().square().sum(), [t for t in leaves if t.requires_grad])
        found.append([a.tobytes() for a in flat([out, *grads])])
    return "" if found[0] == found[1] else "the bits of two runs differ"


def _embedding(device: str) -> tuple[Callable, list]:
    at, table = ct.randint(0, 100, (5000,), device=device), ct.randn(100, 64, device=device)
    return lambda table, at: F.embedding(at, table) * 2, [table, at]


def _attention(device: str) -> tuple[Callable, list]:
    given = [ct.randn(2, 4, 512, 64, device=device).bfloat16() for _ in range(3)]
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), given


def _norm(device: str) -> tuple[Callable, list]:
    given = [
        ct.randn(3000, 1000, device=device),
        ct.randn(1000, device=device),
        ct.randn(1000, device=device),
    ]
    return lambda x, w, b: F.gelu(F.layer_norm(x, (1000,), w, b)), given


def _loss(device: str) -> tuple[Callable, list]:
    given = [ct.randn(500, 9000, device=device), ct.randint(0, 9000, (500,), device=device)]
    return lambda x, y: F.cross_entropy(x, y), given


def _product(device: str) -> tuple[Callable, list]:
    given = [ct.randn(300, 700, device=device), ct.randn(700, 200, device=device)]
    return lambda x, w: (x @ w).relu().sum(0), given


BITS = {f.__name__[1:]: f for f in (_embedding, _attention, _norm, _loss, _product)}


STICKY = ("CUDA_ERROR", "cudaError", "illegal")  # words of errors that a process does not get over

# ---- many processes -------------------------------------------------------------------------------------------------

RUN: dict[str, Callable[..., str]] = {
    "operators": run_operator,
    "programs": partial(most_of_five, partial(run_draw, random_program)),
    "rows": partial(most_of_five, partial(run_draw, random_long_rows)),
    "networks": partial(most_of_five, partial(run_given, networks)),
    "attentions": partial(most_of_five, partial(run_given, attentions)),
    "bits": run_bits,
}


def work(tasks: Any, results: Any, device: str, until: float) -> None:
    warnings.simplefilter("ignore")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"/tmp/cutaway-compiled-{os.getpid()}"
    build_in_this_process()
    while time.time() < until and (task := tasks.get()) is not None:
        kind, what = task
        results.put((task, "it ended the process"))  # stands unless the next line comes
        try:
            with config.patch(
                {"capture.accumulated_recompile_limit": 1 << 20}
            ):  # all are functions of one code
                words = RUN[kind](*(what if isinstance(what, tuple) else (what,)), device)
        except Exception as error:
            words = f"{type(error).__name__}: {error}"[:300]
        results.put((task, words))
        if any(word in words for word in STICKY):
            return  # every later call here would fail, too; the parent starts another process
    results.put((None, ""))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--networks", type=int, default=100, help="and as many attentions")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--only", nargs="*", default=list(RUN))
    parser.add_argument("--every", type=int, default=1, help="of the operators")
    parser.add_argument("--seeds", type=int, nargs="*", help="these programs, networks, attentions alone")
    options = parser.parse_args()
    rows = list(operator_tasks())[:: options.every] if "operators" in options.only else []
    seeds = options.seeds or range(options.first, options.first + options.programs)
    programs: list[Task] = [("programs", s) for s in seeds if "programs" in options.only]
    programs += [("rows", s) for s in options.seeds or seeds[::4] if "rows" in options.only]
    bits = BITS if "bits" in options.only else ()
    made = options.seeds or range(options.first, options.first + options.networks)
    many: list[Task] = [*rows, *programs]
    many += [(kind, s) for kind in ("networks", "attentions") if kind in options.only for s in made]
    random.Random(0).shuffle(many)  # where the time does not suffice, some of each kind were run
    todo: list[Task] = [*(("bits", b) for b in bits), *many]
    context, begun = multiprocessing.get_context("spawn"), time.time()
    tasks, results = context.Queue(), context.Queue()
    for task in [*todo, *[None] * options.processes]:
        tasks.put(task)
    until = begun + options.seconds
    running: list[Any] = []
    found: dict[Task, str] = {}
    done = 0
    while done < options.processes and time.time() < until + 20:
        while sum(p.is_alive() for p in running) < options.processes - done and time.time() < until:
            arguments = (tasks, results, options.device, until)
            running.append(context.Process(target=work, args=arguments, daemon=True))
            running[-1].start()
        try:
            task, words = results.get(timeout=2)
        except queue.Empty:
            if not any(p.is_alive() for p in running):
                break
            continue
        if task is None:
            done += 1
        else:
            found[task] = words
    for process in running:
        process.kill()
    return report(todo, found, options, time.time() - begun)


def report(todo: list[Task], found: dict[Task, str], options: argparse.Namespace, seconds: float) -> int:
    more = options.device
    if options.device == "cuda":
        import cupy

        more = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    title = "Compiled code on a GPU against eager: operators, random programs, the same bits twice"
    print(heading(title, "make gpu-compiled", options.first, "cupy", "triton", more=more))
    failed = 0
    for kind in dict.fromkeys(kind for kind, _ in todo):
        mine = [(task, found.get(task, "not run: the time was over")) for task in todo if task[0] == kind]
        groups = Counter(_kind(words) for _, words in mine)
        bad = [(task, words) for task, words in mine if _kind(words) == "failed"]
        failed += len(bad)
        print(f"{kind}: " + ", ".join(f"{n} {what}" for what, n in groups.most_common()))
        for task, words in bad[:60]:
            print(f"FAIL {task[1]}: {words}")
    print(f"{seconds:.0f} s; {'none differs' if not failed else f'{failed} failed'}")
    return 1 if failed else 0


def _kind(words: str) -> str:
    return {
        "": "the same",
        "eager has none": "that eager refuses",
        EAGERS: EAGERS,
        OP_BY_OP: OP_BY_OP,
        "not run: the time was over": "not run",
    }.get(words, "failed")


if __name__ == "__main__":
    sys.exit(main())
