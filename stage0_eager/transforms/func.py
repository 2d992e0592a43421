"""Function transforms: grad, vjp, jvp, Jacobians, Hessians, vmap, and calling a module with other parameters.

Input: functions of tensors. All run on the tape: jvp is the derivative of a vjp with respect to its cotangent, jacrev
a batch of vjps, jacfwd a batch of jvps; batches are vmap.py's vmap, which is here as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from stage0_eager.autograd import backward_pass
from stage0_eager.nn.module import Module, bump_structure_epoch
from stage0_eager.state import enable_grad, transforming
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import map_tensors
from stage0_eager.transforms.vmap import BatchedArray, known_as, unit_tensors, vmap


def tensors_in(tree: Any) -> list[Tensor]:
    """The tensors of nested tuples, lists and dicts, in order."""
    found: list[Tensor] = []
    map_tensors(tree, lambda t: found.append(t) or t)  # type: ignore[func-returns-value]
    return found


def _like(tree: Any, values: list) -> Any:
    """`tree` with its tensors replaced, in order."""
    left = iter(values)
    return map_tensors(tree, lambda t: next(left))


class _Level:
    """One running transform: it has new inputs on the tape, and its results do not depend on them any more.

    A new input keeps the history of the original tensor, so that transforms can be nested. A result that depends only
    on new inputs becomes a constant.
    """

    def __init__(self) -> None:
        self.fresh: set[int] = set()
        self._alive: list[Tensor] = []

    def enter(self, tree: Any) -> Any:
        def fresh(t: Tensor) -> Tensor:
            if t.requires_grad:
                return c.reshape(t, t.shape)
            out = Tensor(t._data, t.dtype.is_differentiable)
            self.fresh.add(id(out))
            self._alive.append(out)
            return out

        return map_tensors(tree, fresh)

    def leave(self, tree: Any) -> Any:
        def finished(t: Tensor) -> Tensor:
            if t.requires_grad:
                leaves = {
                    id(e.leaf) for n in backward_pass.nodes_behind([t]) for e in n.edges if e.leaf is not None
                }
                if (leaves or {id(t)}) <= self.fresh:
                    t = Tensor(t._data)
            if not isinstance(t._data, BatchedArray):
                return t
            # inside vmap: if an example depends on a new input that is not batched, so does the whole batch
            whole = finished(t._data.whole)
            if whole is t._data.whole:
                return t
            out = Tensor(BatchedArray(whole, t._data.level), t.requires_grad)
            out._grad_fn, out._output_index = t._grad_fn, t._output_index
            return out

        return map_tensors(tree, finished)


def _gradients(outputs: list, inputs: list, cotangents: list | None) -> list:
    """One gradient per input, which can be differentiated. Zeros for an input that the result does not depend on."""
    pairs = [(o, None if cotangents is None else cotangents[i]) for i, o in enumerate(outputs)]
    pairs = [(o, g) for o, g in pairs if o.requires_grad]
    if not pairs:
        return [_zeros(x) for x in inputs]
    kept, seeds = [o for o, _ in pairs], None if cotangents is None else [g for _, g in pairs]
    found = backward_pass.grad(kept, inputs, seeds, create_graph=True, allow_unused=True)
    return [_zeros(x) if g is None else g for x, g in zip(inputs, found, strict=True)]


def _zeros(x: Tensor) -> Tensor:
    return c.full(x.shape, 0.0, x.dtype, x.device)


def _numbers(argnums: int | tuple[int, ...], args: tuple) -> tuple[int, ...]:
    wanted = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for i in wanted:
        if not -len(args) <= i < len(args):
            raise RuntimeError(f"Got argnum={i}, but only {len(args)} positional inputs")
    return tuple(i % len(args) for i in wanted)


def _enter_arguments(level: _Level, args: tuple, numbers: tuple[int, ...]) -> tuple:
    return tuple(level.enter(a) if i in numbers else a for i, a in enumerate(args))


# ---- gradients --------------------------------------------------------------------------------------------------


def grad_and_value(func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable:
    """A function that returns (gradient, value), or (gradient, (value, aux))."""

    @functools.wraps(func)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        numbers, level = _numbers(argnums, args), _Level()
        with enable_grad():
            inside = _enter_arguments(level, args, numbers)
            with transforming("grad"):
                value = func(*inside, **kwargs)
            aux = None
            if has_aux:
                value, aux = value
            if not isinstance(value, Tensor):
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got "
                    f"{type(value).__name__}"
                )
            if value.ndim != 0:
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor with "
                    f"{value.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
                )
            wanted = tuple(inside[i] for i in numbers)
            gradients = _like(wanted, _gradients([value], tensors_in(wanted), None))
        gradients = gradients[0] if isinstance(argnums, int) else gradients
        return level.leave((gradients, (value, aux) if has_aux else value))

    return known_as(transformed, grad_and_value, func, {"argnums": argnums, "has_aux": has_aux})


def grad(func: Callable, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable:
    """A function that returns the gradient of `func`, whose value is a scalar, for its argument(s) `argnums`."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return known_as(transformed, grad, func, {"argnums": argnums, "has_aux": has_aux})


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """Returns (func(*primals), f), where f(cotangents) returns one gradient per primal."""
    level = _Level()
    with enable_grad():
        inside = level.enter(primals)
        with transforming("vjp"):
            output = func(*inside)
        aux = None
        if has_aux:
            output, aux = output

    def pull(cotangents: Any) -> Any:
        seeds, outputs = tensors_in(cotangents), tensors_in(output)
        if len(seeds) != len(outputs):
            raise RuntimeError(
                f"Expected {len(outputs)} cotangents, one per output of the function, got {len(seeds)}"
            )
        with enable_grad():
            gradients = _like(inside, _gradients(outputs, tensors_in(inside), seeds))
        return level.leave(gradients)

    result = (level.leave(output), pull)
    return (*result, level.leave(aux)) if has_aux else result


