"""Sequential and ModuleList as lists: what is put in, taken out and shown; names follow places.

Input: small modules; the texts are those torch prints.
"""

import pytest

from stage0_eager import nn
from stage0_eager.nn.module import structure_epoch


def names(container):
    return [name for name, _ in container.named_children()]


@pytest.mark.parametrize(
    "make", [nn.ModuleList, lambda modules: nn.Sequential(*modules)], ids=["list", "sequential"]
)
def test_a_container_is_a_list(make):
    a, b, c, d = nn.ReLU(), nn.Tanh(), nn.Sigmoid(), nn.GELU()
    box = make([a, b])
    assert (
        box.append(c) is box
        and box.insert(1, d) is box
        and [*box] == [a, d, b, c]
        and names(box) == list("0123")
    )
    assert box.pop(1) is d and [*box] == [a, b, c] and names(box) == list("012")
    del box[0]
    assert [*box] == [b, c] and names(box) == ["0", "1"]
    box += [a]
    assert [*box] == [b, c, a] and [*(box + [d])] == [b, c, a, d] and len(box) == 3
    box[-1] = d
    assert box[-1] is d and box[2] is d and [*box[:2]] == [b, c] and type(box[:2]) is type(box)
    del box[:2]
    assert [*box] == [d] and [*box.extend([a, b])] == [d, a, b]
    for outside in (3, -4):
        with pytest.raises(IndexError, match=f"index {outside} is out of range"):
            box[outside]
        with pytest.raises(IndexError):
            del box[outside]


def test_every_change_moves_the_structure_epoch():
    box = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    for change in (
        lambda: box.append(nn.ReLU()),
        lambda: box.insert(0, nn.ReLU()),
        lambda: box.pop(0),
        lambda: box.__delitem__(0),
    ):
        before = structure_epoch()
        change()
        assert structure_epoch() > before


def test_what_is_no_list_is_refused():
    with pytest.raises(TypeError, match="should be called with an iterable"):
        nn.ModuleList([]).extend(3)


def test_equal_neighbours_are_shown_once():
    box = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU()])
    text = "ModuleList(\n  (0-1): 2 x Linear(in_features=2, out_features=2, bias=True)\n  (2): ReLU()\n)"
    assert repr(box) == text and repr(nn.ModuleList()) == "ModuleList()"


def test_texts_are_torchs():
    torch = pytest.importorskip("torch")

    def build(n):
        layers = [n.Sequential(n.Linear(2, 2), n.ReLU()) for _ in range(3)]
        return n.ModuleList([*layers, n.ModuleList([n.Tanh()])])

    assert repr(build(nn)) == repr(build(torch.nn))
