"""The table of small programs on arrays, each with its arguments and the graphs and breaks that capture makes of it.

Input: programs.py and writing.py enter their functions here.
"""

from functools import partial

import numpy as np

PROGRAMS = {}


def program(*make, graphs=1, breaks=0):
    """Enter a function: a tuple makes an array of that shape, a callable makes the value, anything else is it."""

    def enter(function):
        PROGRAMS[function.__name__] = (function, make, graphs, breaks)
        return function

    return enter


def arguments(name):
    return tuple(
        random(*m, seed=i) if isinstance(m, tuple) else m() if callable(m) else m
        for i, m in enumerate(PROGRAMS[name][1])
    )


def random(*shape, dtype="float64", seed=0):
    values = np.random.default_rng(seed).standard_normal(shape) * 2
    return np.asarray(values).astype(dtype)


floats = partial(partial, random, dtype="float32")
ints = partial(partial, random, dtype="int64")
