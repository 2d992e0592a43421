"""Programs on tensors: arithmetic, methods, views, writes, what is one object and stays one.

Input: the seam `capture`. Each program says how many operators its graph must hold.
"""

import pytest

from stage0_eager.functions import creation
from stage0_eager.functions.gather_scatter import where
from stage0_eager.functions.inplace import add_
from stage0_eager.functions.pointwise import cos, sin
from stage0_eager.nn import functional as F
from stage1_capture.tests.harness import check_program, registry, tensor
from stage_contracts import dtype as dt

ALIASED = tensor(3, 4)
PROGRAMS, program = registry()


# ---- arithmetic and methods ----------------------------------------------------------------------


@program((3, 4), (3, 4), nodes=3, tier="first")
def straight_line(x, y):
    z = x * y
    return z + x - 0.5


@program((3, 4), (4, 5), (5,), nodes=2, tier="first")
def affine(x, w, b):
    return x @ w + b


@program((3, 4), nodes=2, tier="core")
def sin_cos(x):
    return sin(cos(x))


@program((3, 4), (3, 4), nodes=7, tier="core")
def arithmetic(x, y):
    return -(x + y * 2 - 1) / (y**2) - 0.5


@program((3, 4), nodes=5)
def reflected(x):
    return 1 - x, 2 / x, 3 * x, 4 + x, 2**x


@program((3, 4), (4, 5), nodes=1, tier="core")
def matmul(x, y):
    return x @ y


@program((3, 4), (3, 4), nodes=6)
def comparisons(x, y):
    return x < y, x <= y, x > 0, 1.5 >= y, x == y, x != y  # noqa: SIM300


@program((3, 4), nodes=2)
def bits(x):
    return ~(x > 0)


@program((3, 4), nodes=3, tier="core")
def methods(x):
    return x.exp().sum(dim=1, keepdim=True).log()


@program((2, 3, 4), nodes=5)
def shapes(x):
    return x.reshape(6, 4), x.view(2, -1), x.permute(2, 0, 1), x.transpose(0, 1), x.flatten(1)


@program((3, 4), nodes=2)
def properties(x):
    return x.T @ x


@program((4, 5), nodes=5)
def subscripts(x):
    return x[0], x[:, 1:3], x[..., -1], x[None], x[1:, ::2]


@program((4, 5), lambda: tensor(2).to(dt.int64), nodes=1)
def subscript_by_tensor(x, index):
    return x[index]


@program((6,), nodes=2)
def split_and_unpack(x):
    a, b = x.split(3)
    return a + b


@program((3, 4), nodes=1)
def casts(x):
    return x.to(dt.float64), x.float(), x.to("cpu")


@program((3, 4), nodes=1)
def identity_operators(x):
    return x.contiguous() is x, F.dropout(x, 0.5, False) is x, x.float() + 1


@program((3, 4), nodes=2)
def creation_functions(x):
    return x + creation.ones_like(x)


@program((3, 4), nodes=2)
def library_functions(x):
    return F.softmax(F.relu(x), dim=-1)


@program((3, 4), lambda: tensor(3).to(dt.int64) * 0, nodes=1)
def loss(x, target):
    return F.cross_entropy(x, target, label_smoothing=0.1)


@program((3, 4), nodes=6)
def rows(x):
    first, *_ = [row for row in x[:2]]  # noqa: C416
    return first[0] * 0 + len([1 for _ in x.shape])


# ---- aliasing and mutation -----------------------------------------------------------------------


@program(lambda: ALIASED, lambda: ALIASED, nodes=1)
def one_tensor_twice(x, y):
    return x + y, x is y


@program((3, 4), nodes=3)
def in_place_on_a_local(x):
    y = x * 2
    y.add_(1)
    y += x
    return y


@program((3, 4), (3, 4), nodes=2)
def in_place_on_an_input(x, y):
    z = add_(x, y)
    return z, z is x, x * 2


@program((3, 4), nodes=4)
def item_assignment(x):
    y = x.clone()
    y[0] = 1.0
    y[1:, 0] = x[0, 0]
    return y


@program((3, 4), nodes=1)
def nothing_returned(x):
    x.mul_(2)


@program((3, 4), lambda: tensor(6, 4)[1:4], nodes=1)
def write_beside_a_view(x, view):
    x.add_(view)
    return x


@program(lambda: tensor(6, 4)[1:4], (3, 4), nodes=1)
def write_to_a_view(view, x):
    view.add_(x)
    return view


@program((3, 4), slice(1, 2), nodes=1)
def slices_returned(x, part):
    é = x[part]
    return é, slice(0, 2), ..., part.start, (5).real


@program((3, 4), nodes=2)
def views_returned(x):
    return x.T, x[0], x


@program(lambda: tensor(3, 4, requires_grad=True), (3, 4), nodes=3)
def requires_grad(x, y):
    return x * y, y + 1, (x * 2).requires_grad


@program((3, 4), (3, 4), nodes=3)
def where_both(x, y):
    return where(x > y, x, y * 2)


@pytest.mark.parametrize("name", PROGRAMS.cases())
def test_a_captured_program_does_what_the_call_does(seam, name):
    check_program(seam, PROGRAMS[name])
