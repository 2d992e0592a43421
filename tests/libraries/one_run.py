"""One model on one framework, in a process of its own: time to the first result, breaks, errors.

Input: on the command line, "torch" or "cutaway", a model of zoo.py, a weights file and a folder. The process on torch
writes the weights and its results in float64; the one on Cutaway loads both, and saves the weights it loaded beside
them. Output: a JSON of what was measured. An error is the largest distance of a tensor's elements from torch's in
float64: the median of DRAWS inputs. One input says little of a tensor of six elements, and nothing where a value next
to zero falls on the other side of a ReLU.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from tests.libraries.zoo import MODELS, result_of

DRAWS = 5
# Names in the files: the dtype, and whether the model was compiled.
EAGER_64, EAGER_32, COMPILED_64, COMPILED_32 = "eager64", "eager32", "compiled64", "compiled32"


def _vision_fits(torch: Any) -> bool:
    """Whether torchvision's compiled operators are of this build of torch."""
    found = importlib.util.find_spec("torchvision")
    try:
        for path in Path(found.origin).parent.glob("_C*.so") if found and found.origin else ():
            torch.ops.load_library(path)
    except OSError:
        return False
    return hasattr(torch.ops.torchvision, "nms")


def framework(name: str) -> AbstractContextManager[Any]:
    """The block in which `import torch` gives this framework."""
    if name == "cutaway":
        from cutaway.torch_api import as_torch

        return as_torch()
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    if not _vision_fits(torch):
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return nullcontext(library)


Values = dict[str, np.ndarray]


def step(model: Any, call: Any, inputs: dict[str, Any]) -> Values:
    """The output, and the gradient of every parameter, of the mean square of the output."""
    out = result_of(call, inputs)
    (out * out).mean().backward()
    found = {
        name: p.grad.detach().numpy().copy() for name, p in model.named_parameters() if p.grad is not None
    }
    for p in model.parameters():
        p.grad = None
    return {"": out.detach().numpy().copy(), **found}


def breaks_of(torch: Any, name: str, model: Any, inputs: dict[str, Any]) -> int:
    """How many graph breaks the framework's own explain counts."""
    args, words = ((inputs["x"],), {}) if "x" in inputs else ((), inputs)
    if name == "cutaway":
        import cutaway

        return cutaway.explain(model)(*args, **words).graph_break_count
    return torch._dynamo.explain(model)(*args, **words).graph_break_count


def largest(draws: Iterable[Values]) -> dict[str, float]:
    """The largest absolute value of each tensor over the draws."""
    found: dict[str, float] = {}
    for values in draws:
        for name, value in values.items():
            found[name] = max(found.get(name, 0.0), float(np.abs(value).max()))
    return found


def errors(draws: list[Values], exact: list[Path]) -> dict[str, float]:
    """The distance of each tensor from the exact one; infinite where one of the two is absent or NaN."""
    far: dict[str, list[float]] = {}
    for values, path in zip(draws, exact, strict=True):
        with np.load(path) as right:
            found = {n: np.abs(values[n] - right[f"v{n}"]).max() for n in values if f"v{n}" in right}
            absent = {n for n in values if f"v{n}" not in right} | {n[1:] for n in right} - values.keys()
        for name, error in (found | dict.fromkeys(absent, np.inf)).items():
            far.setdefault(name, []).append(float(error) if error == error else np.inf)
    return {name: statistics.median(found) for name, found in far.items()}


def measure(name: str, which: str, weights: Path, folder: Path) -> dict[str, Any]:
    import torch

    torch.manual_seed(0)
    model = MODELS[which].make().double().eval()
    if name == "torch":
        with torch.no_grad():  # of a head that begins with zeros, every gradient would be zero
            for p in model.parameters():
                torch.nn.init.normal_(p, std=0.02) if not p.any() else None
        torch.save(model.state_dict(), weights)
    else:
        model.load_state_dict(torch.load(weights))
        torch.save(model.state_dict(), weights.with_suffix(".back.pt"))

    def inputs(floats: Any, draw: int) -> dict[str, Any]:
        made = MODELS[which].inputs(torch, draw)
        return {k: v.to(floats) if v.is_floating_point() else v for k, v in made.items()}

    def steps(call: Any, floats: Any) -> list[Values]:
        return [step(model, call, inputs(floats, draw)) for draw in range(DRAWS)]

    facts: dict[str, Any] = {}
    model.float()
    compiled = torch.compile(model)
    given = inputs(torch.float32, 0)
    begin = time.perf_counter()
    step(model, compiled, given)
    facts["seconds"] = time.perf_counter() - begin
    found = {COMPILED_32: steps(compiled, torch.float32), EAGER_32: steps(model, torch.float32)}
    facts["breaks"] = breaks_of(torch, name, model, given)
    model.double()
    model.load_state_dict(torch.load(weights))
    exact = [folder / f"exact-{draw}.npz" for draw in range(DRAWS)]
    if name == "torch":
        in_float64 = steps(model, torch.float64)
        for path, values in zip(exact, in_float64, strict=True):
            np.savez(path, **{f"v{n}": v for n, v in values.items()})
        facts["largest"] = largest(in_float64)
    else:
        found |= {
            EAGER_64: steps(model, torch.float64),
            COMPILED_64: steps(torch.compile(model), torch.float64),
        }
    facts["errors"] = {kind: errors(draws, exact) for kind, draws in found.items()}
    return facts


def main() -> None:
    name, which, weights, folder = sys.argv[1:]
    with framework(name):
        facts = measure(name, which, Path(weights), Path(folder))
    (Path(folder) / f"{name}.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
