"""gradcheck: compares derivatives from the tape with central differences.

Input: a function, and float64 tensors at which to differentiate it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stage0_eager.autograd.backward_pass import grad
from stage0_eager.tensor import Tensor


class GradcheckError(RuntimeError):
    """The derivative from the tape differs from finite differences."""


def gradcheck(
    func: Callable,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Whether func's gradients agree with central differences. Inputs that require grad should be float64."""
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    chosen = [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
    if not chosen:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have "
            "requires_grad=True."
        )
    for o, out in enumerate(_outputs(func, inputs)):
        for i in chosen:
            exact, measured = _analytical(out, inputs[i]), _numerical(func, inputs, i, o, eps)
            if not np.allclose(exact, measured, rtol, atol):
                if not raise_exception:
                    return False
                raise GradcheckError(
                    f"Jacobian mismatch for output {o} with respect to input {i},\n"
                    f"numerical:{measured}\nanalytical:{exact}\n"
                )
    return True


def gradgradcheck(
    func: Callable,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """gradcheck of func's gradients, as functions of the inputs and of `grad_outputs` (None: random ones)."""
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = _outputs(func, inputs)
    if grad_outputs is None:
        draws = np.random.default_rng(0)
        seeds = tuple(Tensor(draws.normal(size=o.shape).astype(o.dtype.numpy), True) for o in outputs)
    else:
        seeds = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    count = len(inputs)

    def gradients(*args: Any) -> tuple:
        chosen = [t for t in args[:count] if isinstance(t, Tensor) and t.requires_grad]
        found = grad(_outputs(func, args[:count]), chosen, args[count:], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients, (*inputs, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception
    )


def _outputs(func: Callable, inputs: Sequence) -> list[Tensor]:
    result = func(*inputs)
    result = result if isinstance(result, (tuple, list)) else (result,)
    return [t for t in result if isinstance(t, Tensor) and t.requires_grad]


def _analytical(out: Tensor, x: Tensor) -> np.ndarray:
    """The Jacobian from the tape: a row per input element, a column per output element, one backward per column."""
    columns = []
    for k in range(out.numel()):
        seed = np.zeros(out.numel(), out.dtype.numpy)
        seed[k] = 1
        (g,) = grad(out, x, Tensor(seed.reshape(out.shape)), retain_graph=True, allow_unused=True)
        columns.append(np.zeros(x.numel()) if g is None else np.asarray(g.detach().tolist()).reshape(-1))
    return np.stack(columns, 1) if columns else np.zeros((x.numel(), 0))


def _numerical(func: Callable, inputs: tuple, i: int, o: int, eps: float) -> np.ndarray:
    def value(array: np.ndarray) -> np.ndarray:
        moved = [Tensor(array, True) if k == i else t for k, t in enumerate(inputs)]
        return np.array(_outputs(func, moved)[o]._data, np.float64).reshape(-1)

    rows = []
    for k in range(inputs[i].numel()):
        ends = []
        for step in (eps, -eps):
            array = np.array(inputs[i]._data)
            array.reshape(-1)[k] += step
            ends.append(value(array))
        rows.append((ends[0] - ends[1]) / (2 * eps))
    return np.stack(rows) if rows else np.zeros((0, 0))
