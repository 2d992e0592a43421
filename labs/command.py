"""`cutaway lab list | start N | check | hint | diff | solution | status | open`.

Input: the words on the command line, and the learner's folder (`--folder`; else the one you are in, else
`cutaway-labs/` beside you). cutaway/lab_command.py finds this file when a lab command runs.
"""

from __future__ import annotations

import difflib
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .catalogue import Lab, LabError, all_labs, lab_of
from .tagged import solution as without_tags
from .tagged import starter
from .workspace import Workspace, workspace

if TYPE_CHECKING:
    from .checks import Outcome

SHOWN = 3  # failed checks whose details are printed


@click.group("lab")
def lab_group() -> None:
    """Learn the compiler by writing a part of it: exercises with checks, hints and references."""


in_folder = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Your folder of labs. [default: the one you are in, else ./cutaway-labs]",
)
of_lab = click.argument("number", type=int, required=False)


@lab_group.command("list")
def list_labs() -> None:
    """The labs there are."""
    click.echo("lab  hours  after  title")
    for lab in all_labs():
        after = ", ".join(map(str, lab.needs)) or "-"
        click.echo(f"{lab.number:>3}  {lab.hours:>5g}  {after:<5}  {lab.title}")
    click.echo("\nYou can start with any of them: `cutaway lab start N`.")


@lab_group.command()
@click.argument("number", type=int)
@in_folder
def start(number: int, folder: Path | None) -> None:
    """Make a lab's package in your folder: its page and the file that you complete."""
    lab, mine = lab_of(number), workspace(folder)
    made = mine.start(lab)
    click.echo(f"Lab {number}. {lab.title}: about {lab.hours:g} hours.")
    click.echo(f"  read   {shown(mine.of(lab) / 'page.md')}")
    click.echo(f"  write  {shown(mine.of(lab) / lab.file)}")
    for name, what in lab.regions.items():
        click.echo(f"           {name}: {what}")
    click.echo(
        "  then   cutaway lab check"
        + ("" if made else "   (this lab was started before; your files are kept)")
    )


@lab_group.command()
@of_lab
@in_folder
def check(number: int | None, folder: Path | None) -> None:
    """Run a lab's checks on what you wrote."""
    from .grade import grade

    mine = workspace(folder)
    lab = mine.chosen(number)
    click.echo(f"Lab {lab.number}. {lab.title}")
    found = grade(mine.folder, lab)
    for path in found.files:
        click.echo(f"  checking {shown(path)}")
    if found.refused:
        raise click.ClickException(found.refused)
    told = 0
    for outcome in found.outcomes:
        wrong = not (outcome.passed or outcome.unwritten)
        told += wrong
        tell(outcome, mine.of(lab), details=wrong and told <= SHOWN)
    good = sum(outcome.passed for outcome in found.outcomes)
    if found.passed:
        mine.passed(lab)
        click.echo(f"\nAll {good} passed. {advice(lab, mine)}")
        return
    unwritten = [outcome.seen for outcome in found.outcomes if outcome.unwritten]
    for text in dict.fromkeys(unwritten):
        click.echo(f"  {text}")
    click.echo(f"\n{good} of {len(found.outcomes)} passed. `cutaway lab hint` helps.")
    raise SystemExit(1)


def tell(outcome: Outcome, package: Path, details: bool) -> None:
    """One line for a check, and what to know about a failure."""
    if outcome.passed:
        click.echo(f"  {click.style('ok', fg='green')}     {outcome.rule}")
        return
    word = click.style("to do", fg="yellow") if outcome.unwritten else click.style("FAILS", fg="red")
    click.echo(f"  {word}  {outcome.rule}")
    if not details:
        return
    for label, text in (
        ("seen", outcome.seen),
        ("expected", outcome.expected),
        ("difference", outcome.difference),
    ):
        if text:
            click.echo(f"          {label + ':':<12}" + text.rstrip().replace("\n", "\n" + " " * 22))
    if outcome.read:
        read = outcome.read
        click.echo(f"          {'read:':<12}{shown(package / read) if read.startswith('page.md') else read}")


