"""fx.Node: one step of an fx.Graph. Its arguments can be assigned, and readers follow.

Input: fx.Graph.create_node. The fields are those of our Node (stage_contracts/node.py), with two kinds of nodes more:
`call_method` (the target is a method's name) and `call_module` (the target is a submodule's path).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cutaway.fx.naming import qualified_name, root, shown_name
from stage_contracts.dtype import DType
from stage_contracts.node import Node as BaseNode
from stage_contracts.node import map_args, nodes_in

if TYPE_CHECKING:
    from cutaway.fx.graph import Graph

OPS = ("placeholder", "get_attr", "call_function", "call_module", "call_method", "output")

Target = Callable[..., Any] | str
Argument = Any

_ARGS: Any = BaseNode.__dict__["args"]  # the slots of our Node, which stay the place where arguments are
_KWARGS: Any = BaseNode.__dict__["kwargs"]


class Node(BaseNode):
    """One step. `args` and `kwargs` can be assigned; `users` are the nodes that read it."""

    __slots__ = ("_after", "_erased", "type")

    graph: Graph

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: Any,
        kwargs: Any,
        return_type: Any = None,
    ) -> None:
        if op not in OPS:
            raise AssertionError(f"a node's op is one of {', '.join(OPS)}, but got {op!r}")
        if op == "call_function" and not callable(target):
            raise ValueError(f"the target of a call_function node must be callable, but got {target!r}")
        if op != "call_function" and not isinstance(target, str):
            raise ValueError(f"the target of a {op} node must be a str, but got {target!r}")
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.users: dict[Any, None] = {}
        self.meta: dict[str, Any] = {}
        self.type = return_type
        self._inputs: list[Any] = []
        self._erased = False
        self._after: Node | None = None  # of an erased node: what came after it
        self._assign(args, kwargs)

    # ---- its arguments -----------------------------------------------------------------------------------------

    @property
    def args(self) -> tuple:
        return _ARGS.__get__(self)

    @args.setter
    def args(self, args: Sequence[Any]) -> None:
        self._assign(args, self.kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        return _KWARGS.__get__(self)

    @kwargs.setter
    def kwargs(self, kwargs: Mapping[str, Any]) -> None:
        self._assign(self.args, kwargs)

    def _assign(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        for used in self._inputs:
            used.users.pop(self, None)
        args, kwargs = map_args((tuple(args), dict(kwargs)), lambda n: n)
        _ARGS.__set__(self, args)
        _KWARGS.__set__(self, kwargs)
        self._inputs = list(dict.fromkeys(nodes_in((args, kwargs))))
        for used in self._inputs:
            used.users[self] = None

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replace the positional argument `idx`."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Put `arg` before the positional argument `idx`. Raises AssertionError where there is no such place."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Read `new_input` wherever this node reads `old_input`."""
        self._map(lambda n: new_input if n is old_input else n)

    def _map(self, function: Callable[[Any], Any]) -> None:
        self._assign(*map_args((self.args, self.kwargs), function))

    def replace_all_uses_with(
        self, replace_with: Any, delete_user_cb: Callable[[Any], bool] = lambda user: True, *,
        propagate_meta: bool = False,
    ) -> list[Node]:  # fmt: skip
        """Make every reader for which delete_user_cb holds read `replace_with`. Returns those readers.

        propagate_meta: `replace_with`, which must have no meta of its own, gets this node's.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already "
                    "has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb(user)]
        for user in changed:
            user._map(lambda n: replace_with if n is self else n)
        return changed

    # ---- its place ---------------------------------------------------------------------------------------------

    @property
    def next(self) -> Node | None:
        """The node after this one; None for the last."""
        return self.graph.neighbour(self, 1)

    @property
    def prev(self) -> Node | None:
        """The node before this one; None for the first."""
        return self.graph.neighbour(self, -1)

    def prepend(self, x: Node) -> None:
        """Move `x`, a node of the same graph, to the place before this one."""
        self.graph.move(x, self, 0)

    def append(self, x: Node) -> None:
        """Move `x`, a node of the same graph, to the place after this one."""
        self.graph.move(x, self, 1)

    def __lt__(self, other: Node) -> bool:
        return self.graph.place(self) < self.graph.place(other)

    def __gt__(self, other: Node) -> bool:
        return other < self

    def __le__(self, other: Node) -> bool:
        return not other < self

    def __ge__(self, other: Node) -> bool:
        return not self < other

    __hash__ = object.__hash__

    # ---- what it is --------------------------------------------------------------------------------------------

    @property
    def stack_trace(self) -> str | None:
        """Where the program asked for it, as text, if that is known."""
        origins = "\n".join(origin.describe() for origin in self.origins)
        return self.meta.get("stack_trace") or origins or None

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it must stay though nothing reads it: inputs, outputs, in-place calls, assertions and submodules
        that write to themselves."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            assertion = getattr(self.target, "__name__", "") in ("_assert", "_assert_is_none", "setitem")
            return (
                assertion or bool(getattr(self.target, "mutates", ())) or _draws(self.target, impure_random)
            )
        if self.op == "call_method":
            return _in_place_name(str(self.target))
        if self.op == "call_module":
            owner = self.graph.owning_module
            return (
                bool(getattr(owner.get_submodule(self.target), "_is_impure", False))
                if owner is not None
                else True
            )
        return False

    def format_node(self, *unused: Any, **options: Any) -> str:
        """A line for people: `%y : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})`."""
        kind = (
            ""
            if self.type is None
            else f"{self.type if isinstance(self.type, str) else qualified_name(self.type)} "
        )
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={shown_name(self.target)}]"
        if self.op == "output":
            return f"return {self.args[0]}"
        if self.op == "placeholder":
            default = f"(default={self.args[0]})" if self.args else ""
            return head + default
        if self.op == "get_attr":
            return head
        return f"{head}(args = {formatted(self.args)}, kwargs = {formatted(self.kwargs)})"

    def _rename(self, candidate: str) -> None:
        self.graph.rename(self, candidate)

    def _pretty_print_target(self, target: Any) -> str:
        return shown_name(target)


def _draws(target: Any, counts: bool) -> bool:
    return counts and getattr(target, "__name__", "") in ("rand", "randn", "randint", "normal", "manual_seed")


def _in_place_name(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def formatted(tree: Any) -> str:
    """Arguments as text, a node as %name."""
    if isinstance(tree, BaseNode):
        return f"%{tree.name}"
    if isinstance(tree, tuple):
        return f"({', '.join(map(formatted, tree))}{',' * (len(tree) == 1)})"
    if isinstance(tree, list):
        return f"[{', '.join(map(formatted, tree))}]"
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{k}: {formatted(v)}" for k, v in tree.items()) + "}"
    return f"{root()}.{tree.name}" if isinstance(tree, DType) else str(tree)


def map_arg(a: Any, fn: Callable[[Any], Any]) -> Any:
    """A copy of nested tuples, lists, dicts and slices with `fn` of each Node."""
    return map_args(a, fn)


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """A copy of nested tuples, lists, dicts and slices with `fn` of each leaf, node or not."""
    if isinstance(a, tuple):
        parts = [map_aggregate(x, fn) for x in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return [map_aggregate(x, fn) for x in a]
    if isinstance(a, dict):
        return {k: map_aggregate(v, fn) for k, v in a.items()}
    if isinstance(a, slice):
        return slice(*(map_aggregate(x, fn) for x in (a.start, a.stop, a.step)))
    return fn(a)
