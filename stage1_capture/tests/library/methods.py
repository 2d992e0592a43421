"""One small call for each public method of Python's own classes, inside a function of a tensor.

Input: a table for each class: how to make `v`, and lines of a name and an expression. `name:word` is one more line for
a name. The rows see a tensor `x`, the number `n` (2) and `caught(function)`: what a call raises, as text.
"""

import collections

CLASSES = {
    c.__name__: c
    for c in (str, dict, list, tuple, set, frozenset, collections.deque, collections.OrderedDict,
              collections.defaultdict, collections.Counter, int, float, bytes)
}  # fmt: skip

STR = """
capitalize    v.capitalize()
casefold      v.casefold(), "Maße".casefold()
center        v.center(12), v.center(12, "*"), v.center(n)
count         v.count("b"), v.count("b", 3), v.count("")
encode        v.encode(), v.encode("latin-1", "replace")
endswith      v.endswith("a"), v.endswith(("x", "a")), v.endswith("b", 0, 2)
expandtabs    "a\\tb".expandtabs(4), "a\\tb".expandtabs(n)
find          v.find("b"), v.find("z"), v.find("b", 3, 6)
format        "{} {a:>{w}} {}".format(n, 2, a=v, w=9), "{0!r:5}|{0}".format(v), "{0[1]}".format([1, v])
format:error  caught(lambda: "{} {}".format(1)), caught(lambda: "{a}".format())
format_map    "{a} {b:.2f}".format_map({"a": v, "b": 2.0}), caught(lambda: "{c}".format_map({}))
index         v.index("b"), v.index("B", 1)
index:error   caught(lambda: v.index("zz"))
isalnum       v.isalnum(), "a1".isalnum()
isalpha       v.isalpha(), "ab".isalpha()
isascii       v.isascii(), "ß".isascii()
isdecimal     v.isdecimal(), "12".isdecimal()
isdigit       v.isdigit(), "²".isdigit()
isidentifier  v.isidentifier(), "x1".isidentifier()
islower       v.islower()
isnumeric     v.isnumeric(), "½".isnumeric()
isprintable   v.isprintable(), "\\n".isprintable()
isspace       v.isspace(), " ".isspace()
istitle       v.istitle(), "Ab Cd".istitle()
isupper       v.isupper()
join          v.join(["1", "2"]), ",".join(str(i) for i in range(3)), "-".join({"a": 1, "b": 2}), "".join(v)
join:error    caught(lambda: v.join(["a", 1])), caught(lambda: v.join(3))
ljust         v.ljust(12, "."), v.ljust(n)
lower         v.lower()
lstrip        v.lstrip(), v.lstrip("ba")
maketrans     "abc".translate(str.maketrans("ab", "xy", "c")), str.maketrans({"a": None}), v.maketrans("a", "b")
partition     v.partition(" "), v.partition("z")
removeprefix  v.removeprefix("bB"), v.removeprefix("z")
removesuffix  v.removesuffix("a"), v.removesuffix("z")
replace       v.replace("b", "d"), v.replace("b", "d", 1), v.replace("b", "", n)
rfind         v.rfind("b"), v.rfind("z")
rindex        v.rindex("b"), caught(lambda: v.rindex("z"))
rjust         v.rjust(12), v.rjust(n + 9, "0")
rpartition    v.rpartition(" "), v.rpartition("z")
rsplit        v.rsplit(), v.rsplit("b", 1), v.rsplit(maxsplit=1)
rstrip        v.rstrip(), v.rstrip("a")
split         v.split(), v.split("b", 1), v.split(sep="b", maxsplit=n), caught(lambda: v.split(""))
splitlines    "a\\nb\\r\\n".splitlines(), "a\\nb\\n".splitlines(True), "a\\nb".splitlines(keepends=True)
startswith    v.startswith("bB"), v.startswith(("x", "b")), v.startswith("a", n)
strip         v.strip(), v.strip("ba")
swapcase      v.swapcase()
title         v.title()
translate     v.translate({98: "z", ord("a"): None})
upper         v.upper(), str.upper(v), list(map(str.upper, v.split()))
zfill         "7".zfill(3), "-7".zfill(n + 2)
operators     v + "!", v * n, v % (), "%s %d %.1f %5s|%-5s|%r" % (v, n, 1.25, "a", "b", "c"), "b" in v, v[1], v[::-1], v[:n]
operators:error caught(lambda: v + 1), caught(lambda: v[99]), caught(lambda: 1 in v), caught(lambda: v.nothing)
comparisons   v < "c", v == "b", v != "b", v >= "a", len(v), hash(v) == hash(v), bool(v), [c for c in v], sorted(v)
"""

