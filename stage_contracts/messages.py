"""The catalogue of messages: every error and warning about a request that Cutaway cannot carry out.

Input: the code that raises or warns fills a row's text with `say("unknown_option", ...)`. The site's page and its test
read MESSAGES; for each row, tests/errors/message_examples.py has a program that makes the message appear.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

# Name: the kind (an exception's name, or "warning"), when it appears, its text, and what to do.
MESSAGES: dict[str, tuple[str, str, str, str]] = {
    "unknown_option": (
        "TypeError",
        "you pass a public function an option that it does not have",
        "{function}() has no option {name!r}{hint}; it has {known}",
        "spell the option as the message does",
    ),
    "unknown_field": (
        "AttributeError",
        "options or config.patch names a field that the configuration does not have",
        "there is no configuration field {name!r}{hint}",
        "use one of the fields listed in stage_contracts/config.py",
    ),
    "unknown_field_of": (
        "TypeError",
        "replace() names a field that a Pipeline or a section of the configuration does not have",
        "{record} has no field {name!r}{hint}; it has {known}",
        "spell the field as the message does",
    ),
    "unknown_mode": (
        "RuntimeError",
        "compile gets a mode that does not exist",
        "Unrecognized mode={name!r}, should be one of: {known}{hint}",
        "use one of these modes, or pass options",
    ),
    "unknown_backend": (
        "ValueError",
        "compile gets the name of a backend that is not registered",
        "unknown backend {name!r}; expected a callable or one of {known}{hint}",
        "use one of these names, pass a callable, or register yours with register_backend",
    ),
    "unknown_stance": (
        "RuntimeError",
        "set_stance gets a stance that does not exist",
        "invalid torch.compile stance {name!r}; expected one of {known}{hint}",
        "use one of these stances",
    ),
    "unknown_log": (
        "ValueError",
        "set_logs gets the name of a log that does not exist",
        "there is no log named {name!r}{hint}",
        "use one of these logs",
    ),
    "unknown_log_variable": (
        "warning",
        "CUTAWAY_LOGS names a log that does not exist; the other logs it names are on",
        "cutaway: {variable}={value!r}: {problem}",
        "list logs that exist, separated by commas",
    ),
    "unknown_variable": (
        "warning",
        "the environment has a variable CUTAWAY_... that Cutaway does not know",
        "cutaway: unknown environment variable {name}{hint}",
        "unset it, or spell it as the message does",
    ),
    "malformed_variable": (
        "warning",
        "a variable CUTAWAY_... has a value of the wrong type; the default is used",
        "cutaway: {problem}; using the default",
        "set it to a value of the type that the message names",
    ),
    "no_attribute": (
        "AttributeError",
        "code reads a name of cutaway or torch that Cutaway does not have",
        "Cutaway has no {path}{hint}",
        "use the name that the message suggests; if it suggests none, write the code with functions that exist",
    ),
    "subject_missing": (
        "AttributeError",
        "code uses a part of torch that Cutaway leaves out entirely",
        "Cutaway has no {path}: {sentence}",
        "follow the sentence in the message",
    ),
    "module_missing": (
        "ModuleNotFoundError",
        "code that runs under torch_api imports a torch module that Cutaway does not have",
        "Cutaway has no module {path}{hint}",
        "follow the message; if your code also works without the module, catch ImportError",
    ),
    "name_missing": (
        "ImportError",
        "code that runs under torch_api imports a name that Cutaway's version of the torch module does not have",
        "Cutaway has no {path}{hint}",
        "follow the message; if your code also works without the name, catch ImportError",
    ),
    "no_artifacts": (
        "IndexError",
        "you ask for artifacts before anything was compiled",
        "{name} has no artifacts yet: it was not compiled. Call it first; if you did call it, it ran eagerly, and "
        "cutaway.explain says why",
        "call the compiled function first",
    ),
    "pipeline_expected": (
        "TypeError",
        "compile gets something other than a Pipeline as its pipeline",
        "pipeline expects a Pipeline, for example replace(cutaway.DEFAULT_PIPELINE, partition=mine), but got {got}",
        "start from the default pipeline and replace one seam",
    ),
    "seam_not_callable": (
        "SeamError",
        "a seam gets something that is not a function",
        "seam {seam!r} is {got}, expected a function with the parameters ({parameters}): {contract}",
        "pass a function with these parameters",
    ),
    "seam_signature": (
        "SeamError",
        "a function passed for a seam takes the wrong parameters; this is checked before anything runs",
        "seam {seam!r}: {function}{got} cannot be called with the parameters of this seam ({parameters}): {contract}",
        "write the function with these parameters, in this order",
    ),
    "seam_result": (
        "SeamError",
        "a function passed for a seam returned None, or a value of the wrong type",
        "seam {seam!r}: {function} returned {got}, expected {expected}: {contract}",
        "return the type that the contract states (stage_contracts/pipeline.py)",
    ),
    "internal_error": (
        "warning",
        "a bug in the compiler: the function ran eagerly, and the event log keeps the details for your report",
        "cutaway: {name} runs eagerly because the compiler failed in {stage}: {error}; CUTAWAY_LOGS=internal_errors "
        "shows what to report",
        "report it; with config suppress_errors=False the error is raised instead",
    ),
    "internal_error_raised": (
        "note",
        "a bug in the compiler, with fullgraph=True or suppress_errors=False: the original error is raised",
        "cutaway: this is a bug in the compiler, in {stage}, while it compiled {name}; please report it with this "
        "traceback, the function, and the shapes and dtypes of its arguments",
        "report it; without these settings the function runs eagerly",
    ),
    "verify_operator": (
        "VerifyError",
        "debug.verify is on, and a compiled graph gives other values than its operators run one by one",
        "verify: {graph}: {operator} is the first operator that differs; in {value} {both}\n{lines}",
        "run `cutaway bisect` on the program: it names the pass or switch that avoids it",
    ),
    "verify_whole": (
        "VerifyError",
        "debug.verify is on, a compiled graph gives other values, and no graph with fewer operators does",
        "verify: {graph} differs as a whole; no graph with fewer of its operators does; in {value} {both}\n{lines}",
        "run `cutaway bisect` on the program: the cause is probably fusion or the reuse of memory",
    ),
    "verify_pass": (
        "VerifyError",
        "debug.verify is on, and a step or pass of stage 2 changes what is computed",
        "verify: {problem}",
        "the message names the pass and the switch that leaves it out",
    ),
    "verify_crash": (
        "VerifyError",
        "debug.verify_crashes is on, and a call of a compiled graph ends the process",
        "verify: {graph}: {operator} is the first operator that differs; with it a call ends with {ending}\n{lines}",
        "run `cutaway bisect` on the program: it names the switch that avoids it",
    ),
    "verify_guard": (
        "VerifyError",
        "debug.verify is on, and an entry was chosen for a call for which one of its guards does not hold",
        "verify: {function}: the guard {guard} is wrong: its entry was chosen, but {change}\n{lines}",
        "report it with the program; CUTAWAY_CAPTURE_DISABLE=1 runs it without compiling",
    ),
    "repro_saved": (
        "note",
        "repro_after (CUTAWAY_REPRO_AFTER, TORCHDYNAMO_REPRO_AFTER) is dynamo or aot, and a later step failed",
        "cutaway: repro_after={after}: {path} reproduces this failure; `cutaway minify {path}` makes it "
        "smaller, or minifier_launcher.py",
        "run the file, or make it smaller",
    ),
    "repro_not_saved": (
        "note",
        "repro_after is set, but the program that reproduces the failure could not be written",
        "cutaway: repro_after={after}: no program was saved: {problem}",
        "fix the problem that the message names; the error itself is printed above it",
    ),
    "record_saved": (
        "note",
        "replay_record_enabled (TORCH_COMPILE_REPLAY_RECORD) is on, and a frame failed while it was compiled",
        "cutaway: {path} has this frame with its arguments and source; `cutaway replay {path}`, or "
        "torch._dynamo.replay({path!r}), compiles it again{missing}",
        "replay the file; what it says was left out is what the replay will not have",
    ),
    "record_not_saved": (
        "note",
        "replay_record_enabled is on, but the frame that failed could not be recorded",
        "cutaway: {name} was not recorded: {problem}",
        "write the function into a file; repro_after saves its graph instead",
    ),
    "wrong_choice": (
        "TypeError",
        "a field of the configuration gets a word that is not one of its choices",
        "{field} expects one of {known}, got {value!r}{hint}",
        "use one of these words",
    ),
    "graph_break": (
        "Unsupported",
        "with fullgraph=True, capture meets code that it cannot put into the graph; the page of breaks lists the codes",
        "graph break {code} ({title}): {reason}",
        "follow the hint, or compile without fullgraph=True: the function is then split there",
    ),
    "class_out_of_range": (
        "IndexError",
        "a loss gets a class that the scores have no column for, eager or compiled",
        "Target {bad} is out of bounds.",
        "pass classes from 0 to the number of columns minus one, or ignore_index",
    ),
    "target_of_classes": (
        "RuntimeError",
        "cross_entropy or nll_loss gets targets that are neither classes nor probabilities in the scores' shape",
        "0D or 1D target tensor expected, multi-target not supported",
        "pass one class for each row, or probabilities of the same shape as the scores",
    ),
    "target_size": (
        "ValueError",
        "binary_cross_entropy_with_logits gets targets of another shape",
        "{function}: target size ({target}) must be the same as input size ({input})",
        "reshape the targets to the shape of the input",
    ),
    "target_broadcast": (
        "warning",
        "a loss that broadcasts, such as mse_loss, gets targets of another shape",
        "Using a target size ({target}) that is different to the input size ({input}). This will likely lead to "
        "incorrect results due to broadcasting. Please ensure they have the same size.",
        "reshape the targets to the shape of the input",
    ),
    "variance_negative": (
        "ValueError",
        "gaussian_nll_loss gets a negative variance, eager or compiled (capture leaves the call to Python)",
        "var has negative entry/entries",
        "pass the variance, not its logarithm",
    ),
    "probability_expected": (
        "RuntimeError",
        "eager binary_cross_entropy gets a value outside 0 to 1; compiled, it returns NaN, as in torch",
        "all elements of {name} should be between 0 and 1",
        "apply sigmoid first, or use binary_cross_entropy_with_logits",
    ),
    "backend_raised": (
        "BackendFailed",
        "a user-defined backend raised",
        "backend {name!r} raised {error}\nits traceback is above; with config suppress_errors=True, a graph that the "
        "backend cannot compile runs eagerly",
        "read the chained exception, which is the backend's own",
    ),
    "backend_not_callable": (
        "BackendFailed",
        "a user-defined backend does not return a function",
        "the backend returned {got}, expected a function that takes the graph's inputs",
        "return a function that takes the graph's inputs, for example graph_module.forward",
    ),
    "backend_result": (
        "BackendFailed",
        "the function that a user-defined backend made does not return a tuple of the graph's outputs",
        "the function that backend {name!r} made returned {seen}, expected a tuple with the graph's outputs (here "
        "{count}); for one output, return (out,)",
        "return a tuple with one entry for each output",
    ),
}  # fmt: skip


def say(row: str, /, **values: Any) -> str:
    """The text of one row, with its fields filled."""
    return MESSAGES[row][2].format(**values)


# ---- similar names ---------------------------------------------------------------------------------------


def near(name: Any, known: Iterable[Any]) -> str | None:
    """The known name that was probably meant: it has the same letters, or differs by one or two typing errors. Else
    None."""
    name = str(name)
    names = list(dict.fromkeys(map(str, known)))
    letters = _letters(name)
    same = next((k for k in names if k != name and _letters(k) == letters), None)
    if same is not None or len(name) < 4:
        return same
    wanted, found = name.lower(), []
    for candidate in names:
        other, limit = candidate.lower(), 1 if min(len(name), len(candidate)) < 8 else 2
        # one error removes and adds at most one letter; this quick test excludes most names
        if len(other) >= 4 and len({*wanted} ^ {*other}) <= 2 * limit:
            errors = distance(wanted, other)
            if errors <= limit:
                found.append((errors, candidate))
    return min(found)[1] if found else None


def did_you_mean(name: Any, known: Iterable[Any], otherwise: str = "") -> str:
    """`; did you mean 'fullgraph'?`, or `otherwise`."""
    found = near(name, known)
    return f"; did you mean {found!r}?" if found else otherwise


_NO_LETTER = re.compile(r"[\W_]+")


def _letters(name: str) -> str:
    return _NO_LETTER.sub("", name.casefold())


def distance(a: str, b: str) -> int:
    """The number of letters to change, add, remove or swap with their neighbour (Damerau 1964)."""
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
    """Decorator: an option that the function does not have raises TypeError, which suggests the nearest one."""
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
    """Decorator of a dataclass: `replace(record, fusee=...)` raises TypeError, which suggests the nearest field."""
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
