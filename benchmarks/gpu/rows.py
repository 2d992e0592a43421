"""The programs that `make gpu-speed` measures, as data: a name, inputs, one text for torch and for Cutaway.

Input: none. A function takes (m, f, *tensors): m and f are `torch` and `torch.nn.functional`, or `cutaway` and its own.
An input is a shape, of the row's dtype, or (shape, high) for integers below `high`, or (shape, high, dtype).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu import flex
from benchmarks.gpu.images import CLASSES, SIDE, resnet, resnet_parameters, vit, vit_parameters
from benchmarks.gpu.transformer import parameters, transformer


@dataclass(frozen=True)
class Row:
    name: str
    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    dtype: str = "float32"
    gradients: int = 0  # so many inputs want a gradient; the backward is part of the call
    wanted: float = 1.0  # torch.compile's time over ours: at least
    scale: float = 1.0  # of the inputs' normal values
    moves: int = 0  # bytes that any program must read and write; 0: arithmetic decides
    torch: Callable[..., Any] | None = None  # (torch, inputs) -> what its users write instead
    updates: bool = (
        False  # the function is (m, compile, *tensors) -> (a compiled step, the tensors that it updates)
    )


def sin_cos(m: Any, f: Any, x: Any) -> Any:
    return m.sin(m.cos(x))


def chain(m: Any, f: Any, x: Any, y: Any) -> Any:
    return m.tanh(x * y + 1.0) * m.sigmoid(x)


def softmax(m: Any, f: Any, x: Any) -> Any:
    return f.softmax(x, -1)


def layer_norm(m: Any, f: Any, x: Any, gain: Any, shift: Any) -> Any:
    return f.layer_norm(x, (x.shape[-1],), gain, shift)


def rms_norm(m: Any, f: Any, x: Any, gain: Any) -> Any:
    wide = x.to(m.float32)
    return (wide * m.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * gain


def gelu_mlp(m: Any, f: Any, x: Any, up: Any, down: Any) -> Any:
    return f.gelu(x @ up) @ down


def attention(m: Any, f: Any, q: Any, k: Any, v: Any) -> Any:
    return f.softmax((q @ k.transpose(-1, -2)) * 0.125, -1) @ v


def causal(m: Any, f: Any, q: Any, k: Any, v: Any) -> Any:
    scores = (q @ k.transpose(-1, -2)) * 0.125
    length = q.shape[-2]
    places = m.arange(length, device=q.device)
    masked = m.where(places[:, None] >= places[None, :], scores, float("-inf"))
    return f.softmax(masked, -1) @ v


def window(m: Any, f: Any, q: Any, k: Any, v: Any) -> Any:
    scores = (q @ k.transpose(-1, -2)) * 0.125
    places = m.arange(q.shape[-2], device=q.device)
    row, column = places[:, None], places[None, :]
    seen = (row >= column) & (row - column < 256)
    return f.softmax(m.where(seen, scores, float("-inf")), -1) @ v


def alibi(m: Any, f: Any, q: Any, k: Any, v: Any) -> Any:
    places = m.arange(q.shape[-2], device=q.device)
    row, column = places[:, None], places[None, :]
    slopes = 2.0 ** (-0.5 * (m.arange(q.shape[1], device=q.device) + 1))
    scores = (q @ k.transpose(-1, -2)) * 0.125 + slopes[:, None, None] * (column - row)
    return f.softmax(m.where(row >= column, scores, float("-inf")), -1).to(v.dtype) @ v


def sdpa(m: Any, f: Any, q: Any, k: Any, v: Any) -> Any:
    return f.scaled_dot_product_attention(q, k, v, is_causal=True)


def outer_sum(m: Any, f: Any, x: Any, y: Any) -> Any:
    return (x[:, :, None] * y[:, None, :]).sum((1, 2))


def column_sum(m: Any, f: Any, x: Any) -> Any:
    return x.sum(0)


def full_sum(m: Any, f: Any, x: Any) -> Any:
    return x.square().sum()


def transposed(m: Any, f: Any, x: Any, y: Any) -> Any:
    return x.t() + y


def running_sum(m: Any, f: Any, x: Any) -> Any:
    return m.cumsum(x, -1)


def cross_entropy(m: Any, f: Any, x: Any, y: Any) -> Any:
    return f.cross_entropy(x, y)


def embedding(m: Any, f: Any, table: Any, at: Any) -> Any:
    return f.embedding(at, table) * 2 + 1


def tiny(m: Any, f: Any, x: Any) -> Any:
    return x + 1


def adamw(m: Any, compiled: Any, *given: Any) -> tuple[Any, list[Any]]:
    """An optimizer's step over parameters whose gradients stay as they are."""
    count = len(given) // 2
    held = [m.nn.Parameter(p.clone()) for p in given[:count]]
    for parameter, gradient in zip(held, given[count:], strict=True):
        parameter.grad = gradient
    return compiled(m.optim.AdamW(held, lr=1e-3).step), held


M = 1 << 20
WEIGHTS = ((1024, 1024), (1024,)) * 100  # of AdamW
HEADS = (16, 16, 1024, 64)
GPT2 = parameters(6, 768, 32000, 512)
BERT = parameters(12, 768, 30522, 256)


def _model(
    name: str, shapes: list, batch: tuple[int, int], dtype: str, layers: int, causal: bool, trains: bool
) -> Row:
    """A transformer; with `trains`, the gradients of all parameters."""
    words = (batch, shapes[0][0])
    function = transformer(layers, 12, causal, trains)
    return Row(name, function, (*shapes, words, words), dtype, gradients=len(shapes) * trains, scale=0.02)


