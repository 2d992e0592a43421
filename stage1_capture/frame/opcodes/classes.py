"""The instructions of class bodies: names that are looked up in the namespace first.

Input: these enter the table of frame/opcodes/shared.py. `tx.namespace` is what the class is made of when its body has
run.
"""

from __future__ import annotations

from stage1_capture.frame.bytecode import Instruction
from stage1_capture.frame.opcodes.shared import Tx, handles, operations
from stage1_capture.variables.base import Variable, from_constant
from stage1_capture.variables.mapping import ConstDictVariable

Namespace = dict[str, Variable]


class NamespaceVariable(Variable):
    """The namespace itself, between two instructions."""

    names: Namespace


def namespace(tx: Tx, i: Instruction) -> Namespace:
    if tx.namespace is None:
        tx.unsupported("GB0001", f"the instruction {i.opname} outside a class")
    return tx.namespace


@handles("STORE_NAME")
def store_name(tx: Tx, i: Instruction) -> None:
    namespace(tx, i)[i.argval] = tx.pop()


@handles("DELETE_NAME")
def delete_name(tx: Tx, i: Instruction) -> None:
    if i.argval not in namespace(tx, i):
        tx.throw(NameError, f"name {i.argval!r} is not defined", name=from_constant(i.argval))
    del namespace(tx, i)[i.argval]


@handles("SETUP_ANNOTATIONS")
def setup_annotations(tx: Tx, i: Instruction) -> None:
    if tx.namespace is not None:
        tx.namespace.setdefault("__annotations__", ConstDictVariable({}))


def _in_taken(tx: Tx, i: Instruction, found: Variable) -> Variable:
    if not isinstance(found, NamespaceVariable):
        tx.unsupported("GB0001", f"a name that is looked up in {found.describe()}")
    return found.names.get(i.argval) or tx.load_cell(i.argval)


# Up to 3.11 LOAD_CLASSDEREF finds a name of the class or of a function around it; from 3.12 on
# LOAD_FROM_DICT_OR_DEREF does, which takes what LOAD_LOCALS pushed.
operations(
    {
        "LOAD_NAME": (0, lambda tx, i: namespace(tx, i).get(i.argval) or tx.load_global(i.argval)),
        "LOAD_CLASSDEREF": (0, lambda tx, i: namespace(tx, i).get(i.argval) or tx.load_cell(i.argval)),
        "LOAD_LOCALS": (0, lambda tx, i: NamespaceVariable(names=namespace(tx, i))),
        "LOAD_FROM_DICT_OR_DEREF": (1, _in_taken),
    }
)
