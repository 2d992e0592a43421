"""A user's Triton kernel as an operator of a graph: `kernel[grid](...)`, with its writes as its effect.

Input: a function decorated with triton.jit (under autotune and heuristics or not), recognised by its class, so that
Triton is not imported for it. Each kernel becomes one opaque operator; driver.py launches it, writes.py finds what it
writes to. The layout is part of the call: kernels compute addresses from strides that they get as numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stage0_eager import arrays
from stage0_eager.state import STATE
from stage0_eager.table.opaque import OpaqueOperator
from stage0_eager.table.registry import OPAQUE
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import Tracer
from stage0_eager.triton.driver import interprets, launch
from stage0_eager.triton.writes import written_parameters
from stage_contracts.tensor_meta import contiguous_strides

LEFT = ...  # a parameter that the call leaves to its default, to autotune or to heuristics
_CLASSES = ("JITFunction", "InterpretedFunction", "Autotuner", "Heuristics")
_LOCK = threading.Lock()
_OPERATORS: dict[int, TritonKernelOperator] = {}  # by id of the kernel, which the operator keeps


def is_triton_kernel(value: Any) -> bool:
    """Whether this is something that triton.jit, autotune or heuristics made."""
    kind = type(value)
    return kind.__name__ in _CLASSES and kind.__module__.startswith("triton.")


class TritonKernelOperator(OpaqueOperator):
    """The operator of one kernel: its parameters by their names, then how it is launched.

    grids: one grid for each configuration of autotune (one where there is none). layouts: the strides, in elements, of
    each array that is not row-major, by parameter. options: num_warps and the like.
    """

    def __init__(self, name: str, kernel: Any) -> None:
        self.launched = kernel
        inner = innermost(kernel)
        words = ", ".join(f"{p}=LEFT" for p in inner.arg_names)
        names: dict[str, Any] = {"LEFT": LEFT, "run": self._on_tensors}
        given = "".join(f"{p}, " for p in inner.arg_names)
        exec(
            f"def {name}({words}, *, grids, layouts=None, options=None): run(({given}), grids, layouts, options)",
            names,
        )
        super().__init__(
            "triton", name, names[name], lambda *_: None, self._kernel, written_parameters(inner.fn)
        )
        self.run = self.eager = names[name]

    def _on_tensors(self, args: tuple, grids: tuple, layouts: Any, options: Any) -> None:
        """The kernel on the tensors' own memory."""
        places = [a._data if isinstance(a, Tensor) else a for a in args]
        self._launch(places, grids, options)
        for name in self.mutates:
            tensor = args[self.params.index(name)]
            if isinstance(tensor, Tensor):
                tensor._bump_version()

    def _kernel(self, xp: Any, *args: Any) -> tuple:
        """The kernel on arrays, each laid out as the call was captured."""
        *places, grids, layouts, options = args
        given = list(places)
        for i, (name, array) in enumerate(zip(self.params, given)):
            if arrays.is_array(array):
                strides = (layouts or {}).get(name) or contiguous_strides(array.shape)
                places[i] = laid_out(xp, array, strides)
        self._launch(places, grids, options)
        for name in self.mutates:
            i = self.params.index(name)
            if places[i] is not given[i]:
                given[i][...] = places[i]
        return ()

    def _launch(self, places: Sequence[Any], grids: tuple, options: Any) -> None:
        kernel, named = self.launched, dict(zip(self.params, places))
        given = {name: value for name, value in named.items() if value is not LEFT}
        if not interprets(kernel) and any(type(value) is np.ndarray for value in given.values()):
            raise RuntimeError(
                f"the Triton kernel {self.name} got tensors on the CPU, but expected CUDA tensors. To run kernels in "
                "the interpreter, on the CPU, set TRITON_INTERPRET=1 before Triton is imported"
            )
        configs = [config.kwargs for config in configurations(kernel)]

        def grid(meta: Mapping[str, Any]) -> tuple:
            fits = [all(meta.get(k) == v for k, v in config.items()) for config in configs]
            return tuple(grids[fits.index(True)] if len(grids) > 1 else grids[0])

        launch(kernel, grid, {**given, **(options or {})})


def innermost(kernel: Any) -> Any:
    """The jitted function under autotune and heuristics."""
    while type(kernel).__name__ in ("Autotuner", "Heuristics"):
        kernel = kernel.fn
    return kernel


def configurations(kernel: Any) -> list[Any]:
    """The configurations that autotune chooses from; none where there is no autotune."""
    while type(kernel).__name__ in ("Autotuner", "Heuristics"):
        if type(kernel).__name__ == "Autotuner":
            return list(kernel.configs)
        kernel = kernel.fn
    return []


