"""Whose method an operator asks first, and what happens when it declines: arithmetic, in place, and comparisons.

Input: classes whose methods break, write down that they were asked, and may decline. One program a block.
"""

import operator

import numpy as np  # noqa: F401

from stage1_capture.tests.programs.registry import enter_blocks, mark

LOG = []


def reset():
    LOG.clear()


def asked(name, answer):
    mark(name)
    LOG.append(name)
    return answer


def speaking(kind, base, names, declines=()):
    """A class derived from `base` whose methods say that they were asked."""

    def method(name):
        answer = NotImplemented if name in declines else f"{kind}.{name}"

        def call(self, other):
            return asked(f"{kind}.{name}", answer)

        return call

    body = {f"__{name}__": method(name) for name in names.split()}
    return type(kind, base if isinstance(base, tuple) else (base,), {"__hash__": None, **body})


ARITHMETIC = "add radd iadd sub rsub mul rmul imul pow rpow matmul rmatmul"
ORDER = "lt le gt ge eq ne"
Parent = speaking("Parent", object, f"{ARITHMETIC} {ORDER}")
Child = speaking("Child", Parent, f"{ARITHMETIC} {ORDER}")
Heir = type("Heir", (Parent,), {})
Reflects = speaking("Reflects", Parent, "radd rmul gt")
Declines = speaking("Declines", Parent, "radd iadd gt eq", declines=("radd", "iadd", "gt", "eq"))
Silent = speaking("Silent", object, f"{ARITHMETIC} {ORDER}", declines=(*ARITHMETIC.split(), *ORDER.split()))
Reflecting = speaking("Reflecting", object, "add radd", declines=("add",))
Quiet = speaking("Quiet", object, "eq", declines=("eq",))
Opposite = speaking("Opposite", object, "eq")
Stranger = speaking("Stranger", object, "radd rsub rmul lt gt eq")
Int = speaking("Int", int, "radd rsub gt eq")
IntAdds = speaking("IntAdds", int, "add lt")
IntSilent = speaking("IntSilent", int, "add radd lt gt eq", declines=("add", "radd", "lt", "gt", "eq"))
Float = speaking("Float", float, "radd rmul lt")
Str = speaking("Str", str, "radd rmod add eq")
List = speaking("List", list, "radd rmul eq gt")
ListAdds = speaking("ListAdds", list, "add iadd mul")
Tuple = speaking("Tuple", tuple, "radd add lt eq")
Dict = speaking("Dict", dict, "ror or eq")
Set = speaking("Set", set, "ror rand le ge eq")
PlainInt, PlainList, PlainStr = (type(f"Plain{b.__name__}", (b,), {}) for b in (int, list, str))
OPERATORS = "add sub mul pow matmul".split()
COMPARED = "lt le gt ge eq ne".split()


class NoUfunc:
    __array_ufunc__ = None

    def __radd__(self, other):
        return asked("NoUfunc.radd", type(other).__name__)

    def __add__(self, other):
        return asked("NoUfunc.add", type(other).__name__)

    def __lt__(self, other):
        return asked("NoUfunc.lt", 1)


class Priority:
    __array_priority__ = 1000

    def __radd__(self, other):
        return asked("Priority.radd", type(other).__name__)

    def __rmul__(self, other):
        return asked("Priority.rmul", type(other).__name__)


class OnTensors:
    """Its methods compute with the tensor they meet."""

    def __add__(self, other):
        return asked("add", other + 1)

    def __radd__(self, other):
        return asked("radd", other + 2)

    def __rmatmul__(self, other):
        return asked("rmatmul", other.sum())

    def __gt__(self, other):
        return asked("gt", other * 2)

    def __eq__(self, other):
        return asked("eq", other * 3)


def said(function, *args):
    """What it gives, or how it fails."""
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__, str(error)


def all_of(names, left, right):
    return [said(getattr(operator, name), left, right) for name in names]


