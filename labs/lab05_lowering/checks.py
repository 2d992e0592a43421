"""What lab 5 asks of lowering: the operators' values, types and layouts; loops where loops are expected; no operator
refused.

Input: graphs of core operators, the learner's `lower`, and the interpreter of loop nests. The answers are those of the
eager kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stage0_eager.core_interpreter import interpreter
from stage3_lowering.interpret import interpret_lowered
from stage3_lowering.tests.graphs import trace
from stage_contracts import dtype as dt
from stage_contracts.graph import GraphError
from stage_contracts.loop_ir import BufferRef, ExternCall, LoopNest, LoweredGraph, Value

from ..answer import Answer
from ..checks import Wrong
from ..core_programs import COLUMN, PROGRAMS, ROW, SQUARE, WHOLE, X, Y
from ..hidden import hidden_check
from ..programs import SPECIAL, same, short

LOOPS, TYPES, REDUCE = "page.md#a-nest-for-each-operator", "page.md#types", "page.md#reductions"
OUTPUTS, EAGER = "page.md#outputs", "page.md#what-is-left-to-eager-kernels"
POSITIVE = X > 0

Case = tuple[Any, tuple[np.ndarray, ...]]  # a program of core operators, and its inputs

COPIES: dict[str, Case] = {
    "contiguous": (lambda c, x: c.contiguous(x), (X.T,)),
    "clone": (lambda c, x: c.clone(x), (X,)),
    "cast": (lambda c, x: c.cast(x, dt.int64), (X * 10,)),
    "cast_to_bool": (lambda c, x: c.cast(x, dt.bool_), (WHOLE,)),
}
POINTWISE: dict[str, Case] = {
    "one operator": (lambda c, x: c.exp(x), (X,)),
    "a number": (lambda c, x: c.mul(x, 0.5), (X,)),
    "broadcast": (lambda c, x, row, column: c.add(c.mul(x, row), column), (X, ROW, COLUMN)),
    "transposed": (lambda c, x, y: c.sub(x, y), (SQUARE.T, SQUARE)),
    "no dimensions": (lambda c, x: c.sin(x), (np.full((), 3, np.float32),)),
    "strided": (lambda c, x: c.neg(x), (X[::2, ::3],)),
    "special": (lambda c, x: c.maximum(x, 1.0), (SPECIAL,)),
}
MIXED: dict[str, Case] = {
    "mixed_types": (lambda c, x, y: c.add(x, y), (WHOLE, X[:3, :5].copy())),
    "comparison": (lambda c, x, y: c.lt(x, y), (X, Y)),
    "division_of_integers": (lambda c, x: c.div(x, 4), (WHOLE,)),
    "sine_of_integers": (lambda c, x: c.sin(x), (WHOLE,)),
    "where": (lambda c, m, x: c.where(m, x, 0.0), (POSITIVE, X)),
    "doubles": (lambda c, x, y: c.mul(x, y), (X.astype("f8"), Y)),
}
REDUCTIONS: dict[str, Case] = {
    "sum_of_rows": (lambda c, x: c.sum(x, (1,)), (X,)),
    "a negative dim": (lambda c, x: c.sum(x, (-1,)), (X,)),
    "largest, dims kept": (lambda c, x: c.amax(x, (1,), True), (SPECIAL,)),
    "how_many_are_positive": (lambda c, m: c.sum(m, (1,)), (POSITIVE,)),
    "any": (lambda c, m: c.any(m, (1,)), (POSITIVE,)),
    "transposed": (lambda c, x: c.sum(x, (1,)), (X.T,)),
}
CALLS: dict[str, Case] = {
    "first_dimension": (lambda c, x: c.sum(x, (0,)), (X,)),
    "both dimensions": (lambda c, x: c.amax(x, (0, 1)), (X,)),
    "matmul": (lambda c, x, y: c.matmul(x, y), (X, SQUARE)),
    "flip": (lambda c, x: c.flip(x, (1,)), (X,)),
    "integer division": (lambda c, x: c.floor_divide(x, 7), (WHOLE,)),
    "no elements": (lambda c, x: c.exp(x), (X[:0],)),
    "several results": (lambda c, x: c.argmax(x, 1), (X,)),
}


def lowered(answer: Answer, name: str, case: Case) -> LoweredGraph:
    """The learner's loops for a case, if they keep the rules of loop nests."""
    function, arrays = case
    made = answer.lower(trace(function, *arrays))
    try:
        return made.verify()
    except GraphError as error:
        raise Wrong(f"{name}: {error}", "loops that verify() accepts", str(made), LOOPS) from error


