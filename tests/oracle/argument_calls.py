"""Calls with rare arguments in combination, on operands of every layout: values, dtypes and gradients beside torch, and
compiled; some with every size open.

Input: CALLS. In a template `{a|b}` is one of its forms (a form may have further braces), `T(2, 3)` an operand of the
dtype under test, `W(2, 3)` one of whole numbers (ties, zeros), `E(4)` one with NaN and infinities, `I(3; 5)` indices below
5, `B(3)` a mask. The oracle's rows have each argument by itself. `python -m tests.oracle.argument_calls --calls 5000`.
"""

from __future__ import annotations

import argparse
import random
import re
import warnings
from collections import Counter
from functools import partial
from typing import Any

import numpy as np

import cutaway
from stage_contracts import events
from stage_contracts.breaks import Unsupported
from tests.oracle import torch_side
from tests.oracle.compare import Mismatch, magnitude, same
from tests.oracle.compiled import Refused, agree, compare, results_and_gradients
from tests.oracle.layouts import LAYOUTS, lay_out

RED = "{mean|sum|none}"
CALLS = f"""
torch.add(T(3, 4), {{1|2.5|True|T(4)|B(3, 4)}}, alpha={{2|-1}})
torch.sub(T(3, 4), {{1|2.5|T(4)}}, alpha={{2|-1|0.5}})
torch.{{max|min|amax|amin|median|nanmedian}}({{T(3, 4)|W(3, 4)}})
torch.{{amax|amin}}(E(3, 4), {{()|0|1}})
torch.{{max|min|median|nanmedian|mode}}(T(3, 4), {{0|1|-1}}, keepdim={{True|False}})
torch.{{argmax|argmin}}(T(3, 4), {{dim=1, |}}keepdim={{True|False}})
torch.{{any|all}}(W(3, 4), dim={{()|0|(0, 1)|None}}, keepdim={{True|False}})
torch.{{var|std}}(T(3, 4), dim={{None|0|(0, 1)}}, correction={{0|1|0.5}}, keepdim={{True|False}})
torch.linalg.vector_norm({{T(3, 4)|W(3, 4)}}, {{1|2|3|0.5|-1|-2|inf|-inf}}, dim={{None|0|(1, 0)}}, keepdim={{True|False}})
torch.pow({{T(3, 4)|E(4)|W(3, 4)|E(4) * 0}}, {{2|3|4|5|0.5|-0.5|-1|-2|0|2.5}})
torch.logsumexp(torch.where(T(3, 4) > 1, {{-inf|inf}}, T(3, 4)), {{0|1|(0, 1)}})
torch.{{cumsum|cumprod|logcumsumexp}}(T(3, 4).flip({{0|1}}), {{0|1}}).flip(0)
torch.{{cummax|cummin}}(T(3, 4), {{0|1}})
torch.{{quantile|nanquantile}}(T(3, 4), {{0.3|1.0}}, dim={{None|0|1}}, interpolation='{{linear|lower|higher|midpoint|nearest}}')
torch.topk(T(3, 5), {{0|2|5}}, dim=-1, largest={{True|False}})
torch.chunk(T(3, {{0|4}}), {{2|3}}, {{0|1}})
torch.tensor_split(T(5, 3), {{2|(1, 4)|(3, 1)|(-1,)|(0, 9)}})
torch.index_fill(T(4, 3), {{0|-2}}, I({{0|2|5}}; 4), {{2.0|T()}})
torch.index_add(T(4, 3), {{0|-2}}, I(5; 4), T(5, 3), alpha={{1|2}})
torch.index_reduce({{T(4, 3)|W(4, 3)}}, 0, I(5; 4), {{T(5, 3)|T(5, 3).clamp(0)}}, '{{mean|amax|amin}}', include_self={{True|False}})
torch.scatter_reduce(W(4, 3), {{0|1}}, I(4, 3; 3), T(4, 3), '{{sum|prod|mean|amax|amin}}', include_self={{True|False}})
torch.scatter_reduce(T(4, 3), 1, I(4, 3; 3), W(4, 3), 'prod', include_self={{True|False}})
torch.index_put(T(4, 3), (I(5; 4), I(5; 3)), {{T(5)|T(1)}}, accumulate=True)
torch.put(T(4, 3), I(5; 12), T(5), accumulate=True)
torch.masked_scatter(T(4, 3), B({{4, 3|3}}), T(12))
torch.take_along_dim(T(4, 3), {{I(6; 12)|I(2, 3; 4), dim=0|I(4, 1; 3), dim=-1}})
torch.renorm(T(3, 4), {{1|2|3}}, {{0|1}}, {{1.0|2.0}})
torch.cdist(T(2, 3, 4), T(2, 4), p={{0.5|1.0|2.0|3.0|inf}})
torch.einsum('{{ab,bc->ac|ab,ab->|a...b,b...->...a|ii...->i...|ab,cb,cd->da}}', {{T(3, 3), T(3, 3)}})
torch.{{tril|triu}}(T(3, 4), {{-5|-1|0|2|5}})
torch.diag_embed(T(2, 3), {{-1|0|2}}, {{0|-2|-1}}, {{1|2}})
torch.roll(T(3, 4), {{5|(1, -2), (0, 1)|(1, 2), (1, 1)}})
torch.fft.{{fft|ifft|rfft|irfft|hfft}}(T(3, 5), n={{None|3|8}}, dim={{0|-1}}, norm={{None|'ortho'|'forward'}})
F.pad(T(2, 3, 4, 5), ({{-1|0|2}}, {{-2|0|1}}, {{-1|0|2}}, {{0|1}}), mode='{{constant|replicate|circular}}')
F.lp_pool2d({{T(2, 3, 6, 5)|T(2, 3, 6, 5).abs()}}, {{1|2|3}}, {{2|(2, 3)}}, {{None|1}}, {{True|False}})
F.avg_pool2d(T(2, 3, 7, 6), {{2|3|(3, 2)}}, {{None|1|(2, 3)}}, {{0|1}}, {{True|False}}, {{True|False}}, {{None|3}})
F.adaptive_max_pool2d(T(2, 3, 7, 6), {{1|3|(1, 3)|(None, 2)|(5, 9)}})
F.max_pool2d(T(2, 3, 7, 6), {{2|3|(3, 2)}}, {{None|1|(2, 3)}}, {{0|1}}, {{1|2}}, {{True|False}}, {{True|False}})
F.adaptive_avg_pool2d(T(2, 3, 7, 6), {{1|3|(None, 2)|(5, 9)}})
F.conv2d(T(2, 4, 6, 7), T(4, {{4|2, |}}3, 2), T(4), {{1, '{{same|valid}}'|(1, 2), {{0|(2, 1)}}}}, {{1|(2, 1)}}, {{1|2}})
F.conv_transpose2d(T(2, 4, 4, 3), T(4, 2, 3, 2), {{None|T(4)}}, (2, 3), {{0|1}}, {{0|1|(1, 2)}}, 2, {{1|(2, 1)}})
F.interpolate(T(2, 2, 6, 5), {{size=(3, 7)|scale_factor={{2|0.6|(1.7, 0.5)}}}}, mode='{{nearest|nearest-exact|area}}')
F.interpolate(T(2, 2, 4, 5), {{size=(3, 7)|scale_factor={{2|0.6|(1.7, 0.5)}}}}, mode='{{bilinear|bicubic}}', align_corners={{True|False}})
F.grid_sample(T(1, 2, 4, 5), T(1, 3, 2, 2), '{{bilinear|nearest}}', '{{zeros|border|reflection}}', {{True|False}})
F.unfold(T(2, 3, 6, 7), {{2|(3, 1)}}, {{1|2}}, {{0|(1, 2)}}, {{1|2}})
F.embedding(I(2, 3; 5), T(5, 4), padding_idx={{None|0|-1}})
F.embedding_bag(I(2, 4; 5), T(5, 4), mode='{{sum|mean|max}}', padding_idx={{None|0|-1|-5}})
F.embedding_bag(I(2, 4; 5), T(5, 4), mode='sum', per_sample_weights=T(2, 4), padding_idx={{None|3|-1}})
F.cross_entropy(T(4, 3), I(4; 3), {{None|T(3).abs()}}, ignore_index={{-100|1}}, label_smoothing={{0.0|0.2}}, reduction='{RED}')
F.cross_entropy(T(4, 3, 2), T(4, 3, 2).softmax(1), label_smoothing={{0.0|0.2}}, reduction='{RED}')
F.{{smooth_l1_loss|huber_loss|mse_loss|l1_loss}}({{T(3, 4)|E(3, 4)}}, T(3, 4), reduction='{RED}')
F.binary_cross_entropy_with_logits(T(3, 4), T(3, 4).sigmoid(), {{None|T(4)}}, pos_weight={{None|T(4)}}, reduction='{RED}')
F.poisson_nll_loss(T(3, 4), T(3, 4).abs(), full={{True|False}}, reduction='{RED}')
F.multi_margin_loss(T(3, 4), I(3; 4), p={{1|2}}, margin={{1.0|0.5}}, reduction='{RED}')
F.cosine_similarity(T(3, 4), {{T(3, 4)|T(3, 1)|T(1, 4)|T(4)}}, dim={{0|1|-1}})
F.pairwise_distance(T(3, 4), {{T(3, 4)|T(1, 4)|T(4)}}, p={{0.5|1.0|2.0|3|inf|-inf}}, keepdim={{True|False}})
F.normalize({{T(3, 4)|W(3, 4)}}, p={{0.5|1.0|2.0|inf}}, dim={{0|1}})
F.group_norm(T(2, 4, 3), {{1|2|4}}, {{None|T(4)}}, {{None|T(4)}})
F.batch_norm(T(4, 3, 2), None, None, {{None|T(3)}}, {{None|T(3)}}, training=True)
F.{{elu|celu}}(T(3, 4), {{0.5|1.0}})
F.softplus(T(3, 4), {{1|2.5}}, {{1|20}})
F.scaled_dot_product_attention(T(2, 3, 4), T(2, 5, 4), T(2, 5, 2), {{B(3, 5)|B(1, 5)|torch.where(B(3, 5), -inf, T(3, 5))}}, scale={{None|0.5}})
F.multi_head_attention_forward(T(3, 2, 4), T(5, 2, 4), T(5, 2, 4), 4, 2, T(12, 4), T(12), None, None, {{True|False}}, 0.0, T(4, 4), T(4), key_padding_mask=B(2, 5), need_weights={{True|False}})
into(T(3, 4), lambda y: y.expand(2, 3, 4)[1].{{unsqueeze(0)|T|flatten()[1:]}}.{{mul_(2)|neg_()|add_(1, alpha=3)}})
into(T(3, 4), lambda y: y[{{1:|..., ::2|-1|:, 1}}].{{cumsum_(0)|pow_(2)|fill_(3)|addcmul_(y[0, 0], y[1, 1])|clamp_(-1, 1)}})
""".strip().splitlines()  # fmt: skip

