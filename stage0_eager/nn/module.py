"""Module and Parameter: named trees of parameters, buffers and submodules, and the structure epoch that guards use.

Input: subclasses that assign parameters and modules in __init__ and define forward. Every write that changes something
a compiled function may rely on (a registry, a parameter's metadata, `training`) increments the epoch, so one integer
comparison guards whole trees.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from stage0_eager.autograd.hooks import RemovableHandle
from stage0_eager.functions.creation import empty_like
from stage0_eager.functions.tensor_methods import destination
from stage0_eager.nn import registration, state_dicts
from stage0_eager.state import no_grad
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt
from stage_contracts.device import device_of

_EPOCHS = itertools.count(1)
_epoch = 0


def structure_epoch() -> int:
    """A number that changes whenever any module's structure, flags or parameter metadata change."""
    return _epoch


def bump_structure_epoch() -> None:
    global _epoch
    _epoch = next(_EPOCHS)


class Parameter(Tensor):
    """A tensor that a Module registers when it is assigned to an attribute; requires grad by default."""

    def __init__(self, data: Tensor, requires_grad: bool = True) -> None:
        super().__init__(data._data if isinstance(data, Tensor) else data, requires_grad)
        if requires_grad and not self.dtype.is_differentiable:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")

    def __setattr__(self, name: str, value: Any) -> None:
        # what a user stores on it too, which compiled code may have asked for; the tape's own names come often
        if name in ("_requires_grad", "_data", "_hooks", "_after_hooks") or name[0] != "_" and name != "grad":
            bump_structure_epoch()
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        bump_structure_epoch()
        super().__delattr__(name)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class _Buffers(type):
    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and "_is_buffer" in vars(value)


class Buffer(metaclass=_Buffers):
    """Buffer(data) is a tensor that a Module registers as a buffer when it is assigned to an attribute.

    `persistent=False` keeps it out of state_dict.
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        data = Tensor(np.zeros(0, np.float32)) if data is None else data
        made: Any = data.detach().requires_grad_(data.requires_grad)
        made._is_buffer, made.persistent = True, persistent
        return made


class WithKeywords(NamedTuple):
    """A hook that is given the call's keyword arguments too."""

    hook: Callable


class HookHandle(RemovableHandle):
    """A hook of a module; compiled code is guarded against it coming and going."""

    def __init__(self, hooks: OrderedDict, hook: Any, prepend: bool = False) -> None:
        super().__init__(hooks, hook)
        if prepend:
            hooks.move_to_end(self._key, last=False)
        bump_structure_epoch()

    def remove(self) -> None:
        super().remove()
        bump_structure_epoch()


_REGISTRIES = ("_parameters", "_buffers", "_modules")


