"""What makes or changes the homes of tensors inside a function: parameters, layers, .data, .to, deepcopy, requires_grad_().

Input: a model with weights in STATE, made anew before each program.
"""

import copy

from stage0_eager import nn
from stage0_eager.functions.creation import ones
from stage1_capture.tests.harness import tensor
from stage1_capture.tests.programs.registry import mark, program

STATE = {}


def reset():
    with_weights = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    for i, p in enumerate(with_weights.parameters()):
        p.data.copy_(tensor(*p.shape, seed=i))
    STATE.update(model=with_weights)


reset()


@program()
def layer_without_weights(x):
    made = nn.Sequential(nn.ReLU(), nn.Identity(), nn.Flatten(0))
    mark()
    return made(x), len(made)


@program()
def parameter_inside(x):
    weight = nn.Parameter(ones(3))
    mark()
    return (x * weight).sum(), isinstance(weight, nn.Parameter), weight.requires_grad


@program()
def norm_inside(x):
    norm = nn.LayerNorm(3)
    mark()
    return norm(x)


@program()
def gradient_flag_flipped(x):
    leaf = x.detach().clone().requires_grad_()
    mark()
    out = (leaf * 2).sum()
    return out, leaf.requires_grad, out.requires_grad


@program()
def gradient_flag_off_again(x):
    leaf = (x * 1).detach().requires_grad_()
    leaf.requires_grad_(False)
    mark()
    return leaf * 2, (leaf * 2).requires_grad


@program()
def gradient_flag_stored(x):
    leaf = (x * 1).detach()
    leaf.requires_grad = True
    mark()
    return (leaf * 2).sum(), leaf.requires_grad


@program()
def data_written(x):
    made = x.clone()
    made.data.mul_(2)
    mark()
    made.data[0] = 5
    return made + 1


@program()
def data_written_of_a_view(x):
    made = (x * 1).detach()
    view = made[1:]
    view.data.add_(3)
    mark()
    return made + 1, view


@program(grad=True)
def data_written_before_a_backward(x):
    factor = x.detach() * 1
    y = (x * factor).sum()
    factor.data.mul_(3)
    mark()
    y.backward()  # with the factor as it is now
    return x.grad, factor


@program(grad=True)
def data_written_on_the_tape(x):
    made = x * 2
    y = made.sin()
    made.data.zero_()
    mark()
    return y.sum(), made


@program()
def data_of_a_weight_written(x):
    weight = STATE["model"][0].weight
    weight.data.mul_(0.5)
    mark()
    return x @ weight.data


@program()
def data_replaced(x):
    made = x.clone()
    made.data = ones(3)
    mark()
    return made + 1


@program()
def real_to(x):
    mark()
    many = x.to("cpu") + 1, x.to(x.dtype, copy=True) + 1, x.to(x) * 2, x.to(ones(1).int())
    return many, x.to(x.dtype) is x


@program()
def deepcopy_of_a_model(x):
    model = STATE["model"]
    copied = copy.deepcopy(model)
    mark()
    return copied(x) - model(x), copied is model, copied[0].weight is model[0].weight


@program()
def deepcopy_of_a_list(x):
    row = [x * 1, {"a": 2}]
    copied = copy.deepcopy(row)
    mark()
    return copied[0] * copied[1]["a"], copied[1] is row[1]
