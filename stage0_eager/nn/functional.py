"""torch.nn.functional's names: the public functions, gathered."""

from typing import Any

from stage0_eager.functions import inplace, pointwise
from stage0_eager.functions.cumulative import pdist
from stage0_eager.functions.linalg.einsum import bilinear
from stage0_eager.functions.linalg.products import linear
from stage0_eager.functions.nn.activations import gelu, softplus
from stage0_eager.functions.nn.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
)
from stage0_eager.functions.nn.attention import scaled_dot_product_attention
from stage0_eager.functions.nn.convolution import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from stage0_eager.functions.nn.ctc_loss import ctc_loss
from stage0_eager.functions.nn.fold import fold
from stage0_eager.functions.nn.fold import sliding_blocks as unfold
from stage0_eager.functions.nn.fractional_pooling import (
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
)
from stage0_eager.functions.nn.grid_sampling import affine_grid, grid_sample
from stage0_eager.functions.nn.interpolation import interpolate, upsample
from stage0_eager.functions.nn.losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    cosine_similarity,
    cross_entropy,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    nll_loss,
    pairwise_distance,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
    triplet_margin_loss,
)
from stage0_eager.functions.nn.margin_losses import (
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    triplet_margin_with_distance_loss,
)
from stage0_eager.functions.nn.normalization import (
    batch_norm,
    group_norm,
    instance_norm,
    layer_norm,
    local_response_norm,
    normalize,
    rms_norm,
)
from stage0_eager.functions.nn.padding import pad
from stage0_eager.functions.nn.pixel_shuffle import pixel_shuffle, pixel_unshuffle, upsample_nearest
from stage0_eager.functions.nn.pooling import (
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from stage0_eager.functions.nn.random_activations import gumbel_softmax
from stage0_eager.functions.nn.rectifiers import (
    glu,
    hardshrink,
    logsigmoid,
    prelu,
    softmin,
    softshrink,
    softsign,
    tanhshrink,
)
from stage0_eager.functions.nn.sparse import embedding, embedding_bag, one_hot
from stage0_eager.functions.reductions import log_softmax, softmax
from stage0_eager.functions.shape import flatten
from stage0_eager.nn.functional_composed import grouped_mm, linear_cross_entropy, multi_head_attention_forward
from stage0_eager.nn.functional_inplace import (
    alpha_dropout,
    celu,
    dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    elu,
    feature_alpha_dropout,
    hardsigmoid,
    hardswish,
    hardtanh,
    leaky_relu,
    mish,
    relu,
    relu6,
    rrelu,
    selu,
    silu,
    threshold,
)

hardtanh_: Any = inplace.hardtanh_
relu_, elu_, selu_, celu_, leaky_relu_, threshold_ = (
    getattr(inplace, f"{name}_") for name in ("relu", "elu", "selu", "celu", "leaky_relu", "threshold")
)
sigmoid: Any = pointwise.sigmoid
tanh: Any = pointwise.tanh

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "affine_grid", "alpha_dropout", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "batch_norm", "bilinear", "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu",
    "celu_", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "ctc_loss", "dropout", "dropout1d", "dropout2d",
    "dropout3d", "elu", "elu_", "embedding", "embedding_bag", "feature_alpha_dropout", "flatten", "fold",
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "gaussian_nll_loss", "gelu", "glu", "grid_sample", "group_norm",
    "grouped_mm", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "hardtanh_",
    "hinge_embedding_loss", "huber_loss", "instance_norm", "interpolate", "kl_div", "l1_loss", "layer_norm",
    "leaky_relu", "leaky_relu_", "linear", "linear_cross_entropy", "local_response_norm", "log_softmax",
    "logsigmoid", "lp_pool1d", "lp_pool2d", "lp_pool3d", "margin_ranking_loss", "max_pool1d", "max_pool2d",
    "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d", "mish", "mse_loss",
    "multi_head_attention_forward", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss",
    "nll_loss", "normalize", "one_hot", "pad", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle",
    "poisson_nll_loss", "prelu", "relu", "relu6", "relu_", "rms_norm", "rrelu", "scaled_dot_product_attention",
    "selu", "selu_", "sigmoid", "silu", "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin", "softplus",
    "softshrink", "softsign", "tanh", "tanhshrink", "threshold", "threshold_", "triplet_margin_loss",
    "triplet_margin_with_distance_loss", "unfold", "upsample", "upsample_nearest",
]  # fmt: skip
