"""A break inside with blocks, their headers and exits, and inside except*. One program a block.

Input: `shown` hands back what it is given, after a break; `Noted` is a manager that may take exceptions.
"""

import contextlib

from stage1_capture.tests.programs.break_helpers import LOG, fails, mark, shown  # noqa: F401
from stage1_capture.tests.programs.registry import enter_blocks


class Noted:
    def __init__(self, name, takes=(), breaks=True):
        self.name, self.takes, self.breaks = name, takes, breaks

    def __enter__(self):
        LOG.append(f"enter {self.name}")
        return self

    def __exit__(self, kind, value, traceback):
        if self.breaks:
            mark(self.name)
        LOG.append((self.name, kind and kind.__name__, str(value), traceback is not None))
        return kind is not None and issubclass(kind, self.takes)


@contextlib.contextmanager
def scope(name):
    LOG.append(name)
    try:
        yield shown(name)
    except KeyError as error:
        LOG.append(str(error))
    finally:
        mark(name)
        LOG.append("end")


def counting(n):
    try:
        for i in range(n):
            mark(i)
            yield i
    finally:
        LOG.append("counted")


enter_blocks(
    __name__,
    """
    with_body:
        with Noted('w'):
            y = x + 1
            mark()
            y = y * 2
        return y, list(LOG)

    with_exit_after_an_exception:
        with Noted('w', ValueError):
            y = x + 1
            fails(n)
        return y, list(LOG)

    with_exit_that_lets_through:
        with Noted('w', KeyError):
            y = x + 1
            mark()
            fails(n)

    with_and_a_handler:
        try:
            with Noted('w'):
                mark()
                fails(n)
        except ValueError as error:
            mark()
            return x + 1, str(error), list(LOG)

    with_header:
        with shown(Noted('w')) as w:
            y = x + 1
        return y, w.name

    with_target:
        d = {}
        with Noted('w') as d[shown('k')]:
            y = x + 1
        return y, list(d)

    two_managers:
        with Noted('a', ValueError) as a, shown(Noted('b')) as b:
            y = x + 1
            mark()
            fails(n)
        return y, list(LOG)

    nested_managers_and_a_return:
        with Noted('a'):
            with Noted('b', breaks=False):
                mark()
                return x + shown(1)

    manager_in_a_loop_with_break:
        for i in range(3):
            with Noted(i):
                x = x + 1
                if shown(i) == 1:
                    break
        return x, list(LOG)

    manager_in_a_loop_with_continue:
        for i in range(3):
            with Noted(i, ValueError):
                if shown(i) == 1:
                    continue
                fails(i)
                x = x + 1
        return x, list(LOG)

    generator_manager:
        with scope('s') as s:
            y = x + 1
            mark()
        return y, s, list(LOG)

    generator_manager_takes:
        with scope('s'):
            y = x + 1
            mark()
            fails(n, KeyError)
        return y, list(LOG)

    generator_manager_lets_through:
        try:
            with scope('s'):
                mark()
                fails(n)
        except ValueError as error:
            return x + 1, str(error), list(LOG)

    generator_manager_in_a_handler:
        try:
            fails(n)
        except ValueError:
            with scope('s'):
                mark()
                y = x + 1
            LOG.append(str(sys.exc_info()[1]))
        return y, list(LOG)

    suppressed:
        with contextlib.suppress(ValueError):
            y = x + 1
            mark()
            fails(n)
            y = x + 100
        return y

    exit_stack:
        with contextlib.ExitStack() as stack:
            stack.enter_context(Noted('a', ValueError))
            stack.callback(LOG.append, 'called')
            y = x + 1
            mark()
            fails(n)
        return y, list(LOG)

    manager_whose_enter_fails:
        class Bad(Noted):
            def __enter__(self):
                mark('enter')
                raise KeyError('enter')
        try:
            with Noted('a'), Bad('b'):
                y = x
        except KeyError:
            y = x + 1
        return y, list(LOG)

    manager_whose_exit_fails:
        class Bad(Noted):
            def __exit__(self, *error):
                mark('exit')
                raise KeyError(str(error[1]))
        try:
            with Bad('b'):
                fails(n)
        except KeyError as error:
            return x + 1, str(error), str(error.__context__)

    group_handler:
        y = x + 1
        try:
            raise ExceptionGroup('g', [ValueError(1), KeyError(2)])
        except* ValueError as group:
            mark()
            LOG.append(len(group.exceptions))
        except* KeyError as group:
            y = y * 2
            mark()
            LOG.append(str(group.exceptions[0]))
        return y, list(LOG), sys.exc_info()[1]

    group_handler_of_a_plain_one:
        try:
            fails(n)
        except* ValueError as group:
            mark()
            y = x + len(group.exceptions)
            LOG.append(type(sys.exc_info()[1]).__name__)
        return y, list(LOG)

    group_left_over:
        try:
            try:
                raise ExceptionGroup('g', [ValueError(1), KeyError(2)])
            except* ValueError:
                mark()
                y = x + 1
        except ExceptionGroup as rest:
            return y, [type(e).__name__ for e in rest.exceptions]

    group_raise_inside:
        try:
            try:
                raise ExceptionGroup('g', [ValueError(1), KeyError(2)])
            except* ValueError:
                mark()
                raise TypeError('new')
        except ExceptionGroup as rest:
            return x + 1, sorted(type(e).__name__ for e in rest.exceptions)
    """,
)
