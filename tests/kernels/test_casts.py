"""Casts, every dtype to every dtype: eager, aot_eager, C++ and Triton give what core.cast says, to the bit.

Input: edge values of every type and random bits, in vector bodies, tails, layouts and 0-d, and numbers that stand in
the kernel; the reference is written in Python's own integers. On the tree before the rule
`test_numbers_that_the_compiler_sees` fails: g++ gave 255 for 300.5 as uint8, at compile time, where eager gave 44. (Of
numbers it does not see, x86's own instruction makes what the rule says.) So do the numbers that do not fit.
"""

import itertools
import math
import warnings

import ml_dtypes
import numpy as np
import pytest

import cutaway as ct
from stage_contracts.dtype import DTYPES
from tests.random_bits.ways import has_triton, triton_pipeline

BITS = {"uint8": 8, "int8": 8, "int16": 16, "int32": 32, "int64": 64}
INTEGERS, HALVES = tuple(BITS), ("float16", "bfloat16")
TARGETS = ("bool", *INTEGERS, "float32", "float64")  # what is half precision, an eager kernel casts
TAILS = tuple(range(1, 36)) + (63, 64, 65, 130, 257)
RNG = np.random.default_rng(11)


def expected(value, target):
    """One Python number as `target`: the rule of core.cast, in integers; floats by NumPy's scalar rounding."""
    if target == "bool":
        return value != 0
    if target not in BITS:
        with np.errstate(over="ignore"):
            return DTYPES[target].numpy.type(value)
    bits = BITS[target]
    wide = max(bits, 32)
    if isinstance(value, float):
        value = int(value) if math.isfinite(value) else -(2 ** (wide - 1))
        if not -(2 ** (wide - 1)) <= value < 2 ** (wide - 1):
            value = -(2 ** (wide - 1))
    value %= 2**bits
    return value - 2**bits if target != "uint8" and value >= 2 ** (bits - 1) else value


def edges():
    """Numbers around which something changes, as Python floats."""
    limits = [2.0**k for k in (7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64)]
    near = [
        f(v)
        for v in limits
        for f in (float, lambda v: v - 1, lambda v: v - 0.5, lambda v: v + 0.5, lambda v: v + 1)
    ]
    near += [math.nextafter(v, side) for v in limits for side in (0.0, math.inf)]
    near += [float(np.nextafter(np.float32(v), np.float32(side))) for v in limits for side in (0, np.inf)]
    near += [0.0, 0.5, 0.99, 1.5, 300.5, 1e20, 5e-324, 1e-40, 1e308, 65504.0, math.inf, math.nan]
    return [sign * v for v in near for sign in (1, -1)]


