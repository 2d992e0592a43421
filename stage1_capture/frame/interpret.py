"""interpret: one call of a function on abstract values, to its return; one of the three parts of capture.

Input: the function, the arguments of the call, and an empty OutputGraph, which is filled as the bytecode runs. What
cannot be followed is raised as `Unsupported`; where the frame is to be cut, `Stopped`, with the frame as it stands.
"""

from __future__ import annotations

import importlib
import types
from typing import Any

from stage1_capture.frame.translator import InstructionTranslator
from stage1_capture.state.graph_builder import OutputGraph, SkipFrame
from stage1_capture.steps import CAPTURE
from stage1_capture.variables.base import Variable
from stage1_capture.variables.builder import lazily
from stage1_capture.variables.function import function_variable
from stage_contracts import python_version
from stage_contracts.breaks import Unsupported
from stage_contracts.signature import signature_of
from stage_contracts.source import ArgSource, AttrSource, ClosureSource, FunctionSource, ItemSource, Source


def interpret(
    output: OutputGraph, function: types.FunctionType, args: tuple, kwargs: dict[str, Any]
) -> Variable:
    if not python_version.known():
        reason = f"capture does not know the bytecode of {python_version.NAME}"
        raise SkipFrame(reason, output.start, code="GB0007")
    major, minor = python_version.VERSION
    table = importlib.import_module(f"stage1_capture.frame.opcodes.v{major}{minor}").TABLE
    with CAPTURE.timed("instructions"):
        root = root_function(output, function)
        frame = InstructionTranslator(output, table, root, root_locals(output, function, args, kwargs))
    with CAPTURE.timed("interpret"):
        result = frame.run()
    output.frames.append(frame)  # the return value's breaks point at the return
    return result


def root_function(output: OutputGraph, function: types.FunctionType) -> Any:
    """The captured function as an abstract value: its closure is reached by name."""
    root = function_variable(output, function, FunctionSource(function.__name__))
    if "C" not in function.__code__.co_varnames:
        for name, cell, real in zip(
            function.__code__.co_freevars, root.closure, function.__closure__ or (), strict=True
        ):
            if cell.contents is not None:
                cell.contents = lazily(output, real.cell_contents, ClosureSource(name))
    return root


def root_locals(
    output: OutputGraph, function: types.FunctionType, args: tuple, kwargs: dict[str, Any]
) -> dict[str, Variable]:
    """The parameters of the call, by name. One left to its default relies on the default too."""
    signature = signature_of(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        why = f"the call does not fit {function.__name__}: {error}"
        raise Unsupported(why, output.start, code="GB0065") from None
    given = set(bound.arguments)
    bound.apply_defaults()
    for parameter in signature.parameters.values():
        if parameter.name not in given and parameter.default is not parameter.empty:
            _guard_default(output, function, parameter.name, parameter.default)
    slot = {"implicit0": ".0"}  # what inspect calls the first argument of a comprehension
    slot = slot if ".0" in function.__code__.co_varnames else {}
    return {
        slot.get(name, name): lazily(output, value, ArgSource(name))
        for name, value in bound.arguments.items()
    }


def _guard_default(output: OutputGraph, function: types.FunctionType, name: str, value: Any) -> None:
    """The guard function was made with this default: it must still be the function's."""
    code, source = function.__code__, FunctionSource(function.__name__)
    where: Source
    if name in (function.__kwdefaults__ or {}):
        where = ItemSource(AttrSource(source, "__kwdefaults__"), name)
    else:
        where = ItemSource(
            AttrSource(source, "__defaults__"), code.co_varnames.index(name) - code.co_argcount
        )
    output.guard("IDENTITY", where, value)
