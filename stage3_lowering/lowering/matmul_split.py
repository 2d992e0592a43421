"""A product with a long sum and few tiles, in two kernels: the first adds up parts of the sum, the second adds those.

Input: a product, and the pointwise kernel that reads it, if one does. Programs of the first kernel take a tile of one
part each, so that more multiprocessors have work (split-k); its parts stay float32. The second kernel is the pointwise
one: where it loaded an element it adds the element's parts, in order, and rounds. No atomics: the same bits each time.
"""

from __future__ import annotations

import math
from dataclasses import replace
from types import MappingProxyType

import sympy

from stage3_lowering.lowering.attention import product_nest
from stage3_lowering.lowering.matmul_makers import Makers
from stage3_lowering.lowering.matmul_ways import Way, launches, params_of
from stage3_lowering.lowering.triton_matmul import TEMPLATE, tiles_for
from stage_contracts import dtype as dt
from stage_contracts.blas import Contraction, Matrix
from stage_contracts.dtype import DType
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import Instr, LoopNest, Value
from stage_contracts.program import Buffer, Kernel, Program, Target
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides

# Of an architecture's largest accelerator; of one that is not here, a round number between
MULTIPROCESSORS = {80: 108, 89: 142, 90: 132, 100: 148}
OTHERWISE = 128
SHORTEST_PART = 256  # terms that are worth a program of their own
MOST_PARTS = 32


def multiprocessors_of(arch: str) -> int:
    digits = arch.removeprefix("sm_")
    return MULTIPROCESSORS.get(int(digits), OTHERWISE) if digits.isdigit() else OTHERWISE


def split_way(
    program: Program,
    product: Contraction,
    reader: Kernel | None,
    name: str,
    target: Target,
    makers: Makers = MappingProxyType({}),
) -> Way | None:
    """None where the product has tiles enough, or no sum long enough. `reader`: the kernel after it; `makers`: the
    kernels of the operands that the first kernel makes."""
    dtype = program.buffers[product.c.buffer].meta.dtype
    parts = parts_of(product, dtype, target.arch)
    if parts is None:
        return None
    meta = program.buffers[product.c.buffer].meta
    shape = (parts, *meta.shape)
    made = Buffer(
        f"{name}_parts", TensorMeta(shape, dt.float32, contiguous_strides(shape), meta.device), "temporary"
    )
    nest = _parts_nest(program, product, dtype, parts, made.name)
    summed = (*(n for maker in makers.values() for n in maker.nests), nest)
    made_here = tuple(makers)
    first = Kernel(f"{name}_in_parts", summed, params_of(summed, made_here), made_here, template=TEMPLATE)
    after = reader.nests if reader is not None else (_copy(product, dtype, nest),)
    nests = tuple(_adding(n, product.c.buffer, made.name, parts, meta.numel, dtype) for n in after)
    inner = reader.internal if reader is not None else ()
    second = Kernel(f"{name}_of_parts", nests, params_of(nests, inner), inner)
    return Way("split", launches((first, second)), (first, second), (made,))


def parts_of(product: Contraction, dtype: DType, arch: str) -> int | None:
    """How many parts a sum is divided into, as equal ones as give every multiprocessor a tile."""
    m, n, k = int(product.m), int(product.n), int(product.k)
    tiles = tiles_for(m, n, k, dtype.itemsize, arch)[0]
    programs = -(-m // tiles.m) * -(-n // tiles.n) * math.prod(product.batch)
    wanted = min(multiprocessors_of(arch) // programs, k // SHORTEST_PART, MOST_PARTS)
    if wanted < 2:
        return None
    return next((parts for parts in range(wanted, 1, -1) if k % parts == 0), None)


def _parts_nest(program: Program, product: Contraction, dtype: DType, parts: int, made: str) -> LoopNest:
    """The product's nest with one more loop over its batch: the parts. Nothing is rounded."""
    size = product.k // parts
    a, b = product.a, product.b
    steps = size * (a.row if a.transposed else 1), size * (1 if b.transposed else b.row)
    a, b = (replace(x, batch=(step, *x.batch)) for x, step in zip((a, b), steps, strict=True))
    batch = (parts, *product.batch)
    strides = contiguous_strides((*batch, product.m, product.n))
    c = Matrix(product.c.buffer, 0, False, product.n, strides[:-2])
    nest = product_nest(replace(product, a=a, b=b, c=c, k=size, batch=batch), dtype, program)
    *body, store = (instr for instr in nest.body if not instr.name.startswith("product_"))
    store = replace(store, args=(made, store.args[1], Value("product")))
    return replace(nest, name=made, body=(*body, store))


def _copy(product: Contraction, dtype: DType, like: LoopNest) -> LoopNest:
    """A nest that would copy the product, element by element."""
    at, name = symbol("i0"), product.c.buffer
    body = (
        Instr("element", "load", (name, at), dtype),
        Instr("", "store", (name, at, Value("element")), None),
    )
    return LoopNest(name, (math.prod((*product.batch, product.m, product.n)),), (), body, like.origins)


def _adding(nest: LoopNest, made: str, parts_in: str, parts: int, points: int, dtype: DType) -> LoopNest:
    """The nest with the sum of its parts for each element of the product that it loads."""
    body: list[Instr] = []
    for instr in nest.body:
        if instr.op == "load" and instr.args[0] == made:
            body += _sum(instr, parts_in, parts, points, dtype)
        else:
            body.append(instr)
    return replace(nest, body=tuple(body))


def _sum(load: Instr, parts_in: str, parts: int, points: int, dtype: DType) -> list[Instr]:
    """The loads and additions that give what this load gave, under its name."""
    names = [Value(f"{load.name}_part{k}") for k in range(parts)]
    at = sympy.sympify(load.args[1])
    lines = [
        Instr(part, "load", (parts_in, at + k * points), dt.float32, load.origins)
        for k, part in enumerate(names)
    ]
    total = names[0]
    for k, part in enumerate(names[1:], 1):
        added = Value(f"{load.name}_sum{k}")
        lines.append(Instr(added, "add", (total, part), dt.float32, load.origins))
        total = added
    return [*lines, Instr(load.name, "cast", (total, dtype), dtype, load.origins)]
