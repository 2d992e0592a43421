"""A break inside except blocks and else clauses: the exception that is handled stays known. One program a block.

Input: `shown` hands back what it is given, after a break; `Noted` is a manager that takes nothing.
"""

from stage1_capture.tests.programs.break_helpers import LOG, fails, mark, shown  # noqa: F401
from stage1_capture.tests.programs.registry import enter_blocks


class Noted:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        mark(self.name)
        LOG.append((self.name, kind and kind.__name__))


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
    """,
)