def jvp(func: Callable, primals: tuple, tangents: tuple, *, has_aux: bool = False) -> tuple:
    """Returns (func(*primals), the derivative along `tangents`). It uses two vjps: a vjp is linear in its cotangent."""
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError("jvp(f, primals, tangents): Expected primals and tangents to be tuples")
    level = _Level()
    with enable_grad():
        inside = level.enter(primals)
        with transforming("jvp"):
            output = func(*inside)
        aux = None
        if has_aux:
            output, aux = output
        outputs, inputs, along = tensors_in(output), tensors_in(inside), tensors_in(tangents)
        if [t.shape for t in inputs] != [t.shape for t in along]:
            raise RuntimeError("jvp(f, primals, tangents): Expected primals and tangents of the same shapes")
        dummies = level.enter([_zeros(o) for o in outputs])
        pulled = _gradients(outputs, inputs, dummies)
        pushed = _gradients(pulled, dummies, along)
    result = (level.leave(output), level.leave(_like(output, pushed)))
    return (*result, level.leave(aux)) if has_aux else result


# ---- Jacobians ---------------------------------------------------------------------------------------------------


def _unfolded(batch: Tensor, shape: tuple) -> Tensor:
    """A batch, with dimension 0 replaced by the dimensions of `shape`."""
    return c.reshape(batch, (*shape, *batch.shape[1:]))


