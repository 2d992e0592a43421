"""What the files of the debug folder call to run by themselves: inputs of the right shapes, a comparison, a time.

Input: fx_graph_runnable.py calls `run` with its graph as a Python function, output_code.py `benchmark` with its own
path, whose text holds the program. Numbers are drawn; whole ones are zeros, which are valid indices.
"""

from __future__ import annotations

import ast
import inspect
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import cutaway
from cutaway.backends import run_backend
from cutaway.debug.runnable import BEGIN, known_operators
from cutaway.inductor import lower_and_build
from cutaway.pipelines import default_pipeline
from cutaway.targets import device_of_graph
from stage0_eager.control_flow import operators as control_flow
from stage0_eager.core_interpreter import interpreter
from stage0_eager.table.opaque import OpaqueOperator
from stage_contracts.graph_module import GraphModule
from stage_contracts.graph_reader import parse_graph
from stage_contracts.program import Program
from stage_contracts.program_text import parse_program
from stage_contracts.tensor_meta import parse_meta

SECONDS = 0.5  # how long a measurement takes


def rand_strided(text: str) -> Any:
    """A tensor of this type ("float32[8, 4] strides=(1, 8)"): normal numbers, any bools, zeros for whole numbers."""
    meta = parse_meta(text)
    extent = 1 + sum((n - 1) * s for n, s in zip(meta.shape, meta.strides, strict=True) if n)
    if meta.dtype.is_floating_point:
        base = cutaway.randn(extent, dtype=meta.dtype, device=str(meta.device))
    elif meta.dtype is cutaway.bool:
        base = cutaway.randn(extent, device=str(meta.device)) > 0
    else:
        base = cutaway.zeros(extent, dtype=meta.dtype, device=str(meta.device))
    found = base.as_strided(meta.shape, meta.strides)
    return found.requires_grad_() if meta.requires_grad else found


higher_order = SimpleNamespace(
    **{op.name: op for op in vars(control_flow).values() if isinstance(op, OpaqueOperator)}
)


def as_graph(function: Callable[..., tuple], **attributes: Any) -> GraphModule:
    """A graph out of its own text: the source of a function that a graph printed as. `attributes` is its `self`."""
    return GraphModule(parse_graph(inspect.getsource(function), known_operators(), attributes))


# ---- fx_graph_runnable.py ------------------------------------------------------------------------------------------


def run(graph: Any, inputs: Sequence[Any], open_sizes: bool = False, backend: str = "inductor") -> None:
    """Compile the graph and run it; compare outputs and gradients with eager's, and say how long both take. The process
    ends with status 1 if they differ.

    The backend takes the graph as it is; with open sizes the function is captured once more, with `dynamic=True`.
    """
    if open_sizes:
        compiled = cutaway.compile(graph, backend=backend, dynamic=True)
    else:
        graph = graph if isinstance(graph, GraphModule) else as_graph(graph)
        compiled = run_backend(backend, graph, list(inputs))
    name = getattr(graph, "__name__", None) or graph.graph.name
    _compare(name, *(_outputs_and_gradients(f, inputs) for f in (graph, compiled)))
    _print_times(name, compiled, graph, inputs)


def run_core(function: Callable[..., tuple], inputs: Sequence[Any], **attributes: Any) -> None:
    """As `run`, of a graph in core operators, as a backward is: it goes through lowering only, and has no gradients."""
    core = as_graph(function, **attributes).graph
    arrays = [_array(value) for value in inputs]
    compiled = lower_and_build(core, device_of_graph(core), default_pipeline())().run
    assert compiled is not None
    eager = interpreter(core)
    _compare(core.name, *([_tensor(value) for value in f(*arrays)] for f in (eager, compiled)))
    _print_times(core.name, compiled, eager, arrays)


def _compare(name: str, wanted: list[Any], found: list[Any]) -> None:
    worst = [problem for a, b in zip(wanted, found, strict=True) if (problem := _difference(a, b))]
    if worst:
        raise SystemExit(f"{name}: differs from eager: {'; '.join(worst)}")
    print(f"{name}: {len(wanted)} values as in eager")


def _print_times(name: str, compiled: Callable, eager: Callable, inputs: Sequence[Any]) -> None:
    eager_us, compiled_us = (_microseconds(lambda f=f: f(*inputs)) for f in (eager, compiled))  # type: ignore[misc]
    print(f"{name}: {compiled_us:.1f} us a call compiled, {eager_us:.1f} us eager")


