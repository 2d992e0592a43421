"""In-place functions: each computes its value and writes it with copy_, the one operator that mutates.

Input: a tensor to write to, then the arguments of the function without the underscore.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stage0_eager import views
from stage0_eager.core import core as c
from stage0_eager.functions import activations, pointwise
from stage0_eager.operator import Operator, operator, register
from stage0_eager.state import STATE
from stage0_eager.tensor import is_traced

if TYPE_CHECKING:  # the rows that a loop below makes

    def __getattr__(name: str) -> Any: ...


# name_ does what name does, into its first operand
IN_PLACE = (
    "add sub mul div pow clamp neg abs exp log sqrt rsqrt reciprocal sin cos tanh sigmoid relu floor ceil round trunc "
    "lerp addcmul addcdiv masked_fill maximum minimum floor_divide remainder erf"
).split()


def write(input: Any, value: Any) -> Any:
    """Write `value` into input's storage, on the tape where that is needed."""
    if STATE.grad_enabled and not is_traced(input):
        if input.requires_grad and input.is_leaf:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        if input._view is not None and (value.requires_grad or views.root(input).requires_grad):
            return views.write_through(input, value)
    return c.copy_(input, value)


def write_computed(input: Any, value: Any) -> Any:
    """As write, for a value computed from input: it must have input's shape and a dtype no higher in category."""
    if value.shape != input.shape:
        raise RuntimeError(
            f"output with shape {list(input.shape)} doesn't match the broadcast shape {list(value.shape)}"
        )
    if value.dtype.category > input.dtype.category:
        raise RuntimeError(
            f"result type {value.dtype.name} can't be cast to the desired output type {input.dtype.name}"
        )
    return write(input, value)


@operator
def copy_(input, src):
    """Write src, broadcast and cast, into input."""
    return write(input, src)


@operator
def zero_(input):
    """Set every element to 0."""
    return write(input, c.full((), 0, input.dtype, input.device))


@operator
def fill_(input, value):
    """Set every element to value."""
    return write(input, c.full((), value, input.dtype, input.device))


def _in_place(name: str) -> Operator:
    function = getattr(pointwise, name, None) or getattr(activations, name)
    import inspect

    signature = inspect.signature(function.body)
    words, call = [], []
    starred = False
    for key, p in signature.parameters.items():
        if p.kind is p.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        words.append(key if p.default is p.empty else f"{key}={p.default!r}")
        call.append(f"{key}={key}")
    namespace: dict[str, Any] = {"function": function, "write": write_computed}
    exec(
        f"def {name}_({', '.join(words)}):\n    return write(input, function({', '.join(call)}))\n",
        namespace,
    )
    body = namespace[f"{name}_"]
    body.__doc__ = f"{name}, written into input."
    return register(Operator(f"{name}_", "", body=body, mutates=("input",)))


globals().update({f"{name}_": _in_place(name) for name in IN_PLACE})
for _op in (copy_, zero_, fill_):
    _op.mutates = ("input",)
