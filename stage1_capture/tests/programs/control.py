"""Branches, loops, comprehensions, unpacking, match."""

from stage1_capture.tests.programs.registry import mark, program


@program()
def straight(x):
    y = x + 1
    mark()
    return y * 2


@program((3,), 3)
def if_else(x, n):
    if n > 2:
        mark("big")
        return x * n
    mark("small")
    return x - n


@program((3,), 1)
def elif_chain(x, n):
    if n == 0:
        y = x
    elif n == 1:
        mark()
        y = x + 1
    else:
        y = x + 2
    return y * 3


@program()
def branch_on_data(x):
    if x.sum() > 0:
        mark("up")
        return x + 1
    return x - 1


@program()
def branch_on_data_joined(x):
    y = x * 2
    if (y > 0).any():
        y = y + 1
    else:
        y = y - 1
    return y * 3


@program()
def conditional_expression_on_data(x):
    y = x + 1 if x.mean() > 0 else x - 1
    mark()
    return y


@program()
def and_or_on_data(x):
    ok = x.sum() > 0 and x.max() < 100 or x.min() < -5
    return x + 1 if ok else x


@program()
def not_on_data(x):
    if not (x > 5).any():
        return x * 2
    return x


@program()
def while_known(x):
    n = 0
    while n < 3:
        x = x + n
        mark(n)
        n += 1
    return x


@program()
def while_on_data(x):
    n = 0
    while x.sum() < 10 and n < 4:
        x = x + 1
        n += 1
    return x, n


@program()
def while_else(x):
    n = 2
    while n:
        n -= 1
        x = x * 2
    else:
        mark()
        x = x + 1
    return x


@program()
def for_range(x):
    for i in range(3):
        x = x + i
        mark(i)
    return x


@program()
def for_break(x):
    for i in range(5):
        x = x + i
        if i == 2:
            mark("leaving")
            break
    else:
        x = x * 100
    return x


@program()
def for_continue(x):
    for i in range(4):
        if i % 2:
            mark(i)
            continue
        x = x + i
    return x


@program()
def for_else(x):
    for _ in []:
        x = x + 100
    else:
        mark()
        x = x + 1
    return x


@program()
def nested_loops(x):
    for i in range(2):
        for j in range(2):
            x = x + i * j
            mark(i, j)
    return x


@program()
def break_before_the_loop(x):
    mark()
    for i in [1, 2]:
        x = x * i
    return x


@program()
def loop_over_rows(x):
    total = 0
    for row in x:
        total = total + row * 2
        mark()
    return total


@program((2, 3))
def loop_over_tensor_rows(x):
    rows = []
    for row in x:
        rows.append(row.sum())
    mark()
    return rows


@program()
def loop_enumerate(x):
    for i, name in enumerate(["a", "b"], 3):
        x = x + i
        mark(name)
    return x


@program()
def loop_zip(x):
    for i, j in zip([1, 2, 3], (4, 5)):
        x = x + i * j
        mark(i)
    return x


@program((3,), lambda: {"a": 1, "b": 2})
def loop_items(x, d):
    for key, value in d.items():
        x = x + value
        mark(key)
    return x


@program()
def loop_over_own_list(x):
    items = [1, 2]
    for i in items:
        if len(items) < 5:
            items.append(i + 2)
        mark(len(items))
        x = x + i
    return x, items


@program()
def loop_reversed(x):
    for i in reversed([1, 2, 3]):
        x = x * i
        mark(i)
    return x


@program()
def loop_with_else_and_break(x):
    for i in range(3):
        for j in range(3):
            if j == 1:
                break
            x = x + j
        else:
            mark("never")
        mark(i)
    return x


@program()
def early_return(x):
    for i in range(10):
        if i == 3:
            mark()
            return x + i
    return x


@program()
def list_comprehension(x):
    return [x + i for i in range(3) if i != 1]


