"""save and load: every dtype comes back with its bits, broken files are named as such, writing is all or nothing.

Input: dicts of tensors (some made by hypothesis) and files damaged on purpose.
"""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stage0_eager import nn
from stage0_eager.functions.creation import tensor
from stage0_eager.serialization import FormatError, load, save
from stage_contracts.dtype import DTYPES


def same(a, b):
    assert a.dtype is b.dtype and a.shape == b.shape
    assert a._data.tobytes() == b._data.tobytes()


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_every_dtype_comes_back(dtype, tmp_path):
    t = tensor(np.array([[0, 1, 2], [3, 4, 5]]), dtype=dtype)
    tensors = {"t": t, "turned": t.T, "one": t[0, 0], "none": t[:0], "part": t[:, ::2]}
    save(tensors, tmp_path / "x.safetensors")
    back = load(tmp_path / "x.safetensors")
    assert back.keys() == tensors.keys()
    for name in tensors:
        same(tensors[name], back[name])
    back["t"].zero_()  # memory of its own, writable


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=8).filter(lambda n: n.isprintable()),
        st.sampled_from([d.numpy for d in DTYPES.values() if d.name != "bfloat16"]).flatmap(
            lambda d: hnp.arrays(d, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
        ),
        max_size=5,
    )
)
def test_any_dict_comes_back(tmp_path_factory, arrays):
    path = tmp_path_factory.mktemp("save") / "x.safetensors"
    tensors = {name: tensor(np.ascontiguousarray(a).reshape(a.shape)) for name, a in arrays.items()}
    save(tensors, path)
    back = load(path)
    assert back.keys() == tensors.keys()
    for name in tensors:
        same(tensors[name], back[name])


def test_the_bytes_are_the_formats(tmp_path):
    path = tmp_path / "x"
    save({"b": tensor([1, 2]), "a": tensor([1.5])}, path, metadata={"format": "pt"})
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    assert length % 8 == 0
    assert json.loads(raw[8 : 8 + length]) == {
        "__metadata__": {"format": "pt"},
        "b": {"dtype": "I64", "shape": [2], "data_offsets": [0, 16]},
        "a": {"dtype": "F32", "shape": [1], "data_offsets": [16, 20]},
    }
    assert raw[8 + length :] == np.array([1, 2], "<i8").tobytes() + np.array([1.5], "<f4").tobytes()


def test_a_modules_state(tmp_path):
    a, b = nn.Linear(3, 2), nn.Linear(3, 2)
    save(a.state_dict(), tmp_path / "x")
    b.load_state_dict(load(tmp_path / "x", map_location="cpu"))
    assert a.weight.tolist() == b.weight.tolist() and a.bias.tolist() == b.bias.tolist()


def test_what_is_no_tensor(tmp_path):
    path = tmp_path / "x"
    save({"a": tensor([1.0])}, path)
    with pytest.raises(TypeError, match="save expects tensors only; 'step' is int"):
        save({"a": tensor([2.0]), "step": 3}, path)
    with pytest.raises(TypeError, match="save expects a dict of tensors by name, got list"):
        save([tensor([1.0])], path)
    with pytest.raises(TypeError, match="names as keys, got 1"):
        save({1: tensor([1.0])}, path)
    assert load(path)["a"].tolist() == [1.0] and [p.name for p in tmp_path.iterdir()] == ["x"]


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "x"
    save({"a": tensor([1.0])}, path)

    def full(_):
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        save({"a": tensor([2.0])}, path)
    assert load(path)["a"].tolist() == [1.0] and [p.name for p in tmp_path.iterdir()] == ["x"]


def build(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    "raw, text",
    [
        (b"", "0 bytes; expected at least the 8"),
        ((1 << 60).to_bytes(8, "little"), "expected at most 100000000"),
        ((99).to_bytes(8, "little") + b"{}", "truncated: header of 99 bytes in a file of 10"),
        (build(b"{nonsense"), "the header is not JSON"),
        (build(b"\xff\xfe"), "the header is not JSON"),
        (build([1]), "the header is a list"),
        (build(b'{"a": 1, "a": 2}'), "same key twice"),
        (build({"a": 3}), "'a' has a broken entry"),
        (build({"a": entry(shape=(-1,))}), "broken entry"),
        (build({"a": entry(shape=(1.5,))}), "broken entry"),
        (build({"a": entry(offsets=(4, 0))}), "broken entry"),
        (build({"a": entry(dtype="C32")}), "dtype 'C32'; expected one of BOOL"),
        (build({"a": entry(dtype=["F32"])}), "expected one of BOOL"),
        (build({"a": entry()}, b"\0\0"), "truncated: tensor 'a' ends at byte 4 of 2"),
        (build({"a": entry(shape=(2,))}, b"\0" * 4), "has 4 bytes; expected 8"),
        (build({"a": entry(shape=(2**40, 2**40))}, b"\0" * 4), "expected"),
        (build({"a": entry()}, b"\0" * 5), "1 bytes at the end do not belong to any tensor"),
        (build({"a": entry(), "b": entry()}, b"\0" * 4), "'b' starts at byte 0; expected 4"),
    ],
)
def test_a_broken_file_is_named_as_such(raw, text, tmp_path):
    (tmp_path / "x").write_bytes(raw)
    with pytest.raises(FormatError, match=text):
        load(tmp_path / "x")


def test_every_cut_of_a_file_is_noticed(tmp_path):
    save({"a": tensor([1.0, 2.0]), "b": tensor([3])}, tmp_path / "whole")
    raw = (tmp_path / "whole").read_bytes()
    for end in range(len(raw)):
        (tmp_path / "cut").write_bytes(raw[:end])
        with pytest.raises(FormatError):
            load(tmp_path / "cut")
