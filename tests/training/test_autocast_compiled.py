"""autocast captured: regions inside compiled code and around it, training, breaks; and the lists against torch's.

Input: small models; backends eager, aot_eager, inductor. The casts are nodes of the graph, so eager's bits are wanted.
"""

import contextlib
import copy
import warnings

import numpy as np
import pytest
from cutaway.nn import functional as F

import cutaway
from cutaway import compiler
from cutaway.torch_api import as_torch, torch
from stage0_eager.amp.autocast import autocast_as
from stage0_eager.amp.autocast_lists import (
    FLOAT32,
    FLOAT32_UNLESS_ASKED,
    LOWER,
    POLICIES,
    REFUSE,
    SOMETIMES,
    WIDEST,
)
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import TracedArray, Tracer, interpreting
from stage_contracts import dtype as dt
from stage_contracts import events
from stage_contracts.device import Device
from tests.oracle import cases, samples  # noqa: F401
from tests.oracle.cases import Case, leaves, map_leaves
from tests.oracle.spec import ROWS

BACKENDS = ["eager", "aot_eager", "inductor"]


def bits(tensor):
    return tensor.detach().float().numpy()


def model():
    cutaway.manual_seed(0)
    nn = cutaway.nn
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))


def loss_of(m, x):
    y = m(x) + m(x * 2)  # weights twice: one cast, and gradients added up in it
    return y, F.mse_loss(y, cutaway.zeros(3, 2))


