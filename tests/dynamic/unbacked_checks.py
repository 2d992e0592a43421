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
