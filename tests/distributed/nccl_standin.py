"""A stand-in for CuPy's `cuda` and `cuda.nccl`: the same calls, on memory of the CPU, between real processes.

Input: `install()` in each process, before init_process_group("nccl"). A stream is a thread that runs late on purpose,
so a result that nobody waited for is seen to be wrong. Ranks whose counts, types or operations differ stop the test.
"""

import ctypes
import json
import queue
import random
import threading
import time
from types import SimpleNamespace

import ml_dtypes
import numpy as np

from cutaway.distributed import collectives, gpu_collectives, lanes, nccl, nccl_lane
from cutaway.distributed.store import TCPStore

TYPES = [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32, np.float64,
         ml_dtypes.bfloat16]  # fmt: skip
NAMES = ["INT8", "UINT8", "INT32", "UINT32", "INT64", "UINT64", "FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16"]
OPS = {"SUM": np.sum, "PROD": np.prod, "MAX": np.max, "MIN": np.min, "AVG": np.mean}
LATE = 0.002  # seconds at most before a stream runs what it was given


class Device:
    """`with Device(index)`: what is made inside belongs to that device, as in CuPy. Tensors are on the last one."""

    current = 0

    def __init__(self, index):
        self.index = index

    def __enter__(self):
        self.before, Device.current = Device.current, self.index

    def __exit__(self, *_):
        Device.current = self.before


class Stream:
    """Runs what it is given, in order, later. `log` has the kinds of what was put on it."""

    made = []

    def __init__(self, non_blocking=False, priority=None):
        assert non_blocking, "a stream that waits for the default stream hides nothing"
        self.tasks, self.log, self.device = queue.SimpleQueue(), [], Device.current
        Stream.made.append(self)
        self.ptr = 1000 + len(Stream.made)
        threading.Thread(target=self._work, daemon=True).start()

    def put(self, kind, task):
        self.log.append(kind)
        self.tasks.put(task)

    def _work(self):
        while True:
            task = self.tasks.get()
            time.sleep(random.random() * LATE)
            task()

    def wait_event(self, event):
        self.put("wait", event.happened.wait)

    def synchronize(self):
        event = Event()
        event.record(self)
        event.synchronize()


class Current:
    """The program's stream: the CPU itself, which does what it is told at once. Each device has one."""

    ptr = 0

    def __init__(self, device):
        self.device = device

    def wait_event(self, event):
        event.synchronize()


class Event:
    def __init__(self, disable_timing=False):
        self.happened, self.device = threading.Event(), Device.current

    def record(self, stream):
        assert stream.device == self.device, (
            f"an event of device {self.device} on a stream of {stream.device}"
        )
        if isinstance(stream, Current):
            self.happened.set()
        else:
            stream.put("event", self.happened.set)

    @property
    def done(self):
        return self.happened.is_set()

    def synchronize(self):
        assert self.happened.wait(20), "an event that never happens"


def array_at(at, count, kind):
    nbytes = count * np.dtype(TYPES[kind]).itemsize
    return (
        np.frombuffer((ctypes.c_byte * nbytes).from_address(at), TYPES[kind])
        if nbytes
        else np.empty(0, TYPES[kind])
    )


