"""What published code touches around a model: dtypes' limits, devices, backends, cuda, amp, data loaders.

Input: the modules of cutaway.torch_api. Limits come from NumPy's own tables, batches are counted by hand.
"""

import pickle
from collections import OrderedDict

import numpy as np
import pytest

import cutaway
from cutaway.torch_api import torch
from stage_contracts import config


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_finfo(name):
    info, wanted = torch.finfo(getattr(torch, name)), np.finfo(name)
    for key in ("min", "max", "eps", "tiny", "smallest_normal", "bits", "resolution"):
        assert getattr(info, key) == pytest.approx(float(getattr(wanted, key)), rel=1e-15), key
    assert info.dtype == name and f"dtype={name}" in repr(info)


def test_finfo_of_bfloat16_and_what_has_none():
    info = torch.finfo(torch.bfloat16)
    assert info.eps == 2**-7 and info.max == (2 - 2**-7) * 2.0**127 and info.bits == 16
    with pytest.raises(TypeError, match="Use torch.iinfo to handle 'int8'"):
        torch.finfo(torch.int8)


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64"])
def test_iinfo(name):
    info, wanted = torch.iinfo(getattr(torch, name)), np.iinfo(name)
    assert (info.min, info.max, info.bits) == (wanted.min, wanted.max, wanted.bits)


def test_iinfo_refuses_bool():
    with pytest.raises(TypeError, match="bool is not supported by torch.iinfo"):
        torch.iinfo(torch.bool)


def test_promotion_is_asked_for_by_name():
    assert torch.promote_types(torch.uint8, torch.int8) is torch.int16
    assert torch.result_type(torch.ones(2, dtype=torch.int64), 1.5) is torch.float32
    assert (
        torch.result_type(torch.ones(2, dtype=torch.float16), torch.ones((), dtype=torch.float64))
        is torch.float16
    )
    assert torch.can_cast(torch.int64, torch.float16) and not torch.can_cast(torch.float16, torch.int64)
    assert torch.get_default_dtype() is torch.float32
    torch.set_default_dtype(torch.float32)
    with pytest.raises(TypeError, match="only floating-point types"):
        torch.set_default_dtype(torch.int64)


def test_device_is_a_type():
    assert isinstance(torch.ones(1).device, torch.device)
    one = torch.device("cuda:1")
    assert (one.type, one.index) == ("cuda", 1) and one == torch.device("cuda", 1) and str(one) == "cuda:1"
    assert torch.device(torch.device("cpu")) == torch.device("cpu")
    assert pickle.loads(pickle.dumps(one)) == one
    for wrong in ("tpu", "cuda:x"):
        with pytest.raises(RuntimeError, match="is unknown; expected 'cpu'"):
            torch.device(wrong)


def test_switches_for_speed_are_kept_and_others_refused():
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    assert torch.backends.cudnn.benchmark is True and not torch.backends.mps.is_available()
    assert config.current().runtime.cudnn_benchmark and not config.current().runtime.cudnn_allow_tf32
    torch.backends.cudnn.benchmark = torch.backends.cuda.matmul.allow_tf32 = False
    assert not config.current().runtime.cudnn_benchmark
    with pytest.raises(AttributeError, match="no torch.backends.cudnn.benchmarks"):
        torch.backends.cudnn.benchmarks = True
    torch.set_float32_matmul_precision("high")
    with pytest.raises(ValueError, match="expects 'highest'"):
        torch.set_float32_matmul_precision("low")
    torch.set_float32_matmul_precision("highest")
    torch.use_deterministic_algorithms(True)
    assert torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(False)
    assert torch.cuda.device_count() == 0 or torch.cuda.is_available()


def test_autocast_and_the_scaler_that_are_off_hand_through():
    with torch.autocast("cpu", enabled=False):
        assert (torch.ones(1, 1) @ torch.ones(1, 1)).dtype is torch.float32
    scaler = torch.amp.GradScaler(enabled=False)
    p = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([p], lr=0.5)
    scaler.scale((p * 2).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.0]


def test_the_generators_state_comes_and_goes():
    torch.manual_seed(5)
    assert torch.initial_seed() == 5
    torch.rand(3)
    state = torch.get_rng_state()
    first = torch.rand(3).tolist()
    torch.set_rng_state(state)
    assert torch.rand(3).tolist() == first
    assert torch.empty_like(torch.ones(2, dtype=torch.int32)).dtype is torch.int32


# ---- torch.utils.data --------------------------------------------------------------------------------------------

data = torch.utils.data


class Squares(data.Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, i):
        return {"x": torch.tensor([float(i)]), "y": (i * i, f"item {i}")}


