"""The compiler's controls under torch's paths: torch.compiler, torch._dynamo and what is below it.

Input: cutaway.compiler. `torch._dynamo.config` reads and writes the fields of our configuration that have a
counterpart there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import cutaway
from cutaway import compiler, logs
from cutaway.subjects import no_attribute
from stage_contracts import config, python_version
from stage_contracts.breaks import Unsupported
from stage_contracts.errors import BackendFailed
from stage_contracts.graph import Graph, GraphError, Node
from stage_contracts.graph_module import GraphModule

# torch's name -> our field of the capture section.
FIELDS = {
    "recompile_limit": "recompile_limit",
    "cache_size_limit": "recompile_limit",
    "accumulated_recompile_limit": "accumulated_recompile_limit",
    "accumulated_cache_size_limit": "accumulated_recompile_limit",
    "fail_on_recompile_limit_hit": "fail_on_recompile_limit_hit",
    "error_on_recompile": "error_on_recompile",
    "automatic_dynamic_shapes": "automatic_dynamic_shapes",
    "assume_static_by_default": "assume_static_by_default",
    "suppress_errors": "suppress_errors",
    "repro_after": "repro_after",
    "trace_numpy": "trace_numpy",
}
# Names that published code sets, and the only value that means what happens here; another raises.
FIXED = {
    "capture_scalar_outputs": False,
    "capture_dynamic_output_shape_ops": False,
    "inline_inbuilt_nn_modules": True,
    "force_parameter_static_shapes": True,
    "specialize_int": False,
    "guard_nn_modules": True,
}
# How much is said, and how torch itself works: kept, and without effect.
KEPT = {"verbose": False, "log_level": None, "optimize_ddp": False, "cache_size_limit_verbose": False}


class DynamoConfig(ModuleType):
    """`torch._dynamo.config`: attributes are fields, `patch(field=value)` changes them for a block or a function."""

    def __init__(self) -> None:
        super().__init__("torch._dynamo.config", "Cutaway's torch._dynamo.config")
        self.__dict__["_kept"] = dict(KEPT)

    def __getattr__(self, name: str) -> Any:
        if name in FIELDS:
            return getattr(config.current().capture, FIELDS[name])
        if name in FIXED:
            return FIXED[name]
        if name in KEPT:
            return self.__dict__["_kept"][name]
        raise _unknown(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        elif name in FIELDS:
            config.change(**{FIELDS[name]: value})
        elif name in KEPT:
            self.__dict__["_kept"][name] = value
        else:
            _check(name, value)

    @staticmethod
    @contextmanager
    def patch(changes: dict[str, Any] | str | None = None, value: Any = None, **more: Any) -> Iterator[None]:
        """`patch(field=value)`, `patch({"field": value})` or `patch("field", value)`."""
        given = {changes: value} if isinstance(changes, str) else {**(changes or {}), **more}
        for name, wanted in given.items():
            if name not in FIELDS and name not in KEPT:
                _check(name, wanted)
        with config.patch({FIELDS[name]: wanted for name, wanted in given.items() if name in FIELDS}):
            yield


def _check(name: str, value: Any) -> None:
    if name not in FIXED:
        raise _unknown(name)
    if value != FIXED[name]:
        raise NotImplementedError(
            f"torch._dynamo.config.{name} is {FIXED[name]} here and cannot be {value!r}"
        )


def _unknown(name: str) -> AttributeError:
    names = [*FIELDS, *FIXED, *KEPT]
    return AttributeError(no_attribute(f"torch._dynamo.config.{name}", names))


class OptimizedModule:
    """What torch.compile(module) returns in torch. Here it is of the module's own class, so nothing is one of these:
    code that unwraps one (`m._orig_mod if isinstance(m, OptimizedModule) else m`) takes the module as it is."""


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
    fx = {"GraphModule": GraphModule, "Graph": Graph, "Node": Node}
    return {
        "torch.compiler": make("torch.compiler", compiler),
        "torch._dynamo": make(
            "torch._dynamo",
            **shared,
            **decorators,
            **registry,
            explain=cutaway.explain,
            is_dynamo_supported=python_version.known,
            optimize=_optimize,
            reset_code_caches=compiler.reset,
            OptimizedModule=OptimizedModule,
        ),
        "torch._dynamo.decorators": make("torch._dynamo.decorators", **shared, **decorators),
        "torch._dynamo.eval_frame": make("torch._dynamo.eval_frame", OptimizedModule=OptimizedModule),
        "torch._dynamo.backends": make("torch._dynamo.backends", **registry),
        "torch._dynamo.backends.registry": make("torch._dynamo.backends.registry", **registry),
        "torch.fx": make("torch.fx", **fx),
        "torch.fx.graph": make("torch.fx.graph", Graph=Graph),
        "torch.fx.graph_module": make("torch.fx.graph_module", GraphModule=GraphModule),
        "torch.fx.node": make("torch.fx.node", Node=Node),
        "torch._higher_order_ops": make(
            "torch._higher_order_ops",
            **{name: getattr(cutaway, name) for name in "cond while_loop scan map".split()},
        ),
        "torch._dynamo.config": DynamoConfig(),
        "torch._dynamo.testing": make(
            "torch._dynamo.testing",
            CompileCounter=compiler.CompileCounter,
            CompileCounterWithBackend=compiler.CompileCounterWithBackend,
            EagerAndRecordGraphs=compiler.EagerAndRecordGraphs,
        ),
        "torch._dynamo.utils": make("torch._dynamo.utils", counters=logs.counters),
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


def _optimize(backend: Any = "inductor", *, nopython: bool = False, dynamic: bool | None = None) -> Any:
    """torch._dynamo.optimize(backend)(fn): the older spelling of compile(fn, backend=backend)."""
    return lambda fn: cutaway.compile(fn, backend=backend, fullgraph=nopython, dynamic=dynamic)
