"""Programs on arrays: those that write, that mix arrays with tensors, and those that NumPy runs in part.

Input: registry.py enters them; test_numpy_programs.py runs each.
"""

from dataclasses import dataclass, field

import numpy as np

import cutaway
from tests.numpy_programs.registry import floats, ints, program

# ---- writing ----------------------------------------------------------------------------------------------------


@program((3, 4))
def write_a_row(a):
    a[0] = 7
    return a


@program((3, 4))
def add_in_place(a):
    b = a
    b += 1
    return a


@program((3, 4))
def add_to_a_view(a):
    a[1:, ::2] *= 3
    return a.sum()


@program((3, 4))
def write_through_a_chain_of_views(a):
    a.T[1:].reshape(3, 3)[0, 1] = 5
    a.T[2][...] = -1
    return None


@program((3, 4))
def write_where(a):
    a[a < 0] = 0
    return a * 2


@program((6,))
def write_at_places(a):
    a[[0, 2]] = [10, 20]
    a[np.array([1, -1])] += 5
    return a


@program((3, 4), (3, 4))
def write_into_out(a, b):
    np.add(a, 1, out=b)
    result = np.multiply(a, 2, out=b)
    return result is b, b


@program((6,))
def overlapping_write(a):
    a[1:] = a[:-1]
    return a


@program((6,))
def overlapping_out(a):
    np.add(a[1:], a[:-1], out=a[1:])
    return a


@program((4,))
def views_see_writes(a):
    first, rest = a[:1], a[1:]
    a *= 2
    return first + rest, first


@program((4,))
def a_scalar_is_no_view(a):
    before = a[0]
    total = np.sum(a)
    kept = total
    total += 1
    a[0] = 100
    return before, total, kept, a


@program((4,))
def row_views_in_a_loop(a):
    m = np.zeros((3, 4))
    for i, row in enumerate(m):
        row += a * i
    return m


@program((3, 3))
def fill_and_sort(a):
    b = a.copy()
    b.sort(axis=0)
    c = np.empty((2, 2))
    c.fill(3)
    np.copyto(a[0], b[1])
    return b, c, a


@program((3, 4))
def result_is_a_view(a):
    return a.T, a[1:], a.reshape(-1), a[0], a


@program((4,))
def same_object(a):
    return a is np.asarray(a), np.array(a) is a, a


@program(ints(5))
def integers_in_place(a):
    a //= 2
    a <<= 1
    a %= 3
    return a


@program((6,))
def reversed_views_returned(a):
    b = a[::-1]
    return b, np.flip(a), b[1:3], a


@program((6,))
def reversed_views_see_writes(a):
    b = a[::-1]
    total = b[0] + 0
    a[5] = 100
    return b * 1, b[0], total


@program((2, 3), graphs=1, breaks=1)
def a_write_through_a_reversed_view(a):
    b = a + 1
    c = b[:, ::-1]
    c[0, 0] = 50
    return b, c


@program((2, 3), graphs=2, breaks=2)
def a_reversed_view_across_a_break(a):
    b = a * 2
    c = b[::-1]
    print("now")
    c[0] = 7
    return b + 1


@program((3, 3))
def a_turned_array(a):
    b = a + 1
    return np.rot90(b), np.rot90(a, -1), b


@program((3, 3), graphs=0, breaks=1)
def a_reversed_view_in_another_shape(a):
    b = a + 1
    return b[::-1].T, b


# ---- tensors and arrays -----------------------------------------------------------------------------------------


@program(floats(4))
def to_a_tensor_and_back(a):
    t = cutaway.from_numpy(a) * 2
    return t.numpy() + 1, t


@program(lambda: cutaway.arange(6.0))
def from_a_tensor(t):
    a = t.numpy()
    return np.sin(a), cutaway.as_tensor(np.cos(a)), t + a


@program(floats(3))
def write_through_a_tensor(a):
    t = cutaway.from_numpy(a)
    t += 1
    a *= 2
    return t.sum(), a


@program(floats(3), lambda: cutaway.ones(3))
def mixed_operators(a, t):
    return a + t, t * a, t - a, a / t


@program(floats(3))
def tensor_of_an_array(a):
    t = cutaway.tensor(a)
    t += 1
    return t, a, cutaway.tensor(a, dtype=cutaway.float64)


# ---- what NumPy does itself -------------------------------------------------------------------------------------


@program((3, 4), graphs=2, breaks=1)
def a_function_without_a_row(a):
    return np.unwrap(a * 2) + 1


@program((3, 4), graphs=2, breaks=1)
def a_method_of_a_ufunc(a):
    b = a + 1
    return np.add.reduce(b) * 2


@program((8,), graphs=2, breaks=1)
def a_size_from_data(a):
    b = a * 2
    return b[b > 0] + 1


@program((4,), graphs=2, breaks=1)
def a_branch_on_data(a):
    if a.sum() > 0:
        return a + 1
    return a - 1


@program((4,), graphs=2, breaks=1)
def a_number_out_of_an_array(a):
    n = float((a * 2).sum())
    return a + n, n


@program((3,), graphs=2, breaks=1)
def random_numbers(a):
    b = a + 1
    return b * np.random.rand(3)


@program((3,), graphs=1, breaks=2)
def printed(a):
    b = a.sum() + 1
    print("total", b, f"{b:.3f}")
    return None


@program(lambda: np.array(["bc", "a"]), (2,), graphs=1, breaks=1)
def strings(s, a):
    return np.sort(s), a + 1


@program(lambda: np.array([1, 2j]), graphs=1, breaks=1)
def complex_numbers(z):
    return np.abs(z) + 1


@dataclass
class Box:
    array: np.ndarray
    more: list = field(default_factory=list)


@program((3,))
def made_inside(a):
    box = Box(a * 2)
    box.more.append(box.array + 1)
    return box.array, box.more
