"""The public functions, one file per group; importing this package fills the operator table."""

from stage0_eager.functions import (  # noqa: F401
    activations,
    attention,
    creation,
    distributions,
    einsum,
    elementary,
    elementwise_aliases,
    inplace,
    linalg,
    losses,
    methods,
    normalisation,
    pixels,
    pointwise,
    rectifiers,
    reductions,
    sequences,
    shape,
    special_values,
    statistics,
)
