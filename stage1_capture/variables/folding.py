"""Folding: a pure function of constants is computed while the program is captured, by Python itself.

Input: a function of FOLDED, or a method of a constant, and abstract arguments that are known now. An open number stays
open where the conversion allows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage1_capture.state.machine import Args, Kwargs, Raised, Tx, attempt
from stage1_capture.variables.base import Variable, from_constant, realize
from stage1_capture.variables.number import open_conversion
from stage1_capture.variables.unbacked import converted
from stage_contracts.breaks import Unsupported


def fold(tx: Tx, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Variable:
    """Compute a pure function of constants now. What it raises, the program raises."""
    name = getattr(function, "__name__", "a function")
    still_open = open_conversion(function, [realize(a) for a in args]) if not kwargs else None
    if still_open is None and len(args) == 1 and not kwargs:
        still_open = converted(tx, function, realize(args[0]))
    if still_open is not None:
        return still_open
    values = [tx.constant(a, name) for a in args]
    options = {k: tx.constant(v, name) for k, v in kwargs.items()}

    def compute() -> Variable:
        try:
            return from_constant(function(*values, **options))
        except (Raised, Unsupported):
            raise
        except Exception as error:
            if type(error).__module__ == "builtins":  # attempt() knows it
                raise
            # its class may have a say in how it is made
            tx.unsupported("GB0066", f"{name} raises {type(error).__name__}: {error}")

    return attempt(tx, name, compute, exact=True)
