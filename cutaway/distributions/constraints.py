"""Constraints: which values a parameter or a sample may have. `constraints.positive.check(x)` is a bool per value.

Input: tensors. `event_dim` is the number of the last dimensions that are one value. constraint_registry.py gives the
transform from real numbers to each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cutaway

linalg: Any = cutaway.linalg


class Constraint:
    """`check(value)`: whether each value satisfies it; its shape is the value's without the last event_dim."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Any) -> Any:
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__.removeprefix("_") + "()"


class _Rule(Constraint):
    """A constraint that is one expression, shown by its name."""

    def __init__(
        self, name: str, rule: Callable[[Any], Any], event_dim: int = 0, discrete: bool = False
    ) -> None:
        self.name, self.rule, self.event_dim, self.is_discrete = name, rule, event_dim, discrete

    def check(self, value: Any) -> Any:
        return self.rule(value)

    def __repr__(self) -> str:
        return self.name


class _Dependent(Constraint):
    """A constraint that depends on other parameters, so that it cannot be asked of a class."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete: bool = False, event_dim: int = 0) -> _Dependent:
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value: Any) -> Any:
        raise ValueError("Cannot determine validity of dependent constraint")

    def __repr__(self) -> str:
        return "Dependent()"


class _DependentProperty(property, _Dependent):
    """`@dependent_property` on `support`: a constraint that an instance computes."""

    def __init__(self, fn: Callable | None = None, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable) -> _DependentProperty:  # type: ignore[override]
        return _DependentProperty(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


class _Bounds(Constraint):
    """lower_bound and upper_bound, of which one may be missing; the names of classes say which are allowed."""

    def __init__(self, lower_bound: Any = None, upper_bound: Any = None) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def __repr__(self) -> str:
        bounds = {"lower_bound": self.lower_bound, "upper_bound": self.upper_bound}
        said = ", ".join(f"{name}={bound}" for name, bound in bounds.items() if bound is not None)
        return f"{type(self).__name__.removeprefix('_').title().replace('_', '')}({said})"


class interval(_Bounds):
    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class half_open_interval(_Bounds):
    def check(self, value: Any) -> Any:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class greater_than(_Bounds):
    def check(self, value: Any) -> Any:
        return self.lower_bound < value


class greater_than_eq(_Bounds):
    def check(self, value: Any) -> Any:
        return self.lower_bound <= value


class less_than(_Bounds):
    def __init__(self, upper_bound: Any) -> None:
        super().__init__(None, upper_bound)

    def check(self, value: Any) -> Any:
        return value < self.upper_bound


class integer_interval(_Bounds):
    is_discrete = True

    def check(self, value: Any) -> Any:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class multinomial(Constraint):
    """Counts of categories that sum to at most upper_bound."""

    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def __repr__(self) -> str:
        return "Multinomial()"

    def check(self, x: Any) -> Any:
        return (x >= 0).all(dim=-1) & (x.sum(dim=-1) <= self.upper_bound)


class independent(Constraint):
    """A constraint on each of the values of the last dimensions."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Any:
        result = self.base_constraint.check(value)
        if result.ndim < self.reinterpreted_batch_ndims:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        for _ in range(self.reinterpreted_batch_ndims):
            result = result.all(-1)
        return result

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


def _symmetric(value: Any) -> Any:
    return cutaway.isclose(value, value.transpose(-2, -1), atol=1e-6).all(-2).all(-1)


def _positive_definite(value: Any) -> Any:
    return _symmetric(value) & (linalg.eigvalsh(value) > 0).all(-1)


def _lower_cholesky(value: Any) -> Any:
    diagonal = cutaway.diagonal(value, dim1=-2, dim2=-1)
    return (value.tril() == value).all(-1).all(-1) & (diagonal > 0).all(-1)


def is_dependent(constraint: Any) -> bool:
    return isinstance(constraint, _Dependent)


real = _Rule("Real()", lambda x: x == x)
real_vector = independent(real, 1)
boolean = _Rule("Boolean()", lambda x: (x == 0) | (x == 1), discrete=True)
one_hot = _Rule(
    "OneHot()", lambda x: ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1), event_dim=1, discrete=True
)
nonnegative_integer = _Rule(
    "IntegerGreaterThan(lower_bound=0)", lambda x: (x % 1 == 0) & (x >= 0), discrete=True
)
positive_integer = _Rule(
    "IntegerGreaterThan(lower_bound=1)", lambda x: (x % 1 == 0) & (x >= 1), discrete=True
)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
simplex = _Rule("Simplex()", lambda x: (x >= 0).all(dim=-1) & ((x.sum(-1) - 1).abs() < 1e-6), event_dim=1)
lower_triangular = _Rule("LowerTriangular()", lambda x: (x.tril() == x).all(-1).all(-1), event_dim=2)
lower_cholesky = _Rule("LowerCholesky()", _lower_cholesky, event_dim=2)
square = _Rule(
    "Square()",
    lambda x: cutaway.full(x.shape[:-2], x.shape[-2] == x.shape[-1], dtype=cutaway.bool),
    event_dim=2,
)
symmetric = _Rule("Symmetric()", _symmetric, event_dim=2)
positive_definite = _Rule("PositiveDefinite()", _positive_definite, event_dim=2)
dependent = _Dependent()
dependent_property = _DependentProperty
