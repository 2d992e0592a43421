"""A compiler with three faults: one in a pass, one at an operator, one in fusion. They are planted in this process.

Input: PLACES. They are hashes, so that you do not read here where the faults are: the tools tell you. The first one is
in passes.py. `python -m lab16_debugging.broken bisect ...` is `cutaway bisect ...` with the faults in place.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import cutaway
from cutaway import config
from cutaway.cli import main as cutaway_command
from stage0_eager.table.registry import TABLE
from stage2_autograd.decompose.passes import DECOMPOSE
from stage_contracts.passes import PassTable

from .passes import PASSES

# Nothing old may be found in the cache, and the C++ compiler is fast at -O0.
SETTINGS = {"runtime.force_disable_caches": True, "runtime.cxx_flags": "-O0 -ffp-contract=off"}
PLACES = {"operator": "d6ff52e020e1228e", "fusion": "3461387c0f67dc94"}
FUSE = importlib.import_module("stage3_lowering.lowering.fuse")


def digest(kind: str, name: str) -> str:
    return hashlib.sha256(f"lab 16, {kind}: {name}".encode()).hexdigest()[:16]


def _place(kind: str) -> str:
    """The operator whose hash is in PLACES."""
    names = [name.removeprefix("core.") for name in TABLE if name.startswith("core.")]
    return next(name for name in names if digest(kind, name) == PLACES[kind])


def _with_passes(table: PassTable, added: tuple[Any, ...]) -> tuple[Any, ...]:
    """The table's passes, with the colleague's before `views`."""
    at = table.names.index("views")
    return (*table.passes[:at], *added, *table.passes[at:])


def _wrong_lowering(ours: Callable[[Any], Any], place: str) -> Callable[[Any], Any]:
    """`lower` that computes one operator twice: op(op(x)) in place of op(x)."""

    def lower(graph: Any) -> Any:
        wrong = graph.copy()
        for node in [n for n in wrong.calls if getattr(n.target, "qualname", "") == f"core.{place}"]:
            with wrong.inserting_before(node):
                first = wrong.call_function(node.target, node.args, val=node.val)
            wrong.set_args(node, (first, *node.args[1:]))
        return ours(wrong)

    return lower


def _wrong_fusion(ours: Callable[..., Any], place: str) -> Callable[..., Any]:
    """`build_kernel` that exchanges one operator for another, in kernels of several loop nests."""

    def build_kernel(number: int, nests: Any, *rest: Any) -> Any:
        if len(nests) > 1:
            nests = [
                replace(n, body=tuple(replace(i, op="abs") if i.op == place else i for i in n.body))
                for n in nests
            ]
        return ours(number, nests, *rest)

    return build_kernel


@contextmanager
def faults(passes: tuple[Any, ...] = PASSES) -> Iterator[None]:
    """The compiler is broken while the block runs. `passes`: what is there in place of the colleague's."""
    pipeline = cutaway.DEFAULT_PIPELINE
    planted: list[tuple[Any, str, Any]] = [
        (DECOMPOSE, "passes", _with_passes(DECOMPOSE, passes)),
        (pipeline, "lower", _wrong_lowering(pipeline.lower, _place("operator"))),
        (FUSE, "build_kernel", _wrong_fusion(FUSE.build_kernel, _place("fusion"))),
    ]
    with ExitStack() as stack:
        for thing, name, instead in planted:
            before = getattr(thing, name)
            object.__setattr__(thing, name, instead)  # tables and pipelines are frozen
            stack.callback(object.__setattr__, thing, name, before)
        stack.enter_context(config.patch(SETTINGS))
        yield


def show(program: Callable[..., Any], inputs: Callable[[], list[Any]]) -> None:
    """Compile a program with the broken compiler, and print what it returns."""
    with faults():
        print(cutaway.compile(program)(*inputs()))


def minify(name: str) -> None:
    """Write the smallest graph of a program that is wrong, as NAME_smallest.py."""
    from cutaway.debug.minify import minify as smallest

    module = importlib.import_module(f"{__package__}.{name}")
    folder = Path("cutaway_repro")
    before = set(folder.glob("*.py"))
    for after in ("aot", "dynamo"):  # the halves of the graph, then the captured graph
        settings = {"capture.repro_after": after, "capture.repro_level": 4, "autograd.verify_passes": True}
        with faults(), config.patch({**settings, "capture.suppress_errors": False}):
            try:
                cutaway.compile(module.program)(*module.inputs())
            except Exception as error:
                print(f"{type(error).__name__}: {str(error).splitlines()[0]}")
        if saved := sorted(set(folder.glob("*.py")) - before, key=lambda path: path.stat().st_mtime_ns):
            with faults():
                print(smallest(saved[-1], f"{name}_smallest.py"))
            return
    print(f"{name} is right: there is nothing to minify")


if __name__ == "__main__":
    if sys.argv[1:2] == ["minify"]:
        minify(sys.argv[2])
    else:
        with faults():
            cutaway_command(sys.argv[1:], prog_name="cutaway")
