"""Launch code as text: one Python function that runs a Program's steps, cheap per call and easy to read.

Input: a planned Program. It computes the addresses of temporaries once per arena and the addresses of arrays once per
call; each step is one line. It reads open sizes first, from the inputs' shapes. launch.py binds the names in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import sympy

from stage4_runtime.runtime.launch_groups import Group, grid_name, grouped
from stage4_runtime.runtime.launch_names import (
    EXTERNAL_PREFIX,
    INTO_PREFIX,
    NEW_PREFIX,
    SUBGRAPH_PREFIX,
    fresh_names,
    identifier,
)
from stage4_runtime.runtime.launch_words import LaunchText
from stage4_runtime.runtime.layout import byte_strides
from stage4_runtime.runtime.stream_text import (
    event_line,
    in_streams,
    on_the_callers,
    own_names,
    stream_name,
    streams_and_events,
)
from stage_contracts.breaks import Unsupported
from stage_contracts.graph_text import literal
from stage_contracts.host_interface import NOT_AS_COMPILED
from stage_contracts.loop_ir import BufferRef, SubgraphRef, buffer_refs
from stage_contracts.program import (
    Allocate,
    Await,
    Buffer,
    Collective,
    Copy,
    External,
    Free,
    Launch,
    Product,
    Program,
    RecordEvent,
    Return,
    RowBlocks,
    WaitEvent,
)
from stage_contracts.segments import Segment, segments
from stage_contracts.size_vars import is_open, late_sizes
from stage_contracts.unbacked import VALUE

MAKES = "unbacked."  # external calls whose result only the data sizes


def write_launch_text(
    program: Program,
    streams: bool = False,
    kernel_alignment: int = 1,
    native: bool = False,
    poison: bool = False,
    prepared: Mapping[int, str] = MappingProxyType({}),
    issued: Mapping[str, bool] = MappingProxyType({}),
) -> LaunchText:
    """The text of the function.

    streams: kernels take the stream as their first argument. kernel_alignment: addresses that kernels get
    must be multiples of this many bytes, and of the element's size. native: what C++ can run is one call. poison:
    the bytes of what is freed are overwritten at once, so that a step which reads them is seen. prepared: names of
    calls that take the stream and addresses, by the identity of the step that each does. issued: the kernels that C
    can launch, and of each whether open sizes decide its grid.
    """
    steps = segments(program) if native else grouped(program, issued)
    calls = [step for step in steps if isinstance(step, Segment)]
    beside, events = streams_and_events(program) if streams else (0, ())
    own = own_names(beside, events)
    names = fresh_names(program, [*(call.function for call in calls), *own])
    out = LaunchText(identifier(program.name), *names, streams=streams, kernel_alignment=kernel_alignment)
    out.prepared = prepared
    out.groups = tuple(step for step in steps if isinstance(step, Group))
    for step in steps:
        arrays, addresses = _wanted(step)
        if id(step) in prepared:
            arrays, addresses = (), arrays
        out.arrays.update(arrays)
        out.addresses.update(addresses)
    out.late = late_sizes(program.sizes, program.inputs)
    pooled = [b for b in program.buffers.values() if b.slot is not None]
    out.pools = [f"pool{number}" for number, _ in enumerate(program.pools)] if calls or poison else []
    out.poison = poison
    checked = any(call.checked for call in calls)  # C++ looks at the inputs itself
    body = [
        *_size_lines(program, out),
        *(() if checked else _inputs_lines(program, out)),
        *["stream = current_stream()"] * streams,
        *in_streams(own, beside, [*_running_lines(steps, program, pooled, out)]),
    ]
    lines = [
        *_arena_lines(program, pooled, out),
        *_constant_lines(program, out),
        f"def {out.function}({', '.join(map(out.name, program.inputs))}):",
        *(f"    {line}" for line in body),
    ]
    out.text = "\n".join(lines) + "\n"
    return out


def _wanted(step: Any) -> tuple[Iterable[str], Iterable[str]]:
    """The buffers that a step needs as arrays, and those that it needs as addresses."""
    match step:
        case Segment(arrays=arrays):
            return arrays, ()
        case Launch(buffers=buffers) | Group(buffers=buffers):
            return (), buffers
        case External(args=args, kwargs=kwargs, outputs=outputs):
            return (*(ref.name for ref in buffer_refs((args, dict(kwargs)))), *outputs), ()
        case RowBlocks(steps=inner, local=local):
            found = [_wanted(step) for step in inner]
            return {*local, *(n for arrays, _ in found for n in arrays)}, {n for _, at in found for n in at}
        case Product(a=a, b=b, out=product):
            return (a.name, b.name, product.name), ()
        case Copy() | Collective() | Await():
            return (step.source, step.destination), ()
        case Return(values=values):
            return [ref.name for ref in buffer_refs(values)], ()
    return (), ()


# ---- the parts of the function ---------------------------------------------------------------------------


def _constant_lines(program: Program, out: LaunchText) -> Iterable[str]:
    """The addresses of the constants, which never move."""
    for b in program.buffers.values():
        if b.role == "constant" and b.name in out.addresses:
            yield f"{out.pointer(b.name)} = {out.address(b.name)}"


def _inputs_lines(program: Program, out: LaunchText) -> Iterable[str]:
    written = program.written_inputs
    for name in program.inputs:
        yield from _input_lines(program.buffers[name], out, name in written)


def _running_lines(
    steps: Iterable[Any], program: Program, pooled: list[Buffer], out: LaunchText
) -> Iterable[str]:
    """The steps, between taking an arena and giving it back before the return."""
    key = "".join(f", {name}" for name in _arena_sizes(program, pooled, out))
    stream = ", stream" if out.streams else ", None" if key else ""
    if pooled:
        yield f"arena = take_arena(new_arena{stream}{key})"
        yield f"_, {', '.join(_arena_names(pooled, out))}, = arena"
    for step in steps:
        if isinstance(step, Return) and pooled:
            yield f"give_arena(arena{stream}{key})"
        yield from _step_lines(step, program, out)


def _arena_names(pooled: list[Buffer], out: LaunchText) -> list[str]:
    names = [out.pointer(b.name) for b in pooled if b.name in out.addresses]
    return out.pools + names + [out.name(b.name) for b in pooled if b.name in out.arrays]


def _arena_lines(program: Program, pooled: list[Buffer], out: LaunchText) -> Iterable[str]:
    """A function that makes the pools and, once for many calls, the addresses and arrays in them."""
    if not pooled:
        return
    yield f"def new_arena({', '.join(_arena_sizes(program, pooled, out))}):"
    for pool, nbytes in enumerate(program.pools):
        wanted = f"max({out.size(nbytes)}, 0)" if is_open(nbytes) else nbytes
        yield f"    memory{pool}, pool{pool} = allocate_pool({wanted})"
    for b in pooled:
        assert b.slot is not None
        place = f"pool{b.slot.pool} + {b.slot.offset}"
        if b.name in out.addresses:
            yield f"    {out.pointer(b.name)} = {place}  # {b.meta}"
        if b.name in out.arrays:
            view = f"slot_view(memory{b.slot.pool}, {place}, {b.name!r}{out.at(b.meta)})"
            yield f"    {out.name(b.name)} = {view}  # {b.meta}"
    memories = ", ".join(f"memory{pool}" for pool in range(len(program.pools)))
    yield f"    return ({memories},), {', '.join(_arena_names(pooled, out))},"
    yield ""


def _arena_sizes(program: Program, pooled: list[Buffer], out: LaunchText) -> list[str]:
    """The open sizes that decide what an arena is."""
    used = [*program.pools, *(size for b in pooled for size in (*b.meta.shape, *b.meta.strides))]
    found = {str(s) for size in used if is_open(size) for s in size.free_symbols}
    return [out.sizes[size.name] for size in program.sizes if size.name in found]


def _size_lines(program: Program, out: LaunchText) -> Iterable[str]:
    """Every open size, read from a shape or computed. One that a later call shows is 0 before it."""
    shown = [size for size in program.sizes if size.buffer and size.name not in out.late]
    if shown:
        yield "try:"
        yield from (f"    {out.sizes[s.name]} = {out.name(s.buffer)}.shape[{s.dim}]" for s in shown)
        yield "except (AttributeError, IndexError):  # what has no such size is said"
        yield from (f"    read_size({s.buffer!r}, {out.name(s.buffer)}, {s.dim})" for s in shown)
        yield "    raise"
    for size in program.sizes:
        if size in shown:
            continue
        found = "0  # until it is known" if size.name in out.late else out.size(size.expr)
        yield f"{out.sizes[size.name]} = {found}"


def _late_size_lines(made: Iterable[str], program: Program, out: LaunchText) -> Iterable[str]:
    """The sizes that are known when these buffers are there, too."""
    if out.late.keys() <= out.known or not {*made} & {b for after in out.late.values() for b in after}:
        return
    out.shown.update(made)
    for size in program.sizes:
        if size.name in out.known or not out.late.get(size.name, {""}) <= out.shown:
            continue
        out.known.add(size.name)
        name, buffer = out.sizes[size.name], size.buffer and out.name(size.buffer)
        if buffer:
            yield f"{name} = {f'int({buffer})' if size.dim == VALUE else f'{buffer}.shape[{size.dim}]'}"
        else:
            yield f"{name} = {out.size(size.expr)}"


def _input_lines(buffer: Buffer, out: LaunchText, written: bool) -> Iterable[str]:
    name, meta = out.name(buffer.name), buffer.meta
    address = out.address(buffer.name)
    # the address is asked for once where that costs as much as a check
    kept = buffer.name in out.addresses and out.streams
    checks = (
        f"{name}.__class__ is not ndarray",
        f"{name}.dtype is not {meta.dtype.name}_dtype",
        f"{name}.shape != {out.tuple(meta.shape)}",
        f"{name}.strides != {out.tuple(byte_strides(meta))}",
        f"{f'({out.pointer(buffer.name)} := {address})' if kept else address} "
        f"% {max(meta.dtype.itemsize, out.kernel_alignment)}",
    )
    read_only = written and meta.device.type == "cpu"  # an array of CuPy can always be written
    yield f"# {buffer.name}: {meta}"
    yield f"if ({' or '.join(checks[:2])}"
    yield f"        or {' or '.join(checks[2:])}{f' or not {name}.flags.writeable' * read_only}):"
    yield f"    {name} = accept({buffer.name!r}, {name}{out.at(meta)})"
    if buffer.name in out.addresses:
        yield f"{'    ' * kept}{out.pointer(buffer.name)} = {address}"


def _allocate(step: Allocate, program: Program, out: LaunchText) -> Iterable[str]:
    buffer = program.buffers[step.buffer]
    if buffer.slot is not None:
        yield f"# allocate {buffer.name}: {buffer.meta} at {buffer.slot.offset} of pool {buffer.slot.pool}"
        return
    at = out.at(buffer.meta)
    if out.streams and not at:  # prepared, like the launches
        out.made.add(buffer.name)
        yield f"{out.name(buffer.name)} = {NEW_PREFIX}{out.name(buffer.name)}()  # {buffer.meta}"
    else:
        yield f"{out.name(buffer.name)} = empty({buffer.name!r}{at})  # {buffer.meta}"
    if buffer.name in out.addresses:
        yield f"{out.pointer(buffer.name)} = {out.address(buffer.name)}"


def _launch(step: Launch, program: Program, out: LaunchText) -> Iterable[str]:
    kernel = program.kernels[step.kernel]
    bound = kernel.bindings(step.buffers)
    arguments = [stream_name(step.stream)] * out.streams
    for param in kernel.params:
        pointers = [out.pointer(row[param]) for row in bound]
        arguments.append(f"column({', '.join(pointers)})" if param in kernel.columns else pointers[0])
    arguments += [out.sizes.get(name, name) for name in kernel.sizes]
    for origin in kernel.origins:
        yield f"# {origin.describe()}".replace("\n", " ")
    number = [*program.kernels].index(step.kernel) + 1
    yield f"if {out.kernels[step.kernel]}({', '.join(arguments)}): out_of_range({number})"


def _issue(group: Group, program: Program, out: LaunchText) -> Iterable[str]:
    """One call of C that launches several kernels."""
    for step in group.launches:
        kernel = program.kernels[step.kernel]
        for origin in kernel.origins:
            yield f"# {origin.describe()}".replace("\n", " ")
        words = [*map(out.pointer, step.buffers), *(out.sizes[name] for name in kernel.sizes)]
        yield f"#   launches {out.kernels[step.kernel]}({', '.join(words)})"
    words = [
        stream_name(group.stream),
        *map(out.pointer, group.buffers),
        *(out.sizes[name] for name in group.sizes),
    ]
    if group.grids:
        takes = {grid_name(name): kernel.sizes for name, kernel in program.kernels.items()}
        words += [f"{grid}({', '.join(out.sizes[name] for name in takes[grid])})" for grid in group.grids]
    yield f"if failed := {group.function}({', '.join(words)}): refused(failed)"


def _segment(segment: Segment, program: Program, out: LaunchText) -> Iterable[str]:
    """One call that runs many steps. It reports an input that it was not compiled for, and is then called again."""
    for name in segment.allocated:
        yield from _allocate(Allocate(name), program, out)
    words = [*map(out.name, segment.arrays), *out.pools, *(out.sizes[size.name] for size in program.sizes)]
    yield f"failed = {segment.function}({', '.join([*words, str(segment.checked > 0)])})"
    yield "if failed:"
    if segment.checked:
        yield f"    if failed == {NOT_AS_COMPILED}:"
        for name in program.inputs:
            meta = program.buffers[name].meta
            yield f"        {out.name(name)} = accept({name!r}, {out.name(name)}{out.at(meta)})  # {meta}"
        yield f"        failed = {segment.function}({', '.join([*words, 'False'])})"
    yield "    if failed: out_of_range(failed)"
    for name in segment.freed:
        yield from _free(Free(name), program, out)


def _external(step: External, program: Program, out: LaunchText) -> Iterable[str]:
    words = [_argument(a, program, out) for a in step.args]
    words += [f"{k}={_argument(v, program, out)}" for k, v in step.kwargs.items()]
    for origin in step.origins:
        yield f"# {origin.describe()}".replace("\n", " ")
    if id(step) in out.prepared:
        if not step.into:
            yield from _allocate(Allocate(step.outputs[0]), program, out)
        pointers = [out.pointer(ref.name) for ref in buffer_refs(step.args)]
        words = [stream_name(step.stream), *pointers, out.pointer(step.outputs[0])]
        yield f"{out.prepared[id(step)]}({', '.join(words)})"
        return
    yield from on_the_callers(step.stream if out.streams else 0, _eager(step, words, program, out))


def _eager(step: External, words: list[str], program: Program, out: LaunchText) -> Iterable[str]:
    """A call of an operator's eager kernel, which runs on CuPy's current stream: the caller's."""
    if step.into:
        yield f"{INTO_PREFIX}{step.target}({', '.join([*words, f'out={out.name(step.outputs[0])}'])})"
        return
    results = ", ".join(map(out.name, step.outputs))
    yield f"{results} = {EXTERNAL_PREFIX}{identifier(step.target)}({', '.join(words)})"
    yield from _late_size_lines(step.outputs, program, out)
    for name in step.outputs:
        meta = program.buffers[name].meta
        # a size that only the data decides is what it is here; the program's checks come next
        at = f", {out.name(name)}.shape" if step.target.startswith(MAKES) else out.at(meta)
        yield f"{out.name(name)} = conform({name!r}, {out.name(name)}{at})  # {meta}"
        if name in out.addresses:
            yield f"{out.pointer(name)} = {out.address(name)}"


