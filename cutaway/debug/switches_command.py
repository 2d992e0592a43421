"""`cutaway switches`: which switches are not at their defaults here, and what set them; `--all` lists every one.

Input: the environment that the command runs in, as a program would find it.
"""

from __future__ import annotations

import click


@click.command()
@click.option("--all", "everything", is_flag=True, help="Every field, at its default or not.")
def switches(everything: bool) -> None:
    """Say which switches are not at their defaults, and which variable or file says so."""
    from cutaway.debug.switches import changed, listing

    lines = listing() if everything else changed()
    click.echo("\n".join(lines) if lines else "every switch is at its default; --all lists them")
