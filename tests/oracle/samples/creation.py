"""Tensors from nothing: filled, counted, random; and what is written over a tensor whatever it held.

Input: none. Draws have no reference: their bits and distributions are tested in stage0_eager/tests/test_stage0_random.py
and test_stage0_distributions.py; here their shapes, dtypes, metas, compiled forms and refusals.
"""

import numpy as np

import cutaway as ct
from tests.oracle.spec import ALL, FLOATS, NUMBERS, WIDE, S, T, V, declaring, internal, refuses

BITS = {
    "NumPy": "random: see stage0_eager/tests/test_stage0_random.py",
    "torch": "random: other bits than torch's",
    "vmap": "random: each call draws its own",
}


makes = declaring(dtypes=("float32",), edges=False, layouts=("contiguous",))


makes(
    "full",
    lambda size, value, dtype=None: np.full(size, value),
    S((2, 3), 1.5),
    S((), 7),
    S((0, 3), True),
    S((2,), 3, dtype=ct.float64),
    S((2,), V(7, "int64")),
    invalid=refuses(RuntimeError, "", (-1,), 1.0),
)
makes(
    "zeros",
    lambda *s, dtype=None: np.zeros(s),
    S(2, 3),
    S(0),
    S(3, dtype=ct.int64),
    invalid=refuses(RuntimeError, "", -1),
)
makes(
    "ones",
    lambda *s, dtype=None: np.ones(s),
    S(2, 3),
    S(0),
    S(3, dtype=ct.bool),
    invalid=refuses(RuntimeError, "", -1),
)
makes(
    "arange",
    lambda *a, dtype=None: np.arange(*a),
    S(5),
    S(1, 7, 2),
    S(0, 1, 0.25),
    S(5, 0, -1),
    S(3, dtype=ct.float64),
    invalid=refuses(RuntimeError, "", 0, 5, 0),
)
makes(
    "linspace",
    lambda a, b, n, dtype=None: np.linspace(a, b, n),
    S(0, 1, 5),
    S(-2, 2, 1),
    S(0, 10, 6, dtype=ct.float64),
    S(1, 0, 0),
    units=2,
    scale=10,
    invalid=refuses(RuntimeError, "non-negative", 0, 1, -1),
)
makes(
    "logspace",
    lambda a, b, n, base=10.0, dtype=None: np.logspace(a, b, n, base=base),
    S(0, 1, 5),
    S(-2, 2, 4, 2.0),
    S(0, 1, 3, dtype=ct.float64),
    units=16,
    invalid=refuses(RuntimeError, "non-negative", 0, 1, -1),
)
makes(
    "eye",
    lambda n, m=None, dtype=None: np.eye(n, m),
    S(3),
    S(2, 4),
    S(0),
    S(3, dtype=ct.int64),
    invalid=refuses(RuntimeError, "", -1),
)
makes(
    "full_like",
    lambda x, v: np.full(x.shape, v),
    S(T(2, 3), 2),
    dtypes=ALL,
    invalid=refuses(TypeError, "", "text", 1),
)
makes(
    "zeros_like",
    lambda x: np.zeros(x.shape),
    S(T(2, 3)),
    S(T()),
    dtypes=ALL,
    invalid=refuses(TypeError, "", "text"),
)
makes(
    "ones_like",
    lambda x: np.ones(x.shape),
    S(T(2, 3)),
    S(T()),
    dtypes=ALL,
    invalid=refuses(TypeError, "", "text"),
)
makes(
    "tril_indices",
    lambda r, c, o=0: np.stack(np.tril_indices(r, o, c)),
    S(3, 4),
    S(3, 3, -1),
    exceptions={
        "meta": "it runs eagerly: sizes are numbers",
        "aot_eager": "it runs eagerly",
        "stage 2": "it runs eagerly",
    },
)
makes(
    "triu_indices",
    lambda r, c, o=0: np.stack(np.triu_indices(r, o, c)),
    S(3, 4),
    S(3, 3, -1),
    exceptions={
        "meta": "it runs eagerly: sizes are numbers",
        "aot_eager": "it runs eagerly",
        "stage 2": "it runs eagerly",
    },
)
makes(
    "vander",
    lambda x, N=None, increasing=False: np.vander(x, N, increasing),
    S(T(3)),
    S(T(3), 2, True),
    S(T(4), 5),
    dtypes=WIDE,
    units=16,
    exceptions={"torch's derivative": "torch overwrites what its own derivative needs"},
    invalid=refuses(RuntimeError, "one-dimensional", T(2, 2)),
)
internal(full_of_shape="full", arange_between="arange", in_layout_of="dropout")

# ---- written over ----------------------------------------------------------------------------------------------

