"""torch's switch for TF32: its two names, what compiled code guards, and what the switch asks of the compiler.

Input: compiled products on the CPU and, for what a GPU would get, targets and the stand-in of a GPU. On a CPU no number
changes.
"""

import threading

import numpy as np
import pytest

import cutaway
from cutaway import targets
from cutaway.compiler import load_compiled_function
from cutaway.torch_api import torch
from stage0_eager import arrays
from stage0_eager.kernels import formulas
from stage0_eager.matmul_precision import compile_settings
from stage_contracts import config
from stage_contracts.device import Device
from stage_contracts.events import EVENT_LOG
from tests.numpy_programs import strict_gpu

MATMUL = torch.backends.cuda.matmul
CUDA = Device("cuda", 0)


@pytest.fixture(autouse=True)
def highest_at_the_end():
    yield
    torch.set_float32_matmul_precision("highest")


# ---- the two names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("precision", "allowed"), [("high", True), ("medium", True), ("highest", False)])
def test_the_precision_sets_allow_tf32(precision, allowed):
    torch.set_float32_matmul_precision(precision)
    assert torch.get_float32_matmul_precision() == precision and MATMUL.allow_tf32 is allowed


@pytest.mark.parametrize("before", ["highest", "high", "medium"])
@pytest.mark.parametrize(("allowed", "precision"), [(True, "high"), (False, "highest")])
def test_allow_tf32_sets_the_precision(before, allowed, precision):
    torch.set_float32_matmul_precision(before)
    MATMUL.allow_tf32 = allowed
    assert torch.get_float32_matmul_precision() == precision and MATMUL.allow_tf32 is allowed


def test_the_default_is_exact_and_convolutions_have_a_switch_of_their_own():
    assert torch.get_float32_matmul_precision() == "highest" and MATMUL.allow_tf32 is False
    assert not compile_settings() and not config.Config().runtime.matmul_allow_tf32
    torch.set_float32_matmul_precision("high")
    assert not torch.backends.cudnn.allow_tf32 and not config.current().runtime.cudnn_allow_tf32


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_allow_tf32_takes_a_bool_only(value):
    with pytest.raises(RuntimeError, match="allow_tf32 expects a bool, but got"):
        MATMUL.allow_tf32 = value
    assert MATMUL.allow_tf32 is False


def test_the_switch_belongs_to_the_process():
    seen = []
    torch.set_float32_matmul_precision("high")
    thread = threading.Thread(target=lambda: seen.append((MATMUL.allow_tf32, compile_settings())))
    thread.start()
    thread.join()
    assert seen == [(True, {"runtime.matmul_allow_tf32": True})]


# ---- compiled code -----------------------------------------------------------------------------------------------


def product(x):
    return x @ x


def test_each_setting_has_an_entry_of_its_own():
    compiled, x = cutaway.compile(product), cutaway.ones(4, 4)
    compiled(x)
    for precision, entries in (("high", 2), ("medium", 2), ("highest", 2)):
        torch.set_float32_matmul_precision(precision)
        mark = EVENT_LOG.mark()
        np.testing.assert_array_equal(compiled(x).numpy(), np.full((4, 4), 4.0))
        assert len(compiled.entries) == entries
        assert bool(EVENT_LOG.since(mark, "compile")) == (precision == "high")


def test_why_it_compiles_again_is_told():
    compiled, x = cutaway.compile(product), cutaway.ones(4, 4)
    compiled(x)
    MATMUL.allow_tf32 = True
    why = compiled.why_new((x,), {})
    assert why.startswith("modes(): () -> (('matmul_allow_tf32', 'True'),) at ")


def test_what_is_compiled_is_told_by_the_configuration():
    seen = []

    def backend(graph, inputs):
        seen.append(config.current().runtime.matmul_allow_tf32)
        return graph

    x = cutaway.ones(4, 4)
    for allowed in (False, True):
        MATMUL.allow_tf32 = allowed
        cutaway.compile(product, backend=backend)(x)
    cutaway.compile(lambda x: x @ x, options={"runtime.matmul_allow_tf32": False})(x)
    torch.set_float32_matmul_precision("highest")
    assert seen == [False, True]


def test_an_option_of_one_function_compiles_once():
    compiled, x = cutaway.compile(product, options={"runtime.matmul_allow_tf32": True}), cutaway.ones(4, 4)
    for _ in range(3):
        compiled(x)
    assert len(compiled.entries) == 1


