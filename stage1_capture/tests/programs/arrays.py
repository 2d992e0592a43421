"""Programs on NumPy arrays with breaks in awkward places: views, writes, scalars and iterators that live across one."""

import numpy as np

from stage1_capture.tests.programs.registry import LOG, mark, program


def matrix():
    return np.arange(12.0).reshape(3, 4) - 5


def line():
    return np.array([3.0, -1.0, 2.0])


@program(matrix)
def array_across_a_break(a):
    b = np.sin(a) * 2
    mark()
    return b + a.sum(axis=1, keepdims=True)


@program(matrix)
def view_across_a_break(a):
    b = a * 2
    row = b[1]
    mark()
    row += 10
    return b, row


@program(matrix)
def reversed_view_across_a_break(a):
    b = a * 2
    back = b[::-1, 1]
    mark()
    back[0] = 7
    return b, back * 1


@program(matrix)
def argument_written_around_a_break(a):
    a[0] = 1
    mark()
    a[1:] *= 2
    mark()
    a.T[2] = 0
    return a.sum()


@program(line)
def scalar_across_a_break(a):
    total = a.sum()
    kept = total
    mark()
    total += 1
    return total, kept, isinstance(kept, np.floating), isinstance(kept, float)


@program(line)
def scalar_as_a_key_after_a_break(a):
    names = {1.0: "one", 3.0: "three"}
    first = a[0] + 0
    mark()
    return names[float(first)], f"{first:.2f}"


@program(matrix)
def loop_over_rows_with_a_break(a):
    total = np.zeros(4)
    for row in a:
        total = total + row
        mark()
    return total


@program(line)
def list_of_arrays(a):
    parts = [a, a + 1]
    mark()
    parts.append(parts[0] * parts[1])
    mark()
    return np.stack(parts), parts[0] is a


@program(matrix)
def break_inside_try(a):
    try:
        b = a @ a.T
        mark()
        return b[5]
    except IndexError as error:
        mark()
        return type(error).__name__, a.shape


@program(matrix)
def errors_of_numpy(a):
    out = []
    for function in (lambda: a @ a, lambda: a.sum(axis=7), lambda: a.reshape(5, -1), lambda: np.zeros(3)[4]):
        try:
            function()
        except (ValueError, IndexError) as error:
            out.append(type(error).__mro__[-4].__name__)
        mark()
    return out


@program(line)
def two_arrays_on_one_memory(a):
    b = a[1:]
    mark()
    b[0] = 50
    return a, b, np.shares_memory(a, b)


@program(line)
def data_into_python(a):
    mark()
    n = int(a[0])
    biggest = max(a.tolist())
    return np.zeros(n), biggest, [x for x in a if x > 0]


@program(line)
def stored_on_a_list_outside(a):
    LOG.append(a * 2)
    mark()
    LOG[0][0] = 1
    return len(LOG)


@program(line)
def generator_of_arrays(a):
    def doubled():
        for i in range(3):
            yield a * i

    made = doubled()
    first = next(made)
    mark()
    return first, list(made)


@program(line)
def closure_over_an_array(a):
    total = np.zeros(3)

    def add(x):
        nonlocal total
        total = total + x

    add(a)
    mark()
    add(a * 2)
    return total


@program(matrix)
def left_to_numpy_in_the_middle(a):
    b = a + 1
    c = np.unwrap(b)
    mark()
    return np.add.reduce(c) + b[0]


@program(line)
def random_stream(a):
    state = np.random.RandomState(3)
    mark()
    return a + state.rand(3), state.randint(10)


@program(line)
def with_errstate(a):
    with np.errstate(divide="ignore", invalid="ignore"):
        b = a / np.zeros(3)
        mark()
        c = b * 0
    return np.isnan(c), b


@program(lambda: np.array([1, 2, 3], dtype=object), line)
def objects_beside_numbers(o, a):
    mark()
    return o + 1, a + 1


@program(line)
def attributes(a):
    mark()
    return (
        a.dtype,
        a.shape,
        a.ndim,
        a.size,
        a.T.shape,
        a.itemsize,
        a.flags.writeable,
        len(a),
        a.dtype == "float64",
    )
