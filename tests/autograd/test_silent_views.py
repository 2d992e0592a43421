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


@pytest.mark.parametrize("part", range(8))
def test_a_view_made_under_no_grad_is_one_of_an_operand(part):
    """72 of the rows gave such views before: seeds 4011 and 42595 of tests/tensor_programs met getitem's."""
    wrong, ran = [], 0
    for name in list(ROWS)[part::8]:
        for case in plain_cases(ROWS[name], full=True):
            operands = tensors(case.arrays())
            given = [root(t) for t in leaves(operands, Tensor)]
            made = []
            with warnings.catch_warnings(), cutaway.no_grad(), suppress(RuntimeError, TypeError):
                # and a row in place refuses some samples of the one it is made of
                warnings.simplefilter("ignore")
                made = leaves(function_of(name)(*operands[0], **operands[1]), Tensor)
            ran += len(made)
            wrong += [name for t in made if t._made_silently and not any(root(t) is g for g in given)]
    assert ran > 50 and not wrong


def test_those_that_show_their_own_memory_are_rows():
    assert {f"cutaway.{name}" for name in OWN_MEMORY} <= {*TABLE}


def test_a_view_of_an_operand_still_is_one():
    x = cutaway.ones(3, 4, requires_grad=True) * 1
    with cutaway.no_grad():
        views = x[0], x.mT, x.split(1)[0], x.unbind()[0], x.flatten()
    for view in views:
        with pytest.raises(RuntimeError, match="created in no_grad mode"):
            view.add_(x.sum())
