"""The run-time wrapper: makes compiled forward and backward, functions of arrays, one step on the eager tape.

Input: functions of arrays (NumPy or CuPy) for the two halves, and the graphs that they were made from. Residual code
calls the result with tensors. Everything that is known before the first call is computed here once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stage0_eager import arrays as array_library
from stage0_eager.autograd.tape import Edge
from stage0_eager.random.generator import default_generator
from stage0_eager.state import STATE
from stage0_eager.tensor import Tensor, up_to_date
from stage2_autograd.runtime.compiled_backward import CompiledBackward, SavingPlan, saving_plan
from stage2_autograd.runtime.input_checks import input_checks
from stage2_autograd.runtime.write_back import Written, as_they_are, donated, finisher
from stage_contracts.device import CPU, Device
from stage_contracts.graph import meta_of
from stage_contracts.joint import FunctionalGraph, JointGraph, Partition

# (error, operands, number of random draws, a function for the rest of the work) -> the results
Recover = Callable[..., tuple]


def raise_it(error: Exception, operands: Sequence[Any], drawn: int = 0, rest: Any = None) -> tuple:
    raise error


@dataclass(frozen=True)
class CallPlan:
    """What a call reads of the graphs, found once: with it, and the fields of the FunctionalGraph, a call needs none of
    the graphs.

    rng_device: the device of the random state. wanted: the inputs that get a gradient. saving: None for inference.
    """

    rng_device: Device = CPU
    wanted: tuple[int, ...] = ()
    saving: SavingPlan | None = None


def call_plan(
    functional: FunctionalGraph, joint: JointGraph | None = None, partition: Partition | None = None
) -> CallPlan:
    """The plan for the graphs of a forward and a backward or, without `joint` and `partition`, for inference."""
    device = meta_of(functional.graph.placeholders[-1]).device if functional.rng_calls else CPU
    if joint is None or partition is None or not joint.tangent_outputs:
        return CallPlan(device)
    wanted = tuple(i for i, g in enumerate(partition.backward.outputs) if g is not None)
    return CallPlan(device, wanted, saving_plan(partition, joint, functional))


def make_runtime_wrapper(
    functional: FunctionalGraph,
    forward: Callable[..., tuple],
    backward: Callable[..., tuple] | None = None,
    joint: JointGraph | None = None,
    partition: Partition | None = None,
    recover: tuple[Recover, Recover] = (raise_it, raise_it),
) -> Callable[..., tuple]:
    """`planned_wrapper` for these graphs; for inference without `backward`, `joint` and `partition`."""
    return planned_wrapper(functional, call_plan(functional, joint, partition), forward, backward, recover)


def planned_wrapper(
    functional: FunctionalGraph,
    plan: CallPlan,
    forward: Callable[..., tuple],
    backward: Callable[..., tuple] | None = None,
    recover: tuple[Recover, Recover] = (raise_it, raise_it),
) -> Callable[..., tuple]:
    """Make a callable: the graph's input tensors -> the tuple of the user's result tensors.

    forward: arrays of the inputs (then the random state, int64[2], if the graph has one) to arrays: outputs,
        written inputs, saved values.
    backward: arrays of the saved values and the tangents to one array (or None) per input. None for inference.
    recover: what to do if the forward or its write-back raises, and if the backward does. At that point, only `drawn`
        random draws have happened; or memory was written, and `rest` does the rest of the work.
    The callable raises RuntimeError, with eager's messages, for calls that eager rejects.
    """
    inference = _without_tape(functional, plan, forward, recover[0])
    if backward is None or plan.saving is None:
        return inference
    return _on_tape(functional, plan, plan.saving, forward, backward, recover, inference)


def _without_tape(
    functional: FunctionalGraph, plan: CallPlan, forward: Callable[..., tuple], recover: Recover
) -> Callable[..., tuple]:
    """A call that records nothing."""
    count = functional.num_outputs
    checks, finish = input_checks(functional), finisher(functional)
    draws, draw = functional.rng_calls, _random_state(functional.rng_calls, plan.rng_device)

    # the usual inference: only the call
    if not checks and not draws and finish is as_they_are:

        def call(*tensors: Tensor) -> tuple[Tensor, ...]:
            try:
                return tuple([Tensor(a) for a in forward(*[t._data for t in tensors])[:count]])
            except Exception as error:
                return recover(error, tensors)

        return call

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        drawn, made = 0, ()  # type: int, tuple
        try:
            for check in checks:
                check(tensors)
            state = draw()
            drawn = draws
            made = forward(*[t._data for t in tensors], *state)
            return finish(tensors, made, [Tensor(a) for a in made[:count]])
        except Written as written:
            return recover(written.cause, tensors, drawn, written.rest)
        except Exception as error:
            if not donated(functional, tensors, made):
                return recover(error, tensors, drawn)

            def rest() -> tuple:
                return finish(tensors, made, [Tensor(a) for a in made[:count]])

            return recover(error, tensors, drawn, rest)

    return run


def _on_tape(
    functional: FunctionalGraph,
    plan: CallPlan,
    saving: SavingPlan,
    forward: Callable[..., tuple],
    backward: Callable[..., tuple],
    recover: tuple[Recover, Recover],
    inference: Callable[..., tuple],
) -> Callable[..., tuple]:
    """A call that is one node on the tape, if gradients are on and an input requires grad; otherwise `inference`."""
    count = functional.num_outputs + len(functional.writes)
    checks, finish = (*input_checks(functional), _bring_views_up_to_date), finisher(functional)
    draws, draw = functional.rng_calls, _random_state(functional.rng_calls, plan.rng_device)
    counts = any(functional.versions) or bool(functional.writes)
    wanted = plan.wanted
    recover_forward, recover_backward = recover

    def run_on_tape(*tensors: Tensor) -> tuple[Tensor, ...]:
        if not STATE.grad_enabled or not any(tensors[i].requires_grad for i in wanted):
            return inference(*tensors)
        drawn = 0
        try:
            for check in checks:
                check(tensors)
            state = draw()
            drawn = draws
            made = forward(*[t._data for t in tensors], *state)
            outputs = [Tensor(a) for a in made[:count]]
            edges = [Edge(tensors[i], position=i) for i in wanted if tensors[i].requires_grad]
            layouts = saving.layouts_of(tensors, outputs)
            node = CompiledBackward(backward, layouts, edges, saving.out_metas(outputs), recover_backward)
            node.saved = saving.save(tensors, outputs, made)
            for index, i in enumerate(saving.tangent_outputs):
                out = outputs[i]
                out._requires_grad, out._grad_fn, out._output_index = True, node, index
            if not counts:
                return finish(tensors, made, outputs)
            # the backward expects the versions after the function's own writes
            return finish(tensors, made, outputs, node.expect_versions_of_now)
        except Written as written:
            return recover_forward(written.cause, tensors, drawn, written.rest)
        except Exception as error:
            return recover_forward(error, tensors, drawn)

    return run_on_tape


# ---- before the forward -------------------------------------------------------------------------------------


def _bring_views_up_to_date(tensors: Sequence[Tensor]) -> None:
    for t in tensors:
        if t._view is not None:  # another view may have written to its base, on the tape
            up_to_date(t)


def _random_state(calls: int, device: Device) -> Callable[[], tuple]:
    """A function that returns the forward's last argument for one call: nothing, or (seed, counter). It advances the
    generator by the draws of the call. If it raises, the generator is not advanced."""
    if not calls:
        return tuple
    generator = default_generator()

    def draw() -> tuple:
        state = generator.advance(calls)
        try:
            return (array_library.move(np.array(state, np.int64), device),)
        except Exception:
            generator.advance(-calls)
            raise

    return draw
