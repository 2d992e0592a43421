"""One small program for each public name of the modules that programs use most, inside a function of a tensor.

Input: a table for each module: lines of a name and an expression, or of a name and the body of a function, indented.
`name:word` is one more program for a name. They see a tensor `x`, the number `n` (2) and `caught(function)`.
"""

import builtins
import collections
import contextlib
import copy
import functools
import itertools
import math
import operator
import random

MODULES = {
    m.__name__: m
    for m in (builtins, functools, itertools, operator, collections, contextlib, copy, math, random)
}

FUNCTOOLS = """
GenericAlias  functools.GenericAlias(list, (int,)) == list[int]
RLock
    with functools.RLock():
        y = x + 1
    return y
WRAPPER_ASSIGNMENTS "__name__" in functools.WRAPPER_ASSIGNMENTS
WRAPPER_UPDATES functools.WRAPPER_UPDATES
cache         cached(n), cached(3), cached(n)
cached_property
    t = Thing(x)
    return t.twice, t.twice is t.twice, sorted(t.__dict__)
cmp_to_key    sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a)), functools.cmp_to_key(backwards)(1) < functools.cmp_to_key(backwards)(2)
get_cache_token functools.get_cache_token() == functools.get_cache_token()
lru_cache     remembered(n), remembered(k=4), remembered(n)
lru_cache:inside
    @functools.lru_cache(maxsize=None)
    def f(k):
        return k * 2
    return x * f(3), f(3), f(n)
namedtuple    collections.namedtuple("P", "a b")(1, x)
partial       functools.partial(add3, 1, c=x)(2), functools.partial(functools.partial(add3, 1), 2)(c=3), functools.partial(max, key=len)(["a", "bb"])
partial:parts
    p = functools.partial(add3, 1, c=n)
    return p.func is add3, p.args, p.keywords, p(5)
partialmethod Thing(x).plus_two()
recursive_repr repr(Thing(x)) != ""
reduce        functools.reduce(lambda a, b: a * b, [x, 2, 3]), functools.reduce(operator.add, range(4), n), caught(lambda: functools.reduce(max, []))
singledispatch kind(3), kind("a"), kind([x])
singledispatchmethod Thing(x).of(3), Thing(x).of("a")
total_ordering Ranked(1) < Ranked(2), Ranked(1) >= Ranked(2), max([Ranked(1), Ranked(3)], default=None).k
update_wrapper
    def f(a):
        return a + 1
    g = functools.update_wrapper(lambda a: f(a), f)
    return g(x), g.__name__, g.__wrapped__ is f
wraps
    def f(a):
        "Says."
        return a + 1
    @functools.wraps(f)
    def g(*args):
        return f(*args) * 2
    return g(x), g.__name__, g.__doc__
"""

ITERTOOLS = """
accumulate    list(itertools.accumulate([1, 2, 3])), list(itertools.accumulate([x, 2], operator.mul)), list(itertools.accumulate([1], initial=n))
batched       caught(lambda: list(itertools.batched("abcde", n))), caught(lambda: list(itertools.batched("a", 0)))
chain         list(itertools.chain([x], (1, 2), "ab")), list(itertools.chain.from_iterable([[1], [x, 2]])), list(itertools.chain())
combinations  list(itertools.combinations("abc", n)), list(itertools.combinations("abc", 0)), list(itertools.combinations("a", 2))
combinations_with_replacement list(itertools.combinations_with_replacement("ab", n))
compress      list(itertools.compress("abc", [1, 0, 1]))
count         list(itertools.islice(itertools.count(), 3)), list(zip(itertools.count(n, 2), "ab")), list(itertools.islice(itertools.count(0.5, 0.5), 2))
cycle         list(itertools.islice(itertools.cycle("ab"), 5)), list(itertools.cycle([]))
dropwhile     list(itertools.dropwhile(lambda i: i < n, range(5)))
filterfalse   list(itertools.filterfalse(lambda i: i % 2, range(5))), list(itertools.filterfalse(None, [0, 1]))
groupby       [(k, list(g)) for k, g in itertools.groupby("aabc")], [(k, list(g)) for k, g in itertools.groupby(range(5), key=lambda i: i // n)]
islice        list(itertools.islice("abcdef", 1, 5, n)), list(itertools.islice(range(9), 3)), list(itertools.islice("abc", 1, None))
islice:error  caught(lambda: itertools.islice("abc", -1)), caught(lambda: list(itertools.islice("abc", 0, 2, 0)))
pairwise      list(itertools.pairwise([x, 1, 2])), list(itertools.pairwise([1]))
permutations  list(itertools.permutations("abc", n)), len(list(itertools.permutations(range(3)))), list(itertools.permutations("a", 2))
product       list(itertools.product("ab", range(n))), list(itertools.product([1, 2], repeat=2)), list(itertools.product())
repeat        list(itertools.repeat(x, 2)), list(zip("ab", itertools.repeat(n))), list(map(pow, range(3), itertools.repeat(2)))
starmap       list(itertools.starmap(lambda a, b: a + b, [(x, 1), (1, 2)])), list(itertools.starmap(pow, [(2, 3)]))
takewhile     list(itertools.takewhile(lambda i: i < n, range(5)))
tee           [list(i) for i in itertools.tee([x, 1])], len(itertools.tee("ab", 3))
zip_longest   list(itertools.zip_longest("ab", [x])), list(itertools.zip_longest("ab", "c", fillvalue=n)), list(itertools.zip_longest())
living
    it = itertools.chain([1, 2], [3])
    first = next(it)
    print(first)
    return x * first, next(it), list(it)
"""

