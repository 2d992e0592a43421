"""capture: one call of a Python function becomes a graph, guards and residual code, without running it.

Input: a plain function and the arguments of one call (`self` included). What cannot be captured is one
GraphBreak in the frame, whose guards then say for which calls the whole function runs eagerly.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from stage0_eager.state import ordinary_modes
from stage1_capture import tables  # noqa: F401  (what fills them)
from stage1_capture.breaks import resume
from stage1_capture.breaks.compiled_calls import called_in_python
from stage1_capture.breaks.implicit_calls import row_of
from stage1_capture.breaks.special_methods import reaching
from stage1_capture.builtins.torch.optimizers import with_state
from stage1_capture.frame.bytecode import VERSION
from stage1_capture.residual.mutation_guards import merge_gradient_guards
from stage1_capture.seams import SEAMS, Seams
from stage1_capture.state import entry as entries
from stage1_capture.state.graph_builder import Options, OutputGraph, Restart, SkipFrame, Stopped
from stage1_capture.state.machine import Raised
from stage1_capture.steps import CAPTURE
from stage1_capture.variables.base import NULL, Variable
from stage1_capture.variables.exception import OuterExceptionVariable, RaisingPlaceVariable
from stage_contracts.breaks import GraphBreak, Unsupported
from stage_contracts.capture import CapturedFrame
from stage_contracts.controls import rule_of
from stage_contracts.origin import Origin
from stage_contracts.signature import signature_text
from stage_contracts.sizes import STATIC, SizePolicy

__all__ = ["capture", "signature_text"]

BREAK_NAME = "__run_and_go_on"


def capture(
    function: Any, args: tuple, kwargs: dict[str, Any], policy: SizePolicy = STATIC, seams: Seams = SEAMS
) -> CapturedFrame:
    """Capture one call. Raises TypeError for what is not a Python function, nothing for the user's code.

    seams: the parts of capture; `replace(SEAMS, interpret=mine)` puts another in the place of one.
    """
    if isinstance(function, types.MethodType):
        function, args = function.__func__, (function.__self__, *args)
    if not isinstance(function, types.FunctionType):
        raise TypeError(
            f"capture expects a Python function, got {type(function).__name__}; pass its __call__ or forward"
        )
    start = Origin(function.__code__.co_filename, function.__code__.co_firstlineno)
    plain = rule_of(entries.users_code(function.__code__).code) is not None  # disable(recursive=False)
    options = Options(plain=plain)  # reads the state of the call, which is not in force while it is captured
    with ordinary_modes():
        frame = _attempt(OutputGraph(start, policy, options), Call(function, args, kwargs, seams))
    return replace(frame, breaks=()) if plain else frame


@dataclass(frozen=True)
class Call:
    """What is captured, and by which parts of capture."""

    function: types.FunctionType
    args: tuple
    kwargs: dict[str, Any]
    seams: Seams

    def interpret(self, output: OutputGraph) -> Variable:
        return self.seams.interpret(output, self.function, self.args, self.kwargs)


def _attempt(output: OutputGraph, call: Call) -> CapturedFrame:
    try:
        try:
            result = call.interpret(output)
            with_state(output)
            return _captured(output, call, result)
        except Raised as raised:
            # the frame is cut where it was raised first, so that its traceback has the user's lines
            assert raised.value.place is not None  # set where it was first seen
            output.root_steps, origin = raised.value.place
            raise Unsupported(f"{_said(raised)} leaves the frame", origin, code="GB0009") from None
    except Restart as again:
        return _attempt(_anew(output, again.options), call)
    except Unsupported as stop:
        return _split(output, call, stop)
    except RecursionError:  # the capturer uses several Python frames for each user frame
        return _broken(
            output, call.function, GraphBreak("GB0035", "calls nested too deeply to follow", output.start)
        )
    finally:
        output.let_go()


def _anew(output: OutputGraph, options: Options) -> OutputGraph:
    """An empty graph builder, for another attempt at the same call."""
    return OutputGraph(output.start, output.policy, options)


def _said(raised: Raised) -> str:
    """An exception as the last line of a traceback, as far as it is known now."""
    error = raised.value
    said: Any = error.args[0] if error.fresh and len(error.args) == 1 else None
    known = said is not None and said.is_python_constant() and isinstance(said.value, str)
    return type(error.real).__name__ + (f": {said.value}" if known else "")


def _split(first: OutputGraph, call: Call, stop: Unsupported) -> CapturedFrame:
    """The frame up to the instruction that cannot be captured, which runs in Python, and what comes behind it.

    Interpreting again up to there gives the state before the instruction, whatever had been half done inside it.
    """
    why = replace(stop.graph_break, error=bool(first.modes["error_on_break"]))
    if isinstance(stop, SkipFrame) or not first.root_steps or not splittable(call.function.__code__):
        return _broken(first, call.function, why)
    again = _anew(first, replace(first.options, stop_at=first.root_steps - 1))
    try:
        with suppress(Stopped):
            call.interpret(again)
        return break_frame(again, call, why)
    except Restart as once_more:
        return _attempt(_anew(first, once_more.options), call)
    except (Unsupported, Raised):  # something that lives on cannot be made again
        return _broken(first, call.function, why)
    finally:
        again.let_go()


def _captured(output: OutputGraph, call: Call, result: Variable) -> CapturedFrame:
    """Close the graph. A frame without tensor computation has none, and runs as it is."""
    if not output.graph.has_calls:
        return _frame(output, call.function, graph=None)
    return _with_residual(output, call, [result], lambda words: f"return {words[0]}")


def break_frame(output: OutputGraph, call: Call, why: GraphBreak) -> CapturedFrame:
    """The residual code ends in a call of the break function, with the state of the frame."""
    frame = output.frames[0]
    output.breaks_here = True
    del output.frames[1:]
    code = entries.users_code(call.function.__code__).code
    index = resume.first_index(code, frame.index)
    layout = tuple(map(_slot_kind, frame.stack))
    needed = resume.needed(code, index)
    unbound = frozenset(n for n in entries.slots(code) if n in needed and n not in frame.locals)
    entry = entries.Entry(index, layout, unbound)
    stack = called_in_python(output, frame, frame.program[index:])
    row = row_of(frame.program[index])
    stand_in = row and reaching(row, frame.program[index], frame.stack[-row.operands :])
    with CAPTURE.timed("resume"):
        run, resumes = call.seams.resume(call.function, code, entry, row if stand_in else None)
    if row and stand_in:
        layout = resume.around_a_call(layout, row.operands)
        stack[-row.operands : -row.operands] = [stand_in, NULL] if VERSION >= (3, 13) else [NULL, stand_in]
    values: list[Variable | None] = [
        frame.locals[name] if name in needed and name in frame.locals else None
        for name in entries.slots(code)
    ]
    for value, kind in zip(stack, layout, strict=True):
        if kind in (entries.VALUE, entries.OUTER):
            values.append(value.inner if isinstance(value, OuterExceptionVariable) else value)
    made = _with_residual(
        output, call, values, lambda words: f"return {BREAK_NAME}({', '.join(words)})", {BREAK_NAME: run}
    )
    return replace(made, breaks=(why,), resumes=resumes)


def _slot_kind(value: Variable) -> str:
    if value is NULL:
        return entries.NULL
    if isinstance(value, RaisingPlaceVariable):
        return f"{entries.PLACE}{value.offset}"
    if isinstance(value, OuterExceptionVariable):
        return entries.OUTER if value.active else entries.ENDED
    return entries.VALUE


def splittable(code: types.CodeType) -> bool:
    """Whether the frame may be cut: not when the program, or super(), asks Python for the frame itself."""
    whole = entries.users_code(code).code
    in_a_cell = "__class__" in whole.co_freevars and {*whole.co_varnames[:1]} & {*whole.co_cellvars}
    return not (FRAME_READERS & {*code.co_names} or code.co_flags & _GENERATORS or in_a_cell)


FRAME_READERS = {"locals", "vars", "eval", "exec", "dir", "_getframe", "currentframe"}
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def _with_residual(
    output: OutputGraph,
    call: Call,
    values: list[Variable | None],
    finish: Callable[[list[str]], str],
    names: Mapping[str, Any] = MappingProxyType({}),
) -> CapturedFrame:
    with CAPTURE.timed("residual"):
        text, code, needed = call.seams.residualize(output, call.function, values, finish)
    calls = output.graph.has_calls
    return _frame(
        output,
        call.function,
        graph=output.graph.verify() if calls else None,
        graph_grad_mode=output.graph_mode,
        inputs=tuple(n.meta["source"] for n in output.graph.placeholders) if calls else (),
        residual=code,
        residual_globals={**needed, **names},
        residual_source=text,
    )


def _broken(output: OutputGraph, function: types.FunctionType, why: GraphBreak) -> CapturedFrame:
    return _frame(output, function, graph=None, breaks=(why,))


def _frame(output: OutputGraph, function: types.FunctionType, **fields: Any) -> CapturedFrame:
    with CAPTURE.timed("guards"):
        output.sizes.add_guards()
        merge_gradient_guards(output)
    defaults: dict[str, Any] = {"inputs": (), "residual": None}
    return CapturedFrame(
        function_name=function.__qualname__,
        code=function.__code__,
        guards=tuple(output.guards.values()),
        closed=closed_sizes(output),
        drawn={draw.name: draw.hint for draw in output.draws},
        late_guards=output.late_guards if output.sizes.sources else None,
        **{**defaults, **fields},
    )


def closed_sizes(output: OutputGraph) -> tuple[str, ...]:
    """One line for each size that had to stay open but was fixed, with the place that fixed it."""
    found = []
    for entry in output.sizes.assumptions:
        sides: tuple[Any, ...] = getattr(entry.condition, "args", ())
        if type(entry.condition).__name__ == "Equality" and sides[0] in output.strict and sides[1].is_Integer:
            source, dim = output.strict[sides[0]]
            found.append(f"{source}.shape[{dim}] must be {sides[1]} at {entry.origin}")
    return tuple(found)
