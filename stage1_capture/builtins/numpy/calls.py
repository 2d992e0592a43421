"""Calls of NumPy's functions: our row in place of each, with `out=`, weak Python numbers and dtypes seen to.

Input: an abstract call of `np.f`. The arguments are bound by NumPy's own signature; what our row does not take (where=,
order="F", a subclass) is a break, and NumPy runs the call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np

from stage0_eager import numpy_api
from stage0_eager.numpy_api.rows import Row, call_signature
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor
from stage1_capture.state.machine import BUILTINS, Args, Kwargs, Tx
from stage1_capture.variables.base import (
    SEQUENCES,
    NotConstant,
    Variable,
    as_constant,
    from_constant,
    load_attribute,
    realize,
)
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.ndarray import FACTS, NumpyNdarrayVariable
from stage1_capture.variables.number import EXACT, text_of
from stage1_capture.variables.numpy_functions import left
from stage1_capture.variables.operators import call_operator, known_scalar
from stage1_capture.variables.scalar_inputs import scalar_input
from stage1_capture.variables.sequence import ListVariable, SliceVariable, TupleVariable
from stage1_capture.variables.tensor import TensorVariable, can_be_array
from stage_contracts import dtype as dt
from stage_contracts.array_guards import CAPTURED_DTYPES
from stage_contracts.breaks import Unsupported
from stage_contracts.controls import register
from stage_contracts.device import Device
from stage_contracts.source import ArraySource, AttrSource, RegisteredSource
from stage_contracts.tensor_meta import TensorMeta

# What our row refuses: an error of its meta, an `out`, an option, an argument, a tensor of inference mode.
_REFUSED = {"GB0066", "GB0067", "GB0068", "GB0069", "GB0070"}
# Rows whose arguments are any number of arrays: they take them as one tuple.
GATHERED = {"meshgrid": "xi", "broadcast_arrays": "args"}
OPERANDS = {"x1", "x2", "x", "y", "a_min", "a_max", "min", "max"}  # parameters where a number may stay open
CLOSED = {"power", "pow", "float_power"}  # which look at a number


def call_row(row: Row, real: Any, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """The value of `np.f(*args, **kwargs)`."""
    if row.ufunc and not kwargs and all(_plain_number(realize(a)) for a in args):
        return computed_now(tx, real, [as_constant(a) for a in args])
    given, out = bind(tx, row, real, [realize(a) for a in args], kwargs)
    if any(v.is_tensor() for v in given.values()):
        return of_tensors(tx, row, given, out)
    result = apply(tx, row, given)
    return result if out is None else into(tx, row, out, result)


TAKE_TENSORS = ("array", "asarray", "asanyarray", "ascontiguousarray")  # which give arrays
TENSOR_METHODS = ("sum", "prod", "mean", "any", "all")  # NumPy calls the tensor's own


def of_tensors(tx: Tx, row: Row, given: dict[str, Variable], out: Variable | None) -> Variable:
    """A NumPy function of tensors: elementwise ones give tensors with NumPy's dtypes, as without compile."""
    first = next(iter(given.values()))
    if row.name in TENSOR_METHODS and first.is_tensor() and out is None:
        rest = {name: value for name, value in list(given.items())[1:] if not _is(value, None)}
        return tx.call(load_attribute(tx, first, row.name), [], rest)
    tensors: list[Any] = [v for v in given.values() if v.is_tensor()]
    if not (row.ufunc or row.name in TAKE_TENSORS) or out is not None or not all(map(can_be_array, tensors)):
        left(tx, f"np.{row.name} of a tensor")
    arrays: dict[str, Any] = {
        n: NumpyNdarrayVariable(cast(Any, v)) if v.is_tensor() else v for n, v in given.items()
    }
    result = apply(tx, row, arrays)
    if row.name in TAKE_TENSORS:
        return result
    if result.family() is tuple:
        return TupleVariable([part.tensor for part in result.items])
    return result.tensor


def computed_now(tx: Tx, real: Callable[..., Any], values: list[Any]) -> Variable:
    """A NumPy scalar of constants: NumPy computes it now. Where it meets an array, it is an input of the graph."""
    with np.errstate(all="ignore"):
        try:
            made = real(*values)
        except (TypeError, ValueError, ArithmeticError) as error:
            left(tx, f"a call that raises {type(error).__name__}")
    if not isinstance(made, np.generic) or made.dtype.num not in CAPTURED_DTYPES:
        left(tx, f"a {type(made).__name__}")
    return constant_scalar(made)


