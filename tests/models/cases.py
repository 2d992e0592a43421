"""The four models at two sizes, with a batch for each: what compare.py and the quick tests run.

Input: the files beside this one, each executed once against a real torch and once under `as_torch()`. Batches are
NumPy arrays drawn from a seed, so that both frameworks get the same.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from cutaway.torch_api import as_torch

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """A model of `file`: how to build it, a batch of arrays, and how to get logits and loss from them."""

    name: str
    file: str
    build: Callable[[Any], Any]  # the file's module -> the model
    batch: Callable[[np.random.Generator], tuple]
    run: Callable[[Any, Any, tuple], tuple]  # the file's module, the model, tensors -> (logits, loss)
    seed: int = 0  # of the batch
    # changes torch's first weights, off the tape
    settle: Callable[[Any, Any], None] = lambda torch, model: None
    zero_gradients: str = ""  # the end of the names of parameters whose gradient is 0 in exact arithmetic


def load_file(file: str, cutaways: bool) -> ModuleType:
    """The model file as a module: `import torch` in it is Cutaway's, or whatever torch is installed."""
    name = f"{file}_on_{'cutaway' if cutaways else 'torch'}"
    spec = importlib.util.spec_from_file_location(name, HERE / f"{file}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with as_torch() if cutaways else nullcontext():
        spec.loader.exec_module(module)
    return module


def tensors(torch: Any, arrays: tuple, dtype: str) -> tuple:
    """The batch as tensors of `torch`; floating arrays in the given dtype."""
    return tuple(
        torch.from_numpy(a.astype(dtype) if a.dtype.kind == "f" else a) for a in (np.array(x) for x in arrays)
    )


# ---- how each file is fed ----------------------------------------------------------------------------------------


def _language(vocabulary: int, length: int, batch: int) -> Callable:
    def draw(rng: np.random.Generator) -> tuple:
        tokens = rng.integers(0, vocabulary, (batch, length + 1))
        targets = np.where(rng.random((batch, length)) < 0.1, -1, tokens[:, 1:])  # -1: not asked for
        return tokens[:, :-1], targets

    return draw


def _masked_language(vocabulary: int, length: int, batch: int) -> Callable:
    def draw(rng: np.random.Generator) -> tuple:
        labels = rng.integers(1, vocabulary, (batch, length))
        real = np.arange(length) < rng.integers(length // 2, length, (batch, 1))  # the rest is padding
        asked = (rng.random((batch, length)) < 0.3) & real
        tokens = np.where(real, np.where(asked, 1, labels), 0)
        segments = np.broadcast_to(np.arange(length) >= length // 3, (batch, length)).astype(np.int64)
        return tokens, real.astype(np.float64), segments, np.where(asked, labels, -100)

    return draw


def _images(size: int, batch: int, classes: int) -> Callable:
    return lambda rng: (rng.standard_normal((batch, 3, size, size)), rng.integers(0, classes, batch))


def _diffusion(size: int, batch: int) -> Callable:
    def draw(rng: np.random.Generator) -> tuple:
        images, noise = rng.standard_normal((2, batch, 3, size, size))
        return images, rng.integers(0, 1000, batch), noise

    return draw


def _classify(module: Any, model: Any, batch: tuple) -> tuple:
    logits = model(batch[0])
    return logits, module.classification_loss(logits, batch[1])


def _encode(module: Any, model: Any, batch: tuple) -> tuple:
    # the pooled output enters the loss too, or its weights would have no gradient
    loss, logits, pooled = model(batch[0], batch[1], batch[2], batch[3])
    return logits, loss + pooled.pow(2).mean()


def _call(module: Any, model: Any, batch: tuple) -> tuple:
    return model(*batch)


def _away_from_kinks(torch: Any, model: Any) -> None:
    """Move the biases of batch norms, so that few values come near 0 before a ReLU.

    A value that float32 rounds to the other side of 0 changes a gradient by 1e-3 to 1e-2, in torch against its own
    float64 too. Of the 5 million values that reach a ReLU of ResNeXt-101 from two images, 25 are as near as four
    times the rounding error with the usual first weights, and 2 with these, of which two fifths are negative still.
    `compare.py --seeds` finds the first batch with none.
    """
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            far = 0.5 if name.endswith("bn3") else 2.5  # bn3 ends a block; what it adds stays to the end
            module.bias += far * torch.sign(torch.randn_like(module.bias))


# ---- the table ---------------------------------------------------------------------------------------------------

# A shift of all keys by one vector moves all scores of a query alike, and softmax does not see it.
_KEYS = "attention.key.bias"


def _gpt2(**sizes: Any) -> Callable:
    return lambda m: m.GPT2(m.GPT2Config(**sizes, dropout=0.0))


def _bert(**sizes: Any) -> Callable:
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return lambda m: m.BertForMaskedLM(m.BertConfig(**sizes, **dropout))


def _unet(**sizes: Any) -> Callable:
    return lambda m: m.GaussianDiffusion(m.UNet(**sizes))


FULL = (
    Case("GPT-2, 4 layers of 128", "gpt2",
         _gpt2(block_size=128, vocab_size=1000, n_layer=4, n_head=4, n_embd=128),
         _language(1000, 96, 4), _call),
    Case("BERT, 4 layers of 128", "bert",
         _bert(vocab_size=1000, hidden_size=128, num_hidden_layers=4, num_attention_heads=4,
               intermediate_size=512, max_position_embeddings=128),
         _masked_language(1000, 96, 4), _encode, zero_gradients=_KEYS),
    Case("U-Net, 64 to 256 channels", "unet",
         _unet(model_channels=64, num_res_blocks=2, attention_resolutions=(2, 4)),
         _diffusion(32, 2), _call),
    Case("ResNet-50", "resnet", lambda m: m.resnet50(zero_init_residual=True), _images(64, 2, 1000), _classify,
         settle=_away_from_kinks, seed=1),
    Case("ResNeXt-101 32x8d", "resnet", lambda m: m.resnext101_32x8d(zero_init_residual=True),
         _images(64, 2, 1000), _classify, settle=_away_from_kinks, seed=13),
)  # fmt: skip

TINY = (
    Case("gpt2", "gpt2", _gpt2(block_size=16, vocab_size=31, n_layer=2, n_head=2, n_embd=16),
         _language(31, 12, 3), _call),
    Case("bert", "bert",
         _bert(vocab_size=31, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
               max_position_embeddings=16),
         _masked_language(31, 12, 3), _encode, zero_gradients=_KEYS),
    Case("unet", "unet",
         _unet(model_channels=16, num_res_blocks=1, attention_resolutions=(2,), channel_mult=(1, 2), num_heads=2),
         _diffusion(8, 2), _call),
    Case("resnet", "resnet", lambda m: m.ResNet(m.Bottleneck, [1, 1, 1, 1], num_classes=7, width_per_group=8),
         _images(32, 3, 7), _classify),
    Case("resnext", "resnet",
         lambda m: m.ResNet(m.Bottleneck, [1, 1, 2, 1], num_classes=7, groups=4, width_per_group=2),
         _images(32, 3, 7), _classify),
)  # fmt: skip
