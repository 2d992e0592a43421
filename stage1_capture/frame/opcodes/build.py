"""The instructions that build, extend and unpack containers, shared by all versions.

Input: these enter the table of frame/opcodes/shared.py.
"""

from __future__ import annotations

import itertools
from typing import Any

from stage1_capture.builtins.python import as_mapping
from stage1_capture.frame.bytecode import Instruction
from stage1_capture.frame.opcodes.shared import Tx, handles, operations
from stage1_capture.variables.base import Variable, from_constant, gathered, iterate, walked
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.function import UserFunctionVariable
from stage1_capture.variables.hash_keys import hashable
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.sequence import ListVariable, SliceVariable, TupleVariable
from stage1_capture.variables.set import SetVariable


@handles("BUILD_MAP")
def build_map(tx: Tx, i: Instruction) -> None:
    flat = tx.popn(2 * i.arg)
    keys = [hashable(tx, k) for k in flat[::2]]
    tx.push(ConstDictVariable(dict(zip(keys, flat[1::2]))))


def grown(tx: Tx, i: Instruction) -> Any:
    """The container being built, further down the stack. After a break inside a comprehension it is from outside."""
    container = tx.stack[-i.arg]
    tx.output.will_change(container)
    return container


@handles("LIST_EXTEND")
def list_extend(tx: Tx, i: Instruction) -> None:
    value = tx.pop()
    if isinstance(value, (UserFunctionVariable, ConstantVariable)):
        kind = value.python_type(tx)
        if not hasattr(kind, "__iter__"):
            tx.throw(TypeError, f"Value after * must be an iterable, not {kind.__name__}")
    values = gathered(tx, value)
    grown(tx, i).grow(values)


@handles("MAP_ADD")
def map_add(tx: Tx, i: Instruction) -> None:
    key, value = tx.popn(2)
    name = hashable(tx, key)
    grown(tx, i).items[name] = value


@handles("DICT_UPDATE", "DICT_MERGE")
def dict_update(tx: Tx, i: Instruction) -> None:
    update, target = tx.pop(), tx.stack[-i.arg]
    entries = as_mapping(tx, update)
    if entries is None:
        tx.unsupported("GB0042", "** of something that is not a dict")
    repeated = set(entries) & set(target.items)
    if i.opname == "DICT_MERGE" and repeated:
        tx.unsupported("GB0066", f"{repeated.pop()!r} given twice raises TypeError")
    grown(tx, i).items.update(entries)


@handles("UNPACK_SEQUENCE")
def unpack_sequence(tx: Tx, i: Instruction) -> None:
    # Python takes one item more than it needs, and none after it.
    items = list(itertools.islice(walked(tx, tx.pop()), i.arg + 1))
    if len(items) > i.arg:
        tx.throw(ValueError, f"too many values to unpack (expected {i.arg})")
    if len(items) < i.arg:
        tx.throw(ValueError, f"not enough values to unpack (expected {i.arg}, got {len(items)})")
    for item in reversed(items):
        tx.push(item)


@handles("UNPACK_EX")
def unpack_ex(tx: Tx, i: Instruction) -> None:
    """a, *b, c = items: the low byte counts the names before the star, the next one those after it."""
    before, after = i.arg & 0xFF, i.arg >> 8
    items = iterate(tx, tx.pop())
    if len(items) < before + after:
        expected = f"expected at least {before + after}, got {len(items)}"
        tx.throw(ValueError, f"not enough values to unpack ({expected})")
    end = len(items) - after
    for item in reversed([*items[:before], ListVariable(items[before:end]), *items[end:]]):
        tx.push(item)


@handles("SET_ADD")
def set_add(tx: Tx, i: Instruction) -> None:
    value = tx.pop()
    element = hashable(tx, value)
    grown(tx, i).items.add(element)


@handles("SET_UPDATE")
def set_update(tx: Tx, i: Instruction) -> None:
    values = iterate(tx, tx.pop())
    elements = [hashable(tx, v) for v in values]
    grown(tx, i).items.update(elements)


def list_to_tuple(tx: Tx, i: Instruction) -> None:
    tx.push(TupleVariable(tx.pop().items))


def _const_key_map(tx: Tx, i: Instruction, keys: Variable) -> Variable:
    return ConstDictVariable(dict(zip(tx.constant(keys, "a dict's keys"), tx.popn(i.arg))))


# As many values as the argument says are taken here.
operations(
    {
        "BUILD_TUPLE": (0, lambda tx, i: TupleVariable(tx.popn(i.arg))),
        "BUILD_LIST": (0, lambda tx, i: ListVariable(tx.popn(i.arg))),
        "BUILD_SET": (0, lambda tx, i: SetVariable({hashable(tx, v) for v in tx.popn(i.arg)})),
        "BUILD_SLICE": (0, lambda tx, i: SliceVariable([*tx.popn(i.arg), NONE][:3])),
        "BUILD_STRING": (
            0,
            lambda tx, i: from_constant("".join(tx.constant(v, "an f-string") for v in tx.popn(i.arg))),
        ),
        "BUILD_CONST_KEY_MAP": (1, _const_key_map),
        "LIST_APPEND": (1, lambda tx, i, value: grown(tx, i).grow([value])),
    }
)
