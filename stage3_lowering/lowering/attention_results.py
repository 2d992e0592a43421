"""The pass `attention_results`: what a kernel only places or scales of attention's results, attention writes itself.

Input: a Program after the passes `attention` and `attention_backward`. A model turns the result before the next
product reads it, and joins the gradients of queries, keys and values to one tensor. A kernel that does this would read
and write again what the one before it has in registers.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sympy

from stage3_lowering.lowering.attention import TEMPLATE
from stage3_lowering.lowering.attention_backward import BY_COLUMNS, BY_ROWS
from stage3_lowering.lowering.step_uses import StepUses, step_uses
from stage3_lowering.lowering.terms import Term, constant, rebuilt, stored_terms, walk
from stage_contracts import dtype as dt
from stage_contracts.kernel_tables import row_kernel
from stage_contracts.loop_ir import Instr, LoopNest, Value
from stage_contracts.program import Kernel, Launch, Program, Target

TEMPLATES = (TEMPLATE, BY_ROWS, BY_COLUMNS)
MOST_PARTS = 8  # of a tensor that results are joined to

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")
}


@dataclass(frozen=True)
class Part:
    """What is placed: `scale` times the element at `source` of `buffer` goes to `place` of `into`, for all points of
    these loops."""

    buffer: str
    source: Any
    scale: float
    into: str
    place: Any
    sizes: Mapping[Any, Any]


def attention_results(program: Program, target: Target) -> Program:
    """The program without kernels that only place what attention computes."""
    if target.name != "triton":
        return program
    makers = _makers(program)
    uses = step_uses(program) if makers else None
    for number, step in enumerate(program.steps):
        if uses is not None and isinstance(step, Launch) and {*uses.reads(number)} <= {*makers}:
            program = _without(program, number, makers, uses)
    return program.with_(steps=tuple(s for s in program.steps if s is not None))


def _makers(program: Program) -> dict[str, int]:
    """The steps of templates, by the buffers that they write as the results of products."""
    found: dict[str, int] = {}
    for number, step in enumerate(program.steps):
        kernel = program.kernels[step.kernel] if isinstance(step, Launch) else None
        if kernel is not None and kernel.template in TEMPLATES and step.buffers == kernel.params:
            found |= {
                _stored(n): number for n in kernel.nests if _is_product(n) and _stored(n) in kernel.params
            }
    return found


def _without(program: Program, number: int, makers: Mapping[str, int], uses: StepUses) -> Program:
    """The program, with None in the place of this step if it only places attention's results."""
    step = program.steps[number]
    parts = _parts_of_step(program.kernels[step.kernel], step) if uses.reads(number) else []
    alone = all(uses.users[part.buffer] == {number, makers[part.buffer]} for part in parts)
    return _moved(program, number, parts, makers) if parts and alone else program


def _is_product(nest: LoopNest) -> bool:
    return nest.body[0].op == "load" and len(nest.reduction_ranges) == 1 and nest.body[-1].op == "store"


def _stored(nest: LoopNest) -> str:
    return str(nest.body[-1].args[0])


# ---- what a kernel places -----------------------------------------------------------------------------------


def _parts_of_step(kernel: Kernel, step: Launch) -> list[Part]:
    """The results that a launch places, if it does nothing else; of a table, those of all rows."""
    found: list[Part] = []
    for row, names in enumerate(kernel.bindings(step.buffers)):
        parts = parts_of(row_kernel(kernel, row))
        if not parts:
            return []
        found += [replace(p, buffer=names[p.buffer], into=names[p.into]) for p in parts]
    return found if len(found) == len({p.buffer for p in found}) else []


def parts_of(kernel: Kernel) -> list[Part]:
    """The results that a kernel places, if it does nothing else: all of one tensor, or one for each value of a loop."""
    nest = kernel.nests[0]
    if not _is_plain(kernel):
        return []
    stores = stored_terms([nest], keep_roundings=False)
    if len(stores) != 1 or len(nest.writes) != 1:
        return []
    (into, at), term = next(iter(stores.items()))
    if any(part.op == "indirect_index" for part in walk(term)):
        return []
    joined = _joined_along(nest, term)
    values: list[dict[Any, int]] = [{joined[0]: k} for k in range(joined[1])] if joined else [{}]
    sizes = dict(zip(nest.loop_variables, nest.ranges, strict=True))
    found = [_part(_at(term, given), into, _with(at, given), given, sizes) for given in values]
    parts = [part for part in found if part is not None]
    return parts if len(parts) == len(found) == len({p.buffer for p in parts}) else []


def _is_plain(kernel: Kernel) -> bool:
    whole = not (kernel.template or kernel.rows or kernel.sizes)
    return whole and len(kernel.nests) == 1 and not kernel.nests[0].reduction_ranges


def _joined_along(nest: LoopNest, term: Term) -> tuple[Any, int] | None:
    """The loop whose variable decides which result is meant, and its length; None: there is no choice."""
    chosen = {s for part in walk(term) if part.op == "index_expr" for s in part.args[0].free_symbols}
    sizes = dict(zip(nest.loop_variables, nest.ranges, strict=True))
    if len(chosen) != 1:
        return None
    variable = next(iter(chosen))
    size = sizes.get(variable)
    return (variable, size) if isinstance(size, int) and size <= MOST_PARTS else None


