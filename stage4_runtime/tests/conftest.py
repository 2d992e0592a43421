"""Every test of the runtime has a cache folder of its own and starts with nothing built in this process."""

import pytest

from stage4_runtime.runtime.build import forget_built
from stage_contracts import config


@pytest.fixture(autouse=True)
def private_cache(tmp_path):
    forget_built()
    with config.patch(cache_dir=str(tmp_path / "cache"), cxx_flags="-O1"):
        yield tmp_path / "cache"


@pytest.fixture
def event_log():
    """`event_log("cache")`: the events of that kind recorded since the test began."""
    from stage_contracts.events import EVENT_LOG

    start = EVENT_LOG.mark()
    return lambda kind: EVENT_LOG.since(start, kind)