def _row_blocks(step: RowBlocks, program: Program, out: LaunchText) -> Iterable[str]:
    """Loops over the blocks, one thread: what runs where C++ cannot run the whole step."""
    for name in step.local:
        yield from _allocate(Allocate(name), program, out)
    indent = ""
    own = {name: name for name in (*(index for index, _ in step.batch), step.first, step.rows)}
    for index, size in step.batch:
        yield f"{indent}for {index} in range({out.size(size)}):"
        indent += "    "
    yield f"{indent}for {step.first} in range(0, {out.size(step.count)}, {step.block}):"
    indent += "    "
    yield f"{indent}{step.rows} = min({step.block}, {out.size(step.count)} - {step.first})"
    inside = replace(out, sizes=out.sizes | own)
    for inner in step.steps:
        if isinstance(inner, Product) and inner.adds:
            lines = _added(inner, step, program, inside)
        else:
            lines = _step_lines(inner, program, inside)
        yield from (indent + line for line in lines)
    yield from (f"del {out.name(name)}" for name in step.local)


def _product(step: Product, program: Program, out: LaunchText) -> Iterable[str]:
    a, b, into = (_argument(ref, program, out) for ref in (step.a, step.b, step.out))
    yield f"{INTO_PREFIX}matmul({a}, {b}, out={into})"


