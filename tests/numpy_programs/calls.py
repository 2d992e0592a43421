"""One call per NumPy function that is captured, as Python text over arrays a, b (of one shape), m (square), v (a vector).

Input: nothing; the tables are the input of test_numpy_functions.py, which runs each line on every dtype and layout.
"""

# names of one-operand and two-operand elementwise functions
ONE = (
    "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh "
    "rint deg2rad radians rad2deg degrees floor ceil trunc negative positive absolute abs fabs sign square reciprocal "
    "conjugate conj logical_not invert bitwise_not signbit isnan isinf isfinite isposinf isneginf modf fix sinc "
    "asin acos atan asinh acosh atanh bitwise_invert"
).split()
TWO = (
    "add multiply subtract divide true_divide floor_divide remainder mod fmod maximum minimum fmax fmin logical_and "
    "logical_or logical_xor bitwise_and bitwise_or bitwise_xor left_shift bitwise_left_shift right_shift "
    "bitwise_right_shift arctan2 atan2 copysign hypot logaddexp heaviside nextafter equal not_equal less less_equal "
    "greater greater_equal power pow float_power divmod gcd lcm logaddexp2"
).split()

REDUCTIONS = """
np.sum(a)
np.sum(a, axis=0)
np.sum(a, axis=(0, 1), keepdims=True)
np.sum(a, 1, np.float64)
np.sum(a, axis=-1, initial=3)
a.sum(1)
np.prod(a, axis=1)
a.prod()
np.mean(a)
a.mean(axis=0, keepdims=True)
np.mean(a, dtype=np.float64)
np.var(a, axis=0)
a.var(ddof=1)
np.std(a, 1)
a.std()
np.max(a, axis=1)
np.amax(a)
a.max(0, keepdims=True)
np.max(a, initial=100)
np.min(a, axis=1)
np.amin(a)
a.min()
np.ptp(a, axis=0)
np.any(a, axis=1)
a.any()
np.all(a)
a.all(axis=0)
np.count_nonzero(a)
np.count_nonzero(a, axis=0)
np.argmax(a)
a.argmax(axis=0)
np.argmin(a, axis=1, keepdims=True)
a.argmin()
np.nansum(a, axis=0)
np.nanprod(a, axis=1)
np.nanmean(a, axis=0)
np.cumsum(a)
a.cumsum(axis=1)
np.cumprod(a, axis=0)
a.cumprod()
np.diff(a)
np.diff(a, n=2, axis=0)
np.average(a)
np.average(a, axis=1, weights=b[0])
np.trace(a)
a.trace(1)
np.median(a)
np.median(a, axis=1)
np.median(a, axis=0, keepdims=True)
np.quantile(a, 0.25)
np.quantile(a, [0.1, 0.5, 1.0], axis=1)
np.percentile(a, 75, axis=0)
np.percentile(a, 33.3, keepdims=True)
np.corrcoef(a)
np.gradient(a)
np.gradient(v, 0.5)
np.gradient(a, axis=1)
np.polyval([1, 2, 3], a)
np.polyval(v, a)
np.nanmax(a, axis=0)
np.nanmin(np.where(a > 1, np.nan, a), axis=1)
np.nanvar(np.where(a > 1, np.nan, a), axis=1)
np.nanstd(a, ddof=1)
np.linalg.norm(a)
np.linalg.norm(a, axis=1)
np.linalg.norm(a, 1, axis=0)
np.linalg.norm(a, np.inf, axis=0, keepdims=True)
np.linalg.norm(a, -np.inf, 1)
np.linalg.norm(a, 0, axis=1)
np.linalg.norm(a, "fro")
np.linalg.norm(a, 1)
np.linalg.norm(a, 3, axis=1)
np.linalg.norm(v)
"""

