"""The first examples of the guides of torch.compile, as written, with random weights where a download would put them.

Input: on the command line, "plant" and a folder: the caches of torch.hub and of the Hugging Face hub are made there, by
the libraries' own classes on Cutaway. Then SCRIPTS run with TORCH_HOME and HF_HOME in that folder, nothing downloaded. The
devices named "cuda:0" in the guides are "cpu" where there is no GPU; what each prints is ours.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

RESNET = """
import torch
model = torch.hub.load('pytorch/vision:v0.10.0', 'resnet50', pretrained=True)
opt_model = torch.compile(model, backend="inductor")
out = opt_model(torch.randn(1,3,64,64))
"""
BERT = """
import torch
from transformers import BertTokenizer, BertModel
tokenizer = BertTokenizer.from_pretrained('bert-base-uncased')
model = BertModel.from_pretrained("bert-base-uncased").to(device="cpu")
model = torch.compile(model, backend="inductor") # This is the only line of code that we changed
text = "Replace me by any text you'd like."
encoded_input = tokenizer(text, return_tensors='pt').to(device="cpu")
output = model(**encoded_input)
out = output.last_hidden_state
"""
TIMM = """
import timm
import torch
model = timm.create_model('resnext101_32x8d', pretrained=True, num_classes=2)
opt_model = torch.compile(model, backend="inductor")
out = opt_model(torch.randn(64,3,7,7))
"""
_PRINT = "print(tuple(out.shape), bool(torch.isfinite(out).all()))\n"
_WHOLE = {'backend="inductor")': 'backend="inductor", fullgraph=True)'}


def _fullgraph(script: str) -> str:
    """The same with fullgraph=True, and its gradients: a loss as the guides write it."""
    for words, more in _WHOLE.items():
        script = script.replace(words, more)
    return script + "out.mean().backward()\n"


SCRIPTS = {
    "torchvision resnet50": RESNET + _PRINT,
    "torchvision resnet50, fullgraph": _fullgraph(RESNET) + _PRINT,
    "transformers BERT": BERT + _PRINT,
    "transformers BERT, fullgraph": _fullgraph(BERT) + _PRINT,
    "timm resnext101_32x8d": TIMM + _PRINT,
    "timm resnext101_32x8d, fullgraph": _fullgraph(TIMM) + _PRINT,
}
PRINTED = {
    "torchvision": "(1, 1000) True",
    "transformers": "(1, 12, 768) True",
    "timm": "(64, 2) True",
}  # by library: what the last line of each script prints
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] replace me by any text you ' d like .".split()


def environment(folder: Path) -> dict[str, str]:
    """Where the libraries look for what they would download."""
    return {
        "TORCH_HOME": str(folder / "torch"), "HF_HOME": str(folder / "huggingface"), "HF_HUB_OFFLINE": "1",
    }  # fmt: skip


def plant(folder: Path) -> None:
    """Weights of the three models, random, in the files that the libraries look for."""
    import timm
    import torch
    import torchvision
    from safetensors.torch import save_file
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    checkpoints = folder / "torch" / "hub" / "checkpoints"
    checkpoints.mkdir(parents=True)
    url = torchvision.models.ResNet50_Weights.IMAGENET1K_V1.url
    torch.save(torchvision.models.resnet50().state_dict(), checkpoints / Path(url).name)

    bert = _snapshot(folder, "bert-base-uncased")
    BertModel(BertConfig()).save_pretrained(bert)
    (bert / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (bert / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, "model_max_length": 512}))

    cfg = timm.get_pretrained_cfg("resnext101_32x8d")
    state = timm.create_model("resnext101_32x8d").state_dict()
    save_file(
        {k: v.contiguous() for k, v in state.items()}, _snapshot(folder, cfg.hf_hub_id) / "model.safetensors"
    )


def _snapshot(folder: Path, repository: str) -> Path:
    """Where the hub's cache keeps the files of a repository's main branch."""
    root, revision = folder / "huggingface" / "hub" / f"models--{repository.replace('/', '--')}", "0" * 40
    made = root / "snapshots" / revision
    made.mkdir(parents=True)
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text(revision)
    return made


if __name__ == "__main__":
    from cutaway.torch_api import as_torch

    with as_torch():
        plant(Path(sys.argv[1]))
