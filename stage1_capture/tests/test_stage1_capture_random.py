"""Random programs: whatever the grammar writes, the captured call does what the call does, or breaks.

Input: the seam `capture`. A seed makes a function of two tensors and two numbers: assignments, branches,
loops, containers, inlined functions, writes. To look at one: `print(write_program(seed))`.
"""

import linecache
import random

import pytest

from stage0_eager.functions.pointwise import sin
from stage1_capture.tests.driver import Compiled
from stage1_capture.tests.harness import assert_same, tensor

PROGRAMS_PER_TEST = 50


def helper(x, by=2):
    return x * by if by else x


class Writer:
    """The grammar: each method writes one kind of thing, chosen by the seed."""

    def __init__(self, seed):
        self.choice, self.chance = random.Random(seed).choice, random.Random(seed + 1).random
        self.count = random.Random(seed + 2).randint
        self.lines, self.depth = [], 1

    def line(self, text):
        self.lines.append("    " * self.depth + text)

    def tensor(self):
        return self.choice(["a", "b", "l[0]", "l[-1]", "d['k']", "a[:, :2]", "b.T.T"])

    def number(self):
        return self.choice(
            ["n", "m", "2", "-1", "len(l)", "a.ndim", "a.shape[0]", "(n+m)", "n%3", "0.5", "G"]
        )

    def condition(self):
        n, m = self.number(), self.number()
        forms = ("{n} > {m}", "{n} == 2 and {m}", "not {n}", "n in (1, 2, {m})", "a is b", "l[0] is a")
        more = ("d.get('z') is None", "{n} < {m} < 4", "isinstance(n, int) or m", "a is not l[-1]")
        return self.choice(forms + more).format(n=n, m=m)

    def expression(self, depth=2):
        if depth == 0:
            return self.tensor()
        x, y, n = self.expression(depth - 1), self.expression(depth - 1), self.number()
        forms = ("({x} + {n})", "({n} * {x})", "sin({x})", "({x} - {y}.sum())", "helper({x}, by={n})", "-{x}")
        more = ("({x} if {c} else {y})", "(lambda q, z={n}: q * z)({x})", "{x}.sum(dim=0, keepdim=True)")
        rare = ("sum([v * 1.0 for v in l if v is not None])",)
        return self.choice(forms + more + rare).format(x=x, y=y, n=n, c=self.condition())

    def block(self, depth):
        for _ in range(self.count(1, 4)):
            self.choice(self.STATEMENTS)(self, depth)

    def indented(self, head, depth):
        self.line(head)
        self.depth += 1
        self.assign(depth)  # a block must not be empty
        self.block(depth)
        self.depth -= 1

    def assign(self, depth):
        self.line(f"{self.choice('ab')} = {self.expression()}")

    def count_on(self, depth):
        self.line(f"{self.choice('nm')} {self.choice(['=', '+=', '-=', '*='])} {self.number()}")

    def append(self, depth):
        self.line(f"l.append({self.choice([self.expression(1), self.tensor()])})")

    def store(self, depth):
        self.line(
            f"d[{self.choice(['n', '1', repr('z')])}] = {self.choice([self.expression(1), self.number()])}"
        )

    def branch(self, depth):
        if depth:
            self.indented(f"if {self.condition()}:", depth - 1)
            if self.chance() < 0.5:
                self.indented("else:", depth - 1)

    def loop(self, depth):
        if depth:
            over = ["range(2)", "[1, 2]", "list(d)", "enumerate(l[:2])", "zip((1, 2), l)", "d.items()"]
            self.indented(f"for i in {self.choice(over)}:", depth - 1)
            if self.chance() < 0.3:
                self.line(f"    if {self.condition()}: {self.choice(['break', 'continue'])}")
            if self.chance() < 0.2:
                self.indented("else:", 0)

    def unpack(self, depth):
        self.line(f"a, *rest = [{self.tensor()}, {self.number()}, {self.tensor()}]")
        self.line("l.extend(rest[1:])")

    def rebuild(self, depth):
        forms = (f"d = {{**d, 'k': {self.expression(1)}}}", "l = l[::-1]", "d = {k: v for k, v in d.items()}")
        self.line(self.choice(forms))

    def define(self, depth):
        self.line(f"def g(x, k={self.number()}): return x * k + n")
        self.line(f"b = g({self.tensor()})")

    def format(self, depth):
        self.line("d['s'] = f'{n}-{a.shape}-{m!r:>4}'")

    def write(self, depth):
        self.line(f"{self.choice(['c', 'l[0]'])}.{self.choice(['add_', 'mul_'])}({self.number()})")

    STATEMENTS = (
        assign, assign, assign, count_on, append, store, branch, branch, loop, loop, unpack, rebuild, define,
        format, write,
    )  # fmt: skip


def write_program(seed):
    """The source of a function f(a, b, n=3, *, m=1)."""
    writer = Writer(seed)
    for text in ("l = [a, b]", "d = {'k': b, 1: 2}", "c = a * 1.0"):
        writer.line(text)
    writer.block(2)
    results = ["a, b, l, d", "{0: l, 1: (l, d), 2: a}", "[a, [l], n, m]", "d, d", "l[0], c, n"]
    writer.line(f"return {writer.choice(results)}")
    return "\n".join(["def f(a, b, n=3, *, m=1):", *writer.lines]) + "\n"


def compiled(seed):
    source, name = write_program(seed), f"<program {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names = {"sin": sin, "helper": helper, "G": 1.5, "__name__": "random_program"}
    exec(compile(source, name, "exec"), names)
    return names["f"]


def outcome(function, args, kwargs):
    try:
        return "returned", function(*args, **kwargs)
    except (RuntimeError, TypeError, ValueError, LookupError) as error:
        return "raised", type(error)


def arguments(seed):
    same = tensor(3, 3)
    return (same, same) if seed % 5 == 0 else (tensor(3, 3), tensor(3, 3, seed=1))


@pytest.mark.parametrize("start", range(0, 4 * PROGRAMS_PER_TEST, PROGRAMS_PER_TEST))
@pytest.mark.conformance("capture", tier="full")
def test_random_programs_do_what_they_do(seam, start):
    captured = 0
    for seed in range(start, start + PROGRAMS_PER_TEST):
        function, kwargs = compiled(seed), ({}, {"m": 2}, {"m": 0.5}, {"n": 1})[seed % 4]
        args, expected_args = arguments(seed), arguments(seed)
        compiled_function = Compiled(function, capture=seam("capture"))
        how, expected = outcome(function, expected_args, kwargs)
        got, result = outcome(compiled_function, args, kwargs)
        captured += compiled_function.counts.graphs > 0
        assert got == how, f"{got} {result!r}, expected {how} {expected!r}\n{write_program(seed)}"
        if how == "returned":
            assert_same(result, expected, args, expected_args)
    assert captured > PROGRAMS_PER_TEST * 0.8, (
        f"only {captured} of {PROGRAMS_PER_TEST} programs were captured"
    )
