"""The printed program and kernel of the page on dynamic shapes, made by the stages when the site is built.

Input: the function that the page shows. hooks.py puts each text in the place of its mark in dynamic_shapes.md.
"""

from functools import cache
from pathlib import Path

from cutaway import compile, nn, no_grad, randn


@cache
def _artifacts():
    """The function that the page shows, compiled with every size open."""
    layer = nn.LayerNorm(64)
    compiled = compile(lambda x: layer(x).relu(), dynamic=True)
    with no_grad():
        compiled(randn(8, 64))
    return compiled


def _guards():
    entry = _artifacts().entries[0]
    return _fence("python", "\n".join(str(g) for g in entry.guards if g.kind in ("OPEN_TENSOR", "SHAPE")))


def _program():
    program = _artifacts().artifacts[0].forward.planned
    text = str(program)
    return _fence("python", text[text.index("@program") :].split("\nfusion(")[0])


def _kernel():
    emitted = _artifacts().artifacts[0].forward.emitted["cpp"]
    text = emitted.units[0].text
    return _fence("cpp", text[text.index(f"// {Path(__file__).name}") :])


def _fence(language, text):
    return f"```{language}\n{text.rstrip()}\n```"


TEXTS = {
    "<!-- open guards -->": _guards,
    "<!-- open program -->": _program,
    "<!-- open kernel -->": _kernel,
}
