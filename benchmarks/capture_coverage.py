"""Which of the corpus's small programs each compiler captures whole: Cutaway's capture beside torch's Dynamo.

Input: stage1_capture/tests/programs, whose functions use nothing but methods of tensors and a few names that torch has
too, so the same files run on both; `make capture-coverage` keeps what this prints in reports/capture-coverage.txt.
Whole means: no graph break (torch: under fullgraph=True nothing is refused), at least one graph.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import json
import logging
import pkgutil
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


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    ours = json.loads((ROOT / "stage1_capture/tests/counts.json").read_text())
    print(heading("Capture of the corpus", "make capture-coverage", "none: every program", "torch"))
    rows = []
    for name, entry in list(programs_on_torch().items())[:: unless_quick(1, 200)]:
        graphs, breaks = ours[f"{name}:whole"]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            whole, torch_graphs = by_torch(entry)
        rows.append((name, graphs > 0 and breaks == 0, graphs, breaks, whole, torch_graphs))
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
                print(f"    {name}: here {graphs} graphs, {breaks} breaks; torch {torch_graphs} graphs")


if __name__ == "__main__":
    main()
