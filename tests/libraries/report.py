"""`make libraries`: each model of zoo.py on Cutaway and on torch, compared; and generation with a static cache.

Input: this Python, which has torch and the libraries, and `--ours`, a Python that has the libraries and no torch.
Output: a table. An error is the largest difference of a tensor from torch's in float64; the goal is at most twice the
error of torch's own float32, or two roundings of the tensor's largest value where torch's happens to be smaller.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stage_contracts.tests.report_heading import heading
from tests.libraries import guides, one_run
from tests.libraries.zoo import MODELS

ROUNDING = 2.0**-23
GOAL_ERROR, GOAL_SECONDS = 2.0, 0.25
PEER = "torch compiled"
GENERATES = ("transformers GPT-2", "transformers Llama")


def run(python: str, module: str, *words: str, folder: Path) -> None:
    """One process. Its caches are in `folder`, and empty before the first."""
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "CUTAWAY_CACHE_DIR": str(folder / "cutaway"), "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    done = subprocess.run([python, "-m", module, *words], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{module} {' '.join(words)} failed:\n{done.stderr[-3000:]}")


def worst(theirs: dict[str, Any], errors: dict[str, float]) -> tuple[float, str]:
    """The largest error of a tensor, in errors of torch's float32, and the tensor's name."""
    sizes, rough = theirs["largest"], theirs["errors"][one_run.EAGER_32]
    if not sizes[""] > 0:
        raise AssertionError("the output is zero, and so are all gradients: nothing is compared")
    tiny = float(np.finfo(np.float32).tiny)
    allowed = {name: max(rough[name], 2 * ROUNDING * size + tiny) for name, size in sizes.items()}
    return max((error / allowed.get(name, tiny), name or "the output") for name, error in errors.items())


def same_bits(python: str, first: Path, second: Path) -> bool:
    """Whether torch finds the same names, dtypes and bits in two files of weights."""
    check = (
        "import sys, torch; a, b = map(torch.load, sys.argv[1:]);"
        "sys.exit(not (list(a) == list(b) and all(a[k].dtype == b[k].dtype and torch.equal(a[k], b[k]) for k in a)))"
    )
    return subprocess.run([python, "-c", check, str(first), str(second)]).returncode == 0


def row(which: str, ours: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="cutaway_libraries_") as name:
        folder = Path(name)
        weights = folder / "weights.pt"
        for framework, python in (("torch", sys.executable), ("cutaway", ours)):
            run(python, "tests.libraries.one_run", framework, which, str(weights), str(folder), folder=folder)
        facts = {name: json.loads((folder / f"{name}.json").read_text()) for name in ("torch", "cutaway")}
        found = facts["cutaway"]["errors"] | {PEER: facts["torch"]["errors"][one_run.COMPILED_32]}
        return {
            "errors": {kind: worst(facts["torch"], errors) for kind, errors in found.items()},
            "facts": facts,
            "bits": same_bits(sys.executable, weights, weights.with_suffix(".back.pt")),
        }


def line(which: str, ours: str) -> str:
    """The model's row of the table; a model that does not run says why."""
    try:
        return lines_of(which, row(which, ours))
    except RuntimeError as error:
        return f"{which:32} FAILS: {str(error)[-500:]}"


def lines_of(which: str, found: dict[str, Any]) -> str:
    theirs, ours = found["facts"]["torch"], found["facts"]["cutaway"]
    share = ours["seconds"] / theirs["seconds"]
    peer = found["errors"].pop(PEER)[0]
    errors = [found["errors"][k][0] for k in (one_run.EAGER_32, one_run.COMPILED_32)]
    exact = max(found["errors"][k][0] for k in (one_run.EAGER_64, one_run.COMPILED_64))
    missed = [
        *([f"error ({max(found['errors'].values())[1]})"] if max(*errors, exact) > GOAL_ERROR else []),
        *(["breaks"] if ours["breaks"] > theirs["breaks"] else []),
        *(["seconds"] if share > GOAL_SECONDS else []),
        *([] if found["bits"] else ["bits"]),
    ]
    return (
        f"{which:32} {errors[0]:7.2f} {errors[1]:9.2f} {peer:9.2f} {exact:9.2g} {ours['breaks']:6} {theirs['breaks']:6} "
        f"{ours['seconds']:8.2f} {theirs['seconds']:7.2f} {share:6.2f}  {'yes' if found['bits'] else 'NO':4} "
        f"{'missed: ' + ', '.join(missed) if missed else ''}".rstrip()
    )


