"""What the oracle knows of each operator, a file per group; importing this package fills spec.ROWS.

Input: nothing. A new operator is one `declare` in the file of its group.
"""

from tests.oracle.samples import (  # noqa: F401
    complex_numbers,
    creation,
    fourier,
    indexing,
    margins,
    matrices,
    networks,
    pointwise,
    pooling,
    products,
    reductions,
    slicing,
    special,
    views,
)

# Second names and in-place forms are declared by the rows they stand for; last, when those are all known.
from tests.oracle.samples import derived  # noqa: F401  isort: skip
