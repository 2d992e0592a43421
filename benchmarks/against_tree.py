"""This tree beside another checkout of it: what importing, capturing and calling cost in each, as ratios.

Input: the path of the other checkout (`make against-tree TREE=path`). Each tree is measured in child processes that
take turns (this, other, this, other, ...), in time of the processor, so that a busy machine disturbs both alike. The
first process of each tree only writes its bytecode. What is measured uses no name that is younger than the older tree.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parents[1]
LIMIT = 1.05
ROUNDS = 9

# ---- in a child, on either tree ----------------------------------------------------------------------------------


def programs() -> dict[str, tuple[Callable, tuple]]:
    """Programs whose capture is timed: functions of tensors, a module, and the four models at their small size."""
    import numpy as np

    import cutaway
    from cutaway import nn
    from tests.models.cases import TINY, load_file, tensors

    def branches(x, flag=True):
        y = x * 2 if flag else x
        return {"y": y, "z": [y + i for i in range(8)]}

    def loop(x):
        for i in range(60):
            x = cutaway.sin(x) + i
        return x

    def helpers(x):
        def inner(v, *rest, scale=2.0):
            return v * scale + sum(rest)

        return [inner(x, i, scale=i) for i in range(20)]

    def views(x):
        y = x.reshape(-1)[2:10].clone()
        y += 1
        return y.view(2, 4).transpose(0, 1) @ y.view(2, 4)

    def broken(x):
        y = x + 1
        print(end="")
        return y * 2

    x = cutaway.ones(4, 4)
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(10)))
    found: dict[str, tuple[Callable, tuple]] = {
        "a branch, a list, a dict": (branches, (x,)),
        "a loop of 60": (loop, (x,)),
        "20 calls of a closure": (helpers, (x,)),
        "views and a write": (views, (x,)),
        "a graph break": (broken, (x,)),
        "a module of 10 layers": (layers, (x,)),
    }
    for case in TINY[:4]:
        module = load_file(case.file, True)
        model = case.build(module).eval()
        batch = tensors(cutaway, case.batch(np.random.default_rng(0)), "float32")

        def run(*given: Any, case: Any = case, module: Any = module, model: Any = model) -> Any:
            return case.run(module, model, given)[0]

        found[case.name] = run, tuple(batch)
    return found


def capture() -> dict[str, float]:
    """Seconds of the first call with backend eager less those of the second; the least of three."""
    import cutaway

    best = {}
    for name, (function, args) in programs().items():
        times = []
        for _ in range(3):
            cutaway.reset()
            compiled = cutaway.compile(function, backend="eager")
            marks = [time.process_time()]
            with cutaway.no_grad():
                for _ in range(2):
                    compiled(*args)
                    marks.append(time.process_time())
            times.append(2 * marks[1] - marks[0] - marks[2])
        best[f"capture: {name}"] = min(times)
    return best


def calls() -> dict[str, float]:
    """Seconds of one hit of compiled functions, and of one eager addition; the least of many rounds."""
    import cutaway
    from cutaway import nn

    x, scale = cutaway.ones(4), [2.0]
    layers = nn.Sequential(*(nn.Linear(4, 4) for _ in range(20)))
    tree = {"a": [x, x], "b": (x, {"c": x})}

    def at_once(graph, examples):
        return lambda *inputs: inputs[:1]

    def compiled(function: Callable, backend: Any = at_once) -> Callable:
        return cutaway.compile(function, backend=backend)

    one = compiled(lambda x: x + 1)
    real = compiled(lambda x: x + 1, "eager")
    many = compiled(lambda *xs: sum(xs, xs[0]))
    global_number = compiled(lambda x: x * scale[0])
    nested = compiled(lambda t: t["a"][0] + t["b"][1]["c"])
    module = compiled(layers)
    kinds: dict[str, Callable[[], Any]] = {
        "call: one tensor": lambda: one(x),
        "call: one tensor, the graph run too": lambda: real(x),
        "call: 20 tensors": lambda: many(*[x] * 20),
        "call: a list outside": lambda: global_number(x),
        "call: a nested argument": lambda: nested(tree),
        "call: a module of 40 parameters": lambda: module(x),
        "call: eager, x + 1": lambda: x + 1,
    }
    best = dict.fromkeys(kinds, float("inf"))
    with cutaway.no_grad():
        for turn in range(16):
            for name, call in kinds.items():
                start = time.process_time()
                for _ in range(400):
                    call()
                if turn:
                    best[name] = min(best[name], (time.process_time() - start) / 400)
    return best


# ---- both trees, in turns ----------------------------------------------------------------------------------------


def child(tree: Path, code: str) -> tuple[str, float]:
    """What `code` prints in a process of its own that imports from `tree`, and the process's seconds."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {
        "PYTHONPATH": str(tree),
        "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "pycache"),
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(tree: Path) -> dict[str, float]:
    """One round in `tree`, by this file's own functions, whichever tree they run on."""
    run = f"import json, runpy; m = runpy.run_path({str(Path(__file__).resolve())!r}); print()\n"
    run += "print(json.dumps({**m['capture'](), **m['calls']()}))"
    found = json.loads(child(tree, run)[0].splitlines()[-1])
    imports = {
        f"import {name}": min(child(tree, f"import {name}")[1] for _ in range(2))
        for name in ("numpy", "cutaway")
    }
    return imports | found


def commit(tree: Path) -> str:
    command = ["git", "-C", str(tree), "log", "-1", "--format=%h of %cs"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    other = Path(sys.argv[1]).resolve()
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    sys.path.insert(0, str(HERE))
    from stage_contracts.tests.report_heading import heading

    seen: dict[Path, list[dict[str, float]]] = {HERE: [], other: []}
    for turn in range(rounds + 1):
        for tree in seen:
            found = measured(tree)
            if turn:
                seen[tree].append(found)
    print(heading(f"This tree ({commit(HERE)}) beside {commit(other)}", "make against-tree", "none"))
    print(f"Time of the processor, in ms; {rounds} processes of each tree in turns; one thread\n")
    print(f"{'':44}{'least here':>11}{'there':>9}{'ratio':>7}{'median here':>13}{'there':>9}{'ratio':>7}")
    above = []
    for name in seen[HERE][0]:
        here, there = ([found[name] * 1e3 for found in seen[tree]] for tree in (HERE, other))
        least, middle = min(here) / min(there), median(here) / median(there)
        print(
            f"{name:44}{min(here):11.4g}{min(there):9.4g}{least:7.2f}{median(here):13.4g}{median(there):9.4g}{middle:7.2f}"
        )
        if min(least, middle) > LIMIT:
            above.append(name)
    print(f"\nabove {LIMIT} by both: {', '.join(above) or 'none'}")


if __name__ == "__main__":
    main()
