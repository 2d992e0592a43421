"""Lists, tuples, dicts, sets, strings, slices, numbers and what the builtins make of them."""

import collections
import copy
import functools
import math
import operator
from collections import Counter, OrderedDict, defaultdict, deque

from stage1_capture.tests.programs.registry import mark, program


@program()
def list_methods(x):
    items = [3, 1, 2]
    items.append(5)
    items.extend((7, 8))
    items.insert(1, 9)
    items.remove(5)
    mark()
    last = items.pop()
    return x + last, items, items.index(9), items.count(1), items.copy()


@program()
def list_of_tensors(x):
    items = [x + i for i in range(3)]
    items[1] = x * 2
    mark()
    return items[::-1], items[-1], len(items)


@program()
def list_operators(x):
    a, b = [x], [1, 2]
    mark()
    return a + b, b * 2, [*a, *b], b == [1, 2], [1] < [2], 2 in b


@program()
def list_contains_tensor(x):
    items = [x, x + 1]
    mark()
    return x in items, items.index(x)


@program()
def slices(x):
    items = list(range(6))
    middle = slice(1, 5, 2)
    mark()
    return x, items[1:3], items[::-2], items[middle], middle.start


@program()
def tuple_methods(x):
    t = (1, 2, 2)
    mark()
    return x, t.count(2), t.index(2), t + (x,), t[1:], hash((1, 2)) == hash((1, 2))


@program()
def dict_methods(x):
    d = {"a": 1, "b": x}
    d.setdefault("c", 3)
    d.update({"d": 4}, e=5)
    mark()
    gone = d.pop("a")
    return x + gone, d.get("b"), d.get("zz", 9), d.popitem(), list(d), d


@program()
def dict_views(x):
    d = {"a": 1, "b": 2}
    keys, values = d.keys(), d.values()
    d["c"] = 3
    mark()
    return x + sum(values), list(keys), "c" in keys, len(values), keys & {"a"}


@program()
def dict_merged(x):
    a, b = {"a": 1}, {"b": x}
    mark()
    return {**a, **b}, a | b, dict(a, c=3), dict([("k", 1)]), dict.fromkeys("ab", 0)


@program()
def dict_with_other_keys(x):
    d = {1: "int", (1, 2): "tuple", None: "none", 2.5: x}
    mark()
    return d[1], d[1, 2], d[None], d[2.5]


@program()
def dict_keyed_by_class(x):
    d = {int: 1, str: 2}
    mark()
    return x + d[int]


@program()
def dict_equality(x):
    mark()
    return x, {"a": 1} == {"a": 1}, {"a": 1} != {"a": 2}


@program()
def dict_comprehension_inverted(x):
    d = {v: k for k, v in {"a": 1, "b": 2}.items()}
    mark()
    return x, d


@program()
def set_methods(x):
    s = {1, 2}
    s.add(3)
    s.discard(7)
    mark()
    s.update([4, 5])
    return x + len(s), s | {9}, s & {1, 2}, s - {1}, s ^ {1, 10}, s.issubset(range(9)), 4 in s


@program()
def frozen_sets(x):
    f = frozenset([1, 2])
    mark()
    return x + len(f), f | {3}, 1 in f, {f: 1}[frozenset([2, 1])]


@program()
def set_in_place(x):
    s = t = {1, 2}
    s |= {3}
    s &= {2, 3}
    mark()
    s -= {2}
    return x, s, s is t


@program()
def strings(x):
    s = "Hello, World"
    mark()
    return (
        x,
        s.lower(),
        s.split(", "),
        s.replace("l", "L"),
        s[0:5],
        s.startswith("He"),
        "-".join(["a", "b"]),
        s * 2,
    )


@program()
def more_strings(x):
    mark()
    return (
        x,
        "a,b".partition(","),
        " x ".strip(),
        "abc".find("c"),
        f"{1}-{2}",
        "%s %d" % ("a", 3),
    )


@program()
def joined_generator(x):
    mark()
    return x, ",".join(str(i) for i in range(3))


@program((3,), 7, 2.5)
def f_strings(x, n, f):
    a = f"{n}|{n:>5}|{f:.2f}|{n!r}|{x.shape}|{'q'!s:_^5}"
    mark(a)
    return x, a, f"{n=}", f"{n:{n}d}"


@program()
def f_string_of_a_tensor(x):
    y = x.sum() * 0
    return x + 1, f"{y.shape} {y.dtype}"


@program()
def f_string_of_data(x):
    y = x * 0
    text = f"{y.sum().item()}"
    return y + 1, text


@program()
def bytes_values(x):
    b = b"abc"
    mark()
    return x, b[0], b + b"d", b.decode(), bytes([1, 2])


@program()
def numbers(x):
    mark()
    return (
        x,
        7 // 2,
        -7 % 3,
        2**10,
        7 / 2,
        divmod(7, 3),
        round(2.567, 2),
        abs(-3),
        int("5"),
        float("1.5"),
        1e3,
    )


@program()
def more_numbers(x):
    mark()
    return (
        x,
        bin(5),
        hex(255),
        ord("a"),
        chr(98),
        pow(2, 5, 7),
        complex(1, 2).real,
        (5).bit_length(),
        True + 1,
        ~5,
    )


@program()
def maths(x):
    mark()
    return (
        x * math.sqrt(2),
        math.pi,
        math.floor(2.7),
        math.ceil(2.1),
        math.prod([2, 3]),
        math.gcd(12, 18),
        math.inf,
    )


