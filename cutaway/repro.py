"""`repro_after="dynamo"` or `"aot"`: saves a failing graph as a program that fails again, and raises the error.

Input: the captured graph and its backend (dynamo: compile_frame.py), or a half's core graph (aot: inductor.py), and the
inputs of the call. The program runs with repro_program.py; cutaway/debug/minify/ makes it smaller, and writes its
result with `write_program` too.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from cutaway.as_captured import ran_silently
from cutaway.debug.backend_source import imported_backend
from cutaway.repro_calls import lifted, name_of
from cutaway.version import __version__
from stage0_eager import arrays
from stage0_eager.serialization import save
from stage0_eager.tensor import Tensor
from stage_contracts import config
from stage_contracts.breaks import Unsupported
from stage_contracts.errors import ForbiddenInGraph, SeamError
from stage_contracts.graph import Graph
from stage_contracts.graph_module import GraphModule
from stage_contracts.graph_text import print_graph
from stage_contracts.guards import Guard
from stage_contracts.messages import say
from stage_contracts.sizes import ConstraintViolationError
from stage_contracts.symbol_bindings import open_sizes_in, symbol_bindings, symbols_of
from stage_contracts.tensor_meta import TensorMeta

FOLDER = "cutaway_repro"  # in the working directory
LAUNCHER = "minifier_launcher.py"
LAUNCHER_TEXT = '''"""Writes repro.py: the program that failed last, made as small as it can be and still fail."""

from cutaway.debug.minify.minify_command import minify

minify(["{path}"])
'''
NOT_SAVED = (
    ConstraintViolationError,
    ForbiddenInGraph,
    SeamError,
    Unsupported,
)  # what says how to go on itself


class NotFailed(Exception):
    """In the place of the error, where repro_level=3 saves a graph that has not failed."""


PROGRAM = '''"""{heading}

Run this file: it fails again. `cutaway minify` with its path makes it smaller. If the graph calls operators of your
own, import the module that registers them first. {versions}.
"""

from cutaway.repro_program import Saved, no_grad, operators
{imported}
saved = Saved(__file__)  # its numbers are in the file beside this one
{roots}

{functions}

inputs = [
{inputs}
]
saved.run(forward, inputs, {then}backend={named}, {sizes}options={options})
'''


# ---- while compiling and at calls -------------------------------------------------------------------------------


def compiled(
    after: str, name: str, backend: Any, graph: Graph, inputs: Sequence[Any], compile_graph: Callable[[], Any]
) -> Any:
    """What `compile_graph()` gives, a callable on inputs like these. If `repro_after` is `after`, a failure of either
    saves a program, once."""
    if config.current().capture.repro_after != after:
        return compile_graph()
    told: list[Exception] = []

    def failed(error: Exception, operands: Sequence[Any], seen: str) -> None:
        if not told and not isinstance(error, NOT_SAVED):
            told.append(error)
            error.add_note(_saved(after, name, backend, graph, operands, error, seen))

    if config.current().capture.repro_level == 3:
        _saved(after, name, backend, graph, inputs, NotFailed("nothing yet"), "It was saved before it ran.")
    try:
        run = compile_graph()
    except Exception as error:
        failed(error, inputs, "It failed while it was compiled.")
        raise

    def saving(*operands: Any) -> Any:
        try:
            return run(*operands)
        except Exception as error:
            failed(error, operands, "It failed at a call.")
            raise

    return saving


def compares_values() -> bool:
    """Whether a result that differs from eager's is a failure to save: repro_level 4."""
    capture = config.current().capture
    return capture.repro_after is not None and capture.repro_level == 4


def drawn_for(graph: Graph) -> list[Any]:
    """Inputs of the graph's metas, where there was no call yet: numbers of the normal distribution, zeros, False."""
    return [_drawn(n.val) if isinstance(n.val, TensorMeta) else _number(n.val) for n in graph.placeholders]


