"""`cutaway.library`: custom operators, as in torch.library, and opcheck, which tests one.

Input: user functions. stage0_eager/library/custom_op.py makes operators of them; opcheck is here because it compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stage0_eager.library.custom_op import (
    CustomOpDef,
    custom_op,
    define,
    impl,
    infer_schema,
    kernel_ptx,
    lookup,
    ops,
    register_autograd,
    register_fake,
    register_kernel,
    register_vmap,
    triton_op,
    wrap_triton,
    writes_of,
)
from stage0_eager.tensor import Tensor
from stage0_eager.utils.pytree import leaves_of, mapped

TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """An operator does not do what was registered for it."""


def opcheck(
    op: Any,
    args: tuple,
    kwargs: Mapping[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = TESTS,
    raise_exception: bool = True,
) -> dict[str, str]:
    """Check on these arguments that an operator does what its schema, fake rule and backward say. Returns {test:
    "SUCCESS"}.

    test_schema: it writes only to the arguments in mutates_args. test_autograd_registration: if an argument requires
    grad, it has a backward. test_faketensor: the fake rule returns the kernel's shapes and dtypes.
    test_aot_dispatch_dynamic: compiled code gives eager's results and gradients. Raises OpCheckError at the first
    failure; with raise_exception=False, the failure is the test's value in the result instead.
    """
    op, words = lookup(op), dict(kwargs or {})
    found: dict[str, str] = {}
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if not {*names} <= {*TESTS}:
        raise ValueError(
            f"opcheck(op, ..., test_utils={names!r}), expected test_utils to be a subset of {TESTS}"
        )
    for name in names:
        try:
            _TESTS[name](op, args, words)
            found[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            found[name] = f"{type(error).__name__}: {error}"
    return found


def _copies(tree: Any) -> Any:
    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return leaf
        return leaf.detach().clone().requires_grad_(leaf.requires_grad)

    return mapped(copy, tree)


def _schema(op: CustomOpDef, args: tuple, words: dict) -> None:
    args = op.bind(*_copies(args), **_copies(words))
    before = _copies(args)
    op(**dict(zip(op.params, args, strict=True)))
    for name, old, new in zip(op.params, before, args, strict=True):
        for a, b in zip(leaves_of(old), leaves_of(new), strict=True):
            if isinstance(a, Tensor) and name not in op.mutates and not _equal(a, b):
                raise OpCheckError(
                    f"Argument {name} is not defined as mutable but was mutated; list it in mutates_args, or write "
                    "to a copy of it"
                )


def _equal(a: Tensor, b: Tensor) -> bool:
    return np.array_equal(np.asarray(a.detach().tolist()), np.asarray(b.detach().tolist()), equal_nan=True)


def _autograd(op: CustomOpDef, args: tuple, words: dict) -> None:
    tensors = [leaf for leaf in leaves_of((args, words)) if isinstance(leaf, Tensor)]
    if not any(t.requires_grad for t in tensors) or op.mutates:
        return
    if op._backward is None:
        raise OpCheckError(
            f"an argument requires grad, but {op} has no autograd formula; add one with register_autograd"
        )


def _fake(op: CustomOpDef, args: tuple, words: dict) -> None:
    args, words = _copies(args), _copies(words)
    promised = leaves_of(op.meta(*mapped(_meta, args), **mapped(_meta, words)))
    real = [leaf.meta for leaf in leaves_of(op(*args, **words)) if isinstance(leaf, Tensor)]
    promised = [m for m in promised if m is not None]
    if [(m.shape, m.dtype) for m in promised] != [(m.shape, m.dtype) for m in real]:
        raise OpCheckError(
            f"the fake rule of {op} returns {', '.join(map(str, promised))}, but the operator returns "
            f"{', '.join(map(str, real))}; correct the function passed to register_fake"
        )


def _meta(leaf: Any) -> Any:
    return leaf.meta if isinstance(leaf, Tensor) else leaf


def _compiled(op: CustomOpDef, args: tuple, words: dict) -> None:
    from cutaway.compile import compile

    runs = []
    for call in (op, compile(lambda *a, **k: op(*a, **k), backend="aot_eager", fullgraph=True)):
        given, named = _copies(args), _copies(words)
        results = [t for t in leaves_of(call(*given, **named)) if isinstance(t, Tensor)]
        wanted = [t for t in results if t.requires_grad]
        if wanted:
            total: Any = sum(t.sum() for t in wanted)
            total.backward()
        leaves = [t for t in leaves_of((given, named)) if isinstance(t, Tensor)]
        runs.append([*results, *leaves, *(t.grad for t in leaves if t.grad is not None)])
    if len(runs[0]) != len(runs[1]) or not all(map(_close, *runs)):
        raise OpCheckError(
            f"{op} compiled gives other results, other values in its arguments, or other gradients than {op} run "
            "eagerly; check that it writes only to the arguments in mutates_args and keeps no state between calls"
        )


def _close(a: Tensor, b: Tensor) -> bool:
    return np.allclose(np.asarray(a.detach().tolist()), np.asarray(b.detach().tolist()), equal_nan=True)


_TESTS: dict[str, Callable[[CustomOpDef, tuple, dict], None]] = dict(
    zip(TESTS, (_schema, _autograd, _fake, _compiled), strict=True)
)

__all__ = [
    "CustomOpDef", "OpCheckError", "custom_op", "define", "impl", "infer_schema", "opcheck", "ops", "register_autograd",
    "kernel_ptx", "register_fake", "register_kernel", "register_vmap", "triton_op", "wrap_triton", "writes_of",
]  # fmt: skip
