"""A grammar of random programs: assignments, branches, loops, try, with, generators, objects, mutation, breaks.

Input: a seed. `write_program(seed)` is the source of one function of two tensors, a list, a dict and two numbers; the
names it uses are in NAMES. Everything it may do is also something it may do inside anything else.
"""

import contextlib
import itertools
import linecache
import random

from stage0_eager import enable_grad, no_grad
from stage0_eager.functions.pointwise import sin

LOG = []


def helper(x, by=2):
    return x * by if by else x


def broken(x, by=1):
    """A callee with a break of its own."""
    y = x + by
    LOG.append(by)
    print("in broken", by)
    return y * 2


def mark(*words):
    """A break."""
    print("mark", *words)


def counting(n):
    """A generator."""
    total = 0
    for i in range(n):
        sent = yield total
        total += i if sent is None else sent


def failing(x, n):
    if n % 2:
        raise ValueError(f"odd {n}")
    return x + n


class Box:
    limit = 3

    def __init__(self, value):
        self.value, self.seen = value, []

    def put(self, value):
        self.seen.append(self.value)
        self.value = value
        return self

    @property
    def double(self):
        return self.value * 2

    def __add__(self, other):
        return Box(self.value + other)


class Guarded:
    """A context manager that notes what happens, and takes ValueErrors."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        LOG.append(("enter", self.name))
        return self

    def __exit__(self, kind, value, traceback):
        LOG.append(("exit", self.name, kind and kind.__name__))
        return kind is ValueError


@contextlib.contextmanager
def managed(n):
    LOG.append(("begin", n))
    try:
        yield n + 1
    finally:
        LOG.append(("end", n))


class Writer:
    """The grammar: each method writes one kind of thing, chosen by the seed."""

    def __init__(self, seed):
        chosen = random.Random(seed)
        self.choice, self.chance, self.count = chosen.choice, chosen.random, chosen.randint
        self.lines, self.depth, self.loops = [], 1, 0
        self.fresh = itertools.count()

    def line(self, text):
        self.lines.append("    " * self.depth + text)

    # ---- expressions -----------------------------------------------------------------------------

    def tensor(self):
        return self.choice(["a", "b", "l[0]", "l[-1]", "d['k']", "a.T.T", "box.value", "box.double"])

    def number(self):
        forms = [
            "n",
            "m",
            "2",
            "-1",
            "len(l)",
            "a.ndim",
            "a.shape[0]",
            "(n + m)",
            "n % 3",
            "0.5",
            "G",
            "len(s)",
        ]
        return self.choice([*forms, "len(LOG)", "box.limit", "sum(s)"])

    def condition(self):
        n, m = self.number(), self.number()
        forms = ["{n} > {m}", "{n} == 2 and {m}", "not {n}", "n in (1, 2, {m})", "a is b", "l[0] is a"]
        forms += [
            "d.get('z') is None",
            "{n} < {m} < 4",
            "isinstance(n, int) or m",
            "a is not l[-1]",
            "n in s",
        ]
        data = ["a.sum() > 0", "bool((b < 0).any())"]
        return self.choice(data if self.chance() < 0.1 else forms).format(n=n, m=m)

    def expression(self, depth=2):
        if depth == 0:
            return self.tensor()
        x, y, n = self.expression(depth - 1), self.expression(depth - 1), self.number()
        forms = ["({x} + {n})", "({n} * {x})", "sin({x})", "({x} - {y}.sum())", "helper({x}, by={n})", "-{x}"]
        forms += ["({x} if {c} else {y})", "(lambda q, z={n}: q * z)({x})", "({y} if n in s else {x})"]
        forms += [
            "sum([v * 1.0 for v in l])",
            "sum(v * 0.5 for v in l if v is not None)",
            "(box + {y}).value",
        ]
        if self.chance() < 0.15:
            forms = ["broken({x}, {n})", "failing({x}, {i})"]
        return self.choice(forms).format(x=x, y=y, n=n, c=self.condition(), i=self.count(0, 3))

    # ---- statements ------------------------------------------------------------------------------

    def block(self, depth, most=3):
        for _ in range(self.count(1, most)):
            self.choice(self.STATEMENTS)(self, depth)

    def indented(self, head, depth, most=3):
        self.line(head)
        self.depth += 1
        self.assign(depth)  # a block must not be empty
        self.block(depth, most)
        self.depth -= 1

    def assign(self, depth):
        self.line(f"{self.choice('ab')} = {self.expression()}")

    def count_on(self, depth):
        self.line(f"{self.choice('nm')} {self.choice(['=', '+=', '-='])} {self.number()}")

    def append(self, depth):
        self.line(self.choice([f"l.append({self.expression(1)})", f"l[{self.choice(['0', '-1'])}] = {self.tensor()}",
                               "l.reverse()", f"l.insert(1, {self.tensor()})", "l += [a]",
                               f"l[1:1] = [{self.tensor()}]"]))  # fmt: skip

    def store(self, depth):
        value = self.choice([self.expression(1), self.number()])
        forms = [f"d[{self.choice(['n', '1', repr('z')])}] = {value}", "d.pop('z', None)", "s.add(n)", "s.discard(2)",
                 f"d.setdefault('w', {value})", "d.update(u=m)", f"box.value = {self.tensor()}", f"box.extra = {value}",
                 f"box.put({self.tensor()})", f"LOG.append({self.number()})"]  # fmt: skip
        self.line(self.choice(forms))

    def mark(self, depth):
        self.line(self.choice(["mark(n)", "mark()", f"mark({self.number()})"]))

    def branch(self, depth):
        if depth:
            self.indented(f"if {self.condition()}:", depth - 1)
            if self.chance() < 0.5:
                self.indented("else:", depth - 1)

    def loop(self, depth):
        if not depth or self.loops >= 2:
            return
        i = f"i{next(self.fresh)}"
        over = ["range(2)", "[1, 2]", "list(d)", "enumerate(l[:2])", "zip((1, 2), l[:2])", "counting(3)",
                "sorted(s)", "reversed([n, m])", "(v for v in (1, 2))", "map(helper, (1, 2))"]  # fmt: skip
        self.loops += 1
        self.indented(f"for {i} in {self.choice(over)}:", depth - 1)
        if self.chance() < 0.3:
            self.line(f"    if {self.condition()}: {self.choice(['break', 'continue'])}")
        if self.chance() < 0.2:
            self.indented("else:", 0)
        self.loops -= 1

    def attempt(self, depth):
        if not depth:
            return
        self.indented("try:", depth - 1)
        if self.chance() < 0.5:
            self.line(
                f"    {self.choice(['failing(a, n)', 'd[99]', 'raise KeyError(n)', 'l[50]', 'missing'])}"
            )
        caught = self.choice(["ValueError", "(KeyError, IndexError)", "Exception", "LookupError"])
        self.indented(f"except {caught} as error:", depth - 1)
        if self.chance() < 0.4:
            words = ["LOG.append(str(error))", "LOG.append(type(error).__name__)", "raise", "mark(str(error))",
                     "raise RuntimeError('again') from error"]  # fmt: skip
            self.line(f"    {self.choice(words)}")
        if self.chance() < 0.3:
            self.indented("else:", 0)
        if self.chance() < 0.4:
            self.indented("finally:", 0)

    def manage(self, depth):
        if depth:
            managers = [
                "Guarded(n)",
                "managed(n) as m",
                "no_grad()",
                "enable_grad()",
                "Guarded('x') as g, managed(1)",
            ]
            self.indented(f"with {self.choice(managers)}:", depth - 1)

    def unpack(self, depth):
        self.line(f"a, *rest = [{self.tensor()}, {self.number()}, {self.tensor()}]")
        self.line("l.extend(rest[1:])")

    def rebuild(self, depth):
        forms = [f"d = {{**d, 'k': {self.expression(1)}}}", "l = l[::-1]", "d = {k: v for k, v in d.items()}",
                 f"box = Box({self.tensor()})", "s = {x for x in s if x} | {3}", "l = [v for v in l]"]  # fmt: skip
        self.line(self.choice(forms))

    def define(self, depth):
        self.line(f"def g(x, k={self.number()}): return x * k + n")
        self.line(f"b = g({self.tensor()})")

    def share(self, depth):
        """A variable that an inner function writes."""
        self.line("def bump():")
        self.line("    nonlocal m")
        self.line("    m += 1")
        self.line("    return m")
        self.line(f"{self.choice(['n', 'm'])} = bump()")

    def stream(self, depth):
        name = f"it{next(self.fresh)}"
        self.line(f"{name} = {self.choice(['iter(l)', 'counting(4)', 'iter([n, m])', 'zip(l, [1, 2])'])}")
        self.line(f"d['first'] = next({name}, None)")
        self.choice(self.STATEMENTS)(self, 0)
        self.line(f"d['rest'] = [str(type(q)) for q in {name}]")

    def format(self, depth):
        self.line("d['s'] = f'{n}-{a.shape}-{m!r:>4}'")

    def write(self, depth):
        self.line(f"{self.choice(['c', 'l[0]'])}.{self.choice(['add_', 'mul_'])}({self.number()})")

    def leave(self, depth):
        if self.depth > 1 and self.chance() < 0.4:
            self.line(f"return a, {self.number()}")

    STATEMENTS = (
        assign, assign, count_on, append, store, store, branch, branch, loop, loop, attempt, attempt, manage, manage,
        unpack, rebuild, define, share, stream, format, write, leave, mark, mark,
    )  # fmt: skip


def write_program(seed):
    """The source of a function f(a, b, l, d, n=3, *, m=1)."""
    writer = Writer(seed)
    for text in ("s = {1, n}", "c = a * 1.0", "box = Box(b)"):
        writer.line(text)
    writer.block(3, most=5)
    results = ["a, b, l, d", "{0: l, 1: (l, d), 2: a}", "[a, [l], n, m]", "d, d, s", "l[0], c, n, box.value"]
    writer.line(f"return {writer.choice(results)}")
    return "\n".join(["def f(a, b, l, d, n=3, *, m=1):", *writer.lines]) + "\n"


NAMES = {
    "sin": sin, "helper": helper, "broken": broken, "mark": mark, "counting": counting, "failing": failing, "Box": Box,
    "Guarded": Guarded, "managed": managed, "no_grad": no_grad, "enable_grad": enable_grad, "LOG": LOG, "G": 1.5,
    "__name__": "random_program",
}  # fmt: skip


def function_of(seed):
    """The program as a function whose lines tracebacks can show."""
    source, name = write_program(seed), f"<program {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names = dict(NAMES)
    exec(compile(source, name, "exec"), names)
    return names["f"]
