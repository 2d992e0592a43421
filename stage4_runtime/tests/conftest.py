"""Every test of the runtime has a cache folder of its own and starts with nothing built in this process."""

import ctypes
import sys

import pytest

from stage4_runtime.runtime import issue
from stage4_runtime.runtime.build import forget_built
from stage_contracts import config


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
def event_log():
    """`event_log("cache")`: the events of that kind recorded since the test began."""
    from stage_contracts.events import EVENT_LOG

    start = EVENT_LOG.mark()
    return lambda kind: EVENT_LOG.since(start, kind)
