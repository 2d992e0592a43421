"""Products that add a row, as cuBLASLt is asked for them: a stand-in does what its descriptors say, on NumPy.

Input: matrices of halves as they lie in memory, turned or not, as parts of wider ones. The oracle is NumPy.
"""

import ctypes
import itertools
from dataclasses import replace

import numpy as np
import pytest

from stage4_runtime.runtime.cublas_lt import _bound, _plan, _prepared
from stage_contracts import config
from stage_contracts.device import Device
from stage_contracts.dtype import DTYPES
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import Buffer, External, Program, Return
from stage_contracts.tensor_meta import TensorMeta

F16, CUDA = DTYPES["float16"], Device("cuda", 0)


class StandIn:
    """cuBLASLt's functions that are called, with numbers for handles. Everything is column-major."""

    def __init__(self, has_an_algorithm=True, of=(68, 2)):  # in float32; CUDA_R_16F
        self.of = of
        self.numbers, self.made = itertools.count(1), {}
        self.has_an_algorithm = has_an_algorithm

    def _new(self, out, kind):
        out._obj.value = next(self.numbers)
        self.made[out._obj.value] = kind
        return 0

    def cublasLtMatmulDescCreate(self, out, compute, scale):
        assert (compute, scale) == (self.of[0], 0)
        return self._new(out, {})

    def cublasLtMatmulPreferenceCreate(self, out):
        return self._new(out, {})

    def cublasLtMatrixLayoutCreate(self, out, kind, rows, columns, leading):
        assert kind == self.of[1]
        return self._new(out, (rows.value, columns.value, leading.value))

    def cublasLtMatmulDescSetAttribute(self, what, attribute, at, size):
        assert ctypes.sizeof(at._obj) == size.value
        self.made[getattr(what, "value", what)][attribute] = at._obj.value
        return 0

    cublasLtMatmulPreferenceSetAttribute = cublasLtMatmulDescSetAttribute

    def cublasLtMatmulPreferenceDestroy(self, what):
        return 0

    def cublasLtMatmulAlgoGetHeuristic(self, handle, product, a, b, c, d, preference, wanted, found, count):
        assert self.made[preference.value] == {1: 32 << 20} | dict.fromkeys((5, 6, 7, 8), 16)
        count._obj.value = int(self.has_an_algorithm)
        return 0

    def cublasLtMatmul(
        self, handle, product, alpha, a, la, b, lb, beta, c, lc, d, ld, algorithm, work, size, stream
    ):
        of = self.made[product]
        assert (
            of[7] == 4
            and (c, lc) == (d, ld)
            and handle == 7
            and stream == 9
            and (work, size) == (11, 32 << 20)
        )
        left, right, out = (self._matrix(at, layout) for at, layout in ((a, la), (b, lb), (d, ld)))
        left, right = (x.T if of[turn] else x for x, turn in ((left, 3), (right, 4)))
        row = np.ctypeslib.as_array((ctypes.c_uint16 * len(out)).from_address(of[8])).view(np.float16)
        out[...] = left.astype(np.float32) @ right.astype(np.float32) + row[:, None]
        return 0

    def _matrix(self, at, layout):
        rows, columns, leading = self.made[layout]
        memory = np.ctypeslib.as_array((ctypes.c_uint16 * (leading * columns)).from_address(at)).view(
            np.float16
        )
        return memory.reshape(columns, leading)[:, :rows].T


class Handles:
    def workspace(self, stream):
        return 11


def placed(array, turned, apart):
    """(what lies in memory, a reference to the matrix in it)."""
    laid = np.zeros((array.T if turned else array).shape + np.array([0, apart]), np.float16)
    laid[:, apart:] = array.T if turned else array
    strides = laid.shape[1], 1
    return laid, lambda name: BufferRef(name, array.shape, strides[::-1] if turned else strides, apart)


def step_of(a, b, row, out, dtype=F16):
    arrays = {"a": a[0], "b": b[0], "row": row, "out": out}
    refs = a[1]("a"), b[1]("b"), BufferRef("row", (row.size - 1,), (1,), 1)
    buffers = {n: Buffer(n, TensorMeta(x.shape, dtype, None, CUDA), "input") for n, x in arrays.items()}
    step = External("matmul_add_row", refs, {}, ("out",), True)
    return step, Program("p", CUDA, ("a", "b", "row"), buffers, {}, (step, Return((BufferRef("out"),))))


