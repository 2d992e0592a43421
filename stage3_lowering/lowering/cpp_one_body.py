"""C++ functions that differ in names and in the sizes of outer loops become one body, which each of them calls.

Input: the texts of a unit's kernels. A model repeats a computation at several sizes (an optimizer's step for each shape
of a parameter): the compiler then makes code for it once. Sizes that decide how fast a loop runs stay constants: those
of the innermost loops, steps between their elements, divisors and lengths of arrays. Functions share a body only if
these are equal.

Texts are compared, not loop nests: on sizes depends whether a sum runs in blocks, a loop has a rest, a row is on the
heap. What was decided stands in the text, so functions that differ in it never share a body. A plan made before
the text would have to foresee each such decision, the next one that somebody writes, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

# One function stays one function: the compiler would otherwise make a copy of it for each set of sizes.
SHARED = """\
#ifdef __clang__
#define CUTAWAY_SHARED __attribute__((noinline)) static
#else
#define CUTAWAY_SHARED __attribute__((noinline, noclone)) static
#endif
"""
_TOKEN = re.compile(r"//[^\n]*|\s+|[A-Za-z_]\w*|\d[\w.]*(?:(?<=[eE])[+-]\w+)?|.", re.DOTALL)
_WORDS_AND_SPACES = re.compile(r"//[^\n]*|[\w\s.]+")
_HEADER = re.compile(r'extern "C" int64_t (\w+)\(([^)]*)\) \{\n')
_LOOP = re.compile(r"( *)for \(int64_t (\w+) =")
_TYPES = frozenset(
    "auto bool char const double float int int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t".split()
)


@dataclass(frozen=True)
class Text:
    """A function in parts: what stands above it, its name and parameters, and the tokens of its body."""

    above: str
    name: str
    params: str
    tokens: tuple[str, ...]
    free: tuple[int, ...]  # the tokens that are sizes which may differ
    form: tuple[str, ...]  # the rest, without names, spaces and comments


def one_body(functions: Sequence[str]) -> list[str]:
    """The functions, in the same order; above the first that shares a body stands the body."""
    marks = [_WORDS_AND_SPACES.sub("", function) for function in functions]  # soon told apart
    repeated = {mark for mark, count in Counter(marks).items() if count > 1}
    texts = [_text(f) if mark in repeated else None for f, mark in zip(functions, marks, strict=True)]
    alike: dict[tuple[str, ...], list[Text]] = {}
    for text in filter(None, texts):
        alike.setdefault(text.form, []).append(text)
    groups = {form: _columns(group) for form, group in alike.items() if len(group) > 1}
    written: list[str] = [SHARED] * bool(groups)
    for one, function in zip(texts, functions, strict=True):
        if one is None or one.form not in groups:
            written.append(function)
            continue
        group, columns = alike[one.form], groups[one.form]
        if one is group[0]:
            written.append(_body(one, columns))
        sizes = [column[group.index(one)] for column in dict.fromkeys(columns.values())]
        arguments = ", ".join([*_names(one.params), *sizes])
        written += [
            f'{one.above}extern "C" int64_t {one.name}({one.params}) {{',
            f"    return {_body_name(group[0])}({arguments});",
            "}\n",
        ]
    return written


def _text(function: str) -> Text:
    head = _HEADER.search(function)
    assert head is not None
    body = function[head.end() :]
    tokens = tuple(_TOKEN.findall(body))
    places = [k for k, token in enumerate(tokens) if not (token.isspace() or token.startswith("//"))]
    code = [tokens[k] for k in places]
    free = frozenset(_free(code, _lines(tokens, places), *_loops(body)))
    names = {name: f"${k}" for k, name in enumerate(_names(head[2]))}
    form = [re.sub(r"\s+", " ", re.sub(r"\w+(?=,|$)", "", head[2]))]  # the types of the parameters
    for k, token in enumerate(code):
        if _declares(code, k):
            names.setdefault(token, f"${len(names)}")
        member = code[k - 1] == "." or code[k - 2 : k] == [":", ":"]
        form.append("#" if k in free else token if member else names.get(token, token))
    sizes = tuple(places[k] for k in sorted(free))
    return Text(function[: head.start()], head[1], head[2], tokens, sizes, tuple(form))


def _declares(code: Sequence[str], k: int) -> bool:
    """Whether this token is a name that is declared here: after a type, `float*` or `cutaway::Turned<float, 8, 8>`."""
    if not re.match(r"[A-Za-z_]", code[k]) or code[k] in _TYPES:
        return False
    before, further = code[k - 1], code[k - 2]
    ends = {"*": further in _TYPES or further == "*", ">": further in _TYPES or further.isdecimal()}
    return before in _TYPES or ends.get(before, False)


def _lines(tokens: Sequence[str], places: Sequence[int]) -> list[int]:
    """The line of each of these tokens."""
    ends = list(accumulate(token.count("\n") for token in tokens))
    return [ends[k] for k in places]


def _loops(body: str) -> tuple[set[int], set[str]]:
    """The lines of loops with another loop inside, and the variables of those without."""
    lines = body.split("\n")
    outer, inner = set(), set()
    for k, line in enumerate(lines):
        if not (loop := _LOOP.match(line)):
            continue
        for below in lines[k + 1 :]:
            if below.startswith(loop[1] + "}"):
                inner.add(loop[2])
                break
            if _LOOP.match(below):
                outer.add(k)
                break
    return outer, inner


def _free(code: Sequence[str], lines: Sequence[int], outer: set[int], inner: set[str]) -> Iterator[int]:
    """The places of whole numbers that stand in the header of an outer loop, in an index, or in a tile's arguments."""
    pragmas = {line for token, line in zip(code, lines, strict=True) if token == "#"}
    tiles = {line for token, line in zip(code, lines, strict=True) if token == "Turned"}
    depth, arguments = 0, -1  # of brackets; the line of a tile, once its own lengths are past
    for k, (token, line) in enumerate(zip(code, lines, strict=True)):
        depth += {"[": 1, "]": -1}.get(token, 0)
        if token == ">" and line in tiles:
            arguments = line
        placed = depth or line in outer or line == arguments
        if token.isdecimal() and placed and line not in pragmas and not _decides(code, k, inner):
            yield k


