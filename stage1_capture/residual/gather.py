"""How residual code collects the graph's inputs: each from its source, but parameters of modules only when one moved.

Input: the sources of the graph's placeholders. A parameter that the structure epoch guards is the same tensor for as
long as the epoch stands still, so all of them are read once and kept beside the epoch they were read at.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

from stage0_eager.nn.module import structure_epoch
from stage_contracts.source import Source

FEW = 2  # fewer kept parameters than this are read each time


def gather(
    sources: list[Source], kept: set[Source], text_of: Callable[[Source], str], name_of: Callable[[str], str]
) -> tuple[list[str], str, dict[str, Any]]:
    """(lines to run first, the arguments of the graph's call, globals that these need).

    With an input and two parameters: `graph(*(x,) + kept[1])`, where `kept` is read again when the epoch moved. The
    list holds one tuple that is replaced as a whole, so that threads see the epoch and what was read at it together.
    """
    if sum(source in kept for source in sources) < FEW:
        return [], ", ".join(map(text_of, sources)), {}
    epoch, store, runs = (name_of(base) for base in ("module_epoch", "parameters", "kept"))
    words: list[str] = []
    gathered: list[str] = []
    groups = [(is_kept, [*map(text_of, group)]) for is_kept, group in groupby(sources, key=kept.__contains__)]
    runs_of_kept = [texts for is_kept, texts in groups if is_kept]
    alone = len(runs_of_kept) * 2 > sum(map(len, runs_of_kept))
    if alone:  # as an optimizer's, each between its gradient and its state: tuples would gain nothing
        groups = [(is_kept, [text]) for is_kept, texts in groups for text in texts]
    for is_kept, texts in groups:
        text = texts[0] if alone else f"({', '.join(texts)},)"
        if is_kept:
            gathered.append(text)
            text = f"{runs}[{len(gathered)}]"
        words.append(text)
    lines = [
        f"{runs} = {store}[0]",
        f"if {runs}[0] != {epoch}():",
        f"    {runs} = {store}[0] = ({epoch}(), {', '.join(gathered)})",
    ]
    # one concatenation of tuples: with `f(x, *kept)` Python would copy a thousand parameters twice
    arguments = ", ".join(words) if alone else f"*{' + '.join(words)}"
    return lines, arguments, {epoch: structure_epoch, store: [(-1,)]}
