"""A user's Triton kernels inside captured functions: `kernel[grid](...)` is one node that writes to some arguments.

Input: a kernel object, an abstract grid (a tuple, or a function of the arguments) and abstract arguments. The grid is
computed now, once for each configuration of autotune; numbers among the arguments are constants of the node.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.triton.kernels import (
    bound,
    configurations,
    heuristics,
    layouts_of,
    operator_of,
    wrap_triton,
)
from stage1_capture.state.machine import CALLED, Args, Kwargs, Tx, builtin
from stage1_capture.variables.base import Variable, from_constant, realize
from stage1_capture.variables.builder import wrap
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.function import TritonLaunchVariable
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.operators import call_operator
from stage1_capture.variables.sequence import ListVariable, TupleVariable


def launch(tx: Tx, function: TritonLaunchVariable, args: Args, kwargs: Kwargs) -> Variable:
    kernel = function.kernel
    op = operator_of(kernel)
    named, options = bound(op, tuple(map(realize, args)), kwargs)
    words: dict[str, Variable] = {"grids": from_constant(_grids(tx, kernel, function.grid, named))}
    layouts = layouts_of({name: v.meta for name, v in named.items() if realize(v).is_tensor()})
    if layouts is not None:
        words["layouts"] = from_constant(layouts)
    if options is not None:
        words["options"] = from_constant(
            {name: tx.constant(value, f"the option {name}") for name, value in options.items()}
        )
    call_operator(tx, op, [], {**named, **words})
    return NONE


def _grids(tx: Tx, kernel: Any, grid: Variable, named: dict[str, Variable]) -> tuple:
    """The grid for each configuration, as numbers."""
    found = []
    for config in configurations(kernel) or [None]:
        meta = dict(named)
        if config is not None:
            meta |= {name: from_constant(value) for name, value in config.all_kwargs().items()}
        for name, function in heuristics(kernel):
            meta[name] = tx.call(wrap(tx.output, function, None), [ConstDictVariable(dict(meta))], {})
        made = realize(grid)
        if not isinstance(made, (TupleVariable, ListVariable, ConstantVariable)):
            made = realize(tx.call(made, [ConstDictVariable(meta)], {}))
        sizes = tx.constant(made, "the grid of a Triton kernel")
        found.append(tuple(sizes) if isinstance(sizes, (tuple, list)) else (sizes,))
    return tuple(found)


CALLED[TritonLaunchVariable] = launch


@builtin(wrap_triton)
def wrap_triton_(tx: Tx, kernel: Variable) -> Variable:
    return realize(kernel)
