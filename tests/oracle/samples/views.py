"""Views and movements of elements: shapes, orders, joining, splitting, padding, triangles.

Input: none. No arithmetic: every dtype, and results equal to the last bit. An invalid sample says what torch refuses.
"""

import numpy as np

from tests.oracle.spec import ALL, I, Invalid, S, T, V, declaring, internal, refuses

DIM = Invalid(S(T(2, 3), 5), IndexError, "Dimension out of range")


moves = declaring(dtypes=ALL, units=1)


# ---- shapes ----------------------------------------------------------------------------------------------------

_SHAPES = (
    S(T(2, 6), (3, 4)),
    S(T(2, 6), (-1,)),
    S(T(), (1, 1)),
    S(T(0, 3), (3, 0)),
    S(T(2, 3, 4), (2, -1, 2)),
)
moves(
    "reshape",
    np.reshape,
    *_SHAPES,
    invalid=refuses(RuntimeError, "is invalid for input of size", T(2, 3), (4,)),
)
moves("view", np.reshape, *_SHAPES, invalid=refuses(RuntimeError, "is invalid for input of size", T(2, 3), (4,)), torch="Tensor.view",
      may_refuse=("view size is not compatible",))  # fmt: skip
moves("permute", np.transpose, S(T(2, 3, 4), (2, 0, 1)), S(T(2, 3), (-1, 0)), S(T(), ()), S(T(0, 3), (1, 0)),
      invalid=refuses(RuntimeError, "", T(2, 3), (0, 0)))  # fmt: skip
_SWAPS = (S(T(2, 3, 4), 0, 2), S(T(2, 3), -1, 0), S(T(0, 3), 0, 1))
for _name in ("transpose", "swapaxes", "swapdims"):
    moves(_name, np.swapaxes, *_SWAPS, invalid=refuses(IndexError, "Dimension out of range", T(2, 3), 0, 5))
for _name in ("movedim", "moveaxis"):
    moves(_name, np.moveaxis, S(T(2, 3, 4), 0, 2), S(T(2, 3, 4), (0, 1), (2, 0)), S(T(2, 3), -1, 0), S(T(0, 3), 0, 1),
          invalid=refuses(IndexError, "Dimension out of range", T(2, 3), 0, 5))  # fmt: skip
moves(
    "t",
    np.transpose,
    S(T(2, 3)),
    S(T(3)),
    S(T()),
    invalid=refuses(RuntimeError, "expects a tensor with <= 2 dim", T(2, 3, 4)),
)
moves(
    "adjoint",
    lambda x: np.swapaxes(x, -1, -2),
    S(T(2, 3)),
    S(T(2, 3, 4)),
    S(T(0, 3)),
    invalid=refuses(RuntimeError, "", T(3)),
)
_SIZES = (S(T(3, 1), (3, 4)), S(T(3), (2, 3)), S(T(3, 1), (-1, 2)), S(T(), (2, 2)), S(T(1, 3), (0, 3)))


def expanded(x, size):
    return np.broadcast_to(x, [x.shape[i - len(size)] if s == -1 else s for i, s in enumerate(size)])


moves(
    "expand",
    expanded,
    *_SIZES,
    invalid=refuses(RuntimeError, "expanded size", T(3), (4,)),
    torch="Tensor.expand",
)
moves("broadcast_to", expanded, *_SIZES, invalid=refuses(RuntimeError, "expanded size", T(3), (4,)))
moves(
    "unsqueeze",
    np.expand_dims,
    S(T(2, 3), 0),
    S(T(2, 3), -1),
    S(T(), 0),
    S(T(0, 3), 1),
    invalid=refuses(IndexError, "Dimension out of range", T(2), 3),
)


def squeeze(x, dim=None):
    dims = (
        range(x.ndim)
        if dim is None
        else [d % max(x.ndim, 1) for d in ((dim,) if isinstance(dim, int) else dim)]
    )
    return x.reshape([s for i, s in enumerate(x.shape) if i not in dims or s != 1])


