"""The Python versions that capture supports. On any other, compile() warns once, and your functions run eagerly.

Input: the running interpreter. The import never fails because of the version.
"""

from __future__ import annotations

import functools
import sys
import warnings

SUPPORTED = ((3, 11), (3, 12), (3, 13))
VERSION = sys.version_info[:2]
NAME = f"{sys.implementation.name} {'.'.join(map(str, VERSION))}"


def known() -> bool:
    """Whether this is CPython of a supported version."""
    return VERSION in SUPPORTED and sys.implementation.name == "cpython"


@functools.cache
def say_so() -> None:
    """The warning that nothing is compiled; only once."""
    wanted = ", ".join(".".join(map(str, version)) for version in SUPPORTED)
    warnings.warn(
        f"cutaway: compile() supports CPython {wanted}; this is {NAME}, so your functions run eagerly, not compiled",
        stacklevel=3,
    )
