"""biject_to and transform_to: the transform from real numbers to the values that a constraint allows.

Input: a constraint. biject_to gives an invertible one; transform_to one that is good for optimisation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cutaway.distributions import constraints as c
from cutaway.distributions import transforms as t
from cutaway.distributions.constraints import Constraint
from cutaway.distributions.transforms import Transform


class ConstraintRegistry:
    """A table: a constraint, or a class of constraints, -> a function from a constraint to a transform."""

    def __init__(self) -> None:
        self._table: dict[Any, Callable[[Any], Transform]] = {}

    def register(self, constraint: Any, factory: Callable[[Any], Transform] | None = None) -> Any:
        """Add an entry. Without `factory`, a decorator."""
        if factory is None:
            return lambda function: self.register(constraint, function)
        kind = isinstance(constraint, type) and issubclass(constraint, Constraint)
        if not kind and not isinstance(constraint, Constraint):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}"
            )
        self._table[constraint] = factory
        return factory

    def __call__(self, constraint: Any) -> Transform:
        """The transform. Raises NotImplementedError for a constraint without one."""
        factory = self._table.get(constraint) or self._table.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _above(constraint: Any) -> Transform:
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.lower_bound, 1)])


def _below(constraint: Any) -> Transform:
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.upper_bound, -1)])


def _between(constraint: Any) -> Transform:
    width = constraint.upper_bound - constraint.lower_bound
    return t.ComposeTransform([t.SigmoidTransform(), t.AffineTransform(constraint.lower_bound, width)])


_BOTH: dict[Any, Callable[[Any], Transform]] = {
    c.real: lambda _: t.identity_transform,
    c.positive: lambda _: t.ExpTransform(),
    c.nonnegative: lambda _: t.ExpTransform(),
    c.greater_than: _above,
    c.greater_than_eq: _above,
    c.less_than: _below,
    c.unit_interval: lambda _: t.SigmoidTransform(),
    c.interval: _between,
    c.half_open_interval: _between,
}
for _constraint, _factory in _BOTH.items():
    biject_to.register(_constraint, _factory)
    transform_to.register(_constraint, _factory)
biject_to.register(c.simplex, lambda _: t.StickBreakingTransform())
transform_to.register(c.simplex, lambda _: t.SoftmaxTransform())
transform_to.register(c.lower_cholesky, lambda _: t.LowerCholeskyTransform())
for _registry in (biject_to, transform_to):
    _registry.register(
        c.independent,
        lambda constraint, of=_registry: t.IndependentTransform(  # type: ignore[misc]
            of(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        ),
    )
