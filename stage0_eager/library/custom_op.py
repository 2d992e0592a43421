"""Custom operators: your function as one operator that eager differentiates and compiled graphs never look into.

Input: Python functions with annotations (or a schema as text), and what you register for them: kernels by device, the
rule for the shapes of results ("fake"), a backward, a vmap rule. Names, arguments and messages are torch.library's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stage0_eager import arrays
from stage0_eager.autograd.function import Function, FunctionCtx
from stage0_eager.autograd.tape import needs_tape
from stage0_eager.library.schema import Schema, infer_schema, parse_schema, schema_of
from stage0_eager.meta_arrays import as_arrays
from stage0_eager.state import STATE, interpreting, no_grad
from stage0_eager.table.opaque import OpaqueOperator
from stage0_eager.table.operator import Derivative, metas_in
from stage0_eager.table.registry import OPAQUE
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import Tracer, map_tensors, run_on_metas
from stage0_eager.transforms.vmap import Batcher
from stage0_eager.triton.driver import kernel_ptx
from stage0_eager.triton.kernels import wrap_triton, writes_of
from stage0_eager.utils.pytree import leaves_of, mapped, rebuilt
from stage_contracts.tensor_meta import TensorMeta


class CustomOpDef(OpaqueOperator):
    """The result of custom_op. You call it like the function that it was made from. A second registration replaces the
    first."""

    def __init__(self, namespace: str, name: str, schema: Schema, function: Callable) -> None:
        super().__init__(f"ops.{namespace}", name, function, self._meta, self._kernel, schema.mutates)
        self._schema, self._qualname = schema, f"{namespace}::{name}"
        self.listed = schema.returns == "Tensor[]"
        self._kernels: dict[str | None, Callable] = {}
        self._fake: Callable | None = None
        self._setup: Callable | None = None
        self._backward: Callable | None = None
        self._vmap: Callable | None = None
        self._places = {p: i for i, p in enumerate(self.params)}
        kinds = inspect.signature(self.bind).parameters.values()
        self._named = frozenset(p.name for p in kinds if p.kind is p.KEYWORD_ONLY)
        # these tell the tape and stage 2 that a gradient may flow; `pullback` computes it
        if not schema.mutates:
            self.derivatives = {
                p: Derivative(self, p, _unused) for p in schema.tensors if p not in self._named
            }
            self.rules = tuple(self.derivatives.values())

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    @property
    def default(self) -> CustomOpDef:
        """The operator itself: torch.ops.mylib.foo.default."""
        return self

    # ---- what users register --------------------------------------------------------------------------------

    def register_kernel(self, device_types: str | Sequence[str] | None, fn: Callable | None = None, /) -> Any:
        """Register the function that computes on tensors of these devices ("cpu", "cuda"; None: any). Also a
        decorator."""
        if fn is None:
            return lambda function: self.register_kernel(device_types, function)
        for device in (
            [device_types] if device_types is None or isinstance(device_types, str) else device_types
        ):
            self._kernels[device] = fn
        return fn

    def register_fake(self, fn: Callable, /) -> Callable:
        """Register the function from tensors without data to tensors with the shape and dtype of the results. Also a
        decorator."""
        self._fake = fn
        return fn

    def register_autograd(self, backward: Callable, /, *, setup_context: Callable | None = None) -> None:
        """Register `backward(ctx, *gradients)`, which returns a gradient per argument. `setup_context(ctx, inputs,
        output)` fills ctx.

        Compiled code traces both. Raises RuntimeError for an operator that writes to its arguments.
        """
        if self.mutates:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema "
                f"{self._schema.text}. Please create a functional operator and register an autograd formula for that."
            )
        self._backward, self._setup = backward, setup_context

    def register_vmap(self, func: Callable | None = None) -> Any:
        """Register `func(info, in_dims, *args)`, which returns (results, their batch dimensions). Without it, vmap
        calls the operator for one example at a time."""
        if func is None:
            return self.register_vmap
        self._vmap = func
        return func

    # ---- calls ----------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args = self.bind(*args, **kwargs)
        interpreter = STATE.interpreter
        if isinstance(interpreter, Batcher):
            if not interpreter.concerns(self, args):
                with interpreting(interpreter.outer):
                    return self(*args, **kwargs)
            return self._batched(interpreter, args) if self._vmap else interpreter.process(self, args)
        if STATE.grad_enabled and needs_tape(self, args):
            return self._on_tape(args)
        return self._plain(args)

    def _plain(self, args: tuple) -> Any:
        """A call without the tape: recorded into a graph, or computed."""
        if isinstance(STATE.interpreter, Tracer):
            return self._as_declared(STATE.interpreter.process(self, args))
        with no_grad():
            result = self._compute(args)
        for place in map(self._places.__getitem__, self.mutates):
            for tensor in leaves_of(args[place]):
                if isinstance(tensor, Tensor):
                    tensor._bump_version()
        return result

    def _compute(self, args: tuple) -> Any:
        """Run the kernel for the arguments' device. Raises RuntimeError if a result shares memory with an argument."""
        tensors = [leaf for leaf in leaves_of(args) if isinstance(leaf, Tensor)]
        device = tensors[0].device.type if tensors else None
        kernel = self._kernels.get(device) or (self._on_meta if device == "meta" else self._kernels.get(None))
        if kernel is None:
            raise NotImplementedError(
                f"Could not run '{self._qualname}' with arguments from the '{str(device).upper()}' backend: it has "
                f"kernels for {', '.join(map(str, self._kernels)) or 'none'}; add one with register_kernel({device!r})"
            )
        result = kernel(*args[: len(args) - len(self._named)], **self._by_name(args))
        given = {id(arrays.owner(t._data)) for t in tensors}
        for leaf in leaves_of(result):
            if isinstance(leaf, Tensor) and id(arrays.owner(leaf._data)) in given:
                raise RuntimeError(
                    f"{self._qualname}: The output of this custom operator (1) must not also be an input to this "
                    "custom operator and (2) may not alias any inputs to this custom operator or other returns. "
                    "Return a clone of it (y.clone()), or do not return it"
                )
        return result

    def _by_name(self, args: tuple) -> dict[str, Any]:
        return {p: a for p, a in zip(self.params, args, strict=True) if p in self._named}

    def _as_declared(self, result: Any) -> Any:
        """The result of a graph (a tensor or a tuple) in the form of the schema: a list for Tensor[]."""
        return list(result) if self.listed else result

    def _on_tape(self, args: tuple) -> Any:
        """A call that is one tape node, with your backward."""
        op = self

        class Call(Function):
            @staticmethod
            def forward(*flat: Any) -> Any:
                result = op._plain(rebuilt(args, flat))
                return tuple(result) if isinstance(result, list) else result

            @staticmethod
            def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
                inputs = rebuilt(args, inputs)
                ctx.needs_input_grad = mapped(lambda a: isinstance(a, Tensor) and a.requires_grad, inputs)
                op._fill(ctx, inputs, op._as_declared(output))

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> tuple:
                return tuple(op._flat_gradients(ctx, args, gradients))

        Call.__name__ = Call.__qualname__ = self.name
        return self._as_declared(Call.apply(*leaves_of(args)))

    def _fill(self, ctx: Any, inputs: tuple, output: Any) -> None:
        if self._setup is None:
            return
        if not self._named:
            self._setup(ctx, inputs, output)
            return
        positional = tuple(a for p, a in zip(self.params, inputs, strict=True) if p not in self._named)
        self._setup(ctx=ctx, inputs=positional, keyword_only_inputs=self._by_name(inputs), output=output)

    def _flat_gradients(self, ctx: Any, args: tuple, gradients: tuple) -> list[Any]:
        """Call your backward. Returns one gradient for each leaf of the arguments."""
        if self._backward is None:
            raise RuntimeError(
                f"Trying to backward through {self} but no autograd formula was registered. Please use "
                "register_autograd to add one."
            )
        made = self._backward(ctx, *([list(gradients)] if self.listed else gradients))
        made = made if isinstance(made, tuple) else (made,)
        positional = [a for p, a in zip(self.params, args, strict=True) if p not in self._named]
        if len(made) != len(positional):
            raise RuntimeError(
                f"{self}'s backward returned {len(made)} gradients, expected one for each of its {len(positional)} "
                "arguments (None for an argument without a gradient)"
            )
        items = iter(made)
        found: list[Any] = []
        for p, arg in zip(self.params, args, strict=True):
            count = len(leaves_of(arg))
            g = None if p in self._named else next(items)
            found += [None] * count if g is None else leaves_of(g)
        return found

    def pullback(self, g: Any, out: Any, args: tuple, wanted: Callable[[Any], bool]) -> dict[str, Any]:
        """The gradients by parameter, for a graph. The context is filled when the backward is traced.

        g: one gradient per result. wanted(argument): whether a gradient for the argument is needed.
        """
        ctx = FunctionCtx()
        ctx.needs_input_grad = mapped(wanted, args)
        self._fill(ctx, args, self._as_declared(out))
        flat = self._flat_gradients(ctx, args, g if isinstance(g, tuple) else (g,))
        return dict(zip(self.params, rebuilt(args, flat), strict=True))

    def _batched(self, level: Batcher, args: tuple) -> Any:
        """Call your vmap rule on whole batches. Here the batch dimension is always the first."""
        dims = mapped(lambda a: 0 if level.batched(a) else None, args)
        whole = mapped(lambda a: a._data.whole if level.batched(a) else a, args)
        info = SimpleNamespace(batch_size=level.size, randomness=level.randomness)
        with interpreting(level.outer):
            result, out_dims = self._vmap(info, dims, *whole)  # type: ignore[misc]
            several = isinstance(result, (tuple, list))
            places = list(out_dims) if several else [out_dims]
            moved = [
                t if d is None else t.movedim(d, 0)
                for t, d in zip(result if several else [result], places, strict=True)
            ]
        wrapped = [t if d is None else level.wrap(t) for t, d in zip(moved, places, strict=True)]
        return type(result)(wrapped) if several else wrapped[0]

    # ---- what graphs need -----------------------------------------------------------------------------------

    def _meta(self, *args: Any) -> Any:
        """The result of the fake rule as metas."""
        if self._fake is None:
            if self._schema.returns is None:
                return None
            raise RuntimeError(
                f"There was no fake impl registered for {self}. This is necessary for compiled code to know what it "
                f"returns. Please use `{self.name}.register_fake` to add a fake impl."
            )
        fake, count = self._fake, len(args) - len(self._named)
        made = run_on_metas(lambda *a: fake(*a[:count], **self._by_name(a)), args)
        if made is not None and any(not isinstance(m, TensorMeta) for m in leaves_of(made)):
            raise RuntimeError(
                f"{self}'s fake impl returned {made!r}; expected a tensor or a tuple of tensors"
            )
        grad = STATE.grad_enabled and not self.mutates and any(m.requires_grad for m in metas_in(args))
        marked = mapped(
            lambda m: m.with_(requires_grad=grad and m.dtype.is_differentiable, strides=m.strides), made
        )
        return tuple(marked) if isinstance(marked, list) else marked if made is not None else None

    def _on_meta(self, *args: Any, **named: Any) -> Any:
        """What `register_fake` says of the results, as tensors on the device meta."""
        metas = as_arrays(self.meta(*map_tensors(args, _meta), **map_tensors(named, _meta)), None)
        return tuple(map(Tensor, metas)) if isinstance(metas, tuple) else Tensor(metas)

    def _kernel(self, xp: Any, *args: Any) -> Any:
        """The kernel on arrays: it returns arrays."""
        with no_grad():
            result = self._compute(mapped(lambda a: Tensor(a) if arrays.is_array(a) else a, args))
        return _arrays(result)


