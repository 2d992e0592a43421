"""Names of torch beside its operators, each against torch: averages of models, state-dict hooks, memory formats,
older constructors, classes derived from Tensor, sizes of 0.

Input: one program, run on torch and on Cutaway; it gives numbers, lists, strings.
"""

import numpy as np
import pytest

from cutaway.torch_api import torch as ours

theirs = pytest.importorskip("torch")


def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if hasattr(value, "detach"):
        return [
            str(value.dtype).rpartition(".")[2],
            value.detach().numpy().round(5).tolist(),
            list(value.shape),
        ]
    return value


def model(torch):
    layers = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    draw = np.random.default_rng(0)
    with torch.no_grad():
        for p in layers.parameters():
            p.copy_(torch.from_numpy(draw.standard_normal(tuple(p.shape)).astype(np.float32)))
    return layers


def batches(torch):
    draw = np.random.default_rng(1)
    return [torch.from_numpy(draw.standard_normal((8, 3)).astype(np.float32)) for _ in range(4)]


def averaged(torch, use_buffers=True, **options):
    swa = torch.optim.swa_utils
    options = {key: getattr(swa, name)(*args) for key, (name, *args) in options.items()}
    layers = model(torch)
    average = swa.AveragedModel(layers, use_buffers=use_buffers, **options)
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
    schedule, rates = swa.SWALR(optimizer, swa_lr=0.02, anneal_epochs=3), []
    for batch in batches(torch):
        optimizer.zero_grad()
        layers(batch).square().mean().backward()
        optimizer.step()
        average.update_parameters(layers)
        schedule.step()
        rates.append(round(schedule.get_last_lr()[0], 7))
    swa.update_bn([(batch, 0) for batch in batches(torch)], average)
    return rates, list(average.parameters()), list(average.buffers()), list(average.state_dict())


def swa_mean(torch):
    return averaged(torch)


def swa_in_a_line(torch):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule, rates = (
        torch.optim.swa_utils.SWALR(optimizer, [0.5], anneal_strategy="linear", anneal_epochs=4),
        [],
    )
    for _ in range(6):
        optimizer.step()
        schedule.step()
        rates.append(round(schedule.get_last_lr()[0], 6))
    return rates


def ema_of_many(torch):
    return averaged(torch, multi_avg_fn=("get_ema_multi_avg_fn", 0.9))


def ema_of_one(torch):
    return averaged(torch, avg_fn=("get_ema_avg_fn", 0.8))


def swa_of_many(torch):
    return averaged(torch, multi_avg_fn=("get_swa_multi_avg_fn",), use_buffers=False)


def fork_rng(torch):
    torch.manual_seed(3)
    before = torch.rand(4)
    torch.manual_seed(3)
    with torch.random.fork_rng():
        torch.rand(9)
    kept = torch.equal(before, torch.rand(4))
    torch.manual_seed(3)
    with torch.random.fork_rng(enabled=False):
        torch.rand(9)
    return kept, torch.equal(before, torch.rand(4))


def new(torch):
    x = torch.zeros(2, dtype=torch.float64)
    refused = None
    try:
        x.new(torch.ones(2))
    except TypeError as error:
        refused = "dtype" in str(error)
    return list(x.new(2, 3).shape), x.new([1, 2]), x.new(), x.new(torch.ones(2, dtype=torch.float64)), refused


def constructor(torch):
    x = torch.ones(2, requires_grad=True)
    (torch.Tensor(x) * 3).sum().backward()
    return (
        torch.Tensor([1, 2]),
        list(torch.Tensor(2, 3).shape),
        torch.Tensor([[True]]),
        torch.Tensor(),
        x.grad,
    )


