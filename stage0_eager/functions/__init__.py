"""The public functions, one file per group; importing this package fills the operator table."""

from stage0_eager.functions import (  # noqa: F401
    activations,
    attention,
    creation,
    einsum,
    inplace,
    linalg,
    losses,
    methods,
    normalisation,
    pixels,
    pointwise,
    reductions,
    shape,
)
