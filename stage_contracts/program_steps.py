"""The steps of a Program as Python statements, one table row each, and back.

Input: steps for `print_step`, statements for `parse_step`; `program_text.py` joins them. A buffer's type is printed
where the buffer is allocated, or in a declaration above all steps if no step allocates it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

import sympy

from stage_contracts.device import device_of
from stage_contracts.dtype import DTYPES
from stage_contracts.graph_text import literal
from stage_contracts.index_expr import parse_index, print_index
from stage_contracts.loop_ir import BufferRef, SizeVar, SubgraphRef
from stage_contracts.origin import Origin
from stage_contracts.program import (
    BUFFER_ROLES,
    Allocate,
    Await,
    Buffer,
    Collective,
    Copy,
    External,
    Free,
    HostCallback,
    Launch,
    PoolSlot,
    Product,
    RecordEvent,
    Return,
    RowBlocks,
    WaitEvent,
)
from stage_contracts.size_vars import plain
from stage_contracts.tensor_meta import parse_meta
from stage_contracts.unbacked import VALUE

# ---- printing --------------------------------------------------------------------------------------------


def print_argument(value: Any) -> str:
    """An argument of a step: a buffer by name, a view of one, tuples of them, constants."""
    if isinstance(value, (BufferRef, SubgraphRef)):
        return str(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(print_argument, value))}{',' * (len(value) == 1)})"
    if isinstance(value, list):
        return f"[{', '.join(map(print_argument, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{print_argument(k)}: {print_argument(v)}" for k, v in value.items()) + "}"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, sympy.Basic):
        return f'size("{print_index(value)}")'
    return literal(value)


def _quoted(text: str) -> str:
    """A string in double quotes, if that needs no escape."""
    plain = text.isprintable() and not set(text) & {'"', "\\"}
    return f'"{text}"' if plain else repr(text)


def keywords(words: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={print_argument(value)}" for key, value in words.items())


def call(function: str, arguments: list[str], **words: Any) -> str:
    """The text `function(*arguments, **words)`; the arguments are text already."""
    return f"{function}({', '.join([*arguments, *([keywords(words)] if words else [])])})"


def allocate_words(buffer: Buffer) -> tuple[list[str]]:
    """The arguments of a buffer's declaration: its type, then its slot."""
    words = [f'"{buffer.meta}"']
    if buffer.slot is not None:
        slot = {"pool": buffer.slot.pool, "offset": buffer.slot.offset}
        slot |= {"nbytes": buffer.slot.nbytes} if buffer.slot.nbytes != buffer.meta.nbytes else {}
        words.append(keywords(slot))
    return (words,)


def print_step(step: Any, buffers: Mapping[str, Buffer]) -> list[str]:
    """The lines of one step."""
    return _PRINTERS[type(step)](step, buffers)


def _allocate(step: Allocate, buffers: Mapping[str, Buffer]) -> list[str]:
    buffer = buffers[step.buffer]
    (words,) = allocate_words(buffer)
    role = {} if buffer.role == "temporary" else {"role": buffer.role}
    return [f"{step.buffer} = {call('allocate', words, **role)}"]


def _external(step: External, buffers: Mapping[str, Buffer]) -> list[str]:
    words = [_quoted(step.target), *map(print_argument, step.args)]
    words += [keywords(step.kwargs)] if step.kwargs else []
    words += [keywords(on)] if (on := _on_stream(step.stream)) else []
    outputs = ", ".join(step.outputs) + "," * (len(step.outputs) != 1)
    result = f"external({', '.join(words)})"
    if step.into:
        shown = step.outputs[0] if len(step.outputs) == 1 else f"({outputs})"
        result = f"external({', '.join([*words, f'out={shown}'])})"
    else:
        result = f"{step.outputs[0] if len(step.outputs) == 1 else f'({outputs})'} = {result}"
    return [*(f"# {' '.join(o.describe().split())}" for o in step.origins), result]


def _row_blocks(step: RowBlocks, buffers: Mapping[str, Buffer]) -> list[str]:
    names = ", ".join([*(name for name, _ in step.batch), step.first, step.rows])
    sizes = [print_argument(size) for _, size in step.batch] + [print_argument(step.count)]
    words = {"block": step.block, **({"local": step.local} if step.local else {})}
    words |= {"cache": step.cache} if step.cache else {}
    lines = [f"# {' '.join(o.describe().split())}" for o in step.origins]
    lines.append(f"for {names} in {call('row_blocks', sizes, **words)}:")
    return lines + [f"    {line}" for inner in step.steps for line in print_step(inner, buffers)]


