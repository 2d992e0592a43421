"""Module and Parameter: named trees of parameters, buffers and submodules, and the structure epoch that guards use.

Input: subclasses that assign parameters and modules in __init__ and define forward. Every write that changes what
a compiled function may rely on (a registry, a parameter's metadata, `training`) bumps the epoch, so that one integer
comparison guards whole trees.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from stage0_eager.state import no_grad
from stage0_eager.tensor import Tensor

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

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("requires_grad", "_data"):
            bump_structure_epoch()
        super().__setattr__(name, value)

    @property
    def data(self) -> Tensor:
        """The same storage without a place on the tape. Assigning replaces the storage."""
        return Tensor(self._data)

    @data.setter
    def data(self, value: Tensor) -> None:
        self._data = value._data

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


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
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for hook in self._forward_hooks.values():
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
        home = (
            "_parameters"
            if isinstance(value, Parameter)
            else "_modules"
            if isinstance(value, Module)
            else None
        )
        if home is None and name in self._buffers and (value is None or isinstance(value, Tensor)):
            home = "_buffers"
        if home is None and value is None:
            home = next((r for r in _REGISTRIES if name in self.__dict__[r]), None)
        if home is None and any(name in self.__dict__[r] for r in ("_parameters", "_modules")):
            raise TypeError(f"cannot assign {type(value).__name__!r} as parameter or module {name!r}")
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
            if name in self.__dict__[registry]:
                del self.__dict__[registry][name]
                break
        else:
            object.__delattr__(self, name)
        bump_structure_epoch()

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        self._parameters[name] = param
        bump_structure_epoch()

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """A tensor that is state but not trained. `persistent=False` keeps it out of state_dict."""
        self._buffers[name] = tensor
        if not persistent:
            self.__dict__.setdefault("_non_persistent", set()).add(name)
        bump_structure_epoch()

    def add_module(self, name: str, module: Module | None) -> None:
        self._modules[name] = module
        bump_structure_epoch()

    def register_forward_hook(self, hook: Callable) -> Callable[[], None]:
        """`hook(module, args, output)` after forward. Returns a function that removes it."""
        return self._add_hook(self._forward_hooks, hook)

    def register_forward_pre_hook(self, hook: Callable) -> Callable[[], None]:
        return self._add_hook(self._forward_pre_hooks, hook)

    def _add_hook(self, hooks: OrderedDict, hook: Callable) -> Callable[[], None]:
        key = object()
        hooks[key] = hook
        bump_structure_epoch()

        def remove() -> None:
            hooks.pop(key, None)
            bump_structure_epoch()

        return remove

    # ---- walking -------------------------------------------------------------------------------------------

    def children(self) -> Iterator[Module]:
        return (m for m in self._modules.values() if m is not None)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        return ((n, m) for n, m in self._modules.items() if m is not None)

    def named_modules(self, prefix: str = "", memo: set | None = None) -> Iterator[tuple[str, Module]]:
        memo = set() if memo is None else memo
        if self in memo:
            return
        memo.add(self)
        yield prefix, self
        for name, module in self.named_children():
            yield from module.named_modules(f"{prefix}.{name}" if prefix else name, memo)

    def modules(self) -> Iterator[Module]:
        return (m for _, m in self.named_modules())

    def _named(self, registry: str) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for prefix, module in self.named_modules():
            for name, value in module.__dict__[registry].items():
                if value is not None and id(value) not in seen:
                    seen.add(id(value))
                    yield f"{prefix}.{name}" if prefix else name, value

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        return self._named("_parameters")

    def parameters(self) -> Iterator[Parameter]:
        return (p for _, p in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        return self._named("_buffers")

    def buffers(self) -> Iterator[Tensor]:
        return (b for _, b in self.named_buffers())

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

    def zero_grad(self) -> None:
        for p in self.parameters():
            p.grad = None

    def apply(self, function: Callable[[Module], None]) -> Module:
        for module in reversed(list(self.modules())):
            function(module)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Module:
        """Cast floating parameters and buffers, or move all, in place."""
        with no_grad():
            for module in self.modules():
                for registry in ("_parameters", "_buffers"):
                    for tensor in module.__dict__[registry].values():
                        if tensor is not None:
                            moved = tensor.to(*args, **kwargs)
                            if tensor.is_floating_point() or moved.dtype is tensor.dtype:
                                tensor._data = moved._data
        bump_structure_epoch()
        return self

    def float(self) -> Module:
        from stage_contracts.dtype import float32

        return self.to(float32)

    def double(self) -> Module:
        from stage_contracts.dtype import float64

        return self.to(float64)

    def state_dict(self) -> OrderedDict[str, Tensor]:
        """Parameters and persistent buffers by dotted name, sharing storage with the module."""
        state: OrderedDict[str, Tensor] = OrderedDict()
        for prefix, module in self.named_modules():
            hidden = module.__dict__.get("_non_persistent", set())
            for registry in ("_parameters", "_buffers"):
                for name, value in module.__dict__[registry].items():
                    if value is not None and name not in hidden:
                        state[f"{prefix}.{name}" if prefix else name] = Tensor(value._data)
        return state

    def load_state_dict(self, state: dict[str, Tensor], strict: bool = True) -> None:
        """Copy values in by name. Raises RuntimeError listing missing, unexpected and misshapen entries."""
        own = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        expected = self.state_dict()
        missing = [k for k in expected if k not in state]
        unexpected = [k for k in state if k not in expected]
        wrong = [
            f"size mismatch for {k}: checkpoint {tuple(state[k].shape)}, model {tuple(expected[k].shape)}"
            for k in expected
            if k in state and state[k].shape != expected[k].shape
        ]
        problems = wrong + ([f"missing keys: {missing}", f"unexpected keys: {unexpected}"] if strict else [])
        if wrong or (strict and (missing or unexpected)):
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}: " + "; ".join(problems)
            )
        with no_grad():
            for key, value in expected.items():
                if key in state:
                    own.get(key, value).copy_(state[key])

    # ---- printing ------------------------------------------------------------------------------------------

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
