"""Files in torch's own format: what is written comes back, and what is damaged or hostile is named and does nothing.

Input: containers of tensors of every dtype and layout. Where torch is installed, it reads our files and we read its.
"""

import io
import random
import tracemalloc
from collections import OrderedDict

import numpy as np
import pytest

from stage0_eager.functions import creation
from stage0_eager.nn import Linear, Parameter
from stage0_eager.serialization import FormatError
from stage0_eager.serialization import save as save_safetensors
from stage0_eager.tensor import Tensor
from stage0_eager.tests import damaged_archives
from stage0_eager.torch_archive import save
from stage0_eager.torch_archive_reading import load
from stage_contracts.device import Device
from stage_contracts.dtype import DTYPES, float16

DRAWS = np.random.default_rng(0).integers(0, 3, (3, 4))
LAYOUTS = {
    "whole": lambda t: t, "transposed": lambda t: t.t(), "sliced": lambda t: t[1:, ::2], "one": lambda t: t[1, 2],
    "empty": lambda t: t[:0], "repeated": lambda t: t[:, :1].expand(3, 5),
}  # fmt: skip


def tensor_of(dtype):
    return Tensor(DRAWS.astype(DTYPES[dtype].numpy))


def both_ways(obj):
    file = io.BytesIO()
    save(obj, file)
    file.seek(0)
    return load(file)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_layout_comes_back(dtype, layout):
    tensor = LAYOUTS[layout](tensor_of(dtype))
    found = both_ways({"x": tensor})["x"]
    assert found.dtype is tensor.dtype and found.shape == tensor.shape
    assert found._data.tobytes() == tensor._data.tobytes()
    assert 0 in tensor.shape or found.stride() == tensor.stride()


def test_containers_and_plain_values_come_back():
    obj = {
        "list": [1, 2.5, "text", None, True, 2**70, -3], "tuple": (1, (2, ())), "set": {1, "b"}, "bytes": b"\0\xff",
        "ordered": OrderedDict(a=1, b=[2]), "dtype": float16, "device": Device("cpu"), 3: {"deep": [{}]},
    }  # fmt: skip
    assert both_ways(obj) == obj


def test_views_share_memory_again():
    base = tensor_of("float32")
    found = both_ways([base, base.t(), base[1]])
    found[0][1, 0] = 7
    assert found[1][0, 1] == 7 and found[2][0] == 7
    assert found[2].storage_offset() == base[1].storage_offset()
    assert found[0].untyped_storage().data_ptr() == found[1].untyped_storage().data_ptr()
    again = both_ways(found)  # what was loaded is saved
    again[0][1, 0] = 8
    assert again[1][0, 1] == 8 and again[2][0] == 8


def test_parameters_and_a_state_dict():
    layer = Linear(3, 2)
    found = both_ways({"w": layer.weight, "frozen": Parameter(layer.bias.detach(), requires_grad=False)})
    assert (
        isinstance(found["w"], Parameter) and found["w"].requires_grad and not found["frozen"].requires_grad
    )
    Linear(3, 2).load_state_dict(both_ways(layer.state_dict()))
    assert both_ways(creation.ones(2).requires_grad_()).requires_grad


def test_what_is_not_a_tensor_is_refused_by_name(tmp_path):
    path = tmp_path / "w.pt"
    save({"x": 1}, path)
    with pytest.raises(TypeError, match=r"got stage0_eager\.nn\.linear\.Linear; save the state_dict"):
        save({"model": Linear(2, 2)}, path)
    assert load(path) == {"x": 1}, "the file is as it was"
    with pytest.raises(TypeError, match="takes no pickle_module"):
        load(path, pickle_module=object())


def test_safetensors_are_read_too(tmp_path):
    save_safetensors({"x": tensor_of("int16")}, tmp_path / "w.safetensors")
    assert load(tmp_path / "w.safetensors")["x"].tolist() == DRAWS.tolist()


@pytest.mark.parametrize("kind", damaged_archives.KINDS, ids=lambda kind: kind.__name__)
def test_a_damaged_file_is_one_clear_error(kind, tmp_path):
    """A hundred of each kind: an error that names the file, nothing run, and no more memory than ten times the file."""
    file = io.BytesIO()
    base = tensor_of("float32")
    save({"a": base, "b": base.t(), "c": tensor_of("int64"), "s": "text"}, file)
    path, draw = tmp_path / "w.pt", random.Random(0)
    for _ in range(100):
        damaged = kind(draw, file.getvalue())
        path.write_bytes(damaged)
        tracemalloc.start()
        try:
            with pytest.raises(FormatError, match=r"^.*w\.pt: \S"):
                print(load(path), damaged)
            assert tracemalloc.get_traced_memory()[1] < 5e6 + 20 * len(damaged)
        finally:
            tracemalloc.stop()


def test_torch_reads_ours_and_we_read_torchs(tmp_path):
    torch = pytest.importorskip("torch")
    ours, theirs = tmp_path / "ours.pt", tmp_path / "theirs.pt"
    tensors = {f"{d} {name}": make(tensor_of(d)) for d in DTYPES for name, make in LAYOUTS.items()}
    save({**tensors, "deep": [OrderedDict(x=1), (2, b"3", {4})]}, ours)
    found = torch.load(ours, weights_only=True)
    torch.save(found, theirs)
    back = load(theirs)
    for name, tensor in tensors.items():
        assert str(found[name].dtype) == f"torch.{tensor.dtype.name}", name
        assert back[name]._data.tobytes() == tensor._data.tobytes(), name
        assert back[name].shape == tensor.shape == tuple(found[name].shape)
    assert back["deep"] == found["deep"] == [OrderedDict(x=1), (2, b"3", {4})]
    layer = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    torch.save(layer.state_dict(), theirs)
    assert list(load(theirs)) == list(layer.state_dict())
    torch.save(layer, theirs)
    with pytest.raises(FormatError, match=r"torch\.nn\.modules\.container\.Sequential is not a tensor"):
        load(theirs)
