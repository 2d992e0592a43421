"""Plans of cuDNN without a GPU: their descriptors and packs, read by a stand-in that computes what they say.

Input: the steps of test_stage4_cudnn.py in half precision. The oracle is the operator's eager kernel.
"""

import gc
import itertools

import numpy as np
import pytest

from stage4_runtime.runtime import cudnn_plans
from stage4_runtime.tests.fake_cudnn import NOT_SUPPORTED
from stage4_runtime.tests.fake_cudnn_plans import FakePlans
from stage4_runtime.tests.fake_cupy import array
from stage4_runtime.tests.test_stage4_cudnn import CASES, gpu, program_of, ready, run_as_eager, step_of  # noqa: F401
from stage_contracts import config, events
from stage_contracts.errors import DeviceError

HALVES = ("bfloat16", "float16")


@pytest.mark.parametrize("makes", "xwy")
@pytest.mark.parametrize("name", CASES)
def test_the_plan_means_what_eager_computes(name, makes, gpu):  # noqa: F811
    for dtype, last in itertools.product(HALVES, (False, True)):
        library = FakePlans()
        gpu(library)
        run_as_eager(name, makes, dtype, last)
        assert len(library.executed) == 1 and not library.calls


ENGINES = (  # refused, too much memory, Winograd, atomic, then two that fit
    (NOT_SUPPORTED, 0, (0,)),
    (0, 1 << 40, (0,)),
    (0, 0, (0, 5)),
    (0, 0, (0, 4)),
    (0, 100, (0,)),
    (0, 0, ()),
)


@pytest.mark.parametrize(
    ("engines", "switches", "wanted"),
    [
        (ENGINES, {}, 4),
        (ENGINES[:4], {}, 3),
        (ENGINES[:4], {"deterministic": True}, None),
        (ENGINES[:3], {}, None),
        (ENGINES, {"cudnn_benchmark": True}, None),
    ],
)
def test_which_plan_runs(engines, switches, wanted, gpu):  # noqa: F811
    """None: an algorithm, and an event says why, unless it is to be measured."""
    library = FakePlans(engines)
    gpu(library)
    step, arrays, want = step_of("w", CASES["plain"], "bfloat16", True)
    before = events.EVENT_LOG.mark()
    with config.patch({f"runtime.{name}": value for name, value in switches.items()}):
        run = ready(program_of(step, arrays, want, True))
    run(*arrays)
    assert [configuration for _, configuration, _ in library.executed] == ([] if wanted is None else [wanted])
    assert len(library.calls) == (wanted is None)
    told = [e for e in events.EVENT_LOG.since(before, "fallback") if e.name == "cudnn_plan"]
    assert len(told) == (wanted is None and "cudnn_benchmark" not in switches)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_have_no_plan_for_it_might_be_tf32(dtype, gpu):  # noqa: F811
    library = FakePlans()
    gpu(library)
    step, arrays, want = step_of("y", CASES["plain"], dtype, False)
    ready(program_of(step, arrays, want, False))(*arrays)
    assert not library.executed and len(library.calls) == 1


def test_packs_of_the_same_addresses_are_kept_and_others_destroyed(gpu):  # noqa: F811
    library = FakePlans()
    gpu(library)
    step, arrays, want = step_of("y", CASES["plain"], "bfloat16", True)
    run = ready(program_of(step, arrays, want, True))
    kept = [run(*arrays) for _ in range(3)]  # results of their own: three packs
    assert library.packs == 3
    del kept
    for _ in range(20):
        other = [array(np.asarray(a), a.dtype).transpose(0, 1, 2, 3) for a in arrays[1:]]
        run(arrays[0], *[_like(o, a) for o, a in zip(other, arrays[1:], strict=True)])
    gc.collect()
    assert library.packs <= cudnn_plans.PACKS + 1 and len(library.executed) == 23


def _like(values, other):
    """A copy with the strides of `other`."""
    order = sorted(range(other.ndim), key=lambda d: -other.strides[d])
    return array(values.transpose(order), other.dtype).transpose(np.argsort(order))


def test_a_refused_run_is_an_error_of_the_device(gpu):  # noqa: F811
    library = FakePlans()
    gpu(library)
    step, arrays, want = step_of("y", CASES["plain"], "bfloat16", True)
    library.cudnnBackendExecute = lambda *args: NOT_SUPPORTED
    run = ready(program_of(step, arrays, want, True))
    with pytest.raises(DeviceError, match="cuDNN's plan for .*CUDNN_STATUS_NOT_SUPPORTED"):
        run(*arrays)
