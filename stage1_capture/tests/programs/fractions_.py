"""Fractions: from outside and made inside, computed with, as keys and as text; and what they raise."""

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational

from stage1_capture.tests.programs.registry import mark, program

THIRD = Fraction(1, 3)


@program((3,), Fraction(1, 2))
def arithmetic_with_constants(x, f):
    mark()
    return x * float(f + 1), f**2 - THIRD, 1 / f, f // THIRD, divmod(f, THIRD), -f, abs(-f), 0.5 + f, 2**f


@program((3,), Fraction(7, 5))
def parts_and_methods(x, f):
    y = x / f.denominator
    mark()
    return y * f.numerator, f.limit_denominator(3), f.as_integer_ratio(), f.conjugate(), f.__add__(1), f.real


@program((3,), Fraction(7, 5))
def rounded(x, f):
    mark()
    return x + math.floor(f) * math.ceil(f), round(f), round(f, 1), int(f), math.trunc(f), f.__round__()


@program((3,), 3)
def made_inside(x, n):
    f = Fraction(n, 4)
    mark()
    return x * f.numerator, f, Fraction("3/7"), Fraction.from_float(0.25), Fraction(0.5), Fraction(f)


@program((3,), Fraction(1, 3))
def one_object(x, f):
    held = [f, f]
    mark()
    return x + 1, held, held[0] is held[1], held[0] is f


@program((3,), Fraction(1, 3))
def compared(x, f):
    if f < 0.5 and f == THIRD and f != 1 and not f > 1 and f:
        x = x + 1
    mark()
    return x, f in (1, THIRD), sorted([1, f, Fraction(1, 7)]), max(f, 0), sum([f, f])


@program((3,), Fraction(1, 3))
def keys_of_a_dict(x, f):
    table = {f: x, Fraction(2, 1): x + 1}
    mark()
    return table[THIRD], table[2], {f, THIRD, 2}


@program((3,), Fraction(1, 3))
def as_text(x, f):
    mark()
    return x + 1, str(f), f"{f} and {f!r}", "%s" % f, repr([f])


@program((3,), Fraction(1, 3))
def asked_for_its_class(x, f):
    mark()
    return (
        x + 1,
        isinstance(f, Rational),
        isinstance(f, (int, float)),
        type(f) is Fraction,
        hasattr(f, "real"),
    )


@dataclass
class Ratio:
    f: Fraction


@program((3,), lambda: Ratio(Fraction(3, 2)))
def an_attribute(x, held):
    y = x * float(held.f)
    held.f = held.f / 2
    mark()
    return y * float(held.f)


@program((3,), Fraction(1, 3))
def divided_by_zero(x, f):
    try:
        y = x * float(f / (f - THIRD))
    except ZeroDivisionError as error:
        mark()
        return x, str(error)
    return y


@program((3,), Fraction(1, 3))
def what_it_lacks(x, f):
    mark()
    y = x + getattr(f, "width", 2)
    return y * f.height
