"""torch.nn.utils.parametrizations: weight norm, spectral norm, orthogonal matrices; the older forms of the norms.

Input: a module and the name of its weight. The older forms, torch.nn.utils.weight_norm and spectral_norm, compute the
weight in a hook before each forward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage0_eager.functions import creation, joining
from stage0_eager.functions.linalg import decompositions, elimination, products
from stage0_eager.functions.nn.normalization import normalize
from stage0_eager.functions.statistics import vector_norm
from stage0_eager.nn.convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from stage0_eager.nn.module import Module, Parameter
from stage0_eager.nn.parametrize import register_parametrization
from stage0_eager.state import no_grad
from stage0_eager.tensor import Tensor

_TRANSPOSED = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
FIRST_ITERATIONS = 15  # of the power method, before the first use


def _norm_except(v: Tensor, dim: int) -> Tensor:
    """The norm of each slice along `dim`, with the other dimensions 1; dim -1: of all elements."""
    if dim == -1:
        return vector_norm(v.reshape(-1), 2.0, 0, False)
    rows = v.transpose(0, dim).reshape(v.shape[dim], -1)
    shape = [1] * v.ndim
    shape[dim] = -1
    return vector_norm(rows, 2.0, 1, False).reshape(shape)


class _WeightNorm(Module):
    """g v / |v| (Salimans and Kingma, 2016): original0 is g, original1 is v."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / _norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return _norm_except(weight, self.dim), weight.clone()


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """The weight as a size for each slice along `dim` (None: one size) and a direction."""
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


def _rows(weight: Tensor, dim: int) -> Tensor:
    """The weight as a matrix, `dim` along its rows."""
    order = [dim, *(d for d in range(weight.ndim) if d != dim)]
    moved = weight.permute(order) if dim else weight
    return moved.reshape(moved.shape[0], -1)


def _power_method(matrix: Tensor, u: Tensor, v: Tensor, iterations: int, eps: float) -> tuple[Tensor, Tensor]:
    for _ in range(iterations):
        u = normalize(products.matmul(matrix, v), dim=0, eps=eps)
        v = normalize(products.matmul(matrix.t(), u), dim=0, eps=eps)
    return u, v


