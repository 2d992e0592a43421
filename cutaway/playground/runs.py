"""One run of the playground: a process runs the program, explains one function of it, and is ended if it is late.

Input: the text that was typed. The explorer's page of it is written into the given folder, as page.html.
"""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAME = "program.py"
MOST = 20_000  # characters of output that are shown


@dataclass(frozen=True)
class Ran:
    """What the program printed; what went wrong, or which function the new page shows."""

    printed: str = ""
    wrong: str = ""
    shown: str = ""


def run(text: str, folder: Path, beside: Path, seconds: float) -> Ran:
    """Run a program whose imports may come from the folder `beside`; write page.html into `folder`."""
    try:
        name = shown_name(ast.parse(text, NAME))
    except SyntaxError as error:
        return Ran(wrong="".join(traceback.format_exception_only(error)))
    if name is None:
        return Ran(wrong="The program defines no function at its top level: write one, and call it.")
    program, page = folder / NAME, folder / "page.html"
    program.write_text(text, encoding="utf-8")
    page.unlink(missing_ok=True)
    words = [sys.executable, "-m", "cutaway.cli", "explain", f"{program}:{name}", "--html", str(page)]
    path = os.pathsep.join([str(ROOT), str(beside), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    process = subprocess.Popen(
        words, cwd=beside, env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        printed, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        return Ran(wrong=f"The program still ran after {seconds:g} s and was ended. Does every loop end?")
    except BaseException:
        _end(process)
        raise
    printed = printed.replace(f"The page is {page.resolve()}\n", "")[-MOST:]
    if page.is_file() and not process.returncode:
        return Ran(printed + errors[-MOST:], shown=name)
    return Ran(
        printed,
        wrong=_of_the_program(errors, program)[-MOST:] or f"It ended with status {process.returncode}.",
    )


def shown_name(tree: ast.Module) -> str | None:
    """The first function or object that the program compiles itself; otherwise the last function that it defines."""
    last = None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            if any("compile" in ast.unparse(each) for each in node.decorator_list):
                return node.name
            last = node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _compiles(node.value):
            return node.targets[0].id
    return last


def _compiles(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).endswith("compile")


def _of_the_program(errors: str, program: Path) -> str:
    """A traceback without the frames that ran the program, which are not the reader's."""
    lines = errors.replace(str(program.resolve()), NAME).replace(str(program), NAME).splitlines()
    own = next((k for k, line in enumerate(lines) if line.startswith(f'  File "{NAME}"')), None)
    start = next((k for k, line in enumerate(lines) if line.startswith("Traceback ")), None)
    if own is not None and start is not None and start < own:
        del lines[start + 1 : own]
    return "\n".join(lines)


def _end(process: subprocess.Popen[str]) -> None:
    """End the process and those that it started."""
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.communicate()
