"""Distribution: what every distribution has: parameters with constraints, a batch of them, the shape of one event.

Input: subclasses, which give the formulas. Shapes: a sample is sample_shape + batch_shape + event_shape, a log_prob is
sample_shape + batch_shape. Formulas are plain functions over tensors, so capture follows them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import cutaway
from cutaway import Tensor
from cutaway.distributions.constraints import Constraint, is_dependent

Size = tuple


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers take a tensor's dtype and device.

    Raises ValueError for a value of another type.
    """
    for value in values:
        if not isinstance(value, (Tensor, int, float)):
            raise ValueError(
                "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                "__torch_function__."
            )
    like = [value for value in values if isinstance(value, Tensor)]
    dtype = like[0].dtype if like else cutaway.get_default_dtype()
    device = like[0].device if like else None
    tensors = [v if isinstance(v, Tensor) else cutaway.tensor(v, dtype=dtype, device=device) for v in values]
    return tuple(cutaway.broadcast_tensors(*tensors))


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """The sum over the last `dims` dimensions."""
    return value.reshape(*value.shape[: value.ndim - dims], -1).sum(-1) if dims else value


class Distribution:
    """Base class. `arg_constraints`: parameter -> constraint; `support`: the constraint of samples."""

    has_rsample = False  # whether gradients flow from samples to the parameters
    has_enumerate_support = False
    _validate_args = True
    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    support: Any = None

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions made from here on check their arguments."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args and not cutaway.compiler.is_compiling():
            self._check_arguments()

    def _check_arguments(self) -> None:
        for name, constraint in self.arg_constraints.items():
            if is_dependent(constraint) or name not in self.__dict__:
                continue
            value = self.__dict__[name]
            if not bool(constraint.check(value).all()):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    @property
    def batch_shape(self) -> tuple:
        return self._batch_shape

    @property
    def event_shape(self) -> tuple:
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no mean in closed form")

    @property
    def mode(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no variance in closed form")

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws, off the tape. Shape: sample_shape + batch_shape + event_shape."""
        with cutaway.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draws that are a function of the parameters and of noise, so that gradients flow."""
        raise NotImplementedError(f"{type(self).__name__} has no rsample; use sample and log_prob")

    def sample_n(self, n: int) -> Tensor:
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, of each value."""
        raise NotImplementedError(f"{type(self).__name__} does not implement log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no cdf in closed form")

    def icdf(self, value: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no icdf in closed form")

    def entropy(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no entropy in closed form")

    def perplexity(self) -> Tensor:
        return self.entropy().exp()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not implement enumerate_support")

    def _values(self, values: Tensor, expand: bool) -> Tensor:
        """The values that are possible, along a new first dimension; expand: for every distribution of the batch."""
        ones = (1,) * len(self._batch_shape)
        shaped = values.reshape(-1, *ones)
        return shaped.expand(values.shape[0], *self._batch_shape) if expand else shaped

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution for each entry of a larger batch."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._batch_shape = Size(batch_shape)
        for name, constraint in self.arg_constraints.items():
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                event = value.shape[value.ndim - constraint.event_dim :]
                twin.__dict__[name] = value.expand((*twin._batch_shape, *event))
        twin._expanded(self)
        return twin

    def _expanded(self, of: Any) -> None:
        """Called on what expand gives: a subclass with distributions inside expands them too."""

    def _extended_shape(self, sample_shape: Any = ()) -> tuple:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Tensor) -> None:
        """Raises ValueError for values of a shape or size that the distribution does not have."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        start = value.ndim - len(self._event_shape)
        if tuple(value.shape[start:]) != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {tuple(value.shape)} vs {self._event_shape}."
            )
        for i, j in zip(
            reversed(value.shape), reversed((*self._batch_shape, *self._event_shape)), strict=False
        ):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {tuple(value.shape)} vs "
                    f"{(*self._batch_shape, *self._event_shape)}."
                )
        if cutaway.compiler.is_compiling() or self.support is None:
            return
        if not bool(self.support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({self.support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _checked(self, value: Tensor) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def __repr__(self) -> str:
        names = [name for name in self.arg_constraints if name in self.__dict__]
        shown = ", ".join(
            f"{n}: {self.__dict__[n] if self.__dict__[n].numel() == 1 else tuple(self.__dict__[n].shape)}"
            for n in names
        )
        return f"{type(self).__name__}({shown})"


class ExponentialFamily(Distribution):
    """For isinstance: the distributions that torch groups so."""


def noise(distribution: Distribution, sample_shape: Any, like: Tensor, draw: Callable[..., Tensor]) -> Tensor:
    """Draws of a standard distribution (cutaway.rand, randn), in the shape of samples."""
    return draw(distribution._extended_shape(sample_shape), dtype=like.dtype, device=like.device)


def open_uniform(distribution: Distribution, sample_shape: Any, like: Tensor) -> Tensor:
    """Uniform draws that are neither 0 nor 1."""
    info = cutaway.finfo(like.dtype)
    return noise(distribution, sample_shape, like, cutaway.rand).clamp(min=info.tiny, max=1 - info.eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    eps = cutaway.finfo(probs.dtype).eps
    clamped = probs.clamp(min=eps, max=1 - eps)
    return cutaway.log(clamped) - cutaway.log1p(-clamped) if is_binary else cutaway.log(clamped)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    return cutaway.sigmoid(logits) if is_binary else cutaway.softmax(logits, -1)


EULER = 0.57721566490153286060
LOG_2PI = math.log(2 * math.pi)
