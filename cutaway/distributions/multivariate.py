"""MultivariateNormal: a vector of normal numbers with a covariance.

Input: the mean, and one of covariance_matrix, precision_matrix and scale_tril (a Cholesky factor of the covariance).
"""

from __future__ import annotations

from typing import Any

import cutaway
from cutaway import Tensor
from cutaway.distributions import constraints
from cutaway.distributions.distribution import LOG_2PI, Distribution, noise

linalg: Any = cutaway.linalg


def _solved(triangle: Tensor, vectors: Tensor) -> Tensor:
    """triangle^-1 times each vector; batches are broadcast."""
    found = linalg.solve_triangular(triangle, vectors.unsqueeze(-1), upper=False)
    return found.squeeze(-1)


def _log_diagonal(triangle: Tensor) -> Tensor:
    return cutaway.diagonal(triangle, dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(Distribution):
    arg_constraints = {
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
    }  # fmt: skip
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        matrices = {
            "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril,
        }  # fmt: skip
        given = {name: matrix for name, matrix in matrices.items() if matrix is not None}
        if len(given) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
            )
        ((name, matrix),) = given.items()
        if matrix.ndim < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch = cutaway.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        self.loc = loc.expand((*batch, -1))
        self.__dict__[name] = matrix.expand((*batch, -1, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = self._factor(name, matrix)

    @staticmethod
    def _factor(name: str, matrix: Tensor) -> Tensor:
        if name == "scale_tril":
            return matrix
        if name == "covariance_matrix":
            return linalg.cholesky(matrix)
        # the factor of the inverse: turned around, the inverse of the factor of what is turned around
        turned = linalg.cholesky(cutaway.flip(matrix, (-2, -1)))
        upper = cutaway.transpose(cutaway.flip(turned, (-2, -1)), -2, -1)
        identity = cutaway.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
        return linalg.solve_triangular(upper, identity.expand(matrix.shape), upper=False)

    def __getattr__(self, name: str) -> Any:
        factor = self.__dict__.get("_unbroadcasted_scale_tril")
        if factor is None or name not in ("scale_tril", "covariance_matrix", "precision_matrix"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        whole = (*self._batch_shape, *self._event_shape, *self._event_shape)
        if name == "scale_tril":
            return factor.expand(whole)
        if name == "covariance_matrix":
            return (factor @ factor.mT).expand(whole)
        identity = cutaway.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
        inverse = linalg.solve_triangular(factor, identity.expand(factor.shape), upper=False)
        return (inverse.mT @ inverse).expand(whole)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = noise(self, sample_shape, self.loc, cutaway.randn)
        return self.loc + (self._unbroadcasted_scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        difference = value - self.loc
        factor = self._unbroadcasted_scale_tril
        shape = cutaway.broadcast_shapes(tuple(difference.shape[:-1]), tuple(factor.shape[:-2]))
        size = self._event_shape[0]
        solved = _solved(factor.expand((*shape, size, size)), difference.expand((*shape, size)))
        return -0.5 * (size * LOG_2PI + solved.pow(2).sum(-1)) - _log_diagonal(factor)

    def entropy(self) -> Tensor:
        size = self._event_shape[0]
        found = 0.5 * size * (1.0 + LOG_2PI) + _log_diagonal(self._unbroadcasted_scale_tril)
        return found.expand(self._batch_shape)
