"""Tensor: an array with a dtype from the table, a place on the tape, and torch's methods.

Input: a NumPy or CuPy array, or a TracedArray while an interpreter records instead of computing. Methods and arithmetic
are operators of the table, attached by functions/tensor_methods.py.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from stage0_eager import arrays
from stage0_eager.printing import tensor_text
from stage0_eager.state import STATE, inference_mode, no_grad
from stage_contracts.breaks import Unsupported
from stage_contracts.device import Device
from stage_contracts.dtype import _BY_NUMPY, DType
from stage_contracts.memory_format import laid_out
from stage_contracts.tensor_meta import TensorMeta

if (
    TYPE_CHECKING
):  # a generated stub of the methods that `@method` attaches; the module does not exist at run time
    from stage0_eager.tensor_methods import Methods
else:
    Methods = object

F = TypeVar("F", bound=Callable)


# Functions of each class that is derived from Tensor (table/overriding.py has one).
ON_SUBCLASS: list[Callable[[type], Any]] = []
# What a program passes to `Tensor(...)` that is no array, and what makes a tensor of it (functions/constructor.py).
WRITTEN_DOWN: set[type] = set()
INIT: list[Callable[[Any, tuple], None]] = []


class _Untracked(list):
    """The version counter of tensors made in inference mode: reading it raises."""

    def __getitem__(self, _: Any) -> Any:
        raise RuntimeError("Inference tensors do not track version counter.")

    def __reduce__(self) -> str:  # copy and pickle give the same object
        return "UNTRACKED"


UNTRACKED = _Untracked([0])


class Tensor(Methods):
    """An n-dimensional array. Create one with `cutaway.tensor`, `zeros`, `from_numpy`, ..."""

    # Fields that every call reads are slots, which takes half the time of a class attribute. For the others, most
    # tensors have the class's default, and an instance stores only a different value.
    __slots__ = ("__dict__", "__weakref__", "_data", "_grad_fn", "_requires_grad", "_view")
    _requires_grad: bool
    _data: Any
    _grad_fn: Any  # the TapeNode that made it; None for a leaf
    _view: tuple | None  # (operator, its first argument, the others): how the view was made
    _grad: Tensor | None = None
    _output_index: int = 0
    _version: list[int] | None = None  # shared by all views of one storage; made when it is first read
    _base: Tensor | None = None  # the tensor that this is a view of
    # for a base: the number of writes through views on the tape; for a view: how many of them it includes
    _written: int = 0

    _made_silently: bool = False  # for a view: it was made under no_grad, so it is not on the tape
    _formerly: tuple = ()  # the tensor before each in-place change of its shape (t_, unsqueeze_)
    _source_was: int = 0  # for a view: how many such changes its source had when the view was made

    _hooks: dict | None = None  # the hooks of a leaf; those of other tensors are on their nodes
    _after_hooks: dict | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for told in ON_SUBCLASS:
            told(cls)

    __array_priority__ = 1000  # so that Tensor handles arithmetic with NumPy scalars and arrays

    def __init__(self, data: Any = None, requires_grad: Any = False, *sizes: Any) -> None:
        if type(data) not in arrays.PLAIN_TYPES and (type(data) in WRITTEN_DOWN or isinstance(data, Tensor)):
            given = (data, requires_grad, *sizes) if type(requires_grad) is not bool else (data,)
            INIT[0](self, () if data is None else given)
            return
        self._data = data
        self._requires_grad = requires_grad
        self._grad_fn = None
        self._view = None

    # ---- what is known without the data -------------------------------------------------------------------

    @property
    def shape(self) -> tuple:
        return self._data.shape

    def size(self, dim: int | None = None) -> Any:
        return self._data.shape if dim is None else self._data.shape[dim]

    @property
    def ndim(self) -> int:
        return self._data.ndim

    def dim(self) -> int:
        return self._data.ndim

    ndimension = dim

    def numel(self) -> Any:
        return self._data.size

    nelement = numel

    @property
    def dtype(self) -> DType:
        return _BY_NUMPY[self._data.dtype]

    @property
    def device(self) -> Device:
        data = self._data
        return (
            arrays.CPU
            if type(data) is np.ndarray
            else data.meta.device
            if is_traced(self)
            else (arrays.device_of_array(data))
        )

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    def stride(self, dim: int | None = None) -> Any:
        """Strides in elements, not bytes."""
        strides = self._data.meta.strides if is_traced(self) else arrays.element_strides(self._data)
        return strides if dim is None else strides[dim]

    def is_contiguous(self, memory_format: Any = None) -> bool:
        return self.meta.is_contiguous if memory_format is None else laid_out(self.meta, memory_format)

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return self.dtype.is_complex

    @property
    def meta(self) -> TensorMeta:
        """The TensorMeta of this tensor."""
        data = self._data
        if self._view is not None:
            self._refresh()
        if type(data) is np.ndarray:
            return arrays.meta_of_numpy(data.shape, data.strides, data.dtype.num, self._requires_grad)
        if type(data) in arrays.GPU_TYPES:
            at = data.data.device_id
            return arrays.meta_on(at, data.shape, data.strides, data.dtype.num, self._requires_grad)
        if is_traced(self):
            same = data.meta.requires_grad is self._requires_grad
            return data.meta if same else data.meta.with_(requires_grad=self._requires_grad)
        return arrays.meta_of_array(data, self._requires_grad)

    # ---- the tape ------------------------------------------------------------------------------------------

    @property
    def grad_fn(self) -> Any:
        self._refresh()
        return self._grad_fn

    @property
    def is_leaf(self) -> bool:
        self._refresh()
        return self._grad_fn is None

    def _refresh(self) -> None:
        """Give a view its new history if its base was written through another view, on the tape."""
        up_to_date(self)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set requires_grad in place. Raises RuntimeError on integer tensors and on non-leaves."""
        if requires_grad and self.is_inference() and not STATE.inference:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
            )
        if requires_grad and not self.dtype.is_differentiable:
            raise RuntimeError(
                f"only Tensors of floating point or complex dtype can require gradients, got {self.dtype.name}"
            )
        if not requires_grad and not self.is_leaf:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. Use detach() instead."
            )
        self._requires_grad = requires_grad
        return self

    def _set_requires_grad(self, requires_grad: bool) -> None:
        """As requires_grad_, of leaves only."""
        if type(requires_grad) is not bool:
            raise RuntimeError("requires_grad must be a bool")
        if not self.is_leaf:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. Use detach() instead."
            )
        self.requires_grad_(requires_grad)

    requires_grad = property(attrgetter("_requires_grad"), _set_requires_grad)  # every call asks: read by C

    @property
    def grad(self) -> Tensor | None:
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            check_gradient(self, value)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def retains_grad(self) -> bool:
        hooks = self._grad_fn.hooks if self._grad_fn is not None else None
        return any(hasattr(h, "retains_grad") for h in (hooks or {}).get(self._output_index, {}).values())

    @property
    def data(self) -> Tensor:
        """The same storage without a history on the tape. Assigning to it replaces the storage."""
        return Tensor(self._data)

    @data.setter
    def data(self, value: Tensor) -> None:
        self._data = value._data

    def detach_(self) -> Tensor:
        """Take this tensor off the tape, in place. Raises RuntimeError on a view."""
        if self._view is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        self._requires_grad, self._grad_fn, self._output_index = False, None, 0
        return self

    @property
    def version(self) -> int:
        """The number of in-place writes to this storage."""
        holder = self
        while holder._version is None and holder._base is not None:
            holder = holder._base
        return holder._version[0] if holder._version else 0

    def _counter(self) -> list[int]:
        """The version counter that all views of this storage share. It is made when it is first read."""
        if self._version is None:
            base = self._base
            self._version = [0] if base is None else base._counter()
        return self._version

    def _share_version(self, view: Tensor) -> None:
        view._base = self._base if self._base is not None else self
        view._version = self._counter()

    def _bump_version(self) -> None:
        counter = self._counter()
        if counter is not UNTRACKED:
            counter[0] += 1

    def is_inference(self) -> bool:
        """Whether this is a tensor made in inference mode, or a view of one."""
        return (self._version if self._base is None else self._base._version) is UNTRACKED

    # ---- reading the data ----------------------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The tensor's array, which shares its memory. As in torch, raises for a tensor on a GPU, or one that requires
        grad while gradients are recorded; `force` detaches it and copies it to the CPU first."""
        if force:
            return self.detach().cpu().numpy()
        if self.requires_grad and STATE.grad_enabled:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        if self.is_cuda:
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use tensor.cpu() first.")
        return self._real("numpy()")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
        """Makes the result of a NumPy function of a tensor (np.sin(x)) a tensor."""
        return Tensor(np.asarray(array))

    def __dlpack__(self, **options: Any) -> Any:
        """Share the memory with another library, through the tensor's array."""
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return self._real("__dlpack__()").__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._real("__dlpack_device__()").__dlpack_device__()

    def item(self) -> Any:
        """The single element as a Python number. Raises RuntimeError if there is not exactly one element."""
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        value = self._real("item()").item()
        return float(value) if self.dtype.is_floating_point else value

    def tolist(self) -> Any:
        return arrays.move(self._real("tolist()"), arrays.CPU).tolist()

    def _real(self, what: str) -> Any:
        if is_traced(self):
            if hasattr(self._data, "refuse"):  # a batch, inside vmap
                self._data.refuse(what)
            raise Unsupported(f"{what} of a tensor whose data is not known while tracing", code="GB0004")
        return arrays.arrived(self._data) if arrays.ARRIVING else self._data

    def __bool__(self) -> bool:
        if self.numel() != 1:
            values = "no values" if self.numel() == 0 else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {values} is ambiguous")
        if hasattr(self._data, "refuse"):
            self._data.refuse("bool()")
        return bool(self.item())

    def __float__(self) -> float:
        return float(self._real_number("float"))

    def __int__(self) -> int:
        return int(self._real_number("int"))

    def __complex__(self) -> complex:
        return complex(self.item())

    def _real_number(self, wanted: str) -> Any:
        if self.numel() != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        value = self.item()
        if type(value) is complex:
            if value.imag:
                raise RuntimeError(f"value cannot be converted to type {wanted} without overflow: {value}")
            return value.real
        return value

    def __index__(self) -> int:
        if self.dtype.is_differentiable or self.numel() != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Any:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(self.shape[0]))

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        if is_recorded(self):
            return f"<traced {self._data.meta}>"
        if arrays.ARRIVING:
            arrays.arrived(self._data)
        return tensor_text(self)

    def __format__(self, spec: str) -> str:
        """As in torch: a plain tensor without dimensions is formatted as its number, any other as an object."""
        number = type(self) is Tensor and self.ndim == 0 and not is_traced(self)
        return format(self.item(), spec) if number else object.__format__(self, spec)


