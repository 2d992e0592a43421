"""Operator: one row of the table, and the one place that every tensor computation passes through.

Input: core.py makes a row per core operator (kernel, derivative); functions/ makes the public functions, whose bodies
call other operators. A call of a row evaluates it, or passes it to the current interpreter, and records it on the tape.
One interception point with a stack of interpreters is the idea of JAX's autodidax.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from functools import cache, lru_cache, update_wrapper
from typing import Any

from stage0_eager.amp.autocast import autocast_off, call_with_casts
from stage0_eager.autograd.complex_gradients import FOR_COMPLEX, by_conjugates, is_complex
from stage0_eager.autograd.tape import needs_tape, record
from stage0_eager.kernels.eager import eager_kernel
from stage0_eager.state import STATE, interpreting
from stage0_eager.table.evaluation import eager_call
from stage0_eager.table.out_argument import into_out
from stage0_eager.table.registry import TABLE, find, register
from stage0_eager.tensor import Tensor, made_in_inference
from stage0_eager.transforms.trace import run_on_metas
from stage_contracts.core_ops import CoreOp
from stage_contracts.device import Device
from stage_contracts.dtype import DEFAULT_DTYPE, DType
from stage_contracts.tensor_meta import TensorMeta

# NumPy's names of arguments, which torch accepts in every function. A is torch.linalg's.
_NUMPY_NAMES = {
    "axis": "dim",
    "keepdims": "keepdim",
    "x": "input",
    "a": "input",
    "A": "input",
    "x1": "input",
    "x2": "other",
}


# What may answer a call that failed: (operator, arguments, named arguments) -> the result, or an `object()`.
ANSWERS: list[Callable[[Any, tuple, dict[str, Any]], Any]] = []


class Operator:
    """A public function or a core operator. Exactly one of `core` and `body` (composite) is set."""

    opaque = False  # whether no stage looks into it (opaque.py)
    has_effect = False  # whether it runs exactly once, though nothing may read its result
    backward_graph: Any = (
        None  # of one whose derivative is the user's own: that as a graph (autograd/custom_gradient.py)
    )

    def __init__(
        self,
        name: str,
        params: str,
        *,
        core: CoreOp | None = None,
        body: Callable | None = None,
        mutates: tuple[str, ...] = (),
    ) -> None:
        self.name = self.__name__ = name
        self.namespace = "core" if core else "cutaway"
        self.core, self.body, self.mutates = core, body, mutates
        self.kernel = eager_kernel(name) if core else None
        self.shares = core is not None and core.kind in ("view", "identity")  # the result may share storage
        self.derivatives: dict[str, Derivative] = {}
        self.rules: tuple[Derivative, ...] = ()
        # the values that record() saves, by the set of rules that will run (as bits)
        self.save_plans: dict[int, tuple] = {}
        self.bind = _binder(name, params, body)
        code = self.bind.__code__
        self.params = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self.arity = len(self.params)
        self.numpy_names = frozenset(name for name, ours in _NUMPY_NAMES.items() if ours in self.params) - {
            *self.params
        }
        self.whole = body is None  # it is one step: a core operator, or a composite with its own derivative
        self.run = eager_call(self)  # evaluates, and records on the tape
        self.eager = self.run  # runs if no interpreter is active: `run`, or a faster function (`quickly`)
        if body is not None:
            update_wrapper(self, body)
        else:
            self.__doc__ = core.meaning if core else None
            self.__signature__ = inspect.signature(self.bind)
        self.__module__ = "cutaway.core" if core else "cutaway"
        self.__qualname__ = name

    @property
    def qualname(self) -> str:
        return f"{self.namespace}.{self.name}"

    def __repr__(self) -> str:
        return f"<operator {self.qualname}>"

    def __reduce__(self) -> tuple:
        return find, (self.qualname,)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Makes an operator that is a class attribute of Tensor a method."""
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            if "out" in kwargs:
                if STATE.autocast:
                    with autocast_off():
                        return into_out(self, args, kwargs, TABLE["core.copy_"])
                return into_out(self, args, kwargs, TABLE["core.copy_"])
            if not self.numpy_names.isdisjoint(kwargs):
                kwargs = self.spelled(kwargs)
        try:
            if STATE.plain:
                # 0.1 µs for the short form
                return self.eager(*args, **kwargs) if kwargs else self.eager(*args)
            if STATE.autocast and self.core is None:
                return call_with_casts(self, args, kwargs)
            return self.without_casts(args, kwargs)
        except (AttributeError, TypeError) as error:
            return self._answer(args, kwargs, error)

    def _answer(self, args: tuple, kwargs: dict[str, Any], error: Exception) -> Any:
        """What an argument's class answers to a call that failed; else the error is raised."""
        for asked in ANSWERS:
            found = asked(self, args, kwargs)
            if type(found) is not object:
                return found
        if isinstance(error, AttributeError):
            raise self._refusal(args, error) from error
        raise error

    def without_casts(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Call the operator, with the current interpreter or in inference mode, but without autocast."""
        if STATE.interpreter is not None:
            return self._interpreted(STATE.interpreter, args, kwargs)
        out = self.run(*args, **kwargs)
        return out if self.core is None or self.mutates else made_in_inference(out)

    def spelled(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Rename arguments with NumPy's names (axis, keepdims, x1, x2), which torch allows, to this operator's
        names."""
        named = {
            _NUMPY_NAMES[key] if key in self.numpy_names else key: value for key, value in kwargs.items()
        }
        if len(named) < len(kwargs):
            raise TypeError(f"{self.name}() got one argument twice, under two names: {', '.join(kwargs)}")
        return named

    def _interpreted(self, interpreter: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Pass the call to the current interpreter: as one step, or as the steps of its body."""
        if self.core is None and not interpreter.keeps(self):
            return self.run(*args, **kwargs)
        args = self.bind(*args, **kwargs)
        if not interpreter.concerns(self, args):
            with interpreting(interpreter.outer):
                return self(*args)
        recording = STATE.grad_enabled and needs_tape(self, args)
        out = interpreter.process(self, args)
        if recording:
            record(self, args, out)
        return out

    def _refusal(self, args: tuple, error: Exception) -> Exception:
        """The error for the caller when a body raises AttributeError: an operand is not a tensor."""
        for param, value in zip(self.params, args):
            if isinstance(value, (str, bytes)) or (param in ("input", "x") and not hasattr(value, "_data")):
                kind = type(value).__name__
                return TypeError(f"{self.name}(): argument '{param}' must be Tensor, not {kind}")
        return error

    def _run_body(self, args: tuple) -> Any:
        return self.body(**dict(zip(self.params, args, strict=True)))  # type: ignore[misc]

    def derivative(self, **rules: Callable) -> Operator:
        """Attach derivative rules, one per differentiable parameter, and return self.

        A rule's first parameter is the gradient of the output. The others name the values that it needs: `out`, a
        parameter of the operator (`other`), or the meta of one (`other_meta`, `out_meta`). The tape saves only these.
        The form follows torch's derivatives.yaml.
        """
        self.derivatives.update({name: Derivative(self, name, rule) for name, rule in rules.items()})
        for bit, rule in enumerate(self.derivatives.values()):
            rule.bit = 1 << bit
        self.rules = tuple(self.derivatives.values())
        self.save_plans = {}
        self.whole = True
        self.eager = self.run = eager_call(self)
        return self

    def quickly(self, function: Callable) -> Callable:
        """Decorator: a faster function for eager calls. It must return what the body returns; a test checks this."""
        self.eager = function
        return function

    def meta(self, *args: Any, **kwargs: Any) -> Any:
        """The TensorMeta of the result (or a tuple of them), from arguments with a TensorMeta for each tensor."""
        return self.meta_and_returned(*self.bind(*args, **kwargs))[0]

    def meta_and_returned(self, *args: Any) -> tuple[Any, int | None]:
        """The same as `meta` for bound arguments, and the position of the argument that is returned unchanged, if there
        is one (`cast` to the same dtype, `dropout` in eval)."""
        returned = None

        def run(*tensors: Any) -> Any:
            nonlocal returned
            out = self._run_body(tensors)
            if isinstance(out, Tensor):
                returned = next((i for i, tensor in enumerate(tensors) if tensor is out), None)
            return out

        result = run_on_metas(run, args) if self.core is None else _core_meta(self.core.meta, args)
        grad = STATE.grad_enabled and self.name != "detach" and any(m.requires_grad for m in metas_in(args))
        return _with_grad(result, grad), returned


class Derivative:
    """One rule, the position of its parameter, and the values that it needs: name -> (what, position of the
    argument)."""

    __slots__ = ("as_it_is", "bit", "needs", "param", "position", "rule", "saves")

    def __init__(self, op: Operator, param: str, rule: Callable) -> None:
        self.rule, self.param, self.position = rule, param, op.params.index(param)
        self.bit = 0
        self.as_it_is = op.name in FOR_COMPLEX
        code = rule.__code__  # inspect.signature takes ten times as long
        self.needs = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
        self.saves = {name: self._place(op, name) for name in self.needs}

    def gradient(self, g: Any, *needed: Any) -> Any:
        """What the rule gives, for the gradient `g` of a result that may be complex."""
        if self.as_it_is or not is_complex(g):
            return self.rule(g, *needed)
        return by_conjugates(self.rule, g, needed)

    @staticmethod
    def _place(op: Operator, name: str) -> tuple[str, int]:
        if name in ("out", "out_meta"):
            return name, 0
        if name in op.params:
            return "value", op.params.index(name)
        return "meta", op.params.index(name.removesuffix("_meta"))


def _core_meta(rule: Callable[..., Any], args: tuple) -> Any:
    """The rule's answer. Without open sizes, which it may make assumptions about, it depends on the arguments and the
    default dtype only; each stage asks it of most of a graph again."""
    return _told(rule, DEFAULT_DTYPE.dtype, *args) if _are_known(args) else rule(*args)


@lru_cache(maxsize=4096, typed=True)
def _told(rule: Callable[..., Any], default: DType, *args: Any) -> Any:
    return rule(*args)


# typed=True tells 1 from 1.0 and True, but not inside a tuple
_PLAIN: frozenset[Any] = frozenset((int, float, bool, complex, str, type(None), DType, Device))
_IN_TUPLES: frozenset[Any] = frozenset((int, str, type(None), DType, Device))


def _are_known(args: tuple, plain: frozenset[Any] = _PLAIN) -> bool:
    for arg in args:
        kind = type(arg)
        if kind is TensorMeta:
            if not arg.is_known:
                return False
        elif kind is tuple:
            if not _are_known(arg, _IN_TUPLES):
                return False
        elif kind not in plain:
            return False
    return True


def metas_in(tree: Any) -> list[TensorMeta]:
    if isinstance(tree, TensorMeta):
        return [tree]
    if isinstance(tree, (tuple, list)):
        return [m for item in tree for m in metas_in(item)]
    return []


def _with_grad(result: Any, grad: bool) -> Any:
    if isinstance(result, TensorMeta):
        wanted = grad and result.dtype.is_differentiable
        return (
            result
            if result.requires_grad is wanted
            else result.with_(requires_grad=wanted, strides=result.strides, shape=result.shape)
        )
    if not isinstance(result, (tuple, list)):
        return result
    items = [_with_grad(r, grad) for r in result]
    return result._make(items) if hasattr(result, "_make") else type(result)(items)


def _binder(name: str, params: str, body: Callable | None) -> Callable[..., tuple]:
    """A function with the operator's parameter list that returns its arguments as one positional tuple."""
    if body is not None:
        # read from the code: inspect.signature for a thousand operators was a fifth of the time of `import cutaway`
        written = inspect.unwrap(body)
        code = written.__code__
        if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            raise TypeError(f"operator {name}: *args is not allowed; make the variadic form a plain function")
        positional, count = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
        order = list(code.co_varnames[:count])
        order[positional:positional] = ["*"] * (count > positional)
        params, defaults, keyword_defaults = ", ".join(order), written.__defaults__, written.__kwdefaults__
        form = _tuple_of(params)
    else:
        form = _tuple_of(params)
        defaults, keyword_defaults = form.__defaults__, form.__kwdefaults__
    bind = types.FunctionType(form.__code__, {}, name, defaults)
    bind.__kwdefaults__ = keyword_defaults and dict(keyword_defaults)
    bind.__qualname__ = name  # a TypeError about the arguments shows this name
    return bind


@cache
def _tuple_of(params: str) -> types.FunctionType:
    """A function with these parameters that returns them as a tuple. Operators with the same list share it."""
    names = [p.split("=")[0].strip() for p in params.split(",")]
    namespace: dict[str, Any] = {}
    exec(f"def bind({params}): return ({', '.join(n for n in names if n != '*')},)", namespace)
    return namespace["bind"]


def operator(body: Callable) -> Operator:
    """Decorator: make a public function a composite row of the table."""
    return register(Operator(body.__name__, "", body=body))


@cache
def operator_of(function: Callable, namespace: str = "user") -> Operator:
    """A function as a row of its own, outside the table: its meta comes from running it on metas."""
    row = Operator(function.__name__, "", body=function)
    row.namespace = namespace
    return row


def operator_of_tensors(name: str, body: Callable[..., Any], count: int, namespace: str = "user") -> Operator:
    """The same of a function that takes any number of tensors, on `count` of them."""
    words = ", ".join(f"t{i}" for i in range(count))
    names: dict[str, Any] = {"body": body}
    plain = name if name.isidentifier() else "function"
    exec(f"def {plain}({words}): return body({words})", names)
    return operator_of.__wrapped__(names[plain], namespace)
