"""Decompose: the same graph in core operators only, cleaned up. The table in passes.py is the whole of it.

Input: any graph, before or after differentiation, and `config.autograd`: which passes are off, which are dumped, and
whether each is checked by interpreting the graph before and after it.
"""

from __future__ import annotations

import sys

from stage2_autograd.core_calls import is_core
from stage2_autograd.decompose.passes import PASSES, Pass
from stage2_autograd.subgraphs import within
from stage2_autograd.verify import verify_pass
from stage_contracts import config, events
from stage_contracts.graph import Graph


def decompose(graph: Graph) -> Graph:
    """`graph` in core operators; placeholders, outputs, origins and marks as they were.

    Raises ValueError when `config.autograd` names a pass that is none, or turns off one that is needed; GraphError,
    with `verify_passes`, naming the pass that changed what the graph computes.
    """
    options = config.current().autograd
    off, shown = _named("disabled_passes"), _named("dump_passes")
    if needed := sorted(off & {p.name for p in PASSES if p.needed}):
        raise ValueError(
            f"autograd.disabled_passes turns off {needed[0]}, without which there is no core graph"
        )
    graph = graph.copy()
    for step in PASSES:
        if step.name in off:
            continue
        with events.timed("pass", f"decompose.{step.name}"):
            graph = _run(step, graph, options.verify_passes)
        if step.name in shown:
            print(f"# ---- after {step.name}: {step.summary}\n{graph}", file=sys.stderr)
    return within(graph, decompose).verify(allowed=is_core)


def _run(step: Pass, graph: Graph, checked: bool) -> Graph:
    before = graph.copy() if checked else graph
    after = step.run(graph) or graph
    if checked:
        verify_pass(step.name, before, after.verify())
    return after


def _named(option: str) -> set[str]:
    """The passes that a comma-separated option names; "all" is all of them."""
    names = {p.name for p in PASSES}
    words = {w.strip() for w in getattr(config.current().autograd, option).split(",") if w.strip()}
    if unknown := sorted(words - names - {"all"}):
        raise ValueError(
            f"autograd.{option} names {unknown[0]!r}; expected some of {', '.join(sorted(names))}"
        )
    return names if "all" in words else words
