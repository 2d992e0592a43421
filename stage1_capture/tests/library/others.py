"""The builtins, random numbers, and what else of the library a program may reach, inside a function of a tensor.

Input: tables as in modules.py. The last one has modules of which only what programs use is looked at.
"""

BUILTINS = """
Ellipsis      x[...], Ellipsis is ..., [Ellipsis]
False         False, not False
None          None, x is None
NotImplemented NotImplemented is NotImplemented
True          True, True + n
abs           abs(x), abs(-3), abs(-n)
aiter         caught(lambda: aiter(3))
all           all([1, n]), all([]), all(i < 3 for i in range(5)), all((x is x, True))
anext         caught(lambda: anext(3))
any           any([0, n]), any([]), any(i > 3 for i in range(5))
ascii         ascii("ß"), ascii(n), ascii([1])
bin           bin(5), bin(n), caught(lambda: bin(1.5))
bool          bool(n), bool([]), bool(""), bool()
breakpoint    callable(breakpoint)
bytearray
    b = bytearray(b"ab")
    b.append(99)
    return x + len(b), b
bytes         bytes(2), bytes([1, 2]), bytes("a", "ascii")
callable      callable(len), callable(x), callable(3), callable(lambda: 1), callable(Thing), callable(add3), callable(Thing(x))
chr           chr(97), chr(n + 96), caught(lambda: chr(-1))
classmethod   Thing.made(x).x
compile       eval(compile("1 + 1", "<f>", "eval"))
complex       complex(1, n), complex("1+2j"), complex(n).imag
copyright     callable(copyright)
credits       callable(credits)
delattr
    t = Thing(x)
    delattr(t, "k")
    return hasattr(t, "k"), t.x, caught(lambda: delattr(t, "zz"))
dict          dict(a=x), dict([("a", 1)]), dict({"b": 2}, c=n), dict(zip("ab", (1, 2))), caught(lambda: dict([1]))
dir           "sum" in dir([]) or "append" in dir([])
divmod        divmod(7, n), divmod(7.5, 2), caught(lambda: divmod(1, 0))
enumerate     list(enumerate([x, 1])), list(enumerate("ab", n)), list(enumerate("ab", start=1))
eval          eval("1 + 1"), eval("n + 1", {"n": n})
exec
    names = {}
    exec("a = 3", names)
    return x + names["a"]
exit          callable(exit)
filter        list(filter(None, [0, 1, 2])), list(filter(lambda i: i > n, range(5))), list(filter(str.isalpha, "a1b"))
float         float(n), float("1.5"), float("nan") != 0, caught(lambda: float("x"))
format        format(3.14159, ".2f"), format(n, "05d"), format("a", ">3")
frozenset     frozenset([1, 2]), frozenset(), frozenset("ab") == {"a", "b"}
getattr       getattr(x, "shape")[0], getattr(x, "nothing", 3), getattr(Thing(x), "k"), caught(lambda: getattr(Thing(x), "zz"))
globals       "Thing" in globals()
hasattr       hasattr(x, "shape"), hasattr(x, "zz"), hasattr(Thing(x), "k"), hasattr([], "append"), hasattr(3, "real")
hash          hash(n) == hash(2), hash("a") == hash("a"), caught(lambda: hash([]))
help          callable(help)
hex           hex(255), hex(n)
id            id(x) == id(x), len({id(x), id(x)})
input         callable(input)
int           int("7"), int(2.9), int(n), int("z", 36), int()
isinstance    isinstance(x, Tensor), isinstance(n, (int, float)), isinstance("a", str), isinstance([], (list, tuple)), isinstance(n, int | str)
isinstance:abc isinstance([], abc.Sequence), isinstance({}, abc.Mapping), isinstance(n, numbers.Number), isinstance(add3, abc.Callable)
isinstance:error caught(lambda: isinstance(3, 4))
issubclass    issubclass(bool, int), issubclass(Thing, (str, Thing)), issubclass(list, abc.Sequence), caught(lambda: issubclass(3, int))
iter          next(iter([x, 1])), list(iter((1, 2))), list(iter([3, 2, 1].pop, 1)), caught(lambda: iter(3))
len           len([1, x]), len("abc"), len({1: 2}), len(x), len(range(n)), caught(lambda: len(3))
license       callable(license)
list          list("ab"), list(range(n)), list({"a": 1}), list(), list(x), caught(lambda: list(3))
locals        sorted(locals())
map           list(map(lambda a: a + 1, [x, 2])), list(map(operator.add, [1, 2], [3, x])), list(map(str, range(n))), list(map(int, "12"))
max           max(1, n), max([1, 3, 2]), max("ab", "b"), max([], default=7), max([1, 2], key=lambda i: -i), max("a", "bb", key=len)
max:error     caught(lambda: max([])), caught(lambda: max(3)), caught(lambda: max())
memoryview    bytes(memoryview(b"ab")), len(memoryview(b"ab"))
min           min(1, n), min([3, 1, 2]), min([], default=None), min({"a": 2, "b": 1}, key={"a": 2, "b": 1}.get)
min:error     caught(lambda: min([])), caught(lambda: min(1, "a"))
next          next(iter([x])), next(iter([]), 3), next((i for i in range(5) if i > n)), caught(lambda: next(iter([])))
next:error    caught(lambda: next(3))
object        object() is object(), isinstance(object(), object), type(object())
oct           oct(8), oct(n)
open          caught(lambda: open("/nowhere/at/all"))
ord           ord("a"), caught(lambda: ord("ab"))
pow           pow(2, 3), pow(n, 3, 5), pow(x, 2), pow(2, -1), pow(3, -1, 7)
print
    print("a", n, [1], sep="-", end="!")
    return x + 1
property
    t = Thing(x)
    t.doubled = n
    return t.doubled, t.k
quit          callable(quit)
range         list(range(3)), list(range(n, 9, 3)), range(5)[1:3], 3 in range(5), len(range(0, 9, n)), range(3).index(2), range(n).stop
range:error   caught(lambda: range(1, 2, 0)), caught(lambda: range(1.5)), caught(lambda: range(3)[7])
repr          repr(n), repr("a"), repr([1, "b"]), repr({"a": 1.5}), repr(None), repr(range(2)), repr((1,))
reversed      list(reversed([1, x])), list(reversed("ab")), list(reversed(range(n))), list(reversed({"a": 1, "b": 2}))
reversed:error caught(lambda: reversed(3))
round         round(2.567, 1), round(2.5), round(3.5), round(n), round(1234, -2)
set           set([1, 2, 1]), set(), sorted(set("ab")), {1, n}
setattr
    t = Thing(x)
    setattr(t, "k", 9)
    setattr(t, "new", x + 1)
    return t.k, t.new
setattr:error caught(lambda: setattr(3, "a", 1))
slice         [1, 2, 3][slice(1)], slice(1, 2, 3).step, x[slice(0, n)], slice(1, None).indices(5), slice(1) == slice(1)
sorted        sorted([3, 1, 2]), sorted("ba", reverse=True), sorted([(1, "b"), (1, "a")]), sorted({"b": 1, "a": 2}), sorted([1, -2], key=abs)
sorted:error  caught(lambda: sorted([1, "a"])), caught(lambda: sorted(3))
staticmethod  Thing.static(n), Thing(x).static(3)
str           str(n), str(1.5), str([1, "a"]), str(None), str(b"a", "ascii"), str(), str(ValueError("v")), str(Thing)
sum           sum([1, 2]), sum([x, 1]), sum(range(4), n), sum([[1], [2]], []), sum(i * i for i in range(3)), sum([], start=x), sum([0.1] * 3)
sum:error     caught(lambda: sum(["a"])), caught(lambda: sum(3))
super         Child(x).who()
tuple         tuple([1, x]), tuple("ab"), tuple(), tuple(i for i in range(n))
type          type(n) is int, type(x) is Tensor, type("a").__name__, type([]) == list, type(Thing(x)) is Thing
type:made     type("Made", (), {"k": 3})().k
vars          vars(Thing(x))["k"]
zip           list(zip([1, 2], [x, 3])), list(zip()), list(zip("ab", range(9))), dict(zip("ab", "cd")), caught(lambda: list(zip("a", "bc", strict=True)))
"""