def own_class(torch):
    class Named(torch.Tensor):
        @staticmethod
        def __new__(cls, x, label=None):
            return super().__new__(cls, x)

        def __init__(self, x, label=None):
            super().__init__()
            self.label = label

        def doubled(self):
            return self * 2

    class Bare(torch.Tensor):
        pass

    x = torch.ones(2, requires_grad=True)
    one = Named(x, "weights")
    one.doubled().sum().backward()
    made = [Named([1.0, 2.0]), Bare([3, 4]), one + 1]
    kinds = [type(value).__name__ for value in (*made, one, one.doubled(), Bare(2, 3))]
    return one.label, kinds, [list(value.shape) for value in made], x.grad


def empty_softmax(torch):
    found = []
    for shape, dim in (((2, 0), 1), ((0, 3), 0), ((0, 3), 1), ((0, 3, 0), -1), ((3, 0, 2), 1)):
        for function in (torch.softmax, torch.log_softmax):
            x = torch.zeros(shape, requires_grad=True)
            out = function(x, dim)
            out.sum().backward()
            found += [out, x.grad, function(x.detach().double(), dim)]
    return found


def memory_formats(torch):
    found = []
    x = torch.arange(120.0).reshape(2, 3, 4, 5)
    last = torch.channels_last
    for y in (
        x.contiguous(memory_format=last),
        x.to(memory_format=last),
        x.to(torch.float64, memory_format=last),
        x.clone(memory_format=last),
        x.contiguous(memory_format=last).clone(memory_format=torch.contiguous_format),
        x.contiguous(memory_format=last).clone(),
        x.contiguous(memory_format=last).contiguous(),
        x[None].contiguous(memory_format=torch.channels_last_3d),
    ):
        found += [y, list(y.stride()), y.is_contiguous(), y.is_contiguous(memory_format=last)]
    return found


def module_to_memory_format(torch):
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 2), torch.nn.BatchNorm2d(4)).to(
        memory_format=torch.channels_last
    )
    x = torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last)
    with torch.no_grad():
        layers[0].weight.fill_(0.5)
        layers[0].bias.fill_(0.25)
    layers.double().to(torch.float32)
    return (
        list(layers[0].weight.stride()),
        [list(p.stride()) for p in layers[1].parameters()],
        layers.eval()(x),
    )


def bad_rank(torch):
    try:
        torch.ones(2, 3).contiguous(memory_format=torch.channels_last)
    except RuntimeError as error:
        return str(error).partition(",")[0].partition(" format")[0]


def state_dict_hooks(torch):
    seen = []
    layers = model(torch)
    inner = layers[0]
    layers.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("pre", prefix, keep)))
    inner.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(("pre", prefix, keep)))

    def after(module, state, prefix, metadata):
        seen.append(("post", prefix, sorted(state), metadata.get("version")))
        state[prefix + "extra"] = torch.ones(1)

    gone = inner.register_state_dict_post_hook(after)
    state = layers.state_dict(prefix="net.")
    gone.remove()
    return seen, list(state), list(layers.state_dict()), sorted(state._metadata)


def older_state_dict_hook(torch):
    layers = model(torch)
    layers._register_state_dict_hook(lambda m, state, prefix, metadata: {"only": state["0.bias"]})
    return list(layers.state_dict())


def load_hooks(torch):
    seen = []
    layers, state = model(torch), model(torch).state_dict()
    state["0.old_name"] = state.pop("0.weight") * 2

    def rename(module, state, prefix, metadata, strict, missing, unexpected, errors):
        seen.append((type(module).__name__, prefix, strict))
        state[prefix + "weight"] = state.pop(prefix + "old_name")

    def after(module, keys):
        seen.append((type(module).__name__, list(keys.missing_keys), list(keys.unexpected_keys)))

    layers[0].register_load_state_dict_pre_hook(rename)
    layers[2]._register_load_state_dict_pre_hook(
        lambda state, prefix, *rest: seen.append((prefix, len(rest)))
    )
    layers.register_load_state_dict_post_hook(after)
    layers[0].register_load_state_dict_post_hook(after)
    keys = layers.load_state_dict(state)
    return seen, list(keys.missing_keys), layers[0].weight, "0.old_name" in state


