"""Rematerialization: decides which values the backward may recompute. A minimum cut then chooses what to save.

Input: a joint graph in core operators, and `config.autograd.activation_memory_budget`. Random bits are a function of
the state at entry and an index, so a second draw gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from stage2_autograd.aliasing import copies_an_input
from stage2_autograd.core_calls import core_name, kind_of
from stage2_autograd.devices import on_gpu
from stage2_autograd.partition.kept_on_a_gpu import kept_on_a_gpu, why_kept
from stage2_autograd.partition.min_cut import Problem, ancestors, bytes_of, minimum_cut, problem
from stage2_autograd.partition.split import split
from stage_contracts import config
from stage_contracts.graph import Node, meta_of
from stage_contracts.joint import JointGraph, Partition, bytes_at_hints
from stage_contracts.tensor_meta import TensorMeta
from stage_contracts.unbacked import has_effect

# Kinds of operators that the lowering fuses into the readers of their results, so that a second run costs a few
# instructions per element and no memory traffic. All others run once, unless the budget requires more.
FUSED_KINDS = frozenset(("pointwise", "view", "creation", "random", "identity", "movement"))


# Among those, functions that take tens of instructions per element, so that a second run costs time on a CPU. An
# exponential, a logarithm, a sine or a cosine in SIMD lanes takes less time than writing and loading its result. On a
# GPU all of them do.
TRANSCENDENTAL = frozenset(
    "expm1 log10 log1p tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc".split()
)
SPARE = 1 / 6  # how much more than the fewest bytes may be saved so that these run only once
SCORES = 4  # attention recomputes a product that is at least this many times larger than its operands


def min_cut(joint: JointGraph) -> Partition:
    """Save as few bytes as possible if only cheap operators are recomputed; with a budget below 1, expensive ones, too.

    The budget b is between the bytes that this saves by default (b = 1) and the smallest possible number (b = 0:
    everything is recomputed from the inputs): at most least + b * (default - least) bytes are saved.
    """
    budget = config.current().autograd.activation_memory_budget
    if not 0 <= budget <= 1:
        raise ValueError(f"autograd.activation_memory_budget is {budget}; expected a number from 0 to 1")
    task = problem(joint)
    repeated: Collection[Node] = _within(task, budget) if budget < 1 else ()
    once = _spared(task) | kept_on_a_gpu(task) if budget == 1 else set()
    chosen = minimum_cut(task, may_run_again(repeated, once))
    return split(joint, {node: _reason(node, repeated, once) for node in chosen})


def may_run_again(repeated: Collection[Node] = (), once: Collection[Node] = ()) -> Callable[[Node], bool]:
    """Whether an operator may run again: it is fused away, or it computes attention's scores, or it is in `repeated`
    because of the budget. Operators in `once` do not run again, because there are enough bytes to save their
    results."""
    return lambda node: (
        node.op == "call_function"
        and node not in once
        and not copies_an_input(node)
        and (
            kind_of(node) in FUSED_KINDS
            or node in repeated
            or is_score_matrix(node)
            or is_gathered_input(node)
        )
    )


def _spared(task: Problem) -> set[Node]:
    """Transcendental functions that would run again with the fewest bytes: as many of them as the spare bytes can save,
    from the last one back. (The last results are kept for the shortest time.)"""

    def cut(once: Collection[Node]) -> list[Node]:
        return minimum_cut(task, may_run_again((), once))

    def total(saved: Iterable[Node]) -> int:
        return sum(task.sizes[node] for node in saved)

    if on_gpu(task.values):
        return set()
    fewest = cut(())
    allowed = (1 + SPARE) * total(fewest)
    again = _run_again(task, fewest)
    expensive = [n for n in reversed(task.values) if n in again and core_name(n) in TRANSCENDENTAL
                 and not _is_made_of_scores(n)]  # fmt: skip
    low, high = 0, len(expensive)  # the more results are saved, the more bytes
    while low < high:
        middle = (low + high + 1) // 2
        fits = total(cut(set(expensive[:middle]))) <= allowed
        low, high = (middle, high) if fits else (low, middle - 1)
    return set(expensive[:low])


def _run_again(task: Problem, saved: Collection[Node]) -> set[Node]:
    """The forward values that the backward recomputes if these values are saved."""
    found: set[Node] = set()
    stack = list(task.read)
    while stack:
        node = stack.pop()
        if node not in found and node not in saved:
            found.add(node)
            stack += node.all_input_nodes
    return found & task.forward


def is_score_matrix(node: Node) -> bool:
    """Whether this is the product of queries and keys, and much larger than both.

    Flash attention (Dao et al., 2022) recomputes it in the backward. We do the same if that saves three quarters. On a
    GPU we always do: the kernels that never write it read less memory, and a product of this size costs little there.
    """
    if kind_of(node) != "contraction" or not node.meta.get("pattern", "").startswith("attention"):
        return False
    if on_gpu([node]):
        return not any(kind_of(n) == "contraction" for n in _above_in_pattern(node))
    return bytes_of(node) >= SCORES * sum(map(bytes_of, node.all_input_nodes))


def _above_in_pattern(node: Node) -> set[Node]:
    """What a node of a marked pattern is computed from inside the pattern."""
    found: set[Node] = set()
    stack = [node]
    while stack:
        above = [n for n in stack.pop().all_input_nodes if n.meta.get("pattern") == node.meta["pattern"]]
        stack += (n for n in above if n not in found)
        found.update(above)
    return found


def is_gathered_input(node: Node) -> bool:
    """Whether this is an input that all ranks have a part of, gathered: the shards of a parameter.

    To gather it again in the backward costs time on the link, and saves the whole parameter between (ZeRO, stage 3;
    Rajbhandari et al., 2020). Every rank decides alike, so the order of collectives stays one.
    """
    if core_name(node) != "all_gather":
        return False
    source = node.all_input_nodes[0]
    while source.op == "call_function" and core_name(source) in ("cast", "reshape"):
        source = source.all_input_nodes[0]
    return source.op == "placeholder"


def _is_made_of_scores(node: Node) -> bool:
    """Whether it belongs to attention whose scores are computed again: saving it would save nothing."""
    return node.meta.get("pattern", "").startswith("attention") and any(
        is_score_matrix(n) for n in ancestors([node])
    )


def _within(task: Problem, budget: float) -> set[Node]:
    """The fewest expensive operators to repeat such that the bytes saved stay within the budget.

    They are taken in the order of their arithmetic per byte. The more are taken, the fewer bytes are saved.
    """
    expensive = sorted(
        (
            n
            for n in task.values
            if n.op == "call_function" and kind_of(n) not in FUSED_KINDS and not _unknown(n)
        ),
        key=lambda n: work(n) / max(1, _result_bytes(n)),
    )

    def saved(count: int) -> int:
        return sum(task.sizes[node] for node in minimum_cut(task, may_run_again(set(expensive[:count]))))

    most, least = saved(0), saved(len(expensive))
    allowed = least + budget * (most - least)
    low, high = 0, len(expensive)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if saved(middle) <= allowed else (middle + 1, high)
    return set(expensive[:low])


def _unknown(node: Node) -> bool:
    """Whether it is a user-defined operator, for which the effect and the cost of a second run are unknown, or one that
    other ranks wait for."""
    return getattr(node.target, "opaque", False) or has_effect(node)


def work(node: Node) -> int:
    """Roughly the number of multiplications and additions of one run. For a contraction: from the sizes of its operands
    and its result. For all other operators: the number of elements that they read."""
    tensors = [n for n in node.all_input_nodes if isinstance(n.val, TensorMeta)]
    reads = [bytes_of(n) // meta_of(n).dtype.itemsize for n in tensors]
    if kind_of(node) != "contraction" or len(reads) < 2:
        return sum(reads)
    out = max(1, bytes_of(node) // meta_of(node).dtype.itemsize)
    return 2 * int((reads[0] * reads[1] * out) ** 0.5)  # (m k) (k n) (m n) = (m k n) ** 2


def _result_bytes(node: Node) -> int:
    return bytes_of(node) if not isinstance(node.val, tuple) else sum(map(bytes_at_hints, node.val))


def _reason(node: Node, repeated: Collection[Node], once: Collection[Node]) -> str:
    if node.op == "placeholder":
        return "an input"
    if node in once:
        return why_kept(node) or "expensive to compute again, and there are bytes to spare"
    if not may_run_again(repeated)(node):
        return f"{kind_of(node) or 'one of several results'}: expensive to compute again"
    return "fewer bytes than what it is made from"
