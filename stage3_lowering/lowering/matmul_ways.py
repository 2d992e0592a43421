"""Ways to compute a product with what is done around it, as programs that can be measured side by side.

Input: matmul_templates.py's steps of one product in a larger program. The ways have the same inputs and results; one of
them takes the place of those steps.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from stage3_lowering.lowering.attention import with_kernels
from stage3_lowering.lowering.share_kernels import nest_form
from stage3_lowering.lowering.step_uses import StepUses
from stage_contracts.loop_ir import BufferRef, LoopNest
from stage_contracts.program import Buffer, Kernel, Launch, Program, Return


@dataclass(frozen=True)
class Way:
    """Steps in the place of others, their kernels, and the temporaries that only they use. `name`: for people."""

    name: str
    steps: tuple[Any, ...]
    kernels: tuple[Kernel, ...]
    buffers: tuple[Buffer, ...] = ()


def as_they_are(program: Program, numbers: Sequence[int]) -> Way:
    steps = tuple(program.steps[n] for n in numbers)
    kernels = tuple(program.kernels[step.kernel] for step in steps if isinstance(step, Launch))
    return Way("library", steps, kernels)


def launches(kernels: Sequence[Kernel]) -> tuple[Launch, ...]:
    return tuple(Launch(kernel.name, kernel.params) for kernel in kernels)


def params_of(nests: Sequence[LoopNest], inner: Collection[str] = ()) -> tuple[str, ...]:
    """The buffers that a kernel of these nests is given: what it reads, then what it writes."""
    read = [name for nest in nests for name in nest.reads]
    written = [name for nest in nests for name in nest.writes]
    return tuple(
        dict.fromkeys(n for n in (*(n for n in read if n not in written), *written) if n not in inner)
    )


def piece(uses: StepUses, numbers: Sequence[int], way: Way) -> Program:
    """A way as a program of its own."""
    program = uses.program
    written = dict.fromkeys(name for n in numbers for name in uses.writes(n))
    read = dict.fromkeys(name for n in numbers for name in uses.reads(n))
    given = tuple(name for name in read if name not in written)
    results = tuple(name for name in written if uses.users[name] - {*numbers})
    own = {buffer.name: buffer for buffer in way.buffers}
    used = _used(way) | {*given, *results}
    roles = {**dict.fromkeys(given, "input"), **dict.fromkeys(results, "output")}
    buffers = {
        n: own.get(n) or Buffer(n, program.buffers[n].meta, roles.get(n, "temporary"))
        for n in sorted(used) if n in own or n in program.buffers
    }  # fmt: skip
    kernels = {kernel.name: kernel for kernel in way.kernels}
    steps = (*way.steps, Return(tuple(map(BufferRef, results))))
    return Program(way.name, program.device, given, buffers, kernels, steps).verify()


def _used(way: Way) -> set[str]:
    of_calls = [ref.name for s in way.steps if not isinstance(s, Launch) for ref in s.args]
    outputs = [name for s in way.steps if not isinstance(s, Launch) for name in s.outputs]
    return {*of_calls, *outputs, *(name for s in way.steps if isinstance(s, Launch) for name in s.buffers)}


def question(ways: Sequence[Program]) -> str:
    """What decides the answer, without names: a model's layers ask the same again and again."""
    said = []
    for way in ways:
        words = {name: f"p{k}" for k, name in enumerate(way.inputs)}
        forms = []
        for kernel in way.kernels.values():
            for name in (*kernel.params, *kernel.internal):
                words.setdefault(name, f"p{len(words)}")
            forms.append([nest_form(nest, words) for nest in kernel.nests])
        said.append((way.name, [str(way.buffers[name].meta) for name in way.inputs], forms))
    return repr(said)


def replaced(uses: StepUses, chosen: Sequence[tuple[Sequence[int], Way]]) -> Program:
    """The program with these ways, each where the last of the steps was that it stands for."""
    program = uses.program
    buffers = dict(program.buffers)
    steps: list[Any] = [(step,) for step in program.steps]
    kernels: list[Kernel] = []
    for numbers, way in chosen:
        for n in numbers:
            steps[n] = ()
        steps[max(numbers)] = way.steps
        kernels += [kernel for kernel in way.kernels if kernel.name not in program.kernels]
        gone = {name for n in numbers for name in uses.writes(n) if uses.users[name] <= {*numbers}}
        buffers = {n: b for n, b in buffers.items() if n not in gone - _used(way)}
        buffers |= {buffer.name: buffer for buffer in way.buffers}
    return with_kernels(program.with_(buffers=buffers), tuple(s for group in steps for s in group), kernels)
