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
from cutaway import compiler
from stage_contracts import config
from stage_contracts.breaks import Unsupported

# torch's name -> our field of the capture section.
FIELDS = {
    "recompile_limit": "recompile_limit",
    "cache_size_limit": "recompile_limit",
    "accumulated_recompile_limit": "accumulated_recompile_limit",
    "accumulated_cache_size_limit": "accumulated_recompile_limit",
    "suppress_errors": "suppress_errors",
    "trace_numpy": "trace_numpy",
}


class DynamoConfig(ModuleType):
    """`torch._dynamo.config`: attributes are fields, `patch(field=value)` changes them for a block or a function."""

    def __init__(self) -> None:
        super().__init__("torch._dynamo.config", "Cutaway's torch._dynamo.config")

    def __getattr__(self, name: str) -> Any:
        if name not in FIELDS:
            raise AttributeError(f"Cutaway has no torch._dynamo.config.{name}; it has {', '.join(FIELDS)}")
        return getattr(config.current().capture, FIELDS[name])

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        elif name not in FIELDS:
            raise AttributeError(f"Cutaway has no torch._dynamo.config.{name}; it has {', '.join(FIELDS)}")
        else:
            config.change(**{FIELDS[name]: value})

    @staticmethod
    @contextmanager
    def patch(changes: dict[str, Any] | None = None, **more: Any) -> Iterator[None]:
        wanted = {FIELDS.get(name, name): value for name, value in {**(changes or {}), **more}.items()}
        with config.patch(wanted):
            yield


def compiler_modules(make: Any) -> dict[str, ModuleType]:
    """torch's modules about compiling, by path; `make(name, source, **names)` makes one."""
    shared = {
        name: getattr(compiler, name)
        for name in "allow_in_graph disable is_compiling is_dynamo_compiling list_backends reset".split()
    }
    return {
        "torch.compiler": make("torch.compiler", compiler),
        "torch._dynamo": make(
            "torch._dynamo",
            **shared,
            **{
                name: getattr(compiler, name)
                for name in "assume_constant_result disallow_in_graph error_on_graph_break graph_break mark_dynamic "
                "mark_static maybe_mark_dynamic nonstrict_trace run substitute_in_graph".split()
            },
            explain=cutaway.explain,
            optimize=_optimize,
        ),
        "torch._higher_order_ops": make(
            "torch._higher_order_ops",
            **{name: getattr(cutaway, name) for name in "cond while_loop scan map".split()},
        ),
        "torch._dynamo.config": DynamoConfig(),
        "torch._dynamo.testing": make(
            "torch._dynamo.testing",
            CompileCounter=compiler.CompileCounter,
            EagerAndRecordGraphs=compiler.EagerAndRecordGraphs,
        ),
        "torch._dynamo.exc": make(
            "torch._dynamo.exc",
            Unsupported=Unsupported,
            TorchDynamoException=RuntimeError,
            FailOnRecompileLimitHit=compiler.RecompileError,
            RecompileError=compiler.RecompileError,
        ),
    }


def _optimize(backend: Any = "inductor", *, nopython: bool = False, dynamic: bool | None = None) -> Any:
    """torch._dynamo.optimize(backend)(fn): the older spelling of compile(fn, backend=backend)."""
    return lambda fn: cutaway.compile(fn, backend=backend, fullgraph=nopython, dynamic=dynamic)
