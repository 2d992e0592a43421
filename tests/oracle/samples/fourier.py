"""Fourier transforms and general eigenvalues, whose results are complex.

Input: none. That the transforms take complex operands is in complex_cases.py, as for all rows.
"""

from collections.abc import Callable

import numpy as np

from tests.oracle.spec import WIDE, Invalid, Operand, S, T, declaring

declare = declaring(dtypes=WIDE, units=8, edges=False)


def C(*shape: int) -> Operand:
    """A complex tensor, whatever the dtype under test."""
    return T(*shape, dtype="complex128")


ONE = [
    S(T(3, 8)),
    S(T(3, 8), 5),
    S(T(3, 7), 9, 0),
    S(T(8), norm="ortho"),
    S(T(2, 5, 3), dim=1, norm="forward"),
]
HALF = [
    S(C(3, 5)),
    S(C(3, 5), 7),
    S(C(4, 3), 6, 0),
    S(C(5), norm="ortho"),
    S(C(2, 4, 3), dim=1, norm="forward"),
]
TWO = [S(T(4, 6)), S(T(2, 5, 4), (3, 6)), S(T(4, 3, 2), dim=(0, 1), norm="ortho")]
HALF_TWO = [S(C(4, 4)), S(C(2, 5, 4), (3, 5)), S(C(4, 3, 2), dim=(0, 1), norm="ortho")]
MANY = [S(T(2, 3, 4)), S(T(2, 5, 4), (3, 6)), S(T(2, 3, 4), dim=(0, 2), norm="forward"), S(T(5))]
HALF_MANY = [S(C(2, 3, 4)), S(C(2, 5, 4), (3, 5)), S(C(2, 3, 4), dim=(0, 2), norm="forward"), S(C(5))]
NO_POINTS = Invalid(S(T(3, 4), 0), RuntimeError, "Invalid number of data points")
NO_NORM = Invalid(S(T(3, 4), norm="half"), RuntimeError, "Invalid normalization mode")
TWICE = Invalid(S(T(3, 4), None, (0, 0)), RuntimeError, "FFT dims must be unique")


def _one(name: str) -> Callable:
    def numpys(x: np.ndarray, n: int | None = None, dim: int = -1, norm: str | None = None) -> np.ndarray:
        return getattr(np.fft, name)(x, n, dim, norm)

    return numpys


def _several(name: str, dims: tuple | None) -> Callable:
    def numpys(
        x: np.ndarray, s: tuple | None = None, dim: tuple | None = dims, norm: str | None = None
    ) -> np.ndarray:
        if s is not None and dim is None:
            dim = tuple(range(x.ndim - len(s), x.ndim))
        return getattr(np.fft, name)(x, s, dim, norm)

    return numpys


for _name in ("fft", "ifft", "rfft", "ihfft"):
    declare(f"fft_{_name}", _one(_name), *ONE, torch=f"fft.{_name}", invalid=(NO_POINTS, NO_NORM))
for _name in ("irfft", "hfft"):
    declare(f"fft_{_name}", _one(_name), *HALF, *ONE[:2], torch=f"fft.{_name}", invalid=(NO_POINTS, NO_NORM))
for _name in ("fft", "ifft", "rfft"):
    declare(f"fft_{_name}2", _several(f"{_name}2", (-2, -1)), *TWO, torch=f"fft.{_name}2", invalid=NO_NORM)
    declare(f"fft_{_name}n", _several(f"{_name}n", None), *MANY, torch=f"fft.{_name}n", invalid=TWICE)
declare("fft_irfft2", _several("irfft2", (-2, -1)), *HALF_TWO, torch="fft.irfft2", invalid=NO_NORM)
declare("fft_irfftn", _several("irfftn", None), *HALF_MANY, torch="fft.irfftn", invalid=TWICE)
for _name, _samples in {"hfft2": HALF_TWO, "hfftn": HALF_MANY, "ihfft2": TWO, "ihfftn": MANY}.items():
    declare(f"fft_{_name}", None, *_samples, torch=f"fft.{_name}", invalid=NO_NORM,
            exceptions={"NumPy": "NumPy has it along one dimension only"})  # fmt: skip
for _name, _shift in {"fftshift": np.fft.fftshift, "ifftshift": np.fft.ifftshift}.items():
    declare(f"fft_{_name}", lambda x, dim=None, shift=_shift: shift(x, dim),
            S(T(4, 5)), S(T(3, 4, 2), 1), S(T(5, 3), (0, 1)), torch=f"fft.{_name}",
            invalid=Invalid(S(T(3), 2), IndexError))  # fmt: skip

PARTS = {"NumPy": "torch alone has it, with SciPy's under other names"}
declare("stft", None, S(T(20), 8, return_complex=True), S(T(2, 24), 8, 3, 6, T(6), False, return_complex=True),
        S(T(2, 24), 6, onesided=False, normalized=True, return_complex=False), exceptions=PARTS, torch=lambda x, *a, **k: x.stft(*a, **k),
        invalid=Invalid(S(T(8), 4), RuntimeError, "return_complex parameter be given"))  # fmt: skip
declare("istft", None, S(C(5, 6), 8), S(C(2, 5, 6), 8, 3, 6, T(6, low=0.5), length=16), S(C(6, 7), 6, return_complex=True),
        exceptions=PARTS, torch=lambda x, *a, **k: x.istft(*a, **k),
        invalid=Invalid(S(T(5, 6), 8), RuntimeError, "requires a complex-valued input tensor"))  # fmt: skip

UNORDERED = {
    "NumPy": "no order, and free phases: test_stage0_complex.py puts the parts together again",
    "torch": "as with NumPy",
    **dict.fromkeys(("derivative", "second derivative", "torch's derivative"), "as with NumPy"),
    "vmap": "one by one, as eager",
}
for _name in ("linalg_eig", "linalg_eigvals"):
    declare(_name, None, S(T(3, 3)), S(T(2, 4, 4)), torch=_name.replace("_", "."), exceptions=UNORDERED,
            invalid=Invalid(S(T(2, 3)), RuntimeError, "square matrices"))  # fmt: skip
