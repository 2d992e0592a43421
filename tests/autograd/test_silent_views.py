"""What an operator makes under no_grad is a view only where an operand, which the caller has, shows the same memory.

Input: every row of tests/oracle. Eager refuses a write to a view made under no_grad; torch knows of none in x[[0, 0]].
"""

import warnings
from contextlib import suppress

import pytest

import cutaway
import tests.oracle.samples  # noqa: F401 - fills ROWS
from stage0_eager.table.own_memory import OWN_MEMORY
from stage0_eager.table.registry import TABLE
from stage0_eager.tensor import Tensor, root
from tests.oracle.cases import function_of, leaves, plain_cases, tensors
from tests.oracle.spec import ROWS


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("part", range(8))
def test_a_view_made_under_no_grad_is_one_of_an_operand(part, recorded):
    """72 of the rows gave such views before: seeds 4011 and 42595 of tests/tensor_programs met getitem's. Recorded, an
    operator with a derivative of its own runs its body so: seed 1237 met the median's."""
    wrong, ran = [], 0
    for name in list(ROWS)[part::8]:
        for case in plain_cases(ROWS[name], full=True):
            operands = tensors(case.arrays())
            given = leaves(operands, Tensor)
            for tensor in given:
                tensor.requires_grad_(recorded and tensor.is_floating_point())
            roots, made = [root(t) for t in given], []
            with warnings.catch_warnings(), cutaway.set_grad_enabled(recorded), suppress(Exception):
                # and a row in place refuses some samples of the one it is made of
                warnings.simplefilter("ignore")
                made = leaves(function_of(name)(*operands[0], **operands[1]), Tensor)
            ran += len(made)
            wrong += [name for t in made if t._made_silently and not any(root(t) is r for r in roots)]
    assert ran > 50 and not wrong, wrong


def test_a_write_through_a_view_is_known_in_inference_mode():
    """Seed 2207 of tests/tensor_programs: read there for the first time, the other view lost its history."""
    leaf = cutaway.ones(2, 3, requires_grad=True)
    whole = leaf * 1
    view, other = whole.mT, whole[0]
    view[:] = view.exp()
    with cutaway.inference_mode():
        assert (other * 2).requires_grad is False
        assert other.requires_grad and not other.is_leaf
        view.unsqueeze_(0)  # seed 6914: so it was no more on the tape
        assert view.requires_grad and not view.is_leaf
    other.sum().backward()
    assert leaf.grad[0].tolist() == [float(cutaway.ones(()).exp())] * 3


def test_those_that_show_their_own_memory_are_rows():
    assert {f"cutaway.{name}" for name in OWN_MEMORY} <= {*TABLE}


def test_a_view_of_an_operand_still_is_one():
    x = cutaway.ones(3, 4, requires_grad=True) * 1
    with cutaway.no_grad():
        views = x[0], x.mT, x.split(1)[0], x.unbind()[0], x.flatten()
    for view in views:
        with pytest.raises(RuntimeError, match="created in no_grad mode"):
            view.add_(x.sum())