def jacrev(
    func: Callable,
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable:
    """The Jacobian, of shape output.shape + input.shape: one vjp per output element, `chunk_size` of them at a time."""

    @functools.wraps(func)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        numbers, level = _numbers(argnums, args), _Level()
        with enable_grad():
            inside = _enter_arguments(level, args, numbers)
            with transforming("jacrev"):
                output = func(*inside, **kwargs)
            aux = None
            if has_aux:
                output, aux = output
            wanted = tuple(inside[i] for i in numbers)
            inputs = tensors_in(wanted)

            def of_one(out: Tensor) -> Any:
                rows = vmap(lambda seed: _gradients([out], inputs, [seed]), chunk_size=chunk_size)
                found = _like(wanted, [_unfolded(g, out.shape) for g in rows(unit_tensors(out))])
                return found[0] if isinstance(argnums, int) else found

            jacobian = map_tensors(output, of_one)
        return level.leave((jacobian, aux) if has_aux else jacobian)

    options = {"argnums": argnums, "has_aux": has_aux, "chunk_size": chunk_size}
    return known_as(transformed, jacrev, func, options)


def jacfwd(
    func: Callable,
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable:
    """The Jacobian, of shape output.shape + input.shape: one jvp per input element."""

    @functools.wraps(func)
    def transformed(*args: Any, **kwargs: Any) -> Any:
        numbers = _numbers(argnums, args)
        auxiliary: list = []

        def columns(i: int) -> Any:
            x = args[i]

            def pushed(unit: Tensor) -> Any:
                alone = lambda x: func(*(x if k == i else a for k, a in enumerate(args)), **kwargs)  # noqa: E731
                found = jvp(alone, (x,), (unit,), has_aux=has_aux)
                auxiliary[:] = found[2:]
                return found[1]

            def placed(batch: Tensor) -> Tensor:
                whole = _unfolded(batch, x.shape)  # input.shape + output.shape
                order = (*range(x.ndim, whole.ndim), *range(x.ndim))
                return c.permute(whole, order) if whole.ndim else whole

            return map_tensors(vmap(pushed, randomness=randomness)(unit_tensors(x)), placed)

        if isinstance(argnums, int):
            result = columns(numbers[0])
        else:
            each = [columns(i) for i in numbers]
            flat = [tensors_in(e) for e in each]
            spots = iter(range(len(flat[0])))
            result = map_tensors(each[0], lambda _: (lambda k: tuple(f[k] for f in flat))(next(spots)))
        return (result, auxiliary[0]) if has_aux else result

    options = {"argnums": argnums, "has_aux": has_aux, "randomness": randomness}
    return known_as(transformed, jacfwd, func, options)


def hessian(func: Callable, argnums: int | tuple[int, ...] = 0) -> Callable:
    """The second derivatives, as the Jacobian of the Jacobian (both by vjps)."""
    twice = jacrev(jacrev(func, argnums), argnums)
    return known_as(twice, hessian, func, {"argnums": argnums})


# ---- modules ------------------------------------------------------------------------------------------------------


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: Any = None,
    *,
    strict: bool = False,
) -> Any:
    """Call module(*args, **kwargs) with the given parameters and buffers (by name) instead of its own."""
    dicts = parameter_and_buffer_dicts
    values = dicts if isinstance(dicts, dict) else {k: v for d in dicts for k, v in d.items()}
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with with_tensors_of(module, values, strict):
        return module(*args, **(kwargs or {}))


def _spots(module: Module) -> dict[str, tuple[dict, str]]:
    """The place of each parameter and buffer: dotted name -> (the module's registry, its name there)."""
    return {
        f"{prefix}.{name}" if prefix else name: (m.__dict__[registry], name)
        for prefix, m in dict(module.named_modules()).items()
        for registry in ("_parameters", "_buffers")
        for name in m.__dict__[registry]
    }


@contextmanager
def with_tensors_of(module: Module, values: Mapping[str, Tensor], strict: bool = False) -> Iterator[None]:
    """In this block the module's parameters and buffers are `values`, by their dotted names."""
    spots = _spots(module)
    unknown = sorted(set(values) - set(spots))
    missing = sorted(set(spots) - set(values))
    if unknown or (strict and missing):
        raise RuntimeError(
            f"functional_call: unexpected key(s): {', '.join(unknown) or 'none'}; "
            f"missing key(s): {', '.join(missing) or 'none'}"
        )
    tied = {id(home[name]): key for key, (home, name) in spots.items() if key in values}
    before = [(home, name, home[name]) for home, name in spots.values()]
    try:
        for key, (home, name) in spots.items():
            other = tied.get(id(home[name])) if home[name] is not None else None
            if key in values:
                home[name] = values[key]
            elif other is not None:  # the same parameter under another name
                home[name] = values[other]
        bump_structure_epoch()
        yield
    finally:
        for home, name, old in before:
            home[name] = old
        bump_structure_epoch()


__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp", "vmap",
]  # fmt: skip
