"""Functions with Triton kernels of a user's, run in a process of their own: Triton interprets or compiles, not both.

Input: a mode. `interpret` runs each on every backend against NumPy; `compile` makes PTX of a captured kernel for sm_90.
What it finds is one line of JSON. test_triton_kernels.py starts it.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import triton
import triton.language as tl

import cutaway
from cutaway import library

BACKENDS = ["eager", "aot_eager", "inductor"]
scale = 3.0


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(
        out_ptr + offsets,
        tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask),
        mask=mask,
    )


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 32}, num_warps=2)], key=["n"])
@triton.jit
def scale_kernel(x_ptr, n, k, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = x_ptr + offsets
    tl.store(place, tl.load(place, mask=offsets < n) * k, mask=offsets < n)


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["columns"])})
@triton.jit
def row_sums(x_ptr, out_ptr, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x_ptr + row * row_stride + column * column_stride, mask=column < columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(values, axis=0))


@triton.jit
def helper(pointer, value):
    tl.store(pointer, value)


@triton.jit
def through_a_helper(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for i in range(n):
        helper(out_ptr + i, tl.load(x_ptr + i) * 2)


# ---- the programs ----------------------------------------------------------------------------------------------------


def added(x, y):
    out = cutaway.empty_like(x)
    add_kernel[lambda META: (triton.cdiv(x.numel(), META["BLOCK"]),)](x, y, out, x.numel(), BLOCK=32)
    return out


def tuned(x, y):
    out = added(x * 2, y)
    scale_kernel[lambda META: (triton.cdiv(x.numel(), META["BLOCK"]),)](out, x.numel(), scale)
    return out + 1


def into_an_argument(x, y):
    add_kernel[(4,)](x, y, x, x.numel(), BLOCK=32, num_warps=2)  # reads and writes one tensor
    return x * 2


def transposed(x, y):
    rows = (x + y).reshape(10, 10).t()
    sums = rows.new_empty((10,))
    row_sums[(10,)](rows, sums, rows.stride(0), rows.stride(1), rows.shape[1])
    return sums


def helped(x, y):
    out = cutaway.empty_like(x)
    through_a_helper[(1,)](x, out, 4, BLOCK=1)
    return out[:4] + y[:4]


@library.triton_op("triton_programs::add", mutates_args=())
def add(x: cutaway.Tensor, y: cutaway.Tensor) -> cutaway.Tensor:
    out = cutaway.empty_like(x)
    library.wrap_triton(add_kernel)[(4,)](x, y, out, x.numel(), BLOCK=32)
    return out


add.register_autograd(lambda ctx, g: (g, g))


def as_an_operator(x, y):
    return add(x, y) * 2


PROGRAMS = {
    "added": (added, lambda x, y: x + y),
    "tuned": (tuned, lambda x, y: (2 * x + y) * 3 + 1),
    "into_an_argument": (into_an_argument, lambda x, y: (x + y) * 2),
    "transposed": (transposed, lambda x, y: (x + y).reshape(10, 10).sum(0)),
    "helped": (helped, lambda x, y: 2 * x[:4] + y[:4]),
    "as_an_operator": (as_an_operator, lambda x, y: (x + y) * 2),
}


def interpret() -> dict:
    found = {}
    for name, (function, by_hand) in PROGRAMS.items():
        x, y = np.random.default_rng(0).normal(size=(2, 100)).astype(np.float32)
        for backend in BACKENDS:
            compiled = cutaway.compile(function, backend=backend, fullgraph=True)
            args = [cutaway.from_numpy(a.copy()) for a in (x, y)]
            error = float(np.abs(compiled(*args).numpy() - by_hand(x, y)).max())
            written = bool(np.abs(args[0].numpy() - x).max() > 0)
            graph = str(compiled.artifacts[0].captured)
            found[f"{name} {backend}"] = {"error": error, "written": written, "graph": graph}
    x, y = (cutaway.from_numpy(np.ones(100, np.float32)) for _ in range(2))
    a = x.clone().requires_grad_()
    as_an_operator(a, y).sum().backward()
    found["eager"] = {
        "added": added(x, y).sum().item(),  # kernel[grid](...) on tensors, without any wrapper
        "operator": as_an_operator(x, y).sum().item(),
        "gradient": a.grad.sum().item(),
        "writes": {k.fn.__name__: list(library.writes_of(k)) for k in (add_kernel, through_a_helper)},
    }
    return found


def compile_to_ptx() -> dict:
    from triton.backends.compiler import GPUTarget

    recorder = cutaway.compiler.EagerAndRecordGraphs()
    x = cutaway.from_numpy(np.ones(100, np.float32))
    error = ""
    try:
        cutaway.compile(added, backend=recorder, fullgraph=True)(x, x)
    except RuntimeError as raised:
        error = str(raised)
    (node,) = (n for n in recorder.graphs[0].graph.nodes if getattr(n.target, "namespace", "") == "triton")
    ptx = library.kernel_ptx(node, GPUTarget("cuda", 90, 32))
    return {"error": error, "ptx": ptx[:4000], "name": node.target.name}


if __name__ == "__main__":
    print(json.dumps({"interpret": interpret, "compile": compile_to_ptx}[sys.argv[1]]()))
