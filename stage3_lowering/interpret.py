"""The oracle of this stage: runs loop nests, lowered graphs and programs on NumPy, exactly as their text says.

Input: any artifact between `lower` and `emit`, arrays, and a table of eager kernels for external calls. It computes all
points of a nest at once. A buffer is flat storage, and the nest does its own indexing. This is the third reading of a
body, beside C++ and Triton.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stage_contracts.core_ops import CORE_OPS
from stage_contracts.dtype import DType
from stage_contracts.errors import OutOfRange
from stage_contracts.graph import GraphError
from stage_contracts.index_expr import FloorDiv, Mod, symbol
from stage_contracts.kernel_tables import row_kernel
from stage_contracts.loop_ir import BufferRef, ExternCall, Instr, LoopNest, LoweredGraph, SubgraphRef, run
from stage_contracts.program import (
    Allocate,
    Await,
    Buffer,
    Collective,
    External,
    Free,
    Launch,
    Product,
    Program,
    RecordEvent,
    Return,
    RowBlocks,
    WaitEvent,
    step_accesses,
)
from stage_contracts.size_vars import at_sizes, size_values
from stage_contracts.tensor_meta import TensorMeta

EagerTable = Mapping[str, Callable[..., Any]]  # operator name -> kernel(np, *args)
NO_SIZES: Mapping[Any, int] = {}
SCANS = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
Storage = dict[str, np.ndarray]  # buffer name -> its elements, one-dimensional, in memory order


class _EagerKernels(Mapping[str, Callable[..., Any]]):
    """The eager kernels of the core operators, each looked up when it is first called."""

    def __getitem__(self, name: str) -> Callable[..., Any]:
        from stage0_eager.kernels.eager import eager_kernel

        return eager_kernel(name)

    def __iter__(self) -> Iterator[str]:
        return iter(CORE_OPS)

    def __len__(self) -> int:
        return len(CORE_OPS)


EAGER: EagerTable = _EagerKernels()


# ---- storage -----------------------------------------------------------------------------------------


def extent(meta: TensorMeta) -> int:
    """How many elements of storage a buffer spans."""
    if meta.numel == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(meta.shape, meta.strides, strict=True))


def view_of(storage: np.ndarray, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> np.ndarray:
    """The array that lies in `storage` with these strides, in elements."""
    width = storage.itemsize
    return np.lib.stride_tricks.as_strided(storage[offset:], shape, [s * width for s in strides])


def to_storage(array: Any, meta: TensorMeta) -> np.ndarray:
    """New storage laid out as `meta` that holds the elements of `array`."""
    storage = np.zeros(extent(meta), meta.dtype.numpy)
    view_of(storage, meta.shape, meta.strides)[...] = np.asarray(array).astype(meta.dtype.numpy, copy=False)
    return storage


def _resolve(value: Any, storage: Storage, metas: Mapping[str, TensorMeta]) -> Any:
    """An external call's argument: arrays in place of buffer references."""
    if isinstance(value, BufferRef):
        meta = metas[value.name]
        if value.shape is None:
            return view_of(storage[value.name], meta.shape, meta.strides)
        return view_of(storage[value.name], value.shape, value.strides or (), int(value.offset))
    if isinstance(value, SubgraphRef):
        return storage[value.name]
    if isinstance(value, (tuple, list)):
        return type(value)(_resolve(v, storage, metas) for v in value)
    return value


# ---- one nest ----------------------------------------------------------------------------------------


def interpret_nest(nest: LoopNest, storage: Storage, buffers: Mapping[str, TensorMeta]) -> None:
    """Run one nest; its buffers are made in `storage` where they are missing."""
    run(nest, _NumpyOps(nest, storage, buffers))