DICT = """
clear         v.clear(), v, len(v)
copy          v.copy(), v.copy() is v, v.copy()["a"] is v["a"]
fromkeys      dict.fromkeys("ab", x), dict.fromkeys([1, 2]), v.fromkeys((3,), n)
get           v.get("a"), v.get("z"), v.get("z", x + 1), v.get("a", 3)
get:error     caught(lambda: v.get([])), caught(lambda: v.get())
items         list(v.items()), ("a", 1) in v.items(), len(v.items()), sorted(v.items(), key=lambda p: p[0], reverse=True)
keys          list(v.keys()), "a" in v.keys(), v.keys() & {"a", "z"}, v.keys() | {"q"}, v.keys() - {"a"}, v.keys() == {"a", "b", "c"}
keys:more     v.keys() ^ {"a", "q"}, v.keys() <= {"a"}, v.keys().isdisjoint({"q"}), list(reversed(v.keys()))
pop           v.pop("a"), v.pop("z", 5), v
pop:error     caught(lambda: v.pop("zz")), caught(lambda: v.pop()), v
popitem       v.popitem(), v
popitem:error caught(lambda: {}.popitem())
setdefault    v.setdefault("a", 7), v.setdefault("q", []).append(x), v.setdefault("r"), v
update        v.update({"a": x, "q": 2}), v.update(b=3), v.update([("s", 4)], t=5), v.update(zip("uv", range(n))), v
update:error  caught(lambda: v.update([(1, 2, 3)])), caught(lambda: v.update(3))
values        list(v.values()), 1 in v.values(), len(v.values()), list(reversed(v.values()))
operators     v | {"q": 9}, v["a"], "a" in v, "z" not in v, len(v), bool(v), bool({}), [k for k in v], list(reversed(v))
operators:in_place [v.__ior__({"q": 9}), v.__setitem__("r", x), v.__delitem__("a"), v]
operators:error caught(lambda: v["zz"]), caught(lambda: v[[]]), caught(lambda: v.__delitem__("zz")), caught(lambda: v < v)
comparisons   v == {"a": 1}, v == v, v != {"a": 1, "b": 2.0, "c": "t"}, v == {"c": "t", "b": 2.0, "a": 1}
unpacked      {**v, "a": 3}, dict(v, q=1), dict(a=1), dict([("k", x)]), [*v], max(v), min(v.values(), key=str)
"""

