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
from stage_contracts.program import External, Kernel, Program
from stage_contracts.size_vars import is_open
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides

# dtype -> (what an element is in memory, what is added up): halves add up in float32 and are rounded once, as in eager
C_TYPES = {
    "float32": ("float", "float"),
    "float64": ("double", "double"),
    "int32": ("int", "int"),
    "int64": ("unsigned long long", "unsigned long long"),
    "bfloat16": ("unsigned short", "float"),
    "float16": ("unsigned short", "float"),
}
THREADS = 256
TOGETHER = 4  # elements of a half that one thread takes

PLAIN = """
__device__ Sum widened(Element x) { return x; }
__device__ Element narrowed(Sum x) { return x; }
"""
CONVERSIONS = {
    "bfloat16": """
__device__ Sum widened(Element x) { return __uint_as_float((unsigned)x << 16); }
__device__ Element narrowed(Sum x) {  // to the nearest, ties to even; a NaN stays one
  unsigned bits = __float_as_uint(x);
  if (x != x) return (bits >> 16) | 64;
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}
""",
    "float16": """
__device__ Sum widened(Element x) { float wide; asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x)); return wide; }
__device__ Element narrowed(Sum x) { Element half; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x)); return half; }
""",
}

SOURCE = """
typedef long long i64;
typedef {element} Element;
typedef {sum} Sum;
{conversions}
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
extern "C" __global__ void add_at(const Element* src, const i64* index, Sum* out) {{
  i64 place, from, n = (i64)blockIdx.x * {threads} + threadIdx.x;
  if (find(n, index, &place, &from)) atomicAdd(out + place, widened(src[from]));
}}
struct alignas({together} * sizeof(Element)) Elements {{ Element at[{together}]; }};
struct alignas({together} * sizeof(Sum)) Sums {{ Sum at[{together}]; }};
extern "C" __global__ void widen(const Elements* x, Sums* out) {{
  i64 n = (i64)blockIdx.x * {threads} + threadIdx.x;
  if (n >= {total} / {together}) return;
  Elements from = x[n];
  Sums to;
  for (int k = 0; k < {together}; ++k) to.at[k] = widened(from.at[k]);
  out[n] = to;
}}
extern "C" __global__ void narrow(const Sums* x, Elements* out) {{
  i64 n = (i64)blockIdx.x * {threads} + threadIdx.x;
  if (n >= {total} / {together}) return;
  Sums from = x[n];
  Elements to;
  for (int k = 0; k < {together}; ++k) to.at[k] = narrowed(from.at[k]);
  out[n] = to;
}}
extern "C" __global__ void find_places(const i64* index, i64* places) {{
  i64 place, from, n = (i64)blockIdx.x * {threads} + threadIdx.x;
  if (find(n, index, &place, &from)) places[n] = place;
}}
extern "C" __global__ void add_in_order(
    const Element* src, const i64* index, const i64* places, const i64* order, Element* out) {{
  i64 n = (i64)blockIdx.x * {threads} + threadIdx.x;
  if (n >= {count}) return;
  i64 mine = places[order[n]];
  if (n > 0 && places[order[n - 1]] == mine) return;
  Sum total = widened(out[mine]);
  for (; n < {count} && places[order[n]] == mine; ++n) {{
    i64 place, from;
    find(order[n], index, &place, &from);
    total += widened(src[from]);
  }}
  out[mine] = narrowed(total);
}}
"""

