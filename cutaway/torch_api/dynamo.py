"""The compiler's controls under torch's paths: torch.compiler, torch._dynamo and what is below it.

Input: cutaway.compiler, and the tools of cutaway.debug. The configuration modules are in config_modules.py.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import cutaway
from cutaway import compiler
from cutaway.debug import logs
from cutaway.debug.compile_profiler import CompileProfiler
from cutaway.debug.compile_times import compile_times
from cutaway.debug.comptime import ComptimeContext, ComptimeVar, comptime
from cutaway.debug.counters import counters
from cutaway.torch_api.config_modules import TorchConfig
from stage0_eager.functions import unbacked
from stage_contracts import config, python_version
from stage_contracts.breaks import Unsupported
from stage_contracts.errors import BackendFailed
from stage_contracts.graph import GraphError


class OptimizedModule:
    """The class of torch.compile(module) in torch. Here a compiled module has the module's own class, so no object has
    this one. Code that unwraps a module (`m._orig_mod if isinstance(m, OptimizedModule) else m`) gets the module
    itself."""


def _load_compiled_function(
    file: Any, *, f_globals: dict[str, Any] | None = None, external_data: dict[str, Any] | None = None
) -> Any:
    """As cutaway.compiler.load_compiled_function, with torch's parameters. These have no `trust`: that you know who
    made the file, you say by the setting runtime.trust_saved_functions (CUTAWAY_RUNTIME_TRUST_SAVED_FUNCTIONS=1), or
    else it raises PermissionError. There is no external data: saving a function refuses what a file cannot hold."""
    if external_data:
        raise RuntimeError(
            f"load_compiled_function got external_data ({', '.join(external_data)}), but expects none: a saved "
            "function reads such objects from its globals; pass them in f_globals"
        )
    trust = config.current().runtime.trust_saved_functions
    try:
        return compiler.load_compiled_function(file, f_globals=f_globals, trust=trust)
    except PermissionError as error:
        if not trust:
            error.add_note(
                "or set CUTAWAY_RUNTIME_TRUST_SAVED_FUNCTIONS=1, since torch's signature has no trust"
            )
        raise


def compiler_modules(make: Any) -> dict[str, ModuleType]:
    """torch's modules about compiling, by path; `make(name, source, **names)` makes one."""
    shared = {
        name: getattr(compiler, name)
        for name in "allow_in_graph assume_constant_result disable is_compiling is_dynamo_compiling reset "
        "set_stance substitute_in_graph".split()
    }
    decorators = {
        name: getattr(compiler, name)
        for name in "disallow_in_graph error_on_graph_break forbid_in_graph graph_break mark_dynamic mark_static "
        "mark_static_address maybe_mark_dynamic nonstrict_trace run".split()
    }
    registry = {
        name: getattr(compiler, name) for name in "list_backends lookup_backend register_backend".split()
    }
    return {
        "torch.compiler": make("torch.compiler", compiler, load_compiled_function=_load_compiled_function),
        "torch._dynamo": make(
            "torch._dynamo",
            **shared,
            **decorators,
            **registry,
            explain=cutaway.explain,
            is_dynamo_supported=python_version.known,
            optimize=_optimize,
            replay=_replay,
            reset_code_caches=compiler.reset,
            OptimizedModule=OptimizedModule,
        ),
        "torch._dynamo.comptime": make(
            "torch._dynamo.comptime",
            comptime=comptime,
            ComptimeContext=ComptimeContext,
            ComptimeVar=ComptimeVar,
        ),
        "torch._dynamo.decorators": make("torch._dynamo.decorators", **shared, **decorators),
        "torch._dynamo.eval_frame": make("torch._dynamo.eval_frame", OptimizedModule=OptimizedModule),
        "torch._dynamo.backends": make("torch._dynamo.backends", **registry),
        "torch._dynamo.backends.registry": make("torch._dynamo.backends.registry", **registry),
        "torch.fx.experimental": make("torch.fx.experimental"),
        "torch.fx.experimental.symbolic_shapes": make(
            "torch.fx.experimental.symbolic_shapes",
            **{
                name: getattr(unbacked, name)
                for name in "statically_known_true guard_or_false guard_or_true".split()
            },
        ),
        "torch._higher_order_ops": make(
            "torch._higher_order_ops",
            **{name: getattr(cutaway, name) for name in "cond while_loop scan map".split()},
        ),
        "torch._dynamo.config": TorchConfig("torch._dynamo.config"),
        "torch._inductor": make("torch._inductor"),
        "torch._inductor.config": TorchConfig("torch._inductor.config"),
        "torch._functorch": make("torch._functorch"),
        "torch._functorch.config": TorchConfig("torch._functorch.config"),
        "torch._dynamo.testing": make(
            "torch._dynamo.testing",
            CompileCounter=compiler.CompileCounter,
            CompileCounterWithBackend=compiler.CompileCounterWithBackend,
            EagerAndRecordGraphs=compiler.EagerAndRecordGraphs,
        ),
        "torch._dynamo.utils": make(
            "torch._dynamo.utils",
            counters=counters,
            compile_times=compile_times,
            CompileProfiler=CompileProfiler,
            is_compile_supported=lambda device_type: python_version.known(),
        ),
        "torch._logging": make("torch._logging", set_logs=logs.set_logs),
        "torch._dynamo.exc": make(
            "torch._dynamo.exc",
            BackendCompilerFailed=BackendFailed,
            UserError=compiler.ConstraintViolationError,
            InternalTorchDynamoError=GraphError,
            Unsupported=Unsupported,
            TorchDynamoException=RuntimeError,
            FailOnRecompileLimitHit=compiler.RecompileError,
            RecompileError=compiler.RecompileError,
        ),
    }


def _replay(filename: Any) -> Any:
    """torch._dynamo.replay(file): a frame that replay_record_enabled recorded, compiled and called again."""
    from cutaway.debug.replay import replay  # imported here: it imports this package

    return replay(filename)


def _optimize(backend: Any = "inductor", *, nopython: bool = False, dynamic: bool | None = None) -> Any:
    """torch._dynamo.optimize(backend)(fn): the older spelling of compile(fn, backend=backend)."""
    return lambda fn: cutaway.compile(fn, backend=backend, fullgraph=nopython, dynamic=dynamic)
