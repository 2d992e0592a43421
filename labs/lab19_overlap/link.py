"""A link between processes, simulated: collectives go over it one after the other, while each process computes.

Input: the instructions of each rank. Times are whole microseconds, so that a step takes as long on every machine. What
would hang or compute a wrong gradient on real processes is refused here with ScheduleError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

HAND_OVER = 5  # microseconds of the processor to start a collective
UPDATE = 10000  # bytes that an optimizer updates in a microsecond


class ScheduleError(RuntimeError):
    """Instructions that would hang, or that would use a gradient which is not there."""


@dataclass(frozen=True)
class Gradient:
    """The gradient of one parameter."""

    name: str
    nbytes: int
    dtype: str = "float32"


@dataclass(frozen=True)
class Op:
    """One operator of the backward: how long it takes, and which gradients are there after it."""

    name: str
    cost: int
    makes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Link:
    """ranks: processes. latency: microseconds of a message. speed: bytes in a microsecond, from rank to rank."""

    ranks: int
    latency: int
    speed: int


Bucket = tuple[Gradient, ...]


@dataclass(frozen=True)
class Run:
    """Run an operator of the backward."""

    op: Op


@dataclass(frozen=True)
class Start:
    """Hand a bucket's all-reduce over to the link; go on computing."""

    bucket: int


@dataclass(frozen=True)
class Wait:
    """Wait until a bucket's all-reduce has ended."""

    bucket: int


@dataclass(frozen=True)
class Update:
    """Let the optimizer update the parameters of a bucket."""

    bucket: int


Instruction = Run | Start | Wait | Update


@dataclass
class Step:
    """What happened in a step. transfers, per bucket: (begin, end) on the link. spans, per rank: what ran when."""

    time: int
    transfers: dict[int, tuple[int, int]]
    spans: list[list[tuple[str, int, int]]]

    @property
    def hidden(self) -> int:
        """Percent of the time on the link during which rank 0 was computing."""
        busy = [(begin, end) for _, begin, end in self.spans[0]]
        total = sum(end - begin for begin, end in self.transfers.values())
        both = sum(
            max(0, min(e, end) - max(b, begin)) for begin, end in self.transfers.values() for b, e in busy
        )
        return 100 * both // total if total else 100


@dataclass
class _Rank:
    instructions: Sequence[Instruction]
    at: int = 0
    time: int = 0
    made: set[str] = field(default_factory=set)
    started: list[int] = field(default_factory=list)
    handed: list[int] = field(default_factory=list)  # when each was
    waited: set[int] = field(default_factory=set)
    updated: set[int] = field(default_factory=set)
    spans: list[tuple[str, int, int]] = field(default_factory=list)

    def take(self, name: str, cost: int) -> None:
        self.spans.append((name, self.time, self.time + cost))
        self.time += cost


def simulate(
    ranks: Sequence[Sequence[Instruction]],
    buckets: Sequence[Bucket],
    link: Link,
    cost: Callable[[Link, int], int],
) -> Step:
    """One step of all ranks. `cost(link, nbytes)` is how long an all-reduce takes. Raises ScheduleError."""
    at_work = [_Rank(instructions) for instructions in ranks]
    every = [{op.op for op in rank if isinstance(op, Run)} for rank in ranks]
    making = [{name for op in ops for name in op.makes} for ops in every]
    transfers: dict[int, tuple[int, int]] = {}
    free = 0
    while True:
        for rank, makes in zip(at_work, making, strict=True):
            _advance(rank, buckets, transfers, makes)
        number = len(transfers)
        chosen = {rank.started[number] for rank in at_work if len(rank.started) > number}
        if len(chosen) > 1:
            raise ScheduleError(
                f"collective {number} is of bucket {min(chosen)} on one rank and of bucket {max(chosen)} on another: "
                "real processes would hang, or add what does not belong together"
            )
        if not chosen or any(len(rank.started) <= number for rank in at_work):
            break
        (bucket,) = chosen
        begin = max(free, *(rank.handed[number] for rank in at_work))
        free = begin + cost(link, sum(gradient.nbytes for gradient in buckets[bucket]))
        transfers[bucket] = begin, free
    for number, rank in enumerate(at_work):
        if rank.at < len(rank.instructions):
            raise ScheduleError(
                f"rank {number} waits for ever at {rank.instructions[rank.at]}: not every rank starts it"
            )
        if missing := {*range(len(buckets))} - rank.updated:
            raise ScheduleError(f"bucket {min(missing)} is never updated on rank {number}")
    return Step(max(rank.time for rank in at_work), transfers, [rank.spans for rank in at_work])


def _advance(
    rank: _Rank, buckets: Sequence[Bucket], transfers: dict[int, tuple[int, int]], makes: set[str]
) -> None:
    """Run a rank's instructions up to a wait whose end is not known yet."""
    while rank.at < len(rank.instructions):
        instruction = rank.instructions[rank.at]
        match instruction:
            case Run(op):
                rank.take(op.name, op.cost)
                rank.made |= {*op.makes}
            case Start(bucket):
                missing = {gradient.name for gradient in buckets[bucket]} & makes - rank.made
                if missing:
                    raise ScheduleError(
                        f"bucket {bucket} starts before the gradient {min(missing)!r} is there"
                    )
                if bucket in rank.started:
                    raise ScheduleError(
                        f"bucket {bucket} starts twice: its gradients would be averaged twice"
                    )
                rank.take("start", HAND_OVER)
                rank.started.append(bucket)
                rank.handed.append(rank.time)
            case Wait(bucket):
                if bucket not in transfers:
                    return
                rank.time = max(rank.time, transfers[bucket][1])
                rank.waited.add(bucket)
            case Update(bucket):
                if bucket not in rank.waited:
                    raise ScheduleError(
                        f"bucket {bucket} is updated before its all-reduce has been waited for"
                    )
                rank.updated.add(bucket)
                rank.take("update", -(-sum(g.nbytes for g in buckets[bucket]) // UPDATE))
            case _:
                raise ScheduleError(f"{instruction!r} is no instruction; expected Run, Start, Wait or Update")
        rank.at += 1


def layers(count: int, width: int, cost: int = 400) -> tuple[list[Gradient], list[Op]]:
    """A network of equal layers, last layer first, as its backward meets them: gradients in order, and operators."""
    gradients, ops = [], [Op("loss", cost // 4)]
    for layer in reversed(range(count)):
        names = [f"layer{layer}.{part}" for part in ("bias", "weight")]
        gradients += [Gradient(names[0], 4 * width), Gradient(names[1], 4 * width * width)]
        ops += [Op(f"bias{layer}", cost // 8, (names[0],)), Op(f"matmul{layer}", cost, (names[1],))]
    return gradients, ops