LIST = """
append        v.append(x), v.append(v[0]), v
clear         v.clear(), v
copy          v.copy(), v.copy() is v
count         v.count(1), v.count("z"), v.count(1.0), v.count(True)
extend        v.extend([x, 2]), v.extend(range(n)), v.extend("ab"), v.extend(v), v
extend:error  caught(lambda: v.extend(3)), v
index         v.index(3), v.index(1, 1), v.index(2, -2)
index:error   caught(lambda: v.index(9)), caught(lambda: v.index(3, 2))
insert        v.insert(0, x), v.insert(-1, 5), v.insert(99, 6), v.insert(n, 7), v
pop           v.pop(), v.pop(0), v.pop(-1), v
pop:error     caught(lambda: v.pop(99)), caught(lambda: [].pop()), v
remove        v.remove(3), v.remove(1), v
remove:error  caught(lambda: v.remove(9)), v
reverse       v.reverse(), v
sort          v.sort(), list(v), v.sort(reverse=True), list(v), v.sort(key=lambda i: -i), v
sort:error    caught(lambda: [1, "a"].sort()), caught(lambda: v.sort(lambda i: i))
operators     v + [x], v * n, n * v, v[0], v[-1], v[1:], v[::-1], v[n:], 3 in v, 9 not in v, len(v), bool(v), list(reversed(v))
operators:in_place v.__setitem__(0, x), v.__setitem__(slice(1, 3), [7, 8, 9]), v.__delitem__(-1), v.__iadd__((4,)), v.__imul__(n), v
operators:error caught(lambda: v[99]), caught(lambda: v["a"]), caught(lambda: v + (1,)), caught(lambda: v.nothing), caught(lambda: hash(v))
comparisons   v == [3, 1, 2, 1], v < [4], v >= [3, 1], v != v, [1, 2] <= [1, 2, 3]
unpacked      [*v, *v], (lambda a, *b: (a, b))(*v), list(v) is v, sum(v), max(v), sorted(v), tuple(v), set(v), list(enumerate(v, n))
"""

TUPLE = """
count         v.count(1), v.count(9)
index         v.index(2), v.index(1, 1)
index:error   caught(lambda: v.index(9))
operators     v + (x,), v * n, v[0], v[-1], v[1:], 3 in v, len(v), bool(v), hash(v) == hash((3, 1, 2, 1)), list(reversed(v))
operators:error caught(lambda: v[9]), caught(lambda: v + [1]), caught(lambda: v.append(1)), caught(lambda: v.__setitem__(0, 1))
comparisons   v == (3, 1, 2, 1), v < (4,), v != (1,), v == [3, 1, 2, 1], tuple(v) is v, sorted(v), max(v), sum(v)
"""

SET = """
add           v.add(9), v.add(1), sorted(v)
add:error     caught(lambda: v.add([])), sorted(v)
clear         v.clear(), v, len(v)
copy          sorted(v.copy()), v.copy() is v, v.copy() == v
difference    v.difference([1]), v - {2}, v.difference(), v.difference([1], (2,))
difference_update v.difference_update([1], range(n)), v
discard       v.discard(1), v.discard(77), v
intersection  v.intersection([1, 2]), v & {1}, v.intersection((1, 2), {2})
intersection_update v.intersection_update([1, 2]), v
isdisjoint    v.isdisjoint([77]), v.isdisjoint((1,))
issubset      v.issubset([1, 2, 3, 4]), v <= {1}, v < {1, 2, 3, 4, 5}
issuperset    v.issuperset([1]), v >= {1, 2}, v > {1, 2, 3}
pop           {7}.pop(), len(v), v.pop() in (1, 2, 3), len(v)
pop:error     caught(lambda: set().pop())
remove        v.remove(1), v
remove:error  caught(lambda: v.remove(77)), v
symmetric_difference v.symmetric_difference([1, 9]), v ^ {1, 9}
symmetric_difference_update v.symmetric_difference_update([1, 9]), v
union         v.union([8], "a"), v | {4}, v.union()
update        v.update([8], range(6, 6 + n)), v.update(), v
operators     1 in v, 9 not in v, len(v), bool(v), bool(set()), v == {1, 2, 3}, v != {1}, sorted(v), {*v, 4} == {1, 2, 3, 4}
operators:in_place v.__ior__({8}), v.__iand__({1, 8}), v.__isub__({8}), v.__ixor__({5}), v
operators:error caught(lambda: v + v), caught(lambda: v | [1]), caught(lambda: v[0]), caught(lambda: hash(v))
"""