_FORM = re.compile(r"\{([^{}]*)\}")
_OPERAND = re.compile(r"\b([TWEIB])\(([\d, ]*)(?:; (\d+))?\)")
UNITS = 256.0  # of float64: sums of products in another order
OPEN_EVERY = 5


def into(x: Any, write: Any) -> Any:
    """What `write` leaves of a copy of x in x's layout."""
    y = x * 1
    write(y)
    return y


Call = tuple[str, list[np.ndarray], list[bool]]


def written(seed: int, template: str = "") -> Call:
    """The call of a seed, as the text of a function; its operands; which of them have a gradient."""
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    text, arrays, flags = template or CALLS[seed % len(CALLS)], [], []
    while found := _FORM.search(text):
        text = text[: found.start()] + choose.choice(found[1].split("|")) + text[found.end() :]

    def operand(found: re.Match) -> str:
        kind, shape, below = found[1], tuple(map(int, re.findall(r"\d+", found[2]))), found[3]
        array = {
            "T": lambda: rng.uniform(-2, 2, shape),
            "W": lambda: rng.integers(-1, 2, shape).astype(float),
            "E": lambda: rng.choice([np.nan, np.inf, -np.inf, 0.5, 3.0], shape),
            "I": lambda: rng.integers(0, int(below or 1), shape),
            "B": lambda: rng.random(shape) < 0.4,
        }[kind]()
        layout = choose.choice([name for name in LAYOUTS if name not in ("backwards", "broadcast")])
        arrays.append(lay_out(layout, np.asarray(array)))
        flags.append(kind in "TWE")
        return f"x{len(arrays) - 1}"

    text = _OPERAND.sub(operand, text)
    return f"lambda {', '.join(f'x{i}' for i in range(len(arrays)))}: {text}", arrays, flags


