"""Small programs: captured, run through the residual code, and compared with the call itself.

Input: the seam `capture`. Each program says how many calls its graph must hold.
"""

import linecache
import math

import pytest

from stage0_eager import TABLE, nn
from stage0_eager import functions as cutaway
from stage0_eager.functions import creation
from stage0_eager.functions.inplace import add_
from stage0_eager.functions.pointwise import cos, sin, where
from stage0_eager.functions.shape import cat, stack
from stage0_eager.nn import functional as F
from stage1_capture.tests.harness import assert_same, guards_hold, residual_function, tensor
from stage_contracts import dtype as dt
from stage_contracts.graph_text import parse_graph

W = tensor(4, 4, seed=1)
ALIASED = tensor(3, 4)
SCALE = 2.5
CONFIG = {"width": 4, "act": "relu", "layers": [1, 2]}
PROGRAMS = {}


def program(*make, nodes, tier="full", **kwargs):
    """Decorator: a program, its arguments (tensors by shape, other things by a function), its size."""

    def enter(function):
        PROGRAMS[function.__name__.strip("_")] = (function, make, kwargs, nodes, tier)
        return function

    return enter


def arguments(make):
    return tuple(
        tensor(*m, seed=i) if isinstance(m, tuple) else m() if callable(m) else m for i, m in enumerate(make)
    )


# ---- arithmetic and methods ----------------------------------------------------------------------


@program((3, 4), nodes=2, tier="core")
def sin_cos(x):
    return sin(cos(x))


@program((3, 4), (3, 4), nodes=7, tier="core")
def arithmetic(x, y):
    return -(x + y * 2 - 1) / (y**2) - 0.5


@program((3, 4), nodes=5)
def reflected(x):
    return 1 - x, 2 / x, 3 * x, 4 + x, 2**x


@program((3, 4), (4, 5), nodes=1, tier="core")
def matmul(x, y):
    return x @ y


@program((3, 4), (3, 4), nodes=6)
def comparisons(x, y):
    return x < y, x <= y, x > 0, 1.5 >= y, x == y, x != y  # noqa: SIM300


@program((3, 4), nodes=2)
def bits(x):
    return ~(x > 0)


@program((3, 4), nodes=3, tier="core")
def methods(x):
    return x.exp().sum(dim=1, keepdim=True).log()


@program((2, 3, 4), nodes=5)
def shapes(x):
    return x.reshape(6, 4), x.view(2, -1), x.permute(2, 0, 1), x.transpose(0, 1), x.flatten(1)


@program((3, 4), nodes=2)
def properties(x):
    return x.T @ x


@program((4, 5), nodes=5, tier="core")
def subscripts(x):
    return x[0], x[:, 1:3], x[..., -1], x[None], x[1:, ::2]


@program((4, 5), lambda: tensor(2).to(dt.int64), nodes=1)
def subscript_by_tensor(x, index):
    return x[index]


@program((6,), nodes=2)
def split_and_unpack(x):
    a, b = x.split(3)
    return a + b


@program((3, 4), nodes=1)
def casts(x):
    return x.to(dt.float64), x.float(), x.to("cpu")


@program((3, 4), nodes=1)
def identity_operators(x):
    return x.contiguous() is x, F.dropout(x, 0.5, False) is x, x.float() + 1


@program((3, 4), nodes=2)
def creation_functions(x):
    return x + creation.ones_like(x)


@program((3, 4), nodes=2)
def library_functions(x):
    return F.softmax(F.relu(x), dim=-1)


@program((3, 4), lambda: tensor(3).to(dt.int64) * 0, nodes=1)
def loss(x, target):
    return F.cross_entropy(x, target, label_smoothing=0.1)


@program((3, 4), nodes=6)
def rows(x):
    first, *_ = [row for row in x[:2]]  # noqa: C416
    return first[0] * 0 + len([1 for _ in x.shape])


# ---- constants -----------------------------------------------------------------------------------


@program((3, 4), 3, 0.5, "relu", True, None, nodes=3, tier="core")
def constants(x, n, factor, name, flag, nothing):
    if flag and nothing is None and name == "relu":
        x = F.relu(x)
    return x * factor + n


@program((3, 4), nodes=1, tier="core")
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


@program((3, 4), nodes=2, tier="core")
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


@program((3, 4), nodes=3, tier="core")
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
    named = dict(a=parts[0], b=1)  # noqa: C408
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


@program((3, 4), nodes=14, tier="core")
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


# ---- modules and objects -------------------------------------------------------------------------


class Block(nn.Module):
    ratio = 3

    def __init__(self, bias=True):
        super().__init__()
        self.fc = nn.Linear(4, 4, bias=bias)
        self.norm = nn.LayerNorm(4)
        self.scale = 0.5
        self.register_buffer("offset", tensor(4, seed=9))

    @property
    def gain(self):
        return self.scale * self.ratio

    def forward(self, x, residual=True):
        y = self.activation(self.norm(self.fc(x))) * self.gain + self.offset
        return x + y if residual and self.training else y

    def activation(self, x):
        return F.gelu(x)


class Deep(Block):
    def __init__(self):
        super().__init__(bias=False)
        self.blocks = nn.ModuleList([Block(), Block(bias=False)])
        self.head = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.0), nn.Linear(8, 2))

    def forward(self, x):
        x = super().forward(x)
        for i, block in enumerate(self.blocks):
            x = block(x, residual=i > 0)
        return self.head(self.blocks[-1](x))