class _NumpyOps:
    """The `ops` handler: a value is an array over all points of the nest (size 1 where it does not vary)."""

    def __init__(self, nest: LoopNest, storage: Storage, buffers: Mapping[str, TensorMeta]) -> None:
        self.storage, self.buffers = storage, buffers
        self.current: Instr | None = None
        sizes = (*nest.ranges, *nest.reduction_ranges)
        variables = (*nest.loop_variables, *nest.reduction_variables)
        self.points: dict[str, np.ndarray] = {
            str(v): np.arange(size, dtype=np.int64).reshape([-1 if k == d else 1 for d in range(len(sizes))])
            for k, (v, size) in enumerate(zip(variables, sizes, strict=True))
        }
        self.sizes, self.rank = sizes, len(nest.ranges)
        self.reduced = False  # past the last reduction: once per outer point
        self.reductions_left = sum(instr.op == "reduction" for instr in nest.body)

    @property
    def full_shape(self) -> tuple[int, ...]:
        """All points at this place of the body."""
        outer = self.sizes[: self.rank]
        return outer + (1,) * (len(self.sizes) - self.rank) if self.reduced else self.sizes

    def at(self, index: Any) -> np.ndarray:
        """The index expression at every point."""
        if index.is_Integer:
            return np.full((1,) * len(self.sizes), int(index), np.int64)
        if index.is_Symbol:
            return self.points[str(index)]
        parts = [self.at(a) for a in index.args]
        if index.is_Add:
            return sum(parts[1:], parts[0])
        if index.is_Mul:
            return np.multiply.reduce(np.broadcast_arrays(*parts))
        if isinstance(index, FloorDiv):
            return parts[0] // parts[1]
        if isinstance(index, Mod):
            return parts[0] % parts[1]
        raise GraphError(f"cannot evaluate the index {index}")

    def load(self, buffer: str, index: Any, mask: np.ndarray | None = None) -> np.ndarray:
        places = np.broadcast_to(self.at(index), self.full_shape)
        if mask is not None:
            if not np.broadcast_to(mask, places.shape).any():
                return np.zeros(places.shape, self.storage[buffer].dtype)
            places = np.where(mask, places, places[np.broadcast_to(mask, places.shape)][0])
        if places.size == 0:
            return np.zeros(places.shape, self.storage[buffer].dtype)
        return self.storage[buffer][places]

    def store(self, buffer: str, index: Any, value: np.ndarray) -> None:
        places = np.broadcast_to(self.at(index), self.full_shape)
        if buffer not in self.storage:
            meta = self.buffers.get(buffer)
            count = extent(meta) if meta else int(places.max(initial=-1)) + 1
            dtype = meta.dtype.numpy if meta else value.dtype
            self.storage[buffer] = np.zeros(count, dtype)
        self.storage[buffer][places] = np.broadcast_to(value, self.full_shape)

    def atomic_add(self, buffer: str, index: Any, value: np.ndarray, start: str) -> None:
        places = self._begun(buffer, index, start)
        with np.errstate(all="ignore"):
            np.add.at(self.storage[buffer], places, np.broadcast_to(value, self.full_shape))

    def store_last(self, buffer: str, index: Any, value: np.ndarray, start: str) -> None:
        places = self._begun(buffer, index, start).ravel()
        self.storage[buffer][places] = np.broadcast_to(value, self.full_shape).ravel()

    def _begun(self, buffer: str, index: Any, start: str) -> np.ndarray:
        """The places in the buffer, which begins as `start`."""
        if buffer not in self.storage:
            self.storage[buffer] = self.storage[start].copy()
        elif buffer != start:
            self.storage[buffer][...] = self.storage[start]
        return np.broadcast_to(self.at(index), self.full_shape)

    def constant(self, value: Any) -> np.ndarray:
        return np.full((1,) * len(self.sizes), value, self.dtype.numpy)

    def index_expr(self, index: Any) -> np.ndarray:
        return self.at(index).astype(self.dtype.numpy)

    def indirect_index(self, value: np.ndarray, size: Any) -> np.ndarray:
        bound = self.at(size)
        if 0 not in self.full_shape and ((value < -bound) | (value >= bound)).any():
            raise OutOfRange(f"index out of range for a dimension of size {size}")
        wrapped = np.where(value < 0, value + bound, value)
        assert self.current is not None
        self.points[self.current.name] = wrapped
        return wrapped

    def scan(self, kind: str, value: np.ndarray) -> np.ndarray:
        flat = np.broadcast_to(value, self.sizes).reshape(self.rows)
        wide = np.float64 if kind == "sum" and self.dtype.is_floating_point else self.dtype.numpy
        with np.errstate(all="ignore"):
            so_far = SCANS[kind].accumulate(flat, axis=-1, dtype=wide)
        return so_far.astype(self.dtype.numpy).reshape(self.sizes)

    def argsort(self, kind: str, value: np.ndarray) -> np.ndarray:
        flat = np.broadcast_to(value, self.sizes).reshape(self.rows)
        return EAGER["sort"](np, flat, -1, kind == "descending", True)[1].reshape(self.sizes)

    def reduction(self, kind: str, value: np.ndarray) -> np.ndarray:
        self.reductions_left -= 1
        self.reduced = self.reductions_left == 0
        full = np.broadcast_to(value, self.sizes)
        axes = tuple(range(self.rank, len(self.sizes)))
        with np.errstate(all="ignore"):
            if kind in ("argmax", "argmin"):
                flat = full.reshape(self.rows)
                return getattr(np, kind)(flat, axis=-1).reshape(*self.sizes[: self.rank], *(1,) * len(axes))
            if kind in ("sum", "prod"):  # float32 sums are accumulated in float64, as kernels may
                wide = np.float64 if kind == "sum" and self.dtype.is_floating_point else self.dtype.numpy
                reduced = getattr(np, kind)(full, axis=axes, keepdims=True, dtype=wide)
                return reduced.astype(self.dtype.numpy)
            return getattr(np, kind)(full, axis=axes, keepdims=True)

    def random_bits(self, seed: np.ndarray, counter: np.ndarray, index: Any) -> np.ndarray:
        from stage0_eager.random.philox import philox_words

        flat = np.broadcast_to(self.at(index), self.full_shape)
        if not flat.size:
            return np.zeros(flat.shape, np.int64)
        state = np.array([seed.flat[0], counter.flat[0]], np.int64)
        return philox_words(np, state, 0, (int(flat.max()) + 1,))[flat]

    @property
    def rows(self) -> tuple[int, ...]:
        """The sizes with the reduced ones as one. Of an empty array NumPy cannot infer it."""
        return (*self.sizes[: self.rank], math.prod(self.sizes[self.rank :]))

    @property
    def dtype(self) -> DType:
        assert self.current is not None and self.current.dtype is not None
        return self.current.dtype

    def __getattr__(self, name: str) -> Callable[..., np.ndarray]:
        """A pointwise core operator: its eager kernel, on arrays. `cast` gets a DType."""
        if name not in CORE_OPS:
            raise AttributeError(name)
        kernel = EAGER[name]
        return lambda *args: np.asarray(kernel(np, *args))


