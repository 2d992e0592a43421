"""Random programs for the rewrites: an operator with drawn attributes, whose result meets its operand again.

Input: a seed. `write_program(seed)` runs each statement as it is drawn, so that most fit. A third of the programs have
an open batch: they are run at several sizes, and a statement must fit all of them.
"""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np

import cutaway
from tests.rewrite_programs.attributes import FORMS, MEETINGS, Draw
from tests.tensor_programs.grammar import NAMES as TENSOR_NAMES
from tests.tensor_programs.grammar import TensorProgram

SHAPES = [
    (4,),
    (3, 4),
    (3, 3),
    (4, 4),
    (2, 3, 4),
    (2, 2, 2),
    (1, 4),
    (3, 1),
    (4, 1, 3),
    (),
    (0, 3),
    (3, 0),
    (1,),
    (2, 3, 2, 2),
    (5, 6),
]
DTYPES = {
    "float64": 10,
    "float32": 8,
    "float16": 1,
    "bfloat16": 1,
    "int64": 1,
    "int32": 1,
    "int8": 0.5,
    "uint8": 0.5,
    "bool": 0.5,
}
LAYOUTS = {
    "{}": 8,
    "{}.mT": 1,
    "{}[..., 1:]": 1,
    "{}[..., ::2]": 1,
    "{}[:1].expand({}.shape)": 0.5,
    "{}.flip(0)": 0.5,
}
SPECIAL = (0.0, -0.0, float("inf"), float("-inf"), float("nan"))
# The sizes of an open batch, in the order of the calls. The first is what a program is compiled for.
BATCHES = (5, 8, 3, 7)
REFUSED = (
    RuntimeError,
    IndexError,
    ValueError,
    TypeError,
    NotImplementedError,
    AttributeError,
    ZeroDivisionError,
    OverflowError,
)


def fresh(*shape: int, seed: int = 0, dtype: str = "float64", special: bool = False) -> Any:
    """Normal numbers, the same for the same seed; with every special value among them."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=shape) * (3 if dtype.startswith(("int", "uint", "bool")) else 1)
    if special and "float" in dtype:
        flat = data.reshape(-1)
        flat[rng.permutation(flat.size)[: flat.size // 3]] = rng.choice(SPECIAL, flat.size // 3)
    if dtype == "uint8":
        data = np.abs(data)
    return cutaway.tensor(data > 0 if dtype == "bool" else data).to(getattr(cutaway, dtype))


def sliced(t: Any, dim: int, start: int | None = None, stop: int | None = None, step: int = 1) -> Any:
    return t[(slice(None),) * (dim % max(t.ndim, 1)) + (slice(start, stop, step),)]


NAMES = {**TENSOR_NAMES, "fresh": fresh, "sliced": sliced, "BATCH": BATCHES[0]}


def is_open(program: TensorProgram) -> bool:
    """Whether its first size is open."""
    return any("BATCH" in line for line in program.inputs)


def write_program(seed: int) -> TensorProgram:
    """The program of this seed."""
    with np.errstate(all="ignore"):
        return _Writer(random.Random(seed)).program()


class _Writer:
    """Draws statements, and keeps the values that they make at every size, to know which attributes fit."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.open = rng.random() < 0.33
        self.worlds = [{**NAMES, "BATCH": size} for size in (BATCHES if self.open else BATCHES[:1])]
        self.body: list[str] = []

    def among(self, weights: dict[str, float]) -> str:
        return self.rng.choices(list(weights), list(weights.values()))[0]

    def inputs(self) -> tuple[list[str], list[str]]:
        lines, arguments = [], []
        shape, dtype, special = self.rng.choice(SHAPES), self.among(DTYPES), self.rng.random() < 0.3
        for i, name in enumerate("xy"[: self.rng.randint(1, 2)]):
            sizes = list(map(str, shape))
            if self.open:
                sizes = ["BATCH", *(s for s in sizes[1:] if s != "0")]
            made = f"fresh({', '.join([*sizes, f'seed={i}'])}, dtype={dtype!r}, special={special})"
            layout = self.among(LAYOUTS)
            if self.open or not shape:
                layout = "{}"
            lines.append(f"whole{i} = {made}")
            grad = ".requires_grad_()" if "float" in dtype and self.rng.random() < 0.8 else ""
            lines.append(f"{name} = {layout.replace('{}', f'whole{i}')}{grad}")
            if not self.runs("\n".join(lines[-2:])):
                lines[-2:] = [f"{name} = fresh(3, 4, seed={i})"]
                self.runs(lines[-1])
            arguments.append(name)
            shape = self.rng.choice([shape, shape[1:], (1, *shape[1:]), self.rng.choice(SHAPES)])
            dtype = dtype if self.rng.random() < 0.7 else self.among(DTYPES)
        return lines, arguments

    def tensors(self) -> list[str]:
        return [
            n
            for n, v in self.worlds[0].items()
            if isinstance(v, cutaway.Tensor) and re.fullmatch(r"[xy]|v\d+", n)
        ]

    def runs(self, text: str) -> bool:
        """Whether the statement does, at every size; then its values are there."""
        worlds = [dict(world) for world in self.worlds]
        try:
            for world in worlds:
                exec(text, world)
        except REFUSED:
            return False
        if any(v.numel() > 600 or v.ndim > 6 for v in worlds[0].values() if isinstance(v, cutaway.Tensor)):
            return False
        self.worlds = worlds
        return True

    def statement(self, form: str, operand: str) -> str:
        known = self.tensors()
        value = self.worlds[0][operand]
        text = FORMS[form](Draw(self.rng, value.shape, self.open))
        return _filled(text, T=operand, U=self.rng.choice(known))

    def add(self, text: str) -> str | None:
        name = f"v{len(self.body) + 1}"
        if not self.runs(f"{name} = {text}"):
            return None
        self.body.append(f"{name} = {text}")
        return name

    def program(self) -> TensorProgram:
        inputs, arguments = self.inputs()
        wanted, results = self.rng.randint(1, 4), []
        for _ in range(wanted * 6):
            if len(results) >= wanted:
                break
            operand = self.rng.choice(self.tensors()[-4:])
            made = self.add(self.statement(self.rng.choice(list(FORMS)), operand))
            if made is None:
                continue
            if self.rng.random() < 0.25:  # one rewrite's result is the next one's operand
                made = self.add(self.statement(self.rng.choice(list(FORMS)), made)) or made
            for meeting in self.rng.sample(MEETINGS, len(MEETINGS)):
                met = self.add(_filled(meeting, T=operand, V=made))
                if met is not None:
                    results.append(met)
                    break
            if self.rng.random() < 0.3:
                results.append(made)
        results = results or arguments
        used = tuple(i for i in range(len(results)) if self.rng.random() < 0.85)
        return TensorProgram(tuple(inputs), tuple(arguments), tuple(self.body), tuple(results), (), used, 1)


def _filled(text: str, **names: str) -> str:
    for letter, name in names.items():
        text = re.sub(rf"(?<![\w.'])(?<!torch\.){letter}\b", name, text)
    return text
