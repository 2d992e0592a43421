"""Walking a module tree in a captured function: parameters(), named_parameters(), buffers().

Input: a module as an abstract value. Its registries are read as an attribute lookup reads them, so the guards are the
same ones, under the structure epoch.
"""

from __future__ import annotations

from collections.abc import Iterator

from stage0_eager.nn import Module
from stage1_capture.state.machine import Tx, builtin
from stage1_capture.state.mro import class_lookup
from stage1_capture.variables.base import Variable, describe, load_attribute, realize
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.sequence import ListVariable, TupleVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable


@builtin(Module._named)
def named(
    tx: Tx,
    module: Variable,
    registry: Variable,
    prefix: Variable,
    recurse: Variable,
    remove_duplicate: Variable,
) -> Variable:
    """(name, entry) of each entry in `registry` of the modules below, each once unless duplicates are asked for."""
    home, path = tx.constant(registry, "a registry"), tx.constant(prefix, "prefix")
    once = bool(tx.constant(remove_duplicate, "remove_duplicate"))
    below = bool(tx.constant(recurse, "recurse"))
    items: list[Variable] = []
    seen: set[Variable] = set()
    for where, owner in _modules(tx, module, path, once, set()) if below else [(path, module)]:
        for name, entry in _registry(tx, owner, home).items():
            value = realize(entry)
            if value.is_none() or value in seen:
                continue
            if once:
                seen.add(value)
            items.append(TupleVariable([ConstantVariable(f"{where}.{name}" if where else name), value]))
    return ListVariable(items).iterator(tx)


def _modules(tx: Tx, module: Variable, path: str, once: bool, seen: set) -> Iterator[tuple[str, Variable]]:
    if not isinstance(module, UserDefinedObjectVariable) or not isinstance(module.real, Module):
        tx.unsupported("GB0069", f"a walk over {describe(module)} as a module")
    if class_lookup(type(module.real), "named_modules") is not Module.named_modules:
        tx.unsupported("GB0072", f"a walk over {describe(module)}, which has a named_modules of its own")
    if module in seen:
        return
    if once:
        seen.add(module)
    yield path, module
    for name, child in _registry(tx, module, "_modules").items():
        value = realize(child)
        if not value.is_none():
            yield from _modules(tx, value, f"{path}.{name}" if path else name, once, seen)


def _registry(tx: Tx, module: Variable, name: str) -> dict[str, Variable]:
    entries = load_attribute(tx, module, name)
    if entries.family() is not dict:
        tx.unsupported("GB0072", f"a walk over the {name} of {describe(module)}")
    return entries.items
