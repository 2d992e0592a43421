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
    recompile_limit: int = 8  # entries of one compiled function; after that, new cases run eagerly
    accumulated_recompile_limit: int = 256  # entries of one code object, over all functions compiled from it
    trace_numpy: bool = True  # capture NumPy functions of arrays; off: NumPy runs them
    fail_on_recompile_limit_hit: bool = False  # at a limit, raise instead of running eagerly
    error_on_recompile: bool = False  # raise at every recompile
    automatic_dynamic_shapes: bool = True  # with dynamic=None, sizes that have changed are open
    assume_static_by_default: bool = True  # off: with dynamic=None, all sizes are open
    # None: after a bug in the compiler the function runs eagerly (an event records it), and an error of a user-defined
    # backend is raised. True: after both it runs eagerly. False: both are raised.
    suppress_errors: bool | None = None
    # a number read out of a tensor stays in the graph; off: a graph break, but not under fullgraph=True
    capture_scalar_outputs: bool = False
    # a result whose size the data decides (nonzero, a boolean index) stays in the graph; off: as above
    capture_dynamic_output_shape_ops: bool = False
    specialize_float: bool = False  # a float of the program is a constant of its entry; off: an input
    specialize_int: bool = False  # as specialize_float, for ints
    do_not_emit_runtime_asserts: bool = (
        False  # what is promised of unbacked sizes is not checked when it runs
    )
    allow_ignore_mark_dynamic: bool = False  # a size marked as dynamic may be fixed; off: that raises
    run_gc_after_compile: bool = False  # collect garbage after every compile
    dynamic_shapes: bool = True  # off: no size is open, whatever compile() gets as `dynamic`
    disable: bool = False  # compiled functions run eagerly, and nothing is compiled
    only_function: str = ""  # compile functions of this name only; all others run eagerly
    # "dynamo" or "aot": an error after that step is saved as a program that reproduces it, and raised
    # (cutaway/repro.py)
    repro_after: str | None = None
    # 1: save the program only; 2: and minifier_launcher.py; 3: of every graph, before it fails (a crash leaves no
    # time); 4: as 2, and a result that differs is a failure (debug.verify)
    repro_level: int = 2
    # an error while a frame is compiled is recorded with the frame's arguments and source, for torch._dynamo.replay
    replay_record_enabled: bool = False


@checks_fields
@dataclass(frozen=True)
class AutogradConfig:
    partitioner: str = (
        "min_cut"  # decides what is saved for the backward; or "recompute_pointwise", "save_everything"
    )
    activation_memory_budget: float = 1.0  # 0.0: recompute everything; 1.0: only what is cheap
    verify_passes: bool = False  # interpret each graph and program before and after a pass, and compare
    disabled_passes: str = (
        ""  # passes to switch off, separated by commas: `casts` (of decompose), `plan_memory.donate`
    )
    dump_passes: str = ""  # names of passes after which the graph is printed to stderr, or "all"


@checks_fields
@dataclass(frozen=True)
class LoweringConfig:
    fusion: bool = True  # off: one kernel per loop nest
    comments: bool = True  # quote the user's lines in generated code
    layout_optimization: bool = (
        True  # on a GPU, convolutions of halves and what follows have channels innermost
    )


@checks_fields
@dataclass(frozen=True)
class DistributedConfig:
    # How compiled code averages the gradients of DistributedDataParallel. "in_graph": collectives in the backward
    # graph, one for each bucket; "ddp_optimizer": a graph for each bucket, and hooks between them, as in torch; "off":
    # one graph, and all collectives after it
    optimize_ddp: str = "in_graph"
    prefetch: int = 1  # how many parameters of fully_shard are gathered ahead of the one in use