_OVER = {"layouts": ("contiguous", "transposed", "permuted", "strided", "backwards", "offset"), "edges": True}
makes(
    "copy_",
    lambda x, y: np.broadcast_to(y, x.shape),
    S(T(3, 4), T(3, 4)),
    S(T(3, 4), T(4)),
    S(T(3, 4), T(dtype="float64")),
    S(T(0, 3), T(3)),
    dtypes=ALL,
    in_place_of="copy_",
    invalid=refuses(RuntimeError, "", T(3), T(4)),
    **_OVER,
)
makes(
    "zero_",
    np.zeros_like,
    S(T(3, 4)),
    S(T()),
    S(T(0, 3)),
    dtypes=ALL,
    in_place_of="zero_",
    invalid=refuses(TypeError, "", "text"),
    **_OVER,
)
makes(
    "fill_",
    lambda x, v: np.full(x.shape, v),
    S(T(3, 4), 2),
    S(T(3, 4), T(dtype="float64")),
    dtypes=ALL,
    in_place_of="fill_",
    invalid=refuses(RuntimeError, "0-dimension", T(3), T(2)),
    **_OVER,
)

# ---- random ----------------------------------------------------------------------------------------------------

for _name in ("rand", "randn"):
    makes(
        _name,
        None,
        S(2, 3),
        S(0),
        S(4, dtype=ct.float64),
        exceptions=BITS,
        invalid=refuses(RuntimeError, "", -1),
    )
makes(
    "randint",
    None,
    S(0, 5, (2, 3)),
    S(9, (4,)),
    exceptions=BITS,
    invalid=refuses(RuntimeError, "", 5, 5, (2,)),
)
makes(
    "randperm",
    None,
    S(6),
    S(0),
    exceptions={
        **BITS,
        "meta": "it runs eagerly",
        "aot_eager": "it runs eagerly",
        "stage 2": "it runs eagerly",
    },
    invalid=refuses(RuntimeError, "", -1),
)
makes("rand_like", None, S(T(2, 3)), exceptions=BITS, invalid=refuses(TypeError, "", "text"))
makes("randn_like", None, S(T(2, 3)), exceptions=BITS, invalid=refuses(TypeError, "", "text"))
makes("randint_like", None, S(T(2, 3), 0, 5), exceptions=BITS, invalid=refuses(RuntimeError, "", T(2), 5, 5))
makes(
    "normal",
    None,
    S(T(2, 3), 2.0),
    S(T(2, 3), T(2, 3, low=0.5)),
    exceptions=BITS,
    invalid=refuses(RuntimeError, "", T(2), -1.0),
)
makes(
    "bernoulli",
    None,
    S(T(2, 3, low=0, high=1)),
    S(T(2, 3), 0.5),
    exceptions=BITS,
    invalid=refuses(RuntimeError, "", T(3), 1.5),
)
makes(
    "multinomial",
    None,
    S(T(4, low=0.1, high=1), 2),
    S(T(2, 4, low=0.1, high=1), 6, True),
    exceptions=BITS,
    invalid=refuses(RuntimeError, "", T(3, low=0.1), 5),
)
makes("dropout", None, S(T(3, 4), 0.5), S(T(3, 4), 0.3, False), exceptions={**BITS, "torch's derivative": BITS["torch"], "derivative": "each call draws its own mask", "second derivative": "each call draws its own mask"},
      dtypes=FLOATS, invalid=refuses(ValueError, "between 0 and 1", T(3), 1.5))  # fmt: skip
_DRAWN = {
    "uniform_": (),
    "normal_": (),
    "log_normal_": (),
    "exponential_": (),
    "cauchy_": (),
    "geometric_": (0.4,),
    "bernoulli_": (),
    "random_": (2, 9),
}
_WRONG = {
    "uniform_": (2.0, 1.0),
    "normal_": (0.0, -1.0),
    "log_normal_": (0.0, -1.0),
    "exponential_": (-1.0,),
    "cauchy_": (0.0, -1.0),
    "geometric_": (1.5,),
    "bernoulli_": (1.5,),
    "random_": (5, 5),
}
for _name, _args in _DRAWN.items():
    makes(
        _name,
        None,
        S(T(3, 4), *_args),
        S(T(0, 3), *_args),
        dtypes=FLOATS,
        in_place_of=_name,
        exceptions={**BITS, **dict.fromkeys(("derivative", "torch's derivative"), "a draw has none")},
        invalid=refuses(RuntimeError, "", T(3), *_WRONG[_name]),
    )
internal(rand_of_shape="rand", randn_of_shape="randn", randint_of_shape="randint", normal_of="normal")
internal(assign_data="Tensor.data", overwrite="Tensor.data")
internal(
    attention_heads="nn.MultiheadAttention", project_packed="nn.MultiheadAttention", to_device="Tensor.to"
)
_ = NUMBERS


def filled_diagonal(x, value, wrap=False):
    out = np.array(x)
    np.fill_diagonal(out, value, wrap)
    return out


makes(
    "fill_diagonal_",
    filled_diagonal,
    S(T(3, 4), 2),
    S(T(7, 2), 1, True),
    S(T(3, 3, 3), 5),
    dtypes=ALL,
    in_place_of="fill_diagonal_",
    invalid=refuses(RuntimeError, "dimensions must larger", T(3), 1),
    layouts=("contiguous", "offset"),
)
