"""Triton for a row's largest element and the sum of exponentials below it in one pass, for rows that are read in parts.

Input: two nests of a kernel, one after the other: the largest x of each row, and the sum of exp(x - largest). Each lane
keeps the largest x that it has met, and a sum relative to it, which is scaled down when a larger one comes (Milakov and
Gimelshein, 2018). A row of 32,000 is read once, not twice.
"""

from __future__ import annotations

from stage3_lowering.lowering.terms import Term, stored_terms, walk
from stage3_lowering.lowering.triton_loops import INDENT, row_points
from stage3_lowering.lowering.triton_statements import Statements
from stage_contracts import config
from stage_contracts import dtype as dt
from stage_contracts.index_expr import print_index
from stage_contracts.loop_ir import Instr, LoopNest, Value
from stage_contracts.loop_text import with_comments
from stage_contracts.size_vars import is_open

LOG2_E, LOWEST = 1.4426950408889634, "float('-inf')"

FINITE = "-3.4028234663852886e+38"  # the lowest finite number
STAGES = 3  # parts of a row that are on their way at once


def in_one_pass(first: LoopNest, second: LoopNest) -> bool:
    """Whether the two nests are these, and nothing else of their rows is stored."""
    largest, total = _reduction(first, "amax"), _reduction(second, "sum")
    if largest is None or total is None or first.reduction_ranges != second.reduction_ranges:
        return False
    if (
        any(map(is_open, first.reduction_ranges))
        or len(first.reduction_ranges) != 1
        or not _ends_apart(second)
    ):
        return False
    return any(_is_sum_below(part) for term in stored_terms((first, second)).values() for part in walk(term))


def _reduction(nest: LoopNest, kind: str) -> Instr | None:
    """The one reduction of a nest that only loads and computes in its rows."""
    inner = nest.body[: nest.split]
    found = [i for i in inner if i.op == "reduction"]
    if len(found) != 1 or found[0].args[0] != kind or found[0].dtype is not dt.float32:
        return None
    bound = ("store", "scan", "indirect_index", "random_bits")
    return None if any(i.op in bound for i in inner) else found[0]


def _ends_apart(nest: LoopNest) -> bool:
    """Whether what follows the reduction reads nothing else of the rows."""
    inside = {i.name for i in nest.body[: nest.split] if i.op != "reduction"}
    return not any(str(a) in inside for i in nest.body[nest.split :] for a in i.args if isinstance(a, Value))


def _is_sum_below(term: Term) -> bool:
    """sum(exp(x - amax(x)))"""
    if term.op != "reduction" or term.args[0] != "sum" or term.args[1].op != "exp":
        return False
    below = term.args[1].args[0]
    if below.op != "sub" or len(below.operands) != 2:
        return False
    x, top = below.operands
    return bool(top.op == "reduction" and top.args[0] == "amax" and top.args[1] is x)


def online_section(first: LoopNest, second: LoopNest, writer: Statements) -> list[str]:
    """Both nests, in one pass over the rows."""
    largest, total = _reduction(first, "amax"), _reduction(second, "sum")
    assert largest is not None and total is not None
    top, below = largest.name, total.name
    before = [*writer.begin(first, loop=True), f"{below}_acc = tl.full([XBLOCK, RBLOCK], 0, tl.float32)"]
    inside = _written(writer, first, first.body[: first.split], inner=True, without=largest)
    writer.write(largest, inner=True)  # what it says of its result; the lines are these
    inside += [
        f"{top}_now = {writer.masked(largest.args[1], LOWEST)}",
        f"{top}_next = {_larger(f'{top}_acc', f'{top}_now')}",
        f"{top}_from = {_larger(f'{top}_next', FINITE)}  # of a lane that has met nothing",
        f"{below}_acc = {below}_acc * tl.exp2(({top}_acc - {top}_from) * {LOG2_E})"
        f" + tl.exp2(({top}_now - {top}_from) * {LOG2_E})",
        f"{top}_acc = {top}_next",
    ]
    here = row_points(writer, "roffset + tl.arange(0, RBLOCK)[None, :]", first.reduction_ranges)
    head = (
        f"for roffset in tl.range(0, {print_index(first.reduction_ranges[0])}, RBLOCK, num_stages={STAGES}):"
    )
    ends = [
        *writer.end(),
        f"{top}_from = {_larger(top, FINITE)}",
        f"{below} = tl.sum({below}_acc * tl.exp2(({top}_acc - {top}_from) * {LOG2_E}), 1)[:, None]",
        f"{below} = tl.where({top} == {LOWEST}, float('nan'), {below})",
    ]
    after = _written(writer, first, first.body[first.split :], inner=False)
    writer.begin(second, loop=False)
    writer.known(total, "x")
    after += _written(writer, second, second.body[second.split :], inner=False)
    return [*before, head, *(INDENT + line for line in here + inside), *ends, *after]


def _larger(a: str, b: str) -> str:
    """One instruction; NaN if either is NaN."""
    return f"tl.maximum({a}, {b}, propagate_nan=tl.PropagateNan.ALL)"


def _written(
    writer: Statements, nest: LoopNest, part: tuple[Instr, ...], inner: bool, without: Instr | None = None
) -> list[str]:
    """The lines of a part of a nest, with the user's lines above them."""
    shown, wanted = config.current().lowering.comments, {id(i) for i in part}
    lines: list[str] = []
    for comments, instr in with_comments(nest, header=False):
        if id(instr) in wanted and instr is not without:
            lines += (comments if shown else []) + writer.write(instr, inner=inner)
    return lines
