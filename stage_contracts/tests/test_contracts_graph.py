"""Graph: building, editing, checking, running, printing and reading back; each error message has its test.

Input: graphs over a little table of operators made here, since contracts know no real ones.
"""

import operator

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from stage_contracts import dtype as dt
from stage_contracts.device import CPU, Device
from stage_contracts.graph import Graph, GraphError, Node, map_args, meta_of, metas_of, nodes_in
from stage_contracts.graph_module import GraphModule
from stage_contracts.graph_reader import parse_graph
from stage_contracts.graph_text import print_graph
from stage_contracts.origin import Origin, union
from stage_contracts.tensor_meta import TensorMeta


class Op:
    """As much of an operator as a graph needs."""

    def __init__(self, name, function):
        self.name, self.qualname, self.function = name, f"core.{name}", function

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    def __repr__(self):
        return f"<{self.name}>"


ADD = Op("add", lambda a, b=1: a + b)
MUL = Op("mul", lambda a, b: a * b)
PAIR = Op("pair", lambda a: (a, -a))
KEEP = Op("keep", lambda a, *rest, **more: a)
TABLE = {op.qualname: op for op in (ADD, MUL, PAIR, KEEP)}
META = TensorMeta((2, 3), dt.float32)


def small():
    """(x + y) * x, with everything a node can carry."""
    g = Graph()
    x, y = g.placeholder("x", META, role="primal"), g.placeholder("y", META, role="primal")
    origin = Origin("model.py", 3, "x + y")
    a = g.call_function(ADD, (x, y), val=META, origins=(origin,), region="forward")
    m = g.call_function(MUL, (a, x), val=META, origins=(Origin("model.py", 4),), region="backward")
    g.output([m, None, 2])
    return g


def test_building_keeps_order_users_and_names():
    g = small()
    x, y, a, m, out = g.nodes
    assert [n.op for n in g.nodes] == [
        "placeholder",
        "placeholder",
        "call_function",
        "call_function",
        "output",
    ]
    assert [n.name for n in g.nodes] == ["x", "y", "add", "mul", "output"]
    assert list(x.users) == [a, m] and list(m.users) == [out] and m.all_input_nodes == [a, x]
    assert (
        g.outputs == (m, None, 2) and g.output_node is out and g.placeholders == [x, y] and g.calls == [a, m]
    )
    assert (
        a.meta["region"] == "forward"
        and a.origins[0].text == "x + y"
        and a.val is META
        and x.meta["role"] == "primal"
    )
    assert g.verify() is g


def test_names_are_fresh_legal_and_reused_after_erasing():
    g = Graph()
    names = [g.placeholder(n).name for n in ("x", "x", "x_1", "class", "1st", "a.b", "", "_")]
    assert names == ["x", "x_1", "x_1_1", "class_", "_1st", "a_b", "value", "value_1"]
    node = g.call_function(ADD, (g.placeholders[0], 1))
    assert node.name == "add"
    g.erase_node(node)
    assert g.call_function(ADD, (g.placeholders[0], 1)).name == "add"
    g.rename(g.calls[0], "x")
    assert g.calls[0].name not in names


def test_a_name_is_an_identifier_always():
    g = Graph()
    for name in ("1st", "2", "if", "é", "a-b"):
        assert g.placeholder(name).name.isidentifier()


def test_edits():
    g = small()
    x, y, a, m, out = g.nodes
    g.set_args(m, (a, y))
    assert list(x.users) == [a] and list(y.users) == [a, m]
    g.replace_all_uses_with(a, y)
    assert m.args == (y, y) and not a.users and list(y.users) == [a, m]
    g.erase_node(a)
    assert a not in g.nodes and list(y.users) == [m] and not x.users
    g.replace_all_uses_with(m, 7)
    assert g.outputs == (7, None, 2)
    g.verify()
    with pytest.raises(GraphError, match="cannot erase y, which is still read by mul"):
        g.erase_node(y)


def test_replacing_reaches_into_nested_arguments():
    g = Graph()
    x, y = g.placeholder("x"), g.placeholder("y")
    n = g.call_function(KEEP, (x, [x, (x, 1)], slice(x, None)), {"k": {"deep": x}})
    g.output([n])
    g.replace_all_uses_with(x, y)
    assert list(nodes_in((n.args, n.kwargs))) == [y] * 5 and not x.users and list(y.users) == [n]
    assert n.args[1] == [y, (y, 1)] and n.args[2] == slice(y, None) and n.kwargs == {"k": {"deep": y}}
    g.verify()


