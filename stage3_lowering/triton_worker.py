"""A worker process that interprets Triton kernels on NumPy arrays, or compiles them for a GPU on another machine.

Input: `interpret` or `compile` as the argument, then one JSON request per line on stdin; one JSON reply per line on
stdout. Triton decides at its import whether it interprets or compiles, so each needs a process. It needs neither torch
nor a GPU.
"""

from __future__ import annotations

import json
import linecache
import math
import os
import sys
from typing import Any

import numpy as np


def load_kernel(text: str, name: str) -> Any:
    """The jitted function of a module text. Triton reads its source through linecache."""
    path = f"<{name} {hash(text):x}>"
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    namespace: dict[str, Any] = {"__name__": name}
    exec(compile(text, path, "exec"), namespace)
    return namespace[name]


# ---- compiling ---------------------------------------------------------------------------------------


def compile_kernel(
    text: str,
    name: str,
    signature: dict,
    constants: dict,
    num_warps: int,
    arch: int,
    asserts: bool = False,
    fp_fusion: bool = False,
) -> dict:
    """Compile for `sm_<arch>`, pointers aligned as the runtime's are: how much shared memory it needs, and its PTX."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.compiler import ASTSource

    CUDABackend.make_cubin = lambda *_: b""  # PTX is enough, and the rest takes as long again
    function = load_kernel(text, name)
    types = {a: "constexpr" if a in constants else signature[a] for a in function.arg_names}
    aligned = {
        (k,): [["tt.divisibility", 16]] for k, n in enumerate(function.arg_names) if types[n].startswith("*")
    }
    source = ASTSource(fn=function, signature=types, constexprs=constants, attrs=aligned)
    options = {"num_warps": num_warps, "enable_fp_fusion": fp_fusion}
    options |= {"debug": asserts, "sanitize_overflow": False}
    compiled = triton.compile(source, target=GPUTarget("cuda", arch, 32), options=options)
    return {"shared": compiled.metadata.shared, "ptx": compiled.asm["ptx"]}


# ---- interpreting ------------------------------------------------------------------------------------


class HostPointer:
    """What the interpreter needs of a pointer argument. Host memory stands in for a GPU's: a copy does nothing."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.dtype = (
            "bfloat16" if array.dtype.kind == "V" else array.dtype.name
        )  # a file holds it as two bytes

    def data_ptr(self) -> int:
        return self.array.ctypes.data  # noqa: E704

    def untyped_storage(self) -> HostPointer:
        return self  # noqa: E704

    def cpu(self) -> HostPointer:
        return self  # noqa: E704

    def new_empty(self, *_: Any, **__: Any) -> HostPointer:
        return self  # noqa: E704

    def copy_(self, *_: Any) -> None:
        pass  # noqa: E704

    def set_(self, *_: Any) -> None:
        pass  # noqa: E704

    def storage_offset(self) -> int:
        return 0  # noqa: E704

    def size(self) -> tuple:
        return self.array.shape  # noqa: E704

    def stride(self) -> tuple:
        return (1,)  # noqa: E704


_NUMPY_NAMES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "pow": "power", "atan2": "arctan2", "fast_dividef": "divide",
}  # fmt: skip
_SAME_NAME = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "floor",
    "ceil", "trunc", "rint", "fmod", "copysign",
)  # fmt: skip


def give_libdevice_bodies(interpreter: Any, tl: Any, libdevice: Any) -> None:
    """Give libdevice's functions bodies in NumPy: the interpreter has none."""

    def lifted(function: Any) -> Any:
        def call(*args: Any, _semantic: Any = None) -> Any:
            tensors = [interpreter.interpreter_semantic.to_tensor(a) for a in args]
            widest = max(tensors, key=lambda t: (t.dtype.scalar.primitive_bitwidth, t.handle.data.size))
            dtype = widest.dtype.scalar
            with np.errstate(all="ignore"):
                data = np.asarray(function(*[t.handle.data for t in tensors]))
            data = data.astype(interpreter._get_np_dtype(dtype))
            block = any(t.type.is_block() for t in tensors)
            kind = tl.block_type(dtype, list(data.shape)) if block else dtype
            return tl.tensor(interpreter.TensorHandle(data, dtype), kind)

        return call

    bodies = {name: getattr(np, name) for name in _SAME_NAME}
    bodies |= {name: getattr(np, numpy_name) for name, numpy_name in _NUMPY_NAMES.items()}
    bodies |= {name: np.vectorize(getattr(math, name), otypes=[np.float64]) for name in ("erf", "erfc")}
    for name, body in bodies.items():
        setattr(libdevice, name, lifted(body))


