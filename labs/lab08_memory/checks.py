"""What lab 8 asks of a memory plan: live buffers never share bytes, what is returned stays, free memory is used again.

Input: the learner's `plan_memory`, `last_uses` and `first_fit`, on programs that the tiny stage 3 makes and on
hand-written ones.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

from stage3_lowering import tiny
from stage4_runtime.tests.programs import chain, external, meta, program, sum_kernel
from stage_contracts.loop_ir import buffer_refs
from stage_contracts.program import Allocate, External, Free, Launch, Program, Return, step_accesses

from ..answer import Answer
from ..checks import Wrong
from ..core_programs import PROGRAMS, lowered, same_values, verified
from ..hidden import hidden_check

GAPS, LAST, WALK, VIEWS = "page.md#the-gap", "page.md#the-last-use", "page.md#the-walk", "page.md#views"


@cache
def fused(name: str) -> Program:
    return tiny.fuse(lowered(name))


def through_a_view() -> Program:
    """buf1 is made from buf0 by an eager call, and may share its memory; buf2 is written while buf1 is still needed."""
    kernels = [sum_kernel("k0", "buf0", ["x"], 64), sum_kernel("k1", "buf2", ["x"], 64)]
    kernels.append(sum_kernel("k2", "y", ["buf1", "buf2"], 64))
    steps = [Launch("k0", ("x", "buf0")), external("reshape", "buf0", (8, 8), out="buf1")]
    steps += [Launch("k1", ("x", "buf2")), Launch("k2", ("buf1", "buf2", "y"))]
    temporaries = {"buf0": meta(64), "buf1": meta(8, 8), "buf2": meta(64)}
    return program({"x": meta(64)}, temporaries, {"y": meta(64)}, kernels, steps, ["y"])


def returned_view() -> Program:
    """The result may be a view of buf0."""
    steps = [Launch("k0", ("x", "buf0")), external("reshape", "buf0", (8, 8), out="y")]
    return program({"x": meta(64)}, {"buf0": meta(64)}, {"y": meta(8, 8)}, [sum_kernel("k0", "buf0", ["x"], 64)],
                   steps, ["y"])  # fmt: skip


def unread() -> Program:
    """Nothing reads buf0. Its size is odd."""
    kernels = [sum_kernel("k0", "buf0", ["x"], 5), sum_kernel("k1", "buf1", ["x"], 5)]
    kernels.append(sum_kernel("k2", "y", ["buf1"], 5))
    steps = [Launch(k.name, k.params) for k in kernels]
    return program({"x": meta(5)}, {"buf0": meta(5), "buf1": meta(5)}, {"y": meta(5)}, kernels, steps, ["y"])


def programs() -> Iterator[tuple[str, Program]]:
    """Every program of this lab, by name."""
    yield from (("a chain of 10", chain(10)), ("a chain of odd sizes", chain(7, size=37)))
    yield from (
        ("through_a_view", through_a_view()),
        ("returned_view", returned_view()),
        ("unread", unread()),
    )
    yield from ((name, fused(name)) for name in PROGRAMS)


def computing(steps: Any) -> list[Any]:
    return [step for step in steps if not isinstance(step, Allocate | Free)]


def the_lowest_gap(answer: Answer) -> None:
    """`first_fit` gives the lowest bytes that are free, large enough and aligned."""
    random.seed(8)
    for _ in range(300):
        alignment = random.choice([64, 512])
        cuts = sorted(random.sample(range(12), 6))
        ranges = [range(a * alignment, b * alignment) for a, b in zip(cuts[::2], cuts[1::2])]
        live = {f"buf{k}": r for k, r in enumerate(random.sample(ranges, random.randint(0, 3)))}
        nbytes = random.choice([0, 1, alignment - 4, alignment, alignment + 4, 3 * alignment])
        size = max(1, -(-nbytes // alignment)) * alignment
        start = next(s for s in itertools.count(0, alignment)
                     if all(s + size <= r.start or r.stop <= s for r in live.values()))  # fmt: skip
        got = answer.first_fit(live, nbytes, alignment)
        if got != range(start, start + size):
            used = ", ".join(f"{r.start}..{r.stop}" for r in sorted(live.values(), key=lambda r: r.start))
            raise Wrong(f"first_fit of {nbytes} bytes, with {used or 'nothing'} in use, gives {got}",
                        f"{range(start, start + size)}: from one multiple of {alignment} to another",
                        read=GAPS)  # fmt: skip


def lives_are_known(answer: Answer) -> None:
    """`last_uses` gives the number of the last step that reads or writes each buffer."""
    for name, made in programs():
        steps = computing(made.steps)
        uses: dict[str, int] = {}
        for number, step in enumerate(steps):
            reads, writes = step_accesses(step, made.kernels)
            uses |= dict.fromkeys((*reads, *writes), number)
        got = answer.last_uses(steps, made.kernels)
        for buffer, number in uses.items():
            held = any(isinstance(s, External) and not s.into and buffer in step_accesses(s, made.kernels)[0]
                       for s in steps)  # fmt: skip
            if buffer not in got or got[buffer] < number or (got[buffer] > number and not held):
                raise Wrong(f"{name}: last_uses gives {got.get(buffer)} for {buffer}", f"{number}",
                            "\n".join(f"{k}: {step}" for k, step in enumerate(steps)), LAST)  # fmt: skip


def planned(answer: Answer) -> Iterator[tuple[str, Program, Program]]:
    """Every program before and after planning."""
    for name, made in programs():
        yield name, made, answer.plan_memory(made)


def steps_stay(answer: Answer) -> None:
    """The steps that compute are there, in their order; only Allocate and Free are new."""
    for name, before, after in planned(answer):
        if computing(after.steps) != computing(before.steps):
            raise Wrong(f"{name}: the steps that compute are\n" + "\n".join(map(str, computing(after.steps))),
                        "the same as before:\n" + "\n".join(map(str, computing(before.steps))), read=WALK)  # fmt: skip


def every_life_is_whole(answer: Answer) -> None:
    """A temporary is allocated once, before its first write, and freed once, after its last use."""
    for name, before, after in planned(answer):
        returned = escaping(before)
        own = {o for s in before.steps if isinstance(s, External) and not s.into for o in s.outputs}
        for buffer in before.buffers.values():
            uses = [k for k, s in enumerate(after.steps) if not isinstance(s, Allocate | Free)
                    and any(buffer.name in names for names in step_accesses(s, after.kernels))]  # fmt: skip
            born = [k for k, s in enumerate(after.steps) if s == Allocate(buffer.name)]
            dead = [k for k, s in enumerate(after.steps) if s == Free(buffer.name)]
            given = buffer.role in ("input", "constant") or buffer.name in own
            if not uses:
                continue
            if given and born or not given and (len(born) != 1 or born[0] > uses[0]):
                raise Wrong(f"{name}: {buffer.name} is allocated {len(born)} times", "never: it has memory" if given
                            else "once, before the first step that writes it", read=WALK)  # fmt: skip
            freed = buffer.role == "temporary" and buffer.name not in returned
            if len(dead) != freed or dead and dead[0] < uses[-1]:
                raise Wrong(f"{name}: {buffer.name} is freed {len(dead)} times" + ", too early" * bool(dead and freed),
                            "once, after its last use" if freed else "never", read=WALK)  # fmt: skip


def escaping(made: Program) -> set[str]:
    """The buffers that the caller gets, and those that these may be views of."""
    found = {ref.name for s in made.steps if isinstance(s, Return) for ref in buffer_refs(s.values)}
    for step in reversed(made.steps):
        if isinstance(step, External) and not step.into and found & set(step.outputs):
            found |= set(step_accesses(step, made.kernels)[0])
    return found


def results_have_their_own(answer: Answer) -> None:
    """What the program returns does not lie in the pool: the next call would write over it."""
    for name, before, after in planned(answer):
        wrong = sorted(n for n in escaping(before) if after.buffers[n].slot is not None)
        if wrong:
            raise Wrong(f"{name}: {wrong[0]} is returned and lies in the pool, or what is returned may be a view of it",
                        "no slot", read=VIEWS)  # fmt: skip


def views_keep_memory(answer: Answer) -> None:
    """An eager call may return a view of its operand, so the operand's memory is not used again while that is read."""
    after = answer.plan_memory(through_a_view())
    last = max(k for k, s in enumerate(after.steps) if isinstance(s, Launch))
    if Free("buf0") in after.steps[:last]:
        raise Wrong("buf0 is freed while buf1, which may be a view of it, is still read",
                    "free(buf0) after the last step that reads buf1",
                    "\n".join(map(str, after.steps)), VIEWS)  # fmt: skip


