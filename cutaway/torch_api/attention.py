"""torch.nn.attention: flex_attention and its masks, and the choice among torch's kernels, which are one here.

Input: the names of stage0_eager.nn.flex_attention.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from cutaway.torch_api.absent import absent
from stage0_eager.nn import flex_attention as flex


class SDPBackend(enum.IntEnum):
    """torch's kernels for scaled_dot_product_attention, by its numbers."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Has no effect: there is one kernel, which computes what each of torch's does. Raises AssertionError for what is
    no SDPBackend."""
    chosen = backends if isinstance(backends, Iterable) else [backends]
    for backend in chosen:
        if not isinstance(backend, SDPBackend):
            raise AssertionError(
                f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got {backend!r}"
            )
    yield


_NAMES = (
    "AuxOutput AuxRequest BlockMask _DEFAULT_SPARSE_BLOCK_SIZE and_masks create_block_mask create_mask flex_attention "
    "noop_mask or_masks"
)
PATHS: dict[str, dict[str, Any]] = {
    "torch.nn.attention": {"SDPBackend": SDPBackend, "sdpa_kernel": sdpa_kernel},
    "torch.nn.attention.bias": {
        name: absent(f"torch.nn.attention.bias.{name}")
        for name in ("CausalBias", "CausalVariant", "causal_lower_right")
    },
    "torch.nn.attention.flex_attention": {
        **{name: getattr(flex, name) for name in _NAMES.split()},
        **dict.fromkeys(("_mask_mod_signature", "_score_mod_signature"), Callable),
        "create_nested_block_mask": absent("torch.nn.attention.flex_attention.create_nested_block_mask"),
    },
}
