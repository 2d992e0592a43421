"""A break in the middle of an expression: what stands on the stack must be there again. One program a line.

Input: each line is a name and an expression of a tensor x and an int n; the program computes before and behind it.
`shown` hands back what it is given, after a break.
"""

from stage1_capture.tests.programs.break_helpers import LOG, shown
from stage1_capture.tests.programs.registry import enter


def noted(value):
    LOG.append(type(value).__name__)
    return value


def by(x, *more, k=1, **named):
    return x * k + len(more) + len(named)


class Pair:
    def __init__(self, left, right):
        self.left, self.right = left, right

    def add(self, value):
        return Pair(self.left + value, self.right)

    def __getitem__(self, key):
        return shown(self.left) if key else self.right

    def __contains__(self, value):
        return shown(value) == 2

    def __eq__(self, other):
        return shown(True)

    def __lt__(self, other):
        return shown(False)

    def __add__(self, other):
        return shown(self.left) + other

    def __radd__(self, other):
        return other - shown(self.right)

    def __neg__(self):
        return shown(self.right)

    def __len__(self):
        return shown(2)

    def __iter__(self):
        yield shown(self.left)
        yield self.right

    def __call__(self, value, k=1):
        return shown(self.left) * value + k

    def __bool__(self):
        return shown(False)

    def __format__(self, spec):
        return shown(f"<{spec}>")

    def __str__(self):
        return shown("pair")

    @property
    def both(self):
        return shown(self.left) + self.right

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return shown(len(name))

    __hash__ = None