def is_traced(tensor: Tensor) -> bool:
    """Whether an interpreter records the tensor's value, so that it has no data."""
    data = tensor._data
    return type(data) is not np.ndarray and not hasattr(data, "__array_interface__") and hasattr(data, "meta")


def made_in_inference(out: Any) -> Any:
    """Mark the results of a core operator in inference mode: a new tensor has no version; a view is like its base."""
    for tensor in out if type(out) is tuple else (out,):
        if tensor._base is None:
            tensor._version = UNTRACKED
    return out


def with_base_made_in_inference(tensor: Tensor) -> Tensor:
    """Mark a result that compiled code made in inference mode, or a view of one."""
    (tensor if tensor._base is None else tensor._base)._version = UNTRACKED
    return tensor


def is_recorded(tensor: Tensor) -> bool:
    """Whether a tracer records operators on the tensor. (Not for batches inside vmap, which are computed.)"""
    return is_traced(tensor) and not hasattr(tensor._data, "refuse")


def method(function: F) -> F:
    """Decorator: a function of a tensor (most are operators) becomes a method of Tensor too, under its own name."""
    setattr(Tensor, function.__name__, function)
    return function


def attribute(function: Callable[[Tensor], Any]) -> property:
    """Decorator: a function of a tensor becomes a property of Tensor, under its own name."""
    made = property(function)
    setattr(Tensor, function.__name__, made)
    return made


