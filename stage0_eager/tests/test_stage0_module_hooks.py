"""Hooks of modules: their order, keyword arguments, and what a handle takes away; dictionaries of parameters.

Input: modules that write down what they were given.
"""

import pytest

from stage0_eager import nn
from stage0_eager.functions.creation import ones


class Scaled(nn.Module):
    def forward(self, x, by=1):
        return x * by


def test_a_hook_that_is_put_first():
    layer, seen = Scaled(), []
    layer.register_forward_hook(lambda *a: seen.append("second"))
    first = layer.register_forward_hook(lambda *a: seen.append("first"), prepend=True)
    layer.register_forward_pre_hook(lambda *a: seen.append("before"))
    layer.register_forward_pre_hook(lambda *a: seen.append("before all"), prepend=True)
    layer(ones(1))
    first.remove()
    layer(ones(1))
    assert seen == ["before all", "before", "first", "second", "before all", "before", "second"]


def test_hooks_with_keyword_arguments():
    layer, seen = Scaled(), []
    layer.register_forward_pre_hook(lambda m, args, kwargs: seen.append(dict(kwargs)), with_kwargs=True)
    layer.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"by": kwargs["by"] + 1}), with_kwargs=True
    )
    layer.register_forward_hook(lambda m, args, kwargs, out: out + kwargs["by"], with_kwargs=True)
    assert layer(ones(2), by=3).tolist() == [8, 8] and seen == [{"by": 3}]
    with pytest.raises(NotImplementedError, match="always_call=True is not supported"):
        layer.register_forward_hook(print, always_call=True)


def test_a_dictionary_of_parameters_is_one():
    a, b, c = (nn.Parameter(ones(1)) for _ in range(3))
    params = nn.ParameterDict({"a": a, "b": b})
    assert params.get("a") is a and params.get("z", 3) == 3
    assert params.setdefault("c", c) is c and params.setdefault("a", b) is a
    assert list(reversed(params)) == ["c", "b", "a"]
    assert params.popitem() == ("c", c) and params.pop("b") is b and list(params) == ["a"]
    copied = params.copy()
    copied |= {"b": b}
    both = params | nn.ParameterDict({"c": c})
    assert [list(d) for d in (params, copied, both)] == [["a"], ["a", "b"], ["a", "c"]] and both["a"] is a
    assert list(params.fromkeys("xy", b)) == ["x", "y"]
    copied.clear()
    assert len(copied) == 0 and len(params) == 1
    values = nn.ParameterList([a])
    values += [b]
    assert list(values) == [a, b] and len(list(values.parameters())) == 2