OPERATOR = """
abs           operator.abs(x), operator.abs(-3)
add           operator.add(x, 1), operator.add("a", "b")
and_          operator.and_(6, n)
attrgetter    operator.attrgetter("x")(Thing(x)), operator.attrgetter("x", "k")(Thing(x)), operator.attrgetter("x.shape")(Thing(x))
call          caught(lambda: operator.call(add3, 1, x, c=3))
concat        operator.concat([1], [x]), operator.concat("a", "b")
concat:error  caught(lambda: operator.concat(1, 2))
contains      operator.contains([1, 2], n)
countOf       operator.countOf([1, 2, 1], 1), operator.countOf("aba", "a")
delitem
    d = [1, 2, 3]
    operator.delitem(d, 0)
    return x + 1, d
eq            operator.eq(n, 2), operator.eq([1], [1])
floordiv      operator.floordiv(7, n), operator.floordiv(x, 2)
ge            operator.ge(3, n)
getitem       operator.getitem([1, x], 1), operator.getitem(x, 0), operator.getitem({"a": 1}, "a")
gt            operator.gt(3, n), operator.gt(x, 0)
iadd
    d = [1]
    return operator.iadd(d, [x]) is d, d, operator.iadd(3, n)
iand          operator.iand(6, n)
iconcat
    d = [1]
    return operator.iconcat(d, [x]) is d, d
ifloordiv     operator.ifloordiv(7, n)
ilshift       operator.ilshift(1, n)
imatmul       operator.imatmul(x, x)
imod          operator.imod(7, n), operator.imod("%d", n)
imul          operator.imul([1], n)
index         operator.index(n), caught(lambda: operator.index(1.5))
indexOf       operator.indexOf([1, 2, 3], n)
indexOf:error caught(lambda: operator.indexOf([1], 2))
inv           operator.inv(n)
invert        operator.invert(n)
ior           operator.ior(5, n), operator.ior({1: 2}, {3: x})
ipow          operator.ipow(3, n)
irshift       operator.irshift(8, n)
is_           operator.is_(x, x), operator.is_(x, None)
is_not        operator.is_not(x, x), operator.is_not(x, None)
isub          operator.isub(3, n)
itemgetter    operator.itemgetter(1)([1, x]), operator.itemgetter(0, "a")({0: 1, "a": x}), sorted([(2, 1), (1, 2)], key=operator.itemgetter(1))
itruediv      operator.itruediv(7, n)
ixor          operator.ixor(7, n)
le            operator.le(3, n)
length_hint   operator.length_hint([1, 2]), operator.length_hint(iter([1])), operator.length_hint(3, 7)
lshift        operator.lshift(1, n)
lt            operator.lt(3, n), operator.lt("a", "b")
matmul        operator.matmul(x, x)
methodcaller  operator.methodcaller("sum")(x), operator.methodcaller("split", "b", maxsplit=1)("abcb")
mod           operator.mod(7, n), operator.mod("%s", "a")
mul           operator.mul(x, n), operator.mul("a", n)
ne            operator.ne(3, n)
neg           operator.neg(x), operator.neg(n)
not_          operator.not_(n), operator.not_([])
or_           operator.or_(5, n)
pos           operator.pos(n), operator.pos(2.5)
pos:error     caught(lambda: operator.pos("a"))
pow           operator.pow(x, 2), operator.pow(3, n)
rshift        operator.rshift(8, n)
setitem
    d = {"a": 1}
    operator.setitem(d, "b", x)
    return d
sub           operator.sub(x, 1), operator.sub(3, n)
truediv       operator.truediv(x, n), caught(lambda: operator.truediv(1, 0))
truth         operator.truth(n), operator.truth([])
xor           operator.xor(7, n)
"""

