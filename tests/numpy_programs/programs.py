"""Programs on arrays: whole computations, dtypes, and the Python around them.

Input: registry.py enters them; test_numpy_programs.py runs each.
"""

import math
from functools import reduce

import numpy as np

from tests.numpy_programs.registry import floats, ints, program, random

WEIGHTS = random(3, 4, seed=9)
TABLE = {"scale": np.array([1.0, 2.0, 3.0]), "names": ["a", "b"]}


# ---- whole programs ---------------------------------------------------------------------------------------------


@program((50, 2), (3, 2))
def kmeans_labels(x, means):
    return np.argmin(np.linalg.norm(x - means[:, None], axis=2), axis=0)


@program((50, 2), (3, 2))
def kmeans_step(x, means):
    labels = np.argmin(np.linalg.norm(x - means[:, None], axis=2), axis=0)
    new = []
    for k in range(3):
        inside = labels == k
        new.append(np.where(inside[:, None], x, 0.0).sum(axis=0) / np.maximum(inside.sum(), 1))
    return np.stack(new), labels


@program((8, 5))
def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@program((8, 5))
def standardised(x):
    return (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-8)


@program(floats(4, 3), floats(3, 6), floats(6), floats(6, 2))
def two_layers(x, w1, b1, w2):
    hidden = np.maximum(x @ w1 + b1, 0)
    return hidden @ w2


@program((6, 3), (6,), (3,))
def gradient_descent(x, y, w):
    for _ in range(5):
        w = w - 0.1 * x.T @ (x @ w - y) / len(y)
    return w


@program((16, 16))
def heat(u):
    u = u.copy()
    for _ in range(3):
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return u


@program(12, 12)
def mandelbrot(rows, columns):
    y, x = np.linspace(-1.5, 1.5, rows)[:, None], np.linspace(-2, 1, columns)[None, :]
    re, im, count = (
        np.zeros((rows, columns)),
        np.zeros((rows, columns)),
        np.zeros((rows, columns), dtype=np.int64),
    )
    for _ in range(5):
        re, im = re * re - im * im + x, 2 * re * im + y
        count += re * re + im * im < 4
        re, im = np.clip(re, -10, 10), np.clip(im, -10, 10)
    return count


