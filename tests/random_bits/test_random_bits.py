"""Random draws have the same bits in eager, in C++, in Triton and where a backward pass computes them again.

Input: rows.py's table, drawn a few at a time in one program; `make random-bits` draws a million of each in every build.
On the tree before draws had a definition of their own, randn, normal_, exponential_, cauchy_ and log_normal_ in float32
differ in C++ from eager in 10 to 48 % of 10,000 draws, and AVX2 from SSE (seed 3); Triton's interpreter, where NumPy plays
libdevice, could not show it.
"""

import pytest

import cutaway as ct
from stage_contracts import config
from tests.random_bits import ways
from tests.random_bits.rows import IN_EAGER, ROWS, names_without_a_row

N = 67  # a whole vector and a tail
OTHER_DTYPES = ("float64", "float16", "bfloat16")
NAMES = [name for name in ROWS if name not in IN_EAGER and not name.endswith(OTHER_DTYPES)]
TRANSFORMED = [
    name
    for name in ROWS
    if name.split()[0] in ("randn", "exponential_", "cauchy_", "log_normal_", "geometric_")
]


def differing(names: list[str], **options) -> dict[str, str]:
    rows = [ROWS[name] for name in names]
    program = ct.compile(lambda: [row(N) for row in rows], fullgraph=True, **options)
    ct.manual_seed(5)
    wanted = [row(N).numpy() for row in rows]
    ct.manual_seed(5)
    found = [draw.numpy() for draw in program()]
    pairs = zip(names, found, wanted, strict=True)
    return {name: d for name, got, want in pairs if (d := ways.difference(got, want))}


def test_every_name_that_draws_has_a_row():
    assert names_without_a_row() == set()


def test_cpp_draws_what_eager_draws():
    assert differing(NAMES) == {}


# Words are made by fours, 256 at a time: rows that end inside a block, a tile, or both; views, sums, no row at all.
TILED = [(1,), (3,), (255,), (256,), (257,), (515,), (3, 259), (9, 5), (2, 3, 301), (1, 1), (0, 4), (40, 300)]


def in_tiles(x):
    drawn = [ct.rand(shape) for shape in TILED]
    turned = ct.rand(40, 70).t() * x
    return (
        *drawn,
        turned,
        ct.rand(70, 40)[:, ::3] + x[:, ::3],
        ct.rand(70, 40) + ct.randn(70, 40),
        ct.rand(9, 77).sum(1),
    )


def test_words_that_tiles_draw_are_those_of_single_elements():
    x = ct.ones(70, 40)
    ct.manual_seed(11)
    wanted = in_tiles(x)
    program = ct.compile(in_tiles, fullgraph=True)
    ct.manual_seed(11)
    found = program(x)
    source = program.artifacts[-1].forward.emitted["cpp"].units[-1].text
    assert "RandomWords<256>" in source
    for got, want in zip(found[:-1], wanted[:-1], strict=True):
        assert ways.difference(got.numpy(), want.numpy()) == ""
    assert ct.allclose(found[-1], wanted[-1])  # a sum, in another order


def test_words_of_an_open_size_are_those_of_single_elements():
    program = ct.compile(lambda x: ct.rand(x.shape) + x, fullgraph=True, dynamic=True)
    for shape in ((3, 7), (5, 259), (2, 256), (33, 1030)):
        x = ct.zeros(shape)
        ct.manual_seed(12)
        wanted = ct.rand(shape)
        ct.manual_seed(12)
        assert ways.difference(program(x).numpy(), wanted.numpy()) == ""
    assert len(program.artifacts) == 1


def test_flags_that_allow_contraction_change_nothing():
    with config.patch(cxx_flags="-O2 -march=native -ffp-contract=fast"):
        assert (
            differing(["randn float32", "log_normal_ float64", "normal_ float32", "uniform_ float32"]) == {}
        )


def test_triton_draws_what_eager_draws():
    pytest.importorskip("triton")
    names = [n for n in NAMES if not n.startswith(("init.", "multinomial", "gumbel"))]
    assert differing(names, pipeline=ways.triton_pipeline()) == {}


def test_triton_contracts_nothing_for_a_gpu():
    pytest.importorskip("triton")
    program = ct.compile(lambda: ROWS["normal_ float32"](N), fullgraph=True)
    program()
    from stage3_lowering.triton_interpreter import compile_to_ptx

    for kernel in compile_to_ptx(program.artifacts[-1].emit("forward", "triton")).values():
        assert "fma" not in kernel["ptx"] and "approx" not in kernel["ptx"]
        assert "mul.rn.f64" in kernel["ptx"] or "mul.f64" in kernel["ptx"]


@pytest.mark.parametrize("name", [*NAMES, *sorted(IN_EAGER)])
def test_a_backward_pass_draws_the_same_again(name):
    wanted = ways.in_eager(ROWS[name], N).astype("float64")
    assert ways.difference(ways.recomputed(ROWS[name], N, lambda f: f), wanted) == ""


@pytest.mark.parametrize("name", ["normal_ float32", "bernoulli_", "dropout"])
def test_a_compiled_backward_pass_draws_the_same_again(name):
    wanted = ways.in_eager(ROWS[name], N).astype("float64")
    assert ways.difference(ways.recomputed(ROWS[name], N, ct.compile), wanted) == ""