def live_buffers_are_apart(answer: Answer) -> None:
    """Two buffers that are alive at the same time never share bytes, and each begins at a multiple of 64."""
    for name, _, after in planned(answer):
        verified(after, name, GAPS)
        for buffer in after.buffers.values():
            if buffer.slot is not None and (
                buffer.slot.offset % 64 or buffer.slot.nbytes < buffer.meta.nbytes
            ):
                raise Wrong(f"{name}: {buffer.name} has {buffer.slot} for {buffer.meta}",
                            "an offset that is a multiple of 64, and room for all its bytes", read=GAPS)  # fmt: skip


def values_stay(answer: Answer) -> None:
    """The program computes the same when its buffers really lie in the pool as planned."""
    for name in PROGRAMS:
        same_values(answer.plan_memory(fused(name)), name, WALK)


def memory_is_used_again(answer: Answer) -> None:
    """Free memory is used again: a chain needs room for two buffers, however long it is."""
    for length in (4, 10, 25):
        after = answer.plan_memory(chain(length))
        if sum(after.pools) != 2 * 256:
            wasted = (
                "nothing is used again"
                if sum(after.pools) >= 256 * (length - 1)
                else "too little is used again"
            )
            raise Wrong(f"a chain of {length} kernels has a pool of {sum(after.pools)} bytes: {wasted}",
                        "512 bytes: while one buffer is read, the next is written", read=GAPS)  # fmt: skip


def gaps_found(answer: Answer) -> Any:
    """Where 200 buffers go, one after the other, when each lives for a random time."""
    draw, live, found = random.Random(80), dict[str, tuple[int, range]](), []
    for time in range(200):
        live = {name: row for name, row in live.items() if row[0] > time}
        place = answer.first_fit({name: row[1] for name, row in live.items()}, draw.randint(0, 700), 64)
        live[f"buf{time}"] = (time + draw.randint(1, 12), place)
        found.append((place.start, place.stop))
    return found


def sizes_of_pools(answer: Answer) -> Any:
    return [
        sum(answer.plan_memory(chain(length, size=size)).pools) for length in (3, 6) for size in (1, 16, 100)
    ]


HIDDEN = {"where 200 buffers go": gaps_found, "the pools of six chains": sizes_of_pools}


CHECKS = (
    the_lowest_gap,
    lives_are_known,
    steps_stay,
    every_life_is_whole,
    results_have_their_own,
    views_keep_memory,
    live_buffers_are_apart,
    values_stay,
    memory_is_used_again,
    hidden_check(__file__, HIDDEN, GAPS),
)
