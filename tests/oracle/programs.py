"""Random programs: operators composed into a graph, with writes through views, and an interpreter that is not ours.

Input: hypothesis's choices over operations.py. Eager runs a program on tensors; Reference runs it on NumPy arrays in
float64, with a bound of the error that float32 and the order of sums may make. Where the bound is 0, results are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from stage0_eager.tensor import Tensor
from stage_contracts import events
from stage_contracts.dtype import DTYPES
from tests.oracle.compare import Mismatch
from tests.oracle.operations import FLOATS, INTEGERS, OPERATIONS, Kind

LIMIT = 1e4  # a step whose result has larger numbers is not taken, so that integers fit and errors stay small
ROUGHEST = 1e-3  # nor one whose error bound is larger


@dataclass(frozen=True)
class Step:
    """`operation` on the values numbered `operands`, with plain `options`; its result is the next value."""

    operation: str
    operands: tuple[int, ...]
    options: tuple = ()

    def __str__(self) -> str:
        return f"{self.operation}({', '.join([*(f'v{i}' for i in self.operands), *map(str, self.options)])})"


@dataclass(frozen=True)
class Program:
    inputs: tuple[tuple[str, tuple[int, ...], int], ...]  # (dtype, shape, seed)
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        lines = [
            f"v{i} = {dtype}{list(shape)} from seed {seed}"
            for i, (dtype, shape, seed) in enumerate(self.inputs)
        ]
        return "\n".join(
            [*lines, *(f"v{len(self.inputs) + k} = {step}" for k, step in enumerate(self.steps))]
        )


# ---- the interpreter in float64 ----------------------------------------------------------------------------------


class Reference:
    """The values of a program so far: arrays in float64, int64 or bool, their dtypes, and error bounds by storage."""

    def __init__(self, inputs: tuple) -> None:
        self.values = [wide(input_array(*given)) for given in inputs]
        self.dtypes = [dtype for dtype, _, _ in inputs]
        self.storages = list(range(len(inputs)))  # which value's memory each value lies in
        self.errors = [0.0] * len(inputs)  # by storage

    def kind(self, i: int) -> Kind:
        return Kind(self.dtypes[i], self.values[i].shape)

    def error(self, i: int) -> float:
        return self.errors[self.storages[i]]

    def may_write(self, i: int) -> bool:
        """An expanded value has elements that share memory: writing to it is refused, by torch too."""
        return self.values[i].flags.writeable

    def attempt(self, step: Step) -> tuple[np.ndarray, str, float] | None:
        """(the result, its dtype, its error bound), computed on copies; None where the step is not taken."""
        op = OPERATIONS[step.operation]
        arrays = [self.values[i].copy() for i in step.operands]
        kinds, errors = [self.kind(i) for i in step.operands], [self.error(i) for i in step.operands]
        if op.exact and any(errors):
            return None
        sizes = [size(a) for a in arrays]
        with np.errstate(all="ignore"):
            result = np.asarray(op.arrays(*arrays, *step.options))
        dtype = op.dtype(kinds, *step.options)
        folded = max(1, arrays[0].size) if op.rounds == "always" else 1
        error = op.error(errors, sizes, folded)
        # a step inside may be, where the result is not
        narrow = "float32" in (dtype, *(k.dtype for k in kinds))
        if op.rounds == "always" or (op.rounds == "float32" and narrow):
            eps = float(np.finfo("float32" if narrow else "float64").eps) if dtype in FLOATS else 0.0
            error += (
                4
                * folded
                * (op.error([eps * s for s in sizes], sizes, folded) + eps * max(1.0, size(result)))
            )
        if not np.isfinite(result).all() or size(result) > LIMIT or error > ROUGHEST:
            return None
        return result, dtype, error

    def do(self, step: Step, dtype: str, error: float) -> None:
        op = OPERATIONS[step.operation]
        with np.errstate(all="ignore"):
            result = op.arrays(*(self.values[i] for i in step.operands), *step.options)
        shared = self.storages[step.operands[0]] if op.view or op.writes else len(self.errors)
        self.values.append(np.asarray(result))
        self.dtypes.append(dtype)
        self.storages.append(shared)
        self.errors.append(error)
        self.errors[shared] = max(self.errors[shared], error)


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype({"f": np.float64, "i": np.int64, "b": np.bool_}[array.dtype.kind])


def size(array: np.ndarray) -> float:
    """The largest absolute value."""
    return float(np.abs(array.astype(np.float64)).max()) if array.size else 0.0


def input_array(dtype: str, shape: tuple, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    if dtype == "bool":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype in INTEGERS:
        return np.asarray(rng.integers(-3, 4, shape), DTYPES[dtype].numpy)
    return np.asarray(rng.uniform(-2, 2, shape), DTYPES[dtype].numpy)


# ---- composing -----------------------------------------------------------------------------------------------------

SHAPES = st.lists(st.sampled_from([0, 1, 1, 2, 2, 3, 3, 4]), min_size=0, max_size=3).map(tuple)
DTYPES_DRAWN = st.sampled_from([*FLOATS, *FLOATS, *INTEGERS, "bool"])


@st.composite
def programs(draw: Any, longest: int = 12) -> Program:
    """Programs that eager must accept: each step is tried in float64 before it is taken."""
    shapes = [draw(SHAPES)]
    for _ in range(draw(st.integers(0, 2))):  # others broadcast with the first more often than not
        alike = draw(st.booleans())
        shapes.append(tuple(draw(st.sampled_from([s, s, 1])) for s in shapes[0]) if alike else draw(SHAPES))
    inputs = tuple((draw(DTYPES_DRAWN), shape, draw(st.integers(0, 9))) for shape in shapes)
    run, steps = Reference(inputs), []
    for _ in range(draw(st.integers(3, longest))):
        for _ in range(4):  # most choices do not apply: try a few
            step = next_step(draw, run)
            tried = run.attempt(step) if step else None
            if step and tried:
                run.do(step, *tried[1:])
                steps.append(step)
                break
    return Program(inputs, tuple(steps))


def next_step(draw: Any, run: Reference) -> Step | None:
    last = len(run.values) - 1
    # hypothesis prefers small numbers: spread them
    number = draw(st.integers(0, len(OPERATIONS) - 1)) + 7 * last
    name = sorted(OPERATIONS)[number % len(OPERATIONS)]
    op = OPERATIONS[name]
    operands = tuple(draw(st.integers(0, last)) for _ in range(op.arity))
    if op.writes and not run.may_write(operands[0]):
        return None
    options = op.pick(draw, *(run.kind(i) for i in operands))
    return None if options is None else Step(name, operands, options)


# ---- running and comparing -----------------------------------------------------------------------------------------


def eager(program: Program) -> list[Tensor]:
    """Every value of the program, as it is after the last step."""
    values = [Tensor(input_array(*given)) for given in program.inputs]
    for step in program.steps:
        values.append(OPERATIONS[step.operation].tensors(*(values[i] for i in step.operands), *step.options))
    return values


def reference(program: Program) -> Reference:
    run = Reference(program.inputs)
    for step in program.steps:
        tried = run.attempt(step)
        assert tried is not None, f"{step} was taken when the program was made"
        run.do(step, *tried[1:])
    return run


def check(program: Program, run: Any = eager) -> None:
    """Raise Mismatch unless `run` gives what the interpreter in float64 gives, up to its error bounds."""
    want = reference(program)
    with events.no_internal_errors():
        results = run(program)
    for i, got in enumerate(results):
        array, expected = got.numpy(), want.values[i]
        if array.dtype != DTYPES[want.dtypes[i]].numpy or array.shape != expected.shape:
            raise Mismatch(
                f"v{i} is {array.dtype}{list(array.shape)}, expected {want.dtypes[i]}{list(expected.shape)}\n{program}"
            )
        away = np.abs(array.astype(np.float64) - expected.astype(np.float64))
        if not (away <= 2 * want.error(i)).all():
            raise Mismatch(
                f"v{i} is {away.max()} away, allowed {2 * want.error(i)}\n{array}\n{expected}\n{program}"
            )
