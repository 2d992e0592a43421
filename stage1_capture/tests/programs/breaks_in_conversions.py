"""A break inside the methods that Python asks for a truth, a length, a number or a text, and what they may answer.

Input: classes whose methods say mark() before they answer. One program a block.
"""

import operator  # noqa: F401

from stage1_capture.tests.programs.break_helpers import Answers, mark, noted  # noqa: F401
from stage1_capture.tests.programs.registry import enter_blocks


class Length:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        mark("len")
        return self.n


class Text(str):
    def __format__(self, spec):
        mark("format")
        return f"<{spec}>"

    def __str__(self):
        mark("str")
        return "text"


def said(function, *args):
    """What it gives, or how it fails."""
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__, str(error)


enter_blocks(
    __name__,
    """
    bool_of_an_object:
        a, b = Answers(bool=True), Answers(bool=False)
        mark()
        return x + (1 if a else 2) + (3 if b else 4), not a, a and 5, b or 6, bool(b)

    bool_that_is_no_bool:
        y = x + 1
        return y, said(bool, Answers(bool=1)), said(bool, Answers(bool=None)), said(bool, Answers(bool=x)), mark()

    not_of_no_bool:
        y = x + 1
        return y, said(lambda: not Answers(bool=2)), said(lambda: 1 if Answers(bool='a') else 2), mark()

    length_as_truth:
        a, b = Length(0), Length(3)
        return x + len(b), (1 if a else 2), not b, bool(a), mark()

    length_that_is_none:
        y = x + 1
        return y, [said(len, Length(v)) for v in (-1, True, 2.0, 'a', None, 1 << 70)], mark()

    truth_by_a_wrong_length:
        y = x + 1
        return y, [said(bool, Length(v)) for v in (-1, True, 2.0, 'a', None, 1 << 70)], mark()

    length_from_a_tensor:
        return x + len(Length(x.size(0))), len(Length((x > -100).sum())), mark()

    index_of_an_object:
        a = Answers(index=1)
        items = [x, x + 1, x + 2]
        y = items[a] + items[a:][0]
        return y, hex(a), 'abc'[a], range(5)[a], x[a], operator.index(a), [0] * a, chr(a), mark()

    index_in_range:
        a = Answers(index=2)
        return x + 1, [i for i in range(a)], (7, 8, 9)[a], list(range(0, 6, a)), mark()

    index_that_is_none:
        y = x + 1
        return y, [said(operator.index, Answers(index=v)) for v in (1.0, 'a', True, None)], mark()

    item_by_a_wrong_index:
        y = x + 1
        return y, [said(operator.getitem, [1, 2], Answers(index=v)) for v in (1.0, 'a', True, 7)], mark()

    numbers_of_an_object:
        a = Answers(int=3, float=1.5, complex=1j, bytes=b'b', round=4)
        y = x * int(a) + float(a)
        return y, complex(a), bytes(a), round(a), round(a, 2), mark()

    numbers_that_are_none:
        a = Answers(int='3', float=1, complex=1, bytes='b', hash='h')
        y = x + 1
        return y, said(int, a), said(float, a), said(complex, a), said(bytes, a), said(hash, a), mark()

    numbers_from_index:
        class Only:
            def __index__(self):
                mark('index')
                return 6
        return x + int(Only()) + float(Only()), complex(Only()), mark()

    numbers_that_are_not_there:
        class Nothing:
            pass
        y = x + 1
        return y, said(int, Nothing()), said(float, Nothing()), said(len, Nothing()), said(abs, Nothing()), mark()

    hash_of_an_object:
        a = Answers(hash=1 << 70)
        b = Answers(hash=-1)
        c = Answers(hash=True)
        return x + 1, hash(a), hash(b), hash(c), mark()

    text_of_an_object:
        a = Answers(str='s', repr='r', format='f')
        return x + 1, str(a), repr(a), f'{a}', f'{a!s:>3}', f'{a!r}', f'{a:q}', '%s %r' % (a, a), format(a, 'z'), mark()

    text_inside_containers:
        a = Answers(str='s', repr='r', format='f')
        return x + 1, str([a, (a,)]), '{} {!r} {:y}'.format(a, a, a), ','.join([str(a)]), ascii(a), mark()

    text_that_is_none:
        a = Answers(str=1, repr=None, format=2)
        y = x + 1
        return y, said(str, a), said(repr, a), said(format, a), said(lambda: f'{a}'), said('%s'.__mod__, a), mark()

    text_of_a_derived_string:
        t = Text('abc')
        return x + len(t), f'{t}', f'{t:q}', str(t), '%s' % t, t + 'd', mark()

    printed_object:
        print(Answers(str='shown'), x.shape)
        return x + 1, mark()

    matmul_of_objects:
        class M:
            def __matmul__(self, other):
                mark('matmul')
                return other @ other
            def __rmatmul__(self, other):
                mark('rmatmul')
                return other * 2
            def __imatmul__(self, other):
                mark('imatmul')
                return other + 1
        m = M()
        m @= x
        return m, M() @ x, x @ M(), said(lambda: M() @ 3), mark()

    every_unary:
        class U:
            def __neg__(self):
                return noted('neg', 1)
            def __pos__(self):
                return noted('pos', 2)
            def __invert__(self):
                return noted('invert', 3)
            def __abs__(self):
                return noted('abs', 4)
        u = U()
        return x + -u, +u, ~u, abs(u), operator.neg(u), mark()

    power_of_three:
        class P:
            def __pow__(self, other, modulo=None):
                return noted('pow', (other, modulo))
            def __rpow__(self, other):
                return noted('rpow', other)
            def __divmod__(self, other):
                return noted('divmod', other)
            def __rdivmod__(self, other):
                return noted('rdivmod', other)
        p = P()
        return x + 1, p**2, 2**p, pow(p, 3), pow(p, 3, 4), divmod(p, 5), divmod(5, p), mark()
    """,
)
