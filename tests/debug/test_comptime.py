"""comptime: what it prints is what the frame under way holds, it adds no node, and elsewhere it does nothing.

Input: the guide's program with a debugger that is told what to do, and functions that ask for one thing each.
"""

import io
import pdb
import re
import sys

import pytest

import cutaway
from cutaway.debug.comptime import comptime
from cutaway.torch_api import as_torch
from stage_contracts.errors import ComptimeError

GUIDE = """
import torch
from torch._dynamo.comptime import comptime

@torch.compile(backend="eager", fullgraph=True)
def f(x):
    y = x + 1
    comptime.breakpoint()
    y = y + 1
    return y

print(f(torch.ones(3, 3)).sum().item())
print(f(torch.ones(3, 3)).sum().item())
"""


def test_the_guides_breakpoint_stops_once_and_ctx_is_the_frame(monkeypatch, capsys):
    asked = [
        "ctx.print_bt()",
        "ctx.print_locals()",
        "ctx.print_graph()",
        "print(ctx.disas()[:99])",
        "bt",
        "c",
    ]
    typed = io.StringIO("\n".join(asked) + "\n")
    debugger = pdb.Pdb(stdin=typed, stdout=sys.stdout, nosigint=True)
    monkeypatch.setattr(sys, "breakpointhook", lambda: debugger.set_trace(sys._getframe(1)))
    with as_torch():
        exec(compile(GUIDE, "guide.py", "exec"), {"__name__": "guide"})
    printed = capsys.readouterr().out
    assert printed.count("(Pdb)") == len(asked) and printed.count("27.0") == 2
    for words in ("line 8, in f", "x = a tensor float32[3, 3]", "y = a tensor float32[3, 3]", "cutaway.add(x, 1)",
                  "RESUME", "compile_frame"):  # fmt: skip
        assert words in printed, words


def inner(x, scale):
    made = x * scale
    comptime.print_bt()
    comptime(lambda ctx: print("around:", ctx.parent().get_local("kept"), ctx.get_local("scale")))
    return made


def asks(x):
    kept = x + 1
    n = 3
    comptime.print_locals()
    comptime.print_guards()
    comptime(lambda ctx: print(n, ctx.get_local("n").as_python_constant(), ctx.get_local("kept").size(1)))
    comptime.print(kept)
    comptime.print_disas(file=sys.stdout)
    comptime(lambda ctx: print([node.name for node in ctx.graph().calls]))
    return inner(comptime.print_value_stack_and_return(kept), 2)


def test_what_it_prints_is_the_frame_and_it_adds_no_node(capsys):
    graphs = []
    compiled = cutaway.compile(asks, backend=lambda gm, _: graphs.append(gm) or gm, fullgraph=True)
    assert compiled(cutaway.ones(2, 3)).tolist() == [[4.0] * 3] * 2
    printed = capsys.readouterr().out
    for words in ("kept = a tensor float32[2, 3]", "check_tensor(x, 'float32[2, 3]')", "3 3 3", "-->", "['add']",
                  "around: a tensor float32[2, 3] 2"):  # fmt: skip
        assert words in printed, words
    assert re.search(r"in asks\n +inner\(.*\n.*in inner\n +comptime.print_bt\(\)", printed)
    assert [node.name for node in graphs[0].graph.calls] == ["add", "mul"]
    compiled(cutaway.ones(2, 3))
    assert capsys.readouterr().out == "", "the second call compiles nothing"


def test_outside_it_does_nothing(capsys):
    assert asks(cutaway.ones(2, 3)).sum().item() == 24.0
    comptime(lambda ctx: 1 / 0, lambda: print("not compiled"))
    assert capsys.readouterr().out == "not compiled\n"


def breaks(x):
    x = x + 1
    comptime(lambda ctx: ctx.graph_break("here"))
    return x * 2


def fixes(x):
    comptime.force_static(x.shape[0])
    comptime.assert_static(x.shape[0])
    return x + x.shape[0]


def test_it_may_break_and_fix_sizes():
    assert cutaway.explain(breaks)(cutaway.ones(2)).graph_break_count == 1
    compiled = cutaway.compile(fixes, backend="eager", dynamic=True)
    for rows in (2, 3, 4):
        assert compiled(cutaway.ones(rows)).tolist() == [1.0 + rows] * rows
    assert len(compiled.entries) == 3, "the size is fixed, so each is another entry"
    with pytest.raises(ComptimeError, match="expected static but got dynamic") as raised:
        cutaway.compile(lambda x: comptime.assert_static(x.shape[0]) or x, backend="eager", dynamic=True)(
            cutaway.ones(3)
        )
    assert isinstance(raised.value.__cause__, AssertionError)


@pytest.mark.parametrize("asked", ["nothing", 3])
def test_what_it_is_given_wrongly_is_said(asked):
    def wrong(x):
        comptime(asked)
        return x

    with pytest.raises(ComptimeError, match="comptime expects a function of the context, got"):
        cutaway.compile(wrong, backend="eager")(cutaway.ones(2))
    with pytest.raises(ComptimeError, match="there is no local 'z' yet; there are x"):
        cutaway.compile(lambda x: comptime(lambda ctx: ctx.get_local("z")), backend="eager")(cutaway.ones(2))
