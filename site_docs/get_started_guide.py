"""The programs of the guide "Getting started", and what each prints when the site is built: PROGRAMS and SHOWN.

Input: torch's guide of that name, whose steps the programs follow in its order. A model that the guide downloads is a
small one here, planted under the same import with drawn weights. guide_page.py runs them.
"""

PROGRAMS = {
    "example.py": """\
import torch

def fn(x):
    a = torch.cos(x)
    b = torch.sin(a)
    return b

new_fn = torch.compile(fn, backend="inductor")
input_tensor = torch.randn(10000)
a = new_fn(input_tensor)
print((a - fn(input_tensor)).abs().max().item() < 1e-6)
""",
    "hubconf.py": '''\
"""Planted for torch.hub: a residual network of one block, with drawn weights."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return torch.relu(x + self.second(torch.relu(self.norm(self.first(x)))))


def resnet50(classes=1000):
    stem = nn.Conv2d(3, 16, 7, stride=2, padding=3)
    return nn.Sequential(stem, Block(16), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, classes))
''',
    "real_model.py": """\
import torch

model = torch.hub.load(".", "resnet50", source="local")
opt_model = torch.compile(model, backend="inductor")
print(tuple(opt_model(torch.randn(1, 3, 64, 64)).shape))
""",
    "backends.py": """\
import torch

print(torch.compiler.list_backends())

x = torch.randn(100)
print("cudagraphs:", torch.allclose(torch.compile(torch.sin, backend="cudagraphs")(x), torch.sin(x)))
""",
    "transformers.py": '''\
"""Planted for the package transformers: a tokenizer of letters and an encoder of two layers, with drawn weights."""

from types import SimpleNamespace

import torch
from torch import nn


class Encoding(dict):
    def to(self, device):
        return Encoding({name: tensor.to(device) for name, tensor in self.items()})


class BertTokenizer:
    @classmethod
    def from_pretrained(cls, name):
        return cls()

    def __call__(self, text, return_tensors):
        ids = torch.tensor([[1, *(ord(letter) % 100 + 3 for letter in text), 2]])
        return Encoding(input_ids=ids, attention_mask=torch.ones_like(ids))


class BertModel(nn.Module):
    @classmethod
    def from_pretrained(cls, name):
        return cls().eval()

    def __init__(self, width=32):
        super().__init__()
        self.words = nn.Embedding(103, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, input_ids, attention_mask):
        hidden = self.encoder(self.words(input_ids), src_key_padding_mask=attention_mask == 0)
        return SimpleNamespace(last_hidden_state=hidden)
''',
    "bert.py": """\
import torch
from transformers import BertModel, BertTokenizer

tokenizer = BertTokenizer.from_pretrained("bert-base-uncased")
model = BertModel.from_pretrained("bert-base-uncased").to(device="cpu")
model = torch.compile(model, backend="inductor")  # the only line that is new
text = "Replace me by any text you'd like."
encoded_input = tokenizer(text, return_tensors="pt").to(device="cpu")
output = model(**encoded_input)
print(tuple(output.last_hidden_state.shape))
""",
    "timm.py": """\
from hubconf import resnet50

def create_model(name, pretrained, num_classes):
    return resnet50(num_classes)
""",
    "vision.py": """\
import timm
import torch

model = timm.create_model("resnext101_32x8d", pretrained=True, num_classes=2)
opt_model = torch.compile(model, backend="inductor")
print(tuple(opt_model(torch.randn(64, 3, 7, 7)).shape))
""",
}

SHOWN = {
    "kernel": (
        "TORCH_LOGS=kernel_code python on_cutaway.py example.py 2>&1 | grep -m 1 -A 12 'fused_cos_sin_0('",
        20,
    ),
    "debug": (
        "TORCH_COMPILE_DEBUG=1 python on_cutaway.py example.py\n"
        "ls torch_compile_debug/*/torchinductor/*\n"
        "python torch_compile_debug/*/torchinductor/*/output_code.py",
        30,
    ),
    "real model": ("python on_cutaway.py real_model.py backends.py", 5),
    "bert": ("python on_cutaway.py bert.py", 5),
    "vision": ("python on_cutaway.py vision.py", 5),
}
