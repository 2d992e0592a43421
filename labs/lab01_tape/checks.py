"""What lab 1 asks of a tape: what is noted, the order of the walk back, sums where a value was used or repeated.

Input: the learner's module, which is a small array library of its own. Gradients are compared with finite differences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from ..answer import Answer
from ..checks import Wrong
from ..hidden import hidden_check
from ..programs import short

STEP = 1e-6
LIMIT = 1e-5  # between a gradient and a central difference, relative to 1 + its size


def tensor(answer: Answer, data: Any, requires_grad: bool = True) -> Any:
    return answer.Tensor(data, requires_grad)


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 2, shape)


def calls_are_noted(answer: Answer) -> None:
    """A result requires grad if an operand does: then its node has the operator's name and operands, else none."""
    x, y = tensor(answer, [1.0, 2.0]), tensor(answer, [3.0, 4.0], False)
    out = answer.mul(x, y)
    if out.data.tolist() != [3.0, 8.0]:
        raise Wrong(f"[1, 2] * [3, 4] is {out}", "[3, 8]", read="page.md#the-tape")
    if not out.requires_grad or out.node is None or (out.node.name, out.node.args) != ("mul", (x, y)):
        raise Wrong(f"x * y has the node {out.node}", "Node('mul', (x, y)), because x requires grad",
                    read="page.md#the-tape")  # fmt: skip
    if (flat := answer.mul(y, y)).node is not None or flat.requires_grad:
        raise Wrong(f"y * y has the node {flat.node}", "no node: nothing in it requires grad",
                    read="page.md#the-tape")  # fmt: skip


def order_is_right(answer: Answer) -> None:
    """`in_order` gives what root depends on and what requires grad: operands before results, each once."""
    x = tensor(answer, 2.0)
    a = answer.exp(x)
    b = answer.sin(a)
    c = a * b + answer.mul(tensor(answer, 3.0, False), x)
    names = {x: "x", a: "exp(x)", b: "sin(exp(x))", c: "the root"}
    order = answer.in_order(c)
    found = [names.get(t, t.node.name if t.node else "a leaf") for t in order]
    if not all(t.requires_grad for t in order):
        raise Wrong(f"the order has {found}", "only tensors that require grad", read="page.md#the-walk-back")
    if len({id(t) for t in order}) != len(order):
        raise Wrong(f"the order is {found}", "each tensor once", read="page.md#the-walk-back")
    place = {t: k for k, t in enumerate(order)}
    late = [
        t for t in order if t.node and any(place.get(a, -1) > place[t] for a in t.node.args if a in place)
    ]
    if late or len(order) != 6 or order[-1] is not c:
        raise Wrong(f"the order is {found}", "six tensors, each after its operands, the root last",
                    read="page.md#the-walk-back")  # fmt: skip


def shapes_fit(answer: Answer) -> None:
    """`fit` sums what broadcasting repeated: dimensions in front, and sizes 1."""
    for given, shape in (((3, 4), (4,)), ((3, 4), (3, 1)), ((2, 3, 4), (1, 4)), ((5,), ()), ((2, 3), (2, 3)),
                         ((2, 1, 3), (1, 3)), ((0, 3), (1, 3)), ((2, 3), (1, 1))):  # fmt: skip
        data = drawn(*given)
        got = answer.fit(tensor(answer, data), shape)
        lead = len(given) - len(shape)
        wanted = data.sum(tuple(range(lead)))
        for axis, size in enumerate(shape):
            if size == 1:
                wanted = wanted.sum(axis, keepdims=True)
        if got.shape != shape or not np.allclose(got.data, wanted):
            raise Wrong(f"a gradient of shape {given} for an operand of shape {shape} becomes {short(got.data)}",
                        short(wanted), read="page.md#broadcasting")  # fmt: skip


def chains_are_right(answer: Answer) -> None:
    """The gradient of a chain of operators is the product of their derivatives."""
    x = tensor(answer, [0.3, -1.2])
    got = answer.gradients(answer.sin(x * 2.0) * 3.0)
    _same(got.get(x), 6 * np.cos(2 * x.data), "sin(2 x) * 3", "page.md#the-walk-back")