FROZENSET = """
copy          v.copy() is v, v.copy()
difference    v.difference([1]), v - {2}, type(v - {2}), type({1} - v)
intersection  v.intersection([1, 2]), v & {1}
isdisjoint    v.isdisjoint([77])
issubset      v.issubset([1, 2, 3, 4]), v <= {1, 2, 3}
issuperset    v.issuperset([1]), v >= {1}
symmetric_difference v.symmetric_difference([1, 9])
union         v.union([8]), v | {4}, type({4} | v)
operators     1 in v, len(v), bool(v), v == {1, 2, 3}, hash(v) == hash(frozenset([1, 2, 3])), {v: n}[v], sorted(v)
operators:error caught(lambda: v.add(1)), caught(lambda: v + v)
"""

DEQUE = """
append        v.append(x), v.append(n), v
appendleft    v.appendleft(x), v.appendleft(n), v
clear         v.clear(), v
copy          v.copy(), v.copy() is v, v.copy().maxlen
count         v.count(1), v.count(9)
extend        v.extend([x, 2, 3]), v
extendleft    v.extendleft([x, 2, 3]), v
index         v.index(2), v.index(1, 1)
index:error   caught(lambda: v.index(9))
insert        v.pop(), v.insert(1, x), v
insert:error  caught(lambda: collections.deque([1], 1).insert(0, 2)), v
maxlen        v.maxlen, collections.deque().maxlen
pop           v.pop(), v.pop(), v
pop:error     caught(lambda: collections.deque().pop())
popleft       v.popleft(), v.popleft(), v
popleft:error caught(lambda: collections.deque().popleft())
remove        v.remove(1), v
remove:error  caught(lambda: v.remove(9)), v
reverse       v.reverse(), v
rotate        v.rotate(), list(v), v.rotate(-n), list(v), v.rotate(77), v
operators     v[0], v[-1], 2 in v, len(v), bool(v), list(v), list(reversed(v)), v == v, v == collections.deque([3]), v + v
operators:in_place v.__setitem__(0, x), v.__delitem__(1), v.__iadd__([5]), v
operators:multiplied v * n, n * v
operators:error caught(lambda: v[99]), caught(lambda: v[1:]), caught(lambda: v.nothing)
"""

ORDEREDDICT = """
clear         v.clear(), v
copy          v.copy(), v.copy() is v
fromkeys      collections.OrderedDict.fromkeys("ab", x), v.fromkeys("c")
get           v.get("a"), v.get("z", x)
items         list(v.items()), list(reversed(v.items()))
keys          list(v.keys()), list(reversed(v.keys()))
move_to_end   v.move_to_end("a"), list(v), v.move_to_end("a", last=False), v
move_to_end:error caught(lambda: v.move_to_end("zz"))
pop           v.pop("a"), v.pop("z", 5), v
pop:error     caught(lambda: v.pop("zz"))
popitem       v.popitem(), v.popitem(last=False), v
popitem:error caught(lambda: collections.OrderedDict().popitem())
setdefault    v.setdefault("a", 7), v.setdefault("q", x), v
update        v.update(a=x), v.update({"q": 1}), v.update([("r", 2)]), v
values        list(v.values()), list(reversed(v.values()))
operators     v | {"q": 9}, {"q": 9} | v, v["a"], "a" in v, len(v), list(reversed(v)), next(iter(v)), next(reversed(v))
comparisons   v == {"c": "t", "b": 2.0, "a": 1}, v == collections.OrderedDict([("c", "t"), ("b", 2.0), ("a", 1)]), v == v.copy()
operators:error caught(lambda: v["zz"])
"""

