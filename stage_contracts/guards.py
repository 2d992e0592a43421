"""Guards: the facts that compiled code relies on, each printing as the Python expression that checks it.

Input: capture (and any later stage until `build`) records a Guard per fact it used. GUARD_KINDS is the list of
what can be guarded, cheapest first; `dispatch` compiles all guards of an entry to one function.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stage_contracts.device import Device
from stage_contracts.dtype import DType
from stage_contracts.origin import Origin
from stage_contracts.source import Source
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides


@dataclass(frozen=True)
class GuardKind:
    """`template` has {s} for the source's expression and {e} for the expected value. Lower rank runs first."""

    rank: int
    template: str
    meaning: str


GUARD_KINDS: dict[str, GuardKind] = {
    "GRAD_MODE": GuardKind(0, "is_grad_enabled() is {e}", "gradients are recorded or not, as at capture"),
    "MODES": GuardKind(
        1, "modes() == {e}", "autocast, inference mode, the default dtype and device: what of it is switched"
    ),
    "TENSOR": GuardKind(
        2, "check_tensor({s}, {e})", "a tensor's shape, strides, dtype, device, requires_grad"
    ),
    "OPEN_TENSOR": GuardKind(
        2, "check_open_tensor({s}, {e})", "as TENSOR, but for the sizes that are left open"
    ),
    "NOT_ALIASED": GuardKind(3, "{s} is not {e}", "two arguments are different objects"),
    "ALIASED": GuardKind(3, "{s} is {e}", "two arguments are the same object"),
    "IDENTITY": GuardKind(4, "{s} is {e}", "the very same function, class, module, None or bool"),
    "TYPE": GuardKind(5, "type({s}) is {e}", "an object's class"),
    "EQUALS": GuardKind(6, "type({s}) is type({e}) and {s} == {e}", "a Python constant's type and value"),
    "LENGTH": GuardKind(7, "len({s}) == {e}", "a container's length"),
    "KEYS": GuardKind(8, "tuple({s}) == {e}", "a dict's keys, in order"),
    "ABSENT": GuardKind(9, "not hasattr({s}, {e})", "an attribute that was looked for and not there"),
    "ABSENT_KEY": GuardKind(9, "{e} not in {s}", "a key that was looked for and not there"),
    "SHAPE": GuardKind(10, "{e}", "an assumption on symbolic sizes"),
}


@dataclass(frozen=True)
class Guard:
    """One fact: `kind` of GUARD_KINDS, the source it is about, what is expected, the user's line that needed it.

    under_epoch: the fact lies inside a module tree (a parameter's meta, `training`, a submodule), so it still holds
    while no module anywhere changed: it is checked only when the structure epoch is not the one it last held at.
    """

    kind: str
    source: Source | None
    expected: Any
    origin: Origin | None = None
    under_epoch: bool = False

    def __post_init__(self) -> None:
        if self.kind not in GUARD_KINDS:
            raise ValueError(f"unknown guard kind {self.kind!r}; expected one of {', '.join(GUARD_KINDS)}")

    def expression(self, name_of: Callable[[Any], str] | None = None) -> str:
        """The check as Python. `name_of(value)` names an expected value that is not a literal."""
        expected = self.expected
        if self.kind == "EQUALS" and type(expected) is float and not abs(expected) > 0:
            # 0.0 == -0.0 and NaN != NaN, but a program can tell the first two apart and not the others
            source = self.source.expression() if self.source else ""
            return f"type({source}) is float and {source}.hex() == {expected.hex()!r}"
        if self.kind == "KEYS" and not all(type(key) is str for key in expected):
            # 1, 1.0 and True are equal as keys, and not the same to a program that walks over them
            source = self.source.expression() if self.source else ""
            if not _is_literal(expected):  # objects: each is itself and no other
                return f"same_objects({source}, {name_of(expected) if name_of else _readable(expected)})"
            return (
                f"[(type(k).__name__, k) for k in {source}] == {[(type(k).__name__, k) for k in expected]!r}"
            )
        if isinstance(expected, Source) or self.kind == "SHAPE":
            text = expected.expression() if isinstance(expected, Source) else str(expected)
        elif _is_literal(expected) and (
            self.kind != "IDENTITY" or expected is None or type(expected) is bool
        ):
            text = repr(expected)
        else:
            text = name_of(expected) if name_of else _readable(expected)
        return GUARD_KINDS[self.kind].template.format(
            s=self.source.expression() if self.source else "", e=text
        )

    def __str__(self) -> str:
        return self.expression() + (f"  # {self.origin.describe()}" if self.origin else "")


def _is_literal(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_literal, value))
    if isinstance(value, float):
        return value == value and value not in (float("inf"), float("-inf"))
    return value is None or type(value) in (bool, int, str, bytes)


