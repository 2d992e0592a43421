"""The debug folder: torch's names for the files, and files that run by themselves, from a compile or from the cache.

Input: programs that differ in what their graphs hold: gradients, open sizes, control flow, constants, random numbers,
narrow types, indices, writes, NumPy's functions, derivatives of the program's own. Every fx_graph_runnable.py and
output_code.py that they leave is run.
"""

import runpy
import subprocess
import sys
import types
import xml.etree.ElementTree as ElementTree
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest

import cutaway
from cutaway.debug import diagram, folder, run_alone
from cutaway.debug.torch_fields import FILES as FILES_OF
from cutaway.torch_api import torch
from stage_contracts import config

FILES = """fx_graph_readable.py fx_graph_runnable.py fx_graph_transformed.py ir_pre_fusion.txt ir_post_fusion.txt
output_code.py graph_diagram.svg graph_diagram.dot schedule.txt memory.txt""".split()


def trained(x, w):
    return ((x @ w).relu() * 2).sum(1)


def opened(x):
    return x.reshape(-1) * x.shape[0] + 1


def branching(x):
    return cutaway.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)) * 2


def drawn(x, rows):
    noise = cutaway.nn.functional.dropout(x.to(cutaway.bfloat16), 0.5, training=True)
    return noise.float().t() + cutaway.tensor([1.0, 2.0, 3.0]), x[rows], (x > 0).any(1)


def broken(x):
    y = x + 1
    if y.sum() > 0:
        y = y.cos()
    return y


def of_numpy(a, b):
    return np.where(a > b, np.sqrt(np.abs(a)), b.sum(axis=0))


def written_to(x, y):
    x.add_(y)
    x[0] = 1
    return x * 2


