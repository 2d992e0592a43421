"""What puts the user's own Python on the tape, autograd.Function and hooks: a break that says so.

Input: abstract tensors. Such a call runs eagerly between two graphs, so its backward or hook runs in their backward as
it does in eager's, and its globals and closures need no guards.
"""

from __future__ import annotations

from stage0_eager.autograd import Function
from stage0_eager.tensor import Tensor
from stage1_capture.capture.builtin_functions import builtin
from stage1_capture.capture.symbolic_convert import InstructionTranslator
from stage1_capture.capture.variables import Variable, describe, realize

Tx = InstructionTranslator
HINT = "the code before and after it is compiled; to have one graph, write it in operators"


@builtin(Function.apply.__func__)  # type: ignore[attr-defined]
def function_apply(tx: Tx, cls: Variable, *args: Variable) -> Variable:
    tx.unsupported(
        "GB0002", f"{describe(realize(cls))}.apply: an autograd.Function with a backward of its own", HINT
    )


@builtin(Tensor.register_hook)
def register_hook(tx: Tx, tensor: Variable, hook: Variable) -> Variable:
    tx.unsupported("GB0002", "register_hook: a function of yours that runs in the backward", HINT)


@builtin(Tensor.register_post_accumulate_grad_hook)
def register_post_accumulate_grad_hook(tx: Tx, tensor: Variable, hook: Variable) -> Variable:
    tx.unsupported(
        "GB0002", "register_post_accumulate_grad_hook: a function of yours that runs in the backward", HINT
    )
