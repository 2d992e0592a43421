"""What lab 19 asks of overlap: exact buckets, an order that every rank keeps, no wait too early, and a short step.

Input: the learner's functions, on the simulated link. Every time is a whole number of microseconds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from ..answer import Answer
from ..checks import Wrong
from ..hidden import hidden_check
from .link import HAND_OVER, UPDATE, Bucket, Gradient, Link, Op, Step, layers

COST, BUCKETS, SCHEDULE, RANKS, LIMIT = (
    "page.md#what-an-all-reduce-costs", "page.md#buckets", "page.md#the-schedule", "page.md#every-rank-the-same-order",
    "page.md#how-large-is-a-bucket",
)  # fmt: skip
MB = 1 << 20
LINKS = (Link(8, 25, 6000), Link(2, 5, 12000), Link(4, 200, 3000), Link(1, 10, 1000))


def sized(*sizes: int, dtype: str = "float32") -> list[Gradient]:
    return [Gradient(f"g{k}", size, dtype) for k, size in enumerate(sizes)]


def ring(link: Link, nbytes: int) -> int:
    """The time of an all-reduce, round by round."""
    chunk, time = (nbytes + link.ranks - 1) // link.ranks, 0
    for _ in range(2 * (link.ranks - 1)):
        time += link.latency + (chunk + link.speed - 1) // link.speed
    return time


def the_ring_has_its_time(answer: Answer) -> None:
    """`all_reduce_time` is that of 2 (ranks - 1) rounds, each of a latency and a chunk; one rank needs none."""
    for link in (*LINKS, Link(3, 7, 1), Link(16, 1, 100)):
        for nbytes in (0, 1, 6000, 48_001, 25 * MB):
            if (got := answer.all_reduce_time(link, nbytes)) != ring(link, nbytes):
                raise Wrong(
                    f"{nbytes:,} bytes over {link}: {got} microseconds", f"{ring(link, nbytes)}", read=COST
                )


def buckets_are_full_and_small(answer: Answer) -> None:
    """`in_buckets` keeps the order, mixes no dtypes, stays within the limits, and fills each bucket."""
    mixed = sized(10, 20) + [Gradient("half", 10, "float16")] + sized(30)[:1]
    for gradients, limit, first in (
        (sized(10, 20, 30, 40), 50, 50), (sized(10, 20, 30, 40), 50, 10), (sized(100, 10, 10, 200, 10), 50, 20),
        (sized(*[7] * 20), 21, 7), (mixed, 100, 100), ([], 10, 10), (sized(5), 0, 0), (sized(8, 8, 8), 100, 8),
        (sized(30, 30, 30), 40, 100),
    ):  # fmt: skip
        got = answer.in_buckets(gradients, limit, first)
        names = [[g.name for g in bucket] for bucket in got]
        sizes = f"{[g.nbytes for g in gradients]}, limit {limit}, first {first}"
        if [g for bucket in got for g in bucket] != gradients:
            raise Wrong(
                f"{sizes}: {names}", "each gradient once, in the order in which they come", read=BUCKETS
            )
        if any(len({g.dtype for g in bucket}) > 1 for bucket in got):
            raise Wrong(
                f"{sizes}: {names} has two dtypes in a bucket",
                "one: they are joined in one array",
                read=BUCKETS,
            )
        for k, bucket in enumerate(got):
            most, filled = min(limit, first) if k == 0 else limit, sum(g.nbytes for g in bucket)
            if len(bucket) > 1 and filled > most:
                raise Wrong(f"{sizes}: bucket {k} has {filled} bytes", f"at most {most}", read=BUCKETS)
            after = got[k + 1][0] if k + 1 < len(got) else None
            if after and after.dtype == bucket[0].dtype and filled + after.nbytes <= most:
                seen = f"{sizes}: {names}: bucket {k} has room for {after.name}"
                raise Wrong(seen, "as few buckets as the order allows", read=BUCKETS)


# ---- schedules ------------------------------------------------------------------------------------------------------


def words(instructions: Sequence[Any]) -> list[str]:
    """The instructions as text, for messages: "run matmul0", "start 1"."""
    found = []
    for each in instructions:
        kind = type(each).__name__.lower()
        found.append(f"{kind} {each.op.name}" if kind == "run" else f"{kind} {each.bucket}")
    return found


def expected(backward: Sequence[Op], buckets: Sequence[Bucket]) -> list[str]:
    """The instructions that the rule of `schedule` gives, found bucket by bucket."""
    ready = {name: k for k, op in enumerate(backward) for name in op.makes}
    after: dict[int, list[int]] = {}
    last = 0
    for number, bucket in enumerate(buckets):
        last = max(last, *(ready.get(gradient.name, len(backward) - 1) for gradient in bucket))
        after.setdefault(last, []).append(number)
    found = []
    for k, op in enumerate(backward):
        found += [f"run {op.name}", *(f"start {number}" for number in after.get(k, ()))]
    return found + [f"{what} {number}" for number in range(len(buckets)) for what in ("wait", "update")]


def shuffled(ops: Sequence[Op], seed: int) -> list[Op]:
    """The same operators in another order, as on a rank that took another branch."""
    made = list(ops)
    random.Random(seed).shuffle(made)
    return made


def models() -> list[tuple[str, list[Gradient], list[Op]]]:
    small = [Gradient("a", 400), Gradient("b", 800), Gradient("c", 400), Gradient("unused", 400)]
    ops = [Op("loss", 10), Op("two", 30, ("a", "b")), Op("nothing", 5), Op("one", 20, ("c",))]
    return [
        ("12 layers", *layers(12, 512)),
        ("3 layers", *layers(3, 64)),
        ("a gradient that nothing makes", small, ops),
    ]


def instructions_are_in_order(answer: Answer) -> None:
    """`schedule` starts a bucket with its last gradient, waits after the backward, and updates bucket by bucket."""
    for name, gradients, backward in models():
        for limit in (500, MB):
            buckets = answer.in_buckets(gradients, limit, limit)
            got, want = words(answer.schedule(backward, buckets)), expected(backward, buckets)
            if got != want:
                at = next((k for k, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
                seen, asked = (" ".join([*each[at : at + 1], "(the end)"][:1]) for each in (got, want))
                raise Wrong(f"{name}, {len(buckets)} buckets: instruction {at} is `{seen}`", f"`{asked}`",
                            f"yours:    {'; '.join(got[max(at - 2, 0) : at + 3])}\n"
                            f"expected: {'; '.join(want[max(at - 2, 0) : at + 3])}", SCHEDULE)  # fmt: skip


def ran(
    answer: Answer, backwards: Sequence[Sequence[Op]], buckets: Sequence[Bucket], link: Link, read: str
) -> Step:
    """A step of these ranks, on the learner's copy of the simulator. What would hang is Wrong."""
    instructions = [answer.schedule(each, buckets) for each in backwards]
    try:
        return answer.simulate(instructions, buckets, link, ring)
    except RuntimeError as error:  # ScheduleError, of that copy
        raise Wrong(str(error), "every rank starts every bucket, in the same order", read=read) from error


