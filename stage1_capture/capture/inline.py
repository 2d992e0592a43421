"""Inlining: bind a call's arguments to a Python function's parameters and interpret its body in place.

Input: a function as an abstract value, and abstract arguments. The callee's translator shares the caller's
graph, guards and opcode table, so its operators land in the same graph.
"""

from __future__ import annotations

import inspect

from stage1_capture.capture.output_graph import is_users
from stage1_capture.capture.symbolic_convert import InstructionTranslator
from stage1_capture.capture.variables import ConstDictVariable, TupleVariable, UserFunctionVariable, Variable


def inline_call(
    tx: InstructionTranslator,
    function: UserFunctionVariable,
    args: list[Variable],
    kwargs: dict[str, Variable],
) -> Variable:
    """What the function returns. Raises Unsupported when the call does not fit, or for anything inside."""
    if tx.output.options.plain and is_users(function.globals):
        tx.unsupported("GB0020", f"{tx.output.frames[0].function.name} is disabled, {function.name} is not")
    bound = bind_arguments(tx, function, args, kwargs)
    if function.code.co_flags & inspect.CO_GENERATOR:
        from stage1_capture.capture.generators import GeneratorTranslator, GeneratorVariable

        if function.code in tx.output.options.dropped:
            tx.unsupported("GB0032", f"{function.name} is dropped inside its try or with block")
        made = GeneratorVariable(frame=GeneratorTranslator(tx.output, tx.table, function, bound))
        tx.output.generators.append(made)
        return made
    return InstructionTranslator(tx.output, tx.table, function, bound).run()


def bind_arguments(
    tx: InstructionTranslator,
    function: UserFunctionVariable,
    args: list[Variable],
    kwargs: dict[str, Variable],
) -> dict[str, Variable]:
    """The callee's first locals, by Python's rules. A call that Python rejects is a break."""
    code = function.code
    positional = code.co_varnames[: code.co_argcount]
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    stars = iter(code.co_varnames[code.co_argcount + code.co_kwonlyargcount :])
    by_position_only = positional[: code.co_posonlyargcount]

    bound = dict(zip(positional, args))
    surplus = args[len(positional) :]
    if code.co_flags & inspect.CO_VARARGS:
        bound[next(stars)] = TupleVariable(list(surplus))
    elif surplus:
        _does_not_fit(tx, function, f"{len(args)} positional arguments for {len(positional)} parameters")

    unknown: dict[str, Variable] = {}
    for name, value in kwargs.items():
        if name in bound and name in positional and name not in by_position_only:
            _does_not_fit(tx, function, f"two values for {name}")
        if name in keyword_only or (name in positional and name not in by_position_only):
            bound[name] = value
        else:
            unknown[name] = value
    if code.co_flags & inspect.CO_VARKEYWORDS:
        bound[next(stars)] = ConstDictVariable(unknown)
    elif unknown:
        _does_not_fit(tx, function, f"no parameter {next(iter(unknown))}")

    first_default = len(positional) - len(function.defaults)
    defaults = dict(zip(positional[first_default:], function.defaults)) | function.kwdefaults
    for name in (*positional, *keyword_only):
        if name not in bound:
            if name not in defaults:
                _does_not_fit(tx, function, f"no value for {name}")
            bound[name] = defaults[name]
    return bound


def _does_not_fit(tx: InstructionTranslator, function: UserFunctionVariable, why: str) -> None:
    tx.unsupported("GB0065", f"the call does not fit {function.name}: {why}")
