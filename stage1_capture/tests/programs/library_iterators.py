"""itertools, and the iterators of the builtins across breaks."""

import itertools

from stage1_capture.tests.programs.generators import count_to
from stage1_capture.tests.programs.registry import mark, program


@program()
def enumerate_across_a_break(x):
    pairs = enumerate("abc", 1)
    a = next(pairs)
    mark()
    return x, a, list(pairs)


@program()
def map_across_a_break(x):
    products = map(lambda i: x * i, [1, 2, 3])
    a = next(products)
    mark()
    return a, list(products)


@program()
def map_of_two(x):
    result = list(map(lambda a, b: x * a + b, [1, 2], [3, 4, 5]))
    mark()
    return result


@program()
def filter_known(x):
    odd = filter(lambda i: i % 2, range(5))
    a = next(odd)
    mark()
    return x + a, list(odd)


@program()
def filter_none(x):
    return x, list(filter(None, [0, 1, "", "a"]))


@program()
def reversed_across_a_break(x):
    back = reversed([1, 2, 3])
    a = next(back)
    mark()
    return x + a, list(back)


@program()
def dict_iterator_across_a_break(x):
    d = {"a": 1, "b": 2, "c": 3}
    it = iter(d.items())
    a = next(it)
    mark()
    return x, a, list(it)


@program()
def range_iterator_across_a_break(x):
    it = iter(range(1, 10, 3))
    a = next(it)
    mark()
    return x + a, list(it)


@program()
def string_iterator(x):
    it = iter("abc")
    a = next(it)
    mark()
    return x, a, "".join(it)


@program()
def zip_strict(x):
    try:
        return x, list(zip([1, 2], [3], strict=True))
    except ValueError as error:
        mark()
        return x + 1, str(error)


@program()
def chained(x):
    values = list(itertools.chain([1], (2, 3), range(2)))
    mark()
    return x + sum(values), values


@program()
def chained_from_iterable(x):
    values = list(itertools.chain.from_iterable([[1], [2, 3]]))
    return x, values


@program()
def sliced(x):
    values = list(itertools.islice(count_to(10), 1, 8, 3))
    mark()
    return x, values, list(itertools.islice("abc", 2))


@program()
def counted(x):
    names = list(zip("abc", itertools.count(5)))
    mark()
    return x, names


@program()
def accumulated(x):
    sums = list(itertools.accumulate([x, x, x]))
    mark()
    return sums, list(itertools.accumulate([1, 2, 3], lambda a, b: a * b, initial=2))


@program()
def products(x):
    pairs = list(itertools.product([0, 1], "ab"))
    mark()
    return x, pairs, list(itertools.product([1, 2], repeat=2))


@program()
def pairs_and_runs(x):
    values = [1, 2, 3, 4]
    mark()
    return x, list(itertools.pairwise(values)), list(itertools.takewhile(lambda v: v < 3, values))


@program()
def combined(x):
    mark()
    return x, list(itertools.combinations("abc", 2)), list(itertools.permutations([1, 2]))


@program()
def repeated(x):
    y = [x + i for i in itertools.repeat(2, 2)]
    mark()
    return y


@program()
def zip_longest(x):
    mark()
    return x, list(itertools.zip_longest([1, 2], "a", fillvalue="-"))


@program()
def starmapped(x):
    mark()
    return list(itertools.starmap(lambda a, b: x * a + b, [(1, 2), (3, 4)]))