def _meta(tensor: Tensor) -> TensorMeta:
    return tensor.meta


def _arrays(result: Any) -> Any:
    if result is None:
        return ()
    return result._data if isinstance(result, Tensor) else tuple(map(_arrays, result))


def _unused(g: Any) -> Any:
    raise AssertionError("a custom operator's gradient comes from its pullback")


# ---- the functions of torch.library ----------------------------------------------------------------------------------


def custom_op(
    name: str,
    fn: Callable | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
) -> Any:
    """Make a function with annotations the operator `name` ("mylib::foo"). Decorator without `fn`.

    mutates_args: the names of the tensors that it writes to, or "unknown" for all. device_types: the devices for which
    `fn` is the kernel. Raises ValueError for a name without a namespace, annotations from which no schema can be made,
    or a schema that disagrees with `mutates_args`.
    """
    if fn is None:
        return lambda function: custom_op(
            name, function, mutates_args=mutates_args, device_types=device_types, schema=schema
        )
    if schema is None:
        found = schema_of(fn, mutates_args)
    else:
        found, _ = parse_schema(schema)
        if mutates_args != "unknown" and set(found.mutates) != set(mutates_args):
            raise ValueError(
                f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={schema}. The schema "
                f"suggests that the op mutates {set(found.mutates)} which is different from what was provided to us in "
                "`mutates_args`. Please make these consistent."
            )
    made = CustomOpDef(*_parts(name), found, fn)
    made.register_kernel(device_types, fn)
    return made


