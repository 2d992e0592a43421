"""`make operator-speed`, `make operator-axes`: operators one at a time, compiled, beside torch.compile. One thread.

Input: ROWS, expressions in torch's names; torch where it is installed. cpu_speed.py measures a few programs with care,
this one many with less, to find a slow kernel that is in no program there. Each framework is one process; for each row
they take turns, and a ratio is the median over the rounds. Results are compared elsewhere (`make oracle-kernels`).
    python -m benchmarks.operator_speed [--quick] [--axes uneven gradients] [--rows conv sort] [--torch-python PYTHON]
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

ROUNDS, RUN = 5, 0.04  # seconds of calls in a round
SLOWER, FAR = 1.05, 1.5  # a ratio that counts as slower; one that is told of every axis
GIVEN = """
x = torch.randn(1024, 1024); y = torch.randn(1024, 1024); p = torch.rand(1024, 1024)
m = x > 0; k = (x * 100).long(); small = torch.randn(128, 64); b = torch.randn(64, 64, 64)
image = torch.randn(8, 32, 56, 56); text = torch.randn(16, 128, 256)
places = torch.randint(0, 1024, (4096,)); wide = places[:1024, None].expand(1024, 1024)
source = torch.randn(4096, 1024); edges = torch.linspace(-2, 2, 20)
filters = torch.randn(32, 32, 3, 3); single = torch.randn(32, 1, 3, 3); mixing = torch.randn(64, 32, 1, 1)
taps = torch.randn(256, 256, 3); spread = torch.randn(32, 16, 2, 2); grid = torch.rand(8, 56, 56, 2) * 2 - 1
cache = torch.zeros(1024, 1024); new = torch.rand(64, 1024)
"""
FLOATS = "x y p small b image text source edges filters single mixing taps spread grid".split()
# What differs from GIVEN: other numbers in its text, and what is done to each tensor of floats.
AXES: dict[str, tuple[dict[str, str], str]] = {
    "plain": ({}, "{0}"),
    "uneven": ({"1024": "1003", "128": "125", "64": "63", "56": "57"}, "{0}"),
    "narrow": (
        {"randn(1024, 1024)": "randn(20000, 20)", "rand(1024, 1024)": "rand(20000, 20)", "1024": "20"},
        "{0}",
    ),
    "float64": ({}, "{0}.double()"),
    "bfloat16": ({}, "{0}.bfloat16()"),
    "gradients": ({}, "{0}.requires_grad_()"),
}
ROWS = {
    "powers": "x ** 2; x ** 3; x ** 0.5; p ** -0.5; p ** 0.3; k ** 2; x.square(); x.sqrt(); x.rsqrt()",
    "functions": "x.exp(); p.log(); p.log1p(); x.sin(); x.tanh(); x.erf(); x.sigmoid(); x.atan2(y); F.softplus(x);"
    "F.gelu(x); F.gelu(x, approximate='tanh'); F.silu(x); F.elu(x); F.mish(x); F.hardswish(x); F.leaky_relu(x)",
    "division": "x // 0.3; x % 0.3; torch.fmod(x, 0.3); k // 7; k % 7; x.floor(); x.round(); x.trunc()",
    "selection": "torch.where(m, x, y); x.masked_fill(m, 0.0); x.clamp(-1, 1); torch.maximum(x, y); x.tril();"
    "m & (y > 0); x.lerp(y, 0.3); x.nan_to_num()",
    "casts": "x.half() * 2; x.bfloat16().float(); x.long(); m.float(); k * 3 + 1",
    "reductions": "x.sum(); x.sum(-1); x.sum(0); x.mean(); x.prod(-1); x.var(-1); x.std(0); x.norm(); x.norm(dim=1);"
    "x.logsumexp(-1); x.amax(-1); x.max(0)[0]; x.max(-1)[0]; x.argmax(-1); x.argmax(0); m.any(-1); m.all(); m.sum();"
    "((x - y) ** 2).sum(-1).sqrt().mean()",
    "scans": "x.cumsum(-1); x.cumsum(0); x.cumprod(-1); x.cummax(-1)[0]; x.logcumsumexp(-1); m.cumsum(-1)",
    "order": "x.sort(-1)[0]; x.argsort(-1); x.topk(8, -1)[0]; x.median(-1)[0]; x.kthvalue(5, -1)[0]; places.unique();"
    "torch.searchsorted(edges, x); torch.bucketize(x, edges); torch.isin(places, places[:20])",
    "indices": "x[places]; x[:, places]; x.gather(0, wide); x.scatter(0, wide, y); x.scatter_add(0, wide, y);"
    "x.index_add(0, places, source); x.index_copy(0, places, source); x.index_fill(0, places, 1.0);"
    "x.index_put((places,), source); x.index_put((places, places), p[0, 0]); x.scatter(1, wide.t(), y);"
    "x[m]; m.nonzero(); F.one_hot(places, 1024);"
    "torch.bincount(places, minlength=1024); F.embedding(places, x)",
    "writes": "cache[:64].copy_(new); cache[0].add_(new[0]); cache[:, 0].fill_(1.0); cache.mul_(0.5);"
    "cache.index_copy_(0, places[:64], new); cache.index_add_(0, places[:64], new)",
    "moves": "torch.cat([x, y], 1); torch.stack([x, y], -1); x.roll(3, 1); x.flip(1); x.t().contiguous();"
    "image.permute(0, 2, 3, 1).contiguous(); F.pad(image, (1, 1, 1, 1)); F.pad(image, (2, 2, 2, 2), mode='reflect');"
    "small.repeat(16, 16); F.unfold(image, 3, padding=1); F.pixel_shuffle(image, 2); small[:, None] * small[None]",
    "images": "F.conv2d(image, filters, padding=1); F.conv2d(image, filters, padding=1).relu();"
    "F.conv2d(image, mixing); F.conv2d(image, single, padding=1, groups=32);"
    "F.conv2d(image, filters, stride=2, padding=1);"
    "F.conv_transpose2d(image, spread, stride=2); F.max_pool2d(image, 2); F.avg_pool2d(image, 3, 1, 1);"
    "F.adaptive_avg_pool2d(image, 1); F.interpolate(image, scale_factor=2); "
    "F.interpolate(image, scale_factor=2, mode='bilinear'); F.grid_sample(image[:, :4], grid, align_corners=False);"
    "F.group_norm(image, 8); F.batch_norm(image, None, None, training=True)",
    "products": "x @ y; x @ y[0]; b @ b; torch.addmm(x[0], x, y); torch.einsum('bij,bkj->bik', b, b);"
    "torch.cdist(small, small); F.linear(text, small.new_ones(512, 256)); F.conv1d(text.mT, taps, padding=1)",
    "losses": "F.cross_entropy(x, places[:1024]); F.binary_cross_entropy(p, p); F.mse_loss(x, y);"
    "F.smooth_l1_loss(x, y); F.binary_cross_entropy_with_logits(x, p);"
    "F.kl_div(x.log_softmax(-1), p, reduction='batchmean');"
    "F.cosine_similarity(x, y); F.normalize(x, dim=-1)",
}


def expressions() -> list[tuple[str, str]]:
    """(kind, expression) of each row."""
    return [(kind, one.strip()) for kind, text in ROWS.items() for one in text.split(";") if one.strip()]


# ---- a process of one framework --------------------------------------------------------------------------------------


def _names(library: str, axis: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    if library == "cutaway":
        with importlib.import_module("cutaway.torch_api").as_torch():
            exec("import torch; import torch.nn.functional as F", names)
    else:
        exec("import torch; import torch.nn.functional as F; torch.set_num_threads(1)", names)
    names["torch"].manual_seed(0)
    others, made = AXES[axis]
    exec(re.sub("|".join(map(re.escape, others)) or "$^", lambda found: others[found[0]], GIVEN), names)
    names.update({name: eval(made.format(name), names) for name in FLOATS})
    return names


def backward(call: Callable[[], Any], names: dict[str, Any], expression: str) -> Callable[[], Any]:
    """The call with the gradients of the inputs that its expression names."""
    leaves = [names[name] for name in FLOATS if re.search(rf"\b{name}\b", expression)]
    tangent = names["torch"].ones_like(call())
    return lambda: names["torch"].autograd.grad(call(), leaves, tangent)


def least(call: Callable[[], Any]) -> float:
    """The least time of a call in a round, in µs."""
    best, end = float("inf"), time.perf_counter() + RUN
    while time.perf_counter() < end or best == float("inf"):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def serve(library: str, axis: str) -> None:
    """For each expression that it reads: compile it, call it once; for an empty line: a round of the last one."""
    names = _names(library, axis)
    call: Callable[[], Any] = dict
    for line in sys.stdin:
        if line.strip():
            try:
                call = names["torch"].compile(eval(f"lambda: {line}", names))
                start = time.perf_counter()
                if axis == "gradients":
                    call = backward(call, names, line)
                call()
                print(json.dumps({"cold": time.perf_counter() - start}), flush=True)
            except Exception as error:  # told in the table
                print(json.dumps({"error": f"{type(error).__name__}: {error}"[:100]}), flush=True)
        else:
            print(json.dumps({"us": least(call)}), flush=True)


# ---- both, in turns --------------------------------------------------------------------------------------------------


class Process:
    def __init__(self, python: str, library: str, axis: str) -> None:
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.operator_speed", "--serve", library, "--axes", axis],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def ask(self, line: str) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        print(line, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer else {"error": "the process died"}


def measured(expression: str, both: list[Process], rounds: int) -> tuple[list[float], list[float]] | str:
    """(µs of each framework, seconds of each first call), or what went wrong."""
    first = [one.ask(expression) for one in both]
    for said in first:
        if "error" in said:
            return str(said["error"])
    times = [[one.ask("")["us"] for one in both] for _ in range(rounds)]
    return [statistics.median(t) for t in zip(*times, strict=True)], [said["cold"] for said in first]


Line = tuple[float, str]  # a ratio, and the row as it is printed


def table(axis: str, wanted: list[str], torch_python: str, rounds: int) -> tuple[list[Line], list[str]]:
    """(rows, the slowest beside torch first; what could not be measured)."""
    both = [Process(sys.executable, "cutaway", axis), Process(torch_python, "torch", axis)]
    lines, failed = [], []
    for expression in wanted:
        found = measured(expression, both, rounds)
        if isinstance(found, str):
            failed.append(f"{expression}: {found}")
            continue
        (ours, theirs), (cold, their_cold) = found
        figures = f"{ours:>10.1f}{theirs:>10.1f}{ours / theirs:>8.2f}{cold:>8.2f}{their_cold:>8.2f}"
        lines.append((ours / theirs, f"{figures}  {expression}"))
    return sorted(lines, reverse=True), failed


def summary(lines: list[Line]) -> str:
    mean, slower = statistics.geometric_mean(ratio for ratio, _ in lines), sum(r > SLOWER for r, _ in lines)
    return f"{len(lines)} rows; geometric mean {mean:.2f}; {slower} over {SLOWER}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--rows", nargs="*", default=[], help="words of the expressions")
    parser.add_argument("--axes", nargs="*", choices=AXES, default=["plain"], help="what is unlike GIVEN")
    parser.add_argument("--quick", action="store_true", help="a few rows; to see that it works")
    parser.add_argument("--torch-python", default=sys.executable, help="the Python that has the torch to ask")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    if options.serve:
        serve(options.serve, options.axes[0])
        return
    from stage_contracts.tests.report_heading import heading

    wanted = [e for e in expressions() if not options.rows or any(word in e[1] for word in options.rows)]
    if options.quick:
        wanted = list({kind: (kind, one) for kind, one in wanted}.values())[:4]
    alone = options.axes == ["plain"]
    title = "Operators one at a time, compiled, beside torch.compile"
    command = "make operator-speed" if alone else "make operator-axes"
    print(heading(title, command, 0, more="one thread"))
    columns = f"{'ours us':>10}{'torch us':>10}{'ratio':>8}{'first s':>8}{'torch s':>8}"
    for axis in options.axes:
        lines, failed = table(
            axis, [e for _, e in wanted], options.torch_python, 1 if options.quick else ROUNDS
        )
        if alone:
            print("\n".join([columns, *(line for _, line in lines), "", summary(lines), *failed]))
        else:
            far = [line for ratio, line in lines if ratio > FAR]
            print("\n".join([f"\n{axis}: {summary(lines)}; those over {FAR}:", *far]))


if __name__ == "__main__":
    main()
