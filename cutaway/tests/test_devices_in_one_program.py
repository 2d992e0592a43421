"""Users' programs with tensors on a CPU and a GPU, and their gradients: compiled part by part, as eager computes them.

Input: random programs. There is no GPU: its arrays are of a class that refuses the host's beside them (strict_gpu.py),
and a part for it runs op by op after its inputs were checked.
"""

import random

import numpy as np
import pytest

import cutaway
from cutaway import inductor
from cutaway.artifacts import HalfArtifacts
from cutaway.targets import target_for
from stage0_eager import arrays
from stage4_runtime.runtime import launch_on_numpy
from stage_contracts.device import CPU
from tests.numpy_programs import strict_gpu

GPU = strict_gpu.GPU


@pytest.fixture
def gpu(monkeypatch):
    """The parts that were compiled for the GPU."""
    strict_gpu.install(monkeypatch)
    parts, on_cpu = [], inductor.lower_and_build

    def lower_and_build(core, device, pipeline, *rest):
        if device == CPU:
            return on_cpu(core, device, pipeline, *rest)
        parts.append(core)
        run = _checked(core, launch_on_numpy(core))
        return lambda: HalfArtifacts(core, pipeline, target_for(CPU), run=run)

    monkeypatch.setattr(inductor, "lower_and_build", lower_and_build)
    monkeypatch.setattr("cutaway.device_parts.target_for", lambda device: target_for(CPU))
    return parts


def _checked(core, run):
    def call(*given):
        for node, array in zip(core.placeholders, given, strict=True):
            seen = arrays.meta_of_array(array)
            assert (seen.device, seen.shape, seen.strides) == (
                node.val.device,
                node.val.shape,
                node.val.strides,
            ), f"{node} of {core.name}"
        return run(*given)

    return call


def drawn(seed):
    """A function of tensors on both devices, and what makes them."""
    draw = random.Random(seed)
    places = ["cpu", "cuda", *(draw.choice(("cpu", "cuda")) for _ in range(draw.randint(0, 2)))]
    steps = [(draw.choice(STEPS), draw.random(), draw.random()) for _ in range(draw.randint(2, 10))]

    def function(*given):
        values = list(given)
        for step, first, second in steps:
            a = values[int(first * len(values))]
            beside = [v for v in values if v.device == a.device]
            values.append(STEP_OF[step](a, beside[int(second * len(beside))]))
        return values[-1], sum(v.sum().to("cuda") for v in (given[0], *values[len(given) :]))

    def inputs():
        rng = np.random.default_rng(seed)
        made = [cutaway.from_numpy(rng.standard_normal((3, 4)).astype(np.float32)) for _ in places]
        return [t.to(place).requires_grad_() for t, place in zip(made, places, strict=True)]

    return function, inputs


def _other(tensor):
    return "cpu" if tensor.device == GPU else "cuda"


STEP_OF = {
    "move": lambda a, b: a.to(_other(a)),
    "move turned": lambda a, b: a.t().to(_other(a)).t(),
    "there and back": lambda a, b: a.sin().to(_other(a)).exp().to(a.device),
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "product": lambda a, b: (a @ b.t()).tanh() @ b,
    "rows": lambda a, b: a.sum(1, keepdim=True).to(_other(a)).expand(3, 4) * 0.1,
    "columns": lambda a, b: b - a.mean(0).to(_other(a)).to(b.device),
    "sin": lambda a, b: a.sin(),
}
STEPS = (*STEP_OF,)


@pytest.mark.parametrize("seed", range(30))
def test_values_and_gradients(seed, gpu, recwarn):
    function, inputs = drawn(seed)
    compiled = cutaway.compile(function, fullgraph=True)
    for _ in range(2):
        results = []
        for run in (function, compiled):
            given = inputs()
            value, loss = run(*given)
            loss.backward()
            results.append([value, loss, *(t.grad for t in given)])
        for want, got in zip(*results, strict=True):
            assert (want is None) is (got is None)
            if want is not None:
                assert got.device == want.device
                np.testing.assert_allclose(
                    got.detach().cpu().numpy(), want.detach().cpu().numpy(), rtol=2e-5, atol=2e-6
                )
    assert not [w for w in recwarn if "eagerly" in str(w.message)], [str(w.message) for w in recwarn]
