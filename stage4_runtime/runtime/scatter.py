"""scatter_add on a GPU in one launch: by atomic additions, or, under `runtime.deterministic`, place by place in order.

Input: a `scatter_add` step whose sizes are known. Atomic additions of floats come in another order at each run. The
other form sorts the places, and one thread adds up what goes to one place. An event of that name says which form runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from stage_contracts import config, events
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import External, Program
from stage_contracts.size_vars import is_open
from stage_contracts.tensor_meta import TensorMeta

C_TYPES = {"float32": "float", "float64": "double", "int32": "int", "int64": "unsigned long long"}
THREADS = 256

SOURCE = """
typedef long long i64;
__device__ bool find(i64 n, const i64* index, i64* place, i64* from) {{
  if (n >= {count}) return false;
  i64 rest = n, at = 0;
  *place = 0; *from = 0;
  {digits}
  i64 to = index[at];
  if (to < 0) to += {size};
  if (to < 0 || to >= {size}) __trap();  // index out of range: it stops the device, as torch's does
  *place += to * {step};
  return true;
}}
extern "C" __global__ void add_at(const {T}* src, const i64* index, {T}* out) {{
  i64 place, from, n = (i64)blockIdx.x * {threads} + threadIdx.x;
  if (find(n, index, &place, &from)) atomicAdd(out + place, src[from]);
}}
extern "C" __global__ void find_places(const i64* index, i64* places) {{
  i64 place, from, n = (i64)blockIdx.x * {threads} + threadIdx.x;
  if (find(n, index, &place, &from)) places[n] = place;
}}
extern "C" __global__ void add_in_order(
    const {T}* src, const i64* index, const i64* places, const i64* order, {T}* out) {{
  i64 n = (i64)blockIdx.x * {threads} + threadIdx.x;
  if (n >= {count}) return;
  i64 mine = places[order[n]];
  if (n > 0 && places[order[n - 1]] == mine) return;
  {T} total = out[mine];
  for (; n < {count} && places[order[n]] == mine; ++n) {{
    i64 place, from;
    find(order[n], index, &place, &from);
    total += src[from];
  }}
  out[mine] = total;
}}
"""


def scatter_source(out: TensorMeta, dim: int, index: Sequence[tuple], src_strides: Sequence[int]) -> str:
    """The three kernels for these layouts. `index`: (shape, strides)."""
    shape, strides = index
    digits = []
    for d in reversed(range(len(shape))):
        beside = f" *place += d{d} * {out.strides[d]};" if d != dim else ""
        digits.append(
            f"i64 d{d} = rest % {max(shape[d], 1)}; rest /= {max(shape[d], 1)}; at += d{d} * {strides[d]}; "
            f"*from += d{d} * {src_strides[d]};{beside}"
        )
    return SOURCE.format(
        count=math.prod(shape), digits="\n  ".join(digits), size=out.shape[dim], step=out.strides[dim],
        T=C_TYPES[out.dtype.name], threads=THREADS,
    )  # fmt: skip


def scatter_call(step: External, program: Program, cp: Any) -> Callable[..., Any] | None:
    """`call(stream, x, index, src, out)`, all addresses; None where the operator's eager kernel has to."""
    found = _layouts(step, program)
    if found is None:
        return None
    out, dim, index, src = found
    in_order = config.current().runtime.deterministic and out.dtype.is_floating_point
    form = "in order of places" if in_order else "by atomic additions"
    events.record("policy", "scatter_add", program=program.name, form=form)
    module = cp.RawModule(code=scatter_source(out, dim, index[:2], src[1]))
    names = ("find_places", "add_in_order") if in_order else ("add_at",)
    kernels = [module.get_function(name) for name in names]
    count, nbytes, item = math.prod(index[0]), out.numel * out.dtype.itemsize, out.dtype.itemsize
    blocks, copy = ((-(-count // THREADS),), (THREADS,)), cp.cuda.runtime.memcpyAsync

    def call(stream: int, x: int, places: int, source: int, result: int) -> None:
        copy(result, x, nbytes, _ON_DEVICE, stream)
        source, places = source + src[2] * item, places + 8 * index[2]
        if not in_order:
            kernels[0](*blocks, (source, places, result))
            return
        found = cp.empty(count, "int64")
        kernels[0](*blocks, (places, found.data.ptr))
        order = cp.argsort(found)
        kernels[1](*blocks, (source, places, found.data.ptr, order.data.ptr, result))

    return call


_ON_DEVICE = 3  # cudaMemcpyDeviceToDevice


def _layouts(step: External, program: Program) -> tuple[TensorMeta, int, tuple, tuple] | None:
    """(the result, the dimension, index and source as (shape, strides, offset)); None where a layout is not taken."""
    out = program.buffers[step.outputs[0]].meta
    if len(step.args) != 4 or step.kwargs or not _takes(step, out, program):
        return None
    x, dim, *refs = step.args
    index, src = (_laid_out(ref, program) for ref in refs)
    sizes = (
        *out.shape,
        *out.strides,
        *(n for shape, strides, at in (index, src) for n in (*shape, *strides, at)),
    )
    if any(map(is_open, sizes)) or 0 in index[0] or program.buffers[x.name].meta.strides != out.strides:
        return None
    return out, dim % out.ndim, index, src


def _takes(step: External, out: TensorMeta, program: Program) -> bool:
    """Whether the kernels take the operands and their types."""
    x, _, index, src = step.args
    if not all(isinstance(ref, BufferRef) for ref in (x, index, src)) or x.shape is not None:
        return False
    types = program.buffers[index.name].meta.dtype.name, program.buffers[src.name].meta.dtype
    return types == ("int64", out.dtype) and out.dtype.name in C_TYPES and out.ndim > 0 and out.is_contiguous


def _laid_out(ref: BufferRef, program: Program) -> tuple[tuple, tuple, int]:
    meta = program.buffers[ref.name].meta
    shape, strides = (meta.shape, meta.strides) if ref.shape is None else (ref.shape, ref.strides)
    return tuple(shape), tuple(strides or ()), ref.offset
