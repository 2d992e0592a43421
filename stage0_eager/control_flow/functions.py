"""Branches and loops decided by tensors, as functions: what compiled code keeps as one operator with subgraphs.

Input: a predicate, Python functions, and tensors in nested tuples, lists and dicts. Eagerly they are Python's own `if`,
`while` and `for`, so the tape sees what runs. Names and signatures are torch's (torch.cond, torch.while_loop, and
torch._higher_order_ops.scan and map), and so are the messages of what they refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stage0_eager.control_flow import gradients as control_flow_gradients  # noqa: F401  (attaches the rules)
from stage0_eager.control_flow.operators import apart, scan_loop
from stage0_eager.functions import rearranging, shape
from stage0_eager.state import STATE
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.vmap import Batcher
from stage0_eager.utils.pytree import form_of, leaves_of, rebuilt


def cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: Sequence[Any] = ()) -> Any:
    """`true_fn(*operands)` if `pred` (a number, or a tensor of one element) is true, else `false_fn(*operands)`.

    Operands are tensors in nested tuples, lists and dicts. Both functions must return alike, in form, shapes and
    dtypes, and write to no operand: compiled code relies on it, and checks it; eagerly only one of them runs.
    Raises RuntimeError for another predicate, for what is not callable, and for operands that are no tensors.
    """
    if not isinstance(pred, (bool, int, float, Tensor)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(pred, Tensor):
        return true_fn(*operands) if pred else false_fn(*operands)
    if pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not isinstance(operands, (tuple, list)) or not _all_tensors(operands):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor leaves, "
            f"but got {operands}."
        )
    level = STATE.interpreter
    if isinstance(level, Batcher) and level.batched(pred):  # every example its own way: both, and a choice
        both = [_pure("cond", branch, *operands) for branch in (true_fn, false_fn)]
        _must_match("cond", "the true branch's result", both[0], "the false branch's", both[1])
        chosen = [c.where(pred, a, b) for a, b in zip(leaves_of(both[0]), leaves_of(both[1]), strict=True)]
        return rebuilt(both[0], chosen)
    return _new(_pure("cond", true_fn if bool(pred) else false_fn, *operands), operands)


def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: Sequence[Any]) -> tuple:
    """`body_fn(*carried)` again and again while `cond_fn(*carried)`; what is carried keeps form, shapes and dtypes.

    Carried are tensors, or ints. Raises RuntimeError when the body returns something else, or writes to what it got.
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)) or not all(
        isinstance(t, (Tensor, int)) for t in leaves_of(carried_inputs)
    ):
        raise RuntimeError(
            "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only consists of tensor or "
            f"int leaves, but got {carried_inputs}."
        )
    carried = tuple(carried_inputs)
    while bool(_pure("while_loop", cond_fn, *carried)):
        made = _pure("while_loop", body_fn, *carried)
        made = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        _must_match("while_loop", "carried_inputs", carried, "body_fn's results", made)
        carried = made
    return _new(carried, carried_inputs)


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """`carry, y = combine_fn(carry, x)` for each slice x of `xs` along `dim`: the last carry, and all y stacked.

    init, xs and what the function returns are tensors in nested tuples, lists and dicts; carries keep form, shapes and
    dtypes. reverse: from the last slice to the first. The stacks lie along `dim`. An RNN is a scan.
    Raises RuntimeError for what is not so, as torch does.
    """
    rows = leaves_of(xs)
    if not rows:
        return init, []
    state = leaves_of(init)
    check_scan(combine_fn, state, rows, dim, reverse)
    form: list[Any] = []  # of what one turn gives

    def combine(*flat: Tensor) -> tuple[Tensor, ...]:
        carry = rebuilt(init, flat[: len(state)])
        made = _pure("scan", combine_fn, carry, rebuilt(xs, flat[len(state) :]))
        if not isinstance(made, tuple) or len(made) != 2:
            raise RuntimeError(
                f"scan's combine_fn must return a pair (carry, y), but got {type(made).__name__}."
            )
        _must_match("scan", "init", carry, "next carry", made[0])
        form[:] = made[1:]
        return (*leaves_of(made[0]), *leaves_of(made[1]))

    dim = dim % rows[0].ndim
    along = [rearranging.movedim(x, dim, 0) for x in rows]
    made = scan_loop(combine, [*state, *along], len(state), len(rows), reverse, shape.stack)
    stacks = [rearranging.movedim(y, 0, dim) if dim < y.ndim else y for y in made[len(state) :]]
    return rebuilt(init, apart(made[: len(state)], [*state, *along])), rebuilt(form[0], stacks)


