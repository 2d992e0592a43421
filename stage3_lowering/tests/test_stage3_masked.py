"""cat and constant_pad are loads under masks: what made the parts and what reads the whole are in one kernel.

Input: core graphs, and NumPy's concatenate and pad. Lanes lie before, on and after the edge of a part. Divided places
(a reshape that strides cannot say) are right only inside their part: a shift through them gave other elements.
"""

import itertools
import operator
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
import sympy
from hypothesis import given, settings

from stage3_lowering.interpret import interpret_program
from stage3_lowering.lowering.index_set_splitting import in_piece
from stage3_lowering.lowering.values import simplify
from stage3_lowering.tests.cpp_runner import run_cpp
from stage3_lowering.tests.graphs import CPP, TRITON, check, trace
from stage_contracts import dtype as dt
from stage_contracts.index_expr import FloorDiv, Mod, symbol
from stage_contracts.loop_ir import LoopNest
from stage_contracts.loop_text import parse_nest, print_nest
from stage_contracts.tensor_meta import contiguous_strides

F = np.float32
RNG = np.random.default_rng(7)


def array(*shape, dtype=F):
    return (RNG.standard_normal(shape) * 8).astype(dtype)


def pads_of(*pairs, value=0.0):
    return lambda a: np.pad(a, pairs, constant_values=value)


X, Y, Z = array(3, 37), array(3, 20), array(3, 37)
CASES = {
    "columns": (lambda c, x, y: c.cat([x, c.mul(y, 2.0)], 1), [X, Y],
                lambda x, y: np.concatenate([x, y * 2], 1)),
    "rows": (lambda c, x, y: c.add(c.cat([x, y, x], 0), 1.0), [X, Z],
             lambda x, y: np.concatenate([x, y, x]) + 1),
    "read_twice": (lambda c, x, y: (lambda j: c.sub(j, c.amax(j, (1,), True)))(c.cat([x, y], -1)), [X, Y],
                   lambda x, y: (lambda j: j - j.max(1, keepdims=True))(np.concatenate([x, y], 1))),
    "reduced": (lambda c, x, y: c.amax(c.cat([c.neg(x), y], 1), (1,)), [X, Y],
                lambda x, y: np.concatenate([-x, y], 1).max(1)),
    "of_cats": (lambda c, x, y: c.cat([c.cat([x, y], 1), c.cat([y, x], 1)], 0), [X, Y],
                lambda x, y: np.concatenate([np.concatenate([x, y], 1), np.concatenate([y, x], 1)])),
    "padded_cat": (lambda c, x, y: c.constant_pad(c.cat([x, y], 1), ((1, 2), (0, 19)), -1.5), [X, Y],
                   lambda x, y: pads_of((1, 2), (0, 19), value=-1.5)(np.concatenate([x, y], 1))),
    "cropped": (lambda c, x: c.constant_pad(c.abs(x), ((-1, 1), (17, -3)), 2.0), [X],
                lambda x: pads_of((0, 1), (17, 0), value=2.0)(np.abs(x)[1:, :-3])),
    "gradients_of_a_split": (lambda c, x, y: c.add(c.constant_pad(x, ((0, 0), (0, 37)), 0.0),
                                                   c.constant_pad(c.neg(y), ((0, 0), (37, 0)), 0.0)), [X, Z],
                             lambda x, y: np.concatenate([x, -y], 1) + 0.0),
    "divided_places": (lambda c, x: c.constant_pad(c.reshape(c.permute(x, (1, 0)), (3, 37)), ((2, 0), (5, 0)), 0.0),
                       [X], lambda x: pads_of((2, 0), (5, 0))(x.T.reshape(3, 37))),
    "divided_parts": (lambda c, x: c.reshape(c.cat([c.reshape(c.permute(x, (1, 0)), (3, 37)), x], 0), (37, 6)), [X],
                      lambda x: np.concatenate([x.T.reshape(3, 37), x]).reshape(37, 6)),
    "transposed": (lambda c, x, y: c.permute(c.cat([x, y], 1), (1, 0)), [X, Y],
                   lambda x, y: np.concatenate([x, y], 1).T),
    "integers": (lambda c, x, y: c.cat([x, y], 0), [array(4, dtype=np.int64), array(3, dtype=np.int32)],
                 lambda x, y: np.concatenate([x, y])),
    "truths": (lambda c, x: c.constant_pad(c.gt(x, 0.0), ((0, 0), (40, 1)), True), [X],
               lambda x: pads_of((0, 0), (40, 1), value=True)(x > 0)),
    "empty_part": (lambda c, x, y: c.cat([c.slice(x, 1, 0, 0), y, x], 1), [X, Y],
                   lambda x, y: np.concatenate([y, x], 1)),
    "many_parts": (lambda c, x: c.cat([x] * 12, 0), [X], lambda x: np.concatenate([x] * 12)),
}  # fmt: skip


@pytest.mark.conformance("lower", "fuse", "emit")
@pytest.mark.parametrize("name", CASES)
def test_joined_and_padded(seam, name):
    function, arrays, want = CASES[name]
    program = check(seam, function, arrays, [want(*arrays)])
    for kernel in program.kernels.values():  # masks print and read back
        for nest in kernel.nests:
            assert print_nest(parse_nest(print_nest(nest))) == print_nest(nest)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("many_parts", "truths")])
