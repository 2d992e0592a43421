"""What the fields of torch._dynamo.config, torch._inductor.config and torch._functorch.config mean here.

Input: a field's name as torch spells it ("triton.cudagraphs"). Three tables: fields of ours, fields whose only possible
value is the one here, and fields that are kept and change nothing, with what to say of it. A fourth has patterns of the
names in torch_other_fields.py, and what to say of those. Of torch._dynamo.config no field changes nothing:
dynamo_fields.py has those that are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from cutaway.debug.dynamo_fields import DYNAMO_KEPT
from cutaway.debug.torch_other_fields import OTHER_FIELDS
from stage_contracts.report import report_once

# torch's name -> our field.
FIELDS: dict[str, dict[str, str]] = {
    "torch._dynamo.config": {
        "recompile_limit": "capture.recompile_limit",
        "cache_size_limit": "capture.recompile_limit",
        "accumulated_recompile_limit": "capture.accumulated_recompile_limit",
        "accumulated_cache_size_limit": "capture.accumulated_recompile_limit",
        "fail_on_recompile_limit_hit": "capture.fail_on_recompile_limit_hit",
        "fail_on_cache_limit_hit": "capture.fail_on_recompile_limit_hit",
        "error_on_recompile": "capture.error_on_recompile",
        "automatic_dynamic_shapes": "capture.automatic_dynamic_shapes",
        "assume_static_by_default": "capture.assume_static_by_default",
        "dynamic_shapes": "capture.dynamic_shapes",
        "suppress_errors": "capture.suppress_errors",
        "capture_scalar_outputs": "capture.capture_scalar_outputs",
        "capture_dynamic_output_shape_ops": "capture.capture_dynamic_output_shape_ops",
        "trace_numpy": "capture.trace_numpy",
        "repro_after": "capture.repro_after",
        "repro_level": "capture.repro_level",
        "replay_record_enabled": "capture.replay_record_enabled",
        "disable": "capture.disable",
        "specialize_float": "capture.specialize_float",
        "specialize_int": "capture.specialize_int",
        "do_not_emit_runtime_asserts": "capture.do_not_emit_runtime_asserts",
        "allow_ignore_mark_dynamic": "capture.allow_ignore_mark_dynamic",
        "run_gc_after_compile": "capture.run_gc_after_compile",
        "verbose": "debug.verbose",
        "verify_correctness": "autograd.verify_passes",
        "debug_dir_root": "debug.folder_root",
        "base_dir": "debug.folder_root",
        "log_file_name": "debug.log_file",
        "log_file": "debug.log_file",
    },
    "torch._inductor.config": {
        "debug": "debug.folder",
        "trace.enabled": "debug.folder",
        "trace.debug_dir": "debug.folder_root",
        "benchmark_kernel": "debug.benchmark_kernel",
        "force_disable_caches": "runtime.force_disable_caches",
        "fx_graph_cache": "runtime.cache",
        "deterministic": "runtime.deterministic",
        "triton.cudagraphs": "runtime.cuda_graphs",
        "max_autotune": "runtime.max_autotune",
        "allow_buffer_reuse": "runtime.reuse_memory",
        "comment_origin": "lowering.comments",
        "layout_optimization": "lowering.layout_optimization",
        "disabled_passes": "autograd.disabled_passes",
    },
    "torch._functorch.config": {
        "activation_memory_budget": "autograd.activation_memory_budget",
        "enable_autograd_cache": "runtime.cache",
    },
}  # fmt: skip

# Sets of functions that only write a log, by the kind of rule that capture has for them.
LOGGED: dict[str, dict[str, str]] = {
    "torch._dynamo.config": {
        "reorderable_logging_functions": "reorder",
        "ignore_logging_functions": "ignore",
        "ignore_logger_methods": "ignore",
    },
}

# Names that published code sets, and the only value that means what happens here; another raises.
FIXED: dict[str, dict[str, Any]] = {
    "torch._dynamo.config": {
        "inline_inbuilt_nn_modules": True,
        "force_parameter_static_shapes": True,
        "guard_nn_modules": True,
    },
    "torch._inductor.config": {},
    "torch._functorch.config": {"functionalize_rng_ops": False},
}  # fmt: skip

_KINDS = (
    "runtime.max_autotune measures a few configurations of each kernel, and products with what follows them"
)
_EXACT = "casts and roundings are eager's already"
_WRITTEN = "the debug folder holds it in any case"
_VERIFY = "CUTAWAY_AUTOGRAD_VERIFY_PASSES=1 names the pass that breaks a program"
_SHOWN = "CUTAWAY_LOGS=output_code,schedule shows what is generated"
_PARTITION = "autograd.partitioner and autograd.activation_memory_budget decide what is saved"
_DDP = "DistributedDataParallel sends gradients in buckets, and no graph is split for it"

# torch's switches for single files of the debug folder -> the files. Off, they are in our field FILES_LEFT_OUT.
FILES_LEFT_OUT = "debug.folder_without"
FILES: dict[str, tuple[str, ...]] = {
    "trace.debug_log": ("debug.log",),
    "trace.fx_graph": ("fx_graph_readable.py", "fx_graph_runnable.py"),
    "trace.fx_graph_transformed": ("fx_graph_transformed.py",),
    "trace.ir_pre_fusion": ("ir_pre_fusion.txt",),
    "trace.ir_post_fusion": ("ir_post_fusion.txt",),
    "trace.output_code": ("output_code*.py",),
    "trace.graph_diagram": ("graph_diagram.dot", "graph_diagram.svg"),
}


def is_written(name: str, without: str) -> bool:
    """Whether the files of a switch are written, by the field's value."""
    return not set(FILES[name]) & set(without.split(","))


