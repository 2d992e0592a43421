"""What a program switches while it runs: the grad mode, inference mode, autocast, the default device.

Input: stores to the library's thread state, as the context managers of stage 0 make them. Followed, not run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stage1_capture.state.machine import Tx

if TYPE_CHECKING:
    from stage1_capture.variables.base import Variable


def store_mode(tx: Tx, name: str, value: Variable) -> None:
    """`STATE.<name> = value` in the library's own context managers."""
    modes = tx.output.modes
    if name == "grad_enabled":
        tx.output.grad_enabled = bool(tx.constant(value, "the grad mode"))
    elif name not in modes:
        tx.unsupported("GB0092", f"a change of the state {name}")
    else:
        modes[name] = tx.constant(value, name)
        if tx.output.options.modes["inference"] and not modes["inference"]:
            tx.unsupported("GB0092", "the end of an inference mode from outside")