COLLECTIONS = """
ChainMap
    m = collections.ChainMap({"a": x}, {"a": 2, "b": 3})
    m["q"] = 4
    return m["a"], m["b"], sorted(m), len(m), m.get("zz"), m.maps, m.new_child({"z": 1})["z"], "b" in m
Counter       collections.Counter("aab"), collections.Counter("aab").most_common(1), collections.Counter(a=n)["a"]
OrderedDict   collections.OrderedDict([("b", x), ("a", 1)]), collections.OrderedDict(b=1)
UserDict
    d = collections.UserDict(a=1)
    d["b"] = x
    return d["b"], len(d), sorted(d), "a" in d, d.data
UserList
    d = collections.UserList([1, 2])
    d.append(x)
    return d[2], len(d), d.data
UserString    collections.UserString("ab").upper() == "AB"
defaultdict
    d = collections.defaultdict(list)
    for i in range(3):
        d[i % 2].append(x + i)
    return d
deque
    d = collections.deque(maxlen=n)
    for i in range(4):
        d.append(x + i)
    return d, d.maxlen
namedtuple
    P = collections.namedtuple("P", "a b", defaults=[3])
    p = P(x)
    return p.a, p.b, p._replace(b=n).b, P._fields, tuple(p)
namedtuple:outside Point(x, 2)._replace(b=n), Point(1, b=x)._asdict(), Point._make([1, 2]), Point(1, 2) == (1, 2), Point._fields
"""

CONTEXTLIB = """
AbstractAsyncContextManager isinstance(contextlib.nullcontext(), contextlib.AbstractAsyncContextManager)
AbstractContextManager isinstance(contextlib.nullcontext(), contextlib.AbstractContextManager), isinstance(n, contextlib.AbstractContextManager)
AsyncContextDecorator contextlib.AsyncContextDecorator.__name__
AsyncExitStack contextlib.AsyncExitStack.__name__
ContextDecorator
    @Decorating("d")
    def f(a):
        LOG.append("inside")
        return a + 1
    return f(x), f(x)
ExitStack
    with contextlib.ExitStack() as stack:
        names = [stack.enter_context(noted(i)) for i in range(3)]
        y = x * 2
    return y, names
ExitStack:callback
    with contextlib.ExitStack() as stack:
        stack.callback(LOG.append, "last")
        f = stack.callback(lambda *a, **k: LOG.append((a, k)), 1, k=n)
        y = x * 2
        LOG.append("body")
    return y
ExitStack:push
    with contextlib.ExitStack() as stack:
        stack.push(Note("p"))
        stack.push(lambda *exc: LOG.append(exc[0]))
        y = x * 2
    return y
ExitStack:pop_all
    with contextlib.ExitStack() as stack:
        stack.enter_context(noted("a"))
        kept = stack.pop_all()
        y = x * 2
        LOG.append("body")
    LOG.append("after")
    kept.close()
    return y
ExitStack:raises
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(noted("a"))
            stack.callback(LOG.append, "b")
            y = x * 2
            raise ValueError("v")
    except ValueError as error:
        return y, str(error)
ExitStack:swallows
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(KeyError))
        stack.enter_context(noted("a"))
        y = x * 2
        {}["zz"]
    return y
ExitStack:close
    stack = contextlib.ExitStack()
    stack.enter_context(noted("a"))
    y = x * 2
    stack.close()
    return y
ExitStack:kept
    stack = contextlib.ExitStack()
    stack.callback(LOG.append, "b")
    stack.enter_context(Note("p"))
    return x * 2, stack
ExitStack:given
    with OPEN[0] as stack:
        y = x * 2
    return y
ExitStack:no_grad
    with contextlib.ExitStack() as stack:
        if n > 1:
            stack.enter_context(no_grad())
        y = x * 2
    return y, is_grad_enabled()
ExitStack:break_inside
    with contextlib.ExitStack() as stack:
        stack.enter_context(noted("a"))
        stack.callback(LOG.append, "b")
        y = x * 2
        print("here")
        z = y + 1
    return z
aclosing      contextlib.aclosing.__name__
asynccontextmanager contextlib.asynccontextmanager.__name__
chdir
    with contextlib.chdir("."):
        y = x + 1
    return y
closing
    with contextlib.closing(Closes()) as c:
        y = x + c.k
    return y, c.k
closing:raises
    try:
        with contextlib.closing(Closes()) as c:
            y = x + c.k
            raise KeyError(c.k)
    except KeyError as error:
        return y, c.k, str(error)
contextmanager
    with noted("a") as name:
        y = x + 1
    return y, name
contextmanager:decorator
    @noted("d")
    def f(a):
        LOG.append("inside")
        return a + 1
    return f(x), f(x), f.__name__
contextmanager:decorated decorated(x), decorated(x)
contextmanager:raises
    try:
        with noted("a"):
            y = x + 1
            raise KeyError("k")
    except KeyError as error:
        return y, str(error)
contextmanager:inside
    @contextlib.contextmanager
    def own(k):
        LOG.append(k)
        yield k + 1
        LOG.append(-k)
    with own(n) as m:
        y = x + m
    return y
nullcontext
    with contextlib.nullcontext(x) as y, contextlib.nullcontext() as z:
        y = y + 1
    return y, z
redirect_stderr
    out = io.StringIO()
    with contextlib.redirect_stderr(out):
        y = x + 1
    return y, out.getvalue()
redirect_stdout
    out = io.StringIO()
    with contextlib.redirect_stdout(out) as same:
        y = x + 1
        print("inside")
        y = y * 2
    print("outside")
    return y, out.getvalue(), same is out
suppress
    with contextlib.suppress(KeyError, ValueError):
        y = x + 1
        {}["zz"]
        y = x + 2
    with contextlib.suppress():
        y = y * 2
    return y
suppress:other
    try:
        with contextlib.suppress(KeyError):
            y = x + 1
            int("x")
    except ValueError as error:
        return y, str(error)
"""

