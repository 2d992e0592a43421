"""NCCL's library by ctypes, with the calls of `cupy.cuda.nccl`: for a CuPy that was built without it.

Input: libnccl.so.2 of NVIDIA's wheel (`nvidia-nccl-cu13`), of the system, or beside torch, which is not imported.
Addresses and streams are integers, as CuPy gives them. Each call raises NcclError with NCCL's words.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ID_BYTES = 128
TYPES = "INT8 UINT8 INT32 UINT32 INT64 UINT64 FLOAT16 FLOAT32 FLOAT64 BFLOAT16".split()  # ncclDataType_t
OPS = "SUM PROD MAX MIN AVG".split()  # ncclRedOp_t
PACKAGES = {
    "nvidia.nccl": "lib",
    "nvidia.cu13": "lib",
    "nvidia.cu12": "lib",
    "torch": "lib",
}  # folders of wheels


class NcclError(RuntimeError):
    """What ncclGetErrorString says."""


class UniqueId(ctypes.Structure):
    _fields_ = (("internal", ctypes.c_byte * ID_BYTES),)


def places() -> Iterator[str]:
    """Where the library may be, the likely places first."""
    for package, folder in PACKAGES.items():
        try:
            spec = importlib.util.find_spec(package)
        except ImportError:  # no package above it
            continue
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield from map(str, sorted(Path(place, folder).glob("libnccl.so*")))
    yield "libnccl.so.2"
    found = ctypes.util.find_library("nccl")
    yield from [found] if found else []


def load() -> Any:
    """The library. OSError names every place that was tried."""
    tried = []
    for place in places():
        try:
            return ctypes.CDLL(place, ctypes.RTLD_GLOBAL)
        except OSError as error:
            tried.append(f"{place}: {error}")
    raise OSError("found no NCCL library; tried " + "; ".join(tried))


POINTER, COUNT, NUMBER = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
# The arguments of each call, without the communicator and the stream, which come last.
CALLS = {
    "AllReduce": [POINTER, POINTER, COUNT, NUMBER, NUMBER],
    "Reduce": [POINTER, POINTER, COUNT, NUMBER, NUMBER, NUMBER],
    "Broadcast": [POINTER, POINTER, COUNT, NUMBER, NUMBER],
    "ReduceScatter": [POINTER, POINTER, COUNT, NUMBER, NUMBER],
    "AllGather": [POINTER, POINTER, COUNT, NUMBER],
    "Send": [POINTER, COUNT, NUMBER, NUMBER],
    "Recv": [POINTER, COUNT, NUMBER, NUMBER],
}


def binding(library: Any = None) -> SimpleNamespace:
    """`get_unique_id`, `NcclCommunicator`, `groupStart`, `groupEnd` and the numbers of types and operations."""
    lib = library or load()
    lib.ncclGetErrorString.restype = ctypes.c_char_p
    lib.ncclCommInitRank.argtypes = [ctypes.POINTER(POINTER), NUMBER, UniqueId, NUMBER]
    for name, arguments in CALLS.items():
        getattr(lib, f"nccl{name}").argtypes = [*arguments, POINTER, POINTER]
    for name in ("CommDestroy", "CommAbort"):
        getattr(lib, f"nccl{name}").argtypes = [POINTER]

    def check(name: str, *arguments: Any) -> None:
        status = getattr(lib, name)(*arguments)
        if status:
            raise NcclError(f"{name}: {lib.ncclGetErrorString(status).decode()}")

    def get_unique_id() -> bytes:
        made = UniqueId()
        check("ncclGetUniqueId", ctypes.byref(made))
        return bytes(made)

    class NcclCommunicator:
        def __init__(self, ndev: int, commId: bytes, rank: int) -> None:
            self.comm = POINTER()
            told = UniqueId.from_buffer_copy(commId)
            check("ncclCommInitRank", ctypes.byref(self.comm), ndev, told, rank)

        def __getattr__(self, name: str) -> Any:
            """allReduce and the others: the arguments of CALLS, then the stream."""
            call = f"nccl{name[0].upper()}{name[1:]}"
            if call.removeprefix("nccl") not in CALLS:
                raise AttributeError(name)
            return lambda *arguments: check(call, *arguments[:-1], self.comm, arguments[-1])

        def _end(self, call: str) -> None:
            comm, self.comm = self.comm, POINTER()
            if comm:
                check(call, comm)

        def destroy(self) -> None:
            self._end("ncclCommDestroy")

        def abort(self) -> None:
            self._end("ncclCommAbort")

    return SimpleNamespace(
        get_unique_id=get_unique_id, NcclCommunicator=NcclCommunicator,
        groupStart=lambda: check("ncclGroupStart"), groupEnd=lambda: check("ncclGroupEnd"),
        **{f"NCCL_{name}": k for k, name in enumerate(TYPES)}, **{f"NCCL_{name}": k for k, name in enumerate(OPS)},
    )  # fmt: skip