# `seed` stands in every row, so that both runs draw the same numbers; what is drawn next shows the generator's state
RANDOM = """
BPF           random.BPF
LOG4          random.LOG4
NV_MAGICCONST random.NV_MAGICCONST
RECIP_BPF     random.RECIP_BPF
SG_MAGICCONST random.SG_MAGICCONST
TWOPI         random.TWOPI
main          hasattr(random, "main")
Random
    own = random.Random(3)
    return x * own.random(), own.randint(1, 9), own.choice("abc")
Random:outside
    return x * OWN.random(), OWN.uniform(1, 2), OWN.randint(1, 9)
SystemRandom  0 <= random.SystemRandom().random() < 1
betavariate   random.betavariate(1.0, n)
binomialvariate caught(lambda: random.binomialvariate(5, 0.5))
choice        random.choice([1, 2, 3]), random.choice("abc"), random.choice([x, x + 1]), caught(lambda: random.choice([]))
choices       random.choices([1, 2, 3], k=n), random.choices("ab", [1, 5], k=3), random.choices("ab", cum_weights=[1, 5])
expovariate   random.expovariate(1.5), x * random.expovariate(n)
gammavariate  random.gammavariate(1.0, 2.0)
gauss         random.gauss(0.0, 1.0), random.gauss(0.0, 1.0), random.gauss(1, n)
getrandbits   random.getrandbits(5), x * random.getrandbits(3)
getstate
    before = random.getstate()
    a = random.random()
    random.setstate(before)
    return x * a, random.random() == a
lognormvariate random.lognormvariate(0.0, 1.0)
normalvariate random.normalvariate(0.0, 1.0), x * random.normalvariate(1.0, n)
paretovariate random.paretovariate(2.0)
randbytes     random.randbytes(3)
randint       x * random.randint(1, 6), random.randint(n, 9), random.randint(0, 3) + 1
randint:error caught(lambda: random.randint(3, 1)), random.random()
randint:index x[random.randint(0, 1)], [1, 2, 3][random.randint(0, 2)], list(range(random.randint(1, 4)))
random        x * random.random(), random.random(), random.random() * n + 1
random:branch
    if random.random() < 0.5:
        return x + 1, random.random()
    return x - 1, random.random()
random:loop
    for _ in range(5):
        x = x * random.random() + random.uniform(-1, 1)
    return x
random:between
    a = random.random()
    print("here")
    return x * a + random.random(), a
random:raises
    try:
        y = x * random.random()
        raise ValueError("v")
    except ValueError:
        return y, random.random()
random:stored
    t = Thing(x)
    t.k = random.random()
    KEPT["last"] = t.k + 1
    return x * t.k, [t.k], t
random:unused
    random.random()
    return x + 1
random:text
    return x + 1, f"{random.random():.3f}", int(random.random() * 10)
random:inlined draws(x), draws(x)
randrange     random.randrange(5), random.randrange(n, 9, 3), x * random.randrange(1, 4)
randrange:error caught(lambda: random.randrange(0)), random.random()
sample        random.sample([1, 2, 3], 2), random.sample(range(9), k=n), caught(lambda: random.sample([1], 2))
seed
    random.seed(5)
    a = random.random()
    random.seed(5)
    return x * a, random.random() == a
seed:other    random.seed("a"), random.random(), random.seed(n), random.random()
setstate
    random.setstate(STATE)
    return x * random.random()
shuffle
    d = [1, 2, 3, 4]
    random.shuffle(d)
    return x + d[0], d
triangular    random.triangular(0.0, 1.0, 0.5), random.triangular()
uniform       x * random.uniform(1, 2), random.uniform(0.0, n), random.uniform(-1, 1) + 1
vonmisesvariate random.vonmisesvariate(0.0, 4.0)
weibullvariate random.weibullvariate(1.0, 1.5)
"""

