"""The fields of torch._dynamo.config that are not honoured: each is refused, with the reason.

Input: torch 2.13's names and defaults. A field is accepted with torch's default, which needs no effect, and with the
values in ALSO, which say what happens here in any case; any other value raises NotImplementedError. Fields that torch
itself no longer reads are accepted with any value. torch_fields.py has the fields that are honoured.
"""

from __future__ import annotations

from typing import Any

# reason -> field: torch's default.
_BY_REASON: dict[str, dict[str, Any]] = {
    "torch 2.13 does not read it either": {
        "minimum_call_count": 1, "dead_code_elimination": None, "skip_code_recursive_on_recompile_limit_hit": True,
        "skip_code_recursive_on_cache_limit_hit": True, "traceable_tensor_subclasses": set(),
        "skipfiles_inline_module_allowlist": {}, "allowed_functions_module_string_ignorelist": {
            "torch.distributions", "torch.testing", "torch._refs", "torch._prims", "torch._decomp",
        },
        "optimize_ddp_lazy_compile": False, "raise_on_unsafe_aot_autograd": False, "error_on_nested_jit_trace": True,
        "report_guard_failures": True, "enable_cpp_guard_manager": True, "enable_cpp_framelocals_guard_eval": True,
        "capture_autograd_function": True, "capture_func_transforms": True,
        "max_saved_pointers_for_recursive_dict_tags_check": 256, "cache_size_limit_verbose": False,
    },
    "torch.compile(backend=..., dynamic=..., options=...) says it for each function": {
        "debug_backend_override": "", "debug_inductor_config_override": "", "debug_dynamo_config_override": "",
    },
    "there are no leaf functions; torch.compiler.allow_in_graph makes a call one node": {
        "leaf_function_validate_outputs": False, "leaf_function_check_escaped_gradients": False,
    },
    "side effects are always replayed after the graph, and none is reported": {
        "replay_side_effects": True, "side_effect_replay_policy": "info",
    },
    "fn.artifacts[-1] has the text of the residual code and of every graph": {
        "generate_pycode": False, "log_graph_in_out_metadata": False, "use_lazy_graph_module": True,
    },
    "sizes that changed are open from the second compile on; mark_dynamic(tensor, dim) leaves one open at once": {
        "automatic_dynamic_shapes_mark_as": "dynamic", "automatic_dynamic_exclusion_guard": False,
        "automatic_dynamic_local_pgo": True, "automatic_dynamic_remote_pgo": None,
        "force_unspec_int_unbacked_size_like_on_torchrec_kjt": False,
        "prefer_deferred_runtime_asserts_over_guards": False,
    },
    "a number on a module is fixed at first and open from its first change on": {
        "allow_unspec_int_on_nn_module": False, "force_nn_module_property_static_shapes": True,
    },
    "guards are checked by one generated Python function; all of them are checked": {
        "guard_nn_modules_using_dict_tags": True, "use_lamba_guard_for_object_aliasing": True,
        "skip_fsdp_guards": True, "skip_nnmodule_hook_guards": True,
        "skip_no_tensor_aliasing_guards_on_parameters": True, "skip_tensor_guards_with_matching_dict_tags": True,
        "skip_guards_on_constant_func_defaults": False, "assume_dunder_attributes_remain_unchanged": True,
        "use_recursive_dict_tags_for_guards": False, "enable_cpp_symbolic_shape_guards": False,
        "issue_3_13_0_warning": True, "_unsafe_skip_fsdp_module_guards": False,
    },
    "weights stay inputs of the graph": {
        "prepare_freezing": False, "install_free_tensors": False, "install_free_tensors_for_export": True,
    },
    "a subclass of Tensor with __torch_function__ is followed; disable() keeps a function out": {
        "nontraceable_tensor_subclasses": set(), "inline_torch_dispatch_torch_compile": True,
    },
    "an assert on data ends the graph; torch._check states a fact that stays in it": {
        "rewrite_assert_with_torch_assert": True,
    },
    "CUTAWAY_LOGS=compile_times shows what each pass took": {
        "cprofile": False, "dynamo_profiler": False, "log_compilation_metrics": True, "record_runtime_overhead": True,
        "record_compile_time_instruction_count": False, "pt2_compile_id_prefix": None,
    },
    "repro_level=4 minifies what debug.verify finds, forward and backward, against float64": {
        "repro_forward_only": False, "repro_tolerance": 1e-3, "repro_ignore_non_fp": False,
        "same_two_models_use_fp64": True,
    },
    "DistributedDataParallel sends gradients in buckets, and no graph is split for it": {
        "optimize_ddp": True, "enable_compiler_collectives": False, "enable_p2p_compilation": False,
    },
    "functions are entered unless torch.compiler.disable says otherwise": {
        "skip_torchrec": True, "dont_skip_tracing": False, "raise_on_ctx_manager_usage": True,
        "debug_force_nested_calls": False, "debug_force_graph_break_on_leaf_return": False, "wrap_top_frame": False,
        "error_on_dynamo_callback_in_fullgraph_compiled_code": False,
    },
    "torch.fx's tracer and compiled functions do not see each other": {
        "error_on_nested_fx_trace": True, "force_compile_during_fx_trace": False,
    },
    "it is captured in any case": {
        "allow_rnn": False, "trace_autograd_ops": False, "enable_trace_contextlib": True,
        "enable_trace_load_build_class": False, "graph_break_on_nn_param_ctor": True,
    },
    "programs that use unittest inside compiled code break there": {"enable_trace_unittest": False},
    "tensors are dense": {"capture_sparse_compute": True},
    "NumPy programs keep NumPy's dtypes, and np.random draws NumPy's numbers": {
        "numpy_default_float": "float64", "numpy_default_complex": "complex128", "numpy_default_int": "int64",
        "use_numpy_random_stream": False,
    },
    "a generator runs as far as it is asked, as in Python": {"enable_faithful_generator_behavior": True},
    "a break in a called function ends the caller's graph too; each of both goes on in a graph of its own": {
        "nested_graph_breaks": False,
    },
    "mark a repeated block with torch.compiler.nested_compile_region": {
        "use_graph_deduplication": False, "track_nodes_for_deduplication": False, "graph_deduplication_lint": False,
        "enable_invoke_subgraph_regional_compile": False, "inline_invoke_subgraph": False,
        "inline_single_use_invoke_subgraph": True,
    },
    "a frame without operators runs in Python": {"allow_empty_graphs": False},
    "CompileCounter counts what was compiled": {
        "debug_disable_compile_counter": False, "inject_BUILD_SET_unimplemented_TESTING_ONLY": False,
    },
    'mode="reduce-overhead" captures CUDA graphs': {
        "cudagraph_backend_keep_input_mutation": False, "cudagraph_backend_support_input_mutation": False,
    },
    "every operator can be traced": {"only_allow_pt2_compliant_ops": False, "enable_dynamo_decompositions": True},
    "profiler ranges are events of the log, not operators of the graph": {
        "capture_profiler_record_function": False, "constant_fold_autograd_profiler_enabled": False,
    },
    "metas are computed by a table of rules, without a cache": {
        "fake_tensor_cache_enabled": True, "fake_tensor_cache_crosscheck_enabled": False,
        "fake_tensor_disable_inference_mode": True,
    },
    "compiled programs are cached on disk; torch.compiler.save_cache writes them into one file": {
        "caching_precompile": False, "strict_precompile": False,
    },
    "compile(fn, fullgraph=True).aot_compile is always there": {"enable_aot_compile": True},
    "a backward is compiled with its forward": {"compiled_autograd": False, "compiled_autograd_kwargs_override": {}},
    "recomputation happens inside the graph and repeats no side effect": {
        "skip_fwd_side_effects_in_bwd_under_checkpoint": False,
    },
    "it is a hook of torch's own machinery": {
        "invalidate_compile_context_weakrefs": None, "_custom_ops_profile": None, "_shapes_spec": None,
    },
}  # fmt: skip

