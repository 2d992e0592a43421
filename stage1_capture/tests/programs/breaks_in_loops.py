"""A break inside loops and between the steps of live iterators and generators. One program a block.

Input: `shown` hands back what it is given, after a break.
"""

from stage1_capture.tests.programs.break_helpers import LOG, mark, shown  # noqa: F401
from stage1_capture.tests.programs.registry import enter_blocks


def numbers(n):
    for i in range(n):
        got = yield shown(i)
        LOG.append(got)
    return shown("done")


def numbers_noted(n):
    try:
        yield from range(n)
    finally:
        LOG.append("closed")


def delegated(items):
    yield from items


enter_blocks(
    __name__,
    """
    while_condition:
        while shown(n) < 5:
            x = x + 1
            n += 1
        return x, n

    while_else:
        while n > 0:
            n -= shown(1)
            x = x * 2
        else:
            x = x + shown(1)
        return x

    for_else_and_break:
        for i in shown(range(5)):
            if shown(i) == 2:
                break
            x = x + i
        else:
            x = x * 100
        return x, i

    nested_loops:
        for i in range(2):
            for j in range(2):
                if shown(i + j) == 1:
                    continue
                x = x + i * 10 + j
        return x

    loop_over_a_dict:
        d = {'a': x, 'b': x + 1}
        for k, v in d.items():
            mark(k)
            x = x + v
        return x

    loop_over_a_changing_list:
        items = [1, 2]
        for v in items:
            mark(v)
            if v < 3:
                items.append(v + 2)
            x = x + v
        return x, items

    loop_over_a_changing_dict:
        d = {'a': 1}
        try:
            for k in d:
                mark(k)
                d[k + 'x'] = 1
                x = x + 1
        except RuntimeError as error:
            return x, str(error)

    loop_over_zip_and_enumerate:
        for i, (a, b) in enumerate(zip([1, 2], 'ab')):
            mark(b)
            x = x + i * a
        return x

    loop_over_a_tensor:
        total = 0
        for row in x.reshape(3, 1):
            mark()
            total = total + row
        return total

    loop_over_a_generator:
        for v in numbers(3):
            x = x + v
        return x, list(LOG)

    generator_by_hand:
        it = numbers(2)
        a = next(it)
        mark()
        b = it.send(shown(5))
        try:
            next(it)
        except StopIteration as end:
            return x + a + b, end.value, list(LOG)

    generator_handed_on:
        def relay():
            got = yield from numbers(2)
            LOG.append(got)
        mark()
        return x + sum(relay()), list(LOG)

    generator_over_a_break:
        it = (v * x for v in (1, 2, 3))
        a = next(it)
        mark()
        b = next(it)
        return a + b, [v for v in it]

    iterators_shared:
        it = iter([1, 2, 3, 4])
        pairs = []
        for a, b in zip(it, it):
            mark(a)
            pairs.append(a * b)
        return x + sum(pairs)

    iterator_and_its_rest:
        it = iter([x, 1, 2, 3])
        first = next(it)
        mark()
        second = next(it)
        return first + second, list(it), next(it, 'end')

    map_over_a_break:
        it = map(lambda v: v + x, [1, 2, 3])
        a = next(it)
        mark()
        return a, sum(it)

    reversed_over_a_break:
        it = reversed([1, 2, x])
        a = next(it)
        mark()
        return a + next(it), list(it)

    dict_views_over_a_break:
        d = {'a': x, 'b': x + 1}
        keys, values = d.keys(), d.values()
        mark()
        d['c'] = x + 2
        return list(keys), sum(values)

    dropped_inside_its_try:
        y = x + next(numbers_noted(3))
        LOG.append('after')
        return y * 2, list(LOG)

    dropped_by_a_break_statement:
        for v in numbers_noted(3):
            if shown(v) == 1:
                break
        LOG.append('after')
        return x + v, list(LOG)

    dict_changed_then_walked:
        d = {'a': x}
        def walk(d):
            d['b'] = 2
            it = iter(d)
            first = next(it)
            mark(first)
            return first, [k for k in it]
        return walk(d), d['a'] + 1

    comprehension_over_what_capture_does_not_know:
        d = {(n, 1): x}
        try:
            mark()
            'x' + n
        except TypeError:
            mark()
            return [k for k in d][-1], x + 1

    sent_into_a_list_that_is_delegated_to:
        steps = delegated([x, x + n])
        first = next(steps)
        try:
            second = steps.send(2)
        except AttributeError as error:
            second = str(error)
        return first, second

    nothing_sent_into_a_list_that_is_delegated_to:
        steps = delegated((x, x + n))
        return next(steps), steps.send(None), shown(x)
""",
)