# Whole rows of halves: the first who comes to a row owns sums for it, so there are as many as places. They begin at 0.
ROWS = """
typedef long long i64;
typedef {element} Element;
typedef {sum} Sum;
{conversions}
__device__ i64 row_of(const i64* index, i64 n) {{
  i64 to = index[n * {apart}];
  if (to < 0) to += {size};
  if (to < 0 || to >= {size}) __trap();  // index out of range: it stops the device, as torch's does
  return to;
}}
extern "C" __global__ void claim_rows(const i64* index, int* owners) {{
  int n = blockIdx.x * {threads} + threadIdx.x;
  if (n < {count}) atomicCAS(owners + row_of(index, n), 0, n + 1);
}}
struct alignas({together} * sizeof(Element)) Elements {{ Element at[{together}]; }};
struct alignas({together} * sizeof(Sum)) Sums {{ Sum at[{together}]; }};
__device__ void add_to(Sum* to, const Elements& from) {{
#if __CUDA_ARCH__ >= 900 && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1201  // one addition of four floats
  {four_at_once}
#else
  for (int k = 0; k < {together}; ++k) atomicAdd(to + k, widened(from.at[k]));
#endif
}}
extern "C" __global__ void add_rows(const Element* src, const i64* index, const int* owners, Sum* sums) {{
  i64 at = ((i64)blockIdx.x * {threads} + threadIdx.x) * {together};
  i64 n = at / {width}, w = at % {width};
  if (n >= {count}) return;
  Elements from = *(const Elements*)(src + n * {row} + w);
  add_to(sums + (i64)(owners[row_of(index, n)] - 1) * {width} + w, from);
}}
extern "C" __global__ void add_rows_here(const Element* src, const i64* index, Sum* out) {{
  i64 at = ((i64)blockIdx.x * {threads} + threadIdx.x) * {together};
  i64 n = at / {width}, w = at % {width};
  if (n >= {count}) return;
  Elements from = *(const Elements*)(src + n * {row} + w);
  add_to(out + row_of(index, n) * {width} + w, from);
}}
extern "C" __global__ void finish_rows(const i64* index, const int* owners, const Sum* sums, Element* out) {{
  i64 at = ((i64)blockIdx.x * {threads} + threadIdx.x) * {together};
  i64 n = at / {width}, w = at % {width};
  if (n >= {count}) return;
  i64 row = row_of(index, n);
  if (owners[row] != n + 1) return;
  Elements* to = (Elements*)(out + row * {width} + w);
  Elements now = *to;
  Sums more = *(const Sums*)(sums + at);
  for (int k = 0; k < {together}; ++k) now.at[k] = narrowed(widened(now.at[k]) + more.at[k]);
  *to = now;
}}
"""

# PTX 8.1, from sm_90 on: the four places are 16 bytes, and each is added to atomically.
FOUR_AT_ONCE = """asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" :: "l"(to), "f"(widened(from.at[0])),
    "f"(widened(from.at[1])), "f"(widened(from.at[2])), "f"(widened(from.at[3])) : "memory");"""


def rows_source(out: TensorMeta, count: int, apart: int, row: int) -> str:
    """The kernels for `count` rows of a source, `row` elements apart, their places `apart` elements apart."""
    element, added = C_TYPES[out.dtype.name]
    return ROWS.format(
        element=element, sum=added, conversions=CONVERSIONS.get(out.dtype.name, PLAIN), size=out.shape[0], count=count,
        width=math.prod(out.shape[1:]), apart=apart, row=row, together=TOGETHER, threads=THREADS,
        four_at_once=FOUR_AT_ONCE,
    )  # fmt: skip


def whole_rows(out: TensorMeta, dim: int, index: Sequence[Any], src: Sequence[Any]) -> bool:
    """Whether each place takes a whole row of floats, the rows so that a thread can take several elements."""
    (shape, strides), (src_shape, src_strides, begin) = index[:2], src
    if (
        out.dtype.name not in ("float32", *CONVERSIONS)
        or dim
        or out.ndim < 2
        or tuple(shape[1:]) != tuple(out.shape[1:])
    ):
        return False
    inner = contiguous_strides(out.shape[1:])
    dense = tuple(src_strides[1:]) == tuple(inner) and tuple(src_shape) == tuple(shape)
    aligned = not any(n % TOGETHER for n in (math.prod(shape[1:]), src_strides[0], begin))
    return dense and aligned and not any(strides[1:]) and shape[0] < 1 << 30


def scatter_source(out: TensorMeta, dim: int, index: Sequence[tuple], src_strides: Sequence[int]) -> str:
    """The kernels for these layouts. `index`: (shape, strides)."""
    shape, strides = index
    digits = []
    for d in reversed(range(len(shape))):
        beside = f" *place += d{d} * {out.strides[d]};" if d != dim else ""
        digits.append(
            f"i64 d{d} = rest % {max(shape[d], 1)}; rest /= {max(shape[d], 1)}; at += d{d} * {strides[d]}; "
            f"*from += d{d} * {src_strides[d]};{beside}"
        )
    element, added = C_TYPES[out.dtype.name]
    return SOURCE.format(
        count=math.prod(shape), digits="\n  ".join(digits), size=out.shape[dim], step=out.strides[dim],
        element=element, sum=added, conversions=CONVERSIONS.get(out.dtype.name, PLAIN), total=out.numel,
        together=together(out), threads=THREADS,
    )  # fmt: skip


def together(out: TensorMeta) -> int:
    """How many elements one thread converts: as many as it can load at once."""
    return TOGETHER if out.numel % TOGETHER == 0 and out.dtype.name in CONVERSIONS else 1