def in_torch(call: Any, arrays: list[np.ndarray], flags: list[bool]) -> tuple[list, list]:
    """As compiled.results_and_gradients, in torch: the results and the gradients as arrays."""
    torch = torch_side.torch
    tensors = [torch_side.to_torch(np.array(a)).requires_grad_(f) for a, f in zip(arrays, flags, strict=True)]
    results = [r for r in torch_side.flat_results(call(*tensors)) if isinstance(r, torch.Tensor)]
    rng, roots, weights = np.random.default_rng(7), [], []
    for r in results:
        weight = rng.uniform(0.5, 1.5, tuple(r.shape))
        if r.requires_grad:
            roots.append(r)
            weights.append(torch.from_numpy(np.asarray(weight)).to(r.dtype))
    if roots:
        torch.autograd.backward(roots, weights)
    return [torch_side.to_array(r) for r in results], [
        None if t.grad is None else torch_side.to_array(t.grad) for t in tensors
    ]


def with_open_sizes(call: Any, arrays: list[np.ndarray], flags: list[bool]) -> None:
    """Raise Mismatch where the call, compiled with every size open, is not eager's."""
    compiled = cutaway.compile(call, backend="aot_eager", dynamic=True)
    with events.no_internal_errors():
        agree(
            results_and_gradients(call, arrays, flags), results_and_gradients(compiled, arrays, flags), UNITS
        )


