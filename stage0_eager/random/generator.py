"""Random numbers: a generator is a seed and a call counter; every draw is a function of both and the flat index.

Input: `manual_seed`, shapes. Because bits depend on nothing else, eager, C++ and Triton give the same ones, and no
fusion, reordering or recomputation changes them. What is not uniform is made in float64 by exact_math.py and rounded
once to the result's dtype. While a tracer is in force the state is an input of its graph.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from stage0_eager import arrays
from stage0_eager.defaults import device_or_default
from stage0_eager.functions.index_checks import check_probabilities
from stage0_eager.random import exact_math
from stage0_eager.state import STATE
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt
from stage_contracts.core_metas import no_negative_sizes
from stage_contracts.device import CPU


class Generator:
    """A stream of draws. `seed` is fixed; `counter` counts the calls so far. Thread-safe."""

    def __init__(self, seed: int | None = None) -> None:
        self._lock = threading.Lock()
        self.manual_seed(time.time_ns() & 0x7FFFFFFF if seed is None else seed)

    def manual_seed(self, seed: int) -> Generator:
        self.seed, self.counter = int(seed) & 0x7FFFFFFFFFFFFFFF, 0
        return self

    def initial_seed(self) -> int:
        return self.seed

    def advance(self, calls: int) -> tuple[int, int]:
        """Take `calls` counters: returns (seed, first counter)."""
        with self._lock:
            first = self.counter
            self.counter += calls
        return self.seed, first

    def get_state(self) -> Tensor:
        """int64[2]: (seed, counter)."""
        return Tensor(np.array([self.seed, self.counter], np.int64))

    def set_state(self, state: Tensor) -> None:
        self.seed, self.counter = state.tolist()


_DEFAULT = Generator(0)


def default_generator() -> Generator:
    return _DEFAULT


def manual_seed(seed: int) -> Generator:
    """Start the default generator again at `seed`; the same seed gives the same draws."""
    return _DEFAULT.manual_seed(seed)


def initial_seed() -> int:
    """The seed the default generator was started at."""
    return _DEFAULT.seed


def get_rng_state() -> Tensor:
    """The default generator's state, to be given back to set_rng_state."""
    return _DEFAULT.get_state()


def set_rng_state(new_state: Tensor) -> None:
    _DEFAULT.set_state(new_state)


def next_random(generator: Generator | None, device: Any) -> tuple[Tensor, int]:
    """The random state and offset of one call, as core.random_bits wants them."""
    interpreter = STATE.interpreter
    while hasattr(interpreter, "outer"):  # vmap: the draw itself is for whoever is around it
        interpreter = interpreter.outer
    if interpreter is not None:
        return interpreter.next_random(device)
    state = np.array((generator or _DEFAULT).advance(1), np.int64)
    return Tensor(arrays.move(state, device)), 0


def uniform(
    shape: tuple, dtype: Any = dt.float32, device: Any = CPU, generator: Generator | None = None
) -> Tensor:
    """Uniform on [0, 1): as many of the top bits of a word as the dtype holds, so that nothing rounds up to 1."""
    bits = _words(shape, device, generator)
    if dtype.name not in _DIGITS:
        raise RuntimeError(
            f"random numbers between 0 and 1 need a floating point dtype, but got {dtype.name}; draw integers with "
            "randint"
        )
    digits = _DIGITS[dtype.name]
    kept = c.bitwise_right_shift(bits, 32 - digits) if digits < 32 else bits
    wide = dt.float64 if dtype is dt.float64 else dt.float32
    unit = c.mul(c.cast(kept, wide), 2.0**-digits)
    return unit if dtype is wide else c.cast(unit, dtype)


_DIGITS = {"float64": 32, "float32": 24, "float16": 11, "bfloat16": 8}


def _words(shape: tuple, device: Any, generator: Generator | None) -> Tensor:
    """32 random bits for each element, as int64."""
    no_negative_sizes(tuple(shape))
    rng, offset = next_random(generator, device)
    return c.random_bits(rng, offset, tuple(shape))


