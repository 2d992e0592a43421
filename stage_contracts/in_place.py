"""Which results a kernel may write straight into the inputs that they replace, such as an optimizer's new parameter.

Input: a Program with `updates`. A kernel may overwrite an array that it reads only if it reads each element before it
writes it, at the same index; and if no later step reads the old values or can raise an error. Of a result that begins
as a copy of its input, and then has some elements replaced, the copy is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from stage_contracts.device import CPU
from stage_contracts.loop_ir import Instr, buffer_refs
from stage_contracts.places import checks_of, checks_places_first
from stage_contracts.program import (
    Allocate,
    Await,
    Collective,
    Free,
    Kernel,
    Launch,
    Program,
    Return,
    step_accesses,
)
from stage_contracts.segments import can_run

# what a GPU's libraries do
LIBRARY = ("matmul", "matmul_add_row", "convolution", "convolution_weight_gradient", "scatter_add")


def in_place(program: Program) -> dict[str, str]:
    """Each result that may be written at once, and the input it is written to."""
    if not program.updates:
        return {}
    accesses = [step_accesses(step, program.kernels) for step in program.steps]
    makers: dict[str, list[int]] = {}
    for number, (_, writes) in enumerate(accesses):
        for name in writes:
            makers.setdefault(name, []).append(number)
    raising = _last_raise(program)
    returned = Counter(ref.name for ref in buffer_refs(program.return_step.values))
    chosen: dict[str, str] = {}
    for out, into in program.updates.items():
        writers = _writers(program, out, into, makers.get(out, ()))
        # given back as a result too, it would be no view of the input; and nobody may need what was there before:
        # no later step, and no eager call that begins again after an error
        if not writers or returned[out] != 1 or raising > writers[0] or _is_read(into, accesses, writers[0]):
            continue
        unspoilt = raising < writers[0] or _checks_first(program.steps[raising], program)
        if unspoilt and all(_may_write(program, out, into, program.steps[n]) for n in writers):
            chosen[out] = into
    return chosen


def _is_read(name: str, accesses: Sequence[Any], after: int) -> bool:
    return any(name in reads for reads, _ in accesses[after + 1 :])


def _writers(program: Program, out: str, into: str, makers: Sequence[int]) -> Sequence[int]:
    """The steps that write `out` where it is `into`: without the one that only copies that."""
    if len(makers) > 1 and copies(program.steps[makers[0]], program).get(out) == into:
        return makers[1:]
    return makers if len(makers) == 1 else ()


def copies(step: Any, program: Program) -> dict[str, str]:
    """The buffers that a step makes by copying another one whole, if that is all it does, and which."""
    kernel = program.kernels[step.kernel] if isinstance(step, Launch) else None
    if kernel is None or kernel.template or len(kernel.nests) != 1 or kernel.nests[0].reduction_ranges:
        return {}
    match kernel.nests[0].body:
        case (Instr(op="load", args=(source, at)), Instr(op="store", args=(made, there, _))) if at == there:
            return {bound[made]: bound[source] for bound in kernel.bindings(step.buffers)}
    return {}


def _may_write(program: Program, out: str, into: str, maker: Any) -> bool:
    """Whether the step that makes `out` is a kernel that may write it over `into`."""
    if program.buffers[out].meta != program.buffers[into].meta.with_(requires_grad=False):
        return False
    if not isinstance(maker, Launch) or program.kernels[maker.kernel].template:
        return False
    return may_write_over(program.kernels[maker.kernel], maker.buffers, out, into)


def _last_raise(program: Program) -> int:
    """The number of the last step that can end in an error; -1: none. What an earlier step has checked cannot."""
    last, checked = -1, frozenset[Any]()
    for number, step in enumerate(program.steps):
        if not _may_raise(step, program):
            continue
        checks = (
            checks_of(program.kernels[step.kernel], step.buffers) if isinstance(step, Launch) else frozenset()
        )
        if not checks or not checks <= checked:
            last, checked = number, checked | checks
    return last


def _checks_first(step: Any, program: Program) -> bool:
    return isinstance(step, Launch) and checks_places_first(program.kernels[step.kernel])


def _may_raise(step: Any, program: Program) -> bool:
    """Whether a step can end in an error: a kernel that checks an index, and most of what is called outside.

    On a GPU a kernel's error comes at any later time, and ends the process's use of the device. A library that refuses
    raises DeviceError, after which nobody begins again.
    """
    if program.device != CPU and (isinstance(step, Launch) or getattr(step, "target", "") in LIBRARY):
        return False
    if isinstance(step, Launch):
        return any(i.op == "indirect_index" for n in program.kernels[step.kernel].nests for i in n.body)
    if isinstance(step, Collective | Await):  # the ranks cannot go on after that, and nobody begins again
        return False
    return not (isinstance(step, Allocate | Free | Return) or can_run(step, program))


def may_write_over(kernel: Kernel, buffers: tuple[str, ...], out: str, into: str) -> bool:
    """Whether a kernel launched on `buffers` reads each element of `into` at the place, and before, it writes `out`."""
    rows = [row for row in kernel.by_rows(buffers) if out in row or into in row]
    if any(out not in row for row in rows):
        return False  # another row of the table reads it, before or after
    (row,) = rows
    params = dict(zip(row, kernel.params, strict=True))
    if len(params) != len(row):
        return False
    return kernel.may_write_over(params[out], params.get(into, ""))
