"""An answer is remembered as long as its files do not change, and believed only if this user's cache wrote it.

Input: files whose content is the answer; cache folders of the test's own.
"""

import json
import os
import time
from pathlib import Path

import pytest

from stage4_runtime.runtime import program_cache
from stage4_runtime.runtime import remembered as module
from stage4_runtime.runtime import software as software_module
from stage4_runtime.runtime.compiler import find_compiler
from stage4_runtime.runtime.remembered import remembered, seen, state_of
from stage4_runtime.runtime.software import software_of
from stage_contracts import config
from stage_contracts.errors import CompilerMissing

OLD = time.time() - 1000


@pytest.fixture
def cache_folder(tmp_path):
    with config.patch(cache_dir=str(tmp_path / "cache"), cache=True):
        yield tmp_path / "cache"


@pytest.fixture(autouse=True)
def _long_ago(monkeypatch):
    """Files that tests write count as old; ctime cannot be set."""
    monkeypatch.setattr(module, "RECENT", -1000)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_text("one")
    return path


def ask(file, question="what is in it"):
    """(the answer, whether it was found now)"""
    found = []

    def find():
        found.append(file.read_text())
        return found[0]

    return remembered(question, seen([(str(file), state_of(file.stat()))]), find), bool(found)


def test_asked_again_it_is_remembered(cache_folder, file):
    assert ask(file) == ("one", True)
    assert ask(file) == ("one", False)
    assert ask(file, "another question") == ("one", True)


def same_time(file):
    """Another content of the same length and time of change: only the system's own time tells."""
    before = file.stat()
    file.write_text("two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def same_size(file):
    file.write_text("two")


def another_file(file):
    before = file.stat()
    other = file.with_name("other")
    other.write_text("two")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(file)


@pytest.mark.parametrize("change", [same_time, same_size, another_file])
def test_a_changed_file_is_looked_at_again(cache_folder, file, change):
    ask(file)
    time.sleep(0.02)  # the system's clock of files ticks
    change(file)
    assert ask(file) == ("two", True)


def test_a_file_that_changed_just_now_is_not_trusted(cache_folder, file, monkeypatch):
    monkeypatch.setattr(module, "RECENT", 2.0)
    assert ask(file) == ("one", True)
    assert ask(file) == ("one", True), "it may change again in the same tick"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"answer": "forged", "mac": "00"}'])
def test_what_the_cache_did_not_write_is_not_believed(cache_folder, file, text):
    ask(file)
    (kept,) = (cache_folder / "answers").iterdir()
    assert json.loads(kept.read_text())["answer"] == "one"
    kept.write_text(text)
    assert ask(file) == ("one", True)


def test_an_answer_to_another_question_is_not_believed(cache_folder, file):
    ask(file)
    (kept,) = (cache_folder / "answers").iterdir()
    module._path(cache_folder, "another").write_bytes(kept.read_bytes())
    assert ask(file, "another") == ("one", True)


def test_without_a_cache_it_is_found_each_time(file, tmp_path):
    with config.patch(cache=False):
        assert ask(file) == ask(file) == ("one", True)
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o777)
    shared.chmod(0o777)
    with config.patch(cache_dir=str(shared), cache=True):
        assert ask(file) == ask(file) == ("one", True)


def test_a_script_that_calls_a_compiler_is_asked_each_time(cache_folder, tmp_path, monkeypatch):
    """What it calls may become another version while the script stays as it is."""
    script, version = tmp_path / "g++", tmp_path / "version"
    version.write_text("fake 1.0")
    script.write_text(f'#!/bin/sh\ncat "{version}"\n')
    script.chmod(0o755)
    with config.patch(cxx=str(script)):
        first = find_compiler().identity
        find_compiler.__globals__["_identify"].cache_clear()  # another process
        version.write_text("fake 2.0")
        assert "1.0" in first and "2.0" in find_compiler().identity


def test_a_compiler_is_asked_once(cache_folder, monkeypatch):
    compiler = find_compiler.__globals__
    compiler["_identify"].cache_clear()
    asked = []
    monkeypatch.setitem(compiler, "_version", lambda command: asked.append(command) or "['a version']")
    first = find_compiler()
    compiler["_identify"].cache_clear()
    assert find_compiler() == first and len(asked) == 1
    compiler["_identify"].cache_clear()
    assert Path(first.command[0]).exists()


