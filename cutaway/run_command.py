"""`cutaway run [--nproc N] script.py`: a script whose `import torch` is Cutaway, in one process or in several.

Input: the script and its arguments. The `mpiexec` that stands beside this Python, or on the path, starts several
processes; each runs run_worker.py.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click

NO_MPIEXEC = (
    "found no mpiexec beside this Python or on the path; `pip install 'cutaway[distributed]'` brings one"
)
FAILED = (
    "cutaway run: one of the {} processes ended with status {} or by a signal, and the others were ended; what it said "
    "stands above. If that is nothing, {} left by os._exit or was killed"
)


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--nproc", type=click.IntRange(1), default=1, show_default=True, help="Processes, on this machine."
)
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), help="End all of them after so many seconds."
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(nproc: int, timeout: float | None, script: str, arguments: tuple[str, ...]) -> None:
    """Run SCRIPT with Cutaway as its torch."""
    words = [sys.executable, "-m", "cutaway.run_worker", script, *arguments]
    if nproc > 1:
        words = [mpiexec(), "-n", str(nproc), *words]
    try:
        # close_fds: a launcher such as mpiexec, which may have started this, talks to its processes through a pipe
        status = subprocess.run(words, env=environment(nproc), timeout=timeout, close_fds=False).returncode
    except subprocess.TimeoutExpired:
        raise click.ClickException(f"{script} still ran after {timeout:g} s and was ended") from None
    if status and nproc > 1:
        click.echo(FAILED.format(nproc, status, script), err=True)
    raise SystemExit(status)


def mpiexec() -> str:
    found = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
    if found is None:
        raise click.ClickException(NO_MPIEXEC)
    return found


def environment(nproc: int) -> dict[str, str]:
    """The processes share the cores: each gets its part as threads, unless you said how many."""
    threads = max(1, (os.cpu_count() or 1) // nproc)
    return {"OMP_NUM_THREADS": str(threads), **os.environ} if nproc > 1 else dict(os.environ)
