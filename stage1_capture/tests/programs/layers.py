"""Modules inside a function: made, changed, walked, hooked, called in every way."""

import copy
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


class Keyed(nn.Module):
    def forward(self, x, by=1):
        return x * by


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


def linear():
    """With numbers that are the same in both runs."""
    layer = nn.Linear(3, 3)
    layer.load_state_dict({"weight": tensor(3, 3, seed=6), "bias": tensor(3, seed=7)})
    return layer


STATE = {}


def reset():
    """One tree for both runs of a program, made anew."""
    STATE.clear()
    STATE.update(scale=Scale(), running=Running(), linear=linear(), many=Many(), hooked=hooked())
    STATE["saved"] = STATE["linear"].state_dict()


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


@program()
def state_read_and_loaded(x):
    linear = STATE["linear"]
    mark()
    state = linear.state_dict(prefix="a.")
    y = linear(x)
    result = linear.load_state_dict({k: v.detach() + 1 for k, v in linear.state_dict().items()})
    return y, linear(x), list(state), state["a.weight"] * 2, tuple(result)


@program()
def state_kept_and_put_back(x):
    running = STATE["running"]
    best = {name: value.clone() for name, value in running.state_dict().items()}
    y = running(x)
    mark()
    z = running(x)
    running.load_state_dict(best)
    return y, z, running.mean, best


@program()
def state_with_metadata(x):
    state = STATE["linear"].state_dict()
    mark()
    copied, deeper = copy.copy(state), copy.deepcopy(state._metadata)
    same = copied._metadata is state._metadata, deeper is state._metadata, deeper == state._metadata
    return state["weight"] + x, state, copied, same, hasattr(state.copy(), "_metadata")


@program()
def state_kept_outside(x):
    saved = STATE["saved"]
    mark()
    known = hasattr(saved, "_metadata"), hasattr(saved, "_more"), getattr(saved, "_more", 3)
    return saved["weight"] + x, known, saved._metadata[""], copy.copy(saved)._metadata


@program()
def state_that_does_not_fit(x):
    linear = STATE["linear"]
    try:
        linear.load_state_dict({"weight": x})
    except RuntimeError as error:
        mark()
        said = str(error)[:40]
    missing = linear.load_state_dict({"bias": x}, strict=False).missing_keys
    return linear(x), said, missing


@program()
def cast_to_what_it_is(x):
    linear = STATE["linear"]
    mark()
    same = linear.to("cpu").float()
    return same(x), same is linear, linear.weight.dtype


@program()
def layers_backwards(x):
    mark()
    for layer in reversed(STATE["many"].rows):
        x = layer(x)
    return x, [type(layer).__name__ for layer in reversed(nn.Sequential(nn.ReLU(), nn.Tanh()))]


@program()
def hook_of_a_block(x):
    seen = []
    with STATE["scale"].register_forward_hook(lambda module, args, output: seen.append(output)):
        y = STATE["scale"](x)
        mark()
    return y, seen, STATE["scale"](x), len(STATE["scale"]._forward_hooks)


@program()
def hook_that_comes_and_goes(x):
    layer = STATE["scale"]
    mark()
    if hasattr(layer, "handle"):
        layer.handle.remove()
        del layer.handle
    else:
        layer.handle = layer.register_forward_hook(lambda module, args, output: output * 2)
    return layer(x), len(layer._forward_hooks)


@program()
def hooks_with_keywords(x):
    layer, seen = Keyed(), []
    layer.register_forward_pre_hook(
        lambda module, args, kwargs: (args, {"by": kwargs["by"] + 1}), with_kwargs=True
    )
    layer.register_forward_hook(lambda module, args, kwargs, output: seen.append(kwargs), with_kwargs=True)
    layer.register_forward_hook(lambda module, args, output: seen.append("first"), prepend=True)
    mark()
    return layer(x, by=3), seen


@program()
def modules_put_in_place_of_others(x):
    many = STATE["many"]
    for name, layer in list(many.rows.named_children()):
        setattr(many.rows, name, nn.Sequential(layer, nn.Tanh()))
    mark()
    return many(x)[0], [type(layer).__name__ for layer in many.rows]


@program()
def data_of_weights(x):
    linear = STATE["linear"]
    data = linear.weight.data
    y = linear(x)
    mark()
    kept = [p.data.clone() for p in linear.parameters()]
    return y, data, data.sum(), data * 2, data.requires_grad, data is linear.weight.data, kept, x.data + 1


@program()
def data_written_through(x):
    linear = STATE["linear"]
    before = linear(x)
    for p in linear.parameters():
        p.data.mul_(2)
    mark()
    return before, linear(x)


@program()
def data_written_before_the_backward(x):
    linear, leaf = STATE["linear"], (x * 1).detach().requires_grad_()
    data, row = linear.weight.data, linear.weight.data[0]
    y = linear(leaf).sum()
    mark()
    data.mul_(3)
    row.add_(1)
    y.backward()  # with the weights as they are now: a write through .data is not counted
    return leaf.grad
