"""torch.save and torch.load: tensors, numbers, text, and dicts, lists and tuples of them, in a safetensors file.

Input: an object, and a path or an open file. The tensors are in the file as safetensors has them; what holds them is
JSON in its metadata. Reading a file runs no code. A dict of tensors by name is the same file as cutaway.save makes.
"""

from __future__ import annotations

import json
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stage0_eager import nn, serialization
from stage0_eager.tensor import Tensor

_KEY = "torch.save"  # of the metadata
_PLAIN = (str, bool, int, float, type(None))


def save(obj: Any, f: Any, metadata: Mapping[str, str] | None = None) -> None:
    """Write obj to a path or an open binary file."""
    tensors: dict[str, Tensor] = {}
    if _is_named(obj):
        tensors, said = dict(obj), dict(metadata or {})
    else:
        said = {**(metadata or {}), _KEY: json.dumps(_described(obj, tensors))}
    if not hasattr(f, "write"):
        serialization.save(tensors, f, said or None)
        return
    with tempfile.TemporaryDirectory() as folder:
        serialization.save(tensors, Path(folder, "saved"), said or None)
        f.write(Path(folder, "saved").read_bytes())


def load(f: Any, map_location: Any = None, *, weights_only: bool = True, mmap: Any = None) -> Any:
    """What save wrote to a path or an open binary file. Files of pickled objects are refused."""
    if hasattr(f, "read"):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "saved").write_bytes(f.read())
            return load(Path(folder, "saved"), map_location)
    tensors = serialization.load(f, map_location)
    said = serialization.metadata_of(f).get(_KEY)
    return tensors if said is None else _made(json.loads(said), tensors)


def _is_named(obj: Any) -> bool:
    return type(obj) in (dict, OrderedDict) and all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in obj.items()
    )


# kind: (its class, what is in it as a list, the object of a list). Dicts hold pairs, so that keys may be numbers.
_HOLDERS: dict[str, tuple[type, Callable[[Any], list], Callable[[list], Any]]] = {
    "dict": (dict, lambda d: [list(pair) for pair in d.items()], lambda pairs: dict(map(tuple, pairs))),
    "OrderedDict": (OrderedDict, lambda d: [list(pair) for pair in d.items()],
                    lambda pairs: OrderedDict(map(tuple, pairs))),
    "list": (list, list, list),
    "tuple": (tuple, list, tuple),
}  # fmt: skip


def _described(obj: Any, tensors: dict[str, Tensor]) -> Any:
    """obj as JSON; each tensor goes into `tensors`, under a number."""
    if isinstance(obj, Tensor):
        name = str(len(tensors))
        tensors[name] = obj.detach()
        return {"parameter" if isinstance(obj, nn.Parameter) else "tensor": name}
    if type(obj) in _PLAIN:
        return obj
    kind = next((kind for kind, (cls, *_) in _HOLDERS.items() if type(obj) is cls), None)
    if kind is None:
        raise TypeError(
            f"save takes tensors, numbers, text, and dicts, lists and tuples of them, but got {type(obj).__name__}; "
            "save its state_dict()"
        )
    return {kind: [_described(part, tensors) for part in _HOLDERS[kind][1](obj)]}


def _made(said: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(said, dict):
        return said
    ((kind, inside),) = said.items()
    if kind in ("tensor", "parameter"):
        return nn.Parameter(tensors[inside]) if kind == "parameter" else tensors[inside]
    return _HOLDERS[kind][2]([_made(part, tensors) for part in inside])
