"""Which configuration of a kernel is the fastest: measured once, kept in the kernel cache, and told as an event.

Input: a unit with alternatives (stage 3 gives them where the target asks for `max_autotune`). `build` asks `chosen` for
the one that it builds. A unit whose choice is in the cache, or was made before in this process, measures nothing;
neither do kernels that are equal up to their names. The rule's configuration stays unless another is faster by GAIN.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import Any

from stage4_runtime.runtime import cache, triton_units
from stage4_runtime.runtime.triton_units import TritonKernel
from stage_contracts import events
from stage_contracts.device import Device
from stage_contracts.errors import BuildError
from stage_contracts.program import Configuration, Program, SourceUnit, Target

GAIN = 0.03  # of the rule's time: less is noise
Times = Sequence[float | None]  # in milliseconds; None: it could not be built, or did not run
# (a unit, its kernel in each configuration that could be built, None for others) -> the time of each
Timer = Callable[[SourceUnit, Sequence[TritonKernel | None]], Times]
Build = Callable[[SourceUnit], Mapping[str, Any]]

_CHOSEN: dict[str, int] = {}
# What measures the configurations of a unit, and the name of a GPU: kernel_times.py's, which runtime/__init__.py puts
# here, for that file launches kernels and so comes after `build`.
_DEVICE: list[Any] = []
_LOCK = (
    threading.RLock()
)  # the same kernel may be asked for by two threads, and a product asks for its kernels


def configurations(unit: SourceUnit) -> tuple[SourceUnit, ...]:
    """The unit in each of its configurations, the rule's first."""
    if not unit.alternatives:
        return (unit,)
    (name,) = unit.kernels
    first = replace(unit, alternatives=(), arguments=())
    return (first, *(replace(first, text=c.text, grids={name: c.grid}) for c in unit.alternatives))


def known(unit: SourceUnit) -> SourceUnit | None:
    """The configuration that was chosen before, by this process or another; None: it has to be measured."""
    if not unit.alternatives:
        return unit
    number = _known(unit.kernels[0], _key(unit), labels(unit))
    return None if number is None else configurations(unit)[number]


def _known(name: str, key: cache.Key, named: Sequence[str]) -> int | None:
    if key.digest not in _CHOSEN and cache.there(key):
        number = _read(cache.load(key), len(named))
        if number is not None:
            _CHOSEN[key.digest] = number
            _tell(name, named, number, None, 0.0)
    return _CHOSEN.get(key.digest)


def chosen(unit: SourceUnit, build: Build, timer: Timer | None = None) -> SourceUnit:
    """The fastest configuration, as a unit without alternatives. `build` builds one of them."""
    units = configurations(unit)
    if len(units) == 1:
        return unit
    measure = lambda: (timer or _DEVICE[0])(unit, _built(units, build))  # noqa: E731
    return units[choice(unit.kernels[0], _key(unit), labels(unit), measure)]


def choice(
    name: str,
    key: cache.Key,
    named: Sequence[str],
    measure: Callable[[], Times],
    pick: Callable[[Times], int] | None = None,
) -> int:
    """The number of the fastest way to run `name`: known, or else measured now. `named`: each way, for people."""
    with _LOCK:
        if (number := _known(name, key, named)) is not None:
            return number
        began = time.perf_counter()
        times = measure()
        number = _CHOSEN[key.digest] = (pick or fastest)(times)
        record = {"chosen": number, "times": [*times], "named": [*named]}
        cache.store(key, {_FILE: json.dumps(record).encode()})
        _tell(name, named, number, times, time.perf_counter() - began)
        return number


def chosen_program(program: Program) -> Program:
    """The program with the configuration of each kernel that was chosen: for what prints, saves or runs it again."""
    if not any(unit.alternatives for unit in program.units):
        return program
    units = tuple(known(unit) or configurations(unit)[0] for unit in program.units)
    grids = {name: grid for unit in units for name, grid in unit.grids.items()}
    kernels = {n: replace(k, grid=grids[n]) if n in grids else k for n, k in program.kernels.items()}
    return program.with_(units=units, kernels=kernels)


