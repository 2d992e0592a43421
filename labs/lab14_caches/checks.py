"""What lab 14 asks of a cache: keys that say everything, entries that appear at once, nothing broken is ever loaded.

Input: the learner's functions, in folders that are made and thrown away. The last check compiles real kernels, if there
is a C++ compiler.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import cutaway
from stage4_runtime.tiny.build import compile_cpp, compiler
from stage4_runtime.tiny.build import load as load_library

from ..answer import Answer
from ..checks import Wrong
from ..hidden import hidden_check
from ..programs import PRODUCT, same_as_eager

KEY, STORE, LOAD = "page.md#the-key", "page.md#an-entry-appears-at-once", "page.md#nothing-broken-is-loaded"
EVICT, WHOLE = "page.md#a-bounded-size", "page.md#the-whole"
FILES = {"library": bytes(range(256)) * 40, "notes.txt": b"", "kernel.ptx": b"\xff\x00text\n"}
PARTS = {"source": "int f();", "flags": "-O2", "compiler": "g++ 13"}


@contextmanager
def folder() -> Iterator[Path]:
    """A private folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "cache"
        root.mkdir(mode=0o700)
        yield root


def keys_say_everything(answer: Answer) -> None:
    """Equal parts have one key, in any order; a change of a value, a name, a border or of FORMAT gives another."""
    key = answer.key_of(PARTS)
    if not isinstance(key, str) or len(key) != 64 or set(key) - set("0123456789abcdef"):
        raise Wrong(f"the key is {key!r}", "64 hexadecimal digits: it names a folder", read=KEY)
    if answer.key_of(dict(reversed(PARTS.items()))) != key:
        raise Wrong("the same parts in another order have another key", "the same key", read=KEY)
    for what, parts in {
        "a border that has moved": {**PARTS, "compiler": "g++ 13-O", "flags": "2"},
        "another source": {**PARTS, "source": "int g();"},
        "another compiler": {**PARTS, "compiler": "g++ 14"},
        "a part more": {**PARTS, "target": ""},
        "a part less": {"source": "int f();", "flags": "-O2"},
        "two values exchanged": {**PARTS, "flags": "g++ 13", "compiler": "-O2"},
        "names in place of values": {v: k for k, v in PARTS.items()},
    }.items():
        if answer.key_of(parts) == key:
            raise Wrong(f"{what}: {parts} has the key of {PARTS}", "another key", read=KEY)
    before, answer.module.FORMAT = answer.module.FORMAT, "2"  # type: ignore[attr-defined]
    try:
        if answer.key_of(PARTS) == key:
            raise Wrong(
                "after a change of FORMAT the key is the same", "another: old entries are not found", read=KEY
            )
    finally:
        answer.module.FORMAT = before  # type: ignore[attr-defined]


def what_was_stored_is_loaded(answer: Answer) -> None:
    """`load` gives exactly the bytes that were stored, and None for a key that is not there."""
    with folder() as root:
        key = answer.key_of(PARTS)
        if answer.load(root, key) is not None:
            raise Wrong("an empty cache has an entry", "None", read=LOAD)
        answer.store(root, key, FILES)
        got = answer.load(root, key)
        if got is None or {k: bytes(v) for k, v in got.items()} != FILES:
            raise Wrong(f"stored {sorted(FILES)}, loaded {got if got is None else sorted(got)}", "the same bytes",
                        read=STORE)  # fmt: skip
        mode = (root / key).stat().st_mode & 0o777
        if mode != 0o700:
            raise Wrong(
                f"the entry's folder has the mode {mode:o}", "700: only its user may read it", read=STORE
            )
        answer.store(root, key, {"library": b"another"})  # the second of two processes
        if (answer.load(root, key) or {}).get("library") != FILES["library"]:
            raise Wrong("a second store of the same key changed the entry", "the first one stays", read=STORE)
        left = sorted(path.name for path in root.iterdir())
        if left != [key]:
            raise Wrong(
                f"the cache's folder has {len(left)} things in it: {left}", "the entry alone", read=STORE
            )


class Dies(Mapping):
    """Files, the second of which is not there any more: the process dies while it stores."""

    def __len__(self) -> int:
        return len(FILES)

    def __getitem__(self, name: str) -> bytes:
        return FILES[name]

    def __iter__(self) -> Iterator[str]:
        yield "library"
        raise KeyboardInterrupt


