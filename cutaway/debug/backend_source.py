"""A user-defined backend as a saved program has it: an import or, of a function of the script, its text.

Input: the backend as a value. A function's text goes without decorators and annotations, with an import for each module
that it reads. One that reads more than that is left to the reader, in a comment.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from typing import Any

NO_MODULES = (None, "__main__", "<run_path>")  # what a script that runs, and runpy, call themselves


def imported_backend(backend: Any) -> tuple[str, str]:
    """What a program has above for its backend, and what it calls it. A name will do for those that have one."""
    function = getattr(backend, "function", None)
    name = getattr(backend, "name", backend)
    if function is None:
        return "", repr(name)
    module, path = getattr(function, "__module__", "__main__"), getattr(function, "__qualname__", "<locals>")
    if module not in NO_MODULES and "." not in path:
        return f"from {module} import {path}\n", path
    text = _text_of(function, name) if isinstance(function, types.FunctionType) else None
    return text or f"\n# {name} is a backend of yours: import or define it here\n", name


def _text_of(function: types.FunctionType, name: str) -> str | None:
    """The function as it stands in its file, below its imports; None if it cannot stand alone."""
    try:
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    if not isinstance(node, ast.FunctionDef) or function.__closure__ or node.name != name:
        return None
    node.decorator_list, node.returns = [], None
    for each in ast.walk(node):
        if isinstance(each, ast.arg):
            each.annotation = None
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} & function.__globals__.keys()
    lines = [_import_of(name, function.__globals__[name]) for name in sorted(names - {node.name})]
    if None in lines:
        return None
    return "\n".join([*filter(None, lines), "", "", ast.unparse(node), ""])


def _import_of(name: str, value: Any) -> str | None:
    """The line that gives a global this value."""
    if isinstance(value, types.ModuleType):
        path = value.__name__
        if path.partition(".")[0] == "torch":  # a program that runs on Cutaway gets its torch
            rest = f"\n{name} = {path}" if path != name else ""
            return f"from cutaway.torch_api import torch{rest}"
        return f"import {path}" if path == name else f"import {path} as {name}"
    module, path = getattr(value, "__module__", None), getattr(value, "__qualname__", ".")
    if module in NO_MODULES or "." in path:
        return None
    return f"from {module} import {path}" + (f" as {name}" if path != name else "")
