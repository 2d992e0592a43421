"""functional_call inside a captured function: the module's own call, while its attributes are other tensors.

Input: an abstract module and a dict of abstract tensors by name. The real module is not touched.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from stage0_eager.nn import Module
from stage0_eager.transforms import func
from stage1_capture.builtins.python import builtin
from stage1_capture.state.machine import Tx
from stage1_capture.variables.attributes import load_attribute
from stage1_capture.variables.base import (
    NONE,
    ConstantVariable,
    ConstDictVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    Variable,
    describe,
    realize,
)
from stage1_capture.variables.calls import call_function, iterate


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
        tx.unsupported("GB0069", f"functional_call of {describe(module)}")
    values = _values(tx, parameter_and_buffer_dicts)
    _check_names(tx, module.real, set(values), tx.constant(strict, "functional_call"))
    homes = [_home(tx, module, name) for name in values]
    before = [(entries, name, entries.get(name)) for places, name in homes for entries in places]
    for (places, name), value in zip(homes, values.values(), strict=True):
        for entries in places:
            entries[name] = value
    words = realize(args)
    given = [] if words is NONE else iterate(tx, words) if isinstance(words, TupleVariable) else [words]
    options = realize(kwargs)
    try:
        return call_function(tx, module, given, getattr(options, "items", {}))
    finally:
        for entries, name, old in before:
            if old is None:
                entries.pop(name, None)
            else:
                entries[name] = old


def _values(tx: Tx, dicts: Variable) -> dict[str, Variable]:
    found: dict[str, Variable] = {}
    given = realize(dicts)
    for each in [given] if isinstance(given, ConstDictVariable) else iterate(tx, given):
        if not isinstance(each, ConstDictVariable):
            tx.unsupported("GB0069", f"functional_call with {describe(each)}")
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
    assert isinstance(entries, ConstDictVariable)
    return [module.attrs, entries.items], last
