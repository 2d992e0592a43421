"""Functions of all kinds: defaults, stars, closures, lambdas, decorators, partials, modules; breaks in callees."""

import functools
import math

from stage0_eager import nn
from stage0_eager.nn import functional as F
from stage1_capture.tests.harness import tensor
from stage1_capture.tests.programs.registry import LOG, mark, program


def plain(x, n=2):
    return x * n


def with_a_break(x, n=2):
    y = x + n
    mark("callee", n)
    return y * n


def two_levels(x):
    a = with_a_break(x)
    return plain(a, 3)


def stars(x, *args, scale=1, **more):
    for n in args:
        x = x + n
    return x * scale, sorted(more)


def keyword_only(x, *, by, also=1):
    return x * by + also


def positional_only(x, n=1, /):
    return x + n


def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


def deep(x, n):
    if n == 0:
        mark("bottom")
        return x
    return deep(x + 1, n - 1) * 2


def doubled(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        LOG.append(function.__name__)
        return function(*args, **kwargs) * 2

    return call


def scaled_by(n):
    def decorate(function):
        return lambda x: function(x) * n

    return decorate


@doubled
def decorated(x):
    """With a docstring."""
    return x + 1


@scaled_by(3)
def decorated_with_argument(x):
    mark("decorated")
    return x + 1


@functools.lru_cache
def cached(n):
    LOG.append(("computed", n))
    return n * 2


def reset():
    cached.cache_clear()


class Block(nn.Module):
    def __init__(self, n=3):
        super().__init__()
        self.fc = nn.Linear(n, n)
        self.calls = 0
        self.register_buffer("seen", tensor(n, seed=4))

    def forward(self, x):
        self.calls += 1
        y = F.relu(self.fc(x))
        mark("in forward")
        return y + x


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", tensor(3, seed=5))

    def forward(self, x):
        self.total = self.total + x
        mark()
        self.total.add_(1)
        return self.total * 2


def block():
    made = Block()
    with_state(made)
    return made


def with_state(module):
    for i, p in enumerate(module.parameters()):
        p._data[...] = (i + 1) * 0.25


@program()
def inlined(x):
    y = plain(x)
    mark()
    return plain(y, 3) + plain(x, n=4)


@program()
def break_in_a_callee(x):
    y = with_a_break(x)
    return y + 1


@program()
def break_in_a_callee_twice(x):
    return with_a_break(x) + with_a_break(x, 3)


@program()
def break_two_levels_down(x):
    return two_levels(x) + 1


@program()
def break_at_the_bottom(x):
    return deep(x, 3)


@program()
def break_in_a_lambda(x):
    f = lambda y: (mark("lambda"), y * 2)[1]
    return f(x) + 1


@program()
def break_in_a_default_expression(x):
    def f(y, n=mark("default") or 3):
        return y * n

    return f(x)


@program()
def star_arguments(x):
    args, kwargs = (1, 2), {"scale": 3, "extra": 0}
    mark()
    return stars(x, *args, **kwargs), stars(x, *[4], 5, other=1)


@program()
def keyword_arguments(x):
    mark()
    return keyword_only(x, by=2), keyword_only(by=3, x=x, also=5), positional_only(x, 4)


@program((3,), 4)
def star_parameters(x, *rest, key=2, **more):
    mark()
    return x + rest[0] * key + len(more)


@program((3,), key=7)
def keyword_parameters(x, *, key, other=1):
    mark()
    return x + key + other


@program()
def defaults_are_taken(x, n=3, *, m=4):
    mark()
    return x * n + m


@program()
def wrong_call(x):
    try:
        return keyword_only(x)
    except TypeError as error:
        mark()
        return x + 1, str(error)


@program()
def recursive(x):
    mark()
    return x * factorial(5)


@program()
def inner_function(x):
    def inner(y, n=2):
        return y * n + x

    mark()
    return inner(x) + inner(x, n=3)


@program()
def closure_over_closure(x):
    n = 2

    def outer():
        m = 3

        def inner():
            return x * n * m

        return inner

    f = outer()
    mark()
    return f()


@program()
def returned_closure(x):
    n = 2

    def f():
        return n

    mark()
    return x + f(), f() + 1


@program()
def lambdas(x):
    add = lambda a, b=1: a + b
    mark()
    return add(x), add(x, b=5), (lambda *a: len(a))(1, 2)


@program()
def functions_in_a_dict(x):
    table = {"double": lambda y: y * 2, "plain": plain}
    mark()
    return table["double"](x) + table["plain"](x, 5)


@program((3,), lambda: plain)
def function_argument(x, f):
    mark()
    return f(x, 6)


@program((3,), lambda: with_a_break)
def function_argument_with_a_break(x, f):
    return f(x) + f(x)


@program()
def decorated_function(x):
    y = decorated(x)
    mark(decorated.__name__)
    return y


@program()
def decorated_with_a_break(x):
    return decorated_with_argument(x) + 1


@program()
def decorator_inside(x):
    @doubled
    def local(y):
        return y + 1

    mark()
    return local(x), local.__name__


@program()
def partials(x):
    triple = functools.partial(plain, n=3)
    mark()
    return triple(x) + functools.partial(plain, x)(4)


@program()
def partial_of_a_partial(x):
    f = functools.partial(functools.partial(stars, x, 1), 2, scale=3)
    mark()
    return f(4, k=1)


@program()
def partial_with_a_break(x):
    return functools.partial(with_a_break, n=3)(x)


@program((3,), lambda: functools.partial(plain, n=5))
def partial_argument(x, f):
    mark()
    return f(x)


@program()
def lru_cached(x):
    a = cached(3)
    mark()
    return x + a + cached(3)


@program()
def global_function_of_a_module(x):
    mark()
    return F.relu(x) + math.floor(2.5)


@program()
def import_inside(x):
    import math as m
    from functools import reduce

    mark()
    return x + m.floor(2.5) + reduce(lambda a, b: a + b, [1, 2])


@program()
def map_with_a_break(x):
    return list(map(with_a_break, [x, x + 1]))


@program()
def reduce_with_a_break(x):
    return functools.reduce(lambda a, b: (mark(), a + b)[1], [x, x, x])


@program((3,), block)
def module_called(x, net):
    return net(x)


@program((3,), block)
def module_called_twice(x, net):
    y = net(x)
    mark("between")
    return net(y), net.calls


@program((3,), lambda: nn.Sequential(block(), block()))
def modules_in_a_row(x, net):
    return net(x) * 2


@program((3,), lambda: nn.ModuleList([block(), block()]))
def module_list(x, blocks):
    for b in blocks:
        x = b(x)
        mark()
    return x


@program((3,), Counting)
def buffer_assigned(x, net):
    a = net(x)
    mark()
    return a + net(x)


@program((3,), block)
def module_method(x, net):
    y = net.fc.forward(x)
    mark()
    return y + net.fc.weight.sum()


@program((3,), block)
def module_training(x, net):
    mark()
    return F.dropout(x, 0.5, net.training and False) + net.calls


@program((3,), block, grad=True)
def module_with_gradients(x, net):
    y = net(x)
    mark()
    return (y * y).sum()


@program(grad=True)
def backward_outside_the_graph(x):
    y = (x * x).sum()
    y.backward()
    z = x.grad + 1
    return z * 2


@program()
def item_read(x):
    n = x.sum().item()
    return x + n


@program()
def float_of_a_tensor(x):
    n = float(x[0])
    mark()
    return x * n


@program()
def tolist(x):
    values = x.tolist()
    y = x + len(values)
    return y * 2, values


@program()
def numpy_read(x):
    a = x.numpy()
    return x + float(a.sum())


@program()
def printing(x):
    y = x + 1
    print("sum", tuple(y.shape))
    print("again")
    return y * 2


@program()
def identity_of_results(x):
    y = x + 1
    mark()
    z = y
    return y is z, [y, z], x.reshape(3) is x


@program()
def unused_argument(x, unused=object()):
    mark()
    return x + 1


@program()
def long_chain(x):
    y = x
    for i in range(20):
        y = y * 1.01 + i
    mark()
    for i in range(20):
        y = y - i
    return y


@program()
def many_breaks(x):
    mark(1)
    x = x + 1
    mark(2)
    x = x * 2
    mark(3)
    x = x - 3
    mark(4)
    return x


@program()
def nothing_at_all(x):
    mark()
    return x


@program()
def returns_none(x):
    y = x + 1
    mark()
    LOG.append(y)
