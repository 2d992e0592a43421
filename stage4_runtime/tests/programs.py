"""Hand-written programs for the runtime's tests: no lowering, no compiler unless a test asks for one.

Input: a few sizes and names. `python_kernels` runs any kernel made here on raw addresses, as compiled code
would.
"""

import ctypes

import numpy as np

from stage4_runtime.runtime.triton_units import TritonKernel
from stage_contracts.device import CPU
from stage_contracts.dtype import float32
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import BufferRef, Instr, LoopNest, Value
from stage_contracts.origin import Origin
from stage_contracts.program import Buffer, External, Kernel, Launch, Program, Return, SourceUnit, Target
from stage_contracts.tensor_meta import TensorMeta

HERE = Origin("model.py", 31, "y + z")


def meta(*shape, dtype=float32, strides=None):
    return TensorMeta(shape, dtype, strides)


def sum_nest(out, sources, size, origins=(HERE,)):
    """`out[i] = 1 + sources[0][i] + ...`, as loop IR."""
    index = symbol("i0")
    body = [Instr("t0", "constant", (1.0,), float32)]
    for k, source in enumerate(sources):
        body.append(Instr(f"v{k}", "load", (source, index), float32))
        body.append(Instr(f"t{k + 1}", "add", (Value(f"t{k}"), Value(f"v{k}")), float32))
    body.append(Instr("", "store", (out, index, Value(f"t{len(sources)}")), None))
    return LoopNest(out, (size,), (), tuple(body), tuple(origins))


def sum_kernel(name, out, sources, size, unit=""):
    return Kernel(name, (sum_nest(out, sources, size),), (*dict.fromkeys(sources), out), unit=unit)


def program(
    inputs, temporaries, outputs, kernels, steps, returns, constants=None, name="forward", device=CPU
):
    """A Program from metas by name; `returns` are names or values."""
    roles = {"input": inputs, "constant": constants or {}, "temporary": temporaries, "output": outputs}
    buffers = {n: Buffer(n, m, role) for role, metas in roles.items() for n, m in metas.items()}
    values = tuple(BufferRef(r) if isinstance(r, str) else r for r in returns)
    table = {kernel.name: kernel for kernel in kernels}
    return Program(name, device, tuple(inputs), buffers, table, (*steps, Return(values)))


def chain(length, size=64):
    """x -> buf0 -> ... -> y, each `1 + previous`: temporaries that die one after another."""
    names = ["x", *(f"buf{k}" for k in range(length - 1)), "y"]
    kernels = [sum_kernel(f"kernel{k}", names[k + 1], [names[k]], size) for k in range(length)]
    steps = [Launch(k.name, k.params) for k in kernels]
    temporaries = {name: meta(size) for name in names[1:-1]}
    return program({"x": meta(size)}, temporaries, {"y": meta(size)}, kernels, steps, ["y"])


def loaded_kernel(name, pointers, **changes):
    """A kernel as Triton compiles one, of so many pointers."""
    facts = {
        "cubin": b"",
        "ptx": "",
        "name": name,
        "shared": 0,
        "num_warps": 4,
        "scratch": 0,
        "grid": (2, 1, 1),
    }
    return TritonKernel(**{**facts, "types": ("*fp32",) * pointers, **changes})


def array_at(address, shape, dtype=np.float32):
    """The memory at an address as an array, for kernels written in Python."""
    count = int(np.prod(shape))
    if not count:
        return np.empty(shape, dtype)
    window = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(window, dtype).reshape(shape)


def python_kernels(of):
    """Kernels for `sum_kernel`s that take addresses. Sources of other sizes are repeated or cut to fit."""

    def make(kernel):
        sizes = [int(of.buffers[p].meta.numel) for p in kernel.params]

        def run(*addresses):
            *sources, out = [array_at(a, (n,)) for a, n in zip(addresses, sizes, strict=True)]
            total = np.ones(out.shape, np.float32)
            for source in sources:
                total = total + (np.resize(source, out.shape) if source.size else 0)
            out[...] = total
            return 0

        return run

    return {name: make(kernel) for name, kernel in of.kernels.items()}


SUM_SOURCE = """\
#include <cstdint>
extern "C" int64_t kernel0(const float* x, float* y) {
    for (int64_t i = 0; i < 64; ++i) y[i] = 1.0f + x[i];
    return 0;
}
"""


def cpp_unit(text=SUM_SOURCE, kernels=("kernel0",), name="unit"):
    return SourceUnit(name, "cpp", text, tuple(kernels), Target("cpp"))


def external(target, *args, out, **kwargs):
    refs = tuple(BufferRef(a) if isinstance(a, str) else a for a in args)
    return External(target, refs, kwargs, (out,), origins=(HERE,))
