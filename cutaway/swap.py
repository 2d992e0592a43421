"""Finds a seam's implementation: from the text `partition=my_module:my_partition` to the function.

Input: the text after `--swap` (pytest or `cutaway tour`), or an entry of `DEFAULT_SEAMS`. This file imports only the
contracts, so that one stage's tests run without the other stages.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

SHAPE = "SEAM=module:object or SEAM=path/to/file.py:object"


class SwapError(ValueError):
    """A swap that is not possible. The message is one line: what was seen, what was expected, what to do."""


def default_seams() -> dict[str, str]:
    """The default pipeline's implementation of each seam, from the contracts: {seam: "module:object"}."""
    try:
        from stage_contracts.pipeline import DEFAULT_SEAMS
    except ImportError as error:
        raise SwapError(
            f"cannot read the list of seams: {error}; expected stage_contracts.pipeline.DEFAULT_SEAMS. "
            "Run from the root of the repository, or install cutaway."
        ) from error
    return dict(DEFAULT_SEAMS)


def tested_seams() -> dict[str, str]:
    """The same for all seams that conformance tests may name: those of the pipeline, and the inner seams of the
    stages."""
    return {**default_seams(), **importlib.import_module("stage_contracts.pipeline").INNER_SEAMS}


def parse(text: str, seams: Callable[[], dict[str, str]] = default_seams) -> tuple[str, str]:
    """Split "partition=my_module:my_partition" into ("partition", "my_module:my_partition"), and check both."""
    seam, equals, target = text.partition("=")
    if not (seam and equals and target):
        raise SwapError(
            f"--swap got {text!r}; expected {SHAPE}, for example --swap partition=my_module:my_partition"
        )
    known = seams()
    if seam not in known:
        raise SwapError(f"--swap {text}: there is no seam {seam!r}; expected one of {', '.join(known)}")
    _split_target(target, f"--swap {text}")
    return seam, target


def load(target: str, who: str) -> Callable[..., Any]:
    """Import the callable that `target` ("module:object", "path/to/file.py:object") names.

    `who` begins the message of the `SwapError` if it does not exist, for example "--swap partition=...".
    """
    module_name, object_path = _split_target(target, who)
    module = _import_file(module_name, who) if module_name.endswith(".py") else _import_name(module_name, who)
    found: Any = module
    for name in object_path.split("."):
        if not hasattr(found, name):
            raise SwapError(f"{who}: {module_name} has no {object_path!r}; {_what_it_has(module)}")
        found = getattr(found, name)
    if not callable(found):
        raise SwapError(
            f"{who}: {target} is of type {type(found).__name__} and not callable; expected a function with the seam's "
            "parameters (stage_contracts/pipeline.py lists them)"
        )
    return found


def _split_target(target: str, who: str) -> tuple[str, str]:
    # The last colon, because a path may contain others.
    module, colon, name = target.rpartition(":")
    if not (module and colon and name) or not all(part.isidentifier() for part in name.split(".")):
        raise SwapError(
            f"{who}: {target!r} does not name an object; expected module:object or path/to/file.py:object"
        )
    return module, name


def _import_name(name: str, who: str) -> Any:
    # A console script does not put the working directory on sys.path, and the user's module is there.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise SwapError(
                f"{who}: no module {error.name!r} in {here} or on sys.path; expected an importable module, "
                "or give the file as path/to/file.py:object"
            ) from error
        raise SwapError(_broken_module(name, error, who)) from error
    except BaseException as error:
        _let_through(error)
        raise SwapError(_broken_module(name, error, who)) from error


def _import_file(path_text: str, who: str) -> Any:
    path = Path(path_text).expanduser().resolve()
    if not path.is_file():
        raise SwapError(
            f"{who}: there is no file {path}; give the path of a Python file, absolute or from {Path.cwd()}"
        )
    # A unique name, so that a file named random.py or tiny.py does not hide another module.
    name = "cutaway_swap_" + "".join(c if c.isalnum() else "_" for c in str(path.with_suffix("")))
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, "a .py file always has a loader"
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    # The file may import files beside it, as when it runs as a script. Their folder comes last.
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        _let_through(error)
        raise SwapError(_broken_module(path_text, error, who)) from error
    return module


def _let_through(error: BaseException) -> None:
    if isinstance(error, (KeyboardInterrupt, GeneratorExit)):
        raise error


def _broken_module(name: str, error: BaseException, who: str) -> str:
    """One line for a module that exists but raises while it is imported, with the place of the error."""
    if isinstance(error, SyntaxError):
        file, line = error.filename, error.lineno
    else:
        last = traceback.extract_tb(error.__traceback__)[-1]
        file, line = last.filename, last.lineno
    said = str(error).splitlines()[0] if str(error) else ""
    return (
        f"{who}: importing {name} raised {type(error).__name__}: {said} ({file}:{line}); fix that error first"
    )


def _what_it_has(module: Any) -> str:
    own = [
        name
        for name, value in vars(module).items()
        if callable(value)
        and not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
    ]
    return f"it defines {', '.join(own)}" if own else "it does not define any function"
