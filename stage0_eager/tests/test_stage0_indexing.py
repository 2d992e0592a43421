"""Basic indexing, read and written, against NumPy's on the same data; and what is refused, in torch's words.

Input: index expressions. Views share storage, so a write through one is seen in its base.
"""

import warnings

import numpy as np
import pytest

from stage0_eager import Tensor, functions
from stage0_eager.functions.creation import arange, as_tensor, from_numpy, full, tensor, zeros
from stage0_eager.functions.shape import cat, chunk, flatten, split, squeeze, stack, tril, triu

BASE = np.arange(60.0).reshape(3, 4, 5)
BASIC = [
    0, -1, slice(None), slice(1, 3), slice(None, None, 2), slice(-2, None), slice(5, 1), None, ...,
    (0, 1), (0, ..., 2), (..., -1), (slice(1, 2), 0), (None, 0, None), (slice(None), None, 2), (0, 1, 2), (..., None),
    (slice(0, 0), ...), (1, slice(None, None, 3), slice(4, 0)), np.int64(1), (np.int32(2), 0),
]  # fmt: skip


@pytest.mark.parametrize("index", BASIC, ids=str)
def test_reading(index):
    x = Tensor(BASE.copy())
    out = x[index]
    want = BASE[index]
    assert out.shape == want.shape and out.tolist() == want.tolist()
    if out.numel():
        assert np.shares_memory(out.numpy(), x.numpy())


@pytest.mark.parametrize("index", BASIC, ids=str)
def test_writing(index):
    for make in (
        lambda s: 7,
        lambda s: np.arange(float(np.prod(s))).reshape(s),
        lambda s: np.ones((1, *s[-1:])),
    ):
        want = BASE.copy()
        value = make(want[index].shape)
        if np.ndim(value) and np.ndim(want[index]) < 1:
            continue
        x = Tensor(BASE.copy())
        alias = x.reshape(60)
        want[index] = value
        x[index] = value if isinstance(value, int) else tensor(value)
        assert x.tolist() == want.tolist() == alias.reshape(3, 4, 5).tolist()
        assert x.version == 1 == alias.version


def test_writing_casts_to_the_tensor():
    x = zeros(3, dtype="int64")
    x[0] = 1.7
    x[1:] = tensor([2.9, -2.9])
    assert x.tolist() == [1, 2, -2] and x.dtype.name == "int64"
    flags = zeros(2, dtype="bool")
    flags[1] = 3
    assert flags.tolist() == [False, True]


def test_integer_tensors_pick():
    x = Tensor(BASE.copy())
    for index in (np.array([2, 0, 0]), np.array([[1], [-1]]), np.array(1)):
        assert x[tensor(index)].tolist() == BASE[index].tolist()
        assert x[:, tensor(index)].tolist() == BASE[:, index].tolist()
    with pytest.raises(IndexError, match="index 3 is out of bounds for dimension with size 3"):
        x[tensor([3])]