@program()
def comprehension_with_break(x):
    return [mark(i) or x + i for i in range(3)]


@program()
def nested_comprehension(x):
    return [[x + i * j for j in range(2)] for i in range(2)]


@program()
def dict_comprehension(x):
    d = {str(i): x + i for i in range(2)}
    mark()
    return d


@program()
def set_comprehension(x):
    s = {i % 2 for i in range(5)}
    mark()
    return x + len(s), s


@program()
def comprehension_shadows(x):
    i = 10
    y = [x * i for i in (1, 2)]
    mark()
    return y, i


@program()
def comprehension_closure(x):
    k = 3
    mark()
    return [x * k for _ in range(2)]


@program()
def walrus(x):
    if (n := x.shape[0]) > 2:
        mark(n)
        return x + n
    return x


@program()
def walrus_in_comprehension(x):
    y = [z for i in range(3) if (z := i * 2) > 1]
    mark()
    return x + sum(y), z


@program()
def chained_comparison(x):
    n = x.shape[0]
    mark()
    return x + 1 if 1 < n <= 3 != 4 else x


@program()
def unpacking(x):
    a, b = x, x + 1
    mark()
    a, b = b, a
    return a - b


@program()
def starred_unpacking(x):
    first, *rest, last = [x, x + 1, x + 2, x + 3]
    mark()
    return first, rest, last


@program()
def nested_unpacking(x):
    (a, (b, *c)), d = ((x, (1, 2, 3)), 4)
    mark()
    return a + b, c, d


@program()
def swap_three(x):
    a, b, c = x, x + 1, x + 2
    a, b, c = c, a, b
    mark()
    return a, b, c


@program()
def delete_local(x):
    y = x + 1
    z = y * 2
    del y
    mark()
    return z


@program()
def maybe_unassigned(x):
    for i in range(2):
        if i:
            y = x + i
        mark(i)
    return y


@program((3,), 2)
def match_number(x, n):
    match n:
        case 1:
            return x
        case 2 | 3:
            mark()
            return x + n
        case _:
            return x - 1


@program((3,), lambda: [1, 2, 3])
def match_sequence(x, items):
    match items:
        case []:
            return x
        case [a, *rest]:
            mark()
            return x + a + len(rest)


@program((3,), lambda: {"kind": "add", "by": 2})
def match_mapping(x, d):
    match d:
        case {"kind": "mul"}:
            return x * 2
        case {"kind": "add", "by": n}:
            mark(n)
            return x + n


@program((3,), "b")
def match_guarded(x, name):
    match name:
        case str() if name == "a":
            return x
        case str(s):
            mark(s)
            return x + len(s)


@program((3,), (1, 2))
def match_in_loop(x, pair):
    for item in [pair, 3, "s"]:
        match item:
            case (a, b):
                x = x + a + b
            case int(n):
                mark(n)
                x = x * n
            case _:
                x = x - 1
    return x


@program()
def ternary_chain(x):
    n = len(x.shape)
    y = x + (1 if n == 0 else 2 if n == 1 else 3)
    mark()
    return y


@program()
def boolean_values(x):
    n = 0 or 5
    m = n and 3
    mark(n, m)
    return x * n + m, not n, None or "word"


@program()
def long_expression(x):
    return ((x + 1) * (x - 1) + (mark() or x)) / 2


@program()
def break_in_arguments(x):
    return max(1, mark() or 2, 3) * x + (mark() or 1)


@program()
def break_in_a_condition(x):
    if mark() is None and x.shape[0] == 3:
        return x + 1
    return x


@program()
def break_in_a_subscript(x):
    items = [x, x + 1]
    return items[mark() or 1]


@program()
def break_in_a_return_tuple(x):
    return x + 1, mark(), x + 2


@program()
def augmented(x):
    y = x
    y = y + 1
    n = 1
    n += 2
    n *= 3
    n -= 1
    n //= 2
    n **= 2
    mark(n)
    return y * n
