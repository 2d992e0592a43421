"""Sixteen models of three libraries, each with a small random configuration, and their inputs.

Input: `torch`, which is torch or Cutaway, and the number of the draw. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

Inputs = dict[str, Any]


class Model(NamedTuple):
    make: Callable[[], Any]  # builds the module, inside the block in which `import torch` is settled
    inputs: Callable[[Any, int], Inputs]  # its inputs of one draw, made with that torch


def _draws(torch: Any, draw: int, *shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng((0, draw)).standard_normal(shape))


def _tokens(torch: Any, draw: int, *shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng((1, draw)).integers(0, VOCABULARY, shape))


VOCABULARY = 50


def _ids(torch: Any, draw: int) -> Inputs:
    return {"input_ids": _tokens(torch, draw, 2, 7)}


def _two_texts(torch: Any, draw: int) -> Inputs:
    return {"input_ids": _tokens(torch, draw, 2, 7), "decoder_input_ids": _tokens(torch, draw, 2, 5)}


def _image(name: str, size: int, torch: Any, draw: int) -> Inputs:
    return {name: _draws(torch, draw, 2, 3, size, size)}


def _sound(torch: Any, draw: int) -> Inputs:
    return {"input_features": _draws(torch, draw, 2, 8, 40)}


def _transformer(cls: str, config: str, **sizes: Any) -> Any:
    import transformers

    return getattr(transformers, cls)(getattr(transformers, config)(**sizes))


def _whisper(**sizes: Any) -> Any:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    return WhisperEncoder(WhisperConfig(**sizes))


def _timm(name: str, **options: Any) -> Any:
    import timm

    return timm.create_model(name, pretrained=False, **options)


def _torchvision(name: str, **options: Any) -> Any:
    import torchvision

    return getattr(torchvision.models, name)(weights=None, **options)


def _segmentation(name: str) -> Any:
    import torchvision

    return getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None)


_BERT = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
_STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_TEXT = {"vocab_size": VOCABULARY}

MODELS: dict[str, Model] = {
    "transformers GPT-2": Model(
        partial(_transformer, "GPT2LMHeadModel", "GPT2Config", n_layer=2, n_embd=32, n_head=4, n_positions=64, **_TEXT),
        _ids,
    ),
    "transformers BERT": Model(
        partial(_transformer, "BertForSequenceClassification", "BertConfig", **_BERT, **_STILL, **_TEXT), _ids
    ),
    "transformers Llama": Model(
        partial(_transformer, "LlamaForCausalLM", "LlamaConfig", num_key_value_heads=2, **_BERT, **_TEXT), _ids
    ),
    "transformers T5": Model(
        partial(_transformer, "T5ForConditionalGeneration", "T5Config", num_layers=2, d_model=32, d_kv=8, d_ff=64,
                num_heads=4, **_TEXT),
        _two_texts,
    ),
    "transformers ViT": Model(
        partial(_transformer, "ViTForImageClassification", "ViTConfig", image_size=32, patch_size=8, **_BERT, **_STILL),
        partial(_image, "pixel_values", 32),
    ),
    "transformers Whisper, encoder": Model(
        partial(_whisper, encoder_layers=2, d_model=32, encoder_attention_heads=4, encoder_ffn_dim=64, num_mel_bins=8,
                max_source_positions=20),
        _sound,
    ),
    "timm resnet50": Model(partial(_timm, "resnet50"), partial(_image, "x", 64)),
    "timm resnext101_32x8d": Model(partial(_timm, "resnext101_32x8d"), partial(_image, "x", 64)),
    "timm vit_tiny": Model(
        partial(_timm, "vit_tiny_patch16_224", img_size=32, depth=2), partial(_image, "x", 32)
    ),
    "timm convnext_tiny": Model(
        partial(_timm, "convnext_tiny", depths=(1, 1, 2, 1), dims=(16, 32, 64, 128)), partial(_image, "x", 64)
    ),
    "timm efficientnet_b0": Model(partial(_timm, "efficientnet_b0"), partial(_image, "x", 64)),
    "timm swin_tiny": Model(
        partial(_timm, "swin_tiny_patch4_window7_224", img_size=56, depths=(2, 2), num_heads=(2, 4), embed_dim=32),
        partial(_image, "x", 56),
    ),
    "torchvision resnet50": Model(partial(_torchvision, "resnet50"), partial(_image, "x", 64)),
    "torchvision mobilenet_v3_small": Model(
        partial(_torchvision, "mobilenet_v3_small"), partial(_image, "x", 64)
    ),
    "torchvision vit_b_16": Model(
        partial(_torchvision, "vit_b_16", image_size=32), partial(_image, "x", 32)
    ),
    "torchvision fcn_resnet50": Model(partial(_segmentation, "fcn_resnet50"), partial(_image, "x", 64)),
}  # fmt: skip


def result_of(model: Any, inputs: Inputs) -> Any:
    """The tensor that a call of the model is about."""
    found = model(inputs["x"]) if "x" in inputs else model(**inputs)
    for name in ("logits", "last_hidden_state"):
        if hasattr(found, name):
            return getattr(found, name)
    return found["out"] if isinstance(found, dict) else found