ELEMENTWISE = """
a + 2
2 - a
a * 1.5
1 / (a + 1)
a // 2
a % 3
a ** 2
a ** 3
a ** 0.5
2.0 ** a
-a
+a
abs(a)
~a
a & b
a | 1
a ^ b
a << 1
a >> 1
divmod(a, 3)
a < 2
a >= b
a == 1
a != b
np.where(a > b, a, b)
np.where(a > 1, a, 0)
np.where(a, 1, 0.5)
np.where(a > 1, 1, 2)
np.clip(a, 0, 2)
np.clip(a, None, 1)
a.clip(1, 2)
a.clip(min=1)
np.clip(a, b, 3)
np.round(a)
np.round(a, 1)
a.round(2)
np.around(a, -1)
np.nan_to_num(a)
np.isclose(a, b)
np.isclose(a, b, rtol=0.1, equal_nan=True)
np.add(a, b, dtype=np.float64)
np.multiply(a, True)
np.maximum(a, 1)
np.select([a > 2, a > 1], [a, b], 7)
np.choose(np.abs(a).astype(np.int64) % 2, [a, b])
np.float32(2) * a
a * np.int64(3)
a + np.float64(0.5)
np.add(1, 2) + a
"""

CREATION = """
np.zeros(3)
np.zeros((2, 3), dtype=np.float32)
np.ones((2, 2), int)
np.full((2, 3), 7)
np.full(3, 1.5, dtype="float32")
np.full((2, 2), a[0, 0])
np.zeros_like(a)
np.ones_like(a, dtype=bool)
np.ones_like(a)
np.full_like(a, 3)
np.array([1, 2, 3])
np.array([[1.0, 2], [3, 4]])
np.array([a[0, 0], a[1, 1]])
np.array([a[0, 0], 2.0, 3])
np.array(a)
np.array(a, dtype=np.float64, ndmin=3)
np.asarray(a, dtype=np.float32)
np.asarray([1, 2.5])
np.ascontiguousarray(a)
np.copy(a)
a.copy()
np.arange(5)
np.arange(2, 11, 3)
np.arange(5, 0, -2)
np.arange(0.0, 1.0, 0.3)
np.arange(4, dtype=np.float32)
np.linspace(0, 1, 5)
np.linspace(2.0, 3.0, 7, endpoint=False)
np.linspace(0, 10, 4, dtype=int)
np.linspace(1, 1, 3)
np.linspace(0, 1, 1)
np.logspace(0, 2, 3)
np.eye(3)
np.eye(2, 4, k=1, dtype=int)
np.identity(2)
np.tri(3, 4, 1)
np.vander(v, 3)
np.vander(v, increasing=True)
np.meshgrid(v, v[:2])
np.meshgrid(v, v[:2], indexing="ij")
a.astype(np.float32)
a.astype(int)
a.astype(bool)
a.astype("float64")
a.astype(a.dtype, copy=False)
np.dtype("float32") == a.dtype
a.dtype == np.float32
np.zeros(a.shape, a.dtype)
"""

SHAPES = """
np.reshape(a, (4, 3))
a.reshape(-1)
a.reshape(2, -1)
a.reshape((6, 2))
np.ravel(a)
a.flatten()
a.T
np.transpose(a)
a.transpose(1, 0)
np.transpose(a, (1, 0))
np.permute_dims(a, (1, 0))
a.mT
np.matrix_transpose(a)
np.swapaxes(a, 0, 1)
a.swapaxes(0, 1)
np.moveaxis(np.reshape(a, (3, 2, 2)), 0, -1)
np.rollaxis(np.reshape(a, (3, 2, 2)), 2)
np.squeeze(a[:1])
a[:, :1].squeeze(1)
np.expand_dims(a, 1)
np.expand_dims(a, (0, 3))
np.atleast_1d(a[0, 0])
np.atleast_2d(v)
np.atleast_3d(a)
np.broadcast_to(v, (3, 4))
np.broadcast_arrays(a, v)
np.flip(a)
np.flip(a, 1)
np.flipud(a)
np.fliplr(a)
np.rot90(a)
np.rot90(a, 2)
np.rot90(a, -1)
np.roll(a, 2)
np.roll(a, -1, axis=1)
np.roll(a, (1, 2), axis=(0, 1))
np.tile(v, 2)
np.tile(a, (2, 1, 2))
np.repeat(a, 2)
a.repeat(3, axis=1)
np.pad(a, 1)
np.pad(a, ((1, 0), (2, 3)), constant_values=5)
np.pad(a, 2, mode="edge")
np.pad(a, 2, mode="reflect")
np.pad(a, ((2, 1), (0, 2)), mode="symmetric")
np.pad(a, 1, "wrap")
np.real(a)
a.real
np.tril(a)
np.triu(a, 1)
np.tril(m, -1)
np.diagonal(a)
a.diagonal(1)
np.diag(v)
np.diag(v, 1)
np.diag(v, -2)
np.diag(a)
np.concatenate([a, b])
np.concatenate((a, b), axis=1)
np.concatenate([a, b], axis=None)
np.concat([a, b], axis=-1)
np.concatenate([a, b.astype(np.float64)])
np.stack([a, b])
np.stack((a, b), axis=-1)
np.vstack([a, v])
np.hstack([a, b])
np.hstack([v, v])
np.dstack([a, b])
np.column_stack([v, v])
np.append(a, v)
np.append(a, b, axis=0)
np.split(a, 3)
np.split(a, [1, 2], axis=1)
np.array_split(a, 2)
np.hsplit(a, 2)
np.vsplit(a, 3)
len(a), a.ndim, a.size, a.shape, a.itemsize, a.nbytes
np.shape(a), np.ndim(a), np.size(a)
"""

