"""Logs by torch's names: `set_logs(graph_breaks=True)`, CUTAWAY_LOGS or TORCH_LOGS, to stderr or a file, as JSON lines.

Input: events as stages record them; log_texts.py has what each log shows. Nothing is logged that is not an event, so a
log never says other than explain(). A set (dynamo, aot, inductor) has levels: `+dynamo` is all, `-dynamo` faults only.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cutaway.debug.breaks_once import BreaksOnce
from cutaway.debug.log_texts import ARTIFACTS, OTHER_NAMES
from stage_contracts import config
from stage_contracts.events import EVENT_LOG, Event
from stage_contracts.messages import did_you_mean, say
from stage_contracts.report import report_once

# What a set shows from each level on.
SETS: dict[str, dict[int, str]] = {
    "dynamo": {
        logging.ERROR: "internal_errors",
        logging.INFO: "dynamo",
        logging.DEBUG: "graph_breaks recompiles guards graph_code bytecode trace_source dynamic",
    },
    "aot": {
        logging.ERROR: "internal_errors",
        logging.INFO: "aot",
        logging.DEBUG: "aot_joint_graph aot_graphs",
    },
    "inductor": {
        logging.ERROR: "internal_errors",
        logging.WARNING: "perf_hints",
        logging.INFO: "inductor",
        logging.DEBUG: "post_grad_graphs ir_pre_fusion ir_post_fusion fusion schedule output_code cache",
    },
}
# Names that torch has logs for and nothing happens under here.
NOTHING_HERE = (
    "annotation aot_graphs_effects async_compile auto_chunker autotuning c10d compiled_autograd "
    "compiled_autograd_verbose custom_format_test_artifact distributed dtensor export fake_tensor fsdp "
    "graph_region_expansion hierarchical_compile incremental native_dsl node_runtime_estimation onnx "
    "onnx_diagnostics overlap overlap_scheduling pp side_effects_verbose torch"
).split()
TRACES = {"trace_source", "trace_bytecode"}  # events that are only made while one of these is on


class _Switches:
    """Which logs are on. One listener of the event log, there while any is."""

    def __init__(self) -> None:
        self.on: set[str] = set()
        self.once = BreaksOnce()
        self.lock = threading.Lock()

    def set(self, names: set[str]) -> None:
        with self.lock:
            was, self.on = self.on, names
            EVENT_LOG.tracing = bool(names & TRACES)
        if names and not was:
            EVENT_LOG.subscribe(self.show)
        if was and not names:
            EVENT_LOG.unsubscribe(self.show)

    def show(self, event: Event) -> None:
        if not self.once.is_new(event):
            return  # of a function whose caller broke there: it was shown
        verbose = config.current().debug.verbose
        for name in ARTIFACTS:
            if name in self.on:
                shown = "recompiles_verbose" if verbose and name == "recompiles" else name
                text = text_of(shown, event)
                if text is not None:
                    _write(name, event, text)


_SWITCHES = _Switches()


def text_of(name: str, event: Event) -> str | None:
    """What a log says of an event. A log that cannot be written says so once, and the program goes on."""
    try:
        return ARTIFACTS[name][1](event)
    except Exception as error:
        report_once(f"cutaway: the log {name!r} failed on {event.name}: {type(error).__name__}: {error}")
        return None


def lines_of(name: str, text: str) -> list[str]:
    """A text as a log has it: each line after the log's name."""
    return [f"[{name}] {line}".rstrip() for line in text.splitlines()]


# ---- where they go -----------------------------------------------------------------------------------------------


def as_record(event: Event, **more: Any) -> str:
    """An event as one line of JSON."""
    plain = {k: v for k, v in event.details.items() if isinstance(v, (str, int, float, bool))}
    origin = {"file": event.origin.file, "line": event.origin.line} if event.origin else {}
    record = {
        "time": round(time.time(), 6), "process": os.getpid(), "number": event.number, "kind": event.kind,
        "name": event.name, "duration_ms": event.duration_ns / 1e6, **origin, **plain, **more,
    }  # fmt: skip
    return json.dumps(record)


def _write(name: str, event: Event, text: str) -> None:
    settings = config.current().debug
    if settings.log_format == "json":
        lines = [as_record(event, log=name, text=text)]
    else:
        lines = lines_of(name, text)
    if settings.log_file:
        append(Path(settings.log_file), lines)
    elif sys.stderr is not None:  # a program without a console has none
        print("\n".join(lines), file=sys.stderr)


_APPENDING = threading.Lock()


def append(path: Path, lines: Iterable[str]) -> None:
    """Add lines to a file, made with its folder if need be. A file that cannot be written is said once."""
    try:
        with _APPENDING:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        report_once(f"cutaway: cannot write {path}: {error.strerror or error}")


