"""How programs enter the corpus: `@program((3, 4), 2)` names a function and how to make its arguments.

Input: a tuple is a tensor's shape, a callable makes the value, anything else is itself. `mark()` stands where a break
goes: the corpus runs each program with `mark` as a function that does nothing, and with `mark` as `print`.
"""

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