def entries_appear_at_once(answer: Answer) -> None:
    """Who loads while another stores sees a whole entry or none; a store that dies in the middle leaves none."""
    with folder() as root:
        key = answer.key_of(PARTS)
        try:
            answer.store(root, key, Dies())
        except KeyboardInterrupt:
            pass
        if (root / key).exists():
            raise Wrong(
                "a store that died in the middle left an entry",
                "none: write beside it, then rename",
                read=STORE,
            )
        looks: list[str] = []
        original = answer.module.digest_of

        def look(data: bytes) -> str:  # the learner's store asks for digests while it writes
            if (root / key).exists():
                looks.append(str(sorted(path.name for path in (root / key).iterdir())))
            return original(data)

        answer.module.digest_of = look  # type: ignore[attr-defined]
        try:
            answer.store(root, key, FILES)
        finally:
            answer.module.digest_of = original  # type: ignore[attr-defined]
        if looks:
            raise Wrong(f"while it was being written, the entry could be seen with {looks[0]}", "nothing under its "
                        "name until it is whole", read=STORE)  # fmt: skip


def spoil(path: Path, how: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda entry: (entry / path).write_bytes(how((entry / path).read_bytes()))


def remove(*names: str) -> Callable[[Path], object]:
    def act(entry: Path) -> None:
        for path in [entry / name for name in names] or list(entry.iterdir()):
            path.unlink()

    return act


def into_a_file(entry: Path) -> None:
    shutil.rmtree(entry)
    entry.write_bytes(b"")


RECORD = Path("entry.json")
SPOILED: dict[str, Callable[[Path], object]] = {
    "a flipped bit": spoil(Path("library"), lambda d: bytes([d[0] ^ 1]) + d[1:]),
    "a file that was cut off": spoil(Path("library"), lambda d: d[:100]),
    "a file that is gone": remove("kernel.ptx"),
    "no record": remove("entry.json"),
    "half a record": spoil(RECORD, lambda d: d[: len(d) // 2]),
    "a record that is a list": spoil(RECORD, lambda d: b"[1, 2]"),
    "a record that is not text": spoil(RECORD, lambda d: b"\xff\xfe\x00"),
    "an empty folder": remove(),
    "a file in place of the folder": into_a_file,
}


def broken_entries_are_misses(answer: Answer) -> None:
    """An entry with anything wrong is None: a flipped bit, a missing file, half a record. It is made anew, and kept."""
    for what, spoil_it in SPOILED.items():
        with folder() as root:
            key = answer.key_of(PARTS)
            answer.store(root, key, FILES)
            spoil_it(root / key)
            try:
                got = answer.load(root, key)
            except Exception as error:
                raise Wrong(
                    f"{what}: load raised {type(error).__name__}: {error}", "None: it is a miss", read=LOAD
                ) from error
            if got is not None:
                raise Wrong(f"{what}: load gave {sorted(got)}", "None: it is a miss", read=LOAD)
            if what.endswith("folder") and "place" in what:
                continue
            if dict(answer.get_or_make(root, PARTS, lambda: FILES)) != FILES:
                raise Wrong(f"{what}: get_or_make gave other files", "what `make` made", read=WHOLE)
            if answer.load(root, key) is None:
                raise Wrong(f"{what}: the broken entry is still there, so every run compiles again",
                            "a good one in its place", read=WHOLE)  # fmt: skip


def old_entries_go(answer: Answer) -> None:
    """Above the limit, the entries that were not used for longest go; a load counts as use, and `keep` stays."""
    with folder() as root:
        keys = [answer.key_of({"source": str(k)}) for k in range(5)]
        for k, key in enumerate(keys):
            answer.store(root, key, {"library": bytes(1000)})
            os.utime(root / key, (1000 + k, 1000 + k))
        answer.load(root, keys[0])  # the oldest was used just now
        answer.evict(root, 3600, keep=keys[1])
        left = [k for k, key in enumerate(keys) if (root / key).is_dir()]
        if 1 not in left:
            raise Wrong("the entry `keep` was removed", "it stays: it is in use", read=EVICT)
        if 0 not in left:
            raise Wrong(
                "an entry that was loaded just now was removed",
                "one that was not used for longer",
                read=EVICT,
            )
        if left != [0, 1, 4]:
            raise Wrong(f"of 5 entries of about 1,050 bytes, with a limit of 3,600, {left} are left", "[0, 1, 4]: "
                        "2 and 3 were not used for longest", read=EVICT)  # fmt: skip
        answer.evict(root, 0, keep=keys[4])
        if [k for k, key in enumerate(keys) if (root / key).is_dir()] != [4]:
            raise Wrong("with a limit of 0 more than `keep` is left", "keep alone", read=EVICT)


def made_once(answer: Answer) -> None:
    """`make` runs once for equal parts, and again after it raised; in a folder that others may write to, always."""
    with folder() as root:
        made: list[int] = []

        def make() -> dict[str, bytes]:
            made.append(1)
            if len(made) == 1:
                raise RuntimeError("the compiler failed")
            return dict(FILES)

        try:
            answer.get_or_make(root, PARTS, make)
        except RuntimeError:
            pass
        else:
            raise Wrong(
                "`make` raised, and get_or_make did not", "the user sees what the compiler said", read=WHOLE
            )
        for _ in range(3):
            if dict(answer.get_or_make(root, PARTS, make)) != FILES:
                raise Wrong("get_or_make gave other files", "those that were made", read=WHOLE)
        if len(made) != 2:
            raise Wrong(f"after an error, three calls made it {len(made) - 1} times", "once", read=WHOLE)
        root.chmod(0o777)
        got = answer.get_or_make(root, PARTS, lambda: {"library": b"new"})
        if dict(got) != {"library": b"new"}:
            raise Wrong("a folder that anybody may write to was trusted", "nothing is loaded from it: native code of "
                        "another user would run as you", read=WHOLE)  # fmt: skip
        answer.get_or_make(root, {"source": "more"}, lambda: {"library": b"new"})
        if len(list(root.iterdir())) != 1:
            raise Wrong("something was kept in a folder that anybody may write to", "nothing", read=WHOLE)


def many_at_once(answer: Answer) -> None:
    """Eight threads that store, load and evict at once get right files, and no exception."""
    with folder() as root:
        wrong: list[str] = []

        def work(seed: int) -> None:
            try:
                for k in range(12):
                    which = (seed + k) % 4
                    want = {"library": bytes([which]) * 500}
                    got = answer.get_or_make(root, {"source": str(which)}, lambda want=want: want, limit=1500)
                    if dict(got) != want:
                        wrong.append(f"the files of another entry for source {which}")
            except Exception as error:
                wrong.append(f"{type(error).__name__}: {error}")

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if wrong:
            raise Wrong(f"eight threads at once: {wrong[0]}", "the right files for each", read=EVICT)


def misses_are_explained(answer: Answer) -> None:
    """`what_differs` names the parts that differ, also one that only one side has."""
    for others, want in (
        (PARTS, []), ({**PARTS, "flags": "-O3"}, ["flags"]), ({"source": "", "flags": "-O2"}, ["compiler", "source"]),
        ({**PARTS, "target": "sm_90"}, ["target"]),
    ):  # fmt: skip
        if list(got := answer.what_differs(PARTS, others)) != want:
            raise Wrong(f"{PARTS} beside {others}: {got}", f"{want}", read=KEY)


def in_the_real_compiler(answer: Answer) -> None:
    """With your cache in the compiler's `build`, a program is compiled once, and a second start finds its kernels."""
    if shutil.which("g++") is None:
        return
    with folder() as root:
        runs: list[str] = []

        def build(unit: Any) -> Any:
            command = compiler()

            def make() -> dict[str, bytes]:
                runs.append(unit.name)
                return {"library": compile_cpp(unit, command)}

            parts = {"source": unit.text, "command": " ".join(command)}
            return load_library(unit, answer.get_or_make(root, parts, make)["library"])

        for program in (PRODUCT, PRODUCT):
            compiled = cutaway.compile(
                program.function,
                fullgraph=True,
                dynamic=False,
                pipeline=replace(cutaway.TINY_PIPELINE, build=build),
                options={"runtime.cache": False},
            )
            same_as_eager(program, compiled, read=WHOLE)
        if len(runs) > 2:
            raise Wrong(f"a program, started twice, ran the C++ compiler {len(runs)} times", "at most 2: a "
                        "forward and a backward", read=WHOLE)  # fmt: skip


def differing(answer: Answer) -> Any:
    texts = [{"a": "1", "b": "2"}, {"b": "2"}, {"a": "", "c": "3"}, {}, {"a": "1", "b": "2", "c": ""}]
    return [answer.what_differs(one, two) for one in texts for two in texts]


def survivors(answer: Answer) -> Any:
    """Which of 9 entries are left, for each of several limits."""
    found = []
    for limit in (2500, 5000, 7300):
        with folder() as root:
            keys = [answer.key_of({"n": str(k)}) for k in range(9)]
            for k, key in enumerate(keys):
                answer.store(root, key, {"library": bytes(700 + 100 * k)})
                os.utime(root / key, (5000 - k * 7 % 10, 5000 - k * 7 % 10))
            answer.evict(root, limit, keep=keys[3])
            found.append([k for k, key in enumerate(keys) if (root / key).is_dir()])
    return found


HIDDEN = {"which parts differ, 25 pairs": differing, "which of 9 entries are left": survivors}

CHECKS = (
    keys_say_everything,
    what_was_stored_is_loaded,
    entries_appear_at_once,
    broken_entries_are_misses,
    old_entries_go,
    made_once,
    many_at_once,
    misses_are_explained,
    in_the_real_compiler,
    hidden_check(__file__, HIDDEN, EVICT),
)
