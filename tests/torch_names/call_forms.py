"""The samples of the page of names: operands, and for each kind of name the calls that are tried with them.

Input: nothing. A name's samples are the first calls that torch accepts, written as Python on `torch` and the operands
below; a name that needs a call of its own has it in OWN. name_samples.py runs them in torch and here.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_DRAW = np.random.default_rng(0)


def _floats(*shape: int) -> np.ndarray:
    return _DRAW.uniform(0.1, 0.9, shape).astype(np.float32)


_SQUARE = _floats(3, 3)
_INTS = _DRAW.integers(0, 3, (3, 4))

# Made anew for every call, so that a call that writes does not change the next one.
OPERANDS: dict[str, np.ndarray] = {
    "x": _floats(3, 4), "y": _floats(3, 4), "z": _floats(3, 4),
    "m": _SQUARE @ _SQUARE.T + 3 * np.eye(3, dtype=np.float32), "w": _floats(3, 3), "v": _floats(4), "u": _floats(3),
    "i": _INTS, "j": _INTS[::-1].copy() + 1, "k": np.array([2, 0]), "b": _INTS > 0, "t": np.array([1, 0, 2]),
    "p": _floats(2, 3, 4), "q": _floats(2, 4, 3), "image": _floats(2, 4, 8, 8), "line": _floats(2, 4, 8),
    "block": _floats(1, 4, 4, 4, 4), "s": np.array(0.5, np.float32),
    "sign": np.where(_INTS > 1, 1, -1).astype(np.float32),
}  # fmt: skip

# How functions are called. Those that give a tensor of numbers stand before those that only show that the name is there.
FUNCTIONS = (
    "(x)", "(x, y)", "(i, j)", "(x, y, z)", "(m)", "(m, w)", "(x, 1)", "(v)", "(v, v)", "(i)", "(b)", "(p, q)", "(x, 0, k)",
    "(x, 0, i)", "(x, 0, i, y)", "(x, 0, k, x[:2])", "([x, y])", "((x, y))", "(x, (2, 6))", "(x, (3, 4))", "(x, 1, 0)",
    "(x, [0])", "(x, [1, 1])", "(x, b)", "(b, x, y)", "(x, b, 0.5)", "(x, 0.5)", "(x, 0.2, 0.6)", "(2, 3)", "((2, 3))",
    "(3)", "(0.0, 1.0, 5)", "(x, t)", "(image)", "(image, 2)", "(line, 2)", "(block, 2)", "(x, i[:, :1])", "(p, 2)",
    "(p, p, p)", "(x, v)", "(x, t, u)", "(u, u, 1)", "(m, u)", "(p, p)", "(u, x, x.t()[:3])", "(torch.float32)",
    "(torch.float32, torch.int64)", "((2, 3), (3, 1))", "(x, (2, 2), (4, 1))", "(x, 1, 2, 1)", "(x, (2, 2))", "()",
    "(1)", "(i, 4)", "(x, 0, 0, 2)", "(x, x[:, 0], 0, 0)", "(x, 2.0, 0, 0.5)",
)  # fmt: skip
METHODS = tuple(f"x.{{name}}{form}" for form in (
    "()", "(y)", "(1)", "(y, z)", "(0)", "(0, k)", "(0, i)", "(0, i, y)", "(0, k, x[:2])", "(b)", "(b, 0.5)", "(0.5)",
    "(0.2, 0.6)", "(v)", "(2, 6)", "(3, 4)", "(1, 0)", "([0])", "(x)", "((2, 2), (4, 1))", "(1, 2, 1)", "(2.0, 0, 0.5)",
    "(0, k, 0.5)", "(y.t())", "(torch.float32)", "(t)", "(b, y)", "(1, 1)", "(0, 0, 2)",
)) + tuple(f"{base}.{{name}}{form}" for base in ("m", "i", "b", "v", "p", "w") for form in (
    "()", "(i)", "(j)", "(1)", "(b)", "(w)", "(v)", "(u)", "(q)", "(p, p)", "(u, u)", "(m, w)", "(w, w)", "(0)",
)) + ("x.{name}", "u.{name}(x, v)", "m.{name}(w, m)")  # fmt: skip
MODULES = tuple(
    f"({made}) <- {given}"
    for made in ("", "4", "4, 5", "2", "4, 5, 3", "4, 4", "2, 4", "2, output_size=4", "0.5", "(8, 8)", "8", "4, 2", "1, 4, 5",
                 "[4]", "4, [2, 3]", "dim=1", "(4, 4)", "4, 5, 2, 4", "0.2, 0.6", "2, 2", "8, 2, 16")
    for given in ("x", "image", "line", "block", "x, y", "x, t", "x, i.float()", "i", "x, y, z", "x, y, sign[:, 0]", "x, sign", "p",
                  "p, p, p", "p, p", "torch.ones(2, 3, 8), torch.ones(2, 3, 8)", "torch.ones(2, 3, 8)",
                  "x, i[:, :2].long()", "x, i - 1", "u, u, sign[:, 0]", "x, x.exp(), y", "x.log(), y")
)  # fmt: skip
OPTIMIZERS = ("()", "(lr=0.01)")

# Names that need a call of their own, or whose first call would only change a setting.
_SETTINGS = {
    "set_num_threads": "(1), torch.get_num_threads()",
    "set_grad_enabled": "(True), torch.is_grad_enabled()",
    "set_default_dtype": "(torch.float32), torch.get_default_dtype()",
    "set_default_device": "('cpu'), torch.zeros(2).device",
    "set_float32_matmul_precision": "('highest'), torch.get_float32_matmul_precision()",
    "use_deterministic_algorithms": "(False), torch.are_deterministic_algorithms_enabled()",
    "set_deterministic_debug_mode": "('default'), torch.get_deterministic_debug_mode()",
    "set_warn_always": "(False), torch.is_warn_always_enabled()",
    "set_printoptions": "(profile='default'), repr(x)",
    "manual_seed": "(3), torch.initial_seed()",
    "seed": "() >= 0, torch.manual_seed(0)",
    "set_rng_state": "(torch.get_rng_state())",
}
OWN: dict[str, tuple[str, ...]] = {
    **{f"torch.{name}": (f"(torch.{name}{call})",) for name, call in _SETTINGS.items()},
    "torch.einsum": ("torch.einsum('ij,kj->ik', x, y)", "torch.einsum('bij,bjk->bik', p, q)"),
    "torch.tensordot": ("torch.tensordot(x, y, dims=2)", "torch.tensordot(p, q, dims=([2], [1]))"),
    "torch.compile": ("torch.compile(lambda a: a.sin() + 1, backend='eager')(x)",),
    "torch.cond": ("torch.cond(s > 0, lambda a: a + 1, lambda a: a - 1, (x,))",),
    "torch.while_loop": ("torch._higher_order_ops.while_loop(lambda a: a.sum() < 30, lambda a: (a + 1,), (x,))",),
    "torch.vmap": ("torch.vmap(torch.dot)(x, y)",),
    "torch.save": ("torch.save(x, io.BytesIO())",),
    "torch.load": ("torch.load((f := io.BytesIO(), torch.save(x, f), f.seek(0))[0])",),
    "torch.tensor": ("torch.tensor([[1, 2], [3, 4]])", "torch.tensor(0.5)", "torch.tensor([True])"),
    "torch.as_tensor": ("torch.as_tensor([1.0, 2.0])", "torch.as_tensor(x)"),
    "torch.asarray": ("torch.asarray([1.0, 2.0])", "torch.asarray(x)", "torch.asarray(x, dtype=torch.float64)"),
    "torch.from_numpy": ("torch.from_numpy(np.arange(6.0))",),
    "torch.frombuffer": ("torch.frombuffer(bytearray(8), dtype=torch.int32)",),
    "torch.nested_compile_region": ("torch.compiler.nested_compile_region(lambda a: a + 1)(x)",),
    "torch.split_with_sizes": ("torch.split_with_sizes(x, [1, 3], 1)",),
    "torch.sym_ite": ("torch.sym_ite(True, 1, 2)",),
    "torch.sym_max": ("torch.sym_max(1, 2.0)", "torch.sym_max(3, 2)"),
    "torch.sym_min": ("torch.sym_min(1, 2.0)", "torch.sym_min(3, 2)"),
    "torch.sym_sum": ("torch.sym_sum([1, 2, 3])",),
    "torch.sym_not": ("torch.sym_not(True)",),
    "torch.sym_int": ("torch.sym_int(2.7)", "torch.sym_int(-2.7)"),
    "torch.sym_float": ("torch.sym_float(2)",),
    "torch.range": ("torch.range(1, 4)", "torch.range(1, 4, 0.5)"),
    "torch.empty": ("torch.empty(2, 3).shape, torch.empty(2, 3).stride()",),
    "torch.empty_strided": ("torch.empty_strided((2, 3), (1, 2)).zero_()",),
    "torch.empty_permuted": ("torch.empty_permuted((2, 3, 4), (0, 2, 1)).zero_()",),
    "torch.empty_like": ("torch.empty_like(x).zero_()",),
    "torch.chain_matmul": ("torch.chain_matmul(w, m, w)",),
    "torch.searchsorted": ("torch.searchsorted(v.sort()[0], v)",),
    "torch.bucketize": ("torch.bucketize(x, v.sort()[0])",),
    "torch.get_rng_state": ("torch.get_rng_state().dtype",),
    "torch.histogramdd": ("torch.histogramdd(x, bins=[2, 2, 2, 2])",),
    "torch.histogram": ("torch.histogram(x, 4)", "torch.histogram(x, v.sort()[0])"),
    "torch.index_reduce": ("torch.index_reduce(x, 0, k, x[:2], 'prod')", "torch.index_reduce(x, 0, k, x[:2], 'mean')",
                           "torch.index_reduce(x, 0, k, x[:2], 'amax', include_self=False)"),
    "torch.as_strided_scatter": ("torch.as_strided_scatter(x, w[:2, :2], (2, 2), (4, 1))",),
    "torch.channel_shuffle": ("torch.channel_shuffle(image, 2)",),
    "torch.nn.functional.native_channel_shuffle": ("torch.nn.functional.native_channel_shuffle(image, 2)",),
    "torch.native_channel_shuffle": ("torch.native_channel_shuffle(image, 2)",),
    "torch.nn.functional.channel_shuffle": ("torch.nn.functional.channel_shuffle(image, 2)",),
    "torch.nonzero_static": ("torch.nonzero_static(b, size=5)", "torch.nonzero_static(b, size=20, fill_value=7)"),
    "torch.fill": ("torch.fill(x, 0.5)",),
    "torch.polygamma": ("torch.polygamma(1, x)",),
    **{f"torch.{home}conv_tbc": (f"torch.{home}conv_tbc(line.permute(2, 0, 1).contiguous(), p.permute(1, 2, 0).contiguous(), u[:2])",)
       for home in ("", "nn.functional.")},
    "torch.lu_solve": ("torch.lu_solve(w, *torch.linalg.lu_factor(m))",),
    "torch.lu_unpack": ("torch.lu_unpack(*torch.linalg.lu_factor(m))",),
    "torch.linalg.lu_solve": tuple(f"torch.linalg.lu_solve(*torch.linalg.lu_factor(w), m, left={left}, adjoint={turned})"
                                for left, turned in ((True, False), (True, True), (False, True))),
    "torch.linalg.ldl_solve": ("torch.linalg.ldl_solve(*torch.linalg.ldl_factor(m), w)",),
    "torch.orgqr": ("torch.orgqr(w, u)",),
    **{f"torch.{name}": (f"torch.{name}(torch.complex(x, y))",) for name in ("imag", "view_as_real", "view_as_real_copy", "is_conj")},
    **{f"torch.view_as_complex{copy}": (f"torch.view_as_complex{copy}(torch.view_as_real(torch.complex(x, y)))",) for copy in ("", "_copy")},
    **{f"torch.linalg.{name}": (f"torch.linalg.{name}(m)", f"torch.linalg.{name}(torch.complex(w, m) @ w)") for name in ("eig", "eigvals")},
    "torch.Tensor.imag": ("torch.complex(x, y).imag",), "torch.Tensor.conj_physical_": ("torch.complex(x, y).conj_physical_()",),
    "torch.Tensor.stft": ("line[0].stft(4, window=torch.ones(4), return_complex=True)",),
    "torch.Tensor.istft": ("line[0].stft(4, window=torch.ones(4), return_complex=True).istft(4, window=torch.ones(4))",),
    "torch.stft": ("torch.view_as_real(torch.stft(line[0], 4, window=torch.ones(4), return_complex=True))",),
    "torch.istft": ("torch.istft(torch.stft(line[0], 4, window=torch.ones(4), return_complex=True), 4, window=torch.ones(4))",),
    "torch.poisson": ("torch.poisson(x)",), "torch.rrelu_": ("torch.rrelu_(x, training=False)",),
    "torch.Tensor.apply_": ("x.apply_(lambda a: a * 2)",), "torch.Tensor.map_": ("x.map_(y, lambda a, c: a * c)",),
    "torch.Tensor.put": ("x.put(k, u[:2])",), "torch.Tensor.put_": ("x.put_(k, u[:2])", "x.put_(k, u[:2], accumulate=True)"),
    "torch.Tensor.index_reduce_": ("x.index_reduce_(0, k, x[:2].clone(), 'prod')", "x.index_reduce_(0, k, x[:2].clone(), 'amin')"),
    "torch.Tensor.as_strided_scatter": ("x.as_strided_scatter(w[:2, :2], (2, 2), (4, 1))",),
    "torch.Tensor.where": ("x.where(b, y)", "x.where(b, 0.0)"),
    "torch.Tensor.nonzero_static": ("b.nonzero_static(size=5)",),
    "torch.Tensor.lu_solve": ("w.lu_solve(*torch.linalg.lu_factor(m))",),
    "torch.Tensor.histogram": ("x.histogram(4)",), "torch.Tensor.polygamma_": ("x.polygamma_(1)",),
    "torch.Tensor.mvlgamma_": ("(x + 2).mvlgamma_(2)",), "torch.Tensor.polygamma": ("x.polygamma(1)",),
    "torch.Tensor.new_empty_strided": ("x.new_empty_strided((2, 3), (1, 2)).zero_()",),
    "torch.Tensor.new_empty": ("x.new_empty((2, 3)).zero_()",), "torch.Tensor.new_full": ("x.new_full((2, 3), 0.5)",),
    "torch.Tensor.backward": ("(x.requires_grad_(), x.sin().sum().backward(), x.grad)[2]",),
    "torch.Tensor.grad": ("(x.requires_grad_(), x.sin().sum().backward())[1], x.grad",),
    "torch.Tensor.register_hook": ("(x.requires_grad_(), x.register_hook(lambda g: g * 2), x.sum().backward(), x.grad)[3]",),
    "torch.Tensor.retain_grad": ("(x.requires_grad_(), a := x * 2, a.retain_grad(), a.sum().backward(), a.grad)[4]",),
    "torch.Tensor.copy_": ("x.copy_(y)",), "torch.Tensor.data_ptr": ("x.data_ptr() > 0, x[1:].data_ptr() - x.data_ptr()",),
    "torch.Tensor.scatter_reduce": ("x.scatter_reduce(0, i, y, 'sum')",), "torch.Tensor.scatter_reduce_": ("x.scatter_reduce_(0, i, y, 'prod')",),
    "torch.scatter_reduce": ("torch.scatter_reduce(x, 0, i, y, 'sum')", "torch.scatter_reduce(x, 0, i, y, 'amax')"),
    "torch.nn.functional.grid_sample": ("torch.nn.functional.grid_sample(image, image[:, :, :, :2] * 2 - 1)",),
    "torch.nn.functional.rrelu_": ("torch.nn.functional.rrelu_(x, training=False)",),
    "torch.nn.functional.feature_alpha_dropout": ("torch.nn.functional.feature_alpha_dropout(image)",
                                                  "torch.nn.functional.feature_alpha_dropout(image, 0.5, True)"),
    "torch.nn.functional.affine_grid": ("torch.nn.functional.affine_grid(p[:, :2, :3], (2, 4, 5, 5))",),
    "torch.nn.functional.interpolate": ("torch.nn.functional.interpolate(image, scale_factor=2)",
                                        "torch.nn.functional.interpolate(image, size=(5, 7), mode='bilinear')"),
    "torch.nn.functional.one_hot": ("torch.nn.functional.one_hot(i, 4)",),
    "torch.nn.functional.embedding": ("torch.nn.functional.embedding(i, x)",),
    "torch.nn.functional.embedding_bag": ("torch.nn.functional.embedding_bag(i, x)",),
    "torch.nn.functional.layer_norm": ("torch.nn.functional.layer_norm(x, (4,))",),
    "torch.nn.functional.rms_norm": ("torch.nn.functional.rms_norm(x, (4,))",),
    "torch.nn.functional.pad": ("torch.nn.functional.pad(x, (1, 2))", "torch.nn.functional.pad(image, (1, 2, 0, 1), mode='reflect')"),
    "torch.nn.functional.ctc_loss": ("torch.nn.functional.ctc_loss(torch.ones(5, 2, 4).log_softmax(2), torch.ones(2, 2).long(), (5, 5), (2, 2))",),
    "torch.nn.CTCLoss": ("torch.nn.CTCLoss()(torch.ones(5, 2, 4).log_softmax(2), torch.ones(2, 2).long(), (5, 5), (2, 2))",),
    "torch.nn.Sequential": ("torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Softmax(1))(x - y)",),
    "torch.nn.ModuleList": ("len(torch.nn.ModuleList([torch.nn.ReLU()])), torch.nn.ModuleList([torch.nn.ReLU()])[0](x - y)",),
    "torch.nn.ModuleDict": ("torch.nn.ModuleDict({'a': torch.nn.ReLU()})['a'](x - y)",),
    "torch.nn.ParameterList": ("torch.nn.ParameterList([x])[0].data",), "torch.nn.ParameterDict": ("torch.nn.ParameterDict({'a': x})['a'].data",),
    "torch.nn.Parameter": ("torch.nn.Parameter(x).data, torch.nn.Parameter(x).requires_grad",),
    **{f"torch.{name}": (f"torch.{name}{call}",) for name, call in {
        "addbmm": "(w, torch.ones(2, 3, 4), q[:, :, :3])", "addmm": "(w, w, m)", "addmv": "(u, w, u)", "addr": "(w, u, u)",
        "baddbmm": "(torch.ones(2, 3, 3), p, q)", "bincount": "(t)", "full": "((2, 3), 0.5)", "permute": "(p, (2, 0, 1))",
        "randint": "(0, 9, (3, 4))", "select_scatter": "(x, u, 1, 0)", "unflatten": "(x, 1, (2, 2))", "linalg.multi_dot": "([w, m, w])",
        "linalg.solve_triangular": "(m, w, upper=True)", "special.polygamma": "(1, x)", "inference_mode": "()(torch.sin)(x)",
        "autocast": "('cpu')(torch.mm)(w, m)", "linalg.pinv": "(x)", "linalg.tensorinv": "(torch.ones(2, 3, 6) + torch.eye(6).reshape(2, 3, 6))",
        "SymInt": ".__name__", "SymFloat": ".__name__", "SymBool": ".__name__", "linalg.LinAlgError": ".__mro__[1].__name__",
        "addcmul": "(x, y, z, value=2)", "addcdiv": "(x, y, z, value=2)",
    }.items()},
    **{f"torch.special.{shifted}{kind}_polynomial_{letter}": tuple(f"torch.special.{shifted}{kind}_polynomial_{letter}{call}"
       for call in ("(x, 5)", "(x, i + 2)", "(0.5, i)"))
       for kind, letters in {"chebyshev": "tuvw", "hermite": "h he", "laguerre": "l", "legendre": "p"}.items()
       for letter in (letters.split() if " " in letters else letters) for shifted in (("", "shifted_") if kind == "chebyshev" else ("",))},
    "torch.nn.functional.adaptive_max_pool1d_with_indices": ("torch.nn.functional.adaptive_max_pool1d_with_indices(line, 2)",),
    "torch.is_nonzero": ("torch.is_nonzero(s), torch.is_nonzero(s * 0)",),
    "torch.Tensor.bernoulli": ("x.bernoulli()",), "torch.Tensor.broadcast_to": ("v.broadcast_to(3, 4)", "v.broadcast_to((3, 4))"),
    "torch.linalg.cholesky_ex": ("torch.linalg.cholesky_ex(m)",),
    **{f"torch.{name}_copy": (f"torch.{name}_copy{call}",) for name, call in {
        "as_strided": "(x, (2, 2), (4, 1))", "diagonal": "(x)", "expand": "(v, (3, 4))", "permute": "(p, (2, 0, 1))", "select": "(x, 1, 2)",
        "split": "(x, 2)", "split_with_sizes": "(x, [1, 3], 1)", "squeeze": "(x[:1])", "t": "(x)", "transpose": "(x, 0, 1)",
        "unbind": "(x)", "unfold": "(x, 1, 2, 1)", "unsqueeze": "(x, 1)", "view": "(x, (2, 6))", "detach": "(x)",
    }.items()},
    "torch.linalg.vander": ("torch.linalg.vander(u)", "torch.linalg.vander(p, N=3)"),
    "torch.linalg.eigh": ("torch.linalg.eigh(m)[0]", "torch.linalg.eigh(m)[1].abs()"),
    **{f"torch.Tensor.{name}": (f"x.{name}{call}",) for name, call in {
        "addcmul": "(y, z, value=2)", "addcdiv": "(y, z, value=2)", "addcmul_": "(y, z, value=2)", "addcdiv_": "(y, z, value=2)",
        "hypot": "(y)", "hypot_": "(y)", "logaddexp": "(y)", "logaddexp2": "(y)", "nextafter": "(y)", "nextafter_": "(y)",
        "diagonal_scatter": "(u)", "view": "(4, 3)", "set_": "(y)",
    }.items()},
    **{f"{home}{name}": (f"{home}{name}{call}",) for home in ("torch.", "torch.nn.functional.") for name, call in {
        "bilinear": "(x, y, torch.ones(2, 4, 4) * 0.5)", "conv1d": "(line, torch.ones(3, 4, 2))", "conv2d": "(image, torch.ones(3, 4, 2, 2), u, padding=1)",
        "conv3d": "(block, torch.ones(3, 4, 2, 2, 2))", "conv_transpose1d": "(line, torch.ones(4, 3, 2), stride=2)",
        "conv_transpose2d": "(image, torch.ones(4, 3, 2, 2), stride=2)", "conv_transpose3d": "(block, torch.ones(4, 3, 2, 2, 2))",
    }.items()},
    **{f"torch.nn.functional.{name}": (f"torch.nn.functional.{name}{call}",) for name, call in {
        "adaptive_avg_pool2d": "(image, 3)", "batch_norm": "(x, v, v, training=False)", "cosine_embedding_loss": "(x, y, sign[:, 0])",
        "dropout2d": "(image, training=False)", "dropout3d": "(block, training=False)", "fold": "(torch.ones(1, 8, 9), (4, 4), 2)",
        "lp_pool2d": "(image, 2, 3)", "lp_pool3d": "(block, 2, 2)", "multilabel_margin_loss": "(x, i - 1)",
        **{f"max_unpool{n}d": f"(*torch.nn.functional.max_pool{n}d({given}, 2, return_indices=True), 2)"
           for n, given in ((1, "line"), (2, "image"), (3, "block"))},
        "upsample_nearest": "(image, scale_factor=2)", "upsample": "(image, scale_factor=2)", "upsample_bilinear": "(image, scale_factor=2)",
    }.items()},
    **{f"torch.nn.{name}": (f"torch.nn.{name}{call}",) for name, call in {
        "Bilinear": "(4, 4, 5) <- x, y", "CosineEmbeddingLoss": "() <- x, y, sign[:, 0]", "Dropout2d": "() <- image", "Dropout3d": "() <- block",
        "EmbeddingBag": "(4, 5) <- i", "Fold": "((4, 4), 2) <- torch.ones(1, 8, 9)", "KLDivLoss": "() <- x.log(), y",
        "MultiLabelMarginLoss": "() <- x, i - 1", "ReflectionPad3d": "(1) <- block", "Unflatten": "(1, (2, 2)) <- x",
        **{f"MaxUnpool{n}d": f"(2) <- *torch.nn.functional.max_pool{n}d({given}, 2, return_indices=True)"
           for n, given in ((1, "line"), (2, "image"), (3, "block"))},
        "TransformerEncoder": "(torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0), 2) <- p",
        "TransformerDecoder": "(torch.nn.TransformerDecoderLayer(4, 2, 8, dropout=0.0), 2) <- p, p",
        "Module": "().training",
    }.items()},
    "torch.optim.Muon": (  # its iteration in bfloat16 makes noise of some percent in both
        "(a := torch.nn.Parameter(m.clone()), o := torch.optim.Muon([a], lr=0.01), (a * a).sum().backward(), o.step(), ((m * 0.999 - a.data) * 100).round())[4]",),
    "torch.optim.LBFGS": ("torch.optim.LBFGS on a (lr=0.1)", "torch.optim.LBFGS on a (max_iter=2, line_search_fn='strong_wolfe')"),
    "torch.optim.Optimizer": ("torch.optim.Optimizer([x], {'lr': 1.0}).param_groups[0]['lr']",),
    "torch.Tensor.addbmm": ("w.addbmm(torch.ones(2, 3, 4), q[:, :, :3])",), "torch.Tensor.addbmm_": ("w.addbmm_(torch.ones(2, 3, 4), q[:, :, :3])",),
    "torch.Tensor.baddbmm": ("torch.ones(2, 3, 3).baddbmm(p, q[:, :, :3])",), "torch.Tensor.baddbmm_": ("torch.ones(2, 3, 3).baddbmm_(p, q[:, :, :3])",),
    "torch.Tensor.bincount": ("t.bincount()", "t.bincount(minlength=5)"), "torch.Tensor.float_power_": ("x.double().float_power_(2)",),
    # an operand that is written to at once gives what the BLAS of the moment gives
    "torch.Tensor.addmm_": ("m.addmm_(m.clone(), w)", "m.addmm_(w, w)", "w.addmm_(m, w.clone())"),
    "torch.Tensor.as_subclass": ("x.as_subclass(torch.Tensor)",),
    "torch.Tensor.index_add_": ("x.index_add_(0, k, x[:2].clone())",), "torch.Tensor.index_copy_": ("x.index_copy_(0, k, y[:2])",),
    "torch.Tensor.index_put": ("x.index_put((k,), v)", "x.index_put((k, k), u[:2], accumulate=True)"),
    "torch.Tensor.index_put_": ("x.index_put_((k,), v)", "x.index_put_((k, k), u[:2], accumulate=True)"),
    "torch.Tensor.item": ("s.item()", "i[0, 0].item()"), "torch.Tensor.unflatten": ("x.unflatten(1, (2, 2))", "x.unflatten(1, (2, -1))"),
    "torch.Tensor.select_scatter": ("x.select_scatter(u, 1, 0)",), "torch.Tensor.renorm_": ("x.renorm_(2, 0, 0.5)",),
    "torch.Tensor.register_post_accumulate_grad_hook":
        ("(x.requires_grad_(), x.register_post_accumulate_grad_hook(lambda p: (p.grad.mul_(2), None)[1]), (x * y).sum().backward(), x.grad)[3]",),
    "torch.Tensor.random_": ("x.random_()", "i.random_()", "x.random_(2, 9)"), "torch.Tensor.module_load": ("x.module_load(y)",),
    "torch.Tensor.dim_order": ("x.dim_order()", "p.permute(2, 0, 1).dim_order()"), "torch.Tensor.grad_dtype": ("x.grad_dtype",),
    "torch.from_file": ("torch.from_file(io.__file__, size=16, dtype=torch.uint8)",),
    "torch.slice_copy": ("torch.slice_copy(x, 1, 1, 4, 2)", "torch.slice_copy(x)"),
    "torch.segment_reduce": tuple(f"torch.segment_reduce(x, '{word}', lengths=torch.tensor([2, 0, 1]))" for word in ("sum", "max", "mean")),
    "torch.set_flush_denormal": ("torch.set_flush_denormal(False)",), "torch.set_num_interop_threads": ("torch.get_num_interop_threads() > 0",),
    "torch.get_num_interop_threads": ("torch.get_num_interop_threads() > 0",), "torch.GradScaler": ("torch.GradScaler('cpu', enabled=False).scale(x)",),
    "torch.set_default_tensor_type": ("torch.set_default_tensor_type('torch.FloatTensor'), torch.get_default_dtype()",),
    "torch.svd": ("torch.svd(image)[1]", "(lambda a, s, b: a * s.unsqueeze(-2) @ b.mT)(*torch.svd(image))"),
    "torch.linalg.svd": ("torch.linalg.svd(image)[1]", "(lambda a, s, b: a * s.unsqueeze(-2) @ b)(*torch.linalg.svd(p, full_matrices=False))"),
    **{f"torch.special.{name}": (f"torch.special.{name}(x)", f"torch.special.{name}(40 * x)", f"torch.special.{name}(torch.tensor([0.0, -1.0, -9.0, 3.0]))")
       for name in "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1".split()},
    "torch.imag": ("torch.imag(torch.complex(x, y))",),
    "torch.is_conj": ("torch.is_conj(x)",),
    **{f"torch.view_as_{form}": (f"torch.view_as_{form}({given})",) for form, given in (
        ("real", "torch.complex(x, y)"), ("complex", "x.reshape(3, 2, 2)"), ("real_copy", "torch.complex(x, y)"),
        ("complex_copy", "x.reshape(3, 2, 2)"))},
    "torch.alias_copy": ("torch.alias_copy(x)",),
    "torch.lu": ("torch.lu(m)", "torch.lu(p[:, :, :3], get_infos=True)"), "torch.Tensor.lu": ("m.lu()", "w.lu(get_infos=True)"),
    "torch.linalg.lu": ("torch.linalg.lu(w)", "torch.linalg.lu(p)", "torch.linalg.lu(q)"),
    "torch.linalg.lu_factor": ("torch.linalg.lu_factor(w)", "torch.linalg.lu_factor(p)"),
    "torch.linalg.lu_factor_ex": ("torch.linalg.lu_factor_ex(w)", "torch.linalg.lu_factor_ex(w * 0)"),
    "torch.geqrf": ("torch.geqrf(w)", "torch.geqrf(p)", "torch.geqrf(q)"), "torch.Tensor.geqrf": ("w.geqrf()", "x.geqrf()"),
    "torch.ormqr": ("torch.ormqr(*torch.geqrf(w), m)", "torch.ormqr(*torch.geqrf(w), m, left=False, transpose=True)"),
    "torch.Tensor.ormqr": ("w.ormqr(u, m)",), "torch.Tensor.orgqr": ("w.orgqr(u)",),
    "torch.svd_lowrank": ("torch.svd_lowrank(x, 3)[1]", "(lambda a, s, b: a * s @ b.mT)(*torch.svd_lowrank(q[0], 3))"),
    "torch.pca_lowrank": ("torch.pca_lowrank(x, 2)[1]",), "torch.lobpcg": ("torch.lobpcg(m)[0]", "torch.lobpcg(m, largest=False)[1].abs()"),
    "torch.nn.Buffer": ("torch.nn.Buffer(x) + 1", "(a := torch.nn.Module(), setattr(a, 'c', torch.nn.Buffer(x)), a.state_dict())[2]"),
    "torch.nn.UninitializedParameter": ("(a := torch.nn.UninitializedParameter(), a.materialize((2, 3)), a.data.shape)[2]",),
    "torch.nn.UninitializedBuffer": ("(a := torch.nn.UninitializedBuffer(), a.materialize((2, 3)), a.shape)[2]",),
    **{f"torch.nn.Lazy{name}": (f"(a := torch.nn.Lazy{name}({made}), a({given}), torch.nn.init.constant_(a.weight, 0.1), a.bias.data.fill_(0.5), "
                                f"type(a).__name__, a({given}), a.state_dict())[4:]",)
       for name, made, given in (
           ("Linear", "5", "x"), *((f"Conv{n}d", "4, 2", given) for n, given in ((1, "line"), (2, "image"), (3, "block"))),
           *((f"ConvTranspose{n}d", "4, 2", given) for n, given in ((1, "line"), (2, "image"), (3, "block"))),
           *((f"BatchNorm{n}d", "", given) for n, given in ((1, "x"), (2, "image"), (3, "block"))),
           *((f"InstanceNorm{n}d", "affine=True", given) for n, given in ((1, "line"), (2, "image"), (3, "block"))))},
    "torch.nn.RNNBase": ("torch.nn.RNNBase('LSTM', 4, 5, 2).weight_ih_l1.shape", "isinstance(torch.nn.GRU(4, 5), torch.nn.RNNBase)"),
    "torch.nn.DataParallel": ("torch.nn.DataParallel(torch.nn.ReLU())(x - y)", "list(torch.nn.DataParallel(torch.nn.Linear(4, 5)).state_dict())"),
    "torch.nn.SyncBatchNorm": ("torch.nn.SyncBatchNorm(4).eval()(image)",
                               "type(torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.Sequential(torch.nn.BatchNorm2d(4)))[0]).__name__"),
    "torch.nn.FeatureAlphaDropout": ("torch.nn.FeatureAlphaDropout().eval()(image)", "torch.nn.FeatureAlphaDropout()(image)"),
    "torch.nn.AdaptiveLogSoftmaxWithLoss": ("torch.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [2, 5], div_value=2.0) <- image[0, 0], torch.arange(8)",
        "(lambda a: ([p.data.copy_(image.flatten()[: p.numel()].reshape(p.shape)) for p in a.parameters()], a.log_prob(image[0, 0]), a.predict(image[0, 0])))"
        "(torch.nn.AdaptiveLogSoftmaxWithLoss(8, 10, [2, 5], div_value=2.0, head_bias=True))[1:]"),
    "torch.nn.LinearCrossEntropyLoss": ("torch.nn.LinearCrossEntropyLoss(4, 3) <- x, t", "torch.nn.LinearCrossEntropyLoss(4, 3, bias=True, label_smoothing=0.1) <- x, t"),
    "torch.nn.functional.linear_cross_entropy": ("torch.nn.functional.linear_cross_entropy(x, y, t)",
                                                 "torch.nn.functional.linear_cross_entropy(x, y, t, linear_bias=u, reduction='sum')"),
    "torch.nn.functional.grouped_mm": tuple(f"torch.nn.functional.grouped_mm({call})" for call in (
        "torch.ones(2, 8, 16).bfloat16(), torch.ones(2, 16, 8).bfloat16()",
        "torch.arange(128.0).reshape(8, 16).bfloat16(), torch.ones(2, 16, 8).bfloat16(), offs=torch.tensor([3, 8]).int()")),
    "torch.nn.functional.multi_head_attention_forward": tuple(
        f"torch.nn.functional.multi_head_attention_forward(p, p, p, 4, 2, torch.cat([x, y, z, x]), torch.cat([v, v, v]), {more}, 0.0, q[0, :, :1] @ v[None], v)"
        for more in ("None, None, False", "v.reshape(1, 1, 4), v.reshape(1, 1, 4), True")),
    **{f"torch.nn.functional.fractional_max_pool{n}d{end}": tuple(
           f"torch.nn.functional.fractional_max_pool{n}d{end}({given}, 2, {more}, _random_samples=torch.tensor({draws}).reshape({given}.shape[0], 4, {n}))"
           for more in ("output_size=2", f"output_ratio={(0.7, 0.6, 0.7)[:n]}, return_indices=True"))
       for end in ("", "_with_indices")
       for n, given, draws in ((2, "image", [round(0.05 + 0.055 * i, 3) for i in range(16)]), (3, "block", [0.1, 0.9, 0.4, 0.3, 0.7, 0.2, 0.5, 0.8, 0.6, 0.05, 0.95, 0.45]))},
    **{f"torch.nn.FractionalMaxPool{n}d": (f"torch.nn.FractionalMaxPool{n}d(2, output_size=2)({given}).shape",) for n, given in ((2, "image"), (3, "block"))},
}  # fmt: skip


def samples_of(path: str, name: str, kind: str) -> tuple[str, ...]:
    """The calls to try for `path.name`, the most telling first."""
    whole = f"{path}.{name}"
    if whole in OWN:
        return OWN[whole]
    forms: dict[str, Callable[[], tuple[str, ...]]] = {
        "method": lambda: tuple(form.replace("{name}", name) for form in METHODS),
        "module": lambda: tuple(f"{whole}{form}" for form in MODULES),
        "optimizer": lambda: tuple(f"{whole} on a {form}" for form in OPTIMIZERS),
        "function": lambda: tuple(f"{whole}{form}" for form in FUNCTIONS),
    }
    return forms[kind]()
