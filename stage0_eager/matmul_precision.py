"""torch's switch for TF32: set_float32_matmul_precision, and its other name torch.backends.cuda.matmul.allow_tf32.

Input: what the program sets. Eager kernels read it at each call. Compiled code has it in its guards, among the words of
`modes`, and in the setting `runtime.matmul_allow_tf32` of its compile.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.state import STATE
from stage_contracts.matmul_precision import HIGHEST, PRECISIONS, tf32_allowed


def set_float32_matmul_precision(precision: str) -> None:
    """For the process. "highest": products of float32 are computed in float32. "high" and "medium": on a GPU, factors
    may be rounded to TF32, which has 10 bits behind the point instead of 23; sums are float32. On a CPU nothing
    changes: "medium" is not bfloat16 there, as it may be in torch."""
    if precision not in PRECISIONS:
        raise ValueError(
            f"set_float32_matmul_precision expects 'highest', 'high' or 'medium', but got {precision!r}"
        )
    STATE.matmul_precision = precision


def get_float32_matmul_precision() -> str:
    return STATE.matmul_precision


def is_tf32_allowed() -> bool:
    return STATE.matmul_precision != HIGHEST


def allow_tf32(allowed: bool) -> None:
    """The precision "high" or "highest". Raises RuntimeError for what is no bool, as torch does."""
    if type(allowed) is not bool:
        raise RuntimeError(
            f"torch.backends.cuda.matmul.allow_tf32 expects a bool, but got {type(allowed).__name__}"
        )
    STATE.matmul_precision = "high" if allowed else HIGHEST


def compile_settings() -> dict[str, Any]:
    """The fields of the configuration that the switch changes for what is compiled now."""
    return {"runtime.matmul_allow_tf32": True} if tf32_allowed() else {}
