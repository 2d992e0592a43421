"""The pass `sort_first`: on a CPU, a sort of which only the first elements of each row are read finds no others.

Input: a Program with calls of `sort`, whose readers are kernels. top-k and k-th values are sorts of which something is
read. The call then sorts what it selected, instead of whole rows. On a GPU see sort_rows.py.
"""

from __future__ import annotations

from dataclasses import replace

from stage3_lowering.lowering.sorted_prefix import narrowed
from stage3_lowering.lowering.step_uses import step_uses
from stage_contracts.core_metas import wrap_dim
from stage_contracts.device import CPU
from stage_contracts.program import Buffer, External, Program, Target
from stage_contracts.size_vars import is_open
from stage_contracts.tensor_meta import contiguous_strides

FIRST_OF_SORTED = "sort_first"  # the call: of `sort`'s arguments and the number of elements
WORTH = 4  # times as many elements in a row


def sort_first(program: Program, target: Target) -> Program:
    """The program, each sort of which little is read a call that gives no more."""
    if target.name != "cpp" or program.device != CPU:
        return program
    for number, step in enumerate(program.steps):
        if isinstance(step, External) and step.target == "sort" and len(step.args) == 4:
            program = _narrowed(program, number, step)
    return program


def _narrowed(program: Program, number: int, step: External) -> Program:
    uses, metas = step_uses(program), [program.buffers[name].meta for name in step.outputs]
    meta = metas[0]
    laid_out = not any(map(is_open, meta.shape)) and all(m.is_contiguous for m in metas)
    if not (laid_out and meta.ndim and meta.numel):
        return program
    dim, made, kept = wrap_dim(step.args[1], meta.ndim), program, set[int]()
    for name in (name for name in step.outputs if uses.users[name] != {number}):
        made = narrowed(made, name, number, dim)
        kept.add(made.buffers[name].meta.shape[dim])
    if len(kept) != 1 or WORTH * min(kept) > meta.shape[dim]:
        return program
    shape = (*meta.shape[:dim], *kept, *meta.shape[dim + 1 :])
    less = dict[str, Buffer]()
    for name in step.outputs:
        buffer = made.buffers[name]
        meta = buffer.meta.with_(shape=shape, strides=contiguous_strides(shape))
        less[name] = replace(buffer, meta=meta)
    call = replace(step, target=FIRST_OF_SORTED, args=(*step.args, *kept))
    steps = (*made.steps[:number], call, *made.steps[number + 1 :])
    return made.with_(steps=steps, buffers={**made.buffers, **less})
