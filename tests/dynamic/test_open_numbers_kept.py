"""Numbers that a program keeps outside its arguments and changes: compiled once, once more when they first change.

Input: one small program for each place a number may be kept, called a hundred times, with and without a break in it;
eager on the same program is the oracle for results and for what is kept.
"""

import collections
import math

import pytest

import cutaway

PLACES = {  # where it is kept -> the program's head, and the place as an expression that is read and assigned
    "attribute": ("class Box: pass\nbox = Box(); box.n = START", "box.n"),
    "argument's attribute": ("class Box: pass\nbox = Box(); box.n = START", "self.n"),
    "module": ("class Net(nn.Module): pass\nbox = Net(); box.n = START", "self.n"),
    "global": ("box = None; n = START", "n"),
    "class": ("class Box: n = START\nbox = None", "Box.n"),
    "dict": ("box = None; stats = {'n': START}", "stats['n']"),
    "list": ("box = None; stats = [START, 'x']", "stats[0]"),
    "nonlocal": ("box = None", "n"),
}


def program(place, start, step, body):
    """(function of (self, x), the object it is called with, its globals)."""
    head, at = PLACES[place]
    lines = ["global n"] if place == "global" else ["nonlocal n"] if place == "nonlocal" else []
    lines += body.format(n=at, step=step).splitlines()
    if place == "nonlocal":
        made = ["def make():", "    n = START", "    def f(self, x):", *(f"        {line}" for line in lines)]
        text = "\n".join([*made, "    return f, lambda: n", "f, kept = make()"])
    else:
        text = "\n".join(["def f(self, x):", *(f"    {line}" for line in lines)])
        text += f"\ndef kept():\n    self = box\n    return {at}"
    names = {"START": start, "nn": cutaway.nn, "cutaway": cutaway, "shown": []}
    exec(f"{head}\n{text}", names)
    return names["f"], names["box"], names


def entries_of(compiled):
    """Compiles of each frame: the function, and what is left of it after its breaks."""
    return [len(f.entries) for f in {id(f): f for f in (compiled, *compiled._leads_to.values())}.values()]


def same(place, start, step, body, backend="eager", calls=100):
    """Compiles of each frame, after as many calls that gave what eager gives."""
    f, box, names = program(place, start, step, body)
    g, other, others = program(place, start, step, body)
    compiled = cutaway.compile(g, backend=backend)
    x = cutaway.ones(2, dtype=cutaway.float64) / 3
    for call in range(calls):
        want, got = f(box, x), compiled(other, x)
        assert got.dtype == want.dtype and got.numpy().tobytes() == want.numpy().tobytes(), call
        kept = names["kept"](), others["kept"]()
        assert type(kept[0]) is type(kept[1]) and repr(kept[0]) == repr(kept[1]), call
    assert names["shown"] == others["shown"]
    return entries_of(compiled)


PLAIN = "{n} += {step}\nreturn x * {n} + 1"
BROKEN = "{n} += {step}\ny = x + {n}\ncutaway.compiler.graph_break()\n{n} = {n} + 1\nreturn y * {n}"


@pytest.mark.parametrize("start, step", [(0, 1), (0.5, 0.25)])
@pytest.mark.parametrize("place", PLACES)
def test_a_counter_compiles_twice(place, start, step):
    assert max(same(place, start, step, PLAIN)) <= 2
    assert max(same(place, start, step, BROKEN)) <= 3


@pytest.mark.parametrize("place, start, step", [("module", 0, 1), ("global", 0.5, 0.25), ("nonlocal", 0, 1)])
def test_a_counter_of_a_lowered_graph(place, start, step):
    assert max(same(place, start, step, BROKEN, "inductor")) <= 3


HARD = {  # what only some code survives: the body, and the most compiles of a frame that it may take
    "a branch every tenth call": ("{n} += {step}\nif {n} % 10 == 0:\n    return x * 2\nreturn x * {n}", 3),
    "a truth": ("y = x * 2 if {n} else x\n{n} = {n} + {step}\nreturn y", 2),
    "negative": ("{n} = -{n} - {step}\nreturn x - {n}", 2),
    "never used by a tensor": ("{n} += {step}\nreturn x * 2", 2),
    "made text": ("{n} += {step}\nshown.append(str({n}))\nreturn x + 1", 9),
    "shown by print": ("{n} += {step}\nprint({n})\nreturn x * {n}", 3),
    "swapped": ("old = {n}\n{n} = {n} + {step}\nreturn x * old + {n} / (old + 3)", 2),
    "held in containers": ("{n} += {step}\nd = dict(a={n}, b=[{n}, x])\nreturn d['b'][1] * d['a']", 2),
    "a float of it": ("{n} += {step}\nreturn x * float({n})", 2),
}


@pytest.mark.parametrize("place", ["module", "list", "nonlocal"])
@pytest.mark.filterwarnings("ignore:.*recompile limit")
@pytest.mark.parametrize("what", HARD)
def test_a_counter_in_other_code_gives_what_eager_gives(what, place, capsys):
    body, most = HARD[what]
    for start, step in [(0, 1), (-0.0, 0.5)]:
        assert max(same(place, start, step, body, calls=30)) <= most, (start, step)


