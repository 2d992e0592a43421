"""The first calls of libraries without a GPU: stand-ins of cuBLAS and cuDNN note what they are asked.

Input: programs with products and convolutions, and libraries that are slow, that refuse or are not there.
"""

import threading
from dataclasses import replace

import pytest

from stage4_runtime.runtime import convolution, cublas, cudnn, first_calls
from stage4_runtime.runtime.cudnn import Cudnn
from stage4_runtime.runtime.launch import launch
from stage4_runtime.tests.fake_cudnn_plans import FakePlans
from stage4_runtime.tests.fake_cupy import FakeCupy
from stage_contracts import events
from stage_contracts.device import CPU, Device
from stage_contracts.dtype import bfloat16, float32
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import Return

GPU = Device("cuda", 0)


class Products:
    """cuBLAS, as much as a first call needs: each product's threads, sizes and types."""

    def __init__(self, refuses=False):
        self.calls, self.refuses, self.may_go_on = [], refuses, threading.Event()
        self.may_go_on.set()

    def cublasGemmStridedBatchedEx(self, handle, opa, opb, n, m, k, alpha, a, kind, *_):
        self.may_go_on.wait(10)
        self.calls.append((threading.current_thread().name, (n, m, k), kind))
        return 7 if self.refuses else 0


@pytest.fixture
def libraries(monkeypatch):
    """`install(products)` gives cuDNN's stand-in; nothing was begun."""
    monkeypatch.setattr(first_calls, "_BEGUN", {})
    monkeypatch.setattr(convolution, "_MADE", {})
    monkeypatch.setattr(cudnn, "_THREAD", threading.local())
    monkeypatch.setattr(cublas.Handles, "on", lambda self, stream: 1)
    monkeypatch.setattr("stage4_runtime.runtime.cuda.import_cupy", lambda: FakeCupy({}))

    def install(products):
        plans = FakePlans()
        monkeypatch.setattr(cublas, "cublas", lambda: products)
        monkeypatch.setattr(cudnn, "cudnn", lambda: Cudnn(plans))
        return plans

    return install


def program_of(target, dtype=bfloat16, device=GPU):
    """A program whose only step is the small one."""
    step, program = first_calls.small(target, dtype, device)
    return replace(program, inputs=program.inputs[:-1], steps=(step, Return((BufferRef(step.outputs[0]),))))


def test_each_library_is_called_once_for_each_dtype_and_says_nothing(libraries):
    products = Products()
    plans, before = libraries(products), events.EVENT_LOG.mark()
    for dtype in (bfloat16, bfloat16, float32):
        first_calls.begin(program_of("matmul", dtype))
    first_calls.begin(program_of("convolution"))
    first_calls.wait()
    assert sorted(products.calls) == [("cutaway first matmul", (64, 64, 64), kind) for kind in (0, 14)]
    assert len(plans.executed) == 1
    assert not events.EVENT_LOG.since(before)


def test_a_program_for_the_cpu_begins_nothing(libraries):
    products = Products()
    libraries(products)
    first_calls.begin(program_of("matmul", device=CPU))
    assert not first_calls._BEGUN and not products.calls


@pytest.mark.parametrize("products", [Products(refuses=True), None], ids=["refuses", "is not there"])
def test_what_a_library_refuses_early_is_not_said(products, libraries, capfd):
    libraries(products)
    first_calls.begin(program_of("matmul"))
    first_calls.wait()
    assert capfd.readouterr() == ("", "")


def test_a_launch_waits_for_them(libraries):
    """A graph's capture must not meet a first call."""
    products = Products()
    libraries(products)
    products.may_go_on.clear()
    first_calls.begin(program_of("matmul"))
    timer = threading.Timer(0.1, products.may_go_on.set)
    timer.start()
    assert not products.calls
    launch(program_of("matmul"), {}, {}, cuda_graph=True)
    assert len(products.calls) == 1
    timer.join()