def map(f: Callable, xs: Any, *args: Any) -> Any:
    """`f(x, *args)` for each slice x of `xs` along dimension 0; what it returns, stacked along a new dimension 0.

    Raises RuntimeError for xs that hold anything but tensors, of one leading size that is not 0.
    """
    rows = leaves_of(xs)
    check_map(rows)
    form: list[Any] = []

    def call(*flat: Tensor) -> tuple[Tensor, ...]:
        form[:] = [_pure("map", f, rebuilt(xs, flat), *args)]
        return tuple(leaves_of(form[0]))

    made = scan_loop(call, rows, 0, len(rows), False, shape.stack)
    return rebuilt(form[0], made)


# ---- what is refused -------------------------------------------------------------------------------------------------


def check_scan(combine_fn: Any, state: list, rows: list, dim: Any, reverse: Any) -> None:
    """Raise RuntimeError for what scan cannot take: leaves of init and xs, the dimension, the direction."""
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise RuntimeError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if not state:
        raise RuntimeError("scan() operator requires init leaves.")
    for name, leaves in (("init", state), ("xs", rows)):
        for leaf in leaves:
            if not isinstance(leaf, Tensor):
                raise RuntimeError(f"All {name} leaves must be a Tensor but got {leaf}")
    place = dim % rows[0].ndim if rows[0].ndim else 0
    if any(x.ndim <= place or x.shape[place] == 0 for x in rows):
        raise RuntimeError(
            "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0"
        )
    if len({x.shape[place] for x in rows}) > 1:
        raise RuntimeError(
            f"All xs leaves must have one scan dimension size, but got {[x.shape for x in rows]}"
        )


def check_map(rows: list) -> None:
    """Raise RuntimeError for what map cannot go over."""
    if not all(isinstance(t, Tensor) for t in rows):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {rows}.")
    shapes = [x.shape for x in rows]
    if not rows or any(not shape for shape in shapes) or shapes[0][0] == 0:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    if any(shape[0] != shapes[0][0] for shape in shapes):
        raise RuntimeError(f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}.")


def _all_tensors(tree: Any) -> bool:
    return all(isinstance(leaf, Tensor) for leaf in leaves_of(tree))


def _pure(name: str, function: Callable, *args: Any) -> Any:
    """`function(*args)`. Raises RuntimeError when it has written to a tensor it was given."""
    tensors = [leaf for leaf in leaves_of(args) if isinstance(leaf, Tensor) and not leaf.is_inference()]
    before = [t.version for t in tensors]
    result = function(*args)
    for position, (tensor, version) in enumerate(zip(tensors, before, strict=True)):
        if tensor.version != version:
            raise RuntimeError(
                f"{name}: {getattr(function, '__name__', 'the function')} might be modifying the input! It wrote to "
                f"tensor {position} of its arguments; write to a clone, or return the new value"
            )
    return result


def _new(result: Any, operands: Any) -> Any:
    """The result, its tensors in memory of their own: as compiled code has them."""
    return rebuilt(result, apart(leaves_of(result), leaves_of(operands)))


def _must_match(name: str, first: str, wanted: Any, second: str, got: Any) -> None:
    """Raise RuntimeError unless two trees have one form, and their tensors one shape and dtype."""
    if form_of(wanted) != form_of(got):
        raise RuntimeError(f"{name}: expected {second} to have the form of {first}, {wanted}, but got {got}")
    described = [[_described(leaf) for leaf in leaves_of(tree)] for tree in (wanted, got)]
    if described[0] != described[1]:
        raise RuntimeError(
            f"Expected {first} and {second} to have same metadata but found\n"
            + "\n".join(
                f"pair[{i}] differ in {a} and {b}" for i, (a, b) in enumerate(zip(*described)) if a != b
            )
        )


def _described(leaf: Any) -> str:
    if isinstance(leaf, Tensor):
        return f"{leaf.dtype.name}[{', '.join(str(s) for s in leaf.shape)}] on {leaf.device}"
    return type(leaf).__name__
