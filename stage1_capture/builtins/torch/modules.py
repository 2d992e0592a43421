"""What the library does with modules: walks over a tree of them (parameters(), buffers()), and functional_call.

Input: a module as an abstract value. Its registries are read as an attribute lookup reads them, so the guards are the
same ones, under the structure epoch. functional_call is the module's own call, while its attributes are other tensors:
the real module is not touched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from stage0_eager.nn import Module
from stage0_eager.transforms import func
from stage1_capture.state.machine import Tx, builtin
from stage1_capture.variables.base import Variable, iterate, load_attribute, realize
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.sequence import ListVariable, TupleVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.class_lookup import class_lookup


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
        tx.unsupported("GB0069", f"a walk over {module.describe()} as a module")
    if class_lookup(type(module.real), "named_modules") is not Module.named_modules:
        tx.unsupported("GB0072", f"a walk over {module.describe()}, which has a named_modules of its own")
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
        tx.unsupported("GB0072", f"a walk over the {name} of {module.describe()}")
    return entries.items


@builtin(func.functional_call)
def functional_call(
    tx: Tx,
    module: Variable,
    parameter_and_buffer_dicts: Variable,
    args: Variable = NONE,
    kwargs: Variable = NONE,
    *,
    strict: Variable = ConstantVariable(False),  # noqa: B008  (a constant)
) -> Variable:
    """What the module returns. Tied parameters, and names that eager refuses, are a break."""
    module = realize(module)
    if not isinstance(module, UserDefinedObjectVariable) or not isinstance(module.real, Module):
        tx.unsupported("GB0069", f"functional_call of {module.describe()}")
    values = _values(tx, parameter_and_buffer_dicts)
    _check_names(tx, module.real, set(values), tx.constant(strict, "functional_call"))
    homes = [_home(tx, module, name) for name in values]
    before = [(entries, name, entries.get(name)) for places, name in homes for entries in places]
    for (places, name), value in zip(homes, values.values(), strict=True):
        for entries in places:
            entries[name] = value
    words = realize(args)
    given = [] if words is NONE else iterate(tx, words) if words.family() is tuple else [words]
    options = realize(kwargs)
    try:
        return tx.call(module, given, getattr(options, "items", {}))
    finally:
        for entries, name, old in before:
            if old is None:
                entries.pop(name, None)
            else:
                entries[name] = old


def _values(tx: Tx, dicts: Variable) -> dict[str, Variable]:
    found: dict[str, Variable] = {}
    given = realize(dicts)
    for each in [given] if given.family() is dict else iterate(tx, given):
        if each.family() is not dict:
            tx.unsupported("GB0069", f"functional_call with {each.describe()}")
        found |= each.items
    return found


def _check_names(tx: Tx, module: Module, given: set[str], strict: bool) -> None:
    tensors: dict[str, Any] = {
        f"{prefix}.{name}" if prefix else name: tensor
        for prefix, m in module.named_modules()
        for registry in (m._parameters, m._buffers)
        for name, tensor in registry.items()
    }
    if not given <= set(tensors) or (strict and given != set(tensors)):
        tx.unsupported("GB0066", "functional_call raises RuntimeError: unexpected or missing keys")
    shared = Counter(id(t) for t in tensors.values() if t is not None)
    if any(shared[id(tensors[name])] > 1 for name in given):
        tx.unsupported("GB0073", "functional_call of a module with tied parameters")


def _home(tx: Tx, module: UserDefinedObjectVariable, name: str) -> tuple[list[dict], str]:
    """Where the program may find it: as an attribute of its module, and in the module's registry."""
    path, _, last = name.rpartition(".")
    for part in path.split(".") if path else []:
        module = load_attribute(tx, module, part)  # type: ignore[assignment]
    registry = "_parameters" if last in module.real._parameters else "_buffers"
    entries = load_attribute(tx, module, registry)
    return [module.attrs, entries.items], last