def _drawn(meta: TensorMeta) -> Tensor:
    drawn = np.random.default_rng(0).standard_normal(tuple(map(int, meta.shape)))
    numbers = (drawn if meta.dtype.is_floating_point else drawn * 0).astype(meta.dtype.numpy)
    value = Tensor(arrays.move(numbers, meta.device))
    return laid_out(value, tuple(map(int, meta.strides)))


def laid_out(value: Tensor, stride: tuple[int, ...]) -> Tensor:
    """The value with these strides; a GPU lays it out its own way."""
    numbers, width = arrays.move(value._data, arrays.CPU), value.dtype.itemsize
    reach = sum((n - 1) * s for n, s in zip(value.shape, stride, strict=True)) + 1 if value.numel() else 0
    room = np.zeros(reach, numbers.dtype)
    made = np.ndarray(numbers.shape, numbers.dtype, room, strides=[s * width for s in stride])
    made[...] = numbers
    return Tensor(arrays.move(made, value.device))


def _number(value: Any) -> Any:
    """An open size or scalar as the number it stands for."""
    return value if isinstance(value, (bool, int, float)) else int(value)


def guard_failed(
    name: str, backend: Any, graph: Graph, operands: Sequence[Any], guard: Guard, now: Any, error: Exception
) -> None:
    """Saves a program of two calls, where an entry was chosen for a call for which this guard does not hold: `now` is
    what the guard is about at this call."""
    was, number = guard.expected, name_of(guard.source)
    two = lifted(graph, number, was) if isinstance(was, (int, float)) else None
    if two is not None and config.current().capture.repro_after is not None:
        calls = [was, *operands]
        error.add_note(
            _saved("dynamo", name, backend, two, calls, error, "It failed at the second call.", {number: now})
        )


# ---- the program ------------------------------------------------------------------------------------------------