DEFAULTDICT = """
clear         v.clear(), v, v["q"], v
copy          v.copy(), v.copy()["new"], v
default_factory v.default_factory, collections.defaultdict().default_factory
fromkeys      collections.defaultdict.fromkeys("ab", x)
get           v.get("a"), v.get("z"), v
items         list(v.items())
keys          list(v.keys())
pop           v.pop("a"), v.pop("z", 5), v
pop:error     caught(lambda: v.pop("zz"))
popitem       v.popitem(), v
setdefault    v.setdefault("q", x), v
update        v.update(q=[x]), v
values        list(v.values())
operators     v["new"].append(x), v["a"], "zz" in v, len(v), v | {"q": 9}, v == {"a": [1]}, v
operators:error caught(lambda: collections.defaultdict()["zz"]), caught(lambda: collections.defaultdict(3))
factories     dict(v), collections.defaultdict(int, a=1)["z"], collections.defaultdict(lambda: x + 1)["y"], v
"""

COUNTER = """
clear         v.clear(), v
copy          v.copy(), v.copy() is v, type(v.copy())
elements      list(v.elements()), sorted(v.elements())
fromkeys      caught(lambda: collections.Counter.fromkeys("ab"))
get           v.get("a"), v.get("z"), v["z"], v
items         list(v.items())
keys          list(v.keys())
most_common   v.most_common(), v.most_common(1), v.most_common(n)
pop           v.pop("a"), v.pop("z", 5), v
pop:error     caught(lambda: v.pop("zz"))
popitem       v.popitem(), v
setdefault    v.setdefault("q", 4), v
subtract      v.subtract("ab"), v.subtract({"c": 2}), v.subtract(a=1), v
total         v.total()
update        v.update("abz"), v.update({"c": 2}), v.update(a=1), v.update(), v
values        list(v.values())
operators     v + collections.Counter("ab"), v - collections.Counter("ab"), v & collections.Counter("ab"), v | collections.Counter("bbb")
operators:more +v, -v, v == collections.Counter("aba"), v <= collections.Counter("aaabbb"), v != v, len(v), "a" in v, repr(v)
operators:in_place v.__setitem__("q", n), v.__delitem__("zz"), v.__iadd__(collections.Counter("q")), v
made          collections.Counter(), collections.Counter([1, 1, 2]), collections.Counter(a=1), collections.Counter({"a": 3}), max(v, key=v.get)
"""

INT = """
as_integer_ratio v.as_integer_ratio()
bit_count     v.bit_count(), (-7).bit_count()
bit_length    v.bit_length(), n.bit_length()
conjugate     v.conjugate()
denominator   v.denominator
from_bytes    int.from_bytes(b"ab", "little"), int.from_bytes(b"a", "big", signed=True)
imag          v.imag
is_integer    caught(lambda: v.is_integer())
numerator     v.numerator
real          v.real
to_bytes      v.to_bytes(2, "little"), caught(lambda: (-1).to_bytes(2, "big"))
operators     v + n, v - n, v * n, v / n, v // n, v % n, v ** n, -v, +v, ~v, abs(-v), divmod(v, n), pow(v, n, 3), round(v, -1)
operators:bits v & 3, v | 8, v ^ 3, v << n, v >> 1, bool(v), int(v), float(v), complex(v), hash(v), index_of(v)
operators:error caught(lambda: v // 0), caught(lambda: v % 0), caught(lambda: v << -1), caught(lambda: v + "a"), caught(lambda: v[0])
comparisons   v < n, v == 13.0, v != n, v >= 13, v is v, 1 < v < 20, v in (13, 2), isinstance(v, int), max(v, n), str(v), f"{v:05d}|{v:x}"
made          int("12"), int("ff", 16), int(3.7), int(True), int(" 7 "), caught(lambda: int("x")), caught(lambda: int(None))
"""