def _parts(name: str) -> tuple[str, str]:
    space, colons, last = name.partition("::")
    if not (colons and space.isidentifier() and last.isidentifier()):
        raise ValueError(f'expected the name of an operator as "namespace::name", got {name!r}')
    return space, last


def lookup(op: Any) -> CustomOpDef:
    """The operator with this name, or the operator itself. Raises RuntimeError if the name does not exist."""
    if isinstance(op, CustomOpDef):
        return op
    if not isinstance(op, str):
        raise TypeError(
            f'expected a custom operator (what custom_op returned) or its name "namespace::name", got {op!r}'
        )
    found = OPAQUE.get("ops." + ".".join(_parts(op.partition(".")[0])))
    if not isinstance(found, CustomOpDef):
        raise RuntimeError(
            f"operator {op} does not exist; define it with library.custom_op or library.define"
        )
    return found


def define(qualname: str, schema: str) -> None:
    """Define an operator by its schema only; `impl` adds kernels."""
    found, declared = parse_schema(schema)
    declared.__name__ = _parts(qualname)[1]
    CustomOpDef(*_parts(qualname), found, declared)


def impl(qualname: Any, types: str | Sequence[str], func: Callable | None = None) -> Any:
    """Register the kernel of an operator for device types ("cpu", "cuda", "default"). Decorator without func."""
    devices = None if types == "default" else types
    return lookup(qualname).register_kernel(devices, func)


