"""`cutaway explain script.py:function`: runs the script with that function compiled; writes the page of it.

Input: a script and the name of a function or method in it (`Model.forward`), or of a compiled object that it makes. The
script runs as `python script.py` would run it; only the function's definition gets a decorator.
"""

from __future__ import annotations

import ast
import sys
import types
from pathlib import Path
from typing import Any

import click

_HOOK = "__cutaway_explain__"


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("target", metavar="SCRIPT.PY:FUNCTION")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS OF THE SCRIPT]")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), default="explain.html", show_default=True,
    help="Where the page goes.",
)  # fmt: skip
@click.option(
    "--beside",
    metavar="SCRIPT.PY:FUNCTION",
    help="Another function, or another version of it, shown side by side.",
)
def explain(target: str, arguments: tuple[str, ...], html: Path, beside: str | None) -> None:
    """Run a script with one of its functions compiled; write a page that shows how it was compiled."""
    if not html.resolve().parent.is_dir():
        raise click.ClickException(
            f"--html {html}: there is no folder {html.resolve().parent}; make it first"
        )
    from cutaway.explorer import side_by_side  # the page's parts, which the other commands do not need

    found = {each: _compiled(each, arguments) for each in (target, beside) if each is not None}
    written = side_by_side(found, html) if len(found) > 1 else found[target].explain_html(html)
    click.echo(f"The page is {written}")


def _compiled(target: str, arguments: tuple[str, ...]) -> Any:
    """The function that a target names, after its script ran. An error says what is wrong with the target."""
    script, _, name = target.rpartition(":")
    if not script or not all(part.isidentifier() for part in name.split(".")):
        raise click.ClickException(
            f"{target!r} names no function; expected SCRIPT.PY:FUNCTION, as in train.py:step"
        )
    path = Path(script)
    if not path.is_file():
        raise click.ClickException(f"there is no file {script}; expected the path of a Python script")
    compiled = run_with_compiled(path, name, list(arguments))
    if compiled is None:
        raise click.ClickException(f"{script} has no function or compiled object {name!r}; {_defined(path)}")
    try:
        compiled.artifacts[-1]  # where there are none, its error says why
    except IndexError as error:
        raise click.ClickException(f"{name} was not compiled while {script} ran: {error}") from error
    return compiled


def run_with_compiled(path: Path, name: str, arguments: list[str]) -> Any:
    """What the script made of `name`, after it ran to its end: a compiled function or module, or None."""
    import cutaway

    found: dict[str, Any] = {}

    def hook(function: Any) -> Any:
        found[name] = cutaway.compile(function)
        return found[name]

    source = path.read_text(encoding="utf-8")
    try:
        tree = ast.parse(source, str(path))
    except SyntaxError as error:
        raise click.ClickException(
            f"{path}:{error.lineno}: {error.msg}; make the script run first"
        ) from error
    definition = _definition(tree, name.split("."))
    if definition is not None and not any("compile" in ast.unparse(d) for d in definition.decorator_list):
        decorator = ast.copy_location(ast.Name(_HOOK, ast.Load()), definition)
        definition.decorator_list.append(decorator)
    module = types.ModuleType("__main__")
    module.__dict__.update({"__file__": str(path), _HOOK: hook})
    before = sys.argv, sys.path[:], sys.modules["__main__"]
    sys.argv, sys.modules["__main__"] = [str(path), *arguments], module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        exec(compile(tree, str(path.resolve()), "exec"), module.__dict__)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise click.ClickException(f"{path} ended with exit code {end.code}") from end
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = before
    made: Any = module
    for part in name.split("."):
        made = getattr(made, part, None)
    return found.get(name) or (made if hasattr(made, "explain_html") else None)


def _definition(tree: ast.AST, names: list[str]) -> ast.FunctionDef | None:
    """The function of that qualified name, at the top of the file or in its classes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == names[0]:
            if len(names) == 1:
                return node if isinstance(node, ast.FunctionDef) else None
            return _definition(node, names[1:])
    return None


def _defined(path: Path) -> str:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    return f"it defines {', '.join(names)}" if names else "it defines no function at its top"
