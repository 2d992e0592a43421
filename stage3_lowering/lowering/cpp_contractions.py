"""Products in C++: calls of BLAS, and blocks of rows in which a team of threads runs products and kernels in turn.

Input: emit_cpp_run.py's steps. `host` is what the process gives (stage_contracts/host_interface.py); BLAS stays in the
thread that calls it while a team is at work.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from stage3_lowering.lowering.cpp_ops import MEMORY_TYPES
from stage3_lowering.lowering.cpp_statements import INDENT, cpp_index
from stage_contracts.blas import Contraction, Matrix, block_contraction, contraction
from stage_contracts.index_expr import symbol
from stage_contracts.program import External, Launch, Product, Program, RowBlocks
from stage_contracts.size_vars import is_open

# Multiplications of a product, and of one with a vector, for which a team never pays. BLAS takes no thread of its own
# for them either.
SMALL, SMALL_VECTOR = 1 << 18, 1 << 13


def uses_team(step: Any, program: Program) -> bool:
    """Whether the step's C++ has a team of threads whose products BLAS must not share once more."""
    if isinstance(step, RowBlocks):
        return True
    found = contraction(step, program.buffers) if isinstance(step, External) else None
    return found is not None and not _is_small(found)


def _is_small(of: Contraction) -> bool:
    sizes = (*of.batch, of.m, of.n, of.k)
    small = SMALL_VECTOR if 1 in (of.m, of.n) else SMALL
    return not any(map(is_open, sizes)) and math.prod(sizes) < small


def products_text(of: Contraction, program: Program) -> Iterator[str]:
    """The products of all batch points. A team shares them, and cuts each into pieces where the points are few."""
    points = [_fresh(f"b{depth}", program) for depth in range(1, len(of.batch) + 1)]
    loops = [
        f"for (int64_t {point} = 0; {point} < {cpp_index(size)}; ++{point})"
        for point, size in zip(points, of.batch, strict=True)
    ]
    if _is_small(of):
        yield from loops
        yield f"{INDENT * bool(loops)}{_call(of, points)}"
        return
    pieces, piece, at = (_fresh(name, program) for name in ("pieces", "piece", "at"))
    sizes = ", ".join(map(cpp_index, (math.prod(of.batch), of.m, of.n, of.k)))
    shared = f" collapse({len(loops) + 1})" if loops else ""
    yield "{"
    yield f"{INDENT}const Pieces {pieces}(host, {sizes});"
    yield f"{INDENT}#pragma omp parallel for schedule(static){shared} if ({pieces}.shared)"
    yield from (INDENT + loop for loop in loops)
    yield f"{INDENT}for (int64_t {piece} = 0; {piece} < {pieces}.count; ++{piece}) {{"
    yield f"{INDENT * 2}const Piece {at}({pieces}, {piece});"
    yield f"{INDENT * 2}{_call(of, points, at)}"
    yield f"{INDENT}}}"
    yield "}"


def _call(of: Contraction, points: Sequence[str] = (), piece: str = "", beta: str = "") -> str:
    """A call of BLAS at a batch point: a matrix times a vector where one side has one row or column.

    `piece`: only these rows and columns of the result. `beta`: what the result's memory holds is multiplied by it and
    added; without one it is written over.
    """
    rows, columns = (f"{piece}.rows", f"{piece}.columns") if piece else map(cpp_index, (of.m, of.n))
    down, along = (
        f"{piece}.{at}" if piece and size != 1 else "" for at, size in (("row", of.m), ("column", of.n))
    )
    a, b, c = _place(of.a, points, down), _place(of.b, points, "", along), _place(of.c, points, down, along)
    if any(size == 1 and not is_open(size) for size in (of.m, of.n)):
        return _vector_call(of, (rows, columns), (a, b, c), beta)
    scalar, zero = _scalars(of, beta)
    lies = [_TRANSPOSED[of.a.transposed], _TRANSPOSED[of.b.transposed]]
    words = [*lies, rows, columns, cpp_index(of.k), scalar, a, _row(of.a), b, _row(of.b), zero, c, _row(of.c)]
    return f"host.{of.letter}gemm(RowMajor, {', '.join(words)});"