COPY = """
copy
    d = {"a": [x], "b": (1, x)}
    e = copy.copy(d)
    return e, e is d, e["a"] is d["a"], copy.copy(n), copy.copy("s"), copy.copy((1,)), copy.copy({1}), copy.copy(Thing(x)).k
deepcopy
    inner = [1, 2]
    d = {"a": inner, "b": (1, inner), "c": "s"}
    e = copy.deepcopy(d)
    return x + 1, e, e["a"] is inner, e["b"][1] is e["a"], copy.deepcopy(Thing(n)).x, copy.deepcopy(collections.deque([[1]]))
deepcopy:tensor copy.deepcopy(x), copy.deepcopy([x, x])
dispatch_table len(copy.dispatch_table) >= 0
replace       caught(lambda: copy.replace(Point(1, x), b=3))
"""

_ONE_ARGUMENT = """acos acosh:2 asin asinh atan atanh cbrt cos cosh degrees erf erfc exp exp2 expm1 fabs gamma lgamma
log log10 log1p log2 radians sin sinh sqrt tan tanh ulp ceil floor trunc isfinite isinf isnan frexp modf""".split()
MATH = (
    "\n".join(
        f"{name}  math.{name}({value or 0.5}), caught(lambda: math.{name}(n)), caught(lambda: math.{name}('a')), x * n"
        for name, _, value in (word.partition(":") for word in _ONE_ARGUMENT)
    )
    + """
atan2         math.atan2(1.0, n)
comb          math.comb(5, n), caught(lambda: math.comb(-1, 2))
copysign      math.copysign(n, -0.0)
dist          math.dist([1, 2], (3, n))
e             x * math.e
factorial     math.factorial(n), caught(lambda: math.factorial(-1))
fma           caught(lambda: math.fma(1.0, 2.0, n))
fmod          math.fmod(7, n)
fsum          math.fsum([0.1] * 10), math.fsum(i / n for i in range(3))
gcd           math.gcd(12, 18, n)
hypot         math.hypot(3, 4), math.hypot(n, 1, 1)
inf           x * math.inf
isclose       math.isclose(1.0, 1.0 + 1e-12), math.isclose(n, 2.1, rel_tol=0.1)
isqrt         math.isqrt(17), math.isqrt(n), caught(lambda: math.isqrt(-1))
lcm           math.lcm(4, 6, n)
ldexp         math.ldexp(0.5, n)
nan           math.isnan(math.nan), x * math.nan
nextafter     math.nextafter(1.0, n)
perm          math.perm(5, n), math.perm(3)
pi            x * math.pi
pow           math.pow(n, 3), caught(lambda: math.pow(-1, 0.5))
prod          math.prod([1, 2, n]), math.prod([x, 2], start=3), math.prod(range(1, 4))
remainder     math.remainder(7, n)
sumprod       caught(lambda: math.sumprod([1, 2], (3, n)))
tau           x * math.tau
domain        caught(lambda: math.sqrt(-1)), caught(lambda: math.log(0)), caught(lambda: math.exp(1e4)), math.log(8, 2)
"""
)

# which names of the table stand for one class or module
TABLES = {
    "functools": FUNCTOOLS,
    "itertools": ITERTOOLS,
    "operator": OPERATOR,
    "collections": COLLECTIONS,
    "contextlib": CONTEXTLIB,
    "copy": COPY,
    "math": MATH,
}
