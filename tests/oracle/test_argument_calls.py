"""A slice of the random calls with rare arguments, and the calls that were found to differ from torch or from eager.

Input: argument_calls.py's templates. FOUND and OPEN are templates too: each differed on the tree before.
"""

import pytest

from tests.oracle.argument_calls import CALLS, OPEN_EVERY, check, written

pytest.importorskip("torch")

FOUND = (
    "torch.add(T(3, 4), 1, alpha=3)",
    "torch.add(I(3, 4; 5), B(4), alpha=2)",
    "torch.median(W(3, 4))",
    "torch.nanmedian(W(3, 4))",
    "torch.amin(E(3, 4), 0)",
    "torch.linalg.vector_norm(W(3, 4), -1, dim=0)",
    "F.normalize(W(3, 4), p=0.5)",
    "F.smooth_l1_loss(E(3, 4), T(3, 4), reduction='none')",
    "F.huber_loss(E(3, 4), T(3, 4), reduction='none')",
    "F.pairwise_distance(T(3, 4), T(4), p=-inf)",
    "torch.index_reduce(W(4, 3), 0, I(5; 4), T(5, 3), 'prod')",
    "F.multi_head_attention_forward(T(3, 2, 4), T(5, 2, 4), T(5, 2, 4), 4, 2, T(12, 4), T(12), None, None, False, 0.0, "
    "T(4, 4), T(4), key_padding_mask=torch.ones(2, 5, dtype=torch.bool), need_weights=False)",
    "into(T(3, 4).T.contiguous().T, lambda y: y.expand(2, 3, 4)[1].unsqueeze(0).mul_(2))",
)
OPEN = (
    "F.interpolate(T(1, 1, 6), scale_factor=0.6, mode='nearest')",
    "F.adaptive_max_pool2d(T(2, 3, 7, 5), (1, 3))",
)


@pytest.mark.parametrize("template", FOUND)
def test_what_was_found_once(template):
    assert check(*written(3, template)) != "torch refuses"


@pytest.mark.parametrize("template", OPEN)
def test_what_was_found_with_open_sizes(template):
    assert check(*written(3, template), open_sizes=True) == "agree"


def test_calls_agree():
    for seed in range(len(CALLS)):
        check(*written(seed), open_sizes=seed % OPEN_EVERY == 0)
