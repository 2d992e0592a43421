"""Which of the corpus's small programs each compiler captures whole: Cutaway's capture beside torch's Dynamo.

Input: stage1_capture/tests/programs, whose functions use nothing but methods of tensors and a few names that torch has
too, so the same files run on both; `make capture-coverage` keeps what this prints in reports/capture-coverage.txt.
Whole means: under fullgraph=True nothing is refused, and there is at least one graph. The counts are those without it.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import json
import logging
import pkgutil
import subprocess
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.testing import CompileCounter

from benchmarks.quick import unless_quick
from stage_contracts.tests.report_heading import heading

ROOT = Path(__file__).resolve().parents[1]

PROGRAMS = "stage1_capture.tests.programs"


def torch_tensor(*shape: int, seed: int = 0, requires_grad: bool = False) -> torch.Tensor:
    """As the harness of the tests makes it: normal values in float32."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).requires_grad_(requires_grad)


def programs_on_torch() -> dict[str, Any]:
    """The corpus, its imports of stage 0 answered by torch."""
    for name in (
        "stage1_capture",
        "stage1_capture.tests",
    ):  # as folders alone: what their __init__ does is ours
        package = sys.modules[name] = types.ModuleType(name)
        package.__path__ = [str(ROOT.joinpath(*name.split(".")))]
    harness = types.ModuleType("harness")
    harness.tensor = torch_tensor  # type: ignore[attr-defined]
    torch.Tensor._data = property(lambda self: self.detach().numpy())  # type: ignore[attr-defined]
    sys.modules |= {
        "stage0_eager": torch,
        "stage0_eager.nn": torch.nn,
        "stage0_eager.nn.functional": torch.nn.functional,
        "stage0_eager.state": torch,
        "stage0_eager.amp": torch.amp,
        "stage0_eager.amp.autocast": torch,
        "stage0_eager.defaults": torch,
        "stage0_eager.functions": types.SimpleNamespace(creation=torch),
        "stage0_eager.functions.creation": torch,
        "stage1_capture.tests.harness": harness,
    }
    package = importlib.import_module(PROGRAMS)
    for found in pkgutil.iter_modules(package.__path__):
        try:
            importlib.import_module(f"{PROGRAMS}.{found.name}")
        except (ImportError, AttributeError) as error:
            print(f"not run on torch: {found.name} ({error})")
    return importlib.import_module(f"{PROGRAMS}.registry").PROGRAMS


def arguments(make: tuple, grad: bool) -> tuple:
    def shape(m: Any) -> bool:
        return isinstance(m, tuple) and bool(m) and all(type(n) is int for n in m)

    return tuple(
        torch_tensor(*m, seed=i, requires_grad=grad)
        if shape(m) and i == 0
        else m()
        if callable(m)
        else copy.copy(m)
        for i, m in enumerate(make)
    )


def by_torch(entry: tuple) -> tuple[bool, int]:
    """(whether one program is captured whole, how many graphs there are when breaks are allowed)."""
    function, make, kwargs, grad = entry
    whole = True
    torch._dynamo.reset()
    try:
        torch.compile(function, backend="eager", fullgraph=True)(*arguments(make, grad), **kwargs)
    except torch._dynamo.exc.TorchDynamoException:
        whole = False
    except Exception:  # the program's own
        pass
    torch._dynamo.reset()
    counter = CompileCounter()
    with contextlib.suppress(Exception):
        torch.compile(function, backend=counter)(*arguments(make, grad), **kwargs)
    return whole and counter.frame_count > 0, counter.frame_count


def raises(entry: tuple) -> bool:
    """Whether the program ends in an error of its own. torch captures it up to there; here Python raises it."""
    function, make, kwargs, grad = entry
    try:
        function(*arguments(make, grad), **kwargs)
    except Exception:
        return True
    return False


def whole_here(names: list[str]) -> dict[str, bool]:
    """Which of these programs Cutaway captures whole under fullgraph=True: in a process where imports are not faked."""
    command = [sys.executable, "-m", "benchmarks.capture_coverage", "--here", *names]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return json.loads(said.stdout.splitlines()[-1])


def print_whole(names: list[str]) -> None:
    """What `whole_here` reads."""
    # imported here: the other process answers the corpus's imports by torch
    from cutaway.compile_frame import WHOLE
    from stage1_capture.capture import capture
    from stage1_capture.tests import corpus
    from stage_contracts import config

    whole = {}
    for name in names:
        frames: list[Any] = []

        def captured(*args: Any, frames: list = frames, **kwargs: Any) -> Any:
            frames.append(capture(*args, **kwargs))
            return frames[-1]

        corpus.reset_all()
        quietly = contextlib.redirect_stdout(io.StringIO())
        # the corpus checks what only its own settings pass
        with config.patch(WHOLE), quietly, contextlib.suppress(Exception):
            corpus.run(name, "whole", captured)
        whole[name] = not any(f.breaks for f in frames) and any(f.graph for f in frames)
    print(json.dumps(whole))


def main() -> None:
    if sys.argv[1:2] == ["--here"]:
        return print_whole(sys.argv[2:])
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    ours = json.loads((ROOT / "stage1_capture/tests/counts.json").read_text())
    print(heading("Capture of the corpus", "make capture-coverage", "none: every program", "torch"))
    rows, own_errors = [], set()
    programs = dict(list(programs_on_torch().items())[:: unless_quick(1, 200)])
    broken = whole_here([name for name in programs if ours[f"{name}:whole"][1]])
    for name, entry in programs.items():
        graphs, breaks = ours[f"{name}:whole"]
        here = broken.get(name, graphs > 0 and breaks == 0)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            whole, torch_graphs = by_torch(entry)
            own_errors |= {name} if raises(entry) else set()
        rows.append((name, here, graphs, breaks, whole, torch_graphs))
    computing = [row for row in rows if row[2] or row[5]]
    print(f"{len(rows)} programs, {len(computing)} with a graph in either")
    for title, ours_whole, theirs in (
        ("whole in both", True, True),
        ("whole here, not in torch", True, False),
        ("whole in torch, not here", False, True),
        ("whole in neither", False, False),
    ):
        found = [row for row in computing if (row[1], row[4]) == (ours_whole, theirs)]
        print(f"\n{title}: {len(found)}")
        if ours_whole != theirs:
            for name, _, graphs, breaks, _, torch_graphs in found:
                error = ", and an error of the program's own" if name in own_errors else ""
                print(
                    f"    {name}: here {graphs} graphs, {breaks} breaks; torch {torch_graphs} graphs{error}"
                )


if __name__ == "__main__":
    main()
