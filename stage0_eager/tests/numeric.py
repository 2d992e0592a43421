"""Helpers of the function tests: tensors from arrays, and gradients against finite differences in float64.

Input: a function of tensors and its arguments; float64 arrays among them are differentiated.
"""

import numpy as np

from stage0_eager import Tensor
from stage0_eager.autograd.backward_pass import grad


def tensors(args, requires_grad=False):
    return [
        Tensor(a.copy(), requires_grad=requires_grad and a.dtype == np.float64)
        if isinstance(a, np.ndarray)
        else a
        for a in args
    ]


def value(out):
    return out.detach().numpy()


def check_gradients(function, args, step=1e-6, tolerance=2e-6, **options):
    """The gradient of (function(*args) * fixed weights).sum() against central differences, for every float64 array."""
    probe = value(function(*tensors(args), **options))
    weights = np.random.default_rng(5).uniform(0.5, 1.5, probe.shape)

    def total(arrays):
        return float((value(function(*tensors(arrays), **options)) * weights).sum())

    inputs = tensors(args, requires_grad=True)
    wanted = [i for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.dtype == np.float64]
    loss = (function(*inputs, **options) * Tensor(weights)).sum()
    got = grad([loss], [inputs[i] for i in wanted])
    for i, g in zip(wanted, got):
        expected = np.zeros_like(args[i])
        for at in np.ndindex(args[i].shape):
            moved = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
            moved[i][at] += step
            high = total(moved)
            moved[i][at] -= 2 * step
            expected[at] = (high - total(moved)) / (2 * step)
        np.testing.assert_allclose(
            value(g), expected, rtol=1e-4, atol=tolerance * 10, err_msg=f"argument {i}"
        )
