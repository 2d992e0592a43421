"""Run an emitted Program's Triton kernels in Triton's interpreter, or compile them to PTX, each in a worker process.

Input: a Program emitted for "triton". The workers (triton_worker.py) live as long as the test session.
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

from stage3_lowering.interpret import EagerTable, _bind, _call, _resolve, extent, to_storage
from stage_contracts.program import External, Launch, Program, Return

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
        self.folder.cleanup()


@lru_cache(maxsize=2)
def worker(mode: str) -> Worker:
    return Worker(mode)


def compile_program(program: Program, arch: int = 90) -> dict[str, dict[str, Any]]:
    """Compile every kernel to PTX for `sm_<arch>`; gives {kernel: {"shared": bytes, "ptx": text}}."""
    texts = {unit.kernels[0]: unit.text for unit in program.units if unit.language == "triton"}
    results = {}
    for name, kernel in program.kernels.items():
        grid = kernel.grid
        results[name] = worker("compile").ask(
            text=texts[name], name=name, signature=grid["signature"], constants=grid["constants"],
            num_warps=grid["num_warps"], arch=arch,
        )  # fmt: skip
        assert results[name]["shared"] <= SHARED_LIMIT, f"{name} needs {results[name]['shared']} bytes"
    return results


def run_triton(
    program: Program, inputs: Sequence[Any], eager: EagerTable, constants: Mapping[str, Any] | None = None
) -> tuple[Any, ...]:
    """Run an emitted Program: kernels in Triton's interpreter with bounds checks, external calls through `eager`."""
    texts = {unit.kernels[0]: unit.text for unit in program.units if unit.language == "triton"}
    metas = {name: buffer.meta for name, buffer in program.buffers.items()}
    storage = _bind(program.inputs, inputs, metas)
    storage |= {name: to_storage(value, metas[name]) for name, value in (constants or {}).items()}
    for step in program.steps:
        if isinstance(step, Launch):
            for name in step.buffers:
                if name not in storage:
                    storage[name] = np.full(extent(metas[name]), 77).astype(metas[name].dtype.numpy)
            _interpret(program, step, texts[step.kernel], storage)
        elif isinstance(step, External):
            _call(step, storage, metas, eager)
        elif isinstance(step, Return):
            return _resolve(step.values, storage, metas)
    raise AssertionError("no Return")


def _interpret(program: Program, step: Launch, text: str, storage: dict[str, np.ndarray]) -> None:
    kernel, interpreter = program.kernels[step.kernel], worker("interpret")
    paths = [str(Path(interpreter.folder.name) / f"{k}.npy") for k in range(len(step.buffers))]
    for path, name in zip(paths, step.buffers, strict=True):
        np.save(path, storage[name])
    interpreter.ask(
        text=text, name=kernel.name, grid=kernel.grid["grid"], constants=kernel.grid["constants"], arrays=paths
    )
    for path, name in zip(paths, step.buffers, strict=True):
        storage[name] = np.load(path)
