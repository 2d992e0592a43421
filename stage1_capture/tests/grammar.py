"""A grammar of random programs: every statement and expression may stand inside any other, and break there.

Input: a seed. `write_program(seed)` is the source of one function of two tensors, a list, a dict and two numbers;
vocabulary.py has the names it uses. A `<word>` is replaced by one of that word's forms; `#` is a number of its own.
"""

import itertools
import linecache
import random
import re

from stage1_capture.tests.vocabulary import NAMES

# ---- expressions: one form a line (or between two bars) ---------------------------------------------

FORMS = {
    "tensor": "a | b | l[0] | l[-1] | d['k'] | a.T.T | box.value | box.double | c | (a if n in s else c)",
    "name": "a | b | a | b | c",
    "number": """n | m | 2 | -1 | len(l) | a.ndim | a.shape[0] | (n + m) | n % 3 | 0.5 | G | len(s) | len(LOG)
        box.limit | sum(s) | shown(n) | len(box) | [n, m][0] | (n, m)[-1] | max(n, m) | abs(m) | int(m) | n // 2
        (n or m) | (n and m) | len([v for v in l if v is a]) | sum(v for v in s) | spread(n, m, by=1) | loud.xyz
        (w := n) | n ** 2 | round(m) | {'one': 1}.get('one', n) | ord('a') - 96""",
    "key": "n | 1 | 'z' | 'k' | (n, 1) | shown('z')",
    "condition": """<number> > <number> | <number> == 2 and <number> | not <number> | n in (1, 2, <number>) | a is b
        l[0] is a | d.get('z') is None | <number> < <number> < 4 | isinstance(n, int) or m | a is not l[-1] | n in s
        1 < shown(n) < <number> | shown(n) and <number> | n in box | 'z' in d | not shown(m) or n | len(l) > 2
        any(v is a for v in l) | all(v > 0 for v in s) | type(m) is float | bool(box) | hasattr(box, 'extra')
        n != m != 2 | d.keys() == {'k', 1} | isinstance(d.get('z'), str) | l == [] | callable(box)""",
    "data": "a.sum() > 0 | bool((b < 0).any()) | (a.sum() > b.sum()).item()",
    "expression": """(<inner> + <number>) | (<number> * <inner>) | sin(<inner>) | (<inner> - <inner>.sum()) | -<inner>
        helper(<inner>, by=<number>) | (<inner> if <condition> else <inner>) | sum([v * 1.0 for v in l])
        (lambda q, z=<number>: q * z)(<inner>) | (<inner> if n in s else <inner>) | (box + <inner>).value
        sum(v * 0.5 for v in l if v is not None) | (<inner> * <number> + <inner>) | box(<inner>, by=<number>)
        spread(<inner>, *s, by=<number>) | spread(*l, <inner>, **{'p': n}) | [<inner>, <inner>][n % 2]
        {0: <inner>, 1: <inner>}[n > 1] | (y := <inner>) * 0.5 | sum([v * i for i, v in enumerate(l)], <inner>)
        noted(helper)(<inner>) | max([<inner>], key=lambda q: q.ndim) | (<inner>, <inner>)[-1] | <inner>.mean(0)
        sum([p * q for p in l for q in (1, 2) if p is not None]) | list(map(lambda v: v + n, l))[-1]""",
    "breaking": """broken(<inner>, <number>) | failing(<inner>, <digit>) | shown(<inner>) | (shown(<inner>) + shown(n))
        helper(shown(<inner>), by=shown(2)) | sum([shown(v) for v in l]) | nested(<inner>, <digit>)
        loud.put(<inner>).value | (lambda q, z=shown(n): q * z)(<inner>) | {k: shown(v) for k, v in d.items()}['k']
        sum(shown(v) for v in l) | spread(shown(<inner>), *[shown(n)], by=n) | next(iter([shown(<inner>)]))
        (shown(<inner>) if shown(n) else <inner>) | sorted(l, key=lambda q: shown(q).ndim)[0]""",
    "digit": "0 | 1 | 2 | 3",
    "iterable": """range(2) | [1, 2] | list(d) | enumerate(l[:2]) | zip((1, 2), l[:2]) | counting(3) | sorted(s) | box
        reversed([n, m]) | (v for v in (1, 2)) | map(helper, (1, 2)) | guarding([n, m]) | relayed((1, 2)) | 'xy'
        list(d.items())[:2] | shown([1, 2]) | filter(None, [0, n, m]) | zip(counting(2), 'ab') | (shown(v) for v in 'pq')
        [v for v in l if v is not a][:2] | range(n, n - 2, -1)""",
    "stream": """iter(l) | counting(4) | iter([n, m]) | zip(l, [1, 2]) | guarding([n, m, 1]) | enumerate(l) | iter(d)
        (v for v in l) | relayed([n, m]) | map(str, (n, m)) | reversed([n, 'r']) | filter(None, (0, n)) | iter(range(3))
        (shown(v) for v in (n, m)) | iter((n, m, 1)) | iter(deque((n, m, 1))) | reversed(deque((n, m)))
        iter(queue)""",
    "manager": """Guarded(n) | managed(n) as m | no_grad() | enable_grad() | Guarded('x') as g, managed(1) | Printing(1)
        suppress(KeyError) | swallowing(n) as m | Guarded(shown('y')) | Printing('p'), Guarded('q') | suppress(ValueError)""",
    "caught": """ValueError | (KeyError, IndexError) | Exception | LookupError | (ValueError, TypeError) | Trouble
        (NameError, KeyError)""",
    "raising": """failing(a, n) | d[99] | raise KeyError(n) | l[50] | missing | raise Trouble(n) | int('x') | [][n]
        raise ValueError(n) from KeyError('c') | n / 0 | a.nothing | del d['none'] | p, q = [n] | assert n == 7, n
        next(iter([])) | [*n] | raise failing | raise ValueError | helper(1, 2, 3) | 'x' + n""",
    "handling": """LOG.append(str(error)) | LOG.append(type(error).__name__) | raise | mark(str(error)) | b = shown(a)
        raise RuntimeError('again') from error | LOG.append(error.args) | raise KeyError(1) from None | l.append(a + n)
        LOG.append(type(error.__context__).__name__) | raise Trouble(2) | LOG.append(isinstance(error, Trouble)) | LOG.append(getattr(error, 'name', n))
        failing(a, n) | LOG.append(str(error.__cause__)) | b = broken(b) | d['e'] = getattr(error, 'code', n)""",
    "leaving": "return a, <number> | break | continue | return <expression>",
    "simple": """<name> = <expression> | <name> = <expression> | a = <expression> | b = <expression> | n = <number>
        n += <number> | m -= <number> | m = <number> | <name> *= <number> | a, b = <expression>, <expression>
        l.append(<expression>) | l[0] = <tensor> | l[-1] = <tensor> | l.reverse() | l.insert(1, <tensor>) | l += [a]
        l[1:1] = [<tensor>] | l[0] = shown(<tensor>) | l[shown(0)] = <expression> | del l[1:] | l.pop() | l = l[:3]
        l.extend(v for v in [a, b]) | l *= 1 | l = [*l, <tensor>][-3:] | also = l; also.append(<tensor>) | l.clear()
        d[<key>] = <expression> | d[<key>] = <number> | d.pop('z', None) | d.setdefault('w', <number>) | d.update(u=m)
        d = {**d, 'k': <expression>} | d = {k: v for k, v in d.items()} | d |= {'z': <number>} | del d[1]
        other = d; other['k'] = <tensor> | d['k'] *= <number> | d[shown('k')] += <number> | d['i'] = [k for k in d][-1]
        s.add(n) | s.discard(2) | s = {x for x in s if x} | s |= {3} | s ^= {n} | s = s & {n, 1} | s -= {1} | s.update([n])
        box.value = <expression> | box.extra = <number> | box.put(<tensor>) | box = Box(<expression>) | box.value += <number>
        box.double = <tensor> | box.seen.append(n) | box.put(n)[-1] = a | box, loud = loud, box | loud.put(<tensor>)
        LOG.append(<number>) | mark(n) | mark() | mark(<number>) | print('p', n, end='') | G = <number>
        d['s'] = f'{n}-{a.shape}-{m!r:>4}' | d['s'] = f'{shown(n)}{m:>{n % 5}}' | d['s'] = 'x'.join(sorted(map(str, s)))
        c.add_(<number>) | c.mul_(shown(2)) | l[0].mul_(<number>) | c[0] = <number> | c[:1] *= 2 | view = c[0]; view.add_(1)
        c[shown(1)] = 0.5 | view = c.T; c.add_(1); b = view.T * 1 | c = c.clone() | c.copy_(<tensor>) | c[:, 0] += shown(1)
        a, *rest = [<tensor>, <number>, <tensor>]; l.extend(rest[1:]) | (a, b), n = shown((<tensor>, b)), n | p = q = n; m = q
        first, (second, *_) = n, [m, 1]; n = second | assert n != 77, shown('never') | raise Trouble(<number>) | w = n; del w
        list(map(LOG.append, s)) | sorted([n, 1], key=shown) | d['t'] = tuple(shown(v) for v in (n, m)) | pass
        d['f'] = (lambda: n)() | n, m = m, n | d['c'] = [[i * j for j in (1, n)] for i in s if i] | a = a.detach()
        d['w'] = [y for x in [n, m] if (y := x)] | LOG.append([type(v).__name__ for v in l]) | n = int(n) % 5
        queue.append(n) | queue.rotate(1) | queue.popleft()""",
}

