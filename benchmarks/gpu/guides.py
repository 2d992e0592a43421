"""The guides' blocks that ask for a GPU, on one: getting started, troubleshooting, questions, profiling.

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
print(torch.equal(mod(*args), opt_mod(*args)))
"""
# (guide, programs, what is printed)
RUNS = (
    ("get_started", ("example.py",), "True"),
    ("get_started", ("bert.py",), "(1, 36, 32)"),
    ("troubleshooting", ("repro.py",), "True"),
    ("faq", ("numpy_fn.py",), "float32"),
    ("faq", ("numpy_gradient.py",), "(1024, 64)"),
    ("profiling", ("basics.py",), "Self CUDA time total"),
    ("profiling", ("cuda_graphs.py",), "nothing to start"),
    ("profiling", ("compiling.py",), "compilation metrics"),
    ("profiling", ("breaks.py",), "3 calls side by side, 12 regions"),
)


def programs_of(guide: str) -> dict[str, str]:
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
                changed = name == "repro.py" or on_cuda(programs_of(guide)[name]) != programs_of(guide)[name]
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
    print(f"{failed} failed" if failed else "all hold")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
