"""The keys of `node.meta`: what each means, which nodes have it, and its type. Every key is declared here.

Input: passes and capture write them. A key from outside Cutaway has a dot in it ("mypackage.cost") and is not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stage_contracts.origin import Origin
from stage_contracts.source import Source

ANY = ("placeholder", "get_attr", "call_function", "output")
COMPUTED = ("call_function", "get_attr")


@dataclass(frozen=True)
class MetaKey:
    """One key. `reads`: the function that reads the value back from the text of a graph; None if it does not print."""

    meaning: str
    ops: tuple[str, ...]
    holds: Callable[[Any], bool]
    reads: Callable[[str], Any] | None = None


def _one_of(*values: Any) -> Callable[[Any], bool]:
    return lambda value: value in values


def _origins(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(o, Origin) for o in value)


# In the order in which the keys print.
META_KEYS: dict[str, MetaKey] = {
    "val": MetaKey("what the node yields: a TensorMeta, a tuple of them, or a SymInt, SymFloat, SymBool", ANY,
                   lambda value: True),
    "origins": MetaKey("the user's expressions it came from", ANY, _origins),
    "region": MetaKey("which half of a joint graph it belongs to", COMPUTED, _one_of("forward", "backward"), str),
    "role": MetaKey("what an input is", ("placeholder",), _one_of("primal", "tangent", "rng", "saved"), str),
    "checkpoint": MetaKey("the call of utils.checkpoint it is inside of: its values are computed again", COMPUTED,
                          lambda value: isinstance(value, int), int),
    "pattern": MetaKey("the pattern it is part of: attention_0, linear_3", COMPUTED,
                       lambda value: isinstance(value, str)),
    "no_grad": MetaKey("computed under no_grad: no gradient flows through it", COMPUTED,
                       lambda value: isinstance(value, bool)),
    "writes_silently": MetaKey("a write under no_grad, in a graph that has gradients on", COMPUTED, _one_of(True)),
    "stands_for_no_grad": MetaKey("a detach that capture put in for no_grad: the program has no such call", COMPUTED,
                                  _one_of(True)),
    "recomputed": MetaKey("a forward value that the backward computes again", COMPUTED, _one_of(True)),
    "source": MetaKey("how an input is reached from the call's arguments", ("placeholder",),
                      lambda value: isinstance(value, Source)),
}  # fmt: skip

PRINTED = {key: row.reads for key, row in META_KEYS.items() if row.reads is not None}


def input_marks(node: Any) -> dict[str, Any]:
    """The part of a node's meta that a placeholder may have: for a graph in which the node's value is an input."""
    return {k: v for k, v in node.meta.items() if k not in META_KEYS or "placeholder" in META_KEYS[k].ops}
