"""Archives of weights that are damaged, or made to do harm: each kind draws one from a seed.

Input: the bytes of a whole archive. A reader must answer each with one clear error, run nothing, and stay small.
"""

from __future__ import annotations

import io
import pickle
import random
import struct
import zipfile
from collections.abc import Callable


def records_of(whole: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(records: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in records.items():
            archive.writestr(name, data)
    return file.getvalue()


def cut(draw: random.Random, whole: bytes) -> bytes:
    return whole[: draw.randrange(len(whole) - 1)]


def flipped(draw: random.Random, whole: bytes) -> bytes:
    """A bit of a storage's bytes or of the pickle flipped: the archive's own sums tell."""
    name = draw.choice([n for n in records_of(whole) if "data" in n])
    data = records_of(whole)[name]
    at = whole.index(data) + draw.randrange(len(data))
    return whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :]


def missing(draw: random.Random, whole: bytes) -> bytes:
    records = records_of(whole)
    del records[draw.choice([n for n in records if "data" in n])]
    return archive_of(records)


def resized(draw: random.Random, whole: bytes) -> bytes:
    """A storage of another length than the pickle says."""
    records = records_of(whole)
    name = draw.choice([n for n in records if "/data/" in n])
    size = draw.choice([0, len(records[name]) - 1, len(records[name]) + draw.randrange(1, 100)])
    records[name] = records[name][:size] + b"\0" * (size - len(records[name]))
    return archive_of(records)


def renumbered(draw: random.Random, whole: bytes) -> bytes:
    """A small number of the pickle made another one: an offset, a size, a stride, a length, a key."""
    records = records_of(whole)
    text = bytearray(records["archive/data.pkl"])
    places = [m + 1 for m in range(len(text) - 1) if text[m : m + 1] == pickle.BININT1]
    at = draw.choice(places)
    text[at : at + 1] = b"\xff"
    text[at - 1 : at + 1] = pickle.BININT + struct.pack("<i", draw.choice([-1, -(2**31), 2**31 - 1, 100_000]))
    return archive_of({**records, "archive/data.pkl": bytes(text)})


class _Calls:
    """Pickles as a call of a function."""

    def __init__(self, function: Callable, *args: object) -> None:
        self.reduced = function, args

    def __reduce__(self) -> tuple:
        return self.reduced


def running_code(draw: random.Random, whole: bytes) -> bytes:
    """A pickle that runs something when an unsafe reader loads it."""
    import os
    import subprocess

    calls = [
        _Calls(os.system, "touch /tmp/cutaway_was_here"), _Calls(eval, "1 + 1"), _Calls(exec, "raise SystemExit"),
        _Calls(subprocess.run, ["true"]), _Calls(open, "/tmp/cutaway_was_here", "w"), _Calls(getattr, int, "real"),
        _Calls(bytearray, 2**40), _Calls(__import__, "antigravity"), _Calls(list, range(10)),
    ]  # fmt: skip
    text = pickle.dumps({"w": draw.choice(calls)}, protocol=draw.choice([0, 1, 2, 3, 4, 5]))
    return archive_of({**records_of(whole), "archive/data.pkl": text})


def other_objects(draw: random.Random, whole: bytes) -> bytes:
    """Objects that are neither tensors nor containers."""
    import datetime
    import fractions

    things = [datetime.date(2020, 1, 1), fractions.Fraction(1, 3), complex(1, 2), range(3), Ellipsis, frozenset([1]),
              bytearray(b"12"), int, slice(1), memoryview]  # fmt: skip
    text = pickle.dumps([draw.choice(things)], protocol=draw.choice([2, 4, 5]))
    return archive_of({**records_of(whole), "archive/data.pkl": text})


def garbage(draw: random.Random, whole: bytes) -> bytes:
    """A pickle of random operations."""
    text = b"\x80\x02" + draw.randbytes(draw.randrange(1, 200)) + b"."
    return archive_of({**records_of(whole), "archive/data.pkl": text})


def bomb(draw: random.Random, whole: bytes) -> bytes:
    """A compressed storage, of which a small file holds a large one."""
    records = records_of(whole)
    name = draw.choice([n for n in records if "/data/" in n])
    records[name] = b"\0" * draw.randrange(10**6, 10**7)
    return archive_of(records, zipfile.ZIP_DEFLATED)


def greedy(draw: random.Random, whole: bytes) -> bytes:
    """A pickle that asks its reader for much memory."""
    asks = [
        pickle.LONG_BINPUT + struct.pack("<I", 2**32 - 2) + pickle.BINGET + b"\7", pickle.BINUNICODE8 + struct.pack("<Q", 2**40),
        pickle.BYTEARRAY8 + struct.pack("<Q", 2**40), pickle.LONG4 + struct.pack("<i", 2**30),
        pickle.BINBYTES + struct.pack("<I", 2**31), b"(" * 100_000,
    ]  # fmt: skip
    text = b"\x80\x04N" + draw.choice(asks) + b"."
    if text.count(b"(") > 1000:
        text = b"\x80\x04" + b"(" * 10**5 + b"l" * 10**5 + b"t" * 3 + b"."
    return archive_of({**records_of(whole), "archive/data.pkl": text})


def not_an_archive(draw: random.Random, whole: bytes) -> bytes:
    return draw.choice([b"", b"PK\x03\x04", b"\x80\x02}q\0.", b"PK\x03\x04" + draw.randbytes(100), draw.randbytes(50),
                        archive_of({}), archive_of({"archive/constants.pkl": b"", "archive/data.pkl": b"N."})])  # fmt: skip


KINDS = (
    cut,
    flipped,
    missing,
    resized,
    renumbered,
    running_code,
    other_objects,
    garbage,
    bomb,
    greedy,
    not_an_archive,
)