def _decides(code: Sequence[str], k: int, inner: set[str]) -> bool:
    """Whether a number is the length of an array, a divisor, or a step that an innermost loop takes."""
    before, after = code[k - 1], code[k + 1]
    times = {code[k + 2] if after == "*" else "", code[k - 2] if before == "*" else ""}
    return before in ("/", "%") or (before, after) == ("[", "]") or not times.isdisjoint({*inner, "(", ")"})


def _columns(group: Sequence[Text]) -> dict[int, tuple[str, ...]]:
    """For each token of the first text that differs in another one: what it is in each."""
    rows = [[text.tokens[k] for k in text.free] for text in group]
    columns = zip(group[0].free, zip(*rows, strict=True), strict=True)
    return {k: column for k, column in columns if len(set(column)) > 1}


def _body(first: Text, columns: dict[int, tuple[str, ...]]) -> str:
    """The body that a group shares, with a parameter for each size in which they differ."""
    sizes = {column: f"size_{k}" for k, column in enumerate(dict.fromkeys(columns.values()))}
    while set(sizes.values()) & {*first.tokens, *_names(first.params)}:
        sizes = {column: f"{size}_" for column, size in sizes.items()}
    tokens = [sizes[columns[k]] if k in columns else token for k, token in enumerate(first.tokens)]
    between = ",\n    " if "\n" in first.params else ", "
    params = between.join([first.params, *(f"int64_t {size}" for size in sizes.values())])
    return f"{first.above}CUTAWAY_SHARED int64_t {_body_name(first)}({params}) {{\n{''.join(tokens)}"


def _body_name(first: Text) -> str:
    return f"body_of_{first.name}"


def _names(params: str) -> list[str]:
    return [words.split()[-1].lstrip("*") for words in params.split(",") if words.strip()]