def check(answer: Answer, name: str, case: Case, read: str) -> LoweredGraph:
    """Raise Wrong unless the loops compute what the eager kernels do."""
    function, arrays = case
    made = lowered(answer, name, case)
    with np.errstate(all="ignore"):
        wanted = interpreter(trace(function, *arrays))(*arrays)
        try:
            got = interpret_lowered(made, arrays)
        except Exception as error:
            raise Wrong(f"{name}: the loops cannot run: {type(error).__name__}: {error}", "loops that run",
                        str(made), read) from error  # fmt: skip
    for k, (g, w) in enumerate(zip(got, wanted, strict=True)):
        exact = w.dtype.kind != "f"
        if g.dtype != w.dtype or not same(g, w, 0 if exact else 1e-5):
            raise Wrong(f"{name}: result {k} is {short(g)}", short(w), str(made), read)
    for nest in made.nodes:
        if isinstance(nest, LoopNest) and (wrong := mistyped(nest, made)):
            raise Wrong(f"{name}: {wrong}", "a cast before: body.element(operand, dtype)", str(nest), TYPES)
    return made


def mistyped(nest: LoopNest, made: LoweredGraph) -> str:
    """What C++ would compute in another type than the operator has; "" if there is nothing."""
    types: dict[Any, Any] = {instr.name: instr.dtype for instr in nest.body}
    for instr in nest.body:
        operands = [types[arg] for arg in instr.args if isinstance(arg, Value)]
        if instr.op == "store":
            wanted = made.buffers[instr.args[0]].dtype
            if operands != [wanted]:
                return f"{instr} stores a {operands[0].name} in a buffer of {wanted.name}"
        elif instr.op == "reduction" and operands != [instr.dtype]:
            return f"{instr} reduces elements of {operands[0].name}"
        elif instr.op == "where" and operands[0] is not dt.bool_:
            return f"{instr} has a condition of {operands[0].name}"
        elif len(set(operands[instr.op == "where" :])) > 1:
            return f"{instr} has operands of the types {', '.join(of.name for of in operands)}"
    return ""


def kinds(made: LoweredGraph) -> tuple[int, int]:
    """How many nests, how many calls."""
    calls = sum(isinstance(node, ExternCall) for node in made.nodes)
    return len(made.nodes) - calls, calls


def expect(name: str, made: LoweredGraph, nests: int, calls: int, read: str) -> None:
    got = kinds(made)
    if got != (nests, calls):
        expected = f"{nests} nests and {calls} calls: nothing falls back to eager that could be a loop"
        raise Wrong(f"{name} became {got[0]} nests and {got[1]} calls", expected, str(made), read)


def copies(answer: Answer) -> None:
    """A copy is one nest: load, convert if the type changes, store."""
    for name, case in COPIES.items():
        expect(name, check(answer, name, case, LOOPS), 1, 0, LOOPS)


def operators_are_loops(answer: Answer) -> None:
    """A pointwise operator is one nest, wherever its operands lie: a row, a column, a transposed matrix."""
    for name, case in POINTWISE.items():
        made = check(answer, name, case, LOOPS)
        expect(name, made, 2 if name == "broadcast" else 1, 0, LOOPS)


def types_are_the_operators(answer: Answer) -> None:
    """Operands are converted to one type, and the result has the type of its meta."""
    for name, case in MIXED.items():
        expect(name, check(answer, name, case, TYPES), 1, 0, TYPES)


def reductions_are_loops(answer: Answer) -> None:
    """A reduction of the last dimension is one nest with a loop r0."""
    for name, case in REDUCTIONS.items():
        made = check(answer, name, case, REDUCE)
        expect(name, made, 1, 0, REDUCE)
        (nest,) = made.nodes
        if not isinstance(nest, LoopNest) or not nest.is_reduction:
            raise Wrong(f"{name} has no loop r0", "loops i0.. outside and r0 inside", str(made), REDUCE)


def the_rest_is_called(answer: Answer) -> None:
    """What no rule knows is a call of the eager kernel: no operator is refused, and no loop computes it wrongly."""
    for name, case in CALLS.items():
        expect(name, check(answer, name, case, EAGER), 0, 1, EAGER)


