"""`out=` on public functions: where results go, what is resized, what is refused; and the same under a tracer.

Input: small float32 tensors; expected values are those of the call without `out=`.
"""

import warnings

import numpy as np
import pytest

from stage0_eager import Tensor, no_grad
from stage0_eager.table.registry import TABLE
from stage0_eager.transforms.trace import Tracer, interpreting
from stage_contracts.graph import Graph

A = np.arange(6, dtype=np.float32).reshape(2, 3)


def T(name):
    return TABLE[f"cutaway.{name}"]


def zeros(*shape, dtype=np.float32):
    return Tensor(np.zeros(shape, dtype))


CALLS = {
    "add": (T("add"), (Tensor(A), Tensor(A)), {"alpha": 2}),
    "exp": (T("exp"), (Tensor(A),), {}),
    "sum": (T("sum"), (Tensor(A), 1), {}),
    "matmul": (T("matmul"), (Tensor(A), Tensor(A.T)), {}),
    "cat": (T("cat"), ([Tensor(A), Tensor(A)],), {}),
    "where": (T("where"), (Tensor(A > 2), Tensor(A), 0.0), {}),
    "cumsum": (T("cumsum"), (Tensor(A), 0), {}),
    "softmax": (T("softmax"), (Tensor(A), 1), {}),
    "clamp": (T("clamp"), (Tensor(A), 1, 3), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_result_is_written_and_out_returned(name):
    op, args, options = CALLS[name]
    want = op(*args, **options)
    memory = np.full(want.shape, 7, np.float32)
    out = Tensor(memory)
    assert op(*args, **options, out=out) is out
    assert memory.tolist() == want.tolist()  # in the caller's memory
    wide = Tensor(np.zeros(want.shape[::-1]).T)
    op(*args, **options, out=wide)
    assert wide.dtype.name == "float64" and wide.tolist() == want.tolist()
    empty = zeros(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert op(*args, **options, out=empty).shape == want.shape
    assert op(*args, **options, out=None).tolist() == want.tolist()


def test_several_results_go_into_several_tensors():
    values, indices = zeros(0), zeros(0, dtype=np.int64)
    out = T("max")(Tensor(A), 1, out=(values, indices))
    assert out.values is values and out.indices is indices
    assert values.tolist() == [2, 5] and indices.tolist() == [2, 2]
    with pytest.raises(TypeError, match="expected 2 tensors"):
        T("max")(Tensor(A), 1, out=values)


def test_a_view_of_out_sees_the_write_and_its_version_moves():
    base = zeros(4, 3)
    window, other = base[1:3], base[2:]
    before = base.version
    T("mul")(Tensor(A), 2, out=window)
    assert base.tolist()[1:3] == (A * 2).tolist() and other.tolist()[0] == (A * 2).tolist()[1]
    assert base.version > before


def test_what_out_overlaps_is_read_first():
    x = Tensor(A.copy())
    T("add")(x, x, out=x)
    assert x.tolist() == (A + A).tolist()


def test_resizing_a_tensor_with_elements_warns():
    with pytest.warns(UserWarning, match=r"was resized since it had shape \[3, 3\]"):
        assert T("neg")(Tensor(A), out=(out := zeros(3, 3))) is out
    assert out.tolist() == (-A).tolist()


REFUSED = {
    "a float result in integers": (lambda: T("exp")(Tensor(A), out=zeros(2, 3, dtype=np.int64)), RuntimeError, "can't be cast"),
    "an integer result in bool": (lambda: T("argmax")(Tensor(A), 1, out=zeros(2, dtype=bool)), RuntimeError, "can't be cast"),
    "an argument that requires grad": (lambda: T("neg")(Tensor(A, True), out=zeros(2, 3)), RuntimeError, "automatic differentiation"),
    "out that requires grad": (lambda: T("neg")(Tensor(A), out=Tensor(A.copy(), True)), RuntimeError, "automatic differentiation"),
    "one in a list": (lambda: T("cat")([Tensor(A, True)], out=zeros(0)), RuntimeError, "automatic differentiation"),
    "no tensor": (lambda: T("neg")(Tensor(A), out=3), TypeError, "must be Tensor or a tuple"),
    "a view": (lambda: T("transpose")(Tensor(A), 0, 1, out=zeros(0)), TypeError, "unexpected keyword argument 'out'"),
    "in place": (lambda: T("neg_")(Tensor(A), out=zeros(0)), TypeError, "unexpected keyword argument 'out'"),
    "memory that overlaps itself": (lambda: T("neg")(Tensor(A), out=zeros(1, 1).expand(2, 3)), RuntimeError, "single memory location"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    call, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        call()


def test_without_grad_anything_goes_and_nothing_is_recorded():
    leaf = Tensor(A, True)
    with no_grad():
        out = T("neg")(leaf, out=zeros(2, 3))
    assert not out.requires_grad and out.tolist() == (-A).tolist()


def test_a_tracer_sees_the_call_and_the_write():
    tracer = Tracer(Graph(), keep=lambda op: op.name == "add")
    x, out = (tracer.placeholder(name, Tensor(A).meta) for name in ("x", "out"))
    with interpreting(tracer):
        T("add")(x, x, out=out)
    assert [node.target.name for node in tracer.graph.nodes if node.op == "call_function"] == ["add", "copy_"]