SEQUENCES = {
    "zeros and NaN": [0.0, -0.0, 0.0, math.nan, math.nan, -0.0, math.inf, -math.inf, 0.0],
    "huge": [1, 2, 2**53, 2**53 + 1, 2**53, 2**63, 2**70, -(2**70), 3],
    "types": [1, 2, 3.0, True, 1, False, 4.0, 5],
    "zero": [2, 1, 0, 3, 0, -1],
    "not numbers": [1, 2, "a", 3, None, 4, [1], 5],
}
READERS = {
    "times": "return x * {n}",
    "divided": "return x * 2 + 1 / {n}",
    "remainder": "return x + 7 % {n}",
    "index": "return x[{n} % 2] * 2",
    "size": "return cutaway.ones({n} % 5) * 2",
    "loop": "for i in range({n} % 3): x = x + i\nreturn x * 2",
    "sign": "import math\nreturn x * math.copysign(1.0, {n})",
    "identity": "return x * 2 if {n} is True else x * 3",
    "type": "return x * 2 if isinstance({n}, int) else x * {n}",
}


@pytest.mark.parametrize("place", ["module", "global"])
@pytest.mark.parametrize("reader", READERS)
def test_a_number_that_is_assigned_from_outside(place, reader):
    at = PLACES[place][1].replace("self", "box")
    for what, values in SEQUENCES.items():
        f, box, names = program(place, values[0], None, READERS[reader])
        compiled = cutaway.compile(f, backend="eager", options={"recompile_limit": 40})
        for value in values:
            names["value"] = value
            exec(f"{at} = value", names)
            assert outcome(compiled, box) == outcome(f, box), (what, value)


def outcome(f, box):
    try:
        found = f(box, cutaway.arange(2, dtype=cutaway.float64) - 0.5)
    except (ArithmeticError, AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
        return type(error)
    return found.dtype.name, found.shape, found.numpy().tobytes()


LOOPS = {  # a frame whose rest is entered again and again with another counter
    "while": "i = 0\nwhile i < 12:\n    x = x * i + 1\n    cutaway.compiler.graph_break()\n    i += 1\nreturn x * i",
    "range": "for i in range(12):\n    x = x * i + 1\n    cutaway.compiler.graph_break()\nreturn x",
    "enumerate": "for i, v in enumerate([0.5] * 12):\n    x = x * i + v\n    cutaway.compiler.graph_break()\nreturn x",
    "float": "t = 0.0\nwhile t < 3:\n    x = x * t + 1\n    cutaway.compiler.graph_break()\n    t += 0.25\nreturn x",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_with_a_break_compiles_its_turn_once(loop):
    assert max(same("global", 0, 1, LOOPS[loop], calls=2)) <= 3


MEMORIES = {"list": list, "deque": collections.deque, "full": lambda: collections.deque(maxlen=5)}
LENGTHS = {  # what is read of a row that a program keeps and fills: its length alone, and how many compiles are enough
    "threshold": ("if len({n}) < 4:\n    return x\nreturn x * 2", 3),
    "number": ("return x * len({n}) + 1 / (len({n}) + 1)", 2),
    "truth": ("return x * 2 if {n} else x", 2),
    "appended": ("{n}.append(x + 1)\nreturn x * len({n})", 3),
    "extended": ("{n}.extend([x, 3])\n{n} += (1,)\nreturn x * len({n}) if len({n}) > 3 else x", 4),
    "broken": ("{n}.append(2)\nmany = len({n})\ncutaway.compiler.graph_break()\n{n}.append(many)\nreturn x * len({n}) - many", 3),
    "walked": ("return x + len({n}) * sum({n}) if len({n}) < 3 else x", 4),
    "last": ("{n}.append(len({n}))\nreturn x * {n}[-1] * len({n})", 3),
    "first and last": ("if len({n}) < 2:\n    return x\nreturn x * {n}[-1] + {n}[0] + {n}[-2]", 5),
    "behind a new one": ("y = x * {n}[-1] if {n} else x\n{n}.append(4)\nreturn y + {n}[-1] * (len({n}) > 1 and {n}[0])", 4),
    "turns": ("walk = iter({n})\n{n} += [3]\n{n}.append(len({n}))\nreturn x * next(walk, 2)", 10),
    "left": ("if len({n}) > 3:\n    return x * {n}.pop()\nreturn x * 2", 4),
    "size": ("return x.repeat(len({n}) + 1).sum() + x", 3),
}  # fmt: skip


@pytest.mark.parametrize("place", ["module", "nonlocal"])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("read", LENGTHS)
def test_a_row_that_grows_is_compiled_for_any_length(place, memory, read):
    """A replay memory: `if len(self.memory) < batch: return`."""
    body, most = LENGTHS[read]
    both = [program(place, MEMORIES[memory](), None, body) for _ in range(2)]
    compiled = cutaway.compile(both[1][0], backend="eager", options={"recompile_limit": 40})
    for call in range(9):
        (want, kept), (got, kept_too) = (
            (outcome(run, box), _contents(names["kept"]()))
            for run, (_, box, names) in zip((both[0][0], compiled), both, strict=True)
        )
        assert want == got and kept == kept_too, call
        for _, _, names in both:
            names["kept"]().append(call)
    assert max(entries_of(compiled)) <= most


def _contents(row):
    return [item.tolist() if isinstance(item, cutaway.Tensor) else item for item in row]
