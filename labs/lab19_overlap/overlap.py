"""Bucketing and overlap: which gradients travel together, when each bucket starts, and when it is waited for.

Input: the gradients and operators of a backward, in the order in which it meets them, and the link of link.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from .link import Bucket, Gradient, Instruction, Link, Op, Run, Start, Update, Wait, simulate

FIRST = 1 << 20  # bytes of the first bucket, at most


# ---- what you write ----------------------------------------------------------------------------------------------


def all_reduce_time(link: Link, nbytes: int) -> int:
    """Microseconds of a ring all-reduce. One rank has nothing to send.

    The bytes are cut into as many chunks as there are ranks (rounded up). In each of 2 (ranks - 1) rounds, every rank
    sends one chunk to the next: the latency, and the chunk over the speed (rounded up).
    """
    # lab: begin all_reduce_time
    chunk = -(-nbytes // link.ranks)
    return 2 * (link.ranks - 1) * (link.latency + -(-chunk // link.speed))
    # lab: end


def in_buckets(gradients: Sequence[Gradient], limit: int, first_limit: int = FIRST) -> list[Bucket]:
    """The gradients in buckets, in order: each of one dtype and of at most `limit` bytes, the first of `first_limit`.

    A bucket is filled as far as the order allows. A gradient that is larger than the limit has a bucket of its own.
    """
    # lab: begin in_buckets
    buckets: list[list[Gradient]] = []
    filled = 0
    for gradient in gradients:
        most = min(limit, first_limit) if len(buckets) == 1 else limit
        if not buckets or filled + gradient.nbytes > most or buckets[-1][0].dtype != gradient.dtype:
            buckets.append([])
            filled = 0
        buckets[-1].append(gradient)
        filled += gradient.nbytes
    return [tuple(bucket) for bucket in buckets]
    # lab: end


def schedule(backward: Sequence[Op], buckets: Sequence[Bucket]) -> list[Instruction]:
    """The instructions of one rank: the backward's operators, each bucket's start, wait and update.

    A bucket starts as soon as its last gradient is there, but never before the bucket in front of it: every rank starts
    them in the same order, whatever order its gradients come in. A gradient that no operator makes is ready at the end.
    Nothing is waited for before the backward has ended. Then each bucket is waited for and updated, in order.
    """
    # lab: begin schedule
    missing = [{gradient.name for gradient in bucket} for bucket in buckets]
    made: list[Instruction] = []
    started = 0
    for op in backward:
        made.append(Run(op))
        for names in missing:
            names -= {*op.makes}
        while started < len(buckets) and not missing[started]:
            made.append(Start(started))
            started += 1
    made += [Start(number) for number in range(started, len(buckets))]
    for number in range(len(buckets)):
        made += [Wait(number), Update(number)]
    return made
    # lab: end


def step_time(backward: Sequence[Op], buckets: Sequence[Bucket], link: Link) -> int:
    """How long a step takes in which every rank has the same backward."""
    # lab: begin step_time
    instructions = schedule(backward, buckets)
    return simulate([instructions] * link.ranks, buckets, link, all_reduce_time).time
    # lab: end


def best_limit(
    gradients: Sequence[Gradient], backward: Sequence[Op], link: Link, limits: Sequence[int]
) -> int:
    """The limit, of these, with which a step is shortest. Of two that are equal, the larger: fewer collectives."""
    # lab: begin best_limit
    return min(limits, key=lambda limit: (step_time(backward, in_buckets(gradients, limit), link), -limit))
    # lab: end


# ---- what is given -----------------------------------------------------------------------------------------------


def without_overlap(backward: Sequence[Op], buckets: Sequence[Bucket]) -> list[Instruction]:
    """The schedule to compare with: the whole backward, then each bucket, waited for at once."""
    made: list[Instruction] = [Run(op) for op in backward]
    for number in range(len(buckets)):
        made += [Start(number), Wait(number), Update(number)]
    return made