def constant_scalar(made: np.generic) -> NumpyNdarrayVariable:
    """A NumPy scalar that the program made of constants."""
    where = RegisteredSource(register(made))
    meta = TensorMeta((), CAPTURED_DTYPES[made.dtype.num])
    inside = TensorVariable(meta, real=Tensor(np.asarray(made)), source=ArraySource(where))
    return NumpyNdarrayVariable(inside, scalar=True, real=made, source=where)


def apply(tx: Tx, row: Row, given: dict[str, Variable]) -> Variable:
    """Our row on arguments by name."""
    if row.ufunc or row.name in ("where", "clip"):
        given = open_numbers(tx, row, given)
    words = {name: argument(tx, row, name, value) for name, value in given.items()}
    result = record(tx, row.op, list(words.values()), list(words))
    first = next((v for v in given.values() if v.is_array()), None)
    return seen(tx, row, result, first)


def record(tx: Tx, op: Operator, args: list[Variable], names: list[str] | None = None) -> Any:
    """One node. A function without a row of ours is left to NumPy."""
    kwargs = dict(zip(names or [], args)) if names else {}
    positional: list[Variable] = []
    code = op.bind.__code__
    for name in code.co_varnames[: code.co_argcount]:  # as many by position as there are without a gap
        if name not in kwargs:
            break
        positional.append(kwargs.pop(name))
    try:
        return call_operator(tx, op, positional if names else args, kwargs)
    except Unsupported as refusal:
        why = refusal.graph_break
        if why.code in _REFUSED:  # NumPy takes it, or raises its own error
            tx.unsupported("GB0030", why.reason.replace("raises NotHere: ", "in NumPy only: "))
        raise


def seen(tx: Tx, row: Row | None, result: Any, first: Any) -> Variable:
    """The value that Python sees of a node's result: an array, or a scalar where NumPy gives one."""
    if result.family() in SEQUENCES:
        parts = [seen(tx, row, realize(r), first) for r in result.items]
        split = row is not None and row.name.endswith("split")
        return ListVariable(parts) if split or result.family() is not tuple else TupleVariable(parts)
    if first is not None and result is first.tensor and not first.scalar:
        return first
    scalar = not result.meta.shape and (row is None or row.scalar)
    if first is None or row is None or not row.view:
        return NumpyNdarrayVariable(result, scalar=scalar)
    frozen = first.frozen or row.name in ("broadcast_to", "broadcast_arrays", "diagonal")
    derived = first.view is not None or first.derived
    made = NumpyNdarrayVariable(result, scalar=scalar, base=first.root, frozen=frozen, derived=derived)
    if derived:
        tx.output.reversals.append(made)
    return made


# ---- arguments --------------------------------------------------------------------------------------------------


def bind(
    tx: Tx, row: Row, real: Any, args: Args, kwargs: Kwargs
) -> tuple[dict[str, Variable], Variable | None]:
    """(arguments by our names, `out`), from a call by NumPy's signature."""
    kwargs = {k: realize(v) for k, v in kwargs.items()}
    special = _special_form(tx, row, args, kwargs)
    if special is not None:
        return special, None
    order, defaults = call_signature(row, real)
    if len(args) > len(order):
        left(tx, f"np.{row.name} with {len(args)} arguments")
    bound = dict(zip(order, args))
    for name, value in kwargs.items():
        if name in bound:
            left(tx, f"np.{row.name} with two values for {name}")
        bound[name] = value
    out = bound.pop("out", None)
    given = _given(tx, row, bound, defaults)
    return given, None if out is None or _is(out, None) else out


def _given(tx: Tx, row: Row, bound: dict[str, Variable], defaults: dict[str, Any]) -> dict[str, Variable]:
    """The arguments that differ from NumPy's defaults, by our names. An argument that our row does not take is left to
    NumPy."""
    given: dict[str, Variable] = {}
    for name, value in bound.items():
        ours = name if name in row.op.params else f"{name}_"
        said = not _is(value, defaults.get(name, inspect.Parameter.empty))
        if ours in row.op.params:
            if said or ours in ("axis", "dtype"):
                given[ours] = value
        elif said:
            left(tx, f"np.{row.name} with {name}=")
    return {n: v for n, v in given.items() if not (n == "dtype" and _is(v, None))}


def _special_form(tx: Tx, row: Row, args: Args, kwargs: Kwargs) -> dict[str, Variable] | None:
    """The arguments of a function that takes any number of some; None for any other."""
    if row.name in GATHERED:
        return {GATHERED[row.name]: TupleVariable(list(args)), **kwargs}
    if row.name == "gradient" and args:
        return {"f": args[0], "spacing": TupleVariable(args[1:]), **kwargs}
    if row.name.startswith("atleast") and len(args) == 1 and not kwargs:
        return {"a": args[0]}
    if row.name != "einsum":
        return None
    if not args or not args[0].is_python_constant():
        left(tx, "einsum with its subscripts as lists")
    return {"subscripts": args[0], "operands_": TupleVariable(args[1:]), **kwargs}


