"""The public functions, one file per group; importing this package fills the operator table."""

from stage0_eager.functions import (  # noqa: F401
    activations,
    creation,
    indexing,
    inplace,
    joining,
    linalg,
    methods,
    picking,
    pointwise,
    reductions,
    shape,
    sorting,
    windows,
)
