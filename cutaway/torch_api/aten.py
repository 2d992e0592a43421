"""torch.ops.aten: the operators by the names of torch's dispatcher, with overloads: torch.ops.aten.add.Tensor(x, y).

Input: calls as ATen's schemas have them. Most names mean torch's function of that name; _OWN has those that take other
arguments. An overload is a word of the schema that says which arguments it takes: here every word means the same call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import cutaway
from cutaway.torch_api import composed
from stage0_eager.library.custom_op import ops as custom
from stage0_eager.nn import functional as F
from stage0_eager.tensor import Tensor
from stage0_eager.transforms import func
from stage_contracts.messages import near

OVERLOADS = frozenset(
    "default Tensor Scalar int dim out self Tensor_Scalar Scalar_Tensor Tensor_Tensor Tensor_mode Scalar_mode "
    "dim_IntList dim_DimnameList dims names start start_step correction ScalarOpt_dim ScalarSelf ScalarOther "
    "Scalar_self other input int_Scalar Tensor_out Scalar_out dim_max dim_min unary_out values stable self_int "
    "self_Tensor src value reduce two value_reduce vec float p grad_input generator low low_generator like from "
    "memory_format dim_arange size dtype ScalarList tensor using_ints sections indices padding symint SymInt enum str "
    "Tensor_mask".split()
)


class OverloadPacket:
    """An operator of torch.ops.aten with its overloads: each of them is the packet itself, and calls the function."""

    namespace = "aten"

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.__name__, self.function = name, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def overloads(self) -> list[str]:
        return sorted(OVERLOADS)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"


for _word in OVERLOADS:
    setattr(OverloadPacket, _word, property(lambda self: self))


# ---- operators whose arguments are not those of torch's function ---------------------------------------------------


def _to_copy(input: Tensor, *, dtype: Any = None, device: Any = None, **layout: Any) -> Tensor:
    return input.to(device=device, dtype=dtype, copy=True)


def _softmax(input: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    return cutaway.softmax(input.float() if half_to_float else input, dim)


def _log_softmax(input: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    return cutaway.log_softmax(input.float() if half_to_float else input, dim)


def _sized(method: str) -> Callable[..., Any]:
    """A method whose sizes are one list."""
    return lambda input, sizes, **options: getattr(input, method)(list(sizes), **options)


def slice_(input: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    return input[(*[slice(None)] * (dim % input.ndim), slice(start, end, step))]


def index(input: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    return input[tuple(slice(None) if i is None else i for i in indices)]


def convolution(
    input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Tensor:  # fmt: skip
    rank = weight.ndim - 2
    if transposed:
        function = getattr(F, f"conv_transpose{rank}d")
        return function(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return getattr(F, f"conv{rank}d")(input, weight, bias, stride, padding, dilation, groups)


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    dims = list(range(input.ndim - len(normalized_shape), input.ndim))
    variance, mean = cutaway.var_mean(input, dims, correction=0, keepdim=True)
    return F.layer_norm(input, normalized_shape, weight, bias, eps), mean, (variance + eps).rsqrt()


def native_group_norm(
    input: Tensor, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    variance, mean = cutaway.var_mean(input.reshape(N, group, -1), 2, correction=0)
    return F.group_norm(input, group, weight, bias, eps), mean, (variance + eps).rsqrt()


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    ones = cutaway.ones_like(input)
    kept = F.dropout(ones, p, bool(train)) > 0
    return (input * kept / (1 - p) if train and p < 1 else input * kept), kept


def embedding(weight: Tensor, indices: Tensor, padding_idx: int = -1, *flags: bool) -> Tensor:
    return F.embedding(indices, weight, None if padding_idx < 0 else padding_idx)


def sum_(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    found = cutaway.sum(input, dim, keepdim) if dim else cutaway.sum(input)
    return found if dtype is None else found.to(dtype)


def native_batch_norm(
    input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    out = F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return out, input.new_empty(0), input.new_empty(0)
    variance, mean = cutaway.var_mean(input, [d for d in range(input.ndim) if d != 1], correction=0)
    return out, mean, (variance + eps).rsqrt()


def _upsample(mode: str, aligned: bool) -> Callable[..., Tensor]:
    """upsample_bilinear2d(input, output_size, align_corners, ...), and upsample_nearest2d(input, output_size, ...)."""
    if aligned:
        return lambda input, output_size, align_corners, *scales: F.interpolate(
            input, output_size, mode=mode, align_corners=align_corners
        )
    return lambda input, output_size, *scales: F.interpolate(input, output_size, mode=mode)


def _reduction(number: int) -> str:
    return ("none", "mean", "sum")[number]


def _pulled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """name_backward(grad_output, input, ...): the gradient of function(input, ...)."""

    def backward(grad_output: Tensor, input: Tensor, *args: Any, **options: Any) -> Tensor:
        _, pulled = func.vjp(lambda x: function(x, *args, **options), input)
        return pulled(grad_output)[0]

    return backward


_PULLED: dict[str, Callable[..., Tensor]] = {
    **{name: getattr(F, name) for name in "silu gelu hardswish hardsigmoid hardtanh hardshrink softshrink softplus "
       "mish glu".split()},
    "logit": cutaway.logit, "threshold": lambda x, threshold: F.threshold(x, threshold, 0),
    "leaky_relu": lambda x, slope, is_result: F.leaky_relu(x, slope),
    "mse_loss": lambda x, target, reduction: F.mse_loss(x, target, reduction=_reduction(reduction)),
    "smooth_l1_loss": lambda x, y, reduction, beta: F.smooth_l1_loss(x, y, _reduction(reduction), beta),
    "huber_loss": lambda x, y, reduction, delta: F.huber_loss(x, y, _reduction(reduction), delta),
}  # fmt: skip
_SIZED = "view expand permute repeat reshape new_zeros new_ones new_empty flip".split()


_OWN: dict[str, Callable[..., Any]] = {
    "_to_copy": _to_copy, "_softmax": _softmax, "_log_softmax": _log_softmax, "slice": slice_, "index": index,
    "convolution": convolution, "native_layer_norm": native_layer_norm, "native_group_norm": native_group_norm,
    "native_batch_norm": native_batch_norm, "native_dropout": native_dropout, "embedding": embedding, "sum": sum_,
    **{name: _sized(name) for name in _SIZED}, **{f"{name}_backward": _pulled(f) for name, f in _PULLED.items()},
    "_unsafe_view": _sized("reshape"),
    "alias": lambda input: input.view(list(input.shape)), "lift_fresh_copy": cutaway.clone,
    "sigmoid_backward": lambda grad_output, output: grad_output * (1 - output) * output,
    "tanh_backward": lambda grad_output, output: grad_output * (1 - output * output),
    "sym_size": lambda input, dim=None: tuple(input.shape) if dim is None else input.shape[dim],
    "sym_numel": lambda input: input.numel(), "sym_stride": lambda input, dim: input.stride(dim),
    "constant_pad_nd": lambda input, pad, value=0: F.pad(input, list(pad), value=value),
    **{f"{word}ion_pad{n}d": lambda input, padding, mode=mode: F.pad(input, list(padding), mode)
       for word, mode in (("reflect", "reflect"), ("replicat", "replicate")) for n in (1, 2, 3)},
    **{f"upsample_{mode}{n}d": _upsample(mode, mode != "nearest")
       for mode, n in (("nearest", 1), ("nearest", 2), ("nearest", 3), ("linear", 1), ("bilinear", 2), ("trilinear", 3),
                       ("bicubic", 2))},
    "fill": lambda input, value: cutaway.full_like(input, value), "zero": cutaway.zeros_like,
    "lift": lambda input: input, "lift_fresh": lambda input: input, "log_sigmoid": F.logsigmoid,
    "im2col": F.unfold, "col2im": F.fold, "promote_types": cutaway.promote_types,
    "adaptive_max_pool1d": composed.NN["adaptive_max_pool1d_with_indices"],
    "adaptive_max_pool2d": composed.NN["adaptive_max_pool2d_with_indices"],
    "adaptive_max_pool3d": composed.NN["adaptive_max_pool3d_with_indices"],
    "block_diag": lambda tensors: cutaway.block_diag(*tensors),
    "copy": lambda input, src: src.to(input.dtype).expand(input.shape).clone(),
    "max_pool2d_with_indices": composed.NN["max_pool2d_with_indices"],
    "_local_scalar_dense": lambda input: input.item(),
}  # fmt: skip


class _Aten(ModuleType):
    """torch.ops.aten: a packet for each name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = near(name, self.__dict__)
        hint = f"; the nearest it has is {known}" if known else ""
        raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute {name!r}{hint}")


def _public(home: Any, prefix: str = "") -> dict[str, Callable[..., Any]]:
    named = {prefix + name: getattr(home, name) for name in dir(home) if name[0] != "_"}
    return {name: f for name, f in named.items() if callable(f) and not isinstance(f, type)}


def _packets() -> dict[str, OverloadPacket]:
    """linalg_inv is torch.linalg.inv, add_ is Tensor.add_; what stands further down decides."""
    functions = {
        **_public(Tensor), **_public(F), **composed.NN, **_public(cutaway), **composed.FUNCTIONS,
        **_public(cutaway.linalg, "linalg_"), **_public(cutaway.special, "special_"),
        **{f"special_{name}": f for name, f in composed.SPECIAL.items()}, **_OWN,
    }  # fmt: skip
    return {
        name: OverloadPacket(name, function) for name, function in functions.items() if callable(function)
    }


class _Ops:
    """torch.ops: aten, and the namespaces of custom operators."""

    def __init__(self) -> None:
        self.aten = _Aten("torch.ops.aten")
        self.aten.__dict__.update(_packets())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(custom, name)


ops = _Ops()