enter_blocks(
    __name__,
    """
    child_on_the_right:
        return x + 1, all_of(OPERATORS, Parent(), Child()), all_of(COMPARED, Parent(), Child()), list(LOG), mark()

    child_on_the_left:
        return x + 1, all_of(OPERATORS, Child(), Parent()), all_of(COMPARED, Child(), Parent()), list(LOG), mark()

    heir_on_the_right:
        return x + 1, all_of(OPERATORS, Parent(), Heir()), all_of(COMPARED, Parent(), Heir()), list(LOG), mark()

    same_class:
        return x + 1, all_of(OPERATORS, Parent(), Parent()), all_of(COMPARED, Silent(), Silent()), list(LOG), mark()

    reflects_only:
        a, b = Parent(), Reflects()
        return x + 1, a + b, a - b, a * b, a < b, a > b, a == b, list(LOG), mark()

    child_that_declines:
        a, b = Parent(), Declines()
        return x + 1, a + b, a < b, a == b, b + a, b == a, list(LOG), mark()

    in_place_with_a_child:
        a = b = Parent()
        a += Child()
        b *= Child()
        c = Declines()
        c += Child()
        d = Heir()
        d -= Child()
        return x + 1, a, b, c, d, list(LOG), mark()

    in_place_that_declines:
        a = Declines()
        a += 1
        b = Silent()
        try:
            b += 1
        except TypeError as error:
            return x + 1, a, str(error), list(LOG), mark()

    nobody_answers:
        a, b = Silent(), Silent()
        y = x + 1
        return y, all_of(OPERATORS, a, 1), all_of(OPERATORS, 1, a), all_of(COMPARED, a, 1), all_of(COMPARED, 1, a), mark()

    nobody_answers_twice:
        a, b = Silent(), Silent()
        y = x + 1
        r = Reflecting()
        both = said(lambda: Reflecting() + r)
        return y, both, 1 + r, all_of(OPERATORS, a, b), all_of(COMPARED, a, b), a == a, a != a, list(LOG), mark()

    not_equal_from_equal:
        a, b = Opposite(), Quiet()
        return x + 1, a != 1, 1 != a, a != b, b != a, b != 1, b == b, b != b, list(LOG), mark()

    unlike_kinds:
        y = x + 1
        o = Stranger()
        return y, all_of(COMPARED, 1, 'a'), all_of(COMPARED, (1,), [1]), said(operator.add, 1, 'a'), mark()

    strange_on_the_right:
        o = Stranger()
        return x + 1, 1 + o, 'a' + o, [1] + o, (1,) - o, [1] * o, 1.5 - o, None + o, {1: 2} + o, list(LOG), mark()

    strange_compared:
        o = Stranger()
        return x + 1, 1 < o, 'a' > o, [1] == o, o == (1,), None == o, 2.5 > o, {} == o, {1} == o, list(LOG), mark()

    int_on_the_right:
        a = Int(5)
        return x + 1, 1 + a, 1 - a, 1 < a, 1 == a, 1 > a, 1 * a, 1 != a, a + 1, a > 1, list(LOG), mark()

    int_on_the_left:
        a = IntAdds(5)
        return x + 1, a + 1, 1 + a, a - 1, a < 9, a > 1, 1 > a, a + Int(2), Int(2) + a, list(LOG), mark()

    int_that_declines:
        a = IntSilent(5)
        return x + 1, a + 1, 1 + a, a < 9, 1 < a, a == 5, 5 == a, a != 5, a + a, list(LOG), mark()

    int_in_place:
        a = 1
        a += Int(2)
        b = IntAdds(3)
        b += 4
        c = PlainInt(2)
        c += 1
        return x + 1, a, b, c, type(c).__name__, PlainInt(2) + PlainInt(3), list(LOG), mark()

    bool_and_int_subclasses:
        y = x + 1, True + Int(2), Int(1) == True, 2.0 + Int(3), 1 + Float(2.0), 2.0 * Float(1.0)
        return y, True == Int(1), 2.0 > Int(1), 1 < Float(2.0), 1 / PlainInt(2), said(lambda: 1.0 / PlainInt(0)), mark()

    float_on_the_right:
        a = Float(1.5)
        return x + 1, 1.0 + a, 2.0 * a, 2.0 > a, 3 + a, 1.0 < a, a * 2.0, list(LOG), mark()

    string_on_the_right:
        s = Str('b')
        return x + 1, 'a' + s, 'a%s' % s, s + 'a', 'b' == s, s == 'b', 'b' != s, 'a' < s, s * 2, list(LOG), mark()

    string_formatted_by_plain:
        s = PlainStr('b')
        return x + 1, 'a' + s, 'a%s' % s, s + 'a', 'b' == s, s * 2, type(s + 'a').__name__, mark()

    list_on_the_right:
        v = List([3])
        return x + 1, [1] + v, 2 * v, [3] == v, v == [3], [1] < v, [3] != v, v + [1], list(LOG), mark()

    list_in_place:
        a, b, c = [1], [1], ListAdds([2])
        a += List([2])
        b += PlainList([2])
        c += [3]
        d = PlainList([1])
        e = d
        d += (2, x)
        d *= 2
        return x + 1, a, b, c, d, d is e, list(LOG), mark()

    list_in_place_from_outside:
        a = [1]
        a += Stranger()
        b = [1]
        b *= Stranger()
        c = [2]
        c += 'ab'
        return x + 1, a, b, c, said(operator.iadd, [1], 3), list(LOG), mark()

    tuple_on_the_right:
        t = Tuple((1, 2))
        return x + 1, (0,) + t, t + (3,), (1, 2) == t, (0,) > t, t < (3,), 2 * t, t != (1, 2), list(LOG), mark()

    dicts_and_sets:
        d, s = Dict(a=1), Set({1})
        a = {'b': 2}
        a |= {'c': 3}
        return x + 1, {'b': 2} | d, d | {}, {'a': 1} == d, {1} | s, {1} & s, {1} <= s, s >= {2}, a, list(LOG), mark()

    operators_by_name:
        a, b = Parent(), Child()
        return x + 1, operator.iadd(a, b), a.__add__(b), Parent.__add__(a, b), operator.lt(a, b), sum([b], a), mark()

    sorted_by_their_order:
        class Ranked:
            def __init__(self, n):
                self.n = n
            def __lt__(self, other):
                mark('lt')
                return self.n < other.n
        class Backwards(Ranked):
            def __gt__(self, other):
                mark('gt')
                return self.n > other.n
        items = [Ranked(2), Backwards(1), Ranked(3)]
        return x + 1, [r.n for r in sorted(items)], min(items).n, max(items).n, mark()

    tensor_on_the_left:
        o = OnTensors()
        return x + o, x < o, x == o, x @ o, said(lambda: x - o)[0], list(LOG), mark()

    tensor_on_the_right:
        o = OnTensors()
        return o + x, o > x, o == x, said(lambda: o - x)[0], list(LOG), mark()

    tensor_and_those_who_decline:
        o = Silent()
        y = x + 1
        return y, [r[0] for r in all_of(OPERATORS, x, o)], [r[0] for r in all_of(['lt', 'ge'], o, x)], mark()

    tensor_compared_with_none:
        y = x + 1
        return y, x == None, None != x, said(lambda: x < None)[0], said(lambda: x + None)[0], x == 'a', mark()

    array_without_ufunc:
        a, o = np.arange(3), NoUfunc()
        return x + 1, a + o, o + a, a > o, np.float32(1) + o, list(LOG), mark()

    array_of_lower_priority:
        a, o = np.arange(3), Priority()
        return x + 1, a + o, a * o, list(LOG), mark()

    array_and_a_plain_object:
        class Plain:
            def __radd__(self, other):
                mark('radd')
                return int(other) * 10
        return x + 1, (np.arange(3) + Plain()).tolist(), mark()

    dataclass_order:
        import dataclasses
        @dataclasses.dataclass(order=True)
        class Version:
            major: int
            minor: int
        a, b = Version(1, 2), Version(1, 3)
        return x + a.minor, a < b, a >= b, a == Version(1, 2), max(a, b).minor, mark()

    total_ordering:
        import functools
        @functools.total_ordering
        class Rank:
            def __init__(self, n):
                self.n = n
            def __eq__(self, other):
                mark('eq')
                return self.n == other.n
            def __lt__(self, other):
                mark('lt')
                return self.n < other.n
        a, b = Rank(1), Rank(2)
        return x + 1, a <= b, a > b, a >= b, a != b, mark()
    """,
)