@checks_fields
@dataclass(frozen=True)
class RuntimeConfig:
    cxx: str = ""  # the C++ compiler; "" looks for $CXX, g++, clang++, c++ on the path
    # -O3 -march=native     SIMD of this CPU; the code runs only on this machine, and the cache's key includes the CPU
    # -fopenmp              `omp simd` and threads
    # -fno-math-errno       functions do not set errno: nothing reads it, and SIMD functions cannot set it
    # -fno-trapping-math    nothing reads the floating-point status flags, so a branch may become a select
    # -ffp-contract=off     a * b + c rounds twice, as in eager
    # No flag changes a value, and none lets the compiler reorder sums (as -ffast-math does).
    cxx_flags: str = "-O3 -march=native -fopenmp -fno-math-errno -fno-trapping-math -ffp-contract=off"
    cache: bool = True  # keep compiled programs and kernels on disk
    # the same as cache=False, under torch's name (TORCHINDUCTOR_FORCE_DISABLE_CACHES)
    force_disable_caches: bool = False
    cache_dir: str = ""  # "" is the user's cache folder
    cache_bytes: int = 2 << 30  # largest size of the disk cache
    # torch.compiler.load_compiled_function, whose signature has no `trust`, runs the native code of its files
    trust_saved_functions: bool = False
    reuse_memory: bool = True  # off: every temporary has bytes of its own
    # Freed memory that the process keeps for the next call's results, in bytes, where glibc allocates; 0 gives it back.
    # It changes malloc for the whole process, and is on because a training step of a six-layer language model asks
    # for 18,000 new pages without it, 2 to 11 % of its CPU time (64 MiB are too few for that step). The price is
    # memory: up to this much stays resident after you drop arrays, and as much again of results over 32 MiB, which
    # glibc would always give back: for one of 64 MiB the system fills pages for 11 to 14 ms of each call. `make
    # kept-memory` measures both.
    keep_freed: int = 256 << 20
    compile_seconds: float = (
        300.0  # for one source file; a C++ compiler that takes longer is stopped, and the graph runs on NumPy
    )
    background: bool = False  # build kernels while the first calls run the graph's operators on NumPy
    never_slower: bool = False  # time a few calls of each new entry against eager, and keep the faster way
    deterministic: bool = (
        False  # no choice depends on a measurement: the two fields above and max_autotune are off
    )
    poison: bool = False  # overwrite freed memory, to find code that reads it; programs run step by step
    cuda_graphs: bool = False  # capture GPU programs as CUDA graphs (mode="reduce-overhead")
    # Independent branches of a GPU program on streams of their own. "auto": in programs that become CUDA graphs, where
    # the rule of stage4_runtime/runtime/stream_costs.py says that it pays; "on": the same in all programs, though each
    # event costs the host as much as a launch; "force": every branch; "off": one stream, as torch
    parallel_streams: str = "auto"
    # measure which algorithm of cuDNN is fastest (torch.backends.cudnn.benchmark, mode="max-autotune")
    cudnn_benchmark: bool = False
    # on a GPU, measure a few configurations of each kernel once and keep the fastest (mode="max-autotune")
    max_autotune: bool = False
    # convolve float32 with 10 bits of each factor instead of 23 (torch.backends.cudnn.allow_tf32)
    cudnn_allow_tf32: bool = False
    # multiply matrices of float32 likewise in compiled code on a GPU. torch.set_float32_matmul_precision and
    # torch.backends.cuda.matmul.allow_tf32 switch it on, and eager products, too
    matmul_allow_tf32: bool = False


@checks_fields
@dataclass(frozen=True)
class DebugConfig:
    logs: str = ""  # logs that are on from the start, as in CUTAWAY_LOGS: "+dynamo,graph_breaks,-guards"
    log_file: str = ""  # where logs go; "" is stderr
    log_format: str = "text"  # or "json": one object per line
    trace_folder: str = ""  # write every event to a file in this folder, one JSON object per line
    folder: bool = False  # each compile writes its artifacts into a debug folder (TORCH_COMPILE_DEBUG)
    folder_root: str = ""  # the parent of the run_<time> debug folders; "" is ./torch_compile_debug
    folder_without: str = ""  # files that a debug folder lacks, by name: "graph_diagram.*,memory.txt"
    # as folder, and each kernel becomes a file that runs alone and prints its bandwidth
    benchmark_kernel: bool = False
    # "Eq(s0, 10)", or as it stands in Python: print where this guard is added, in the user's code and in the compiler
    guard_added: str = ""
    symbol_made: str = ""  # "s0": print where the symbol of an open size is made
    # compare each call of a compiled graph with its operators, and each guard alone; raise if one differs
    verify: bool = False
    verify_crashes: bool = (
        False  # with verify: each call runs in a fork first, to name what crashes the process
    )
    backend: str = ""  # every compile uses this backend, whatever compile() gets (for `cutaway bisect`)
    # show bugs in the compiler with their traceback, and recompiles with the reason of every entry
    verbose: bool = False


