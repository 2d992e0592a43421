"""autograd.functional: Jacobians, Hessians and products with them, of functions of tensors; a thin layer over func.py.

Input: a function, and the tensor or tuple of tensors at which to differentiate it. Autograd treats the results as
independent of those tensors unless `create_graph` is set. `strict` raises RuntimeError if a result does not depend on
an input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage0_eager.autograd import backward_pass
from stage0_eager.state import enable_grad
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage0_eager.transforms import func as F


def _tuple(value: Any, argument: str) -> tuple:
    values = value if isinstance(value, tuple) else (value,)
    for v in values:
        if not isinstance(v, Tensor):
            raise TypeError(
                f"The {argument} given must be either a Tensor or a tuple of Tensors but the given {argument} has "
                f"type {type(v)}."
            )
    return values


def _prepared(func: Callable, inputs: Any, strict: bool) -> tuple[tuple, bool]:
    """The inputs as a tuple, and whether there is only one. With `strict`, every dependence is checked."""
    values = _tuple(inputs, "inputs")
    if strict:
        with enable_grad():
            fresh = tuple(Tensor(v._data, v.dtype.is_differentiable) for v in values)
            outputs = _tuple(func(*fresh), "outputs")
        for i, out in enumerate(outputs):
            if not out.requires_grad:
                raise RuntimeError(f"Output {i} of the user-provided function does not require gradients.")
            found = backward_pass.grad([out], fresh, [_ones(out)], retain_graph=True, allow_unused=True)
            for k, g in enumerate(found):
                if g is None:
                    raise RuntimeError(
                        f"Output {i} of the user-provided function is independent of input {k}. This is not allowed in "
                        "strict mode."
                    )
    return values, not isinstance(inputs, tuple)


def _ones(like: Tensor) -> Tensor:
    return c.full(like.shape, 1.0, like.dtype, like.device)


def _finished(tree: Any, create_graph: bool) -> Any:
    return tree if create_graph else F.map_tensors(tree, lambda t: t.detach() if t.requires_grad else t)


def _directions(v: Any, shapes: tuple, alone: bool, argument: str) -> tuple:
    """`v` as a tuple for tensors of `shapes`. None means 1, for a single tensor with a single element."""
    if v is None:
        if len(shapes) != 1 or shapes[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if the user-provided function's {argument} is a single Tensor with a "
                "single element."
            )
        return (_ones(shapes[0]),)
    values = _tuple(v, "v")
    if [t.shape for t in values] != [t.shape for t in shapes]:
        raise RuntimeError(
            f"v has shapes {[list(t.shape) for t in values]}, but should have those of the {argument}: "
            f"{[list(t.shape) for t in shapes]}"
        )
    return values


def jacobian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """d output / d input, of shape output.shape + input.shape. With several, nested tuples: outputs, then inputs."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise RuntimeError(
            f'Expected strategy to be either "reverse-mode" or "forward-mode", got {strategy!r}'
        )
    values, alone = _prepared(func, inputs, strict)
    transform = F.jacrev if strategy == "reverse-mode" else F.jacfwd
    found = transform(func, argnums=0 if alone else tuple(range(len(values))))(*values)
    return _finished(found, create_graph)


def hessian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function whose value is a single element."""
    values, alone = _prepared(func, inputs, strict)

    def scalar(*args: Tensor) -> Tensor:
        out = func(*args)
        if not isinstance(out, Tensor) or out.numel() != 1:
            raise RuntimeError(
                "The Tensor returned by the function given to hessian should contain a single element"
            )
        return c.reshape(out, ())

    outer = F.jacrev if outer_jacobian_strategy == "reverse-mode" else F.jacfwd
    numbers = 0 if alone else tuple(range(len(values)))
    return _finished(outer(F.jacrev(scalar, numbers), numbers)(*values), create_graph)


def vjp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """(outputs, v times the Jacobian): one gradient per input."""
    values, alone = _prepared(func, inputs, strict)
    outputs, pull = F.vjp(func, *values)
    seeds = _directions(v, _tuple(outputs, "outputs"), True, "outputs")
    gradients = pull(seeds if isinstance(outputs, tuple) else seeds[0])
    return _finished((outputs, gradients[0] if alone else gradients), create_graph)


def jvp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """(outputs, the Jacobian times v): one tangent per output."""
    values, alone = _prepared(func, inputs, strict)
    return _finished(F.jvp(func, values, _directions(v, values, alone, "inputs")), create_graph)


def vhp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """(output, v times the Hessian) of a function whose value is a single element."""
    values, alone = _prepared(func, inputs, strict)
    along = _directions(v, values, alone, "inputs")
    numbers = tuple(range(len(values)))
    both = F.grad_and_value(lambda *args: c.reshape(func(*args), ()), numbers)
    _, pull, value = F.vjp(lambda *args: both(*args), *values, has_aux=True)
    products = pull(along)
    return _finished((value, products[0] if alone else products), create_graph)


def hvp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """(output, the Hessian times v); the Hessian is symmetric, so this is vhp."""
    return vhp(func, inputs, v, create_graph, strict)
