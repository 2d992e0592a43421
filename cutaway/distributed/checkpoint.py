"""Sharded checkpoints: each rank writes its parts, and an index names them all; they load at any number of ranks.

Input: a module of fully_shard (or a plain one), and a folder that all ranks see. A checkpoint is whole or absent: parts
have names that no earlier save used, and only when all of them are on the disk does rank 0 put the index in place.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from cutaway.distributed.agreement import DistError
from cutaway.distributed.collectives import barrier
from cutaway.distributed.fully_shard import Sharded
from cutaway.distributed.group import resolve
from cutaway.distributed.object_collectives import broadcast_object_list
from stage0_eager import Tensor, no_grad
from stage0_eager.functions.joining import cat
from stage0_eager.serialization import load as read_tensors
from stage0_eager.serialization import save as write_tensors
from stage0_eager.serialization import write_whole

INDEX = "checkpoint.json"


def save(module: Any, folder: str | os.PathLike[str]) -> None:
    """Write the module's parameters and buffers. Every rank calls it. One that fails leaves the last save."""
    group, path = resolve(getattr(module, "group", None)), Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    told: list[Any] = [secrets.token_hex(8)]
    broadcast_object_list(told, group.ranks[0], group)
    names = [f"{told[0]}-{rank}.safetensors" for rank in range(group.size())]
    shapes = getattr(module, "shapes", {})
    state = {name: value.detach() for name, value in module.state_dict().items()}
    mine = {name: value for name, value in state.items() if name in shapes or group.rank == 0}
    write_tensors(mine, path / names[group.rank])
    barrier(group)  # all parts are on the disk
    if group.rank == 0:
        index = {"parts": names, "shapes": {name: list(shape) for name, shape in shapes.items()}}
        old = _index(path)
        write_whole(path / INDEX, [json.dumps(index).encode()])
        for name in old.get("parts", []):
            (path / name).unlink(missing_ok=True)
    barrier(group)


def load(module: Any, folder: str | os.PathLike[str]) -> None:
    """Read a checkpoint, of any number of ranks, into the module. Raises DistError where there is none."""
    path = Path(folder)
    index = _index(path)
    if not index:
        raise DistError(f"{path} has no {INDEX}, so no checkpoint was completed there; save one first")
    parts = [read_tensors(path / name) for name in index["parts"]]
    values: dict[str, Tensor] = dict(parts[0])
    for name, shape in index["shapes"].items():
        count = 1
        for size in shape:
            count *= size
        values[name] = cat([part[name] for part in parts])[:count].reshape(shape)
    if isinstance(module, Sharded):
        module.load_full_state_dict(values)
        return
    with no_grad():
        module.load_state_dict(values)


def _index(path: Path) -> dict[str, Any]:
    try:
        return json.loads((path / INDEX).read_text())
    except FileNotFoundError:
        return {}
