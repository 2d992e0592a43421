"""One random tensor program, compiled against eager: everything a user could see of a call and of its backward.

Input: a program of grammar.py and how to compile it. What eager's backward rejects and compiled code need not is named
in `LENIENT`.
"""

from __future__ import annotations

import contextlib
import linecache
import re
from collections import Counter
from collections.abc import Callable, Container, Iterator
from functools import partial
from typing import Any

import numpy as np

import cutaway
from cutaway.artifacts import Artifacts
from cutaway.backends import BACKENDS
from stage0_eager.state import interpreting
from stage0_eager.transforms.trace import Tracer
from stage_contracts import events
from stage_contracts.breaks import Unsupported
from stage_contracts.graph import Graph
from stage_contracts.layouts import is_dense
from tests.tensor_programs.grammar import NAMES, TensorProgram
from tests.tensor_programs.rounding import RUNS, Observed, Roundings, a_step_away, unexplained
from tests.tensor_programs.unread import Anything, unchecked

# How a seed is compiled: by turns.
WAYS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("aot_eager", {"autograd.partitioner": "min_cut"}),
    ("aot_eager", {"autograd.partitioner": "save_everything"}),
    ("aot_eager", {"autograd.partitioner": "recompute_pointwise"}),
    ("aot_eager", {"autograd.activation_memory_budget": 0.0}),
)
# Without capture, so that nothing breaks a graph: functionalize sees every write to every input.
STAGE_2 = ("stage 2", {})
# What a Tracer does not record: modes, the tape, another shape for the same tensor.
ONLY_CAPTURED = re.compile(
    r"grad_enabled|no_grad|enable_grad|inference_mode|autograd|\.data\b"
    r"|(squeeze|transpose|\bt|swapaxes|as_strided|detach|requires_grad|resize|set)_\("
)
VERIFIED = ("aot_eager", {"autograd.verify_passes": True})
INDUCTOR = ("inductor", {"autograd.partitioner": "min_cut"})
# Writing to what an earlier operator saved: functional values are never overwritten, so the compiled gradient exists.
# In the other direction: the backward recomputes from an input, where eager had saved something else.
LENIENT = "modified by an inplace operation"
# The same through `x.data`, which eager does not notice: its gradient then is wrong, and the compiled one is not.
UNNOTICED = re.compile(r"\.data\b")
# A compiled pair is one node of the tape: a backward outside of it, through a part, frees what all of it saved.
SPENT = "Trying to backward through the graph a second time"
# Likewise what the graph before a break computed inside: its results do not depend on one another, to the tape.
APART = "appears to not have been used in the graph"
# Reading an element that is not there. Where nobody uses what was read, the compiled call goes on, perhaps to another
# error, as eager does where anything may lie there (unread.py); elsewhere error and writes are eager's.
UNREAD = "out of bounds"
# Which of them a BLAS rounds by the layout of its operands: what was written has none of the gaps of the user's memory.
ROUNDED = re.compile(r"@|matmul|linear|einsum|addmm|outer")


class Differs(AssertionError):
    """Compiled is not eager; what differs."""


def functions_of(program: TensorProgram, known: dict[str, Any] = NAMES) -> dict[str, Any]:
    source = program.source()
    name = f"<tensor program {hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names = dict(known)
    exec(compile(source, name, "exec"), names)
    return names


def check(program: TensorProgram, way: tuple[str, dict[str, Any]] = WAYS[0]) -> Counter:
    """Three calls, the last under no_grad. Raises Differs. Returns how many graph breaks and fallbacks to eager there
    were, by reason too, and whether eager raised."""
    names = functions_of(program)
    backend, options = way
    function = names["program"]
    straight = backend == "stage 2"
    compiled = traced(function) if straight else cutaway.compile(function, backend=backend, options=options)
    mark, refused, rounded = events.EVENT_LOG.mark(), False, 0
    again = "other" if program.other else "inputs"
    for mode, inputs in (
        (contextlib.nullcontext, "inputs"),
        (contextlib.nullcontext, again),
        (cutaway.no_grad, "inputs"),
    ):
        expected = observe(names, function, program, mode, inputs)
        refused |= mode is contextlib.nullcontext and "error" in dict(expected)
        got = observe(names, compiled, program, mode, inputs)
        if UNREAD in error_in(expected) and error_in(got) != error_in(expected):
            expected = unread(got, expected, names, function, program, mode, inputs)
        if straight:  # who is whom (x.float() may be x) is for capture to say
            got, expected = ([(w, v) for w, v in seen if "same object" not in w] for seen in (got, expected))
        since = events.EVENT_LOG.since(mark)
        seen = Counter(e.kind for e in since)
        if seen["internal_error"]:
            raise Differs(f"internal error: {next(e for e in since if e.kind == 'internal_error')}")
        body = "".join(program.body)
        late = dict(got).get("error", ("", ""))[1]
        if seen["graph_break"] and "autograd.grad" in body and (SPENT in late or APART in late):
            continue
        if UNNOTICED.search(body):
            got, expected = ([(w, v) for w, v in all_ if "gradient" not in w] for all_ in (got, expected))
        unused = len(program.used) < len(program.results) or seen["graph_break"] > 0
        close = backend == "inductor" or (ROUNDED.search(body) is not None and gaps(names[inputs]()[0]))
        runs = partial(roundings, {w for w, _ in expected}, names, function, program, mode, inputs)
        rounded += compare(got, expected, close, unused, runs)
    why = Counter(f"break {e.name}" for e in since if e.kind == "graph_break")
    why += Counter(f"eagerly: {e.details['reason']}" for e in since if e.kind == "fallback")
    return (
        Counter(breaks=seen["graph_break"], fallbacks=seen["fallback"], refused=refused, rounded=rounded)
        + why
    )