REFUSED = {
    "step": (lambda x: x[::-1], ValueError, "step must be greater than zero"),
    "no step": (lambda x: x[::0], ValueError, "slice step cannot be zero"),
    "far": (lambda x: x[3], IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    "far back": (lambda x: x[0, -5], IndexError, "index -5 is out of bounds for dimension 0 with size 4"),
    "many": (lambda x: x[0, 0, 0, 0], IndexError, "too many indices for tensor of dimension 3"),
    "float": (lambda x: x[1.0], IndexError, r"only integers, slices .* are valid indices \(got float\)"),
    "text": (lambda x: x["a"], IndexError, "only integers, slices"),
    "mask": (lambda x: x[x[0] > 3], IndexError, r"The shape of the mask \[4, 5\] at index 0 does not match"),
    "write of rows": (lambda x: x.__setitem__(tensor([3]), 0.0), IndexError, "index 3 is out of bounds"),
    "float tensor": (lambda x: x[tensor([1.0])], IndexError, "must be long, int, byte or bool"),
    "broadcast": (lambda x: x[[0, 1], [0, 1, 2]], IndexError, "could not be broadcast together"),
    "write of a wrong shape": (
        lambda x: x.__setitem__(0, zeros(3, 5)),
        RuntimeError,
        "must match the existing size",
    ),
    "write of too many dimensions": (
        lambda x: x.__setitem__((0, 0), zeros(2, 5)),
        RuntimeError,
        "must be greater or equal to",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    action, kind, text = REFUSED[name]
    x = Tensor(BASE.copy())
    with pytest.raises(kind, match=text):
        action(x)
    assert x.tolist() == BASE.tolist()


def test_iteration_and_length():
    x = Tensor(BASE)
    assert [row.tolist() for row in x] == list(BASE.tolist()) and len(x) == 3
    for action in (len, list):
        with pytest.raises(TypeError, match="0-d tensor"):
            action(tensor(1.0))


def test_shapes_by_other_names_match_numpy():
    x = Tensor(BASE)
    for axis in (0, 1, -1):
        assert [p.tolist() for p in chunk(x, 2, axis)] == [
            p.tolist() for p in np.split(BASE, [-(-BASE.shape[axis] // 2)], axis)
        ]
        assert cat([x, x], axis).tolist() == np.concatenate([BASE, BASE], axis).tolist()
        assert stack([x, x], axis).tolist() == np.stack([BASE, BASE], axis).tolist()
        assert x.unsqueeze(axis).shape == np.expand_dims(BASE, axis).shape
        assert x.flip(axis).tolist() == np.flip(BASE, axis).tolist()
        assert x.narrow(axis, 1, 2).tolist() == BASE.take([1, 2], axis).tolist()
    assert [p.shape for p in split(x, 3, -1)] == [(3, 4, 3), (3, 4, 2)]
    assert [p.shape for p in split(x, [1, 3], 1)] == [(3, 1, 5), (3, 3, 5)]
    assert flatten(x, 1).shape == (3, 20) and flatten(x).shape == (60,) and flatten(tensor(1.0)).shape == (1,)
    assert flatten(zeros(0, 3, 2), 1).shape == (0, 6)
    assert squeeze(zeros(1, 2, 1)).shape == (2,) and squeeze(zeros(1, 2, 1), 0).shape == (2, 1)
    for k in (-1, 0, 2):
        assert (
            tril(x, k).tolist() == np.tril(BASE, k).tolist()
            and triu(x, k).tolist() == np.triu(BASE, k).tolist()
        )
    assert x.T.shape == (5, 4, 3) and x.mT.tolist() == BASE.swapaxes(1, 2).tolist()
    assert x.transpose(0, -1).tolist() == BASE.swapaxes(0, -1).tolist()


SHAPE_ERRORS = {
    "view": (lambda x: x.transpose(0, 1).view(12, 5), RuntimeError, "view size is not compatible"),
    "reshape": (lambda x: x.reshape(7), RuntimeError, r"shape '\[7\]' is invalid for input of size 60"),
    "two unknowns": (lambda x: x.reshape(-1, -1), RuntimeError, "only one dimension can be inferred"),
    "expand": (lambda x: x.expand(3, 4, 6), RuntimeError, r"The expanded size of the tensor \(6\)"),
    "split": (lambda x: split(x, [1, 1]), RuntimeError, "split_sizes to sum exactly to 3"),
    "narrow": (lambda x: x.narrow(0, 2, 2), RuntimeError, "exceeds dimension size"),
    "dim": (lambda x: x.unsqueeze(5), IndexError, "Dimension out of range"),
    "t": (lambda x: x.t(), RuntimeError, "2 dimensions, but self is 3D"),
    "cat": (lambda x: cat([x, x[0]], 0), RuntimeError, "izes of tensors must match"),
    "no cat": (lambda x: cat([]), ValueError, "non-empty list"),
    "stack": (lambda x: stack([x, x[0]]), RuntimeError, "equal size"),
    "flatten": (lambda x: flatten(x, 2, 1), RuntimeError, "start_dim cannot come after end_dim"),
    "permute": (lambda x: x.permute(0, 0, 1), RuntimeError, "each of the 3 dimensions once"),
}


@pytest.mark.parametrize("name", SHAPE_ERRORS)
def test_wrong_shapes(name):
    action, kind, text = SHAPE_ERRORS[name]
    with pytest.raises(kind, match=text):
        action(Tensor(BASE))


def test_operands_that_are_none():
    x = tensor([1.0, 2.0])
    assert (x == None) is False and (x != None) is True and (x == "a") is False  # noqa: E711
    for action in (lambda: x + None, lambda: x < None, lambda: x @ "a"):
        with pytest.raises(TypeError, match="unsupported operand|not supported between"):
            action()


def test_numpys_numbers_and_arrays_as_operands():
    x = tensor([1.0, 2.0])
    for number in (np.float32(2), np.float64(2), np.int64(2)):
        for out in (number * x, x * number):
            assert isinstance(out, Tensor) and out.dtype.name == "float32" and out.tolist() == [2, 4]
    assert (tensor([1, 2]) * np.float64(0.5)).dtype.name == "float32"  # as a Python float
    for out in (x + np.ones(2), np.ones(2) + x):
        assert isinstance(out, Tensor) and out.dtype.name == "float64" and out.tolist() == [2, 3]
    assert (x == np.ones(2)).tolist() == (np.ones(2) == x).tolist() == [True, False]
    with pytest.raises(TypeError, match="longdouble.* is not supported|float128.* is not supported"):
        x + np.ones(2, np.longdouble)


def test_numbers_out_of_tensors():
    assert int(tensor(3.7)) == 3 and float(tensor(2)) == 2.0 and bool(tensor([1])) and not bool(tensor(0.0))
    assert [10, 20, 30][tensor(1)] == 20 and list(range(tensor(3))) == [0, 1, 2]
    with pytest.raises(
        TypeError, match="only integer tensors of a single element can be converted to an index"
    ):
        [1, 2][tensor(1.0)]
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        bool(tensor([1, 2]))
    with pytest.raises(RuntimeError, match="no values"):
        bool(zeros(0))
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"):
        tensor([1, 2]).item()
    with pytest.raises(ValueError, match="NaN"):
        int(tensor(float("nan")))


def test_creation_and_its_errors():
    assert tensor([1, 2]).dtype.name == "int64" and tensor([1.0]).dtype.name == "float32"
    assert tensor([]).dtype.name == "float32" and tensor(True).dtype.name == "bool"
    assert tensor(np.ones(2)).dtype.name == "float64" and tensor(tensor([1, 2])).tolist() == [1, 2]
    assert tensor([1.0, 2.0], dtype="bfloat16").dtype.name == "bfloat16"
    assert arange(5).tolist() == [0, 1, 2, 3, 4] and arange(1, 2, 0.25).tolist() == [1, 1.25, 1.5, 1.75]
    assert arange(5, 0, -2).tolist() == [5, 3, 1] and arange(0).shape == (0,)
    assert full((2,), 3).dtype.name == "int64" and full((2,), 3.0).dtype.name == "float32"
    with pytest.raises(RuntimeError, match="inconsistent with step sign"):
        arange(0, 5, -1)
    with pytest.raises(RuntimeError, match="cannot be converted to type uint8 without overflow"):
        full((2,), 300, dtype="uint8")
    for wrong in (np.ones(2, np.longdouble), np.array(["a"]), np.array([None])):
        with pytest.raises(TypeError, match="is not supported"):
            tensor(wrong)
    with pytest.raises(TypeError, match="expected np.ndarray"):
        from_numpy([1])
    with pytest.raises(ValueError, match="negative"):
        from_numpy(np.ones(3)[::-1])


def test_from_numpy_shares_memory_and_tensor_copies():
    array = np.zeros(3, np.float32)
    shared, copied = from_numpy(array), tensor(array)
    assert as_tensor(array).numpy() is array and shared.numpy() is array
    shared[0] = 5
    array[1] = 6
    assert shared.tolist() == [5, 6, 0] and copied.tolist() == [0, 0, 0]


def test_nothing_is_printed(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = tensor([0.0, -1.0, float("inf"), 3e38])
        for name in ("log", "sqrt", "exp", "reciprocal", "rsqrt", "tan", "acosh"):
            getattr(functions.pointwise, name)(x)
        x / 0, x * x, x % 0, x.long(), x.to("float16"), x.sum(), x - x, x.var(), x.softmax(0)
    assert capsys.readouterr() == ("", "")


def test_zero_dimensional_results_stay_tensors_over_arrays():
    x = tensor([1.0, 2.0])
    for out in (
        x.sum(),
        x[0],
        x[0] + x[1],
        x.argmax(),
        x.mean(),
        -x[0],
        x.amax(),
        x.any(),
        x[0].exp(),
        x @ x,
    ):
        assert isinstance(out, Tensor) and type(out._data) is np.ndarray and out.shape == ()
