"""What lab 9 asks of functionalize: no node writes, views are known, outputs are their own, and eager's values.

Input: the learner's `functionalize`, alone on graphs of public operators, then in the real compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import cutaway
from stage0_eager.state import interpreting, no_grad
from stage2_autograd.aliasing import base
from stage2_autograd.tests.helpers import capture
from stage_contracts.breaks import Unsupported
from stage_contracts.events import EVENT_LOG
from stage_contracts.graph import Graph, GraphError
from stage_contracts.joint import FunctionalGraph

from .. import programs
from ..answer import Answer
from ..checks import Wrong
from ..hidden import hidden_check
from ..programs import Program, numbers
from . import writing

STORAGE, WRITES = "page.md#who-shares-memory", "page.md#a-write-is-a-new-value"
RESULTS, OUTPUTS = "page.md#where-each-result-comes-from", "page.md#outputs-of-their-own"


def made(answer: Answer, function: Callable, *arrays: np.ndarray, read: str = WRITES) -> FunctionalGraph:
    """What the learner's functionalize makes of a function, verified."""
    graph = capture(function, *map(cutaway.from_numpy, arrays))
    try:
        return answer.functionalize(graph).verify()
    except GraphError as error:
        raise Wrong(f"{function.__name__}: {error}", "a graph without writes", read=read) from error
    except Unsupported as error:
        first = str(error).splitlines()[0]
        raise Wrong(f"you refuse {function.__name__}: {first}", "a graph: nothing in use shares memory with what is "
                    "written", read=STORAGE) from error  # fmt: skip


def views_share(answer: Answer) -> None:
    """A view is in the storage of what it views; every other result has a new storage."""
    tracer = answer.FunctionalTracer(Graph("views"))
    meta = cutaway.ones(6, 4).meta
    with no_grad(), interpreting(tracer):
        x = tracer.placeholder("x", meta)
        turned = x.t()
        values, indices = x.sort(1)
        results = {
            "x.t()": (turned, True),
            "x[1::2]": (x[1::2], True),
            "x.reshape(24)": (x.reshape(24), True),
            "x.detach()": (x.detach(), True),
            "x.t().t()": (turned.t(), True),
            "x.t().reshape(24), which copies": (turned.reshape(24), False),
            "x * 2": (x * 2, False),
            "x.clone()": (x.clone(), False),
            "x.sort(1), its values": (values, False),
            "x.sort(1), its indices": (indices, False),
        }
        mine = answer.storage_of(x)
        for text, (tensor, view) in results.items():
            if (answer.storage_of(tensor) is mine) != view:
                seen = "a storage of its own" if view else "the storage of x"
                raise Wrong(f"{text} has {seen}", "the storage of x" if view else "a storage of its own",
                            read=STORAGE)  # fmt: skip
        if answer.storage_of(values) is answer.storage_of(indices):
            raise Wrong("the two results of x.sort(1) have one storage", "one each", read=STORAGE)


def others_are_seen(answer: Answer) -> None:
    """A storage knows whether the program can still see it through another tensor; a dropped view is none."""
    tracer = answer.FunctionalTracer(Graph("others"))
    with no_grad(), interpreting(tracer):
        x = tracer.placeholder("x", cutaway.ones(3, 2).meta)
        storage = answer.storage_of(x)
        for what, wanted in (
            ("with x alone", False),
            ("while a view is kept", True),
            ("after it is dropped", False),
        ):
            view = x.t() if wanted else None
            if bool(got := storage.others(x)) != wanted:
                raise Wrong(f"others(x) is {got} {what}", str(wanted), read=STORAGE)
            del view


def writes_are_renamed(answer: Answer) -> None:
    """A write records no copy: the written tensor gets the node of the new value, and later reads use it."""
    got = made(answer, writing.temporary, numbers(5, 3))
    names = [n.target.name for n in got.graph.calls]
    if names != ["mul", "add", "mul"]:
        raise Wrong(f"y = x * 2; y.add_(1); y * y became {names}", "['mul', 'add', 'mul']: y.add_(1) is add, and y "
                    "is its result", str(got.graph), WRITES)  # fmt: skip
    _, added, squared = got.graph.calls
    if set(squared.all_input_nodes) != {added}:
        raise Wrong(f"y * y reads {[n.name for n in squared.all_input_nodes]}", f"['{added.name}'], y after the write",
                    str(got.graph), WRITES)  # fmt: skip


