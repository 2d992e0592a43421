"""Texts of files that run by themselves: fx_graph_runnable.py of a graph, output_code.py of a program.

Input: graphs and programs of a compile. What the files call is in run_alone.py; inputs are made again by type, with the
sizes of the call that was compiled.
"""

from __future__ import annotations

import operator
import platform
from collections.abc import Sequence
from typing import Any

from cutaway.version import __version__
from stage0_eager import numpy_api
from stage0_eager.control_flow import operators as control_flow  # noqa: F401  (they join OPAQUE)
from stage0_eager.table.registry import OPAQUE, TABLE
from stage_contracts.graph import Graph
from stage_contracts.graph_module import GraphModule
from stage_contracts.graph_text import target_names
from stage_contracts.program import Program
from stage_contracts.program_text import print_program
from stage_contracts.symbolic import hinted
from stage_contracts.tensor_meta import TensorMeta

BEGIN = "# ---- the program: what follows is read as text ----"


def example(value: Any) -> Any:
    """An input as a file can write it: the type of a tensor with its sizes as they were, or the number itself."""
    if isinstance(value, TensorMeta):
        shape, strides = (tuple(map(hinted, sizes)) for sizes in (value.shape, value.strides))
        return str(value.with_(shape=shape, strides=strides))
    return value if isinstance(value, (bool, float)) or value is None else hinted(value)


def versions() -> str:
    return f"Cutaway {__version__}, Python {platform.python_version()}"


def known_operators() -> dict[str, Any]:
    """Every operator that a file can name, by its printed name."""
    return {op.qualname: op for op in (*numpy_api.OPERATORS.values(), *TABLE.values(), *OPAQUE.values())}


def can_be_named(graph: Graph) -> bool:
    """Whether a graph's text says all: an operator made for one call (an autograd.Function's) has no name to find."""
    known, names = known_operators(), target_names(graph)
    return all(
        node.target is operator.getitem or known.get(names[id(node.target)]) is node.target
        for node in graph.calls
    )


# ---- fx_graph_runnable.py ------------------------------------------------------------------------------------------


def runnable_graph(graph: Graph, title: str, is_core: bool = False) -> str:
    """The graph as a file that compiles it, compares it with eager and times it. `is_core`: of core operators only."""
    inputs = [_made(node.val) for node in graph.placeholders]
    open_sizes = any(_is_open(node.val) for node in graph.nodes)
    blocks = [
        f'"""{title}. Run alone, this file compiles the graph and compares it with eager.\n\n{versions()}.\n"""\n',
        "import cutaway\nfrom cutaway import core\n"
        "from cutaway.debug.run_alone import as_graph, higher_order, rand_strided, run, run_core\n",
    ]
    named: list[str] = []
    for name, value in graph.attributes.items():
        if isinstance(value, GraphModule):
            blocks.append(f"\n{_renamed(value.code, value.graph.name, name)}")
            named.append(f"{name}=as_graph({name})")
        elif hasattr(value, "meta"):
            named.append(f"{name}=rand_strided({example(value.meta)!r})")
    blocks.append(f"\n{graph}")
    listed = "".join(f"    {made},\n" for made in inputs)
    blocks.append(f"\nINPUTS = [\n{listed}]\n" if inputs else "\nINPUTS: list = []\n")
    if is_core:
        call = f"run_core({', '.join([graph.name, 'INPUTS', *named])})"
    else:
        whole = f"as_graph({', '.join([graph.name, *named])})" if named else graph.name
        call = f"run({whole}, INPUTS{', open_sizes=True' if open_sizes else ''})"
    blocks.append(f'\nif __name__ == "__main__":\n    {call}\n')
    return "".join(blocks)


def _renamed(text: str, old: str, new: str) -> str:
    return text.replace(f"def {old}(", f"def {new}(", 1)


def _made(value: Any) -> str:
    shown = example(value)
    return f"rand_strided({shown!r})" if isinstance(shown, str) else repr(shown)


def _is_open(value: Any) -> bool:
    sizes: Sequence[Any] = value.shape if isinstance(value, TensorMeta) else (value,)
    return any(not isinstance(size, (int, float, type(None), tuple)) for size in sizes)


# ---- output_code.py ------------------------------------------------------------------------------------------------


def runnable_program(
    program: Program, core: Graph, title: str, subgraphs: dict[str, str], steps: str = ""
) -> str:
    """The program, its kernels' source included, as a file that builds, runs and times it.

    `subgraphs`: the files of the programs that it calls, by name. `steps`: what runs it, as Python, for readers.
    """
    inputs = [example(node.val) for node in core.placeholders]
    constants = {b.name: example(b.meta) for b in program.buffers.values() if b.role == "constant"}
    shown = "".join(f"# {line}".rstrip() + "\n" for line in steps.splitlines())
    return (
        f'"""{title}: the program as it was generated. Run alone, this file builds it and prints its time.\n\n'
        f'{versions()}.\n"""\n\n'
        "from __future__ import annotations\n\n"
        "from cutaway.debug.run_alone import benchmark\n\n"
        f"INPUTS = {inputs!r}\n"
        f"CONSTANTS = {constants!r}\n"
        f"SUBGRAPHS = {subgraphs!r}\n\n"
        'if __name__ == "__main__":\n    benchmark(__file__)\n    raise SystemExit\n\n'
        + (f"# What runs the steps, as Python:\n#\n{shown}\n" if shown else "")
        + f"{BEGIN}\n{print_program(program)}"
    )
