"""Evaluating a call: each row of the table gets a function for its kind when it is made.

Input: a row (operator.py). `eager_call(op)` is what runs when no interpreter is in force: arrays out of the tensors,
the kernel, a tensor around the result, and a node on the tape. `_general` does all of it. The others do the same for
special cases, because the arithmetic of adding two small tensors takes half a microsecond, and the rest is this file.
The gains below are for one call on 4 floats (reports/eager-speed.txt compares with torch).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from stage0_eager.arrays import owner
from stage0_eager.autograd.tape import needs_tape, record
from stage0_eager.kernels.eager import (
    FLOATS,
    namespace_of_all,
    numpy_cat,
    numpy_pair,
    numpy_reduction,
    numpy_single,
    numpy_where,
    silently,
)
from stage0_eager.kernels.formulas import KERNELS, REDUCE
from stage0_eager.state import STATE
from stage0_eager.table.own_memory import OWN_MEMORY
from stage0_eager.tensor import Tensor, root, up_to_date
from stage_contracts.dtype import DTYPES


def eager_call(op: Any) -> Callable[..., Any]:
    """The function that evaluates calls of `op` and records them."""
    if op.core is None:
        if op.whole:
            return _composite(op)
        return _showing_its_own(op) if op.name in OWN_MEMORY else op.body
    if op.core.kind == "pointwise" and op.params == ("input",):
        return _single(op)
    if op.params == ("input", "other") and op.core.kind in ("pointwise", "contraction"):
        return _pair(op)
    if op.name == "where":
        return _where(op)
    if op.core.kind == "view":
        return _view(op)
    if op.core.kind in ("reduction", "scan") or op.name == "bitcast":
        return _first(op)
    if op.name == "cast":
        return _cast(op)
    return _list(op) if op.name == "cat" else _general(op)


def evaluate(op: Any, args: tuple) -> Any:
    """Run a core operator's kernel on the arrays of the tensors."""
    data = [
        a._data if isinstance(a, Tensor)
        else [t._data for t in a] if type(a) in (tuple, list) and a and isinstance(a[0], Tensor)
        else a
        for a in args
    ]  # fmt: skip
    array = op.kernel(np if type(data[0]) is np.ndarray else namespace_of_all(data), *data)
    if op.mutates:  # copy_: its first argument now has the result
        args[0]._bump_version()
        return args[0]
    if type(array) is tuple:
        return tuple(map(Tensor, array))
    out = Tensor(array)
    if op.shares and owner(array) is owner(data[0]):  # it is neither a clone nor a reshape that copied
        args[0]._share_version(out)
        if op.core.kind == "view":
            remember_view(out, op, args[0], args[1:])
    return out


def remember_view(out: Tensor, op: Any, source: Tensor, rest: tuple) -> None:
    """Store how a view was made, for writes through it. It has the version counter of its base, read when needed."""
    out._view = (op, source, rest)
    base = out._base = source if source._base is None else source._base
    if base._written:
        out._written = base._written
    if source._formerly:
        out._source_was = len(source._formerly)
    if source._made_silently or not STATE.grad_enabled:
        out._made_silently = True


def _showing_its_own(op: Any) -> Callable[..., Any]:
    """Evaluates a composite of OWN_MEMORY. For the user, its result is not a view made under no_grad."""
    body = op.body

    def call(*args: Any, **kwargs: Any) -> Any:
        out = body(*args, **kwargs)
        if not STATE.grad_enabled:
            _is_its_own(out, (args, *kwargs.values()))
        return out

    return call


def _is_its_own(out: Any, given: tuple) -> None:
    """What is a view of none of the tensors given is no view for the user."""
    for made in out if isinstance(out, tuple) else (out,):
        if isinstance(made, Tensor) and made._made_silently:
            whole = root(made)
            if not any(root(t) is whole for t in _tensors_in(given)):
                made._version = whole._version  # untracked, in inference mode
                made._made_silently, made._view, made._base = False, None, None


