"""Do all ranks put the same collectives on their GPUs, and do these end? A thread that compares and looks on.

Input: a sentence and a line for each collective, in order. A rank leaves its sentences in the store and reads its right
neighbour's; around the ring any difference is between two neighbours. A sentence that is new is compared before its
collective is started, so a new graph is checked first and a step that repeats costs nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from cutaway.distributed.agreement import DistBackendError
from cutaway.distributed.store import FAILED, Store

EVERY = 0.1  # seconds between two looks
LAST_WORDS = 1.0  # seconds for the program to raise by itself before the process is ended


class Watch:
    """Of one group in one process. `abort` ends what is on the GPU."""

    def __init__(
        self,
        store: Store,
        name: str,
        ranks: tuple[int, ...],
        rank: int,
        timeout: float,
        abort: Callable[[], None],
    ) -> None:
        self.store, self.name, self.ranks, self.rank, self.timeout = store, name, ranks, rank, timeout
        self.abort = abort
        self.seen: DistBackendError | None = None
        self._known: set[str] = set()
        self._order = threading.RLock()
        self._mine: list[tuple[str, str]] = []  # what is not compared yet
        self._told = self._batches = self._read = self._first = 0
        self._theirs: list[tuple[str, str]] = []
        self._open: list[tuple[Callable[[], bool], str, float]] = []
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def raise_what_was_seen(self) -> None:
        if self.seen is not None:
            raise self.seen

    def say(self, text: str, where: str) -> None:
        """This rank's next collective. A new sentence waits until the neighbour has come as far."""
        with self._order:
            self._mine.append((text, where))
            number = self._first + len(self._mine)
            new = text not in self._known
            self._known.add(text)
        self._begin()
        if new:
            self._wait_for(number, f"{text} at {where}")

    def follow(self, done: Callable[[], bool], what: str) -> None:
        self._begin()
        with self._order:
            self._open.append((done, what, time.monotonic() + self.timeout))

    def told_of_an_end(self) -> bool:
        """Whether some process, this one too, has told why it ends."""
        try:
            return self.store.look(FAILED) is not None
        except DistBackendError:  # the process that keeps the store has ended
            return True

    def _begin(self) -> None:
        """The thread that looks on, from the first call on."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._look_on, name="cutaway watch", daemon=True)
            self._thread.start()

    def _wait_for(self, number: int, what: str) -> None:
        limit, nap = time.monotonic() + self.timeout, 1e-4
        while True:
            try:
                self._compare()
            except DistBackendError as error:
                self.seen = error
                self._ended.set()
                tell(self.store, f"rank {self.ranks[self.rank]}: {error}")
                raise
            with self._order:
                if self._first >= number:
                    return
            story = self.store.look(FAILED)
            if story is not None:
                raise DistBackendError(f"{what} cannot start: {story.decode()}")
            if time.monotonic() > limit:
                raise DistBackendError(
                    f"{what} waited {self.timeout:g} s for the other ranks; one of them has ended, is slow, or never "
                    "calls it. Look at the output of the other ranks, or give init_process_group a longer timeout"
                )
            time.sleep(nap)
            nap = min(nap * 2, 0.01)

    def _compare(self) -> None:
        """Leave what is new, read what the neighbour left, and compare as far as both have come."""
        with self._order:
            fresh = self._mine[self._told - self._first :]
            if fresh:
                self.store.set(self._key(self.rank, self._batches), json.dumps(fresh))
                self._batches += 1
                self._told += len(fresh)
            neighbour = (self.rank + 1) % len(self.ranks)
            while (left := self.store.look(self._key(neighbour, self._read))) is not None:
                self._theirs += [tuple(pair) for pair in json.loads(left)]
                self.store.delete_key(self._key(neighbour, self._read))  # nobody else reads it
                self._read += 1
            both = min(len(self._mine), len(self._theirs), self._told - self._first)
            for mine, theirs in zip(self._mine[:both], self._theirs[:both], strict=True):
                if mine[0] != theirs[0]:
                    raise DistBackendError(self._difference(neighbour, mine, theirs))
            del self._mine[:both], self._theirs[:both]
            self._first += both

    def _key(self, rank: int, batch: int) -> str:
        return f"{self.name}/said/{rank}/{batch}"

    def _difference(self, neighbour: int, mine: tuple[str, str], theirs: tuple[str, str]) -> str:
        pairs = sorted([(self.ranks[self.rank], mine), (self.ranks[neighbour], theirs)])
        told = "\n".join(f"  rank {rank}: {text} at {where}" for rank, (text, where) in pairs)
        return f"the ranks disagree about the next collective:\n{told}\nAll ranks must call the same one."

    def _look_on(self) -> None:
        while not self._ended.wait(EVERY):
            try:
                self._compare()
                self._check_open()
                story = self.store.look(FAILED)
                if story is not None:
                    raise DistBackendError(story.decode())
            except DistBackendError as error:
                self._end(error)
                return

    def _check_open(self) -> None:
        with self._order:
            self._open = [one for one in self._open if not one[0]()]
            late = [what for _, what, limit in self._open if time.monotonic() > limit]
        if late:
            raise DistBackendError(
                f"{late[0]} waited {self.timeout:g} s for the other ranks; one of them has ended, is slow, or never "
                "calls it. Look at the output of the other ranks, or give init_process_group a longer timeout"
            )

    def _end(self, error: DistBackendError) -> None:
        """Say it, end the GPU's wait, and this process if it does not end by itself."""
        if self._ended.is_set():
            return
        self.seen = error
        rank = self.ranks[self.rank]
        tell(self.store, f"rank {rank}: {error}")
        sys.stderr.write("".join(f"[rank {rank}] {line}\n" for line in str(error).splitlines()))
        sys.stderr.flush()
        threading.Thread(target=self.abort, daemon=True).start()
        if not self._ended.wait(LAST_WORDS):
            os._exit(1)

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=1.0)


def tell_of_errors(store: Store, rank: int) -> None:
    """From now on an exception that nobody catches ends every rank: the others would wait for this one for ever."""
    before = sys.excepthook

    def report(kind: type[BaseException], error: BaseException, where: Any) -> None:
        tell(store, f"rank {rank} has ended with {kind.__name__}: {error}")
        before(kind, error, where)

    sys.excepthook = report


def tell(store: Store, story: str) -> None:
    """Tell the other processes why this one ends. The first story stays."""
    with contextlib.suppress(DistBackendError):
        if store.look(FAILED) is None:
            store.set(FAILED, story)
