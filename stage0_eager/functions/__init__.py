"""The public functions, one file per group; importing this package fills the operator table."""

from stage0_eager.functions import (  # noqa: F401
    activations,
    creation,
    distributions,
    elementary,
    elementwise_aliases,
    inplace,
    linalg,
    methods,
    pointwise,
    rectifiers,
    reductions,
    sequences,
    shape,
    special_values,
    statistics,
)
