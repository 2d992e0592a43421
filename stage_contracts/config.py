"""The configuration: one typed, immutable object; each stage's section is a frozen dataclass here.

Input: the defaults below, the file that CUTAWAY_CONFIG names, environment variables `CUTAWAY_<SECTION>_<FIELD>` (or
torch's), then `config.patch(...)`, which applies to its block in this thread or task. Compiled code keeps the values
that applied when it was compiled.
"""

from __future__ import annotations

import functools
import os
import sys
import typing
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from stage_contracts.messages import checks_fields, did_you_mean, near, say


@checks_fields
@dataclass(frozen=True)
class CaptureConfig:
    recompile_limit: int = 8  # entries of one compiled function before new cases run eager
    accumulated_recompile_limit: int = 256  # entries of one code object, over all functions compiled from it
    trace_numpy: bool = True  # capture NumPy's functions of arrays; off: they run in NumPy
    fail_on_recompile_limit_hit: bool = False  # a limit raises instead of running eagerly
    error_on_recompile: bool = False  # so does any recompile
    automatic_dynamic_shapes: bool = True  # dynamic=None leaves open what has changed
    assume_static_by_default: bool = True  # off: dynamic=None leaves all sizes open
    # None: what fails in the compiler runs eagerly and is recorded, a failing user-defined backend raises.
    # True: both run eagerly. False: both raise.
    suppress_errors: bool | None = None
    dynamic_shapes: bool = True  # off: every size is known, whatever compile() was told
    disable: bool = False  # nothing is compiled: compiled functions run eagerly
    only_function: str = ""  # compile functions of this name only; all others run eagerly
    # "dynamo" or "aot": what fails after that is saved as a program that fails again, and raised (cutaway/repro.py)
    repro_after: str | None = None


@checks_fields
@dataclass(frozen=True)
class AutogradConfig:
    partitioner: str = (
        "min_cut"  # what is saved for the backward; or "recompute_pointwise", "save_everything"
    )
    activation_memory_budget: float = 1.0  # 0.0: recompute all from the inputs; 1.0: only what is cheap
    verify_passes: bool = False  # interpret each graph and program before and after a pass, and compare
    disabled_passes: str = (
        ""  # passes to leave out, comma-separated: `casts` (of decompose), `plan_memory.donate`
    )
    dump_passes: str = ""  # names of passes after which the graph is printed to stderr, or "all"


@checks_fields
@dataclass(frozen=True)
class LoweringConfig:
    fusion: bool = True  # off: one kernel per loop nest
    comments: bool = True  # the user's lines above the statements they became


@checks_fields
@dataclass(frozen=True)
class RuntimeConfig:
    cxx: str = ""  # the C++ compiler; "" looks for $CXX, g++, clang++, c++ on the path
    # -O3 -march=native     SIMD of this machine's width; code stays here, and the cache's key names the CPU
    # -fopenmp              `omp simd` and threads
    # -fno-math-errno       functions need not set errno: nothing reads it, and SIMD functions cannot
    # -fno-trapping-math    nothing reads the floating-point status flags, so a branch may become a select
    # -ffp-contract=off     a * b + c stays two roundings, as in eager
    # No flag changes a value; none lets the compiler reorder sums (-ffast-math does).
    cxx_flags: str = "-O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math -ffp-contract=off"
    cache: bool = True  # keep built code on disk
    force_disable_caches: bool = False  # as cache=False, by torch's name (TORCHINDUCTOR_FORCE_DISABLE_CACHES)
    cache_dir: str = ""  # "" is the user's cache folder
    cache_bytes: int = 2 << 30  # size bound of the disk cache
    compile_seconds: float = (
        300.0  # for one unit; a compiler that takes longer is stopped, the graph runs on NumPy
    )
    background: bool = False  # build kernels while the first calls run the graph's operators on NumPy
    never_slower: bool = False  # time a few calls of each new entry against eager, and keep the faster way
    deterministic: bool = False  # nothing is chosen by measurement: the two above are off
    poison: bool = False  # overwrite what is freed, to find who reads it (programs run step by step)
    cuda_graphs: bool = False  # capture GPU programs as CUDA graphs (mode="reduce-overhead")


