"""`cutaway playground [script.py]`: serves a page on this machine where a program can be changed, run and looked into.

Input: a script to begin with, which stays as it is, or none. The address that is printed is the only way in.
"""

from __future__ import annotations

from pathlib import Path

import click

EXAMPLE = """\
import cutaway


@cutaway.compile
def softmax(x):
    e = (x - x.max(-1, keepdim=True)[0]).exp()
    return e / e.sum(-1, keepdim=True)


print(softmax(cutaway.randn(4, 8)).sum(-1))
"""


@click.command()
@click.argument("script", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="A free one, if you do not say.")
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), default=60.0, show_default=True,
    help="After which a run is ended.",
)  # fmt: skip
def playground(script: Path | None, port: int, seconds: float) -> None:
    """Serve a page, on this machine only, where you change a program and see how it is compiled."""
    from cutaway.playground.server import Playground

    text = EXAMPLE if script is None else script.read_text(encoding="utf-8")
    beside = Path.cwd() if script is None else script.resolve().parent
    try:
        server = Playground(text, beside, seconds, port)
    except OSError as error:
        raise click.ClickException(
            f"port {port} cannot be used ({error}); choose another --port, or none"
        ) from error
    click.echo(
        f"Open {server.address}\nThe page can run programs as you: keep the address to yourself. Ctrl+C ends it."
    )
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        click.echo("ended")
    finally:
        server.close()
