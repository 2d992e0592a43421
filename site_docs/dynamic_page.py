"""The printed program and kernel of the page on dynamic shapes, made by the stages when the site is built.

Input: the function that the page shows. hooks.py puts each text in the place of its mark in dynamic_shapes.md.
"""

from functools import cache
from inspect import getsource
from pathlib import Path
from textwrap import wrap

from cutaway import compile, nn, no_grad, randn, tensor
from cutaway.torch_api.checks import check as _check
from stage_contracts.breaks import Unsupported


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


def picked(x, m, n):
    count = n.item()
    _check(count >= 0)
    _check(count <= x.shape[0], lambda: "too many")
    return x[m].relu().sum() + x[:count].sin()


def branching(x, n):
    return x * 2 if n.item() > 3 else x


UNBACKED = {"capture.capture_scalar_outputs": True, "capture.capture_dynamic_output_shape_ops": True}


@cache
def _picked():
    """The function of the section on unbacked symbols, compiled."""
    compiled = compile(picked, fullgraph=True, options=UNBACKED)
    compiled(randn(8), randn(8) > 0, tensor(3))
    return compiled


def _unbacked_source():
    return _fence("python", getsource(picked).replace("_check(", "torch._check("))


def _unbacked_graph():
    return _fence("python", str(_picked().artifacts[0].frame.graph))


def _unbacked_program():
    text = str(_picked().artifacts[0].forward.planned)
    return _fence("python", text[text.index("@program") :].split("\nfusion(")[0])


def _question():
    try:
        compile(branching, fullgraph=True, options=UNBACKED)(randn(8), tensor(3))
    except Unsupported as refused:
        lines = str(refused).replace(str(Path(__file__).parent) + "/", "").splitlines()
        return _fence("text", "\n".join(wrapped for line in lines for wrapped in wrap(line, 116) or [""]))


def _fence(language, text):
    return f"```{language}\n{text.rstrip()}\n```"


TEXTS = {
    "<!-- open guards -->": _guards,
    "<!-- open program -->": _program,
    "<!-- open kernel -->": _kernel,
    "<!-- unbacked source -->": _unbacked_source,
    "<!-- unbacked graph -->": _unbacked_graph,
    "<!-- unbacked question -->": _question,
    "<!-- unbacked program -->": _unbacked_program,
}
