"""What lab 4 asks of a partition: halves that fit, eager's gradients, each value saved once and none for nothing.

Input: the learner's `partition`, used in the real compiler. The joint graphs are those that the compiler makes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cutaway
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.graph import GraphError
from stage_contracts.joint import JointGraph, Partition

from .. import programs
from ..answer import Answer
from ..checks import Wrong
from ..hidden import hidden_check
from ..programs import Program


def cut(answer: Answer, program: Program) -> tuple[JointGraph, Partition]:
    """The joint graph of a program, and the learner's partition of it."""
    seen: list[tuple[JointGraph, Partition]] = []

    def partition(joint: JointGraph) -> Partition:
        part = answer.partition(joint)
        seen.append((joint, part))
        return part

    result = programs.compiled_with(program, partition=partition)(*program.tensors())
    assert result is not None
    if len(seen) != 1:
        raise Wrong(f"partition ran {len(seen)} times for {program.function.__name__}", "once")
    return seen[0]


def kind(node: Any) -> str:
    """The kind of the core operator that a node calls: "view", "pointwise", ...; "" for an input."""
    row = CORE_OPS.get(getattr(node.target, "name", ""))
    return row.kind if row else ""


def named(joint: JointGraph) -> dict[str, Any]:
    return {node.name: node for node in joint.graph.nodes}


def joint_of(program: Program) -> JointGraph:
    """The joint graph of a program, made without the learner's function."""
    seen: list[JointGraph] = []

    def look(joint: JointGraph) -> Partition:
        seen.append(joint)
        return cutaway.DEFAULT_PIPELINE.partition(joint)

    programs.compiled_with(program, partition=look)(*program.tensors())
    return seen[0]


def reads_are_found(answer: Answer) -> None:
    """`read_by_backward` finds each forward value and each primal that a backward node reads or that is a gradient."""
    kinds = (programs.PRODUCT, programs.NETWORK, programs.CHAIN, programs.TWICE)
    joints = {program.function.__name__: joint_of(program) for program in kinds}
    joints["a graph whose gradient is its result"] = with_its_result_as_gradient(joints["product"])
    for name, joint in joints.items():
        tangents = joint.graph.placeholders[joint.num_primals :]
        backward = [n for n in joint.graph.calls if n.meta["region"] == "backward"]
        used = {n for b in backward for n in b.all_input_nodes} | set(
            joint.graph.outputs[joint.num_outputs :]
        )
        wanted = [n.name for n in joint.graph.nodes if n in used and n not in backward and n not in tangents]
        got = [n.name for n in answer.read_by_backward(joint)]
        if got != wanted:
            raise Wrong(f"for {name} you found {got}", f"{wanted}, in the graph's order",
                        difference(got, wanted), "page.md#what-the-backward-reads")  # fmt: skip


def with_its_result_as_gradient(joint: JointGraph) -> JointGraph:
    """The same graph, in which the gradient of the first input is the first result."""
    graph = joint.graph.copy()
    outputs = list(graph.outputs)
    outputs[joint.num_outputs] = outputs[0]
    graph.set_args(graph.output_node, (tuple(outputs),))
    return replace(joint, graph=graph)


def difference(got: list[str], wanted: list[str]) -> str:
    """Which names are missing, and which are too many."""
    missing, extra = [n for n in wanted if n not in got], [n for n in got if n not in wanted]
    said = [f"missing: {', '.join(missing)}"] * bool(missing) + [f"too many: {', '.join(extra)}"] * bool(
        extra
    )
    return "; ".join(said) or "the order, or one is there twice"


