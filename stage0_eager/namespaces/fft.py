"""torch.fft's names: the public functions of Fourier transforms, gathered.

Input: functions/fft.py, where `fft_rfft` is what this module calls `rfft`.
"""

from __future__ import annotations

from stage0_eager.functions import fft as functions

_PREFIX = "fft_"
_NAMES = {
    name.removeprefix(_PREFIX): made for name, made in vars(functions).items() if name.startswith(_PREFIX)
}
globals().update(_NAMES)

__all__ = list(_NAMES)
