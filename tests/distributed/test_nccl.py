"""backend="nccl" without a GPU: whole processes whose NCCL is the stand-in, and the parts by themselves.

Input: programs/, started with torchrun's variables. The stand-in's streams run late and compare what the ranks ask for.
"""

import re
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from cutaway.distributed import nccl, nccl_binding, nccl_lane, rendezvous
from cutaway.distributed.agreement import DistBackendError
from cutaway.distributed.nccl import Engine, reducible
from cutaway.distributed.store import FAILED, FileStore, TCPStore
from cutaway.distributed.store_comm import StoreComm
from cutaway.distributed.watch import Watch
from tests.distributed.programs_run import NCCL_SAYS, start_apart


def test_collectives_and_training_and_a_rank_that_calls_something_else():
    """In one start. Where rank 1 still waits at the end, its launcher ends it, which this is."""
    scripts = [
        ("collectives.py", "nccl", "bfloat16", "bool"),
        ("data_parallel.py", "nccl", "perceptron", "compiled small buckets"),
    ]
    last = ("faults.py", "another collective", "after some", "nccl")
    words = [word for script in [*scripts, last] for word in ("--", *script)][1:]
    (status, said), *_ = start_apart("several.py", *words, first_ends=True)
    assert re.search(r"rank 0: \d{3} results equal", said) and "training equal to one process" in said, said
    assert status != 0 and "ended well" not in said, said
    assert re.search(NCCL_SAYS["another collective"], said, re.S), said


class Kept:
    """A store's keys in this process."""

    def __init__(self):
        self.keys = {}

    def look(self, key):
        return self.keys.get(key)

    def set(self, key, value):
        self.keys[key] = value


@pytest.mark.parametrize("failed", [False, True])
def test_a_group_ends_although_the_other_rank_will_never_come(failed):
    """Its call is under way for ever. It is aborted when a rank has told of its end, else after the timeout."""
    said, store = [], Kept()
    lane = nccl_lane.NcclLane(store, "g", (0, 1), 0, 60 if failed else 0.2)
    comm = SimpleNamespace(abort=lambda: said.append("abort"), destroy=lambda: said.append("destroy"))
    lane._link = nccl.Link(Engine(None, None, None), comm, 0, 2, 5)
    lane._under_way.append(SimpleNamespace(done=lambda: False))
    if failed:
        store.set(FAILED, b"rank 1 has ended with ValueError")
    lane.close()
    assert said == ["abort"]


def test_a_send_alone_is_looked_after():
    watch = Watch(Kept(), "g", (0, 1), 0, 0.2, lambda: None)
    watch.follow(lambda: False, "isend(dst=1) at a.py:1")
    assert watch._thread is not None
    watch.close()


def test_a_killed_rank_is_named():
    """All faults: make distributed."""
    (status, said), *_ = start_apart("faults.py", "killed", "after some", "nccl", first_ends=True)
    assert status != 0 and "ended well" not in said, said
    assert re.search(NCCL_SAYS["killed"], said, re.S), said


@pytest.fixture(params=["tcp", "file"])
def stores(request, tmp_path):
    """Two processes' ends of one store."""
    if request.param == "tcp":
        first = TCPStore("localhost", 0, 2, True, 5)
        yield first, TCPStore("localhost", first.port, 2, False, 5, 1)
    else:
        yield FileStore(tmp_path / "s", 2, 5), FileStore(tmp_path / "s", 2, 5)


def test_a_store_brings_words_from_one_to_the_other(stores):
    one, other = stores
    assert other.look("key") is None
    threading.Timer(0.05, one.set, ("key", b"\x00\xffword")).start()
    assert other.get("key") == b"\x00\xffword"
    assert [one.add("count", 2), other.add("count", 3)] == [2, 5]
    assert one.delete_key("key") and other.look("key") is None
    with pytest.raises(DistBackendError, match=r"no process has set 'never' within 0.1 s"):
        one.get("never", 0.1)
    one.set(FAILED, "rank 0 has had enough")
    began = time.monotonic()
    with pytest.raises(DistBackendError, match="rank 0 has had enough"):
        other.get("never", 5)
    assert time.monotonic() - began < 2


