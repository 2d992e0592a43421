"""NumPy beside tensors: functions take NumPy's argument names, as torch's do; NumPy's functions of tensors give tensors.

Input: small tensors; expected values are NumPy's.
"""

import numpy as np
import pytest

from stage0_eager import Tensor
from stage0_eager.functions.creation import tensor
from stage0_eager.table.registry import TABLE

A = np.array([[1.0, 5.0, 2.0], [4.0, 3.0, 6.0]])
REDUCTIONS = "sum prod mean var std amax amin any all argmax argmin".split()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_axis_and_keepdims(name):
    options = {"ddof": 1} if name in ("var", "std") else {}
    want = getattr(np, name)(A, axis=1, keepdims=True, **options)
    for got in (
        TABLE[f"cutaway.{name}"](Tensor(A), axis=1, keepdims=True),
        getattr(Tensor(A), name)(axis=1, keepdims=True),
    ):
        np.testing.assert_allclose(got.numpy(), want)


def test_names_of_operands_and_axes_of_other_functions():
    x = tensor(A)
    assert TABLE["cutaway.cat"]([x, x], axis=1).shape == (2, 6) and TABLE["cutaway.stack"](
        [x, x], axis=2
    ).shape == (2, 3, 2)
    assert TABLE["cutaway.add"](x1=x, x2=1).tolist() == (A + 1).tolist()
    assert (
        TABLE["cutaway.exp"](x=x).tolist()
        == TABLE["cutaway.exp"](a=x).tolist()
        == TABLE["cutaway.exp"](x).tolist()
    )
    assert x.max(axis=0).values.tolist() == [4, 5, 6] and x.softmax(axis=0).shape == (2, 3)
    assert x.squeeze(axis=0).shape == (2, 3) and x.cumsum(axis=0).tolist()[1] == [5, 8, 8]


def test_a_name_that_is_no_ones_is_still_refused():
    for wrong in ({"axes": 1}, {"axis": 1, "dim": 1}):
        with pytest.raises(TypeError):
            tensor(A).sum(**wrong)
    with pytest.raises(TypeError):
        TABLE["cutaway.transpose"](tensor(A), axis=0)


def test_numpys_functions_give_tensors():
    x = tensor(A)
    for got, want in [
        (np.sin(x), np.sin(A)), (np.maximum(x, 3), np.maximum(A, 3)), (np.add(A, x), A + A), (A * x, A * A),
        (np.isnan(x), np.isnan(A)), (np.mean(x), np.mean(A)), (np.sum(x, axis=0), A.sum(0)), (np.max(x), A.max()),
    ]:  # fmt: skip
        assert type(got) is Tensor
        np.testing.assert_allclose(got.numpy(), want)
    assert type(np.asarray(x)) is np.ndarray and np.shares_memory(np.asarray(x), x._data)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.sin(tensor(A, requires_grad=True))
