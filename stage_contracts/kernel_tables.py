"""Kernels that run over a table: makes a kernel of one row, or a program without tables.

Input: a Kernel with rows (program.py), which horizontal fusion makes: the same nests over different buffers and sizes.
For a target whose emitter does not support tables, the rows are launched one by one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from stage_contracts.index_expr import symbol
from stage_contracts.program import Kernel, Launch, Program
from stage_contracts.size_vars import at_sizes


def row_kernel(kernel: Kernel, row: int) -> Kernel:
    """The kernel that one row of the table runs. A kernel without a table is itself this kernel."""
    if not kernel.rows:
        return kernel
    numbers: dict[Any, Any] = {symbol(name): column[row] for name, column in kernel.row_sizes.items()}
    nests = at_sizes(kernel.nests, numbers) if numbers else kernel.nests
    return replace(kernel, nests=nests, schedule=None, rows=0, columns=(), row_sizes={})


def arguments(kernel: Kernel, buffers: Sequence[str], address: Callable[[str], int]) -> list[Any]:
    """The arguments of the kernel's C function: an address for each param; for a column, an array of the addresses of
    its rows."""
    bound = kernel.bindings(buffers)
    found: list[Any] = []
    for param in kernel.params:
        rows = [address(row[param]) for row in bound]
        found.append((ctypes.c_void_p * len(rows))(*rows) if param in kernel.columns else rows[0])
    return found


def _none(kernel: Kernel) -> bool:
    return False


def rows_apart(program: Program, stays: Callable[[Kernel], bool] = _none) -> Program:
    """The program with one launch for each row of a table. Rows with equal sizes launch the same kernel. A table that
    `stays` has its one launch."""
    kernels: dict[str, Kernel] = {}
    made: dict[Any, str] = {}
    steps: list[Any] = []
    for name, kernel in program.kernels.items():
        if not kernel.rows or stays(kernel):
            kernels[name] = kernel
    for step in program.steps:
        if not isinstance(step, Launch) or step.kernel in kernels:
            steps.append(step)
            continue
        kernel = program.kernels[step.kernel]
        for row, bound in enumerate(kernel.bindings(step.buffers)):
            key = kernel.name, tuple(column[row] for column in kernel.row_sizes.values())
            if key not in made:
                made[key] = _fresh(f"{kernel.name}_row{row}", kernels)
                kernels[made[key]] = replace(row_kernel(kernel, row), name=made[key])
            steps.append(replace(step, kernel=made[key], buffers=tuple(bound.values())))
    return program.with_(kernels=kernels, steps=tuple(steps))


def _fresh(name: str, taken: dict[str, Kernel]) -> str:
    while name in taken:
        name += "_"
    return name
