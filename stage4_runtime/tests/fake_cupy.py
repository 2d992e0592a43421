"""A CuPy made of NumPy memory: as much as the runtime's adapter calls, with launches that can be looked at.

Input: kernels by name, as Python functions of addresses. While a stream captures, launches are kept instead
of run; launching the graph runs them with the arguments they were captured with, as a GPU would. With `draw`, a random
generator, streams run when they like (fake_streams.py), and memory that is freed is given to the next who asks.
"""

import contextlib
import ctypes
import types
from types import SimpleNamespace

import numpy as np

from stage4_runtime.tests.fake_streams import Queues


class Pointer:
    def __init__(self, memory, ptr):
        self.memory, self.ptr = memory, ptr

    def __add__(self, offset):
        return Pointer(self.memory, self.ptr + offset)


class Array(np.ndarray):
    """`cupy.ndarray`: host memory, addressed by `.data.ptr`."""

    def __new__(cls, shape, dtype=float, memptr=None, strides=None):
        if memptr is None:
            memptr = empty(max(int(np.prod(shape)) * np.dtype(dtype).itemsize, 1)).data
        start = memptr.ptr - memptr.memory.__array_interface__["data"][0]
        return super().__new__(cls, shape, dtype, memptr.memory, start, strides)

    before = staticmethod(lambda: None)  # what NumPy waits for before it computes with one

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **kwargs):
        self.before()
        given = {"out": tuple(map(_plain, out))} if out else {}
        kwargs = {name: _plain(value) for name, value in kwargs.items()}
        made = getattr(ufunc, method)(*map(_plain, inputs), **given, **kwargs)
        if out:
            return out[0] if len(out) == 1 else out
        return tuple(map(_ours, made)) if isinstance(made, tuple) else _ours(made)

    @property
    def data(self):
        return Pointer(_block(self), self.__array_interface__["data"][0])


def _plain(value):
    return value.view(np.ndarray) if isinstance(value, Array) else value


def _ours(value):
    """NumPy's result as an array of ours; in the pool's memory, which outlives it, where there is a pool."""
    if not isinstance(value, np.ndarray):
        return value
    return value.view(Array) if Pool.blocks is None else array(value, value.dtype)


def _block(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.view(np.ndarray)


class Unowned:
    """`cupy.cuda.UnownedMemory`: memory that somebody else has; it keeps the owner alive."""

    def __init__(self, ptr, size, owner, device_id):
        self.owner = owner
        self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (size,), "data": (ptr, False)}


class Pool:
    """Freed blocks, the last one first, whoever still uses them; none goes back to the system."""

    blocks = None  # None: no pool, as most tests have it

    def __init__(self, raw):
        self.raw = raw
        self.__array_interface__ = raw.__array_interface__

    def __del__(self):
        if Pool.blocks is not None:
            Pool.blocks.append(self.raw)

    @classmethod
    def get(cls, nbytes):
        fits = [k for k, raw in enumerate(cls.blocks) if raw.nbytes >= nbytes]
        raw = cls.blocks.pop(fits[-1]) if fits else np.full(nbytes, 0xAB, np.uint8)
        return np.asarray(cls(raw))


def empty(nbytes, dtype="uint8"):
    """Aligned to 512 bytes, as cudaMalloc does it."""
    raw = np.empty(nbytes + 512, dtype) if Pool.blocks is None else Pool.get(nbytes + 512)
    start = -raw.__array_interface__["data"][0] % 512
    return raw[start : start + nbytes].view(Array)


def _pointer(memory, offset):
    block = np.asarray(memory)  # which keeps it alive
    return Pointer(block, block.__array_interface__["data"][0] + offset)


class Stream:
    count = 100

    def __init__(self, fake, non_blocking=False):
        Stream.count += 1
        self.ptr, self.fake = Stream.count, fake

    def __enter__(self):
        self.fake.streams.append(self)
        return self

    def __exit__(self, *_):
        self.fake.streams.pop()

    @property
    def captured(self):
        return self.fake.queues.captures.get(self.ptr)

    def record(self):
        event = Event(self.fake)
        event.token = self.fake.queues.record(self.ptr)
        return event

    def wait_event(self, event):
        self.fake.log.append(("wait", self.ptr, ("event", event.token.stream)))
        self.fake.queues.wait(self.ptr, event.token)

    def synchronize(self):
        self.fake.queues.drain(self.ptr)

    def begin_capture(self):
        self.fake.queues.begin(self.ptr)

    def end_capture(self):
        run, count = self.fake.queues.end(self.ptr)
        fake = self.fake

        def launch(stream):
            fake.log.append(("graph", stream.ptr, count))
            fake.queues.put(stream.ptr, run)

        return SimpleNamespace(launch=launch)


class Event:
    """`cupy.cuda.Event`; its address is a number by which the fake knows it."""

    def __init__(self, fake, disable_timing=False):
        self.token, self.ptr = None, id(self)
        fake.events[self.ptr] = self


class RefusedByDriver(RuntimeError):
    """`cupy.cuda.driver.CUDADriverError`."""


