"""The models and the growing graphs that `make cpu-speed` measures: what makes each program, in either framework.

Input: the published files of tests/models, whose `import torch` is whichever framework stands there; a model's weights
are drawn by NumPy, the same in both.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SIZES = {"n_layer": 6, "n_head": 6, "n_embd": 384, "block_size": 128, "vocab_size": 256, "dropout": 0.0}
MODELS = Path(__file__).parent.parent / "tests/models"


def published(name: str) -> Any:
    """The model's file as a module."""
    spec = importlib.util.spec_from_file_location(name, MODELS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    file = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, file)  # Dynamo imports a function's module by its name
    spec.loader.exec_module(file)
    return file


def drawn(m: Any, model: Any) -> Any:
    """The model with weights of a seed and biases of zero; a norm's weights stay at one."""
    rng = np.random.default_rng(0)
    with m.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif len(parameter.shape) > 1:
                weights = rng.standard_normal(tuple(parameter.shape), np.float32) * np.float32(0.02)
                parameter.copy_(m.from_numpy(weights))
    return model


def inference(m: Any, compiled: Callable, model: Any, inputs: Any) -> Callable[[], Any]:
    run = compiled(model.eval())

    def call() -> Any:
        with m.no_grad():
            out = run(inputs)
            return out[0] if isinstance(out, tuple) else out

    return call


def training(m: Any, compiled: Callable, model: Any, loss_of: Callable, *inputs: Any) -> Callable[[], Any]:
    """zero_grad, loss, backward, AdamW: loss and step compiled."""
    optimizer = m.optim.AdamW(model.parameters(), lr=1e-4)
    forward, update = compiled(loss_of), compiled(optimizer.step)

    def call() -> Any:
        optimizer.zero_grad()
        loss = forward(*inputs)
        loss.backward()
        update()
        return loss

    return call


def language_model(m: Any) -> Any:
    file = published("gpt2")
    return drawn(m, file.GPT2(file.GPT2Config(**SIZES)))


def language_model_inference(m: Any, compiled: Callable, tokens: Any, targets: Any) -> Callable[[], Any]:
    return inference(m, compiled, language_model(m), tokens)


def language_model_training(m: Any, compiled: Callable, tokens: Any, targets: Any) -> Callable[[], Any]:
    model = language_model(m)
    return training(m, compiled, model, lambda x, y: model(x, y)[1], tokens, targets)


def resnet_inference(m: Any, compiled: Callable, images: Any, labels: Any) -> Callable[[], Any]:
    return inference(m, compiled, drawn(m, published("resnet").resnet50()), images)


def resnet_training(m: Any, compiled: Callable, images: Any, labels: Any) -> Callable[[], Any]:
    file = published("resnet")
    model = drawn(m, file.resnet50())
    return training(m, compiled, model, lambda x, y: file.classification_loss(model(x), y), images, labels)


def vit_inference(m: Any, compiled: Callable, images: Any, labels: Any) -> Callable[[], Any]:
    return inference(m, compiled, drawn(m, published("vit").vit_small(image_size=128)), images)


# ---- graphs that grow: one function each of (m, f, *inputs) ---------------------------------------------------------


def written(lines: list[str], arguments: str) -> Callable[..., Any]:
    scope: dict[str, Any] = {}
    exec(f"def grown(m, f, {arguments}):\n" + "".join(f"    {line}\n" for line in lines), scope)
    return scope["grown"]


def pointwise(count: int) -> Callable[..., Any]:
    """`count` pointwise operators, one after another."""
    return written([*(f"x = x {'*+-'[k % 3]} {0.5 + k % 7}" for k in range(count)), "return x"], "x")


def layers(count: int) -> Callable[..., Any]:
    """`count` residual layers, each a norm, a product and a gelu; the sum is for the backward."""

    def grown(m: Any, f: Any, x: Any, w: Any) -> Any:
        for _ in range(count):
            x = x + f.gelu(m.matmul(f.layer_norm(x, (x.shape[-1],)), w))
        return m.sum(x)

    return grown


def branches(count: int) -> Callable[..., Any]:
    """`count` lines of Python that ask and choose; every fourth computes."""
    lines = ["n = 0"]
    for k in range((count - 2) // 4):
        lines += [f"if n % {k % 5 + 2} == 0:", f"    x, n = x + {k % 7}, n + {k % 3 + 1}"]
        lines += ["else:", f"    n = n + {k % 3 + 2}"]
    return written([*lines, "return x"], "x")