def gaps(inputs: list) -> bool:
    return not all(is_dense(t.shape, t.stride()) for t in inputs)


def traced(function: Callable) -> Callable:
    """`function` through stage 2 alone, of the graph that a Tracer records; as it is where that cannot be."""

    def call(*tensors: Any) -> list:
        graph = Graph()
        tracer = Tracer(graph, keep=lambda op: True)
        inputs = [tracer.placeholder(name, t.meta) for name, t in zip("xyz", tensors, strict=False)]
        try:
            with cutaway.no_grad(), interpreting(tracer):
                results = function(*inputs)
            distinct = list({id(t): t for t in results}.values())  # as capture gives each result once
            graph.output([tracer.node_of(t) for t in distinct])
        except Exception as error:  # a program that only capture can follow, or that eager rejects
            events.record("fallback", "eager", reason=str(error))
            return function(*tensors)
        artifacts = Artifacts(function.__name__, None, graph, pipeline=cutaway.DEFAULT_PIPELINE)  # type: ignore[arg-type]
        try:
            run = BACKENDS["aot_eager"].compile(graph, list(tensors), cutaway.default_pipeline(), artifacts)
        except Unsupported as refusal:
            events.record("fallback", "eager", reason=str(refusal))
            return function(*tensors)
        made = dict(zip(map(id, distinct), run(*tensors), strict=True))
        return [made[id(t)] for t in results]

    return call


# ---- what is seen ---------------------------------------------------------------------------------------------


def observe(
    names: dict,
    function: Callable,
    program: TensorProgram,
    mode: Callable,
    made_by: str = "inputs",
    interpreter: Any = None,
) -> Observed:
    """(what it is, its value) of one call, in the order that things happen; it ends at the first error."""
    seen: Observed = []
    cutaway.manual_seed(7)
    inputs, leaves = names[made_by]()
    with np.errstate(all="ignore"), interpreting(interpreter):
        try:
            with mode():
                results = function(*inputs)
            seen += described("", inputs, results)
            results = names["after"](list(results))
            seen += described("afterwards: ", inputs, results)
            total = loss(results, program.used)
            if total is None:
                return seen
            for turn in range(program.backwards):
                total.backward(retain_graph=turn + 1 < program.backwards)
                seen += [(f"gradient of leaf {i}", gradient(t)) for i, t in enumerate(leaves)]
                made = [(i, t) for i, t in enumerate(results) if t.requires_grad and t.is_leaf]
                seen += [(f"gradient of result {i}", gradient(t)) for i, t in made]
            again = caught(lambda: total.backward())
            seen.append(("one backward too many", again))
        except Exception as error:
            seen.append(("error", (type(error).__name__, str(error))))
            seen.append(("the grad mode after the error", cutaway.is_grad_enabled()))
            cutaway.set_grad_enabled(True)
            seen += [(f"argument {i} after the error", bits(t)) for i, t in enumerate(inputs)]
            seen += [(f"gradient {i} after the error", gradient(t)) for i, t in enumerate(leaves)]
    return seen


def roundings(labels: Container[str], *call: Any) -> Iterator[Observed]:
    """What is seen of eager's call (the arguments of `observe`) under one other rounding after the other."""
    for seed in range(RUNS):
        yield [(w, v) for w, v in observe(*call, interpreter=Roundings(seed)) if w in labels]


def error_in(seen: Observed) -> str:
    return dict(seen).get("error", ("", ""))[1]


def unread(got: Observed, expected: Observed, *call: Any) -> Observed:
    """What eager shows where it goes on past an index outside; raises Differs where what was read is used."""
    with unchecked():
        one, other = (observe(*call, interpreter=Anything(seed)) for seed in (1, 2))
    same = [w for w, _ in one] == [w for w, _ in other] and all(
        alike(a, b) if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) else a == b
        for (_, a), (_, b) in zip(one, other, strict=True)
    )
    if not same:
        raise Differs(difference("an index outside", error_in(got), error_in(expected)))
    return one


def caught(call: Callable) -> tuple[str, str] | None:
    try:
        call()
    except RuntimeError as error:
        return type(error).__name__, str(error)
    return None


