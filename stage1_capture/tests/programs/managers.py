"""with blocks: grad modes, user-defined managers, contextlib; breaks inside, exceptions through them."""

import contextlib

from stage0_eager import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from stage0_eager.state import inference_mode
from stage1_capture.tests.programs.registry import LOG, mark, program


class Note:
    """Notes what happens to it; takes ValueErrors if asked to."""

    def __init__(self, name, takes=False):
        self.name, self.takes = name, takes

    def __enter__(self):
        LOG.append(("enter", self.name))
        return self

    def __exit__(self, kind, value, traceback):
        LOG.append(("exit", self.name, kind and kind.__name__, traceback is None))
        return self.takes and kind is ValueError


@contextlib.contextmanager
def noted(name):
    LOG.append(("begin", name))
    try:
        yield name + "!"
    finally:
        LOG.append(("end", name))


@contextlib.contextmanager
def swallowing():
    try:
        yield
    except KeyError as error:
        LOG.append(("swallowed", str(error)))


@program(grad=True)
def under_no_grad(x):
    with no_grad():
        y = x * 2
        mark()
        z = y + 1
    return y, z, x * 3


@program(grad=True)
def no_grad_then_grad(x):
    with no_grad():
        y = x * 2
    mark()
    return y * x


@program(grad=True)
def enabled_inside(x):
    with no_grad():
        a = x + 1
        with enable_grad():
            mark()
            b = x + 2
        c = x + 3
    return a, b, c


@program(grad=True)
def set_mode(x):
    with set_grad_enabled(False):
        y = x * 2
        mark()
    with set_grad_enabled(True):
        z = x * 2
    return y, z


@program(grad=True)
def asked_mode(x):
    before = is_grad_enabled()
    with no_grad():
        inside = is_grad_enabled()
        mark()
        again = is_grad_enabled()
    return x + 1, before, inside, again, is_grad_enabled()


@no_grad()
def decorated(x):
    return x * 2


@program(grad=True)
def decorated_no_grad(x):
    mark()
    return decorated(x) + x


@program(grad=True)
def inference(x):
    with inference_mode():
        y = x + 1
        mark()
    return y


@program(grad=True)
def write_under_no_grad(x):
    with no_grad():
        x.mul_(2)
        mark()
        x.add_(1)
    return x * 1


@program()
def own_manager(x):
    with Note("a") as note:
        y = x + 1
        mark(note.name)
        y = y * 2
    return y


@program()
def own_manager_takes(x):
    y = x
    with Note("a", takes=True):
        y = x + 1
        mark()
        raise ValueError("inside")
    return y * 2


@program()
def own_manager_lets_through(x):
    try:
        with Note("a"):
            mark()
            raise ValueError("inside")
    except ValueError:
        return x + 1


@program()
def leaves_through_a_manager(x):
    with Note("a"):
        y = x + 1
        mark()
        raise KeyError(str(y.shape))


@program()
def two_managers(x):
    with Note("a") as a, Note("b") as b:
        mark()
        y = x + len(a.name + b.name)
    return y


@program()
def nested_managers(x):
    with Note("a"):
        x = x + 1
        with Note("b"):
            mark("b")
            x = x * 2
        mark("a")
    return x


@program()
def manager_in_a_loop(x):
    for i in range(2):
        with Note(str(i)):
            x = x + i
            mark(i)
    return x


@program()
def return_inside(x):
    with Note("a"):
        mark()
        return x + 1


@program()
def break_statement_inside(x):
    for i in range(3):
        with Note(str(i)):
            if i == 1:
                mark()
                break
            x = x + 1
    return x


@program()
def generator_manager(x):
    with noted("g") as name:
        y = x + len(name)
        mark(name)
        y = y * 2
    return y


@program()
def generator_manager_raises(x):
    try:
        with noted("g"):
            mark()
            raise ValueError("out")
    except ValueError as error:
        return x + 1, str(error)


@program()
def generator_manager_swallows(x):
    with swallowing():
        x = x + 1
        mark()
        raise KeyError("k")
    return x * 2


@program()
def two_generator_managers(x):
    with noted("a") as a, noted("b") as b:
        mark(a, b)
        return x + 1


@program()
def suppressed(x):
    with contextlib.suppress(KeyError):
        mark()
        x = x + {"a": 1}["b"]
    return x + 1


@program()
def null_context(x):
    with contextlib.nullcontext(3) as n:
        mark()
        return x + n


@program()
def manager_and_try(x):
    try:
        with Note("a"):
            x = x + 1
            mark()
    finally:
        LOG.append("finally")
    return x


@program()
def manager_from_outside(x, note=Note("given")):
    with note:
        mark()
        return x + 1


@program()
def break_in_enter(x):
    class Printing:
        def __enter__(self):
            mark("enter")
            return 2

        def __exit__(self, *_):
            mark("exit")

    with Printing() as n:
        y = x + n
    return y


@program()
def exit_stack(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(Note("s"))
        y = x + 1
        mark()
    return y


@program(grad=True)
def no_grad_and_an_exception(x):
    try:
        with no_grad():
            mark()
            raise ValueError
    except ValueError:
        y = x * 2
    return y, is_grad_enabled()


@program()
def data_inside(x):
    with Note("a"):
        if x.sum() > 0:
            y = x + 1
        else:
            y = x - 1
    return y
