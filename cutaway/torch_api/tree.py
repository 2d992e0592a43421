"""torch.utils._pytree: nested dicts, lists and tuples taken apart, mapped and put together.

Input: trees; everything that is no dict, list or tuple is a leaf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage0_eager.utils import pytree


class TreeSpec:
    """The form of a tree, from tree_flatten. Equal for trees that nest alike."""

    def __init__(self, tree: Any) -> None:
        self._tree, self.num_leaves = pytree.mapped(lambda _: None, tree), len(pytree.leaves_of(tree))

    def unflatten(self, leaves: Any) -> Any:
        """The tree of this form with these leaves."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(f"expected {self.num_leaves} leaves for this tree, but got {len(leaves)}")
        return pytree.rebuilt(self._tree, leaves)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, TreeSpec) and pytree.form_of(self._tree) == pytree.form_of(other._tree)

    def __hash__(self) -> int:
        return hash(self.num_leaves)

    def __repr__(self) -> str:
        return f"TreeSpec({pytree.mapped(lambda _: '*', self._tree)})"


def tree_flatten(tree: Any, is_leaf: Any = None) -> tuple[list[Any], TreeSpec]:
    """(leaves, TreeSpec)."""
    if is_leaf is not None:
        raise NotImplementedError("tree_flatten: is_leaf is not supported")
    return pytree.leaves_of(tree), TreeSpec(tree)


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any) -> Any:
    """A tree of this form with func(leaf, leaf of each other tree) as leaves."""
    if not rests:
        return pytree.mapped(func, tree)
    others = [pytree.leaves_of(rest) for rest in rests]
    return pytree.rebuilt(
        tree, [func(*leaves) for leaves in zip(pytree.leaves_of(tree), *others, strict=True)]
    )


def tree_map_only(kind: Any, func: Callable[..., Any], tree: Any) -> Any:
    """tree_map of the leaves of this class, or these classes; others stay."""
    return pytree.mapped(lambda leaf: func(leaf) if isinstance(leaf, kind) else leaf, tree)


PYTREE: dict[str, Any] = {
    "TreeSpec": TreeSpec, "PyTree": Any, "tree_flatten": tree_flatten, "tree_map": tree_map,
    "tree_map_only": tree_map_only, "tree_leaves": lambda tree, is_leaf=None: pytree.leaves_of(tree),
    "tree_unflatten": lambda leaves, treespec: treespec.unflatten(leaves),
    "tree_structure": lambda tree, is_leaf=None: TreeSpec(tree),
    "tree_all": lambda pred, tree: all(map(pred, pytree.leaves_of(tree))),
    "tree_any": lambda pred, tree: any(map(pred, pytree.leaves_of(tree))),
}  # fmt: skip
