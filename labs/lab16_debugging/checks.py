"""What lab 16 asks of a debugger: claims that experiments bear out, smallest programs that fail, a rule that is fixed.

Input: the learner's claims. Each is tried on the broken compiler, so a name alone proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import cutaway
from cutaway import config
from cutaway.debug.bisect import passes_of
from stage0_eager.table.registry import TABLE
from stage2_autograd.core_calls import core_name

from ..answer import Answer
from ..checks import Wrong
from ..hidden import hidden_check
from ..programs import numbers, short
from . import one, three, two
from .broken import faults
from .passes import PASSES, RULES, as_pass

KINDS, WITNESS, LINE, FIX = (
    "page.md#what-kind-of-fault", "page.md#a-smallest-program", "page.md#the-line", "page.md#fix-one",
)  # fmt: skip
PROGRAMS: dict[str, ModuleType] = {"one": one, "two": two, "three": three}
MOST = 3  # operators of a witness
X = numbers(4, 6)
NO_FUSION, NOT_LOWERED = {"lowering.fusion": False}, {"debug.backend": "aot_eager"}


def results(
    function: Callable[..., Any], inputs: list[Any], settings: dict[str, Any], passes: Any = PASSES
) -> list[np.ndarray]:
    """What a function gives when the broken compiler compiles it."""
    with faults(passes), config.patch({**settings, "capture.suppress_errors": False}):
        return arrays(cutaway.compile(function, dynamic=False)(*inputs))


def arrays(result: Any) -> list[np.ndarray]:
    return [r.detach().numpy() for r in (result if isinstance(result, tuple | list) else [result])]


def apart(got: list[np.ndarray], want: list[np.ndarray]) -> bool:
    return any(
        a.shape != b.shape or not np.allclose(a, b, 1e-5, 1e-5, equal_nan=True)
        for a, b in zip(got, want, strict=True)
    )


@cache
def wrong_with(name: str, settings: tuple[tuple[str, Any], ...]) -> bool:
    """Whether a program of the lab is wrong on the broken compiler under these settings."""
    module = PROGRAMS[name]
    got = results(module.program, module.inputs(), dict(settings))
    return apart(got, arrays(module.program(*module.inputs())))


def is_wrong(name: str, settings: dict[str, Any]) -> bool:
    return wrong_with(name, tuple(settings.items()))


# ---- claims -------------------------------------------------------------------------------------------------------


def _pass(name: str, found: Any) -> None:
    known = sorted({*passes_of("inductor"), *RULES})
    if found.name not in known:
        raise Wrong(
            f"program {name}: there is no pass {found.name!r}", f"one of {', '.join(known)}", read=KINDS
        )
    if is_wrong(name, {"autograd.disabled_passes": found.name}):
        raise Wrong(f"program {name}: with the pass {found.name!r} switched off it is still wrong",
                    "it is right without the pass that is to blame", read=KINDS)  # fmt: skip


def _operator(name: str, found: Any) -> None:
    if is_wrong(name, NOT_LOWERED):
        raise Wrong(f"program {name}: with the backend aot_eager, which lowers no operator, it is wrong too",
                    "a fault at an operator is not there with aot_eager", read=KINDS)  # fmt: skip
    if not is_wrong(name, NO_FUSION):
        raise Wrong(f"program {name}: without fusion it is right, and each operator is still lowered",
                    "an operator that is lowered wrongly is wrong in a kernel of its own too", read=KINDS)  # fmt: skip
    _known(name, found)


def _fusion(name: str, found: Any) -> None:
    if is_wrong(name, NO_FUSION):
        raise Wrong(
            f"program {name}: without fusion it is still wrong", "it is right without fusion", read=KINDS
        )
    _known(name, found)


def _known(name: str, found: Any) -> None:
    if found.name not in TABLE or not found.name.startswith("core."):
        raise Wrong(
            f"program {name}: there is no core operator {found.name!r}", "a name such as core.exp", read=KINDS
        )


CLAIMS = {"pass": _pass, "operator": _operator, "fusion": _fusion}


def claims_hold(name: str) -> Callable[[Answer], None]:
    def check(answer: Answer) -> None:
        found = getattr(answer, name)()
        if found.kind not in CLAIMS:
            raise Wrong(f"the kind is {found.kind!r}", f"one of {', '.join(map(repr, CLAIMS))}", read=KINDS)
        CLAIMS[found.kind](name, found)
        text = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
        lines = [line.strip() for line in text.splitlines()]
        if found.line not in lines:
            raise Wrong(
                f"{found.line!r} is no line of {name}.py",
                "a line of it, without the spaces around",
                read=LINE,
            )

    check.__doc__ = (
        f"What `{name}` claims is borne out by experiment: without the named part, program {name} is right."
    )
    return check


# ---- witnesses ----------------------------------------------------------------------------------------------------


def core_calls(function: Callable[..., Any]) -> list[str]:
    """The core operators of a function, on the healthy compiler."""
    seen: list[str] = []
    ours = cutaway.DEFAULT_PIPELINE.decompose

    def decompose(graph: Any) -> Any:
        made = ours(graph)
        seen.extend(f"core.{core_name(node)}" for node in made.calls)
        return made

    pipeline = replace(cutaway.DEFAULT_PIPELINE, decompose=decompose)
    cutaway.compile(function, backend="aot_eager", pipeline=pipeline, fullgraph=True, dynamic=False,
                    options={"runtime.cache": False})(cutaway.from_numpy(X))  # fmt: skip
    return seen


def witness_proves(name: str) -> Callable[[Answer], None]:
    def check(answer: Answer) -> None:
        found, witness = getattr(answer, name)(), getattr(answer, f"witness_{name}")
        what = f"witness_{name}"
        calls = core_calls(witness)
        if len(calls) > MOST:
            raise Wrong(
                f"{what} has {len(calls)} operators: {', '.join(calls)}", f"at most {MOST}", read=WITNESS
            )
        want = arrays(witness(cutaway.from_numpy(X)))

        def wrong(settings: dict[str, Any]) -> bool:
            return apart(results(witness, [cutaway.from_numpy(X)], settings), want)

        if not wrong({}):
            raise Wrong(f"{what} is right on the broken compiler ({', '.join(calls) or 'no operator'}), so it shows "
                        "nothing", "a program that the fault makes wrong", read=WITNESS)  # fmt: skip
        if found.kind != "pass" and found.name not in calls:
            raise Wrong(f"{what} has {', '.join(calls)}, and not {found.name}, which you named",
                        "a program with the operator that you named", read=WITNESS)  # fmt: skip
        avoid = {
            "pass": {"autograd.disabled_passes": found.name},
            "operator": NOT_LOWERED,
            "fusion": NO_FUSION,
        }
        if wrong(avoid[found.kind]):
            raise Wrong(f"{what} is wrong under {avoid[found.kind]} too: it shows another fault than you named",
                        "a program for the fault that you named", read=WITNESS)  # fmt: skip

    check.__doc__ = (
        f"`witness_{name}` has at most {MOST} operators, is wrong on the broken compiler, and right without the part "
        f"that `{name}` names."
    )
    return check


# ---- the fixed rule ----------------------------------------------------------------------------------------------

# Powers of two, whose powers are exact: NumPy may round those of a negative number in another way, lane by lane.
SPECIAL = np.array(
    [[np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40], [-0.5, 2.0, -4.0, 2.0**127, -(2.0**-10), 1.0]], np.float32
)
EXPONENTS = ("-3", "-2", "-1", "1", "2", "3", "4", "5", "0.5", "2.5", "3.0", "x.floor()")


def with_rule(rule: Callable[..., Any]) -> tuple[Any, ...]:
    """The colleague's passes, with another rule for powers."""
    return tuple(as_pass("powers", {"pow": rule}) if p.name == "powers" else p for p in PASSES)


