"""What lab 15 asks of CUDA graphs: one call for many kernels, right addresses, safe results, nothing done twice.

Input: the learner's functions, on the simulated GPU, which counts launches, copies, replays and the CPU's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..answer import Answer
from ..checks import Wrong
from ..hidden import hidden_check
from ..programs import numbers, short
from .device import CaptureError, Device, Program, Step, run_eagerly

SEGMENTS, RECORD, REPLAY = "page.md#what-cannot-be-recorded", "page.md#recording", "page.md#replaying"
STATIC, KINDS = "page.md#static-inputs", "page.md#one-recording-for-each-kind"

LAYERS = Program(
    (Step("matmul", "h", ("x", "w")), Step("relu", "a", ("h",)), Step("double", "b", ("a",)),
     Step("add", "y", ("b", "h"))),
    ("x", "w"), ("y",),
)  # fmt: skip
HOST = Program(
    (Step("double", "a", ("x",)), Step("relu", "b", ("a",)), Step("sum", "s", ("b",), on_host=True),
     Step("mul", "c", ("b", "s")), Step("add", "y", ("c", "x"))),
    ("x",), ("y",),
)  # fmt: skip
COUNTER = Program(
    (Step("add", "n", ("n", "one")), Step("mul", "y", ("n", "x")), Step("relu", "z", ("y",))),
    ("x", "n", "one"), ("y", "z"),
)  # fmt: skip
X = numbers(3, 4)
ARRAYS = {
    LAYERS: (X, numbers(4, 4, seed=1)),
    HOST: (X,),
    COUNTER: (X, np.ones((3, 4), np.float32), np.ones((3, 4), np.float32)),
}


def eager(program: Program, arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The results, and the inputs afterwards."""
    device = Device()
    buffers = [device.alloc(a) for a in arrays]
    results = run_eagerly(device, program, dict(zip(program.inputs, buffers, strict=True)))
    return [r.array for r in results], [b.array for b in buffers]


def compare(what: str, got: Sequence[np.ndarray], want: Sequence[np.ndarray], read: str) -> None:
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.shape != b.shape or not np.array_equal(a, b, equal_nan=True):
            raise Wrong(f"{what} {k} is {short(a)}", short(b), read=read)


def host_steps_are_apart(answer: Answer) -> None:
    """`segments` keeps the order, puts each host step alone, and all other steps between two of them together."""
    g, h = Step("relu", "a", ("a",)), Step("relu", "a", ("a",), on_host=True)
    for steps, want in (
        ([g, g], [2]), ([g, h, g, g], [1, 1, 2]), ([h, h, g], [1, 1, 1]), ([g, g, h], [2, 1]), ([], []), ([h], [1]),
    ):  # fmt: skip
        got = answer.segments(steps)
        if [s for group in got for s in group] != steps or [len(group) for group in got] != want:
            text = "".join("h" if s.on_host else "g" for s in steps)
            raise Wrong(f"{text}: groups of {[len(group) for group in got]}", f"{want}", read=SEGMENTS)


def recording_works(answer: Answer) -> None:
    """`record` launches every kernel once before it records, and records every step that is not on the host."""
    for program, arrays in ARRAYS.items():
        device = Device()
        buffers = {n: device.alloc(a) for n, a in zip(program.inputs, arrays, strict=True)}
        try:
            made = answer.record(device, program, buffers, ())
        except CaptureError as error:
            raise Wrong(f"the device says: {error}", "a recording", read=RECORD) from error
        if device.recording is not None:
            raise Wrong("the device still records", "`end()` after `begin()`", read=RECORD)
        count = sum(len(part) if isinstance(part, list) else 1 for part in made.parts)
        if count != len(program.steps):
            raise Wrong(f"{count} of {len(program.steps)} steps are in the recording", "all", read=RECORD)
        if any(buffer is made.buffers[name] for name, buffer in buffers.items()):
            raise Wrong("the recording uses the user's own memory, which may be gone at the next call",
                        "memory of its own, except for static inputs", read=RECORD)  # fmt: skip
        compare("while recording, input", [b.array for b in buffers.values()], arrays, RECORD)


def each_call_is_eagers(answer: Answer) -> None:
    """Called with new inputs, at other addresses, the results and the written inputs are eager's. NaN and empty too."""
    special = np.array([[np.nan, np.inf, -0.0, 1e-40]] * 3, np.float32)
    for program, arrays in ARRAYS.items():
        device = Device()
        run = answer.graphed(device, program)
        for first in (X, X + 1, special, X[::-1], X[:0], X):
            if first.shape != X.shape and program is COUNTER:
                continue
            given = (first, *arrays[1:])
            want, after = eager(program, given)
            buffers = [device.alloc(a) for a in given]
            results = run(*buffers)
            compare(f"{program.outputs}: result", [r.array for r in results], want, REPLAY)
            compare(f"{program.inputs} afterwards: input", [b.array for b in buffers], after, REPLAY)


