"""`sys.modules` as a value: what is looked up there costs a guard of its own.

Input: the dict itself. Each import adds a name, those that a first compile makes among them, so a guard on all names
would fail on the very call that it was made from: a walk over all, or a change, breaks the graph. The standard library
looks a module up there (`warnings.catch_warnings`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import Variable
from stage1_capture.variables.builder import BUILDERS, lazily, once
from stage1_capture.variables.mapping import ConstDictVariable
from stage_contracts.source import ItemSource, Source


class LoadedModules(Mapping):
    """What `ConstDictVariable.items` is for `sys.modules`."""

    def __init__(self, output: OutputGraph, source: Source | None) -> None:
        self.output, self.source = output, source
        self.read: dict[str, Variable] = {}

    def __contains__(self, name: Any) -> bool:
        there = name in sys.modules
        self.output.guard("PRESENT" if there else "ABSENT_KEY", self.source, name)
        return there

    def __getitem__(self, name: str) -> Variable:
        if name not in self:
            raise KeyError(name)
        if name not in self.read:
            place = self.source and ItemSource(self.source, name)
            self.read[name] = lazily(self.output, sys.modules[name], place)
        return self.read[name]

    def __iter__(self) -> NoReturn:
        self.output.unsupported("GB0039", "a walk over all of sys.modules")

    def __len__(self) -> int:
        self.output.unsupported("GB0039", "the number of modules in sys.modules")


class LoadedModulesVariable(ConstDictVariable):
    """`sys.modules`: what it holds is no tensor, nor written to."""

    def parts(self) -> list[Variable]:
        return []

    def tensors(self) -> list[Any]:
        return []

    def will_change(self, tx: Tx, what: str) -> None:
        tx.unsupported("GB0102", f"{what} of sys.modules")


def _wrap(output: OutputGraph, real: dict, source: Source | None) -> Variable:
    if real is not sys.modules:
        return _OTHER(output, real, source)
    output.guard("TYPE", source, dict)
    items: Any = LoadedModules(output, source)
    return once(output, real, source, lambda: LoadedModulesVariable(items, source=source))


_OTHER, BUILDERS[dict] = BUILDERS[dict], _wrap
