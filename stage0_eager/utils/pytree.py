"""Takes nested containers of tensors apart and rebuilds them: the arguments and results of functions for cond or scan.

Input: tuples, named tuples, lists and dicts, nested in any way; everything else is a leaf. Dicts keep the order of
their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any


def leaves_of(tree: Any) -> list[Any]:
    """The leaves, left to right."""
    return list(_leaves(tree))


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _leaves(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from _leaves(item)
    else:
        yield tree


def rebuilt(tree: Any, leaves: Sequence[Any]) -> Any:
    """A tree of the form of `tree` with other leaves, as many as it has."""
    items = iter(leaves)
    return mapped(lambda _: next(items), tree)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """A tree of the form of `tree` with `function` applied to each leaf, left to right."""
    if isinstance(tree, tuple) and hasattr(tree, "_make"):
        return tree._make(mapped(function, item) for item in tree)
    if isinstance(tree, (tuple, list)):
        return type(tree)(mapped(function, item) for item in tree)
    if isinstance(tree, dict):
        return type(tree)((key, mapped(function, item)) for key, item in tree.items())
    return function(tree)


def form_of(tree: Any) -> Any:
    """Equal for two trees exactly when they nest alike: the tree with None for each leaf."""
    if isinstance(tree, (tuple, list)):
        return (type(tree), *map(form_of, tree))
    if isinstance(tree, dict):
        return (type(tree), *((key, form_of(item)) for key, item in tree.items()))
    return None
