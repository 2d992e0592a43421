"""Runs the samples of a name in torch and in Cutaway, and says whether the results are equal.

Input: a torch module (the real one, or what as_torch() gives) and the calls of call_forms.py. A result is compared in
values, dtype, shape and strides, and so are the operands after the call.
"""

from __future__ import annotations

import inspect
import io
import warnings
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from tests.torch_names.call_forms import OPERANDS, samples_of

PATHS = (
    "torch",
    "torch.Tensor",
    "torch.nn",
    "torch.nn.functional",
    "torch.linalg",
    "torch.special",
    "torch.optim",
)
ENOUGH = 3  # samples of a name: the first so many calls that torch accepts
RANDOM = "the random bits are other ones"
LAYOUT = "same but for strides"


@dataclass(frozen=True)
class Verdict:
    """What the page says of a name."""

    name: str
    word: str  # same, same but for strides, differs, not here, not compared, apart
    note: str  # the samples, or how it differs

    def line(self) -> str:
        return f"{self.name} | {self.word} | {self.note}"


def home(torch: Any, path: str) -> Any:
    """The object at a path such as torch.nn.functional, in this torch."""
    for part in path.split(".")[1:]:
        torch = getattr(torch, part)
    return torch


def documented(torch: Any, path: str) -> list[str]:
    """The public names at a path that have a docstring, modules, types of annotations and constants apart."""
    where = home(torch, path)
    names = []
    for name in dir(where):
        value = inspect.getattr_static(where, name)
        useful = callable(value) or inspect.isdatadescriptor(value)
        if (
            name[0] == "_"
            or isinstance(value, ModuleType)
            or not useful
            or not getattr(value, "__doc__", None)
        ):
            continue
        if str(getattr(value, "__module__", "torch")).partition(".")[0] in ("typing", "enum"):
            continue
        names.append(name)
    return names


def kind_of(torch: Any, path: str, name: str) -> str:
    value = getattr(home(torch, path), name)
    if path == "torch.Tensor":
        return "method"
    if path == "torch.optim" and inspect.isclass(value):
        return "optimizer"
    return "module" if inspect.isclass(value) and issubclass(value, torch.nn.Module) else "function"


def _operands(torch: Any) -> dict[str, Any]:
    return {name: torch.from_numpy(array.copy()) for name, array in OPERANDS.items()}


def _array(tensor: Any) -> np.ndarray:
    tensor = tensor.detach()
    return np.asarray(
        (tensor.float() if str(tensor.dtype).endswith("bfloat16") else tensor).resolve_conj().numpy()
    )


