"""How programs enter the corpus: `@program((3, 4), 2)` names a function and how to make its arguments.

Input: a tuple is a tensor's shape, a callable makes the value, anything else is itself. `mark()` stands where a break
goes: the corpus runs each program with `mark` as a function that does nothing, and with `mark` as `print`.
"""

import linecache
import sys
import textwrap

PROGRAMS = {}
LOG = []


def mark(*words):
    """No break: it is followed, and does nothing."""


def program(*make, grad=False, **kwargs):
    """Decorator: enter a program. `grad`: its tensors require grad."""

    def enter(function):
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        assert name not in PROGRAMS, name
        PROGRAMS[name] = (function, make or ((3,),), kwargs, grad)
        return function

    return enter


def enter(module, body, table):
    """Enter programs of one line each: a name, and the expression that stands in `body` for the braces."""
    for line in filter(None, map(str.strip, table.splitlines())):
        name, expression = line.split(maxsplit=1)
        enter_source(module, name, body.replace("{}", expression))


def enter_blocks(module, text):
    """Enter programs that are blocks of lines: `name:` and the body, indented."""
    for block in textwrap.dedent(text).strip().split("\n\n"):
        head, body = block.split("\n", 1)
        enter_source(module, head.rstrip(":"), textwrap.dedent(body))


def enter_source(module, name, body):
    """A function of a tensor x and an int n, whose lines breaks and tracebacks can show."""
    source, file = f"def {name}(x, n=2):\n" + textwrap.indent(body, "    ") + "\n", f"<{module}.{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    names = vars(sys.modules[module])
    exec(compile(source, file, "exec"), names)
    program()(names[name])
