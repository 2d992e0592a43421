"""What the host says beside NCCL: objects and agreement by a store, with the calls of MPI's communicators.

Input: a store, and a group's place in it. agreement.py, DistributedDataParallel and the object collectives use it where
no mpiexec started the processes. A word is read by all before its writer takes it away.
"""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np

from cutaway.distributed.store import Store


class StoreComm:
    """`allgather`, `gather`, `bcast` and `Iallgather` of a few bytes for each rank."""

    def __init__(self, store: Store, name: str, size: int, rank: int, timeout: float) -> None:
        self.store, self.name, self.size, self.rank, self.timeout = store, name, size, rank, timeout
        self._said = itertools.count()
        self._copies = itertools.count()

    def Get_size(self) -> int:
        return self.size

    def Dup(self) -> StoreComm:
        return StoreComm(self.store, f"{self.name}/{next(self._copies)}", self.size, self.rank, self.timeout)

    def _say(self, word: bytes) -> str:
        """Leave this rank's word for the next round; returns where the round's words are."""
        number = next(self._said)
        self.store.set(f"{self.name}:{number}:{self.rank}", word)
        if number > 1:  # all have begun the round before this one, so all have read the one before that
            self.store.delete_key(f"{self.name}:{number - 2}:{self.rank}")
        return f"{self.name}:{number}"

    def allgather(self, obj: Any) -> list[Any]:
        """Every rank's object. By pickle, so only among processes that you trust."""
        at = self._say(pickle.dumps(obj))
        return [pickle.loads(self.store.get(f"{at}:{rank}", self.timeout)) for rank in range(self.size)]

    def bcast(self, obj: Any, root: int) -> Any:
        return self.allgather(obj if self.rank == root else None)[root]

    def gather(self, obj: Any, root: int) -> list[Any] | None:
        every = self.allgather(obj)
        return every if self.rank == root else None

    def Iallgather(self, sent: np.ndarray, got: np.ndarray) -> Round:
        return Round(self.store, self._say(sent.tobytes()), got)


class Round:
    """A round under way: `Test()` says whether all words are in the array."""

    def __init__(self, store: Store, at: str, got: np.ndarray) -> None:
        self.store, self.at, self.got, self.missing = store, at, got.reshape(-1), [*range(got.size)]

    def Test(self) -> bool:
        for rank in [*self.missing]:
            word = self.store.look(f"{self.at}:{rank}")
            if word is None:
                return False
            self.got[rank] = np.frombuffer(word, self.got.dtype)[0]
            self.missing.remove(rank)
        return True
