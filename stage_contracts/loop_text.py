"""Loop nests as readable Python text, and back: `parse_nest(print_nest(nest))` prints the same again.

Input: a LoopNest or a LoweredGraph. A nest is a function of the `ops` handler. Its loops are parameters, annotated with
their sizes. The user's lines are comments above it, and inside it where they change.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import sympy

from stage_contracts.dtype import DTYPES
from stage_contracts.index_expr import parse_index, print_index
from stage_contracts.loop_ir import BufferRef, ExternCall, Instr, LoopNest, LoweredGraph, Value
from stage_contracts.origin import Origin

# The position of an op's index expression. A name in any other argument is a value.
INDEX_ARGUMENTS = {
    "load": 1,
    "store": 1,
    "atomic_add": 1,
    "store_last": 1,
    "index_expr": 0,
    "indirect_index": 1,
    "random_bits": 2,
}


# ---- printing ------------------------------------------------------------------------------------------------


def print_nest(nest: LoopNest) -> str:
    """The nest as a Python function.

    # digits.py:12: relu(x)
    def buf0(ops, i0: 8192):
        x_val = ops.load('x', i0)  # float32
        zero = ops.constant(0.0)  # float32
        relu = ops.maximum(x_val, zero)  # float32
        ops.store('buf0', i0, relu)
    """
    variables = (*nest.loop_variables, *nest.reduction_variables)
    sizes = (*nest.ranges, *nest.reduction_ranges)
    loops = "".join(f", {v}: {print_index(size)}" for v, size in zip(variables, sizes, strict=True))
    lines = origin_comments(nest.origins)
    lines.append(f"def {nest.name}(ops{loops}):")
    for comments, instr in with_comments(nest):
        lines += [f"    {comment}" for comment in comments] + [f"    {instr}"]
    return "\n".join(lines) + "\n"


def with_comments(nest: LoopNest, header: bool = True) -> Iterator[tuple[list[str], Instr]]:
    """Each instruction with the comment lines above it: the user's lines, where they change.

    `header`: the nest's origins, which are printed above the nest already.
    """
    previous = nest.origins if header else ()
    for instr in nest.body:
        here = instr.origins or nest.origins
        yield (origin_comments(here) if here != previous else []), instr
        previous = here


def print_extern(call: ExternCall) -> str:
    """A call of a library or an eager kernel: `buf1 = extern.matmul(x, view(w, (64, 10), (1, 64), 0))`."""
    words = [print_argument(a) for a in call.args]
    words += [f"{key}={print_argument(value)}" for key, value in call.kwargs.items()]
    lines = origin_comments(call.origins)
    lines.append(f"{', '.join(call.outputs)} = extern.{call.target}({', '.join(words)})")
    return "\n".join(lines) + "\n"


def origin_comments(origins: tuple[Origin, ...]) -> list[str]:
    """One comment line per origin. An expression of several lines is joined to one line."""
    return [f"# {' '.join(origin.describe().split())}" for origin in origins]


def print_argument(value: Any) -> str:
    """An argument of an external call: buffers by name, tuples of them, constants."""
    if isinstance(value, BufferRef):
        return str(value)
    if isinstance(value, (tuple, list)):
        comma = "," if len(value) == 1 else ""
        return f"({', '.join(map(print_argument, value))}{comma})"
    return print_index(value) if isinstance(value, sympy.Basic) else repr(value)


def print_lowered(lowered: LoweredGraph) -> str:
    """All buffers with their types, then the nests and calls in order, then the return."""
    given = {**dict.fromkeys(lowered.inputs, "input"), **dict.fromkeys(lowered.constants, "constant")}
    lines = [f"# lowered graph {lowered.name}"]
    lines += [f"# {given.get(name, 'buffer')} {name}: {meta}" for name, meta in lowered.buffers.items()]
    lines += [f"# {size}" for size in lowered.sizes]
    blocks = ["\n".join(lines) + "\n"]
    blocks += [print_nest(n) if isinstance(n, LoopNest) else print_extern(n) for n in lowered.nodes]
    blocks.append(f"outputs = {print_argument(lowered.outputs)}\n")
    return "\n".join(blocks)


# ---- reading back --------------------------------------------------------------------------------------------

_ORIGIN = re.compile(r"# (?P<file>.+?):(?P<line>\d+)(?:: (?P<text>.*))?$")
_DTYPE = re.compile(r"  # (\w+)$")


def parse_nest(text: str) -> LoopNest:
    """Read back `print_nest(nest)`. Raises ValueError with the line that could not be read."""
    lines = text.splitlines()
    function = ast.parse(text).body[0]
    if not isinstance(function, ast.FunctionDef):
        raise ValueError("expected the text of one loop nest, which is a single def")
    ranges: dict[str, list[Any]] = {"i": [], "r": []}
    for arg in function.args.args[1:]:
        size = parse_index(ast.unparse(arg.annotation))  # type: ignore[arg-type]
        ranges[arg.arg[0]].append(int(size) if size.is_Integer else size)
    nest_origins = previous = _origins(lines[: function.lineno - 1])
    body, line = [], function.lineno
    for statement in function.body:
        instr = _statement(statement, lines[statement.lineno - 1])
        previous = _origins(lines[line : statement.lineno - 1]) or previous
        body.append(replace(instr, origins=() if previous == nest_origins else previous))
        line = statement.lineno
    return LoopNest(function.name, tuple(ranges["i"]), tuple(ranges["r"]), tuple(body), nest_origins)


def _origins(lines: list[str]) -> tuple[Origin, ...]:
    found = [_ORIGIN.match(line.strip()) for line in lines]
    return tuple(Origin(m["file"], int(m["line"]), m["text"] or "") for m in found if m)


def _statement(statement: ast.stmt, line: str) -> Instr:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
            pass
        case ast.Expr(value=ast.Call() as call):
            name = ""
        case _:
            raise ValueError(f"line {statement.lineno}: not an instruction: {line!r}")
    match call.func:
        case ast.Attribute(value=ast.Name(id="ops"), attr=op):
            args = tuple(_argument(op, k, tree) for k, tree in enumerate(call.args))
        case _:
            raise ValueError(f"line {statement.lineno}: expected a call of ops.<op>, got {line!r}")
    dtype = _DTYPE.search(line)
    if name and (dtype is None or dtype[1] not in DTYPES):
        raise ValueError(f"line {statement.lineno}: {name} lacks its dtype comment: {line!r}")
    return Instr(name, op, args, DTYPES[dtype[1]] if name and dtype else None)


def _argument(op: str, position: int, tree: ast.expr) -> Any:
    if INDEX_ARGUMENTS.get(op) == position:
        return parse_index(ast.unparse(tree))
    match tree:
        case ast.Name(id=name):
            return Value(name)
        case ast.Attribute(value=ast.Name(id="cutaway"), attr=name) if name in DTYPES:
            return DTYPES[name]
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=text)]):
            return float(text)  # type: ignore[arg-type]
    try:
        return ast.literal_eval(tree)
    except ValueError:
        raise ValueError(f"line {tree.lineno}: cannot read {ast.unparse(tree)!r}") from None
