"""Break and resume functions: the user's own bytecode, entered in its middle.

Input: where a frame broke and what its stack holds. A *break function* takes the locals and the stack, runs the one
instruction in Python, and puts off the rest: a *resume function*, the same code entered behind it, which is
compiled in its turn. Your bytecode is not rewritten: a prologue is put in front and an epilogue
behind, so its jumps, its exception table and its line numbers stay what they are, also inside try and with.

Every local of the frame is a parameter, in its own slot; a slot that was a cell is given the cell itself.
"""

from __future__ import annotations

import dis
import functools
import inspect
import types
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stage1_capture.breaks.assemble import again, assembled, emit, location_of, units
from stage1_capture.breaks.liveness import live_before, writes
from stage1_capture.frame import bytecode
from stage1_capture.frame.bytecode import VERSION, Instruction
from stage1_capture.state.entry import ENDED, NULL, OUTER, PLACE, VALUE, Derived, Entry, slots, stack_name
from stage_contracts.breaks import Unsupported
from stage_contracts.capture import ResumeFunction

if TYPE_CHECKING:
    from bytecode import ConcreteInstr

    from stage1_capture.breaks.special_methods import Row

# Instructions that push a NULL beside their value when a call follows: the bit of the argument that asks for it.
_WITH_NULL = {"LOAD_GLOBAL": 1, "LOAD_SUPER_ATTR": 1, "LOAD_ATTR": int(VERSION >= (3, 12))}
_NO_RESULT = ("STORE_", "DELETE_", "POP_", "LIST_", "SET_", "DICT_", "MAP_")
# How many values an instruction leaves that nobody had put on the stack, where its name does not say so.
_PUSHED = {
    "BEFORE_WITH": 2,
    "FOR_ITER": 2,
    "MATCH_KEYS": 2,
    "LOAD_FAST_LOAD_FAST": 2,
    "STORE_FAST_LOAD_FAST": 1,
}
_NO_WAY_ON = {*"RETURN_VALUE RETURN_CONST RAISE_VARARGS RERAISE YIELD_VALUE SEND GET_AWAITABLE".split()}


def parameters(code: types.CodeType, entry: Entry) -> tuple[str, ...]:
    """The parameters of the code entered at `entry`: every slot, then the stack's values, deepest first."""
    return (*slots(code), *(stack_name(i) for i, kind in enumerate(entry.layout) if kind in (VALUE, OUTER)))


def needed(code: types.CodeType, index: int) -> frozenset[str]:
    """The slots a frame entered at `index` must be given: live locals, every cell, and what super() looks at."""
    more = {*code.co_cellvars, *code.co_freevars}
    if "__class__" in code.co_freevars and code.co_argcount:
        more.add(code.co_varnames[0])
    return live_before(code, index) | more


def first_index(code: types.CodeType, index: int) -> int:
    """Where to enter to run instruction `index`: a CALL begins with its KW_NAMES and PRECALL."""
    program = bytecode.instructions(code)
    while index and program[index - 1].opname in ("KW_NAMES", "PRECALL"):
        index -= 1
    return index


def break_function(
    function: types.FunctionType, code: types.CodeType, entry: Entry, row: Row | None = None
) -> tuple[types.FunctionType, tuple[ResumeFunction, ...]]:
    """The function that runs the instruction at `entry` of `code` in Python, and the ways on behind it.

    Without a way on it runs the rest of the frame in Python: behind a return or a raise. Inside an except block the
    thread must know the exception while the frame runs: each function of the frame says so when it is entered, and
    takes it back before it hands on. row: what is called in place of the instruction; `around_a_call` says where it
    lies on the stack that the break function is given.
    """
    exits = _exits(code, entry)
    resumes = tuple(
        ResumeFunction(function_like(function, _resume_code(code, code.co_filename, exit_)))
        for exit_ in exits
    )
    return function_like(function, _break_code(code, entry, exits, resumes, row)), resumes


@functools.lru_cache(maxsize=1024)
def _resume_code(code: types.CodeType, file: str, entry: Entry) -> types.CodeType:
    """The same object for the same place, so that who compiles it can keep what it compiled."""
    return entered(code, entry, bytecode.instructions(code)[entry.index].start)


