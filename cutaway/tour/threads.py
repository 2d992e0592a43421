"""One thread for the tour: a batch of 64 digits is too little work for several threads.

Input: the environment; a number of threads that you set there is kept. On a busy machine, waiting for another thread
costs a hundred times what that thread saves, for eager and compiled code alike.
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
    """Use one thread in kernels built from now on, and in NumPy's BLAS if it is the OpenBLAS of NumPy's own wheels."""
    if any(name in os.environ for name in _VARIABLES):
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # OpenMP reads it when the first kernel is loaded
    # OpenBLAS read the variable when NumPy was imported, so it needs a call.
    package = Path(np.__file__).parent
    for library in [*package.parent.glob("numpy.libs/*openblas*"), *package.glob(".dylibs/*openblas*")]:
        loaded = ctypes.CDLL(str(library))
        setter = next((getattr(loaded, name) for name in _SETTERS if hasattr(loaded, name)), None)
        if setter is not None:
            setter(1)
