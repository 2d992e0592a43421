"""Triton for terms: the statements that compute them, where a template has the row and the column as variables.

Input: terms of a kernel's nests, and the text of what the template computes itself, such as the scores. It writes what
does not depend on the column apart, so that it can stand before a loop over columns. Elementary functions are the fast
ones: they are off by a few ulp of float32, and the result is rounded to half precision.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from stage3_lowering.lowering.terms import Term, walk
from stage3_lowering.lowering.triton_ops import EXCEPTIONS, TRITON_OPS, TRITON_TYPES
from stage_contracts import dtype as dt
from stage_contracts.index_expr import print_index

# of exp, Triton's own keeps denormal results, for three more instructions out of seven
LOG2_E = 1.4426950408889634
FAST = {
    "exp": f"tl.exp2({{0}} * {LOG2_E})",
    "div": "{0} / {1}",
    "sqrt": "tl.sqrt({0})",
    "exp2": "tl.exp2({0})",
}
_SMALL = 1 << 30
EXACT = 1 << 23  # the sum of two such is a float32


class TermWriter:
    """`write(term)` gives the lines that are still missing; `text[term]` is then its name, or a number."""

    def __init__(
        self,
        given: Mapping[Term, str],
        moving: Collection[str],
        rows: str = "",
        columns: str = "",
        fixed: Collection[str] = (),
        largest: int = EXACT + 1,
    ) -> None:
        """`moving`: the symbols that change inside the loop, the column's; `fixed`: those of the rows. `rows`,
        `columns`: masks for loads that vary with each, "" for none. `largest`: the number of any row or column."""
        self.largest = largest
        self.text: dict[Term, str] = dict(given)
        self.given = set(given)
        self.moving, self.fixed, self.masks = set(moving), set(fixed), (rows, columns)

    def inside(self, term: Term) -> bool:
        """Whether it depends on the column, or on what is given."""
        return any(part in self.given or self.moving & _symbols(part) for part in walk(term))

    def before(self, terms: list[Term]) -> list[str]:
        """The lines of all parts of these terms that do not depend on the column."""
        return [
            line
            for term in terms
            for part in walk(term)
            if not self.inside(part)
            for line in self.write(part)
        ]

    def loads_of_moving(self, term: Term) -> list[str]:
        """The lines of what it loads that the column decides alone, one number for each."""
        loads = [p for p in walk(term) if p.op == "load" and p not in self.given and not p.operands]
        alone = (p for p in loads if self.moving & _symbols(p) and not self.fixed & _symbols(p))
        return [line for part in alone for line in self.write(part)]

    def copy(self) -> TermWriter:
        """A writer that knows what this one has written: for a loop that comes after."""
        other = TermWriter(self.text, self.moving, *self.masks, self.fixed, self.largest)
        other.given = self.given
        return other

    def write(self, term: Term) -> list[str]:
        lines: list[str] = []
        for part in walk(term):
            if part not in self.text:
                lines += self._line(part)
        return lines

    def _line(self, part: Term) -> list[str]:
        if part.op == "constant":
            self.text[part] = number(part.number)
            return []
        self.text[part] = part.name
        if part.op == "index_expr" and len(_symbols(part)) == 1 and part.args[0].is_Symbol:
            self.text[part] = print_index(part.args[0])
            return []
        return [f"{part.name} = {self._expression(part)}"]

    def _expression(self, part: Term) -> str:
        special = getattr(self, f"_{part.op}", None)
        if special is not None:
            return special(part)
        of = part.operands[-1].dtype
        assert of is not None
        if part.op == "div" and of.is_floating_point and not self.given & set(walk(part.args[1])):
            return self._by_a_row(part)
        template = FAST.get(part.op) or EXCEPTIONS.get(of.name, {}).get(part.op)
        template = template or TRITON_OPS[of.category][part.op]
        widens = part.dtype is dt.int64 and not is_small(part)
        words = [
            f"{self.text[a]}.to(tl.int64)" if widens and is_small(a) and a.op != "constant" else self.text[a]
            for a in part.operands
        ]
        bits = 1 if of is dt.bool_ else 8 * of.itemsize
        return template.format(*words, T=TRITON_TYPES[of.name], bits=bits)

    def _by_a_row(self, part: Term) -> str:
        """A division by what each row has: one for a row. A sum that is known before the loop is part of a weight's
        power, and no product is left."""
        above, below = (part.operands * 2)[:2]
        if above.op == "exp" and not self.inside(below):
            return self._exp(above, f" + tl.log2({self.text[below]})")
        if below.op == "constant" and below.number:
            return f"{self.text[above]} * {number(1.0 / below.number)}"
        return f"{self.text[above]} * libdevice.fast_dividef(1.0, {self.text[below]})"

    def _exp(self, part: Term, less: str = "") -> str:
        """exp(y * c - b) as one multiplication with an addition and one power of two, as the forward has it. `less`:
        what else the power is less, as "+ ..."."""
        (x,) = part.args
        if x.op != "sub" or len(x.operands) != 2:
            return f"tl.exp2({self.text[x]} * {LOG2_E}{less.replace('+', '-')})"
        above, below = x.operands
        y, scale = above, LOG2_E
        for one, other in (above.operands, above.operands[::-1]) if above.op == "mul" else ():
            if isinstance(one.number, float) and other.dtype is dt.float32 and other in self.text:
                y, scale = other, one.number * LOG2_E
        row = f"({self.text[below]} * {LOG2_E}{less})" if less else f"{self.text[below]} * {LOG2_E}"
        return f"tl.exp2({self.text[y]} * {number(scale)} - {row})"

    def _load(self, part: Term) -> str:
        names = _symbols(part)
        used = (names & self.fixed, names & self.moving)
        masks = [mask for mask, varies in zip(self.masks, used, strict=True) if mask and varies]
        mask = f", {' & '.join(masks)}, 0" if masks else ""
        return f"tl.load({part.args[0]}_ptr + {print_index(part.args[1])}{mask})"

    def _index_expr(self, part: Term) -> str:
        return print_index(part.args[0])

    def _cast(self, part: Term) -> str:
        source, dtype = self.text[part.args[0]], part.args[1]
        if dtype is dt.float32 and (apart := self._difference(part.args[0])):
            return apart
        return f"{source} != 0" if dtype is dt.bool_ else f"{source}.to({TRITON_TYPES[dtype.name]})"

    def _difference(self, term: Term) -> str:
        """A sum or difference of a row's and a column's number in float32, "" for anything else: exact, and each number
        is converted once, not once for each of their pairs."""
        if term.op not in ("add", "sub") or len(term.operands) != 2 or self.largest > EXACT:
            return ""
        sides = [a.args[0] if a.op == "index_expr" else None for a in term.operands]
        if not all(getattr(place, "is_Symbol", False) for place in sides) or sides[0] == sides[1]:
            return ""
        left, right = (f"{self.text[a]}.to(tl.float32)" for a in term.operands)
        return f"({left} {'+' if term.op == 'add' else '-'} {right})"


def is_small(term: Term) -> bool:
    """Whether it is an int64 that 32 bits hold: a place, a small number, or the sum or difference of such."""
    if term.dtype is not dt.int64:
        return False
    if term.op == "constant":
        return abs(term.number) < _SMALL
    return term.op == "index_expr" or (term.op in ("add", "sub") and all(map(is_small, term.operands)))


def _symbols(part: Term) -> set[str]:
    return {s.name for a in part.args for s in getattr(a, "free_symbols", ())}


def number(value: Any) -> str:
    """A constant as Triton reads it."""
    text = f"float('{value}')" if isinstance(value, float) and value - value != 0 else repr(value)
    return f"({text})" if text.startswith("-") else text