def loss_in_region(m, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return loss_of(m, x)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("inside", [True, False])
def test_training_under_autocast_is_one_graph_with_eagers_bits(backend, inside):
    counter = compiler.CompileCounter()
    function = loss_in_region if inside else loss_of
    compiled = cutaway.compile(function, backend=backend, fullgraph=True)
    mine, eagers, x = model(), model(), cutaway.randn(3, 4)
    for m, call in ((mine, compiled), (eagers, function), (mine, cutaway.compile(function, backend=counter))):
        optimizer = cutaway.optim.SGD(m.parameters(), lr=0.1)
        optimizer.zero_grad()
        with cutaway.autocast("cpu", enabled=not inside):
            m.out, m.loss = call(m, x)
        m.loss.backward()
        m.grads = [p.grad for p in m.parameters()]
        if call is not compiled:
            continue
        assert m.out.dtype is cutaway.bfloat16 and m.loss.dtype is cutaway.float32
        m.kept = m.out, m.loss, m.grads
    for got, want in zip(
        (*mine.kept[:2], *mine.kept[2]), (eagers.out, eagers.loss, *eagers.grads), strict=True
    ):
        assert got.dtype is want.dtype
        if backend == "inductor":  # its sums run in another order
            np.testing.assert_allclose(bits(got), bits(want), rtol=1e-6, atol=1e-7)
        else:
            np.testing.assert_array_equal(bits(got), bits(want))
    assert counter.frame_count == 1 and len(compiled.entries) == 1


def test_autocast_at_the_call_is_a_guard_and_both_entries_are_used_again():
    counter, mark = compiler.CompileCounter(), events.EVENT_LOG.mark()
    f = cutaway.compile(lambda x: x @ x, backend=counter)
    x = cutaway.randn(3, 3)
    for _ in range(2):
        assert f(x).dtype is cutaway.float32
        with cutaway.autocast("cpu"):
            assert f(x).dtype is cutaway.bfloat16
            with cutaway.autocast("cpu", dtype=cutaway.float16):
                assert f(x).dtype is cutaway.float16
            with cutaway.autocast("cpu", enabled=False):
                assert f(x).dtype is cutaway.float32
    assert counter.frame_count == 3
    reasons = [e.details["reason"] for e in events.EVENT_LOG.since(mark, "recompile")]
    assert any("modes(): () -> (('autocast', 'cpu bfloat16'),)" in r for r in reasons), reasons


def test_a_users_casts_are_kept_and_the_graph_shows_all():
    def f(x):
        with cutaway.autocast("cpu"):
            return (x @ x).float() @ x.half()

    compiled = cutaway.compile(f, backend="eager", fullgraph=True)
    x = cutaway.randn(3, 3)
    assert compiled(x).dtype is f(x).dtype is cutaway.bfloat16
    text = str(compiled.artifacts[0].frame.graph)
    assert text.count("cutaway.cast(") == 6 and "cutaway.float16" in text and "cutaway.float32" in text


def test_what_a_list_refuses_is_refused_in_compiled_code():
    def f(p):
        return F.binary_cross_entropy(p, p)

    p = Tensor(TracedArray(cutaway.rand(3).meta.with_(device=Device("cuda", 0))))
    with (
        autocast_as((("cuda", dt.float16),)),
        interpreting(Tracer(None)),
        pytest.raises(RuntimeError, match="unsafe to autocast"),
    ):
        f(p)


def test_a_break_inside_a_region():
    def f(m, x):
        with cutaway.autocast("cpu"):
            y = m(x)
            print("here")
            z = m(y.float() @ cutaway.ones(2, 4))
        return z, m(x)

    m, x = model(), cutaway.randn(3, 4)
    compiled = cutaway.compile(f, backend="eager")
    for got, want in zip(compiled(m, x), f(m, x), strict=True):
        assert got.dtype is want.dtype
        np.testing.assert_array_equal(bits(got), bits(want))
    assert len(compiled.breaks) == 1 and not cutaway.is_autocast_enabled("cpu")


def test_an_error_in_the_graph_leaves_the_modes_as_they_were():
    def f(x, index):
        with cutaway.no_grad(), cutaway.autocast("cpu"):
            y = x @ x
        with cutaway.inference_mode():
            return cutaway.index_select(y, 0, index)

    compiled = cutaway.compile(f, backend="eager", fullgraph=True)
    x = cutaway.randn(3, 3)
    with cutaway.autocast("cpu"):
        compiled(x, cutaway.tensor([0]))
        with pytest.raises(IndexError):
            compiled(x, cutaway.tensor([7]))
        assert cutaway.is_autocast_enabled("cpu") and cutaway.is_grad_enabled()
    assert not cutaway.is_inference_mode_enabled()


def test_torchs_paths():
    with as_torch():
        import torch as t
        from torch.amp import GradScaler, autocast, custom_bwd, custom_fwd  # noqa: F401
        from torch.cuda.amp import GradScaler as OfCuda
    assert t.autocast is autocast is cutaway.autocast is cutaway.amp.autocast
    x = t.ones(2, 2)
    with t.cpu.amp.autocast():
        assert (x @ x).dtype is t.bfloat16 and t.is_autocast_cpu_enabled()
    assert t.get_autocast_dtype("cuda") is t.get_autocast_gpu_dtype() is t.float16
    assert issubclass(OfCuda, GradScaler) and not t.is_autocast_enabled()
    f = t.compile(lambda a: a @ a, backend="eager", fullgraph=True)
    with t.autocast("cpu", dtype=t.bfloat16):
        assert f(x).dtype is t.bfloat16


# ---- every operator on the lists ---------------------------------------------------------------------------------


def results(device, name, case, lower):
    """The dtypes of a call in a region, on metas of that kind of device."""

    def meta(array):
        of = Tensor(array).meta
        return Tensor(TracedArray(of.with_(device=Device(device, 0), strides=of.strides)))

    args, kwargs = map_leaves(case.arrays(), meta, np.ndarray)
    with autocast_as(((device, lower),)), interpreting(Tracer(None)):
        out = cases.function_of(name)(*args, **kwargs)
    return [t.dtype.name for t in leaves(out, Tensor)]


def floats(case):
    return [a.dtype.name for a in leaves(case.arrays(), np.ndarray) if a.dtype.kind not in "iub"]


UNTRIED: set = set()  # rows whose samples cannot run on metas
LISTED = [(device, name) for device, lists in POLICIES.items() for name in sorted(lists) if name in ROWS]


@pytest.mark.parametrize(("device", "name"), LISTED, ids=lambda word: word)
def test_listed_operators_give_the_dtype_of_their_list(device, name):
    policy, lower = POLICIES[device][name], {"cpu": dt.bfloat16, "cuda": dt.float16}[device]
    tried = 0
    for index in range(len(ROWS[name].samples)):
        for given in ("float32", lower.name):
            case = Case(ROWS[name], index, given)
            if policy == REFUSE:
                with pytest.raises(RuntimeError, match="unsafe to autocast"):
                    results(device, name, case, lower)
                return
            if not floats(case) or (device, name) in SOMETIMES or "complex" in str(floats(case)):
                continue
            try:
                got = results(device, name, case, lower)
            except Exception:  # what cannot run on metas alone, or not in this dtype
                continue
            want = {LOWER: lower.name, FLOAT32: "float32", FLOAT32_UNLESS_ASKED: "float32"}.get(policy)
            if policy == WIDEST:
                want = "float32" if "float32" in floats(case) else lower.name
            asked = case.sample.kwargs.get("dtype")
            tried += 1
            assert all(d in (want, "int64", "int32", "bool") or asked is not None for d in got), (
                case,
                got,
                want,
            )
    assert tried or (device, name) in {*SOMETIMES, *UNTRIED}


# Where we and torch differ on purpose or by how torch composes: see the rows' own words.
DIFFER = {
    "cpu": {"linalg_pinv", "matrix_exp", "local_response_norm"},
    "cuda": {"rdiv", "linalg_pinv", "matrix_exp"},
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_all_operators_give_torchs_dtypes_in_a_region(device):
    real = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    from tests.oracle import torch_side

    lower = {"cpu": dt.bfloat16, "cuda": dt.float16}[device]

    def theirs(case):
        function = torch_side.function_of(case.row)

        def fake(array):
            made = torch_side.to_torch(array.copy())
            return made if device == "cpu" else real.empty(made.shape, dtype=made.dtype, device=device)

        # a GPU is not needed: torch knows the dtypes of tensors without data
        with FakeTensorMode(allow_non_fake_inputs=True) if device == "cuda" else contextlib.nullcontext():
            args, kwargs = torch_side.words(map_leaves(case.arrays(), fake, np.ndarray))
            warnings.simplefilter("ignore")
            real.set_autocast_enabled(device, True)
            real.set_autocast_dtype(device, getattr(real, lower.name))
            try:
                out = function(*args, **kwargs)
            finally:
                real.set_autocast_enabled(device, False)
        return [str(t.dtype).removeprefix("torch.") for t in leaves(out, real.Tensor)]

    compared, differ = 0, []
    for name, row in ROWS.items():
        for index in range(0 if row.in_place_of else len(row.samples)):
            for given in ("float32", lower.name):
                case = Case(row, index, given)
                try:
                    want, got = theirs(case), results(device, name, case, lower)
                except Exception:  # refused by one of the two: other tests compare that
                    continue
                compared += 1
                if want != got and name not in DIFFER[device] and want:
                    differ.append((str(case), name, want, got))
    assert compared > 2000 and not differ, differ[:10]


def test_deep_copies_of_a_trained_model_are_equal():
    m = model()
    with cutaway.autocast("cpu"):
        before = bits(copy.deepcopy(m)(cutaway.ones(3, 4)))
        np.testing.assert_array_equal(bits(m(cutaway.ones(3, 4))), before)