def function_like(function: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(code, function.__globals__, function.__name__, None, closure or None)
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    return made


def generator_function(function: Any, code: types.CodeType, entry: Entry) -> types.FunctionType:
    """A function that makes a generator which `next` brings to stand at the YIELD_VALUE of `entry`.

    function: the generator's function as an abstract value. What the yield yields then is nobody's.
    """
    made = _resume_code(code, code.co_filename, entry)
    if made.co_freevars:
        raise Unsupported("a generator in a method that uses super() is alive at a break", code="GB0053")
    return types.FunctionType(made, function.globals, function.name)


@functools.lru_cache(maxsize=256)
def never_run(code: types.CodeType, file: str) -> tuple[types.FrameType, int]:
    """A frame of `code` for tracebacks: a generator's that has not begun. With how far its offsets are moved."""
    head = emit("RETURN_GENERATOR") + emit("POP_TOP")
    names = slots(code)
    made = assembled(
        code,
        head,
        None,
        [],
        co_varnames=names,
        co_nlocals=len(names),
        co_flags=inspect.CO_GENERATOR | inspect.CO_NEWLOCALS | inspect.CO_OPTIMIZED,
        co_stacksize=code.co_stacksize + len(names) + 1,
        **dict.fromkeys(("co_argcount", "co_posonlyargcount", "co_kwonlyargcount"), 0),
        **dict.fromkeys(("co_freevars", "co_cellvars"), ()),
    )
    return types.FunctionType(made, {})().gi_frame, 2 * units(head)


# ---- the instruction that is run in Python -----------------------------------------------------------


def _last_index(program: tuple[Instruction, ...], index: int) -> int:
    while program[index].opname in ("KW_NAMES", "PRECALL"):
        index += 1
    return index


def _exits(code: types.CodeType, entry: Entry) -> tuple[Entry, ...]:
    """Where control may go from the instruction, with the stack it leaves: behind it, then its jump."""
    program = bytecode.instructions(code)
    last = _last_index(program, entry.index)
    instruction = program[last]
    name = instruction.opname
    if name in _NO_WAY_ON:
        return ()
    depth = len(entry.layout) + sum(map(_effect, program[entry.index : last + 1]))
    if _with_null(instruction):
        pushed = [VALUE, NULL] if VERSION >= (3, 13) else [NULL, VALUE]
    elif name in ("UNPACK_SEQUENCE", "UNPACK_EX"):
        pushed = [VALUE] * (depth - len(entry.layout) + 1)
    elif name in _PUSHED:
        pushed = [VALUE] * _PUSHED[name]
    elif name.startswith(_NO_RESULT) or "JUMP" in name:
        pushed = []
    else:
        pushed = [VALUE]
    after = (*entry.layout[: depth - len(pushed)], *pushed)
    unbound = _unbound_after(instruction, entry)

    def way(index: int, layout: tuple[str, ...]) -> Entry:
        return Entry(index, layout, unbound & needed(code, index))

    if instruction.target < 0:
        return (way(last + 1, after),)
    if name == "FOR_ITER":
        skipped = {(3, 11): 0, (3, 12): 1, (3, 13): 2}[VERSION]
        return way(last + 1, after), way(instruction.target + skipped, entry.layout[:-1])
    kept = entry.layout if name.endswith("_OR_POP") else after
    return way(last + 1, after), way(instruction.target, kept)


def _unbound_after(instruction: Instruction, entry: Entry) -> frozenset[str]:
    """The live locals without a value. One may be given the NULL that LOAD_FAST_AND_CLEAR found in it."""
    if instruction.opname == "DELETE_FAST":
        return entry.unbound | {instruction.argval}
    stored = writes(instruction)
    cleared = (name for name, kind in zip(stored, reversed(entry.layout)) if kind == NULL)
    return (entry.unbound - {*stored}) | {*cleared}


def _effect(instruction: Instruction) -> int:
    opcode = dis.opmap[instruction.opname]
    return dis.stack_effect(opcode, instruction.arg if opcode >= dis.HAVE_ARGUMENT else None, jump=False)


def _with_null(instruction: Instruction) -> bool:
    name = instruction.opname
    return name == "LOAD_METHOD" or bool(instruction.arg & _WITH_NULL.get(name, 0))


def around_a_call(layout: tuple[str, ...], operands: int) -> tuple[str, ...]:
    """A layout with room for a callable below its last values."""
    called = (VALUE, NULL) if VERSION >= (3, 13) else (NULL, VALUE)
    return (*layout[:-operands], *called, *layout[-operands:])


def _break_code(
    code: types.CodeType,
    entry: Entry,
    exits: tuple[Entry, ...],
    resumes: tuple[ResumeFunction, ...],
    row: Row | None,
) -> types.CodeType:
    program = bytecode.instructions(code)
    if not exits:
        return entered(code, entry, program[entry.index].start)
    last = _last_index(program, entry.index)
    instruction = program[last]
    place = location_of(instruction)
    if row:
        entry = replace(entry, layout=around_a_call(entry.layout, row.operands))
    depth, consts = max(len(e.layout) for e in (entry, *exits)), []
    slot_of = {name: i for i, name in enumerate(_variables(code, entry, depth))}
    constants = [len(code.co_consts) + i for i in range(len(exits))]
    none = constants[-1] + 2  # behind Derived
    stubs = [_stub(code, e, slot_of, at, none, instruction) for e, at in zip(exits, constants)]
    run = again(code, program[entry.index].start, instruction.end, place)
    if _with_null(instruction):
        run = _without_null(instruction, place)
    elif len(exits) == 2:
        if instruction.opname == "FOR_ITER":  # END_FOR and POP_TOP, which it skips
            skipped = program[instruction.target].start, program[exits[1].index].start
            stubs[1] = again(code, *skipped, place) + stubs[1]
        run = emit(instruction.opname.replace("BACKWARD", "FORWARD"), units(stubs[0]), place)
    if row:
        run = _called(row, place) + (run if len(exits) == 2 else [])
    if _reads_free_variable(instruction, code):
        consts = [unbound_free_variable, instruction.argval]
        run = _raised_if_unbound(slot_of[instruction.argval], none + 1, place) + run
    # An error in a call is looked up, in 3.13, one unit before the CALL: there must be one that belongs to the block.
    run = emit("NOP", location=place) + run
    tail = [one for stub in stubs for one in stub]
    return entered(code, entry, len(code.co_code), depth, (instruction, run), tail, resumes, consts)


def _reads_free_variable(instruction: Instruction, code: types.CodeType) -> bool:
    return instruction.opname in ("LOAD_DEREF", "DELETE_DEREF") and instruction.argval in code.co_freevars


def _without_null(instruction: Instruction, place: Any) -> list[ConcreteInstr]:
    """The instruction in a form that pushes its value alone."""
    if instruction.opname == "LOAD_METHOD":
        return emit("LOAD_ATTR", instruction.arg, place)
    return emit(instruction.opname, instruction.arg & ~1, place)


def unbound_free_variable(cell: types.CellType, name: str) -> NameError | None:
    """What Python raises for a free variable without a value. In a break function its cell lies where a local does."""
    try:
        _ = cell.cell_contents
    except ValueError:
        words = (
            f"cannot access free variable {name!r} where it is not associated with a value in enclosing scope"
        )
        return NameError(words, name=name)
    return None


def _raised_if_unbound(slot: int, constant: int, place: Any) -> list[ConcreteInstr]:
    put = functools.partial(emit, location=place)
    asks = put("LOAD_CONST", constant)
    asks = asks + put("PUSH_NULL") if VERSION >= (3, 13) else put("PUSH_NULL") + asks
    asks += put("LOAD_FAST", slot) + put("LOAD_CONST", constant + 1)
    asks += (put("PRECALL", 2) if VERSION < (3, 12) else []) + put("CALL", 2) + put("COPY", 1)
    raises = put("RAISE_VARARGS", 1)
    jump = "POP_JUMP_FORWARD_IF_NONE" if VERSION < (3, 12) else "POP_JUMP_IF_NONE"
    return asks + put(jump, units(raises)) + raises + put("POP_TOP")


def _called(row: Row, place: Any) -> list[ConcreteInstr]:
    call = emit("PRECALL", row.operands, place) if VERSION < (3, 12) else []
    call += emit("CALL", row.operands, place)
    return call + [one for name, argument in row.behind for one in emit(name, argument, place)]


def _stub(
    code: types.CodeType,
    exit_: Entry,
    slot_of: dict[str, int],
    constant: int,
    none: int,
    instruction: Instruction,
) -> list[ConcreteInstr]:
    """Put the stack away, and return `resume(*slots, *stack)`."""
    put = functools.partial(emit, location=location_of(instruction))
    layout = list(enumerate(exit_.layout))
    on_stack = (
        [*layout[:-2], *((i, k) for i, k in layout[-2:] if k != NULL)] if _with_null(instruction) else layout
    )
    out: list[ConcreteInstr] = []
    for i, kind in reversed(on_stack):
        if kind == OUTER:  # the other way around: what the thread handles now comes onto the stack
            out += put("LOAD_CONST", none) + put("PUSH_EXC_INFO") + put("POP_TOP")
        out += put("STORE_FAST", slot_of[stack_name(i)])
        if kind == OUTER:
            out += put("POP_EXCEPT")
    resume = put("LOAD_CONST", constant)
    out += resume + put("PUSH_NULL") if VERSION >= (3, 13) else put("PUSH_NULL") + resume
    given = parameters(code, exit_)
    read = needed(code, exit_.index) - exit_.unbound
    for name in given:
        # a variable that nothing reads may get any value
        out += put("LOAD_FAST", slot_of[name]) if name in read or name not in slots(code) else resume
    return out + put("BUILD_TUPLE", len(given)) + put("CALL_FUNCTION_EX", 0) + put("RETURN_VALUE")


# ---- a code object with a prologue -------------------------------------------------------------------


def _variables(code: types.CodeType, entry: Entry, depth: int) -> tuple[str, ...]:
    """All local variables: the parameters, and a place for each other slot of the stack."""
    given = parameters(code, entry)
    return (*given, *(name for name in map(stack_name, range(depth)) if name not in given))


def entered(
    code: types.CodeType,
    entry: Entry,
    target: int,
    depth: int = 0,
    copied: tuple[Instruction, list[ConcreteInstr]] | None = None,
    tail: list[ConcreteInstr] | None = None,
    resumes: tuple[ResumeFunction, ...] = (),
    more: Sequence[Any] = (),
) -> types.CodeType:
    """`code` with a prologue that sets up the stack and jumps to offset `target`; `copied` and `tail` behind it.

    more: constants of the copied instructions, behind the None."""
    variables = _variables(code, entry, depth)
    slot_of = {name: i for i, name in enumerate(variables)}
    owner = "__class__" in code.co_freevars  # super() looks for it among the free variables
    head = emit("COPY_FREE_VARS", 1) if owner else []
    if code.co_flags & inspect.CO_GENERATOR:
        head += emit("RETURN_GENERATOR") + emit("POP_TOP")
    head += emit("RESUME", 0)
    for name in slots(code):
        if name in entry.unbound:
            head += emit("DELETE_FAST", slot_of[name])
    consts: list[Any] = [*code.co_consts, *resumes, Derived(code, entry), None]
    none = len(consts) - 1
    consts += more
    for i, kind in enumerate(entry.layout):
        if kind == NULL:
            head += emit("PUSH_NULL")
        elif kind == ENDED:
            head += emit("LOAD_CONST", none)
        elif kind.startswith(PLACE):
            head += emit("LOAD_CONST", len(consts))
            consts.append(int(kind.removeprefix(PLACE)) // 2)
        else:
            # the slot is cleared: what the program drops must have no other owner
            slot = slot_of[stack_name(i)]
            head += emit("LOAD_FAST", slot) + emit("LOAD_CONST", none) + emit("STORE_FAST", slot)
            if kind == OUTER:
                head += emit("PUSH_EXC_INFO") + emit("POP_TOP")
    head += emit("JUMP_FORWARD", target // 2)
    for i in range(none + 1 + len(more), len(consts)):
        consts[i] += units(head)  # places are counted in the code that runs
    return assembled(
        code,
        head,
        copied,
        tail or [],
        co_consts=tuple(consts),
        co_varnames=variables,
        co_nlocals=len(variables),
        co_argcount=len(parameters(code, entry)),
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_cellvars=(),
        co_freevars=("__class__",) if owner else (),
        co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
        co_stacksize=code.co_stacksize + len(variables) + 4,
    )