INDEXING = """
a[0]
a[-1, 2]
a[1:]
a[:, 1]
a[::2, 1:3]
a[..., 0]
a[None]
a[:, None, 1]
a[::-1]
a[1, ::-1]
a[2:0:-1, ::-2]
a[np.newaxis, ..., np.newaxis]
a[()]
a[...]
a[[0, 2]]
a[[0, -1], [1, 2]]
a[:, [1, 0]]
a[np.array([0, 1, 1])]
a[np.array([[0, 1], [2, 0]])]
a[1, [0, 2]]
a[[0, 1], :, None]
np.take(a, [0, 3, 5])
np.take(a, [0, 2], axis=1)
a.take(1, axis=0)
np.take_along_axis(a, np.argmax(a, axis=1, keepdims=True), axis=1)
np.take_along_axis(a, np.argsort(a, axis=0, kind="stable"), axis=0)
[row.sum() for row in a]
np.argsort(a, axis=0)
[x * 2 for x in a.flat]
a[np.argmax(a[:, 0])]
a[np.ix_([0, 2], [1, 3])]
a[np.s_[1:, 0]]
np.sort(a)
np.sort(a, axis=0)
np.sort(a, axis=None)
np.argsort(a, kind="stable")
a.argsort(axis=0, kind="stable")
np.nonzero(a)
a.nonzero()
np.isin(a, [1, 2])
np.isin(a, v, invert=True)
np.searchsorted(np.arange(5), np.array([0, 3, 9]))
np.searchsorted(np.arange(5), np.array([0, 3, 9]), side="right")
"""

PRODUCTS = """
a @ b.T
m @ v
v @ m
v @ v
np.matmul(a, m)
np.dot(a, m)
a.dot(v)
np.dot(v, v)
np.dot(a, 2)
np.vdot(a, b)
np.inner(a, b)
np.inner(v, v)
np.outer(v, v)
np.tensordot(a, b)
np.tensordot(a, m, axes=1)
np.tensordot(a, b, axes=([0], [0]))
np.kron(m, v)
np.einsum("ij,kj->ik", a, b)
np.einsum("ij->j", a)
np.einsum("ii", m)
np.cross(a[:, :3], b[:, :3])
np.linalg.matrix_power(m, 3)
np.linalg.matrix_power(m, 0)
np.linalg.trace(m)
np.cov(a)
np.cov(a, rowvar=False, bias=True)
np.linalg.inv(m)
np.linalg.det(m)
np.linalg.solve(m, v)
np.linalg.solve(m, m)
np.trapezoid(v)
np.trapezoid(a, dx=0.5, axis=0)
np.trapezoid(a, np.array([0.0, 1, 4, 5]))
"""

FAMILIES = {
    "elementwise": [
        *(f"np.{f}(a)" for f in ONE),
        *(f"np.{f}(a, b)" for f in TWO),
        *ELEMENTWISE.strip().splitlines(),
    ],
    "reductions": REDUCTIONS.strip().splitlines(),
    "creation": CREATION.strip().splitlines(),
    "shapes": SHAPES.strip().splitlines(),
    "indexing": INDEXING.strip().splitlines(),
    "products": PRODUCTS.strip().splitlines(),
}