def test_the_target_of_a_gpu_has_it_and_the_cpus_has_not(monkeypatch):
    monkeypatch.setattr("stage4_runtime.runtime.gpu_architecture", lambda device: "sm_90")
    with config.patch({"runtime.matmul_allow_tf32": True}):
        assert targets.target_for(CUDA).options == {"tf32": True}
        assert not targets.target_for(Device("cpu")).options
    assert not targets.target_for(CUDA).options


def test_the_program_cache_and_the_cache_of_stage_2_tell_settings_apart(monkeypatch):
    from cutaway.aot_cache import settings_read
    from stage4_runtime.runtime.program_cache import program_key

    monkeypatch.setattr("stage4_runtime.runtime.gpu_architecture", lambda device: "sm_90")
    keys = []
    for allowed in (False, True):
        with config.patch({"runtime.matmul_allow_tf32": allowed}):
            keys.append((program_key("p", {}, targets.target_for(CUDA)).digest, settings_read()))
    assert keys[0][0] != keys[1][0] and keys[0][1] != keys[1][1]


def test_a_saved_function_runs_under_its_own_setting(tmp_path):
    x = cutaway.ones(4, 4)
    MATMUL.allow_tf32 = True
    cutaway.compile(product, fullgraph=True).aot_compile(((x,), {})).save_compiled_function(tmp_path / "f")
    with (tmp_path / "f").open("rb") as file:
        loaded = load_compiled_function(file, trust=True)
    np.testing.assert_array_equal(loaded(x).numpy(), np.full((4, 4), 4.0))
    MATMUL.allow_tf32 = False
    with pytest.raises(RuntimeError, match="matmul_allow_tf32"):
        loaded(x)


def test_the_switch_inside_a_compiled_function():
    def f(x):
        MATMUL.allow_tf32 = True
        return x @ x, MATMUL.allow_tf32

    compiled = cutaway.compile(f)
    for _ in range(2):
        torch.set_float32_matmul_precision("highest")
        made, allowed = compiled(cutaway.ones(2, 2))
        assert allowed is True and MATMUL.allow_tf32 is True


def sensitive(x):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    exact = x @ x
    torch.set_float32_matmul_precision(before)
    return exact @ x


@pytest.mark.parametrize(("device", "settings"), [("cpu", [True]), ("cuda", [False, True])])
def test_the_switch_on_the_way_divides_a_graph_on_a_gpu(device, settings, monkeypatch):
    """There the products before and after it are of two graphs, each compiled for its own precision."""
    seen = []

    def backend(graph, inputs):
        seen.append(config.current().runtime.matmul_allow_tf32)
        return graph

    strict_gpu.install(monkeypatch)
    torch.set_float32_matmul_precision("high")
    compiled = cutaway.compile(sensitive, backend=backend)
    x = cutaway.ones(3, 3).to(device)
    np.testing.assert_array_equal(compiled(x).cpu().numpy(), np.full((3, 3), 9.0))
    assert torch.get_float32_matmul_precision() == "high" and seen == settings
    assert {b.code for b in compiled.breaks} == ({"GB0092"} if device == "cuda" else set())


# ---- eager products on a GPU ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "complex64", "float64", "float16", "int32"])
@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_which_eager_products_go_to_tensor_cores(dtype, precision, monkeypatch):
    strict_gpu.install(monkeypatch)
    plain, seen = formulas.tensor_core_matmul, []
    monkeypatch.setattr(
        formulas, "tensor_core_matmul", lambda xp, x, y: seen.append(x.dtype.name) or plain(xp, x, y)
    )
    torch.set_float32_matmul_precision(precision)
    one = arrays.cupy().array(np.ones((3, 3), dtype))
    formulas.KERNELS["matmul"](arrays.cupy(), one, one)
    tf32 = precision != "highest" and dtype in ("float32", "complex64")
    assert seen == [dtype] * (tf32 or dtype == "float16")


def test_on_a_cpu_it_is_numpys_product():
    torch.set_float32_matmul_precision("medium")
    x = np.random.default_rng(0).standard_normal((40, 40)).astype(np.float32)
    np.testing.assert_array_equal((cutaway.from_numpy(x) @ cutaway.from_numpy(x)).numpy(), x @ x)
