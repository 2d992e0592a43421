"""The columns of stages 3 and 4 on a few rows of each kind; `make oracle-kernels` walks all.

Input: kernel_columns.py. A kernel that is wrong has to be found by each column that runs it.
"""

import pytest

from stage_contracts.graph import Graph
from tests.oracle import kernel_columns
from tests.oracle.columns import check
from tests.oracle.kernel_columns import EXCEPTIONS, KERNEL_COLUMNS, walk
from tests.oracle.spec import ROWS

FEW = ("add", "cumsum", "embedding", "max_pool2d", "softmax")


@pytest.mark.parametrize("name", FEW)
def test_a_row_agrees_with_every_column(name):
    pytest.importorskip("triton")
    found = walk(name, full=False)
    assert not [f"{column}: {text}" for column, outcome in found.items() for text in outcome.failures]
    assert [found[column.name].passed for column in KERNEL_COLUMNS] == [1] * len(KERNEL_COLUMNS)


@pytest.mark.parametrize("name", ["linalg_cross", "floor_divide"])
def test_triton_takes_it(name):
    """A masked load of one element, and a number divided by a tensor: both were refused."""
    pytest.importorskip("triton")
    (triton,) = (column for column in KERNEL_COLUMNS if column.name == "Triton")
    assert not check(triton, ROWS[name], full=True).failures


@pytest.mark.parametrize("column", [column for column in KERNEL_COLUMNS if column.name in ("lowered", "C++")])
def test_a_wrong_graph_is_found(column, monkeypatch):
    """Each `sub` becomes an `add` on the way to stage 3: every column that computes says so."""

    def spoiled(core: Graph) -> Graph:
        from stage0_eager.table.core import core as operators

        for node in core.calls:
            if node.target is operators.sub:
                with core.inserting_before(node):
                    other = core.call_function(operators.add, node.args, val=node.val)
                core.replace_all_uses_with(node, other)
        return core

    half = kernel_columns.HalfArtifacts
    monkeypatch.setattr(kernel_columns, "HalfArtifacts", lambda core, *rest: half(spoiled(core), *rest))
    build = kernel_columns.lower_and_build
    monkeypatch.setattr(kernel_columns, "lower_and_build", lambda core, *rest: build(spoiled(core), *rest))
    assert check(column, ROWS["sub"], full=False).failures


def test_an_exception_names_a_row_and_a_column():
    columns = {column.name for column in KERNEL_COLUMNS}
    assert all(row in ROWS and column in columns and why for (row, column), why in EXCEPTIONS.items())