moves(
    "squeeze",
    squeeze,
    S(T(2, 1, 3, 1)),
    S(T(2, 1, 3), 1),
    S(T(2, 1, 3), 0),
    S(T(1, 2, 1), (0, 2)),
    S(T()),
    S(T(0, 1)),
    invalid=DIM,
)
moves("flatten", lambda x, a=0, b=-1: x.reshape(*x.shape[: a % x.ndim], -1, *x.shape[b % x.ndim + 1 :]) if x.size and x.ndim else x.reshape(-1),
      S(T(2, 3, 4)), S(T(2, 3, 4), 1), S(T(2, 3, 4), 0, 1), S(T()), S(T(0, 3)), invalid=refuses(RuntimeError, "start_dim cannot come after", T(2, 3), 1, 0))  # fmt: skip
moves("ravel", np.ravel, S(T(2, 3, 4)), S(T()), S(T(0, 3)), invalid=refuses(TypeError, "", "text"))
moves("unflatten", lambda x, d, sizes: x.reshape(*x.shape[: d % x.ndim], *sizes, *x.shape[d % x.ndim + 1 :]), S(T(2, 12), 1, (3, 4)), S(T(12), 0, (2, 6)),
      S(T(2, 4, 3), -2, (2, 2)), invalid=refuses(RuntimeError, "", T(2, 6), 1, (4, 4)))  # fmt: skip
for _name, _rank in (("atleast_1d", 1), ("atleast_2d", 2), ("atleast_3d", 3)):
    moves(
        _name,
        getattr(np, _name),
        S(T()),
        S(T(3)),
        S(T(2, 3)),
        S(T(2, 1, 3)),
        invalid=refuses(TypeError, "", "text"),
    )
moves(
    "expand_as",
    lambda x, y: np.broadcast_to(x, y.shape),
    S(T(3, 1), T(3, 4)),
    S(T(), T(2)),
    torch="Tensor.expand_as",
    invalid=refuses(RuntimeError, "expanded size", T(3), T(4)),
)
moves(
    "view_as",
    lambda x, y: x.reshape(y.shape),
    S(T(2, 6), T(3, 4)),
    S(T(0, 3), T(0)),
    torch="Tensor.view_as",
    may_refuse=("view size is not compatible",),
    invalid=refuses(RuntimeError, "invalid for input", T(3), T(4)),
)
moves(
    "reshape_as",
    lambda x, y: x.reshape(y.shape),
    S(T(2, 6), T(3, 4)),
    S(T(0, 3), T(0)),
    torch="Tensor.reshape_as",
    invalid=refuses(RuntimeError, "invalid for input", T(3), T(4)),
)


def as_strided(x, size, stride, offset=0):
    flat = np.ascontiguousarray(x).reshape(-1)
    places = sum(
        (
            np.arange(n).reshape([-1 if i == d else 1 for i in range(len(size))]) * s
            for d, (n, s) in enumerate(zip(size, stride))
        ),
        np.array(offset),
    )
    return flat[np.broadcast_to(places, size)]


moves("as_strided", as_strided, S(T(12), (3, 4), (4, 1)), S(T(12), (2, 3), (1, 2), 3), S(T(12), (5, 4), (2, 1)),
      layouts=("contiguous", "offset"), invalid=refuses(RuntimeError, "out of bounds", T(6), (3, 4), (4, 1)))  # fmt: skip

# ---- parts -----------------------------------------------------------------------------------------------------

moves("narrow", lambda x, d, a, n: np.take(x, range(a % max(x.shape[d], 1), a % max(x.shape[d], 1) + n), d), S(T(3, 5), 1, 1, 3), S(T(3, 5), 0, -2, 1),
      S(T(3, 5), 1, 2, 0), invalid=refuses(RuntimeError, "exceeds dimension size", T(3), 0, 2, 4))  # fmt: skip
