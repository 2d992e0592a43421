"""A break inside the methods of containers, iterators and generators, each reached by the syntax that asks it.

Input: classes whose methods say mark() before they answer. One program a block.
"""

import operator  # noqa: F401

from stage1_capture.tests.programs.break_helpers import Answers, mark, noted  # noqa: F401
from stage1_capture.tests.programs.registry import enter_blocks


class Steps:
    """An iterator, that is asked past its end too."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        mark("iter")
        return self

    def __next__(self):
        mark("next")
        self.n -= 1
        if self.n < 0:
            raise StopIteration(self.n)
        return self.n


class ByIndex:
    """The old protocol: no `__iter__`, no `__contains__`."""

    def __init__(self, *items):
        self.items = items

    def __getitem__(self, place):
        mark(str(place))
        return self.items[place]

    def __len__(self):
        mark("len")
        return len(self.items)


class Place:
    """Shows the key it is asked for."""

    def __init__(self):
        self.kept = []

    def __getitem__(self, key):
        mark("get")
        return key

    def __setitem__(self, key, value):
        mark("set")
        self.kept.append((key, value))

    def __delitem__(self, key):
        mark("delete")
        self.kept.append(key)


class Missing(dict):
    def __missing__(self, key):
        mark(key)
        return len(key)


class NotEqual:
    """`__eq__` without `__hash__`: it cannot be hashed."""

    def __eq__(self, other):
        mark("eq")
        return True


class SameHash:
    def __init__(self, n):
        self.n = n

    def __hash__(self):
        mark("hash")
        return 7

    def __eq__(self, other):
        mark("eq")
        return isinstance(other, SameHash) and self.n == other.n


def averaged():
    total, count = 0, 0
    while True:
        try:
            value = yield total / count if count else 0
        except KeyError:
            mark("thrown")
            total, count = 0, 0
        else:
            mark("sent")
            total, count = total + value, count + 1


def delegating(log):
    found = yield from inner(log)
    mark("delegated")
    log.append(found)
    yield from ()
    return found * 2


def inner(log):
    try:
        got = yield 1
        mark("got")
        got = got + (yield 2)
    finally:
        mark("left")
        log.append("left")
    return got


def said(function, *args):
    """What it gives, or how it fails."""
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__, str(error)


enter_blocks(
    __name__,
    """
    walk_of_an_object:
        y = x
        for i in Answers(iter=iter([1, 2])):
            y = y + i
        a, b = Answers(iter=iter([3, 4]))
        first, *rest = Answers(iter=iter('abc'))
        return y * a + b, first, rest, [*Answers(iter=iter([1]))], mark()

    walk_that_is_none:
        y = x + 1
        return y, said(iter, Answers(iter=[1])), said(list, Answers(iter=3)), said(iter, 3), mark()

    walk_by_steps:
        s = Steps(3)
        y = x
        for i in s:
            y = y + i
        return y, list(s), next(s, 'over'), sum(Steps(4)), max(Steps(3)), sorted(Steps(3)), mark()

    steps_in_functions:
        return x + 1, list(zip(Steps(2), Steps(3))), list(enumerate(Steps(2))), list(map(abs, Steps(2))), mark()

    steps_unpacked:
        a, b, c = Steps(3)
        d, *e = Steps(4)
        return x + a + b + c + d, e, {*Steps(2)}, (*Steps(2), 9), 1 in Steps(3), 8 in Steps(3), mark()

    steps_that_do_not_fit:
        def unpack(n):
            a, b = Steps(n)
            return a
        y = x + 1
        return y, said(unpack, 1), said(unpack, 3), said(next, Steps(0)), mark()

    walk_by_index:
        y = x
        for i in ByIndex(1, 2):
            y = y + i
        b = ByIndex(4, 5)
        return y, list(b), 4 in b, 9 in b, list(reversed(b)), mark()

    reversed_of_an_object:
        return x + 1, list(reversed(Answers(reversed=iter([2, 1])))), reversed(Answers(reversed=5)), mark()

    contains_of_an_object:
        a, b = Answers(contains=2), Answers(contains=[])
        return x + 1, 1 in a, 1 not in a, 1 in b, operator.contains(b, 2), mark()

    contains_told_by_a_tensor:
        return x + 1, 1 in Answers(contains=x.sum() > 1000), mark()

    keys_of_all_kinds:
        p = Place()
        y = x + 1
        p[1:2] = 3
        p[..., None, 1] = 4
        p[()] = 5
        del p[::2]
        del p[1, 2:3]
        return y, p[1:2], p[1:2, ..., None], p[:], p[:n], p[n:], p[1:n:3], p[()], p[...], p[1,], p.kept, mark()

    slices_of_objects:
        p = Place()
        a = x + 1
        p[a:] = 2
        return p[a : n][0:1] if False else a, p['a':'b'], p[None:(1, 2)], len(p.kept), mark()

    item_changed_in_place:
        p = Place()
        p[2] += 5
        p[1:n] = 7
        y = x * p[3]
        return y, p.kept, mark()

    missing_key:
        m = Missing(a=1)
        y = x + m['a'] + m['bcd']
        return y, m, m.get('q'), 'q' in m, said(lambda: m.pop('q')), mark()

    equal_without_hash:
        y = x + 1
        return y, NotEqual() == 3, 3 == NotEqual(), said(hash, NotEqual()), said(lambda: {NotEqual()}), mark()

    keys_with_the_same_hash:
        a, b = SameHash(1), SameHash(2)
        d = {a: 1, b: 2}
        d[SameHash(1)] = 3
        return x + d[a], len(d), SameHash(2) in d, SameHash(3) in d, len({SameHash(1), SameHash(1)}), mark()

    generator_sent:
        g = averaged()
        a = next(g), g.send(4), g.send(2), g.throw(KeyError), g.send(8)
        g.close()
        return x + a[1], a, said(next, g), said(g.send, 1), g.close(), mark()

    generator_thrown:
        g = averaged()
        y = x + next(g)
        return y, said(g.throw, ValueError('v')), said(next, g), said(averaged().send, 1), mark()

    generator_delegating:
        log = []
        g = delegating(log)
        a = next(g), g.send(3)
        try:
            g.send(4)
        except StopIteration as stop:
            y = x * stop.value
        return y, a, log, mark()

    generator_closed_in_delegation:
        log = []
        g = delegating(log)
        y = x + next(g)
        g.close()
        h = delegating(log)
        next(h)
        return y, said(h.throw, KeyError('k')), log, mark()

    generator_dropped:
        log = []
        g = delegating(log)
        next(g)
        del g
        return x + len(log), log, mark()

    delegation_to_an_iterator:
        def f():
            found = yield from Steps(2)
            mark('f')
            yield found
        return x + 1, list(f()), mark()

    iterator_until:
        items = [3, 2, 1, 0]
        c = iter(lambda: noted('pop', items.pop()), 2)
        y = x
        for i in c:
            y = y + i
        return y, list(c), items, mark()

    iterator_until_an_equal:
        return x + 1, list(iter(Steps(3).__next__, 0)), list(iter(lambda: 4, NotEqual())), mark()
    """,
)