def scatter_call(step: External, program: Program, cp: Any) -> Callable[..., Any] | None:
    """`call(stream, x, index, src, out)`, all addresses; None where the operator's eager kernel has to."""
    found = _layouts(step, program)
    if found is None:
        return None
    out, dim, index, src = found
    in_order = config.current().runtime.deterministic and out.dtype.is_floating_point
    form = "in order of places" if in_order else "by atomic additions"
    events.record("policy", "scatter_add", program=program.name, form=form)
    if not in_order and whole_rows(out, dim, index, src):
        module = cp.RawModule(code=rows_source(out, index[0][0], index[1][0], src[1][0]))
        by_rows = _by_rows if out.dtype.name in CONVERSIONS else _by_rows_here
        add = by_rows(module, cp, out, index[0][0])
    else:
        module = cp.RawModule(code=scatter_source(out, dim, index[:2], src[1]))
        add = (_in_order if in_order else _by_atomics)(module, cp, out, math.prod(index[0]))
    item = out.dtype.itemsize

    def call(stream: int, x: int, places: int, source: int, result: int) -> None:
        add(stream, x, places + 8 * index[2], source + src[2] * item, result)

    return call


def say_how_it_adds(kernel: Kernel) -> None:
    """The event for a kernel that stage 3 made of a scatter_add and of what is added."""
    if any("atomic_add" in nest.ops for nest in kernel.nests):
        events.record("policy", "scatter_add", kernel=kernel.name, form="by atomic additions")


def _by_atomics(module: Any, cp: Any, out: TensorMeta, count: int) -> Callable[..., None]:
    """Atomic additions into a copy of x: in the result's own memory, or for halves in floats beside it."""
    add, copy, nbytes = (
        module.get_function("add_at"),
        cp.cuda.runtime.memcpyAsync,
        out.numel * out.dtype.itemsize,
    )
    each, all_ = _blocks(count), _blocks(out.numel // together(out))
    if out.dtype.name not in CONVERSIONS:

        def add_plain(stream: int, x: int, places: int, source: int, result: int) -> None:
            if x != result:
                copy(result, x, nbytes, _ON_DEVICE, stream)
            add(*each, (source, places, result))

        return add_plain
    widen, narrow = module.get_function("widen"), module.get_function("narrow")

    def add_halves(stream: int, x: int, places: int, source: int, result: int) -> None:
        sums = cp.empty(out.numel, "float32")
        widen(*all_, (x, sums.data.ptr))
        add(*each, (source, places, sums.data.ptr))
        narrow(*all_, (sums.data.ptr, result))

    return add_halves


def _by_rows(module: Any, cp: Any, out: TensorMeta, count: int) -> Callable[..., None]:
    """Atomic additions into sums of the rows that are met, which are then added to x where it is."""
    claim, add, finish = (module.get_function(f"{verb}_rows") for verb in ("claim", "add", "finish"))
    copy, nbytes = cp.cuda.runtime.memcpyAsync, out.numel * out.dtype.itemsize
    width = math.prod(out.shape[1:])
    each, all_ = _blocks(count), _blocks(count * width // TOGETHER)

    def add_rows(stream: int, x: int, places: int, source: int, result: int) -> None:
        if x != result:
            copy(result, x, nbytes, _ON_DEVICE, stream)
        beside = cp.zeros(count * width + out.shape[0], "int32")
        sums = beside.data.ptr
        owners = sums + 4 * count * width
        claim(*each, (places, owners))
        add(*all_, (source, places, owners, sums))
        finish(*all_, (places, owners, sums, result))

    return add_rows


def _by_rows_here(module: Any, cp: Any, out: TensorMeta, count: int) -> Callable[..., None]:
    """Atomic additions of rows to x where it is, or to a copy of it."""
    add, copy = module.get_function("add_rows_here"), cp.cuda.runtime.memcpyAsync
    nbytes, all_ = out.numel * out.dtype.itemsize, _blocks(count * math.prod(out.shape[1:]) // TOGETHER)

    def add_rows(stream: int, x: int, places: int, source: int, result: int) -> None:
        if x != result:
            copy(result, x, nbytes, _ON_DEVICE, stream)
        add(*all_, (source, places, result))

    return add_rows


def _in_order(module: Any, cp: Any, out: TensorMeta, count: int) -> Callable[..., None]:
    """The places sorted; then one thread adds up what goes to one place."""
    find, add = module.get_function("find_places"), module.get_function("add_in_order")
    copy, blocks, nbytes = cp.cuda.runtime.memcpyAsync, _blocks(count), out.numel * out.dtype.itemsize

    def add_sorted(stream: int, x: int, places: int, source: int, result: int) -> None:
        if x != result:
            copy(result, x, nbytes, _ON_DEVICE, stream)
        found = cp.empty(count, "int64")
        find(*blocks, (places, found.data.ptr))
        order = cp.argsort(found)
        add(*blocks, (source, places, found.data.ptr, order.data.ptr, result))

    return add_sorted


def _blocks(count: int) -> tuple[tuple[int], tuple[int]]:
    return (-(-count // THREADS),), (THREADS,)


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
