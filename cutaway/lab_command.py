"""`cutaway lab`: finds the labs' commands, which are in the package `labs`, when one of them runs.

Input: the words after `cutaway lab`. `labs` is above this package, so it is found by name: beside `cutaway/` in a
checkout, and inside it in an installed package.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import click


def labs_command() -> click.Group:
    """The group of commands of labs/command.py."""
    inside = (Path(__file__).parent / "labs").is_dir()
    return importlib.import_module("cutaway.labs.command" if inside else "labs.command").lab_group


class Later(click.Group):
    """A group that is imported when you use it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return labs_command().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return labs_command().get_command(ctx, cmd_name)


lab = Later(
    "lab", help="Learn the compiler by writing a part of it: exercises with checks, hints and references."
)
