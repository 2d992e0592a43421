"""A Program as readable Python text, and back: a program that was read prints as the same text.

Input: a Program, planned or not, with or without source. First the kernels, as the loop nests they are; then
the program, a def whose statements are its steps; then the source units. `program_steps.py` has the steps.

    @kernel(params=("x", "buf0"))
    def kernel0():
        # model.py:3: cutaway.sin(x)
        def buf0(ops, i0: 64):
            ...

    @program(device="cpu", pools=(256,))
    def forward(
        x: "float32[64]",
    ):
        buf0 = allocate("float32[64]", pool=0, offset=0)
        launch(kernel0, x, buf0)
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stage_contracts.device import CPU, Device, device_of
from stage_contracts.kernel_schedule import parse_schedule
from stage_contracts.loop_ir import LoopNest, SizeVar
from stage_contracts.loop_text import parse_nest, print_nest
from stage_contracts.origin import Origin
from stage_contracts.program import Allocate, Buffer, Configuration, Kernel, Program, SourceUnit, Target
from stage_contracts.program_steps import (
    allocate_words,
    call,
    keywords,
    parse_step,
    print_argument,
    print_step,
    read_buffer,
    read_size,
    read_value,
)
from stage_contracts.scheduler_ir import FusionDecision
from stage_contracts.tensor_meta import parse_meta

# ---- printing --------------------------------------------------------------------------------------------


def print_program(program: Program, sources: bool = True) -> str:
    """The program as Python. `sources=False` leaves out the source units, which are long."""
    blocks = [_kernel_block(kernel) for kernel in program.kernels.values()]
    blocks.append(_program_block(program))
    decisions = [
        call(
            "fusion",
            list(map(print_argument, (d.first, d.second))),
            fused=d.fused,
            reason=d.reason,
            score=d.score,
            **({"code": d.code} if d.code else {}),
        )
        for d in program.decisions
    ]
    blocks += ["\n".join(decisions) + "\n"] if decisions else []
    blocks += [_unit_block(unit) for unit in program.units] if sources else []
    return "\n".join(blocks)


def _kernel_block(kernel: Kernel) -> str:
    words = {
        "params": kernel.params,
        "internal": kernel.internal,
        "unit": kernel.unit,
        "grid": dict(kernel.grid),
        "schedule": str(kernel.schedule) if kernel.schedule else "",
        "rows": kernel.rows,
        "columns": kernel.columns,
        "row_sizes": dict(kernel.row_sizes),
        "template": kernel.template,
    }
    shown = {key: value for key, value in words.items() if value or key == "params"}
    lines = [f"@{call('kernel', [], **shown)}", f"def {kernel.name}():"]
    nests = [textwrap.indent(print_nest(nest), "    ") for nest in kernel.nests]
    return "\n".join(lines) + "\n" + ("\n".join(nests) if nests else "    pass\n")


def _program_block(program: Program) -> str:
    header: dict[str, Any] = {"device": str(program.device)} | (
        {"pools": program.pools} if program.pools else {}
    )
    header |= {"updates": dict(program.updates)} if program.updates else {}
    lines = [f"@{call('program', [], **header)}", f"def {program.name}("]
    lines += [f'    {name}: "{program.buffers[name].meta}",' for name in program.inputs]
    lines += ["):"]
    lines += [f"    {size}" for size in program.sizes]
    allocated = {step.buffer for step in program.steps if isinstance(step, Allocate)}
    for buffer in program.buffers.values():
        if buffer.name not in allocated and buffer.name not in program.inputs:
            lines.append(f"    {buffer.name} = {call(buffer.role, *allocate_words(buffer))}")
    for step in program.steps:
        lines += [f"    {line}" for line in print_step(step, program.buffers)]
    return "\n".join(lines) + "\n"


def _unit_block(unit: SourceUnit) -> str:
    target = unit.target
    words: dict[str, Any] = {"name": unit.name, "language": unit.language, "kernels": unit.kernels}
    words |= {"target": target.name} | ({"device": str(target.device)} if target.device != CPU else {})
    words |= {"arch": target.arch} if target.arch else {}
    words |= {"options": dict(target.options)} if target.options else {}
    words |= (
        {"alternatives": tuple((c.text, dict(c.grid)) for c in unit.alternatives)}
        if unit.alternatives
        else {}
    )
    words |= {"arguments": unit.arguments} if unit.arguments else {}
    return f"unit(\n    {keywords(words)},\n    text={_long_text(unit.text)},\n)\n"


def _long_text(text: str) -> str:
    """A string literal over several lines, with escapes for characters that Python would change."""
    inner = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if not all(c.isprintable() or c == "\n" for c in inner) or inner.endswith('"'):
        return repr(text)
    return f'"""\\\n{inner}"""'


# ---- reading back ----------------------------------------------------------------------------------------


def parse_program(text: str, symbols: Mapping[str, Any] | None = None) -> Program:
    """Read back `print_program(program)`. `symbols` gives symbolic sizes by name. Raises ValueError.

    An Origin comes back with the file's name, the line and the text only, because the rest does not print.
    """
    lines = text.splitlines()
    kernels: dict[str, Kernel] = {}
    units: list[SourceUnit] = []
    decisions: list[FusionDecision] = []
    found: Program | None = None
    for statement in ast.parse(text).body:
        match statement:
            case ast.FunctionDef(decorator_list=[ast.Call(func=ast.Name(id="kernel")) as header]):
                kernels[statement.name] = _read_kernel(statement, _words(header), lines)
            case ast.FunctionDef(decorator_list=[ast.Call(func=ast.Name(id="program")) as header]):
                found = _read_program(statement, _words(header), lines, kernels, dict(symbols or {}))
            case ast.Expr(value=ast.Call(func=ast.Name(id="fusion"), args=[first, second]) as entry):
                decisions.append(FusionDecision(read_value(first), read_value(second), **_words(entry)))
            case ast.Expr(value=ast.Call(func=ast.Name(id="unit")) as entry):
                units.append(_read_unit(_words(entry), kernels))
            case _:
                line = lines[statement.lineno - 1]
                raise ValueError(f"line {statement.lineno}: not a part of a program: {line!r}")
    if found is None:
        raise ValueError("expected the text of a program: a def with the decorator @program(...)")
    return replace(found, units=tuple(units), decisions=tuple(decisions))


def _words(entry: ast.Call) -> dict[str, Any]:
    return {k.arg: read_value(k.value) for k in entry.keywords if k.arg}


def _read_kernel(function: ast.FunctionDef, words: dict[str, Any], lines: list[str]) -> Kernel:
    nests: list[LoopNest] = []
    start = function.lineno  # comments above a nest belong to it
    for inner in function.body:
        if isinstance(inner, ast.FunctionDef):
            assert inner.end_lineno is not None
            nests.append(parse_nest(textwrap.dedent("\n".join(lines[start : inner.end_lineno])) + "\n"))
            start = inner.end_lineno
    if "schedule" in words:
        words["schedule"] = parse_schedule(words["schedule"])
    return Kernel(function.name, tuple(nests), **words)


def _read_program(
    function: ast.FunctionDef,
    words: dict[str, Any],
    lines: list[str],
    kernels: dict[str, Kernel],
    symbols: dict,
) -> Program:
    buffers: dict[str, Buffer] = {}
    for arg in function.args.args:
        meta = parse_meta(read_value(arg.annotation), symbols)
        buffers[arg.arg] = Buffer(arg.arg, meta, "input")
    inputs = tuple(buffers)
    steps: list[Any] = []
    previous = function.body[0].lineno - 1
    sizes: list[SizeVar] = []
    for statement in function.body:
        size = read_size(statement)
        if size is not None:
            sizes.append(size)
            previous = statement.end_lineno or statement.lineno
            continue
        buffer = read_buffer(statement, symbols)
        if buffer is not None:
            buffers[buffer.name] = buffer
        origins = tuple(filter(None, (_read_origin(line) for line in lines[previous : statement.lineno - 1])))
        step = parse_step(statement, origins)
        if step is not None:
            steps.append(step)
        elif buffer is None:
            raise ValueError(f"line {statement.lineno}: not a step: {lines[statement.lineno - 1].strip()!r}")
        previous = statement.end_lineno or statement.lineno
    device: Device = device_of(words["device"])
    pools = tuple(words.get("pools", ()))
    made = Program(function.name, device, inputs, buffers, kernels, tuple(steps), pools, sizes=tuple(sizes))
    return replace(made, updates=words.get("updates", {}))


def _read_origin(line: str) -> Origin | None:
    """`# model.py:31: relu(x)`."""
    place, _, text = line.strip().removeprefix("# ").partition(": ")
    file, colon, number = place.rpartition(":")
    return Origin(file, int(number), text) if colon and number.isdigit() else None


def _read_unit(words: dict[str, Any], kernels: Mapping[str, Kernel]) -> SourceUnit:
    target = Target(
        words.pop("target"),
        device_of(words.pop("device", None)),
        words.pop("arch", ""),
        words.pop("options", {}),
    )
    grids = {name: kernels[name].grid for name in words["kernels"] if name in kernels and kernels[name].grid}
    others = tuple(Configuration(text, grid) for text, grid in words.pop("alternatives", ()))
    return SourceUnit(target=target, grids=grids, alternatives=others, **words)