class NcclCommunicator:
    """The data go through a store whose port is in the unique id."""

    def __init__(self, ndev, commId, rank):
        assert type(commId) is bytes and len(commId) == 128
        self.size_, self.rank = ndev, rank
        port = int(commId.rstrip(b"\0").decode())
        self.store = TCPStore("localhost", port, timeout=20, rank=rank)
        self.number, self.parcels = 0, {}

    def _together(self, about, sent, use, stream):
        """On the stream: every rank's bytes, in order; then `use` of them. All ranks must say the same of it."""
        self.number += 1
        number = self.number
        (on,) = [s for s in Stream.made if s.ptr == stream]
        assert on.log[-1] == "wait", "the lane's stream must wait for the program's first"

        def task():
            key = f"{number}"
            self.store.set(f"{key}:{self.rank}", json.dumps(about).encode() + b"\n" + bytes(sent().tobytes()))
            every = [self.store.get(f"{key}:{r}", 20).partition(b"\n") for r in range(self.size_)]
            assert all(json.loads(words) == about for words, _, _ in every), [words for words, _, _ in every]
            use([data for _, _, data in every])

        on.put(about[0], task)

    def _reduced(self, parts, kind, op):
        every = np.stack([np.frombuffer(p, TYPES[kind]) for p in parts])
        name = list(OPS)[op]
        wide = every.astype(np.float64) if every.dtype.kind in "fV" or kind in (6, 9) else every
        assert name != "AVG" or wide.dtype == np.float64
        return OPS[name](wide, axis=0).astype(TYPES[kind])

    def allReduce(self, sendbuf, recvbuf, count, datatype, op, stream):
        def use(parts):
            array_at(recvbuf, count, datatype)[:] = self._reduced(parts, datatype, op)

        self._together(
            ["allReduce", count, datatype, op], lambda: array_at(sendbuf, count, datatype), use, stream
        )

    def reduce(self, sendbuf, recvbuf, count, datatype, op, root, stream):
        def use(parts):
            if self.rank == root:
                array_at(recvbuf, count, datatype)[:] = self._reduced(parts, datatype, op)

        self._together(
            ["reduce", count, datatype, op, root], lambda: array_at(sendbuf, count, datatype), use, stream
        )

    def reduceScatter(self, sendbuf, recvbuf, recvcount, datatype, op, stream):
        def use(parts):
            mine = slice(self.rank * recvcount, (self.rank + 1) * recvcount)
            array_at(recvbuf, recvcount, datatype)[:] = self._reduced(parts, datatype, op)[mine]

        self._together(["reduceScatter", recvcount, datatype, op],
                       lambda: array_at(sendbuf, recvcount * self.size_, datatype), use, stream)  # fmt: skip

    def broadcast(self, sendbuff, recvbuff, count, datatype, root, stream):
        def use(parts):
            array_at(recvbuff, count, datatype)[:] = np.frombuffer(parts[root], TYPES[datatype])

        self._together(
            ["broadcast", count, datatype, root], lambda: array_at(sendbuff, count, datatype), use, stream
        )

    def allGather(self, sendbuf, recvbuf, count, datatype, stream):
        def use(parts):
            array_at(recvbuf, count * self.size_, datatype)[:] = np.frombuffer(
                b"".join(parts), TYPES[datatype]
            )

        self._together(
            ["allGather", count, datatype], lambda: array_at(sendbuf, count, datatype), use, stream
        )

    def _number(self, way, end):
        self.parcels[way, end] = self.parcels.get((way, end), -1) + 1
        return f"{way}:{self.parcels[way, end]}"

    def send(self, sendbuf, count, datatype, peer, stream):
        key = self._number(f"{self.rank}>{peer}", "sent")
        GROUP.add(
            stream, lambda: self.store.set(key, array_at(sendbuf, count, datatype).tobytes()), first=True
        )

    def recv(self, recvbuf, count, datatype, peer, stream):
        key = self._number(f"{peer}>{self.rank}", "received")

        def task():
            found = np.frombuffer(self.store.get(key, 20), TYPES[datatype])
            assert len(found) == count, f"{key}: sent {len(found)} elements, received {count}"
            array_at(recvbuf, count, datatype)[:] = found

        GROUP.add(stream, task, first=False)

    def abort(self):
        pass

    def destroy(self):
        pass


class Group:
    """groupStart to groupEnd: sends before receives. Outside it a send waits until it is received, as NCCL's may."""

    def __init__(self):
        self.open = None

    def start(self):
        self.open = []

    def add(self, stream, task, first):
        assert self.open is not None, "a send or receive outside a group"
        self.open.append((not first, stream, task))

    def end(self):
        for _, stream, task in sorted(self.open, key=lambda one: one[0]):
            (on,) = [s for s in Stream.made if s.ptr == stream]
            on.put("parcel", task)
        self.open = None


GROUP = Group()
_SERVERS = []


def get_unique_id():
    _SERVERS.append(TCPStore("localhost", 0, is_master=True, timeout=20))
    digits = str(_SERVERS[-1].port).encode()
    return digits.ljust(128, b"\0")


NCCL = SimpleNamespace(
    get_unique_id=get_unique_id, NcclCommunicator=NcclCommunicator, groupStart=GROUP.start, groupEnd=GROUP.end,
    **{f"NCCL_{name}": k for k, name in enumerate(NAMES)}, **{f"NCCL_{name}": k for k, name in enumerate(OPS)},
)  # fmt: skip
LAST = 1  # the device of every tensor; the program's current device is 0, as in a process that sees all GPUs
CUDA = SimpleNamespace(
    Stream=Stream, Event=Event, get_current_stream=lambda: Current(Device.current), Device=Device,
    runtime=SimpleNamespace(getDeviceCount=lambda: LAST + 1),
)  # fmt: skip


def install():
    """From now on tensors of the CPU count as a GPU's, and NCCL is this file."""
    nccl.library = lambda: nccl.Engine(np, CUDA, NCCL)
    lanes.of_gpu = lambda array: True
    nccl_lane.device_of_array = lambda array: SimpleNamespace(index=LAST)
    gpu_collectives.on_gpu = collectives.on_gpu = lambda tensor: True
    collectives.array_of = refused


def refused(tensor, name="tensor"):
    """What reads a tensor's memory as the CPU's would fail on a GPU."""
    raise TypeError(f"can't convert cuda:0 device type tensor to numpy: {name}")
