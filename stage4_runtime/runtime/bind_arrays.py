"""Checks or converts arrays that enter, or that external calls return: they must be what kernels were compiled for.

Input: an array that the quick check in launch code did not recognise, and the buffer it is bound to. Kernels read raw
memory, so a wrong shape, stride or dtype must never get past this file.
"""

from __future__ import annotations

from typing import Any

from stage4_runtime.runtime.arrays import ArrayLibrary
from stage4_runtime.runtime.layout import byte_strides
from stage_contracts.program import Program
from stage_contracts.tensor_meta import TensorMeta


def accept(
    program: Program, name: str, array: Any, library: ArrayLibrary, meta: TensorMeta | None = None
) -> Any:
    """The array bound to an input or constant; copied only when it is not aligned. Raises TypeError, and ValueError for
    one that is to be written and cannot be.

    meta: what it is at this call's sizes, where the program leaves them open.
    """
    buffer = program.buffers[name]
    meta = meta or buffer.meta
    where = f"program {program.name}: {buffer.role} {name}"
    if not isinstance(array, library.array_type):
        raise TypeError(
            f"{where} is a {type(array).__module__}.{type(array).__qualname__}, expected a "
            f"{library.array_type.__module__}.{library.array_type.__qualname__} ({meta}); convert it first"
        )
    if array.dtype != meta.dtype.numpy or array.shape != meta.shape or not same_layout(array, meta):
        raise TypeError(
            f"{where} is {describe(array)}, expected {meta}; "
            "compile again for this input, or convert it before the call"
        )
    writeable = getattr(array.flags, "writeable", True)  # CuPy's arrays always are
    if name in program.written_inputs and not writeable:
        raise ValueError(
            "assignment destination is read-only"
        )  # eager's words, before another input is written
    return aligned(array, meta, library)


def array_of(constant: Any) -> Any:
    """The array of a constant: graphs hold them as captured, so a Tensor stands for the array it wraps."""
    return getattr(constant, "_data", constant)


def conform(
    program: Program, name: str, value: Any, library: ArrayLibrary, meta: TensorMeta | None = None
) -> Any:
    """An external call's result with exactly the meta's dtype, shape and strides. Raises TypeError."""
    meta = meta or program.buffers[name].meta
    array = value if isinstance(value, library.array_type) else library.xp.asarray(value)
    if array.dtype != meta.dtype.numpy or array.shape != meta.shape:
        raise TypeError(
            f"program {program.name}: an external call yields {describe(array)} for {name}, expected {meta}; "
            "the operator's kernel and its meta (fake) rule disagree"
        )
    if array.strides == byte_strides(meta):
        return aligned(array, meta, library)
    if same_layout(array, meta):  # only strides that no element uses differ
        return aligned(library.view(array, meta.shape, byte_strides(meta), 0), meta, library)
    return _copied(array, meta, library)


def aligned(array: Any, meta: TensorMeta, library: ArrayLibrary) -> Any:
    """The array, or a copy of it when its address is not what kernels assume."""
    if library.address(array) % max(meta.dtype.itemsize, library.kernel_alignment):
        return _copied(array, meta, library)
    return array


def same_layout(array: Any, meta: TensorMeta) -> bool:
    """Equal strides, not counting dimensions of size 1 or empty arrays."""
    wanted = zip(meta.shape, array.strides, byte_strides(meta), strict=True)
    return 0 in meta.shape or all(size == 1 or have == want for size, have, want in wanted)


def describe(array: Any) -> str:
    """An array as a meta would print."""
    text = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
    return text if array.flags.c_contiguous else f"{text} with strides {array.strides} in bytes"


def _copied(array: Any, meta: TensorMeta, library: ArrayLibrary) -> Any:
    fresh = library.empty(meta)
    library.xp.copyto(fresh, array)
    return fresh
