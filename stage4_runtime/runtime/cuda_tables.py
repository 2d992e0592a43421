"""Launches of kernels that run over a table: its pointers lie in memory of the GPU, and are written there once.

Input: a loaded kernel with columns, and at each call the addresses of all rows. Parameters and an arena's buffers do
not move, so most calls find the table that they need.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stage4_runtime.runtime.triton_units import TritonKernel

KEPT = 8  # tables of a kernel, for as many sets of addresses


@dataclass
class Table:
    memory: Any  # an array on the GPU
    captured: bool = False  # whether a CUDA graph reads it: then it stays


class TableLauncher:
    """`launcher(stream, *shared addresses, *columns)`, each column a tuple of addresses."""

    def __init__(self, cp: Any, launch: Callable[..., None], kernel: TritonKernel) -> None:
        self.cp, self.launch, self.kernel = cp, launch, kernel
        self.fixed = np.array(kernel.table, np.int64)
        self.tables: dict[tuple, Table] = {}
        self.spare: Any = None  # memory for a table that a capture needs: it cannot get any then
        self.unwritten: list[tuple[Any, np.ndarray]] = []
        self.lock = threading.Lock()
        self.capturing = cp.cuda.runtime.streamIsCapturing

    def __call__(self, stream: int, *arguments: Any) -> None:
        count = len(arguments) - self.kernel.columns
        # of each stream its own: it is written in the order of that stream
        key = stream, *arguments[count:]
        captured = bool(self.capturing(stream))
        table = self.tables.get(key) or self._made(key, captured)
        table.captured = table.captured or captured
        self.launch(stream, *arguments[:count], table.memory.data.ptr)

    def _made(self, key: tuple, captured: bool) -> Table:
        """A new table. During a capture it is not written, for each replay would write it: write_tables does it then.

        Raises RuntimeError for a second new table during one capture.
        """
        pointers = np.array(key[1:], np.uint64).view(np.int64).ravel()
        whole = np.concatenate([self.fixed, pointers])
        with self.lock:
            if captured:
                memory, self.spare = self.spare, None
                if memory is None:
                    raise RuntimeError(f"kernel {self.kernel.name}: two tables are new in one capture")
                self.unwritten.append((memory, whole))
            else:
                memory = self.cp.asarray(whole)
                if self.spare is None:
                    self.spare = self.cp.asarray(whole)
            free = [known for known, table in self.tables.items() if not table.captured]
            if len(free) >= KEPT:
                del self.tables[free[0]]
            made = self.tables[key] = Table(memory)
        return made

    def write_tables(self) -> None:
        """Write the tables of a capture that has ended, before its first replay."""
        with self.lock:
            while self.unwritten:
                memory, whole = self.unwritten.pop()
                self.cp.copyto(memory, self.cp.asarray(whole))
