"""Which of the user's expressions each line of an artifact's text came from.

Input: `str(artifact)` as it is printed, and the artifact. Graph lines are found by their node's name;
other text carries the user's lines as comments, each of which holds until the next or until its block
ends.
"""

from __future__ import annotations

import dis
import io
import re
import types
from collections.abc import Mapping
from typing import Any

from cutaway.page.origins import Ids, Origins
from stage_contracts.graph import Graph, Node, nodes_in
from stage_contracts.loop_ir import LoweredGraph
from stage_contracts.program import External, Program, RowBlocks

_COMMENT = re.compile(r"^(?P<indent>\s*)(?://|#) (?P<quote>.+)$")
_ASSIGNMENT = re.compile(r"^    (?P<name>\w+) = ")
_PARAMETER = re.compile(r"^    (?P<name>\w+),")
_DEFINITION = re.compile(r"^def (?P<name>\w+)\(")
_WORD = re.compile(r"[A-Za-z_]\w*")


Scope = tuple[int, Ids]  # how deep a comment stands, and what it quotes


def merged(*groups: Ids) -> Ids:
    return tuple(dict.fromkeys(name for group in groups for name in group))


def graph_lines(graph: Graph, origins: Origins) -> list[Ids]:
    """One entry per line of `str(graph)`. An input belongs to the expressions that read it."""
    nodes = {node.name: node for node in graph.nodes}
    found: list[Ids] = []
    for line in str(graph).splitlines():
        assigned, parameter, comment = (p.match(line) for p in (_ASSIGNMENT, _PARAMETER, _COMMENT))
        if comment:
            found.append(origins.quoted(comment["quote"]))
        elif assigned:
            found.append(origins.ids(nodes[assigned["name"]].origins))
        elif parameter:
            found.append(reader_ids(nodes[parameter["name"]], origins))
        elif line.startswith("    return"):
            found.append(merged(*(origins.ids(n.origins) for n in nodes_in(graph.outputs))))
        else:
            found.append(())
    return found


def first_backward_line(graph: Graph, source: str) -> int | None:
    """Where a joint graph turns back: the first line, or the comment above it, of the backward half."""
    regions = {node.name: node.meta.get("region") for node in graph.calls}
    lines = source.splitlines()
    for number, line in enumerate(lines):
        assigned = _ASSIGNMENT.match(line)
        if assigned and regions.get(assigned["name"]) == "backward":
            while _COMMENT.match(lines[number - 1]):
                number -= 1
            return number
    return None


def reader_ids(node: Node, origins: Origins) -> Ids:
    return merged(*(origins.ids(user.origins) for user in node.users if user.op == "call_function"))


def commented_lines(source: str, origins: Origins, names: Mapping[str, Ids] | None = None) -> list[Ids]:
    """One entry per line of text with the user's lines as comments above what they became.

    A comment holds for what follows at its depth or deeper. `names` is for lines under no comment: the first
    word of theirs that it knows (a buffer, a kernel) says where they came from.
    """
    names = names or {}
    found: list[Ids] = []
    scopes: list[Scope] = []
    in_comment = False
    for line in source.splitlines():
        comment = _COMMENT.match(line)
        quoted = origins.quoted(comment["quote"]) if comment else ()
        scopes = _still_open(scopes, line)
        if quoted:
            scopes = _with_comment(scopes, _indent(line), quoted, in_comment)
            found.append(quoted)
        elif scopes and line.strip():
            found.append(scopes[-1][1])
        else:
            found.append(_named(line, names))
            # what stands in a kernel came from what the kernel did
            opened = _DEFINITION.match(line)
            scopes += [(1, found[-1])] if opened and opened["name"] in names else []
        in_comment = bool(quoted)
    return found


def _indent(line: str) -> int:
    """How deep a line stands. The `):` of a signature belongs to the block that it opens."""
    return 1 if line.startswith(")") else len(line) - len(line.lstrip())


def _still_open(scopes: list[Scope], line: str) -> list[Scope]:
    """The comments that hold for a line: those at its depth or above it. An empty line ends the outermost."""
    if not line.strip():
        return [scope for scope in scopes if scope[0] > 0]
    return [scope for scope in scopes if scope[0] <= _indent(line)]


def _with_comment(scopes: list[Scope], indent: int, quoted: Ids, in_comment: bool) -> list[Scope]:
    """A comment in place of the one before it at its depth, or a further line of it."""
    before, here = [s for s in scopes if s[0] < indent], [s for s in scopes if s[0] == indent]
    above = [ids for _, ids in here] if in_comment else []
    return [*before, (indent, merged(*above, quoted))]


def _named(line: str, names: Mapping[str, Ids]) -> Ids:
    known = [names[word] for word in _WORD.findall(line) if word in names]
    return merged(*known) if line.lstrip().startswith("return") else known[0] if known else ()


def buffer_names(lowered: LoweredGraph, origins: Origins) -> dict[str, Ids]:
    """The expressions behind each buffer: of what writes it, or for an input of what reads it."""
    names: dict[str, Ids] = {}
    for node in lowered.nodes:
        here = origins.ids(node.origins)
        for read in node.reads:
            if read in lowered.inputs or read in lowered.constants:
                names[read] = merged(names.get(read, ()), here)
        names.update(dict.fromkeys(node.writes, here))
    return names


def program_names(program: Program, lowered: LoweredGraph, origins: Origins) -> dict[str, Ids]:
    """As buffer_names, with the program's kernels."""
    kernels = {name: origins.ids(kernel.origins) for name, kernel in program.kernels.items()}
    return {**buffer_names(lowered, origins), **kernels}


def step_ids(step: Any, names: Mapping[str, Ids], origins: Origins) -> Ids:
    """The expressions behind one step of a program."""
    if isinstance(step, External | RowBlocks):
        return origins.ids(step.origins)
    return next((names[w] for w in _WORD.findall(str(step)) if w in names), ())


# ---- bytecode ----------------------------------------------------------------------------------


def bytecode(code: types.CodeType) -> str:
    """What `dis` prints for the function itself."""
    out = io.StringIO()
    dis.dis(code, file=out, depth=0)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def bytecode_lines(code: types.CodeType, origins: Origins) -> list[Ids]:
    """One entry per line of `bytecode(code)`: the innermost captured expression around the instruction."""
    instructions = iter(list(dis.get_instructions(code)))
    found: list[Ids] = []
    table = False
    for line in bytecode(code).splitlines():
        table = table or line.startswith("ExceptionTable")
        instruction = None if table or not line.strip() else next(instructions, None)
        places = instruction.positions if instruction else None
        if places is None or places.lineno is None:
            found.append(())
        else:
            end = places.end_col_offset if places.end_lineno == places.lineno else None
            found.append(origins.at(code.co_filename, places.lineno, places.col_offset, end))
    return found