moves(
    "select",
    lambda x, d, i: np.take(x, i, d),
    S(T(3, 5), 1, 2),
    S(T(3, 5), 0, -1),
    S(T(2, 3, 4), -1, 0),
    invalid=refuses(IndexError, "", T(3, 5), 0, 3),
)
moves(
    "diagonal",
    lambda x, *a, **k: np.diagonal(x, *a, **k),
    S(T(3, 4)),
    S(T(3, 4), 1),
    S(T(2, 3, 4), -1, 1, 2),
    S(T(4, 3), 5),
    invalid=refuses(IndexError, "Dimension out of range", T(3)),
)
moves(
    "diag",
    np.diag,
    S(T(3)),
    S(T(3, 4), 1),
    S(T(2), -1),
    S(T(3, 3)),
    invalid=refuses(RuntimeError, "", T(2, 2, 2)),
)


def diag_embed(x, offset=0, dim1=-2, dim2=-1):
    n, rank = x.shape[-1] + abs(offset), x.ndim + 1
    out = np.zeros((*x.shape[:-1], n, n), x.dtype)
    i = np.arange(x.shape[-1])
    out[..., i + max(-offset, 0), i + max(offset, 0)] = x
    return np.moveaxis(out, (-2, -1), (dim1 % rank, dim2 % rank))


moves(
    "diag_embed",
    diag_embed,
    S(T(2, 3)),
    S(T(3), 1),
    S(T(2, 3), -1, 0, 2),
    invalid=refuses(IndexError, "Dimension out of range", T(3), 0, 0, 4),
)
moves("unfold", lambda x, d, n, step: np.moveaxis(np.lib.stride_tricks.sliding_window_view(x, n, d), -1, -1)[tuple([slice(None)] * (d % x.ndim) + [slice(None, None, step)])],
      S(T(7), 0, 3, 2), S(T(2, 5), 1, 2, 1), S(T(4, 3), 0, 4, 1), torch="Tensor.unfold", invalid=refuses(RuntimeError, "", T(3), 0, 4, 1))  # fmt: skip
moves(
    "tril",
    np.tril,
    S(T(3, 4)),
    S(T(2, 3, 3), 1),
    S(T(3, 4), -1),
    S(T(0, 3)),
    invalid=refuses(RuntimeError, "", T(3)),
)
moves(
    "triu",
    np.triu,
    S(T(3, 4)),
    S(T(2, 3, 3), 1),
    S(T(3, 4), -1),
    S(T(0, 3)),
    invalid=refuses(RuntimeError, "", T(3)),
)


def sections(x, n, dim=0):
    return np.split(x, range(n, x.shape[dim], n) if isinstance(n, int) else np.cumsum(n)[:-1], dim)