# ---- statements with blocks ------------------------------------------------------------------------
# `<block>` on a line of its own: statements of that depth. `?`: that line, and what is inside it, or not.

COMPOUND = """
if <condition>:
    <block>
? else:
    <block>

if <condition>:
    <block>
elif <data>:
    <block>

for i# in <iterable>:
    <block>
    ? if <condition>: break
    ? if <condition>: continue
    <block>
? else:
    <block>

for i# in <iterable>:
    try:
        <block>
        ? if <condition>: <leaving>
        ? <raising>
    except <caught> as error:
        <block>
        ? <handling>
        ? <leaving>
    ? else:
        <block>
    finally:
        <block>
        ? if <condition>: <leaving>

turns# = 0
while n < <digit> and turns# < 3:
    turns# += 1
    n = int(n) + 1
    <block>
    ? if <condition>: break

try:
    <block>
    ? <raising>
except <caught> as error:
    <block>
    ? <handling>
? else:
    <block>
? finally:
    <block>

try:
    <block>
    <raising>
except <caught>:
    <block>
    ? <raising>
except Exception as error:
    <block>
    <handling>

try:
    <block>
    ? <raising>
    ? return <expression>
finally:
    <block>
    ? if <condition>: return <number>

with <manager>:
    <block>
    ? <raising>
    ? if <condition>: return a, <number>

for i# in <iterable>:
    with <manager>:
        <block>
        ? if <condition>: <leaving>
        ? <raising>

match <subject>:
    case [x#, *_] if <condition>:
        <block>
    case {'k': x#}:
        <block>
    case Box(value=x#, limit=3) | (x#, _):
        <block>
    case 1 | 2 | 'two':
        <block>
    ? case _:
        <block>

def g#(x, k=<number>, *more, by=<number>):
    ? print('in g')
    ? if <condition>: return x
    return x * k + by + len(more)
<name> = g#(<tensor>)
? <name> = g#(<tensor>, <number>, 1, by=<number>)

def bump#():
    nonlocal m
    ? mark(m)
    m += 1
    return m
<block>
n = bump#()
? n = bump#()

def make#(x):
    ? mark('made')
    def inner#(y, z=<number>):
        ? return y + x * shown(z)
        return x * y + z
    return inner#
<name> = make#(<tensor>)(<tensor>)

def gen#(x, count):
    ? total = 0
    try:
        for i in range(count):
            ? mark(i)
            yield x + i
    finally:
        ENDED.append('closed')
<name> = sum(gen#(<tensor>, 2))
? <name> = next(gen#(<tensor>, 1))

@noted
def deco#(x):
    ? mark('deco')
    return x + <number>
<name> = deco#(<tensor>)

class Made#(Box):
    scale = <number>
    def put(self, value):
        ? mark('made')
        return super().put(value * self.scale)
<name> = Made#(<tensor>).put(<tensor>).double

it# = <stream>
d['first'] = next(it#, None)
<block>
d['rest'] = [str(type(q)) for q in it#]

it# = <stream>
for i# in it#:
    if len(l) > 5: break
    <block>
    ? d['next'] = next(it#, n)
    ? break

down# = counting(3); next(down#); <name> = <name> * down#.send(<digit>)
<block>
? d['sum'] = sum(down#)
? down#.close()

def rec#(x, left):
    ? mark(left)
    return x if left <= 0 else rec#(x * 0.5, left - 1) + 1
<name> = rec#(<tensor>, <digit>)

total# = [<expression> for v in l[:2] if <condition>]
<block>
l.extend(total#[:1])
"""

