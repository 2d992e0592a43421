"""TensorMeta and the meta rules' helpers: text both ways, strides as NumPy has them, broadcasting, dims, bounds.

Input: shapes and strides, drawn by hypothesis, with NumPy as the judge.
"""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given, settings

from stage_contracts import core_metas as m
from stage_contracts import dtype as dt
from stage_contracts import layouts
from stage_contracts.core_ops import COPY_, CORE_OPS, KINDS
from stage_contracts.device import CPU, Device, device_of
from stage_contracts.symbolic import ShapeEnv
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides, parse_meta

FEW = settings(max_examples=150, derandomize=True, deadline=None)
SIZES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
DTYPES = st.sampled_from(list(dt.DTYPES.values()))


@st.composite
def arrays(draw, least=0):
    """A view of some memory: any order of dimensions, steps, sizes of 1, broadcast dimensions."""
    shape = draw(st.lists(st.integers(least, 4), min_size=0, max_size=4))
    x = np.zeros([2 * s + 1 for s in shape], np.float32)
    for axis, size in enumerate(shape):
        step = draw(st.sampled_from([1, 1, 1, 2]))
        x = np.moveaxis(np.moveaxis(x, axis, 0)[: size * step : step], 0, axis)
        if draw(st.booleans()) and step == 1:
            x = np.ascontiguousarray(x).reshape(x.shape)
    x = x.transpose(draw(st.permutations(range(x.ndim)))) if x.ndim else x
    return np.broadcast_to(x, (2, *x.shape)) if draw(st.integers(0, 5)) == 0 else x


