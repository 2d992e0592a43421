"""`x.data` in a captured function: a detach node as long as nothing in the frame is written in place.

Input: the tensor whose data is read. Eager's `.data` shares memory but no version counter, so a write through it does
not spoil gradients that are still to come; a graph cannot say that. A frame that writes breaks at the read instead, and
so does one that lets out what may be a view of the data; the data itself is read again where Python gets it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from stage0_eager import TABLE
from stage1_capture.state.graph_builder import OutputGraph, Restart
from stage1_capture.state.machine import Tx
from stage_contracts.graph import Node

if TYPE_CHECKING:
    from stage1_capture.variables.tensor import TensorVariable


def read_data(tx: Tx, tensor: TensorVariable) -> TensorVariable:
    """`tensor.data`. The caller has asked `tx.output.options.data_is_written` before."""
    found = cast("TensorVariable", tx.call(tx.wrap(TABLE["cutaway.detach"], None), [tensor], {}))
    tx.output.data_of[found] = tensor
    return found


def note_write(output: OutputGraph) -> None:
    """To be called at each write to a tensor."""
    if output.data_of:
        raise Restart(replace(output.options, data_is_written=True))


def note_escape(output: OutputGraph, tensor: TensorVariable) -> None:
    """To be called for each tensor that Python gets, but data itself."""
    sources = {data.node for data in output.data_of}
    if sources and tensor.node is not None and _may_share(tensor.node, sources, set()):
        raise Restart(replace(output.options, data_is_written=True))


_SHARING = ("view", "identity")  # kinds of core operators


def _may_share(node: Node, sources: set[Node | None], seen: set[Node]) -> bool:
    if node in sources:
        return True
    name = getattr(node.target, "name", "")
    by_core = TABLE.get(f"core.{name}")  # one of another name may be a view, for all that is known here
    computed = by_core is not None and by_core.core is not None and by_core.core.kind not in _SHARING
    if node in seen or computed or name == "clone":
        return False
    seen.add(node)
    return any(_may_share(each, sources, seen) for each in node.all_input_nodes)
