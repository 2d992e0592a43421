"""`cutaway replay file.rec`: compiles a recorded frame again, and calls it; `--show` only reads it.

Input: a file that `replay_record_enabled` wrote (record.py).
"""

from __future__ import annotations

import click


@click.command()
@click.option("--show", is_flag=True, help="Print the error, the settings and the source, and run nothing.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
def replay(file: str, show: bool) -> None:
    """Compile the frame in FILE again, and call it: it fails as it did. The source in FILE runs: look first."""
    from cutaway.debug.replay import RecordError, read
    from cutaway.debug.replay import replay as again

    try:
        if show:
            click.echo(read(file))
            return
        again(file)
    except RecordError as error:
        raise click.ClickException(str(error)) from None
    click.echo("it did not fail", err=True)