def heuristics(kernel: Any) -> list[tuple[str, Callable]]:
    """(parameter, function of all arguments) of each heuristic, in the order they run."""
    found: list[tuple[str, Callable]] = []
    while type(kernel).__name__ in ("Autotuner", "Heuristics"):
        if type(kernel).__name__ == "Heuristics":
            found += kernel.values.items()
        kernel = kernel.fn
    return found


def operator_of(kernel: Any) -> TritonKernelOperator:
    """The operator of a kernel: the same for the same kernel."""
    with _LOCK:
        if id(kernel) not in _OPERATORS:
            base = name = innermost(kernel).fn.__name__
            number = 0
            while f"triton.{name}" in OPAQUE:
                number += 1
                name = f"{base}_{number}"
            _OPERATORS[id(kernel)] = TritonKernelOperator(name, kernel)
        return _OPERATORS[id(kernel)]


def writes_of(kernel: Any) -> tuple[str, ...]:
    """The parameters that a kernel may write to, as compiled code sees it."""
    return operator_of(kernel).mutates


def laid_out(xp: Any, array: Any, strides: Sequence[int]) -> Any:
    """The array where it has these strides (in elements); else a copy that has."""
    wanted = tuple(int(s) * array.itemsize for s in strides)
    if all(size == 1 or have == want for size, have, want in zip(array.shape, array.strides, wanted)):
        return array
    extent = 1 + sum((size - 1) * int(s) for size, s in zip(array.shape, strides)) if array.size else 0
    made = xp.lib.stride_tricks.as_strided(xp.empty(extent, array.dtype), array.shape, wanted)
    made[...] = array
    return made


def layouts_of(named: Mapping[str, Any]) -> dict[str, tuple[int, ...]] | None:
    """The strides of the tensors (or metas) that are not row-major, by name; None where all are."""
    found = {
        name: tuple(value.meta.strides if isinstance(value, Tensor) else value.strides)
        for name, value in named.items()
        if not (value.meta if isinstance(value, Tensor) else value).is_contiguous
    }
    return found or None


# ---- eager -----------------------------------------------------------------------------------------------------------


class wrap_triton:
    """A kernel as torch.library.wrap_triton has it: `wrap_triton(kernel)[grid](...)` on tensors, eagerly or traced."""

    def __init__(self, kernel: Any) -> None:
        if not is_triton_kernel(kernel):
            raise RuntimeError(
                "wrap_triton only works on functions annotated with triton.jit or triton.autotune"
            )
        self.kernel = kernel

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **kwargs: call(self.kernel, grid, args, kwargs)


def call(kernel: Any, grid: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """`kernel[grid](*args, **kwargs)` with tensors."""
    op = operator_of(kernel)
    named, options = bound(op, args, kwargs)
    grids = grids_of(kernel, grid, named)
    tensors = {name: value for name, value in named.items() if isinstance(value, Tensor)}
    if isinstance(STATE.interpreter, Tracer) and STATE.interpreter.graph is None:
        return None  # only shapes are asked for, and a kernel changes none
    words = {} if options is None else {"options": options}
    layouts = layouts_of(tensors)
    op(**named, grids=grids, **({} if layouts is None else {"layouts": layouts}), **words)
    return None


def bound(
    op: TritonKernelOperator, args: tuple, kwargs: dict[str, Any]
) -> tuple[dict[str, Any], dict | None]:
    """The arguments by parameter, and the options of the launch. Raises TypeError for too many, or twice the same."""
    params = innermost(op.launched).arg_names
    if len(args) > len(params):
        raise TypeError(f"the Triton kernel {op.name} takes {len(params)} arguments, but got {len(args)}")
    named = dict(zip(params, args))
    if twice := sorted(set(named) & set(kwargs)):
        raise TypeError(f"the Triton kernel {op.name} got {twice[0]} twice, by position and by name")
    named |= {name: value for name, value in kwargs.items() if name in params}
    return named, {name: value for name, value in kwargs.items() if name not in params} or None


def grids_of(kernel: Any, grid: Any, named: Mapping[str, Any]) -> tuple:
    """The grid for each configuration: the tuple itself, or what the function of the arguments gives."""
    found = []
    for config in configurations(kernel) or [None]:
        meta = {**named, **(config.all_kwargs() if config is not None else {})}
        for name, function in heuristics(kernel):
            meta[name] = function(meta)
        made = grid(meta) if callable(grid) else grid
        found.append(tuple(made) if isinstance(made, (tuple, list)) else (made,))
    return tuple(found)