def advice(lab: Lab, mine: Workspace) -> str:
    """What to do after a lab."""
    later = [other for other in all_labs() if other.number > lab.number and "passed" not in mine.about(other)]
    then = f"Next: `cutaway lab start {later[0].number}`. " if later else ""
    return f"{then}Compare with the reference: `cutaway lab solution`. The page ends with questions."


@lab_group.command()
@of_lab
@in_folder
def hint(number: int | None, folder: Path | None) -> None:
    """Show the next of a lab's hints; each says more than the one before."""
    mine = workspace(folder)
    lab = mine.chosen(number)
    at = mine.about(lab).get("hints", 0)
    if at >= len(lab.hints):
        click.echo(f"You have seen all {len(lab.hints)} hints. `cutaway lab solution` prints the reference.")
        at -= 1
    said = f"Hint {at + 1} of {len(lab.hints)}: {lab.hints[at].strip()}"
    click.echo(click.wrap_text(said, width=100, preserve_paragraphs=True))
    mine.note(lab, hints=at + 1)


@lab_group.command()
@of_lab
@in_folder
@click.option("--reference", is_flag=True, help="Compare with the reference instead of the starter.")
def diff(number: int | None, folder: Path | None, reference: bool) -> None:
    """Show how your file differs from the starter, or from the reference."""
    mine = workspace(folder)
    lab = mine.chosen(number)
    path = mine.of(lab) / lab.file
    if not path.is_file():
        raise LabError(f"there is no {path}; `cutaway lab start {lab.number}` puts the starter there")
    old = without_tags(lab.source_text) if reference else starter(lab.source_text, lab.number, lab.regions)
    name = "reference" if reference else "starter"
    new = path.read_text(encoding="utf-8")
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), name, shown(path), lineterm=""))
    click.echo("\n".join(lines) or f"{shown(path)} is the {name}.")


@lab_group.command()
@of_lab
@in_folder
def solution(number: int | None, folder: Path | None) -> None:
    """Print a lab's reference. It works without a folder, if you give the number."""
    lab = workspace(folder).chosen(None) if number is None else lab_of(number)
    click.echo(without_tags(lab.source_text), nl=False)


@lab_group.command()
@in_folder
def status(folder: Path | None) -> None:
    """What you have started and what has passed."""
    mine = workspace(folder)
    kept = mine.progress()
    click.echo(
        f"Your labs are in {shown(mine.folder)}" + ("" if kept["labs"] else ", where nothing is started yet")
    )
    for lab in all_labs():
        facts = mine.about(lab)
        state = (
            f"passed {facts['passed']}" if "passed" in facts else "started" if mine.of(lab).is_dir() else "-"
        )
        hints = f"{facts['hints']} hints" if facts.get("hints") else ""
        here = "  <- current" if kept["current"] == lab.number else ""
        click.echo(f"{lab.number:>3}  {state:<18}  {hints:<7}  {lab.title}{here}")
    done = sum("passed" in mine.about(lab) for lab in all_labs())
    click.echo(f"{done} of {len(all_labs())} passed.")


@lab_group.command("open")
@of_lab
@in_folder
def open_page(number: int | None, folder: Path | None) -> None:
    """Print the path of a lab's page, and open it where there is a browser."""
    mine = workspace(folder)
    lab = mine.chosen(None) if number is None else lab_of(number)
    own = mine.of(lab) / "page.md"
    page = own if own.is_file() else lab.page
    click.echo(shown(page))
    quietly(lambda: webbrowser.get() and webbrowser.open(page.as_uri()))


def quietly(what: Callable[[], Any]) -> None:
    """Do what may not be possible here: a machine without a browser is no error."""
    try:
        what()
    except webbrowser.Error:
        pass


def shown(path: Path) -> str:
    """A path as you would type it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
