"""The core operators as callable rows: `core.exp(x)`. Their derivatives are in derivatives/rules.py.

Input: core_ops.py's table and kernels/eager.py. `core` is the namespace that graphs print and bodies call.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from stage0_eager.table.operator import Operator
from stage0_eager.table.registry import register
from stage_contracts.core_ops import COPY_, CORE_OPS, CoreOp


def _row(row: CoreOp) -> Operator:
    mutates = ("input",) if row is COPY_ else ()
    made = register(Operator(row.name, row.params, core=row, mutates=mutates))
    made.has_effect = row.kind == "collective"
    return made


core: Any = SimpleNamespace(**{row.name: _row(row) for row in (*CORE_OPS.values(), COPY_)})