def _vector_call(of: Contraction, size: tuple[str, str], places: tuple[str, str, str], beta: str) -> str:
    """A matrix of these rows and columns, one of which is 1, from a matrix and a vector."""
    (rows, columns), (a, b, c), k = size, places, cpp_index(of.k)
    scalar, zero = _scalars(of, beta)
    if of.n == 1:
        step = _row_of(of.b.row if not of.b.transposed else 1)
        words, count, result = [*_lies(of.a, rows, k), scalar, a, _row(of.a), b, step], rows, _row(of.c)
    else:
        step = _row_of(1 if not of.a.transposed else of.a.row)
        words, count, result = [*_lies(of.b, k, columns, True), scalar, b, _row(of.b), a, step], columns, "1"
    call = f"host.{of.letter}gemv(RowMajor, {', '.join([*words, zero, c, result])});"
    if beta or not is_open(of.k):
        return call
    # with nothing to add up, gemv writes nothing
    zeros = f"for (int64_t z = 0; z < {count}; ++z) ({c})[z * {result}] = 0;"
    return f"if ({k} > 0) {call} else {zeros}"


def _scalars(of: Contraction, beta: str) -> tuple[str, str]:
    """What the product is multiplied by, and what was there before."""
    return ("1.0f", beta or "0.0f") if of.letter == "s" else ("1.0", beta or "0.0")


_TRANSPOSED = {False: "AsIs", True: "Transposed"}


def _lies(matrix: Matrix, rows: str, columns: str, flipped: bool = False) -> list[str]:
    """The arguments that tell gemv how a matrix lies: whether to transpose it, its rows and its columns."""
    stored = (columns, rows) if matrix.transposed else (rows, columns)
    return [_TRANSPOSED[matrix.transposed is not flipped], *stored]


def _place(matrix: Matrix, points: Sequence[str] = (), down: str = "", along: str = "") -> str:
    """Where it begins in memory at a batch point; `down` and `along`: from that row and column on."""
    across = (along, down) if matrix.transposed else (down, along)
    terms = [cpp_index(matrix.offset)] if matrix.offset != 0 else []
    terms += [
        f"{point} * {_factor(step)}" for point, step in zip(points, matrix.batch, strict=True) if step != 0
    ]
    terms += [f"{across[0]} * {_factor(matrix.row)}"] * bool(across[0]) + [across[1]] * bool(across[1])
    return " + ".join([matrix.buffer, *terms])


def _factor(step: Any) -> str:
    return f"({cpp_index(step)})" if is_open(step) else cpp_index(step)


def _row(matrix: Matrix) -> str:
    return _row_of(matrix.row)


def _row_of(row: Any) -> str:
    """A row length that BLAS accepts: it refuses 0, which an open size may be."""
    return f"at_least_one({cpp_index(row)})" if is_open(row) else cpp_index(row)


# ---- blocks of rows --------------------------------------------------------------------------------------------


def row_blocks_text(step: RowBlocks, program: Program) -> Iterator[str]:
    """A team of threads that shares the blocks; each has its own local buffers."""
    loops = [f"for (int64_t {name} = 0; {name} < {cpp_index(size)}; ++{name})" for name, size in step.batch]
    count = cpp_index(step.count)
    most = _most_rows(step, program)
    block = str(step.block) if step.in_order and not step.cache else _fresh("block_rows", program)
    by_rows = f"for (int64_t {step.first} = 0; {step.first} < {count}; {step.first} += {block})"
    shared = len(loops) + (not step.in_order)
    loops.append(by_rows)
    yield "{"
    if not step.in_order:
        points = " * ".join(cpp_index(size) for _, size in step.batch) or "1"
        yield f"{INDENT}const int64_t {block} = shared_rows({count}, {points}, {most});"
    elif step.cache:
        yield f"{INDENT}const int64_t {block} = {most};"
    yield f"{INDENT}#pragma omp parallel"
    yield f"{INDENT}{{"
    yield from (INDENT * 2 + line for line in _local(step, program, block))
    panels = _panels(step, program)
    yield from (INDENT * 2 + line for _, line in panels.values())
    if shared:
        yield f"{INDENT * 2}#pragma omp for schedule(static){f' collapse({shared})' if shared > 1 else ''}"
    else:
        yield f"{INDENT * 2}#pragma omp single"
    for loop in loops:
        yield f"{INDENT * 2}{loop}"
    yield f"{INDENT * 2}{{"
    left = f"{count} - {step.first}"
    yield f"{INDENT * 3}const int64_t {step.rows} = {left} < {block} ? {left} : {block};"
    for inner in step.steps:
        yield from (INDENT * 3 + line for line in _inner(inner, panels, step, program))
    yield f"{INDENT * 2}}}"
    yield f"{INDENT}}}"
    yield "}"


