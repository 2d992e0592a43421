"""Capture: a symbolic interpreter of CPython bytecode on a restricted language, for the seam `capture`.

Input: a function and the arguments of one call. Reading order: capture.py, symbolic_convert.py, opcodes.py,
variables.py, builder.py, calls.py, operators.py, codegen.py.
"""

from stage1_capture.capture import (  # noqa: F401  (they fill tables of calls.py and opcodes.py)
    builtin_autograd,
    builtin_checkpoint,
    builtin_copy,
    builtin_functional_call,
    builtin_getters,
    builtin_hooks,
    builtin_library,
    builtin_modes,
    builtin_modules,
    builtin_optimizers,
    builtin_random,
    builtin_schedules,
    builtin_tape,
    builtin_tensors,
    builtin_types,
    construct,
    container_dunders,
    container_methods,
    control_flow,
    higher_order,
    local_classes,
    local_dataclasses,
    numpy_calls,
    numpy_methods,
    numpy_objects,
    opcodes_classes,
    opcodes_exceptions,
    opcodes_match,
    triton_kernels,
    type_checks,
)
from stage1_capture.capture.capture import GRAPH_NAME, capture
from stage1_capture.capture.signature import signature_text

__all__ = ["GRAPH_NAME", "capture", "signature_text"]
