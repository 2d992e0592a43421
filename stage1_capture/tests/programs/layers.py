"""Modules inside a function: made, changed, walked, hooked, called in every way."""

import functools
import types

from stage0_eager import nn
from stage1_capture.tests.harness import tensor
from stage1_capture.tests.programs.registry import LOG, mark, program


class Scale(nn.Module):
    def __init__(self, k=2):
        super().__init__()
        self.k = k
        self.calls = 0
        self.last = None

    def forward(self, x):
        self.calls += 1
        self.last = x * self.k
        return x + self.k


class Running(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", tensor(3, seed=5))

    def forward(self, x):
        self.mean = self.mean * 0.5 + x
        return self.mean * 2


class Delegating(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.ReLU()

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.inner, name)


class Calling(nn.Module):
    def forward(self, x):
        return x + 1

    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs) * 2


class Many(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.ModuleList([Scale(1), nn.ReLU(), nn.Tanh()])
        self.named = nn.ModuleDict({"a": nn.ReLU(), "b": Scale(3)})

    def forward(self, x):
        for i, layer in enumerate(self.rows):
            x = layer(x) + i
        for layer in self.rows[1:]:
            x = layer(x)
        for name, layer in self.named.items():
            x = layer(x) + len(name)
        return x + len(self.rows), "a" in self.named, list(self.named.keys())


class Hook:
    def __init__(self):
        self.seen = 0

    def __call__(self, module, args, output):
        self.seen += 1
        return output + 1

    def method(self, module, args, output):
        self.seen += 2
        return output * 2


def keep(name, module, args, output):
    LOG.append(name)


def hooked():
    layer, hook = nn.ReLU(), Hook()
    layer.register_forward_hook(hook)
    layer.register_forward_hook(hook.method)
    layer.register_forward_hook(functools.partial(keep, "seen"))
    layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    layer.hook = hook
    return layer


def overridden():
    layer = nn.ReLU()
    layer.forward = types.MethodType(lambda self, x: x * 5, layer)
    return layer


STATE = {}


def reset():
    """One tree for both runs of a program, made anew."""
    STATE.clear()
    STATE.update(scale=Scale(), running=Running(), linear=nn.Linear(3, 3), many=Many(), hooked=hooked())


@program()
def module_made_inside(x):
    layer = Scale(3)
    mark()
    return layer(x), layer.calls, nn.Sequential(nn.ReLU(), nn.Tanh())(x)


@program()
def list_of_modules_made_inside(x):
    layers = nn.ModuleList()
    layers.append(nn.ReLU())
    layers.extend([Scale(1)])
    mark()
    for layer in layers:
        x = layer(x)
    return x, len(layers)


@program()
def attributes_changed(x):
    layer = STATE["scale"]
    y = layer(x)
    mark()
    return y, layer.last, layer.calls


@program()
def buffer_changed(x):
    y = STATE["running"](x)
    mark()
    return y, STATE["running"].mean


@program()
def buffer_registered(x):
    layer = STATE["linear"]
    layer.register_buffer("extra", x + 1)
    mark()
    return layer.extra * 2, list(layer._buffers)


@program()
def tree_walked(x):
    many = STATE["many"]
    names = [n for n, _ in many.named_modules()] + [n for n, _ in many.named_children()]
    mark()
    kinds = []
    many.apply(lambda layer: kinds.append(type(layer).__name__))
    return x, names, kinds, len(list(many.modules())), many.get_submodule("rows.0").k


@program()
def modes_changed(x):
    many = STATE["many"]
    many.eval()
    before = [m.training for m in many.modules()]
    many.rows[0].train()
    mark()
    return many(x), before, many.rows[0].training


@program()
def submodule_replaced(x):
    many = STATE["many"]
    many.rows[1] = nn.Tanh()
    many.extra = STATE["scale"]
    mark()
    return many(x)[0], type(many.rows[1]).__name__, many.extra.k


@program()
def hooks(x):
    layer = STATE["hooked"]
    mark()
    return layer(x), layer.hook.seen, list(LOG)


@program()
def hook_added_and_removed(x):
    layer = STATE["scale"]
    handle = layer.register_forward_hook(lambda module, args, output: output + 1)
    y = layer(x)
    handle.remove()
    mark()
    return y, layer(x)


@program((3,), overridden, Calling, Delegating)
def calls_overridden(x, a, b, c):
    mark()
    return a(x) + b(x), c.inplace


@program()
def walked_as_data(x):
    mark()
    many = STATE["many"]
    table = {m: i for i, m in enumerate(many.rows)}
    return (
        x + table[many.rows[1]],
        many.rows[0] in table,
        many._get_name() if hasattr(many, "_get_name") else "",
    )