@checks_fields
@dataclass(frozen=True)
class Config:
    """All sections. Read as `config.current().runtime.cache_dir`."""

    capture: CaptureConfig = field(default_factory=CaptureConfig)
    autograd: AutogradConfig = field(default_factory=AutogradConfig)
    lowering: LoweringConfig = field(default_factory=LoweringConfig)
    distributed: DistributedConfig = field(default_factory=DistributedConfig)
    runtime: RuntimeConfig = field(default_factory=RuntimeConfig)
    debug: DebugConfig = field(default_factory=DebugConfig)


# Fields for which torch has variables, too; torch's newest name first. CUTAWAY_... wins over torch's.
TORCH_VARIABLES: dict[str, tuple[str, ...]] = {
    "capture.automatic_dynamic_shapes": ("TORCH_DYNAMO_AUTOMATIC_DYNAMIC_SHAPES",),
    "capture.capture_dynamic_output_shape_ops": ("TORCHDYNAMO_CAPTURE_DYNAMIC_OUTPUT_SHAPE_OPS",),
    "capture.capture_scalar_outputs": ("TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS",),
    "capture.disable": ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"),
    "capture.dynamic_shapes": ("TORCHDYNAMO_DYNAMIC_SHAPES",),
    "capture.only_function": ("TORCHDYNAMO_DEBUG_FUNCTION",),
    "capture.repro_after": ("TORCHDYNAMO_REPRO_AFTER",),
    "capture.repro_level": ("TORCHDYNAMO_REPRO_LEVEL",),
    "capture.replay_record_enabled": ("TORCH_COMPILE_REPLAY_RECORD",),
    "capture.suppress_errors": ("TORCHDYNAMO_SUPPRESS_ERRORS",),
    "debug.benchmark_kernel": ("TORCHINDUCTOR_BENCHMARK_KERNEL",),
    "debug.folder": ("TORCH_COMPILE_DEBUG",),
    "debug.folder_root": ("TORCH_COMPILE_DEBUG_DIR",),
    "debug.guard_added": ("TORCHDYNAMO_EXTENDED_DEBUG_GUARD_ADDED",),
    "debug.log_file": ("TORCH_LOGS_OUT",),
    "debug.logs": ("TORCH_LOGS",),
    "debug.symbol_made": ("TORCHDYNAMO_EXTENDED_DEBUG_CREATE_SYMBOL",),
    "debug.trace_folder": ("TORCH_TRACE",),
    "debug.verbose": ("TORCHDYNAMO_VERBOSE",),
    "runtime.cache": ("TORCHINDUCTOR_FX_GRAPH_CACHE",),
    "runtime.cache_dir": ("TORCHINDUCTOR_CACHE_DIR",),
    "runtime.cuda_graphs": ("TORCHINDUCTOR_CUDAGRAPHS",),
    "runtime.deterministic": ("TORCHINDUCTOR_DETERMINISTIC",),
    "runtime.max_autotune": ("TORCHINDUCTOR_MAX_AUTOTUNE",),
    "runtime.force_disable_caches": (
        "TORCH_COMPILE_FORCE_DISABLE_CACHES",
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES",
    ),
}

_FALSE, _TRUE = ("0", "false", "no", "off", ""), ("1", "true", "yes", "on")


# Variables whose values differ from the field's.
_MEANS: dict[str, Callable[[str], str]] = {
    "TORCH_COMPILE_DEBUG_DIR": lambda folder: str(Path(folder) / "torch_compile_debug"),
}
# Fields that also have a shorter variable in Cutaway.
SHORT_VARIABLES = {"capture.repro_after": "CUTAWAY_REPRO_AFTER", "debug.logs": "CUTAWAY_LOGS"}
# Fields with a few possible words as values.
CHOICES: dict[str, tuple[str | int | None, ...]] = {
    "capture.repro_after": (None, "dynamo", "aot"),
    "capture.repro_level": (1, 2, 3, 4),
    "debug.log_format": ("text", "json"),
    "runtime.parallel_streams": ("auto", "on", "force", "off"),
}
# Variables that do not belong to a field, and what they are for.
OTHER_VARIABLES = {
    "CUTAWAY_CONFIG": "a TOML file with a table per section, read before the variables",
    "CUTAWAY_INTERNAL_ERRORS": "exit: a fault of the compiler ends the process with status 70",
    "CUTAWAY_UPDATE_GOLDEN": "1: the tests of golden texts write them",
}


