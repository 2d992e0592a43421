"""The meta rule of every core operator against what its kernel gave: shape, dtype, strides, and what is refused.

Input: every row of the table in every dtype and layout, also with arguments that are wrong. The meta rule is all
that a compiler sees, so it must agree always.
"""

import numpy as np
import pytest

from stage0_eager import Tensor, eager_kernel
from stage0_eager.table.core import core
from stage0_eager.tests.layouts import DTYPES, layouts
from stage_contracts import dtype as dt
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.device import CPU
from stage_contracts.symbolic import ShapeEnv
from stage_contracts.tensor_meta import TensorMeta


def metas_of(tree):
    if isinstance(tree, Tensor):
        return tree.meta
    return [metas_of(t) for t in tree] if isinstance(tree, list) else tree


def outcome(function, args):
    try:
        return function(*args), None
    except Exception as error:
        return None, error


def check(op, *args):
    """Run the kernel and the rule on the same arguments; True when both gave a value."""
    meta, refused = outcome(op.meta, [metas_of(a) for a in args])
    out, error = outcome(op, args)
    about = f"{op.name}({', '.join(map(str, map(metas_of, args)))})"
    assert type(refused) is type(error), f"{about}: the meta rule {refused!r}, the kernel {error!r}"
    if error is None:
        for o, m in zip(out, meta, strict=True) if isinstance(out, tuple) else [(out, meta)]:
            assert o.meta == m, f"{about}: the meta rule says {m}, the kernel gave {o.meta}"
            assert type(o._data) is np.ndarray
    return error is None


def shapes(rank):
    return range(-rank, rank) if rank else (0, -1)