# Values besides torch's default that say what happens here.
ALSO: dict[str, tuple[Any, ...]] = {
    "side_effect_replay_policy": ("silent",),
    "allow_unspec_int_on_nn_module": (True,), "force_nn_module_property_static_shapes": (False,),
    "skip_fsdp_guards": (False,), "skip_nnmodule_hook_guards": (False,), "guard_nn_modules_using_dict_tags": (False,),
    "skip_no_tensor_aliasing_guards_on_parameters": (False,), "skip_tensor_guards_with_matching_dict_tags": (False,),
    "issue_3_13_0_warning": (False,), "log_compilation_metrics": (False,), "record_runtime_overhead": (False,),
    "optimize_ddp": (False, "no_optimization"), "error_on_nested_fx_trace": (False,),
    "allow_rnn": (True,), "trace_autograd_ops": (True,), "enable_trace_load_build_class": (True,),
    "graph_break_on_nn_param_ctor": (False,), "fake_tensor_cache_enabled": (False,),
    "skip_fwd_side_effects_in_bwd_under_checkpoint": (True,), "automatic_dynamic_local_pgo": (False,),
    "automatic_dynamic_remote_pgo": (False,),
}  # fmt: skip

UNREAD = frozenset(next(iter(_BY_REASON.values())))
DYNAMO_KEPT: dict[str, tuple[Any, str]] = {
    name: (default, reason) for reason, fields in _BY_REASON.items() for name, default in fields.items()
}


def accepts(name: str, value: Any) -> bool:
    """Whether the field may be given this value."""
    return name in UNREAD or value == DYNAMO_KEPT[name][0] or value in ALSO.get(name, ())