class _SpectralNorm(Module):
    """The weight divided by its largest singular value, which the power method follows (Miyato et al., 2018)."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps, self.n_power_iterations = dim % weight.ndim, eps, n_power_iterations
        if weight.ndim > 1:
            with no_grad():
                matrix = _rows(weight, self.dim)
                u, v = (
                    normalize(creation.randn(n, dtype=weight.dtype), dim=0, eps=eps) for n in matrix.shape
                )
                u, v = _power_method(matrix, u, v, FIRST_ITERATIONS, eps)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = _rows(weight, self.dim)
        u, v = self._u, self._v
        if self.training:
            with no_grad():
                u, v = _power_method(matrix.detach(), u, v, self.n_power_iterations, self.eps)
                self._u.copy_(u)
                self._v.copy_(v)
        return weight / (u.clone() * products.matmul(matrix, v.clone())).sum()

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """The weight divided by its largest singular value. dim None: 1 for transposed convolutions, else 0."""
    weight = getattr(module, name)
    dim = (1 if isinstance(module, _TRANSPOSED) else 0) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


class _Orthogonal(Module):
    """Orthonormal columns (or rows) from any matrix, by one of three maps (Lezcano-Casado, 2019)."""

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.orthogonal_map, self.trivial = orthogonal_map, use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        X = X.transpose(-2, -1) if wide else X
        n, k = X.shape[-2:]
        if self.orthogonal_map == "householder":
            below = X.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (below * below).sum(dim=-2))
            Q = decompositions.linalg_householder_product(below, tau)
            Q = Q * X.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
        else:
            X = X.tril()
            if n != k:
                X = joining.cat([X, X.new_zeros((*X.shape[:-2], n, n - k))], dim=-1)
            skew = X - X.transpose(-2, -1)
            Q = (_cayley if self.orthogonal_map == "cayley" else decompositions.matrix_exp)(skew)
            Q = Q[..., :k]
        if self.trivial and self.base is not None:
            Q = products.matmul(self.base, Q)
        return Q.transpose(-2, -1) if wide else Q

    def right_inverse(self, Q: Tensor) -> Tensor:
        wide = Q.shape[-2] < Q.shape[-1]
        tall = Q.transpose(-2, -1) if wide else Q
        n, k = tall.shape[-2:]
        if not self.trivial:
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False."
                )
            A, tau = elimination.geqrf(tall)
            signs = A.diagonal(dim1=-2, dim2=-1).sign()
            signs = signs * (1 - 2 * (tau == 0).to(signs.dtype))
            A = A.tril(-1) + _diagonal(signs, n)
            return A.transpose(-2, -1) if wide else A
        whole = tall
        if n != k:
            whole = joining.cat([tall, creation.randn(*tall.shape[:-2], n, n - k, dtype=Q.dtype)], dim=-1)
        self.base = _orthonormal(whole)
        start = -_diagonal(creation.ones(k, dtype=Q.dtype), n)
        return (start.transpose(-2, -1) if wide else start).expand(Q.shape).clone()


def _diagonal(values: Tensor, rows: int) -> Tensor:
    """A matrix with these values on its diagonal and further rows of 0."""
    square = values.unsqueeze(-1) * creation.eye(values.shape[-1], dtype=values.dtype)
    more = square.new_zeros((*square.shape[:-2], rows - square.shape[-2], square.shape[-1]))
    return joining.cat([square, more], dim=-2)


def _cayley(skew: Tensor) -> Tensor:
    identity = creation.eye(skew.shape[-1], dtype=skew.dtype)
    return decompositions.linalg_solve(identity - 0.5 * skew, identity + 0.5 * skew)


def _orthonormal(matrix: Tensor) -> Tensor:
    """The matrix with orthonormal columns that spans what the columns span, with their directions."""
    Q, R = decompositions.linalg_qr(matrix)
    return Q * R.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """The weight has orthonormal columns, or rows if it has more columns. orthogonal_map: "matrix_exp" (square
    weights' default), "cayley" or "householder"."""
    weight = getattr(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    chosen = orthogonal_map or ("matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder")
    if chosen not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    return register_parametrization(
        module, name, _Orthogonal(weight, chosen, use_trivialization), unsafe=True
    )


# ---- the older forms -----------------------------------------------------------------------------------------------


class _Before:
    """A hook that computes a module's weight before each forward."""

    def __init__(self, name: str, compute: Callable[[Module], Tensor], gone: tuple[str, ...]) -> None:
        self.name, self.compute, self.gone = name, compute, gone

    def __call__(self, module: Module, inputs: Any) -> None:
        object.__setattr__(module, self.name, self.compute(module))


def _hook_of(module: Module, name: str, kind: type[_Before]) -> Any:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            return key, hook
    raise ValueError(f"{kind.__name__.strip('_').lower()} of '{name}' not found in {module}")


class WeightNorm(_Before):
    """The hook of torch.nn.utils.weight_norm."""


class SpectralNorm(_Before):
    """The hook of torch.nn.utils.spectral_norm."""


def _install(module: Module, hook: _Before) -> Module:
    if any(
        type(other) is type(hook) and other.name == hook.name for other in module._forward_pre_hooks.values()
    ):
        raise RuntimeError(
            f"Cannot register two {type(hook).__name__} hooks on the same parameter {hook.name}"
        )
    del module._parameters[hook.name]
    return module


def old_weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """torch.nn.utils.weight_norm: <name>_g and <name>_v are trained, and the weight is computed before each forward."""
    along = -1 if dim is None else dim
    rule = _WeightNorm(dim)
    hook = WeightNorm(
        name, lambda m: rule(getattr(m, f"{name}_g"), getattr(m, f"{name}_v")), (f"{name}_g", f"{name}_v")
    )
    weight = getattr(module, name)
    _install(module, hook)
    module.register_parameter(f"{name}_g", Parameter(_norm_except(weight, along).detach()))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    hook(module, ())
    module.register_forward_pre_hook(hook)
    return module


def old_spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """torch.nn.utils.spectral_norm: <name>_orig is trained, and the weight is computed before each forward."""
    dim = (1 if isinstance(module, _TRANSPOSED) else 0) if dim is None else dim
    weight = getattr(module, name)
    rule = _SpectralNorm(weight, n_power_iterations, dim, eps)

    def compute(of: Module) -> Tensor:
        rule.training = of.training
        rule._u, rule._v = getattr(of, f"{name}_u"), getattr(of, f"{name}_v")
        return rule(getattr(of, f"{name}_orig"))

    hook = SpectralNorm(name, compute, (f"{name}_orig", f"{name}_u", f"{name}_v"))
    _install(module, hook)
    module.register_parameter(f"{name}_orig", weight)
    module.register_buffer(f"{name}_u", rule._u)
    module.register_buffer(f"{name}_v", rule._v)
    object.__setattr__(module, name, weight.detach())
    module.register_forward_pre_hook(hook)
    return module


def _remove(module: Module, name: str, kind: type[_Before]) -> Module:
    key, hook = _hook_of(module, name, kind)
    if isinstance(hook, SpectralNorm):
        training = module.training
        object.__setattr__(module, "training", False)
        with no_grad():
            value = hook.compute(module)
        object.__setattr__(module, "training", training)
    else:
        with no_grad():
            value = hook.compute(module)
    for gone in hook.gone:
        delattr(module, gone)
    delattr(module, name)
    module.register_parameter(name, Parameter(value.detach()))
    del module._forward_pre_hooks[key]
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight an ordinary parameter again. Raises ValueError if it has no weight norm."""
    return _remove(module, name, WeightNorm)


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight an ordinary parameter again. Raises ValueError if it has no spectral norm."""
    return _remove(module, name, SpectralNorm)