def _images(name: str, function: Callable[..., Any], shapes: list, batch: int) -> Row:
    """The loss of a model of images, and the gradients of all its parameters."""
    given = ((batch, 3, SIDE, SIDE), ((batch,), CLASSES))
    return Row(name, function, (*shapes, *given), "bfloat16", gradients=len(shapes), scale=0.05)


PRIME = Row("prime", softmax, ((64, 64),), gradients=1)  # compiled only to know what a compile imports

ROWS = (
    Row("tiny", tiny, ((4,),)),
    Row("sin cos 64M", sin_cos, ((64 * M,),), moves=2 * 256 * M),
    Row("chain 64M", chain, ((64 * M,), (64 * M,)), moves=3 * 256 * M),
    Row("softmax 8192x8192", softmax, ((8192, 8192),), wanted=1.05, moves=2 * 256 * M),
    Row("layer norm 16384x4096", layer_norm, ((16384, 4096), (4096,), (4096,)), moves=2 * 256 * M),
    Row("rms norm bfloat16 16384x4096", rms_norm, ((16384, 4096), (4096,)), "bfloat16", wanted=1.05,
        moves=2 * 128 * M),
    Row("sum over columns 16384x4096", column_sum, ((16384, 4096),), moves=256 * M),
    Row("sum of squares 64M", full_sum, ((64 * M,),), moves=256 * M),
    Row("transposed add 8192x8192", transposed, ((8192, 8192), (8192, 8192)), moves=3 * 256 * M),
    Row("cumsum 8192x8192", running_sum, ((8192, 8192),), moves=2 * 256 * M),
    Row("sum of outer product 65536x64", outer_sum, ((65536, 64), (65536, 64)), wanted=1.25),
    Row("cross entropy 8192x32000", cross_entropy, ((8192, 32000), ((8192,), 32000)), wanted=1.35,
        moves=4 * 8192 * 32000),
    Row("embedding 32000x512", embedding, ((32000, 512), ((8192,), 32000))),
    Row("AdamW over 200 tensors", adamw, (*WEIGHTS, *WEIGHTS), updates=True, moves=7 * 4 * 100 * (M + 1024)),
    Row("gelu MLP bfloat16", gelu_mlp, ((4096, 1024), (1024, 4096), (4096, 1024)), "bfloat16"),
    Row("attention bfloat16", attention, (HEADS, HEADS, HEADS), "bfloat16", wanted=0.95),
    Row("causal attention bfloat16", causal, (HEADS, HEADS, HEADS), "bfloat16", wanted=4.0),
    Row("attention bfloat16, window of 256", window, (HEADS, HEADS, HEADS), "bfloat16", wanted=4.0),
    Row("attention bfloat16, ALiBi", alibi, (HEADS, HEADS, HEADS), "bfloat16", wanted=4.0),
    Row("causal attention, flex", causal, (HEADS, HEADS, HEADS), "bfloat16", wanted=1.1, torch=flex.causal),
    Row("attention, window of 256, flex", window, (HEADS, HEADS, HEADS), "bfloat16", wanted=1.1, torch=flex.window),
    Row("attention, ALiBi, flex", alibi, (HEADS, HEADS, HEADS), "bfloat16", wanted=1.1, torch=flex.alibi),
    Row("causal attention, flex, backward", causal, (HEADS, HEADS, HEADS), "bfloat16", gradients=3, wanted=1.1,
        torch=flex.causal),
    Row("attention bfloat16, SDPA causal", sdpa, (HEADS, HEADS, HEADS), "bfloat16", wanted=0.95),
    Row("softmax 8192x8192, backward", softmax, ((8192, 8192),), gradients=1),
    Row("layer norm 16384x4096, backward", layer_norm, ((16384, 4096), (4096,), (4096,)), gradients=3),
    Row("cross entropy 8192x32000, backward", cross_entropy, ((8192, 32000), ((8192,), 32000)), gradients=1),
    Row("embedding 32000x512, backward", embedding, ((32000, 512), ((8192,), 32000)), gradients=1),
    Row("rms norm bfloat16, backward", rms_norm, ((16384, 4096), (4096,)), "bfloat16", gradients=2),
    Row("causal attention bfloat16, backward", causal, (HEADS, HEADS, HEADS), "bfloat16", gradients=3),
    Row("attention bfloat16, backward", attention, (HEADS, HEADS, HEADS), "bfloat16", gradients=3),
    Row("attention bfloat16, SDPA causal, backward", sdpa, (HEADS, HEADS, HEADS), "bfloat16", gradients=3),
    _model("GPT-2, 6 layers, 8x512, bfloat16, inference", GPT2, (8, 512), "bfloat16", 6, True, False),
    _model("GPT-2, 6 layers, 8x512, bfloat16, training", GPT2, (8, 512), "bfloat16", 6, True, True),
    _model("GPT-2, 6 layers, 8x512, float32, training", GPT2, (8, 512), "float32", 6, True, True),
    _model("BERT-base, 16x256, bfloat16, training", BERT, (16, 256), "bfloat16", 12, False, True),
    _images("ResNet-50, 32 images, bfloat16, training", resnet, resnet_parameters(), 32),
    _images("ViT-B/16, 32 images, bfloat16, training", vit, vit_parameters(), 32),
)  # fmt: skip
