"""The concepts of the README: what capture makes of each program there. `python -m stage1_capture.tests.concepts` writes it.

Input: README.md. A ```py block ends in the call that is captured; each block behind it says in its first line what it
shows of the frames: `graph`, `guards`, `residual code`, `breaks`; with a number, of the second frame, the third.
"""

import ast
import contextlib
import io
import linecache
import random
import re
from functools import partial
from pathlib import Path

import numpy as np

from stage0_eager import TABLE, nn, no_grad
from stage0_eager.control_flow.functions import cond
from stage0_eager.tensor import Tensor
from stage1_capture.capture import capture
from stage1_capture.tests.driver import Compiled
from stage_contracts.sizes import SizePolicy, mark_dynamic

README = Path(__file__).parents[1] / "README.md"
BLOCK = re.compile(r"^```(\w[^\n]*)\n(.*?)^```\n", re.S | re.M)


def ones(*shape, requires_grad=False):
    return Tensor(np.ones(shape, np.float32), requires_grad)


def with_open_rows(*shape):
    """A tensor of which mark_dynamic leaves the first size open."""
    made = ones(*shape)
    mark_dynamic(made, 0)
    return made


def names():
    """What a program need not define."""
    given = {
        "Tensor": Tensor,
        "nn": nn,
        "np": np,
        "random": random,
        "no_grad": no_grad,
        "ones": ones,
        "with_open_rows": with_open_rows,
    }
    return {"__name__": "program", **given, "sin": TABLE["cutaway.sin"], "cond": cond}


def frames_of(program):
    """All frames of the last line, a call, in the order they are captured; the call runs to its end."""
    file = "<program>"
    linecache.cache[file] = (len(program), None, program.splitlines(True), file)
    tree = ast.parse(program)
    space = names()
    exec(compile(ast.Module(tree.body[:-1], []), file, "exec"), space)
    call = tree.body[-1].value
    args, keywords = [
        [eval(compile(ast.Expression(node), file, "eval"), space) for node in nodes]
        for nodes in (call.args, [k.value for k in call.keywords])
    ]
    function = eval(compile(ast.Expression(call.func), file, "eval"), space)
    compiled = Compiled(function, capture=partial(capture, policy=SizePolicy()))
    with contextlib.redirect_stdout(io.StringIO()):
        compiled(*args, **{k.arg: value for k, value in zip(call.keywords, keywords, strict=True)})
    return compiled.counts.frames


def shown(frame, what):
    text = {
        "graph": lambda: graph_text(frame.graph),
        "guards": lambda: "\n".join(map(guard_text, frame.guards[2:])),
        "residual code": lambda: frame.residual_source.rstrip(),
        "breaks": lambda: "\n".join(map(str, frame.breaks)),
    }[what]()
    return re.sub(r"0x[0-9a-f]+", "0x...", text)


def graph_text(graph):
    """As it prints, but the inputs in one line, and without the places in the source."""
    if graph is None:
        return "None"
    text = re.sub(r"^ *# <program>.*\n", "", str(graph), flags=re.M)
    inputs = re.compile(r"\(\n((?:    .*\n)*?)\)(?=:)")
    return inputs.sub(
        lambda m: f"({' '.join(re.findall(r'^    (.*?,)', m[1], re.M)).rstrip(',')})", text, 1
    ).rstrip()


def guard_text(guard):
    """With the expression that needed it, where that is more than the name of what is guarded."""
    needed_by = guard.origin.text if guard.origin and not guard.origin.text.isidentifier() else ""
    remark = ", ".join(filter(None, [needed_by, "under the epoch" * guard.under_epoch]))
    return guard.expression() + f"  # {remark}" * bool(remark)


def written(text):
    """The README with the outputs of today."""
    frames = []

    def block(found):
        nonlocal frames
        info, body = found.groups()
        if info == "py":
            frames = frames_of(body)
            return found[0]
        what, number = re.fullmatch(r"(\D+?)(?: (\d))?", info).groups()
        return f"```{info}\n{shown(frames[int(number or 1) - 1], what)}\n```\n"

    return BLOCK.sub(block, text)


if __name__ == "__main__":
    README.write_text(written(README.read_text(encoding="utf-8")), encoding="utf-8")
