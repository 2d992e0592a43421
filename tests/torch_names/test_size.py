"""torch.Size: a tuple with numel, also in compiled code; names that stand for several classes, asked there.

Input: sizes and tensors of several dtypes.
"""

import copy
import pickle

import pytest

from cutaway.torch_api import torch

Size = torch.Size


def test_it_is_a_tuple_with_numel():
    s = Size([2, 3, 4])
    assert s == (2, 3, 4) and s.numel() == 24 and hash(s) == hash((2, 3, 4)) and Size().numel() == 1
    for found in (s[1:], s + (5,), (5,) + s, s * 2, copy.deepcopy(s), pickle.loads(pickle.dumps(s))):
        assert type(found) is Size
    assert repr(s[:2]) == "torch.Size([2, 3])" and s[0] == 2
    x = torch.zeros(s)
    assert isinstance(x.shape, Size) and not isinstance([2], Size) and x.shape == s
    assert x.reshape(Size([6, 4])).shape == torch.randn(Size([6, 4])).shape == x.new_ones(Size([6, 4])).shape


def program(x, s):
    made = Size([x.shape[0], 2])
    return (
        x.reshape(s) + made.numel() + s.numel(),
        isinstance(x.shape, Size),
        isinstance([1], Size),
        made + Size([3]),
    )


@pytest.mark.parametrize("dynamic", [False, True])
def test_it_is_compiled(dynamic):
    compiled = torch.compile(program, fullgraph=True, backend="eager", dynamic=dynamic)
    for rows in (2, 4):
        x, s = torch.ones(rows, 3), Size([3, rows])
        found, wanted = compiled(x, s), program(x, s)
        assert torch.equal(found[0], wanted[0]) and found[1:] == wanted[1:] and type(found[3]) is Size


def test_a_legacy_type_is_asked_in_compiled_code():
    """It said no to every tensor: only __instancecheck__ of the program's own metaclasses was called."""

    def kinds(x):
        return [isinstance(x, kind) for kind in (torch.FloatTensor, torch.LongTensor)], x + 1

    compiled = torch.compile(kinds, fullgraph=True, backend="eager")
    for x in (torch.ones(2), torch.ones(2, dtype=torch.int64), torch.nn.Parameter(torch.ones(2))):
        assert compiled(x)[0] == kinds(x)[0] and any(kinds(x)[0])