@program()
def maxima(x):
    mark()
    return (
        x,
        max(3, 1, 2),
        min([3, 1], key=lambda v: -v),
        max("ab", "b"),
        max([], default=0),
        min((2, "b"), (1, "c")),
    )


@program()
def sums(x):
    mark()
    return sum([x, x, x]), sum([1, 2], 10), sum([[1], [2]], [])


@program()
def sorting(x):
    words = ["bb", "a", "ccc"]
    mark()
    return x, sorted(words, key=len), sorted(words, reverse=True), sorted([(2, "a"), (1, "b")])


@program()
def sorting_with_a_break(x):
    def key(word):
        mark(word)
        return len(word)

    return x, sorted(["bb", "a"], key=key)


@program()
def zipping(x):
    pairs = list(zip("ab", [1, 2]))
    mark()
    back = list(zip(*pairs))
    return x, pairs, back, dict(pairs)


@program()
def enumerating(x):
    mark()
    return [(i, y) for i, y in enumerate([x, x + 1], 1)]


@program()
def any_all(x):
    mark()
    return x, any([0, 1]), all([]), any([]), all([1, 0])


@program((3,), 3, "name", None)
def type_questions(x, n, s, nothing):
    mark()
    return (
        x,
        isinstance(n, int),
        isinstance(s, (list, str)),
        type(n) is int,
        type(nothing).__name__,
        callable(len),
    )


@program()
def conversions(x):
    mark()
    return (
        x,
        list("ab"),
        tuple([1]),
        set([1, 1]),
        str(5),
        repr("a"),
        bool([]),
        int(2.9),
        dict(a=1),
        list({"k": 1}),
    )


@program()
def reduced(x):
    mark()
    return functools.reduce(lambda a, b: a * b, [x, x, 2]), functools.reduce(operator.add, [1, 2, 3], 10)


@program()
def operators_as_functions(x):
    mark()
    return (
        operator.add(x, 1),
        operator.mul(2, 3),
        operator.getitem([5, 6], 1),
        operator.neg(x),
        operator.lt(1, 2),
    )


@program()
def item_getters(x):
    pairs = [(2, "a"), (1, "b")]
    mark()
    return x, sorted(pairs, key=operator.itemgetter(1)), operator.attrgetter("shape")(x)


@program()
def ordered(x):
    d = OrderedDict()
    d["b"] = x
    d["a"] = 1
    mark()
    d.move_to_end("b")
    return d, list(d), d.popitem(last=False)


@program()
def defaults(x):
    d = defaultdict(list)
    d["a"].append(x)
    mark()
    d["b"].append(1)
    return d["a"], sorted(d), "zz" in d


@program()
def default_counts(x):
    d = defaultdict(int)
    for c in "abca":
        d[c] += 1
    mark()
    return x + d["a"], d


@program()
def deques(x):
    q = deque([1, 2], maxlen=3)
    q.append(x)
    q.appendleft(0)
    mark()
    q.rotate(1)
    return list(q), q.pop(), q.popleft(), len(q), q.maxlen


@program()
def counters(x):
    c = Counter("abca")
    mark()
    return x + c["a"], c.most_common(1), c["zz"]


@program()
def chain_maps(x):
    m = collections.ChainMap({"a": 1}, {"b": 2})
    mark()
    return x + m["b"]


@program()
def shallow_copies(x):
    rows = [[x], 2]
    again = copy.copy(rows)
    mark()
    again[0].append(1)
    return rows, again, rows[0] is again[0]


@program()
def deep_copies(x):
    rows = [[1], {"a": [2]}]
    again = copy.deepcopy(rows)
    mark()
    again[0].append(1)
    return x, rows, again


@program()
def deep_copy_of_a_tensor(x):
    y = copy.deepcopy([x])
    mark()
    return y[0] + 1


@program()
def nested_structures(x):
    tree = {"a": [x, {"b": (x + 1, None)}], "c": {"d": []}}
    tree["c"]["d"].append(tree["a"][1]["b"][0])
    mark()
    return tree


@program()
def shared_inside(x):
    row = [x + 1]
    grid = [row, row, (row, {"r": row})]
    mark()
    row.append(2)
    return grid


@program((3,), lambda: {"w": [1.0, 2.0], "opts": {"deep": (3, 4)}})
def deep_argument(x, config):
    mark()
    return x * config["w"][1] + config["opts"]["deep"][0]


@program((3,), lambda: ((1, 2), [3]))
def tuple_argument(x, t):
    (a, b), [c] = t
    mark()
    return x + a + b + c


@program((3,), 2, 0.5)
def open_numbers(x, n, f):
    y = x * n + f
    mark()
    return y, n + 1, n * f, -n, n // 2, n**2, n == 2, f < 1


@program((3,), True, None)
def flags(x, flag, nothing):
    mark()
    return x + 1 if flag and nothing is None else x


@program()
def range_questions(x):
    r = range(1, 10, 3)
    mark()
    return x + len(r), list(r), r[1], 4 in r, r[-1], list(reversed(r)), r.stop


@program()
def ellipsis_and_not_implemented(x):
    mark()
    return x[..., None].shape, ... is Ellipsis, NotImplemented is NotImplemented


@program((2, 3))
def tensor_slices(x):
    y = x[1:, ::2]
    mark()
    return y, x[0], x[..., -1], x[:, None].shape
