"""Faults under the cache and the build: processes killed, files cut and changed, links, a full disk, many threads.

The large run: `python -m stage4_runtime.tests.cache_faults` (make cache-faults); here a slice of it.
"""

import errno
import os
import threading
from pathlib import Path

import numpy as np
import pytest

from stage4_runtime.runtime import build, launch, plan_memory
from stage4_runtime.tests.cache_faults import drive
from stage4_runtime.tests.programs import SUM_SOURCE, chain, cpp_unit, python_kernels
from stage4_runtime.tests.test_stage4_build import run_sum
from stage_contracts import config
from stage_contracts.errors import CompilerMissing
from stage_contracts.program import Free


def test_processes_killed_while_they_share_a_folder(tmp_path):
    done = drive(tmp_path / "cache", processes=3, seconds=8, seed=0)
    assert done["right results"] > 0


@pytest.mark.skipif(not hasattr(os, "lchown") or os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("what", ["folder", "link"])
def test_a_folder_or_a_link_that_somebody_else_made(tmp_path, event_log, what):
    place = tmp_path / "cache"
    place.mkdir(mode=0o700) if what == "folder" else place.symlink_to(tmp_path / "mine")
    (tmp_path / "mine").mkdir(mode=0o700)
    os.lchown(place, 12345, 12345)
    with config.patch(cache_dir=str(place)):
        run_sum(build(cpp_unit())["kernel0"])
    assert not list((tmp_path / "mine").iterdir())
    assert any("12345" in event.details["reason"] for event in event_log("cache"))


@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_full_disk(tmp_path, monkeypatch, event_log, at):
    """The n-th file that is written does not fit: the source, the library or the entry. A clear end, or none seen."""
    count, write = 0, Path.write_bytes

    def full(path, data):
        nonlocal count
        count += 1
        if count >= at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    try:
        kernels = build(cpp_unit())
    except CompilerMissing as error:  # the graph runs on NumPy then
        assert "No space left" in str(error)
    else:
        run_sum(kernels["kernel0"])
    monkeypatch.undo()
    assert not list((tmp_path / "cache").glob("new-*"))
    run_sum(build(cpp_unit(name="later"))["kernel0"])


def test_threads_that_build_and_run_at_many_sizes():
    """Eight threads ask for sizes in an order of their own; each result is its own size's."""
    units = {n: cpp_unit(SUM_SOURCE.replace("< 64", f"< {n}"), name=f"unit{n}") for n in (1, 2, 3, 5)}
    settings, errors = config.current().runtime, []

    def work(seed):
        try:
            with config.patch({f"runtime.{k}": v for k, v in vars(settings).items()}):
                for n in np.random.default_rng(seed).permutation([*units] * 4):
                    x, y = np.arange(n, dtype=np.float32), np.empty(n, np.float32)
                    assert build(units[int(n)])["kernel0"](x.ctypes.data, y.ctypes.data) == 0
                    assert (y == x + 1).all()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert not errors


def test_freed_bytes_are_overwritten():
    """A kernel that keeps an address and reads it after the free sees 0xAB, and nobody else does."""
    of = plan_memory(chain(6))
    with config.patch({"runtime.poison": True}):
        run = launch(of, python_kernels(of), {})
    assert "poison(pool0 + 0, 256)" in run.source_text
    for _ in range(3):
        (y,) = run(np.zeros(64, np.float32))
        np.testing.assert_array_equal(y, np.full(64, 6, np.float32))


def test_a_program_that_frees_too_early_is_found():
    of = plan_memory(chain(3))
    free = next(k for k, step in enumerate(of.steps) if isinstance(step, Free))
    early = [*of.steps]
    early.insert(free - 1, early.pop(free))  # before its last reader
    with config.patch({"runtime.poison": True}):
        run = launch(of.with_(steps=tuple(early)), python_kernels(of), {})
    (y,) = run(np.zeros(64, np.float32))
    assert (y != 3).all()
