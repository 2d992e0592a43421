"""torch.Tensor(...) as a constructor, and classes of a program that are derived from Tensor and made by calling them.

Input: sizes (`Tensor(2, 3)`: zeros here, unset memory in torch), data (`Tensor([1, 2])`, of the default dtype), or a
tensor, whose memory and history the new one shares. Eager's own calls pass an array and do not come here.
"""

from __future__ import annotations

from typing import Any

from stage0_eager import tensor as tensor_module
from stage0_eager.functions import creation
from stage0_eager.tensor import Tensor
from stage_contracts.symbolic import SymInt

_SLOTS = ("_data", "_grad_fn", "_view", "_requires_grad")


def constructed(*given: Any, device: Any = None) -> Tensor:
    """The tensor that `Tensor(*given)` means. Raises TypeError for what is neither sizes nor data."""
    first = given[0] if len(given) == 1 else None
    if isinstance(first, Tensor):
        return first.view_as(first)
    if not given or all(isinstance(size, (int, SymInt)) for size in given):
        return creation.zeros(*given or (0,), device=device)
    if len(given) > 1 or first is None or isinstance(first, (str, float)):
        kinds = ", ".join(type(part).__name__ for part in given)
        raise TypeError(
            f"Tensor() expects sizes (integers), a list or tuple of numbers, or a tensor, but got ({kinds}); "
            "use torch.tensor(data, dtype=, device=, requires_grad=)"
        )
    if isinstance(first, (list, tuple)):
        return creation.tensor(first, device=device).to(creation.zeros(0).dtype)
    return Tensor(first)  # an array


def _init(self: Tensor, given: tuple) -> None:
    """The rest of Tensor.__init__ where it was not given an array."""
    made = constructed(*given)
    for slot in _SLOTS:
        setattr(self, slot, getattr(made, slot))
    vars(self).update(vars(made))


class Constructed(Tensor):
    """A base that classes of a program get between them and Tensor, so that Tensor's own objects, of which every
    operator makes one, need no __new__: `super().__new__(cls, x)` makes the tensor, and __init__ has nothing to do."""

    def __new__(cls, *given: Any, device: Any = None, **_: Any) -> Any:
        made = constructed(*given, device=device)
        return made.as_subclass(cls)

    def __init__(self, *given: Any, **_: Any) -> None:
        pass


def _put_between(cls: type) -> None:
    if Tensor in cls.__bases__ and not cls.__module__.startswith("stage0_eager."):
        cls.__bases__ = tuple(Constructed if base is Tensor else base for base in cls.__bases__)


tensor_module.ON_SUBCLASS.append(_put_between)
tensor_module.WRITTEN_DOWN.update((type(None), bool, int, float, str, list, tuple, SymInt))
tensor_module.INIT.append(_init)
