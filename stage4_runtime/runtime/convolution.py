"""Convolutions on a GPU by cuDNN: which steps it can do, and a prepared call of addresses for each.

Input: a `convolution` or `convolution_weight_gradient` step whose sizes are known. A transposed convolution is the
gradient of a convolution's input. An event says which algorithm runs, or why the operator's eager kernel has to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from stage4_runtime.runtime import cudnn as library
from stage4_runtime.runtime.cudnn import HALVES, TYPES, Convolution, Cudnn, CudnnError, Handles, Prepared
from stage4_runtime.runtime.cudnn_plans import plan_of
from stage_contracts import config, events
from stage_contracts.convolution_metas import convolved_size
from stage_contracts.device import Device
from stage_contracts.loop_ir import BufferRef
from stage_contracts.memory_format import laid_out
from stage_contracts.program import External, Program
from stage_contracts.size_vars import is_open
from stage_contracts.tensor_meta import TensorMeta

ALIGNMENT = 16  # bytes: what tensor cores want of each operand's address


class Unfit(Exception):
    """A step that cuDNN does not do; the text says why."""


def convolution_call(step: External, program: Program, cp: Any) -> Callable[..., Any] | None:
    """`call(stream, *operands, result)`, all addresses; None where the operator's eager kernel has to."""
    try:
        call, makes, algorithm, why = prepared(step, program, cp)
    except (Unfit, CudnnError) as error:
        events.record("fallback", "convolution", program=program.name, reason=str(error))
        return None
    events.record("policy", "convolution", program=program.name, makes=makes, algorithm=algorithm, why=why)
    return call


def prepared(step: External, program: Program, cp: Any) -> tuple[Callable[..., Any], str, str, str]:
    """The call, what it makes, by which algorithm, and why by that. Raises Unfit, CudnnError."""
    refs = [a for a in step.args if isinstance(a, BufferRef)]
    out = program.buffers[step.outputs[0]].meta
    starts = [ref.offset * out.dtype.itemsize for ref in refs]
    of = fixed(step, [_seen(ref, program) for ref in refs], out)
    if any(is_open(at) or at % ALIGNMENT for at in starts):
        raise Unfit(f"an operand begins at byte {starts} of its buffer; cuDNN wants multiples of {ALIGNMENT}")
    call, algorithm, why = _made(of, program.device, cp)
    if any(starts):
        moved = lambda stream, a, b, made: call(stream, a + starts[0], b + starts[1], made)  # noqa: E731
        return moved, of.makes, algorithm, why
    return call, of.makes, algorithm, why


def _seen(ref: BufferRef, program: Program) -> TensorMeta:
    meta = program.buffers[ref.name].meta
    return meta if ref.shape is None else meta.with_(shape=ref.shape, strides=ref.strides)


def fixed(step: External, operands: Sequence[TensorMeta], out: TensorMeta) -> Convolution:
    """What is fixed of the step. Raises Unfit with the reason why cuDNN does not do it."""
    metas = (*operands, out)
    for reason, holds in _REASONS.items():
        if holds(step, metas):
            raise Unfit(f"{reason}: {', '.join(map(str, metas))}")
    last = not all(_lies(meta, False) for meta in metas)
    makes, (x, w, y), (stride, padding, dilation, groups) = _in_words(step, [meta.shape for meta in metas])
    windows = zip(x[2:], w[2:], stride, padding, dilation, strict=True)
    if tuple(convolved_size(*each) for each in windows) != y[2:]:
        raise Unfit(f"the result is not all of a convolution's: {', '.join(map(str, metas))}")
    return Convolution(makes, out.dtype.name, last, x, w, y, stride, padding, dilation, groups)


def _lies(meta: TensorMeta, channels_last: bool) -> bool:
    if not channels_last:
        return laid_out(meta)
    order = (0, *range(2, meta.ndim), 1)
    shape, strides = (tuple(pair[d] for d in order) for pair in (meta.shape, meta.strides))
    return meta.with_(shape=shape, strides=strides).is_contiguous


_REASONS: dict[str, Callable[[External, tuple[TensorMeta, ...]], bool]] = {
    "the step is not written as lowering writes it": lambda step, metas: len(metas) != 3 or bool(step.kwargs),
    "a size is open": lambda step, metas: any(is_open(n) for m in metas for n in (*m.shape, *m.strides)),
    "cuDNN has none in this dtype": lambda step, metas: (
        metas[-1].dtype.name not in TYPES or any(meta.dtype != metas[-1].dtype for meta in metas)
    ),
    "it is along more than three dimensions": lambda step, metas: not 3 <= metas[-1].ndim <= 5,
    "a size is zero": lambda step, metas: any(0 in meta.shape for meta in metas),
    "operands and result differ in layout": lambda step, metas: (
        not any(all(_lies(meta, last) for meta in metas) for last in (False, True))
    ),
}


def _in_words(step: External, shapes: Sequence[tuple]) -> tuple[str, tuple, tuple]:
    """(which of x, w and y it makes, their shapes, the numbers) of the convolution y = x * w that the step is about."""
    a, b, out = shapes
    if step.target == "convolution_weight_gradient":
        _, _, _, stride, padding, dilation, groups = step.args
        return "w", (a, out, b), (stride, padding, dilation, groups)
    _, _, stride, padding, dilation, transposed, _, groups = step.args
    numbers = stride, padding, dilation, groups
    return ("x", (out, b, a), numbers) if transposed else ("y", (a, b, out), numbers)


# ---- descriptors and algorithms, once for all steps that are alike ------------------------------------------------

Way = tuple[str, Callable[[Handles], Callable[..., Any]]]  # its name, and what makes the call
_MADE: dict[tuple, Way] = {}
_LOCK = threading.Lock()


def _made(of: Convolution, device: Device, cp: Any) -> tuple[Callable[..., Any], str, str]:
    found = library.cudnn()
    if found is None:
        raise Unfit("there is no cuDNN: neither libcudnn.so.9 nor the package nvidia.cudnn was found")
    runtime = config.current().runtime
    measure = runtime.cudnn_benchmark and not runtime.deterministic
    switches = runtime.deterministic, measure, runtime.cudnn_allow_tf32
    handles, key = Handles(cp, found), (device.index, of, *switches)
    with _LOCK, cp.cuda.Device(device.index):
        if key not in _MADE:
            handle, _ = handles.of(cp.cuda.get_current_stream().ptr, 0)
            _MADE[key] = _way(found, of, handle, *switches)
    name, bound = _MADE[key]
    why = "it is deterministic" if runtime.deterministic else "measured" if measure else "cuDNN's rule"
    return bound(handles), name, why


def _way(found: Cudnn, of: Convolution, handle: int, deterministic: bool, measure: bool, tf32: bool) -> Way:
    """A plan for halves. An algorithm where that is measured, and of floats, which a plan may take as TF32."""
    if of.dtype in HALVES and not measure:
        try:
            plan = plan_of(found, of, handle, deterministic)
            return plan.name, plan.bound
        except CudnnError as error:
            events.record("fallback", "cudnn_plan", reason=str(error))
    prepared = Prepared(found, of, tf32)
    choice = prepared.choose(handle, deterministic, measure)
    return choice.name, partial(prepared.bound, choice)