def new_values_fit(answer: Answer) -> None:
    """The new value has the shape, the dtype and the order in memory of the tensor that is written."""
    buffer = numbers(6, 5)
    cases = (
        (writing.from_a_turned_one, numbers(5, 6), buffer, "a transposed tensor into a contiguous one"),
        (writing.from_a_sum, numbers(4), buffer, "a number into 6 rows of 5"),
        (writing.from_wider, numbers(6, 5).astype(np.float64), buffer, "float64 into float32"),
    )
    for function, x, target, says in cases:
        got = made(answer, function, x, target)
        if len(got.graph.outputs) != 2:
            raise Wrong(
                f"{says}: {len(got.graph.outputs)} outputs", "the result, then the new value", read=WRITES
            )
        meta, want = got.graph.outputs[-1].val, cutaway.from_numpy(target).meta
        if (meta.shape, meta.dtype, meta.strides) != (want.shape, want.dtype, want.strides):
            raise Wrong(f"{says}: the new value is {meta} with strides {meta.strides}", f"{want} with strides "
                        f"{want.strides}, as the tensor that is written", read=WRITES)  # fmt: skip


def writes_are_listed(answer: Answer) -> None:
    """`writes` has each written input once, in order; their new values come after the outputs. A temporary is none."""
    one, many = numbers(5, 3), (numbers(5, 3), numbers(5, 3, seed=1), numbers(5, 3, seed=2))
    cases = ((writing.temporary, (one,), ()), (writing.running_mean, many[:2], (1,)), (writing.exchange, many, (1, 2)),
             (writing.back_as_it_was, many[:2], (1,)))  # fmt: skip
    for function, arrays, wanted in cases:
        got = made(answer, function, *arrays)
        if got.writes != wanted:
            raise Wrong(f"{function.__name__}: writes is {got.writes}", str(wanted), str(got.graph), WRITES)


def results_have_places(answer: Answer) -> None:
    """A result that is an input is ("input", i), and is not computed. A tensor returned twice is computed once."""
    graph = made(answer, writing.several_results, numbers(3), numbers(3, seed=1), read=RESULTS)
    wanted = (("input", 1), ("output", 0), ("input", 1), ("output", 1), ("output", 0))
    if graph.results != wanted:
        raise Wrong(f"y, p, y, q, p: results is {graph.results}", str(wanted), read=RESULTS)
    if graph.num_outputs != 2:
        raise Wrong(f"y, p, y, q, p: {graph.num_outputs} outputs are computed", "2, p and q", read=RESULTS)


def outputs_are_their_own(answer: Answer) -> None:
    """No output is an input's memory, and no two results of the user are one: such a value is copied."""
    arrays = (numbers(5, 3), numbers(5, 3, seed=1), numbers(5, 3, seed=2))
    for function in (writing.exchange, writing.becomes_another, writing.same_twice):
        got = made(answer, function, *arrays, read=OUTPUTS)
        bases = [base(node) for node in got.graph.outputs]
        for node, root in zip(got.graph.outputs, bases):
            if root.op != "call_function":
                raise Wrong(f"{function.__name__}: the output {node.name} is the memory of the input {root.name}",
                            f"clone({node.name}): eager has two tensors here, and either may be written later",
                            str(got.graph), OUTPUTS)  # fmt: skip
        shared = [n.name for n, root in zip(got.graph.outputs[: got.num_outputs], bases)
                  if bases[: got.num_outputs].count(root) > 1]  # fmt: skip
        if shared:
            raise Wrong(f"{function.__name__}: two outputs are one value, {shared[0]}",
                        "a copy for the second, as in eager", str(got.graph), OUTPUTS)  # fmt: skip


def copies_are_few(answer: Answer) -> None:
    """Nothing is copied that has its own memory already."""
    arrays = (numbers(5, 3), numbers(5, 3, seed=1), numbers(5, 3, seed=2))
    for function, wanted in ((writing.temporary, 0), (writing.running_mean, 0), (writing.exchange, 2),
                             (writing.becomes_another, 1), (writing.same_twice, 1)):  # fmt: skip
        used = arrays[: function.__code__.co_argcount]
        got = made(answer, function, *used, read=OUTPUTS)
        count = sum(n.target.name == "clone" for n in got.graph.calls)
        if count != wanted:
            raise Wrong(f"{function.__name__} has {count} clones", f"{wanted}", str(got.graph), OUTPUTS)


