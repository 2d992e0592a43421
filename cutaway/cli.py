"""The command line: `cutaway tour`, `cutaway doctor`, `cutaway bisect`, ...; `cutaway --help` lists them.

Input: the words on the command line. Heavy modules are imported only when a command runs, so `cutaway --help` is quick.
An error that you can fix is one line on standard error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cutaway.debug.ablate_command import ablate
from cutaway.debug.bisect_command import bisect
from cutaway.debug.doctor_command import doctor
from cutaway.debug.minify.minify_command import minify
from cutaway.debug.replay.replay_command import replay
from cutaway.debug.switches_command import switches
from cutaway.explain_command import explain
from cutaway.lab_command import lab
from cutaway.playground_command import playground
from cutaway.profile_command import profile
from cutaway.run_command import run


def _version(context: click.Context, _: Any, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from importlib.metadata import PackageNotFoundError, version

        try:
            click.echo(f"cutaway {version('cutaway')}")
        except PackageNotFoundError:  # run from a checkout that is not installed
            import cutaway

            click.echo(f"cutaway {cutaway.__version__}")
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Print it."
)
def main() -> None:
    """Cutaway: a compiler for array programs, cut open."""


@main.command()
@click.option(
    "--epochs", type=click.IntRange(1), default=30, show_default=True, help="Passes over the digits."
)
@click.option("--steps", type=click.IntRange(1), help="Stop after this many steps.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of weights, order and dropout."
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default="tour.html",
    show_default=True,
    help="Where the page goes.",
)
@click.option(
    "--swap", "swaps", multiple=True, metavar="SEAM=MODULE:OBJECT", help="Replace a seam; repeatable."
)
@click.option("--partition", metavar="MODULE:OBJECT", help="Short for --swap partition=MODULE:OBJECT.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
def tour(
    epochs: int,
    steps: int | None,
    seed: int,
    output: Path,
    swaps: tuple[str, ...],
    partition: str | None,
    device: str,
) -> None:
    """Train a digit classifier with a compiled step; write a page that shows how it was compiled."""
    from cutaway.swap import SwapError
    from cutaway.tour.command import TourError, run_tour

    wanted = [*swaps, *([f"partition={partition}"] if partition else [])]
    try:
        run_tour(epochs=epochs, max_steps=steps, seed=seed, output=output, swaps=wanted, device=device)
    except (TourError, SwapError) as error:
        raise click.ClickException(str(error)) from error


for command in (ablate, bisect, doctor, explain, lab, minify, playground, profile, replay, run, switches):
    main.add_command(command)


if __name__ == "__main__":
    main()