def test_a_node_of_a_derived_class_is_found_wherever_it_is():
    """Such as fx.Node: it is no container."""

    class Derived(Node):
        __slots__ = ()

    node = Derived(Graph(), "placeholder", "x", "x", (), {})
    tree = (node, [node, {"k": node}], slice(node, None), 1)
    assert nodes_in(tree) == [node] * 4
    assert nodes_in(map_args(tree, lambda n: 2)) == []


def test_inserting_before():
    g = small()
    x, _, _, m, _ = g.nodes
    with g.inserting_before(m):
        first, second = g.call_function(ADD, (x,)), g.call_function(ADD, (x,))
    g.call_function(ADD, (x,))  # outside: at the end again, which verify refuses
    assert [n.name for n in g.nodes][2:6] == ["add", first.name, second.name, "mul"]
    with pytest.raises(GraphError, match="does not end in an output node"):
        g.verify()


def test_a_placeholder_may_come_late_and_goes_after_the_others():
    g = small()
    late = g.placeholder("rng")
    assert g.nodes[2] is late and g.verify()
    with g.inserting_before(g.calls[1]):
        later = g.placeholder("more")
        call = g.call_function(ADD, (later,))
    assert g.nodes[3] is later and g.nodes.index(call) == g.nodes.index(g.calls[2]) - 1 and g.verify()


def test_copy_is_equal_and_apart():
    g = small()
    g.attributes["w"] = 5
    twin = g.copy()
    assert str(twin) == str(g) and twin.attributes == g.attributes and twin.nodes[2] is not g.nodes[2]
    assert all(n.graph is twin for n in twin.nodes)
    twin.erase_node(twin.output_node)
    twin.nodes[2].meta["region"] = "other"
    assert g.verify() and g.nodes[2].meta["region"] == "forward"
    assert twin.call_function(ADD, (twin.nodes[0],)).name == "add_1"


# ---- verify: each message ---------------------------------------------------------------------------------------


def broken(name):
    g = small()
    x, y, a, m, out = g.nodes
    if name == "no output":
        g.erase_node(out)
    elif name == "op":
        a.op = "call_method"
    elif name == "names":
        a.name = "mul"
    elif name == "late placeholder":
        g._nodes.insert(3, Node(g, "placeholder", "late", "late", (), {}))
    elif name == "two outputs":
        g._nodes.insert(2, Node(g, "output", "early", "output", ((),), {}))
    elif name == "attribute":
        g._nodes.insert(2, Node(g, "get_attr", "w", "w", (), {}))
    elif name == "order":
        g._nodes.remove(m)
        g._nodes.insert(2, m)
    elif name == "users lack":
        del x.users[m]
    elif name == "users too many":
        y.users[m] = None
    return g


MESSAGES = {
    "no output": "graph 'forward' does not end in an output node",
    "op": r"add: unknown op 'call_method'; expected one of \('placeholder'",
    "names": "two nodes are named 'mul'",
    "late placeholder": "placeholder late comes after a computation",
    "two outputs": "an output node must be the last one",
    "attribute": "w: no attribute 'w' in the graph",
    "order": "mul reads add, which is not computed before it",
    "users lack": r"x.users lacks mul, which reads it",
    "users too many": "y.users has mul, which does not read it",
}


@pytest.mark.parametrize("name", MESSAGES)
def test_verify_says_what_is_wrong(name):
    with pytest.raises(GraphError, match=MESSAGES[name]):
        broken(name).verify()


def test_verify_takes_a_list_of_allowed_targets():
    assert small().verify(allowed=lambda t: t in (ADD, MUL))
    with pytest.raises(GraphError, match="mul: <mul> is not allowed in this graph"):
        small().verify(allowed=lambda t: t is ADD)
    with pytest.raises(GraphError, match="does not end in an output node"):
        Graph().verify()


def test_metas():
    g = small()
    assert metas_of(g.placeholders) == (META, META) and meta_of(META) is META
    g.calls[0].meta["val"] = None
    with pytest.raises(GraphError, match=r"expected add to be a tensor .* but got None"):
        meta_of(g.calls[0])


# ---- running ----------------------------------------------------------------------------------------------------


def test_interpret():
    g = small()
    assert g.interpret([3, 4]) == (21, None, 2)
    seen = []
    g.interpret([3, 4], lambda node, args, kwargs: seen.append((node.name, args, kwargs)) or 1)
    assert seen == [("add", (3, 4), {}), ("mul", (1, 3), {})]
    with pytest.raises(TypeError, match="graph 'forward' expects 2 inputs, but got 1"):
        g.interpret([3])
    g.erase_node(g.output_node)
    with pytest.raises(GraphError, match="does not end in an output node"):
        g.interpret([3, 4])