def _is(value: Variable, default: Any) -> bool:
    """Whether an argument says what the default says."""
    return (
        value.is_python_constant()
        and not value.is_open()
        and type(value.value) is type(default)
        and value.value == default
    )


def argument(tx: Tx, row: Row, name: str, value: Variable) -> Variable:
    """An argument as our row takes it: arrays as tensors, NumPy's dtypes as ours, known scalars as numbers."""
    value = realize(value)
    if name == "dtype":
        return ConstantVariable(dtype_of(tx, value))
    if value.is_open():  # its value is not asked
        return value
    if value.is_array():
        return fixed(tx, value) if name in _FIXED else value.tensor  # type: ignore[arg-type]
    many = _many_numbers(value) if value.family() in SEQUENCES and name in LISTED else None
    if many is not None:
        return constant_array(tx, many)
    if value.family() in SEQUENCES:
        return value.mapped(lambda item: argument(tx, row, name, item))
    if value.is_python_constant() and isinstance(value.value, np.generic):
        return constant_scalar(value.value).tensor
    if value.is_python_constant() or isinstance(value, SliceVariable):
        return value
    left(tx, f"np.{row.name} of {value.describe()}")


_FIXED = ("axis", "shape", "reps", "N", "M", "k", "n")  # what has to be known
LISTED = {"object", "a", "x", "y", "x1", "x2", "b", "v", "p", "indices", "value", "weights", "test_elements"}
FEW = 8  # numbers in a list that become nodes; more are an input of the graph


def _many_numbers(value: Variable) -> np.ndarray | None:
    """A list of many Python numbers, nested or not, as the array that NumPy makes of it."""
    try:
        made = np.array(as_constant(value))
    except (NotConstant, ValueError, OverflowError):
        return None
    return made if made.size > FEW and made.dtype.num in CAPTURED_DTYPES else None


def constant_array(tx: Tx, made: np.ndarray) -> Variable:
    """A copy of an array of constants, which its guard keeps alive."""
    where = RegisteredSource(register(made))
    tx.output.guard("IDENTITY", where, made)
    inside = TensorVariable(Tensor(made).meta, real=Tensor(made), source=ArraySource(where))
    return record(tx, numpy_api.ROWS["copy"].op, [inside])


def fixed(tx: Tx, value: NumpyNdarrayVariable) -> Variable:
    """A NumPy scalar from outside that has to be known: its value, guarded."""
    if not isinstance(value.real, np.generic):
        tx.unsupported("GB0004", f"{value.describe()} as a size or an axis")
    return ConstantVariable(known_scalar(tx, value))


def dtype_of(tx: Tx, value: Variable) -> dt.DType:
    """What `dtype=` names. One that Tensor does not have is left to NumPy."""
    real = value.known_object()
    if real is None:
        try:
            real = as_constant(value)
        except NotConstant:
            left(tx, f"a dtype that is {value.describe()}")
    if isinstance(real, dt.DType):
        return real
    try:
        found = np.dtype(real)
    except TypeError:
        left(tx, f"the dtype {real!r}")
    if found.num not in CAPTURED_DTYPES or not found.isnative:
        left(tx, f"the dtype {found}")
    return CAPTURED_DTYPES[found.num]


def open_numbers(tx: Tx, row: Row, given: dict[str, Variable]) -> dict[str, Variable]:
    """Open Python numbers beside arrays, as tensors of the dtype that they take there."""
    numbers = {n: v for n, v in given.items() if realize(v).is_open() and n in OPERANDS}
    arrays = [v for v in given.values() if v.is_array()]
    if not numbers or not arrays or row.name in CLOSED or "dtype" in given:
        return given
    kinds = [v.meta.dtype for v in arrays] + [realize(v).hint for v in numbers.values()]
    kinds += [
        as_constant(v) for n, v in given.items() if n in OPERANDS and n not in numbers and _plain_number(v)
    ]
    try:
        wanted = numpy_api.result_type(kinds)
    except TypeError:
        return given
    return _as_inputs(tx, given, numbers, wanted)


def _as_inputs(
    tx: Tx, given: dict[str, Variable], numbers: dict[str, Variable], wanted: dt.DType
) -> dict[str, Variable]:
    """Each number as a tensor without dimensions, an input of the graph; as they were where one does not fit."""
    result = dict(given)
    for name, value in numbers.items():
        number: Any = realize(value)
        if type(number.hint) is int:
            low, high = wanted.limits or (-EXACT, EXACT)
            if not low <= number.hint <= high or wanted is dt.bool_:
                return given
            tx.output.guard("SHAPE", None, f"{low} <= {text_of(number)} <= {high}")
        result[name] = NumpyNdarrayVariable(scalar_input(tx, number, Device("cpu"), wanted), scalar=True)
    return result


