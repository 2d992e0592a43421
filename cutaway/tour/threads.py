"""One thread for the tour: a batch of 64 digits is too little work to share between several.

Input: the environment; a user who set a number of threads keeps it. On a busy machine, waiting until another
thread gets its turn costs a hundred times what that thread would save, and eager suffers as compiled does.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np

_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)


def use_one_thread() -> None:
    """For kernels built from now on, and for NumPy's BLAS where it is the OpenBLAS of NumPy's own wheels."""
    if any(name in os.environ for name in _VARIABLES):
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # OpenMP reads it when the first kernel is loaded
    # OpenBLAS read it when NumPy was imported, which was before this, so it is told.
    package = Path(np.__file__).parent
    for library in [*package.parent.glob("numpy.libs/*openblas*"), *package.glob(".dylibs/*openblas*")]:
        loaded = ctypes.CDLL(str(library))
        setter = next((getattr(loaded, name) for name in _SETTERS if hasattr(loaded, name)), None)
        if setter is not None:
            setter(1)