def results_stay(answer: Answer) -> None:
    """A result that the user still has is not changed by the next call."""
    device = Device()
    run = answer.graphed(device, LAYERS)
    weights = device.alloc(ARRAYS[LAYERS][1])
    (first,) = run(device.alloc(X), weights)
    before = first.array.copy()
    (second,) = run(device.alloc(X + 5), weights)
    if first is second or not np.array_equal(first.array, before):
        raise Wrong("after the second call, the result of the first has changed", "it stays: copy results out of the "
                    "recording's memory", read=REPLAY)  # fmt: skip


def calls_are_few(answer: Answer) -> None:
    """A call costs one replay for each part, one copy for each input that moves and one for each result; no launch."""
    for program, replays, hosts, copies in ((LAYERS, 1, 0, 3), (HOST, 2, 1, 2), (COUNTER, 1, 0, 6)):
        device = Device()
        run = answer.graphed(device, program)
        given = [device.alloc(a) for a in ARRAYS[program]]
        run(*given)
        before = (device.launches, device.replays, device.host_steps, device.copies)
        run(*given)
        got = [
            now - b
            for now, b in zip((device.launches, device.replays, device.host_steps, device.copies), before)
        ]
        want = [0, replays, hosts, copies]
        if got != want:
            names = ("launches", "replays", "host steps", "copies")
            shown = [
                ", ".join(f"{v} {n}" for v, n in zip(values, names, strict=True)) for values in (got, want)
            ]
            raise Wrong(
                f"the second call of {program.inputs} -> {program.outputs} has {shown[0]}",
                shown[1],
                read=REPLAY,
            )


def static_inputs_are_not_copied(answer: Answer) -> None:
    """A static input is read where it is: new values are seen, nothing is copied, another address is recorded anew."""
    device = Device()
    run = answer.graphed(device, LAYERS, ("w",))
    x, w = (device.alloc(a) for a in ARRAYS[LAYERS])
    run(x, w)
    copies = device.copies
    w.array *= 3  # an optimizer's step
    (result,) = run(x, w)
    if device.copies - copies != 2:
        raise Wrong(
            f"a call with a static weight made {device.copies - copies} copies",
            "2: x, and the result",
            read=STATIC,
        )
    compare(
        "after the weight has changed, result", [result.array], eager(LAYERS, (x.array, w.array))[0], STATIC
    )
    moved = device.alloc(numbers(4, 4, seed=9))
    (result,) = run(x, moved)
    compare(
        "with a weight at another address, result", [result.array], eager(LAYERS, (X, moved.array))[0], STATIC
    )
    device = Device()
    run = answer.graphed(device, COUNTER, ("n",))
    given = [device.alloc(a) for a in ARRAYS[COUNTER]]
    for count in (2, 3, 4):
        run(*given)
        if not np.all(given[1].array == count):
            raise Wrong(f"a static counter that began at 1 is {given[1].array.flat[0]:g} after {count - 1} calls",
                        f"{count}: the warm-up must not count", read=STATIC)  # fmt: skip


def few_recordings(answer: Answer) -> None:
    """Each kind of inputs has its own recording, used again; after LIMIT of them, other kinds run eagerly."""
    device = Device()
    run = answer.graphed(device, HOST)
    limit = answer.module.LIMIT
    for round_ in (1, 2):
        for rows in range(1, limit + 4):
            before = device.replays
            (result,) = run(device.alloc(X[:1].repeat(rows, 0)))
            compare(f"{rows} rows: result", [result.array], eager(HOST, (X[:1].repeat(rows, 0),))[0], KINDS)
            replays, want = device.replays - before, 2 if rows <= limit else 0
            if replays != want:
                raise Wrong(f"round {round_}, shape number {rows}: {replays} replays", f"{want}: there are at most "
                            f"{limit} recordings", read=KINDS)  # fmt: skip
    launches = device.launches
    run(device.alloc(X[:1]))
    if device.launches != launches:
        raise Wrong("a shape that was recorded is recorded again", "its recording is used", read=KINDS)


def random_steps(seed: int) -> list[Step]:
    random = np.random.default_rng(seed)
    return [
        Step("relu", "a", ("a",), on_host=bool(random.random() < 0.3)) for _ in range(random.integers(0, 12))
    ]


def costs(answer: Answer) -> Any:
    """The CPU's time of five calls of each program."""
    found = []
    for program, arrays in ARRAYS.items():
        for static in ((), program.inputs[1:2]):
            device = Device()
            run = answer.graphed(device, program, static)
            given = [device.alloc(a) for a in arrays]
            run(*given)
            before = device.cpu_time
            for _ in range(5):
                run(*given)
            found.append(device.cpu_time - before)
    return found


HIDDEN = {
    "groups of 40 random programs": lambda answer: [
        [len(g) for g in answer.segments(random_steps(s))] for s in range(40)
    ],
    "the CPU's time of five calls": costs,
}

CHECKS = (
    host_steps_are_apart,
    recording_works,
    each_call_is_eagers,
    results_stay,
    calls_are_few,
    static_inputs_are_not_copied,
    few_recordings,
    hidden_check(__file__, HIDDEN, REPLAY),
)
