"""`replay(file)`: a frame that failed while it was compiled is compiled and called again, from data and source.

Input: a file of record.py, which `replay_record_enabled` writes. `read` opens it and runs nothing; `replay` runs the
source in it, as Python runs a script: read it first (`cutaway replay --show file`) where the file is not yours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cutaway.compile import compile
from cutaway.debug.replay.reading import Record, read
from cutaway.debug.replay.rebuild import Rebuilt, RecordError
from stage0_eager.defaults import get_default_dtype, set_default_dtype
from stage0_eager.state import inference_mode, set_grad_enabled
from stage_contracts import config
from stage_contracts.dtype import DTYPES


def replay(file: str | Path) -> Any:
    """Compile the recorded frame and call it: what failed raises again. If nothing fails, what the call gives.

    Raises RecordError for a file that is no record, and where a value is needed that the record could not hold."""
    record = read(file)
    frame, into = record.frame, Rebuilt(record.frame, record.tensors)
    try:
        fn = into.value(frame["fn"])
        args, kwargs = into.all(frame["args"]), into.pairs(frame["kwargs"])
        settings = {name: into.value(value) for name, value in frame["settings"].items()}
        into.finish()
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise RecordError(f"{file} cannot be made again: {type(error).__name__}: {error}") from error
    fields = {**frame["config"], "capture.suppress_errors": False, "capture.replay_record_enabled": False}
    with config.patch(fields), _modes(frame):
        try:
            return compile(fn, **settings)(*args, **kwargs)
        except Exception as error:
            if frame["left_out"]:
                error.add_note(f"the record has no value for {'; '.join(frame['left_out'])}")
            raise


@contextmanager
def _modes(frame: dict[str, Any]) -> Iterator[None]:
    """The modes in which the call was made."""
    before = get_default_dtype()
    set_default_dtype(DTYPES[frame["default_dtype"]])
    try:
        with inference_mode(frame["inference"]), set_grad_enabled(frame["grad_enabled"]):
            yield
    finally:
        set_default_dtype(before)


__all__ = ["Record", "RecordError", "read", "replay"]
