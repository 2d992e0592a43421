"""Each of these tests has a disk cache of its own, and keeps graphs of any length."""

import pytest

from cutaway import aot_cache
from stage_contracts import config

QUICK = {"runtime.cxx_flags": "-O0 -march=native -fopenmp -ffp-contract=off"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(aot_cache, "FEWEST", 0)
    with config.patch(cache_dir=str(tmp_path / "cache")), config.patch(QUICK):
        yield
