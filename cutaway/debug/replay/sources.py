"""A function or class as the text that defines it, and back: what a record of a frame holds in the place of code.

Input: a function or class whose file is there, or such a text. Compiled, the text has its file's name and line numbers;
`linecache` gets the text, so that messages show the user's lines where the file is not there.
"""

from __future__ import annotations
import __future__

import ast
import dis
import functools
import inspect
import linecache
import types
from collections.abc import Iterator
from typing import Any

FACTORY = "_with_cells"  # the function around a text, whose parameters are the names of its cells


class NoSource(ValueError):
    """The text that defines this function or class cannot be found."""


def source_of_function(fn: types.FunctionType) -> dict[str, Any]:
    """{"file", "line", "text", "future"} of a function or lambda, without its decorators: they have run."""
    code = fn.__code__
    lines, tree = _file(code.co_filename, fn.__globals__)
    node = _lambda_of(code, tree) if code.co_name == "<lambda>" else _function_of(code, tree)
    if node is None:
        raise NoSource(f"no definition of {fn.__qualname__} at {code.co_filename}:{code.co_firstlineno}")
    return _segment(code.co_filename, lines, tree, node, node.lineno)


def source_of_class(cls: type) -> dict[str, Any]:
    """The same of a class, with its decorators."""
    methods = [m for m in vars(cls).values() if isinstance(m, types.FunctionType)]
    own = [m.__code__ for m in methods if m.__code__.co_qualname == f"{cls.__qualname__}.{m.__name__}"]
    try:
        file = own[0].co_filename if own else inspect.getsourcefile(cls)
    except TypeError:
        file = None
    if file is None:
        raise NoSource(f"no file defines the class {cls.__qualname__}")
    lines, tree = _file(file, methods[0].__globals__ if methods else None)
    found = [
        node
        for path, node in _classes(tree, "")
        if path == cls.__qualname__
        and (not own or node.lineno < own[0].co_firstlineno <= (node.end_lineno or 0))
    ]
    if not found:
        raise NoSource(f"no definition of the class {cls.__qualname__} in {file}")
    node = found[-1]
    return _segment(file, lines, tree, node, min([node.lineno, *(d.lineno for d in node.decorator_list)]))


def code_of(source: dict[str, Any], cells: tuple[str, ...]) -> types.CodeType:
    """A module's code that defines FACTORY: called with the values of the cells, it makes the function or class."""
    flags = __future__.annotations.compiler_flag if source["future"] else 0
    text, first = source["text"], source["line"]
    try:
        tree = compile(f"if 1:\n{text}", source["file"], "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        (block,) = tree.body
        (node,) = block.body
    except (SyntaxError, ValueError) as error:
        raise NoSource(f"{source['file']}:{first} is no definition: {error}") from None
    ast.increment_lineno(node, first - 2)
    result = node.value if isinstance(node, ast.Expr) else ast.Name(node.name, ast.Load())
    body = [ast.Return(result)] if isinstance(node, ast.Expr) else [node, ast.Return(result)]
    parameters = ast.arguments([], [ast.arg(name) for name in cells], None, [], [], None, [])
    maker: Any = ast.FunctionDef(FACTORY, parameters, body, [], None, None)
    if hasattr(ast, "TypeAlias"):  # Python 3.12 has one field more
        maker.type_params = []
    module = ast.fix_missing_locations(ast.Module([maker], []))
    _remember(source)
    return compile(module, source["file"], "exec", flags, dont_inherit=True)


def names_read(code: types.CodeType, functions_too: bool = True) -> set[str]:
    """The global names that the code reads; without those that its functions read only when they are called."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for inner in (c for c in code.co_consts if isinstance(c, types.CodeType)):
        if functions_too or not inner.co_flags & inspect.CO_OPTIMIZED:
            found |= names_read(inner, functions_too)
    return found


def attributes_read(code: types.CodeType) -> set[str]:
    """Every name that the code and its functions use: of globals, attributes and methods."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return {*code.co_names, *(name for one in inner for name in attributes_read(one))}


# ---- finding a definition -----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=32)
def _parsed(file: str, text: str) -> ast.Module:
    return ast.parse(text)


def _file(file: str, names: dict[str, Any] | None) -> tuple[list[str], ast.Module]:
    lines = linecache.getlines(file, names)
    if not lines:
        raise NoSource(f"there is no file {file}")
    try:
        return lines, _parsed(file, "".join(lines))
    except SyntaxError as error:
        raise NoSource(f"{file} is not what was run: {error}") from None


def _function_of(code: types.CodeType, tree: ast.Module) -> Any:
    """The definition whose first line, that of its first decorator, is the code's."""
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and node.name == code.co_name
            and min([node.lineno, *(d.lineno for d in node.decorator_list)]) == code.co_firstlineno
        ):
            return node
    return None


def _lambda_of(code: types.CodeType, tree: ast.Module) -> ast.Lambda | None:
    """The smallest lambda around every position of the code."""
    places = [
        (line, column)
        for line, _, column, _ in code.co_positions()
        if line is not None and column is not None and (line, column) != (code.co_firstlineno, 0)
    ]
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda)
        and node.lineno == code.co_firstlineno
        and all(
            (node.body.lineno, node.body.col_offset) <= at <= (node.end_lineno or 0, node.end_col_offset or 0)
            for at in places
        )
    ]
    return around[-1] if around else None  # ast.walk has an inner one after the outer


def _classes(tree: Any, path: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for node in ast.iter_child_nodes(tree):
        inner = path
        if isinstance(node, ast.ClassDef):
            yield f"{path}{node.name}", node
            inner = f"{path}{node.name}."
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = f"{path}{node.name}.<locals>."
        yield from _classes(node, inner)


def _segment(file: str, lines: list[str], tree: ast.Module, node: Any, first: int) -> dict[str, Any]:
    """The lines of a definition as they stand, indented at least by one; of a lambda the expression alone."""
    if isinstance(node, ast.Lambda):
        text = f" ({ast.get_source_segment(''.join(lines), node)})"
    else:
        text = "".join(lines[first - 1 : node.end_lineno])
        if not text[:1].isspace():
            # one column to the right, but not inside of texts of several lines: those are values
            inside = {
                n
                for t in ast.walk(node)
                if isinstance(t, (ast.Constant, ast.JoinedStr))
                for n in range(t.lineno, t.end_lineno or 0)
            }
            kept = lines[first - 1 : node.end_lineno]
            text = "".join(
                line if first + i - 1 in inside or not line.strip() else f" {line}"
                for i, line in enumerate(kept)
            )
    future = any(
        isinstance(n, ast.ImportFrom)
        and n.module == "__future__"
        and any(name.name == "annotations" for name in n.names)
        for n in tree.body
    )
    return {"file": file, "line": first, "text": text, "future": future}


def _remember(source: dict[str, Any]) -> None:
    """Lets messages quote the lines, if the file is not there or has other lines by now."""
    file, first, lines = source["file"], source["line"], source["text"].splitlines(keepends=True)
    ours = tuple(linecache.cache.get(file, ()))[1:2] == (None,)
    known = linecache.getlines(file)
    there = [line.strip() for line in known[first - 1 : first - 1 + len(lines)]]
    if not ours and (there == [line.strip() for line in lines] or lines[0].strip(" ()") in "".join(there)):
        return
    kept = known if ours else []
    kept = [*kept, *["\n"] * (first - 1 + len(lines) - len(kept))]
    kept[first - 1 : first - 1 + len(lines)] = lines
    linecache.cache[file] = (sum(map(len, kept)), None, kept, file)