def described(torch: Any, value: Any) -> Any:
    """The value in words that are the same in both: arrays, numbers, strings and lists of them."""
    if isinstance(value, torch.Tensor):
        return _last(value.dtype), tuple(value.shape), tuple(value.stride()), _array(value)
    if isinstance(value, dict):
        return {str(k): described(torch, v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [described(torch, v) for v in value]
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return value
    if isinstance(value, (torch.dtype, torch.device)):
        return _last(value)
    if inspect.isroutine(value):
        return "a function"
    return f"a {type(value).__name__}"


def _last(value: Any) -> str:
    """float32 for torch.float32 and for cutaway.float32: a dtype prints under the name of its own package."""
    return str(value).rpartition(".")[2]


def difference(theirs: Any, ours: Any) -> str:
    """How two described results differ; empty where they are equal."""
    if isinstance(theirs, (list, dict)):
        if type(ours) is not type(theirs) or len(ours) != len(theirs):
            return "another structure"
        pairs = zip(theirs, ours) if isinstance(theirs, list) else ((theirs[k], ours.get(k)) for k in theirs)
        return next((text for text in (difference(a, b) for a, b in pairs) if text), "")
    if isinstance(theirs, tuple):
        if not isinstance(ours, tuple):
            return f"not a tensor: {ours!r:.40}"
        for what, a, b in zip(("dtype", "shape"), theirs, ours):
            if a != b:
                return f"{what} {b} for {a}"
        if not np.allclose(theirs[3], ours[3], rtol=1e-4, atol=1e-5, equal_nan=True):
            return "values"
        moving = [a for a, size in enumerate(theirs[1]) if size > 1 and 0 not in theirs[1]]
        return "" if all(theirs[2][a] == ours[2][a] for a in moving) else f"strides {ours[2]} for {theirs[2]}"
    if isinstance(theirs, float) and isinstance(ours, (int, float)):
        return (
            "" if np.isclose(theirs, ours, rtol=1e-4, atol=1e-6, equal_nan=True) else f"{ours} for {theirs}"
        )
    return "" if theirs == ours and type(theirs) is type(ours) else f"{ours!r:.60} for {theirs!r:.60}"


def run(
    torch: Any, sample: str, weights: dict[str, np.ndarray] | None = None, seed: int = 0
) -> tuple[Any, Any]:
    """(the described result and the operands after the call, the weights of the module that was made).

    "torch.nn.Linear(4, 5) <- x" makes a module, gives it `weights` and calls it; "torch.optim.SGD on a (lr=0.01)" makes
    three steps; everything else is a Python expression.
    """
    torch.manual_seed(seed)
    names = {"torch": torch, "np": np, "io": io, **_operands(torch)}
    used: dict[str, np.ndarray] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if " <- " in sample:
            made, given = sample.split(" <- ")
            module = eval(made, names)
            if weights:
                module.load_state_dict({k: torch.from_numpy(np.array(v)) for k, v in weights.items()})
            used = {k: _array(v).copy() for k, v in module.state_dict().items()}
            result = [eval("module(" + given + ")", {**names, "module": module}), dict(module.state_dict())]
        elif " on a " in sample:
            made, given = sample.split(" on a ")
            result = _three_steps(torch, eval(f"lambda a: {made}([a], {given[1:]}", names), names["x"])
        else:
            result = eval(sample, names)
        after = {name: names[name] for name in OPERANDS if name in sample}
        return [described(torch, result), described(torch, after)], used


def _three_steps(torch: Any, make: Any, x: Any) -> Any:
    parameter = torch.nn.Parameter(x)
    optimizer = make(parameter)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (parameter.sin() ** 2).sum()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return parameter.data


def accepted(torch: Any, path: str, name: str) -> list[str]:
    """The first calls of this name that torch runs without an error."""
    found: list[str] = []
    for sample in samples_of(path, name, kind_of(torch, path, name)):
        try:
            (result, _), _ = run(torch, sample)
        except BaseException:  # an assertion of torch's own is no Exception everywhere
            continue
        if result == "a function":  # a method that was not called shows nothing
            continue
        found.append(sample)
        if len(found) == ENOUGH:
            break
    return found


def verdict(torch: Any, ours: Any, path: str, name: str, samples: list[str] | None = None) -> Verdict:
    """What the page says of this name; `torch` is the real one, `ours` what as_torch() gives."""
    whole = f"{path}.{name}"
    try:
        getattr(home(ours, path), name)
    except Exception:
        return Verdict(whole, "not here", "")
    samples = accepted(torch, path, name) if samples is None else samples
    if not samples:
        return Verdict(whole, "not compared", "it is here; no sample")
    word, note = "same", "; ".join(samples)
    for sample in samples:
        wanted, weights = run(torch, sample)
        try:
            wrong = difference(wanted, run(ours, sample, weights)[0])
        except Exception as error:
            said = (str(error).splitlines() or [""])[0]
            return Verdict(whole, "differs", f"{sample}: {type(error).__name__}: {said:.120}")
        if word == LAYOUT and not wrong:
            continue
        if wrong and difference(wanted, run(torch, sample, weights, seed=1)[0]) == "values" == wrong:
            note = f"{RANDOM}: {sample}"
        elif wrong.startswith("strides"):
            word, note = LAYOUT, f"{sample}: {wrong}"
        elif wrong:
            return Verdict(whole, "differs", f"{sample}: {wrong}")
    return Verdict(whole, word, note)
