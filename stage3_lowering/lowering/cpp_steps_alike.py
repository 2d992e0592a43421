"""Steps of a program that differ in the names of their arrays alone become one C++ function, which each of them calls.

Input: the text of each step that has a team of threads, by its number. A model repeats its layers, and each step with
a team is a function more for the compiler, the threads' part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from stage3_lowering.lowering.cpp_ops import MEMORY_TYPES
from stage3_lowering.lowering.cpp_statements import comma_list
from stage_contracts.program import Program

_NAME = re.compile(r"(?<![\w.:])[A-Za-z_]\w*")  # no member, and nothing of a namespace


def steps_alike(
    texts: Mapping[int, Sequence[str]], prefix: str, program: Program
) -> tuple[list[str], dict[int, list[str]]]:
    """The lines of the functions, and by the number of a step its call: of each step that is like another one."""
    alike: dict[tuple[str, ...], dict[int, list[str]]] = {}
    for number, lines in texts.items():
        names = _arrays(lines, program)
        form = _renamed(lines, {name: f"${k}" for k, name in enumerate(names)})
        types = (program.buffers[name].meta.dtype.name for name in names)
        alike.setdefault((*form, *types), {})[number] = names
    functions: list[str] = []
    calls: dict[int, list[str]] = {}
    for same in alike.values():
        if len(same) == 1:
            continue
        first, *_ = same
        own = {name for name in same[first] if any(f"auto {name} =" in line for line in texts[first])}
        given = [k for k, name in enumerate(same[first]) if name not in own]
        sizes = [size.name for size in program.sizes if size.name in _names(texts[first])]
        functions += _function(f"{prefix}_{first}", same, given, sizes, texts[first], program)
        for number, names in same.items():
            words = ["host", *(names[k] for k in given), *sizes]
            calls[number] = _wrapped(f"{prefix}_{first}(", words, ");")
    return functions, calls


def _function(
    name: str,
    same: Mapping[int, Sequence[str]],
    given: Sequence[int],
    sizes: Sequence[str],
    lines: Sequence[str],
    program: Program,
) -> Iterator[str]:
    numbers = list(map(str, same))
    arrays = [next(iter(same.values()))[k] for k in given]
    params = ["const Host& host"]
    params += [f"{MEMORY_TYPES[program.buffers[array].meta.dtype.name]}* {array}" for array in arrays]
    params += [f"int64_t {size}" for size in sizes]
    yield f"// Steps {', '.join(numbers[:-1])} and {numbers[-1]}; the names are those of the first."
    yield from _wrapped(f"CUTAWAY_AS_WRITTEN static void {name}(", params, ") {")
    yield from lines[1:]  # the step is a block
    yield ""


def _wrapped(head: str, words: Sequence[str], end: str) -> list[str]:
    lines = comma_list(head, words, end)
    return lines if len(lines) == 1 else [*lines[:-2], lines[-2].removesuffix(",") + end]


def _names(lines: Sequence[str]) -> list[str]:
    return [name for line in lines for name in _NAME.findall(line.partition("//")[0])]


def _arrays(lines: Sequence[str], program: Program) -> list[str]:
    """The arrays that the lines name, in the order in which they do."""
    return list(dict.fromkeys(name for name in _names(lines) if name in program.buffers))


def _renamed(lines: Sequence[str], names: Mapping[str, str]) -> list[str]:
    return [_NAME.sub(lambda found: names.get(found[0], found[0]), line) for line in lines]
