"""The disk cache: whatever is wrong with an entry or the folder is a miss, not an error or a wrong value."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from stage4_runtime.runtime import build, cache, private_folder
from stage4_runtime.runtime.build import forget_built
from stage4_runtime.tests.programs import SUM_SOURCE, cpp_unit
from stage_contracts import config

KEY = cache.Key("forward", {"source": "text", "flags": "-O3", "compiler": "g++ 12"})
FILES = {"kernels.so": b"machine code", "kernels.cpp": b"text"}


def entry_of(root):
    (folder,) = (root / "entries").glob("??/*")
    return folder


def build_again(unit=None):
    """Build as a new process would, and run the kernel."""
    forget_built()
    kernel = build(unit or cpp_unit())["kernel0"]
    x, y = np.arange(64, dtype=np.float32), np.empty(64, np.float32)
    assert kernel(x.ctypes.data, y.ctypes.data) == 0
    np.testing.assert_array_equal(y, x + 1)


def asked(event_log):
    """(hit or miss, reason) of each time the cache was asked."""
    return [(e.name, e.details.get("reason", "")) for e in event_log("cache")]


def test_a_second_build_is_a_hit(event_log):
    build_again()
    build_again()
    assert asked(event_log) == [("miss", "new source"), ("hit", "")]
    assert len(event_log("build")) == 1


def test_the_folder_is_private(private_cache):
    cache.store(KEY, FILES)
    assert private_cache.stat().st_mode & 0o777 == 0o700
    assert (private_cache / "secret").stat().st_mode & 0o777 == 0o600
    assert entry_of(private_cache).stat().st_mode & 0o077 == 0


def _flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def _edit(change):
    def damage(entry):
        record = json.loads((entry / "entry.json").read_text())
        change(record)
        (entry / "entry.json").write_text(json.dumps(record))

    return damage


def _foreign(record):
    """What someone without the secret could write: right digests, wrong MAC."""
    record["files"]["kernels.so"] = record["files"]["kernels.cpp"]


DAMAGE = {
    "a flipped bit": lambda entry: _flip(entry / "kernels.so"),
    "a truncated library": lambda entry: os.truncate(entry / "kernels.so", 100),
    "an empty library": lambda entry: os.truncate(entry / "kernels.so", 0),
    "no library": lambda entry: (entry / "kernels.so").unlink(),
    "truncated metadata": lambda entry: os.truncate(entry / "entry.json", 20),
    "empty metadata": lambda entry: os.truncate(entry / "entry.json", 0),
    "no metadata": lambda entry: (entry / "entry.json").unlink(),
    "metadata that is not a record": lambda entry: (entry / "entry.json").write_text("[1, 2]"),
    "metadata of another shape": lambda entry: (entry / "entry.json").write_text('{"mac": 3}'),
    "a foreign MAC": _edit(lambda record: record.update(mac="0" * 64)),
    "no MAC": _edit(lambda record: record.pop("mac")),
    "a forged digest": _edit(_foreign),
    "another key's entry": _edit(lambda record: record["digests"].update(source="0" * 64)),
    "a new secret": lambda entry: (entry.parents[2] / "secret").write_bytes(b"s" * 32),
    "a short secret": lambda entry: (entry.parents[2] / "secret").write_bytes(b"s"),
    "a secret others can read": lambda entry: (entry.parents[2] / "secret").chmod(0o644),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_broken_entry_is_a_miss_and_is_replaced(damage, private_cache, event_log):
    cache.store(KEY, FILES)
    DAMAGE[damage](entry_of(private_cache))
    assert cache.load(KEY) is None
    assert asked(event_log)[0][1].startswith("corrupt: ")
    cache.store(KEY, FILES)
    assert cache.load(KEY) == FILES


def test_a_corrupt_library_is_built_again(private_cache, event_log):
    build_again()
    _flip(entry_of(private_cache) / "kernels.so")
    build_again()
    build_again()
    assert [name for name, _ in asked(event_log)] == ["miss", "miss", "hit"]
    assert len(event_log("build")) == 2


def test_an_entry_of_another_key_in_the_right_place_is_a_miss(private_cache, event_log):
    other = cache.Key("forward", {**KEY.parts, "flags": "-O0"})
    cache.store(KEY, FILES)
    place = private_cache / "entries" / other.digest[:2] / other.digest
    place.parent.mkdir(exist_ok=True)
    entry_of(private_cache).rename(place)
    assert cache.load(other) is None
    assert asked(event_log)[-1] == ("miss", "corrupt: the entry belongs to another key")


@pytest.mark.parametrize("part", ["source", "flags", "compiler"])
def test_a_miss_says_which_part_of_the_key_changed(part, event_log):
    cache.store(KEY, FILES)
    cache.load(cache.Key("forward", {**KEY.parts, part: "another"}))
    cache.load(cache.Key("backward", KEY.parts | {part: "another"}))
    assert asked(event_log) == [("miss", f"changed: {part}"), ("miss", "new source")]


def test_another_compiler_is_a_miss(tmp_path, event_log):
    wrapper = tmp_path / "my c++"
    wrapper.write_text('#!/bin/sh\nexec g++ "$@"\n')
    wrapper.chmod(0o755)
    with config.patch(cxx=str(wrapper)):
        build_again()
        wrapper.write_text('#!/bin/sh\n# updated\nexec g++ "$@"\n')
        build_again()
    with config.patch(cxx_flags="-O0"):
        build_again()
    assert [reason for _, reason in asked(event_log)] == [
        "new source", "changed: compiler", "changed: compiler, flags"
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["with spaces", "it's", 'a "quoted" one', "$HOME;true", "ünïcode"])
def test_any_path_will_do(tmp_path, name, event_log):
    with config.patch(cache_dir=str(tmp_path / name)):
        build_again()
        build_again()
    assert [event for event, _ in asked(event_log)] == ["miss", "hit"]


def test_a_folder_that_others_can_write_to_is_not_used(private_cache, event_log):
    private_cache.mkdir()
    private_cache.chmod(0o777)
    build_again()
    assert not list(private_cache.iterdir())
    assert "others may write to" in asked(event_log)[0][1]


def test_a_folder_of_another_user_is_not_used(private_cache, monkeypatch, event_log):
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    build_again()
    assert "expected 12345" in asked(event_log)[0][1]
    assert not list(private_cache.iterdir())


def test_a_file_where_the_folder_should_be(private_cache, event_log):
    private_cache.write_text("")
    build_again()
    assert asked(event_log)[0][1].startswith("no disk cache: ")


def test_a_switched_off_cache_writes_nothing(private_cache, event_log):
    with config.patch(cache=False):
        build_again()
    assert not private_cache.exists()
    assert "switched off" in asked(event_log)[0][1]


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), PermissionError(13, "Permission denied")]
)
@pytest.mark.parametrize("call", ["write_bytes", "rename", "mkdir", "read_bytes"])
def test_a_full_disk_or_a_read_only_folder_is_a_miss(private_cache, monkeypatch, error, call, event_log):
    """Simulated, because a user who may do everything can write to read-only folders."""
    build_again()
    real = getattr(Path, call)

    def fail(self, *args, **kwargs):
        if private_cache in (self, *self.parents):
            raise error
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, call, fail)
    build_again(cpp_unit(SUM_SOURCE + "// changed\n"))
    build_again()
    monkeypatch.undo()
    assert asked(event_log)[1][0] == "miss"


def test_a_read_only_folder_still_gives_what_it_has(private_cache, event_log):
    build_again()
    for path in (private_cache, *private_cache.rglob("*")):
        path.chmod(0o500 if path.is_dir() else 0o400)
    build_again()
    build_again(cpp_unit(SUM_SOURCE + "// changed\n"))
    for path in (private_cache, *private_cache.rglob("*")):
        path.chmod(0o700)
    assert asked(event_log)[1][0] == "hit"


def test_the_least_recently_used_entries_go_first(private_cache):
    keys = [cache.Key(f"k{n}", {"source": str(n)}) for n in range(4)]
    for age, key in enumerate(keys[:3]):
        cache.store(key, {"data": bytes(1000)})
        (entry,) = (private_cache / "entries").glob(f"*/{key.digest}")
        os.utime(entry / "entry.json", (age, age))
    size = sum(p.stat().st_size for p in entry.iterdir())
    assert cache.load(keys[0]) is not None  # used now, so k1 is the oldest
    with config.patch(cache_bytes=3 * size + size // 2):
        cache.store(keys[3], {"data": bytes(1000)})
    assert [cache.load(key) is not None for key in keys] == [True, False, True, True]


def test_a_store_seldom_looks_at_every_entry(private_cache, monkeypatch):
    """Before there was a file with the size, each store did: 2.7 s where there are 12,000 entries."""
    walks, walk = [], cache.entries
    monkeypatch.setattr(cache, "entries", lambda root: walks.append(root) or walk(root))

    def held():
        return sum(p.stat().st_size for p in (private_cache / "entries").glob("*/*/*"))

    cache.store(KEY, FILES)
    size = held()
    with config.patch(cache_bytes=40 * size):
        for n in range(200):
            cache.store(cache.Key("k", {"source": f"{n:03}"}), {"data": bytes(sum(map(len, FILES.values())))})
            assert held() <= 40 * size, n
    assert held() > 30 * size and 2 < len(walks) < 80


@pytest.mark.parametrize("damage", [b"", b"12345678123", bytes(8 * 5000), None])
def test_a_size_that_cannot_be_known_is_counted_again(private_cache, damage):
    cache.store(KEY, FILES)
    size = sum(p.stat().st_size for p in (private_cache / "entries").glob("*/*/*"))
    stored = private_cache / "stored"
    stored.unlink() if damage is None else stored.write_bytes(damage)
    with config.patch(cache_bytes=size + 10):
        cache.store(cache.Key("other", {"source": "1"}), FILES)
    assert cache.load(KEY) is None
    assert stored.stat().st_size == 16


def test_what_is_larger_than_the_cache_is_not_kept(private_cache):
    with config.patch(cache_bytes=10):
        assert not cache.store(KEY, FILES)
    assert cache.load(KEY) is None


def test_leftovers_of_dead_processes_are_removed(private_cache):
    cache.store(KEY, FILES)
    old, young = private_cache / "new-dead", private_cache / "new-alive"
    old.mkdir()
    young.mkdir()
    os.utime(old, (0, 0))
    cache.evict(private_cache, 1 << 30)
    assert not old.exists() and young.exists()
    assert cache.load(KEY) is not None


def test_leftovers_that_vanish_are_no_fault(private_cache):
    """Another process renames what it has written, between the list and the look: eight processes on a GPU saw it."""
    cache.store(KEY, FILES)
    (private_cache / "new-renamed").symlink_to(private_cache / "gone")
    cache.evict(private_cache, 1 << 30)


def test_threads_storing_one_key(private_cache):
    settings = {f"runtime.{k}": v for k, v in vars(config.current().runtime).items()}
    failures = []

    def work():
        with config.patch(settings):
            for _ in range(20):
                try:
                    cache.store(KEY, FILES)
                    if cache.load(KEY) not in (FILES, None):  # None: another thread is replacing it
                        failures.append("a wrong entry")
                except Exception as error:
                    failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert cache.load(KEY) is not None
    assert not [p for p in private_cache.iterdir() if p.name.startswith(("new-", "old-", "secret-"))]


CHILD = """
import sys
from stage4_runtime.tests.programs import cpp_unit
from stage4_runtime.tests.test_stage4_cache import build_again
from stage_contracts import config
with config.patch(cache_dir=sys.argv[1], cxx_flags="-O1"):
    build_again()
"""


def test_processes_building_one_unit(private_cache, event_log):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", CHILD, str(private_cache)]
    children = [
        subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(3)
    ]
    for child in children:
        _, said = child.communicate(timeout=100)
        assert child.returncode == 0, said
    build_again()
    assert asked(event_log) == [("hit", "")]


def test_the_default_folder_is_the_users(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    with config.patch(cache_dir=""):
        assert tmp_path in private_folder.cache_root().parents
        monkeypatch.setitem(sys.modules, "platformdirs", None)  # not installed
        assert private_folder.cache_root() == tmp_path / "xdg" / "cutaway"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert tmp_path in private_folder.cache_root().parents
