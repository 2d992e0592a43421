"""`cutaway tour`: trains, prints a table, writes the page.

Input: the command line's options. A failure is a TourError with a message of one line. A success prints only the
progress, the table, and the path of the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich.progress as bars
from rich.console import Console
from rich.table import Table

import cutaway
from cutaway import swap
from cutaway.page import Specimen, emit_for_both_targets, write_page
from cutaway.tour.block import block
from cutaway.tour.digits import DigitsError
from cutaway.tour.run_summary import run_summary
from cutaway.tour.threads import use_one_thread
from cutaway.tour.train import Run
from stage_contracts.breaks import Unsupported
from stage_contracts.errors import BackendFailed, BuildError
from stage_contracts.graph import GraphError

if TYPE_CHECKING:
    from cutaway.tour.results import TourResult

REQUIRED = 0.97  # the tour fails if the held-out accuracy is lower


class TourError(RuntimeError):
    """The tour is not possible, or the accuracy is too low. The message is one line."""


def run_tour(
    *, epochs: int, max_steps: int | None, seed: int, output: Path, swaps: Sequence[str], device: str
) -> TourResult:
    """Train, print the table, write the page. Raises TourError or SwapError."""
    output = output.resolve()
    if not output.parent.is_dir():
        raise TourError(
            f"--output {output}: there is no folder {output.parent}; create it, or give another path"
        )
    try:
        cutaway.zeros(1, device=device)
    except RuntimeError as error:
        raise TourError(f"--device {device}: {_first_line(error)}") from error
    pipeline = swapped_pipeline(swaps)
    use_one_thread()
    console = Console()
    try:
        run = Run(epochs=epochs, seed=seed, device=device, pipeline=pipeline, max_steps=max_steps)
        train(run, console)
        result = run.result()
        console.print(result_table(result))
        specimens = cut_open(run, pipeline)
        write_page(output, specimens, run_summary(result))
    except OSError as error:
        raise TourError(f"cannot write {output}: {error.strerror or error}") from error
    except DigitsError as error:
        raise TourError(str(error)) from error
    except (GraphError, BuildError, BackendFailed, Unsupported, ImportError) as error:
        with_swaps = f" with {', '.join(swaps)} swapped in" if swaps else ""
        raise TourError(
            f"the tour stopped{with_swaps}: {type(error).__name__}: {_first_line(error)}"
        ) from error
    console.print(f"The page is {output}", soft_wrap=True, highlight=False)
    if result.accuracy < REQUIRED:
        raise TourError(
            f"held-out accuracy is {result.accuracy:.1%}, expected at least {REQUIRED:.0%}; it trained "
            f"{result.steps} steps, while the default is 660: run it without --steps and --epochs"
        )
    return result


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0]


def swapped_pipeline(swaps: Sequence[str]) -> Any:
    """The default pipeline with some seams replaced, from texts like `partition=my_module:my_partition`."""
    named = dict(swap.parse(text) for text in swaps)
    found = {seam: swap.load(target, f"--swap {seam}={target}") for seam, target in named.items()}
    return replace(cutaway.DEFAULT_PIPELINE, **found)


# ---- training, seen ----------------------------------------------------------------------------


def train(run: Run, console: Console) -> None:
    """Train to the end, with a progress bar that shows the loss and the held-out accuracy."""
    columns = (
        bars.TextColumn("{task.description}"),
        bars.BarColumn(bar_width=32),
        bars.MofNCompleteColumn(),
        bars.TextColumn("loss {task.fields[loss]}"),
        bars.TextColumn("accuracy {task.fields[accuracy]}"),
        bars.TimeElapsedColumn(),
    )
    with bars.Progress(*columns, console=console, transient=False) as shown:
        task = shown.add_task("compiling", total=run.steps, loss="-", accuracy="-")
        for now in run:
            shown.update(
                task,
                completed=now.step,
                description="training" if now.step < now.steps else "trained",
                loss=f"{now.loss:.3f}",
                accuracy="-" if now.accuracy is None else f"{now.accuracy:.1%}",
            )


def result_table(result: TourResult) -> Table:
    """The results of the run as a table of two columns."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(justify="right")
    rows = {
        "held-out accuracy": f"{result.accuracy:.1%} of {result.held_out}",
        "steps": f"{result.steps}",
        "eager": f"{result.eager_ms:.2f} ms/step",
        "compiled": f"{result.compiled_ms:.2f} ms/step",
        "faster by": f"{result.ratio:.1f}x",
        "compile time": f"{result.compile_s:.1f} s",
        "kernels": f"{result.kernels}" if result.kernels else "none, on NumPy",
        "graph breaks": f"{result.graph_breaks}",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


# ---- what the page shows -----------------------------------------------------------------------


def cut_open(run: Run, pipeline: Any) -> list[Specimen]:
    """The specimens of the page: the block, compiled with the trained parameters and a batch of digits, and the loss as
    it was trained."""
    images, _ = next(run._batches())
    first = run.training.model.first
    compiled = cutaway.compile(block, pipeline=pipeline)
    compiled(images, first.linear.weight, first.linear.bias, first.norm.weight, first.norm.bias)
    found = [
        Specimen("One block", compiled.artifacts[-1]),
        Specimen("The training loss", run.functions.loss.artifacts[0]),
    ]
    for specimen in found:
        emit_for_both_targets(specimen.artifacts)
    return found