def cases(name, dtype):
    """Lists of arguments for an operator that is not elementwise. Some are refused."""
    here = {k: Tensor(a) for k, a in layouts(dtype).items()}
    for x in here.values():
        rank, size = x.ndim, x.numel()
        if CORE_OPS[name].params == "input, dims, keepdim=False":
            all_dims = [(), (0,), (-1,), tuple(range(rank)), (0, 0), (5,), (0, 2), (-1, 0)]
            yield from ([x, dims, keep] for dims in all_dims for keep in (False, True))
        elif CORE_OPS[name].params == "input, dim, keepdim=False":
            yield from ([x, dim, keep] for dim in (0, -1, 1, 5) for keep in (False, True))
        elif name == "cumsum":
            yield from ([x, dim] for dim in (0, -1, 1, 7))
        elif name in ("cast", "bitcast"):
            yield from ([x, other] for other in DTYPES)
        elif name == "reshape":
            targets = [
                (-1,),
                (size,),
                (4, -1),
                (2, 12),
                (1, size, 1),
                (2, 3, 2, 2),
                (6, 4),
                (5, 5),
                (-1, -1),
                (0, -1),
            ]
            yield from (
                [x, t] for t in [*targets, x.shape, (*x.shape, 1), (1, *x.shape), (3, 1, 8), (4, 1, 3, 2)]
            )
        elif name == "permute":
            order = tuple(range(rank))
            yield from ([x, dims] for dims in [order, order[::-1], (0, 0, 1), (1, 0), (-1, 0, 1), (0, 1, 5)])
        elif name == "expand":
            targets = [
                x.shape,
                (2, *x.shape),
                (2, 3, 4),
                (-1,) * rank,
                (2, -1, 4),
                (4, 3, 2),
                (7, 7, 7),
                (3,),
                (-1, 2, 3, 4),
            ]
            yield from ([x, t] for t in targets)
        elif name in ("slice", "slice_scatter"):
            windows = [
                (0, 0, 1, 1),
                (0, None, None, 2),
                (-1, 1, -1, 1),
                (2, -3, None, 3),
                (0, 5, 2, 1),
                (0, 0, 1, -1),
                (9, 0, 1, 1),
            ]
            if name == "slice":
                yield from ([x, *w] for w in windows)
            else:
                for w in windows[:4]:
                    part, wrong = outcome(core.slice, [x, *w])
                    yield from (
                        [] if wrong else [[x, part, *w], [x, core.clone(part), *w], [x, here["0-d"], *w]]
                    )
        elif name == "flip":
            yield from ([x, dims] for dims in [(0,), (-1,), tuple(range(rank)), (), (8,)])
        elif name == "cat":
            yield from ([[x, x], dim] for dim in (0, -1, 2, 5))
            yield from ([[x, Tensor(np.ones((2, 3, 4), t))], 0] for t in ("f4", "i8"))
        elif name == "constant_pad":
            yield from ([x, (pair,) * rank, 1] for pair in [(1, 2), (0, 0), (-1, 0), (-1, 3), (-9, 0)])
        elif name.startswith("view_as"):
            as_complex = x._data.astype(np.complex64)
            yield from ([Tensor(a)] for a in (x._data, as_complex))
            yield [core.view_as_real(Tensor(as_complex))]
        elif (
            CORE_OPS[name].kind == "collective"
        ):  # of this process alone; the others are in tests/distributed
            words = {"broadcast": (0,), "all_gather": (1, "sum"), "all_to_all": (1,), "average": (9,),
                     "all_to_all_splits": ((rank and x.shape[0],),) * 2}.get(name)  # fmt: skip
            tail = {"reduce": (0,), "reduce_scatter": (1,)}.get(name, ())
            for given in [words] if words else [(how, *tail) for how in ("sum", "avg", "bxor", "middle")]:
                yield [x, *given, "self"]
        elif name == "average_gradient":
            yield [x, 100, "self"]
        elif name in ("clone", "contiguous", "detach"):
            yield [x]
        elif name == "to_device":
            yield [x, CPU]
        elif name == "matmul":
            yield from ([x, y] for y in here.values())
            if rank > 1:
                turned = Tensor(x._data.swapaxes(-1, -2))
                yield from ([x, turned], [turned, x], [x, Tensor(np.ones((x.shape[-1], 2), np.float64))])
                yield from [[Tensor(x._data[0]), turned]] if x.shape[0] else []
        elif name == "diagonal":
            planes = [(0, 0, 1), (1, 0, -1), (-1, -1, 0), (9, 0, 1), (0, 1, 1), (0, 0, 5)]
            yield from ([x, *plane] for plane in planes)
        elif name == "unfold":
            yield from ([x, *w] for w in [(0, 1, 1), (-1, 2, 2), (1, 1, 3), (0, 9, 1), (0, 1, 0), (5, 1, 1)])
        elif name == "as_strided":
            windows = [
                ((2, 2), (1, 1), 0),
                ((3,), (2,), 1),
                ((), (), 0),
                ((0, 2), (9, 9), 0),
                ((2,), (99,), 0),
            ]
            yield from ([x, *w] for w in [*windows, ((2,), (1, 1), 0), ((2,), (-1,), 5)])
        elif name == "convolution":
            channels = x.shape[1] if rank == 3 else 3
            one, two = (Tensor(np.ones((2, channels, k), dtype.numpy)) for k in (1, 2))
            back = Tensor(np.ones((channels, 1, 2), dtype.numpy))
            yield from ([x, w, (1,), (p,), (2,), False, (0,), 1] for w in (one, two) for p in (0, 1))
            yield from ([x, back, (s,), (0,), (1,), True, (s - 1,), g] for s in (1, 2) for g in (1, channels))
            yield [x, Tensor(np.ones((channels, 1, 1), dtype.numpy)), (2,), (0,), (1,), False, (0,), channels]
            yield [x, one, (0,), (0,), (1,), False, (0,), 1]
            yield [x, two, (1,), (0,), (9,), False, (0,), 1]
            yield [x, Tensor(np.ones((2, channels, 1), np.int16)), (1,), (0,), (1,), False, (0,), 1]
        elif name == "convolution_weight_gradient":
            windows = Tensor(np.ones((*x.shape[:1], 6, 2), dtype.numpy))
            yield from ([x, windows, (k,), (1,), (1,), (1,), g] for k in (1, 2, 3) for g in (1, 2, 3))
            yield from ([x, x, (1,), (s,), (0,), (1,), g] for s in (1, 2) for g in (1, 3))
        elif name == "sort":
            yield from ([x, dim, down, True] for dim in (0, -1, 1, 5) for down in (False, True))
        elif name in ("gather", "scatter", "scatter_add", "scatter_reduce"):
            rest = [] if name == "gather" else [x]
            if name == "scatter_reduce":
                zeros = Tensor(np.zeros(x.shape, np.int64))
                yield from (
                    [x, d, zeros, x, reduce] for d in shapes(rank) for reduce in ("prod", "amax", "median")
                )
                continue
            zeros = Tensor(np.zeros(x.shape, np.int64))
            for dim in shapes(rank):
                yield [x, dim, zeros, *rest]
                yield [x, dim, Tensor(np.zeros(x.shape, np.int32)), *rest]
                yield [x, dim, Tensor(np.zeros(2, np.int64)), *rest]
                if rest:
                    yield [x, dim, zeros, Tensor(x._data.astype(np.float64))]


TAKES_A_DTYPE = ("cast", "bitcast")
ELEMENTWISE = [n for n, row in CORE_OPS.items() if row.kind == "pointwise" and n not in TAKES_A_DTYPE]
CREATION = ("full", "iota", "random_bits")
# external rows have tests of their own (test_stage0_external.py); nonzero's rule only refuses
MOVING = [
    n
    for n, row in CORE_OPS.items()
    if n not in (*ELEMENTWISE, *CREATION) and (row.kind != "external" or n == "sort")
]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name, dtype):
    op = getattr(core, name)
    arrays = layouts(dtype)
    if len(op.params) == 1:
        for x in arrays.values():
            check(op, Tensor(x))
        return
    for x in arrays.values():
        for y in arrays.values():
            check(op, *([Tensor(np.asarray(x != 0))] if name == "where" else []), Tensor(x), Tensor(y))
        check(op, *([Tensor(np.asarray(x != 0))] if name == "where" else []), Tensor(x), 2)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("name", MOVING)