def _tensors_in(tree: Any) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for part in tree:
            yield from _tensors_in(part)


def _general(op: Any) -> Callable[..., Any]:
    """Evaluates any core operator."""
    bind, arity = op.bind, op.arity

    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != arity:
            args = bind(*args, **kwargs)
        recording = STATE.grad_enabled and needs_tape(op, args)
        out = evaluate(op, args)
        if recording:
            record(op, args, out)
        return out

    return call


def _single(op: Any) -> Callable[..., Any]:
    """Evaluates an elementwise operator of one operand."""
    kernel = numpy_single(op.name)

    def call(input: Any) -> Any:
        if not isinstance(input, Tensor):
            return general(input)  # raises the meta rule's error
        out = Tensor(kernel(input._data))
        if input._view is not None:
            up_to_date(input)
        if input._requires_grad and op.derivatives and STATE.grad_enabled:
            record(op, (input,), out)
        return out

    general = _general(op)
    return call


def _pair(op: Any) -> Callable[..., Any]:
    """Evaluates an operator of two operands, of which one may be a number: 1.3 µs less than _general."""
    kernel = numpy_pair(op.name) if op.core.kind == "pointwise" else _anywhere(op.kernel)

    def call(input: Any, other: Any) -> Any:
        x, y, recording = input, other, False
        if isinstance(input, Tensor):
            x = input._data
            if input._view is not None:
                up_to_date(input)
            recording = input._requires_grad
        if isinstance(other, Tensor):
            y = other._data
            if other._view is not None:
                up_to_date(other)
            recording = recording or other._requires_grad
        out = Tensor(kernel(x, y))
        if recording and op.derivatives and STATE.grad_enabled:
            record(op, (input, other), out)
        return out

    return call


def _where(op: Any) -> Callable[..., Any]:
    """Evaluates an operator of a condition and two operands, of which one may be a number."""

    def call(condition: Any, input: Any, other: Any) -> Any:
        args = (condition, input, other)
        out = Tensor(numpy_where(*[a._data if isinstance(a, Tensor) else a for a in args]))
        if STATE.grad_enabled and needs_tape(op, args):
            record(op, args, out)
        return out

    return call


