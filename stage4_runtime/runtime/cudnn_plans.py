"""cuDNN's execution plans: a convolution whose kernel is chosen once, so that a call only launches it.

Input: a `Convolution` of halves. The functions by name, of cudnn.py, look for a kernel anew at each call, which takes
the host 80 to 230 us; a plan takes it about 5. A plan is made of descriptors with attributes: tensors, a convolution,
an operation, a graph of one operation, and the heuristics' configurations of engines, of which the first that fits is
taken.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stage4_runtime.runtime.cudnn import TYPES, WORKSPACE, Convolution, Cudnn, CudnnError, Handles, strides_of
from stage_contracts.errors import DeviceError

ALIGNMENT = 16  # bytes: what a plan may expect of each address
FEW = 4  # configurations among which there mostly is one that fits
PACKS = 16  # sets of addresses that are kept ready for each plan

# cudnnBackendDescriptorType_t
CONVOLUTION, ENGINE, CONFIGURATION, HEURISTICS, PLAN, GRAPH, PACK, TENSOR = 1, 2, 3, 4, 5, 15, 16, 17
OPERATION = {"y": 10, "w": 11, "x": 12}  # by what is made
# cudnnBackendAttributeType_t, with the C type of an element
HANDLE, DATA_TYPE, INT64, FLOAT, VOID_PTR, CONVOLUTION_MODE, HEURISTIC_MODE, NOTE, DESCRIPTOR = (
    0, 1, 3, 4, 6, 7, 8, 11, 15,
)  # fmt: skip
C_TYPES: dict[int, Any] = {
    HANDLE: ctypes.c_void_p, DATA_TYPE: ctypes.c_int, INT64: ctypes.c_longlong, FLOAT: ctypes.c_float,
    VOID_PTR: ctypes.c_void_p, CONVOLUTION_MODE: ctypes.c_int, HEURISTIC_MODE: ctypes.c_int, NOTE: ctypes.c_int,
    DESCRIPTOR: ctypes.c_void_p,
}  # fmt: skip
# cudnnBackendAttributeName_t
COMPUTE_TYPE, MODE, DILATIONS, STRIDES, AFTER, BEFORE, DIMENSIONS = 100, 101, 102, 103, 104, 105, 106
HEURISTIC, OF_GRAPH, RESULTS = 200, 201, 202
ITS_ENGINE = 300
PLAN_HANDLE, PLAN_CONFIGURATION, PLAN_WORKSPACE = 400, 401, 402
# of an operation, after its first: alpha, beta, the convolution; then the tensors by their names in y = x * w
FIRST = {"y": 700, "x": 706, "w": 712}
PLACES = {"w": 3, "x": 4, "y": 5}
GRAPH_HANDLE, GRAPH_OPERATIONS = 800, 801
TENSOR_ALIGNMENT, TENSOR_TYPE, TENSOR_SHAPE, TENSOR_STRIDES, TENSOR_ID = 900, 901, 902, 903, 906
PACK_IDS, PACK_POINTERS, PACK_WORKSPACE = 1000, 1001, 1003
ENGINE_NOTES = 1303

RULE = 3  # cudnnBackendHeurMode_t: a decision tree
_CROSS_CORRELATION = 1
IDS = {"x": 1, "w": 2, "y": 3}
# cudnnBackendNumericalNote_t: inputs rounded, sums of halves, FFT and Winograd round more often than eager
ROUNDS_MORE = frozenset((1, 2, 3, 5, 6, 7, 8))
MOST_NOTES = 32
CHANGES = 4  # adds in another order at each run

Attribute = tuple[int, int, Sequence[Any]]  # name, type, values


@dataclass(frozen=True)
class Plan:
    """A kernel that is ready, and the bytes that it needs beside the operands."""

    of: Convolution
    place: ctypes.c_void_p
    memory: int
    name: str
    cudnn: Cudnn
    handle: int  # a plan belongs to the handle that it was made with, though others may run it

    def bound(self, on: Handles) -> Callable[..., None]:
        """`call(stream, *addresses)`: the step's operands, then its result."""
        execute, plan, memory, of = self.cudnn.library.cudnnBackendExecute, self.place, self.memory, on.of
        ids = [IDS[name] for name in {"y": "xwy", "x": "ywx", "w": "xyw"}[self.of.makes]]
        packs: dict[tuple[int, ...], Pack] = {}  # one thread's are as good as another's
        cudnn, pointer = self.cudnn, ctypes.c_void_p

        def call(stream: int, *places: int) -> None:
            handle, work = of(stream, memory)
            pack = packs.get((work, *places))
            if pack is None:
                pack = Pack(cudnn, ids, places, work)
                if len(packs) >= PACKS:
                    packs.pop(next(iter(packs)), None)
                packs[work, *places] = pack
            if status := execute(pointer(handle), plan, pack.place):
                raise DeviceError(f"cuDNN's plan for {self.of}: {cudnn.words(status)}")

        return call