@program((9, 9))
def game_of_life(x):
    alive = x > 0
    around = sum(np.roll(np.roll(alive.astype(np.int64), i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1))
    around = around - alive
    return (around == 3) | (alive & (around == 2))


@program((5, 3), (4, 3))
def distances(x, y):
    return np.sqrt(((x[:, np.newaxis, :] - y[np.newaxis]) ** 2).sum(-1))


@program((20,))
def moving_average(x):
    total = np.cumsum(np.concatenate([np.zeros(1), x]))
    return (total[4:] - total[:-4]) / 4


@program((7, 3))
def principal_covariance(x):
    centred = x - x.mean(0)
    return centred.T @ centred / (x.shape[0] - 1), np.cov(x, rowvar=False)


@program((6,), 3)
def polynomial(x, degree):
    return sum((x**i / math.factorial(i) for i in range(degree)), np.zeros_like(x))


@program((30,))
def trapezoid(y):
    x = np.linspace(0, 1, 30)
    return np.trapezoid(y, x), ((y[1:] + y[:-1]) / 2 * np.diff(x)).sum()


@program((10,), (10,))
def correlation(x, y):
    x, y = x - x.mean(), y - y.mean()
    return (x * y).sum() / (np.linalg.norm(x) * np.linalg.norm(y))


# ---- dtypes -----------------------------------------------------------------------------------------------------


@program(floats(4), (4,), ints(4))
def promotion(f, d, i):
    return f + d, f + 1.5, i / 2, i + 0.5, f * i, (f > 0) + i, i.astype(np.int8) + 1, np.float32(2) * d


@program(lambda: np.array([250, 3], np.uint8))
def small_integers_wrap(a):
    return a + 10, -a, a * a, a // 7, np.mean(a)


@program(lambda: np.array([100, -128], np.int8))
def int8_arithmetic(a):
    return np.abs(a), a - 50, a.sum(), a / 3, np.sqrt(np.abs(a.astype(np.int32)))


@program(lambda: np.array([True, False, True]))
def bools(a):
    return a + a, a * 3, a.sum(), a.mean(), ~a, a & True, a / 2, np.logical_not(a)


@program(ints(3))
def division_by_zero(a):
    return a // 0, a % 0, a / 0.0


@program(floats(3))
def asks_about_dtypes(a):
    if a.dtype == np.float32 and a.dtype != np.float64 and a.dtype.kind == "f":
        return a.astype(np.float64), a.itemsize
    return a


# ---- Python around it -------------------------------------------------------------------------------------------


@program((3, 4), 0.5, 3)
def python_numbers(a, scale, times):
    return a * scale + times, times * 2, scale / 2, a.shape[0] / 2, len(a)


@program((3, 4))
def globals_and_dicts(a):
    return a * WEIGHTS + TABLE["scale"][:, None]


def closing(weights):
    def inner(a):
        return a @ weights.T

    return inner


closed_over = program((3, 4))(closing(random(2, 4, seed=4)))


class Model:
    def __init__(self):
        self.w, self.calls = random(4, 2, seed=3), 0

    def __call__(self, x):
        self.calls += 1
        return np.tanh(x @ self.w)


@program((3, 4), Model)
def an_object_with_arrays(a, model):
    return model(a), model.calls


@program((3, 4), Model)
def stores_an_array(a, model):
    model.w = model.w + 1
    model.last = a.sum(axis=0)
    return model.w


@program((12,))
def long_lists(a):
    table = np.array([[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]])
    table += 1
    picked = a[[11, 0, 3, 3, 2, 1, 9, 8, 7, 6]]
    steps = np.asarray([0.5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
    steps[0] = 0
    return table, picked, a * steps, steps


@program((5,))
def containers(a):
    parts = {"sum": a.sum(), "rows": [a[:2], a[2:]]}
    return parts, tuple(x * 2 for x in parts["rows"])


@program((4, 3))
def iteration(a):
    total = np.zeros(3)
    for i, row in enumerate(a):
        total = total + row * i
    first, *rest = a
    return total, first, len(rest), max(a.shape)


@program((3, 4))
def functions_as_values(a):
    return [f(a, axis=0) for f in (np.sum, np.max, np.mean)], reduce(np.add, [a, a, a])


@program((3, 4))
def keyword_arguments(a):
    options = {"axis": 1, "keepdims": True}
    return np.sum(a, **options), a.max(**options)


@program((4, 4))
def isinstance_and_attributes(a):
    if (
        isinstance(a, np.ndarray)
        and not isinstance(a, float)
        and hasattr(a, "shape")
        and type(a) is np.ndarray
    ):
        return a.T.shape, a.ndim, a.size, a.T
    return None


@program((3,))
def caught_exception(a):
    try:
        raise ValueError("no")
    except ValueError:
        a = a + 1
    return a


@program(lambda: np.float32(1.5), floats(3))
def a_scalar_argument(s, a):
    return s * a, s + 1, np.sin(s)


@program(lambda: np.int64(3), (6,))
def a_scalar_as_a_size(n, a):
    return a[:n], np.zeros(n), a.reshape(n, -1)


@program(lambda: np.zeros((0, 3)))
def no_elements(a):
    return a + 1, a.sum(axis=0), np.concatenate([a, a]), a.shape


@program(lambda: np.array(2.5))
def no_dimensions(a):
    return a + 1, np.exp(a), a.reshape(1, 1), a[()], a[...]


@program(lambda: np.asfortranarray(random(3, 4)), lambda: random(6, 8)[::2, 1::2])
def other_layouts(a, b):
    return a + b, a.T @ b, a.ravel(), b.sum(0)


@program(lambda: np.broadcast_to(np.arange(4.0), (3, 4)))
def read_only(a):
    return a * 2


@program((4,))
def reversed_slices(a):
    return a[::-1] * np.arange(4), np.cumsum(a[::-1])[::-1] + 0