def check(text: str, arrays: list[np.ndarray], flags: list[bool], open_sizes: bool = False) -> str:
    """How the call ends: "agree", "torch refuses", "cannot be compiled". Raises Mismatch."""
    ours, theirs = (
        eval(text, {"torch": t, "F": t.nn.functional, "inf": np.inf, "into": into})
        for t in (cutaway.torch_api.torch, torch_side.torch)
    )
    with warnings.catch_warnings(), np.errstate(all="ignore"), torch_side.own_kernels():
        warnings.simplefilter("ignore")
        try:
            wanted, slopes = in_torch(theirs, arrays, flags)
        except Exception:
            return "torch refuses"
        found, gradients = results_and_gradients(ours, arrays, flags)
        for mine, want in zip([r._data for r in found], wanted, strict=True):
            _equal(mine, want)
        for mine, want in zip(gradients, slopes, strict=True):
            if mine is not None or want is not None:
                zero = np.zeros(np.shape(want if mine is None else mine))
                _equal(zero if mine is None else mine, zero if want is None else want)
        try:
            (with_open_sizes if open_sizes else partial(compare, units=UNITS))(ours, arrays, flags)
        except (Refused, Unsupported):
            return "cannot be compiled"
    return "agree"


def _equal(mine: np.ndarray, want: np.ndarray) -> None:
    if mine.dtype != want.dtype:
        raise Mismatch(f"dtype {mine.dtype}, torch gives {want.dtype}")
    same(mine, want, UNITS, magnitude([want]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked, ends = parser.parse_args(), Counter()
    for seed in range(asked.seed, asked.seed + asked.calls):
        try:
            end = check(*written(seed), open_sizes=seed % OPEN_EVERY == 0)
        except Exception as error:
            end = "differ"
            print(
                f"seed {seed}: {written(seed)[0]}\n    {type(error).__name__}: {str(error)[:200]}", flush=True
            )
        ends[end] += 1
    print(", ".join(f"{count} {end}" for end, count in ends.most_common()))
    return ends["differ"]


if __name__ == "__main__":
    raise SystemExit(main())
