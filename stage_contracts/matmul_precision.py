"""How matrices of float32 are multiplied on a GPU: exactly, or with the first 10 bits of each factor (TF32).

Input: stage0_eager/matmul_precision.py writes the word, one of torch's three. It belongs to the process, as in torch.
"""

from __future__ import annotations

HIGHEST = "highest"
PRECISIONS = (HIGHEST, "high", "medium")


class _Precision:
    word: str = HIGHEST


MATMUL = _Precision()


def tf32_allowed() -> bool:
    return MATMUL.word != HIGHEST
