"""`cutaway profile script.py`: run a script, and say where its time went and which one change would pay most.

Input: the script and its arguments. It runs in this process as `python script.py` would, with the profiler around it;
its own output stays as it is, and the report follows on standard error.
"""

from __future__ import annotations

import runpy
import sys
import time
import traceback
from contextlib import nullcontext
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

if TYPE_CHECKING:
    from cutaway.profiler.events import ProfilerEvent
    from cutaway.profiler.where_time_goes import KernelTime, TimeSpent


@click.command("profile", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--rows", type=click.IntRange(1), default=12, show_default=True, help="Kernels to show.")
@click.option("--steady", is_flag=True, help="Report on what comes after the last compile and import only.")
@click.option("--trace", type=click.Path(dir_okay=False), help="Write a trace for Perfetto, too.")
@click.option(
    "--kernels", type=click.Path(file_okay=False), help="Write each kernel as a file that runs alone."
)
@click.option("--memory", type=click.Path(dir_okay=False), help="Write the memory over time: .svg or .json.")
@click.option("--as-torch", is_flag=True, help="`import torch` in the script is Cutaway.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def profile(
    rows: int,
    steady: bool,
    trace: str | None,
    kernels: str | None,
    memory: str | None,
    as_torch: bool,
    script: str,
    arguments: tuple[str, ...],
) -> None:
    """Run SCRIPT and say where its time goes: kernels beside this machine's best, gaps, guards, Python."""
    from cutaway import torch_api
    from cutaway.profiler.advice import best_advice
    from cutaway.profiler.imports import imports_recorded
    from cutaway.profiler.peaks import measured_peaks
    from cutaway.profiler.profile import profile as recording
    from cutaway.profiler.where_time_goes import time_spent

    torch = torch_api.as_torch() if as_torch else nullcontext()
    with recording(profile_memory=True) as prof, imports_recorded(), torch:
        began = time.perf_counter_ns()
        status = run_as_main(script, arguments)
        ended = time.perf_counter_ns()
    if memory:
        prof.export_memory_timeline(memory)
    if trace:
        prof.export_chrome_trace(trace)
    peaks = measured_peaks()
    events = prof.events()
    if steady:
        began = max(began, last_compile(events))
        events = [event for event in events if event.start_ns >= began]
    spent = time_spent(events, (ended - began) / 1e9, get_ident(), peaks)
    _print(spent, peaks, rows, best_advice(spent))
    if kernels:
        from cutaway.profiler.kernel_files import recorded_steps, write_kernels

        for path in write_kernels(recorded_steps(events), Path(kernels)):
            click.echo(f"wrote {path}", err=True)
    if status:
        raise SystemExit(status)


def last_compile(events: list[ProfilerEvent]) -> int:
    """When the last call that compiled or imported something had ended."""
    ends = [0]
    for event in events:
        if event.category in ("compile", "import"):
            while event.parent is not None and event.parent.category != "user_annotation":
                event = event.parent
            ends.append(event.end_ns)
    return max(ends)


def run_as_main(script: str, arguments: tuple[str, ...]) -> int:
    """The status that `python script.py` ends with. A traceback begins in the script."""
    before, sys.argv = sys.argv, [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        click.echo(ended.code, err=True)
        return 1
    except Exception as error:
        here = error.__traceback__
        while here is not None and here.tb_frame.f_code.co_filename != script:
            here = here.tb_next
        traceback.print_exception(type(error), error, here or error.__traceback__)
        return 1
    finally:
        sys.argv = before
        sys.path.pop(0)
    return 0


def _print(spent: TimeSpent, peaks: Any, rows: int, advice: str) -> None:
    from rich.console import Console

    from cutaway.profiler.where_time_goes import PARTS

    console = Console(stderr=True, highlight=False)
    console.width = max(console.width, WIDTH)
    parts = _table(f"Where {spent.seconds:.3f} s went", ("part", "<time", "<share", "what it is"))
    for part, (meaning, _) in PARTS.items():
        parts.add_row(part, _time(spent.parts[part]), f"{100 * spent.of(part):.1f} %", meaning)
    console.print(parts)
    if spent.kernels:
        of = f", the longest {rows} of {len(spent.kernels)}" if len(spent.kernels) > rows else ""
        kernels = _table(f"Kernels and routines{of}", COLUMNS)
        for row in spent.kernels[:rows]:
            kernels.add_row(*_cells(row))
        console.print("", kernels)
        console.print(
            f"This machine's best, measured now: {peaks.memory / 1e9:.1f} GB/s copied in memory; by BLAS "
            f"{peaks.flops['float32'] / 1e9:.0f} GFLOP/s in float32, {peaks.flops['float64'] / 1e9:.0f} in float64."
        )
    console.print(f"\n[bold]What would pay most:[/bold] {escape(advice)}", soft_wrap=True)


WIDTH = 120  # of the tables, where the terminal has no more
# "<": a number, to the right
COLUMNS = "kernel", "line", "<runs", "<time", "<MB", "<MFLOP", "<GB/s", "<of best", "bound by"


def _table(title: str, columns: tuple[str, ...]) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False, title_style="bold")
    for name in columns:
        table.add_column(name.removeprefix("<"), justify="right" if name[0] == "<" else "left", no_wrap=True)
    return table


def _cells(row: KernelTime) -> list[str]:
    line = row.lines[0].rpartition("/")[2] if row.lines else ""
    cells = [escape(_short(row.name, 34)), escape(_short(line, 26)), str(row.count), _time(row.seconds)]
    if row.cost is None or row.share is None:
        return [*cells, "", "", "", "", ""]
    each = row.seconds / row.count
    numbers = row.cost.nbytes / 1e6, (row.cost.flops or 0) / 1e6, row.cost.nbytes / each / 1e9
    return [*cells, *(f"{n:.2f}" for n in numbers), f"{100 * row.share:.0f} %", row.bound]


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1e3:.2f} ms"
