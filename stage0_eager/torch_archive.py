"""save and load in torch's own file format, a zip archive: files go from torch to Cutaway and back, bit for bit.

Input: tensors in dicts, lists and tuples, and a path or a file. The archive has `data.pkl`, a pickle that describes the
containers, and one record `data/N` for each storage. Source: the page "Serialization semantics" of torch's notes.
Writing is here; reading, which trusts nothing, is in torch_archive_reading.py.
"""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from stage0_eager import arrays
from stage0_eager.nn.module import Parameter
from stage0_eager.serialization import write_whole
from stage0_eager.tensor import Tensor
from stage_contracts.device import Device
from stage_contracts.dtype import DTYPES, DType

# torch's class of storage for each dtype, as the pickle names it.
STORAGES = {
    "bool": "BoolStorage", "uint8": "ByteStorage", "int8": "CharStorage", "int16": "ShortStorage",
    "int32": "IntStorage", "int64": "LongStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage",
    "float32": "FloatStorage", "float64": "DoubleStorage", "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
}  # fmt: skip
ALIGNMENT = (
    64  # bytes; each storage begins at a multiple, as torch writes it, so that it can be mapped into memory
)
PROTOCOL = 2  # of the pickle: torch's default


def save(obj: Any, f: str | os.PathLike | BinaryIO, *_: Any, **__: Any) -> None:
    """Write tensors in dicts, lists, tuples and sets, with numbers, text and bytes, to a path or a file.

    A path is written completely or not at all. Tensors that share memory share it in the file. Raises TypeError, with
    the place, for any other object: save a module's state_dict.
    """
    file = io.BytesIO()
    _write(obj, file)
    if isinstance(f, (str, os.PathLike)):
        write_whole(Path(f), [file.getvalue()])
    else:
        f.write(file.getvalue())


def _write(obj: Any, file: BinaryIO) -> None:
    text = io.BytesIO()
    pickler = _Pickler(text)
    pickler.dump(obj)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _record(archive, "data.pkl", text.getvalue())
        _record(archive, ".format_version", b"1")
        _record(archive, ".storage_alignment", str(ALIGNMENT).encode())
        _record(archive, "byteorder", b"little")
        for number, whole in enumerate(pickler.storages):
            _record(archive, f"data/{number}", _little(whole))
        _record(archive, "version", b"3\n")


def _little(whole: np.ndarray) -> bytes:
    return whole.astype(whole.dtype.newbyteorder("<"), copy=False).tobytes()


def _record(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """One record, padded in its header so that its data begins at a multiple of ALIGNMENT."""
    info = zipfile.ZipInfo(f"archive/{name}")
    assert archive.fp is not None
    begins = (
        archive.fp.tell() + 30 + len(info.filename) + 4
    )  # the header, the name, and the padding's own header
    padding = -begins % ALIGNMENT
    info.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
    archive.writestr(info, data)


class _Global:
    """A name that the pickle refers to, such as torch._utils._rebuild_tensor_v2, which need not exist here."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self) -> None:  # pickle asks whether what rebuilds an object can be called
        raise NotImplementedError


class _Storage:
    def __init__(self, kind: str, key: str, count: int) -> None:
        self.id = ("storage", _Global(f"torch.{kind}"), key, "cpu", count)


class _Reduced:
    """What a tensor is made from: a function's name and its arguments."""

    def __init__(self, function: _Global, *arguments: Any) -> None:
        self.reduced = function, arguments


_TENSOR, _PARAMETER = _Global("torch._utils._rebuild_tensor_v2"), _Global("torch._utils._rebuild_parameter")
_ORDERED, _DEVICE = _Global("collections.OrderedDict"), _Global("torch.device")
_SET, _BYTES = _Global("builtins.set"), _Global("_codecs.encode")
_DTYPES = {name: _Global(f"torch.{'bool' if name == 'bool_' else name}") for name in DTYPES}

# What stands for a value in the pickle, by its type. The other types in _PLAIN are pickled as Python does.
_REDUCED: dict[type, Any] = {
    Device: lambda value: (_DEVICE, (str(value),)),
    set: lambda value: (_SET, (list(value),)),
    bytes: lambda value: (_BYTES, (value.decode("latin1"), "latin1")),
    OrderedDict: lambda value: (_ORDERED, (), vars(value) or None, None, iter(value.items())),
    _Reduced: lambda value: value.reduced,
}
_PLAIN = {type(None), bool, int, float, str, list, tuple, dict, _Global, _Storage, *_REDUCED}


_PythonPickler: Any = pickle._Pickler  # the one in Python, which can be extended by type


class _Pickler(_PythonPickler):
    """Pickles containers and plain values as Python does, tensors as torch does, and refuses everything else."""

    dispatch = dict(_PythonPickler.dispatch)

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, PROTOCOL)
        self.storages: list[np.ndarray] = []
        self._number: dict[int, int] = {}  # the address of a storage -> its number

    def persistent_id(self, obj: Any) -> Any:
        return obj.id if isinstance(obj, _Storage) else None

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if isinstance(obj, DType):
            obj = _DTYPES[obj.name]
        if not (isinstance(obj, Tensor) or type(obj) in _PLAIN):
            kind = f"{type(obj).__module__}.{type(obj).__qualname__}"
            raise TypeError(
                f"save writes tensors, and containers of tensors, numbers and text, but got {kind}; save the "
                f"state_dict() of a module or an optimizer"
            )
        super().save(obj, save_persistent_id)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return self._tensor(obj)
        reduced = _REDUCED.get(type(obj))
        return reduced(obj) if reduced else NotImplemented

    def _tensor(self, tensor: Tensor) -> tuple:
        array = arrays.move(tensor._real("save()"), arrays.CPU)
        whole = arrays.owner(array)
        if not isinstance(whole, np.ndarray) or whole.dtype != array.dtype or not whole.flags.forc:
            array = whole = np.ascontiguousarray(array).reshape(array.shape)
        begins, width = arrays.address(whole), array.dtype.itemsize
        number = self._number.setdefault(begins, len(self.storages))
        if number == len(self.storages):
            self.storages.append(whole.ravel(order="K"))
        storage = _Storage(STORAGES[tensor.dtype.name], str(number), whole.size)
        offset = (arrays.address(array) - begins) // width if array.size else 0
        strides = tuple(s // width for s in array.strides)
        is_parameter, wants = isinstance(tensor, Parameter), bool(tensor.requires_grad)
        data: Any = _TENSOR, storage, offset, array.shape, strides, wants and not is_parameter, OrderedDict()
        if is_parameter:
            return _PARAMETER, (_Reduced(*data), wants, OrderedDict())
        return data[0], data[1:]

    def _save_global(self, obj: _Global) -> None:
        module, _, name = obj.path.rpartition(".")
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())

    dispatch[_Global] = _save_global
