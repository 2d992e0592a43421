"""Which operators autocast runs in the lower precision, which in float32, and which in the widest of their operands.

Input: names of rows of the operator table. The lists are torch's, for each kind of device (the op reference of
torch.amp). If a function of a list is several rows here, each of the rows is in the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

LOWER, FLOAT32, FLOAT32_UNLESS_ASKED, WIDEST, REFUSE = (
    "lower", "float32", "float32 unless asked", "widest", "refuse",
)  # fmt: skip

MEANING: dict[str, str] = {
    LOWER: "operands are cast to autocast's dtype",
    FLOAT32: "operands are cast to float32",
    FLOAT32_UNLESS_ASKED: "as float32, but a call that says dtype= is left alone",
    WIDEST: "operands are cast to the widest dtype among them",
    REFUSE: "the call is an error: its gradients do not fit the lower precision",
}

_PRODUCTS = """
    addbmm addmm baddbmm bmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d linalg_vecdot
    linear matmul mm prelu scaled_dot_product_attention attention_heads project_packed
"""
# Not on torch's list, but made of products there.
_OF_PRODUCTS = "chain_matmul_of corrcoef cov einsum_of linalg_multi_dot matrix_power"

_LISTS: dict[str, dict[str, str]] = {
    "cpu": {
        LOWER: f"{_PRODUCTS} {_OF_PRODUCTS} affine_grid tensordot",
        FLOAT32: """
            adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy binary_cross_entropy_with_logits
            cdist cholesky cholesky_inverse cholesky_solve cosine_embedding_loss cross_entropy ctc_of_rows
            grid_sample hinge_embedding_loss huber_loss inverse kl_div l1_loss linalg_cholesky_ex linalg_cond
            linalg_eigh linalg_eigvalsh linalg_householder_product linalg_inv_ex linalg_lstsq linalg_matrix_rank
            linalg_qr linalg_solve linalg_solve_ex linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve
            lp_pool3d margin_ranking_loss max_pool3d max_unpool1d max_unpool2d max_unpool3d mse_loss multi_margin_loss
            multilabel_margin_loss nanquantile nll_loss pinverse poisson_nll_loss prod qr quantile smooth_l1_loss
            soft_margin_loss svd trace
            triangular_solve triplet_margin_loss
        """,
        WIDEST: "cat column_stack concat concatenate dstack hstack index_copy row_stack stack vstack",
    },
    "cuda": {
        LOWER: f"{_PRODUCTS} {_OF_PRODUCTS} addmv addr mv",
        FLOAT32: """
            acos arccos arcsin asin binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss
            cosine_similarity cross_entropy cumulative_trapezoid dist erfinv exp expm1 frobenius_norm
            group_norm gumbel_softmax hinge_embedding_loss huber_loss interpolate kl_div l1_loss layer_norm
            linalg_norm local_response_norm log log10 log1p log2 logsumexp lp_pool1d lp_pool2d lp_pool3d
            margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss
            norm normalize nuclear_norm pairwise_distance pdist poisson_nll_loss pow rdiv reciprocal renorm rms_norm
            rpow rsqrt sinh smooth_l1_loss soft_margin_loss softplus square tan trapezoid trapz triplet_margin_loss
            upsample_nearest
        """,
        FLOAT32_UNLESS_ASKED: "cumprod cumsum linalg_matrix_norm log_softmax prod softmax softmin sum vector_norm",
        WIDEST: """
            addcdiv addcmul arctan2 atan2 bilinear cross dot grid_sample index_put linalg_cross scatter_add tensordot
            vdot
        """,
        REFUSE: "binary_cross_entropy",
    },
}

POLICIES: dict[str, dict[str, str]] = {
    device: {name: policy for policy, names in lists.items() for name in names.split()}
    for device, lists in _LISTS.items()
}

_FILLED = ("nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear")

# Rows that are on a list for some calls only: what the bound arguments must say. `value` reads one that is no tensor.
Bound = Mapping[str, Any]
Reader = Callable[[Any], Any]
SOMETIMES: dict[tuple[str, str], tuple[str, Callable[[Bound, Reader], bool]]] = {
    ("cpu", "pad"): (FLOAT32, lambda a, value: value(a["mode"]) in ("reflect", "replicate")),
    ("cpu", "max_pool3d"): (FLOAT32, lambda a, value: not value(a["return_indices"])),
    ("cpu", "einsum_of"): (LOWER, lambda a, value: contracts(value(a["equation"]))),
    ("cpu", "inner"): (
        LOWER,
        lambda a, value: (
            min(a["input"].ndim, a["other"].ndim, 1) > 0 and a["input"].ndim + a["other"].ndim > 2
        ),
    ),
    ("cpu", "matrix_power"): (LOWER, lambda a, value: abs(value(a["n"])) > 1),
    ("cuda", "matrix_power"): (LOWER, lambda a, value: abs(value(a["n"])) > 1),
    ("cuda", "interpolate"): (FLOAT32, lambda a, value: value(a["mode"]) in _FILLED),
}


def _is_product(ndim: int, other: int) -> bool:
    """Whether inner() is more than a scaling or one dot product."""
    return bool(ndim and other) and ndim + other > 2


def contracts(equation: str) -> bool:
    """Whether an einsum multiplies and adds up: some letter of two operands is not in its output."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    letters = [set(part.replace(".", "")) for part in inputs.split(",")]
    if not arrow:
        output = "".join(c for c in "".join(map(str, inputs.split(","))) if inputs.count(c) == 1)
    return any((a & b) - set(output) for i, a in enumerate(letters) for b in letters[i + 1 :])


REFUSALS: dict[str, str] = {
    "binary_cross_entropy": (
        "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
        "The sigmoid before it and the loss itself lose what float16 cannot hold: use "
        "binary_cross_entropy_with_logits or BCEWithLogitsLoss on the values before the sigmoid."
    ),
}