def _readable(value: Any) -> str:
    if isinstance(value, (TensorMeta, OpenMeta)):
        return repr(str(value))
    return getattr(value, "__qualname__", None) or f"<{type(value).__name__}>"


def check_tensor(tensor: Any, meta: TensorMeta) -> bool:
    """Whether a tensor is what `meta` says. Reads attributes only."""
    return (
        getattr(tensor, "dtype", None) is meta.dtype
        and tensor.shape == meta.shape
        and tensor.stride() == meta.strides
        and tensor.requires_grad is meta.requires_grad
        and tensor.device == meta.device
    )


def same_objects(found: Iterable[Any], wanted: tuple) -> bool:
    """Whether two rows of objects are the same ones, in order. Asks none of them whether it is equal."""
    row = tuple(found)
    return len(row) == len(wanted) and all(map(operator.is_, row, wanted))


@dataclass(frozen=True)
class OpenMeta:
    """What is fixed of a tensor some of whose sizes are open: `sizes` has None there.

    order: its dimensions from the slowest to the fastest; the strides are those of a dense array in this order.
    """

    dtype: DType
    device: Device
    requires_grad: bool
    sizes: tuple[int | None, ...]
    order: tuple[int, ...]

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.sizes)
        return f"{self.dtype.name}[{sizes}]" + " requires_grad" * self.requires_grad

    def strides(self, shape: tuple[Any, ...]) -> tuple[Any, ...]:
        """The strides of a dense array of this shape, in elements."""
        strides: list[Any] = [0] * len(shape)
        for dim, stride in zip(self.order, contiguous_strides([shape[d] for d in self.order]), strict=True):
            strides[dim] = stride
        return tuple(strides)


def check_open_tensor(tensor: Any, meta: OpenMeta) -> bool:
    """Whether a tensor is what `meta` says, at any of the open sizes."""
    shape = getattr(tensor, "shape", ())
    return (
        getattr(tensor, "dtype", None) is meta.dtype
        and len(shape) == len(meta.sizes)
        and all(want is None or want == size for want, size in zip(meta.sizes, shape, strict=True))
        and tensor.stride() == meta.strides(shape)
        and tensor.requires_grad is meta.requires_grad
        and tensor.device == meta.device
    )


# What the text of a guard may call.
CHECKS = {"check_tensor": check_tensor, "check_open_tensor": check_open_tensor, "same_objects": same_objects}

_FAILURES = "(AttributeError, LookupError, TypeError, NameError, ValueError, ArithmeticError)"


def compile_guards(guards: Iterable[Guard], signature: str, names: Mapping[str, Any]) -> Callable[..., bool]:
    """One Python function that checks all guards, cheapest kinds first, each expression once.

    `signature` is the parameter list of the guarded function (`"x, y=None, *, flag=False"`); `names` binds what
    the templates call: `G`, `C`, `__function__`, `is_grad_enabled`, `modes`, `module_epoch`, and the signature's
    default values. Guards under_epoch cost one integer comparison while `module_epoch()` stands still; when it moved
    they all run, and if they hold the new epoch is remembered. An attribute or item that is gone counts as a failed
    guard. The function's text is kept as `check.source_text`.
    """
    namespace: dict[str, Any] = {
        **CHECKS,
        "held_at": [-1],
        **names,
    }

    # by identity: an expected object is never hashed or compared, which may be user code
    named: dict[int, str] = {}

    def name_of(value: Any) -> str:
        if id(value) not in named:
            named[id(value)] = f"expected_{len(named)}"
            namespace[named[id(value)]] = value
        return named[id(value)]

    def conjunction(chosen: list[Guard]) -> str:
        ordered = sorted(chosen, key=lambda g: GUARD_KINDS[g.kind].rank)
        checks = dict.fromkeys(g.expression(name_of) for g in ordered)
        return "\n            and ".join(f"({c})" for c in checks) or "True"

    guards = list(guards)
    always = conjunction([g for g in guards if not g.under_epoch])
    inside = [g for g in guards if g.under_epoch]
    lines = [f"def check({signature}):", "    try:"]
    if inside:
        lines += [
            f"        if not ({always}):",
            "            return False",
            "        epoch = module_epoch()",
            "        if epoch == held_at[0]:",
            "            return True",
            f"        if ({conjunction(inside)}):",
            "            held_at[0] = epoch",
            "            return True",
            "        return False",
        ]
    else:
        lines.append(f"        return ({always})")
    lines += [f"    except {_FAILURES}:", "        return False", ""]
    text = "\n".join(lines)
    exec(compile(text, "<cutaway guards>", "exec"), namespace)
    check = namespace["check"]
    if "__function__" in names:  # a call that does not fit is an error of the function's
        check.__qualname__ = names["__function__"].__qualname__
    check.source_text = text
    return check