def values_of(source, count=400):
    """`count` values of a dtype: its edges, then random bits."""
    dtype = DTYPES[source].numpy
    if source == "bool":
        return RNG.integers(0, 2, count).astype(bool)
    bits = RNG.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)
    with np.errstate(all="ignore"):
        if source in BITS:
            low, high = (int(v) for v in DTYPES[source].limits)
            known = np.array([low, high, 0, -1 % (high + 1) if low == 0 else -1, 1, low + 1, high - 1], dtype)
        else:
            known = np.array(edges()).astype(np.float32 if source in HALVES else dtype).astype(dtype)
            scaled = (RNG.standard_normal(count // 2) * 2.0 ** RNG.integers(-3, 66, count // 2)).astype(dtype)
            bits[: count // 2] = scaled
    return np.concatenate([RNG.permutation(known), bits])[:count]


SOURCES = {source: values_of(source) for source, dtype in DTYPES.items() if not dtype.is_complex}


def assert_cast(found, given, target, what):
    given = np.asarray(given)
    numbers = given.astype(np.float32) if given.dtype in (np.float16, ml_dtypes.bfloat16) else given
    wanted = [expected(v, target) for v in numbers.reshape(-1).tolist()]
    wanted = np.array(wanted, DTYPES[target].numpy).reshape(given.shape)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape, what
    same = (
        (found == wanted) & (np.signbit(found) == np.signbit(wanted))
        if found.dtype.kind == "f"
        else found == wanted
    )
    bad = np.flatnonzero(~(same | ((found != found) & (wanted != wanted))).reshape(-1))
    first = [(a.reshape(-1)[bad[0]].item()) for a in (given, found, wanted)] if bad.size else None
    assert not bad.size, f"{what}: {bad.size} differ; {first[0]} became {first[1]}, expected {first[2]}"


def layouts(array):
    """The same kind of values under other strides, and one alone."""
    whole = array[:391].reshape(17, 23)
    return {
        "transposed": whole.T,
        "every third": array[::3],
        "rows of a slice": whole[:, 3:20],
        "0-d": array[4:5].reshape(()),
    }


WAYS = {
    "eager": lambda f: f,
    "aot_eager": lambda f: ct.compile(f, backend="aot_eager", dynamic=True),
    "C++": lambda f: ct.compile(f, dynamic=True, fullgraph=True),
    "Triton": lambda f: ct.compile(f, dynamic=True, fullgraph=True, pipeline=triton_pipeline()),
}
LENGTHS = {"Triton": (1, 33, 257)}


def skip_without(way):
    if way == "Triton" and not has_triton():
        pytest.skip("triton is not installed: pip install 'cutaway[triton]'")


@pytest.mark.parametrize("way", WAYS)
def test_bodies_and_tails(way):
    skip_without(way)
    names = [s for s in SOURCES if way == "eager" or s not in HALVES]

    def program(*tensors):
        return [x.to(getattr(ct, target)) for x in tensors for target in TARGETS]

    ct.compiler.reset()
    run = WAYS[way](program)
    for n in LENGTHS.get(way, TAILS):
        start = n * 13 % (400 - n)
        given = [SOURCES[s][start : start + n] for s in names]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = run(*map(ct.from_numpy, given))
        pairs = itertools.product(zip(names, given, strict=True), TARGETS)
        for ((source, array), target), tensor in zip(pairs, found, strict=True):
            assert_cast(tensor.numpy(), array, target, f"{way}: {source} to {target}, {n} elements")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_layouts(way, source):
    skip_without(way)
    given = layouts(SOURCES[source])

    def program(*tensors):
        return [x.to(getattr(ct, target)) for x in tensors for target in INTEGERS]

    ct.compiler.reset()
    found = WAYS[way](program)(*map(ct.from_numpy, given.values()))
    for (layout, target), tensor in zip(itertools.product(given, INTEGERS), found, strict=True):
        assert_cast(tensor.numpy(), given[layout], target, f"{way}: {layout} {source} to {target}")


X = np.array([300.5, -1.5, 1e20, math.nan, math.inf, -math.inf, 127.9, 3e9, -0.5, 2.0**63], np.float32)


def written(x, target):
    """Into a tensor, part by part."""
    y = ct.zeros(10, dtype=target)
    y[2:] = x[2:]
    y[ct.tensor([0, 1])] = x[:2].to(target)
    return y


# Ways for a float to get into an integer tensor: each takes x and a dtype.
PATHS = {
    "to": lambda x, target: x.to(target),
    "type_as": lambda x, target: x.type_as(ct.zeros(1, dtype=target)),
    "copy_": lambda x, target: ct.zeros(10, dtype=target).copy_(x),
    "slices": written,
    "fill_": lambda x, target: ct.stack([ct.zeros((), dtype=target).fill_(x[i]) for i in range(10)]),
    "cast in a chain": lambda x, target: ((x * 1.0).to(target) + 0).to(target),
    "cast of a constant": lambda x, target: ct.stack([ct.full((), v).to(target) for v in X.tolist()]),
    "where": lambda x, target: ct.where(x == x, x, x).to(target),
    "cat": lambda x, target: ct.cat([x[:3], x[3:]]).to(target),
    "tensor of an array": lambda x, target: ct.tensor(X, dtype=target),
    "as_tensor": lambda x, target: ct.as_tensor(x, dtype=target),
}  # fmt: skip


@pytest.mark.parametrize("backend", [None, "aot_eager", "inductor"])
def test_every_way_into_an_integer_tensor(backend):
    ct.compiler.reset()
    for target in INTEGERS if backend != "inductor" else ("uint8", "int64"):
        dtype = getattr(ct, target)

        def program(x, target=dtype):
            return [path(x, target) for path in PATHS.values()]

        run = ct.compile(program, backend=backend) if backend else program
        for path, found in zip(PATHS, run(ct.from_numpy(X)), strict=True):
            assert_cast(found.numpy(), X, target, f"{backend} {path} to {target}")


@pytest.mark.parametrize("source", ["float32", "float64"])
def test_a_cast_to_integers_and_back_has_no_negative_zero(source):
    """g++ 12 makes one truncation of the two casts: seed 51599 of tests/tensor_programs, where atan2 then gave pi."""
    x = np.array([-0.13, -0.0, 0.0, 0.5, -0.999, -1.0, 1.0, -1.5, 3.7] * 4, source)

    def program(x):
        return [x.to(getattr(ct, target)).to(x.dtype) for target in ("int64", "int32", "int16", "int8")]

    for found, want in zip(ct.compile(program)(ct.from_numpy(x)), program(ct.from_numpy(x)), strict=True):
        assert found.numpy().tobytes() == want.numpy().tobytes()


CONSTANTS = (300.5, -1.5, 128.0, 65536.5, 3e9, 1e20, -1e20, math.inf, -math.inf, math.nan)


@pytest.mark.parametrize("way", WAYS)
def test_numbers_that_the_compiler_sees(way):
    """A constant in a kernel: what a cast of it gives may be decided while the kernel is compiled."""
    skip_without(way)

    def program(mask, x):
        chosen = [ct.where(mask, v, x).to(getattr(ct, target)) for v in CONSTANTS for target in INTEGERS]
        return chosen + [
            (x * 0.0 + v).amax().to(getattr(ct, target)) for v in CONSTANTS for target in INTEGERS
        ]

    ct.compiler.reset()
    mask, x = np.array([True, False, True]), np.array([0.5, -3.5, 300.25], np.float32)
    found = WAYS[way](program)(ct.from_numpy(mask), ct.from_numpy(x))
    cases = list(itertools.product((1, 0), CONSTANTS, INTEGERS))
    for (chosen, v, target), tensor in zip(cases, found, strict=True):
        given = np.where(mask, np.float32(v), x) if chosen else np.float32(v)
        assert_cast(tensor.numpy(), given, target, f"{way}: the constant {v} to {target}")


# A Python number is no cast: what does not fit is refused, as in torch.
REFUSED = {
    "tensor": lambda v, target: ct.tensor([v], dtype=target),
    "full": lambda v, target: ct.full((2,), v, dtype=target),
    "fill_": lambda v, target: ct.zeros(2, dtype=target).fill_(v),
    "masked_fill": lambda v, target: ct.zeros(2, dtype=target).masked_fill(ct.tensor([True, False]), v),
    "setitem": lambda v, target: ct.zeros(2, dtype=target).__setitem__(0, v),
    "pad": lambda v, target: ct.nn.functional.pad(ct.zeros(2, dtype=target), (1, 1), value=v),
}  # fmt: skip


@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_number_that_does_not_fit_is_refused(name, backend):
    ct.compiler.reset()
    for value, target in [
        (300.5, ct.int8),
        (math.nan, ct.int32),
        (math.inf, ct.int64),
        (1e20, ct.int64),
        (-1.5, ct.uint8),
    ]:
        run = ct.compile(lambda: REFUSED[name](value, target), backend=backend) if backend else REFUSED[name]  # noqa: B023
        with pytest.raises(RuntimeError, match="cannot be converted to type .* without overflow"):
            run() if backend else run(value, target)
    assert ct.full((2,), -1, dtype=ct.uint8).tolist() == [255, 255]
    assert ct.zeros(2, dtype=ct.int8).masked_fill(ct.tensor([True, False]), 1.5).tolist() == [1, 0]


@pytest.mark.parametrize("target", ("int8", "uint8", "int64"))
@pytest.mark.parametrize("source", ("float32", "float64"))
def test_ptx_asks_for_the_range(source, target):
    """NVIDIA's conversion saturates. So PTX converts to 32 or 64 bits and keeps it where the number is in range."""
    pytest.importorskip("triton")
    from stage3_lowering.triton_interpreter import compile_to_ptx

    program = ct.compile(lambda x: x.to(getattr(ct, target)), fullgraph=True)
    program(ct.ones(67, dtype=getattr(ct, source)))
    bits = max(BITS[target], 32)
    number = "0f{:08X}" if source == "float32" else "0d{:016X}"
    as_bits = np.uint32 if source == "float32" else np.uint64
    for kernel in compile_to_ptx(program.artifacts[-1].emit("forward", "triton")).values():
        lines = [" ".join(line.split()) for line in kernel["ptx"].splitlines()]
        converts = [line for line in lines if line.startswith(f"cvt.rzi.s{bits}.f")]
        others = [
            line for line in lines if line.startswith(("cvt.rzi", "cvt.rni", "fma")) and line not in converts
        ]
        assert converts and not others and not any(".sat" in line for line in lines)
        for limit, ask in ((-(2.0 ** (bits - 1)), "setp.ge.f"), (2.0 ** (bits - 1), "setp.lt.f")):
            there = number.format(int(np.array(limit, source).view(as_bits))).lower()
            asked = [line for line in lines if line.startswith(ask) and there in line.lower()]
            assert len(asked) == len(converts), (limit, lines)


def test_torch_casts_the_same_way():
    torch = pytest.importorskip("torch")
    for source, target in itertools.product(("float32", "float64"), INTEGERS):
        given = SOURCES[source]
        if target == "uint8":  # torch's vector body goes through int64 there, its scalar one does not
            given = given[~(np.abs(given) >= 2.0**31)]
        found = torch.from_numpy(given).to(getattr(torch, target)).numpy()
        assert_cast(found, given, target, f"torch: {source} to {target}")


@pytest.mark.skipif(not has_triton(), reason="triton is not installed")
def test_triton_rounds_to_the_nearest_bfloat16():
    """Its interpreter cuts the bits off: half of a million draws of uniform_ differed, which the rows above, cast by eager
    kernels, did not show."""
    bits = RNG.integers(0, 2**32, 4096, dtype=np.uint32)
    ties = (np.arange(0x3F80, 0x3FC0, dtype=np.uint32) << 16) | 0x8000
    values = np.concatenate([bits, ties, ties + 1, ties - 1]).view(np.float32)
    values = np.concatenate([values, np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, 1e-45])])
    program = ct.compile(lambda x: (x * 1).to(ct.bfloat16), pipeline=triton_pipeline())
    got = program(ct.from_numpy(values)).numpy()
    want = values.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    real = ~np.isnan(values)
    np.testing.assert_array_equal(got.view(np.uint16)[real], want.view(np.uint16)[real])
