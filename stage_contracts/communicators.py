"""Communicators: what compiled programs and eager kernels ask of a process group, found by the group's name.

Input: cutaway.distributed enters each group here when it is made, and takes it out when it is destroyed. No stage
imports MPI or NCCL: a graph names a group, and whoever runs the graph looks the group up at the call.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol

from stage_contracts.controls import assume_constant_result

WORLD = "world"  # the group of all processes
ALONE = "self"  # the group of this process alone, which always exists


class Transfer(Protocol):
    """A collective under way."""

    def wait(self) -> None:
        """Return when the result is in the destination. Raises DistError, which names collective, line and ranks."""


class Communicator(Protocol):
    """A group of ranks. All of them start the same collectives in the same order."""

    rank: int
    size: int

    def start(self, operation: str, words: tuple, source: Any, destination: Any, where: str) -> Transfer:
        """Begin a core operator of kind "collective" on contiguous arrays of the group's device.

        `words` are its arguments between the tensor and the group. Until `wait` has returned, nobody may write to
        `source` or touch `destination`. `where`: the user's line, for errors.
        """

    def run(self, operation: str, words: tuple, source: Any, destination: Any, where: str) -> None:
        """Start it and wait for it, without another thread."""


class _Done:
    def wait(self) -> None:
        return None


class _Alone:
    """One rank: every reduction and every exchange gives back what it was given."""

    rank, size = 0, 1

    def start(self, operation: str, words: tuple, source: Any, destination: Any, where: str) -> Transfer:
        self.run(operation, words, source, destination, where)
        return _Done()

    def run(self, operation: str, words: tuple, source: Any, destination: Any, where: str) -> None:
        destination[...] = source.reshape(destination.shape)


_COMMUNICATORS: dict[str, Communicator] = {ALONE: _Alone()}
_LOCK = threading.Lock()


def enter(name: str, communicator: Communicator) -> None:
    """From now on graphs may name this group. Raises ValueError for a name that is taken."""
    with _LOCK:
        if name in _COMMUNICATORS:
            raise ValueError(f"there is a process group {name!r} already; give the new one another name")
        _COMMUNICATORS[name] = communicator


def leave(name: str) -> None:
    """The group exists no more."""
    with _LOCK:
        _COMMUNICATORS.pop(name, None)


@assume_constant_result
def ranks_of(name: str) -> int:
    """How many ranks the group has; 0 where there is none of that name. Compiled code keeps the answer."""
    found = _COMMUNICATORS.get(name)
    return 0 if found is None else found.size


def communicator(name: str) -> Communicator:
    """The group of that name. Raises RuntimeError where there is none."""
    found = _COMMUNICATORS.get(name)
    if found is None:
        known = ", ".join(map(repr, _COMMUNICATORS))
        raise RuntimeError(
            f"there is no process group {name!r}, only {known}; call init_process_group() before code that uses it, "
            "and destroy_process_group() after it"
        )
    return found