FORMS["subject"] = "l | d | box | n | (n, m) | shown(l) | [n] | 'two' | shown(box) | a.shape"
TABLE = {word: [f.strip() for f in re.split(r"\s\|\s|\n", forms)] for word, forms in FORMS.items()}
# a set is joined with |= and not between bars
TABLE["compound"] = [text.splitlines() for text in COMPOUND.strip().split("\n\n")]
DEEPEST, BLOCKS, LOOPS = 2, 3, 2


class Writer:
    """One program: each choice is the seed's."""

    def __init__(self, seed):
        chosen = random.Random(seed)
        self.choice, self.chance, self.count = chosen.choice, chosen.random, chosen.randint
        self.lines, self.loops = [], 0
        self.fresh = itertools.count()

    def filled(self, text, depth=DEEPEST):
        return re.sub(r"<(\w+)>", lambda found: self.form(found[1], depth), text)

    def form(self, word, depth):
        """One form of a word. Expressions inside each other are `depth` deep at most."""
        if word == "inner":
            word = "expression" if depth and self.chance() < 0.5 else "tensor"
        if word == "expression" and self.chance() < 0.15:
            word = "breaking"
        if word == "condition" and self.chance() < 0.1:
            word = "data"
        return self.filled(self.choice(TABLE[word]), depth - 1)

    def block(self, depth, indent, most):
        for _ in range(self.count(1, most)):
            if depth and self.chance() < 0.35:
                self.compound(self.choice(TABLE["compound"]), depth - 1, indent)
            else:
                self.put(indent, self.form("simple", DEEPEST))

    def compound(self, lines, depth, indent):
        loop = any(line.lstrip().startswith(("for ", "while ")) for line in lines)
        if loop and self.loops >= LOOPS:
            return self.put(indent, "mark('deep')")
        self.loops += loop
        number, left_out = str(next(self.fresh)), None
        for line in lines:
            inside = (len(line) - len(line.lstrip())) // 4
            if left_out is not None and inside > left_out:
                continue
            left_out, text = None, line.strip()
            if text.startswith("? "):
                text = text[2:]
                if self.chance() < 0.6:
                    left_out = inside
                    continue
            if text == "<block>":
                self.block(depth, indent + inside, 2)
            else:
                self.put(indent + inside, self.filled(text.replace("#", number)))
        self.loops -= loop

    def put(self, indent, text):
        self.lines.append("    " * indent + text)


def write_program(seed):
    """The source of a function f(a, b, l, d, n=3, *, m=1)."""
    writer = Writer(seed)
    writer.put(0, "def f(a, b, l, d, n=3, *, m=1):")
    for text in (
        "global G",
        "s, c = {1, n}, a * 1.0",
        "box, loud, queue = Box(b), Loud(a), deque((n, m, 2), 3)",
    ):
        writer.put(1, text)
    writer.block(BLOCKS, 1, most=6)
    results = ["a, b, l, d", "{0: l, 1: (l, d), 2: a}", "[a, [l], n, m]", "d, d, s", "l, c, n, box.value, G"]
    writer.put(1, f"return {writer.choice(results)}")
    return "\n".join(writer.lines) + "\n"


def function_of(seed):
    """The program as a function whose lines tracebacks can show."""
    source, name = write_program(seed), f"<program {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names = dict(NAMES)
    exec(compile(source, name, "exec"), names)
    return names["f"]
