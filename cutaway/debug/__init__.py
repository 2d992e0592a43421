"""Tools that show what the compiler did: logs, the debug folder, doctor, the compile profiler. One file each.

Input: the event log and the artifacts of compiled functions. A tool only looks; what the environment asks for starts
here, at `import cutaway`, and none is loaded before it is asked for.
"""

from __future__ import annotations

import sys

from cutaway.debug.requests import answers
from stage_contracts import config
from stage_contracts.events import EVENT_LOG, Event
from stage_contracts.report import report_once


def start() -> None:
    """Carry out what variables ask for, and answer those of torch's that nothing here carries out."""
    for line in answers():
        report_once(line)
    settings = config.current().debug
    if settings.logs:
        from cutaway.debug.logs import logs_of_environment

        logs_of_environment()
    if settings.trace_folder:
        from cutaway.debug.logs import trace_events

        trace_events(settings.trace_folder)
    EVENT_LOG.subscribe(_listen)


def _listen(event: Event) -> None:
    """A listener: `debug.verbose` shows faults of the compiler whole, `debug.folder` writes files of what happened."""
    settings = config.current().debug
    if event.kind == "trace" and event.name in ("guard", "symbol"):
        from cutaway.debug.extended import show

        show(event)
    if settings.verbose and event.kind == "internal_error":
        print(event.details["report"], file=sys.stderr)
    if not (settings.folder or settings.benchmark_kernel):
        return
    try:
        from cutaway.debug.folder import write_event

        write_event(event)
    except Exception as error:  # a tool that fails says so, and the program goes on
        report_once(f"cutaway: the debug folder failed on {event.name}: {type(error).__name__}: {error}")