def _product(step: Product, buffers: Mapping[str, Buffer]) -> list[str]:
    words = {word: True for word in ("adds", "panels") if getattr(step, word)}
    return [call("product", list(map(print_argument, (step.a, step.b, step.out))), **words)]


def _collective(step: Collective) -> list[str]:
    words = [_quoted(step.operation), step.source, step.destination, *map(print_argument, step.words)]
    lines = [f"# {' '.join(o.describe().split())}" for o in step.origins]
    return [*lines, call("collective", words, token=step.token)]


def _on_stream(stream: int) -> dict[str, int]:
    return {"stream": stream} if stream else {}


_PRINTERS: dict[type, Callable[[Any, Mapping[str, Buffer]], list[str]]] = {
    Allocate: _allocate,
    Launch: lambda s, _: [call("launch", [s.kernel, *s.buffers], **_on_stream(s.stream))],
    External: _external,
    RowBlocks: _row_blocks,
    Product: _product,
    Copy: lambda s, _: [call("copy", [s.source, s.destination], **_on_stream(s.stream))],
    RecordEvent: lambda s, _: [call("record_event", [str(s.event)], stream=s.stream)],
    WaitEvent: lambda s, _: [call("wait_event", [str(s.event)], stream=s.stream)],
    Collective: lambda s, _: _collective(s),
    Await: lambda s, _: [call("await_collective", [s.source, s.destination], token=s.token)],
    HostCallback: lambda s, _: [call("host_callback", [_quoted(s.name), *s.buffers])],
    Free: lambda s, _: [call("free", [s.buffer])],
    Return: lambda s, _: [f"return {print_argument(s.values)}"],
}

# ---- reading back ----------------------------------------------------------------------------------------


def read_value(tree: ast.expr | None) -> Any:
    """Read back an argument that `print_argument` wrote. Names are buffers. Raises ValueError."""
    match tree:
        case ast.Name(id=name):
            return BufferRef(name)
        case ast.Tuple(elts=elts):
            return tuple(map(read_value, elts))
        case ast.List(elts=elts):
            return list(map(read_value, elts))
        case ast.Dict(keys=keys, values=values):
            return {read_value(k): read_value(v) for k, v in zip(keys, values, strict=True)}
        case ast.Call(func=ast.Name(id="view"), args=[ast.Name(id=name), *rest]):
            return BufferRef(name, *map(_read_sizes, rest))
        case ast.Call(func=ast.Name(id="size"), args=[ast.Constant(value=str(text))]):
            return plain(parse_index(text))
        case ast.Call(func=ast.Name(id="subgraph"), args=[ast.Constant(value=str(name))]):
            return SubgraphRef(name)
        case ast.Call(func=ast.Name(id="slice"), args=args):
            return slice(*map(read_value, args))
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))]):
            return float(text)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="cutaway"), attr="device"), args=[device]):
            return device_of(read_value(device))
        case ast.Attribute(value=ast.Name(id="cutaway"), attr=name) if name in DTYPES:
            return DTYPES[name]
    try:
        return ast.literal_eval(tree)  # type: ignore[arg-type]
    except ValueError:
        shown = ast.unparse(tree) if tree is not None else "nothing"
        raise ValueError(f"line {getattr(tree, 'lineno', '?')}: cannot read {shown!r}") from None


def _read_sizes(tree: ast.expr) -> Any:
    """A shape, strides or an offset, in which names are open sizes."""
    if isinstance(tree, ast.Tuple):
        return tuple(map(_read_sizes, tree.elts))
    return plain(parse_index(ast.unparse(tree)))


def read_size(statement: ast.stmt) -> SizeVar | None:
    """The open size that `name = size(x, 0)` or `name = s0 + 1` declares."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(
                func=ast.Name(id="size"), args=[ast.Name(id=buffer), ast.Constant(value=int(dim))]
            ),
        ):
            return SizeVar(name, buffer, dim)
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="item"), args=[ast.Name(id=buffer)])
        ):
            return SizeVar(name, buffer, VALUE)
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp() | ast.Name() | ast.UnaryOp() as value):
            return SizeVar(name, expr=parse_index(ast.unparse(value)))
    return None


def read_buffer(statement: ast.stmt, symbols: dict[str, Any]) -> Buffer | None:
    """The buffer that `name = <role>("type", ...)` or `name = allocate("type", ...)` declares."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(func=ast.Name(id=function), args=[ast.Constant(value=str(text))], keywords=found),
        ) if function in BUFFER_ROLES or function == "allocate":
            words = {k.arg: read_value(k.value) for k in found if k.arg}
            meta = parse_meta(text, symbols)
            role = words.get("role", "temporary") if function == "allocate" else function
            slot = None
            if "pool" in words:
                slot = PoolSlot(words["pool"], words["offset"], words.get("nbytes", meta.nbytes))
            return Buffer(name, meta, role, slot)
    return None


