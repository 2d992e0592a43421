"""torch.utils._pytree: nested containers as a list of leaves and a TreeSpec, with classes that a library registers.

Input: any Python objects. A registered class says how it becomes a list of children and a context, and how it comes
back. Tuples, lists, dicts, named tuples, OrderedDicts, defaultdicts and deques are known from the start.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Flatten = Callable[[Any], tuple[Iterable[Any], Any]]


class NodeDef(NamedTuple):
    flatten: Flatten
    unflatten: Callable[[Any, Any], Any]  # (children, context) -> the object


@dataclass(frozen=True)
class TreeSpec:
    """The form of a tree: the class of its root, what the class needs to come back, and the forms of its children.
    A leaf has the class None, a named tuple NamedTuple and its own class as context."""

    type: Any = None
    context: Any = None
    children_specs: list[TreeSpec] = field(default_factory=list)

    @property
    def num_leaves(self) -> int:
        return 1 if self.is_leaf() else sum(c.num_leaves for c in self.children_specs)

    def is_leaf(self) -> bool:
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        return tree_unflatten(leaves, self)


LeafSpec = TreeSpec


def _dict_flatten(d: dict) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: dict) -> tuple[list[tuple[Any, Any]], Any]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


class MappingKey(NamedTuple):
    """Where a leaf is in a dict."""

    key: Any


class SequenceKey(NamedTuple):
    """Where a leaf is in a list or tuple."""

    idx: int


NODES: dict[type, NodeDef] = {
    tuple: NodeDef(lambda t: (list(t), None), lambda children, _: tuple(children)),
    list: NodeDef(lambda t: (t, None), lambda children, _: list(children)),
    dict: NodeDef(_dict_flatten, lambda children, keys: dict(zip(keys, children, strict=True))),
    OrderedDict: NodeDef(_dict_flatten, lambda children, keys: OrderedDict(zip(keys, children, strict=True))),
    deque: NodeDef(lambda t: (list(t), t.maxlen), lambda children, maxlen: deque(children, maxlen)),
    defaultdict: NodeDef(
        lambda d: (list(d.values()), (d.default_factory, list(d))),
        lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
    ),
}
_NAMED = NodeDef(lambda t: (list(t), type(t)), lambda children, kind: kind(*children))


def register_pytree_node(
    cls: type, flatten_fn: Flatten, unflatten_fn: Callable[[Any, Any], Any], **options: Any
) -> None:
    """Make objects of `cls` inner nodes of trees. The further options are for saving specs, and unused here.

    Raises ValueError for a class that is registered already.
    """
    if cls in NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    NODES[cls] = NodeDef(flatten_fn, unflatten_fn)


def _node(tree: Any) -> NodeDef | None:
    found = NODES.get(type(tree))
    if found is None and isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return _NAMED
    return found


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, left to right, and the form. `is_leaf`: where to stop earlier."""
    node = None if is_leaf is not None and is_leaf(tree) else _node(tree)
    if node is None:
        return [tree], TreeSpec()
    children, context = node.flatten(tree)
    leaves: list[Any] = []
    specs = []
    for child in children:
        found, spec = tree_flatten(child, is_leaf)
        leaves += found
        specs.append(spec)
    return leaves, TreeSpec(NamedTuple if node is _NAMED else type(tree), context, specs)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of a form with these leaves. Raises ValueError if there are more or fewer than it has."""
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
            f"holds {treespec.num_leaves} items"
        )
    return _made(iter(leaves), treespec)


def _made(leaves: Any, spec: TreeSpec) -> Any:
    if spec.is_leaf():
        return next(leaves)
    node = _NAMED if spec.type is NamedTuple else NODES[spec.type]
    return node.unflatten([_made(leaves, child) for child in spec.children_specs], spec.context)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    return tree_flatten(tree, is_leaf)[1]


def tree_iter(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    return iter(tree_leaves(tree, is_leaf))


def tree_map(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """The tree of func's results on each leaf, and on the leaves at the same places of further trees."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(tree_leaves(rest, is_leaf) for rest in rests)]
    return tree_unflatten([func(*row) for row in zip(*columns, strict=True)], spec)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any) -> Any:
    """The same for what func does to each leaf; gives back `tree`."""
    tree_map(func, tree, *rests)
    return tree


def tree_map_only(kinds: Any, func: Callable[[Any], Any], tree: Any) -> Any:
    """func on the leaves of these types only."""
    return tree_map(lambda leaf: func(leaf) if isinstance(leaf, kinds) else leaf, tree)


def tree_any(pred: Callable[[Any], bool], tree: Any) -> bool:
    return any(map(pred, tree_leaves(tree)))


def tree_all(pred: Callable[[Any], bool], tree: Any) -> bool:
    return all(map(pred, tree_leaves(tree)))


_NAMES = (
    "LeafSpec MappingKey SequenceKey TreeSpec _dict_flatten _dict_flatten_with_keys register_pytree_node tree_all "
    "tree_any tree_flatten tree_iter tree_leaves tree_map tree_map_ tree_map_only tree_structure tree_unflatten"
)
PATHS = {"torch.utils._pytree": {name: globals()[name] for name in _NAMES.split()}}
