"""Which inputs a CUDA graph reads where the caller has them, and when it is worth capturing: those that do not move.

Input: the addresses of a program's inputs at each call. Parameters stay; what the caller makes anew may move at every
call, and is copied to a place of the graph's own. Nobody has to say which is which: it is seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

PATIENCE = 3  # calls without a graph while inputs still move
MOVES = 3  # an input that moved so often after a capture is copied from then on
CAPTURES = (
    8  # of one program at the same sizes; the last one copies every input that it may, and every result
)


class Places:
    """What is known of the inputs' addresses. `written`: the positions of inputs that the program writes to, which
    cannot be copies."""

    def __init__(self, count: int, written: Iterable[int] = ()) -> None:
        self.written = frozenset(written)
        self.places: list[int] = []
        self.calls = self.waits = self.captures = 0
        self.since = [0] * count  # the call at which each was first where it is
        self.moves = [0] * count

    def see(self, places: Sequence[int]) -> list[int]:
        """A call's addresses. The result: the positions of those that moved since the call before."""
        self.calls += 1
        if places == self.places:
            return []
        before, self.places = self.places or [-1] * len(places), [*places]
        moved = [k for k, (was, now) in enumerate(zip(before, places, strict=True)) if was != now]
        for k in moved:
            self.since[k] = self.calls
        return moved

    def count_moves(self, positions: Iterable[int]) -> None:
        """These inputs moved although a graph read them where they were."""
        for k in positions:
            self.moves[k] += 1
        self.waits = 0

    @property
    def last_capture(self) -> bool:
        """Whether the latest capture is to be the last one."""
        return self.captures >= CAPTURES

    def stays(self, k: int, calls: int = 1) -> bool:
        """Whether an input has been where it is for so many calls before this one, and seldom moves."""
        restless = self.moves[k] >= MOVES or self.last_capture
        return self.calls - self.since[k] >= calls and (k in self.written or not restless)

    def movable(self) -> list[int]:
        """The inputs that a graph captured now would have to copy, but must not."""
        return [k for k in sorted(self.written) if not self.stays(k)]

    def may_capture(self) -> bool:
        """Whether to capture at this call: from the second on, once nothing moves, or when that takes too long."""
        if self.calls == 1:
            return False
        self.waits += 1
        settled = all(self.calls > since for since in self.since)
        return (settled or self.waits > PATIENCE) and not (self.movable() and self.waits <= 2 * PATIENCE)
