"""Random attribute programs compared with themselves: `python -m stage1_capture.tests.fuzz_attributes --programs 20000`.

Input: as fuzz.py's. Each program runs in two worlds, eager and compiled, five times; between two calls an attribute
comes, goes or changes, an object or a class becomes another. Compared are results, objects and classes, exceptions.
"""

import contextlib
import copyreg
import functools
import io
import linecache
import re
import sys
import types
import warnings
from pathlib import Path

import numpy as np

from stage0_eager.nn import Linear, Module, Parameter
from stage0_eager.tensor import Tensor
from stage1_capture.capture import capture as default_capture
from stage1_capture.tests.attribute_grammar import CALLS, write_program
from stage1_capture.tests.driver import Compiled
from stage1_capture.tests.harness import tensor
from stage1_capture.tests.many import fuzzer
from stage_contracts.class_lookup import class_lookup
from stage_contracts.tests.many_programs import main

# ---- what is seen of a value -------------------------------------------------------------------------

# Python's containers, and how each is walked past any method of a derived class.
WALKED = {list: list.__iter__, tuple: tuple.__iter__, set: set.__iter__, frozenset: frozenset.__iter__}
TEXT = {
    str: str.__repr__, int: int.__repr__, float: float.__repr__, complex: complex.__repr__, bytes: bytes.__repr__,
}  # fmt: skip
PLAIN = (bool, type(None), type(...), range, slice, np.dtype, np.generic)
DEEPEST = 6


def seen(value, depth=0):
    """A value as plain data that compares, without asking its class anything: its type, contents and attributes."""
    cls = type(value)
    if depth > DEEPEST:
        return cls.__name__
    inside = lambda v: seen(v, depth + 1)  # noqa: E731
    if isinstance(value, PLAIN) and cls.__module__ != "programs":
        return cls.__name__, repr(value)
    if isinstance(value, type):
        return "class", value.__qualname__
    if isinstance(value, types.ModuleType):
        return "module", value.__name__, [(k, inside(v)) for k, v in vars(value).items() if k[0] != "_"]
    if (
        type(value) is np.ndarray and not value.shape
    ):  # as which compiled code returns a scalar that it computed
        value = value[()]
        cls = type(value)
    if isinstance(value, np.generic) and cls.__module__ != "programs":
        return cls.__name__, repr(value)
    if isinstance(value, (np.finfo, np.iinfo)):  # NumPy keeps one of each, and fills it when it is read
        return cls.__name__, value.dtype.name
    found = [cls.__name__]
    if isinstance(value, Tensor):
        found += [value.shape, value.dtype.name, value.requires_grad, repr(value._data.tolist())]
    elif isinstance(value, np.ndarray):
        found += [value.shape, value.dtype.name, repr(value.tolist())]
    elif isinstance(value, dict):
        found += [[(inside(k), inside(v)) for k, v in dict.items(value)]]
    found += [in_order(value, walk, inside) for kind, walk in WALKED.items() if isinstance(value, kind)]
    found += [text(value) for kind, text in TEXT.items() if isinstance(value, kind)]
    if isinstance(value, types.MethodType):
        return *found, value.__func__.__qualname__, inside(value.__self__)
    if isinstance(value, BaseException):
        found += [inside(value.args)]
    return *found, *attributes(value, inside)


def in_order(value, walk, inside):
    """What a container of Python's holds. A set of what is hashed by its address has an order that Python does not
    define, also between two runs of eager (seed 8014): there it is that of the texts."""
    items = list(walk(value))
    by_address = isinstance(value, (set, frozenset)) and any(
        class_lookup(type(v), "__hash__") is object.__hash__ for v in items
    )
    return sorted(map(inside, items), key=repr) if by_address else list(map(inside, items))


def attributes(value, inside):
    """What an object holds in its dict, in order, and in its slots."""
    with contextlib.suppress(AttributeError, TypeError):
        own = object.__getattribute__(value, "__dict__")
        yield [(name, inside(v)) for name, v in own.items() if name != "_version"]  # a tensor's, when asked
    for cls in type(value).__mro__ if type(value).__module__ in ("programs", "types") else ():
        for name, member in vars(cls).items():
            if isinstance(member, types.MemberDescriptorType) and name != "__dict__":
                with contextlib.suppress(AttributeError):
                    yield name, inside(member.__get__(value))
    if isinstance(value, functools.partial):
        yield inside(value.func), inside(value.args), inside(value.keywords)