def fastest(times: Times) -> int:
    """The number of the fastest; 0, the rule's, unless another one gains enough, or the rule's failed."""
    ran = {k: t for k, t in enumerate(times) if t is not None}
    if not ran:
        return 0
    best = min(ran, key=ran.__getitem__)
    return 0 if 0 in ran and ran[best] > (1 - GAIN) * ran[0] else best


def labels(unit: SourceUnit) -> list[str]:
    """What each configuration is, for people."""
    (name,) = unit.kernels
    return [c.label for c in (Configuration(unit.text, unit.grids[name]), *unit.alternatives)]


def product_choice(
    name: str, question: str, target: Target, named: Sequence[str], measure: Callable[[], Times]
) -> int:
    """As `choice`, of programs: `question` decides which is the fastest, beside the GPU and the compiler."""
    parts = {"question": question, "ways": " | ".join(named), **_place(target)}
    return choice(name, cache.Key(f"choice {name}", parts), named, measure, _compared)


def _compared(times: Times) -> int:
    """As `fastest`, but nothing gains over a rule's program that could not be measured: it may run all the same."""
    return 0 if times[0] is None else fastest(times)


def measure_with(timer: Timer, device_name: Callable[[Device], str]) -> None:
    """From now on, kernels are measured by `timer`."""
    _DEVICE[:] = [timer, device_name]


def forget_chosen() -> None:
    """Drop this process's choices, so that the next build asks the disk cache. For tests and timings."""
    _CHOSEN.clear()


# ---- inside ----------------------------------------------------------------------------------------------


_FILE = "choice.json"


def _key(unit: SourceUnit) -> cache.Key:
    """What decides a choice: the texts without their names, what is measured, the GPU and the compiler."""
    (name,) = unit.kernels
    texts = [
        [_nameless(one.text, name), json.dumps(_nameless_grid(one.grids[name]), sort_keys=True)]
        for one in configurations(unit)
    ]
    parts = {
        "configurations": hashlib.sha256(json.dumps(texts).encode()).hexdigest(),
        "arguments": json.dumps(unit.arguments),
        **_place(unit.target),
    }
    return cache.Key(f"choice {unit.name}", parts)


def _place(target: Target) -> dict[str, str]:
    return {
        "device": f"{target.arch} {_DEVICE[1](target.device)}",
        "compiler": f"triton {triton_units.triton_version()}",
    }


def _nameless(text: str, name: str) -> str:
    """The text without comments, its function and its pointers named by their places."""
    text = re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE)
    head = re.search(rf"def {re.escape(name)}\(([^)]*)\)", text)
    words = [w.split(":")[0].strip() for w in head.group(1).split(",")] if head else []
    places = {word: f"p{k}" for k, word in enumerate(w for w in words if w)} | {name: "kernel"}
    return re.sub(r"\b\w+\b", lambda m: places.get(m.group(0), m.group(0)), text)


def _nameless_grid(grid: Mapping[str, Any]) -> dict[str, Any]:
    return {**grid, "signature": [*grid["signature"].values()], "grid": [*map(str, grid["grid"])]}


def _read(files: Mapping[str, bytes] | None, ways: int) -> int | None:
    try:
        number = int(json.loads((files or {})[_FILE])["chosen"])
    except (KeyError, ValueError, TypeError):
        return None
    return number if 0 <= number < ways else None


def _built(units: Sequence[SourceUnit], build: Build) -> list[TritonKernel | None]:
    """Each configuration's kernel; None for one that Triton refuses. The rule's has to be built."""

    def attempt(one: SourceUnit) -> TritonKernel | None:
        try:
            (kernel,) = build(one).values()
        except BuildError:
            if one is units[0]:
                raise
            return None
        return kernel

    with ThreadPoolExecutor(len(units)) as pool:
        return [f.result() for f in [pool.submit(copy_context().run, attempt, one) for one in units]]


def _tell(name: str, named: Sequence[str], number: int, times: Times | None, seconds: float) -> None:
    """An event for each choice; `times` is None where nothing was measured."""
    said = dict(zip(named, times, strict=True)) if times is not None else {}
    events.record(
        "autotune", name, chosen=named[number], measured=times is not None, times=said, seconds=seconds
    )