def allow_loops(interpreter: Any) -> None:
    """Triton 3.6 with NumPy 2.4 and later: `int()` of a one-element array, which `range` asks for, is
    refused."""
    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))

    interpreter._patch_lang_tensor = patched


def repeat_scalars(interpreter: Any) -> None:
    """A comparison of numbers is true or false, also where the interpreter takes it for one of the numbers' type."""

    def create_splat(self: Any, ret_ty: Any, arg: Any) -> Any:
        value = np.asarray(arg.data)
        return interpreter.TensorHandle(
            np.full(ret_ty.shape, value.reshape(-1)[0], value.dtype), arg.dtype.scalar
        )

    interpreter.InterpreterBuilder.create_splat = create_splat


def round_bfloat16(interpreter: Any) -> None:
    """A float32 becomes the nearest bfloat16, ties to even, as on a GPU; the interpreter cuts its last bits off."""
    convert = interpreter._convert_float

    def converted(data: Any, source: Any, target: Any, rounding: Any) -> Any:
        if (source.name, target.name) != ("fp32", "bf16"):
            return convert(data, source, target, rounding)
        bits = np.ascontiguousarray(data).view(np.uint32)
        nearest = (bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16
        return np.where(np.isnan(data), (bits >> 16) | 0x40, nearest).astype(np.uint16)

    interpreter._convert_float = converted


def multiply_bfloat16(interpreter: Any) -> None:
    """A product of bfloat16 matrices; the interpreter multiplies their bits as whole numbers."""
    create_dot = interpreter.InterpreterBuilder.create_dot

    def widened(handle: Any) -> Any:
        if handle.dtype.name != "bf16":
            return handle
        bits = handle.data.view(np.uint16).astype(np.uint32) << 16
        return interpreter.TensorHandle(bits.view(np.float32), interpreter.tl.float32)

    def dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        return create_dot(self, widened(a), widened(b), *rest)

    interpreter.InterpreterBuilder.create_dot = dot


def multiply_float32(interpreter: Any, chosen: list[str]) -> None:
    """A product of float32 matrices as the last of `chosen` has it, one of gpu_products.py; NumPy's for ""."""
    from gpu_products import PRODUCTS, as_tf32  # type: ignore[import-not-found]  # beside this script

    create_dot = interpreter.InterpreterBuilder.create_dot

    def dot(self: Any, a: Any, b: Any, d: Any, precision: Any, *rest: Any) -> Any:
        if not chosen[-1] or a.data.dtype != np.float32:
            return create_dot(self, a, b, d, precision, *rest)
        tf32 = "TF32" in str(precision) and "x3" not in str(precision)
        left, right = (as_tf32(np.ascontiguousarray(x.data)) if tf32 else x.data for x in (a, b))
        return interpreter.TensorHandle(PRODUCTS[chosen[-1]](left, right, d.data), d.dtype.scalar)

    interpreter.InterpreterBuilder.create_dot = dot


def reduce_in_pairs(interpreter: Any) -> None:
    """A reduction by a combination of the kernel's own: all neighbours at once, again and again. The interpreter takes
    one element after another, in Python: minutes for a million. The order of the elements is the same."""

    def generic_reduce(self: Any, operands: Any) -> list[Any]:
        dims = operands[0].handle.data.ndim
        operands, axis = self.unravel(operands, self.axis)
        types = [x.dtype for x in operands]
        parts = [np.moveaxis(x.handle.data, axis, 0) for x in operands]
        while (size := len(parts[0])) > 1:
            paired = size - size % 2
            sides = [(p[start:paired:2], t) for start in (0, 1) for p, t in zip(parts, types, strict=True)]
            made = self.combine_fn.fn(*[self.to_tensor(part, dtype) for part, dtype in sides])
            made = made if isinstance(made, tuple) else (made,)
            parts = [
                np.concatenate([m.handle.data.reshape(paired // 2, *p.shape[1:]).astype(p.dtype), p[paired:]])
                for m, p in zip(made, parts, strict=True)
            ]
        found = [part[0] for part in parts]
        if self.keep_dims:
            found = [
                np.expand_dims(d, axis) if self.axis is not None else d.reshape((1,) * dims) for d in found
            ]
        return [self.to_tensor(data, dtype) for data, dtype in zip(found, types, strict=True)]

    interpreter.ReduceOps.generic_reduce = generic_reduce


def check_bounds(interpreter: Any, ranges: list[tuple[int, int]]) -> None:
    """Every lane of an access that its mask leaves on must lie inside one of the launch's arrays."""

    def guarded(name: str, pointer_at: int, mask_at: int) -> None:
        original = getattr(interpreter.InterpreterBuilder, name)

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            pointers, mask = np.atleast_1d(args[pointer_at].data), np.atleast_1d(args[mask_at].data)
            active = pointers[np.broadcast_to(mask, pointers.shape)].astype(np.uint64)
            width = max(1, args[pointer_at].get_element_ty().primitive_bitwidth // 8)
            inside = np.zeros(active.shape, bool)
            for low, high in ranges:
                inside |= (active >= low) & (active + np.uint64(width) <= high)
            if not inside.all():
                raise IndexError(f"{name}: {(~inside).sum()} of {inside.size} lanes are out of bounds")
            return original(self, *args, **kwargs)

        setattr(interpreter.InterpreterBuilder, name, call)

    guarded("create_masked_load", 0, 1)
    guarded("create_masked_store", 0, 2)
    guarded("create_atomic_rmw", 1, 3)


class Interpreter:
    """Triton's interpreter, adapted once per process."""

    def __init__(self) -> None:
        os.environ["TRITON_INTERPRET"] = "1"
        os.environ["TRITON_FRONT_END_DEBUGGING"] = "1"  # the original error, not one wrapped in another
        import triton.language as tl
        import triton.runtime.interpreter as interpreter
        from triton.language.extra import libdevice

        self.ranges: list[tuple[int, int]] = []
        self.product = [""]
        give_libdevice_bodies(interpreter, tl, libdevice)
        allow_loops(interpreter)
        repeat_scalars(interpreter)
        reduce_in_pairs(interpreter)
        round_bfloat16(interpreter)
        multiply_bfloat16(interpreter)
        multiply_float32(interpreter, self.product)
        check_bounds(interpreter, self.ranges)

    def run(
        self,
        text: str,
        name: str,
        grid: list,
        sizes: list,
        constants: dict,
        arrays: list[np.ndarray],
        table: list[int],
        product: str = "",
    ) -> None:
        """Run the kernel over its grid; `arrays` are one-dimensional and written in place. `product`: how it multiplies
        matrices of float32.

        `table`: rows and columns of a kernel that runs over a table, then what stands in it before the pointers; the
        last arrays are the columns, row by row.
        """
        given, self.product[:] = arrays, [product]
        if table:
            rows, columns, *fixed = table
            apart = len(arrays) - rows * columns
            pointers = np.array([a.ctypes.data for a in arrays[apart:]], np.int64).reshape(rows, columns)
            given = [*arrays[:apart], np.concatenate([np.array(fixed, np.int64), pointers.T.ravel()])]
        self.ranges[:] = [(a.ctypes.data, a.ctypes.data + a.nbytes) for a in (*arrays, *given)]
        load_kernel(text, name)[tuple(grid)](*map(HostPointer, given), *sizes, **constants)


def main() -> None:
    interpreter = Interpreter() if sys.argv[1] == "interpret" else None
    replies, sys.stdout = sys.stdout, sys.stderr  # what Triton prints must not become a reply
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if interpreter is None:
                reply = compile_kernel(**request)
            else:
                paths = request.pop("arrays")
                arrays = [np.load(path) for path in paths]
                interpreter.run(**request, arrays=arrays)
                for path, array in zip(paths, arrays, strict=True):
                    np.save(path, array)
                reply = {}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
