"""Small graphs of core operators for the labs about loops, kernels and memory, and NumPy readings of what you make.

Input: the recorder `c` of core operators. The arrays are odd-sized, transposed, broadcast, empty, or have NaN. No C++
compiler is needed: lowered graphs and programs are interpreted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from stage3_lowering import tiny
from stage3_lowering.interpret import interpret_lowered, interpret_program
from stage3_lowering.tests.graphs import trace
from stage3_lowering.tests.programs import layer_norm, sin_cos, softmax
from stage_contracts.graph import GraphError
from stage_contracts.loop_ir import LoweredGraph
from stage_contracts.program import Program

from .checks import Wrong
from .programs import SPECIAL, numbers, short


@dataclass(frozen=True)
class CoreProgram:
    """A function of the recorder and its inputs, and the arrays to run it on."""

    function: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]


X, Y, ROW, COLUMN = numbers(5, 7), numbers(5, 7, seed=1), numbers(7, seed=2), numbers(5, 1, seed=3)
SQUARE = numbers(7, 7, seed=4)
WHOLE = np.random.default_rng(5).integers(-9, 9, (3, 5))


def diamond(c: Any, x: Any) -> Any:
    return c.mul(c.sin(x), c.cos(x))


def broadcast(c: Any, x: Any, row: Any, column: Any) -> Any:
    return c.sub(c.mul(x, row), column)


def sum_of_squares(c: Any, x: Any) -> Any:
    return c.sum(c.mul(x, x), (1,))


def mean_then_exp(c: Any, x: Any) -> Any:
    return c.exp(c.div(c.sum(x, (1,)), 7))


def matmul_then_relu(c: Any, x: Any, y: Any) -> Any:
    return c.maximum(c.matmul(x, y), 0.0)


def read_transposed(c: Any, x: Any) -> Any:
    y = c.sin(x)
    return c.add(y, c.permute(y, (1, 0)))


def call_between(c: Any, x: Any) -> Any:
    y = c.sin(x)
    return c.add(y, c.matmul(y, y))


def result_in_the_middle(c: Any, x: Any) -> Any:
    y = c.exp(x)
    return y, c.add(y, 1.0)


def column_in_a_sum_and_after(c: Any, x: Any, column: Any) -> Any:
    return c.mul(c.sum(c.mul(x, column), (1,)), c.reshape(column, (5,)))


def largest(c: Any, x: Any) -> Any:
    return c.amax(c.maximum(x, -1.0), (1,))


def chain(c: Any, x: Any) -> Any:
    return c.neg(c.sin(c.tanh(c.add(x, 1.0))))


def integers(c: Any, x: Any) -> Any:
    return c.add(c.mul(x, x), 3)


PROGRAMS = {
    "sin_cos": CoreProgram(sin_cos, (X,)),
    "diamond": CoreProgram(diamond, (X,)),
    "broadcast": CoreProgram(broadcast, (X, ROW, COLUMN)),
    "sum_of_squares": CoreProgram(sum_of_squares, (X,)),
    "mean_then_exp": CoreProgram(mean_then_exp, (X,)),
    "softmax": CoreProgram(softmax, (X,)),
    "layer_norm": CoreProgram(layer_norm, (X, ROW, Y[0])),
    "matmul_then_relu": CoreProgram(matmul_then_relu, (X, SQUARE)),
    "read_transposed": CoreProgram(read_transposed, (SQUARE,)),
    "call_between": CoreProgram(call_between, (SQUARE,)),
    "result_in_the_middle": CoreProgram(result_in_the_middle, (X,)),
    "column_in_a_sum_and_after": CoreProgram(column_in_a_sum_and_after, (X, COLUMN)),
    "transposed_input": CoreProgram(chain, (X.T,)),
    "chain": CoreProgram(chain, (X,)),
    "nan": CoreProgram(largest, (SPECIAL,)),
    "integers": CoreProgram(integers, (WHOLE,)),
    "empty": CoreProgram(diamond, (X[:0],)),
}


@cache
def lowered(name: str) -> LoweredGraph:
    """The loop nests of a program, made by the tiny `lower`."""
    return tiny.lower(trace(PROGRAMS[name].function, *PROGRAMS[name].arrays))


def values_of(artifact: LoweredGraph | Program, name: str) -> tuple[np.ndarray, ...]:
    """What a lowered graph or a program of this name computes, interpreted on NumPy."""
    arrays = PROGRAMS[name].arrays
    with np.errstate(all="ignore"):
        if isinstance(artifact, Program):
            return interpret_program(artifact, arrays, constants=lowered(name).constants)
        return interpret_lowered(artifact, arrays)


def verified(program: Program, name: str, read: str) -> Program:
    """The program, if it keeps the rules of programs; else Wrong."""
    try:
        return program.verify()
    except GraphError as error:
        raise Wrong(f"{name}: {error}", "a program that verify() accepts", read=read) from error


def same_values(program: Program, name: str, read: str) -> None:
    """Raise Wrong unless a program computes what the loop nests do, one by one, to the bit."""
    for k, (got, want) in enumerate(
        zip(values_of(program, name), values_of(lowered(name), name), strict=True)
    ):
        if got.shape != want.shape or not np.array_equal(got, want, equal_nan=got.dtype.kind == "f"):
            raise Wrong(f"{name}: result {k} is wrong", short(want), f"yours is {short(got)}", read)