# ---- whole artifacts ---------------------------------------------------------------------------------


def sizes_of(artifact: LoweredGraph | Program, inputs: Sequence[Any]) -> dict[Any, int]:
    """The open sizes of an artifact at these inputs."""
    shapes = {name: np.shape(array) for name, array in zip(artifact.inputs, inputs, strict=False)}
    return size_values(artifact.sizes, shapes)


def interpret_lowered(
    lowered: LoweredGraph,
    inputs: Sequence[Any],
    eager: EagerTable | None = None,
    constants: Mapping[str, Any] | None = None,
) -> tuple[Any, ...]:
    """Run every nest and call in order; gives the outputs as arrays laid out as their buffers."""
    lowered = at_sizes(lowered, sizes_of(lowered, inputs))
    storage = _bind(lowered.inputs, inputs, lowered.buffers)
    for name, value in {**lowered.constants, **(constants or {})}.items():
        storage[name] = value if callable(value) else to_storage(value, lowered.buffers[name])
    for node in lowered.nodes:
        if isinstance(node, LoopNest):
            interpret_nest(node, storage, lowered.buffers)
        else:
            _call(node, storage, lowered.buffers, eager or EAGER)
    return _resolve(lowered.outputs, storage, lowered.buffers)


def interpret_program(
    program: Program,
    inputs: Sequence[Any],
    eager: EagerTable | None = None,
    constants: Mapping[str, Any] | None = None,
) -> tuple[Any, ...]:
    """Run a Program's steps, fused kernels nest by nest; gives the outputs as arrays."""
    program = at_sizes(program, sizes_of(program, inputs))

    def run_kernel(step: Launch, storage: Storage, sizes: Mapping[Any, int] = NO_SIZES) -> None:
        kernel = at_sizes(program.kernels[step.kernel], sizes) if sizes else program.kernels[step.kernel]
        for row, bound in enumerate(kernel.bindings(step.buffers)):
            inside = {param: storage[buffer] for param, buffer in bound.items()}
            metas = {param: program.buffers[buffer].meta for param, buffer in bound.items()}
            for nest in row_kernel(kernel, row).nests:
                interpret_nest(nest, inside, metas)

    return run_steps(program, inputs, run_kernel, eager or EAGER, constants)


