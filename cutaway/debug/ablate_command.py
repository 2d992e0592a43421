"""`cutaway ablate script.py`: the script under less and less of the compiler; a table of works, differs and time.

Input: the command, run in a child once for each row of ROWS. It differs where it prints other than without compiling.
"""

from __future__ import annotations

from typing import Any

import click

# What a row is called, and the configuration fields that make it.
ROWS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("not compiled", {"capture.disable": True}),
    ("eager", {"debug.backend": "eager"}),
    ("aot_eager, no optional pass", {"debug.backend": "aot_eager", "autograd.disabled_passes": "..."}),
    ("aot_eager", {"debug.backend": "aot_eager"}),
    ("inductor without fusion", {"debug.backend": "inductor", "lowering.fusion": False}),
    ("inductor", {"debug.backend": "inductor"}),
)


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--timeout", default=300.0, show_default=True, help="Seconds until a run counts as failed.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def ablate(timeout: float, command: tuple[str, ...]) -> None:
    """Run COMMAND (a script, or a whole command) with more and more of the compiler, and say which part matters."""
    from cutaway.debug.bisect import ALWAYS, passes_of
    from cutaway.debug.run_script import run_script

    expected = ""
    click.echo(f"{'':30}{'works':8}{'differs':9}{'time':>8}")
    for name, settings in ROWS:
        fields = {**ALWAYS, **settings}
        if "autograd.disabled_passes" in fields:
            fields["autograd.disabled_passes"] = ",".join(passes_of("aot_eager"))
        try:
            ran = run_script(command, fields, timeout)
        except OSError as error:
            raise click.ClickException(f"{command[0]} cannot be run: {error}") from error
        expected = ran.output if name == ROWS[0][0] else expected
        differs = "-" if ran.ending else "yes" if ran.output != expected else "no"
        row = f"{name:30}{'no' if ran.ending else 'yes':8}{differs:9}{ran.seconds:>6.1f} s"
        click.echo(row + (f"  {ran.ending}" if ran.ending else ""))
    click.echo(
        "a row that fails or differs below one that does not: `cutaway bisect` names what is between them"
    )
