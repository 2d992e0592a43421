"""Functions that are one node and not looked into, whatever they take and return: nonstrict_trace, some allowed ones.

Input: a Python function and abstract arguments: tensors, modules, constants, in nested tuples, lists and dicts. The
node takes the tensors (a module's among them); its body rebuilds the arguments and calls the function, when stage 2
traces it or the graph runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from stage0_eager.nn import Module
from stage0_eager.table.operator import operator_of_tensors
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.func import with_tensors_of
from stage0_eager.utils.pytree import leaves_of, mapped
from stage1_capture.higher_order.subgraph import Slot, filled, variable_of
from stage1_capture.state.machine import CONTROLLED, Args, Kwargs, Tx
from stage1_capture.variables.base import SEQUENCES, Variable, load_attribute, realize
from stage1_capture.variables.operators import record_node
from stage1_capture.variables.tensor import TensorVariable


def gathered_values(
    tx: Tx, name: str, args: Args, kwargs: Kwargs, tensors: list, modules: list
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as real values, a place for each tensor; tensors and modules are noted in the order they come."""

    def number(tensor: Variable) -> int:
        tensor = realize(tensor)
        if tensor not in tensors:
            tensors.append(tensor)
        return tensors.index(tensor)

    def value(variable: Variable) -> Any:
        variable = realize(variable)
        if variable.is_tensor():
            return Slot(number(variable))
        kind, module = getattr(variable, "kind", None), variable.known_object()
        if variable.family() is tuple:
            made = [value(v) for v in variable.items]
            return tuple(made) if kind is tuple else variable.kind(*made)
        if variable.family() in SEQUENCES:
            return [value(v) for v in variable.items]
        if variable.family() is dict:
            return variable.kind((k, value(v)) for k, v in variable.items.items())
        if not isinstance(module, Module):
            return tx.constant(variable, name)
        own = [*module.named_parameters(), *module.named_buffers()]
        modules.append((module, {key: number(_inside(tx, variable, key)) for key, _ in own}))
        return module

    return [value(a) for a in args], {key: value(v) for key, v in kwargs.items()}


def call_as_one_node(tx: Tx, function: Callable, args: Args, kwargs: Kwargs) -> Variable:
    """One node for `function(*args, **kwargs)`, and what it returns."""
    name = getattr(function, "__name__", type(function).__name__)
    tensors: list[TensorVariable] = []
    modules: list[tuple[Module, dict[str, int]]] = []

    given, named = gathered_values(tx, name, args, kwargs, tensors, modules)
    form: list[Any] = []

    def body(*flat: Tensor) -> tuple:
        with ExitStack() as stack:
            for module, places in modules:
                stack.enter_context(with_tensors_of(module, {key: flat[i] for key, i in places.items()}))
            result = function(*filled(given, flat), **filled(named, flat))
        form[:] = [result]
        return tuple(leaf for leaf in leaves_of(result) if isinstance(leaf, Tensor))

    shown = iter(record_body(tx, name, body, tensors).items)
    return variable_of(mapped(lambda leaf: next(shown) if isinstance(leaf, Tensor) else leaf, form[0]))


def record_body(
    tx: Tx, name: str, body: Callable[..., Any], tensors: Sequence[TensorVariable], namespace: str = "user"
) -> Any:
    """One node that runs `body` on the tensors, and what it yields."""
    op = operator_of_tensors(name, body, len(tensors), namespace)
    try:
        metas = op.meta(*(t.meta for t in tensors))
    except Exception as error:  # eager raises it
        tx.unsupported("GB0066", f"{name} raises {type(error).__name__}: {error}")
    return record_node(tx, op, list(tensors), {}, metas)


def _inside(tx: Tx, module: Variable, path: str) -> Variable:
    """A parameter or buffer of a module, as the program would reach it."""
    for name in path.split("."):
        module = load_attribute(tx, realize(module), name)
    return module


CONTROLLED["nonstrict"] = lambda tx, rule, function, args, kwargs: call_as_one_node(
    tx, rule.detail, args, kwargs
)
