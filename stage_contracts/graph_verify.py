"""Checks a graph: the order of its nodes, the links between them and, on request, each node against its meta rule.

Input: `Graph.verify()`, after every pass. The second part runs each operator's meta rule again, so it is off unless
`config.autograd.verify_passes` or the tests switch it on.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stage_contracts import config
from stage_contracts.breaks import Unsupported
from stage_contracts.node import OPS, GraphError, Node, map_args, reads_of
from stage_contracts.node_meta import META_KEYS
from stage_contracts.symbolic import DataDependentError, ShapeEnv, SymInt, hinted
from stage_contracts.tensor_meta import TensorMeta

if TYPE_CHECKING:
    from stage_contracts.graph import Graph

ALWAYS_CHECK_METAS = False  # conftest.py sets it for the tests


def checks_metas() -> bool:
    """Whether verify() also checks the `meta` of each node."""
    return ALWAYS_CHECK_METAS or config.current().autograd.verify_passes


def verify_graph(graph: Graph, allowed: Callable[[Any], bool] | None = None) -> None:
    """Raise GraphError, with the node's name, if a rule of graphs is broken. `allowed(target)`: whether this graph may
    call the target."""
    nodes = graph.nodes
    if not nodes or nodes[-1].op != "output":
        raise GraphError(f"graph {graph.name!r} does not end in an output node")
    reads: dict[Node, dict[Node, None]] = {}  # of the nodes before, what each reads
    names: set[str] = set()
    body_started = False
    for node in nodes:
        if node.name in names:
            raise GraphError(f"two nodes are named {node.name!r}")
        if node.op == "placeholder" and body_started:
            raise GraphError(f"placeholder {node.name} comes after a computation")
        if node.op == "output" and node is not nodes[-1]:
            raise GraphError("an output node must be the last one")
        _verify_target(graph, node, allowed)
        reads[node] = _verify_reads(node, reads)
        body_started |= node.op != "placeholder"
        names.add(node.name)
    _verify_users(reads)
    if checks_metas():
        for node in nodes:
            verify_keys(node)
            verify_val(node)


def _verify_target(graph: Graph, node: Node, allowed: Callable[[Any], bool] | None) -> None:
    """Check that the node's op exists, and that its target is an attribute of the graph, or an operator that is
    allowed."""
    if node.op not in OPS:
        raise GraphError(f"{node.name}: unknown op {node.op!r}; expected one of {OPS}")
    if node.op == "get_attr":
        if node.target not in graph.attributes:
            raise GraphError(f"{node.name}: no attribute {node.target!r} in the graph")
        if hasattr(graph.attributes[node.target], "graph"):  # a subgraph
            verify_graph(graph.attributes[node.target].graph, allowed)
    if node.op == "call_function" and allowed is not None and not allowed(node.target):
        raise GraphError(f"{node.name}: {node.target!r} is not allowed in this graph")


def _verify_reads(node: Node, before: Collection[Node]) -> dict[Node, None]:
    """The values that the node reads. Check that they are computed before it, and that it is among their `users`."""
    read = reads_of(node.args, node.kwargs)
    for used in read:
        if used not in before:
            raise GraphError(f"{node.name} reads {used.name}, which is not computed before it")
        if node not in used.users:
            raise GraphError(
                f"{used.name}.users lacks {node.name}, which reads it: edit nodes through the graph's methods only"
            )
    return read


def _verify_users(reads: Mapping[Node, dict[Node, None]]) -> None:
    """Check that `users` lists readers only."""
    for node in reads:
        for user in node.users:
            read = reads.get(user)
            if node not in (user.all_input_nodes if read is None else read):
                raise GraphError(f"{node.name}.users has {user.name}, which does not read it")


# ---- what a node says of itself ----------------------------------------------------------------------------


def verify_keys(node: Node) -> None:
    """Check that node_meta.py declares each key of the node's meta, for such a node and with a value of this type."""
    for key, value in node.meta.items():
        row = META_KEYS.get(key)
        if row is None and "." not in key:
            raise GraphError(
                f"{node.name}.meta has the key {key!r}, which node_meta.META_KEYS does not declare; "
                "add a row there, or name it 'your_package.key'"
            )
        if row is not None and (node.op not in row.ops or not row.holds(value)):
            expected = f"on {' or '.join(row.ops)}: {row.meaning}"
            raise GraphError(f"{node.name}.meta[{key!r}] is {value!r} on a {node.op}; expected {expected}")