def left_out(name: str, written: bool, without: str) -> str:
    """The field's value once the files of a switch are written, or not."""
    names = dict.fromkeys(filter(None, without.split(",")))
    rest = [n for n in names if n not in FILES[name]]
    return ",".join(rest if written else [*rest, *FILES[name]])


# Of those below, what asks for what is so here anyway: nothing is said.
ALREADY = frozenset({"fallback_random"})

# Names that are kept and change nothing: their value, and the nearest equivalent, said once when another is set.
KEPT: dict[str, dict[str, tuple[Any, str]]] = {
    "torch._dynamo.config": DYNAMO_KEPT,
    "torch._inductor.config": {
        "verbose_progress": (False, "CUTAWAY_LOGS=+inductor shows each step as it ends"),
        "fallback_random": (False, "compiled random numbers are eager's bits already"),
        "max_autotune_gemm": (False, _KINDS),
        "max_autotune_pointwise": (False, _KINDS),
        "max_autotune_gemm_backends": ("ATEN,TRITON,CPP", _KINDS),
        "coordinate_descent_tuning": (False, _KINDS),
        "coordinate_descent_check_all_directions": (False, _KINDS),
        "search_autotune_cache": (False, _KINDS),
        "benchmark_fusion": (False, "CUTAWAY_LOGS=fusion shows each decision"),
        "epilogue_fusion": (True, "lowering.fusion=False switches all fusion off"),
        "prologue_fusion": (True, "lowering.fusion=False switches all fusion off"),
        "aggressive_fusion": (False, "CUTAWAY_LOGS=fusion shows each decision"),
        "max_fusion_size": (64, "CUTAWAY_LOGS=fusion shows each decision"),
        "pattern_matcher": (True, "autograd.disabled_passes leaves passes out, patterns among them"),
        "shape_padding": (False, _SHOWN),
        "split_reductions": (True, _SHOWN),
        "keep_output_stride": (True, "strides are eager's where eager promises them"),
        "realize_opcount_threshold": (30, _SHOWN),
        "realize_reads_threshold": (4, _SHOWN),
        "inplace_buffers": (True, "autograd.disabled_passes='plan_memory.donate' switches in-place reuse off"),
        "memory_planning": (True, "buffers are always planned into pools"),
        "size_asserts": (True, "guards and the layouts in the C++ are always checked"),
        "nan_asserts": (False, _VERIFY),
        "emulate_precision_casts": (True, _EXACT),
        "freezing": (False, "weights stay inputs"),
        "cpp_wrapper": (True, "the C++ of a graph runs it in one call already"),
        "compile_threads": (1, "the halves of a graph are built at the same time; there is no pool to size"),
        "conv_1x1_as_mm": (False, _SHOWN),
        "profiler_mark_wrapper_call": (False, "CUTAWAY_LOGS=compile_times shows each pass"),
        "unique_kernel_names": (True, "every kernel has a name of its own already"),
        "triton.unique_kernel_names": (True, "every kernel has a name of its own already"),
        "triton.descriptive_names": ("original_aten", "every kernel is named by what it computes"),
        "triton.cudagraph_trees": (True, 'mode="reduce-overhead" captures CUDA graphs'),
        "triton.cudagraph_skip_dynamic_graphs": (False, 'mode="reduce-overhead" captures CUDA graphs'),
        "triton.persistent_reductions": (True, _SHOWN),
        "triton.dense_indexing": (False, _SHOWN),
        "cpp.threads": (-1, "OMP_NUM_THREADS sets the number of threads"),
        "cpp.simdlen": (None, "runtime.cxx_flags sets the compiler's flags"),
        "cpp.enable_kernel_profile": (False, "CUTAWAY_LOGS=compile_times shows each pass"),
        "trace.info_log": (True, _WRITTEN),
        "trace.draw_orig_fx_graph": (True, _WRITTEN),
        "trace.compile_profile": (False, "CUTAWAY_LOGS=compile_times shows each pass"),
        "trace.upload_tar": (None, "the debug folder stays where it is written"),
    },
    "torch._functorch.config": {
        "debug_partitioner": (False, "fn.artifacts[-1] prints what is saved for the backward, and why"),
        "donated_buffer": (False, _PARTITION),
        "aggressive_recomputation": (False, _PARTITION),
        "recompute_views": (True, _PARTITION),
        "ban_recompute_used_far_apart": (False, _PARTITION),
        "ban_recompute_not_in_allowlist": (False, _PARTITION),
        "view_replay_for_aliased_outputs": (True, "views among outputs are views of the same base as in eager"),
    },
}  # fmt: skip


