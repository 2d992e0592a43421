"""torch.nn.utils.parametrize: a parameter that is computed, at each reading, from others that are trained.

Input: a module, the name of a parameter or buffer, and a module that computes it. The module's class becomes one in
which the name is a property; what is trained is at module.parametrizations.<name>.original.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stage0_eager.nn.containers import ModuleDict, ModuleList
from stage0_eager.nn.module import Module, Parameter
from stage0_eager.state import no_grad
from stage0_eager.tensor import Tensor

_CACHE: dict[tuple[int, str], Tensor] = {}
_CACHING = [0]  # how many blocks of cached() are open


@contextmanager
def cached() -> Iterator[None]:
    """In this block each parametrized tensor is computed once."""
    _CACHING[0] += 1
    try:
        yield
    finally:
        _CACHING[0] -= 1
        if not _CACHING[0]:
            _CACHE.clear()


class ParametrizationList(ModuleList):
    """The modules that compute one tensor, and what they compute it from: `original`, or original0, original1, ..."""

    def __init__(self, modules: list[Module], original: Tensor, unsafe: bool = False) -> None:
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            new: Any = original
            for module in reversed(modules):
                new = module.right_inverse(new) if hasattr(module, "right_inverse") else new
        self.is_tensor = isinstance(new, Tensor)
        parts = {"original": new} if self.is_tensor else {f"original{i}": part for i, part in enumerate(new)}
        self.ntensors = len(parts)
        for name, part in parts.items():
            self._hold(name, original if part is original else part, original)

    def _hold(self, name: str, part: Tensor, like: Tensor) -> None:
        if not isinstance(like, Parameter):
            self.register_buffer(name, part)
        elif isinstance(part, Parameter):
            self.register_parameter(name, part)
        else:
            self.register_parameter(name, Parameter(part, like.requires_grad))

    def _originals(self) -> list[Tensor]:
        return (
            [self.original]
            if self.is_tensor
            else [getattr(self, f"original{i}") for i in range(self.ntensors)]
        )

    def right_inverse(self, value: Tensor) -> None:
        """Set what is trained so that the tensor becomes `value`. Raises RuntimeError for a module without a
        right_inverse."""
        with no_grad():
            new: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                new = module.right_inverse(new)
            for original, part in zip(self._originals(), [new] if self.is_tensor else new, strict=True):
                original.copy_(part)

    def forward(self) -> Tensor:
        first, *others = list(self)
        found = first(*self._originals())
        for module in others:
            found = module(found)
        return found


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute `tensor_name` of a module by `parametrization` from now on; after others that it has. Returns the module.

    parametrization.right_inverse(tensor), if there is one, gives what is trained from the tensor as it is now. Raises
    ValueError for a tensor that the module does not have, or whose shape or dtype would change (unless `unsafe`).
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        held: Any = module.parametrizations[tensor_name]
        before = getattr(module, tensor_name)
        if not unsafe:
            _check(before, parametrization(before), tensor_name)
        if hasattr(parametrization, "right_inverse"):
            with no_grad():
                value = parametrization.right_inverse(before)
            held.right_inverse(value) if all(
                hasattr(m, "right_inverse") for m in held
            ) else held.original.copy_(value)
        held.append(parametrization)
        return module
    registry = next((r for r in (module._buffers, module._parameters) if tensor_name in r), None)
    if registry is None:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    original: Any = registry[tensor_name]
    held = ParametrizationList([parametrization], original, unsafe)
    if not unsafe:
        _check(original, held(), tensor_name)
    if not is_parametrized(module):
        _become(module)
    delattr(module, tensor_name)
    module.parametrizations[tensor_name] = held
    setattr(type(module), tensor_name, _property(tensor_name))
    return module


def _check(before: Tensor, after: Any, name: str) -> None:
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    for what, was, got in (("dtype", before.dtype, after.dtype), ("shape", before.shape, after.shape)):
        if was != got:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is "
                f"enabled.\nmodule.{name}.{what}: {was}\nparametrization(module.{name}).{what}: {got}"
            )


def _become(module: Module) -> None:
    """Give the module a class of its own, in which names can be properties."""
    kind = type(module)
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), {"__module__": kind.__module__})
    module.parametrizations = ModuleDict()


def _property(name: str) -> property:
    def get(self: Any) -> Any:
        held = self.parametrizations[name]
        if not _CACHING[0]:
            return held()
        key = (id(self), name)
        if key not in _CACHE:
            _CACHE[key] = held()
        return _CACHE[key]

    def put(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module has a computed tensor, or this one."""
    held = module._modules.get("parametrizations")
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def type_before_parametrizations(module: Module) -> type:
    """The class that the module had."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make the tensor an ordinary one again: with its computed value or, if not leave_parametrized, the original.

    Raises ValueError for a tensor that is not computed, or for an original that is several tensors.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    held: Any = module.parametrizations[tensor_name]
    if not leave_parametrized and not held.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    value: Any = held._originals()[0]
    if leave_parametrized:
        with no_grad():
            computed = held()
        if held.is_tensor:
            value._data = computed._data
        else:
            value = Parameter(computed) if isinstance(value, Parameter) else computed
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    if isinstance(value, Parameter):
        module.register_parameter(tensor_name, value)
    else:
        module.register_buffer(tensor_name, value)
    return module