def test_all_other_operators(name, dtype):
    ran = [check(getattr(core, name), *args) for args in cases(name, dtype)]
    refused = (CORE_OPS[name].kind == "contraction" or name == "bitcast") and dtype is dt.bool_  # as in torch
    refused = refused or (name == "average" and not dtype.is_differentiable)  # it divides
    assert sum(ran) >= 8 or (refused and len(ran) > 8), (
        "too few of the cases gave a value for this to be a test"
    )


def test_creation():
    rng = Tensor(np.array([1, 2]))
    for shape in [(), (0,), (3,), (2, 0, 3), (2, 3)]:
        assert check(core.random_bits, rng, 0, shape)
        for dtype in DTYPES:
            assert check(core.full, shape, 1, dtype, CPU)
    for dtype in DTYPES[1:]:
        assert check(core.iota, 5, 0, 2, dtype, CPU)
        assert check(core.iota, 0, 0, 2, dtype, CPU)
    assert not check(core.random_bits, Tensor(np.array([1, 2, 3])), 0, (2,))


@pytest.mark.parametrize("left", DTYPES, ids=lambda d: d.name)
def test_mixed_dtypes_promote_in_the_kernel_as_in_the_rule(left):
    operands = [*(Tensor(np.ones(s, d.numpy)) for d in DTYPES for s in ((2,), ())), True, 3, 2.5, -1]
    for name in ("add", "div", "maximum", "eq", "pow"):
        for x in (Tensor(np.ones(2, left.numpy)), Tensor(np.ones((), left.numpy))):
            for y in operands:
                check(getattr(core, name), x, y)
                check(getattr(core, name), y, x)


def test_a_layout_changes_no_value():
    """The same numbers, laid out in twelve ways, give the same bits."""
    for name in ("exp", "add", "mul", "sum", "cumsum", "flip", "cast", "where"):
        for layout, x in layouts(dt.float32).items():
            if x.ndim == 0:
                continue
            plain = np.ascontiguousarray(x)
            extra = {"sum": [(0,)], "cumsum": [1], "flip": [(0, 2)], "cast": [dt.float64], "exp": []}.get(
                name
            )
            build = (
                (lambda a, e=extra: [Tensor(a), *e])
                if extra is not None
                else (lambda a, n=name: [Tensor(a > 2)] * (n == "where") + [Tensor(a), Tensor(a)])
            )
            one, other = getattr(core, name)(*build(x)), getattr(core, name)(*build(plain))
            if name == "sum":  # NumPy adds in the order of memory
                np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6)
            else:
                assert one.numpy().tobytes() == other.numpy().tobytes(), (name, layout)


def test_eager_kernels_lay_out_their_results_too():
    """Stages 3 and 4 call these on bare arrays and rely on the rule."""
    x = np.asfortranarray(np.ones((3, 4), np.float32))
    assert eager_kernel("exp")(np, x).strides == x.strides
    assert eager_kernel("add")(np, x, np.ones((3, 4), np.float32)).flags.c_contiguous
    assert eager_kernel("sum")(np, np.ones((2, 3, 4)).T, (0, 2), True).strides == (24, 8, 8)
    assert type(eager_kernel("sum")(np, x, (0, 1))) is np.ndarray
    assert eager_kernel("cat")(np, (x, x), 0).shape == (6, 4)  # a tuple of arrays, as a program holds it


def test_composites_have_the_metas_their_bodies_give():
    from stage0_eager.table.registry import TABLE

    x, w = Tensor(np.ones((2, 3), np.float32)), Tensor(np.ones((4, 3), np.float32))
    for name, args in {
        "linear": [x, w], "softmax": [x, 1], "layer_norm": [x, (3,)], "gelu": [x], "relu": [x], "var": [x, 1],
        "mean": [x], "transpose": [x, 0, 1], "cross_entropy": [x, Tensor(np.array([0, 2]))], "tril": [x],
    }.items():  # fmt: skip
        assert check(TABLE[f"cutaway.{name}"], *args), name


def test_an_answer_is_kept_for_the_same_question_only(monkeypatch):
    """The default dtype decides, and whether a number is 1, 1.0 or True; of open sizes a rule assumes things each time."""
    whole = TensorMeta((2,), dt.int64)
    assert core.div.meta(whole, whole).dtype is dt.float32
    with monkeypatch.context() as other:
        other.setattr(dt.DEFAULT_DTYPE, "dtype", dt.float64)
        assert core.div.meta(whole, whole).dtype is dt.float64
    assert [core.add.meta(whole, n).dtype for n in (1, 1.0, True)] == [dt.int64, dt.float32, dt.int64]
    for env in (ShapeEnv(), ShapeEnv()):
        a, b = (TensorMeta((env.dimension(name, 5, low=2),), dt.float32) for name in "ab")
        core.add.meta(a, b)
        assert len(env.assumptions) == 1