def _saved(
    after: str,
    name: str,
    backend: Any,
    graph: Graph,
    operands: Sequence[Any],
    error: Exception,
    seen: str,
    then: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Writes the program, its numbers and what minifies it; what to say about it."""
    settings = config.current()
    options: dict[str, Any] = {"suppress_errors": False}
    if settings.debug.verify or settings.capture.repro_level == 4:
        options["debug.verify"] = True
    if settings.autograd.verify_passes:
        options["autograd.verify_passes"] = True
    what = f"{type(error).__name__}: {error}"
    heading = f"{what}\nraised by {getattr(backend, 'name', backend)} after {after}, in {name}. {seen}"
    try:
        path = _free_path(name)
        write_program(path, graph, operands, backend, heading, options, then)
        if settings.capture.repro_level > 1:
            Path(LAUNCHER).write_text(LAUNCHER_TEXT.format(path=str(path)), encoding="utf-8")
    except Exception as problem:
        return say("repro_not_saved", after=after, problem=f"{type(problem).__name__}: {problem}")
    return say("repro_saved", after=after, path=path)


def _free_path(name: str) -> Path:
    Path(FOLDER).mkdir(exist_ok=True)
    word = "".join(c if c.isalnum() else "_" for c in name).strip("_")
    paths = (Path(FOLDER) / f"{word}_{number}.py" for number in itertools.count(1))
    return next(p for p in paths if not p.exists())


def write_program(
    path: Path,
    graph: Graph,
    operands: Sequence[Any],
    backend: Any,
    heading: str,
    options: dict[str, Any],
    then: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Writes a program that makes this call, and its numbers beside it. `then`: what a second call has otherwise."""
    text, numbers = _program(graph, operands, backend, heading, options, then)
    save(numbers, path.with_suffix(".safetensors"))
    path.write_text(text, encoding="utf-8")


def _program(
    graph: Graph,
    operands: Sequence[Any],
    backend: Any,
    heading: str,
    options: dict[str, Any],
    then: Mapping[str, Any],
) -> tuple[str, dict[str, Tensor]]:
    numbers: dict[str, Tensor] = {}
    functions = _functions(graph, "forward", numbers)
    tensors = [
        Tensor(o) if hasattr(o, "__array_interface__") and hasattr(o, "dtype") else o for o in operands
    ]
    inputs = [
        _input(node.name, value, numbers) for node, value in zip(graph.placeholders, tensors, strict=True)
    ]
    imported, named = imported_backend(backend)
    roots = sorted({_root(n.target) for g in _all_graphs(graph) for n in g.calls} | {"cutaway"})
    text = PROGRAM.format(
        heading=heading.replace("\\", "\\\\").replace('"""', "'''"),
        versions=f"Written by Cutaway {__version__}, Python {sys.version.split()[0]}",
        options=options,
        roots="\n".join(f'{root} = operators("{root}")' for root in roots),
        functions="\n".join(functions),
        inputs="\n".join(f"    {one}," for one in inputs),
        imported=imported,
        sizes="dynamic=True, "
        if next(open_sizes_in([n.val for n in graph.placeholders]), None) is not None
        else "",
        named=named,
        then=f"then={dict(then)!r}, " if then else "",
    )
    return text, numbers


def _functions(graph: Graph, name: str, numbers: dict[str, Tensor]) -> list[str]:
    """The graph as a function of that name, below what it reads as `self.name`: constants, and functions likewise."""
    made = []
    for attribute, value in graph.attributes.items():
        if isinstance(value, GraphModule):
            made += [*_functions(value.graph, f"_{attribute}", numbers), f"self.{attribute} = _{attribute}\n"]
        else:
            numbers[f"self.{attribute}"] = value if isinstance(value, Tensor) else Tensor(value)
            made.append(f'self.{attribute} = saved.tensor("self.{attribute}")\n')
    head, _, body = print_graph(graph).partition("(")
    silent = {node.name for node in graph.calls if ran_silently(node)}
    lines = [_line(text, silent) for text in body.splitlines()]
    lines[lines.index("):") + 1 : 0] = _sizes(graph)
    return [
        *(["self = saved\n"] if made and name == "forward" else []),
        *made,
        "\n".join([f"\ndef {name}({lines[0]}", *lines[1:], ""]),
    ]


def _sizes(graph: Graph) -> list[str]:
    """A line for each open size that a call names and no node makes: an input's, or else the number it stands for."""
    given, known = graph.placeholders, {node.name for node in graph.nodes}
    read = {
        one.symbol: f"{given[one.input].name}.shape[{one.dim}]"
        for one in symbol_bindings([node.val for node in given])
        if (one.factor, one.rest) == (1, 0)
    }
    named = {
        symbol: read.get(symbol, size.env.hints.get(symbol))
        for size in open_sizes_in([(node.args, node.kwargs) for node in graph.calls])
        for symbol in symbols_of(size)
    }
    return [
        f"    {symbol} = {value}"
        for symbol, value in named.items()
        if value is not None and str(symbol) not in known
    ]


def _line(text: str, silent: set[str]) -> str:
    """A line without the comment on its type; what was under no_grad is again."""
    if text.lstrip().startswith("#"):
        return text
    text = text.rpartition("  # ")[0] or text
    return f"    with no_grad():\n    {text}" if text.strip().partition(" = ")[0] in silent else text


def _input(name: str, value: Any, numbers: dict[str, Tensor]) -> str:
    """How the program makes an input again, with its strides."""
    if not isinstance(value, Tensor):
        return repr(_number(value))
    numbers[name] = value.detach()
    layout = "" if value.is_contiguous() else f", stride={tuple(map(int, value.stride()))}"
    return f'saved.tensor("{name}"{layout}{", requires_grad=True" * value.requires_grad})'


def _all_graphs(graph: Graph) -> list[Graph]:
    inner = [v.graph for v in graph.attributes.values() if isinstance(v, GraphModule)]
    return [graph, *(g for one in inner for g in _all_graphs(one))]


def _root(target: Any) -> str:
    return str(getattr(target, "qualname", "cutaway")).partition(".")[0]
