"""Tensors made of Python numbers inside a function: constants, open numbers, and what is written to them after."""

from stage0_eager import no_grad
from stage0_eager.functions import creation
from stage0_eager.functions.creation import as_tensor, tensor
from stage1_capture.tests.programs.registry import mark, program
from stage_contracts import dtype as dt


@program((2,))
def written_at_each_call(x):
    t = tensor([1.0, 2.0])
    mark()
    t.add_(x)
    return t, tensor([1.0, 2.0])


@program((2,))
def nested_lists(x):
    m = tensor([[1, 2], [3, 4]])
    mark()
    return m, m.sum(0) * x, tensor(((1.5,), (2.0,)))


@program((2,))
def kinds(x):
    made = tensor(True), tensor([True, False]), tensor(3), tensor(2**60), tensor(-0.0), tensor([])
    mark()
    return made, tensor([1, 2.0, True])


@program((2,))
def with_a_dtype(x):
    return (
        tensor([1, 2], dtype=dt.float64),
        tensor(1.5, dtype=dt.int64),
        as_tensor([3, 4], dtype=dt.float32) * x,
    )


@program((2,))
def not_finite(x):
    return tensor([float("nan"), float("inf")]), tensor(float("inf")) * x


@program((2,), 0.25, 3)
def open_numbers(x, scale, n):
    t, u = tensor(scale), tensor(n)
    t += 1
    mark()
    return t * x, u, tensor(scale * 2, dtype=dt.float64)


@program((2,), lambda: [0.5, 2])
def list_argument(x, numbers):
    numbers.append(x.shape[0])
    mark()
    return tensor(numbers)


@program((2, 3))
def sizes(x):
    return tensor(x.shape), tensor(x.shape[0] * 2.0), tensor([len(row) for row in x])


@program((3,))
def as_an_index(x):
    return x[tensor([2, 0])], x[tensor([True, False, True])]


@program((3,))
def of_elements(x):
    first, *rest = x
    mark()
    return tensor([v * 2 for v in x]), creation.tensor([first, rest[1]])


@program((3,), grad=True)
def in_a_loss(x):
    with no_grad():
        weights = tensor([0.1, 0.2, 0.7])
    mark()
    return (x * weights).sum() * tensor(2.0)


@program((3,), grad=True)
def leaf_made_inside(x):
    w = tensor([1.0, 2.0, 3.0], requires_grad=True)
    return (w * x).sum()


@program((2,))
def ragged_list(x):
    try:
        return tensor([[1], [2, 3]]) * x
    except (TypeError, ValueError):
        return x + tensor(1)
