"""Launch code of programs with several streams, line by line: `launch_text.py` puts these lines between the others.

Input: stream and event numbers of a Program. In the text, `stream` is the caller's, `stream1` the first beside it, and
`event0` the program's event 0. side_streams.py is what the lines call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stage_contracts.program import Program, RecordEvent, WaitEvent
from stage_contracts.stream_order import stream_of

STREAM, EVENT = "stream", "event"


def stream_name(number: int) -> str:
    return f"{STREAM}{number}" if number else STREAM


def streams_and_events(program: Program) -> tuple[int, tuple[int, ...]]:
    """How many streams there are beside the caller's, and the events."""
    beside = max(map(stream_of, program.steps), default=0)
    return beside, tuple(sorted({s.event for s in program.steps if isinstance(s, RecordEvent | WaitEvent)}))


def own_names(beside: int, events: Iterable[int]) -> list[str]:
    """What a call's streams and events are called."""
    return [*(stream_name(k + 1) for k in range(beside)), *(f"{EVENT}{event}" for event in events)]


def in_streams(names: Sequence[str], beside: int, body: Sequence[str]) -> list[str]:
    """A call's body where it has streams beside the caller's. After an error, the caller's stream waits for them: the
    memory that they still use is freed to it."""
    if not names:
        return [*body]
    return [
        f"{', '.join(names)}{',' * (len(names) == 1)} = streams_beside({STREAM})",
        "try:",
        *(f"    {line}" for line in body),
        "except BaseException:",
        *(f"    wait_for({STREAM}, {stream_name(k + 1)})" for k in range(beside)),
        "    raise",
    ]


def on_the_callers(stream: int, lines: Iterable[str]) -> Iterable[str]:
    """What can run on the caller's stream only, in the place of a step of another stream: each waits for the other."""
    if stream:
        yield f"wait_for({STREAM}, {stream_name(stream)})"
    yield from lines
    if stream:
        yield f"wait_for({stream_name(stream)}, {STREAM})"


def event_line(step: RecordEvent | WaitEvent, streams: bool) -> str:
    """An event of a library without streams is nothing to wait for."""
    if not streams:
        return f"# {step}: nothing to wait for, the CPU runs steps in order"
    event, stream = f"{EVENT}{step.event}", stream_name(step.stream)
    return (
        f"record_event({event}, {stream})"
        if isinstance(step, RecordEvent)
        else f"wait_event({stream}, {event})"
    )
