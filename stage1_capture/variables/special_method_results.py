"""What a special method may return: a bool, a length, an int, an iterator. Python's own function checks it.

Input: what a user-defined method gave (`__bool__`, `__len__`, `__hash__`), and the object it was asked of. What Python
refuses the program raises, with Python's words; what it converts (a hash that is too large) is converted.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stage1_capture.state.machine import Tx, attempt
from stage1_capture.variables.base import Variable, from_constant, realize
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.number import open_compare

if TYPE_CHECKING:
    from stage1_capture.variables.user_object import UserDefinedObjectVariable

# The method, and the function of Python's that asks it.
CHECKED: dict[str, Callable[[Any], Any]] = {
    "__bool__": bool,
    "__len__": len,
    "__index__": operator.index,
    "__int__": int,
    "__float__": float,
    "__complex__": complex,
    "__bytes__": bytes,
    "__hash__": hash,
}
_STAYS_OPEN = {"__len__": int, "__index__": int, "__int__": int, "__float__": float}


def checked_result(tx: Tx, owner: UserDefinedObjectVariable, name: str, answer: Variable) -> Variable:
    """The answer as Python hands it on. One that is not known now (a tensor, an object) is a break."""
    answer = realize(answer)
    if answer.is_open() and type(answer.hint) is _STAYS_OPEN.get(name):
        zero = ConstantVariable(0)
        below: Any = name == "__len__" and open_compare("<", operator.lt, answer, zero)
        if not (below and below.value):
            return answer
    if (
        answer.is_tensor() and name != "__len__"
    ):  # which asks the tensor for an int; the others refuse its class
        value: Any = type(answer.python_type(tx).__name__, (), {})()
    elif not answer.is_python_constant():
        code = "GB0004" if answer.is_tensor() else "GB0045"
        tx.unsupported(code, f"{answer.describe()} as what {name} answers")
    else:
        value = answer.value
    if type(value) is bool and name in ("__index__", "__int__"):
        tx.unsupported("GB0045", f"{value} as what {name} answers, of which Python warns")
    stand_in = type(type(owner.real).__name__, (), {name: lambda _: value})()
    return attempt(tx, name, lambda: from_constant(CHECKED[name](stand_in)), exact=True)
