"""The catalogue of messages: what the machine says when it is asked for something it cannot do, each said once.

Input: whoever raises or warns fills a row's text with `say("unknown_option", ...)`. The site's page and its test read
MESSAGES; tests/errors/message_examples.py has a program for each row that makes the message appear.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

# Name: what kind (an exception's name, or "warning"), when it comes, its text, and what to do.
MESSAGES: dict[str, tuple[str, str, str, str]] = {
    "unknown_option": (
        "TypeError",
        "a public function is given an option that it does not have",
        "{function}() has no option {name!r}{hint}; it has {known}",
        "write the option as the message spells it",
    ),
    "unknown_field": (
        "AttributeError",
        "options or config.patch name a field that the configuration does not have",
        "no configuration field {name!r}; expected one of {known}",
        "take one of the fields that stage_contracts/config.py lists",
    ),
    "unknown_mode": (
        "RuntimeError",
        "compile is given a mode that there is not",
        "Unrecognized mode={name!r}, should be one of: {known}{hint}",
        "take one of these modes, or options",
    ),
    "unknown_backend": (
        "ValueError",
        "compile is given the name of a backend that there is not",
        "unknown backend {name!r}; expected a callable or one of {known}{hint}",
        "register_backend gives a callable a name",
    ),
    "unknown_stance": (
        "RuntimeError",
        "set_stance is given a stance that there is not",
        "invalid torch.compile stance {name!r}; expected one of {known}{hint}",
        "take one of these stances",
    ),
    "unknown_log": (
        "ValueError",
        "set_logs is given the name of a log that there is not",
        "no log is called {name!r}; there are {known}{hint}",
        "take one of these logs",
    ),
    "unknown_log_variable": (
        "warning",
        "CUTAWAY_LOGS names a log that there is not; the others it names are on",
        "cutaway: CUTAWAY_LOGS={value!r}: {problem}",
        "name logs that there are, with commas between",
    ),
    "unknown_variable": (
        "warning",
        "the environment has a variable CUTAWAY_... that means nothing",
        "cutaway: the environment variable {name} means nothing here{hint}; there are {known}",
        "unset it, or write it as the message spells it",
    ),
    "malformed_variable": (
        "warning",
        "a variable CUTAWAY_... has a value of the wrong type; the default holds",
        "cutaway: {problem}; the default holds",
        "give it a value of the type that the message names",
    ),
    "no_attribute": (
        "AttributeError",
        "a name of cutaway or torch that is not here",
        "Cutaway has no {path}{hint}",
        "what the message says is near, if it says so; else write it with what there is",
    ),
    "subject_missing": (
        "AttributeError",
        "a whole subject of torch's that is not here",
        "Cutaway has no {path}: {sentence}",
        "what the sentence says",
    ),
    "no_artifacts": (
        "IndexError",
        "artifacts are asked for before anything was compiled",
        "{name} has no artifacts yet: nothing was compiled. Call it once, then ask; if it was called, it ran eagerly, "
        "and cutaway.explain says why",
        "call the compiled function first",
    ),
    "pipeline_expected": (
        "TypeError",
        "compile is given something else for a Pipeline",
        "pipeline expects a Pipeline, as replace(cutaway.DEFAULT_PIPELINE, partition=mine) makes one, got {got}",
        "change one seam of the default pipeline",
    ),
    "seam_not_callable": (
        "SeamError",
        "what is given for a seam is no function",
        "seam {seam!r} is {got}, expected a function ({parameters}): {contract}",
        "give a function with these parameters",
    ),
    "seam_signature": (
        "SeamError",
        "a function given for a seam takes other parameters; found before anything runs",
        "seam {seam!r}: {function}{got} cannot be called with ({parameters}), its contract's: {contract}",
        "give it these parameters, in this order",
    ),
    "seam_result": (
        "SeamError",
        "a function given for a seam returned None, or a value of another type",
        "seam {seam!r}: {function} returned {got}, expected {expected}: {contract}",
        "return what the contract says (stage_contracts/pipeline.py)",
    ),
    "internal_error": (
        "warning",
        "the compiler itself failed; the frame ran eagerly, and the event log has an event with what to report",
        "cutaway: {name} runs eagerly, for the compiler failed in {stage}: {error}; CUTAWAY_LOGS=internal_errors "
        "shows what to report",
        "report it; config suppress_errors=False raises it instead",
    ),
    "backend_raised": (
        "BackendFailed",
        "a user-defined backend raised",
        "backend {name!r} raised {error}\nits own lines are above; config suppress_errors=True runs such graphs "
        "eagerly",
        "look at the chained exception",
    ),
}  # fmt: skip


def say(row: str, /, **values: Any) -> str:
    """The text of one row, with its fields filled."""
    return MESSAGES[row][2].format(**values)


# ---- names that are near ---------------------------------------------------------------------------------------


def near(name: Any, known: Iterable[Any]) -> str | None:
    """The known name that is surely meant: the same letters, or a few typing errors for its length. Else None."""
    name = str(name)
    names = list(dict.fromkeys(map(str, known)))
    same = next((k for k in names if k != name and _letters(k) == _letters(name)), None)
    if same is not None or len(name) < 4:
        return same
    found = [(distance(name.lower(), k.lower()), k) for k in names if abs(len(k) - len(name)) <= 2]
    found = [(d, k) for d, k in found if d <= (1 if min(len(name), len(k)) < 8 else 2) and len(k) >= 4]
    return min(found)[1] if found else None


def did_you_mean(name: Any, known: Iterable[Any]) -> str:
    """`; did you mean 'fullgraph'?`, or nothing."""
    found = near(name, known)
    return f"; did you mean {found!r}?" if found else ""


def _letters(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isalnum())


def distance(a: str, b: str) -> int:
    """How many letters to change, add, drop or swap with their neighbour (Damerau 1964)."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, last, row = row, before, [i]
        for j, y in enumerate(b, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and y == a[i - 2]:
                best = min(best, last[j - 2] + 1)
            row.append(best)
    return row[-1]


# ---- options ---------------------------------------------------------------------------------------------------

F = TypeVar("F", bound=Callable[..., Any])


def checks_options(function: F) -> F:
    """Decorator: an option that the function does not have raises TypeError with the one that is surely meant."""
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*args: Any, **options: Any) -> Any:
        for name in options:
            if name not in known:
                where = function.__name__
                hint = did_you_mean(name, known)
                raise TypeError(
                    say("unknown_option", function=where, name=name, hint=hint, known=", ".join(known))
                )
        return function(*args, **options)

    return checked  # type: ignore[return-value]
