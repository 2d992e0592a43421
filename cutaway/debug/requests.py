"""What torch's environment variables mean here: a request is carried out, or answered in one line, never ignored.

Input: the environment at `import cutaway`. Variables that are fields of the configuration are in
stage_contracts.config.TORCH_VARIABLES; here are all others that are about compiling, each with the nearest equivalent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from stage_contracts.config import TORCH_VARIABLES, field_types, variable_of, variables_of
from stage_contracts.messages import near

# A name that begins so is about compiling.
PREFIXES = (
    "TORCHDYNAMO", "TORCH_DYNAMO_", "TORCHINDUCTOR", "TORCH_INDUCTOR_", "TORCH_COMPILE", "TORCH_LOGS",
    "TORCH_TRACE", "TORCH_DTRACE", "TORCH_BISECT_", "TORCH_FX_", "TORCHFUNCTORCH", "TORCH_CUDAGRAPH", "AOT_INDUCTOR_",
    "AOT_PARTITIONER_", "PARTITIONER_MEMORY_BUDGET", "TORCH_FAKE_TENSOR_DISPATCH_CACHE",
    "TORCH_CACHING_PRECOMPILE", "TORCH_STRICT_PRECOMPILE", "TORCH_WARM_POOL",
)  # fmt: skip

_AUTOTUNE = "TORCHINDUCTOR_MAX_AUTOTUNE=1 measures a few configurations of each kernel, once"
_NO_TRITON_CHOICE = "kernels come from one table of schedules; CUTAWAY_LOGS=schedule shows them"
_CACHES = "CUTAWAY_RUNTIME_CACHE=0 switches the disk cache off, CUTAWAY_RUNTIME_CACHE_DIR moves it"
_EXACT = "casts and roundings are eager's already, and nothing is reassociated"
_REMOTE = "there is no remote cache; cutaway.compiler.save_cache writes the cache into a file"

# Pattern -> the nearest that there is. The first that fits is taken; the last row of each family fits all of it.
NEAREST: tuple[tuple[str, str], ...] = (
    ("TORCHDYNAMO_EXTENDED_ADVICE", "a graph break always says what to do"),
    ("TORCHDYNAMO_EXTENDED_DEBUG_CPP", "no C++ makes a guard; TORCHDYNAMO_EXTENDED_DEBUG_GUARD_ADDED shows the stacks"),
    ("TORCHDYNAMO_TRANSLATION_*", "CUTAWAY_AUTOGRAD_VERIFY_PASSES=1 compares every pass with what it was given"),
    ("TORCHDYNAMO_PRINT_MISSING", "CUTAWAY_LOGS=graph_breaks names what could not be captured"),
    ("TORCHDYNAMO_REPRO_*", "TORCHDYNAMO_REPRO_AFTER=aot and TORCHDYNAMO_REPRO_LEVEL save and minify what fails"),
    ("TORCHDYNAMO_NO_DATA_DEPENDENT_GRAPH_BREAK", "fullgraph=True makes every graph break an error"),
    ("TORCHDYNAMO", "CUTAWAY_CAPTURE_DISABLE=1 switches compiling off"),
    ("TORCH_COMPILE_BACKEND", "torch.compile(backend=...) names the backend"),
    ("TORCH_COMPILE_OVERRIDE_*", "torch.compile(backend=..., options=...) says it for each function"),
    ("TORCH_COMPILE_DEBUG_SAVE_REAL", "TORCH_COMPILE_DEBUG=1 writes fx_graph_runnable.py with random inputs"),
    ("TORCH_COMPILE_CPROFILE", "CUTAWAY_LOGS=compile_times shows what each pass took"),
    ("TORCH_COMPILE_DYNAMO_PROFILER", "CUTAWAY_LOGS=compile_times shows what each pass took"),
    ("TORCH_COMPILE_DYNAMIC_*", "torch._dynamo.mark_dynamic(tensor, dim) leaves a size open"),
    ("TORCH_COMPILE_UNBACKED_*", "torch._dynamo.mark_dynamic(tensor, dim) leaves a size open"),
    ("TORCH_COMPILE_STICKY_PGO_*", "sizes that changed are open from the second compile on, in each process"),
    ("TORCH_DYNAMO_AUTOMATIC_DYNAMIC_*", "sizes that changed are open from the second compile on, in each process"),
    ("TORCH_COMPILE_GRAPH_FORMAT", "graphs print as Python"),
    ("TORCH_LOGS_FORMAT", "CUTAWAY_DEBUG_LOG_FORMAT=json gives one JSON object a line"),
    ("TORCH_DTRACE", "TORCH_TRACE=folder writes every event there"),
    ("TORCH_BISECT_*", "CUTAWAY_AUTOGRAD_DISABLED_PASSES leaves passes out, ..._VERIFY_PASSES=1 names one"),
    ("TORCHINDUCTOR_PATTERN_MATCH*", "CUTAWAY_AUTOGRAD_DISABLED_PASSES leaves passes out, patterns among them"),
    ("TORCHINDUCTOR_DISABLED_PASSES", "CUTAWAY_AUTOGRAD_DISABLED_PASSES takes names of passes here"),
    ("TORCHINDUCTOR_DEBUG_FUSION", "CUTAWAY_LOGS=fusion shows each decision"),
    ("TORCHINDUCTOR_*FUSION*", "CUTAWAY_LOWERING_FUSION=0 switches fusion off, CUTAWAY_LOGS=fusion shows it"),
    ("TORCHINDUCTOR_UNIQUE_KERNEL_NAMES", "every kernel has a name of its own, made of what it computes"),
    ("TORCHINDUCTOR_UNIQUE_USER_KERNEL_NAMES", "every kernel has a name of its own, made of what it computes"),
    ("TORCHINDUCTOR_*PROFILE*", "CUTAWAY_LOGS=compile_times shows what each pass and build took"),
    ("TORCHINDUCTOR_*BENCHMARK*", "the debug folder's output_code.py, run alone, times a graph"),
    ("TORCHINDUCTOR_KERNELS_TO_DUMP", "CUTAWAY_LOGS=kernel_code prints every kernel"),
    ("TORCHINDUCTOR_DEBUG_COMPILE", "CUTAWAY_RUNTIME_CXX_FLAGS sets the compiler's flags"),
    ("TORCHINDUCTOR_DEBUG_SYMBOL", "CUTAWAY_RUNTIME_CXX_FLAGS sets the compiler's flags"),
    ("TORCHINDUCTOR_CPP_MARCH", "CUTAWAY_RUNTIME_CXX_FLAGS sets the compiler's flags"),
    ("TORCHINDUCTOR_CPP_WRAPPER*", "the C++ of a graph runs it in one call already"),
    ("TORCH_INDUCTOR_CPP_WRAPPER", "the C++ of a graph runs it in one call already"),
    ("TORCHINDUCTOR_VEC_ISA_OK", "the compiler vectorises for this machine; CUTAWAY_RUNTIME_CXX_FLAGS sets its flags"),
    ("TORCHINDUCTOR_CPP_*", "CUTAWAY_RUNTIME_CXX_FLAGS sets the compiler's flags"),
    ("TORCHINDUCTOR_USE_FAST_MATH", "no flag may change a value"),
    ("TORCHINDUCTOR_EMULATE_*", _EXACT),
    ("TORCHINDUCTOR_NAN_ASSERTS", "CUTAWAY_AUTOGRAD_VERIFY_PASSES=1 compares what is compiled with eager"),
    ("TORCHINDUCTOR_SIZE_ASSERTS", "guards and the layouts in the C++ are always checked"),
    ("TORCHINDUCTOR_SCALAR_ASSERTS", "guards and the layouts in the C++ are always checked"),
    ("TORCHINDUCTOR_SAVE_ARGS", "TORCH_COMPILE_DEBUG=1 writes fx_graph_runnable.py with inputs of the same shapes"),
    ("TORCHINDUCTOR_FREEZING", "weights stay inputs"),
    ("TORCHDYNAMO_PREPARE_FREEZING", "weights stay inputs"),
    ("TORCHINDUCTOR_COMPILE_THREADS", "the halves of a graph are built at the same time; there is no pool to size"),
    ("TORCHINDUCTOR_WORKER*", "the halves of a graph are built at the same time; there is no pool to size"),
    ("TORCHINDUCTOR_*REMOTE*", _REMOTE),
    ("TORCHINDUCTOR_REDIS_*", _REMOTE),
    ("TORCHINDUCTOR_*CACHE*", _CACHES),
    ("TORCHINDUCTOR_*MEMORY*", "CUTAWAY_AUTOGRAD_ACTIVATION_MEMORY_BUDGET trades memory for time"),
    ("TORCHINDUCTOR_CUDAGRAPH*", 'torch.compile(mode="reduce-overhead") captures CUDA graphs'),
    ("TORCH_CUDAGRAPH*", 'torch.compile(mode="reduce-overhead") captures CUDA graphs'),
    ("TORCHINDUCTOR_*AUTOTUN*", _AUTOTUNE),
    ("TORCHINDUCTOR_COORDINATE_DESCENT_*", _AUTOTUNE),
    ("TORCHINDUCTOR_CUTLASS_*", _AUTOTUNE),
    ("TORCHINDUCTOR_AUTOHEURISTIC_*", _AUTOTUNE),
    ("TORCHINDUCTOR_*REDUCTION*", _NO_TRITON_CHOICE),
    ("TORCHINDUCTOR_*LAYOUT*", _NO_TRITON_CHOICE),
    ("TORCHINDUCTOR_ENABLED_METRIC_TABLES", "cutaway.explain counts graphs, operators and guards"),
    ("TORCHINDUCTOR_*", "CUTAWAY_LOGS=output_code,schedule shows what is generated"),
    ("TORCH_INDUCTOR_*", "CUTAWAY_LOGS=output_code,schedule shows what is generated"),
    ("AOT_PARTITIONER_DEBUG", "fn.artifacts[-1] prints what is saved for the backward, and why"),
    ("PARTITIONER_MEMORY_BUDGET*", "CUTAWAY_AUTOGRAD_ACTIVATION_MEMORY_BUDGET trades memory for time"),
    ("AOT_INDUCTOR_*", "there is no export to a library; compiled programs are cached on disk"),
    ("TORCH_FAKE_TENSOR_*", "metas are computed by a table of rules, without a cache"),
    ("TORCHDYNAMO_*", "CUTAWAY_LOGS=+dynamo shows what capture does"),
    ("TORCH_DYNAMO_*", "CUTAWAY_LOGS=+dynamo shows what capture does"),
    ("TORCH_COMPILE*", "CUTAWAY_LOGS=+dynamo,+aot,+inductor shows every stage"),
    ("*", "CUTAWAY_LOGS=+dynamo,+aot,+inductor shows every stage"),
)  # fmt: skip

# What is carried out, and for which field: also the names worth offering where one was mistyped.
_HONOURED = {variable: field for field, names in TORCH_VARIABLES.items() for variable in names}


def answers(environment: Mapping[str, str] = os.environ) -> list[str]:
    """One line for each variable of torch's about compiling that nothing here carries out, or that was mistyped."""
    return [answer(name) for name in sorted(environment) if _asks(name)]


def _asks(name: str) -> bool:
    if name in _HONOURED or name.startswith(
        "CUTAWAY_"
    ):  # an unknown one of ours is the configuration's to tell
        return False
    return name.startswith(PREFIXES) or (
        name.startswith(("TORCH", "CUT")) and near(name, _known()) is not None
    )


def _known() -> list[str]:
    """Every variable that acts."""
    return [variable for field in field_types() for variable in variables_of(field)]


def answer(name: str) -> str:
    """What to say about such a variable: the name that was probably meant, or the nearest equivalent."""
    meant = None if name in dict(NEAREST) else near(name, _known())
    if meant is not None:
        return f"cutaway: {name} is not a variable that is known here; did you mean {meant}?"
    return f"cutaway: {name} is not honoured here; nearest: {nearest(name)}"


def nearest(name: str) -> str:
    """The equivalent that NEAREST has for a variable."""
    return next(text for pattern, text in NEAREST if fnmatchcase(name, pattern))


def rows() -> Iterable[tuple[str, str]]:
    """(torch's variable, ours) of all that are carried out, for the page of switches."""
    for name, field in sorted(_HONOURED.items()):
        yield name, variable_of(*field.split("."))