def parts_are_copied(answer: Answer) -> None:
    """`extract` copies what the outputs need, under the same names, and leaves the rest behind."""
    joint = joint_of(programs.NETWORK)
    graph = joint.graph
    primals, output = graph.placeholders[: joint.num_primals], graph.outputs[0]
    part = answer.extract(graph, "forward", primals, (output,)).verify()
    needed, stack = set(), [output]
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack += node.all_input_nodes
    wanted = [n.name for n in graph.nodes if n in needed and n.op != "placeholder"]
    got = [n.name for n in part.nodes if n.op in ("call_function", "get_attr")]
    if got != wanted:
        raise Wrong(f"the copy has {got}", f"{wanted}", difference(got, wanted), "page.md#the-two-halves")
    if [n.name for n in part.placeholders] != [n.name for n in primals]:
        raise Wrong(f"the copy takes {[n.name for n in part.placeholders]}", f"{[n.name for n in primals]}: every "
                    "input that it was given, in order", read="page.md#the-two-halves")  # fmt: skip


def halves_fit(answer: Answer) -> None:
    """The forward returns the outputs and then the saved values; the backward takes these and then the tangents."""
    for program in (programs.PRODUCT, programs.NETWORK):
        joint, part = cut(answer, program)
        try:
            part.verify()
        except GraphError as error:
            raise Wrong(str(error), "two halves that fit", read="page.md#the-two-halves") from error
        primals = [n.name for n in joint.graph.placeholders[: joint.num_primals]]
        if (got := [n.name for n in part.forward.placeholders]) != primals:
            raise Wrong(f"the forward takes {got}", f"the primals {primals}", read="page.md#the-two-halves")
        roles = [n.meta.get("role") for n in part.backward.placeholders]
        tangents = len(joint.tangent_outputs)
        if roles != ["saved"] * len(part.saved) + ["tangent"] * tangents:
            raise Wrong(f"the backward's inputs have the roles {roles}",
                        f"{len(part.saved)} saved values, then {tangents} tangents",
                        read="page.md#the-two-halves")  # fmt: skip
        given = [n.name for n in part.forward.outputs[part.num_outputs :]]
        if given != [s.name for s in part.saved]:
            raise Wrong(f"after its results the forward returns {given}", f"{[s.name for s in part.saved]}",
                        "the order is not the same", "page.md#the-two-halves")  # fmt: skip


def gradients_are_eagers(answer: Answer) -> None:
    """Results and gradients are eager's: odd sizes, strided inputs, one tensor given twice, NaN, no elements."""
    for program in programs.ALL:
        compiled = programs.compiled_with(program, partition=answer.partition)
        programs.same_as_eager(program, compiled, read="page.md#the-two-halves")


def inputs_are_saved(answer: Answer) -> None:
    """An input that the backward reads is saved like any other value."""
    _, part = cut(answer, programs.PRODUCT)
    if {s.name for s in part.saved} != {"l_x_", "l_y_"} and len(part.saved) != 2:
        raise Wrong(f"x * y saves {[s.name for s in part.saved]}", "both x and y",
                    "the gradient of x is tangent * y, that of y is tangent * x",
                    "page.md#what-the-backward-reads")  # fmt: skip


def nothing_for_nothing(answer: Answer) -> None:
    """Nothing is saved that the backward does not read."""
    for program in (programs.NETWORK, programs.VIEWS, programs.CHAIN):
        _, part = cut(answer, program)
        idle = [n.name for n in part.backward.placeholders
                if n.meta.get("role") != "tangent" and not n.users and n not in part.backward.outputs]  # fmt: skip
        if idle:
            raise Wrong(f"{program.function.__name__} saves {', '.join(idle)}", "no value that no backward node reads",
                        f"{len(part.saved)} values are saved, {len(part.saved) - len(idle)} are read",
                        "page.md#what-the-backward-reads")  # fmt: skip


def views_are_made_again(answer: Answer) -> None:
    """A view or a constant is not saved but made again, which costs nothing; the base of the view is saved."""
    for program in (programs.VIEWS, programs.NETWORK, programs.CHAIN):
        joint, part = cut(answer, program)
        wrong = [s.name for s in part.saved if kind(named(joint)[s.name]) in ("view", "creation")]
        if wrong:
            node = named(joint)[wrong[0]]
            raise Wrong(f"{program.function.__name__} saves {', '.join(wrong)}",
                        "of a view, its base; of a constant, nothing",
                        f"{node.name} = {getattr(node.target, 'name', '?')}(...) is a {kind(node)}",
                        "page.md#views-and-constants")  # fmt: skip