def meta_of(x):
    return TensorMeta(x.shape, dt.dtype_of(x.dtype), tuple(s // x.itemsize for s in x.strides))


# ---- text -------------------------------------------------------------------------------------------------------


@given(SIZES, DTYPES, st.sampled_from([CPU, Device("cuda"), Device("cuda", 3)]), st.booleans(), st.data())
@FEW
def test_text_reads_back(shape, dtype, device, grad, data):
    strides = data.draw(st.none() | st.tuples(*[st.integers(0, 99)] * len(shape)))
    meta = TensorMeta(shape, dtype, strides, device, grad)
    assert parse_meta(str(meta)) == meta and hash(parse_meta(str(meta))) == hash(meta)


def test_text_names_only_what_is_not_the_default():
    assert (
        str(TensorMeta((64, 10), dt.float32)) == "float32[64, 10]"
        and str(TensorMeta((), dt.bool_)) == "bool[]"
    )
    meta = TensorMeta((2, 3), dt.int64, (1, 2), Device("cuda"), True)
    assert str(meta) == "int64[2, 3] strides=(1, 2) device=cuda:0 requires_grad"
    assert str(TensorMeta((3,), dt.int64, (2,))) == "int64[3] strides=(2,)"
    n = ShapeEnv().dimension("n", 5)
    symbolic = TensorMeta((n, 3), dt.float32)
    assert str(symbolic) == "float32[n, 3]" and parse_meta("float32[n, 3]", {"n": n}).shape[0] is n


@pytest.mark.parametrize(
    "text", ["float32", "float32[2", "float32[2] stride=(1)", "", "[2]", "float32[2] extra"]
)
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="is not a tensor type; expected text such as"):
        parse_meta(text)


# ---- strides ----------------------------------------------------------------------------------------------------


@given(SIZES)
@FEW
def test_row_major_strides_are_numpys(shape):
    meta = TensorMeta(shape, dt.float32)
    if 0 not in shape:  # NumPy writes zeros where nothing is
        assert meta_of(np.zeros(shape, np.float32)).strides == meta.strides
    assert meta.is_contiguous and meta.numel == np.zeros(shape).size and meta.nbytes == 4 * meta.numel


@given(arrays())
@FEW
def test_contiguity_is_numpys(x):
    assert meta_of(x).is_contiguous == x.flags.c_contiguous


@given(arrays(least=1))
@FEW
def test_density(x):
    order = sorted(range(x.ndim), key=lambda d: -x.strides[d])
    assert layouts.is_dense(x.shape, meta_of(x).strides) == x.transpose(order).flags.c_contiguous


@given(arrays(), st.data())
@FEW
def test_view_strides_are_numpys_reshape(x, data):
    """Where NumPy's reshape gives a view, the same strides; where it copies, None."""
    numel = x.size
    shape, left = [], numel
    for _ in range(data.draw(st.integers(0, 4))):
        size = data.draw(
            st.sampled_from([d for d in range(1, max(left, 1) + 1) if left % d == 0] if left else [0, 1, 2])
        )
        shape.append(size)
        left = left // size if left else 0
    shape = tuple(shape) if int(np.prod(shape)) == numel else (*shape, left)
    assume(int(np.prod(shape)) == numel)
    shape = tuple(data.draw(st.permutations(shape)))
    out = x.reshape(shape)
    strides = layouts.view_strides(meta_of(x), shape)
    if numel == 0:
        assert strides is not None
    elif np.shares_memory(out, x):
        assert strides == meta_of(out).strides
    else:
        assert strides is None


@given(arrays(), arrays())
@FEW
def test_elementwise_strides_are_dense_and_keep_what_agrees(x, y):
    for operands in ([x], [x, x], [x, y]):
        metas = [meta_of(a) for a in operands]
        try:
            shape = m.broadcast_shapes(*(a.shape for a in operands))
        except RuntimeError:
            continue
        strides = layouts.elementwise_strides(shape, metas)
        result = TensorMeta(shape, dt.float32, strides)
        assert result.numel == 0 or layouts.is_dense(shape, strides)
        if all(
            a.shape == shape and meta.strides == metas[0].strides
            for a, meta in zip(operands, metas, strict=True)
        ):
            same = all(n == 1 or a == b for n, a, b in zip(shape, strides, metas[0].strides, strict=True))
            assert (
                same  # a size of 1 may have had any stride
                or not layouts.is_dense(shape, metas[0].strides)
                or result.is_contiguous
            )
        if all(meta.is_contiguous for meta in metas):
            assert strides == contiguous_strides(shape)


def test_an_empty_tensors_strides_are_row_major_by_decree():
    assert TensorMeta((0, 3), dt.float32, (0, 0)).strides == (3, 1)
    assert m.permute(TensorMeta((2, 0, 3), dt.float32), (2, 1, 0)).strides == contiguous_strides((3, 0, 2))


# ---- shapes -----------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 3), max_size=4).map(tuple), min_size=1, max_size=3))
@FEW
def test_broadcasting_is_numpys(shapes):
    try:
        want = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(
            RuntimeError, match=r"The size of tensor a \(\d\) must match the size of tensor b \(\d\)"
        ):
            m.broadcast_shapes(*shapes)
    else:
        assert m.broadcast_shapes(*shapes) == want


@given(arrays(), st.lists(st.integers(-1, 4), max_size=5).map(tuple))
@FEW
def test_expand_is_broadcast_to(x, target):
    meta = meta_of(x)
    lead = len(target) - x.ndim
    sizes = tuple(x.shape[i - lead] if s == -1 and i >= lead else s for i, s in enumerate(target))
    try:
        want = np.broadcast_to(x, sizes) if lead >= 0 and -1 not in sizes else None
    except ValueError:
        want = None
    if want is None:
        with pytest.raises(RuntimeError, match="expand"):
            m.expand(meta, target)
    else:
        out = m.expand(meta, target)
        assert out.shape == want.shape and out == meta_of(want)


@given(st.integers(0, 6), st.none() | st.integers(-9, 9), st.none() | st.integers(-9, 9), st.integers(1, 4))
@FEW
def test_slice_bounds_are_pythons(size, start, stop, step):
    low, _, length = m.slice_bounds(size, start, stop, step)
    assert list(range(size))[start:stop:step] == [low + i * step for i in range(length)]


def test_steps_must_be_positive():
    for step in (0, -1):
        with pytest.raises(ValueError, match=f"step must be greater than zero, got {step}"):
            m.slice_bounds(3, None, None, step)


def test_infer_shape():
    assert (
        m.infer_shape((2, -1), 6) == (2, 3)
        and m.infer_shape((), 1) == ()
        and m.infer_shape((0, 5), 0) == (0, 5)
    )
    for shape, numel, text in (
        ((-1, -1), 4, "only one dimension"),
        ((4,), 6, "invalid"),
        ((4, -1), 6, "invalid"),
        ((0, -1), 0, "invalid"),
    ):
        with pytest.raises(RuntimeError, match=text):
            m.infer_shape(shape, numel)


def test_wrap_dim():
    assert [m.wrap_dim(d, 3) for d in (-3, -1, 0, 2)] == [0, 2, 0, 2] and m.wrap_dim(-1, 0) == 0
    for dim, rank in ((3, 3), (-4, 3), (1, 0)):
        with pytest.raises(IndexError, match=rf"but got {dim}\)"):
            m.wrap_dim(dim, rank)


def test_devices():
    gpu, other = (TensorMeta((2,), dt.float32, device=Device("cuda", i)) for i in (0, 1))
    number = TensorMeta((), dt.float32)
    assert m.common_device([number, gpu]) == gpu.device and m.common_device([number]) == CPU
    for wrong in ([gpu, other], [gpu, TensorMeta((2,), dt.float32)]):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            m.common_device(wrong)
    assert device_of(None) == device_of("cpu") == CPU and device_of("cuda:1") == Device("cuda", 1)
    assert str(Device("cuda", 1)) == "cuda:1" and device_of(Device("cuda")).index == 0
    for wrong in ("gpu", "cuda:x", "cpu0", 3):
        with pytest.raises(RuntimeError, match="is unknown; expected 'cpu', 'cuda', 'cuda:<index>' or"):
            device_of(wrong)


F32, I64 = TensorMeta((2, 3), dt.float32), TensorMeta((2, 3), dt.int64)
BOOL = TensorMeta((2, 3), dt.bool_)
REFUSED = {
    "where": (m.where, (F32, F32, F32), RuntimeError, "condition to be a bool tensor, but got|expected condition"),
    "no bool": (m.pointwise_no_bool, (BOOL, 1), RuntimeError, "bool"),
    "number": (m.pointwise_number, (BOOL, True), NotImplementedError, "not implemented for bool"),
    "integral": (m.pointwise_integral, (F32, F32), NotImplementedError, "not for float32"),
    "shift": (m.pointwise_shift, (BOOL, BOOL), NotImplementedError, "not implemented for bool"),
    "dims twice": (m.reduction_sum, (F32, (0, -2)), RuntimeError, "multiple times"),
    "nothing": (m.reduction_extremum, (TensorMeta((0, 3), dt.float32), (0,)), IndexError, "non-zero size"),
    "no position": (m.reduction_index, (TensorMeta((0,), dt.float32), 0), IndexError, "non-zero size"),
    "permute": (m.permute, (F32, (0, 0)), RuntimeError, "each of the 2 dimensions once"),
    "fewer": (m.expand, (F32, (3,)), RuntimeError, "must be greater or equal to"),
    "a leading -1": (m.expand, (F32, (-1, 2, 3)), RuntimeError, "in a leading, non-existing dimension"),
    "scatter into a slice": (m.slice_scatter, (F32, F32, 0, 0, 1), RuntimeError, r"expected src of shape \(1, 3\)"),
    "cat": (m.cat, ([F32, TensorMeta((2, 4), dt.float32)], 0), RuntimeError, "Sizes of tensors must match except in dimension 0"),
    "no cat": (m.cat, ([], 0), RuntimeError, "non-empty list"),
    "crop": (m.constant_pad, (F32, ((-2, -1), (0, 0)), 0), RuntimeError, "remove more than the size"),
    "index dtype": (m.gather, (F32, 0, F32), RuntimeError, "Expected dtype int64 for index"),
    "index rank": (m.gather, (F32, 0, TensorMeta((2,), dt.int64)), RuntimeError, "same number of dimensions"),
    "scatter dtype": (m.scatter, (F32, 0, I64, I64), RuntimeError, "self.dtype to be equal to src.dtype: float32, int64"),
    "matmul rank": (m.matmul, (TensorMeta((2,), dt.float32), F32), RuntimeError, "at least 2 dimensions"),
    "matmul dtype": (m.matmul, (F32, I64), RuntimeError, "float32 != int64"),
    "matmul bool": (m.matmul, (BOOL, BOOL), NotImplementedError, "bool"),
    "matmul shape": (m.matmul, (F32, F32), RuntimeError, r"\(2x3 and 2x3\)"),
    "rng": (m.random_bits, (F32, 0, (2,)), RuntimeError, r"int64\[2\] \(seed and counter\), but got float32\[2, 3\]"),
    "copy_": (m.copy_, (F32, TensorMeta((4,), dt.float32)), RuntimeError, "must match the existing size"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    rule, args, kind, text = REFUSED[name]
    with pytest.raises(kind, match=text):
        rule(*args)


def test_rules_work_on_symbolic_sizes_and_keep_them():
    env = ShapeEnv()
    n = env.dimension("n", 6)
    x = TensorMeta((n, 4), dt.float32)
    assert str(m.pointwise(x, 2.0)) == "float32[n, 4]" and str(m.reduction_sum(x, (1,))) == "float32[n]"
    assert str(m.matmul(x, TensorMeta((4, 3), dt.float32))) == "float32[n, 3]"
    assert str(m.permute(x, (1, 0))) == "float32[4, n] strides=(1, 4)"
    assert str(m.cat([x, x], 0)) == "float32[2*n, 4]" and str(m.expand(x, (2, n, 4)).shape) == "(2, n, 4)"
    assert str(m.slice_(x, 1, 1, 3, 1)).startswith("float32[n, 2]")
    assert all(a.origin is None for a in env.assumptions)


# ---- the table --------------------------------------------------------------------------------------------------


def test_rows_are_of_known_kinds_and_have_a_meaning():
    for row in CORE_OPS.values():
        assert row.kind in KINDS and row.meaning and row.params.isascii()
    assert COPY_.kind == "mutation" and "copy_" not in CORE_OPS
    own = [row for row in CORE_OPS.values() if row.kind != "external"]
    assert 85 <= len(own) <= 120  # "about a hundred" that lowering has to know; the others are only called