def _added(step: Product, blocks: RowBlocks, program: Program, out: LaunchText) -> Iterable[str]:
    """The first block's product is written, those after it are added."""
    a, b, into = (_argument(ref, program, out) for ref in (step.a, step.b, step.out))
    yield f"if {blocks.first}: {INTO_PREFIX}add({into}, {INTO_PREFIX}matmul({a}, {b}), out={into})"
    yield f"else: {INTO_PREFIX}matmul({a}, {b}, out={into})"


def _collective(step: Collective, program: Program, out: LaunchText) -> Iterable[str]:
    """The group is looked up at each call: a program outlives the groups that it names."""
    where = "; ".join(f"{o.file}:{o.line}" for o in step.origins)
    *words, group = step.words
    arrays = f"{out.name(step.source)}, {out.name(step.destination)}"
    for origin in step.origins:
        yield f"# {origin.describe()}".replace("\n", " ")
    yield (
        f"{transfer(step)} = communicator({group!r}).start({step.operation!r}, "
        f"{_argument(tuple(words), program, out)}, {arrays}, {where!r})"
    )


def _await(step: Await, program: Program, out: LaunchText) -> Iterable[str]:
    yield f"{transfer(step)}.wait()"


def transfer(step: Collective | Await) -> str:
    return f"transfer_{step.token}"