def register_kernel(
    op: Any, device_types: str | Sequence[str] | None, func: Callable | None = None, /
) -> Any:
    """The same as CustomOpDef.register_kernel, for an operator or its name."""
    return lookup(op).register_kernel(device_types, func)


def register_fake(op: Any, func: Callable | None = None, /) -> Any:
    """The same as CustomOpDef.register_fake, for an operator or its name. Decorator without func."""
    if isinstance(op, str) and op.partition("::")[0] in _NOT_LOADED:
        return func or (lambda unused: unused)
    return lookup(op).register_fake if func is None else lookup(op).register_fake(func)


def register_autograd(op: Any, backward: Callable, /, *, setup_context: Callable | None = None) -> None:
    """The same as CustomOpDef.register_autograd, for an operator or its name."""
    lookup(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: Any, func: Callable | None = None, /) -> Any:
    """The same as CustomOpDef.register_vmap, for an operator or its name. Decorator without func."""
    return lookup(op).register_vmap(func)


_NOT_LOADED: set[str] = set()  # namespaces whose operators are in a compiled library that was refused


class _Namespace:
    """`ops.mylib`: its operators by name."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        path = f"{self._path}.{name}"
        if path in OPAQUE:
            return OPAQUE[path]
        if self._path == "ops":
            return _Namespace(path)
        raise AttributeError(f"'_OpNamespace' {self._path[4:]!r} object has no attribute {name!r}")


class _Ops(_Namespace):
    """`ops`: the namespaces of operators by name."""

    @staticmethod
    def load_library(path: str) -> None:
        """Raises OSError: a library compiled for torch has no operators that run here.

        What a program then registers for the operators of its package is ignored, since nothing can call them.
        """
        _NOT_LOADED.add(Path(path).parent.name)
        raise OSError(
            f"{path}: operators compiled for torch do not run on Cutaway; custom_op makes one of a function"
        )


ops = _Ops("ops")


def triton_op(name: str, fn: Callable | None = None, /, *, mutates_args: str | Iterable[str]) -> Any:
    """The same as custom_op, for a function that calls `wrap_triton(kernel)[grid](...)`. It needs no fake rule."""
    if fn is None:
        return lambda function: triton_op(name, function, mutates_args=mutates_args)
    made = custom_op(name, fn, mutates_args=mutates_args)
    made.register_fake(fn)
    return made


__all__ = [
    "CustomOpDef", "custom_op", "define", "impl", "infer_schema", "lookup", "ops", "register_autograd",
    "kernel_ptx", "register_fake", "register_kernel", "register_vmap", "triton_op", "wrap_triton", "writes_of",
]  # fmt: skip