def views_cost_nothing(answer: Answer) -> None:
    """A view is another index, not a nest: permute, expand and reshape copy nothing."""
    case: Case = (lambda c, x: c.exp(c.expand(c.reshape(c.permute(x, (1, 0)), (7, 1, 5)), (7, 3, 5))), (X,))
    expect("a view of a view", check(answer, "a view of a view", case, LOOPS), 1, 0, LOOPS)


def outputs_are_buffers(answer: Answer) -> None:
    """Each result has a whole buffer of its own, laid out as its meta says."""
    cases: dict[str, Case] = {
        "one value twice": (lambda c, x: (y := c.sin(x), y), (X,)),
        "a value and its transposition": (lambda c, x: (y := c.sin(x), c.permute(y, (1, 0))), (X,)),
        "a part of a row": (lambda c, x: c.expand(x, (5, 7)), (ROW,)),
        "the input": (lambda c, x: (x, c.exp(x)), (X,)),
    }
    for name, case in cases.items():
        made = check(answer, name, case, OUTPUTS)
        refs = [ref for ref in made.outputs if isinstance(ref, BufferRef)]
        if any(ref.shape is not None for ref in refs):
            raise Wrong(
                f"{name}: a result is a view of a buffer", "a whole buffer: copy it", str(made), OUTPUTS
            )
        if len({ref.name for ref in refs}) < len(refs):
            raise Wrong(f"{name}: two results share {refs[0].name}", "a buffer for each", str(made), OUTPUTS)
        for ref, node in zip(refs, trace(*case[:1], *case[1]).outputs, strict=True):
            strides = made.buffers[ref.name].strides
            if 0 not in node.val.strides and tuple(strides) != tuple(node.val.strides):
                raise Wrong(f"{name}: {ref.name} has the strides {strides}", f"{node.val.strides}", str(made),
                            OUTPUTS)  # fmt: skip


def origins_are_kept(answer: Answer) -> None:
    """Each nest and each call says which line of the program it comes from."""
    for name, case in {"nests": POINTWISE["broadcast"], "calls": CALLS["matmul"]}.items():
        for node in lowered(answer, name, case).nodes:
            if not node.origins:
                raise Wrong(f"{node.name} has no origins", "those of its operator", str(node), LOOPS)


def whole_programs(answer: Answer) -> None:
    """Whole programs compute what the eager kernels do: softmax, layer norm, NaN, strides, no elements."""
    for name, program in PROGRAMS.items():
        check(answer, name, (program.function, program.arrays), LOOPS)


def most_is_loops(answer: Answer) -> None:
    """Of whole programs only matrix products are calls: nothing falls back to eager."""
    for name, calls in {
        "softmax": 0,
        "layer_norm": 0,
        "broadcast": 0,
        "matmul_then_relu": 1,
        "call_between": 1,
    }.items():
        program = PROGRAMS[name]
        made = lowered(answer, name, (program.function, program.arrays))
        expect(name, made, len(made.nodes) - calls, calls, EAGER)


def loops_of(answer: Answer) -> Any:
    """The ranges of each nest, in order, for programs that no other check has."""
    cases: tuple[Case, ...] = (
        (lambda c, x, y: c.mul(c.sub(c.amax(x, (1,), True), y), 2.0), (X, Y)),
        (lambda c, x, row: c.sum(c.where(c.lt(x, row), c.exp(x), 1.0), (1,)), (X, ROW)),
        (lambda c, x: c.cast(c.prod(c.add(x, 1), (1,)), dt.int32), (WHOLE,)),
    )
    found = []
    for k, case in enumerate(cases):
        made = check(answer, f"hidden {k}", case, LOOPS)
        sizes = [[int(size) for size in nest.ranges] for nest in made.nodes if isinstance(nest, LoopNest)]
        found.append((sizes, kinds(made)))
    return found


HIDDEN = {"the loops of three more programs": loops_of}


CHECKS = (
    copies,
    the_rest_is_called,
    operators_are_loops,
    types_are_the_operators,
    reductions_are_loops,
    views_cost_nothing,
    outputs_are_buffers,
    origins_are_kept,
    whole_programs,
    most_is_loops,
    hidden_check(__file__, HIDDEN, LOOPS),
)