def _copy(step: Copy, program: Program, out: LaunchText) -> Iterable[str]:
    copy = f"copyto({out.name(step.destination)}, {out.name(step.source)})"
    yield from on_the_callers(step.stream if out.streams else 0, [copy])


def _free(step: Free, program: Program, out: LaunchText) -> Iterable[str]:
    slot = program.buffers[step.buffer].slot
    pooled = slot is not None
    if out.poison and slot is not None:
        yield f"poison(pool{slot.pool} + {out.size(slot.offset)}, {out.size(slot.nbytes)})"
    yield f"# free {step.buffer}: its bytes may be reused" if pooled else f"del {out.name(step.buffer)}"


def _return(step: Return, program: Program, out: LaunchText) -> Iterable[str]:
    yield f"return ({''.join(_argument(v, program, out) + ', ' for v in step.values)})"


def _event(step: RecordEvent | WaitEvent, program: Program, out: LaunchText) -> Iterable[str]:
    return [event_line(step, out.streams)]


_WRITERS: dict[type, Callable[[Any, Program, LaunchText], Iterable[str]]] = {
    Allocate: _allocate,
    Launch: _launch,
    Segment: _segment,
    Group: _issue,
    External: _external,
    RowBlocks: _row_blocks,
    Product: _product,
    Copy: _copy,
    Collective: _collective,
    Await: _await,
    Free: _free,
    Return: _return,
    RecordEvent: _event,
    WaitEvent: _event,
}


def _step_lines(step: Any, program: Program, out: LaunchText) -> Iterable[str]:
    if type(step) not in _WRITERS:
        raise Unsupported(f"the step {type(step).__name__}", code="GB0089")
    return _WRITERS[type(step)](step, program, out)


def _argument(value: Any, program: Program, out: LaunchText) -> str:
    if isinstance(value, BufferRef):
        if value.shape is None:
            return out.name(value.name)
        itemsize = program.buffers[value.name].meta.dtype.itemsize
        strides = tuple(stride * itemsize for stride in value.strides or ())
        place = out.tuple(value.shape), out.tuple(strides), out.size(value.offset * itemsize)
        return f"view({out.name(value.name)}, {', '.join(place)})"
    if isinstance(value, SubgraphRef):
        return SUBGRAPH_PREFIX + value.name
    if isinstance(value, tuple):
        return f"({''.join(_argument(v, program, out) + ', ' for v in value)})"
    if isinstance(value, list):
        return f"[{', '.join(_argument(v, program, out) for v in value)}]"
    return out.size(value) if isinstance(value, sympy.Basic) else literal(value)