def _inner(
    inner: Launch | Product, panels: dict[int, tuple[str, str]], step: RowBlocks, program: Program
) -> Iterator[str]:
    if isinstance(inner, Launch):
        kernel = program.kernels[inner.kernel]
        yield f"{kernel.name}({', '.join([*inner.buffers, *kernel.sizes])});"
    elif id(inner) in panels:
        yield from _by_panels(inner, panels[id(inner)][0], step, program)
    else:
        yield from _product(inner, step, program)


def has_panels(step: External | RowBlocks) -> bool:
    inner = step.steps if isinstance(step, RowBlocks) else ()
    return any(isinstance(each, Product) and each.panels for each in inner)


def _panels(step: RowBlocks, program: Program) -> dict[int, tuple[str, str]]:
    """By the id of each product in registers: (the name of its panels, how they are declared). Each thread has its
    own."""
    found: dict[int, tuple[str, str]] = {}
    for product in step.steps:
        if isinstance(product, Product) and product.panels:
            of = block_contraction(product, program.buffers)
            name = _fresh(f"panels{len(found)}", program)
            cpp = MEMORY_TYPES[program.buffers[product.b.name].meta.dtype.name]
            sizes = ", ".join(map(cpp_index, (of.k, of.n)))
            found[id(product)] = name, f"Panels<{cpp}> {name}(host, {sizes});"
    return found


def _by_panels(product: Product, name: str, step: RowBlocks, program: Program) -> Iterator[str]:
    of = block_contraction(product, program.buffers)
    assert product.b.strides
    point: Any = 0
    if any(symbol(index) in getattr(of.b.offset, "free_symbols", ()) for index, _ in step.batch):
        for index, size in step.batch:
            point = point * size + symbol(index)
    down, along = map(cpp_index, product.b.strides)
    yield f"{name}.hold({cpp_index(point)}, {_place(of.b)}, {down}, {along});"
    yield f"{name}.multiply({step.rows}, {_place(of.a)}, {_row(of.a)}, {_place(of.c)}, {_row(of.c)});"


def _fresh(name: str, program: Program) -> str:
    while name in program.buffers:
        name += "_"
    return name


def _most_rows(step: RowBlocks, program: Program) -> str:
    """The rows of a block, before threads share them."""
    if not step.cache:
        return str(step.block)
    metas = [program.buffers[name].meta for name in step.local]
    row = sum(math.prod(meta.shape[1:]) * meta.dtype.itemsize for meta in metas)
    return f"cached_rows({cpp_index(row)}, {step.cache}, {step.block})"


def _local(step: RowBlocks, program: Program, rows: str) -> Iterator[str]:
    """One piece of memory for all local buffers of a thread, each at the start of a cache line."""
    places: list[Any] = [0]
    for name in step.local:
        meta = program.buffers[name].meta
        first = symbol(rows) if step.cache else meta.shape[0]
        nbytes = first * math.prod(meta.shape[1:]) * meta.dtype.itemsize
        places.append(
            places[-1] + (nbytes + 63) // 64 * 64 if isinstance(nbytes, int) else places[-1] + nbytes + 64
        )
    if not step.local:
        return
    block = _fresh("block", program)
    yield f"cutaway::Row<char> {block}({cpp_index(places[-1])});"
    for name, place in zip(step.local, places, strict=False):
        meta = program.buffers[name].meta
        yield f"auto {name} = ({MEMORY_TYPES[meta.dtype.name]}*)({block}.start + {cpp_index(place)});  // {meta}"


def _product(product: Product, step: RowBlocks, program: Program) -> Iterator[str]:
    found = block_contraction(product, program.buffers)
    zero, one = ("0.0f", "1.0f") if found.letter == "s" else ("0.0", "1.0")
    yield _call(found, beta=f"{step.first} == 0 ? {zero} : {one}" if product.adds else "")