def in_parts(function: Callable[[Tensor], Tensor], words: Tensor) -> Tensor:
    """`function(words)`, elementwise; eager runs it on parts that stay in the cache, which takes half the time."""
    array = words._data
    if STATE.interpreter is not None or type(array) is not np.ndarray or array.size <= PART:
        return function(words)
    flat, out = array.reshape(-1), np.empty(array.size, np.float64)
    for start in range(0, array.size, PART):
        out[start : start + PART] = function(Tensor(flat[start : start + PART]))._data
    return Tensor(out.reshape(array.shape))


PART = 1 << 14  # elements


def open_unit(shape: tuple, device: Any, generator: Generator | None = None) -> Tensor:
    """Uniform on (0, 1) without its ends, in float64: odd multiples of 2**-33, which have a finite logarithm."""
    return in_parts(_open_unit, _words(shape, device, generator))


def _open_unit(words: Tensor) -> Tensor:
    return c.mul(c.add(c.cast(words, dt.float64), 0.5), 2.0**-32)


def exponential(shape: tuple, device: Any, generator: Generator | None = None) -> Tensor:
    """Exponential draws of rate 1 in float64: from 2**-33 to 22.9."""
    return in_parts(_exponential, _words(shape, device, generator))


def _exponential(words: Tensor) -> Tensor:
    return c.neg(exact_math.log(_open_unit(words)))


def normal(shape: tuple, device: Any, generator: Generator | None = None) -> Tensor:
    """Standard normal draws in float64, by Box and Muller's transform of two uniform ones."""
    radius = in_parts(_radius, _words(shape, device, generator))
    return c.mul(radius, in_parts(_cosine, _words(shape, device, generator)))


def _radius(words: Tensor) -> Tensor:
    return c.sqrt(c.mul(_exponential(words), 2.0))


def _cosine(words: Tensor) -> Tensor:
    return exact_math.cosine_of_turns(c.mul(c.cast(words, dt.float64), 2.0**-32))


def rounded(draw: Tensor, dtype: Any) -> Tensor:
    """A float64 draw in the dtype wanted."""
    return draw if draw.dtype is dtype else c.cast(draw, dtype)


@operator
def rand_of_shape(size, *, dtype=dt.float32, device=CPU, generator=None):
    """Uniform on [0, 1) in the given shape; both parts of a complex number."""
    if dtype.is_complex:
        return c.view_as_complex(uniform((*size, 2), dt.real_of(dtype), device, generator))
    return uniform(size, dtype, device, generator)


@operator
def randn_of_shape(size, *, dtype=dt.float32, device=CPU, generator=None):
    """Standard normal. The parts of a complex number have variance 1/2, so that its size has 1."""
    if dtype.is_complex:
        parts = c.mul(normal((*size, 2), device, generator), 0.5**0.5)
        return c.view_as_complex(rounded(parts, dt.real_of(dtype)))
    return rounded(normal(size, device, generator), dtype)


@operator
def randint_of_shape(low, high, size, *, dtype=dt.int64, device=CPU, generator=None):
    """Integers in [low, high), by the remainder of a 32-bit word."""
    if high <= low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    rng, offset = next_random(generator, device)
    draw = c.add(c.remainder(c.random_bits(rng, offset, tuple(size)), high - low), low)
    return draw if dtype is dt.int64 else c.cast(draw, dtype)


@operator
def bernoulli(input, p=None, *, generator=None):
    """1 with probability input (or p, when given), else 0, in input's dtype."""
    if isinstance(p, (int, float)) and not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    if p is None:
        check_probabilities("bernoulli", input)
    draw = uniform(input.shape, device=input.device, generator=generator)
    return c.cast(c.lt(draw, input if p is None else p), input.dtype)


def randperm(
    n: int, *, generator: Generator | None = None, dtype: Any = dt.int64, device: Any = None
) -> Tensor:
    """A random permutation of 0..n-1: the order that sorts n draws. Runs eagerly."""
    order = np.argsort(uniform((n,), dt.float64, generator=generator)._data, kind="stable")
    return Tensor(arrays.move(order.astype(dt.dtype_of(dtype).numpy), device_or_default(device)))
