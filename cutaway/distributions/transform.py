"""The base class of transforms, which may keep its last x and y, and the inverse of a transform.

Input: tensors. transforms.py has the transforms.
"""

from __future__ import annotations

import copy
from typing import Any

from cutaway import Tensor
from cutaway.distributions import constraints


class Transform:
    """Base class: `_call`, `_inverse` and log_abs_det_jacobian are the formulas; `sign` is that of the slope.

    With cache_size=1 the last x and y are kept: the inverse of the last y is that x itself, and not what the formula
    makes of a y that was rounded.
    """

    bijective = False
    _cached: tuple[Any, Any] = (None, None)
    domain: Any = constraints.real
    codomain: Any = constraints.real

    @property
    def sign(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not rise or fall everywhere")

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size

    @property
    def event_dim(self) -> int:
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        return _Inverse(self)

    def __call__(self, x: Tensor) -> Tensor:
        last, result = self._cached
        return result if last is not None and x is last else self._keep(x, self._call(x))[1]

    def _inv_call(self, y: Tensor) -> Tensor:
        result, last = self._cached
        return result if last is not None and y is last else self._keep(self._inverse(y), y)[0]

    def _keep(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if self._cache_size:
            self._cached = x, y
        return x, y

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy/dx|, over the dimensions that belong together."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        new = copy.copy(self)
        new._cache_size, new._cached = cache_size, (None, None)
        return new

    def forward_shape(self, shape: Any) -> tuple:
        return tuple(shape)

    def inverse_shape(self, shape: Any) -> tuple:
        return tuple(shape)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and not self._parts() and not other._parts()

    def _parts(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_cache_size", "_cached")}

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, of: Transform) -> None:
        super().__init__()
        self._inv = of

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._inv.bijective

    @property
    def domain(self) -> Any:
        return self._inv.codomain

    @property
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> tuple:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> tuple:
        return self._inv.forward_shape(shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Inverse) and self._inv == other._inv

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"_InverseTransform({self._inv!r})"
