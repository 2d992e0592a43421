"""A record's file, opened: what it is about, its source as text, its numbers. Nothing in it runs.

Input: a file that record.py wrote, or one that somebody sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutaway.debug.replay.rebuild import MAKERS, RecordError
from cutaway.debug.replay.record import FORMAT, KEY
from stage0_eager.serialization import FormatError, load, load_metadata
from stage0_eager.tensor import Tensor

PARTS = {
    "name": str, "error": str, "fn": dict, "args": list, "kwargs": list, "settings": dict, "config": dict,
    "grad_enabled": bool, "inference": bool, "default_dtype": str, "values": list, "globals": dict,
    "left_out": list, "written by": str,
}  # fmt: skip


@dataclass(frozen=True)
class Record:
    """`frame` is the JSON of the file, `tensors` its numbers. Printed: the error, the settings, and the source."""

    frame: dict[str, Any]
    tensors: dict[str, Tensor]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        frame = self.frame
        yield f"{frame['name']}, written by {frame['written by']}"
        yield f"it failed with {frame['error']}"
        for name, value in {**frame["settings"], **frame["config"]}.items():
            yield f"  {name} = {value if not isinstance(value, dict) else '(see the source)'}"
        yield f"{len(frame['args']) + len(frame['kwargs'])} arguments, {len(self.tensors)} tensors"
        yield from (f"left out: {one}" for one in frame["left_out"])
        modules = {e.get("name", e.get("module")) for e in frame["values"] if e["is"] in ("module", "name")}
        yield f"imports: {', '.join(sorted(modules)) or 'nothing'}"
        for source in (e["source"] for e in frame["values"] if "source" in e):
            yield f"\n# {source['file']}:{source['line']}\n{source['text']}".rstrip()


def read(file: str | Path) -> Record:
    """Open a record. Raises RecordError for a file that is none, or is damaged."""
    try:
        text = load_metadata(file).get(KEY)
        if text is None:
            raise RecordError(f"{file} is a safetensors file, but no record of a frame")
        frame, tensors = json.loads(text), load(file)
    except FormatError as error:
        raise RecordError(f"{error}; replay expects a file that replay_record_enabled wrote") from None
    except json.JSONDecodeError as error:
        raise RecordError(f"{file}: its record is no JSON: {error}") from None
    if not isinstance(frame, dict) or frame.get("format") != FORMAT:
        seen = frame.get("format") if isinstance(frame, dict) else type(frame).__name__
        raise RecordError(f"{file}: expected the format {FORMAT!r}, but got {seen!r}; record it again")
    for part, kind in PARTS.items():
        if not isinstance(frame.get(part), kind):
            raise RecordError(f"{file}: {part!r} is missing or no {kind.__name__}; record it again")
    unknown = sorted({str(e.get("is") if isinstance(e, dict) else e) for e in frame["values"]} - {*MAKERS})
    if unknown:
        raise RecordError(f"{file}: values of an unknown kind: {', '.join(unknown)}; record it again")
    return Record(frame, tensors)
