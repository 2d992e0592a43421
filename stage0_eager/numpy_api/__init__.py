"""NumPy's functions over Cutaway's operators on tensors: capture uses them for `np.f` in a program on arrays.

Input: none; the import fills the table. Reading order: promotion.py (NEP 50 as a table), rows.py (what a row is), then
a family: ufuncs.py, reductions.py, creation.py, shapes.py, joining.py, indexing.py, linear.py, sorting.py,
statistics.py. What turns tensors into arrays and back is functions/numpy_wrapping.py.
"""

from stage0_eager.numpy_api import (
    creation,
    indexing,
    joining,
    linear,
    reductions,
    shapes,
    sorting,
    statistics,
    ufuncs,
)
from stage0_eager.numpy_api.promotion import ARRAY_DTYPES, can_cast_same_kind, result_type
from stage0_eager.numpy_api.rows import OPERATORS, ROWS, NotHere, Row

__all__ = [
    "ARRAY_DTYPES", "OPERATORS", "ROWS", "NotHere", "Row", "can_cast_same_kind", "creation", "indexing", "joining",
    "linear", "reductions", "result_type", "shapes", "sorting", "statistics", "ufuncs",
]  # fmt: skip