def trace_events(folder: str) -> None:
    """Write every event from here on to a file in `folder`, one JSON object a line (TORCH_TRACE)."""
    path = Path(folder) / f"cutaway_trace_{os.getpid()}.jsonl"
    EVENT_LOG.subscribe(lambda event: append(path, [as_record(event)]))


# ---- asking for them ---------------------------------------------------------------------------------------------


def set_logs(*, modules: Any = None, all: Any = None, **artifacts: Any) -> None:
    """Log these from here on, and no others: `set_logs(graph_breaks=True, recompiles=True)`.

    dynamo, aot and inductor are sets and take a level (logging.DEBUG shows all of one, logging.INFO its steps,
    logging.ERROR only faults); of any other log a level counts as True, None and False as not asked.
    all: a level for the three sets; True is everything there is. modules: {logger's name: level}, set as asked.
    Without arguments nothing is logged. Raises ValueError for an unknown name, with the nearest ones.
    """
    names = set(ARTIFACTS) if all is True else _of_sets(SETS, all) if all else set()
    for name, wanted in artifacts.items():
        found = known_log(name)
        if found in SETS and wanted:
            names |= _of_sets([found], logging.INFO if wanted is True else wanted)
        elif wanted and found:
            names.add(found)
    for logger, level in (modules or {}).items():
        logging.getLogger(logger).setLevel(level)
    _SWITCHES.set(names)


def logs_on() -> set[str]:
    """The names of the logs that are on."""
    return set(_SWITCHES.on)


def _of_sets(names: Iterable[str], level: int) -> set[str]:
    """What these sets show at a level."""
    shown = [words for name in names for least, words in SETS[name].items() if least >= level]
    return set(" ".join(shown).split())


def known_log(name: str) -> str:
    """The log of that name, or of another spelling of it; "" for one of torch's under which nothing happens here.

    Raises ValueError with the nearest name.
    """
    found = OTHER_NAMES.get(name, name)
    if found in NOTHING_HERE:
        report_once(
            f"cutaway: torch's log {name!r} has nothing to show here; there are {', '.join(ARTIFACTS)}"
        )
        return ""
    if found not in ARTIFACTS:
        hint = did_you_mean(name, [*ARTIFACTS, *OTHER_NAMES], f"; there are {', '.join(ARTIFACTS)}")
        raise ValueError(say("unknown_log", name=name, hint=hint))
    return found


_LEVELS = {"+": logging.DEBUG, "": logging.INFO, "-": logging.ERROR}


def logs_of_environment(text: str | None = None) -> None:
    """CUTAWAY_LOGS="+dynamo,graph_breaks,-guards" as set_logs: `+` and `-` are levels of a set, and `-` takes a single
    log out of one. "help" lists them; a name with a dot is a logger of Python's, as in torch."""
    text = config.current().debug.logs if text is None else text
    names: set[str] = set()
    without: set[str] = set()
    for word in filter(None, map(str.strip, text.split(","))):
        sign, name = (word[0], word[1:]) if word[0] in "+-" else ("", word)
        if name == "help":
            print(logs_listed(), file=sys.stderr)
        elif name == "all":
            names |= _of_sets(SETS, logging.ERROR) if sign == "-" else set(ARTIFACTS)
        elif "." in name:
            logging.getLogger(name).setLevel(_LEVELS[sign])
        elif found := _known_or_said(name, text):
            if found in SETS:
                names |= _of_sets([found], _LEVELS[sign])
            else:
                (without if sign == "-" else names).add(found)
    if names:
        _SWITCHES.set(names - without)


def _known_or_said(name: str, text: str) -> str:
    try:
        return known_log(name)
    except ValueError as error:
        try:
            names = config.variables_of("debug.logs")
            variable = next((name for name in names if name in os.environ), names[0])
            message = say("unknown_log_variable", variable=variable, value=text, problem=error)
            warnings.warn(message, stacklevel=2)
        except Warning as raised:  # under `python -W error` an import must not fail for a variable
            print(raised, file=sys.stderr)
        return ""


def logs_listed() -> str:
    """Every log by name and what it shows."""
    width = max(map(len, ARTIFACTS)) + 2
    lines = [f"  {name:<{width}}{shows}" for name, (shows, _) in ARTIFACTS.items()]
    sets = "sets, with levels (+dynamo: all of it, -dynamo: faults only): " + ", ".join(SETS)
    return "\n".join(["logs, as in CUTAWAY_LOGS=+dynamo,graph_breaks:", *lines, sets])


__all__ = ["ARTIFACTS", "SETS", "logs_listed", "logs_of_environment", "logs_on", "set_logs", "trace_events"]
