"""The guards on equal blocks are one function: a change to any one of the blocks is still seen.

Input: what a block reads and the changes to it, of test_regions_alike.py, and six blocks, with regions and without. The
change is made to one of them, each in its turn. The compiled entry must refuse the call.
"""

import pytest

from cutaway.torch_api import torch
from tests.controls import test_regions_alike as case

COUNT = 6
# the same, followed each time
PLAIN = type("Plain", (case.Block,), {"forward": lambda self, x: self.read(self, torch.cos(x))})


class Blocks(torch.nn.Module):
    def __init__(self, kind, read):
        super().__init__()
        self.blocks = torch.nn.ModuleList([kind(read) for _ in range(COUNT)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def entry_of(kind, read):
    """A model, its compiled entry, and an input."""
    torch._dynamo.reset()
    case.SPECIAL[0] = None
    case.TABLE.clear()
    model, x = Blocks(kind, read), torch.randn(2, 4)
    compiled = torch.compile(model, backend="eager")
    compiled(x)
    (entry,) = compiled.compiled.entries
    return model, entry, x


KINDS = {"region": case.Block, "inlined": PLAIN}
EACH = ("a_number", "a_flag", "a_hook", "the_mode", "a_child_s_class", "a_shape", "a_function")
CASES = [(name, "region", number) for name in EACH for number in range(COUNT)]
# of all others, one of the blocks
CASES += [(name, kind, place % COUNT) for place, name in enumerate(case.READS) for kind in KINDS]


@pytest.mark.parametrize(("name", "kind", "number"), dict.fromkeys(CASES))
def test_a_change_to_one_of_the_blocks_is_seen(name, kind, number):
    read, change = case.READS[name]
    model, entry, x = entry_of(KINDS[kind], read)
    assert entry.check(model, x)
    change(model.blocks[number])
    assert not entry.check(model, x)


def test_the_blocks_are_checked_by_one_function():
    for kind in KINDS.values():
        _, entry, _ = entry_of(kind, lambda block, x: block.inner(x) * block.weight)
        assert entry.check.under_epoch.source_text.count("def __part_is_alike") == 1