moves(
    "split",
    sections,
    S(T(5, 3), 2),
    S(T(3, 5), [1, 4], 1),
    S(T(4, 2), 4),
    S(T(6), 2),
    invalid=refuses(RuntimeError, "split_with_sizes expects", T(5), [1, 2]),
)
moves(
    "chunk",
    lambda x, n, dim=0: sections(x, -(-x.shape[dim] // n), dim) if x.shape[dim] else [x] * n,
    S(T(3, 0), 2, 1),
    S(T(5, 3), 2),
    S(T(3, 6), 4, 1),
    S(T(3), 5),
    invalid=refuses(RuntimeError, "", T(5), 0),
)
moves(
    "tensor_split",
    lambda x, n, dim=0: np.array_split(x, n, dim),
    S(T(5, 3), 2),
    S(T(3, 6), (1, 4), 1),
    S(T(3), 5),
    invalid=refuses(RuntimeError, "", T(5), 0),
)
moves(
    "unbind",
    lambda x, dim=0: [np.take(x, i, dim) for i in range(x.shape[dim])],
    S(T(3, 2)),
    S(T(2, 3), 1),
    S(T(3)),
    invalid=DIM,
)

# ---- joining ---------------------------------------------------------------------------------------------------

moves("cat", np.concatenate, S([T(2, 3), T(1, 3)]), S([T(2, 3), T(2, 1), T(2, 2)], 1), S([T(2, 0), T(2, 3)], -1), S([T(3)], 0),
      invalid=(refuses(RuntimeError, "izes", [T(2, 3), T(2, 2)]), refuses(ValueError, "non-empty list", [])))  # fmt: skip
moves("stack", np.stack, S([T(2, 3), T(2, 3)]), S([T(2, 3), T(2, 3)], 1), S([T(), T(), T()]), S([T(0), T(0)], -1),
      invalid=refuses(RuntimeError, "equal size", [T(2), T(3)]))  # fmt: skip
for _name in ("hstack", "vstack", "dstack", "column_stack"):
    moves(
        _name,
        getattr(np, _name),
        S([T(3), T(3)]),
        S([T(2, 3), T(2, 3)]),
        S([T(2, 1, 2), T(2, 1, 2)]),
        invalid=refuses(RuntimeError, "", [T(2, 3), T(3, 2, 4)]),
    )
moves("broadcast_tensors", lambda xs: np.broadcast_arrays(*xs), S([T(3, 1), T(4)]), S([T(), T(2)]), torch=lambda xs: __import__("torch").broadcast_tensors(*xs),
      invalid=refuses(RuntimeError, "must match", [T(2), T(3)]))  # fmt: skip
moves(
    "repeat",
    np.tile,
    S(T(2, 3), (2, 2)),
    S(T(3), (2, 1, 2)),
    S(T(2), (0,)),
    torch="Tensor.repeat",
    invalid=refuses(RuntimeError, "can not be smaller", T(2, 3), (2,)),
)
moves(
    "tile",
    np.tile,
    S(T(2, 3), (2, 2)),
    S(T(2, 3), (2,)),
    S(T(3), (2, 1, 2)),
    invalid=refuses(TypeError, "", "text", (2,)),
)
moves("repeat_interleave", lambda x, n, dim=None, output_size=None: np.repeat(x, n, dim), S(T(2, 3), 2), S(T(2, 3), 2, 1), S(T(3), V([1, 0, 2], "int64"), 0, output_size=3),
      invalid=refuses(RuntimeError, "", T(3), -1))  # fmt: skip

# ---- orders ----------------------------------------------------------------------------------------------------

moves(
    "flip",
    np.flip,
    S(T(2, 3, 4), (0, 2)),
    S(T(3), (0,)),
    S(T(2, 3), (-1,)),
    S(T(0, 3), (0, 1)),
    invalid=refuses(IndexError, "Dimension out of range", T(3), (1,)),
)
moves("fliplr", np.fliplr, S(T(2, 3)), S(T(2, 3, 4)), invalid=refuses(RuntimeError, "", T(3)))
moves("flipud", np.flipud, S(T(3)), S(T(2, 3)), invalid=refuses(RuntimeError, "", T()))
moves(
    "roll",
    np.roll,
    S(T(2, 3), 2),
    S(T(2, 3), 1, 1),
    S(T(2, 3, 4), (1, -2), (0, 2)),
    S(T(0, 3), 1, 0),
    invalid=refuses(RuntimeError, "", T(2, 3), (1, 2), 0),
)
moves(
    "rot90",
    lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims),
    S(T(2, 3)),
    S(T(2, 3), 2),
    S(T(2, 3, 4), -1, (1, 2)),
    invalid=refuses(RuntimeError, "", T(3)),
)
moves("pixel_shuffle", lambda x, r: x.reshape(*x.shape[:-3], -1, r, r, *x.shape[-2:]).transpose(*range(x.ndim - 3), -5 + x.ndim + 2, *[x.ndim + 2 + i for i in (-2, -4, -1, -3)]).reshape(*x.shape[:-3], x.shape[-3] // r**2, x.shape[-2] * r, x.shape[-1] * r),
      S(T(1, 8, 2, 3), 2), S(T(4, 2, 2), 2), invalid=refuses(RuntimeError, "", T(1, 3, 2, 2), 2))  # fmt: skip
moves("pixel_unshuffle", lambda x, r: x.reshape(*x.shape[:-2], x.shape[-2] // r, r, x.shape[-1] // r, r).transpose(*range(x.ndim - 2), *[x.ndim + 2 + i for i in (-3, -1, -4, -2)]).reshape(*x.shape[:-3], -1, x.shape[-2] // r, x.shape[-1] // r),
      S(T(1, 2, 4, 6), 2), S(T(1, 2, 2), 2), aliasing="where the kernel covers all of it nothing has to move: then it is a view here, a copy in torch",
    invalid=refuses(RuntimeError, "", T(1, 1, 3, 2), 2))  # fmt: skip
moves("upsample_nearest", lambda x, s: np.repeat(np.repeat(x, s, -1), s, -2), S(T(1, 2, 2, 3), 2), torch=lambda x, s: __import__("torch").nn.functional.interpolate(x, scale_factor=s),
      dtypes=("float32", "float64", "uint8"), invalid=())  # fmt: skip


def pad(x, pad, mode="constant", value=None):
    widths = [(0, 0)] * (x.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -2, -2)]
    crops = tuple(slice(max(-a, 0), s - max(-b, 0)) for (a, b), s in zip(widths, x.shape))
    widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    words = {"constant_values": value or 0} if mode == "constant" else {}
    return np.pad(x[crops], widths, {"replicate": "edge", "circular": "wrap"}.get(mode, mode), **words)


moves("pad", pad, S(T(2, 3), (1, 2)), S(T(2, 3), (1, 0, 0, 2), value=1), S(T(2, 3), (-1, 1)), S(T(1, 2, 4), (2, 1), "reflect"), S(T(1, 2, 4), (2, 3), "replicate"),
      S(T(1, 2, 4), (2, 1), "circular"), S(T(1, 2, 4), (2, -1), "circular"), S(T(1, 2, 4), (-1, 2), "circular"),
      S(T(1, 2, 3, 4), (1, 2, 1, 1), "reflect"), dtypes=("float32", "float64", "int64", "float16", "bfloat16"),
      invalid=(refuses(RuntimeError, "", T(1, 2, 3), (3, 3), "reflect"), refuses(RuntimeError, "", T(2), (1, 1, 1, 1))))  # fmt: skip

# ---- the same elements -----------------------------------------------------------------------------------------

moves("clone", np.copy, S(T(2, 3)), S(T()), S(T(0, 3)), invalid=refuses(TypeError, "", "text"))
moves(
    "contiguous",
    np.copy,
    S(T(2, 3)),
    S(T()),
    S(T(0, 3)),
    torch="Tensor.contiguous",
    invalid=refuses(TypeError, "", "text"),
)
moves(
    "detach",
    np.copy,
    S(T(2, 3)),
    S(T()),
    S(T(0, 3)),
    torch="Tensor.detach",
    invalid=refuses(TypeError, "", "text"),
)


def meshgrid(*xs, indexing="ij"):
    return np.meshgrid(*[np.atleast_1d(x) for x in xs], indexing=indexing)


moves(
    "meshgrid",
    meshgrid,
    S(T(3), T(4)),
    S(T(3), T(2), T(4), indexing="xy"),
    S(T(), T(2)),
    invalid=refuses(RuntimeError, "", T(2, 2), T(3)),
)
moves(
    "cartesian_prod",
    lambda *xs: np.stack([g.ravel() for g in np.meshgrid(*xs, indexing="ij")], 1),
    S(T(3), T(2)),
    S(T(2), T(0)),
    invalid=refuses(RuntimeError, "", T(2, 2), T(3)),
)
internal(grid_of="meshgrid")
_ = I
