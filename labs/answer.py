"""A learner's file, imported so that nothing else can be graded by mistake.

Input: the learner's folder and a lab. A file that is missing, empty or broken, or that uses the reference, is refused
with one sentence. Every module under test is printed by `cutaway lab check` with its path.
"""

from __future__ import annotations

import ast
import importlib
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from .catalogue import Lab
from .tagged import starter

FREE = ("stage_contracts", "numpy", "sympy", *sorted(sys.stdlib_module_names))
# Ways to reach a reference without an import that can be seen.
DOORS = ("importlib", "pkgutil", "runpy", "sys", "builtins", "gc", "inspect")
DOOR_NAMES = {
    "__import__",
    "exec",
    "load_seam",
    "load_pipeline",
    "DEFAULT_SEAMS",
    "TINY_SEAMS",
    "__subclasses__",
}


class Refused(Exception):
    """The answer cannot be graded. The message is one sentence."""


@dataclass(frozen=True)
class Answer:
    """A learner's module under test."""

    lab: Lab
    module: ModuleType
    files: tuple[Path, ...]  # of the learner's package, all in the learner's folder

    def __getattr__(self, name: str) -> Any:
        """A function of the learner's, as `answer.partition`."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.module, name)


@contextmanager
def answer_in(folder: Path, lab: Lab) -> Iterator[Answer]:
    """The learner's answer to a lab, importable as `labNN_name.file` while the block runs. Raises Refused."""
    package = folder.resolve() / lab.package
    files = _read(package, lab)
    sys.path.insert(0, str(package.parent))
    _forget(lab.package)
    importlib.invalidate_caches()
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        module = _import(lab, package)
        under_test = _of_package(lab.package)
        for name, part in under_test.items():
            if not Path(str(part.__file__)).resolve().is_relative_to(package):
                raise Refused(f"{name} was imported from {part.__file__}; expected a file in {package}.")
        for name in lab.functions:
            _check_function(module, name, package, lab)
        yield Answer(lab, module, files)
    finally:
        sys.dont_write_bytecode = before
        sys.path.remove(str(package.parent))
        _forget(lab.package)


def _read(package: Path, lab: Lab) -> tuple[Path, ...]:
    """The files of the learner's package, each of which parses and keeps the rule about imports."""
    main = package / lab.file
    if not package.is_dir():
        raise Refused(
            f"There is no {lab.package}/ in {package.parent}: make it with `cutaway lab start {lab.number}`."
        )
    if not main.is_file():
        raise Refused(
            f"There is no {lab.file} in {package}: put it back, or begin again with `git checkout .`."
        )
    first = ast.parse(starter(lab.source_text, lab.number, lab.regions))
    allowed = {pair for pair, _ in _imports(first)}
    files = tuple(sorted(package.rglob("*.py")))
    for path in files:
        short = path.relative_to(package.parent)
        if path.name in lab.given:
            if path.read_text(encoding="utf-8") != (lab.folder / path.name).read_text(encoding="utf-8"):
                raise Refused(
                    f"{short} has changed, but the checks rely on it: `git checkout {short}` puts it back."
                )
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        except (SyntaxError, UnicodeDecodeError, ValueError) as error:
            line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
            raise Refused(f"{short}{line} is not Python: {getattr(error, 'msg', error)}.") from None
        if path == main and not any(
            isinstance(n, ast.FunctionDef | ast.ClassDef | ast.Assign) for n in tree.body
        ):
            raise Refused(f"{short} is empty: it defines nothing, expected {', '.join(lab.functions)}.")
        _check_imports(tree, short, lab, allowed)
    return files


def _imports(tree: ast.AST) -> list[tuple[tuple[str, str], int]]:
    """What a file imports: ((module, name), line). A relative import has the module "." in front."""
    found: list[tuple[tuple[str, str], int]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [((alias.name, ""), node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found += [((module, alias.name), node.lineno) for alias in node.names]
    return found


def _check_imports(tree: ast.AST, short: Path, lab: Lab, allowed: set[tuple[str, str]]) -> None:
    """Refuse an answer that imports more of the compiler than its starter does: the reference is in there."""
    names = {n.id: n.lineno for n in ast.walk(tree) if isinstance(n, ast.Name)}
    names |= {n.attr: n.lineno for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    used = [((name, ""), line) for name, line in names.items() if name in DOOR_NAMES]
    for (module, name), line in [*_imports(tree), *used]:
        root = module.split(".")[0]
        door = root in DOORS or name in DOOR_NAMES or module in DOOR_NAMES
        if (module, name) in allowed or (
            not door and (module.startswith(".") or root == lab.package or root in FREE)
        ):
            continue
        what = f"{module}.{name}" if name else module
        raise Refused(
            f"{short}, line {line} uses {what}: an answer may import the standard library, NumPy, SymPy, "
            "stage_contracts, its own files and what the starter imports, so that the reference is not graded."
        )


def _import(lab: Lab, package: Path) -> ModuleType:
    try:
        return importlib.import_module(lab.module)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        place = where(error, package)
        raise Refused(
            f"Importing {lab.package}/{lab.file} raised {type(error).__name__}: {error}{place}."
        ) from error


def _check_function(module: ModuleType, name: str, package: Path, lab: Lab) -> None:
    found = getattr(module, name, None)
    if not callable(found):
        raise Refused(
            f"{lab.package}/{lab.file} has no function {name!r}: the checks call it, so it keeps its name."
        )
    parts = vars(found).values() if isinstance(found, type) else [found]
    codes = [part.__code__ for part in parts if hasattr(part, "__code__")]
    files = [Path(code.co_filename) for code in codes if code.co_filename != "<string>"]  # a dataclass's own
    file = files[0].resolve() if files else None
    if file is None or not file.is_relative_to(package):
        raise Refused(f"{name} is not written in {package} but comes from {file}: expected `{name}` there.")


def where(error: BaseException, package: Path) -> str:
    """ " (partition.py:31)": the last line of the learner's package that an error went through; "" if none."""
    frames = traceback.extract_tb(error.__traceback__)
    mine = [frame for frame in frames if Path(frame.filename).is_relative_to(package)]
    return f" ({Path(mine[-1].filename).name}:{mine[-1].lineno})" if mine else ""


def _of_package(name: str) -> dict[str, ModuleType]:
    return {n: m for n, m in sys.modules.items() if n == name or n.startswith(f"{name}.")}


def _forget(name: str) -> None:
    for module in _of_package(name):
        del sys.modules[module]