def test_in_tritons_interpreter(seam, name):
    pytest.importorskip("triton")
    from stage3_lowering.triton_interpreter import run_in_interpreter

    function, arrays, want = CASES[name]
    program = seam("emit")(seam("fuse")(seam("lower")(trace(function, *arrays))), TRITON)
    np.testing.assert_array_equal(run_in_interpreter(program, arrays)[0], want(*arrays))


def test_compiles_to_ptx(seam):
    pytest.importorskip("triton")
    from stage3_lowering.triton_interpreter import compile_to_ptx

    for name in ("columns", "reduced", "padded_cat", "truths"):
        function, arrays, _ = CASES[name]
        program = seam("emit")(seam("fuse")(seam("lower")(trace(function, *arrays))), TRITON)
        assert all("ld.global" in made["ptx"] for made in compile_to_ptx(program).values())


def test_one_kernel_and_no_call(seam):
    def function(c, x, y):
        return c.mul(c.cat([c.sin(x), c.constant_pad(y, ((0, 0), (0, 17)), 1.0)], 1), 2.0)

    program = seam("fuse")(seam("lower")(trace(function, X, Y)))
    assert len(program.kernels) == 1 and not [s for s in program.steps if hasattr(s, "target")]
    (kernel,) = seam("schedule")(program, CPP).kernels.values()
    assert str(kernel.schedule).endswith("pieces=i1:0:37:57:74")


def test_a_piece_has_no_masks(seam):
    lowered = seam("lower")(trace(lambda c, x, y: c.cat([x, y], 1), X, Y))
    (nest,) = lowered.nodes
    assert isinstance(nest, LoopNest)
    for first, end, loads in ((0, 37, ["x"]), (37, 57, ["y"]), (30, 40, ["y", "x"])):
        piece = in_piece(nest, "i1", first, end)
        assert [i.args[0] for i in piece.body if i.op == "load"] == loads
        assert ("where" in [i.op for i in piece.body]) is (len(loads) == 2)


@pytest.mark.parametrize("cuts", [(0, 57), (0, 1, 57), (0, 36, 38, 57), (0, 37, 57), (0, 20, 37, 40, 57)])
def test_wherever_the_pieces_are_cut(seam, cuts):
    function, arrays, want = CASES["columns"]
    program = seam("schedule")(seam("fuse")(seam("lower")(trace(function, *arrays))), CPP)
    kernels = {
        name: replace(kernel, schedule=replace(kernel.schedule, pieces=("i1", cuts)))
        for name, kernel in program.kernels.items()
    }
    drawn = program.with_(kernels=kernels).verify()
    for outputs in (interpret_program(drawn, arrays), run_cpp(seam("emit")(drawn, CPP), arrays)):
        np.testing.assert_array_equal(outputs[0], want(*arrays))


def test_nothing_is_read_outside_a_part(seam):
    """The masked load's address may be anywhere: at the end of a page, nothing lies behind the part."""
    import mmap

    page = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    count = mmap.PAGESIZE // 4
    edge = np.frombuffer(page, F, count, mmap.PAGESIZE)  # ends where the mapping ends
    edge[:] = np.arange(count)
    out = check(
        seam,
        lambda c, x: c.constant_pad(x, ((3, 5000),), 1.0),
        [edge],
        [np.pad(edge, (3, 5000), constant_values=1)],
    )
    assert len(out.kernels) == 1
    assert out.buffers["x"].meta.dtype is dt.float32


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=3), st.integers(1, 6))
@settings(max_examples=300, derandomize=True, deadline=None)
def test_divisions_of_a_place_behind_pads_are_right_wherever_the_mask_holds(dims, divisor):
    """`dims`: size and pad before. Seen: 2*(i0 - 2) + (i1 - 1), an element of (1, 2), was i1 - 5 in a row of 2."""
    variables = [symbol(f"i{k}") for k in range(len(dims))]
    rows = contiguous_strides(tuple(size for size, _ in dims))
    flat = sum(row * (v - pad) for row, v, (_, pad) in zip(rows, variables, dims, strict=True))
    sizes = {v: size + pad for v, (size, pad) in zip(variables, dims, strict=True)}
    for kind, plain in ((FloorDiv, operator.floordiv), (Mod, operator.mod)):
        written = simplify(kind(sympy.expand(flat), sympy.Integer(divisor)), sizes)
        for place in itertools.product(*(range(pad, size + pad) for size, pad in dims)):
            at = dict(zip(variables, place, strict=True))
            assert written.subs(at) == plain(int(sympy.sympify(flat).subs(at)), divisor), (written, place)


@pytest.mark.parametrize("sizes", [(64, 96, 64), (40, 33, 70), (17, 200, 16)])
def test_tiles_run_in_pieces(seam, sizes):
    """A cat of plain and transposed parts, as a split's gradient is: tiles for the transposed one, and no masks."""
    rows, (a, b, c_) = 70, sizes
    arrays = [np.arange(m * n, dtype=F).reshape(m, n) for m, n in ((rows, a), (b, rows), (rows, c_))]

    def function(c, x, y, z):
        return c.mul(c.cat([x, c.permute(y, (1, 0)), z], 1), 2.0)

    want = np.concatenate([arrays[0], arrays[1].T, arrays[2]], 1) * 2
    program = check(seam, function, arrays, [want])
    (kernel,) = seam("schedule")(program, CPP).kernels.values()
    assert len(kernel.schedule.tiles) == 2 and kernel.schedule.pieces == ("i1", (0, a, a + b, a + b + c_))
    assert "inside" not in seam("emit")(seam("schedule")(program, CPP), CPP).units[-1].text
