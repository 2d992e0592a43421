"""save and load: named tensors in the safetensors format. It has only data, so reading a file runs no code.

Input: a dict of tensors and a path. The file: 8 bytes (little endian) for the header's length, a JSON header that gives
each tensor's dtype, shape and place, then the tensors' bytes in row-major order, little endian, without gaps.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stage0_eager import arrays
from stage0_eager.tensor import Tensor
from stage_contracts.device import device_of
from stage_contracts.dtype import DTYPES

CODES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
    "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
    "complex64": "C64", "complex128": "C128",
}  # fmt: skip
_BY_CODE = {code: DTYPES[name] for name, code in CODES.items()}
LONGEST_HEADER = 100_000_000  # bytes; the limit of the format


class FormatError(ValueError):
    """The file is not a safetensors file, or it is damaged."""


def save(
    tensors: Mapping[str, Tensor], path: str | os.PathLike, metadata: Mapping[str, str] | None = None
) -> None:
    """Write named tensors to `path`. The file is written completely or not at all: a temporary file is renamed.

    Raises TypeError for anything but a dict of tensors: the format has no nested dicts, numbers or modules.
    """
    if not isinstance(tensors, Mapping):
        raise TypeError(f"save expects a dict of tensors by name, got {type(tensors).__name__}")
    header: dict[str, Any] = {}
    if metadata:
        header["__metadata__"] = {str(k): str(v) for k, v in metadata.items()}
    blocks: list[bytes] = []
    end = 0
    # wide elements first, so that every tensor starts at a multiple of its element's size
    for name, tensor in sorted(tensors.items(), key=_by_width):
        blocks.append(_bytes_of(tensor))
        start, end = end, end + len(blocks[-1])
        header[name] = {
            "dtype": CODES[tensor.dtype.name],
            "shape": [int(n) for n in tensor.shape],
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    write_whole(Path(path), [len(text).to_bytes(8, "little"), text, *blocks])


def _by_width(item: tuple[Any, Any]) -> tuple[int, str]:
    name, tensor = item
    if not isinstance(name, str):
        raise TypeError(f"save expects names as keys, got {name!r}")
    if name == "__metadata__":
        raise ValueError("the name '__metadata__' is reserved by the format; give the tensor another name")
    if not isinstance(tensor, Tensor):
        raise TypeError(f"save expects tensors only; {name!r} is {type(tensor).__name__}")
    return -tensor.dtype.itemsize, name


def _bytes_of(tensor: Tensor) -> bytes:
    array = np.ascontiguousarray(arrays.move(tensor._real("save()"), arrays.CPU))
    return _little(array).tobytes()


def _little(array: np.ndarray) -> np.ndarray:
    return array if sys.byteorder == "little" else array.byteswap()


def write_whole(path: Path, parts: list[bytes]) -> None:
    """Write a file completely or not at all."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)  # mkstemp makes private files
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike, map_location: Any = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name, on the CPU or on `map_location`. Raises FormatError for other
    files."""
    header, data = _read(path)
    header.pop("__metadata__", None)
    out = {
        name: Tensor(array if map_location is None else arrays.move(array, device_of(map_location)))
        for name, array in _tensors(path, header, data).items()
    }
    return out


def load_metadata(path: str | os.PathLike) -> dict[str, str]:
    """What `save` was given as metadata: texts by name. Raises FormatError for other files."""
    found = _read(path)[0].get("__metadata__", {})
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise FormatError(f"{path}: its metadata is not texts by name")
    return found


def _read(path: Any) -> tuple[dict[str, Any], bytearray]:
    """The header and the tensors' bytes."""
    size = Path(path).stat().st_size
    with Path(path).open("rb") as file:
        start = file.read(8)
        if len(start) < 8:
            raise FormatError(f"{path}: {size} bytes; expected at least the 8 of the header's length")
        length = int.from_bytes(start, "little")
        if length > LONGEST_HEADER:
            raise FormatError(
                f"{path}: header of {length} bytes; expected at most {LONGEST_HEADER}. Is it a safetensors file?"
            )
        if length > size - 8:
            raise FormatError(f"{path}: truncated: header of {length} bytes in a file of {size}")
        header = _parsed(path, file.read(length))
        return header, bytearray(file.read())


def _parsed(path: Any, text: bytes) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise FormatError(f"{path}: the header has the same key twice")
        return found

    try:
        header = json.loads(text.decode(), object_pairs_hook=unique)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise FormatError(f"{path}: the header is not JSON ({error})") from None
    if not isinstance(header, dict):
        raise FormatError(f"{path}: the header is a {type(header).__name__}; expected an object")
    return header


def _tensors(path: Any, header: dict[str, Any], data: bytearray) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    spans: list[tuple[int, int, str]] = []
    for name, entry in header.items():
        code, shape, (start, end) = _entry(path, name, entry)
        dtype = _BY_CODE[code]
        count = 1
        for n in shape:
            count *= n
        if end - start != count * dtype.itemsize:
            raise FormatError(
                f"{path}: tensor {name!r} of shape {shape} in {dtype.name} has {end - start} bytes; "
                f"expected {count * dtype.itemsize}"
            )
        if end > len(data):
            raise FormatError(f"{path}: truncated: tensor {name!r} ends at byte {end} of {len(data)}")
        spans.append((start, end, name))
        # each tensor owns its memory, so that it is aligned and one that lives on does not keep the whole file
        array = np.frombuffer(bytes(data[start:end]), dtype.numpy).copy()
        found[name] = _little(array).reshape(shape)
    reached = 0
    for start, end, name in sorted(spans):
        if start != reached:
            raise FormatError(f"{path}: tensor {name!r} starts at byte {start}; expected {reached}")
        reached = end
    if reached != len(data):
        raise FormatError(f"{path}: {len(data) - reached} bytes at the end do not belong to any tensor")
    return found


def _entry(path: Any, name: str, entry: Any) -> tuple[str, list[int], tuple[int, int]]:
    try:
        code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [*shape, *offsets]
        fine = isinstance(shape, list) and len(offsets) == 2 and all(type(n) is int for n in numbers)
        fine = fine and all(0 <= n < 2**63 for n in numbers) and offsets[0] <= offsets[1]
    except (KeyError, TypeError):
        fine = False
    if not fine:
        raise FormatError(f"{path}: tensor {name!r} has a broken entry in the header: {entry!r}")
    if not isinstance(code, str) or code not in _BY_CODE:
        raise FormatError(
            f"{path}: tensor {name!r} has dtype {code!r}; expected one of {', '.join(_BY_CODE)}"
        )
    if len(shape) > 64:
        raise FormatError(f"{path}: tensor {name!r} has {len(shape)} dimensions; expected at most 64")
    return code, shape, (offsets[0], offsets[1])


__all__ = ["FormatError", "load", "save"]
