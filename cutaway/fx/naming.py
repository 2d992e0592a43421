"""Names in fx graphs: of nodes, which are unique in their graph, and of functions, as generated code calls them.

Input: targets of nodes. MODULES has the modules under whose names functions are known: ours, and torch's once
cutaway.torch_api makes them.
"""

from __future__ import annotations

import builtins
import inspect
import keyword
import math
import operator
import re
import sys
from collections import Counter
from types import ModuleType, NoneType
from typing import Any

from stage0_eager.tensor import Tensor
from stage_contracts.device import Device
from stage_contracts.dtype import DType

MODULES: dict[str, ModuleType] = {}  # torch's, by path; torch_api fills it
_FUNCTIONS_IN = (
    "torch.nn.functional",
    "torch",
    "torch.linalg",
    "torch.special",
    "torch.fft",
    "torch.nn",
    "torch.fx",
    "torch.fx._symbolic_trace",
)
_KNOWN: dict[int, tuple[Any, str]] = {}  # id -> the object and its name


def root() -> str:
    """What generated code calls the language: torch if cutaway.torch_api is loaded, else cutaway."""
    return "torch" if MODULES else "cutaway"


def environment() -> dict[str, Any]:
    """The names that generated code may use without asking."""
    names: dict[str, Any] = {"inf": math.inf, "nan": math.nan, "NoneType": NoneType, "device": Device}
    return {**names, root(): MODULES.get("torch") or sys.modules["cutaway"]}


RESERVED = ("inf", "nan", "NoneType", "torch", "cutaway", "device", "fx_pytree", "pytree")


def public_name(obj: Any) -> str | None:
    """The name of a function or class of the language ("torch.nn.functional.relu"); None for any other."""
    if MODULES and not _KNOWN:
        for path in reversed([*_FUNCTIONS_IN]):
            for name, value in vars(MODULES[path]).items():
                if callable(value) and not name.startswith("__"):
                    _KNOWN[id(value)] = (value, f"{path}.{name}")
        for name in TORCH_FIRST:
            shared = getattr(MODULES["torch"], name, None)
            if shared is not None and getattr(MODULES["torch.nn.functional"], name, None) is shared:
                _KNOWN[id(shared)] = (shared, f"torch.{name}")
        _KNOWN[id(Tensor)] = (Tensor, "torch.Tensor")
    found = _KNOWN.get(id(obj))
    if found is not None:
        return found[1]
    if isinstance(obj, DType):
        return f"{root()}.{obj.name}"
    own = getattr(obj, "qualname", None)
    return own if isinstance(own, str) and own.startswith(("cutaway.", "core.")) else None


def qualified_name(function: Any) -> str:
    """`torch.relu`, `_operator.add`, `len`, `my_module.f`."""
    known = public_name(function)
    if known is not None:
        return known
    name = getattr(function, "__name__", None) or type(function).__name__
    if getattr(builtins, name, None) is function:
        return name
    module = getattr(function, "__module__", None) or type(function).__module__
    return f"{module}.{name}"


def shown_name(target: Any) -> str:
    """The name of a target for people: `operator.add`, `builtins.len`."""
    name = target if isinstance(target, str) else qualified_name(target)
    name = name.removeprefix("_") if name.startswith("_operator.") else name
    return f"builtins.{name}" if getattr(builtins, name, None) is target else name


# functions of torch.nn.functional that torch has in C++; a graph has their arguments as the program wrote them
_BUILT_IN = set(
    "avg_pool1d avg_pool2d avg_pool3d bilinear celu_ channel_shuffle conv1d conv2d conv3d conv_tbc conv_transpose1d "
    "conv_transpose2d conv_transpose3d cosine_similarity elu_ gelu hardshrink hardtanh_ leaky_relu_ linear logsigmoid "
    "native_channel_shuffle one_hot pairwise_distance pdist pixel_shuffle pixel_unshuffle prelu relu_ rrelu_ "
    "scaled_dot_product_attention selu_ softplus softshrink threshold_ adaptive_avg_pool1d".split()
)


_PRIVATE = set(  # of these, torch.nn.functional has the only public name
    "gelu linear softplus softshrink logsigmoid one_hot avg_pool2d avg_pool3d scaled_dot_product_attention elu_ "
    "hardtanh_ leaky_relu_".split()
)
TORCH_FIRST = (_BUILT_IN - _PRIVATE) | {"sigmoid", "tanh", "flatten"}


def whole_call(
    function: Any, args: tuple, kwargs: dict[str, Any], written: Any = None
) -> tuple[tuple, dict[str, Any]]:
    """The arguments as torch's graphs have them: those of the Python functions of torch.nn.functional are complete,
    and by name where they have a default. `written`: the function whose signature counts."""
    module, _, name = (public_name(function) or "").rpartition(".")
    if module != "torch.nn.functional" or name in _BUILT_IN:
        return args, kwargs
    bound = inspect.signature(written or function).bind(*args, **kwargs)
    bound.apply_defaults()
    words, named = [], {}
    for parameter in bound.signature.parameters.values():
        value = bound.arguments[parameter.name]
        if parameter.default is inspect.Parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            words.append(value)
        elif parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            named[parameter.name] = value
        else:
            return args, kwargs
    return tuple(words), named


def of_target(target: Any) -> str:
    """The name that a node of this target asks for: "add" for torch.add, "layers_0" for "layers.0"."""
    name = target if isinstance(target, str) else getattr(target, "__name__", type(target).__name__)
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


class Namespace:
    """The names in use in one graph or one text. An object's name is not given to another object."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self.counts: Counter[str] = Counter()

    def create(self, candidate: str) -> str:
        """`candidate` made an identifier, with a number behind it if it is in use, a keyword or a builtin."""
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        candidate = f"_{candidate}" if candidate[0].isdigit() else candidate
        numbered = re.match(r"(.*)_(\d+)$", candidate)
        base, number = (numbered[1], int(numbered[2])) if numbered else (candidate, 0)
        number = number or self.counts[base]
        while candidate in self.used or _taken(candidate):
            number += 1
            candidate = f"{base}_{number}"
        self.used.add(candidate)
        self.counts[base] = number
        return candidate


def _taken(name: str) -> bool:
    return name in keyword.kwlist or hasattr(builtins, name) or name in RESERVED


# ---- operators that generated code writes as Python writes them ------------------------------------------------------

_BINARY = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^", "eq": "==", "ne": "!=", "lt": "<",
    "gt": ">", "le": "<=", "ge": ">=",
}  # fmt: skip
INFIX = {getattr(operator, name): f"{{}} {sign} {{}}" for name, sign in _BINARY.items()} | {
    operator.pos: "+{}", operator.neg: "-{}", operator.invert: "~{}", operator.getitem: "{}[{}]",
}  # fmt: skip
IN_PLACE = {
    getattr(operator, f"i{name.rstrip('_')}"): f"{{}} {sign}= {{}}"
    for name, sign in _BINARY.items()
    if hasattr(operator, f"i{name.rstrip('_')}")
}
REFLECTABLE = "add sub mul truediv floordiv mod pow matmul lshift rshift and_ or_ xor".split()
