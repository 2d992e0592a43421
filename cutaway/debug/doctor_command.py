"""`cutaway doctor`: what is wrong with this installation, and what to do about each finding.

Input: this machine. The status is 1 if there is a problem. `--report` prints the same for a bug report.
"""

from __future__ import annotations

import click


@click.command()
@click.option("--report", "for_report", is_flag=True, help="As text for a bug report, without private paths.")
@click.option("--no-self-test", is_flag=True, help="Look only; compile nothing (a few seconds less).")
@click.option("--only", multiple=True, metavar="CHECK", help="This check alone; repeatable.")
def doctor(for_report: bool, no_self_test: bool, only: tuple[str, ...]) -> None:
    """Look at all that the compiler depends on, run a self-test through every stage, and say what to do."""
    from cutaway.debug.doctor import CHECKS, examine, lines_of, report, summary

    findings = []
    unknown = [name for name in only if name not in CHECKS]
    if unknown:
        raise click.ClickException(f"there is no check {unknown[0]!r}; there are {', '.join(CHECKS)}")
    for finding in examine(self_test=not no_self_test, only=only):
        findings.append(finding)
        if not for_report:
            click.echo("\n".join(lines_of(finding)))
    click.echo(report(findings) if for_report else summary(findings))
    if any(finding.status == "problem" for finding in findings):
        raise SystemExit(1)
