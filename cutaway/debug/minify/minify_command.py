"""`cutaway minify program.py`: the smallest program that fails in the same way, as repro.py.

Input: a program that `repro_after` wrote, or a script of yours: it is run once with repro_after first, in a child.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

FOLDER = Path("cutaway_repro")  # where repro.py saves programs


@click.command()
@click.option("--output", default="repro.py", show_default=True, help="Where the smallest program goes.")
@click.option("--jobs", type=click.IntRange(1), default=2, show_default=True, help="Runs at the same time.")
@click.option("--timeout", default=60.0, show_default=True, help="Seconds until a run counts as a hang.")
@click.option("--accuracy", is_flag=True, help="A result that differs from eager's is a failure too.")
@click.argument("program", type=click.Path(exists=True, dir_okay=False))
def minify(program: str, output: str, jobs: int, timeout: float, accuracy: bool) -> None:
    """Make PROGRAM smaller as long as it fails in the same way. It goes on where an earlier search stopped."""
    from rich.console import Console

    from cutaway.debug.minify import NothingToMinify
    from cutaway.debug.minify import minify as search

    if "repro_program" not in Path(program).read_text(encoding="utf-8"):
        program = _saved_by(program, timeout, accuracy)
    console = Console(stderr=True)
    try:
        with console.status(f"minifying {program}") as status:

            def told(line: str) -> None:
                status.update(f"minifying {program}: {line}")
                if not console.is_terminal:
                    click.echo(line, err=True)

            found = search(program, output, jobs, timeout, told)
    except NothingToMinify as reason:
        raise click.ClickException(str(reason)) from None
    click.echo(
        f"{found.path}: {found.operators} of {found.before} operators; it fails with {found.failure} "
        f"({found.runs} runs, {found.seconds:.0f} s)"
    )


def ways_to_save(level: int) -> list[dict[str, Any]]:
    """The settings under which a run saves the program that fails, to try in this order."""
    ways: list[dict[str, Any]] = [
        {"capture.repro_after": after, "capture.repro_level": way, "runtime.force_disable_caches": True}
        for after, way in (("aot", level), ("dynamo", level), ("aot", 3), ("dynamo", 3))
    ]
    if level == 4:  # what differs may be wrong before it is lowered
        ways[1] |= {"autograd.verify_passes": True}
    return ways


def _saved_by(script: str, timeout: float, accuracy: bool) -> str:
    """The program that a run of the script saves: of a half where that fails, of the captured graph otherwise. A crash
    leaves no time to save: then every graph is saved before it runs, and the last is taken."""
    from cutaway.debug.run_script import run_script

    before, level = set(FOLDER.glob("*.py")), 4 if accuracy else 2
    ending = ""
    for settings in ways_to_save(level):
        ending = run_script([script], settings, timeout).ending
        saved = sorted(set(FOLDER.glob("*.py")) - before, key=lambda path: path.stat().st_mtime_ns)
        if ending and saved:
            return str(saved[-1])
        if not ending:
            raise click.ClickException(f"{script} does not fail: there is nothing to minify")
    raise click.ClickException(f"{script} fails ({ending}), but in no graph that is compiled")
