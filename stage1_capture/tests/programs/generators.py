"""Generators, iterators and what walks over them; alive across breaks."""

from stage1_capture.tests.programs.registry import LOG, mark, program


def count_to(n):
    for i in range(n):
        yield i


def noting(n):
    LOG.append("begin")
    try:
        for i in range(n):
            yield i
    finally:
        LOG.append("end")


def averaging():
    total, seen = 0, 0
    while True:
        value = yield (total / seen if seen else None)
        if value is None:
            return total
        total, seen = total + value, seen + 1


def delegating(n):
    got = yield from count_to(n)
    yield got
    yield from [10, 20]


def returning():
    yield 1
    return 5


def receiving():
    result = yield from returning()
    yield result * 2


def scaled(x, n):
    for i in count_to(n):
        yield x * i


def tree(n):
    if n:
        yield from tree(n - 1)
        yield n
        yield from tree(n - 1)


class Steps:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return StepIterator(self.n)


class StepIterator:
    def __init__(self, left):
        self.left = left

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left


@program()
def loop_over_generator(x):
    for i in count_to(3):
        x = x + i
        mark(i)
    return x


@program()
def generator_of_tensors(x):
    y = x
    for z in scaled(x, 3):
        y = y + z
        mark()
    return y


@program()
def generator_expression(x):
    total = sum(x * i for i in range(3))
    mark()
    return total


@program()
def any_and_all(x):
    a = any(i > 1 for i in range(3))
    b = all(i > 1 for i in range(3))
    mark()
    return x + a - b


@program()
def any_stops_early(x):
    it = iter([0, 1, 2, 3])
    found = any(it)
    mark()
    return x + next(it), found


@program()
def min_and_max(x):
    a = min(abs(i) for i in (-3, 2))
    b = max((i * i for i in (1, 2)), default=0)
    mark()
    return x + a * b


@program()
def sorted_generator(x):
    order = sorted((i % 3 for i in range(5)), reverse=True)
    mark()
    return x, order


@program()
def alive_across_a_break(x):
    gen = count_to(4)
    a = next(gen)
    b = next(gen)
    mark()
    c = next(gen)
    return x + a + b * c, list(gen)


@program()
def not_begun_at_a_break(x):
    gen = scaled(x, 3)
    mark()
    return list(gen)


@program()
def finished_at_a_break(x):
    gen = count_to(1)
    rest = list(gen)
    mark()
    return x + len(rest), next(gen, "none")


@program()
def with_finally(x):
    for i in noting(2):
        x = x + i
        mark(i)
    return x


@program()
def closed_early(x):
    gen = noting(3)
    a = next(gen)
    gen.close()
    mark()
    return x + a


@program()
def closed_after_a_break(x):
    gen = noting(3)
    a = next(gen)
    mark()
    gen.close()
    return x + a


@program()
def sent_values(x):
    gen = averaging()
    next(gen)
    gen.send(2)
    mark()
    a = gen.send(4)
    return x + a


@program()
def thrown_in(x):
    gen = noting(3)
    next(gen)
    try:
        gen.throw(ValueError("thrown"))
    except ValueError as error:
        mark()
        return x + 1, str(error)


@program()
def thrown_after_a_break(x):
    gen = noting(3)
    next(gen)
    mark()
    try:
        gen.throw(ValueError("thrown"))
    except ValueError as error:
        return x + 1, str(error)


@program()
def yield_from(x):
    for i in delegating(2):
        if i is not None:
            x = x + i
        mark(i)
    return x


@program()
def yield_from_result(x):
    values = list(receiving())
    mark()
    return x + sum(values)


@program()
def recursive_generator(x):
    for i in tree(3):
        x = x + i
    mark()
    return x


@program()
def return_value(x):
    gen = returning()
    next(gen)
    try:
        next(gen)
    except StopIteration as stop:
        mark()
        return x + stop.value


@program()
def inner_generator(x):
    def rows():
        for i in range(2):
            mark("inside", i)
            yield x + i

    return list(rows())


@program()
def generator_closure(x):
    n = 2

    def rows():
        nonlocal n
        while n < 4:
            yield x * n
            n += 1

    first = [*rows()]
    mark()
    return first, n


@program()
def own_iterator(x):
    for i in Steps(3):
        x = x + i
        mark(i)
    return x


@program()
def own_iterator_by_hand(x):
    it = iter(Steps(3))
    a = next(it)
    mark()
    return x + a + next(it), it.left


@program((3,), lambda: iter([1, 2, 3]))
def iterator_from_outside(x, it):
    for i in it:
        x = x + i
        mark(i)
    return x


@program((3,), lambda: count_to(3))
def generator_from_outside(x, gen):
    a = next(gen)
    x = x + a
    for i in gen:
        x = x * i
    return x


@program((3,), lambda: enumerate([4, 5]))
def enumerate_from_outside(x, pairs):
    for i, v in pairs:
        x = x + i * v
    return x


@program()
def iterator_over_a_growing_list(x):
    items = [1]
    it = iter(items)
    next(it)
    items.append(2)
    mark()
    items.append(3)
    return x + sum(it)


@program()
def two_iterators(x):
    items = [1, 2, 3, 4]
    it = iter(items)
    pairs = list(zip(it, it))
    mark()
    return x, pairs


@program()
def shared_iterator_across_a_break(x):
    it = iter([1, 2, 3, 4])
    pairs = zip(it, it)
    a = next(pairs)
    mark()
    b = next(pairs)
    return x, a, b, list(it)


@program()
def changed_while_walked(x):
    d = {"a": 1}
    try:
        for _ in d:
            d["b"] = 2
    except RuntimeError as error:
        mark()
        return x + 1, str(error)


@program()
def generator_raises(x):
    def bad():
        yield 1
        raise KeyError("inside")

    try:
        for i in bad():
            x = x + i
            mark(i)
    except KeyError as error:
        return x, error.args


@program()
def stop_iteration_inside_becomes_runtime_error(x):
    def bad():
        yield next(iter([]))

    try:
        list(bad())
    except RuntimeError as error:
        mark()
        return x + 1, str(error)


@program()
def unpack_a_generator(x):
    a, b, *c = count_to(5)
    mark()
    return x + a + b, c


@program()
def break_inside_a_generator_expression(x):
    return sum(mark(i) or x * i for i in range(3))


def renamed(function):
    function.__name__, function.__qualname__ = "other", "some.other"
    return function


@renamed
def _turns(x):
    for i in range(3):
        yield x * i


@program()
def generator_of_a_renamed_function(x):
    @renamed
    def inside(x):
        yield x
        yield x + 1

    walks = [_turns(x), inside(x)]
    firsts = [next(walk) for walk in walks]
    mark()
    return firsts, [next(walk) for walk in walks], [(walk.__name__, walk.__qualname__) for walk in walks]
