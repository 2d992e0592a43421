"""`cutaway bisect -- python script.py`: which level, pass, fusion or operator makes a script fail, in one line.

Input: the command, run in a child again and again; it fails by its exit status, by a crash, or by what it prints.
"""

from __future__ import annotations

import click

_ANY = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.command(context_settings=_ANY)
@click.option("--differs", is_flag=True, help="It fails too where it prints other than without compiling.")
@click.option("--timeout", default=300.0, show_default=True, help="Seconds until a run counts as failed.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def bisect(differs: bool, timeout: float, command: tuple[str, ...]) -> None:
    """Find what makes COMMAND fail, and the switch that avoids it. A script fails by its status, or if it crashes."""
    from cutaway.debug.bisect import Outcome, Settings
    from cutaway.debug.bisect import bisect as find
    from cutaway.debug.run_script import run_script

    def run(settings: Settings) -> Outcome:
        found = run_script(command, settings, timeout)
        same = not differs or found.output == eager.output
        return Outcome(not found.ending and same, f"{found.errors}\n{found.ending}")

    try:
        eager = run_script(command, {"capture.disable": True}, timeout)
    except OSError as error:
        raise click.ClickException(f"{command[0]} cannot be run: {error}") from error
    click.echo(find(run, lambda line: click.echo(line, err=True)))