def variable_of(section: str, name: str) -> str:
    """The environment variable of a field."""
    return f"CUTAWAY_{section}_{name}".upper()


def variables_of(field_name: str) -> tuple[str, ...]:
    """The environment variables of a field ("debug.logs"). Each wins over those after it."""
    short = SHORT_VARIABLES.get(field_name)
    section, _, name = field_name.partition(".")
    return (*([short] if short else []), variable_of(section, name), *TORCH_VARIABLES.get(field_name, ()))


def from_environment(
    environment: Mapping[str, str] = os.environ, malformed: Callable[[str], None] | None = None
) -> Config:
    """The defaults, changed by CUTAWAY_CONFIG's file and then by `CUTAWAY_*` variables. For a value of the wrong type:
    raises ValueError or, if there is a `malformed`, calls it and keeps the default."""

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
    """The defaults, changed by a TOML file: `[runtime]`, and below it `cache = false`."""
    config = Config()
    if not path:
        return config
    import tomllib  # imported here, because most processes have no such file

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
    return {
        f"{section}.{name}": wanted
        for section, kind in typing.get_type_hints(Config).items()
        for name, wanted in typing.get_type_hints(kind).items()
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
        words, hint = " or ".join(map(repr, CHOICES[key])), did_you_mean(str(value), CHOICES[key])
        raise TypeError(say("wrong_choice", field=called or key, known=words, value=value, hint=hint))


def environment_in_words(environment: Mapping[str, str] = os.environ) -> Config:
    """The same as from_environment, but an error is only a warning, so that the import goes on."""

    def warn(text: str) -> None:
        try:
            warnings.warn(text, stacklevel=3)
        except Warning:  # with `python -W error` a warning raises, but a variable must not stop the import
            print(text, file=sys.stderr)

    known = [v for f in field_types() for v in variables_of(f) if v.startswith("CUTAWAY_")]
    known += OTHER_VARIABLES
    for name in environment:
        if name.startswith("CUTAWAY_") and name not in known:
            warn(say("unknown_variable", name=name, hint=_variable_hint(name, known)))
    return from_environment(environment, lambda problem: warn(say("malformed_variable", problem=problem)))


def _variable_hint(name: str, known: list[str]) -> str:
    """The variable that was probably meant, with or without its section; otherwise, all variables."""
    names = {f"CUTAWAY_{f.name}".upper(): variable_of(s.name, f.name)
             for s in fields(Config) for f in fields(getattr(Config(), s.name))}  # fmt: skip
    found = near(name, [*known, *names])
    meant = found if found in known else names.get(found or "")
    return f"; did you mean {meant!r}?" if found else f"; there are {', '.join(known)}"


def with_changes(config: Config, changes: Mapping[str, Any]) -> Config:
    """A changed copy. Keys are `"runtime.cache_dir"`, or `cache_dir` where only one section has that field."""
    for key, value in changes.items():
        if not isinstance(key, str):
            raise TypeError(
                f"the name of a configuration field is a string such as 'runtime.cache', but got {key!r}"
            )
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
        wanted = field_types()[f"{owners[0]}.{name}"]
        if type(value) not in (typing.get_args(wanted) or (wanted,)):
            raise TypeError(
                f"{owners[0]}.{name} expects {_shown(wanted)}, but got {value!r} ({type(value).__name__})"
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
    """`with config.patch(cache=False):` changes the configuration for this block, in this thread or task only. You can
    also pass a whole Config, for example an earlier `config.current()`."""
    base, given = (changes, {}) if isinstance(changes, Config) else (current(), changes or {})
    token = _CURRENT.set(with_changes(base, {**given, **more}))
    try:
        yield current()
    finally:
        _CURRENT.reset(token)
