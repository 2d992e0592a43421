"""The instructions of class bodies: names that are looked up in the namespace first.

Input: these enter the table of frame/opcodes/shared.py. `tx.namespace` is what the class is made of when its body has
run.
"""

from __future__ import annotations

from dataclasses import dataclass

from stage1_capture.frame.bytecode import Instruction
from stage1_capture.frame.opcodes.shared import Tx, handles
from stage1_capture.variables.base import Variable, describe
from stage1_capture.variables.mapping import ConstDictVariable

Namespace = dict[str, Variable]


@dataclass(eq=False)
class NamespaceVariable(Variable):
    """The namespace itself, between two instructions."""

    names: Namespace


def namespace(tx: Tx, i: Instruction) -> Namespace:
    if tx.namespace is None:
        tx.unsupported("GB0001", f"the instruction {i.opname} outside a class")
    return tx.namespace


@handles("LOAD_NAME")
def load_name(tx: Tx, i: Instruction) -> None:
    names = namespace(tx, i)
    tx.push(names[i.argval] if i.argval in names else tx.load_global(i.argval))


@handles("STORE_NAME")
def store_name(tx: Tx, i: Instruction) -> None:
    namespace(tx, i)[i.argval] = tx.pop()


@handles("DELETE_NAME")
def delete_name(tx: Tx, i: Instruction) -> None:
    if i.argval not in namespace(tx, i):
        tx.throw(NameError, f"name {i.argval!r} is not defined")
    del namespace(tx, i)[i.argval]


@handles("SETUP_ANNOTATIONS")
def setup_annotations(tx: Tx, i: Instruction) -> None:
    if tx.namespace is not None:
        tx.namespace.setdefault("__annotations__", ConstDictVariable({}))


@handles("LOAD_CLASSDEREF")
def load_classderef(tx: Tx, i: Instruction) -> None:
    """Up to 3.11: a name of the class, or of a function around it."""
    names = namespace(tx, i)
    tx.push(names[i.argval] if i.argval in names else tx.load_cell(i.argval))


@handles("LOAD_LOCALS")
def load_locals(tx: Tx, i: Instruction) -> None:
    """From 3.12 on it stands before LOAD_FROM_DICT_OR_DEREF, which takes it from the stack."""
    tx.push(NamespaceVariable(names=namespace(tx, i)))


@handles("LOAD_FROM_DICT_OR_DEREF")
def load_from_dict_or_deref(tx: Tx, i: Instruction) -> None:
    found = tx.pop()
    if not isinstance(found, NamespaceVariable):
        tx.unsupported("GB0001", f"a name that is looked up in {describe(found)}")
    tx.push(found.names[i.argval] if i.argval in found.names else tx.load_cell(i.argval))
