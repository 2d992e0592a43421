"""The guides' blocks that ask for a GPU, on one: getting started, troubleshooting, questions, profiling; kernels alone.

Input: a machine with an NVIDIA GPU, CuPy and Triton. Weights are drawn, nothing is downloaded. Usage, from the root:
    python3 benchmarks/gpu/guides.py > reports/gpu-guides.txt
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from stage_contracts.tests.report_heading import heading  # noqa: E402

# What the CPU's programs of the guides' pages have in the place of the guides' CUDA.
ON_CUDA = (
    ('device="cpu"', 'device="cuda"'),
    ('torch.device("cpu")', 'torch.device("cuda")'),
    ("torch.randn(rows, 64)", 'torch.randn(rows, 64, device="cuda")'),
    ("torch.randn(100)", 'torch.randn(100, device="cuda")'),
    ("torch.randn(10000)", 'torch.randn(10000).to(device="cuda:0")'),
    ("small_resnet())", "small_resnet().cuda())"),
    ("ModelWithBreaks())", "ModelWithBreaks().cuda())"),
    ("torch.randn(2, 3, 32, 32)", 'torch.randn(2, 3, 32, 32, device="cuda")'),
    ("torch.randn(128, 128)", 'torch.randn(128, 128, device="cuda")'),
    ("torch.rand(2, 2, ", 'torch.rand(2, 2, device="cuda", '),
    ("torch.randn(64, 32), torch.randn(32, 16)", "torch.randn(64, 32).cuda(), torch.randn(32, 16).cuda()"),
)
REPRO = """\
import torch
import torch._dynamo as dynamo
from torch import tensor, device
import torch.fx as fx
from torch._dynamo.testing import rand_strided
from math import inf
from torch._dynamo.debug_utils import run_fwd_maybe_bwd

from torch.nn import *

class Repro(torch.nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, add):
        relu = torch.relu(add);  add = None
        return (relu,)

mod = Repro().cuda()
opt_mod = torch.compile(mod, backend="inductor")

args = [((200, 200), (200, 1), torch.float32, 'cuda', False)]
args = [rand_strided(sh, st, dt, dev).requires_grad_(rg) for (sh, st, dt, dev, rg) in args]

with torch.cuda.amp.autocast(enabled=False):
    ref = run_fwd_maybe_bwd(mod, args)
    res = run_fwd_maybe_bwd(opt_mod, args)
print(torch.equal(mod(*args)[0], opt_mod(*args)[0]))
"""
# (guide, programs, what is printed)
RUNS = (
    ("get_started", ("example.py",), "True"),
    ("get_started", ("backends.py",), "cudagraphs: True"),
    ("get_started", ("bert.py",), "(1, 36, 32)"),
    ("troubleshooting", ("repro.py",), "True"),
    ("faq", ("numpy_fn.py",), "float32"),
    ("faq", ("numpy_gradient.py",), "(1024,) cuda"),
    ("profiling", ("basics.py",), "Self CUDA time total"),
    ("profiling", ("cuda_graphs.py",), "nothing to start"),
    ("profiling", ("compiling.py",), "compilation metrics"),
    ("profiling", ("breaks.py",), "3 calls side by side, 12 regions"),
    ("profiling", ("gaps.py",), "4096 rows: kernels take "),
    ("kernels", ("kernel_files.py",), "roofline: "),
)
# Every kernel of a program as a file, each run alone; the first also under ncu, where it is installed.
KERNEL_FILES = """\
import glob
import shutil
import subprocess
import sys

import torch

torch._inductor.config.benchmark_kernel = True

@torch.compile
def f(x, w):
    return torch.softmax((x @ w).relu(), 1).sum(0) * 2

f(torch.randn(4096, 512, device="cuda"), torch.randn(512, 1024, device="cuda"))
files = sorted(glob.glob("torch_compile_debug/**/kernels/*.py", recursive=True))
assert files
for file in files:
    subprocess.run([sys.executable, file], check=True)
if shutil.which("ncu"):
    counted = subprocess.run([sys.executable, files[0], "--perf"], capture_output=True, text=True)
    lines = [" ".join(line.split()) for line in counted.stdout.splitlines()]
    print("ncu:", [line for line in lines if line.startswith(("Duration", "Memory Throughput"))][-3:])
"""
SHOWN = ("kernel_files.py", "basics.py")  # what these print stands in the report


def programs_of(guide: str) -> dict[str, str]:
    if guide == "kernels":
        return {"kernel_files.py": KERNEL_FILES}
    path = ROOT / "site_docs" / f"{guide}_guide.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {**module.PROGRAMS, "repro.py": REPRO}


def on_cuda(text: str) -> str:
    for cpu, cuda in ON_CUDA:
        text = text.replace(cpu, cuda)
    return text


RUNNER = """\
import runpy
import sys

sys.modules["torch"] = None
from cutaway.torch_api import as_torch

with as_torch():
    runpy.run_path(sys.argv[1], run_name="__main__")
"""


def main() -> None:
    print(heading("The guides' blocks that ask for a GPU", "make gpu", 0))
    failed = 0
    for guide, names, wanted in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**programs_of(guide), "runner.py": RUNNER}.items():
                (Path(folder) / name).write_text(on_cuda(text), encoding="utf-8")
            for name in names:
                text = programs_of(guide)[name]
                changed = "cuda" in text or on_cuda(text) != text
                path = os.pathsep.join([str(ROOT), folder, os.environ.get("PYTHONPATH", "")])
                ran = subprocess.run(
                    [sys.executable, "runner.py", name], cwd=folder, env={**os.environ, "PYTHONPATH": path},
                    capture_output=True, text=True, timeout=300,
                )  # fmt: skip
                good = ran.returncode == 0 and wanted in ran.stdout
                failed += not good
                print(
                    f"{'ok  ' if good else 'FAIL'} {guide}: {name}{'' if changed else ' (as on the CPU)'}",
                    flush=True,
                )
                if not good:
                    print((ran.stdout + ran.stderr)[-1500:])
                elif name in SHOWN:
                    print("\n".join(f"     {line}"[:120] for line in ran.stdout.splitlines()))
    print(f"{failed} failed" if failed else "all hold")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