def uses_add_up(answer: Answer) -> None:
    """A value that is used twice gets the sum of both gradients."""
    for text, function, wanted in (
        ("x * x", lambda x: x * x, lambda x: 2 * x),
        ("x + x", lambda x: x + x, lambda x: 0 * x + 2),
        (
            "exp(x) * sin(x)",
            lambda x: answer.exp(x) * answer.sin(x),
            lambda x: np.exp(x) * (np.sin(x) + np.cos(x)),
        ),
    ):
        x = tensor(answer, [0.5, 2.0])
        _same(answer.gradients(function(x)).get(x), wanted(x.data), f"{text}, where x is used twice",
              "page.md#the-walk-back")  # fmt: skip


def each_node_once(answer: Answer) -> None:
    """Each call on the tape is differentiated once, however many ways lead to it."""
    x, depth, asked = tensor(answer, 1.0), 12, Counter()  # type: tuple[Any, int, Counter[str]]
    y = x
    for _ in range(depth):
        y = y + y
    row = answer.TABLE["add"]

    def counted(*args: Any) -> tuple:
        asked["add"] += 1
        return row.derivative(*args)

    answer.TABLE["add"] = row._replace(derivative=counted)
    try:
        got = answer.gradients(y).get(x)
    finally:
        answer.TABLE["add"] = row
    _same(got, np.array(2.0**depth), f"{depth} doublings", "page.md#the-walk-back")
    if asked["add"] != depth:
        raise Wrong(f"{depth} doublings asked for {asked['add']} derivatives", f"{depth}: a node hands its gradient on "
                    "when all that used its result have handed in theirs", read="page.md#the-walk-back")  # fmt: skip


def repeats_are_summed(answer: Answer) -> None:
    """An operand that was broadcast gets a gradient of its own shape."""
    for left, right in (((3, 4), (4,)), ((3, 1), (1, 4)), ((2, 3), ()), ((1,), (5,)), ((0, 3), (3,))):
        x, y = tensor(answer, drawn(*left)), tensor(answer, drawn(*right, seed=1))
        got = answer.gradients(x * y)
        for name, operand, other in (("x", x, y), ("y", y, x)):
            wanted = _unbroadcast(np.broadcast_to(other.data, (x.data * y.data).shape), operand.shape)
            _same(got.get(operand), wanted, f"x * y with shapes {left} and {right}: the gradient of {name}",
                  "page.md#broadcasting")  # fmt: skip


def differences_agree(answer: Answer) -> None:
    """Every operator's gradient is that of finite differences: odd sizes, transposed or strided memory, no elements."""
    a = answer
    programs: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
        "(x + y) * y / x": (lambda x, y: (x + y) * y / x, (drawn(3, 5), drawn(5, seed=1))),
        "x ** 3 - log(x)": (lambda x: x**3 - a.log(x), (drawn(7)[::2],)),
        "tanh(x @ y + z)": (
            lambda x, y, z: a.tanh(x @ y + z),
            (drawn(4, 3).T, drawn(4, 5, seed=1), drawn(5, seed=2)),
        ),
        "relu(x - 1) * sin(x)": (lambda x: a.relu(x - 1.0) * a.sin(x), (drawn(3, 3),)),
        "total(exp(x), (0,))": (lambda x: a.total(a.exp(x), (0,)), (drawn(5, 2)[:, ::-1],)),
        "cos(x.T) * total(x)": (lambda x: a.cos(x.T) * a.total(x), (drawn(2, 3),)),
        "no rows": (lambda x, y: a.exp(x) * y, (drawn(0, 3), drawn(3, seed=1))),
    }
    for text, (function, arrays) in programs.items():
        inputs = [tensor(answer, array) for array in arrays]
        got = answer.gradients(function(*inputs))
        for k, x in enumerate(inputs):
            _same(got.get(x), _difference(answer, function, arrays, k), f"{text}: the gradient of argument {k}",
                  "page.md#the-walk-back")  # fmt: skip


