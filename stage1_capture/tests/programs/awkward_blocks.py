"""A break inside try, with, loops and handlers, with a return, a raise or an iterator pending. One program a block.

Input: `shown` hands back what it is given, after a break; `Noted` is a manager that may take exceptions.
"""

import contextlib

from stage1_capture.tests.programs.registry import enter_blocks, mark

LOG = []


def reset():
    LOG.clear()


def shown(value):
    mark(type(value).__name__)
    return value


def fails(n, cls=ValueError):
    if n > 1:
        raise cls(f"no {n}")
    return n


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
    raise_after_it_in_except:
        y = x + 1
        try:
            fails(n)
        except ValueError:
            mark()
            raise

    reraised_into_an_outer_handler:
        try:
            try:
                fails(n)
            except ValueError:
                y = x + 1
                mark()
                raise
        except ValueError as error:
            return y * 2, str(error)

    current_exception:
        try:
            fails(n)
        except ValueError:
            y = x + 1
            mark()
            return y * 2, sys.exc_info()[0].__name__, str(sys.exc_info()[1])

    no_exception_afterwards:
        try:
            fails(n)
        except ValueError:
            mark()
        y = x + 1
        return y, sys.exc_info()[1]

    context_of_a_new_one:
        try:
            try:
                fails(n)
            except ValueError:
                mark()
                fails(n, KeyError)
        except KeyError as error:
            return x + 1, str(error.__context__), error.__suppress_context__

    cause_of_a_new_one:
        try:
            try:
                fails(n)
            except ValueError as error:
                mark()
                raise KeyError('k') from error
        except KeyError as error:
            return x + 1, str(error.__cause__), str(error.__context__)

    cause_none:
        try:
            try:
                fails(n)
            except ValueError:
                mark()
                raise KeyError('k') from None
        except KeyError as error:
            return x + 1, error.__cause__, str(error.__context__), error.__suppress_context__

    error_used_after_it:
        try:
            fails(n)
        except ValueError as error:
            y = x + 1
            mark()
            z = y + len(error.args)
            LOG.append(str(error))
        return z, list(LOG)

    error_name_is_gone:
        error = 1
        try:
            fails(n)
        except ValueError as error:
            mark()
        try:
            return error
        except UnboundLocalError:
            return x + 1

    two_nested_handlers:
        try:
            fails(n)
        except ValueError as outer:
            try:
                fails(n, KeyError)
            except KeyError as inner:
                mark()
                y = x + 1
                LOG.append((str(inner), str(inner.__context__), str(sys.exc_info()[1])))
            mark()
            LOG.append(str(sys.exc_info()[1]))
        return y * 2, list(LOG)

    three_nested_handlers:
        try:
            fails(n)
        except ValueError:
            try:
                fails(n, KeyError)
            except KeyError:
                try:
                    fails(n, TypeError)
                except TypeError:
                    y = x * 2
                    mark()
                    LOG.append(type(sys.exc_info()[1]).__name__)
                mark()
                LOG.append(type(sys.exc_info()[1]).__name__)
            mark()
            LOG.append(type(sys.exc_info()[1]).__name__)
        return y + 1, list(LOG), sys.exc_info()[1]

    handler_in_a_loop:
        for i in range(4):
            try:
                x = x + fails(i)
            except ValueError as error:
                mark(i)
                x = x * 2
                LOG.append(str(error))
        return x, list(LOG)

    break_statement_in_a_handler:
        for i in range(4):
            try:
                fails(i)
            except ValueError:
                mark(i)
                x = x + 1
                break
        else:
            x = x * 100
        return x, i, sys.exc_info()[1]

    continue_in_a_handler:
        for i in range(4):
            try:
                fails(i)
            except ValueError:
                mark(i)
                x = x + 1
                continue
            x = x * 2
        return x

    return_in_a_handler:
        try:
            fails(n)
        except ValueError as error:
            y = x + 1
            return y * shown(2), str(error)

    handler_that_raises_in_a_loop:
        for i in range(3):
            try:
                try:
                    fails(i + 1)
                except ValueError:
                    mark(i)
                    raise KeyError(i)
            except KeyError as error:
                x = x + len(error.args)
        return x

    loop_in_a_handler:
        try:
            fails(n)
        except ValueError as error:
            for i in range(3):
                mark(i)
                x = x + i
            LOG.append(str(error))
        return x

    with_in_a_handler:
        try:
            fails(n)
        except ValueError:
            with Noted('w'):
                x = x + 1
                mark()
            LOG.append(str(sys.exc_info()[1]))
        return x, list(LOG)

    comprehension_in_a_handler:
        try:
            fails(n)
        except ValueError as error:
            z = [shown(v) + x for v in (1, 2)]
            LOG.append(str(error))
        return z

    try_in_a_handler:
        try:
            fails(n)
        except ValueError:
            try:
                mark()
                y = x + 1
            finally:
                LOG.append(str(sys.exc_info()[1]))
        return y

    finally_in_a_handler_with_a_break:
        try:
            fails(n)
        except ValueError:
            try:
                y = x + 1
            finally:
                mark()
                LOG.append(str(sys.exc_info()[1]))
        return y, list(LOG)

    second_handler:
        try:
            fails(n)
        except (KeyError, TypeError):
            return x
        except shown(ValueError):
            y = x + 1
            mark()
            return y * 2

    class_to_catch_breaks:
        try:
            fails(n)
        except (shown(KeyError), shown(ValueError)):
            y = x + 1
        return y

    not_caught_after_a_break:
        try:
            mark()
            fails(n)
        except shown(KeyError):
            return x
        finally:
            LOG.append('left')

    bare_except:
        try:
            fails(n)
        except:
            mark()
            y = x + 1
        return y

    else_clause_with_a_break:
        try:
            y = x + 1
        except ValueError:
            y = x
        else:
            mark()
            y = y * 2
            mark()
        return y

    raise_in_else:
        try:
            try:
                y = x + 1
            except ValueError:
                y = x
            else:
                mark()
                fails(n)
            finally:
                LOG.append('f')
        except ValueError as error:
            return y, str(error)

    finally_with_a_pending_return:
        try:
            y = x + 1
            return y * 2
        finally:
            mark()
            LOG.append('f')

    finally_with_a_pending_return_of_a_break:
        try:
            return shown(x) + 1
        finally:
            mark()
            LOG.append('f')

    finally_overrides_the_return:
        try:
            return x + 1
        finally:
            mark()
            return x + 2

    finally_with_a_pending_exception:
        y = x + 1
        try:
            fails(n)
        finally:
            mark()
            LOG.append(str(sys.exc_info()[1]))

    finally_swallows_by_return:
        try:
            fails(n)
        finally:
            mark()
            return x + 1, str(sys.exc_info()[1])

    finally_swallows_by_break:
        for i in range(3):
            try:
                fails(i)
            finally:
                if shown(i) == 2:
                    break
                x = x + 1
        return x, i

    finally_swallows_by_continue:
        for i in range(4):
            try:
                fails(i)
            finally:
                mark(i)
                x = x + 1
                continue
        return x

    finally_in_a_loop_with_break:
        for i in range(4):
            try:
                if i == 2:
                    break
                x = x + i
            finally:
                mark(i)
                x = x * 2
        return x

    finally_in_a_loop_with_continue:
        for i in range(4):
            try:
                if i % 2:
                    continue
                x = x + i
            finally:
                mark(i)
                x = x * 2
        return x

    nested_finallys:
        try:
            try:
                y = x + 1
                return y
            finally:
                mark('inner')
                LOG.append(1)
        finally:
            mark('outer')
            LOG.append(2)

    nested_finallys_with_an_exception:
        try:
            try:
                fails(n)
            finally:
                mark('inner')
                x = x + 1
        except ValueError:
            mark('handler')
            x = x * 2
        finally:
            mark('outer')
            x = x - 3
        return x

    exception_replaced_in_finally:
        try:
            try:
                fails(n)
            finally:
                mark()
                fails(n, KeyError)
        except KeyError as error:
            return x + 1, str(error.__context__)

    raise_in_the_break_itself:
        def loud(v):
            print('loud')
            raise ValueError('loud')
        try:
            y = x + loud(1)
        except ValueError as error:
            mark()
            return x + 1, str(error)

    raise_from_a_break_in_finally:
        try:
            try:
                fails(n)
            finally:
                y = x + 1
                int(shown('x'))
        except ValueError as error:
            return y, str(error), str(error.__context__)

    assertion_with_a_break:
        try:
            assert n > 5, shown('small')
        except AssertionError as error:
            return x + 1, str(error)

    stop_iteration_in_a_handler:
        it = iter([1])
        try:
            while True:
                x = x + next(it)
        except StopIteration as error:
            mark()
            return x, error.value

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