def _plain_number(value: Variable) -> bool:
    if value.is_open():
        return True
    return value.is_python_constant() and type(value.value) in (bool, int, float)


# ---- writing ----------------------------------------------------------------------------------------------------


def writable(tx: Tx, array: NumpyNdarrayVariable) -> None:
    """To be called before a write to an array: NumPy refuses one that is read-only."""
    root = array.root
    if array.frozen or array.scalar:
        left(tx, f"a write to {array.describe()}, which is read-only")
    if array.view is not None or array.derived:
        left(tx, f"a write to {array.describe()}, which is a reversed view")
    if any(other.derived and other.root is root for other in tx.output.reversals):
        left(tx, f"a write to {array.describe()}, of which there is a reversed view")
    if root.real is not None:
        if not root.real.flags.writeable:
            left(tx, f"a write to {array.describe()}, which is read-only")
        assert root.source is not None
        tx.output.guard("IDENTITY", AttrSource(AttrSource(root.source, "flags"), "writeable"), True)


def into(tx: Tx, row: Row, out: Any, result: Variable) -> Variable:
    """`out=`: the result, computed first, is written where it fits as NumPy's casting rule has it."""
    if out.family() is tuple and len(out.items) == 1:
        out = realize(out.items[0])
    fits = (
        out.is_array()
        and result.is_array()
        and out.meta.shape == result.meta.shape
        and numpy_api.can_cast_same_kind(result.meta.dtype, out.meta.dtype)
        and (row.ufunc or out.meta.dtype is result.meta.dtype)  # a fold would accumulate in out's dtype
    )
    if not fits:
        left(tx, f"np.{row.name} into an `out` of another shape or kind")
    write(tx, out, result)
    return out


def write(tx: Tx, target: NumpyNdarrayVariable, value: Variable) -> None:
    writable(tx, target)
    inner = value.tensor if value.is_array() else value
    record(tx, numpy_api.indexing.copyto, [target.tensor, inner])
    written(tx, target)


def written(tx: Tx, array: NumpyNdarrayVariable) -> None:
    """To be called after a write: reversed views, which are copies in the graph, are read anew."""
    for view in tx.output.reversals:
        if view.root is array.root:
            source, index = view.view
            view.tensor = record(tx, numpy_api.indexing.getitem, [source.tensor, index])


def _reached(name: str) -> Any:
    """np.<name>, or None in a NumPy that does not have it."""
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


MAPPED: dict[str, Any] = {name: _reached(name) for name in numpy_api.ROWS if _reached(name) is not None}
BUILTINS.update({real: partial(call_row, numpy_api.ROWS[name], real) for name, real in MAPPED.items()})


def _scalar_class(dtype: dt.DType, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """np.float32(x): a scalar of that dtype, or an array of it."""
    if len(args) != 1 or kwargs:
        left(tx, f"a call of np.{dtype.name}")
    given_now = realize(args[0])
    text = given_now.is_python_constant() and type(given_now.value) in (str, bytes)
    if text or _plain_number(given_now):
        return computed_now(tx, dtype.numpy.type, [as_constant(args[0])])
    given = {"object": args[0], "dtype": ConstantVariable(dtype)}
    row = numpy_api.ROWS["array"]
    made: Any = apply(tx, row, given)
    made.scalar = not made.meta.shape
    return made


BUILTINS.update({d.numpy.type: partial(_scalar_class, d) for d in CAPTURED_DTYPES.values()})


def _dtype_call(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    if len(args) != 1 or kwargs:
        left(tx, "a call of np.dtype")
    return ConstantVariable(dtype_of(tx, realize(args[0])).numpy)


def _copyto_call(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    if len(args) != 2 or kwargs or not realize(args[0]).is_array():
        left(tx, "such a call of np.copyto")
    target, value = (cast(Any, realize(a)) for a in args)
    row = numpy_api.ROWS["asarray"]
    source = value if value.is_array() else apply(tx, row, {"a": value})
    if not numpy_api.can_cast_same_kind(source.meta.dtype, target.meta.dtype):
        left(tx, "a copy into another kind of dtype")
    write(tx, target, source)
    return NONE


def _fact(name: str, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    value = realize(args[0]) if len(args) == 1 and not kwargs else NONE
    if not value.is_array():
        left(tx, f"np.{name} of such arguments")
    return from_constant(FACTS[name](value.meta))


BUILTINS.update({np.dtype: _dtype_call, np.copyto: _copyto_call})
BUILTINS.update({getattr(np, name): partial(_fact, name) for name in ("shape", "ndim", "size")})