class Pack:
    """Operands' and memory's addresses as cuDNN takes them; destroyed with its last user."""

    def __init__(self, cudnn: Cudnn, ids: Sequence[int], places: Sequence[int], work: int) -> None:
        given = (PACK_IDS, INT64, ids), (PACK_POINTERS, VOID_PTR, places), (PACK_WORKSPACE, VOID_PTR, [work])
        self.destroy = cudnn.library.cudnnBackendDestroyDescriptor
        self.place = _described(cudnn, PACK, given)

    def __del__(self) -> None:
        if hasattr(self, "place"):
            self.destroy(self.place)


def plan_of(cudnn: Cudnn, of: Convolution, handle: int, deterministic: bool) -> Plan:
    """The first configuration of the heuristics that fits. Raises CudnnError where there is none.

    One that adds in another order at each run is taken where nothing else is there. `deterministic`: not even then.
    """
    graph = _graph(cudnn, of, handle)
    chosen = (HEURISTIC, HEURISTIC_MODE, [RULE]), (OF_GRAPH, DESCRIPTOR, [graph])
    heuristics = _described(cudnn, HEURISTICS, chosen)
    second: list[tuple[int, Any]] = []
    for number, configuration in enumerate(_ranked(cudnn, heuristics)):
        notes = _notes(cudnn, configuration)
        if notes & ROUNDS_MORE:
            continue
        if CHANGES in notes:
            second.append((number, configuration))
        elif (plan := _planned(cudnn, of, handle, number, configuration)) is not None:
            return plan
    for number, configuration in () if deterministic else second:
        if (plan := _planned(cudnn, of, handle, number, configuration)) is not None:
            return plan
    raise CudnnError(f"no plan for {of}")


def _ranked(cudnn: Cudnn, heuristics: Any) -> Iterator[Any]:
    """The heuristics' configurations, the best first. There are dozens, and each takes time to ask for."""
    yield from _listed(cudnn, heuristics, RESULTS, CONFIGURATION, FEW)
    yield from _listed(cudnn, heuristics, RESULTS, CONFIGURATION)[FEW:]


def _planned(cudnn: Cudnn, of: Convolution, handle: int, number: int, configuration: Any) -> Plan | None:
    given = (PLAN_HANDLE, HANDLE, [handle]), (PLAN_CONFIGURATION, DESCRIPTOR, [configuration])
    try:
        place = _described(cudnn, PLAN, given)
    except CudnnError:  # an engine that does not take these sizes
        return None
    memory = _got(cudnn, place, PLAN_WORKSPACE, INT64, 1)[0]
    return Plan(of, place, memory, f"plan {number}", cudnn, handle) if memory <= WORKSPACE else None


