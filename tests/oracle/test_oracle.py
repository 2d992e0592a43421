"""The oracle's slice for every change: each row in few dtypes, layouts and edge values; `make oracle` runs all.

Input: the rows of samples/. Columns that need what is not installed (torch) are left out.
"""

import warnings

import pytest

from stage0_eager.table.registry import TABLE
from tests.oracle import compare
from tests.oracle.cases import Case, plain_cases
from tests.oracle.columns import COLUMNS, check, eager_is_numpy, meta_is_kernel, run
from tests.oracle.report import LEAST, operators, undeclared
from tests.oracle.spec import INTERNAL, ROWS, Row, S, T


@pytest.mark.parametrize("name", ROWS)
def test_a_row_agrees_with_every_column(name):
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for column in COLUMNS:
            if column.installed and not column.slow:
                wrong += [f"{column.name}: {text}" for text in check(column, ROWS[name], full=False).failures]
    assert not wrong, "\n".join(wrong)


def test_every_row_of_the_operator_table_is_declared():
    assert not undeclared(), "declare them in tests/oracle/samples"


@pytest.mark.parametrize("name, public", [pair for pair in INTERNAL.items() if "." not in pair[1]])
def test_a_row_without_a_public_name_is_reached_by_the_samples_of_one_that_has(name, public, monkeypatch):
    op, calls = TABLE[f"cutaway.{name}"], []
    eager = op.eager
    monkeypatch.setattr(op, "eager", lambda *args, **kwargs: calls.append(name) or eager(*args, **kwargs))
    for case in plain_cases(ROWS[public], full=True):
        run(case)
    assert calls


def test_there_are_as_many_operators_as_promised():
    print(f"{len(operators())} operators")
    assert len(operators()) >= LEAST


def test_every_exception_names_a_column_and_a_reason():
    columns = {column.name for column in COLUMNS}
    for row in ROWS.values():
        for column, reason in (*row.exceptions.items(), *row.edge_exceptions.items()):
            assert column in columns and reason, row.name


def test_every_row_has_samples_and_a_reference_or_a_reason():
    for row in ROWS.values():
        assert row.samples, row.name
        assert row.numpy is not None or "NumPy" in row.exceptions, row.name


@pytest.mark.parametrize(
    "numpy, column",
    [(lambda x: x + 1e-4, eager_is_numpy), (lambda x: x[:, :2], eager_is_numpy)],
    ids=["a wrong value", "a wrong shape"],
)
def test_the_oracle_sees(numpy, column):
    case = Case(Row("clone", numpy, (S(T(2, 3)),)), 0, "float32")
    with pytest.raises(compare.Mismatch):
        column(case)


def test_the_oracle_sees_a_wrong_meta(monkeypatch):
    from stage0_eager.table.operator import Operator
    from stage_contracts.core_ops import CORE_OPS

    case = Case(Row("flip", None, (S(T(2, 3), (0,)),)), 0, "float32")
    meta_is_kernel(case)
    monkeypatch.setattr(Operator, "meta", lambda self, x, dims: CORE_OPS["permute"].meta(x, (1, 0)))
    with pytest.raises(compare.Mismatch):
        meta_is_kernel(case)
