"""What a program switches: autocast, inference mode, the default device and dtype; breaks inside, exceptions through."""

import contextlib

from stage0_eager import enable_grad, nn, no_grad, set_grad_enabled
from stage0_eager.amp.autocast import autocast, get_autocast_dtype, is_autocast_enabled
from stage0_eager.defaults import get_default_device, get_default_dtype, set_default_device, set_default_dtype
from stage0_eager.functions.creation import arange, ones, zeros
from stage0_eager.nn import Parameter
from stage0_eager.nn import functional as F
from stage0_eager.state import inference_mode, is_inference_mode_enabled
from stage1_capture.tests.programs.registry import mark, program
from stage_contracts import dtype as dt
from stage_contracts.device import Device

SQUARE = (3, 3)


def weight():
    return Parameter(ones(3, 3).mul(0.3))


@program(SQUARE, grad=True)
def a_product_in_a_region(x):
    with autocast("cpu", dtype=dt.bfloat16):
        y = x @ x
        mark()
        z = F.softmax(y, -1) + x
    return y, z, x @ x


@program(SQUARE, weight, grad=True)
def a_weight_used_twice(x, w):
    with autocast("cpu"):
        y = F.linear(x, w)
        z = F.linear(y * 2, w)
        mark()
        loss = F.mse_loss(z, x)
    return y, loss, w @ w


@program(SQUARE)
def off_inside(x):
    with autocast("cpu"):
        y = x @ x
        with autocast("cpu", enabled=False):
            mark()
            z = x @ x
        return y, z, x @ x


@program(SQUARE)
def another_dtype_inside(x):
    with autocast("cpu"):
        with autocast("cpu", dtype=dt.float16):
            y = x @ x
            mark()
        return y, x @ x


@program(SQUARE)
def a_decorated_function(x):
    @autocast("cpu")
    def product(a):
        mark()
        return a @ a

    return product(x), x @ x, product(x)


REGION = autocast("cpu")


@program(SQUARE)
def a_region_from_outside(x):
    with REGION:
        y = x @ x
    mark()
    with REGION:
        return y, x.mm(x)


@program(SQUARE)
def asked_inside(x):
    found = [is_autocast_enabled("cpu")]
    with autocast("cpu", dtype=dt.float16):
        found += [is_autocast_enabled("cpu"), get_autocast_dtype("cpu")]
        mark()
        found.append(is_autocast_enabled("cuda"))
    return x + 1, found, is_autocast_enabled("cpu")


@program(SQUARE)
def an_exception_through_a_region(x):
    try:
        with autocast("cpu"):
            y = x @ x
            mark()
            raise ValueError("out")
    except ValueError:
        return y, x @ x


@program(SQUARE)
def left_by_an_exception(x):
    with autocast("cpu"), no_grad():
        y = x @ x
        mark()
        if y.ndim == 2:
            raise ValueError("two")
    return y


@program(SQUARE)
def users_casts_stay(x):
    with autocast("cpu"):
        half = x.to(dt.float16)
        mark()
        wide = (x @ x).float() @ x.double().float()
        return half, wide, x.double() @ x.double()


@program(SQUARE)
def what_autocast_leaves_alone(x):
    with autocast("cpu"):
        y = x.clone()
        y.addmm_(x, x)
        mark()
        out = x @ x
        return y, out.sum(), F.mse_loss(out, x), x.double() @ x.double()


@program(SQUARE)
def a_list_of_products(x):
    with autocast("cpu"):
        mark()
        return [x @ (x * i) for i in range(3)]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)

    @autocast("cpu")
    def forward(self, x):
        mark()
        return self.second(F.gelu(self.norm(self.first(x))))


def block():
    made = Block()
    for p in made.parameters():
        p.data = ones(*p.shape).mul(0.25)
    return made


@program((2, 3), block)
def a_module_with_a_decorated_forward(x, m):
    return m(x), m.first(x)


@program(SQUARE, grad=True)
def inference_and_back(x):
    with inference_mode():
        y = x * 2
        mark()
        asked = is_inference_mode_enabled()
        z = y + 1
    return z.sum(), asked, is_inference_mode_enabled(), x * 3


@program(SQUARE, grad=True)
def an_inference_tensor_is_refused(x):
    with inference_mode():
        y = x * 2
        mark()
    return y * x


@program(SQUARE)
def an_inference_tensor_is_not_written_to(x):
    with inference_mode():
        y = x * 2
    mark()
    return y.add_(1)


@program(SQUARE, grad=True)
def inference_switched_off(x):
    with inference_mode(False):
        mark()
        return x * 2


@inference_mode()
def evaluated(x):
    return x * 2 + 1


@program(SQUARE, grad=True)
def a_decorated_evaluation(x):
    mark()
    return evaluated(x), x + 1


@program(SQUARE, grad=True)
def an_exception_through_inference(x):
    try:
        with inference_mode():
            y = x + 1
            mark()
            raise KeyError("k")
    except KeyError:
        mark()
    return y, x * 2


@program(SQUARE, grad=True)
def modes_in_a_generator(x):
    def steps():
        with no_grad():
            yield x * 2
            mark()
        with autocast("cpu"):
            yield x @ x

    return [*steps()], x @ x


@program(SQUARE, grad=True)
def a_stack_of_modes(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(no_grad())
        stack.enter_context(autocast("cpu"))
        y = x @ x
        mark()
        with enable_grad():
            z = x @ x
    return y, z, x * 2


@program(SQUARE, grad=True)
def set_and_left(x):
    set_grad_enabled(False)
    y = x * 2
    mark()
    set_grad_enabled(True)
    return y, x * 2


@program(SQUARE)
def a_device_of_a_block(x):
    with Device("cpu"):
        y = x + ones(3)
        mark()
        asked = str(get_default_device())
    return y + zeros(3, 3), asked


@program(SQUARE)
def a_default_device_set(x):
    set_default_device("cpu")
    mark()
    return x + arange(3), str(get_default_device())


@no_grad
def without_parentheses(x):
    return x * 2


@program(SQUARE, grad=True)
def a_mode_without_parentheses(x):
    mark()
    return without_parentheses(x), x * 2


def reset():
    set_default_dtype(dt.float32)


@program((3,))
def another_default_dtype(x):
    set_default_dtype(dt.float64)
    try:
        y = ones(3) * 0.5
        mark()
        whole = arange(3)
        return y, whole * 1.5, whole / 2, x * 2.0, get_default_dtype()
    finally:
        set_default_dtype(dt.float32)


@program((3,))
def asked_for_the_default_dtype(x):
    return x.to(get_default_dtype()), ones(2)