def parse_step(statement: ast.stmt, origins: tuple[Origin, ...]) -> Any:
    """The step of a statement. None for a declaration, and for a statement that is not a step."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="allocate"))):
            return Allocate(name)
        case ast.Assign(targets=[targets], value=ast.Call(func=ast.Name(id="external")) as entry):
            return _read_external(entry, _names(targets), False, origins)
        case ast.Expr(value=ast.Call(func=ast.Name(id="external")) as entry):
            (out,) = (k.value for k in entry.keywords if k.arg == "out")
            return _read_external(entry, _names(out), True, origins)
        case ast.Expr(value=ast.Call(func=ast.Name(id="collective"), args=args, keywords=found)):
            operation, source, destination, *further = map(read_value, args)
            token = _keywords(found)["token"]
            return Collective(token, operation, source.name, destination.name, tuple(further), origins)
        case ast.Expr(value=ast.Call(func=ast.Name(id="await_collective"), args=args, keywords=found)):
            return Await(_keywords(found)["token"], *_all_names(args))
        case ast.Expr(value=ast.Call(func=ast.Name(id=function)) as entry) if function in _READERS:
            words = {k.arg: read_value(k.value) for k in entry.keywords if k.arg}
            return _READERS[function](entry.args, words.get("stream", 0))
        case ast.For(target=target, iter=ast.Call(args=sizes, keywords=found), body=body):
            return _read_row_blocks(
                _names(target), list(map(read_value, sizes)), _keywords(found), body, origins
            )
        case ast.Expr(value=ast.Call(func=ast.Name(id="product"), args=args, keywords=found)):
            return Product(*map(read_value, args), **_keywords(found))
        case ast.Return(value=value):
            return Return(read_value(value))
    return None


def _keywords(found: list[ast.keyword]) -> dict[str, Any]:
    return {k.arg: read_value(k.value) for k in found if k.arg}


def _read_row_blocks(
    names: tuple[str, ...],
    sizes: list[Any],
    words: dict[str, Any],
    body: list[ast.stmt],
    origins: tuple[Origin, ...],
) -> RowBlocks:
    *indices, first, rows = names
    *batch, count = sizes
    steps = tuple(parse_step(statement, ()) for statement in body)
    local = words.get("local", ())
    pairs = tuple(zip(indices, batch, strict=True))
    return RowBlocks(pairs, first, rows, count, words["block"], local, steps, origins, words.get("cache", 0))


def _read_external(
    entry: ast.Call, outputs: tuple[str, ...], into: bool, origins: tuple[Origin, ...]
) -> External:
    target, *args = map(read_value, entry.args)
    kwargs = {k.arg: read_value(k.value) for k in entry.keywords if k.arg and not (into and k.arg == "out")}
    stream = kwargs.pop("stream", 0)  # no operator has an argument of that name
    return External(target, tuple(args), kwargs, outputs, into, origins, stream)


def _names(tree: ast.expr) -> tuple[str, ...]:
    """`a` or `(a, b)`."""
    names = tree.elts if isinstance(tree, ast.Tuple) else [tree]
    return tuple(name.id for name in names if isinstance(name, ast.Name))


def _all_names(trees: list[ast.expr]) -> tuple[str, ...]:
    return tuple(name for tree in trees for name in _names(tree))


_READERS: dict[str, Callable[[list[ast.expr], int], Any]] = {
    "launch": lambda args, stream: Launch(_all_names(args)[0], _all_names(args)[1:], stream),
    "copy": lambda args, stream: Copy(_all_names(args)[0], _all_names(args)[1], stream),
    "record_event": lambda args, stream: RecordEvent(read_value(args[0]), stream),
    "wait_event": lambda args, stream: WaitEvent(read_value(args[0]), stream),
    "host_callback": lambda args, stream: HostCallback(read_value(args[0]), _all_names(args[1:])),
    "free": lambda args, stream: Free(*_all_names(args)),
}
