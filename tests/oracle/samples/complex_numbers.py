"""Functions of complex numbers: their parts, and making them from real ones.

Input: none. That all other rows take complex operands is in complex_cases.py.
"""

import numpy as np

from tests.oracle.spec import WIDE, Invalid, Operand, S, T, declaring

declare = declaring(dtypes=WIDE)


def C(*shape: int, **options: object) -> Operand:
    """A complex tensor, whatever the dtype under test."""
    return T(*shape, dtype="complex128", **options)


def P(*shape: int) -> Operand:
    """A length: of a negative one torch's gradient has the other sign."""
    return T(*shape, low=0.2)


def _sgn(x: np.ndarray) -> np.ndarray:
    return np.sign(x) if x.dtype.kind == "c" else np.where(np.isnan(x), 0, np.sign(x))


REAL = Invalid(S(T(2, 3)), RuntimeError)
declare("imag", lambda x: x.imag, S(C(3, 4)), S(C()), S(C(0, 2)), invalid=REAL)
declare("view_as_real", lambda x: np.stack([x.real, x.imag], -1), S(C(3, 4)), S(C()), invalid=REAL)
declare("view_as_complex", lambda x: np.ascontiguousarray(x).view(complex)[..., 0], S(T(3, 4, 2)), S(T(2)), layouts=("contiguous",),
        invalid=Invalid(S(T(2, 3)), RuntimeError, "last dimension of size 2"))  # fmt: skip
declare("complex", lambda x, y: x + 1j * y, S(T(3, 4), T(3, 4)), S(T(2, 1), T(3)), elementwise=True, edges=False,
        invalid=Invalid(S(T(2), T(3)), RuntimeError, "must match"))  # fmt: skip
declare("polar", lambda x, y: x * np.exp(1j * y), S(P(3, 4), T(3, 4)), S(P(2, 1), T(3)), elementwise=True, edges=False,
        invalid=Invalid(S(T(2), T(3)), RuntimeError, "must match"))  # fmt: skip
declare("sgn", _sgn, S(T(3, 4)), S(C(3, 4)), S(C()), elementwise=True)
declare("vdot", np.vdot, S(T(5), T(5)), S(C(5), C(5)), S(C(0), C(0)),
        invalid=Invalid(S(T(2, 2), T(2)), RuntimeError))  # fmt: skip