def hook_forgives(torch):
    layers = model(torch)
    state = layers.state_dict()
    del state["2.bias"]
    layers.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    return list(layers.load_state_dict(state))


def overridden(torch):
    class Scale(torch.nn.Module):
        _version = 2

        def __init__(self):
            super().__init__()
            self.factor = torch.nn.Parameter(torch.ones(2))
            self.steps = 0

        def _save_to_state_dict(self, destination, prefix, keep_vars):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "twice"] = self.factor.detach() * 2

        def _load_from_state_dict(self, state, prefix, metadata, strict, missing, unexpected, errors):
            self.loaded = metadata.get("version"), state.pop(prefix + "twice").tolist()
            super()._load_from_state_dict(state, prefix, metadata, strict, missing, unexpected, errors)

        def get_extra_state(self):
            return {"steps": self.steps}

        def set_extra_state(self, state):
            self.steps = state["steps"]

    one, other = torch.nn.Sequential(Scale()), torch.nn.Sequential(Scale())
    one[0].steps = 7
    state = one.state_dict()
    keys = other.load_state_dict(state)
    del state["0._extra_state"]
    missing = other.load_state_dict(state, strict=False).missing_keys
    return (
        list(one.state_dict()),
        other[0].steps,
        other[0].loaded,
        list(keys.missing_keys),
        str(keys),
        list(missing),
    )


PROGRAMS = [
    swa_mean, swa_in_a_line, ema_of_many, ema_of_one, swa_of_many, fork_rng, new, constructor, own_class, empty_softmax,
    memory_formats, module_to_memory_format, bad_rank, state_dict_hooks, older_state_dict_hook, load_hooks, hook_forgives,
    overridden,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_in_torch(program):
    assert plain(program(ours)) == plain(program(theirs))


def test_sparse_adam_says_why_not():
    with pytest.raises(NotImplementedError, match="gradients here are dense"):
        ours.optim.SparseAdam([ours.nn.Parameter(ours.zeros(2))])


@pytest.mark.parametrize("dynamic", [False, True])
def test_memory_formats_and_empty_rows_are_compiled(dynamic):
    def program(x):
        last = x.contiguous(memory_format=ours.channels_last)
        return last + 1, ours.softmax(x[:, :0], 1), ours.log_softmax(x[:, :, :0], 2), x.is_contiguous(), last

    x = ours.arange(120.0).reshape(2, 3, 4, 5)
    for backend in ("eager", "aot_eager", "inductor"):
        found = ours.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)(x)
        for one, wanted in zip(found, program(x), strict=True):
            assert plain(one) == plain(wanted)
        assert found[4].stride() == (60, 1, 15, 3)


# ---- made in a tensor's likeness ----------------------------------------------------------------------------------

LIKE = ("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like")


@pytest.mark.parametrize("name", LIKE)
def test_likenesses_are_laid_out_as_asked(name):
    """Every optimizer that is written for torch makes its state with memory_format=torch.preserve_format."""
    x = ours.ones(2, 3, 4, 5)

    def program(x):
        return [getattr(ours, name)(x, memory_format=layout) for layout in layouts]

    layouts = (ours.preserve_format, ours.contiguous_format, ours.channels_last)
    for outs in (program(x), ours.compile(program, fullgraph=True)(x)):
        assert [o.stride() for o in outs] == [x.stride(), x.stride(), (60, 1, 15, 3)]
    leaf = getattr(ours, name)(x, requires_grad=True)
    assert leaf.is_leaf and leaf.requires_grad


def test_grad_takes_only_inputs_as_torch_does():
    x = ours.ones(2, requires_grad=True)
    assert ours.autograd.grad((x * x).sum(), x, None, None, False, True)[0].tolist() == [2, 2]
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        ours.autograd.grad((x * x).sum(), x, only_inputs=False)