def _anywhere(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Evaluates an operator whose kernel finds the array namespace itself."""
    return lambda x, *rest: kernel(np if type(x) is np.ndarray else namespace_of_all((x, *rest)), x, *rest)


def _first(op: Any) -> Callable[..., Any]:
    """Evaluates an operator of one tensor, then plain arguments."""
    bind, arity = op.bind, op.arity
    kernel = numpy_reduction(op.name) if op.name in REDUCE else _anywhere(op.kernel)

    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != arity:
            args = bind(*args, **kwargs)
        source = args[0]
        out = Tensor(kernel(source._data, *args[1:]))
        if source._view is not None:
            up_to_date(source)
        if source._requires_grad and op.derivatives and STATE.grad_enabled:
            record(op, args, out)
        return out

    return call


def _cast(op: Any) -> Callable[..., Any]:
    """Evaluates a conversion. Between two floating types it is NumPy's own: 1 µs less than _first."""
    whole = _first(op)

    def call(input: Any, dtype: Any) -> Any:
        x = input._data
        if type(x) is not np.ndarray or x.dtype.num not in _FLOATING or dtype.numpy.num not in _FLOATING:
            return whole(input, dtype)
        if not x.flags.c_contiguous or 1 in x.shape:  # its layout is the meta rule's
            return whole(input, dtype)
        out = Tensor(silently(x.astype, dtype.numpy))
        if input._view is not None:
            up_to_date(input)
        if input._requires_grad and STATE.grad_enabled:
            record(op, (input, dtype), out)
        return out

    return call


_FLOATING = {d.numpy.num for d in DTYPES.values() if d.is_floating_point}


def _list(op: Any) -> Callable[..., Any]:
    """Evaluates an operator of a list of tensors, then a dimension (cat): 2 µs less than _general."""

    def call(tensors: Any, dim: int) -> Tensor:
        out = Tensor(numpy_cat([t._data for t in tensors], dim))
        if STATE.grad_enabled and needs_tape(op, (tensors,)):
            record(op, (tensors, dim), out)
        return out

    return call


def _view(op: Any) -> Callable[..., Any]:
    """Evaluates a view operator. It skips the layer that explains errors: 0.4 µs less."""
    bind, arity, kernel = op.bind, op.arity, KERNELS[op.name]
    if op.name not in ("reshape", "permute", "expand", "slice"):
        kernel = op.kernel  # this one runs the meta rule first

    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != arity:
            args = bind(*args, **kwargs)
        source = args[0]
        data = source._data
        try:
            if type(data) is np.ndarray:
                array = kernel(np, data, *args[1:])
            else:
                array = op.kernel(namespace_of_all((data,)), data, *args[1:])
        except (ValueError, TypeError, IndexError):
            op.kernel(np, data, *args[1:])  # raises with the meta rule's message
            raise
        out = Tensor(array)
        base = array.base
        if (base is not None and (base is data or base is data.base)) or owner(array) is owner(data):
            remember_view(out, op, source, args[1:])
        if source._view is not None:
            up_to_date(source)
        if source._requires_grad and STATE.grad_enabled:
            record(op, args, out)
        return out

    return call


def quick_view(op: Any, array: Any, args: tuple, recorded: Any = None) -> Tensor:
    """The result of a composite that makes views, computed in one step. A caller that needs the steps runs the body.

    `recorded` is the row whose rule goes on the tape.
    """
    source = args[0]
    if 1 in array.shape:  # the strides of sizes of 1 depend on the steps
        return op.run(*args)
    out = Tensor(array)
    remember_view(out, op, source, args[1:])
    if source._view is not None:
        up_to_date(source)
    if source._requires_grad and STATE.grad_enabled:
        record(recorded, args, out)
    return out


def quick_step(op: Any, array: Any, args: tuple) -> Tensor:
    """The result of a composite, computed in one step. `op` is the row whose rules go on the tape."""
    out = Tensor(array)
    if STATE.grad_enabled and needs_tape(op, args):
        record(op, args, out)
    return out


def on_array(op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a composite with its own derivative one function of its first operand's array, which is row-major, of
    floats.

    `function(array, *rest)` gets the operator's arguments and does the steps of the body in the same order, so the bits
    are the same. There is one wrapper instead of one per step: softmax takes 12 µs less.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        args = op.bind(*args, **kwargs)
        source = args[0]
        x = source._data
        if (
            type(x) is not np.ndarray
            or x.dtype.num not in FLOATS
            or not (x.ndim and x.flags.c_contiguous and x.size)
        ):
            return op.run(*args)
        array = silently(function, x, *args[1:])
        if array is None or 1 in array.shape:
            return op.run(*args)
        out = Tensor(array)
        if source._view is not None:
            up_to_date(source)
        if source._requires_grad and STATE.grad_enabled:
            record(op, args, out)
        return out

    return call


def _composite(op: Any) -> Callable[..., Any]:
    """Evaluates a composite with its own derivative: the tape records the call, and not the steps of the body."""
    bind, arity = op.bind, op.arity
    named = any(p.kind is p.KEYWORD_ONLY for p in inspect.signature(op.body).parameters.values())
    run = op._run_body if named else lambda args: op.body(*args)

    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != arity:
            args = bind(*args, **kwargs)
        if not (STATE.grad_enabled and needs_tape(op, args)):
            return run(args)
        STATE.grad_enabled = False
        try:
            out = run(args)
        finally:
            STATE.grad_enabled = True
        _is_its_own(out, args)
        record(op, args, out)
        return out

    return call