def _part(
    term: Term, into: str, place: Any, values: Mapping[Any, int], sizes: Mapping[Any, Any]
) -> Part | None:
    """What is stored where the loops have these values, if it is a load, scaled."""
    scale = 1.0
    while term.op in ("cast", "mul"):
        if term.op == "cast":
            if term.dtype is None or not term.dtype.is_floating_point:
                return None
            term = term.args[0]
            continue
        number = next((a.number for a in term.operands if isinstance(a.number, float)), None)
        others = [a for a in term.operands if a.number is None]
        if number is None or len(others) != 1:
            return None
        term, scale = others[0], scale * number
    if term.op != "load" or not all(a.number is True for a in term.operands):
        return None
    loops = {name: size for name, size in sizes.items() if name not in values and size != 1}
    return Part(str(term.args[0]), _with(term.args[1], values), scale, into, place, loops)


def _with(index: Any, values: Mapping[Any, int]) -> Any:
    return sympy.expand(sympy.sympify(index).xreplace({k: sympy.Integer(v) for k, v in values.items()}))


def _at(term: Term, values: Mapping[Any, int]) -> Term:
    """The term where loops have these values: comparisons of places are decided."""

    def changed(part: Term, args: tuple[Any, ...]) -> Term:
        if part.op == "index_expr" and (place := _with(args[0], values)).is_Integer:
            return constant(int(place), part)
        made = _decided(part.op, args)
        if made is not None:
            return made if isinstance(made, Term) else constant(made, part)
        return part if args == part.args else Term(part.op, args, part.dtype, part.name, part.origins)

    return rebuilt(term, changed)


def _decided(op: str, args: tuple[Any, ...]) -> Any:
    numbers = [a.number if isinstance(a, Term) else None for a in args]
    match op, numbers:
        case _, [int(left), int(right)] if op in _COMPARISONS:
            return bool(_COMPARISONS[op](left, right))
        case "logical_and", [bool(left), bool(right)]:
            return left and right
        case "where", [bool(holds), *_]:
            return args[1] if holds else args[2]
        case "add", [left, right] if 0.0 in (left, right):
            return args[1] if left == 0.0 else args[0]
    return None


# ---- the kernels that write it ------------------------------------------------------------------------------


def _moved(program: Program, number: int, parts: list[Part], makers: Mapping[str, int]) -> Program:
    kernels, steps = dict(program.kernels), list(program.steps)
    for part in parts:
        at = makers[part.buffer]
        made = _writes_itself(kernels[steps[at].kernel], part)
        if made is None:
            return program
        kernels[made.name] = made
        steps[at] = replace(steps[at], buffers=made.params)
    gone = {steps[number].kernel, *(p.buffer for p in parts)}
    steps[number] = None
    used = {step.kernel for step in steps if isinstance(step, Launch)}
    return program.with_(
        kernels={n: k for n, k in kernels.items() if n in used},
        buffers={n: b for n, b in program.buffers.items() if n not in gone},
        steps=tuple(steps),
    )


def _writes_itself(kernel: Kernel, part: Part) -> Kernel | None:
    """The kernel with a result stored where the part goes; None if the places of the two do not fit."""
    nest = next(n for n in kernel.nests if _stored(n) == part.buffer)
    if part.scale != 1.0 and kernel.template == TEMPLATE:
        return None
    place = _in_other_loops(part, nest)
    if place is None:
        return None
    *body, store = nest.body
    value = store.args[2]
    if part.scale != 1.0:
        body, value = _scaled(body, value, part.scale)
    stored = replace(store, args=(part.into, place, value))
    params = tuple(dict.fromkeys(part.into if p == part.buffer else p for p in kernel.params))
    made = replace(nest, name=nest.name, body=(*body, stored))
    return replace(kernel, nests=tuple(made if n is nest else n for n in kernel.nests), params=params)


def _scaled(body: list[Instr], value: Value, scale: float) -> tuple[list[Instr], Value]:
    """The body with the sum multiplied before it is rounded."""
    at = next(k for k, instr in enumerate(body) if instr.op == "reduction")
    product = Value(body[at].name)
    added = (
        Instr(Value("scale"), "constant", (scale,), dt.float32),
        Instr(Value("scaled"), "mul", (product, Value("scale")), dt.float32),
    )
    after = [
        replace(i, args=tuple(Value("scaled") if a == product else a for a in i.args)) for i in body[at + 1 :]
    ]
    return [*body[: at + 1], *added, *after], value


def _in_other_loops(part: Part, nest: LoopNest) -> Any:
    """Where the nest's point goes: its loops are those of the kernel that placed it, by their step in the result."""
    at = nest.body[-1].args[1]
    if part.place == part.source and part.sizes == {part.place: math.prod(nest.ranges)}:
        return at  # it stays where it is
    ours, theirs = _steps(at), _steps(part.source)
    if ours is None or theirs is None or len({*theirs.values()}) != len(theirs) or {*theirs} != {*part.sizes}:
        return None
    by_step = {step: name for name, step in theirs.items()}
    sizes = dict(zip(nest.loop_variables, nest.ranges, strict=True))
    moved: dict[Any, Any] = {}
    for name, step in ours.items():
        if sizes[name] == 1:
            continue
        other = by_step.pop(step, None)
        if other is None or part.sizes[other] != sizes[name]:
            return None
        moved[other] = name
    if by_step or part.place.free_symbols - {*moved}:
        return None
    return sympy.expand(part.place.xreplace(moved))


def _steps(index: Any) -> dict[Any, Any] | None:
    """The step of each loop in an index that is a sum of them; None if it is anything else."""
    steps = {name: index.coeff(name) for name in index.free_symbols}
    whole = sympy.expand(index - sum(step * name for name, step in steps.items())) == 0
    return steps if whole and all(step.is_Integer for step in steps.values()) else None