def nothing_twice(answer: Answer) -> None:
    """No other forward value is computed a second time."""
    for program in (programs.NETWORK, programs.VIEWS, programs.CHAIN):
        _, part = cut(answer, program)
        forward = {n.name for n in part.forward.calls}
        again = [n.name for n in part.backward.calls
                 if n.name in forward and kind(n) not in ("view", "creation")]  # fmt: skip
        if again:
            raise Wrong(f"the backward of {program.function.__name__} computes {', '.join(again)} again",
                        "what the forward computed is saved", part.report(),
                        "page.md#what-the-backward-reads")  # fmt: skip


def saved_values_are_data(answer: Answer) -> None:
    """A saved value is data: its meta does not require grad. It is listed once, with a reason and its lines."""
    for program in (programs.NETWORK, programs.PRODUCT):
        joint, part = cut(answer, program)
        names = [s.name for s in part.saved]
        if double := sorted({n for n in names if names.count(n) > 1}):
            raise Wrong(
                f"{', '.join(double)} is saved more than once", "each value once", read="page.md#what-is-told"
            )
        for s in part.saved:
            metas = (s.meta, *(n.val for n in part.backward.placeholders if n.name == s.name))
            if any(meta.requires_grad for meta in metas):
                raise Wrong(f"the saved value {s.name} requires grad", "requires_grad=False, in SavedTensor and in "
                            "the backward's placeholder", read="page.md#what-is-told")  # fmt: skip
            if not s.reason or s.origins != named(joint)[s.name].origins:
                raise Wrong(f"{s.name} is saved with the reason {s.reason!r} and the lines {s.origins}",
                            "a reason, and the origins of its node", read="page.md#what-is-told")  # fmt: skip


def checkpoints_are_kept(answer: Answer) -> None:
    """No value inside a checkpoint is saved: the backward computes it again, because the user asked for that."""
    joint, part = cut(answer, programs.CHECKPOINTED)
    inside = [s.name for s in part.saved
              if (n := named(joint)[s.name]).op == "call_function" and "checkpoint" in n.meta
              and all(u.meta.get("checkpoint") == n.meta["checkpoint"]
                      for u in n.users if u.meta.get("region") == "forward")
              and n not in joint.graph.outputs]  # fmt: skip
    if inside:
        raise Wrong(f"{', '.join(inside)} is saved, and is inside a checkpoint", "it is computed again",
                    part.report(), "page.md#checkpoints")  # fmt: skip


def gated(x: Any, y: Any) -> Any:
    return (x * y.sigmoid()).exp().t() @ (x - y)


def normed(x: Any, w: Any) -> Any:
    return (x - x.mean(1, keepdim=True)) / (x.square().sum(1, keepdim=True) + 1).sqrt() * w


def what_is_saved(answer: Answer) -> Any:
    """The names and shapes of what is saved, for programs that no other check has; in any order."""
    found = []
    for function, arrays in (
        (gated, (programs.numbers(4, 3), programs.numbers(4, 3, seed=1))),
        (normed, (programs.numbers(5, 3), programs.numbers(3, seed=1))),
    ):
        _, part = cut(answer, Program(function, arrays, "hidden"))
        found.append(sorted((saved.name, saved.meta.shape) for saved in part.saved))
    return found


HIDDEN = {"what two more programs save": what_is_saved}


CHECKS = (
    reads_are_found,
    parts_are_copied,
    halves_fit,
    inputs_are_saved,
    nothing_for_nothing,
    views_are_made_again,
    nothing_twice,
    saved_values_are_data,
    checkpoints_are_kept,
    gradients_are_eagers,
    hidden_check(__file__, HIDDEN, "page.md#what-the-backward-reads"),
)