FLOAT = """
as_integer_ratio v.as_integer_ratio()
conjugate     v.conjugate()
fromhex       float.fromhex("0x1.8p3"), caught(lambda: float.fromhex("zz"))
hex           v.hex()
imag          v.imag
is_integer    v.is_integer(), (2.0).is_integer()
real          v.real
operators     v + n, v - 1, v * 2, v / n, v // n, v % 1, v ** 2, -v, abs(-v), divmod(v, 1), round(v), round(v, 1), int(v), bool(v)
operators:error caught(lambda: v / 0), caught(lambda: v % 0.0), caught(lambda: (-8.0) ** 0.5), caught(lambda: v & 1)
comparisons   v < 3, v == 2.5, v != n, float("nan") == float("nan"), float("inf") > v, min(v, 1.0), f"{v:.3f}|{v:e}|{v:8.2f}", str(v), repr(v)
made          float("1e3"), float("-inf"), float(3), float(" 2.5 "), caught(lambda: float("x")), caught(lambda: float([]))
"""

BYTES = """
capitalize    v.capitalize()
center        v.center(9, b"*")
count         v.count(b"b"), v.count(98)
decode        v.decode(), v.decode("ascii"), caught(lambda: b"\\xff".decode())
endswith      v.endswith(b"a"), v.endswith((b"x", b"a"))
expandtabs    b"a\\tb".expandtabs(4)
find          v.find(b"b"), v.find(b"z")
fromhex       bytes.fromhex("6162"), caught(lambda: bytes.fromhex("zz"))
hex           v.hex(), v.hex("-")
index         v.index(b"b"), caught(lambda: v.index(b"z"))
isalnum       v.isalnum()
isalpha       v.isalpha()
isascii       v.isascii()
isdigit       v.isdigit()
islower       v.islower()
isspace       v.isspace()
istitle       v.istitle()
isupper       v.isupper()
join          v.join([b"1", b"2"]), b"".join(c for c in [b"a", v])
ljust         v.ljust(9)
lower         v.lower()
lstrip        v.lstrip(b"b")
maketrans     v.translate(bytes.maketrans(b"ab", b"xy"))
partition     v.partition(b" ")
removeprefix  v.removeprefix(b"bB")
removesuffix  v.removesuffix(b"a")
replace       v.replace(b"b", b"d")
rfind         v.rfind(b"b")
rindex        v.rindex(b"b")
rjust         v.rjust(9)
rpartition    v.rpartition(b" ")
rsplit        v.rsplit(b" ")
rstrip        v.rstrip(b"a")
split         v.split(), v.split(b"b", 1)
splitlines    b"a\\nb".splitlines()
startswith    v.startswith(b"bB")
strip         v.strip(b"ba")
swapcase      v.swapcase()
title         v.title()
translate     v.translate(None, b"b")
upper         v.upper()
zfill         b"7".zfill(3)
operators     v + b"!", v * n, v[0], v[:n], 98 in v, b"b" in v, len(v), list(v), b"%d" % n, v == b"b", v < b"c", bytes(n), bytes([1, 2])
operators:error caught(lambda: v + "a"), caught(lambda: v[99]), caught(lambda: bytes([300])), caught(lambda: "a" in v)
"""

# class -> how `v` is made, and its rows
METHODS = {
    "str": ('"bB ab1 ba"', STR),
    "dict": ('{"a": 1, "b": 2.0, "c": "t"}', DICT),
    "list": ("[3, 1, 2, 1]", LIST),
    "tuple": ("(3, 1, 2, 1)", TUPLE),
    "set": ("{1, 2, 3}", SET),
    "frozenset": ("frozenset([1, 2, 3])", FROZENSET),
    "deque": ("collections.deque([3, 1, 2], 3)", DEQUE),
    "OrderedDict": ('collections.OrderedDict([("a", 1), ("b", 2.0), ("c", "t")])', ORDEREDDICT),
    "defaultdict": ('collections.defaultdict(list, {"a": [1]})', DEFAULTDICT),
    "Counter": ('collections.Counter("abac")', COUNTER),
    "int": ("13", INT),
    "float": ("2.5", FLOAT),
    "bytes": ('b"bB ab1 ba"', BYTES),
}
