"""Triton without a GPU: runs a Program's kernels in Triton's interpreter, or compiles them to PTX for a GPU elsewhere.

Input: a Program emitted for "triton". A worker process (triton_worker.py) does each of the two and lives as long as
this process, because Triton decides at its import whether it interprets or compiles.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from stage3_lowering.interpret import EAGER, EagerTable, Storage, run_steps, sizes_of
from stage_contracts.index_expr import parse_index, symbol
from stage_contracts.program import Launch, Program
from stage_contracts.size_vars import at_sizes

SHARED_LIMIT = 232_448  # bytes of shared memory a block may have on sm_90


class Worker:
    """One process and a line of JSON each way."""

    def __init__(self, mode: str) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="cutaway_triton_")
        environment = dict(os.environ, TRITON_CACHE_DIR=str(Path(self.folder.name) / "cache"))
        environment.pop("TRITON_INTERPRET", None)
        worker = Path(__file__).with_name("triton_worker.py")
        self.process = subprocess.Popen(
            [sys.executable, str(worker), mode],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        atexit.register(self.close)

    def ask(self, **request: Any) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        print(json.dumps(request), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the Triton worker died on {request.get('name')}:\n{request.get('text')}")
        reply = json.loads(answer)
        if "error" in reply:
            raise RuntimeError(f"{request.get('name')}: {reply['error']}\n{request.get('text')}")
        return reply

    def close(self) -> None:
        if self.process.poll() is None:
            assert self.process.stdin
            self.process.stdin.close()
            self.process.wait(timeout=10)
            assert self.process.stdout
            self.process.stdout.close()
        self.folder.cleanup()


@lru_cache(maxsize=2)
def worker(mode: str) -> Worker:
    return Worker(mode)


def compile_to_ptx(program: Program, arch: int = 90) -> dict[str, dict[str, Any]]:
    """Compile every kernel to PTX for `sm_<arch>`; gives {kernel: {"shared": bytes, "ptx": text}}."""
    results = {}
    for name, text in _texts(program).items():
        grid = program.kernels[name].grid
        words = {
            key: grid[key]
            for key in ("signature", "constants", "num_warps", "asserts", "fp_fusion")
            if key in grid
        }
        results[name] = worker("compile").ask(text=text, name=name, arch=arch, **words)
        assert results[name]["shared"] <= SHARED_LIMIT, f"{name} needs {results[name]['shared']} bytes"
    return results


def run_in_interpreter(
    program: Program,
    inputs: Sequence[Any],
    eager: EagerTable | None = None,
    constants: Mapping[str, Any] | None = None,
    product: str = "",
) -> tuple[Any, ...]:
    """Run an emitted Program on NumPy arrays: kernels in Triton's interpreter, every access checked for bounds.
    `product`: how kernels multiply matrices of float32, as a GPU (gpu_products.py) or, with "", as NumPy."""
    texts, values = _texts(program), sizes_of(program, inputs)
    sizes = {str(name): value for name, value in values.items()}
    run = lambda step, storage: _interpret(program, step, texts[step.kernel], storage, sizes, product)  # noqa: E731
    return run_steps(at_sizes(program, values), inputs, run, eager or EAGER, constants)


def _texts(program: Program) -> dict[str, str]:
    return {unit.kernels[0]: unit.text for unit in program.units if unit.language == "triton"}


def _interpret(
    program: Program, step: Launch, text: str, storage: Storage, sizes: Mapping[str, int], product: str
) -> None:
    kernel, interpreter = program.kernels[step.kernel], worker("interpret")
    values = {symbol(name): value for name, value in sizes.items()}
    grid = [
        n if isinstance(n, int) else max(1, int(parse_index(n).subs(values))) for n in kernel.grid["grid"]
    ]
    paths = [str(Path(interpreter.folder.name) / f"{k}.npy") for k in range(len(step.buffers))]
    for path, name in zip(paths, step.buffers, strict=True):
        np.save(path, storage[name])
    interpreter.ask(
        text=text,
        name=kernel.name,
        grid=grid,
        sizes=[sizes[name] for name in kernel.sizes],
        constants=kernel.grid["constants"],
        arrays=paths,
        table=[kernel.rows, len(kernel.columns), *kernel.grid["table"]] if kernel.rows else [],
        product=product,
    )
    for path, name in zip(paths, step.buffers, strict=True):
        storage[name] = np.load(path).view(storage[name].dtype)