def verify_val(node: Node) -> None:
    """Check that a call's val is what its operator's meta rule returns for its arguments. unchecked() has the
    exceptions."""
    if unchecked(node):
        return
    try:
        promised = promised_val(node)
    except (Unsupported, DataDependentError):
        return  # it depends on the data
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise GraphError(f"{node.name}: {node.target!r} does not take these arguments: {error}") from error
    if not _agree(node.val, promised) and not _was_promised(node):
        raise GraphError(
            f"{node.name}.val is {_words(node.val)}, but the meta rule of {node.target!r} gives {_words(promised)}; "
            "the pass that created this node, or changed its arguments, has to update val"
        )


def _was_promised(node: Node) -> bool:
    """Whether the rule returned this val earlier, when less was known of the open sizes. Such a val is still right: a
    size that was found to be 1 later would only give another layout."""
    args, kwargs = map_args((node.args, node.kwargs), lambda n: n.val)
    for env in {id(env): env for n in (node, *node.all_input_nodes) for env in envs_of(n.val)}.values():
        with assuming_nothing([env]):
            for _ in env.knowing_less():
                try:
                    if _agree(node.val, node.target.meta(*args, **kwargs)):
                        return True
                # the rule needs a fact that was found only later
                except (RuntimeError, TypeError, ValueError, IndexError):
                    continue
    return False


def unchecked(node: Node) -> str:
    """Why the val of a node is not checked against a rule; "" if it is checked."""
    if node.op != "call_function":
        return "nothing computes it"
    if any(n.val is None for n in node.all_input_nodes):
        return "it reads a subgraph, or an input without a val"
    if node.target is operator.getitem:
        return ""
    if getattr(node.target, "meta", None) is None:
        return "a Python function, which has no rule"
    if getattr(node.target, "name", "") == "autograd_grad":
        return "a gradient: its rule is the tape's, which needs the graph and not only the arguments"
    if getattr(node.target, "opaque", False):
        return "an opaque operator: its rule is the user's own, or runs a subgraph"
    return ""


def promised_val(node: Node) -> Any:
    """The val that the rule returns."""
    if node.target is operator.getitem:
        return node.args[0].val[node.args[1]]
    args, kwargs = map_args((node.args, node.kwargs), lambda n: n.val)
    if envs := {id(env): env for n in (node, *node.all_input_nodes) for env in envs_of(n.val)}:
        with assuming_nothing(list(envs.values())):
            return node.target.meta(*args, **kwargs)
    return node.target.meta(*args, **kwargs)


def _agree(val: Any, promised: Any) -> bool:
    """Whether two vals describe the same value. Open sizes are compared at their hints.

    requires_grad is not compared, nor are the strides of dimensions of size 1, which no index uses."""
    if isinstance(promised, (tuple, list)):
        return (
            isinstance(val, (tuple, list)) and len(val) == len(promised) and all(map(_agree, val, promised))
        )
    if not (isinstance(promised, TensorMeta) and isinstance(val, TensorMeta)):
        return isinstance(promised, TensorMeta) == isinstance(val, TensorMeta)
    if (val.dtype, val.device, val.ndim) != (promised.dtype, promised.device, promised.ndim):
        return False
    if any(hinted(a) != hinted(b) for a, b in zip(val.shape, promised.shape, strict=True)):
        return False
    if any(hinted(size) == 0 for size in val.shape):
        return True
    pairs = zip(val.shape, val.strides, promised.strides, strict=True)
    return all(hinted(size) == 1 or hinted(a) == hinted(b) for size, a, b in pairs)


def _words(val: Any) -> str:
    return f"({', '.join(map(str, val))})" if isinstance(val, (tuple, list)) else str(val)


@contextmanager
def assuming_nothing(envs: list[ShapeEnv]) -> Iterator[None]:
    """After the block, forget what a rule assumed about open sizes: compiled code must not depend on a check."""
    before = [{name: _copied(value) for name, value in vars(env).items()} for env in envs]
    try:
        yield
    finally:
        for env, state in zip(envs, before, strict=True):
            vars(env).update(state)


def envs_of(val: Any) -> Iterator[ShapeEnv]:
    """The environments of the open sizes that a value has."""
    for each in val if isinstance(val, (tuple, list)) else (val,):
        sizes = (*each.shape, *each.strides) if isinstance(each, TensorMeta) else (each,)
        yield from (size.env for size in sizes if isinstance(size, SymInt))


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, (dict, list, set)) else value