def loss(results: list, used: tuple[int, ...]) -> Any:
    """A weighted sum of the results that are used and require grad, or None."""
    total = None
    for i in used:
        r = results[i]
        if r.requires_grad:
            weight = np.random.default_rng(90 + i).normal(size=r.shape)
            part = (r.double() * cutaway.tensor(weight)).sum()
            total = part if total is None else total + part
    return total


def described(when: str, inputs: list, results: list) -> list[tuple[str, Any]]:
    """Values, layouts, autograd's marks, counters, who is whom and who shares memory with whom."""
    everything = [*inputs, *results]
    labels = [f"{when}argument {i}" for i in range(len(inputs))] + [
        f"{when}result {i}" for i in range(len(results))
    ]
    seen: list[tuple[str, Any]] = []
    # what is computed from memory with gaps is laid out as if there were none, once that has been written
    dense = all(is_dense(t.shape, t.stride()) for t in inputs)
    for label, t in zip(labels, everything, strict=True):
        seen.append((label, bits(t)))
        if dense:
            # no element is found by the stride of a dimension of one
            steps = tuple(step for step, size in zip(t.stride(), t.shape, strict=True) if size != 1)
            seen.append((f"{label}: strides", steps))
        seen.append((f"{label}: version", None if t.is_inference() else t.version))
        made = t.grad_fn is None  # asked first: it brings a view up to date with a write to its base
        tape = t.requires_grad, t.is_leaf, made
        seen.append((f"{label}: requires_grad, is_leaf, no grad_fn", tape))
    seen.append((f"{when}the same object", [[a is b for b in everything] for a in everything]))
    seen.append((f"{when}shared memory", [[shares(a, b) for b in everything] for a in everything]))
    return seen


def shares(a: Any, b: Any) -> bool:
    return bool(np.shares_memory(a._data, b._data))


def bits(t: Any) -> np.ndarray:
    return np.array(t._data)


def gradient(t: Any) -> np.ndarray | None:
    return None if t.grad is None else bits(t.grad)


# ---- what is compared -----------------------------------------------------------------------------------------


def compare(
    got: Observed,
    expected: Observed,
    close: bool,
    unused: bool,
    runs: Callable[[], Iterator[Observed]] = lambda: iter(()),
) -> bool:
    """Raises Differs. Returns whether `runs` had to say how far rounding goes.

    close: values may differ by rounding, as kernels' do, and as gradients do, whose sums are taken in another order:
        by a step of it, and further as far as eager's own `runs` under other roundings are apart.
    unused: the loss does not read every result, or a graph's results go on to the code after a break. A compiled pair
        is one tape node, whose other results get a gradient of zeros: then None is zeros, and what has no finite
        slope gives NaN (as in torch).
    """
    late = {
        text for what, (_, text) in ((w, v) for w, v in (*got, *expected) if w == "error") if LENIENT in text
    }
    doubts: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for place, ((what, a), (label, b)) in enumerate(zip(got, expected, strict=False)):
        if what != label:
            if late:
                break
            raise Differs(f"{what}: {shown(a)}, in eager {label}: {shown(b)}")
        b = as_promised(what, a, b, unused)
        if "gradient" in what and (a is None) != (b is None):
            same = not np.nan_to_num(a if b is None else b).any()  # what was overwritten: zeros, or nothing
        elif isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            same = alike(a, b)
            if not same and (close or "gradient" in what) and (a.dtype, a.shape) == (b.dtype, b.shape):
                same = a_step_away(a, b)
                if not same:
                    doubts[place], same = (a, b), True
        else:
            same = type(a) is type(b) and a == b
        if not same and not (late and what == "error"):
            raise Differs(difference(what, a, b))
    else:
        if len(got) != len(expected) and not late:
            raise Differs(f"{len(got)} observations, in eager {len(expected)}")
    if doubts:
        values = (
            {
                i: as_promised(w, got[i][1], v, unused)
                for i, (w, v) in enumerate(run)
                if i in doubts and w == got[i][0]
            }
            for run in runs()
        )
        wrong = unexplained(doubts, values)
        if wrong is not None:
            raise Differs(difference(got[wrong][0], *doubts[wrong]))
    return bool(doubts)


def as_promised(what: str, a: Any, b: Any, unused: bool) -> Any:
    """Eager's value, or what stands for it where a result is unused."""
    if unused and "gradient" in what and isinstance(a, np.ndarray):
        return np.where(np.isnan(a), a, np.zeros_like(a) if b is None else b).astype(a.dtype)
    return b


def difference(what: str, a: Any, b: Any) -> str:
    return f"{what}\n  got      {shown(a)}\n  expected {shown(b)}"


def alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Bit for bit, but for the bits of NaN."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.tobytes() == b.tobytes():
        return True
    if a.dtype.kind in "biu":
        return False
    x, y = a.astype(np.float64), b.astype(np.float64)
    return bool(np.array_equal(x, y, equal_nan=True) and (np.signbit(x) == np.signbit(y))[x == 0].all())


def shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)} {np.array2string(value, threshold=12, max_line_width=10**6)}".replace(
            "\n", ""
        )
    return repr(value)
