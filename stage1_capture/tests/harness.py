"""What the tests of capture share: run a captured frame on plain operators, compare it with the call.

Input: any implementation of the seam `capture`. The residual code runs as cutaway.compile runs it, with the
graph interpreted node by node.
"""

import types

import numpy as np

from stage0_eager import is_grad_enabled
from stage0_eager.nn.module import structure_epoch
from stage0_eager.tensor import Tensor
from stage1_capture.tiny import signature_text
from stage_contracts.guards import compile_guards


def tensor(*shape, dtype=np.float32, requires_grad=False, seed=0):
    """A tensor of normal numbers, the same for the same arguments."""
    data = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return Tensor(np.asarray(data), requires_grad)


class Globals:
    """A module's globals with the builtins behind them: what `G` is in guards and residual code."""

    def __init__(self, names):
        self.names = names

    def __getitem__(self, name):
        if name in self.names:
            return self.names[name]
        builtins = self.names["__builtins__"]
        return (builtins if isinstance(builtins, dict) else vars(builtins))[name]


def guard_function(frame, function, guards=None):
    """All guards of a frame (or those given) as one function of the call's arguments."""
    signature, names = signature_text(function)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    names = {"G": Globals(function.__globals__), "C": cells, "module_epoch": structure_epoch, **names}
    names["is_grad_enabled"] = is_grad_enabled
    return compile_guards(frame.guards if guards is None else guards, signature, names)


def guards_hold(frame, function, args, kwargs=None):
    return guard_function(frame, function)(*args, **(kwargs or {}))


def residual_function(frame, function):
    """The residual code over the interpreted graph."""
    names = {
        **function.__globals__,
        "G": Globals(function.__globals__),
        **frame.residual_globals,
        frame.graph_name: lambda *inputs: frame.graph.interpret(inputs),
    }
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in frame.residual.co_freevars)
    run = types.FunctionType(frame.residual, names, function.__name__, function.__defaults__, closure or None)
    run.__kwdefaults__ = function.__kwdefaults__
    return run


def leaves(tree, path=""):
    """Every object in nested containers, containers included, with its path."""
    yield path, tree
    if isinstance(tree, (list, tuple)):
        for i, item in enumerate(tree):
            yield from leaves(item, f"{path}[{i}]")
    elif isinstance(tree, dict):
        for key, item in tree.items():
            yield from leaves(item, f"{path}[{key!r}]")


def described(tree):
    """A value as plain data that compares: structure, types, constants, and tensors as metas and numbers."""
    found = []
    for path, value in leaves(tree):
        if isinstance(value, Tensor):
            found.append(
                (path, value.requires_grad, value.dtype.name, value._data.shape, repr(value._data.tolist()))
            )
        elif isinstance(value, (list, tuple, dict)):
            found.append((path, type(value), len(value), tuple(value) if isinstance(value, dict) else None))
        else:
            found.append((path, type(value), repr(value)))
    return found


def sharing(result, args):
    """Which tensors and containers of a result are one object, or an argument: pairs of paths."""
    first = {}
    for path, value in [*leaves(args, "args"), *leaves(result, "result")]:
        if isinstance(value, (Tensor, list, dict)):
            first.setdefault(id(value), (path, value))
    return [(p, first[id(v)][0]) for p, v in leaves(result, "result") if id(v) in first]


def assert_same(result, expected, args, expected_args):
    """Two calls did the same: values, structure, aliasing, and what is left in the arguments."""
    assert described(result) == described(expected)
    assert sharing(result, args) == sharing(expected, expected_args)
    assert described(args) == described(expected_args)
