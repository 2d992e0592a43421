"""Timers around calls of compiled functions, their graphs, and the backward: put in when a recording begins.

Input: a recorder. The methods of CompiledFunction and CompiledBackward are exchanged on their classes, a graph under
its name in the residual code's globals, a launch function by kernels.py; `observe` returns what puts all back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from cutaway import compiled_function as calls
from cutaway.compiled_function import CompiledFunction
from cutaway.profiler.events import ProfilerEvent, Recorder
from cutaway.profiler.kernels import observe_launches
from stage0_eager.state import STATE
from stage0_eager.tensor import Tensor
from stage2_autograd.runtime.compiled_backward import CompiledBackward
from stage_contracts.capture import Continuation
from stage_contracts.pipeline import Entry

# torch's names for them
REGION, FORWARD, BACKWARD = "Torch-Compiled Region", "CompiledFunction", "CompiledFunctionBackward"
PREPARING = "put timers in"  # the profiler's own time, once for each entry
RAN = "operators"  # of a region's graph, once it ran
FRAME, FRAME_COMPILE = "frame id", "frame compile id"  # which function, and which of its entries
LOOKUP = "TorchDynamo Cache Lookup"  # the guards of a function's entries, until some hold
INFERENCE = "Call CompiledFxGraph"  # a graph that records nothing for a backward


def observe(recorder: Recorder) -> Callable[[], None]:
    """Record calls of compiled functions from here on; what it returns ends that."""
    undo = ExitStack()
    seen: dict[int, Entry] = {}  # kept, so that an id stays its own
    frames: dict[Any, int] = {}  # code objects, numbered as they come

    def instrument(compiled: CompiledFunction, entries: list[Entry]) -> None:
        preparing = recorder.begin(PREPARING, "profiler", function=compiled.name)
        if compiled.code not in frames:
            _time_guards(compiled, recorder, undo)
        frame = frames.setdefault(compiled.code, len(frames))
        for entry in entries:
            seen[id(entry)] = entry
            _time_graph(
                entry, {FRAME: frame, FRAME_COMPILE: _compile_number(compiled, entry)}, recorder, undo
            )
            for half in _halves(entry):
                undo.callback(observe_launches(half.run, recorder))
        recorder.end(preparing)

    plain_miss, plain_apply = CompiledFunction._miss, CompiledBackward.apply

    def miss(self: CompiledFunction, args: tuple, kwargs: dict[str, Any]) -> Any:
        made = plain_miss(self, args, kwargs)
        if isinstance(made, Entry) and id(made) not in seen:
            instrument(self, [made])
        return made

    def region(plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: CompiledFunction, *args: Any, **kwargs: Any) -> Any:
            if calls.STANCE.name == "force_eager" or STATE.transforms not in calls.RUNS_COMPILED:
                return plain(self, *args, **kwargs)
            if new := [entry for entry in self.entries if id(entry) not in seen]:
                instrument(self, new)
            return _in_region(recorder, plain, self, args, kwargs)

        return call

    def apply(self: CompiledBackward, gradients: list) -> list:
        event = recorder.begin(BACKWARD, "graph", **_shapes(gradients, recorder))
        event.flow = self.sequence
        try:
            return plain_apply(self, gradients)
        finally:
            recorder.end(event)

    for cls, name, timed in (
        (CompiledFunction, "__call__", region(CompiledFunction.__call__)),
        (CompiledFunction, "run_only", region(CompiledFunction.run_only)),
        (CompiledFunction, "_miss", miss),
        (CompiledBackward, "apply", apply),
    ):
        undo.callback(setattr, cls, name, cls.__dict__[name])
        setattr(cls, name, timed)
    return undo.close


def _in_region(
    recorder: Recorder, plain: Callable[..., Any], compiled: CompiledFunction, args: tuple, kwargs: dict
) -> Any:
    """One call. What a break leaves of a frame runs inside it: its region stays open until the frame ends.

    A call in which no graph ran (it was eager, or only led to calls that are compiled on their own) is no region.
    """
    event = recorder.begin(REGION, "region", function=compiled.name, **_shapes(args, recorder))
    event.args["place"] = f"{compiled.code.co_filename}:{compiled.code.co_firstlineno}"
    open_ = recorder.open_regions()
    depth = len(open_)
    open_.append(event)
    result = None
    try:
        result = plain(compiled, *args, **kwargs)
        return result
    finally:
        if type(result) is not Continuation:
            for ended in reversed(open_[depth:]):
                recorder.end(ended, keep=RAN in ended.args)
            del open_[depth:]


def _compile_number(compiled: CompiledFunction, entry: Entry) -> int:
    """Which compile of its code an entry is. Entries change places; artifacts are in order."""
    made = [a for a in compiled.artifacts if a.frame is not None and a.frame.code is entry.frame.code]
    own = entry.artifacts.get("artifacts")
    return next((number for number, artifacts in enumerate(made) if artifacts is own), len(made))


def _time_guards(compiled: CompiledFunction, recorder: Recorder, undo: ExitStack) -> None:
    """The search for an entry whose guards hold, at each call."""
    plain = compiled._dispatch

    def dispatch(entries: Any, args: tuple, kwargs: dict[str, Any]) -> Entry | None:
        event = recorder.begin(LOOKUP, "guards", entries=len(entries))
        try:
            return plain(entries, args, kwargs)
        finally:
            recorder.end(event)

    compiled._dispatch = dispatch
    undo.callback(setattr, compiled, "_dispatch", plain)


def _time_graph(entry: Entry, ids: dict[str, int], recorder: Recorder, undo: ExitStack) -> None:
    """The graph under its name in the globals of the entry's residual code. Its region gets the ids."""
    run = getattr(entry.run, "compiled", entry.run)  # a Trial has both ways
    names, name = getattr(run, "__globals__", {}), entry.frame.graph_name
    graph = names.get(name)
    if entry.frame.graph is None or entry.frame.residual is None or not callable(graph):
        return
    said = {RAN: len(entry.frame.graph.calls), **ids}

    def timed(*inputs: Any) -> Any:
        for around in recorder.open_regions()[-1:]:
            around.args.update(said)
        event = recorder.begin(INFERENCE, "graph", **_shapes(inputs, recorder))
        try:
            outputs = graph(*inputs)
            _join_to_backward(event, outputs)
            return outputs
        finally:
            recorder.end(event)

    names[name] = timed
    undo.callback(names.__setitem__, name, graph)


def _join_to_backward(event: ProfilerEvent, outputs: Any) -> None:
    for out in outputs if isinstance(outputs, (tuple, list)) else ():
        node = getattr(out, "_grad_fn", None)
        if type(node) is CompiledBackward:
            event.name, event.flow = FORWARD, node.sequence
            return


def _halves(entry: Entry) -> list[Any]:
    """The forward and the backward that run kernels, with the programs that they call."""
    artifacts = entry.artifacts.get("artifacts")
    found = [
        half for half in (getattr(artifacts, "forward", None), getattr(artifacts, "backward", None)) if half
    ]
    for half in found:  # grows on the way
        found += half.subgraphs.values()
    return found


def _shapes(values: Any, recorder: Recorder) -> dict[str, Any]:
    if not recorder.shapes:
        return {}
    tensors = [value for value in values if isinstance(value, Tensor)]
    return {
        "Input Dims": [[int(n) for n in t.shape] for t in tensors],
        "Input type": [t.dtype.name for t in tensors],
    }