def _outputs_and_gradients(function: Callable[..., tuple], inputs: Sequence[Any]) -> list[Any]:
    """What a call gives, the gradients of its sum, and the inputs that it changed, which are put back."""
    cutaway.manual_seed(0)
    given = [i for i in inputs if isinstance(i, cutaway.Tensor)]
    before = [_array(i).copy() for i in given]
    outputs = list(function(*inputs))
    leaves = [i for i in inputs if getattr(i, "requires_grad", False)]
    losses = [o for o in outputs if getattr(o, "requires_grad", False)]
    if leaves and losses:
        total = losses[0].sum()
        for loss in losses[1:]:
            total = total + loss.sum().to(total.dtype)
        total.backward()
        outputs += [leaf.grad for leaf in leaves]
        for leaf in leaves:
            leaf.grad = None
    for tensor, old in zip(given, before, strict=True):
        if (
            _array(tensor) != old
        ).any():  # the graph writes to it: that is a result, and the next run begins as this
            outputs.append(tensor.detach().clone())
            _array(tensor)[...] = old
    return outputs


def _difference(wanted: Any, found: Any) -> str:
    """What differs, beyond rounding; "" if nothing does."""
    if not isinstance(wanted, cutaway.Tensor):
        return "" if wanted == found or wanted is found else f"{found!r} for {wanted!r}"
    if (tuple(wanted.shape), wanted.dtype) != (tuple(found.shape), found.dtype):
        return f"{found.dtype}{tuple(found.shape)} for {wanted.dtype}{tuple(wanted.shape)}"
    if not wanted.dtype.is_floating_point:
        return "" if cutaway.equal(wanted, found) else "whole numbers differ"
    a, b = wanted.detach().double(), found.detach().double()
    tolerance = {1: 0.1, 2: 1e-2, 4: 1e-4}.get(wanted.dtype.itemsize, 1e-9)
    if cutaway.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True):
        return ""
    return f"by up to {(a - b).abs().max().item():.3g}"


def _microseconds(call: Callable[[], Any]) -> float:
    """The median time of a call."""
    taken: list[float] = []
    ends = time.perf_counter() + SECONDS
    while not taken or (time.perf_counter() < ends and len(taken) < 1000):
        began = time.perf_counter_ns()
        call()
        taken.append((time.perf_counter_ns() - began) / 1e3)
    return statistics.median(taken)


# ---- output_code.py ------------------------------------------------------------------------------------------------


def benchmark(path: str) -> None:
    """Build the program of an output_code.py, call it, and print its time and the bandwidth that it reaches."""
    program, call, inputs = load(path)
    outputs = call(*inputs)
    moved = sum(_nbytes(value) for value in [*inputs, *outputs])
    taken = _microseconds(lambda: call(*inputs))
    rate = moved / taken / 1e3
    print(
        f"{program.name}: {taken:.1f} us a call, {rate:.2f} GB/s ({moved} bytes of inputs and outputs), "
        f"{len(program.kernels)} kernel{'s' * (len(program.kernels) != 1)}"
    )


def load(path: str) -> tuple[Program, Callable[..., tuple], list[Any]]:
    """The program of an output_code.py, the callable that it becomes, and inputs for it, as arrays."""
    text = Path(path).read_text(encoding="utf-8")
    header, _, body = text.partition(BEGIN)
    words = _constants(header)
    program = parse_program(body)
    pipeline = default_pipeline()
    kernels: dict[str, Any] = {}
    for unit in program.units:
        kernels.update(pipeline.build(unit))
    cutaway.manual_seed(0)
    constants = {name: _array(rand_strided(meta)) for name, meta in words["CONSTANTS"].items()}
    folder = Path(path).parent
    subgraphs = {name: load(str(folder / file))[1] for name, file in words["SUBGRAPHS"].items()}
    inputs = [_array(rand_strided(v)) if isinstance(v, str) else v for v in words["INPUTS"]]
    return program, pipeline.launch(program, kernels, {**constants, **subgraphs}), inputs


def _constants(header: str) -> Mapping[str, Any]:
    """INPUTS, CONSTANTS and SUBGRAPHS of an output_code.py."""
    found = {}
    for statement in ast.parse(header).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            found[statement.targets[0].id] = ast.literal_eval(statement.value)
    return found


def _tensor(value: Any) -> Any:
    return cutaway.from_numpy(value) if isinstance(value, np.ndarray) else value


def _array(value: Any) -> Any:
    return value.detach()._data if isinstance(value, cutaway.Tensor) else value


def _nbytes(value: Any) -> int:
    return int(getattr(value, "nbytes", 0))


__all__ = ["as_graph", "benchmark", "higher_order", "load", "rand_strided", "run", "run_core"]