def test_interpret_drops_values_after_their_last_reader():
    import gc
    import weakref

    class Value:
        pass

    alive, most = weakref.WeakSet(), [0]

    def handler(node, args, kwargs):
        value = Value()
        alive.add(value)
        gc.collect()
        most[0] = max(most[0], len(alive))
        return value

    g = Graph()
    last = g.placeholder("x")
    for _ in range(10):
        last = g.call_function(ADD, (last,))
    g.output([last])
    g.interpret([0], handler)
    assert most[0] <= 3  # the chain's newest value and its predecessor, not ten


def test_attributes_are_values_of_the_graph():
    g = Graph()
    x = g.placeholder("x", META)
    w = g.get_attr("weight", 10, META)
    again = g.get_attr("weight", 20)
    g.output([g.call_function(ADD, (x, w)), again])
    assert g.attributes == {"weight": 10, "weight_1": 20} and g.verify().interpret([1]) == (11, 20)
    assert GraphModule(g)(1) == (11, 20)


def test_a_graph_module_runs_its_own_text():
    module = GraphModule(small())
    assert module(3, 4) == module.forward(3, 4) == (21, None, 2)
    assert module.code == str(module.graph) and module.print_readable(print_output=False) == module.code
    assert repr(module) == "GraphModule(forward: 2 calls)"
    module.graph.set_args(module.graph.calls[0], (1, 2))
    assert module(3, 4) == (21, None, 2)  # until recompile, as in torch
    module.recompile()
    assert module(3, 4) == (9, None, 2)


def test_a_graph_module_prints_on_request(capsys):
    GraphModule(small()).print_readable()
    assert capsys.readouterr().out.startswith("def forward(\n")


# ---- text -------------------------------------------------------------------------------------------------------

TEXT = """\
def forward(
    x,  # float32[2, 3]; role=primal
    y,  # float32[2, 3]; role=primal
):
    # model.py:3: x + y
    add = core.add(x, y)  # float32[2, 3]; region=forward
    # model.py:4
    mul = core.mul(add, x)  # float32[2, 3]; region=backward
    return (mul, None, 2)
"""


def test_printing():
    assert str(small()) == TEXT


def test_reading_back():
    again = parse_graph(TEXT, TABLE)
    assert str(again) == TEXT and again.verify().interpret([3, 4]) == (21, None, 2)
    x, _, a, m, _ = again.nodes
    assert x.val == META and x.meta["role"] == "primal" and a.target is ADD
    assert a.origins == (Origin("model.py", 3, "x + y"),) and m.origins == (Origin("model.py", 4),)


def test_every_kind_of_argument_reads_back():
    g = Graph("backward")
    x = g.placeholder("x")
    inf = float("inf")
    args = (
        x,
        1,
        -2,
        2.5,
        1e-30,
        inf,
        -inf,
        True,
        None,
        "text # x",
        (1,),
        (),
        [x, 2],
        slice(1, None, 2),
        (x, (x, slice(x, 3))),
    )
    n = g.call_function(
        KEEP, args, {"dtype": dt.bfloat16, "device": Device("cuda", 1), "where": CPU, "d": {"a": x}}
    )
    g.output([n, (n, 1.5)])
    again = parse_graph(str(g), TABLE)
    assert str(again) == str(g) and again.name == "backward"
    got, want = again.calls[0], g.calls[0]
    swap = lambda tree: map_args(tree, lambda node: node.name)  # noqa: E731
    assert swap(got.args) == swap(want.args) and swap(got.kwargs) == swap(want.kwargs)
    nan = Graph()
    nan.output([nan.call_function(KEEP, (float("nan"),))])
    assert str(parse_graph(str(nan), TABLE)) == str(nan)


def test_several_values_and_items():
    g = Graph()
    x = g.placeholder(
        "x", META.with_(strides=(1, 2), shape=(2, 3), device=Device("cuda"), requires_grad=True)
    )
    pair = g.call_function(PAIR, (x,), val=(META, META.with_(shape=(), dtype=dt.int64)))
    first = g.call_function(operator.getitem, (pair, 0), val=META)
    g.output([first, g.call_function(operator.getitem, (pair, 1))])
    again = parse_graph(str(g), TABLE)
    assert str(again) == str(g) and again.interpret([3]) == (3, -3)
    assert [n.val for n in again.nodes] == [n.val for n in g.nodes]
    assert GraphModule(again)(3) == (3, -3)