def refused(answer: Answer) -> None:
    """What a graph of values cannot say is refused with GB0008, and never compiled wrongly."""
    for function, why in writing.REFUSED.items():
        graph = capture(function, *map(cutaway.from_numpy, (numbers(4, 4), numbers(4, 4, seed=1))))
        try:
            got = answer.functionalize(graph)
        except Unsupported as error:
            if (code := error.graph_break.code) != "GB0008":
                raise Wrong(f"{function.__name__} is refused with {code}", "GB0008", read=STORAGE) from error
            continue
        raise Wrong(f"you made a graph of {function.__name__}", f"Unsupported, with code GB0008: {why}",
                    str(got.graph), STORAGE)  # fmt: skip


def same_in_the_compiler(answer: Answer) -> None:
    """In the real compiler, results, gradients and written tensors are eager's: odd, strided, aliased, NaN, empty."""
    for program in writing.PROGRAMS:
        name = f"{program.function.__name__} ({program.says})"
        compiled = programs.compiled_with(program, functionalize=answer.functionalize)
        mark = EVENT_LOG.mark()
        got, wanted = run(compiled, program), run(program.function, program)
        for event in EVENT_LOG.since(mark):
            if event.kind in ("internal_error", "fallback", "graph_break"):
                raise Wrong(f"{name} did not run compiled: {event}", "one compiled graph", read=WRITES)
        for what, value in wanted.items():
            mine = got[what]
            if (mine is None) != (value is None) or (
                value is not None and (mine.dtype != value.dtype or not programs.same(mine, value, 1e-5))
            ):
                short = [("none" if v is None else programs.short(v)) for v in (value, mine)]
                raise Wrong(f"{name}: {what} is wrong", short[0], f"yours is {short[1]}", WRITES)


def run(function: Callable, program: Program) -> dict[str, Any]:
    """The results of a program, what is then in each argument, and the gradient of the first."""
    tensors = program.tensors(requires_grad=False)
    if not any(t is tensors[0] for t in tensors[1:]):
        tensors[0].requires_grad_(True)
    results = function(*tensors)
    found = {f"result {i}": r.detach().numpy().copy() for i, r in enumerate(results)}
    found |= {f"argument {i} afterwards": t.detach().numpy().copy() for i, t in enumerate(tensors)}
    if results[0].requires_grad:
        results[0].backward(cutaway.from_numpy(numbers(*results[0].shape, seed=9)))
        found["the gradient of argument 0"] = None if tensors[0].grad is None else tensors[0].grad.numpy()
    for result in results[1:]:  # who shares memory shows when it is written
        with cutaway.no_grad():
            result.add_(1)
    return found | {
        f"argument {i} after a write to the results": t.detach().numpy() for i, t in enumerate(tensors)
    }


def twice_written(x: Any, a: Any, b: Any) -> Any:
    y = x + a
    a.mul_(2)
    y.sub_(a)
    b.copy_(y)
    return b, y, x, a * b


def places_of_results(answer: Answer) -> Any:
    """Which inputs are written, and where each result is, for every function of this lab and one more."""
    arrays = (numbers(5, 3), numbers(5, 3, seed=1), numbers(5, 3, seed=2))
    found = []
    for function in (
        writing.temporary,
        writing.running_mean,
        writing.exchange,
        writing.becomes_another,
        twice_written,
    ):
        got = made(answer, function, *arrays[: function.__code__.co_argcount], read=RESULTS)
        shapes = [node.val.shape for node in got.graph.outputs]
        found.append((got.writes, got.results, got.num_outputs, shapes))
    return found


HIDDEN = {"the writes and the results of five functions": places_of_results}


CHECKS = (
    views_share,
    others_are_seen,
    writes_are_renamed,
    new_values_fit,
    writes_are_listed,
    results_have_places,
    outputs_are_their_own,
    copies_are_few,
    refused,
    same_in_the_compiler,
    hidden_check(__file__, HIDDEN, RESULTS),
)
