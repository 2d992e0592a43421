"""A number of threads for the kernels that this thread of Python calls.

Input: the number, and OpenMP's library, which the first compiled kernel has loaded.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def team(count: int) -> Iterator[None]:
    """Inside it a kernel's team has so many threads."""
    try:
        library = ctypes.CDLL("libgomp.so.1")
    except OSError:
        pytest.skip("another OpenMP than gcc's")
    before = library.omp_get_max_threads()
    library.omp_set_num_threads(count)
    try:
        yield
    finally:
        library.omp_set_num_threads(before)