def test_a_loader_in_order():
    batches = list(data.DataLoader(Squares(), batch_size=3, num_workers=2))
    assert [b["x"].tolist() for b in batches] == [[[0], [1], [2]], [[3], [4], [5]], [[6]]]
    assert batches[1]["y"][0].tolist() == [9, 16, 25] and batches[2]["y"][1] == ("item 6",)
    assert len(data.DataLoader(Squares(), 3)) == 3 and len(data.DataLoader(Squares(), 3, drop_last=True)) == 2
    assert len(list(data.DataLoader(Squares(), 3, drop_last=True))) == 2
    assert [b["y"][0] for b in data.DataLoader(Squares(), batch_size=None, sampler=[4, 2])] == [16, 4]
    assert [len(b["x"]) for b in data.DataLoader(Squares(), batch_sampler=[[0], [1, 2]])] == [1, 2]


SAMPLES = {
    "floats": [0.5, 1.0], "ints": [1, 2], "bools": [True, False], "text": ["a", "b"], "bytes": [b"a", b"b"],
    "text in tuples": [("a", 1), ("b", 2)], "lists": [[1, 0.5], [2, 1.5]], "of numpy": [np.float32(1), np.float32(2)],
    "bools of numpy": [np.bool_(1), np.bool_(0)], "doubles of numpy": [np.float64(1), np.float64(2)],
    "arrays": [np.ones(2), np.zeros(2)], "ordered": [OrderedDict(a=1, b=0.5), OrderedDict(a=2, b=1.5)],
    "unequal": [(1, 2), (1,)], "objects": [object(), object()],
}  # fmt: skip


def collated(tree):
    """What a tree of batches is: classes, dtypes and values."""
    if isinstance(tree, dict):
        return type(tree), [(key, collated(value)) for key, value in tree.items()]
    if isinstance(tree, (list, tuple)):
        return type(tree), [collated(part) for part in tree]
    tensor = hasattr(tree, "dtype")
    return (str(tree.dtype).split(".")[-1], tree.tolist()) if tensor else tree


@pytest.mark.parametrize("name", SAMPLES)
def test_batches_are_what_torch_makes_of_them(name):
    """On the tree before, numbers of Python became float32, and tuples of text lists."""
    oracle = pytest.importorskip("torch.utils.data")
    if name in ("unequal", "objects"):
        for collate in (oracle.default_collate, data.default_collate):
            with pytest.raises(RuntimeError if name == "unequal" else TypeError):
                collate(SAMPLES[name])
    else:
        assert collated(data.default_collate(SAMPLES[name])) == collated(
            oracle.default_collate(SAMPLES[name])
        )


def test_a_shuffled_loader_follows_its_generator():
    def order(seed):
        loader = data.DataLoader(Squares(), 7, shuffle=True, generator=torch.Generator().manual_seed(seed))
        return [tuple(next(iter(loader))["x"].flatten().tolist()) for _ in range(2)]

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)[0]) == list(range(7)) and order(1)[0] != order(1)[1]


def test_tensors_subsets_and_splits():
    rows = data.TensorDataset(torch.arange(10), torch.arange(10) * 2)
    assert len(rows) == 10 and [int(v) for v in rows[3]] == [3, 6]
    parts = data.random_split(rows, [0.75, 0.25], torch.Generator().manual_seed(0))
    assert [len(p) for p in parts] == [8, 2]
    assert sorted(int(p[i][0]) for p in parts for i in range(len(p))) == list(range(10))
    x, y = next(iter(data.DataLoader(data.Subset(rows, [1, 4]), 2)))
    assert x.tolist() == [1, 4] and y.tolist() == [2, 8]
    for wrong in (lambda: data.random_split(rows, [3, 3]), lambda: data.DataLoader(rows, 0),
                  lambda: data.DataLoader(rows, 1, True, [0])):  # fmt: skip
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(TypeError, match="unexpected keyword argument 'wurkers'"):
        data.DataLoader(rows, wurkers=1)
    with pytest.raises(AssertionError, match="Size mismatch"):
        data.TensorDataset(torch.ones(2), torch.ones(3))


def test_names_of_inner_modules():
    from cutaway.torch_api import modules

    inner = modules()
    assert inner["torch.nn.modules.batchnorm"]._BatchNorm is cutaway.nn.BatchNorm2d.__mro__[1]
    assert inner["torch.optim.optimizer"].Optimizer is cutaway.optim.Optimizer
    assert torch.jit.is_scripting() is False and torch.version.cuda is None


def test_capture_reads_the_modules_and_folds_limits():
    def masked(x, seen):
        positions = torch.arange(0, x.shape[0], dtype=torch.long, device=torch.device("cpu"))
        return x + positions + (1.0 - seen.to(dtype=x.dtype)) * torch.finfo(x.dtype).min

    x, seen = torch.ones(3), torch.tensor([1, 0, 1])
    compiled = torch.compile(masked, backend="eager", fullgraph=True)
    assert compiled(x, seen).tolist() == masked(x, seen).tolist() == [1, torch.finfo(torch.float32).min, 3]


def test_another_default_gpu_is_refused_with_what_to_write():
    torch.cuda.set_device(0)
    torch.cuda.set_device("cuda")
    for device in (1, "cuda:1", torch.device("cuda:1")):
        with pytest.raises(RuntimeError, match='write device="cuda:1", or start .* CUDA_VISIBLE_DEVICES=1'):
            torch.cuda.set_device(device)