_CACHES = "CUTAWAY_RUNTIME_CACHE=0 switches the disk cache off, CUTAWAY_RUNTIME_CACHE_DIR moves it"
_GRAPHS = 'mode="reduce-overhead" captures CUDA graphs'
_TARGETS = "kernels are C++ on the CPU and Triton's on NVIDIA GPUs"
_AOT = "CUTAWAY_LOGS=+aot shows every step of ahead-of-time autograd"

# module -> (pattern of a name, what to say). The first that fits is taken; the last of each module fits all.
NEAREST_FIELD: dict[str, tuple[tuple[str, str], ...]] = {
    "torch._inductor.config": (
        ("aot_inductor*", "there is no export to a library; compiled programs are cached on disk"),
        ("cuda.*", _TARGETS), ("cutlass.*", _TARGETS), ("rocm.*", _TARGETS), ("xpu*", _TARGETS), ("halide.*", _TARGETS),
        ("mtia.*", _TARGETS), ("*_backend", _TARGETS), ("test_configs.*", "torch's own tests read it"),
        ("*cudagraph*", _GRAPHS), ("graph_partition", _GRAPHS), ("*autotun*", _KINDS), ("nvgemm_*", _KINDS),
        ("*benchmark*", _KINDS), ("*cache*", _CACHES), ("*numeric*", _EXACT), ("*precision*", _EXACT),
        ("*_fast_math", _EXACT),
        ("*fusion*", "CUTAWAY_LOGS=fusion shows each decision"), ("bucket_*", _DDP), ("*comm*", _DDP), ("*_bw", _DDP),
        ("*collective*", _DDP), ("trace.*", _WRITTEN),
        ("*asserts", "guards and the layouts in the C++ are always checked"),
        ("cpp.*", "runtime.cxx_flags sets the compiler's flags"), ("*memory*", _PARTITION),
        ("*_custom_*pass", "CONTRIBUTING.md says how a pass is added; autograd.disabled_passes leaves passes out"),
        ("*_pass*", "autograd.disabled_passes leaves passes out"), ("*", _SHOWN),
    ),
    "torch._functorch.config": (
        ("*memory_budget*", _PARTITION), ("ban_*", _PARTITION), ("*recompute*", _PARTITION), ("*offload*", _PARTITION),
        ("max_dist_from_bw", _PARTITION), ("*to_save", _PARTITION), ("*cache*", _CACHES),
        ("*fake_*", "metas are computed by a table of rules, without a cache"),
        ("cse", "autograd.disabled_passes='common_subexpressions' switches it off"), ("*", _AOT),
    ),
}  # fmt: skip


@cache
def kept(module: str) -> dict[str, tuple[Any, str]]:
    """Every name of a module that is kept and changes nothing. Made when it is asked for: most programs never ask."""
    others = {
        name: (value, next(text for pattern, text in NEAREST_FIELD[module] if fnmatchcase(name, pattern)))
        for name, value in OTHER_FIELDS.get(module, {}).items()
    }
    return KEPT[module] | others


def ours(module: str, name: str) -> str | None:
    """Our field for torch's, if there is one."""
    return FIELDS[module].get(name)


def our_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of compile() by our names: torch's, which are fields of torch._inductor.config, become ours, or are
    said to change nothing. Any other name stays as it is."""
    module = "torch._inductor.config"
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name in FILES:
            found[FILES_LEFT_OUT] = left_out(name, bool(value), found.get(FILES_LEFT_OUT, ""))
        elif name in kept(module):
            before, nearest = kept(module)[name]
            if value != before and name not in ALREADY:
                report_once(f"cutaway: the option {name!r} is not honoured here; nearest: {nearest}")
        else:
            found[FIELDS[module].get(name, name)] = value
    return found


def known(module: str) -> list[str]:
    """Every name that a module has."""
    files = FILES if module == "torch._inductor.config" else ()
    return [*FIELDS[module], *FIXED[module], *kept(module), *LOGGED.get(module, ()), *files]
