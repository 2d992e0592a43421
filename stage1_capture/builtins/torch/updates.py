"""An optimizer's update of one tensor is followed once; for each parameter that is alike its nodes are written again.

Input: calls of the update functions of stage 0's optimizers (`adam_update`), which are pure functions of tensors and
numbers. A network has hundreds of parameters in a few shapes. Following one takes ten times as long as writing the
nodes that it came to. The graph and the guards are those that following each of them makes.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from stage0_eager import is_grad_enabled
from stage0_eager.optim import adaptive, further, optimizer
from stage0_eager.state import modes
from stage0_eager.tensor import UNTRACKED
from stage1_capture.state.graph_builder import OutputGraph, is_users
from stage1_capture.state.machine import CALLED_BY_CODE, Args, Kwargs, Tx
from stage1_capture.variables.base import Variable
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.number import NumberVariable, text_of
from stage1_capture.variables.sequence import TupleVariable
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts.events import EVENT_LOG
from stage_contracts.graph import Node, map_args
from stage_contracts.tensor_meta import TensorMeta

UPDATES = {
    function
    for module in (optimizer, adaptive, further)
    for name, function in vars(module).items()
    if name.endswith("_update") and isinstance(function, types.FunctionType)
}
_PLAIN = (int, float, bool, str, type(None))


@dataclass(frozen=True)
class Recipe:
    """What a call came to: its nodes in order; what they read from elsewhere, in order, each with the argument that it
    is, or None for a number that is an input of the graph, the same for all; its result, its instructions."""

    nodes: tuple[Node, ...]
    read: dict[Node, int | None]
    result: _Make
    steps: int


# A value from the call's arguments and the nodes that were written again.
_Make = Callable[[Args, Callable[[Node], Variable]], Variable]


class _Differs(Exception):
    """The call did what a recipe cannot say. An internal signal: the next such call is followed, too."""


def _update(tx: Tx, function: Any, args: Args, kwargs: Kwargs) -> Variable:
    output = tx.output
    key = None if kwargs or function.real not in UPDATES else _question(output, function.real, args)
    if key is None:
        return tx.inline(function, args, kwargs)
    recipe = output.recipes.get(key)
    if recipe is not None:
        return _written_again(output, recipe, args)
    last, steps = output.graph.nodes[-1], output.steps
    before = _done(output)
    result = tx.inline(function, args, kwargs)
    if _done(output) == before:  # it relied on nothing outside, and wrote to nothing
        try:
            output.recipes[key] = _recipe(output, last, args, result, output.steps - steps)
        except _Differs:
            pass
    return result


for _function in UPDATES:
    CALLED_BY_CODE[_function.__code__] = _update


def _question(output: OutputGraph, function: Any, args: Args) -> tuple | None:
    """All that decides which nodes the call comes to. None where more does than can be said."""
    special = (
        output.taken is not None
        or output.grad_enabled is not output.graph_mode
        or not output.graph.has_calls  # the first call decides about the graph's grad mode
        or output.modes["autocast"]
        or output.modes["inference"]
        or output.inference
        or output.sizes.deferred
        or EVENT_LOG.tracing  # each instruction is told
    )
    if special:
        return None
    try:
        words = tuple([_said(value, args) for value in args])
    except _Differs:
        return None
    return function, is_grad_enabled(), modes(), _by_user(output), words


def _said(value: Variable, args: Args) -> tuple:
    kind = type(value)
    if kind is TensorVariable and value.meta.is_known:
        outside = value.real is not None
        if outside and value.real._version is UNTRACKED:
            raise _Differs
        first = next(i for i, other in enumerate(args) if _is_same(value, other))
        return "tensor", value.meta, outside, first
    if kind is NumberVariable and value.sym is None:
        return "number", type(value.hint), text_of(value)
    if kind is ConstantVariable and type(value.value) in _PLAIN:
        return "constant", type(value.value), repr(value.value)  # 0.0 and -0.0 are equal
    raise _Differs


def _is_same(value: Variable, other: Variable) -> bool:
    one_node = type(other) is TensorVariable and value.node is not None and value.node is other.node
    return value is other or one_node


def _by_user(output: OutputGraph) -> bool:
    """Whether nodes are of a line of the user's, under way; else each is of its own line of the library's."""
    return any(is_users(frame.function.globals) for frame in output.frames)


def _done(output: OutputGraph) -> tuple:
    return output.relied, len(output.written), len(output.mutated), output.graph


def _recipe(output: OutputGraph, last: Node, args: Args, result: Variable, steps: int) -> Recipe:
    nodes = output.graph.nodes
    made = nodes[nodes.index(last) + 1 :]
    given = {a.node: i for i, a in reversed([*enumerate(args)]) if type(a) is TensorVariable and a.node}
    scalars = {scalar.node for scalar in output.scalars.values()}  # of numbers that the question names
    inside = {*made, *given, *scalars}
    for node in made:
        known = isinstance(node.val, TensorMeta) and node.val.is_known
        if node.op != "call_function" or not known or not inside.issuperset(node.all_input_nodes):
            raise _Differs
    if scalars & given.keys():
        raise _Differs  # a number, or the argument that is it? The next call may have another
    own = set(made)
    read = {n: given.get(n) for node in made for n in node.all_input_nodes if n not in own}
    return Recipe(made, read, _maker(result, args, own), steps)


def _maker(result: Variable, args: Args, made: set[Node]) -> _Make:
    """How the result is made of the arguments and nodes of another call."""
    for i, value in enumerate(args):
        if result is value:
            return lambda args, image, i=i: args[i]  # type: ignore[misc]
    if type(result) is TensorVariable and result.real is None and result.node in made and not result.attrs:
        return lambda args, image, node=result.node: image(node)  # type: ignore[misc]
    if type(result) is ConstantVariable and type(result.value) in _PLAIN and result.source is None:
        return lambda args, image: result
    if type(result) is TupleVariable and result.kind is tuple and result.source is None:
        items = [_maker(item, args, made) for item in result.items]
        return lambda args, image: TupleVariable([make(args, image) for make in items])
    raise _Differs


def _written_again(output: OutputGraph, recipe: Recipe, args: Args) -> Variable:
    output.steps += recipe.steps - 1
    output.count_step()
    origins = (output.origin(),) if _by_user(output) else None
    call_again = output.graph.call_again
    given = cast(list[TensorVariable], args)
    images = {node: node if at is None else output.node_of(given[at]) for node, at in recipe.read.items()}
    values: dict[Node, Variable] = {}

    def value(node: Node) -> Variable:
        return values.setdefault(node, TensorVariable(node.val, images[node]))

    image = images.__getitem__
    for node in recipe.nodes:
        operands = [images[a] if type(a) is Node else map_args(a, image) for a in node.args]
        where = node.origins if origins is None else origins
        images[node] = call_again(node, operands, map_args(node.kwargs, image), where)
    return recipe.result(args, value)