def fixed_keeps_every_bit(answer: Answer) -> None:
    """With `fixed` in its pass, each power of -x has eager's bits: odd, negative, broken, tensor exponents, NaN."""
    for n in EXPONENTS:
        says = (
            f"(-x) ** {n} * 3"  # written out, because a float of another frame would be an input of the graph
        )
        _same_bits(answer, eval(f"lambda x: {says}"), says)
    _same_bits(answer, lambda x: x**2 * 3 + x**3, "x ** 2 * 3 + x ** 3, where nothing is negated")
    program = one.program
    got = results(program, one.inputs(), NOT_LOWERED, with_rule(answer.fixed))
    if apart(got, want := arrays(program(*one.inputs()))):
        raise Wrong(f"program one gives {short(got[0])}", short(want[0]), read=FIX)


def _same_bits(answer: Answer, function: Callable[..., Any], says: str) -> None:
    with np.errstate(all="ignore"):
        (want,) = arrays(function(cutaway.from_numpy(SPECIAL)))
        (got,) = results(function, [cutaway.from_numpy(SPECIAL)], NOT_LOWERED, with_rule(answer.fixed))
    if (
        not np.array_equal(got, want, equal_nan=True)
        or (np.signbit(got) != np.signbit(want))[want == 0].any()
    ):
        at = np.flatnonzero(~((got == want) | (np.isnan(got) & np.isnan(want))))[:1]
        x = SPECIAL.reshape(-1)[at]
        raise Wrong(f"{says}, at x = {x}: {got.reshape(-1)[at]}", f"{want.reshape(-1)[at]}", read=FIX)


def fixed_still_rewrites(answer: Answer) -> None:
    """`fixed` still removes the negation under an even power: a pass that does nothing is no repair."""
    for n in (2, 4, -2, 6):
        seen: list[Any] = []

        def rule(node: Any, seen: list[Any] = seen) -> Any:
            seen.append(answer.fixed(node))
            return seen[-1]

        results(lambda x, n=n: (-x) ** n * 3, [cutaway.from_numpy(X)], NOT_LOWERED, with_rule(rule))
        if not any(new is not None for new in seen):
            raise Wrong(f"(-x) ** {n} is not rewritten", f"x ** {n}, which has the same bits", read=FIX)


def said_of(name: str) -> Callable[[Answer], Any]:
    def said(answer: Answer) -> Any:
        found = getattr(answer, name)()
        return found.kind, found.name, found.line

    return said


HIDDEN = {f"what is wrong with program {name}, and in which line": said_of(name) for name in PROGRAMS}

CHECKS = (
    claims_hold("one"),
    witness_proves("one"),
    claims_hold("two"),
    witness_proves("two"),
    claims_hold("three"),
    witness_proves("three"),
    fixed_keeps_every_bit,
    fixed_still_rewrites,
    hidden_check(__file__, HIDDEN, LINE),
)
