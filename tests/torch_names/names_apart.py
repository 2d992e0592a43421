"""The names that the page counts apart, and why a name is not here: patterns of names, each with its reason.

Input: names such as torch.Tensor.to_sparse. names_report.py asks reason(); the first pattern that fits decides.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

# Left out of the fraction: other kinds of tensors and machines.
APART: dict[str, str] = {
    "sparse tensors": "*sparse* *_copy_sparse* torch.hspmm torch.smm torch.sspaddmm torch.dsmm torch.Tensor.smm torch.Tensor.sspaddmm "
    "torch.Tensor.coalesce torch.Tensor.is_coalesced torch.Tensor.dense_dim *.indices *.values *col_indices *crow_indices *row_indices "
    "*ccol_indices *.to_dense *_indices_copy torch.indices_copy torch.values_copy torch.*_indices_copy torch.optim.SparseAdam torch.hsmm torch.saddmm",
    "quantized tensors": "*quantize* *.q_* *.qscheme *.int_repr *.scaled_mm *.scaled_grouped_mm *.ScalingType *.SwizzleType torch.choose_qparams*",
    "other devices": "*.ipu *.is_ipu *.is_xla *.xpu *.is_xpu *.mtia *.is_mtia *.hpu *.is_hpu *.is_mps *.is_maia *.is_vulkan *.is_mkldnn "
    "*.to_mkldnn *.is_ort *.is_meta *.is_nested *.to_padded_tensor *cudnn* *miopen* *mkldnn* torch.is_vulkan_available *.fbgemm_* "
    "torch.Tensor.cuda torch.Tensor.pin_memory torch.Stream torch.Event torch.Tensor.record_stream torch.get_device_module torch.AcceleratorError torch.OutOfMemoryError",
}  # fmt: skip

# torch exports these, and its documentation does not list them: parts of its own machinery.
INTERNAL = (
    "torch.AggregationType torch.DispatchKey torch.Script* torch.Tag torch.import_ir_module* torch.init_num_threads torch.fork torch.wait "
    "torch.merge_type_from_type_comment torch.parse_* torch.unify_type_list torch.thread_safe_generator torch.is_storage "
    "torch.compiled_with_cxx11_abi torch.nn.factory_kwargs torch.nn.functional.DType torch.nn.functional.Optional torch.nn.functional.boolean_dispatch "
    "*has_torch_function* *.handle_torch_function torch.nn.LinearCrossEntropyOptions torch.optim.swap_in_optimizer_params_and_state "
    "torch.Tensor.const_data_ptr "
    ""
)

# Why a name that is counted is not here.
REASONS: dict[str, str] = {
    "*.chalf": "there is no complex number of two halves",
    "torch.linalg.ldl_*": "not yet: use linalg.lu_factor or linalg.eigh",
    "torch.hash_tensor": "its numbers are unsigned of 64 bits, a dtype that is not here",
    "torch.Tensor.storage*": "there are no storages; read a tensor's memory with numpy()",
}


def _fits(name: str, patterns: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns.split())


def apart(name: str) -> str:
    """The group that this name is listed with, outside the fraction; empty for a name that counts."""
    found = next((group for group, patterns in APART.items() if _fits(name, patterns)), "")
    return found or ("torch's own machinery" if _fits(name, INTERNAL) else "")


def reason(name: str) -> str:
    """Why a counted name is not here."""
    return next((why for patterns, why in REASONS.items() if _fits(name, patterns)), "not yet")