class Module:
    """Base class of all modules. Assigning a Parameter or a Module to an attribute registers it."""

    training: bool

    def __init__(self) -> None:
        for registry in (*_REGISTRIES, "_forward_hooks", "_forward_pre_hooks"):
            object.__setattr__(self, registry, OrderedDict())
        object.__setattr__(self, "training", True)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not (self._forward_hooks or self._forward_pre_hooks):
            return self.forward(*args, **kwargs)
        for hook in self._forward_pre_hooks.values():
            if isinstance(hook, WithKeywords):
                args, kwargs = hook.hook(self, args, kwargs) or (args, kwargs)
                continue
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for hook in self._forward_hooks.values():
            if isinstance(hook, WithKeywords):
                changed = hook.hook(self, args, kwargs, result)
            else:
                changed = hook(self, args, result)
            result = result if changed is None else changed
        return result

    # ---- attributes ----------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if "_parameters" not in self.__dict__:
            if isinstance(value, (Module, Parameter)):
                raise AttributeError("cannot assign module before Module.__init__() call")
            object.__setattr__(self, name, value)
            return
        home = _registry_for(self, name, value)
        if home is None:
            object.__setattr__(self, name, value)
        else:
            for registry in _REGISTRIES:
                if registry != home:
                    self.__dict__[registry].pop(name, None)
            self.__dict__.pop(name, None)
            self.__dict__[home][name] = value
        bump_structure_epoch()

    def __getattr__(self, name: str) -> Any:
        for registry in _REGISTRIES:
            entries = self.__dict__.get(registry)
            if entries is not None and name in entries:
                return entries[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for registry in _REGISTRIES:
            entries = self.__dict__.get(registry)
            if entries is not None and name in entries:
                del entries[name]
                break
        else:
            object.__delattr__(self, name)
        bump_structure_epoch()

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        registration.check_entry(self, "_parameters", name, param, Parameter)
        self._parameters[name] = param
        bump_structure_epoch()

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """A tensor that is state but not trained. `persistent=False` keeps it out of state_dict."""
        registration.check_entry(self, "_buffers", name, tensor, Tensor)
        self._buffers[name] = tensor
        if not persistent:
            self.__dict__.setdefault("_non_persistent", set()).add(name)
        bump_structure_epoch()

    def add_module(self, name: str, module: Module | None) -> None:
        registration.check_entry(self, "_modules", name, module, Module)
        self._modules[name] = module
        bump_structure_epoch()

    def register_module(self, name: str, module: Module | None) -> None:
        self.add_module(name, module)

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> HookHandle:
        """`hook(module, args, output)` after forward; what it returns (not None) replaces the output.

        prepend: before those there are. with_kwargs: `hook(module, args, kwargs, output)`.
        """
        if always_call:
            raise NotImplementedError(
                "always_call=True is not supported: hooks do not run when forward raises"
            )
        return HookHandle(self._forward_hooks, WithKeywords(hook) if with_kwargs else hook, prepend)

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle:
        """`hook(module, args)` before forward; what it returns (not None) replaces the arguments.

        prepend: before those there are. with_kwargs: `hook(module, args, kwargs)`, which gives both or None.
        """
        return HookHandle(self._forward_pre_hooks, WithKeywords(hook) if with_kwargs else hook, prepend)

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path, self for "". Raises AttributeError where there is none."""
        found: Any = self
        for name in target.split(".") if target else ():
            found = getattr(found, name, None)
            if not isinstance(found, Module):
                raise AttributeError(f"{type(self).__name__} has no module {target!r} (at {name!r})")
        return found

    def get_parameter(self, target: str) -> Parameter:
        return self._entry(target, "_parameters", "parameter")

    def get_buffer(self, target: str) -> Tensor:
        return self._entry(target, "_buffers", "buffer")

    def _entry(self, target: str, registry: str, what: str) -> Any:
        path, _, name = target.rpartition(".")
        entries = self.get_submodule(path).__dict__[registry]
        if name not in entries:
            raise AttributeError(f"{type(self).__name__} has no {what} {target!r}")
        return entries[name]

    # ---- walking -------------------------------------------------------------------------------------------

    def children(self) -> Iterator[Module]:
        return (m for m in self._modules.values() if m is not None)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        return ((n, m) for n, m in self._modules.items() if m is not None)

    def named_modules(
        self, memo: set | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self.named_children():
            yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        return (m for _, m in self.named_modules())

    def _named(
        self, registry: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in owners if recurse else [(prefix, self)]:
            for name, value in module.__dict__[registry].items():
                if value is not None and id(value) not in seen:
                    if remove_duplicate:
                        seen.add(id(value))
                    yield f"{path}.{name}" if path else name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return (p for _, p in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (b for _, b in self.named_buffers(recurse=recurse))

    # ---- state ---------------------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Module:
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad = p.grad.detach().zero_()

    def apply(self, function: Callable[[Module], None]) -> Module:
        """Call `function` on every module, children before their parent."""
        for module in self.children():
            module.apply(function)
        function(self)
        return self

    def to(
        self, *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False,
        memory_format: Any = None,
    ) -> Module:  # fmt: skip
        """Cast floating parameters and buffers, move all, in place; memory_format lays out those of four dimensions
        (channels_last_3d: five). Raises TypeError for a dtype not floating."""
        device, dtype = destination(args, device, dtype)
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"nn.Module.to only accepts floating point dtypes, but got desired dtype={dtype}")
        with no_grad():
            for module in self.modules():
                for registry in ("_parameters", "_buffers"):
                    for tensor in module.__dict__[registry].values():
                        if tensor is not None:
                            cast = dtype if tensor.is_floating_point() else None
                            laid_out = memory_format if tensor.ndim in (4, 5) else None
                            moved = tensor.to(
                                device=device, dtype=cast, memory_format=laid_out, non_blocking=non_blocking
                            )
                            if moved is not tensor:
                                tensor._data = moved._data
        bump_structure_epoch()
        return self

    @property
    def _non_persistent_buffers_set(self) -> set[str]:
        """The names of this module's buffers that state_dict leaves out, under torch's name for it."""
        return self.__dict__.get("_non_persistent", set())

    def to_empty(self, *, device: Any, recurse: bool = True) -> Module:
        """Move parameters and buffers, in place, without their values: what they hold then is not initialized."""
        device = device_of(device)
        with no_grad():
            for module in self.modules() if recurse else (self,):
                for registry in ("_parameters", "_buffers"):
                    for tensor in module.__dict__[registry].values():
                        if tensor is not None:
                            tensor._data = empty_like(tensor, device=device)._data
        bump_structure_epoch()
        return self

    def type(self, dst_type: Any) -> Module:
        return self.to(dtype=dst_type)

    def float(self) -> Module:
        return self.to(dt.float32)

    def double(self) -> Module:
        return self.to(dt.float64)

    def half(self) -> Module:
        return self.to(dt.float16)

    def bfloat16(self) -> Module:
        return self.to(dt.bfloat16)

    def cpu(self) -> Module:
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Module:
        return self.to("cuda" if device is None else device)

    _version = 1  # of the entries that this class saves; a loader may ask for it

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> OrderedDict[str, Tensor]:
        """Parameters and persistent buffers by dotted name, sharing storage with the module.

        keep_vars gives the parameters themselves instead of tensors off the tape.
        """
        if args:  # torch's older form, which a class that overrides this still uses
            destination, prefix, keep_vars = (*args, prefix, keep_vars)[:3]
        state: Any = destination
        if state is None:
            state = OrderedDict()
            state._metadata = OrderedDict()
        return state_dicts.save(self, state, prefix, keep_vars)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        state_dicts.save_own(self, destination, prefix, keep_vars)

    def load_state_dict(
        self, state_dict: Mapping[str, Tensor], strict: bool = True, assign: bool = False
    ) -> state_dicts.IncompatibleKeys:
        """Copy values in by name (assign: take their storage). Returns (missing, unexpected) names.

        Raises RuntimeError for misshapen entries and, if strict, for missing and unexpected ones.
        """
        keys = state_dicts.load(self, state_dict, strict, assign)
        if assign:
            bump_structure_epoch()
        return keys

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        state_dicts.load_own(
            self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    @state_dicts.stand_in
    def get_extra_state(self) -> Any:
        """What else belongs into state_dict. A class that has such state defines this and set_extra_state."""
        raise RuntimeError(
            f"{type(self).__name__} defines no get_extra_state, so it has no extra state to save"
        )

    @state_dicts.stand_in
    def set_extra_state(self, state: Any) -> None:
        raise RuntimeError(
            f"{type(self).__name__} defines no set_extra_state, so extra state cannot be loaded"
        )

    def register_state_dict_pre_hook(self, hook: Callable) -> HookHandle:
        """`hook(module, prefix, keep_vars)` before the module saves its entries."""
        return HookHandle(state_dicts.hooks_of(self, state_dicts.SAVE_BEFORE), hook)

    def register_state_dict_post_hook(self, hook: Callable) -> HookHandle:
        """`hook(module, state_dict, prefix, local_metadata)` after; it changes the dict in place, returns None."""

        def in_place(*args: Any) -> Any:
            return hook(*args)

        in_place._may_replace = False  # type: ignore
        return HookHandle(state_dicts.hooks_of(self, state_dicts.SAVE_AFTER), in_place)

    def _register_state_dict_hook(self, hook: Callable) -> HookHandle:
        """The older form: what the hook returns (not None) takes the dict's place."""
        return HookHandle(state_dicts.hooks_of(self, state_dicts.SAVE_AFTER), hook)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> HookHandle:
        """`hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> HookHandle:
        """The older form: without the module, unless with_module."""
        called = partial(hook, self) if with_module else hook
        return HookHandle(state_dicts.hooks_of(self, state_dicts.LOAD_BEFORE), called)

    def register_load_state_dict_post_hook(self, hook: Callable) -> HookHandle:
        """`hook(module, incompatible_keys)` after the module and its children; it may change the two lists."""
        return HookHandle(state_dicts.hooks_of(self, state_dicts.LOAD_AFTER), hook)

    # ---- printing ------------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        return ""

    def __repr__(self) -> str:
        lines = []
        for name, module in self._modules.items():
            body = repr(module).replace("\n", "\n  ")
            lines.append(f"({name}): {body}")
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}(\n  " + "\n  ".join([extra, *lines] if extra else lines) + "\n)"


def _registry_for(module: Module, name: str, value: Any) -> str | None:
    """Where a value belongs, by its kind, else by what it replaces; None where it is a plain attribute."""
    if isinstance(value, Buffer):
        names = module.__dict__.setdefault("_non_persistent", set())
        names.discard(name)
        if not vars(value)["persistent"]:
            names.add(name)
        return "_buffers"
    if isinstance(value, (Parameter, Module)):
        return "_parameters" if isinstance(value, Parameter) else "_modules"
    if name in module._buffers:
        return "_buffers" if value is None or isinstance(value, Tensor) else None
    for registry in ("_parameters", "_modules"):
        if name in module.__dict__[registry]:
            if value is None:
                return registry
            raise TypeError(f"cannot assign {type(value).__name__!r} as parameter or module {name!r}")
    return None
