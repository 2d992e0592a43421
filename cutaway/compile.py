"""`compile(fn)`: checks its arguments and makes the compiled function. (The map of the machine is inductor.py.)

Input: a Python function or a Module. Output: a CompiledFunction (compiled_function.py), or a Module that calls one. If
no entry's guards hold at a call, the frame is captured (compile_frame.py), its graph goes to a backend (inductor.py
runs every stage), and the result becomes an Entry for the seam `dispatch` to find.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

from cutaway.backends import find_backend
from cutaway.compiled_function import CompiledFunction
from cutaway.compiled_module import call_of, call_through, twin_of
from cutaway.debug.torch_fields import our_options
from cutaway.pipelines import default_pipeline
from stage0_eager.nn.module import Module
from stage_contracts import config, python_version
from stage_contracts.controls import rule_of
from stage_contracts.messages import checks_options, did_you_mean, say
from stage_contracts.pipeline import Pipeline
from stage_contracts.seam_checks import checked_pipeline

_MEASURED = {"runtime.max_autotune": True, "runtime.cudnn_benchmark": True}
_MODES: dict[str | None, dict[str, Any]] = {
    None: {},
    "default": {},
    "reduce-overhead": {"runtime.cuda_graphs": True},
    # what is measured: configurations of our kernels, and which of cuDNN's algorithms runs a convolution
    "max-autotune": {"runtime.cuda_graphs": True, **_MEASURED},
    "max-autotune-no-cudagraphs": _MEASURED,
}


def _changes(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The configuration fields that mode or options set. A wrong one raises here, not at the first call."""
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time. "
            f"Got mode={mode!r} and options={options!r}; leave out mode and set its fields in options."
        )
    if not isinstance(mode, str | None) or mode not in _MODES:
        hint = did_you_mean(mode, filter(None, _MODES))
        raise RuntimeError(say("unknown_mode", name=mode, known=", ".join(map(repr, _MODES)), hint=hint))
    if not isinstance(options, Mapping | None):
        raise TypeError(
            f'compile expects options to be a dict, for example {{"runtime.cache": False}}, but got {options!r}'
        )
    changes = {**_MODES[mode], **our_options(options or {})}
    try:
        config.with_changes(config.current(), changes)
    except (AttributeError, TypeError) as error:  # torch raises RuntimeError for both
        raise RuntimeError(f"Unexpected optimization option: {error}") from None
    return changes


@checks_options
def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable = "inductor",
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
    pipeline: Pipeline | None = None,
) -> Any:
    """Returns a function (or module) that does what the function (or module) `model` does, and is compiled at its first
    call. As torch.compile.

    backend: "inductor" (every stage), "aot_eager", "eager", "cudagraphs", or a callable
        `(graph_module, example_inputs) -> callable(*inputs) -> tuple of outputs`.
    fullgraph: raise Unsupported at the first graph break instead of splitting the frame there.
    dynamic: which sizes are open, so that one compile serves all their values. None: those that have changed since the
        last compile, and those that you marked with compiler.mark_dynamic. True: all. False: only those that you
        marked. Code that cannot be compiled with an open size is compiled for each size; the event log then has an
        event ("fallback", "static").
    mode: None, "default", "reduce-overhead" (CUDA graphs on a GPU), "max-autotune", "max-autotune-no-cudagraphs".
    options: configuration fields for this function, for example {"runtime.cache": False}.
    disable: return `model` itself; nothing is compiled.
    pipeline: the seams to use; the default is cutaway.DEFAULT_PIPELINE.
    Without `model`, compile returns a decorator.
    """
    fn = model
    if fn is None:
        return functools.partial(
            compile, backend=backend, fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options,
            disable=disable, pipeline=pipeline,
        )  # fmt: skip
    if disable:
        return fn
    if not python_version.known():
        python_version.say_so()
        return fn
    if dynamic not in (None, True, False):
        raise TypeError(f"compile expects dynamic to be None, True or False, but got {dynamic!r}")
    if not callable(fn):
        raise TypeError(f"compile expects a function or a module, but got {type(fn).__name__}")
    if not isinstance(pipeline, Pipeline | None):
        raise TypeError(say("pipeline_expected", got=type(pipeline).__name__))
    seams = checked_pipeline(pipeline, default_pipeline()) if pipeline else default_pipeline()
    changes = _changes(mode, options)
    backend = config.current().debug.backend or backend
    if isinstance(fn, Module):
        call = CompiledFunction(call_of(fn), find_backend(backend), fullgraph, changes, seams, dynamic)
        return twin_of(fn, call)
    if (rule := rule_of(fn)) is not None and rule.kind in ("disable", "plain"):
        return fn
    # a function that is compiled already is compiled once, with the latest arguments
    if isinstance(fn, types.MethodType):  # which has the attributes of its function
        fn = types.MethodType(getattr(fn.__func__, "_torchdynamo_orig_callable", fn.__func__), fn.__self__)
    else:
        fn = getattr(fn, "_torchdynamo_orig_callable", fn)
    return CompiledFunction(fn, find_backend(backend), fullgraph, changes, seams, dynamic)


def compile_in_place(self: Module, *args: Any, **kwargs: Any) -> None:
    """`module.compile()`: compile this module's calls from now on, in place. Arguments as for `cutaway.compile`."""
    call = call_of(self)
    compiled = compile(call, *args, **kwargs)
    if compiled is not call:  # disable=True
        call_through(self, compiled)


Module.compile = compile_in_place  # type: ignore[attr-defined]
