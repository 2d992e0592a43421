"""One model on one framework, in a process of its own: time to the first result, breaks, outputs and gradients.

Input: on the command line, "torch" or "cutaway", a model of zoo.py, a weights file and a folder. The process on torch
writes the weights; the one on Cutaway loads them, and saves what it loaded beside it.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from tests.libraries.zoo import MODELS, result_of

# Names in the files: the dtype, and whether the model was compiled.
EAGER_64, EAGER_32, COMPILED_64, COMPILED_32 = "eager64", "eager32", "compiled64", "compiled32"


def framework(name: str) -> AbstractContextManager[Any]:
    """The block in which `import torch` gives this framework."""
    if name == "cutaway":
        from cutaway.torch_api import as_torch

        return as_torch()
    import torch

    library = torch.library.Library(
        "torchvision", "DEF"
    )  # its compiled operators are of another build of torch
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return nullcontext(library)


def step(model: Any, call: Any, inputs: dict[str, Any]) -> dict[str, np.ndarray]:
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

    def inputs(floats: Any) -> dict[str, Any]:
        made = MODELS[which].inputs(torch)
        return {k: v.to(floats) if v.is_floating_point() else v for k, v in made.items()}

    facts: dict[str, Any] = {}
    model.float()
    compiled = torch.compile(model)
    given = inputs(torch.float32)
    begin = time.perf_counter()
    found = {COMPILED_32: step(model, compiled, given)}
    facts["seconds"] = time.perf_counter() - begin
    found[EAGER_32] = step(model, model, given)
    facts["breaks"] = breaks_of(torch, name, model, given)
    model.double()
    model.load_state_dict(torch.load(weights))
    given = inputs(torch.float64)
    found[EAGER_64] = step(model, model, given)
    if name == "cutaway":
        found[COMPILED_64] = step(model, torch.compile(model), given)
    for kind, values in found.items():
        np.savez(folder / f"{name}-{kind}.npz", **{f"v{n}": v for n, v in values.items()})
    return facts


def main() -> None:
    name, which, weights, folder = sys.argv[1:]
    with framework(name):
        facts = measure(name, which, Path(weights), Path(folder))
    (Path(folder) / f"{name}.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
