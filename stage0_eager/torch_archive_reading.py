"""load for torch's zip archives: tensors and containers only. Every number in the file is checked before it is used.

Input: a path or a file, from anybody. No code runs: the pickle's operations are on a list, and the functions that it
may name are a table of this file. Anything else is refused by its name.
"""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from stage0_eager import arrays
from stage0_eager.nn.module import Parameter
from stage0_eager.serialization import FormatError
from stage0_eager.serialization import load as load_safetensors
from stage0_eager.tensor import Tensor
from stage0_eager.torch_archive import STORAGES
from stage_contracts.device import Device, device_of
from stage_contracts.dtype import DTYPES, DType

LONGEST_PICKLE = 100_000_000  # bytes
MOST_RECORDS = 100_000
MOST_DIMS = 64  # of NumPy

# The pickle's operations that tensors and containers need. Each holds its data in the file, so none asks for memory.
OPERATIONS = frozenset(
    "PROTO FRAME STOP MARK POP POP_MARK DUP NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4 FLOAT "
    "BINFLOAT BINUNICODE SHORT_BINUNICODE BINUNICODE8 BINBYTES SHORT_BINBYTES BINBYTES8 EMPTY_LIST LIST APPEND APPENDS "
    "EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT DICT SETITEM SETITEMS EMPTY_SET ADDITEMS GET BINGET "
    "LONG_BINGET PUT BINPUT LONG_BINPUT MEMOIZE GLOBAL STACK_GLOBAL REDUCE NEWOBJ BUILD BINPERSID".split()
)


def load(
    f: str | os.PathLike | BinaryIO,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = True,
    mmap: bool | None = None,
) -> Any:
    """What torch.save wrote to a path or a file; also the tensors of a safetensors file.

    `map_location`: a device, or None for the CPU. Only tensors and containers are read, also with
    `weights_only=False`. Raises FormatError, a ValueError, for a damaged file and for any other content, by name.
    """
    if pickle_module is not None:
        raise TypeError("load reads tensors and containers only, and takes no pickle_module")
    name = str(f) if isinstance(f, (str, os.PathLike)) else getattr(f, "name", "this file")
    if not isinstance(f, (str, os.PathLike)):
        return _read(f, name, map_location)
    with Path(f).open("rb") as file:
        if file.read(4) == b"PK\x03\x04":
            return _read(file, name, map_location)
    if _begins_with_pickle(f):
        raise FormatError(
            f"{name}: a pickle, torch's format before version 1.6; load it in torch and save it again"
        )
    return load_safetensors(f, map_location)


def _begins_with_pickle(path: str | os.PathLike) -> bool:
    with Path(path).open("rb") as file:
        start = file.read(9)
    return start[:1] == b"\x80" and start[8:] != b"{"


def _read(file: BinaryIO, name: str, map_location: Any) -> Any:
    device = device_of(map_location) if isinstance(map_location, (str, Device)) else None
    try:
        file.seek(0, os.SEEK_END)
        size = file.tell()
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            records = _records(archive, size)
            unpickler = _Unpickler(_checked(records, "data.pkl"), records, device)
            return unpickler.load()
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from None
    except (zipfile.BadZipFile, pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError, ArithmeticError,
            AttributeError, NotImplementedError, RecursionError, AssertionError, OSError) as error:  # fmt: skip
        raise FormatError(
            f"{name}: damaged, or not an archive of torch: {error or type(error).__name__}"
        ) from error


# ---- the archive ---------------------------------------------------------------------------------------------------


class _Records:
    """The records of an archive by name, without its top folder."""

    def __init__(self, archive: zipfile.ZipFile, infos: dict[str, zipfile.ZipInfo]) -> None:
        self.archive, self.infos = archive, infos
        self.order = "<"

    def size(self, name: str) -> int:
        if name not in self.infos:
            raise FormatError(f"the record {name!r} is missing")
        return self.infos[name].file_size

    def read(self, name: str) -> bytes:
        """The bytes of a record. Raises if they are not those that were written (a sum of the archive says so)."""
        self.size(name)
        return self.archive.read(self.infos[name])


def _records(archive: zipfile.ZipFile, size: int) -> _Records:
    found: dict[str, zipfile.ZipInfo] = {}
    infos = archive.infolist()
    if len(infos) > MOST_RECORDS:
        raise FormatError(f"{len(infos):,} records; expected at most {MOST_RECORDS:,}")
    for info in infos:
        top, _, name = info.filename.partition("/")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise FormatError(f"the record {info.filename!r} is compressed, which torch never does")
        if name in found:
            raise FormatError(f"two records {name!r}")
        found[name] = info
    total = sum(info.file_size for info in infos)
    if total > size:
        raise FormatError(f"records of {total:,} bytes in a file of {size:,}: some share their bytes")
    if "constants.pkl" in found:
        raise FormatError("a TorchScript program, not weights; save the state_dict() of the module")
    records = _Records(archive, found)
    if "byteorder" in found:
        orders = {b"little": "<", b"big": ">"}
        text = records.read("byteorder")
        if text not in orders:
            raise FormatError(f"byteorder {text[:20]!r}; expected 'little' or 'big'")
        records.order = orders[text]
    return records


# ---- the pickle ----------------------------------------------------------------------------------------------------


def _checked(records: _Records, name: str) -> bytes:
    """The pickle, if all its operations are on the list."""
    if records.size(name) > LONGEST_PICKLE:
        raise FormatError(f"{name} of {records.size(name):,} bytes; expected at most {LONGEST_PICKLE:,}")
    text = records.read(name)
    for operation, _, _ in pickletools.genops(text):
        if operation.name not in OPERATIONS:
            raise FormatError(
                f"the operation {operation.name} in {name} is not one that tensors and containers need"
            )
    return text