def run_steps(
    program: Program,
    inputs: Sequence[Any],
    run_kernel: Callable[..., None],
    eager: EagerTable,
    constants: Mapping[str, Any] | None = None,
) -> tuple[Any, ...]:
    """Run a Program with any way to run a kernel, which writes into storage that is there already.

    `run_kernel(step, storage)`, for a kernel in blocks of rows also the place of its block, as sizes.

    That storage is filled with 77s, not zeros, so that an element nobody writes is seen. Buffers of a planned program
    lie in its pools as planned, so that two which share bytes too early are seen as well.
    """
    pools = [np.zeros(int(nbytes), np.uint8) for nbytes in program.pools]
    metas = {name: buffer.meta for name, buffer in program.buffers.items()}
    storage = _bind(program.inputs, inputs, metas)
    storage |= {
        name: value if callable(value) else to_storage(value, metas[name])  # a subgraph, or an array
        for name, value in (constants or {}).items()
    }
    for step in _at_once(program.steps):
        match step:
            case Launch(buffers=buffers):
                _with_storage(buffers, storage, metas)
                run_kernel(step, storage)
            case External() | ExternCall():
                _call(step, storage, metas, eager)
            case RowBlocks():
                _run_blocks(step, storage, metas, run_kernel)
            case Return(values=values):
                return _resolve(values, storage, metas)
            case Allocate(buffer=name):
                storage[name] = _allocated(program.buffers[name], pools)
            case Free(buffer=name):
                del storage[name]
            case RecordEvent() | WaitEvent():
                continue  # steps run in order
            case _:
                raise GraphError(f"program {program.name}: the interpreter does not run {step}")
    raise GraphError(f"program {program.name} has no Return")


def _at_once(steps: Sequence[Any]) -> Iterator[Any]:
    """The steps with calls in place of collectives: verify() refuses what reads a result before its Await."""
    for step in steps:
        if isinstance(step, Collective):
            yield ExternCall((step.destination,), step.operation, (BufferRef(step.source), *step.words))
        elif not isinstance(step, Await):
            yield step


def _with_storage(names: Sequence[str], storage: Storage, metas: Mapping[str, TensorMeta]) -> None:
    """Add storage full of 77s for the buffers that have none."""
    for name in names:
        if name not in storage:
            storage[name] = np.full(extent(metas[name]), 77).astype(metas[name].dtype.numpy)


def _run_blocks(
    step: RowBlocks, storage: Storage, metas: Mapping[str, TensorMeta], run_kernel: Callable[..., None]
) -> None:
    """Run every block in order. Local buffers are filled with 77s before each block."""
    blocks = range(0, int(step.count), step.block)
    names = [symbol(name) for name in (*(name for name, _ in step.batch), step.first, step.rows)]
    for *point, first in itertools.product(*(range(int(size)) for _, size in step.batch), blocks):
        sizes = dict(zip(names, (*point, first, min(step.block, int(step.count) - first)), strict=True))
        for name in step.local:
            storage.pop(name, None)
        _with_storage(step.local, storage, metas)
        for inner in step.steps:
            written = step_accesses(inner, {})[1] if isinstance(inner, Product) else inner.buffers
            _with_storage(written, storage, metas)
            if isinstance(inner, Launch):
                run_kernel(inner, storage, sizes)
                continue
            a, b, out = _resolve(at_sizes((inner.a, inner.b, inner.out), sizes), storage, metas)
            with np.errstate(all="ignore"):
                out[...] = np.matmul(a, b) + (out if inner.adds and first else 0)
    for name in step.local:
        storage.pop(name, None)  # without rows there was none


def _allocated(buffer: Buffer, pools: Sequence[np.ndarray]) -> np.ndarray:
    """Storage full of 77s: the buffer's place in its pool, or its own."""
    dtype, count, slot = buffer.meta.dtype.numpy, extent(buffer.meta), buffer.slot
    if slot is None:
        return np.full(count, 77).astype(dtype)
    start = int(slot.offset)
    place = pools[slot.pool][start : start + count * np.dtype(dtype).itemsize].view(dtype)
    place[...] = 77
    return place


def _bind(names: Sequence[str], inputs: Sequence[Any], metas: Mapping[str, TensorMeta]) -> Storage:
    if len(names) != len(inputs):
        raise TypeError(f"expected {len(names)} inputs ({', '.join(names)}), got {len(inputs)}")
    return {name: to_storage(array, metas[name]) for name, array in zip(names, inputs, strict=True)}


def _call(
    call: ExternCall | External, storage: Storage, metas: Mapping[str, TensorMeta], eager: EagerTable
) -> None:
    args = _resolve(tuple(call.args), storage, metas)
    kwargs = {key: _resolve(value, storage, metas) for key, value in call.kwargs.items()}
    results = eager[call.target](np, *args, **kwargs)
    results = results if isinstance(results, (tuple, list)) else (results,)
    for name, result in zip(call.outputs, results, strict=True):
        made = to_storage(result, metas[name])
        if getattr(call, "into", False) and name in storage:
            storage[name][...] = made
        else:
            storage[name] = made