def test_the_host_gathers_objects(stores):
    comms = [StoreComm(store, "g", 2, rank, 5) for rank, store in enumerate(stores)]
    found = [None, None]

    def run(rank):
        mine = [comms[rank].allgather({"rank": rank, "round": k}) for k in range(4)]
        found[rank] = mine, comms[rank].bcast(rank + 7, 1)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert found == [([[{"rank": r, "round": k} for r in range(2)] for k in range(4)], 8)] * 2


def test_a_watch_names_both_sentences_and_lines(stores):
    watches = [Watch(store, "g", (0, 1), rank, 3, lambda: None) for rank, store in enumerate(stores)]
    errors = [None, None]

    def run(rank):
        try:
            watches[rank].say("all_reduce(SUM, float32[2])", "a.py:1")
            watches[rank].say(f"all_reduce(SUM, float32[{rank + 2}])", f"a.py:{rank + 2}")
        except DistBackendError as error:
            errors[rank] = str(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    [w.close() for w in watches]
    told = "rank 0: all_reduce(SUM, float32[2]) at a.py:2\n  rank 1: all_reduce(SUM, float32[3]) at a.py:3"
    assert any(error and told in error for error in errors), errors


@pytest.mark.parametrize(
    ("reduction", "dtype", "found"),
    [("sum", "bool", ("UINT8", "MAX", 1)), ("avg", "complex64", ("FLOAT32", "AVG", 2)), ("min", "int8", ("INT8", "MIN", 1))],
)  # fmt: skip
def test_types_and_operations_of_nccl(reduction, dtype, found):
    assert reducible(reduction, np.dtype(dtype)) == found


@pytest.mark.parametrize(
    ("reduction", "dtype"), [("avg", "int32"), ("bor", "int32"), ("sum", "int16"), ("max", "complex64")]
)
def test_what_nccl_cannot_do_is_refused(reduction, dtype):
    with pytest.raises(TypeError, match="ReduceOp"):
        reducible(reduction, np.dtype(dtype))


class Library:
    """Looks like libnccl by ctypes; `said` has the calls."""

    def __init__(self):
        self.said, self.status = [], 0

    def __getattr__(self, name):
        def call(*arguments):
            self.said.append((name, *(getattr(a, "value", a) for a in arguments)))
            if name == "ncclCommInitRank":
                arguments[0]._obj.value = 77
            return b"unhandled" if name == "ncclGetErrorString" else self.status

        setattr(self, name, call)
        return call


def test_without_cupys_module_the_library_gets_the_same_calls():
    library = Library()
    made = nccl_binding.binding(library)
    told = made.get_unique_id()
    assert len(told) == 128
    comm = made.NcclCommunicator(2, told, 1)
    assert library.said[-1][2] == 2 and library.said[-1][4] == 1
    comm.allReduce(10, 20, 3, made.NCCL_BFLOAT16, made.NCCL_AVG, 5)
    comm.send(10, 3, made.NCCL_UINT8, 1, 5)
    assert library.said[-2:] == [("ncclAllReduce", 10, 20, 3, 9, 4, 77, 5), ("ncclSend", 10, 3, 1, 1, 77, 5)]
    library.status = 1
    with pytest.raises(nccl_binding.NcclError, match="ncclGroupStart: unhandled"):
        made.groupStart()
    library.status = 0
    comm.abort()
    comm.destroy()
    assert [name for name, *_ in library.said].count("ncclCommAbort") == 1
    assert "ncclCommDestroy" not in [name for name, *_ in library.said]


def test_a_library_that_is_nowhere_is_named(monkeypatch):
    monkeypatch.setattr(nccl_binding, "places", lambda: iter(["nowhere/libnccl.so.2"]))
    with pytest.raises(OSError, match=r"found no NCCL library; tried nowhere/libnccl.so.2"):
        nccl_binding.binding()


def test_a_rank_without_an_address_is_told_what_to_set(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match=r"variable RANK is expected.*torchrun"):
        rendezvous.meet(None, -1, -1, 1)
    with pytest.raises(ValueError, match="variable MASTER_PORT is expected"):
        rendezvous.meet(None, 2, 0, 1)
    with pytest.raises(ValueError, match="rank is 2"):
        rendezvous.meet("tcp://localhost:1", 2, 2, 1)
