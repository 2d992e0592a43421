"""What each row of attention has, for its gradients: the kernel over queries computes it, the one over keys loads it.

Input: the nests between the products of attention_backward.py. There a weight is exp(x - m) / s, with the largest score
m and the sum s of its row. By keys, the rows move past, and their logarithms and divisions would be computed again for
each block of keys. So a weight becomes exp2(x * log2(e) - r), and r = m * log2(e) + log2(s) a value of the row, as in
FlashAttention-2 (Dao, 2023). What else only the row decides, such as the sum of its gradients, is a value of it too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stage3_lowering.lowering.attention import places
from stage3_lowering.lowering.attention_delta import COLUMN, delta_of
from stage3_lowering.lowering.terms import Term, rebuilt, stored_terms, walk
from stage3_lowering.lowering.triton_attention import LOG2_E, pulled
from stage_contracts import dtype as dt
from stage_contracts.loop_ir import Instr, LoopNest, Value
from stage_contracts.program import Buffer
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides


@dataclass(frozen=True)
class RowValues:
    """The nests between the products, for each kernel, and those of the values; the values' buffers."""

    by_rows: tuple[LoopNest, ...]
    by_columns: tuple[LoopNest, ...]
    values: tuple[LoopNest, ...]
    buffers: Mapping[str, Buffer]
    corrected: bool = False  # whether a delta and a factor are among the values


def row_values_of(
    nests: Sequence[LoopNest], columns: int, taken: Collection[str], device: Any, sums: Collection[str]
) -> RowValues:
    """The nests with each row's values apart. Where there are none, the nests as they are. `sums`: those of which
    one may be a delta; then that and a factor of the weights are values, too, that the kernel over queries makes as
    attention_delta.py says."""
    stores = stored_terms(nests, keep_roundings=False)
    made: dict[int, Term] = {}
    weights = {key: rebuilt(term, _weight, made) for key, term in stores.items()}
    delta = delta_of(weights.values(), sums)
    factor = Term("constant", (1.0,), dt.float32, "factor")
    corrected = [delta.load, factor] if delta else []
    found = list(dict.fromkeys([*(t for term in weights.values() for t in _of_rows(term)), *corrected]))
    if not found:
        return RowValues((*nests,), (*nests,), (), {})
    ranges = nests[0].ranges
    meta = TensorMeta(ranges, dt.float32, contiguous_strides(ranges), device)
    names = [n for n in (f"row_value_{k}" for k in range(len(found) + len(taken))) if n not in taken]
    _, place = places(nests[0], columns)
    loads: dict[int, Term] = {
        id(term): Term("load", (name, place), dt.float32, f"{name}_val", term.origins)
        for name, term in zip(names, found, strict=False)
    }

    def scaled(part: Term, args: tuple[Any, ...]) -> Term:
        one = _same(part, args)
        if delta is None or part is not delta.weights:
            return one
        return Term("mul", (one, loads[id(factor)]), dt.float32, f"{part.name}_sure", part.origins)

    known = dict(loads)
    moved = {key: rebuilt(term, scaled, known) for key, term in weights.items()}
    values = tuple(
        LoopNest(name, ranges, (), _body({(name, place): term}), nests[0].origins)
        for name, term in zip(names, found, strict=False)
    )
    return RowValues(
        (_nest(nests, weights),),
        (_nest(nests, moved),),
        values,
        {nest.name: Buffer(nest.name, meta, "temporary") for nest in values},
        delta is not None,
    )


def _nest(nests: Sequence[LoopNest], stores: Mapping[tuple[str, Any], Term]) -> LoopNest:
    origins = tuple(dict.fromkeys(o for nest in nests for o in nest.origins))
    return replace(nests[-1], body=_body(stores), origins=origins)


def _body(stores: Mapping[tuple[str, Any], Term]) -> tuple[Instr, ...]:
    """The instructions that compute these terms, each once, under names of their own."""
    names: dict[int, Value] = {}
    body: list[Instr] = []
    for (buffer, place), term in stores.items():
        for part in walk(term):
            if id(part) not in names:
                name = part.name
                while name in names.values():
                    name += "_"
                names[id(part)] = Value(name)
                args = tuple(names[id(a)] if isinstance(a, Term) else a for a in part.args)
                body.append(Instr(names[id(part)], part.op, args, part.dtype, part.origins))
        body.append(Instr("", "store", (buffer, place, names[id(term)]), None, term.origins))
    return tuple(body)


def _same(part: Term, args: tuple[Any, ...]) -> Term:
    return part if args == part.args else Term(part.op, args, part.dtype, part.name, part.origins)


# ---- weights ----------------------------------------------------------------------------------------------------


def _weight(part: Term, args: tuple[Any, ...]) -> Term:
    """exp(x - m) / s with m and s of the row, as one power of two less a value of the row."""
    part = _same(part, args)
    if part.op != "div" or part.dtype is not dt.float32 or len(part.operands) != 2:
        return part
    power, total = part.operands
    if power.op != "exp" or power.args[0].op != "sub" or len(power.args[0].operands) != 2:
        return part
    x, top = power.args[0].operands
    if not (_is_of_row(top) and _is_of_row(total)) or {top.dtype, total.dtype, x.dtype} != {dt.float32}:
        return part
    inner, scale = pulled(x)

    def made(op: str, name: str, *operands: Any) -> Term:
        return Term(op, operands, dt.float32, name, part.origins)

    log2_e = made("constant", f"{part.name}_log2_e", LOG2_E)
    scaled = made("mul", f"{part.name}_scaled", inner, made("constant", f"{part.name}_scale", scale * LOG2_E))
    row = made("add", f"{part.name}_row",
               made("mul", f"{part.name}_top", top, log2_e), made("log2", f"{part.name}_log", total))  # fmt: skip
    return made("exp2", part.name, made("sub", f"{part.name}_power", scaled, row))


# ---- values of rows -----------------------------------------------------------------------------------------------


def _of_rows(term: Term) -> list[Term]:
    """The largest parts that only the row decides, and that are more than a float32 in memory."""
    if _is_of_row(term):
        plain = term.op == "load" or not any(part.op == "load" for part in walk(term))
        return [] if plain or term.dtype is not dt.float32 else [term]
    return [part for operand in term.operands for part in _of_rows(operand)]


def _is_of_row(term: Term) -> bool:
    """Whether it is the same for all columns."""
    return not any(COLUMN in getattr(a, "free_symbols", ()) for part in walk(term) for a in part.args)