@pytest.mark.parametrize("place", program_cache.DECIDING)
def test_a_changed_file_of_ours_is_another_key(cache_folder, tmp_path, place):
    """Each of these decides what a program is; tests and other files do not."""
    files = {
        p: tmp_path / p if p.endswith(".py") else tmp_path / p / "inner/rules.py"
        for p in program_cache.DECIDING
    }
    for file in files.values():
        (file.parent / "tests").mkdir(parents=True, exist_ok=True)
        file.write_text("one")
    file = files[place]
    first = software_of(tmp_path, program_cache.DECIDING)
    (file.parent / "tests" / "test_rules.py").write_text("one")
    (file.parent / "notes.txt").write_text("one")
    assert software_of(tmp_path, program_cache.DECIDING) == first
    time.sleep(0.02)
    file.write_text("two")  # of the same length
    assert software_of(tmp_path, program_cache.DECIDING) != first


def test_a_new_file_of_ours_is_another_key(cache_folder, tmp_path):
    for place in program_cache.DECIDING:
        file = tmp_path / place if place.endswith(".py") else tmp_path / place / "rules.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    first = software_of(tmp_path, program_cache.DECIDING)
    (tmp_path / "stage3_lowering" / "more.py").write_text("")
    assert software_of(tmp_path, program_cache.DECIDING) != first


def test_a_compiler_that_is_replaced_is_seen_at_once(cache_folder, tmp_path, monkeypatch):
    """Where it lies is remembered in the process; its file is looked at each time, and a missing one is searched for."""
    places = [tmp_path / "first", tmp_path / "second"]
    for place in places:
        place.mkdir()
        (place / "g++").write_text(f"#!/bin/sh\necho {place.name} 1.0\n")
        (place / "g++").chmod(0o755)
    monkeypatch.setenv("PATH", f"{places[0]}:{places[1]}:/usr/bin:/bin")
    monkeypatch.delenv("CXX", raising=False)
    before = find_compiler().identity
    (places[0] / "new").write_text("#!/bin/sh\necho other 2.0\n")
    (places[0] / "new").chmod(0o755)
    (places[0] / "new").replace(places[0] / "g++")
    replaced = find_compiler().identity
    (places[0] / "g++").unlink()
    moved = find_compiler().identity
    assert "first 1.0" in before and "other 2.0" in replaced and "second 1.0" in moved
    monkeypatch.setenv("PATH", f"{places[0]}:/nowhere")
    with pytest.raises(CompilerMissing, match="none of"):
        find_compiler()


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder of ours, whose files this process has loaded."""
    monkeypatch.setattr(software_module, "ROOT", tmp_path)
    monkeypatch.setattr(software_module, "_LOOKED_AT", {})
    monkeypatch.setattr(software_module, "_LOADED", {})
    folder = tmp_path / "stage9_of_this_test"
    folder.mkdir()
    (folder / "rules.py").write_text("one")
    software_module.software.cache_clear()
    yield folder
    software_module.software.cache_clear()


def another_process():
    software_module.software.cache_clear()
    software_module._LOOKED_AT.clear()
    software_module._LOADED.clear()


def test_what_runs_is_what_was_loaded(cache_folder, place):
    """A file that is changed while a process runs is not what that process computes by."""
    software_module.watch((place.name,))
    first = software_module.software((place.name,))
    software_module.software.cache_clear()
    time.sleep(0.02)
    (place / "rules.py").write_text("two")
    assert software_module.software((place.name,)) == first
    another_process()
    assert software_module.software((place.name,)) != first


def test_nobody_has_the_key_of_files_that_changed_before_they_were_read(cache_folder, place):
    """The contents are read when a key is first made, and then they may be others than those that were loaded."""
    software_module.watch((place.name,))
    time.sleep(0.02)
    (place / "rules.py").write_text("two")
    unknown = software_module.software((place.name,))
    assert "changed" in unknown
    another_process()
    second = software_module.software((place.name,))
    assert "changed" not in second and second != unknown
    time.sleep(0.02)
    (place / "rules.py").write_text("one")
    another_process()
    assert software_module.software((place.name,)) not in (unknown, second)


def test_folders_that_are_left_out(cache_folder, place):
    (place / "aside").mkdir()
    (place / "aside_too.py").write_text("one")
    (place / "aside" / "more.py").write_text("one")
    without = (place.name,), (f"{place.name}/aside",)
    first = software_of(place.parent, *without)
    time.sleep(0.02)
    (place / "aside" / "more.py").write_text("two")
    assert software_of(place.parent, *without) == first
    (place / "aside_too.py").write_text("two")
    assert software_of(place.parent, *without) != first


def test_files_that_are_not_there(cache_folder, place):
    """Modules from an archive have no files to look at: they are loaded all the same, and keys are the process's own."""
    software_module.watch(("no_such_place",))
    first = software_module.software(("no_such_place",))
    another_process()
    assert "not to be found" in first and software_module.software(("no_such_place",)) != first