# names of the rows are modules and what is used of them
OTHERS = """
weakref.ref
    t = Thing(x)
    r = weakref.ref(t)
    return r() is t, r().k, x + 1
weakref.ref:outside
    r = weakref.ref(KEEP)
    return x + r().k, r() is KEEP
weakref.WeakKeyDictionary
    d = weakref.WeakKeyDictionary()
    d[KEEP] = n
    return x + d[KEEP], len(d)
weakref.proxy weakref.proxy(KEEP).k + 1
threading.Lock
    with threading.Lock():
        y = x + 1
    return y
threading.Lock:outside
    with LOCK:
        y = x + 1
    return y * 2, LOCK.locked()
threading.Lock:acquire
    LOCK.acquire()
    try:
        y = x + 1
    finally:
        LOCK.release()
    return y, LOCK.locked()
threading.RLock
    with RLOCK, RLOCK:
        y = x + 1
    return y
threading.local
    LOCAL.k = n
    return x + LOCAL.k, hasattr(LOCAL, "zz")
threading.get_ident threading.get_ident() == threading.get_ident(), threading.current_thread().name
re.compile    re.compile("a+").match("aab").group(), re.compile(r"(\\d)(\\d)").sub(r"\\2\\1", "12")
re.match      re.match(r"(?P<k>\\w)(\\d)?", "a").groupdict(), re.match("a", "b"), bool(re.search("b", "abc"))
re.sub        re.sub("a", "b", "aa"), re.sub(r"\\d", lambda m: str(int(m.group()) + 1), "a1"), re.split(",", "a,b"), re.findall("a.", "abac")
re.finditer   [m.group() for m in re.finditer(r"\\d", "a1b2")], re.escape("a.b"), re.IGNORECASE == re.I
json.dumps    json.dumps({"a": [1, 2.5, None, True]}), json.dumps({"b": 1, "a": n}, sort_keys=True)
json.loads    json.loads('{"a": [1, 2.5, null]}')["a"]
json.loads:error caught(lambda: json.loads("{"))[0]
time.time     time.time() > 0, time.perf_counter() > 0, time.monotonic() <= time.monotonic(), time.time_ns() > 0
time.sleep    time.sleep(0), time.strftime("%Y", time.gmtime(0))
os.environ
    os.environ["STDLIB_AUDIT"] = "a"
    return x + len(os.environ["STDLIB_AUDIT"]), os.environ.get("NO_SUCH_NAME"), os.environ.get("NO_SUCH_NAME", n), "STDLIB_AUDIT" in os.environ
os.environ:read os.environ.get("NO_SUCH_NAME") is None, os.getenv("NO_SUCH_NAME", "a"), caught(lambda: os.environ["NO_SUCH_NAME"])
os.path       os.path.join("a", "b"), os.path.basename("a/b.c"), os.path.splitext("a.b"), os.path.exists("/nowhere"), os.path.dirname("a/b")
os.getpid     os.getpid() == os.getpid(), os.sep
datetime.date datetime.date(2020, 1, 2).isoformat(), datetime.date(2020, 1, n) < datetime.date(2020, 1, 3), datetime.timedelta(days=1).total_seconds()
datetime.datetime datetime.datetime(2020, 1, 2).strftime("%d"), datetime.datetime(2020, 1, 2) - datetime.datetime(2020, 1, 1), datetime.datetime.fromisoformat("2020-01-02").year
datetime.now  datetime.datetime.now() > datetime.datetime(2020, 1, 1), datetime.date.today().year > 2000
decimal.Decimal decimal.Decimal("1.1") + 1, str(decimal.Decimal(n) / 3)
fractions.Fraction fractions.Fraction(1, n) + 1, float(fractions.Fraction(1, 4))
statistics.mean statistics.mean([1, 2, 3]), statistics.median([1, 3, n])
heapq.heappush
    h = []
    heapq.heappush(h, 3)
    heapq.heappush(h, n)
    return x + heapq.heappop(h), h, heapq.nlargest(1, [1, 2]), heapq.heapreplace(h, 9), h
heapq.heapify
    h = [3, 1, 2]
    heapq.heapify(h)
    return x + h[0], h, heapq.heappushpop(h, 0), heapq.nsmallest(2, h), list(heapq.merge([1, 4], [2]))
bisect.bisect bisect.bisect([1, 2, 3], n), bisect.bisect_left([1, 2, 3], n), bisect.bisect_right([1, 5], 3)
bisect.insort
    d = [1, 5]
    bisect.insort(d, n)
    return x + d[1], d
string.ascii_letters string.ascii_lowercase[:3], string.digits, string.Template("$a").substitute(a=n), string.capwords("a b")
textwrap.dedent textwrap.dedent("  a"), textwrap.indent("a", " "), textwrap.shorten("a b c", 3, placeholder="")
enum.Enum     Shade.DARK.value, Shade(2).name, Shade["LIGHT"] is Shade.LIGHT, [s.name for s in Shade], Shade.DARK in Shade, len(Shade)
dataclasses.replace dataclasses.replace(Pair(1, x), a=n).a, dataclasses.asdict(Pair(1, 2)), [f.name for f in dataclasses.fields(Pair)], dataclasses.astuple(Pair(1, 2))
dataclasses.is_dataclass dataclasses.is_dataclass(Pair), dataclasses.is_dataclass(Pair(1, 2)), Pair(1, 2) == Pair(1, 2), repr(Pair(1, 2))
inspect.signature inspect.isfunction(add3), inspect.isclass(Thing), list(inspect.signature(add3).parameters), inspect.ismethod(Thing(x).plus)
types.SimpleNamespace
    s = types.SimpleNamespace(a=x, b=1)
    s.c = n
    return s.a, s.b, s.c, hasattr(s, "zz"), vars(s)["b"]
types.MappingProxyType types.MappingProxyType({"a": x})["a"], len(types.MappingProxyType({"a": 1})), dict(types.MappingProxyType({"a": 1}))
typing.cast   typing.cast(int, n), typing.get_type_hints(Pair), typing.Optional[int] is not None
warnings.warn
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.warn("careful")
        y = x + 1
    return y, [str(w.message) for w in seen]
logging.debug logging.getLogger("a").debug("%s", n), logging.getLogger("a").isEnabledFor(logging.DEBUG)
io.StringIO
    out = io.StringIO()
    out.write("a")
    print("b", file=out)
    return x + 1, out.getvalue()
sys.version_info sys.version_info >= (3, 8), sys.maxsize > 0, sys.getrecursionlimit() > 9, "sys" in sys.modules, sys.byteorder
sys.exc_info
    try:
        raise KeyError("k")
    except KeyError:
        kind = sys.exc_info()[0]
    return x + 1, kind
struct.pack   struct.pack("<h", n), struct.unpack("<h", b"ab"), struct.calcsize("ih")
hashlib.md5   hashlib.md5(b"a").hexdigest()
base64.b64encode base64.b64encode(b"a"), base64.b64decode(b"YQ==")
pathlib.Path  str(pathlib.PurePosixPath("a") / "b"), pathlib.PurePosixPath("a/b.c").suffix, pathlib.PurePosixPath("a/b").parent.name
queue.Queue
    q = queue.Queue()
    q.put(x)
    return q.get() + 1, q.empty()
array.array   array.array("i", [1, n]).tolist(), len(array.array("d"))
numbers.Number isinstance(n, numbers.Integral), isinstance(1.5, numbers.Real)
uuid.UUID     str(uuid.UUID(int=n))
pprint.pformat pprint.pformat({"a": [1]})
cmath.sqrt    cmath.sqrt(-1), cmath.phase(1j)
unicodedata.name unicodedata.name("a")
shlex.split   shlex.split("a 'b c'")
abc.ABC       issubclass(Thing, abc.Hashable), isinstance(iter([]), abc.Iterator)
"""
