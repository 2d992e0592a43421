"""Breaks: what capture cannot do is one GraphBreak with the user's expression, and nothing has happened.

Input: the seam `capture`. Each program notes in LOG what eager would do; capturing it must leave LOG empty.
"""

import contextlib
import fractions
import math
import sys

import numpy as np
import pytest

from stage0_eager import Tensor, nn
from stage0_eager.functions.creation import tensor as make_tensor
from stage0_eager.random.generator import manual_seed
from stage1_capture.capture import capture
from stage1_capture.tests.harness import guards_hold, tensor
from stage_contracts import python_version
from stage_contracts.breaks import CATALOGUE

HALF = fractions.Fraction(1, 2)  # its class computes its hash

LOG = []
COUNT = 0
STATE = {"n": 0}
BREAKS = {}
X = tensor(3, 4)
ONE = tensor(1)


def breaks(code, text, *args, **kwargs):
    """Decorator: the program breaks with `code` at the expression `text`, called with `args`."""

    def enter(function):
        BREAKS[function.__name__] = (function, args, kwargs, code, text)
        return function

    return enter


# ---- data ----------------------------------------------------------------------------------------


@breaks("GB0003", "x.sum() > 0", X)
def branch_on_data(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


@breaks("GB0003", "x > 0 and y", ONE, ONE)
def and_on_data(x, y):
    return x > 0 and y


@breaks("GB0003", "not x", ONE)
def not_on_data(x):
    return not x


@breaks("GB0003", ("assert x.sum() > 1", "x.sum() > 1"), X)
def assert_on_data(x):
    assert x.sum() > 1
    return x


@breaks("GB0003", "any([x[0] > 0])", ONE)
def any_on_data(x):
    return any([x[0] > 0])


@breaks("GB0004", "x.sum().item()", X)
def item(x):
    return x * x.sum().item()


@breaks("GB0004", "float(x)", ONE)
def to_float(x):
    return float(x)


@breaks("GB0004", ('f"{x}"', "{x}"), X)
def formats_data(x):
    return f"{x}"


@breaks("GB0004", "x.tolist()", X)
def to_list(x):
    return x.tolist()


@breaks("GB0004", "[1, 2][x]", ONE)
def index_with_data(x):
    return [1, 2][x]


# ---- side effects --------------------------------------------------------------------------------


@breaks("GB0060", "print(x.shape)", X)
def prints(x):
    print(x.shape)
    return x + 1


@breaks("GB0090", "x.add_(1)", tensor(3, requires_grad=True))
def writes_to_a_leaf(x):
    x.add_(1)
    return x


@breaks("GB0090", "x.add_(1)", (tensor(3, requires_grad=True) * 1)[:])
def writes_to_a_view(x):
    x.add_(1)
    return x


@breaks("GB0091", "x.requires_grad_(True)", X)
def changes_requires_grad(x):
    return x.requires_grad_(True)


# ---- constructs ----------------------------------------------------------------------------------


CONTEXT = contextlib.nullcontext()


@breaks("GB0055", "import this_module_is_not_there", X)
def imports(x):
    import this_module_is_not_there

    return x + len(this_module_is_not_there.sep)


@breaks("GB0009", 'raise ValueError("no")', X)
def raises(x):
    if x.ndim == 2:
        raise ValueError("no")
    return x


@breaks("GB0056", "class Local:", X)
def class_that_is_told_of_its_end(x):
    class Local:
        def __del__(self):
            pass

    return x, Local


@breaks("GB0009", "missing_name", X)
def undefined_name(x):
    return x + missing_name  # noqa: F821


@breaks("GB0009", "x.nonsense", X)
def undefined_attribute(x):
    return x.nonsense


def generator(x):
    yield x


def endless(x):
    return endless(x + 1)


@breaks("GB0035", None, X)
def recursion(x):
    return endless(x)


@breaks("GB0036", None, X)
def long_loop(x):
    for _ in range(10**9):
        pass
    return x


# ---- calls ---------------------------------------------------------------------------------------


@breaks("GB0030", "np.i0(1.0)", X)
def numpy_function(x):
    return x * np.i0(1.0)


@breaks("GB0082", "make_tensor([1.0], requires_grad=True)", X)
def makes_a_leaf(x):
    return x + make_tensor([1.0], requires_grad=True)


@breaks("GB0066", "x @ x", X)
def shapes_that_do_not_fit(x):
    return x @ x


@breaks("GB0065", "takes_one(x, x)", X)
def call_that_does_not_fit(x):
    return takes_one(x, x)


def takes_one(x):
    return x


@breaks("GB0065", None, X, X)
def called_wrongly(x):
    return x


@breaks("GB0009", "math.sqrt(-1)", X)
def domain_error(x):
    return x * math.sqrt(-1)


@breaks("GB0009", "[1][3]", X)
def index_error(x):
    return x * [1][3]


@breaks("GB0024", "x.sum().backward()", X)
def runs_backward(x):
    return x.sum().backward()


@breaks("GB0023", "Tensor(x)", X)
def constructs(x):
    return Tensor(x)


class Dynamic:
    def __getattr__(self, name):
        LOG.append(name)
        return 1


class Loud:
    @property
    def value(self):
        LOG.append("read")
        return 2


class Strange(Tensor):
    pass


@breaks("GB0005", "x + 1", Strange(np.ones(3)))
def tensor_subclass(x):
    return x + 1


@breaks("GB0069", "x + array", X, np.ones(3, complex))
def numpy_argument(x, array):
    return x + array


@breaks("GB0098", "d[HALF]", X, {HALF: 3})
def unguardable_dict(x, d):
    return x * d[HALF]


class Layer(nn.Module):
    def forward(self, x):
        y = x * 2
        return y if y.mean() > 0 else -y


@breaks("GB0003", "y.mean() > 0", Layer(), X)
def break_in_a_module(layer, x):
    return layer(x)


@breaks("GB0092", "manual_seed(3)", X)
def break_in_the_library(x):
    manual_seed(3)
    return x


@pytest.mark.parametrize("name", BREAKS)
@pytest.mark.conformance("capture", tier="full")
def test_a_break_says_where_and_why_and_does_nothing(seam, name, capsys):
    function, args, kwargs, code, text = BREAKS[name]
    LOG.clear()
    frame = seam("capture")(function, args, kwargs)
    assert frame.breaks, "it is captured"
    (found,) = frame.breaks
    assert code in (None, found.code), str(found)
    assert found.code in CATALOGUE and found.reason
    assert found.origin is not None and found.origin.file == __file__
    if text is not None:
        texts = text if isinstance(text, tuple) else (text,)  # versions differ in what they point at
        assert found.origin.text in texts, str(found)
        assert "^" * len(found.origin.text) in str(found)
    assert LOG == [] and COUNT == 0 and STATE == {"n": 0} and capsys.readouterr().out == ""
    if name != "called_wrongly":
        assert guards_hold(frame, function, args, kwargs), "the guards that led to the break must hold"


def test_there_are_enough_breaks():
    assert {code for *_, code, _ in BREAKS.values()} >= {
        "GB0003",
        "GB0004",
        "GB0005",
        "GB0090",
        "GB0065",
        "GB0066",
    }


@pytest.mark.conformance("capture", tier="full")
def test_a_break_prints_as_a_caret_message(seam):
    function, args, kwargs, *_ = BREAKS["branch_on_data"]
    (found,) = seam("capture")(function, args, kwargs).breaks
    line = function.__code__.co_firstlineno + 2
    assert str(found) == (
        "graph break GB0003 (a branch on a tensor's data): a branch on a tensor bool[]\n"
        f'  File "{__file__}", line {line}\n'
        "    if x.sum() > 0:\n"
        "       ^^^^^^^^^^^\n"
        "  hint: use cutaway.where, which computes both sides"
    )


@pytest.mark.conformance("capture", tier="full")
def test_a_break_in_library_code_points_at_the_users_call(seam):
    (found,) = seam("capture")(break_in_the_library, (X,), {}).breaks
    assert found.origin.text == "manual_seed(3)" and "(in " in found.reason


def test_an_unknown_python_is_a_break(monkeypatch):
    monkeypatch.setattr(python_version, "VERSION", (3, 99))
    monkeypatch.setattr(python_version, "NAME", "cpython 3.99")
    frame = capture(lambda x: x + 1, (X,), {})
    assert [b.code for b in frame.breaks] == ["GB0007"] and "3.99" in frame.breaks[0].reason


@pytest.mark.conformance("capture", tier="full")
def test_a_frame_without_tensors_has_no_graph_and_no_break(seam):
    frame = seam("capture")(lambda x, n: (x, n + 1), (X, 2), {})
    assert frame.graph is None and frame.residual is None and frame.breaks == ()


def test_code_without_source_is_captured():
    """Functions made by exec, whose lines nobody can read."""
    names = {}
    exec("def f(x):\n    if x.sum():\n        return x + 1\n", names)
    frame = capture(names["f"], (X,), {})
    assert frame.breaks[0].code == "GB0003" and 'File "<string>", line 2' in str(frame.breaks[0])


def test_deep_recursion_of_the_caller_is_a_break_not_an_error():
    def deep(n):
        return capture(lambda x: BREAKS["recursion"][0](x), (X,), {}) if n == 0 else deep(n - 1)

    assert len(deep(sys.getrecursionlimit() - 250).breaks) == 1


@pytest.mark.conformance("capture", tier="full")
def test_an_interrupt_is_not_swallowed(seam, monkeypatch):
    from stage0_eager.functions.pointwise import sin

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sin, "meta_and_returned", interrupted)  # which `meta` calls
    with pytest.raises(KeyboardInterrupt):
        seam("capture")(lambda x: sin(x), (X,), {})
