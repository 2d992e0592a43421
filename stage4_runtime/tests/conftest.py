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
def ledger():
    """`ledger("cache")`: the events of that kind recorded since the test began."""
    from stage_contracts.events import LEDGER

    start = LEDGER.mark()
    return lambda kind: LEDGER.since(start, kind)
