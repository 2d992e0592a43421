"""A break inside finally blocks, with a return, an exception, a break or a continue pending. One program a block.

Input: `shown` hands back what it is given, after a break.
"""

from stage1_capture.tests.programs.break_helpers import LOG, fails, mark, shown  # noqa: F401
from stage1_capture.tests.programs.registry import enter_blocks

enter_blocks(
    __name__,
    """
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
    """,
)
