"""What a program that writes relies on: that nothing else is, or is a view of, what it writes to.

Input: the tensors written to and the objects changed in one capture, among all that was looked at. Few values are
compared pair by pair, which reads well; many as rows, each value once, parameters only when the structure epoch moved.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from stage0_eager.nn import Module
from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.variables.base import Variable
from stage1_capture.variables.tensor import TensorVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.guards import Guard
from stage_contracts.source import ArraySource, AttrSource, RowSource, Source

FEW_PAIRS = 12  # up to here pair by pair


def guard_mutation(output: OutputGraph) -> None:
    """When an input is written to, no other input may be it; nor, unless one was at capture, a view of it.

    A view's `_base` is the tensor that owns the storage, never another view. No write here is on the tape (capture
    broke at those), so of inputs that share memory only the memory matters, which a backend looks at in each call.
    """
    _guard_changed(output)
    # who shares memory with an array that is written to is seen at the call: nothing here relies on it
    written = [t for t in output.mutated if t.source is not None and not isinstance(t.source, ArraySource)]
    known = (t for t in output.known.values() if t.is_tensor() and t.source is not None)
    inputs = [t for t in known if t.node is not None]
    bases = {id(t.real._base) for t in inputs}
    sharing = [t for t in written if t.real._base is not None or id(t.real) in bases]
    apart = [t for t in written if t not in sharing]
    for target in sharing:
        if target.real._base is None:
            output.guard("IDENTITY", _base(target), None)
        for other in inputs:
            if other is not target:
                output.guard("NOT_ALIASED", other.source, target.source)
    if len(apart) * len(inputs) > FEW_PAIRS:
        _guard_rows(output, "WRITTEN", apart, inputs)
        return
    _guard_pairs(output, apart, inputs)


def _guard_pairs(output: OutputGraph, apart: list[Any], inputs: list[Any]) -> None:
    """What is written to is a whole tensor, and no other input is it or a view of it."""
    for target in apart:
        output.guard("IDENTITY", _base(target), None)
        for other in inputs:
            if other is not target:
                output.guard("NOT_ALIASED", other.source, target.source)
                output.guard("NOT_ALIASED", _base(other), target.source)


def _guard_changed(output: OutputGraph) -> None:
    """When a container or object is changed, nothing else that was looked at may be the same one."""
    known = [v for v in output.known.values() if v.source is not None]
    made_by_modules = lambda source: isinstance(source, AttrSource) and source.base in output.module_sources  # noqa: E731
    looked_at = [v for v in known if not made_by_modules(v.source)]
    by_kind: dict[Any, list[Any]] = {}
    for before in output.effects.changed.values():
        changed_one = before.variable.part_of or before.variable
        if (kind := _kind(changed_one)) is not None:
            by_kind.setdefault(kind, []).append(changed_one)
    for kind, changed in by_kind.items():
        others: list[Any] = [v for v in looked_at if _kind(v) == kind]
        if len(changed) * len(others) > FEW_PAIRS:
            _guard_rows(output, "APART", changed, others)
            continue
        for target in changed:
            for other in others:
                if other is not target:
                    output.guard("NOT_ALIASED", other.source, target.source)


def _kind(value: Variable) -> Any:
    """What two values from outside have in common, so that their own guards do not rule out that they are one object;
    None if nothing."""
    if not isinstance(value, UserDefinedObjectVariable):
        return type(value)
    # Objects of these classes are guarded to be the very same.
    identical = (type, types.ModuleType, types.BuiltinFunctionType, Module)
    return None if isinstance(value.real, identical) else (type(value), type(value.real))


def _guard_rows(output: OutputGraph, kind: str, changed: Iterable[Any], known: Iterable[Any]) -> None:
    """The same facts as rows, parted into what the epoch keeps and what may be another object in each call."""
    kept, targets = output.kept_inputs(), set(changed)
    old: list[Source] = []
    old_others: list[Source] = []
    new: list[Source] = []
    new_others: list[Source] = []
    for value in known:
        mine = value in targets
        side = (old if mine else old_others) if value.source in kept else (new if mine else new_others)
        side.append(value.source)
    rows = [
        (old, False, old_others, False, True),
        (old, True, [*new, *new_others], False, False),
        (new, False, new_others, False, False),
        (new, False, [*old, *old_others], True, False),
    ]
    for left, left_kept, right, right_kept, under_epoch in rows:
        if left and (right or not (left_kept or right_kept)):
            source = RowSource(tuple(left), left_kept)
            output.guard(kind, source, RowSource(tuple(right), right_kept), under_epoch)


def merge_gradient_guards(output: OutputGraph) -> None:
    """That parameters have no gradient: one guard over a row that is read again only when the epoch moved."""
    kept = output.kept_inputs()
    found = {
        key: guard
        for key, guard in output.guards.items()
        if guard.kind == "IDENTITY"
        and guard.expected is None
        and isinstance(guard.source, AttrSource)
        and guard.source.name == "grad"
        and guard.source.base in kept
    }
    if len(found) < 2:
        return
    row = RowSource(tuple(guard.source.base for guard in found.values()), kept=True)  # type: ignore[union-attr]
    first = next(iter(found.values()))
    for key in found:
        del output.guards[key]
    output.guards["NO_GRADIENTS", row, None] = Guard("NO_GRADIENTS", row, None, first.origin)


def _base(tensor: TensorVariable) -> AttrSource:
    assert tensor.source is not None
    return AttrSource(tensor.source, "_base")