def ranks_agree(answer: Answer) -> None:
    """Ranks whose gradients come in other orders start the buckets in one order, and none hangs."""
    for name, gradients, backward in models():
        for seed in range(6):
            buckets = answer.in_buckets(gradients, 2 * MB if len(gradients) > 10 else 500)
            step = ran(
                answer, [backward, shuffled(backward, seed), backward], buckets, Link(3, 5, 5000), RANKS
            )
            if sorted(step.transfers) != list(range(len(buckets))):
                raise Wrong(
                    f"{name}: buckets {sorted(step.transfers)} went over the link", "each once", read=RANKS
                )


def steps_are_short(answer: Answer) -> None:
    """`step_time` is that of a step in which the link works while the backward computes."""
    for name, gradients, backward in models():
        for link in LINKS:
            for limit in (MB, 4 * MB, 64 * MB):
                buckets = answer.in_buckets(gradients, limit)
                want = by_hand(backward, buckets, link)
                got = answer.step_time(backward, buckets, link)
                if got != want:
                    seen = f"{name}, {len(buckets)} buckets, {link}: a step takes {got:,} microseconds"
                    raise Wrong(seen, f"{want:,}", read=SCHEDULE)


def by_hand(backward: Sequence[Op], buckets: Sequence[Bucket], link: Link) -> int:
    """The time of a step, from the rule: a bucket begins when it is ready and the one before has ended."""
    time, free, ends = 0, 0, dict[int, int]()
    for word in expected(backward, buckets):
        kind, _, which = word.partition(" ")
        if kind == "run":
            time += next(op.cost for op in backward if op.name == which)
            continue
        nbytes = sum(gradient.nbytes for gradient in buckets[int(which)])
        if kind == "start":
            time += HAND_OVER
            free = ends[int(which)] = max(free, time) + ring(link, nbytes)
        elif kind == "wait":
            time = max(time, ends[int(which)])
        else:
            time += -(-nbytes // UPDATE)
    return time


def the_best_limit_is_found(answer: Answer) -> None:
    """`best_limit` gives the limit with the shortest step; of equal ones, the largest."""
    limits = [0, MB // 2, MB, 2 * MB, 4 * MB, 8 * MB, 16 * MB, 64 * MB]
    for name, gradients, backward in models():
        for link in LINKS:
            times = {limit: by_hand(backward, answer.in_buckets(gradients, limit), link) for limit in limits}
            want = max(limit for limit in limits if times[limit] == min(times.values()))
            got = answer.best_limit(gradients, backward, link, limits)
            if got != want:
                raise Wrong(f"{name}, {link}: a limit of {got:,} bytes, with {times.get(got, 0):,} microseconds",
                            f"{want:,}, with {times[want]:,}", read=LIMIT)  # fmt: skip


def random_gradients(seed: int) -> list[Gradient]:
    draw = random.Random(seed)
    return [
        Gradient(f"g{k}", draw.randint(1, 3 * MB), draw.choice(["float32"] * 9 + ["float16"]))
        for k in range(60)
    ]


def sizes_of_buckets(answer: Answer) -> Any:
    return [[len(b) for b in answer.in_buckets(random_gradients(s), (s + 1) * MB)] for s in range(12)]


def times_of_steps(answer: Answer) -> Any:
    """How long a step takes on five networks and three links."""
    found = []
    for seed in range(5):
        gradients, backward = layers(4 + 5 * seed, 128 * (seed + 1), 100 * (seed + 2))
        buckets = answer.in_buckets(gradients, (1 + seed) * MB)
        found += [answer.step_time(backward, buckets, Link(ranks, 9 * ranks, 2500)) for ranks in (2, 4, 16)]
    return found


HIDDEN = {
    "the buckets of 12 lists of 60 gradients": sizes_of_buckets,
    "the time of fifteen steps": times_of_steps,
}

CHECKS = (
    the_ring_has_its_time,
    buckets_are_full_and_small,
    instructions_are_in_order,
    ranks_agree,
    steps_are_short,
    the_best_limit_is_found,
    hidden_check(__file__, HIDDEN, SCHEDULE),
)
