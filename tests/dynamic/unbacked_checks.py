"""Programs with numbers that only the data knows, which the program checks: sizes, branches, equal sizes, messages.

Input: as in unbacked_programs.py, to whose table these are added.
"""

from __future__ import annotations

from tests.dynamic.unbacked_programs import program, smooth


@program
def check_is_size(t, x, n, c, m, w):
    u = n.item()
    t._check_is_size(u)
    return t.ones(u)


@program
def check_decides_a_branch(t, x, n, c, m, w):
    u = n.item()
    t._check(u < 100)
    return x * 2 if u < 200 else x * 3


@smooth
def check_of_equal_sizes(t, x, n, c, m, w):
    a, b = x[m], w[:, 0][m]
    t._check(a.shape[0] == b.shape[0])
    return a * b


@program
def check_that_gives_the_number(t, x, n, c, m, w):
    u = (n * 0 + 3).item()
    t._check(u == 3)
    for _ in range(u):
        x = x + 1
    return x


@program
def check_with_message(t, x, n, c, m, w):
    u = n.item()
    t._check(u >= 0, lambda: "not a size")
    t._check(u + 1 <= 9, lambda: "too many")
    return t.zeros(u + 1)


@program
def check_of_float(t, x, n, c, m, w):
    a = x.abs().sum().item()
    t._check(a >= 0)
    return x * a


@program
def unique_rows(t, x, n, c, m, w):
    return t.unique(t.stack([c, c % 2], 1), dim=0, return_inverse=True)[0] * 2


@program
def unique_columns_with_counts(t, x, n, c, m, w):
    values, counts = t.unique(t.stack([c % 2, c % 2]), dim=1, return_counts=True)
    return values * counts


@program
def unique_consecutive_values(t, x, n, c, m, w):
    values, inverse, counts = t.unique_consecutive(c % 2, return_inverse=True, return_counts=True)
    return values + counts, inverse


@program
def roll_by_a_number(t, x, n, c, m, w):
    return x.roll(n.item(), 0) * 2


@program
def every_second_of_a_part(t, x, n, c, m, w):
    return c[x[m].shape[0] * 0 :: 2], x[m][::2], t.arange(0, n.item(), 2)