enter(
    __name__,
    "y = x + 1\nz = {}\nreturn y * 2, z, list(LOG)",
    """
    left_operand             shown(x) + n
    right_operand            x + shown(n)
    both_operands            shown(x) + shown(n)
    deep_on_the_left         ((shown(x) + 1) * 2 - 3) / n
    deep_on_the_right        1 + (2 * (3 - (x * shown(n))))
    unary                    -shown(x)
    negated                  not shown(n)
    power                    x ** shown(n)
    reflected                shown(n) - x
    matrix_product           (x @ shown(x)) + n
    inverted                 ~shown(n)
    three_operands           noted(x) + shown(n) + noted(n)
    ordered_effects          noted(1) + shown(n) * noted(2.0)
    first_argument           by(shown(x), n)
    last_argument            by(x, noted(n), shown(n))
    keyword_argument         by(x, k=shown(n))
    keywords_around          by(x, a=noted(1), b=shown(2), c=noted('c'))
    starred_argument         by(x, *shown([1, 2]), *noted((3,)))
    double_starred           by(x, **shown({'k': 2}), **noted({'l': 3}))
    starred_generator        by(x, *(shown(v) for v in (1, 2)))
    the_callable             shown(by)(x, n, k=3)
    the_callable_and_more    shown(by)(shown(x), *shown([n]), k=shown(2))
    nested_calls             by(by(by(shown(x), n), shown(n)), n)
    call_of_a_call           (lambda v: lambda w: v + w)(shown(x))(shown(n))
    method_receiver          shown(x).sum().item() > 1000
    method_argument          x.reshape(shown(3), 1).sum(0)
    method_chain             shown(shown(x).abs()).mean()
    method_keyword           x.sum(dim=shown(0), keepdim=noted(True))
    bound_method             shown(x.mul)(n)
    attribute_of_it          shown(Pair(x, n)).left
    attribute_of_attribute   Pair(Pair(shown(x), 1), 2).left.left
    list_display             [noted(1), shown(x), noted(2)]
    tuple_display            (noted(1), shown(x), noted(2))
    set_display              sorted({noted(1), shown(n), 3})
    dict_display             {'a': noted(1), shown('b'): x, 'c': shown(n)}
    dict_key_then_value      {shown('a'): shown(x)}
    starred_in_a_list        [noted(0), *shown([1, 2]), noted(3)]
    starred_in_a_set         sorted({*shown((1, 2)), n})
    starred_in_a_dict        {'a': 1, **shown({'b': x}), 'c': noted(2)}
    nested_displays          [[shown(x)], (shown(n), {'k': shown(x)})]
    slice_bounds             x[shown(0) : shown(n)]
    slice_step               [1, 2, 3, 4][noted(0) : 4 : shown(n)]
    subscript                [x, n][shown(0)]
    subscript_of_it          shown([x, n])[1]
    subscript_of_a_subscript {'k': [x, n]}[shown('k')][shown(0)]
    tensor_subscript         x[shown(1)]
    tensor_subscripts        x.reshape(3, 1)[shown(1), shown(0)]
    first_comparison         1 < shown(n) < 5
    chained_comparison       noted(1) < n < shown(3) < noted(4)
    chain_that_stops         shown(n) < 1 < noted(3)
    chain_of_three           1 <= shown(n) <= shown(3) <= shown(4)
    membership               shown(n) in (1, 2)
    not_in_it                n not in shown([1, 3])
    identity                 shown(x) is x
    not_identity             x is not shown(None)
    equal_and_not            (shown(n) == 2) != (shown(n) == 3)
    and_first                shown(n) and x
    and_second               n and shown(x)
    and_stops                shown(0) and noted(x)
    and_chain                noted(1) and shown(n) and noted(x)
    or_first                 shown(0) or x
    or_second                0 or shown(x)
    or_stops                 shown(n) or noted(1)
    or_chain                 shown(0) or noted('') or shown(x)
    and_in_or                (shown(0) and noted(1)) or shown(n)
    or_in_and                (shown(0) or noted(1)) and shown(n)
    not_and_or               not shown(n) or (not shown(0) and x)
    conditional_test         x if shown(n) else noted(n)
    conditional_body         shown(x) if n else noted(n)
    conditional_else         noted(x) if not n else shown(n)
    nested_conditional       (x if shown(0) else shown(n)) if shown(1) else 0
    conditional_argument     by(x, n if shown(0) else shown(3), noted(1))
    walrus                   (w := shown(x)) + w
    walrus_in_a_call         by((w := shown(x)), w.ndim, k=(v := shown(2))) + v
    walrus_in_a_condition    w + x if (w := shown(n)) > 1 else x
    lambda_body              (lambda v: shown(v) + 1)(x)
    lambda_default           (lambda v, k=shown(2): v * k)(x)
    lambda_of_a_closure      (lambda: shown(x) * n)()
    list_comprehension       [shown(v) for v in (1, 2)]
    comprehension_iterable   [v + 1 for v in shown([1, 2])]
    comprehension_condition  [v for v in (1, 2, 3) if shown(v) > 1]
    comprehension_of_tensors [shown(x) * v for v in (1, 2)]
    two_fors                 [shown(a) + b for a in (1, 2) for b in (3, shown(4))]
    nested_comprehension     [[shown(b) for b in range(a)] for a in (1, 2)]
    dict_comprehension       {shown(k): v for k, v in enumerate((x, n))}
    dict_comprehension_value {k: shown(v) for k, v in enumerate((x, n))}
    set_comprehension        sorted({shown(v) % 2 for v in (1, 2, 3)})
    generator_expression     sum(shown(v) for v in (1, 2))
    generator_to_list        list(shown(v) * x for v in (1, 2))
    generator_stops_early    any(shown(v) > 1 for v in (1, 2, 3))
    generator_all            all(shown(v) for v in (1, 0, 2))
    generator_to_a_call      by(x, *tuple(shown(v) for v in (1, 2)))
    generator_in_next        next(shown(v) for v in (x, n))
    generator_to_dict        dict((shown(k), k) for k in 'ab')
    generator_to_min         min(shown(v) for v in (3, 1, 2))
    generator_to_join        '-'.join(shown(v) for v in 'abc')
    walrus_in_comprehension  [w for v in (1, 2) if (w := shown(v) + 1) > 2] + [w]
    sorted_by                sorted([3, 1, 2], key=lambda v: shown(-v))
    sorted_tensors           sorted([x, x * 2], key=lambda v: shown(v.ndim))
    max_by                   max((1, 3, 2), key=shown)
    min_of                   min(shown(3), noted(1))
    mapped                   list(map(lambda v: shown(v) + x, (1, 2)))
    mapped_itself            list(map(shown, (1, x)))
    filtered                 list(filter(lambda v: shown(v) > 1, (1, 2, 3)))
    zipped                   list(zip(map(shown, (1, 2)), (x, n)))
    enumerated               list(enumerate((shown(x), n), shown(1)))
    reversed_it              list(reversed(shown([1, x])))
    summed_from              sum([x, x], shown(x))
    isinstance_of            isinstance(shown(x), shown((int, float)))
    getattr_of               getattr(Pair(x, n), shown('left'))
    getattr_default          getattr(x, shown('nothing'), shown(n))
    hasattr_of               hasattr(shown(x), 'ndim') and hasattr(x, shown('no'))
    type_of                  type(shown(x)).__name__
    range_of                 [v for v in range(shown(1), shown(4), shown(2))]
    int_of_a_float           int(shown(2.5)) + float(shown('1.5'))
    formatted                f'{shown(n)}'
    formatted_twice          f'{noted(1)}-{shown(n)}-{x.ndim}-{shown("s")}'
    formatted_conversion     f'{shown("s")!r:>6}|{shown(n)!s}'
    formatted_width          f'{n:>{shown(4)}}|{shown(1.5):.{shown(2)}f}'
    formatted_debug          f'{shown(n)=}'
    formatted_inside         f'{f"{shown(n)}" + "a"}'
    percent                  '%s %d' % (shown('a'), shown(n))
    str_format               '{0}{k}'.format(shown(1), k=shown(2))
    string_method            shown('a,b').split(shown(','))
    joined                   ','.join([shown('a'), noted('b')])
    dict_get                 {'a': x}.get(shown('a'), shown(n))
    dict_pop                 {'a': x, 'b': 1}.pop(shown('a'))
    dict_union               {'a': 1} | shown({'b': x})
    set_union                sorted({1} | shown({2}) - shown({1}))
    list_concatenation       [1] + shown([x]) + [2] * shown(2)
    tuple_concatenation      (1,) + shown((x,))
    own_getitem              Pair(x, n)[1]
    own_contains             n in Pair(x, n)
    own_equality             Pair(x, n) == Pair(x, n)
    own_order                (Pair(x, n) < Pair(x, n)) is False
    own_addition             Pair(x, n) + 1
    own_reflected_addition   1 + Pair(x, n)
    own_negation             -Pair(x, n)
    own_length               len(Pair(x, n))
    own_iteration            [*Pair(x, n)]
    own_call                 Pair(x, n)(2, k=shown(3))
    own_truth                1 if Pair(x, n) else 2
    own_not                  not Pair(x, n)
    own_format               f'{Pair(x, n):abc}'
    own_str                  str(Pair(x, n))
    own_property             Pair(x, n).both * 2
    own_getattr              Pair(x, n).other
    method_of_a_new_one      Pair(shown(x), n).add(shown(1)).add(noted(2)).left
    everything_at_once       [by(shown(x), *[shown(n)], k=shown(1) if shown(0) or n else 2), {'a': shown(n)}][shown(0)]
    """,
)