class _Storage:
    def __init__(self, array: np.ndarray, dtype: DType | None) -> None:
        self.array, self.dtype = array, dtype


class _Kind:
    """torch's class of storage for a dtype; UntypedStorage has none."""

    def __init__(self, dtype: DType | None) -> None:
        self.dtype = dtype


def _tensor(device: Device | None) -> Callable:
    def rebuild(
        storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, *more: Any
    ) -> Tensor:
        if not isinstance(storage, _Storage):
            raise FormatError(f"a tensor needs a storage, but has {type(storage).__name__}")
        dtype = storage.dtype or (more[0] if more else None)
        if not isinstance(dtype, DType) or hooks:
            raise FormatError("a tensor without a dtype, or with hooks")
        array = _view(storage.array.view(dtype.numpy), offset, size, stride)
        made = Tensor(array if device is None else arrays.move(array, device))
        return made.requires_grad_() if requires_grad else made

    return rebuild


def _view(array: np.ndarray, offset: Any, size: Any, stride: Any) -> np.ndarray:
    """The part of a storage that is a tensor, if all of it is there."""
    if not all(type(n) is int and n >= 0 for n in (offset, *size, *stride)) or len(size) != len(stride):
        raise FormatError(
            f"a tensor of size {size}, strides {stride} at {offset}; expected equal numbers from 0 on"
        )
    if len(size) > MOST_DIMS:
        raise FormatError(f"a tensor of {len(size)} dimensions; expected at most {MOST_DIMS}")
    if 0 in size:
        return np.empty(size, array.dtype)
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if last >= array.size:
        raise FormatError(f"a tensor that ends at element {last} of a storage of {array.size}")
    strides = [s * array.dtype.itemsize for s in stride]
    return np.lib.stride_tricks.as_strided(array[offset:], size, strides)


def _parameter(data: Any, requires_grad: Any, hooks: Any) -> Parameter:
    if not isinstance(data, Tensor) or hooks:
        raise FormatError(f"a parameter of {type(data).__name__}, or with hooks")
    return Parameter(data, bool(requires_grad))


def _bytes(text: Any, encoding: Any) -> bytes:
    if encoding != "latin1":
        raise FormatError(f"bytes in the encoding {encoding!r}; expected 'latin1'")
    return text.encode("latin1")


def _set(items: Any) -> set:
    return {*items}


def _size(items: Sequence) -> tuple:
    return tuple(items)


KINDS = {f"torch.{name}": _Kind(DTYPES[dtype]) for dtype, name in STORAGES.items()}
NAMES: dict[str, Any] = {
    "collections.OrderedDict": OrderedDict,
    "torch._utils._rebuild_parameter": _parameter,
    "_codecs.encode": _bytes,
    "builtins.set": _set, "__builtin__.set": _set,
    "torch.Size": _size,
    "torch.device": lambda kind, index=0: Device(kind, index),
    "torch.storage.UntypedStorage": _Kind(None), "torch.UntypedStorage": _Kind(None),
    **KINDS,
    **{f"torch.{name}": dtype for name, dtype in DTYPES.items()},
}  # fmt: skip


_PythonUnpickler: Any = pickle._Unpickler  # the one in Python: its memo is no larger than what is in it


class _Unpickler(_PythonUnpickler):
    """Makes tensors and containers; a name that is not in NAMES is refused."""

    dispatch = dict(_PythonUnpickler.dispatch)

    def __init__(self, text: bytes, records: _Records, device: Device | None) -> None:
        super().__init__(io.BytesIO(text))
        self._records, self._made = records, dict[str, _Storage]()
        rebuild = _tensor(device)
        self._names = NAMES | {f"torch._utils._rebuild_tensor_{version}": rebuild for version in ("v2", "v3")}

    def find_class(self, module: str, name: str) -> Any:
        found = self._names.get(f"{module}.{name}")
        if found is None:
            raise FormatError(f"{module}.{name} is not a tensor or a container; Cutaway reads nothing else")
        return found

    def persistent_load(self, pid: Any) -> _Storage:
        if not (type(pid) is tuple and len(pid) == 5 and pid[0] == "storage" and isinstance(pid[1], _Kind)):
            raise FormatError("a storage that is not described as torch does")
        _, kind, key, _, count = pid
        if type(key) is not str or type(count) is not int:
            raise FormatError(
                f"a storage with the key {key!r} and the length {count!r}; expected text and a number"
            )
        width = kind.dtype.itemsize if kind.dtype else 1
        name = f"data/{key}"
        if self._records.size(name) != count * width:
            raise FormatError(
                f"{name} has {self._records.size(name):,} bytes; expected {count:,} elements of {width}"
            )
        if name not in self._made:
            code = kind.dtype.numpy if kind.dtype else np.dtype(np.uint8)
            data = np.frombuffer(self._records.read(name), np.uint8)
            if self._records.order == ">":
                number = width // 2 if code.kind == "c" else width
                data = data.reshape(-1, number)[:, ::-1].reshape(-1)
            own = np.ascontiguousarray(data).view(code).copy()  # views of it are saved as one storage again
            self._made[name] = _Storage(own, kind.dtype)
        made = self._made[name]
        if made.dtype is not kind.dtype:
            raise FormatError(f"{name} is a storage of two dtypes")
        return made

    def _build(self) -> None:
        """Give an OrderedDict its attributes, such as a state_dict's _metadata."""
        state = self.stack.pop()
        made = self.stack[-1]
        if type(made) is not OrderedDict or type(state) is not dict or not all(type(k) is str for k in state):
            raise FormatError(
                f"attributes for {type(made).__name__}; expected them for an OrderedDict only, by name"
            )
        vars(made).update(state)

    dispatch[pickle.BUILD[0]] = _build
