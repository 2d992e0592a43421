"""What the tests of capture share: run a captured frame on plain operators, compare it with the call.

Input: any implementation of the seam `capture`. The residual code runs as cutaway.compile runs it, with the
graph interpreted node by node.
"""

import linecache
import math
import types
from dataclasses import dataclass

import numpy as np
import pytest

from stage0_eager import TABLE, is_grad_enabled
from stage0_eager.functions.creation import scalar_input, tensor_of_array
from stage0_eager.nn.module import structure_epoch
from stage0_eager.state import modes
from stage0_eager.tensor import Tensor
from stage1_capture.capture import signature_text
from stage_contracts.controls import registered
from stage_contracts.graph_reader import parse_graph
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
    names |= {
        "is_grad_enabled": is_grad_enabled,
        "modes": modes,
        "registered": registered,
        "__math__": math,
        "__scalar__": scalar_input,
    }
    names |= {"__tensor_of__": tensor_of_array}
    return compile_guards(frame.guards if guards is None else guards, signature, names)


TIERS = ("first", "core", "full")


def may_break(seam, frame, tier="full"):
    """Whether the frame broke where this tier of the seam under test allows it: the call then runs in eager.

    A version that captures nothing is of no use and yet right. From `tier` on, the frame must be captured.
    """
    nothing_captured = bool(frame.breaks) and frame.graph is None and frame.residual is None
    return nothing_captured and TIERS.index(getattr(seam, "tier", "full")) < TIERS.index(tier)


def guards_hold(frame, function, args, kwargs=None):
    return guard_function(frame, function)(*args, **(kwargs or {}))


def residual_function(frame, function, nested=None):
    """The residual code over the interpreted graph."""
    names = {
        **function.__globals__,
        "G": Globals(function.__globals__),
        "C": dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)),
        "__math__": math,
        "__scalar__": scalar_input,
        "__tensor_of__": tensor_of_array,
        **frame.residual_globals,
        frame.graph_name: lambda *inputs: frame.graph.interpret(inputs),
        frame.nested_name: nested or (lambda called: called),
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
            named = getattr(value, "__qualname__", None)  # a function's repr has its address
            found.append((path, type(value), named or repr(value)))
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


# ---- programs --------------------------------------------------------------------------------------


@dataclass
class Program:
    """A function, how to make its arguments, and how many operators its graph holds."""

    function: types.FunctionType
    make: tuple
    nodes: int
    tier: str
    kwargs: dict

    def arguments(self, like=None):
        """Fresh arguments: a tuple is a shape, a callable makes the value. Of `like` keep the objects."""
        fresh = [
            tensor(*m, seed=i) if isinstance(m, tuple) else m() if callable(m) else m
            for i, m in enumerate(self.make)
        ]
        made = (Tensor, list, dict, int, float, str, type(None), slice)
        return tuple(
            old if like and not isinstance(old, made) else new
            for old, new in zip(like or fresh, fresh, strict=True)
        )


class Programs(dict):
    def cases(self):
        """One pytest parameter per program. Before its tier, a program may also break: that is right, if not good."""
        tiers = {"first": "first", "core": "first", "full": "full"}
        return [
            pytest.param(n, marks=pytest.mark.conformance("capture", tier=tiers[p.tier]), id=n)
            for n, p in self.items()
        ]


def registry():
    """A table of programs, and the decorator that enters one: `@program((3, 4), nodes=2, tier="core")`."""
    programs = Programs()

    def program(*make, nodes, tier="full", name=None, **kwargs):
        def enter(function):
            programs[name or function.__name__] = Program(function, make, nodes, tier, kwargs)
            return function

        return enter

    return programs, program


def check_program(seam, program):
    """Capture a call, check the graph and the guards, and compare the residual code with the call itself."""
    function, kwargs, args = program.function, program.kwargs, program.arguments()
    frame = seam("capture")(function, args, kwargs)
    if may_break(seam, frame, program.tier):
        return
    assert frame.breaks == (), str(frame.breaks[0])
    assert frame.graph is not None and frame.residual is not None
    check_graph(frame, program.nodes)
    assert guards_hold(frame, function, args, kwargs), "the guards fail on the call they were made from"
    expected_args = program.arguments(like=args)
    expected = function(*expected_args, **kwargs)
    result = residual_function(frame, function)(*args, **kwargs)
    assert_same(result, expected, args, expected_args)


def check_graph(frame, nodes):
    """It holds public operators only, prints, reads back, and each node names the user's expression."""
    graph = frame.graph.verify(lambda target: getattr(target, "namespace", "cutaway") == "cutaway")
    assert sum(hasattr(n.target, "namespace") for n in graph.calls) == nodes, str(graph)
    assert [n.meta["source"] for n in graph.placeholders] == list(frame.inputs)
    assert str(parse_graph(str(graph), TABLE, graph.attributes)) == str(graph)
    for node in graph.calls:
        (origin,) = node.origins
        shown = linecache.getline(origin.file, origin.line)[origin.column : origin.end_column]
        assert shown and origin.text.startswith(shown)