def flat_parts_are_left_out(answer: Answer) -> None:
    """What root does not depend on, or only through something flat, has no gradient; NaN stays NaN."""
    x, y = tensor(answer, [1.0, np.nan]), tensor(answer, 5.0)
    got = answer.gradients(answer.step(x) * y)
    if x in got and np.any(got[x].data != 0):
        raise Wrong(
            f"step(x) * y gives x the gradient {got[x]}", "none: a step is flat", read="page.md#the-walk-back"
        )
    _same(got.get(y), np.array(1.0), "step(x) * y: the gradient of y", "page.md#the-walk-back")
    got = answer.gradients(x * x)
    _same(got.get(x), np.array([2.0, np.nan]), "x * x with NaN in x", "page.md#the-walk-back")


def leaves_keep_their_sum(answer: Answer) -> None:
    """`backward` adds to the .grad of leaves that require grad, and to nothing else."""
    x, fixed = tensor(answer, [1.0, 2.0]), tensor(answer, 3.0, False)
    middle = x * fixed
    root = answer.exp(middle)
    answer.backward(root)
    answer.backward(answer.exp(x * fixed))
    wanted = 2 * 3 * np.exp(3 * x.data)
    _same(x.grad, wanted, "backward, called twice: x.grad", "page.md#leaves")
    if any(t.grad is not None for t in (middle, root, fixed)):
        raise Wrong("a tensor in the middle, the root, or one that does not require grad has a .grad", "only x has one",
                    read="page.md#leaves")  # fmt: skip


def gradients_have_gradients(answer: Answer) -> None:
    """The walk back goes on the tape itself, so a gradient can be differentiated."""
    x = tensor(answer, [0.5, 2.0])
    _same(answer.grad(answer.grad(lambda x: x**3))(x), 6 * x.data, "the second derivative of x ** 3",
          "page.md#gradients-of-gradients")  # fmt: skip
    _same(answer.grad(answer.grad(answer.grad(answer.sin)))(x), -np.cos(x.data), "the third derivative of sin",
          "page.md#gradients-of-gradients")  # fmt: skip


def _same(got: Any, wanted: np.ndarray, what: str, read: str) -> None:
    if got is None:
        raise Wrong(f"{what} has no gradient", short(wanted), read=read)
    fits = got.shape == wanted.shape
    if not fits or not np.allclose(got.data, wanted, LIMIT, LIMIT, equal_nan=True):
        raise Wrong(
            f"{what} is {short(got.data)}",
            short(np.asarray(wanted)),
            "" if fits else "the shapes differ",
            read,
        )


def _unbroadcast(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    array = array.sum(tuple(range(array.ndim - len(shape))))
    axes = tuple(k for k, size in enumerate(shape) if size == 1)
    return array.sum(axes, keepdims=True)


def _difference(answer: Answer, function: Callable, arrays: tuple[np.ndarray, ...], k: int) -> np.ndarray:
    """The gradient of the sum of `function` in argument k, by central differences."""
    wanted = np.zeros(arrays[k].shape)
    for place in np.ndindex(wanted.shape):
        sums = []
        for step in (STEP, -STEP):
            moved = [array.copy() for array in arrays]
            moved[k][place] += step
            sums.append(function(*(tensor(answer, m, False) for m in moved)).data.sum())
        wanted[place] = (sums[0] - sums[1]) / (2 * STEP)
    return wanted


def whole_gradients(answer: Answer) -> Any:
    """Gradients of random programs of +, - and * at whole numbers: exact, so they are kept as integers."""
    found = []
    for seed in range(12):
        random = np.random.default_rng(seed)
        leaves = [
            tensor(answer, random.integers(-3, 4, shape).astype(float)) for shape in ((2, 3), (3,), (2, 1))
        ]
        values = list(leaves)
        for _ in range(6):
            a, b = (values[k] for k in random.integers(0, len(values), 2))
            values.append((a + b, a - b, a * b)[random.integers(3)])
        got = answer.gradients(values[-1] * values[-2])
        found.append([got[x].data.astype(int).reshape(-1).tolist() if x in got else None for x in leaves])
    return found


HIDDEN = {"gradients of 12 random programs at whole numbers": whole_gradients}


CHECKS = (
    calls_are_noted,
    order_is_right,
    shapes_fit,
    chains_are_right,
    uses_add_up,
    each_node_once,
    repeats_are_summed,
    differences_agree,
    flat_parts_are_left_out,
    leaves_keep_their_sum,
    gradients_have_gradients,
    hidden_check(__file__, HIDDEN, "page.md#the-walk-back"),
)
