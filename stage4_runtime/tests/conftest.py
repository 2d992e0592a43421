"""Every test of the runtime has a cache folder of its own and starts with nothing built in this process."""

import ctypes
import sys

import pytest

from stage4_runtime.runtime import issue, launch, plan_memory
from stage4_runtime.runtime.build import forget_built
from stage4_runtime.tests.fake_cupy import FakeCupy, Pool
from stage4_runtime.tests.programs import loaded_kernel, python_kernels
from stage_contracts import config
from stage_contracts.device import Device


@pytest.fixture(autouse=True)
def private_cache(tmp_path):
    forget_built()
    with config.patch(cache_dir=str(tmp_path / "cache"), cxx_flags="-O1"):
        yield tmp_path / "cache"


@pytest.fixture(params=["from Python", "from C"])
def put_cupy(request, monkeypatch):
    """`put_cupy(fake)`: CuPy is this one, and its driver is called from Python or from C."""
    kept = []

    def put(fake):
        monkeypatch.setitem(sys.modules, "cupy", fake)
        if request.param == "from C":
            kept.append(fake.launch_for_c())
            place = ctypes.cast(kept[-1], ctypes.c_void_p).value
            monkeypatch.setattr(issue, "driver_launch", lambda cp: place)

    return put


@pytest.fixture
def on_fake_gpu(put_cupy):
    """`on_fake_gpu(program)`: (run, the fake CuPy); kernels run in Python on the addresses they are given.

    `on`: the fake of an earlier program, whose kernels have other names.
    """

    def start(of, constants=None, on=None, **options):
        kernels = python_kernels(of)
        table = {n: (kernels[n], len(k.params)) for n, k in of.kernels.items()}
        fake = on or FakeCupy({})
        assert not fake.kernels.keys() & table
        fake.kernels |= table
        if on is None:
            put_cupy(fake)
        gpu = plan_memory(of.with_(device=Device("cuda")))
        loaded = {name: loaded_kernel(name, len(kernel.params)) for name, kernel in of.kernels.items()}
        return launch(gpu, loaded, constants or {}, **options), fake

    return start


@pytest.fixture
def on_streams(put_cupy):
    """`on_streams(planned, draw)`: (run, the fake CuPy), its streams run as `draw` says."""

    def start(of, draw=None, **options):
        kernels = python_kernels(of)
        fake = FakeCupy({n: (kernels[n], len(k.params)) for n, k in of.kernels.items()}, draw)
        put_cupy(fake)
        loaded = {name: loaded_kernel(name, len(kernel.params)) for name, kernel in of.kernels.items()}
        return launch(of, loaded, {}, **options), fake

    yield start
    Pool.blocks = None


@pytest.fixture
def event_log():
    """`event_log("cache")`: the events of that kind recorded since the test began."""
    from stage_contracts.events import EVENT_LOG

    start = EVENT_LOG.mark()
    return lambda kind: EVENT_LOG.since(start, kind)
