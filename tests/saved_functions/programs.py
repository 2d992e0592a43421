"""Functions that are saved in one process and loaded in another: `python -m tests.saved_functions.programs FOLDER`.

Input: CASES, and a folder that has a file for each. The process that loads has no compiler, and its capture is broken;
it prints, as JSON, whether each loaded function gives what eager gives, and what the event log has about it.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
from cutaway.nn import functional as F

import cutaway
from cutaway.compiler import load_compiled_function, mark_dynamic
from stage_contracts import events

WEIGHT = cutaway.arange(12, dtype=cutaway.float32).reshape(3, 4) / 7
SCALE = 2.5
ORDERED = ["b", "a"]
cutaway.manual_seed(3)
MODEL = cutaway.nn.Sequential(cutaway.nn.Linear(3, 4), cutaway.nn.Tanh(), cutaway.nn.Linear(4, 2))
TRAINED = cutaway.nn.Linear(3, 2)
OPTIMIZER = cutaway.optim.AdamW(TRAINED.parameters(), lr=1e-2)


class Options:
    """What a program passes about."""

    def __init__(self, times):
        self.times = times

    def apply(self, x):
        return x * self.times


OPTIONS = Options(3)


def several(x, y, power=2):
    return x @ y, (x.sum(), y**power)


def defaults(x, y=0.5, *more, flag=True, **named):
    found = x * y + len(more)
    return found + named["z"] if flag else found


def an_int(x, n):
    return x.repeat(n, 1) if n > 1 else x


def containers(pair, table):
    a, b = pair
    return {"sum": a + table["k"], "list": [b, (a.relu(), 3, "text")], "none": None}


def a_mutation(x, table):
    x.add_(1)
    table["new"] = x * 2
    return x.sum()


def silent(x):
    with cutaway.no_grad():
        x.mul_(2)
    return x + 1


def a_global(x):
    return (x @ WEIGHT) * SCALE + math.pi + len(ORDERED)


def a_constant(x):
    return x @ cutaway.tensor([[1.0, 2.0], [3.0, 4.0], [float("inf"), -0.0]]) + cutaway.tensor(
        np.float64(2.5)
    )


def open_sizes(x):
    n = x.shape[0]
    return x.softmax(-1), x[: n // 2], x.reshape(n * 3), cutaway.zeros(n) + x.sum(1), n


def scaled_by(factor, shift):
    def closure(x):
        return x * factor + shift

    return closure


closed = scaled_by(4, cutaway.ones(3) / 3)


def gradients(x, w):
    return (x @ w).relu().mean(), w.exp()


def kinds(d, h, i, b):
    return d.sin() + 1, (h * h).sum(), i // 3 + 2**40, b & (i > 1), h.to(cutaway.float32) @ h.float().T


def empty(x):
    return x.sum(), x * 2, cutaway.cat([x, cutaway.ones(1, 3)])


def random_numbers(x):
    return cutaway.rand(4), F.dropout(x, 0.5), cutaway.randn(2) + x.sum()


def a_branch(x):
    return cutaway.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos() * 2, (x,))


def an_object(x):
    return OPTIONS.apply(x) + 1


def a_module(x):
    return MODEL(x).square().sum()


def training_step(x, y):
    OPTIMIZER.zero_grad()
    loss = F.mse_loss(TRAINED(x), y)
    loss.backward()
    OPTIMIZER.step()
    return loss.detach()


def an_update():
    OPTIMIZER.step()


def of_numpy(a):
    return np.sin(a) + np.where(a > 0, a, 1), a.shape


def nothing_to_compute(x, n=3):
    return n + 1, x


def drawn(*shape, dtype="float32", grad=False, seed=0):
    numbers = np.random.default_rng(seed).standard_normal(shape) * 3
    return cutaway.from_numpy(numbers).to(getattr(cutaway, dtype)).requires_grad_(grad)


def given_gradients():
    for number, parameter in enumerate(TRAINED.parameters()):
        parameter.grad = cutaway.full_like(parameter, number - 0.5)
    return (), {}


def marked():
    x = drawn(6, 3)
    mark_dynamic(x, 0)
    return x


# name -> (the function, the arguments that it is compiled for, other calls that the guards let in)
CASES = {
    "several": (several, lambda: ((drawn(2, 3), drawn(3, 2, seed=1)), {}), ()),
    "defaults": (defaults, lambda: ((drawn(3), 0.5, 7), {"z": drawn(3, seed=1)}), ()),
    "left out": (defaults, lambda: ((drawn(3),), {"flag": False}), ()),
    "an int": (an_int, lambda: ((drawn(3), 2), {}), ()),
    "containers": (containers, lambda: (((drawn(3), drawn(3, seed=1)), {"k": drawn(3)}), {}), ()),
    "a mutation": (a_mutation, lambda: ((drawn(2, 3), {}), {}), ()),
    "silent": (silent, lambda: ((drawn(2, 3),), {}), ()),
    "a global": (a_global, lambda: ((drawn(2, 3),), {}), ()),
    "a constant": (a_constant, lambda: ((drawn(2, 3),), {}), ()),
    "open sizes": (open_sizes, lambda: ((marked(),), {}), [lambda n=n: ((drawn(n, 3),), {}) for n in (2, 7, 64)]),
    "closure": (closed, lambda: ((drawn(3),), {}), ()),
    "gradients": (gradients, lambda: ((drawn(2, 3, grad=True), drawn(3, 4, grad=True)), {}), ()),
    "kinds": (kinds, lambda: ((drawn(5, dtype="float64"), drawn(4, 3, dtype="bfloat16"), drawn(5, dtype="int64"),
                               drawn(5, dtype="bool")), {}), ()),
    "empty": (empty, lambda: ((drawn(0, 3),), {}), ()),
    "random numbers": (random_numbers, lambda: ((drawn(2, 3),), {}), ()),
    "a branch": (a_branch, lambda: ((drawn(4),), {}), ()),
    "an object": (an_object, lambda: ((drawn(4),), {}), ()),
    "a module": (a_module, lambda: ((drawn(5, 3),), {}), ()),
    "training step": (training_step, lambda: ((drawn(5, 3), drawn(5, 2, seed=1)), {}), ()),
    "an update": (an_update, given_gradients, ()),
    "of numpy": (of_numpy, lambda: ((np.linspace(-1, 1, 5),), {}), ()),
    "nothing to compute": (nothing_to_compute, lambda: ((drawn(2),), {}), ()),
}  # fmt: skip


def leaves(value):
    if isinstance(value, (tuple, list)):
        return [f"{type(value).__name__} {len(value)}", *(leaf for item in value for leaf in leaves(item))]
    if isinstance(value, dict):
        return [[*value], *leaves([*value.values()])]
    return [value]


def observed(run, call):
    """All that can be seen of one call: results, what is left in the arguments, gradients."""
    cutaway.manual_seed(7)
    args, kwargs = call()
    found = leaves([run(*args, **kwargs), list(args), kwargs])
    roots = [
        t.float().sum() for t in found if isinstance(t, cutaway.Tensor) and t.requires_grad and not t.is_leaf
    ]
    if roots:
        sum(roots).backward()
    weights = [p for model in (MODEL, TRAINED) for p in model.parameters()]
    tensors = [t for t in [*found, *weights] if isinstance(t, cutaway.Tensor)]
    found += [t.grad for t in tensors if t.is_leaf]
    for weight in weights:
        weight.grad = None
    return [t.detach() if isinstance(t, cutaway.Tensor) else t for t in [*found, *weights]]


def differs(found, wanted):
    """What differs first, in words; "" if nothing does."""
    if len(found) != len(wanted):
        return f"{len(found)} values, expected {len(wanted)}"
    for k, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if type(a) is not type(b):
            return f"value {k}: {type(a).__name__}, expected {type(b).__name__}"
        if isinstance(a, cutaway.Tensor | np.ndarray):
            if (a.dtype, tuple(a.shape)) != (b.dtype, tuple(b.shape)):
                return f"value {k}: {a.dtype} {a.shape}, expected {b.dtype} {b.shape}"
            x, y = (np.asarray(t.to(cutaway.float64) if isinstance(t, cutaway.Tensor) and t.dtype is cutaway.bfloat16 else t)
                    for t in (a, b))  # fmt: skip
            if not np.allclose(x, y, rtol=2e-5, atol=2e-6, equal_nan=True):
                return f"value {k}: {x}, expected {y}"
        elif a != b:
            return f"value {k}: {a!r}, expected {b!r}"
    return ""


def compared(name, loaded):
    """The loaded function beside eager, from the same state; "" if they agree in every call."""
    function, first, others = CASES[name]
    for call in (first, *others):
        before = state()
        wanted = observed(function, call)
        after = state()
        restore(before)
        found = observed(loaded, call)
        if problem := differs([*found, *state()], [*wanted, *after]):
            return problem
    return ""


def state():
    """A copy of what a call may change for the next."""
    rows = [OPTIMIZER.state[p] for p in TRAINED.parameters()]
    tensors = [
        *MODEL.parameters(),
        *TRAINED.parameters(),
        *(row[name] for row in rows for name in ("exp_avg", "exp_avg_sq")),
    ]
    return [*(t.detach().clone() for t in tensors), *(row["step"] for row in rows)]


def restore(kept):
    """Put such a copy back."""
    rows = [OPTIMIZER.state[p] for p in TRAINED.parameters()]
    tensors = [
        *MODEL.parameters(),
        *TRAINED.parameters(),
        *(row[name] for row in rows for name in ("exp_avg", "exp_avg_sq")),
    ]
    with cutaway.no_grad():
        for tensor, value in zip(tensors, kept, strict=False):
            tensor.copy_(value)
    for row, step in zip(rows, kept[len(tensors) :], strict=True):
        row["step"] = step


def begin():
    """One step of the optimizer, so that it has a state."""
    training_step(drawn(5, 3, seed=2), drawn(5, 2, seed=3))
    OPTIMIZER.zero_grad()


def main(folder):
    import stage1_capture.capture as stage1

    def broken(*_, **__):
        raise AssertionError("capture was called")

    stage1.capture = broken
    begin()
    for name in CASES:
        mark = events.EVENT_LOG.mark()
        try:
            loaded = load_compiled_function(Path(folder) / name, trust=True)
            problem = compared(name, loaded)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        since = events.EVENT_LOG.since(mark)
        kinds, passes = {event.kind for event in since}, {e.name for e in since if e.kind == "pass"}
        seen = {"kinds": sorted(kinds), "stage 2 ran": "functionalize" in passes}
        print(json.dumps({"name": name, "problem": problem, **seen}))


if __name__ == "__main__":
    from tests.saved_functions import programs  # the functions' module, and not __main__

    programs.main(sys.argv[1])