class Doubled(cutaway.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sin() * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 3


def with_a_derivative_of_its_own(x):
    return Doubled.apply(x) + 1


PROGRAMS = {
    "of_numpy": (of_numpy, lambda: (np.arange(6.0).reshape(2, 3), np.ones((2, 3))), {}, 1),
    "written_to": (written_to, lambda: (cutaway.randn(3, 4), cutaway.randn(3, 4)), {}, 1),
    "function": (with_a_derivative_of_its_own, lambda: (cutaway.randn(3, requires_grad=True),), {}, 2),
    "trained": (trained, lambda: (cutaway.randn(6, 4), cutaway.randn(4, 3, requires_grad=True)), {}, 2),
    "opened": (opened, lambda: (cutaway.randn(3, 4),), {"dynamic": True}, 1),
    "branching": (branching, lambda: (cutaway.ones(3),), {}, 1),
    "drawn": (drawn, lambda: (cutaway.randn(3, 4), cutaway.tensor([2, 0])), {}, 1),
    "broken": (broken, lambda: (cutaway.ones(3),), {}, 2),
}


def written(function, inputs, options, root):
    """The folder of one compile, and what it holds."""
    with config.patch({"debug.folder": True, "debug.folder_root": str(root)}):
        cutaway.compile(function, **options)(*inputs())
    (run,) = root.iterdir()
    return run


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_files_are_there_and_run_alone(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run_alone, "SECONDS", 0)
    function, inputs, options, graphs = PROGRAMS[name]
    for again in range(
        2 if name in ("trained", "branching") else 1
    ):  # the second time it comes out of the cache
        run = written(function, inputs, options, tmp_path / str(again))
        assert run.name.startswith("run_") and "-pid_" in run.name
        assert "Step 1: torchdynamo start tracing" in (run / "torchdynamo" / "debug.log").read_text()
        models = sorted((run / "torchinductor").iterdir())
        assert len(models) == graphs
        for model in models:
            assert set(FILES) <= {p.name for p in model.iterdir()}, "a file is missing"
            ElementTree.parse(model / "graph_diagram.svg")
            assert "SchedulerNode" in (model / "ir_post_fusion.txt").read_text()
            if again:
                continue
            for alone in ["fx_graph_runnable.py", *sorted(p.name for p in model.glob("output_code*.py"))]:
                capsys.readouterr()
                with pytest.raises(SystemExit) if alone.startswith("output") else config.patch():
                    runpy.run_path(str(model / alone), run_name="__main__")
                said = capsys.readouterr().out
                assert "GB/s" in said if alone.startswith("output") else "as in eager" in said, (alone, said)
    assert "failed" not in capsys.readouterr().err
    aot = "\n".join(p.read_text() for p in (run / "aot_torchinductor").glob("aot_model___*_debug.log"))
    assert "# ---- functional" in aot and ("# ---- joint" in aot) == (name in ("trained", "function"))
    assert (name == "branching") == (model / "output_code_true_graph.py").exists()


def test_a_file_runs_in_a_process_of_its_own_and_a_wrong_graph_ends_with_an_error(tmp_path):
    run = written(*PROGRAMS["trained"][:3], tmp_path / "root")
    (model,) = (run / "torchinductor").glob("*forward*")
    result = subprocess.run(
        [sys.executable, str(model / "output_code.py")], capture_output=True, text=True, cwd=tmp_path,
        env={**__import__("os").environ, "PYTHONPATH": str(Path(cutaway.__file__).parents[1])},
    )  # fmt: skip
    assert result.returncode == 0 and "us a call" in result.stdout, result.stderr
    with pytest.raises(SystemExit, match="forward: differs from eager: by up to 2"):
        run_alone._compare("forward", [cutaway.zeros(2)], [cutaway.full((2,), 2.0)])
    with pytest.raises(
        SystemExit, match=r"differs from eager: float32\(3,\) for float32\(2,\)".replace("float", ".*float")
    ):
        run_alone._compare("forward", [cutaway.zeros(2)], [cutaway.zeros(3)])


def test_a_folder_that_cannot_be_written_is_said_once_and_the_program_goes_on(tmp_path, capsys):
    occupied = tmp_path / "a file"
    occupied.write_text("")
    with config.patch({"debug.folder": True, "debug.folder_root": str(occupied)}):
        assert cutaway.compile(opened, backend="aot_eager")(cutaway.ones(1, 2)).tolist() == [2, 2]
    said = capsys.readouterr().err.splitlines()
    assert said and all(line.startswith("cutaway: cannot write") for line in said) and len(said) <= 3


def test_a_tool_that_fails_does_not_fail_the_program(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(folder, "write_compile", lambda artifacts: 1 / 0)
    with config.patch({"debug.folder": True, "debug.folder_root": str(tmp_path)}):
        assert cutaway.compile(opened, backend="eager")(cutaway.ones(1, 2)).tolist() == [2, 2]
    assert "cutaway: the debug folder failed on opened: ZeroDivisionError" in capsys.readouterr().err


def test_graphviz_draws_where_it_is_installed_and_its_program_is_there(monkeypatch):
    class Source:
        def __init__(self, text):
            assert text.startswith('digraph "forward" {') and "->" in text

        def pipe(self, format, encoding):
            if not installed:
                raise graphviz.ExecutableNotFound
            return f"<svg of graphviz, {format}, {encoding}/>"

    graphviz = types.SimpleNamespace(
        Source=Source, ExecutableNotFound=type("ExecutableNotFound", (RuntimeError,), {})
    )
    monkeypatch.setitem(sys.modules, "graphviz", graphviz)
    f = cutaway.compile(opened)
    f(cutaway.ones(1, 2))
    program = f.artifacts[-1].forward.fused
    installed = True
    assert diagram.program_svg(program) == "<svg of graphviz, svg, utf-8/>"
    installed = False
    laid_out = ElementTree.fromstring(diagram.program_svg(program))
    boxes = laid_out.findall("{http://www.w3.org/2000/svg}g")
    assert [b[0].text.partition(":")[0] for b in boxes] == ["x", next(iter(program.kernels)), "return"]


def test_torchs_switches_leave_files_out(tmp_path):
    """Each of torch's switches for a file, set, patched and as an option of compile()."""
    inductor = torch._inductor.config
    f, x = lambda x: x.sin() + 1, cutaway.ones(3)

    def files(**options):
        root = tmp_path / str(len(list(tmp_path.iterdir())))
        with config.patch({"debug.folder": True, "debug.folder_root": str(root)}):
            cutaway.compile(f, options=options)(x)
        return {path.name for path in root.rglob("*.*") if path.is_file()}

    everything = files()
    for name, patterns in FILES_OF.items():
        gone = {file for file in everything for pattern in patterns if fnmatchcase(file, pattern)}
        assert gone, name
        with inductor.patch({name: False}):
            assert files() == everything - gone
        assert files(**{name: False}) == everything - gone
    inductor.trace.graph_diagram = inductor.trace.output_code = False
    assert not {"graph_diagram.svg", "output_code.py"} & files() and not inductor.trace.output_code
    inductor.trace.graph_diagram = inductor.trace.output_code = True
    assert files() == everything and config.current().debug.folder_without == ""
