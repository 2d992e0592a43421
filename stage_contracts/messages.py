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
        "no configuration field {name!r}{hint}",
        "take one of the fields that stage_contracts/config.py lists",
    ),
    "unknown_field_of": (
        "TypeError",
        "replace() names a field that a Pipeline or a section of the configuration does not have",
        "{record} has no field {name!r}{hint}; it has {known}",
        "write the field as the message spells it",
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
        "no log is called {name!r}{hint}",
        "take one of these logs",
    ),
    "unknown_log_variable": (
        "warning",
        "CUTAWAY_LOGS names a log that there is not; the others it names are on",
        "cutaway: {variable}={value!r}: {problem}",
        "name logs that there are, with commas between",
    ),
    "unknown_variable": (
        "warning",
        "the environment has a variable CUTAWAY_... that means nothing",
        "cutaway: the environment variable {name} means nothing here{hint}",
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
    "module_missing": (
        "ModuleNotFoundError",
        "code that runs under torch_api imports a module of torch's that is not here",
        "Cutaway has no module {path}{hint}",
        "what the message says; code that can do without it catches ImportError",
    ),
    "name_missing": (
        "ImportError",
        "code that runs under torch_api imports a name from a module of torch's, which is not there",
        "Cutaway has no {path}{hint}",
        "what the message says; code that can do without it catches ImportError",
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
    "internal_error_raised": (
        "note",
        "the compiler itself failed under fullgraph=True or suppress_errors=False: the error is raised as it is",
        "cutaway: an error of the compiler itself, in {stage}, while it compiled {name}; please report it with this "
        "traceback, the function and the shapes and dtypes of its arguments",
        "report it; without these settings the function runs eagerly",
    ),
    "verify_operator": (
        "VerifyError",
        "debug.verify is on, and a compiled graph computes something else than its operators one by one",
        "verify: {graph}: {operator} is the first operator that differs; in {value} {both}\n{lines}",
        "run `cutaway bisect` on the program: it names the pass or switch that avoids it",
    ),
    "verify_whole": (
        "VerifyError",
        "debug.verify is on, a compiled graph differs, and no shorter graph does: what is wrong needs all of it",
        "verify: {graph} differs as a whole, no shorter graph does; in {value} {both}\n{lines}",
        "run `cutaway bisect` on the program: fusion or reuse of memory is likely",
    ),
    "repro_saved": (
        "note",
        "repro_after (CUTAWAY_REPRO_AFTER, TORCHDYNAMO_REPRO_AFTER) is dynamo or aot, and what comes after failed",
        "cutaway: repro_after={after}: {path} fails as this did; it holds the whole graph and its inputs, for there "
        "is no minifier yet",
        "run the file; cut lines away by hand while it still fails",
    ),
    "repro_not_saved": (
        "note",
        "repro_after is set, and the program that would fail again could not be written",
        "cutaway: repro_after={after}: no program was saved, for {problem}",
        "mend what it names; the error itself is above",
    ),
    "wrong_choice": (
        "TypeError",
        "a field of the configuration that knows a few words is given another",
        "{field} expects one of {known}, got {value!r}{hint}",
        "take one of these words",
    ),
    "graph_break": (
        "Unsupported",
        "fullgraph=True meets what capture cannot take into the graph; the catalogue of breaks has each code",
        "graph break {code} ({title}): {reason}",
        "what the hint says, or compile without fullgraph=True: the frame is split there",
    ),
    "class_out_of_range": (
        "IndexError",
        "a loss is given a class that its scores have no column for; eager and compiled",
        "Target {bad} is out of bounds.",
        "give classes from 0 to the number of columns less one, or ignore_index",
    ),
    "target_of_classes": (
        "RuntimeError",
        "cross_entropy or nll_loss is given targets that are neither classes nor probabilities of the scores' shape",
        "0D or 1D target tensor expected, multi-target not supported",
        "give one class a row, or probabilities of the scores' own shape",
    ),
    "target_size": (
        "ValueError",
        "binary_cross_entropy_with_logits is given targets of another shape",
        "{function}: target size ({target}) must be the same as input size ({input})",
        "give the targets the shape of the input",
    ),
    "target_broadcast": (
        "warning",
        "a loss that broadcasts, as mse_loss, is given targets of another shape",
        "Using a target size ({target}) that is different to the input size ({input}). This will likely lead to "
        "incorrect results due to broadcasting. Please ensure they have the same size.",
        "give the targets the shape of the input",
    ),
    "variance_negative": (
        "ValueError",
        "gaussian_nll_loss is given a negative variance; compiled too, for capture leaves the call to Python",
        "var has negative entry/entries",
        "give a variance, not its logarithm",
    ),
    "probability_expected": (
        "RuntimeError",
        "eager binary_cross_entropy is given what is no probability; compiled it gives NaN, as torch's",
        "all elements of {name} should be between 0 and 1",
        "apply sigmoid first, or take binary_cross_entropy_with_logits",
    ),
    "backend_raised": (
        "BackendFailed",
        "a user-defined backend raised",
        "backend {name!r} raised {error}\nits own lines are above; config suppress_errors=True runs such graphs "
        "eagerly",
        "look at the chained exception",
    ),
    "backend_not_callable": (
        "BackendFailed",
        "a backend of the user's gives no function back",
        "the backend returned {got}, expected a callable on the graph's inputs",
        "return a function of the graph's inputs, for example graph_module.forward",
    ),
    "backend_result": (
        "BackendFailed",
        "what a backend of the user's made returns something else than a tuple of the graph's outputs",
        "backend {name!r} made a callable that returned {seen}, expected a tuple of the graph's outputs, {count} here; "
        "return (out,) for one",
        "return a tuple with one entry for each output",
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


def did_you_mean(name: Any, known: Iterable[Any], otherwise: str = "") -> str:
    """`; did you mean 'fullgraph'?`, or `otherwise`."""
    found = near(name, known)
    return f"; did you mean {found!r}?" if found else otherwise


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
T = TypeVar("T")


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


def checks_fields(cls: type[T]) -> type[T]:
    """Decorator of a dataclass: `replace(record, fusee=...)` raises TypeError with the field that is surely meant."""
    make = cls.__init__
    known = list(inspect.signature(cls).parameters)

    @functools.wraps(make)
    def checked(self: T, *values: Any, **named: Any) -> None:
        for name in named:
            if name not in known:
                hint, all_of_them = did_you_mean(name, known), ", ".join(known)
                raise TypeError(
                    say("unknown_field_of", record=cls.__name__, name=name, hint=hint, known=all_of_them)
                )
        make(self, *values, **named)

    cls.__init__ = checked  # type: ignore[assignment, method-assign]
    return cls