# ---- the history of a view ---------------------------------------------------------------------------------------


def root(view: Any) -> Any:
    """The base at the end of the chain of views; the tensor itself if it is not a view."""
    while view._view is not None:
        view = source_of(view)
    return view


def source_of(view: Any) -> Any:
    """The source of a view as it was when the view was made. Its shape may have been changed in place since then."""
    made_of = view._view[1]
    before = made_of._formerly[view._source_was : view._source_was + 1]
    return before[0] if before else made_of


def up_to_date(tensor: Tensor) -> Tensor:
    """The tensor. If its base was written through another view on the tape, a view first gets its new history."""
    base = tensor._base
    if tensor._view is not None and (tensor._written != base._written or base._formerly):  # type: ignore[union-attr]
        refresh(tensor)
    return tensor


def refresh(view: Any) -> None:
    """Update a view's history with the later writes to its base."""
    base = root(view)
    if view._written == base._written:
        return
    if view._made_silently:
        view._written = base._written
        return
    again = base
    with inference_mode(False):  # the write was recorded, so this is recorded, too, in any mode
        for op, rest in steps_from_base(view):
            again = op(again, *rest)
    take_history(view, again)
    view._written = base._written


def steps_from_base(view: Any) -> list[tuple]:
    """The operators from the base to the view, with their arguments after the tensor."""
    steps: list[tuple] = []
    while view._view is not None:
        (op, _, rest), source = view._view, source_of(view)
        if op.core is None:  # a quick view (x[0]): the steps are those of its body
            with no_grad():
                steps[:0] = steps_from_base(op.body(Tensor(source._data), *rest))
        else:
            steps.insert(0, (op, rest))
        view = source
    return steps


def take_history(tensor: Any, source: Any) -> None:
    """Give a tensor the history of another tensor."""
    tensor._requires_grad = source._requires_grad
    tensor._grad_fn, tensor._output_index = source._grad_fn, source._output_index


def check_gradient(tensor: Tensor, value: Any) -> None:
    """Raises TypeError or RuntimeError for what cannot be the `.grad` of a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
        )
    if value is tensor:
        raise RuntimeError("can't assign a tensor as its own grad")
    for what in ("dtype", "device", "shape"):
        own, given = getattr(tensor, what), getattr(value, what)
        if own != given:
            raise RuntimeError(f"assigned grad has {what} {given}, expected {own}, as the tensor has it")