def _graph(cudnn: Cudnn, of: Convolution, handle: int) -> ctypes.c_void_p:
    """The graph of one operation."""
    kind, sums, _ = TYPES[of.dtype]
    images = len(of.stride) == 1  # along one dimension: images of height 1
    tensors = {}
    for name in "xwy":
        shape = getattr(of, name)
        shape = (*shape[:2], 1, *shape[2:]) if images else shape
        strides = strides_of(shape, of.channels_last)
        tensors[name] = _described(cudnn, TENSOR, (
            (TENSOR_TYPE, DATA_TYPE, [kind]), (TENSOR_SHAPE, INT64, shape), (TENSOR_STRIDES, INT64, strides),
            (TENSOR_ID, INT64, [IDS[name]]), (TENSOR_ALIGNMENT, INT64, [ALIGNMENT]),
        ))  # fmt: skip
    padding, stride, dilation = (
        (fill,) * images + given for fill, given in ((0, of.padding), (1, of.stride), (1, of.dilation))
    )
    how = _described(cudnn, CONVOLUTION, (
        (DIMENSIONS, INT64, [len(stride)]), (COMPUTE_TYPE, DATA_TYPE, [sums]),
        (MODE, CONVOLUTION_MODE, [_CROSS_CORRELATION]), (DILATIONS, INT64, dilation), (STRIDES, INT64, stride),
        (BEFORE, INT64, padding), (AFTER, INT64, padding),
    ))  # fmt: skip
    first = FIRST[of.makes]
    operation = _described(cudnn, OPERATION[of.makes], (
        (first, FLOAT, [1.0]), (first + 1, FLOAT, [0.0]), (first + 2, DESCRIPTOR, [how]),
        *((first + PLACES[name], DESCRIPTOR, [tensors[name]]) for name in "xwy"),
    ))  # fmt: skip
    return _described(
        cudnn, GRAPH, ((GRAPH_OPERATIONS, DESCRIPTOR, [operation]), (GRAPH_HANDLE, HANDLE, [handle]))
    )


def _notes(cudnn: Cudnn, configuration: Any) -> frozenset[int]:
    """What its engine's numbers are like."""
    (engine,) = _listed(cudnn, configuration, ITS_ENGINE, ENGINE, 1)
    return frozenset(_got(cudnn, engine, ENGINE_NOTES, NOTE, MOST_NOTES))


# ---- descriptors ---------------------------------------------------------------------------------------------------


def _array(kind: int, values: Sequence[Any]) -> Any:
    plain = [v.value if isinstance(v, ctypes.c_void_p) else v for v in values]
    return (C_TYPES[kind] * len(plain))(*plain)


def _described(cudnn: Cudnn, kind: int, attributes: Iterable[Attribute]) -> ctypes.c_void_p:
    """A finished descriptor. It lives as long as the process: there is one for each kind of convolution."""
    place = ctypes.c_void_p()
    cudnn("cudnnBackendCreateDescriptor", kind, ctypes.byref(place))
    for name, of_type, values in attributes:
        array = _array(of_type, values)
        cudnn("cudnnBackendSetAttribute", place, name, of_type, ctypes.c_longlong(len(values)), array)
    cudnn("cudnnBackendFinalize", place)
    return place


def _count(cudnn: Cudnn, place: Any, name: int, kind: int) -> int:
    count = ctypes.c_longlong()
    cudnn("cudnnBackendGetAttribute", place, name, kind, ctypes.c_longlong(0), ctypes.byref(count), None)
    return count.value


def _got(cudnn: Cudnn, place: Any, name: int, kind: int, most: int) -> list[Any]:
    """An attribute's values."""
    array, count = (C_TYPES[kind] * most)(), ctypes.c_longlong()
    cudnn("cudnnBackendGetAttribute", place, name, kind, ctypes.c_longlong(most), ctypes.byref(count), array)
    return list(array)[: count.value]


def _listed(cudnn: Cudnn, place: Any, name: int, kind: int, most: int | None = None) -> list[ctypes.c_void_p]:
    """An attribute's descriptors, of that kind: the caller makes them, and cuDNN fills them."""
    most = _count(cudnn, place, name, DESCRIPTOR) if most is None else most
    made = [ctypes.c_void_p() for _ in range(most)]
    for one in made:
        cudnn("cudnnBackendCreateDescriptor", kind, ctypes.byref(one))
    array, count = _array(DESCRIPTOR, made), ctypes.c_longlong()
    wanted = ctypes.c_longlong(most)
    cudnn("cudnnBackendGetAttribute", place, name, DESCRIPTOR, wanted, ctypes.byref(count), array)
    return made[: count.value]
