"""Passes: a stage is a table of named functions that run in order. This file times, switches, prints and checks them.

Input: a PassTable, which a stage writes as data (name, function, summary; what must run before what, and why), and an
artifact (a graph, a program). The order is checked when the table is made, at import.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from stage_contracts import config, events
from stage_contracts.node import GraphError

Verify = Callable[[str, Any, Any], None]  # (pass, artifact before, after); raises GraphError naming the pass

# The seams that are tables of passes. In a setting, `casts` is a pass of the first one, `fuse.groups` a pass of `fuse`.
TABLES = ("decompose", "lower", "fuse", "schedule", "plan_memory", "emit")


@dataclass(frozen=True)
class Pass:
    """One row. `run` changes the artifact in place, or returns another one, possibly of another kind."""

    name: str
    run: Callable[
        ..., Any
    ]  # a function of the artifact and of the table's further arguments (such as a target)
    summary: str
    needed: bool = False  # it cannot be switched off
    rules: Mapping[str, Any] = field(default_factory=dict)  # its rewrites, by the operator that each rewrites


@dataclass(frozen=True)
class PassTable:
    """The passes of a stage (or of a seam), in order. Raises ValueError if their order breaks a constraint."""

    stage: str
    passes: tuple[Pass, ...]
    order: tuple[tuple[str, str, str], ...] = ()  # (earlier, later, why)

    def __post_init__(self) -> None:
        names = self.names
        if len(set(names)) != len(names):
            raise ValueError(f"two passes of {self.stage} share a name: {names}")
        for earlier, later, why in self.order:
            if earlier not in names or later not in names:
                raise ValueError(f"the order ({earlier}, {later}) names a pass that is not one of {names}")
            if names.index(earlier) > names.index(later):
                raise ValueError(f"pass {earlier} must come before {later}: {why}")

    @property
    def names(self) -> list[str]:
        return [p.name for p in self.passes]

    def chosen(self, option: str, words: str) -> set[str]:
        """The passes of this table that a comma-separated setting names. "all" means all passes of all tables.

        Raises ValueError for a name that is not a pass.
        """
        asked = {w.strip() for w in words.split(",") if w.strip()}
        here = {w.removeprefix(f"{self.stage}.") for w in asked if not self._of_another(w)} - {"all"}
        if unknown := sorted(here - {*self.names}):
            raise ValueError(
                f"{option} names {unknown[0]!r}; expected some of {', '.join(sorted(self.names))}"
            )
        return {*self.names} if "all" in asked else here

    def _of_another(self, word: str) -> bool:
        """Whether a word of a setting is for another table, whose name is before the dot. Without a dot, it is for the
        first."""
        table = word.rpartition(".")[0]
        if not table:
            return self.stage in TABLES[1:]
        return table in TABLES and table != self.stage

    def timed(self, name: str) -> AbstractContextManager[dict[str, Any]]:
        """Time the block as this pass. For a stage whose passes are not run by a table, such as capture."""
        return events.timed("pass", f"{self.stage}.{name}")

    def run_as_configured(self, artifact: Any, *given: Any, verify: Verify | None = None) -> Any:
        """`run` with the switches of `config.autograd`. If `verify_passes` is on, each pass is checked by `verify`, or
            by the
        check of `verifying`."""
        options = config.current().autograd
        return self.run(
            artifact,
            *given,
            off=self.chosen("autograd.disabled_passes", options.disabled_passes),
            shown=self.chosen("autograd.dump_passes", options.dump_passes),
            verify=(verify or _VERIFY.get()) if options.verify_passes else None,
        )

    def run(
        self,
        artifact: Any,
        *given: Any,
        off: Collection[str] = (),
        shown: Collection[str] = (),
        verify: Verify | None = None,
    ) -> Any:
        """Run all passes on `artifact`, except those that are `off`. The results of those `shown` are printed to
        stderr."""
        if needed := sorted({p.name for p in self.passes if p.needed} & {*off}):
            raise ValueError(
                f"pass {needed[0]} of {self.stage} cannot be switched off: later steps need its result"
            )
        for step in self.passes:
            if step.name in off:
                continue
            before = _as_it_is(artifact) if verify else artifact
            with self.timed(step.name):
                made = step.run(artifact, *given)
            artifact = artifact if made is None else made
            if verify:
                _check(step.name, before, artifact, verify)
            keep(f"{self.stage}.{step.name}", step.summary, artifact)
            if step.name in shown:
                print(f"# ---- after {step.name}: {step.summary}\n{artifact}", file=sys.stderr)
        return artifact


def _as_it_is(artifact: Any) -> Any:
    """A copy of an artifact that a pass may change; a frozen artifact itself."""
    return artifact.copy() if hasattr(artifact, "copy") else artifact


def _check(name: str, before: Any, after: Any, verify: Verify) -> None:
    """Check the result of a pass against the rules of its kind, then against the input of the pass. A GraphError names
    the pass."""
    try:
        after.verify()
    except GraphError as error:
        raise GraphError(f"pass {name} made a {type(after).__name__} that is not valid: {error}") from error
    verify(name, before, after)


_VERIFY: ContextVar[Verify | None] = ContextVar("how passes are verified", default=None)


@contextmanager
def verifying(verify: Verify) -> Iterator[None]:
    """While the block runs, `verify` checks the passes of stages without an interpreter."""
    token = _VERIFY.set(verify)
    try:
        yield
    finally:
        _VERIFY.reset(token)


# ---- what each pass made --------------------------------------------------------------------------------------


_NAMES_SHOWN = 6


@dataclass(frozen=True)
class PassResult:
    """The result of one pass. It prints as the artifact."""

    name: str
    summary: str
    artifact: Any

    def __str__(self) -> str:
        return str(self.artifact)

    @property
    def kind(self) -> str:
        """Two results of the same kind can be compared. The kind is the artifact's type; for text (C++, guards) it is
            the
        step."""
        if isinstance(self.artifact, str):
            return f"text of {self.name.removesuffix('.forward').removesuffix('.backward')}"
        return type(self.artifact).__name__


class PassResults(tuple[PassResult, ...]):
    """The results in order. Read one by its name or its number; `print` lists the names."""

    def __getitem__(self, which: Any) -> Any:
        if not isinstance(which, str):
            return super().__getitem__(which)
        found = [r for r in self if r.name == which] or [r for r in self if f".{which}." in f".{r.name}."]
        if not found:
            raise KeyError(f"there is no pass {which!r}; expected one of {', '.join(r.name for r in self)}")
        return found[0]  # the results of subgraphs, and of the backward, come later

    def __str__(self) -> str:
        width = max((len(r.name) for r in self), default=0)
        return "\n".join(f"{r.name:{width}}  {r.summary}" for r in self)

    def diff(self, before: str | int, after: str | int) -> str:
        """The changes from the result of `before` to the result of `after`, as a unified diff of the two texts.

        Raises ValueError for results of different kinds (a graph and a program), whose texts have nothing in common.
        """
        old, new = self[before], self[after]
        if old.kind != new.kind:
            like = [r.name for r in self if r.kind == old.kind and r is not old]
            more = ", ..." if len(like) > _NAMES_SHOWN else ""
            raise ValueError(
                f"{old.name} made a {old.kind}, {new.name} a {new.kind}: they cannot be compared; "
                f"compare {old.name} with {', '.join(like[:_NAMES_SHOWN]) or 'nothing else'}{more}"
            )
        return diff(old, new)


def diff(before: PassResult, after: PassResult) -> str:
    """A unified diff of two results; "" if they are the same."""
    old, new = str(before).splitlines(), str(after).splitlines()
    return "\n".join(difflib.unified_diff(old, new, before.name, after.name, lineterm=""))


_KEPT: ContextVar[list[PassResult] | None] = ContextVar("kept passes", default=None)


@contextmanager
def keeping() -> Iterator[list[PassResult]]:
    """A list of the results of all passes that run in the block. An ordinary compile does not keep them, because it
    would have to copy every graph."""
    results: list[PassResult] = []
    token = _KEPT.set(results)
    try:
        yield results
    finally:
        _KEPT.reset(token)


def keep(name: str, summary: str, artifact: Any) -> None:
    """Keep a copy of a pass's result, if a block of `keeping` is active."""
    keep_made(name, summary, lambda: artifact)


def keep_made(name: str, summary: str, make: Callable[[], Any]) -> None:
    """The same for a result that is made only to be kept, such as the state after one round of a pass."""
    results = _KEPT.get()
    if results is not None:
        results.append(PassResult(name, summary, _as_it_is(make())))
