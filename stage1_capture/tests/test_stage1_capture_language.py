"""Programs of Python: constants, containers, loops, functions, closures.

Input: the seam `capture`. Each program says how many operators its graph must hold.
"""

import functools
import math

import pytest

from stage0_eager import functions as cutaway
from stage0_eager import is_grad_enabled
from stage0_eager.functions.pointwise import sin
from stage0_eager.functions.shape import cat, stack
from stage0_eager.nn import functional as F
from stage1_capture.tests.harness import check_program, registry, tensor
from stage_contracts import dtype as dt

W = tensor(4, 4, seed=1)
SCALE = 2.5
CONFIG = {"width": 4, "act": "relu", "layers": [1, 2]}
PROGRAMS, program = registry()


# ---- constants -----------------------------------------------------------------------------------


@program((3, 4), 3, 0.5, "relu", True, None, nodes=3)
def constants(x, n, factor, name, flag, nothing):
    if flag and nothing is None and name == "relu":
        x = F.relu(x)
    return x * factor + n


@program((3, 4), nodes=1)
def facts_of_tensors(x):
    if x.ndim == 2 and x.dtype is dt.float32 and not x.requires_grad and x.is_floating_point():
        rows, columns = x.shape
        return (
            x.reshape(columns, rows),
            x.size(),
            x.size(-1),
            x.dim(),
            x.numel(),
            x.device,
            len(x),
            x.stride(),
        )
    return x


@program((3, 4), nodes=1)
def formatted(x):
    return (
        x + 1,
        f"{x.shape[0]}x{x.shape[1]!r:>5}|{SCALE:.3f}|{'a'!s}",
        "%d" % x.ndim,  # noqa: UP031
        "-".join(["a", "b"]).upper(),
    )


@program((3, 4), nodes=2)
def python_math(x):
    n = x.shape[-1]
    return (
        x * (1 / math.sqrt(n)) * 1.0,
        max(n, 7),
        min([3, n]),
        round(2.567, 1),
        abs(-n),
        n // 3,
        n % 3,
        divmod(n, 3),
    )


@program((3, 4), nodes=1)
def chained_conditions(x):
    n = x.shape[0]
    ok = 1 < n < 5 and not n == 4 or n in (7, 8)  # noqa: SIM201
    return x + 1 if ok else x - 1


@program((3, 4), float("nan"), -0.0, float("inf"), nodes=3)
def odd_floats(x, nan, zero, inf):
    return x * nan, x / inf, x * zero, nan, zero, inf


@program((3, 4), nodes=1)
def walrus(x):
    if (n := x.shape[0]) > 2:
        return x * n
    return x


@program((3, 4), nodes=1)
def asserted(x):
    assert x.ndim == 2, "two dimensions"
    return x + 1


# ---- containers and loops ------------------------------------------------------------------------


@program((3, 4), nodes=2)
def nested_results(x):
    y = x + 1
    return {"a": [x, y], "b": (y, {"c": x * 2}), "d": None, "e": ((),), 3: 1.5}


@program((3, 4), nodes=1)
def shared_results(x):
    items = [x + 1]
    return items, items, (items, {"again": items})


@program((3, 4), (3, 4), nodes=1, tier="core")
def inputs_returned(x, y):
    return x, x + y, y, x


@program(lambda: [tensor(3), tensor(3, seed=1)], lambda: {"w": tensor(3), "b": (tensor(3), 2)}, nodes=3)
def container_arguments(xs, params):
    total = xs[0] * params["w"] + xs[-1]
    return total * params["b"][1], xs, params["b"]


@program((3, 4), nodes=3)
def unrolled_range(x):
    for i in range(3):
        x = x * i
    return x


@program((3, 4), nodes=4)
def loops_over_things(x):
    for a, b in zip([1, 2], (3, 4), strict=True):
        x = x + a * b
    for i, c in enumerate("ab", start=1):
        if c == "b":
            continue
        x = x * i
    for key, value in {"p": 1, "q": 2}.items():
        if key == "q":
            break
        x = x - value
    return x


@program((3, 4), nodes=3)
def while_loop(x):
    n = 3
    while n:
        x = x + n
        n -= 1
    return x


@program((3, 4), nodes=3)
def loop_sees_appends(x):
    todo = [1]
    for n in todo:
        x = x + n
        if n < 3:
            todo.append(n + 1)
    return x, todo


@program((3, 4), nodes=4)
def comprehensions(x):
    i = 7
    ys = [x * i for i in range(3) if i]
    table = {f"k{i}": y + i for i, y in enumerate(ys)}
    return ys, table, i


@program((3, 4), nodes=2)
def local_containers(x):
    parts = []
    parts.append(x + 1)
    parts.extend([x * 2])
    parts += [x]
    named = dict(a=parts[0], b=1)
    named["c"] = parts.pop()
    named.update(d=named.get("zz", 5))
    parts.insert(0, None)
    parts[0] = 9
    del x
    return parts, named, list(named), tuple(named.values()), len(parts), [*parts, *(1, 2)], {**named, "e": 0}


@program((3, 4), nodes=2)
def stacked(x):
    return stack([x, x]), cat((x, x), dim=-1)


@program((3, 4), nodes=2)
def unpacking(x):
    a, (b, c), *rest = x, (1, 2), 3, 4
    first, *middle, last = rest + [5]
    return a * b + c, rest, middle, last, first


