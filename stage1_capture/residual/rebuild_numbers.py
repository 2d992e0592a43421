"""Numbers that only the data knew, in the residual code: computed of what the graph gave.

Input: an UnbackedIntVariable or UnbackedBoolVariable that lives on. Each of its symbols is read from the tensor that
shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stage1_capture.variables.unbacked import UnbackedBoolVariable, UnbackedIntVariable
from stage_contracts.size_text import python_text

if TYPE_CHECKING:
    from stage1_capture.residual.rebuild import Rebuilder


def unbacked_number(r: Rebuilder, value: UnbackedIntVariable) -> str:
    return _text(r, value.sym)


def unbacked_answer(r: Rebuilder, value: UnbackedBoolVariable) -> str:
    return _text(r, value.sym) if value.tensor is None else f"{r.expression(value.tensor)}.item()"


def _text(r: Rebuilder, sym: Any) -> str:
    sizes = sym.env

    def shown(symbol: Any) -> str:
        if symbol not in sizes.makers:
            return r.codegen.source(sizes.sources[symbol], early=True)
        tensor = sizes.makers[symbol]
        return f"{r.expression(tensor)}.{'shape[0]' if tensor.meta.shape else 'item()'}"

    return python_text(sym.expr, shown)