@pytest.mark.parametrize(("turned_a", "turned_b"), [*itertools.product([False, True], repeat=2)])
@pytest.mark.parametrize("apart", [0, 8])
def test_what_it_is_asked_for_is_the_product_and_the_row(turned_a, turned_b, apart):
    draw = np.random.default_rng(0)
    a, b, row = (draw.integers(-4, 4, shape).astype(np.float16) for shape in ((5, 6), (6, 7), (8,)))
    out = np.empty((5, 7), np.float16)
    left, right = placed(a, turned_a, apart), placed(b, turned_b, apart)
    step, program = step_of(left, right, row, out)
    library, plan = StandIn(), _plan(step, program)
    call = _bound(library, 7, Handles(), plan, prepared(library, plan), row.itemsize)
    call(9, left[0].ctypes.data, right[0].ctypes.data, row.ctypes.data, out.ctypes.data)
    np.testing.assert_array_equal(out, a @ b + row[1:])


def prepared(library, plan):
    library.cublasLtCreate = lambda out: library._new(out, "handle")
    return _prepared(library, plan, 0)


@pytest.mark.parametrize("turned", [False, True])
def test_rows_in_two_dimensions_are_rows_of_one_product(turned):
    draw = np.random.default_rng(0)
    a, b, row = (draw.integers(-4, 4, shape).astype(np.float16) for shape in ((6, 4), (4, 7), (8,)))
    left, right, out = placed(a, turned, 8), placed(b, False, 0), np.empty((2, 3, 7), np.float16)
    step, program = step_of(left, right, row, out)
    (down, along), ref = step.args[0].strides, step.args[0]
    wide = BufferRef("a", (2, 3, 4), (3 * down, down, along), ref.offset)
    step = replace(step, args=(wide, *step.args[1:]))
    library, plan = StandIn(), _plan(step, program)
    call = _bound(library, 7, Handles(), plan, prepared(library, plan), row.itemsize)
    call(9, left[0].ctypes.data, right[0].ctypes.data, row.ctypes.data, out.ctypes.data)
    np.testing.assert_array_equal(out, (a @ b + row[1:]).reshape(2, 3, 7))


@pytest.mark.parametrize(("tf32", "compute"), [(False, 68), (True, 77)])
def test_float32_is_asked_for_as_the_switch_says(tf32, compute):
    draw = np.random.default_rng(0)
    left, right = (placed(draw.standard_normal((8, 8)), False, 0) for _ in range(2))
    step, program = step_of(left, right, np.zeros(9), np.empty((8, 8)), DTYPES["float32"])
    with config.patch({"runtime.matmul_allow_tf32": tf32}):
        plan = _plan(step, program)
    assert plan.compute == compute and prepared(StandIn(of=(compute, 0)), plan) is not None


def test_without_an_algorithm_there_is_no_call():
    draw = np.random.default_rng(0)
    left, right = (placed(draw.standard_normal((8, 8)).astype(np.float16), False, 0) for _ in range(2))
    step, program = step_of(left, right, np.zeros(9, np.float16), np.empty((8, 8), np.float16))
    assert prepared(StandIn(has_an_algorithm=False), _plan(step, program)) is None


def test_products_that_are_alike_ask_for_an_algorithm_once():
    """Each has descriptors of its own, since the row's address is written to them."""
    draw = np.random.default_rng(0)
    a, b, row = (draw.integers(-4, 4, shape).astype(np.float16) for shape in ((5, 6), (6, 7), (8,)))
    out, left = np.empty((5, 7), np.float16), placed(a, False, 0)
    library, asked = StandIn(), []
    ask = library.cublasLtMatmulAlgoGetHeuristic
    library.cublasLtMatmulAlgoGetHeuristic = lambda *args: asked.append(args) or ask(*args)
    made = []
    for turned in (False, False, True):
        step, program = step_of(left, placed(b, turned, 0), row, out)
        made.append(prepared(library, _plan(step, program)))
    assert len(asked) == 2 and len({one.product for one in made}) == 3
    assert made[0].found is made[1].found is not made[2].found