class FakeCupy:
    """The module. `log` has every launch: (kernel, launch shape and shared memory, stream, arguments)."""

    ndarray = Array
    devices = 2
    from_c = 0  # launches that came by `launch_for_c`

    def __init__(self, kernels, draw=None):
        self.queues, self.events = Queues(draw), {}
        Pool.blocks = None if draw is None else []
        Array.before = staticmethod(lambda: self.queues.drain(self.streams[-1].ptr) if draw else None)
        self.kernels, self.log, self.attributes = kernels, [], []
        self.functions = []  # names; a handle is a number, as the driver's
        self.streams = [Stream(self)]
        self.empty = empty
        driver = SimpleNamespace(
            moduleLoadData=lambda cubin: ("module", cubin),
            moduleGetFunction=self._function,
            CUDADriverError=RefusedByDriver,
            funcSetAttribute=lambda function, attribute, value: self.attributes.append((attribute, value)),
            launchKernel=self._launch,
        )
        self.cuda = SimpleNamespace(
            driver=driver,
            Device=lambda index: _Device(index, self),
            Stream=lambda non_blocking=False: Stream(self),
            Event=lambda disable_timing=False: Event(self, disable_timing),
            Memory=self._memory,
            alloc=lambda nbytes: empty(nbytes).data,
            UnownedMemory=Unowned,
            MemoryPointer=lambda memory, offset: _pointer(memory, offset),
            MemoryPool=lambda: SimpleNamespace(malloc="malloc of a pool"),
            using_allocator=self._using_allocator,
            get_allocator=lambda: "the caller's",
            runtime=SimpleNamespace(
                getDevice=lambda: 0,
                getDeviceCount=lambda: self.devices,
                streamIsCapturing=self._captures,
                eventRecord=self._record,
                streamWaitEvent=self._wait,
            ),
            get_current_stream=lambda: self.streams[-1],
        )

    def __getattr__(self, name):
        found = getattr(np, name)
        of_arrays = isinstance(found, np.ufunc | types.FunctionType | types.BuiltinFunctionType)
        return self._in_order(found) if of_arrays and self.queues.draw is not None else found

    def _in_order(self, function):
        """What NumPy does at once comes after all that its stream was given."""

        def call(*args, **kwargs):
            self.queues.drain(self.streams[-1].ptr)
            return _ours(function(*args, **kwargs))

        return call

    def _record(self, event, stream):
        self.events[event].token = self.queues.record(stream)

    def _wait(self, stream, event):
        self.queues.wait(stream, self.events[event].token)

    def asarray(self, values):
        self.queues.drain(self.streams[-1].ptr)
        return values if isinstance(values, Array) else array(values, np.asarray(values).dtype)

    def matmul(self, *args, **kwargs):
        if self.streams[-1].captured is not None:
            raise NotImplementedError("calling cuBLAS API during stream capture is currently unsupported")
        self.queues.drain(self.streams[-1].ptr)
        return _ours(np.matmul(*args, **kwargs)) if not kwargs else np.matmul(*args, **kwargs)

    @contextlib.contextmanager
    def _using_allocator(self, malloc):
        self.log.append(("allocator", malloc))
        yield

    def _captures(self, stream):
        return stream in self.queues.captures

    def _memory(self, nbytes):
        assert self.streams[-1].captured is None, "memory of the driver's, while a stream is captured"
        block = empty(nbytes)
        self.log.append(("memory", nbytes))
        return SimpleNamespace(ptr=block.data.ptr, block=block)

    def _function(self, module, name):
        self.functions.append(name)
        return len(self.functions)

    def launch_for_c(self, refuses=0):
        """`_launch` as a C function of cuLaunchKernel's signature, which says `refuses`; keep it while it is used."""
        words = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]

        def launch(function, *rest):
            if not refuses:
                self.from_c += 1
                *shape, stream, address, extra = rest
                self._launch(function, *shape, stream or 0, address, extra or 0)
            return refuses

        return ctypes.CFUNCTYPE(ctypes.c_int, *words)(launch)

    def _launch(self, function, gx, gy, gz, bx, by, bz, shared, stream, address, extra):
        name = self.functions[function - 1]
        kernel, count = self.kernels[name]
        pointers = (ctypes.c_void_p * (count + 2)).from_address(address)
        arguments = [ctypes.c_uint64.from_address(p).value for p in pointers]
        assert arguments[count:] == [0, 0], "the two scratch pointers"
        call = (name, (gx, gy, gz, bx, by, bz, shared), stream, tuple(arguments[:count]))
        if not self._captures(stream):
            self.log.append(call)
        self.queues.put(stream, lambda: kernel(*call[3]))


class _Device:
    def __init__(self, index, fake):
        self.index, self.fake, self.compute_capability = index, fake, "90"

    def __enter__(self):
        self.fake.log.append(("device", self.index))

    def __exit__(self, *_):
        pass


def array(values, dtype=np.float32):
    values = np.asarray(values, dtype)
    fresh = empty(max(values.nbytes, 1))
    result = Array(values.shape, values.dtype, fresh.data)
    result[...] = values
    return result