def test_attributes_read_back_by_name():
    g = Graph()
    w = g.get_attr("w", 5, META)
    g.output([g.call_function(ADD, (w,))])
    again = parse_graph(str(g), TABLE, attributes={"w": 7})
    assert str(again) == str(g) and again.interpret([]) == (8,) and again.attributes == {"w": 7}


WRONG_TEXT = {
    "no def": ("x = 1\n", "a single def"),
    "a statement": (
        "def f():\n    for i in x:\n        pass\n    return ()\n",
        "line 2: not a graph statement",
    ),
    "no call": ("def f(x,):\n    y = x + 1\n    return (y,)\n", r"line 2: expected a call, got 'x \+ 1'"),
    "operator": ("def f(x,):\n    y = core.sin(x)\n    return (y,)\n", "line 2: unknown operator 'core.sin'"),
    "name": ("def f():\n    y = core.add(x)\n    return (y,)\n", "line 2: cannot read 'x'"),
    "type": ("def f(\n    x,  # float3[2]\n):\n    return (x,)\n", "float3"),
}


@pytest.mark.parametrize("name", WRONG_TEXT)
def test_wrong_text_is_refused_with_its_line(name):
    text, message = WRONG_TEXT[name]
    with pytest.raises((ValueError, TypeError), match=message):
        parse_graph(text, TABLE)


@st.composite
def graphs(draw):
    """Any graph over the little table: nested arguments, metas, origins, marks, edits."""
    g = Graph(draw(st.sampled_from(["forward", "backward", "main"])))
    sizes = st.lists(st.integers(0, 9), max_size=3).map(tuple)
    metas = st.builds(
        lambda shape, d, grad: TensorMeta(shape, d, requires_grad=grad),
        sizes, st.sampled_from(list(dt.DTYPES.values())), st.booleans(),
    )  # fmt: skip
    names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,5}", fullmatch=True)
    for _ in range(draw(st.integers(0, 3))):
        g.placeholder(
            draw(names), draw(st.none() | metas), **draw(st.sampled_from([{}, {"role": "tangent"}]))
        )
    numbers = (
        st.integers()
        | st.floats(allow_nan=False)
        | st.booleans()
        | st.none()
        | st.text("ab'\"\\ #", max_size=3)
    )
    origin = st.builds(
        Origin, st.just("m.py"), st.integers(1, 99), st.text("xy+( ", max_size=4).map(str.strip)
    )
    for _ in range(draw(st.integers(0, 6))):
        leaves = numbers | st.sampled_from(list(dt.DTYPES.values()))
        if g.nodes:
            leaves = leaves | st.sampled_from(g.nodes)
        trees = st.recursive(
            leaves, lambda t: st.lists(t, max_size=2) | st.lists(t, max_size=2).map(tuple), max_leaves=4
        )
        g.call_function(
            draw(st.sampled_from(list(TABLE.values()))),
            draw(st.lists(trees, max_size=3)),
            draw(st.dictionaries(st.sampled_from(["alpha", "dim"]), trees, max_size=2)),
            val=draw(st.none() | metas | st.lists(metas, min_size=2, max_size=3).map(tuple)),
            origins=tuple(draw(st.lists(origin, max_size=2))),
            name=draw(st.none() | names),
            **draw(st.sampled_from([{}, {"region": "forward"}])),
        )
    g.output(draw(st.lists(st.sampled_from([*g.nodes, None, 3]), max_size=3)))
    return g


@given(graphs())
@settings(max_examples=80, derandomize=True, deadline=None)
def test_any_graph_reads_back_equal(graph):
    text = print_graph(graph.verify())
    again = parse_graph(text, TABLE).verify()
    assert print_graph(again) == text
    assert print_graph(graph.copy().verify()) == text
    assert [n.name for n in again.nodes] == [n.name for n in graph.nodes]
    assert [n.val for n in again.nodes] == [n.val for n in graph.nodes]


# ---- origins ----------------------------------------------------------------------------------------------------


def test_a_caret_points_into_the_users_source(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("def f(x):\n    return relu(x) + 1\n")
    origin = Origin(str(path), 2, "relu(x)", 11, 18)
    assert origin.caret() == f'  File "{path}", line 2\n    return relu(x) + 1\n           ^^^^^^^'
    assert str(origin) == "model.py:2" and origin.describe() == "model.py:2: relu(x)"
    assert Origin("gone.py", 7).caret() == '  File "gone.py", line 7'
    assert Origin("gone.py", 7, "x + 1").caret() == '  File "gone.py", line 7\n    x + 1\n    ^'
    assert union([[origin], [], [origin, Origin("b.py", 1)]]) == (origin, Origin("b.py", 1))