class Point:
    kind = "point"

    def __init__(self, x, n):
        self.x, self.n = x, n

    def scaled(self, by=2):
        return self.x * by * self.n

    @property
    def twice(self):
        return self.x + self.x

    @staticmethod
    def helper(x):
        return x - 1

    @classmethod
    def name(cls):
        return cls.kind

    def __call__(self, x):
        return x / self.n

    def __add__(self, other):
        return self.x + other

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.x[i]

    def __contains__(self, n):
        return n == self.n

    def __iter__(self):
        return iter([self.n, self.n + 1])


class Slotted:
    __slots__ = ("weight",)

    def __init__(self):
        self.weight = tensor(4, seed=3)


@program(Block, (3, 4), nodes=6, tier="core")
def module(model, x):
    return model(x)


@program(lambda: Block(False).eval(), (3, 4), nodes=5, tier="core")
def module_in_eval(model, x):
    return model(x)


@program(Deep, (3, 4), nodes=26)
def deep_module(model, x):
    return model(x)


PROGRAMS["method_of_a_module"] = (Block.forward, (Block, (3, 4)), {"residual": False}, 5, "full")
PROGRAMS["call_of_a_module"] = (nn.Module.__call__, (Block, (3, 4)), {}, 6, "core")

LAYER = nn.Linear(4, 2)


@program((3, 4), nodes=1)
def global_module(x):
    return LAYER(x)


@program(Block, (3, 4), nodes=1)
def parameters_read(model, x):
    return x @ model.fc.weight, model.fc.weight is model.fc.weight, model.fc.bias, model.fc.in_features


@program(lambda: (lambda layer: nn.Sequential(layer, layer))(nn.Linear(4, 4)), (3, 4), nodes=2)
def tied_modules(model, x):
    return model(x)


@program(lambda: Point(tensor(3, 4), 2), nodes=7)
def objects(p):
    assert len(p) == 2 and 2 in p and p
    return p.scaled(3), p.twice, p.helper(p.x), p.name(), p(p.x), p + 1, p[0], list(p), p.kind, p


@program((3, 4), Slotted, nodes=1)
def slots(x, holder):
    return x * holder.weight


# ---- aliasing and mutation -----------------------------------------------------------------------


@program(lambda: ALIASED, lambda: ALIASED, nodes=1, tier="core")
def one_tensor_twice(x, y):
    return x + y, x is y


@program((3, 4), nodes=3)
def in_place_on_a_local(x):
    y = x * 2
    y.add_(1)
    y += x
    return y


@program((3, 4), (3, 4), nodes=2)
def in_place_on_an_input(x, y):
    z = add_(x, y)
    return z, z is x, x * 2


@program((3, 4), nodes=4)
def item_assignment(x):
    y = x.clone()
    y[0] = 1.0
    y[1:, 0] = x[0, 0]
    return y


@program((3, 4), nodes=2)
def views_returned(x):
    return x.T, x[0], x


@program(lambda: tensor(3, 4, requires_grad=True), (3, 4), nodes=3, tier="core")
def requires_grad(x, y):
    return x * y, y + 1, (x * 2).requires_grad


@program((3, 4), (3, 4), nodes=3)
def where_both(x, y):
    return where(x > y, x, y * 2)


@pytest.mark.parametrize("tier", ["core", "full"])
def test_there_are_enough_programs(tier):
    assert sum(t == tier for *_, t in PROGRAMS.values()) >= 15


CASES = [
    pytest.param(name, marks=pytest.mark.conformance("capture", tier=PROGRAMS[name][-1]), id=name)
    for name in PROGRAMS
]


@pytest.mark.parametrize("name", CASES)
def test_a_captured_program_does_what_the_call_does(seam, name):
    function, make, kwargs, nodes, _ = PROGRAMS[name]
    args = arguments(make)
    frame = seam("capture")(function, args, kwargs)
    assert frame.breaks == (), str(frame.breaks[0])
    assert frame.graph is not None and frame.residual is not None
    graph = frame.graph.verify(lambda target: getattr(target, "namespace", "cutaway") == "cutaway")
    assert len([n for n in graph.calls if hasattr(n.target, "namespace")]) == nodes, str(graph)
    assert [n.meta["source"] for n in graph.placeholders] == list(frame.inputs)
    assert guards_hold(frame, function, args, kwargs), "the guards fail on the call they were made from"
    assert guards_hold(frame, function, args, kwargs), "the guards fail the second time"

    for node in graph.calls:
        (origin,) = node.origins
        first_line = linecache.getline(origin.file, origin.line)
        assert origin.text and first_line[origin.column :].startswith(
            origin.text.split("\n")[0][: origin.end_column - origin.column]
        )
    assert str(parse_graph(str(graph), {**TABLE, "operator.getitem": None}, graph.attributes)) == str(graph)

    expected_args = same_arguments(args, make)
    expected = function(*expected_args, **kwargs)
    result = residual_function(frame, function)(*args, **kwargs)
    assert_same(result, expected, args, expected_args)


def same_arguments(args, make):
    """Fresh tensors, but the same modules and objects: parameters are drawn at random."""
    return tuple(
        a if isinstance(a, (nn.Module, Point, Slotted)) or callable(a) else f
        for a, f in zip(args, arguments(make), strict=True)
    )