def of_class(cls):
    """What lies in a class, but for methods."""
    members = [(n, seen(v)) for n, v in vars(cls).items() if n[:2] != "__" or n in ("__len__", "__call__")]
    return cls.__name__, cls.__bases__[0].__name__, members


# ---- one program -------------------------------------------------------------------------------------


for shared in (
    Tensor,
    Parameter,
    Module,
    Linear,
):  # the worlds share these, and copying notes their slots on them
    copyreg._slotnames(shared)


@functools.cache
def vocabulary():
    path = Path(__file__).with_name("attribute_vocabulary.py")
    return compile(path.read_text(), str(path), "exec")


class World:
    """One run of a program: classes and objects of its own, and the function, which is compiled or not."""

    def __init__(self, seed, code):
        self.names = {"__name__": "programs", "np": np, "tensor": tensor}
        exec(vocabulary(), self.names)
        self.names["__name__"] = "programs"
        self.names["print"] = print
        exec(code, self.names)
        self.function, self.x = self.names["f"], tensor(2, 3)
        self.o, self.l = self.made("o"), [self.made("l")]
        self.names["P"] = self.made("P")
        if seed % 5 == 0:
            self.l[0] = self.o

    def made(self, name):
        """An object of the program's; where its class cannot be called so, a plain one."""
        try:
            return self.names[f"made_{name}"]()
        except Exception:
            return self.names["Holder"](1)

    def change(self, call):
        """What happens between two calls, a line at a time: those that Python refuses do nothing."""
        with contextlib.suppress(Exception):
            self.names[f"change{call}"](self)

    def call(self):
        """All that can be seen of one call."""
        self.names["SEEN"].clear()
        printed, too_deep = io.StringIO(), False
        with contextlib.redirect_stdout(printed):
            try:
                result = ["returned", seen(self.function(self.x, self.o, self.l))]
            except AssertionError:
                raise  # the capturer's: no program raises one
            except Exception as error:
                too_deep = isinstance(error, RecursionError)
                result = ["raised", type(error).__name__, said(error)]
        classes = [
            self.names[name]
            for name in ("C", "Base", "Second", "Other", "Meta", "SetOnly", "GetOnly", "Registered")
        ]
        left = [seen(v) for v in (self.x, self.o, self.l, self.names["P"], self.names["SEEN"])]
        return [*result, left, [of_class(cls) for cls in classes], printed.getvalue(), too_deep]


def said(error):
    """An exception's message, without addresses."""
    return re.sub(r"0x[0-9a-f]+", "0x", str(error))


def check(seed, capture=default_capture):
    """(None or what differs, the compiled function)."""
    source, name = write_program(seed), f"<attributes {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    code = compile(source, name, "exec")
    eager, world = World(seed, code), World(seed, code)
    world.function = compiled = Compiled(world.function, capture=capture)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in range(CALLS):
            if call:
                eager.change(call)
                world.change(call)
            expected, got = eager.call(), world.call()
            if expected[-1] and got[-1]:
                break  # the depth at which Python gives up is not to be compared
            if got != expected:
                return f"call {call + 1}\n{differing(got, expected)}", compiled
    return None, compiled


def differing(got, expected):
    """The innermost part that differs, and what surrounds it."""
    kinds = (list, tuple)
    if isinstance(got, kinds) and isinstance(expected, kinds) and len(got) == len(expected):
        parts = [(a, b) for a, b in zip(got, expected, strict=True) if a != b]
        if len(parts) == 1 and len(str(got)) > 200:
            return differing(*parts[0])
    return f"  got      {got}\n  expected {expected}"


TITLE = "Random programs of attributes, captured, against eager"
FUZZ = fuzzer(TITLE, "make fuzz-attributes", write_program, check, f"{CALLS} calls each")

if __name__ == "__main__":
    sys.exit(main(FUZZ))
