"""Decides what becomes a buffer: a pointwise result stays an expression in its readers until a rule realizes it.

Input: a node and its Lazy value, as lowering reaches it. The first rule that applies decides; each has a code and a
reason, which the event log shows. A realized value costs no memory if the kernel of its readers computes it: fusion
keeps it in a register.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stage3_lowering.lowering.one_hot import only_picked
from stage3_lowering.lowering.values import Lazy
from stage_contracts import config
from stage_contracts import dtype as dt
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.device import CPU
from stage_contracts.graph import Node
from stage_contracts.symbolic import hinted
from stage_contracts.tensor_meta import TensorMeta

COPIES = 24  # instructions that readers may repeat in all: fewer than a store and a load of memory cost
# On a GPU a store and two loads of a float take as long as about 50 operations: it does more of these for each byte.
ON_GPU = 3
FULL_READS = 2  # buffers that each reader would load where one load of the result would do
LARGEST = 48  # instructions of one expression: more are slow to compile and spill registers
EXPENSIVE = 16  # as cpp_ops.COSTS counts: an exponential is, a division is not

PARTS = 8  # of a cat that is computed under masks; each point passes through all of them
INLINED = ("pointwise", "reduction", "view", "identity", "creation", "random", "indexing", "scan")
NAMED = ("constant_pad", "cumprod", "cummax", "cummin")  # of other kinds, but computed by nests too


@dataclass(frozen=True)
class Rule:
    code: str
    reason: str
    applies: Callable[[Node, Lazy], bool]


def readers(node: Node) -> list[Node]:
    """The calls that read a node's elements, also through views of it."""
    found = []
    for user in node.users:
        row = _row(user)
        found += (
            readers(user) if row and row.kind in ("view", "identity") and row.name != "reshape" else [user]
        )
    return found


def full_readers(node: Node) -> list[Node]:
    """Those that read every element: not those that pick one of each row."""
    return [user for user in readers(node) if not only_picked(user)]


def _row(node: Node) -> Any:
    core = node.op == "call_function" and getattr(node.target, "namespace", "") == "core"
    return CORE_OPS.get(node.target.name) if core else None


def _inlines(user: Node) -> bool:
    """Whether a reader is computed by a nest, so that its operands can be computed inside it."""
    row = _row(user)
    if row is None:
        return False
    if row.name in PLACED:
        return is_placed_by_a_kernel(user)
    return row.kind in INLINED or row.name in NAMED or is_short_cat(user)


@dataclass(frozen=True)
class Placed:
    op: str  # one of loop_ir.AT_PLACES
    on_cpu: tuple[dt.DType, ...]
    values: int = 3  # where its arguments have them; an index of places comes before, or there is none


REAL = tuple(d for d in dt.DTYPES.values() if not d.is_complex)
# core operator -> how a nest does it. Sums of halves are rounded once, by the eager kernel.
PLACED = {
    "scatter": Placed("store_last", REAL),
    "scatter_add": Placed("atomic_add", (dt.float32, dt.float64, dt.int64, dt.int32)),
    "slice_scatter": Placed("store_last", REAL, values=1),
}


def is_placed_by_a_kernel(node: Node) -> bool:
    """Whether a kernel of its own adds at places, or replaces what is there. On a GPU: adds to a tensor that is new, by
    atomic additions, in another order at each run; everything else is a call, which may add to a tensor where it is.
    On a CPU: one after the other.
    """
    row = _row(node)
    placed = PLACED.get(row.name) if row is not None else None
    if placed is None or not _is_of_one_dtype(node, placed):
        return False
    if node.val.device == CPU:
        return node.val.dtype in placed.on_cpu
    new = placed.op == "atomic_add" and _named(node.args[0], "full")
    return new and node.val.dtype is dt.float32 and not config.current().runtime.deterministic


def _is_of_one_dtype(node: Node, placed: Placed) -> bool:
    """Whether it puts values of the tensor's dtype there, and at least one."""
    by_index = placed.values == 3
    if node.kwargs or (by_index and len(node.args) != 4):
        return False
    start, values = node.args[0].val, node.args[placed.values].val
    index = [node.args[2].val] if by_index else []
    empty = any(type(n) is int and n == 0 for meta in (start, values, *index) for n in meta.shape)
    alike = start.dtype is values.dtype is node.val.dtype and all(meta.dtype is dt.int64 for meta in index)
    return alike and start.ndim > 0 and not empty


def is_short_cat(node: Node) -> bool:
    """Whether `node` is a cat of few enough parts to be computed under masks."""
    return (row := _row(node)) is not None and row.name == "cat" and len(node.args[0]) <= PARTS


def _read_by_a_call(node: Node, value: Lazy) -> bool:
    return any(
        user.op == "call_function" and user.target is not operator.getitem and not _inlines(user)
        for user in readers(node)
    )


