"""A break in the middle of a statement: stores, unpacking, match, definitions, aliases. One program a block.

Input: `shown` hands back what it is given, after a break.
"""

import functools

from stage1_capture.tests.programs.break_helpers import LOG, mark, shown
from stage1_capture.tests.programs.registry import enter_blocks

STATE = {"count": 0}


def reset():
    STATE["count"] = 0


def noted(function):
    mark(function.__name__)

    @functools.wraps(function)
    def inner(*args, **kwargs):
        mark("called")
        return function(*args, **kwargs)

    return inner


class Box:
    def __init__(self, value):
        self.value = value

    def __setattr__(self, name, value):
        mark(name)
        object.__setattr__(self, name, value)

    def __setitem__(self, key, value):
        mark(key)
        LOG.append((key, value))

    def __getitem__(self, key):
        return shown(key)

    def __delitem__(self, key):
        mark("del")
        LOG.append(key)

    def __iadd__(self, other):
        self.value = self.value + shown(other)
        return self


enter_blocks(
    __name__,
    """
    augmented_name:
        y = x + 1
        y += shown(n)
        y *= shown(2)
        return y

    augmented_subscript:
        d = {'k': x}
        d[shown('k')] += shown(n)
        return d['k'] * 2

    augmented_nested_subscript:
        d = {'k': [x, {'m': x}]}
        d[shown('k')][shown(1)][shown('m')] -= shown(n)
        return d['k'][1]['m'] * 2

    augmented_attribute:
        box = Box(x)
        box.value += shown(n)
        return box.value * 2

    augmented_object:
        box = other = Box(x)
        box += n
        return box is other, box.value

    augmented_list:
        a = b = [x]
        a += shown([n])
        return a is b, len(b), b[0] * 2

    augmented_tensor_in_place:
        y = x.clone()
        z = y
        y += shown(n)
        return z * 2, y is z

    chained_assignment:
        d = {}
        y = d[shown('a')] = d[shown('b')] = x + shown(n)
        return y, list(d), d['a'] is d['b']

    subscript_order:
        d = {}
        d[shown('k')] = shown(x + 1)
        return d['k'] * 2

    slice_store:
        items = [1, 2, 3]
        items[shown(0) : shown(2)] = shown([x])
        return len(items), items[0] * 2

    tensor_store:
        y = x.clone()
        y[shown(0)] = shown(5.0)
        return y * 2

    tensor_view_store:
        y = x.clone()
        view = y[shown(1) :]
        view.add_(shown(1))
        y.mul_(n)
        return y, view

    own_store_and_delete:
        box = Box(x)
        box['a'] = shown(1)
        del box[shown('a')]
        return box.value + 1, list(LOG)

    unpacking:
        a, b = shown((x, n))
        return a * b

    unpacking_of_calls:
        (a, b), c = (shown(x), shown(n)), shown(1)
        return a * b + c

    starred_unpacking:
        first, *rest = shown([x, n, 3])
        return first * 2, rest

    starred_in_the_middle:
        a, *b, c = [shown(v) for v in (x, 1, 2, n)]
        return a * c, b

    unpacking_into_places:
        d, items = {}, [0]
        d[shown('a')], items[shown(0)] = shown(x), n
        return d['a'] * items[0]

    unpacking_too_few:
        y = x + 1
        try:
            a, b, c = shown((x, n))
        except ValueError as error:
            return y, str(error)

    swap_with_a_break:
        a, b = x, n
        a, b = shown(b), shown(a)
        return b * a

    delete_name:
        y = shown(x) + 1
        z = y * 2
        del y
        mark()
        try:
            return y
        except UnboundLocalError as error:
            return z, str(error)

    delete_item:
        d = {'a': x, 'b': n}
        del d[shown('a')]
        mark()
        return x + 1, list(d)

    delete_slice:
        items = [x, 1, 2, 3]
        del items[shown(1) : shown(3)]
        return items[0] * 2, items[1:]

    global_between_breaks:
        STATE['count'] += 1
        mark()
        y = x * STATE['count']
        STATE['count'] += shown(1)
        return y, STATE['count']

    nonlocal_in_a_closure:
        total = x
        def add(value):
            nonlocal total
            mark()
            total = total + shown(value)
            return total
        return add(1), add(2), total

    closure_over_a_loop:
        made = []
        for i in range(3):
            mark(i)
            made.append(lambda: x + i)
        return [f() for f in made]

    closure_with_a_default_over_a_loop:
        made = []
        for i in range(3):
            made.append(lambda v=shown(i): x + v)
        return [f() for f in made]

    decorated:
        @noted
        def add(value, k=shown(2)):
            return value * k
        return add(x), add.__name__

    decorator_with_arguments:
        def times(k):
            return lambda f: lambda v: f(v) * k
        @times(shown(3))
        @noted
        def add(value):
            return value + shown(1)
        return add(x)

    keyword_only_defaults:
        def f(v, *, k=shown(2), m=shown(3)):
            return v * k + m
        return f(x), f(x, k=shown(5))

    class_body:
        class Made:
            scale = shown(n)
            mark('body')
            def __init__(self, value):
                self.value = value * self.scale
            def get(self):
                return shown(self.value) + 1
        return Made(x).get()

    class_that_inherits:
        class Made(Box):
            def __init__(self, value):
                mark('before')
                super().__init__(value + 1)
                mark('after')
        return Made(x).value * 2

    class_with_a_property:
        class Made:
            @property
            def value(self):
                return shown(x) + 1
            @value.setter
            def value(self, new):
                mark('set')
                LOG.append(new)
        made = Made()
        made.value = shown(3)
        return made.value, list(LOG)

    lambda_in_a_loop:
        for f in (lambda v: v + 1, lambda v: shown(v) * 2):
            x = f(x)
        return x

    if_chain:
        if shown(n) == 1:
            return x
        elif shown(n) == 2:
            y = x + 1
        else:
            y = x + 2
        return y * 2

    data_dependent_chain:
        y = x * x
        if (y.sum() < 0).item():
            return y
        elif shown(y.sum() > 0):
            y = y + 1
        return y * 2

    match_subject:
        match shown([x, n]):
            case [a, 2]:
                return a + 1
            case _:
                return x

    match_guard:
        match n:
            case 1:
                return x
            case k if shown(k) == 3:
                return x + 1
            case k if shown(k) == 2:
                return x + 2

    match_class:
        class Point:
            __match_args__ = ('a', 'b')
            def __init__(self, a, b):
                self.a, self.b = a, b
        match Point(shown(x), n):
            case Point(a, 1):
                return a
            case Point(a, b=2):
                mark()
                return a + 2

    match_mapping_body:
        match {'k': x, 'n': shown(n)}:
            case {'k': v, **rest}:
                mark(len(rest))
                return v + 1, rest

    mutation_between_breaks:
        items, d = [x], {'k': items} if (items := [x]) else {}
        items.append(1)
        mark()
        d['k'].append(2)
        mark()
        items.append(3)
        return x + 1, items, d['k'] is items

    alias_across_a_break:
        a = [x]
        b = {'a': a, 'self': None}
        b['self'] = b
        mark()
        b['a'].append(x + 1)
        return a[1] * 2, b['self'] is b, a is b['a']

    in_place_between_breaks:
        y = x.clone()
        view = y[:2]
        mark()
        y.add_(1)
        mark()
        view.mul_(n)
        return y * 2, view

    exception_made_before:
        error = ValueError('made')
        mark()
        try:
            raise error
        except ValueError as caught:
            mark()
            return x + 1, caught is error

    annotated:
        y: int = shown(n)
        z: 'nothing' = x + y
        return z

    nested_functions_three_deep:
        def a(v):
            def b(w):
                def c(u):
                    return shown(u) + v
                return c(w) * shown(2)
            return b(v) + 1
        return a(x)

    recursion_with_a_break:
        def down(v, k):
            if k == 0:
                return shown(v)
            return down(v + 1, k - 1) * 2
        return down(x, 3)

    early_return_from_a_loop_in_a_with:
        import contextlib
        with contextlib.nullcontext(shown(3)) as k:
            for i in range(k):
                if shown(i) == 1:
                    return x + i

    import_and_break:
        import math as m
        mark()
        from math import sqrt
        return x * sqrt(shown(4)) + m.floor(1.5)
    """,
)
