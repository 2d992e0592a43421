"""Which locals of a frame are read again after an instruction: what a resume function must be given.

Input: a code object. A backward data-flow analysis over its instructions; an exception may leave any
instruction of a protected region for its handler.
"""

from __future__ import annotations

import functools
import types

from stage1_capture.frame import bytecode

_ENDS = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD",
         "JUMP_BACKWARD_NO_INTERRUPT", "INTERPRETER_EXIT"}  # fmt: skip


def live_before(code: types.CodeType, index: int) -> frozenset[str]:
    """Names of the fast locals whose value at instruction `index` may still be read. Cells are not tracked."""
    return _analysis(code, code.co_filename)[index]


@functools.lru_cache(maxsize=256)
def _analysis(code: types.CodeType, file: str) -> tuple[frozenset[str], ...]:
    program = bytecode.instructions(code)
    after = [_successors(program, index) for index in range(len(program))]
    live: list[frozenset[str]] = [frozenset()] * len(program)
    changed = True
    while changed:
        changed = False
        for index in range(len(program) - 1, -1, -1):
            reads, writes = _effect(program[index])
            flowing = frozenset().union(*(live[s] for s in after[index]))
            before = reads | (flowing - writes)
            if program[index].handler:  # it may raise before it writes
                before |= live[program[index].handler.target]  # type: ignore[union-attr]
            if before != live[index]:
                live[index], changed = before, True
    return tuple(live)


def _successors(program: tuple[bytecode.Instruction, ...], index: int) -> list[int]:
    instruction = program[index]
    after = [] if instruction.opname in _ENDS else [index + 1]
    if instruction.target >= 0:
        after.append(instruction.target)
    return [s for s in after if s < len(program)]


def writes(instruction: bytecode.Instruction) -> tuple[str, ...]:
    """The locals that an instruction assigns: the first takes the top of the stack."""
    name, value = instruction.opname, instruction.argval
    if name == "STORE_FAST_STORE_FAST":
        return tuple(value)
    if name == "STORE_FAST_LOAD_FAST":
        return (value[0],)
    return (value,) if name == "STORE_FAST" else ()


def _effect(instruction: bytecode.Instruction) -> tuple[frozenset[str], frozenset[str]]:
    """Which locals an instruction reads, and which it overwrites."""
    name, value = instruction.opname, instruction.argval
    written = frozenset(writes(instruction))
    if name == "STORE_FAST_LOAD_FAST":
        return frozenset({value[1]}) - written, written
    if name == "LOAD_FAST_LOAD_FAST":
        return frozenset(value), written
    if name == "DELETE_FAST" or name.startswith("LOAD_FAST"):  # to delete it, it must be there
        return frozenset({value}), written
    return frozenset(), written