def _is_repeated_for_a_scatter(node: Node, value: Lazy) -> bool:
    """Places of rows, one for each row: as a view, with a step of 0 along the rows, they are not written for each
    element, and the call moves whole rows."""
    found = [user for user in _beyond_reshapes(node) if _row(user)]
    return any(_row(user).name.startswith("scatter") and not is_placed_by_a_kernel(user) for user in found)


def _is_output(node: Node, value: Lazy) -> bool:
    return any(user.op == "output" for user in node.users) and len(readers(node)) > 1


def _is_reshaped(node: Node, value: Lazy) -> bool:
    return any(
        (row := _row(user)) is not None and row.name == "reshape" and changes_shape(node, user)
        for user in readers(node)
    )


def is_written_turned(node: Node) -> bool:
    """Whether a pointwise node's one reader is a permute whose result is reshaped: that is written, not the node's."""
    row = _row(node)
    if row is None or row.kind != "pointwise" or len(node.users) != 1:
        return False
    (turned,) = node.users
    return _named(turned, "permute") and any(
        is_reshape(user) and changes_shape(turned, user) for user in turned.users
    )


def _named(node: Node, name: str) -> bool:
    return (row := _row(node)) is not None and row.name == name


def is_reshape(node: Node) -> bool:
    return _named(node, "reshape")


def changes_shape(node: Node, reshaped: Node) -> bool:
    """Whether a reshape does more than add and remove dimensions of size 1."""
    return _long(reshaped.val) != _long(node.val)


def _long(meta: TensorMeta) -> list[str]:
    """The dimensions that are in an index, not those of size 1; as text, which assumes no value of open sizes."""
    return [str(size) for size in meta.shape if not (type(size) is int and size == 1)]


def _repeats(node: Node, value: Lazy) -> bool:
    count, cheaper = len(full_readers(node)), ON_GPU if node.val.device != CPU else 1
    # a mask of indices alone takes no memory traffic
    much = value.reads and count * value.size > COPIES * cheaper
    return count > 1 and (value.cost >= EXPENSIVE * cheaper or bool(much))


def _is_broadcast(node: Node, value: Lazy) -> bool:
    own = hinted(node.val.numel)
    found = _beyond_reshapes(node) if node.val.device != CPU else readers(node)
    return value.cost >= EXPENSIVE and any(
        isinstance(user.val, TensorMeta) and hinted(user.val.numel) > own and _row(user).kind == "pointwise"
        for user in found
        if _row(user)
    )


def _beyond_reshapes(node: Node) -> list[Node]:
    """The readers, also those that read it with dimensions of size 1 added."""
    found = []
    for user in readers(node):
        plain = is_reshape(user) and not changes_shape(node, user)
        found += _beyond_reshapes(user) if plain else [user]
    return found


def _reads_much(node: Node, value: Lazy) -> bool:
    return len(full_readers(node)) > 1 and len(value.reads) > FULL_READS


def _is_read_elsewhere(node: Node, value: Lazy) -> bool:
    """Whether, on a GPU, a value with a border is read several times, each time moved: no readers share an element."""
    if node.val.device == CPU or not value.reads:
        return False
    times = [_times_read(user) for user in node.users if _named(user, "constant_pad")]
    return max(times, default=1) > 1 and max(times) * value.size > COPIES * ON_GPU


def _times_read(node: Node) -> int:
    """The calls that compute with a value or with what views show of it."""
    moves = lambda row: row is not None and row.kind in ("view", "identity")  # noqa: E731
    return sum(_times_read(user) if moves(_row(user)) else 1 for user in node.users)


def _is_large(node: Node, value: Lazy) -> bool:
    return value.size > LARGEST and not _is_narrowed(node)


def _is_narrowed(node: Node) -> bool:
    """Whether all that reads a float is its cast to a half, on a GPU: that is written instead, in half the bytes."""
    if len(node.users) != 1 or node.val.device == CPU:
        return False
    (user,) = node.users
    return _named(user, "cast") and user.val.dtype in (dt.float16, dt.bfloat16)


RULES = (
    Rule("external_call", "a call takes arrays, not expressions", _read_by_a_call),
    Rule("external_call", "a scatter takes each row's place once", _is_repeated_for_a_scatter),
    Rule("output", "it is returned, and others can read what is returned", _is_output),
    Rule("reshaped", "in memory a reshape costs nothing, in an index divisions", _is_reshaped),
    Rule("repeated_work", "each of several readers would compute it again", _repeats),
    Rule("broadcast", "its reader repeats each element, and would compute it as often", _is_broadcast),
    Rule("repeated_reads", "each of several readers would load all it is made of", _reads_much),
    Rule("read_elsewhere", "each of several readers computes it at places of its own", _is_read_elsewhere),
    Rule("large", "an expression this long compiles slowly and needs more than the registers", _is_large),
)  # fmt: skip


def why_realize(node: Node, value: Lazy) -> Rule | None:
    """The rule that makes `value` a buffer, or None: it stays an expression."""
    if is_written_turned(node):
        return None
    return next((rule for rule in RULES if rule.applies(node, value)), None)