def generation(which: str, ours: str) -> str:
    with tempfile.TemporaryDirectory(prefix="cutaway_libraries_") as name:
        folder, texts = Path(name), {}
        for framework, python in (("torch", sys.executable), ("cutaway", ours)):
            out = folder / f"{framework}.json"
            words = (framework, which, str(folder / "weights.pt"), str(out))
            run(python, "tests.libraries.generate", *words, folder=folder)
            texts[framework] = json.loads(out.read_text())
    same = texts["torch"]["tokens"] == texts["cutaway"]["tokens"] == texts["cutaway"]["eager"]
    return f"{which:32} {texts['cutaway']['compiles']} compiles, tokens {'the same' if same else 'DIFFER'}"


def guides_own(ours: str, only: str) -> Iterator[str]:
    """The guides' examples as written, with planted weights: what each printed, by `cutaway run`."""
    with tempfile.TemporaryDirectory(prefix="cutaway_guides_") as name:
        folder = Path(name)
        run(ours, "tests.libraries.guides", name, folder=folder)
        for which, script in guides.SCRIPTS.items():
            if only not in which:
                continue
            (folder / "script.py").write_text(script)
            words = [ours, "-m", "cutaway.cli", "run", str(folder / "script.py")]
            environment = {**os.environ, **guides.environment(folder)}
            done = subprocess.run(words, env=environment, capture_output=True, text=True)
            printed = done.stdout.strip().splitlines()[-1:]
            right = done.returncode == 0 and printed == [guides.PRINTED[which.split()[0]]]
            yield f"{which:36} {'runs: ' + printed[0] if right else 'FAILS: ' + done.stderr[-500:]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", default=sys.executable)
    parser.add_argument("--only", default="", help="models whose name has this text")
    parser.add_argument("--jobs", type=int, default=1, help="models at a time, each of one thread")
    options = parser.parse_args()
    named = [f"{name} {importlib.metadata.version(name)}" for name in ("transformers", "timm", "torchvision")]
    title, more = "Libraries as installed, on Cutaway and on torch", ", ".join(["one thread", *named])
    print(heading(title, "make libraries", 0, "torch", more=more))
    has_torch = subprocess.run([options.ours, "-c", "import torch"], capture_output=True).returncode == 0
    print(
        f"Cutaway ran {'beside an installed torch' if has_torch else 'with no torch installed'}. Errors, the median "
        f"of {one_run.DRAWS} inputs, in errors of torch's eager float32 (goal {GOAL_ERROR:g}; beside ours, those of "
        f"torch.compile); seconds from the first call to its gradients, imports apart, goal "
        f"{GOAL_SECONDS:g} of torch.compile."
    )
    print(f"{'':32} {'eager':>7} {'compiled':>9} {'theirs':>9} {'float64':>9} {'breaks':>6} {'torch':>6} {'seconds':>8} {'torch':>7} "
          f"{'share':>6}  bits")  # fmt: skip
    chosen = [which for which in MODELS if options.only in which]
    with ThreadPoolExecutor(options.jobs) as pool:
        for text in pool.map(partial(line, ours=options.ours), chosen):
            print(text, flush=True)
    print("\nThe guides' own lines, random weights planted in the caches, on two threads:")
    for text in guides_own(options.ours, options.only):
        print(text, flush=True)
    print("\nGeneration, 32 tokens with a static cache, greedy, compiled:")
    for which in GENERATES:
        if options.only in which:
            print(generation(which, options.ours), flush=True)


if __name__ == "__main__":
    main()