@program((3, 4), nodes=3)
def builtin_functions(x):
    ys = [x, x + 1]
    assert isinstance(ys, list) and not isinstance(x, (int, str)) and callable(sin) and hasattr(x, "shape")
    assert any([False, 1]) and all(()) and bool(ys) and type(ys) is list and getattr(x, "nope", None) is None
    return (
        sum(ys),
        list(reversed([1, 2])),
        sorted([3, 1]),
        [int("3"), float(2), str(1), bool([])],
        list(map(str, (1, 2))),
    )


# ---- functions -----------------------------------------------------------------------------------


def helper(x, factor=2, *rest, bias=0.0, **options):
    y = x * factor + bias
    for r in rest:
        y = y + r
    return y * options.get("gain", 1)


@program((3, 4), nodes=14)
def inlined_calls(x):
    a = helper(x)
    b = helper(x, 3, 4, 5, bias=1.0, gain=2)
    args, kwargs = (x, 1), {"bias": 2}
    return a, b, helper(*args, **kwargs), helper(x, factor=0)


@program((3, 4), nodes=3)
def nested_functions(x):
    count = 0

    def step(y, by=1):
        nonlocal count
        count += by
        return y + count * scale

    scale = 2
    return step(step(x), by=3), (lambda z: z * scale)(x), count


def make_closure():
    weight, power = tensor(4, seed=5), 2

    def scaled(x):
        return (x * weight) ** power

    return scaled


program((3, 4), nodes=2, tier="core")(make_closure())


@program((3, 4), nodes=2, tier="core")
def globals_read(x):
    return x @ W * SCALE


@program((3, 4), nodes=2)
def global_containers(x):
    for n in CONFIG["layers"]:
        x = x + n * CONFIG["width"]
    return x, CONFIG["act"]


@program((3, 4), nodes=3)
def defaults_and_keyword_only(x, y=3, /, z=W, *, k=0.5):
    return x @ z * k + 0 * y if y else x


@program((3, 4), (3, 4), (3, 4), nodes=2, mode="sum")
def star_arguments(x, *more, **options):
    for y in more:
        x = x + y
    return x, options["mode"], len(more)


@program((3, 4), lambda: helper, nodes=3)
def function_argument(x, function):
    return function(x, 2)


@program((4, 4), 2, nodes=2)
def names_of_the_machine(G, C):
    return G @ W + C


@program((3, 4), nodes=2)
def module_attributes(x):
    return cutaway.pointwise.sin(x) * math.pi


@program((3, 4), nodes=1)
def conditional_expression(x, y=None):
    y = x if y is None else y
    return x + y


@program((3, 4), nodes=3)
def lambdas_in_a_loop(x):
    functions = []
    for i in range(3):
        functions.append(lambda y, i=i: y * i + k)
    k = 5
    return [f(x) for f in functions[:1]], functions[1](1), [(lambda: i)() for i in range(2)], x * k


@program((3, 4), nodes=1)
def recursive_function(x):
    def factorial(n):
        return 1 if n <= 1 else n * factorial(n - 1)

    return x * factorial(4)


@program((3, 4), nodes=2)
def else_of_loops(x):
    for i in range(3):
        if i == 5:
            break
    else:
        x = x + 1
    n = 0
    while n < 2:
        n += 1
    else:
        x = x * n
    return x


def doubling(function):
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return wrapped


@doubling
def decorated(x, y=3):
    return x + y


@program((3, 4), nodes=2)
def decorators(x):
    return decorated(x)


@program((3, 4), nodes=1)
def sequences(x):
    numbers, items = (1, 2) + (3,), [1] * 2 + [x * 2]
    assert numbers < (2,) and 3 in numbers and x.ndim in [2] and x.shape == (3, 4)
    return numbers * 2, items, items[::-1], items[1:], numbers[-1], [*x.shape], max(x.shape)


@program((3, 4), nodes=2)
def iterators(x):
    results, numbers = [], iter([1, 2, 3])
    next(numbers)
    for i in numbers:
        results.append(x * i)
    return results, next(numbers, None), list(zip(x.shape, "ab")), dict(zip("ab", [1, 2]))


@program((3, 4), nodes=1)
def short_circuits(x):
    nothing = None
    return nothing or x + (0 or 2) * (3 and 4), not None, [] or 7, nothing and 1  # noqa: SIM222


@program((3, 4), nodes=3)
def grouped(x):
    groups = {}
    for key in "aba":
        groups.setdefault(key, []).append(x * 1.0)
    same = also = groups["a"]
    also.append(same is also)
    return groups, {k: v for k, v in zip("ab", [y for y in [1, 2] for z in [3, 4] if y < z])}  # noqa: C416


@program((3, 4), 2.5, True, nodes=2)
def number_operators(x, f, b):
    return x * f**2, -f, +f, ~3, not b, f // 1, b + 1, x * b, 7 & 3, 1 << 2


@program((3, 4), nodes=1)
def deleted(x):
    y = x + 1
    del x
    x = 3
    return x, y


@program((3, 4), nodes=1)
def formats(x):
    width = 7
    return f"{width:>{x.ndim + 3}}|{width!r}|{x.shape}|{1.5:.2e}|{'é'!a}", x + 1


@program((3, 4), nodes=2)
def none_compared(x):
    return x == None, x != None, None is x, x + 1, x * 2  # noqa: E711


@program((3, 4), nodes=1)
def grad_mode_read(x):
    return x + is_grad_enabled()


@program(lambda: [tensor(3), [tensor(3, seed=2), {"k": tensor(3, seed=3)}]], nodes=1)
def nested_arguments(tree):
    return tree[1][1]["k"] + tree[0], tree[1], tree[1][0] is tree[0]


@pytest.mark.parametrize("name", PROGRAMS.cases())
def test_a_captured_program_does_what_the_call_does(seam, name):
    check_program(seam, PROGRAMS[name])
