"""torch._numpy computes what NumPy does, eagerly, by Cutaway's rows where there is one.

Input: EXPRESSIONS, as a program would write them, each run with NumPy's own module and with torch._numpy.
"""

import numpy
import pytest

import cutaway
from cutaway.torch_api import torch
from stage_contracts.events import EVENT_LOG

np = torch._numpy

EXPRESSIONS = [
    "np.sum(x[:, :, None] * y[:, None, :], axis=(-2, -1))", "x @ y.T", "x.mean(axis=0)", "np.linalg.norm(x)",
    "np.where(x > 0, x, 0.0)", "np.stack([x, y])", "np.arange(5) + 1", "np.add.reduce(np.arange(4))", "x.T",
    "np.meshgrid(np.arange(2), np.arange(3))", "np.float32(3) * x", "-x ** 2 // 3", "np.sort(x, axis=0)[::2]",
    "np.zeros((2, 3), dtype=np.int32)", "np.add([1, 2], [3, 4])", "x.round(2).clip(0, 1).reshape(-1)", "np.unique(x)",
    "np.array(['a', 'b'])", "float(np.max(x))", "np.pi * np.ones(2)", "x[x > 0]", "np.einsum('ij,kj->ik', x, y)",
]  # fmt: skip


def both(expression):
    made = numpy.random.default_rng(0).standard_normal((2, 4, 3))
    expected = eval(expression, {"np": numpy}, {"x": made[0], "y": made[1]})
    x, y = (np.asarray(cutaway.from_numpy(part.copy())) for part in made)
    return expected, eval(expression, {"np": np}, {"x": x, "y": y})


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_is_numpys(expression):
    expected, found = both(expression)
    pairs = list(zip(expected, found)) if isinstance(expected, (tuple, list)) else [(expected, found)]
    for wanted, got in pairs:
        assert isinstance(
            got, np.ndarray if isinstance(wanted, numpy.ndarray) else (float, numpy.generic, np.ndarray)
        )
        plain = numpy.asarray(got)
        assert plain.dtype == numpy.asarray(wanted).dtype and plain.shape == numpy.shape(wanted)
        if plain.dtype.kind != "U":
            numpy.testing.assert_allclose(plain, wanted, rtol=1e-12)


def test_cutaway_computes_it_and_a_write_reaches_the_array():
    mark = EVENT_LOG.mark()
    x = np.asarray(numpy.ones((2, 2)))
    x += 1
    assert np.add(x, 1, out=x) is not None and x.tolist() == [[3.0, 3.0], [3.0, 3.0]]
    graphs = [e.details["frame"]().graph for e in EVENT_LOG.since(mark, "compile") if e.details["frame"]()]
    assert any("add" in str(graph) for graph in graphs)
    assert x.tensor.shape == (2, 2) and isinstance(x.tensor, cutaway.Tensor)


def test_an_error_is_an_error_of_this_line():
    with pytest.raises(ValueError):
        np.ones(2) + np.ones(3)
    with pytest.raises(AttributeError):
        np.no_such_name  # noqa: B018
    assert "sum" in dir(np) and "torch._numpy" in repr(np.sum)
