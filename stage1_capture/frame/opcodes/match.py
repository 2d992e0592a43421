"""The instructions of match statements, shared by all versions.

Input: these enter the table of frame/opcodes/shared.py. Which branch is taken is known at capture, as for if.
"""

from __future__ import annotations

from typing import Any

from stage1_capture.frame.bytecode import Instruction
from stage1_capture.frame.opcodes.shared import Tx, handles, known, operations
from stage1_capture.variables.base import Variable, iterate, lookup_quietly, realize
from stage1_capture.variables.constant import NONE
from stage1_capture.variables.hash_keys import hashable
from stage1_capture.variables.mapping import DefaultDictVariable
from stage1_capture.variables.sequence import TupleVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable

# Py_TPFLAGS_SEQUENCE and _MAPPING: what collections.abc registers has them
_SEQUENCE, _MAPPING = 1 << 5, 1 << 6
# Classes whose only positional pattern is the value itself.
_SELF_MATCHING = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


operations(
    {
        "GET_LEN": (0, lambda tx, i: tx.stack[-1].length(tx)),
        "MATCH_SEQUENCE": (0, lambda tx, i: known(tx.stack[-1].python_type(tx).__flags__ & _SEQUENCE)),
        "MATCH_MAPPING": (0, lambda tx, i: known(tx.stack[-1].python_type(tx).__flags__ & _MAPPING)),
    }
)


@handles("MATCH_KEYS")
def match_keys(tx: Tx, i: Instruction) -> None:
    """The values of the keys on top, or None if one is missing. The keys stay."""
    mapping, keys = tx.stack[-2], tx.stack[-1]
    if isinstance(mapping, DefaultDictVariable) or mapping.family() is not dict:
        tx.unsupported("GB0043", "a match of keys in something else than a dict")
    wanted = [hashable(tx, key) for key in iterate(tx, keys)]
    if all(key in mapping.items for key in wanted):
        tx.push(TupleVariable([realize(mapping.items[key]) for key in wanted]))
    else:
        tx.push(NONE)


@handles("MATCH_CLASS")
def match_class(tx: Tx, i: Instruction) -> None:
    """The attributes a class pattern asks for, or None. `i.arg` of them are positional."""
    subject, cls, names = tx.popn(3)
    real = cls.known_object()
    if not isinstance(real, type):
        tx.unsupported("GB0047", "a match of a class that is not a class")
    if not tx.call(UserDefinedObjectVariable(isinstance), [subject, cls], {}).truth(tx):
        tx.push(NONE)
        return
    keywords = tx.constant(names, "a match")
    found: list[Variable] = []
    if i.arg and real in _SELF_MATCHING:
        found.append(subject)
    elif i.arg:
        positional: Any = cls.var_getattr(tx, "__match_args__")
        if positional is None:
            tx.unsupported("GB0043", f"positional patterns of {real.__name__}")
        known = tx.constant(positional, "a match")
        if len(known) < i.arg:
            words = f"{len(known)} positional sub-pattern{'s' * (len(known) != 1)} ({i.arg} given)"
            tx.throw(TypeError, f"{real.__name__}() accepts {words}")
        keywords = (*known[: i.arg], *keywords)
    for name in keywords:
        value = lookup_quietly(tx, subject, name)
        if value is None:
            tx.push(NONE)
            return
        found.append(value)
    tx.push(TupleVariable(found))