@checks_fields
@dataclass(frozen=True)
class DebugConfig:
    logs: str = ""  # what is logged from the start, as CUTAWAY_LOGS has it: "+dynamo,graph_breaks,-guards"
    log_file: str = ""  # where logs go; "" is stderr
    log_format: str = "text"  # or "json": one object a line
    trace_folder: str = ""  # every event of the event log goes to a file there, one JSON object a line
    folder: bool = False  # each compile writes what it made into a debug folder (TORCH_COMPILE_DEBUG)
    folder_root: str = ""  # where its run_<time> folders are made; "" is ./torch_compile_debug
    benchmark_kernel: bool = (
        False  # as folder, and each kernel is a file that runs alone and says what it reaches
    )
    verify: bool = False  # each call of a compiled graph is checked; stop at the first operator that differs
    backend: str = ""  # every compile uses this backend instead of the one it asks for (`cutaway bisect`)
    verbose: bool = False  # faults of the compiler with their traceback, recompiles with every entry's reason


@checks_fields
@dataclass(frozen=True)
class Config:
    """All sections. Read as `config.current().runtime.cache_dir`."""

    capture: CaptureConfig = field(default_factory=CaptureConfig)
    autograd: AutogradConfig = field(default_factory=AutogradConfig)
    lowering: LoweringConfig = field(default_factory=LoweringConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    debug: DebugConfig = field(default_factory=DebugConfig)


# Fields that torch, too, has variables for, the newest first. Ours wins.
TORCH_VARIABLES: dict[str, tuple[str, ...]] = {
    "capture.automatic_dynamic_shapes": ("TORCH_DYNAMO_AUTOMATIC_DYNAMIC_SHAPES",),
    "capture.disable": ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"),
    "capture.dynamic_shapes": ("TORCHDYNAMO_DYNAMIC_SHAPES",),
    "capture.only_function": ("TORCHDYNAMO_DEBUG_FUNCTION",),
    "capture.repro_after": ("TORCHDYNAMO_REPRO_AFTER",),
    "capture.suppress_errors": ("TORCHDYNAMO_SUPPRESS_ERRORS",),
    "debug.benchmark_kernel": ("TORCHINDUCTOR_BENCHMARK_KERNEL",),
    "debug.folder": ("TORCH_COMPILE_DEBUG",),
    "debug.folder_root": ("TORCH_COMPILE_DEBUG_DIR",),
    "debug.log_file": ("TORCH_LOGS_OUT",),
    "debug.logs": ("TORCH_LOGS",),
    "debug.trace_folder": ("TORCH_TRACE",),
    "debug.verbose": ("TORCHDYNAMO_VERBOSE",),
    "runtime.cache": ("TORCHINDUCTOR_FX_GRAPH_CACHE",),
    "runtime.cache_dir": ("TORCHINDUCTOR_CACHE_DIR",),
    "runtime.cuda_graphs": ("TORCHINDUCTOR_CUDAGRAPHS",),
    "runtime.deterministic": ("TORCHINDUCTOR_DETERMINISTIC",),
    "runtime.force_disable_caches": (
        "TORCH_COMPILE_FORCE_DISABLE_CACHES",
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES",
    ),
}

_FALSE, _TRUE = ("0", "false", "no", "off", ""), ("1", "true", "yes", "on")


# Variables whose value means something else than the field's.
_MEANS: dict[str, Callable[[str], str]] = {
    "TORCH_COMPILE_DEBUG_DIR": lambda folder: str(Path(folder) / "torch_compile_debug"),
}
# Fields that also have a shorter variable in Cutaway.
SHORT_VARIABLES = {"capture.repro_after": "CUTAWAY_REPRO_AFTER", "debug.logs": "CUTAWAY_LOGS"}
# Fields that know a few words.
CHOICES: dict[str, tuple[str | None, ...]] = {
    "capture.repro_after": (None, "dynamo", "aot"),
    "debug.log_format": ("text", "json"),
}
# Variables that are no field's: what they are for.
OTHER_VARIABLES = {
    "CUTAWAY_CONFIG": "a TOML file with a table per section, read before the variables",
    "CUTAWAY_INTERNAL_ERRORS": "exit: a fault of the compiler ends the process with status 70",
    "CUTAWAY_UPDATE_GOLDEN": "1: the tests of golden texts write them",
}


def variable_of(section: str, name: str) -> str:
    """The environment variable of a field."""
    return f"CUTAWAY_{section}_{name}".upper()


def variables_of(field_name: str) -> tuple[str, ...]:
    """The environment variables of a field ("debug.logs"), in the order in which one wins over the next."""
    short = SHORT_VARIABLES.get(field_name)
    section, _, name = field_name.partition(".")
    return (*([short] if short else []), variable_of(section, name), *TORCH_VARIABLES.get(field_name, ()))


def from_environment(
    environment: Mapping[str, str] = os.environ, malformed: Callable[[str], None] | None = None
) -> Config:
    """The defaults with CUTAWAY_CONFIG's file and `CUTAWAY_*` variables applied. Raises ValueError for a value of the
    wrong type, or tells `malformed` and leaves the default."""

    def wrong(problem: str) -> None:
        if malformed is None:
            raise ValueError(problem)
        malformed(problem)

    config = _from_file(environment.get("CUTAWAY_CONFIG", ""), wrong)
    for name, wanted in field_types().items():
        variable = next((v for v in variables_of(name) if v in environment), None)
        if variable is not None:
            try:
                value = _parse(variable, _MEANS.get(variable, str)(environment[variable]), wanted)
                _check_choice(name, value, variable)
                config = with_changes(config, {name: value})
            except (TypeError, ValueError) as error:
                wrong(str(error))
    return config


def _from_file(path: str, wrong: Callable[[str], None]) -> Config:
    """The defaults with what a TOML file says: `[runtime]`, below it `cache = false`."""
    config = Config()
    if not path:
        return config
    import tomllib  # most processes have no such file

    try:
        tables = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        wrong(f"CUTAWAY_CONFIG={path!r} cannot be read: {error}")
        return config
    for section, table in tables.items():
        if not isinstance(table, dict):
            wrong(f"CUTAWAY_CONFIG={path!r}: {section} stands outside a table such as [runtime]")
            continue
        for name, value in table.items():
            try:
                config = with_changes(config, {f"{section}.{name}": value})
            except (AttributeError, TypeError) as error:
                wrong(f"CUTAWAY_CONFIG={path!r}: {error}")
    return config


@functools.cache
def field_types() -> dict[str, Any]:
    """Every field by its name ("runtime.cache") and its type."""
    sections = typing.get_type_hints(Config)
    return {
        f"{section.name}.{f.name}": typing.get_type_hints(sections[section.name])[f.name]
        for section in fields(Config)
        for f in fields(sections[section.name])
    }


def _shown(wanted: Any) -> str:
    return getattr(wanted, "__name__", str(wanted))


def _parse(variable: str, text: str, wanted: Any) -> Any:
    if type(None) in typing.get_args(wanted):
        wanted = typing.get_args(wanted)[0]
        if wanted is str and not text:
            return None
    if wanted is bool:
        if text.lower() in _TRUE or text.lower() in _FALSE:
            return text.lower() in _TRUE
        raise ValueError(f"{variable}={text!r}: expected one of {', '.join((*_TRUE, *_FALSE[:-1]))}")
    try:
        return wanted(text)
    except ValueError:
        raise ValueError(f"{variable}={text!r}: expected {wanted.__name__}") from None


def _check_choice(key: str, value: Any, called: str = "") -> None:
    if value not in CHOICES.get(key, (value,)):
        words, hint = " or ".join(map(repr, CHOICES[key])), did_you_mean(value, CHOICES[key])
        raise TypeError(say("wrong_choice", field=called or key, known=words, value=value, hint=hint))


def environment_in_words(environment: Mapping[str, str] = os.environ) -> Config:
    """As from_environment, but nothing here stops the import: what is wrong is a warning."""

    def warn(text: str) -> None:
        try:
            warnings.warn(text, stacklevel=3)
        except Warning:  # `python -W error` makes it an exception, and an import must not fail for a variable
            print(text, file=sys.stderr)

    known = [v for f in field_types() for v in variables_of(f) if v.startswith("CUTAWAY_")]
    known += OTHER_VARIABLES
    for name in environment:
        if name.startswith("CUTAWAY_") and name not in known:
            warn(say("unknown_variable", name=name, hint=_variable_hint(name, known)))
    return from_environment(environment, lambda problem: warn(say("malformed_variable", problem=problem)))


def _variable_hint(name: str, known: list[str]) -> str:
    """The variable that is meant, its section left out or not; else all there are."""
    names = {f"CUTAWAY_{f.name}".upper(): variable_of(s.name, f.name)
             for s in fields(Config) for f in fields(getattr(Config(), s.name))}  # fmt: skip
    found = near(name, [*known, *names])
    meant = found if found in known else names.get(found or "")
    return f"; did you mean {meant!r}?" if found else f"; there are {', '.join(known)}"


def with_changes(config: Config, changes: Mapping[str, Any]) -> Config:
    """A changed copy. Keys are `"runtime.cache_dir"`, or `cache_dir` where only one section has that field."""
    for key, value in changes.items():
        if not isinstance(key, str):
            raise TypeError(f"a configuration field is named by a string, got {key!r}")
        section_name, _, name = key.rpartition(".")
        owners = [
            s.name
            for s in fields(Config)
            if (not section_name or s.name == section_name) and hasattr(getattr(config, s.name), name)
        ]
        if len(owners) != 1:
            known = [f"{s.name}.{f.name}" for s in fields(Config) for f in fields(getattr(config, s.name))]
            otherwise = f"; expected one of {', '.join(known)}"
            hint = did_you_mean(key, [*known, *(k.partition(".")[2] for k in known)], otherwise)
            raise AttributeError(say("unknown_field", name=key, hint=hint))
        section = getattr(config, owners[0])
        wanted = typing.get_type_hints(type(section))[name]
        if type(value) not in (typing.get_args(wanted) or (wanted,)):
            raise TypeError(
                f"{owners[0]}.{name} expects {_shown(wanted)}, got {type(value).__name__} {value!r}"
            )
        _check_choice(f"{owners[0]}.{name}", value)
        config = replace(config, **{owners[0]: replace(section, **{name: value})})
    return config


_ENVIRONMENT = environment_in_words()
_CURRENT: ContextVar[Config | None] = ContextVar("cutaway_config", default=None)


def current() -> Config:
    """The configuration in force here."""
    return _CURRENT.get() or _ENVIRONMENT


def change(**changes: Any) -> None:
    """`config.change(recompile_limit=2)`: from here on, in this thread or task."""
    _CURRENT.set(with_changes(current(), changes))


@contextmanager
def patch(changes: Mapping[str, Any] | Config | None = None, **more: Any) -> Iterator[Config]:
    """`with config.patch(cache=False):` a changed configuration for this block, in this thread or task only. Given a
    whole Config (`config.current()` of another time, say), that one holds."""
    base, given = (changes, {}) if isinstance(changes, Config) else (current(), changes or {})
    token = _CURRENT.set(with_changes(base, {**given, **more}))
    try:
        yield current()
    finally:
        _CURRENT.reset(token)
