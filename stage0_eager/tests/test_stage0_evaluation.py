"""The shorter ways of table/evaluation.py against the long ones: the same bits, layouts, sharing, gradients and errors.

Input: the table. The long way of a core operator is its kernel; that of a public function is its body.
"""

import warnings

import numpy as np
import pytest

import stage0_eager
import stage0_eager.functions
from stage0_eager.arrays import owner
from stage0_eager.autograd.backward_pass import grad
from stage0_eager.autograd.gradcheck import gradgradcheck
from stage0_eager.kernels.eager import run_kernel
from stage0_eager.table.registry import TABLE
from stage0_eager.tensor import Tensor
from stage0_eager.tests.layouts import DTYPES, edges, layouts
from stage_contracts import dtype as dt
from stage_contracts.core_ops import CORE_OPS

NUMBERS = (0, -0.0, 1.5, 3, True, -7, 2**40, 1e300, float("nan"), float("inf"))
NAMES = sorted(CORE_OPS)


def outcome(function, *args):
    """What a call gives, or the type and text of what it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # neither way may warn
            out = function(*args)
    except Exception as error:
        return type(error), str(error)
    return out._data if isinstance(out, Tensor) else out


def assert_same(short, long, what):
    if isinstance(long, tuple):
        assert short == long, what
        return
    assert isinstance(short, np.ndarray), (what, short)
    assert (short.dtype, short.shape) == (long.dtype, long.shape), what
    assert long.size == 0 or short.strides == long.strides, what
    assert short.tobytes() == long.tobytes(), what


def compare(op, *args):
    tensors = [Tensor(a) if isinstance(a, np.ndarray) else a for a in args]
    arrays = [[t._data for t in a] if isinstance(a, list) else a for a in args]
    what = f"{op.name}{tuple(getattr(a, 'strides', a) for a in args)}"
    assert_same(outcome(op, *tensors), outcome(run_kernel, op, arrays), what)


TAKES_A_DTYPE = ("cast", "bitcast")


@pytest.mark.parametrize("name", TAKES_A_DTYPE)
def test_operators_that_take_a_dtype(name):
    op = TABLE[f"core.{name}"]
    for dtype in DTYPES:
        for array in (edges(dtype), *layouts(dtype).values()):
            for target in DTYPES:
                compare(op, array, target)


def test_bits_of_another_width_are_refused():
    """The core operator has no public name: draws and exact_math.py use it, and users have Tensor.view."""
    assert not hasattr(stage0_eager, "bitcast") and not hasattr(Tensor, "bitcast")
    with pytest.raises(RuntimeError, match="same width.* float32 has 32 bits and int64 has 64"):
        TABLE["core.bitcast"](Tensor(np.ones(2, np.float32)), dt.int64)


@pytest.mark.parametrize(
    "name", [n for n in NAMES if CORE_OPS[n].kind == "pointwise" and n not in TAKES_A_DTYPE]
)
def test_elementwise(name):
    op = TABLE[f"core.{name}"]
    lead = [np.array([True, False, True, False])] if name == "where" else []
    for dtype in DTYPES:
        x = edges(dtype)
        if op.params == ("input",):
            for array in (x, *layouts(dtype).values()):
                compare(op, array)
            continue
        lead = [np.resize([True, False], x.shape)] if name == "where" else []
        for number in NUMBERS:
            compare(op, *lead, x, number)
            compare(op, *lead, number, x)
        compare(op, *lead, x, x[::-1])
        compare(op, *lead, x[:1].reshape(()), 2)
        if lead:
            for numbers in ((1.5, 0.0), (1, 2), (True, 0.5)):
                compare(op, *lead, *numbers)
        compare(op, *lead, x, np.ones(x.shape, np.float32))
        compare(op, *lead, x, np.ones(x.size + 1, x.dtype))  # sizes that clash
        if name in ("add", "where", "lt"):
            kinds = layouts(dtype)
            for one in kinds.values():
                for other in kinds.values():
                    compare(op, *([np.array(True)] if lead else []), one, other)


@pytest.mark.parametrize("name", [n for n in NAMES if CORE_OPS[n].kind in ("reduction", "scan")])
def test_reductions(name):
    op = TABLE[f"core.{name}"]
    many = "dims" in op.params
    for dtype in DTYPES:
        for array in (*layouts(dtype).values(), edges(dtype)):
            for dims in ((0,), (-1,), (0, 1), (), (5,), (0, 0)) if many else (0, -1, 5):
                for keepdim in (False, True) if "keepdim" in op.params else ((),):
                    compare(op, array, dims, *([] if keepdim == () else [keepdim]))


def test_views_products_and_cat():
    for dtype in DTYPES:
        for x in layouts(dtype).values():
            for name, rests in {
                "reshape": [(-1,)], "permute": [tuple(reversed(range(x.ndim))), (0, 0, 0)],
                "expand": [(2, *x.shape), (9, 9, 9)], "diagonal": [], "detach": [], "clone": [],
            }.items():  # fmt: skip
                for rest in rests:
                    compare(TABLE[f"core.{name}"], x, rest)
            for rest in ((0, 0, 1, 1), (-1, 1, None, 2), (7, 0, 1, 1), (0, 0, 1, 0)):
                compare(TABLE["core.slice"], x, *rest)
            for y in layouts(dtype).values():
                compare(TABLE["core.matmul"], x, y.swapaxes(-1, -2) if y.ndim > 1 else y)
                compare(TABLE["core.cat"], [Tensor(x), Tensor(y)], 0)
            compare(TABLE["core.cat"], [Tensor(x), Tensor(np.ones(x.shape, np.float32))], -1)
    compare(TABLE["core.cat"], [], 0)


# ---- public functions with a quicker way -----------------------------------------------------------------------

INDICES = (
    0, -1, 5, (0, 1), (0, -1, 2), (slice(None), 1), slice(1, None), (slice(None), slice(None, None, 2)), slice(None),
    (slice(0, 1), 0), (Ellipsis, 0), (None, 0), (0, 0, 0, 0), (slice(None), slice(3, 1)), slice(None, None, -1),
    slice(-2, None), (1, slice(None), slice(1, 3)), (0, slice(0, 1)), 9, (0, 9), [0, 1],
)  # fmt: skip
QUICK = {
    "relu": [()],
    "softmax": [(0,), (-1,), (9,), (0, dt.float64)],
    "log_softmax": [(0,), (-1,), (9,), (-1, dt.float64)],
    "reshape": [((-1,),), ((3, -1),), ([6],), ((7, 9),)],
    "sum": [(), (0,), (-1, True), ((0, 1),), ([0],), (9,), ((0, 0),)],
    "select": [(0, 0), (-1, -1), (1, 2), (0, 7), (7, 0)],
    "getitem": [(i,) for i in INDICES],
}


def test_every_quick_way_is_here():
    assert {op.name for op in TABLE.values() if op.eager is not op.run} == {*QUICK, "cross_entropy"}


LOGITS = np.random.default_rng(1).normal(size=(5, 4)) * 3


@pytest.mark.parametrize("classes", [[0, 3, 1, 1, 2], [0, -100, 1, 1, 2]])
def test_cross_entropy_in_one_step(classes):
    op, target = TABLE["cutaway.cross_entropy"], Tensor(np.array(classes))
    for dtype in (np.float32, np.float64, np.float16):
        for array in (LOGITS, LOGITS * 1e4, LOGITS[:, ::-1], LOGITS.T.copy().T):
            for rest in ((), (None, 1), (None, -100, "sum"), (None, -100, "mean", 0.1)):
                if rest == (None, 1) and -100 in classes:
                    continue  # another index ignored: -100 is out of range
                x, y = Tensor(array.astype(dtype), True), Tensor(array.astype(dtype), True)
                short, long = op(x, target, *rest), op.body(y, target, *rest)
                assert_same(short._data, long._data, (classes, rest))
                if dtype is np.float64:
                    (g,), (h,) = grad([short], [x]), grad([long], [y])
                    np.testing.assert_allclose(g.numpy(), h.numpy(), rtol=1e-12, atol=1e-14)
    assert gradgradcheck(lambda v: op(v, Tensor(np.array([0, 3, 1, 1, 2]))), Tensor(LOGITS.copy(), True))


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_way_gives_what_the_body_gives(name):
    op = TABLE[f"cutaway.{name}"]
    for dtype in DTYPES:
        for layout, array in (*layouts(dtype).items(), ("edges", edges(dtype))):
            for rest in QUICK[name]:
                what = f"{name} of {dtype.name}, {layout}, {rest}"
                x, y = Tensor(array), Tensor(array)
                short, long = outcome(op, x, *rest), outcome(op.body, y, *rest)
                assert_same(short, long, what)
                if not isinstance(long, tuple):
                    assert (owner(short) is owner(array)) == (owner(long) is owner(array)), what


@pytest.mark.parametrize("name", QUICK)
def test_and_its_gradient(name):
    op = TABLE[f"cutaway.{name}"]
    for layout, array in layouts(dt.float64).items():
        for rest in QUICK[name]:
            x, y = Tensor(array.copy("K"), True), Tensor(array.copy("K"), True)
            if isinstance(outcome(op, x, *rest), tuple):
                continue
            short, long = op(x, *rest), op.body(y, *rest)
            assert short.requires_grad, (layout, rest)
            weights = Tensor(np.random.default_rng(0).uniform(0.5, 1.5, short.shape))
            (g,), (h,) = grad([short], [x], [weights]), grad([long], [y], [weights])
            np.testing.assert_allclose(
                g.numpy(), h.numpy(), rtol=1e-12, atol=1e-15, err_msg=f"{layout} {rest}"
            )


INDICES_TO_WRITE = (0, (1, slice(1, 3)), (slice(None), 2), (slice(1, None), slice(None, None, 2)), (2, 3))


@pytest.mark.parametrize("index", INDICES_TO_WRITE)
def test_a_write_through_a_quick_view_reaches_the_base_and_its_history(index):
    getitem = TABLE["cutaway.getitem"]

    def run(view):
        base, scale = Tensor(np.arange(12.0).reshape(3, 4), True), Tensor(np.array(3.0), True)
        x = TABLE["core.mul"](base, 2.0)
        part = view(x, index)  # made in one step
        TABLE["cutaway.copy_"](part, scale)
        found = [g.tolist() for g in grad([x.sum()], [base, scale])]
        return found, x.tolist(), part.tolist(), view(x, index).tolist(), x.version, part.version

    found = run(getitem)
    assert found == run(getitem.body)
    want = np.full((3, 4), 2.0)
    want[index] = 0.0
    assert found[0] == [want.tolist(), float(np.sum(want == 0))] and found[4] == found[5] > 0


def test_versions_are_one_for_all_views_of_a_storage():
    x = Tensor(np.ones((2, 3)))
    first, second = x[0], x.reshape(3, 2)
    first.add_(1)
    assert x.version == first.version == second.version == x.detach().version == 1
    second[0].zero_()
    assert x.version == first.version == 2 and Tensor(np.ones(2)).version == 0
