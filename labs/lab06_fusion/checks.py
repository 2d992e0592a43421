"""What lab 6 asks of fusion: the same values to the bit, loops that could really run, and fewer kernels.

Input: the learner's `fuse`, `merge` and `place`, on loop nests that the tiny `lower` makes.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from stage_contracts.loop_ir import ExternCall, Instr, LoopNest, Value
from stage_contracts.program import External, Launch, Program

from ..answer import Answer
from ..checks import Wrong
from ..core_programs import PROGRAMS, lowered, same_values, verified
from ..hidden import hidden_check

MERGING, ORDER, WORTH = "page.md#two-bodies-in-one", "page.md#what-runs-between", "page.md#what-it-is-worth"
# How many kernels there need be at most: what joining equal loops greedily gives.
KERNELS = {
    "sin_cos": 1,
    "diamond": 1,
    "broadcast": 1,
    "chain": 1,
    "sum_of_squares": 1,
    "mean_then_exp": 1,
    "matmul_then_relu": 1,
    "softmax": 3,
    "layer_norm": 3,
}


def nests(name: str) -> list[Any]:
    return list(lowered(name).nodes)


def fused(answer: Answer, name: str) -> Program:
    return verified(answer.fuse(lowered(name)), name, ORDER)


def two_nests_become_one(answer: Answer) -> None:
    """`merge` puts two bodies in one nest: a load of what the body already has becomes that value."""
    for name, wanted in {
        "sin_cos": ["load", "cos", "store", "sin", "store"],
        "diamond": ["load", "sin", "store", "cos", "store"],
    }.items():
        a, b = nests(name)[:2]
        merged, reason = answer.merge(a, b)
        if merged is None:
            raise Wrong(
                f"{a.name} and {b.name} of {name} were not merged: {reason}", "one nest", read=MERGING
            )
        got = [instr.op for instr in merged.body]
        if got != wanted:
            raise Wrong(f"the body of {name} is {got}", f"{wanted}", str(merged), MERGING)
        if merged.name != b.name:
            raise Wrong(
                f"the nest is called {merged.name}", f"{b.name}, the last buffer it defines", read=MERGING
            )


def refused(a: Any, b: Any, why: str, answer: Answer) -> None:
    merged, reason = answer.merge(a, b)
    if merged is not None:
        raise Wrong(f"{a.name} and {b.name} were merged", f"None and a reason: {why}", str(merged), MERGING)
    if not reason:
        raise Wrong(f"{a.name} and {b.name} were refused without a reason", f"such as: {why}", read=MERGING)


def what_cannot_be_one(answer: Answer) -> None:
    """`merge` refuses calls, loops that differ, and a value that is read at another index than it is written."""
    call, after = nests("matmul_then_relu")
    refused(call, after, "a call is not a loop nest", answer)
    a, b = nests("read_transposed")
    refused(a, b, f"{a.name} is read at [i1, i0] too, when the loops have not written it yet", answer)
    largest, minus = nests("softmax")[:2]
    refused(largest, minus, "one loops over rows, the other over elements", answer)


@dataclass(frozen=True)
class Step:
    """A step of which only the buffers matter: it reads some and writes one."""

    name: str
    reads: tuple[str, ...]

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.name,)


def place_keeps_the_order(answer: Answer) -> None:
    """`place` says where two steps can run as one: nothing between may need the first and be needed by the second."""
    for middle in between():
        last = middle[-1].name
        for reads in (("a",), ("a", "b"), ("a", last)):
            check_place(answer, [Step("a", ()), *middle, Step("z", reads)])


def between() -> list[list[Step]]:
    """Every choice of two steps b, c between the two: each may read a, and c may read b."""
    found = []
    for b, c in itertools.product([(), ("a",)], [(), ("a",), ("b",), ("a", "b")]):
        found += [[Step("b", b)], [Step("b", b), Step("c", c)]]
    return found


def check_place(answer: Answer, steps: list[Step]) -> None:
    last = len(steps) - 1
    middle = steps[1:-1]
    sinks = not any("a" in s.reads for s in middle)
    rises = not any(s.name in steps[-1].reads for s in middle)
    legal: list[Any] = [0] * rises + [last] * sinks or [None]
    got = answer.place(steps, 0, last)
    if got not in legal:
        shown = "; ".join(f"{s.name} reads {', '.join(s.reads) or 'nothing'}" for s in steps)
        expected = " or ".join("None (they cannot run as one)" if k is None else str(k) for k in legal)
        raise Wrong(f"place gives {got} for the first and the last of: {shown}", expected, read=ORDER)


def values_stay(answer: Answer) -> None:
    """The fused program computes what the nests compute one by one, to the bit."""
    for name in PROGRAMS:
        same_values(fused(answer, name), name, MERGING)


def loops_could_run(answer: Answer) -> None:
    """Inside a kernel no buffer is both written and loaded, and no value leaves the loop that computed it."""
    for name in PROGRAMS:
        for kernel in fused(answer, name).kernels.values():
            for nest in kernel.nests:
                wrong = out_of_place(nest)
                if wrong:
                    raise Wrong(f"{name}: {wrong}", "a value that the same point of the loops has made",
                                str(nest), MERGING)  # fmt: skip


def out_of_place(nest: LoopNest) -> str:
    """What a real loop could not do in this nest; "" if there is nothing."""
    stored = {instr.args[0] for instr in nest.body if instr.op == "store"}
    inside = {instr.name: instr for instr in nest.body[: nest.split]}
    for k, instr in enumerate(nest.body):
        if instr.op == "load" and instr.args[0] in stored:
            return f"{instr} loads a buffer that this kernel writes"
        for arg in instr.args if k >= nest.split else ():
            if isinstance(arg, Value) and arg in inside and inside[arg].op != "reduction":
                return f"{instr} runs after the reduction's loop and uses {arg}, which is computed in it"
    return ""


def fewer_kernels(answer: Answer) -> None:
    """There are fewer kernels: equal loops are joined."""
    for name, most in KERNELS.items():
        program = fused(answer, name)
        got = sum(isinstance(step, Launch) for step in program.steps)
        if got > most:
            whole = sum(isinstance(n, LoopNest) for n in nests(name))
            raise Wrong(f"{name} has {got} kernels, from {whole} loop nests", f"at most {most}",
                        "\n".join(map(str, program.decisions)) or "no decision is recorded", WORTH)  # fmt: skip


def calls_stay(answer: Answer) -> None:
    """Loop nests become kernels, and only the calls that were there are calls: nothing falls back to eager."""
    for name in PROGRAMS:
        program = fused(answer, name)
        calls = sum(isinstance(n, ExternCall) for n in nests(name))
        got = sum(isinstance(step, External) for step in program.steps)
        launches = sum(isinstance(step, Launch) for step in program.steps)
        if got != calls or (launches == 0) != (calls == len(nests(name))):
            raise Wrong(f"{name} runs {got} calls and {launches} kernels", f"{calls} calls and a kernel for the rest",
                        read=WORTH)  # fmt: skip


def loads_once(answer: Answer) -> None:
    """A kernel loads each element once, and does not store what only it reads."""
    for name in ("sin_cos", "diamond", "chain", "broadcast", "sum_of_squares"):
        for kernel in fused(answer, name).kernels.values():
            body: list[Instr] = [i for nest in kernel.nests for i in nest.body]
            loads = [i.args for i in body if i.op == "load"]
            stores = [i.args[0] for i in body if i.op == "store"]
            if len(set(loads)) < len(loads) or len(stores) != 1:
                raise Wrong(f"a kernel of {name} loads {len(loads)} times and stores {len(stores)} times",
                            f"{len(set(loads))} loads and 1 store", str(kernel.nests[0]), WORTH)  # fmt: skip


def decisions_are_told(answer: Answer) -> None:
    """Every pair of a writer and a reader has a decision with its reason, for people who ask why."""
    for name in ("sin_cos", "matmul_then_relu", "softmax", "call_between"):
        program = fused(answer, name)
        if not program.decisions or not all(d.reason for d in program.decisions):
            raise Wrong(f"{name} has the decisions {program.decisions}", "one for each pair, each with a reason",
                        read=WORTH)  # fmt: skip
        wanted = sum(isinstance(step, Launch) for step in program.steps) < sum(
            isinstance(n, LoopNest) for n in nests(name)
        )
        if wanted != any(d.fused for d in program.decisions):
            raise Wrong(f"{name} says fused={not wanted} of every pair", "what was done", read=WORTH)


def pairs_that_merge(answer: Answer) -> Any:
    """For each program: which pairs of its nests, one before the other, `merge` makes one."""
    return [
        [answer.merge(a, b)[0] is not None for a, b in itertools.combinations(nests(name), 2)]
        for name in sorted(PROGRAMS)
    ]


HIDDEN = {"which pairs of nests become one": pairs_that_merge}


CHECKS = (
    two_nests_become_one,
    what_cannot_be_one,
    place_keeps_the_order,
    loops_could_run,
    values_stay,
    calls_stay,
    fewer_kernels,
    loads_once,
    decisions_are_told,
    hidden_check(__file__, HIDDEN, MERGING),
)
