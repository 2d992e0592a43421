"""The composites that may return a view of memory that they made themselves: `x[[0, 0]]` gathers, then reshapes.

Input: names of rows. For the user their result is not a view, so under no_grad it is not marked as one (evaluation.py).
That costs a call in Python, for these only. tests/autograd/test_silent_views.py checks every row of tests/oracle.
"""

OWN_MEMORY = frozenset(
    """
    adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d affine_grid bilinear complex conv1d conv2d
    conv_transpose1d conv_transpose2d cov ctc_of_rows diag_embed diagonal_scatter einsum_of embedding getitem
    grid_sample group_norm index_add index_copy index_fill index_put index_select istft kron kthvalue
    linalg_householder_product linalg_lstsq linalg_matrix_norm linalg_multi_dot linalg_solve linalg_solve_triangular
    linalg_tensorinv linalg_tensorsolve linear logsumexp masked_scatter matmul matrix_power max max_unpool1d
    max_unpool2d max_unpool3d median min mode nanmedian nanquantile nonzero polar quantile repeat repeat_interleave
    roll rot90 searchsorted sliding_blocks stft svd take tensordot topk triangular_solve unique unique_consecutive
    """.split()
)
