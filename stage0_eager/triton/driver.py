"""The one file of this stage that imports Triton: its driver without torch, and arrays as the pointers it needs.

Input: CuPy arrays for a GPU, NumPy arrays if Triton interprets (TRITON_INTERPRET=1 set before its import). Cutaway's
own compiled graphs do not use this file: they launch kernels that were compiled ahead of time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from stage0_eager import arrays


class Pointer:
    """An array as Triton takes pointers: an address and a dtype.

    The interpreter also asks for storages, which it copies to the host and back; host memory plays the device's here,
    so that every copy is the identity.
    """

    __slots__ = ("array", "dtype")

    def __init__(self, array: Any) -> None:
        self.array, self.dtype = array, array.dtype.name

    def data_ptr(self) -> int:
        return arrays.address(self.array)

    def numel(self) -> int:
        return self.array.size

    def untyped_storage(self) -> Pointer:
        return self

    def cpu(self) -> Pointer:
        return self

    def new_empty(self, *_: Any, **__: Any) -> Pointer:
        return self

    def copy_(self, source: Pointer) -> None:
        """Other memory's elements; autotune restores with it what its trials have written to."""
        if source is not self:
            self.array[...] = source.array

    def clone(self) -> Pointer:
        return Pointer(self.array.copy(order="K"))

    def zero_(self) -> None:
        self.array[...] = 0

    def set_(self, *_: Any) -> None:
        return None

    def storage_offset(self) -> int:
        return 0

    def size(self, dim: int | None = None) -> Any:
        return self.array.shape if dim is None else self.array.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        strides = tuple(s // self.array.itemsize for s in self.array.strides)
        return strides if dim is None else strides[dim]

    shape = property(lambda self: self.array.shape)


def interprets(kernel: Any) -> bool:
    """Whether Triton runs this kernel itself, on NumPy arrays. `kernel` may be wrapped in autotune and heuristics."""
    while type(kernel).__name__ in ("Autotuner", "Heuristics"):
        kernel = kernel.fn
    return type(kernel).__name__ == "InterpretedFunction"


def launch(kernel: Any, grid: Any, kwargs: dict[str, Any]) -> None:
    """`kernel[grid](**kwargs)` with arrays where pointers are, on the current stream of the arrays' library."""
    kwargs = {name: _pointer(value) for name, value in kwargs.items()}
    if interprets(kernel):
        _let_ranges_run()
        kernel, kwargs = _first_configuration(kernel, kwargs)
    else:
        _use_cupy()
    kernel[grid](**kwargs)


def _pointer(value: Any) -> Any:
    return Pointer(value) if arrays.is_array(value) else value


def _first_configuration(kernel: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The function under autotune and heuristics, with their arguments. Interpreted, no configuration is the faster."""
    while type(kernel).__name__ in ("Autotuner", "Heuristics"):
        if type(kernel).__name__ == "Autotuner":
            kwargs = {**kwargs, **kernel.configs[0].all_kwargs()}
        else:
            for name, heuristic in kernel.values.items():
                kwargs[name] = heuristic(kwargs)
        kernel = kernel.fn
    return kernel, kwargs


@lru_cache(maxsize=1)
def _let_ranges_run() -> None:
    """Triton 3.6 with NumPy 2.4 or later refuses int() of a one-element array, which `range` asks for."""
    import triton.runtime.interpreter as interpreter

    patch: Callable = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.reshape(-1)[0]))

    interpreter._patch_lang_tensor = patched


@lru_cache(maxsize=1)
def _use_cupy() -> None:
    """Make Triton launch through CUDA as CuPy has it set up: its device and stream. torch is not asked for."""
    cp = arrays.cupy()
    import triton
    from triton.backends.nvidia.driver import CudaDriver, CudaLauncher, CudaUtils

    class CupyDriver(CudaDriver):
        def __init__(self) -> None:  # not the base's, which imports torch in Triton 3.6
            self.utils, self.launcher_cls = CudaUtils(), CudaLauncher

        @staticmethod
        def is_active() -> bool:
            return True

        def get_current_device(self) -> int:
            return cp.cuda.runtime.getDevice()

        def set_current_device(self, device: int) -> None:
            cp.cuda.runtime.setDevice(device)

        def get_current_stream(self, device: Any = None) -> int:
            return cp.cuda.get_current_stream().ptr

        def get_device_capability(self, device: int = 0) -> tuple[int, int]:
            return divmod(int(cp.cuda.Device(device).compute_capability), 10)

        def get_active_torch_device(self) -> Any:
            raise RuntimeError("Triton requested a device of torch, but Cutaway runs Triton without torch")

        def get_benchmarker(self) -> Callable:
            return lambda call, quantiles=None, **_: _milliseconds(cp, call, quantiles)

        def get_empty_cache_for_benchmark(self) -> Any:
            return cp.empty(1 << 28, "uint8")

        def clear_cache(self, cache: Any) -> None:
            cache.fill(0)

    triton.runtime.driver.set_active(CupyDriver())


def _milliseconds(cp: Any, call: Callable, quantiles: Any) -> Any:
    """What one call takes on the device: the median of ten, or one number for each quantile asked for."""
    call()
    times = []
    for _ in range(10):
        start, end = cp.cuda.Event(), cp.cuda.Event()
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(float(cp.cuda.get_elapsed_time(start, end)))
    times.sort()
    if not quantiles:
        return times[len(times) // 2]
    return [times[min(len(times) - 1, int(q * len(times)))] for q in quantiles]


def kernel_ptx(node: Any, target: Any) -> str:
    """The PTX of a kernel as a graph's node calls it, for a `triton.backends.compiler.GPUTarget`. Needs no GPU.

    Autotuned kernels are compiled in their first configuration.
    """
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.compiler import ASTSource, compile

    op = node.target
    kernel, given = op.launched, dict(zip(op.params, op.bind(*node.args, **node.kwargs), strict=True))
    options = dict(given.pop("options") or {})
    values = {
        name: value for name, value in given.items() if name not in ("grids", "layouts") and value is not ...
    }
    kernel, values = _first_configuration(kernel, values)
    options |= {name: values.pop(name) for name in list(values) if name not in kernel.arg_names}
    fixed = {kernel.arg_names[i] for i in kernel.constexprs}
    signature = {name: "constexpr" if name in fixed else _type_of(values[name]) for name in kernel.arg_names}
    constants = {name: values[name] for name in kernel.arg_names if name in fixed}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    make, CUDABackend.make_cubin = CUDABackend.make_cubin, lambda *_: b""  # PTX is enough
    try:
        return compile(source, target=target, options={"enable_fp_fusion": False, **options}).asm["ptx"]
    finally:
        CUDABackend.make_cubin = make


_POINTEES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "bool": "i1"}


def _type_of(value: Any) -> str:
    """Triton's word for a node's argument: `*fp32` for a tensor, `i32`, `fp32`."""
    meta = getattr(value, "val", None)
    if meta is not None:
        name = meta.dtype.name
        return "*" + _POINTEES.get(name, name.replace("uint", "u").replace("int", "i"))
    if isinstance(value, bool):
        return "i1"
    return "fp32" if isinstance(value, float) else "i32" if -(2**31) <= value < 2**31 else "i64"
