"""How exceptions remember each other: contexts, causes, notes, groups, and what `finally` does to them, across breaks.

Input: `chain` says what an exception remembers, outermost first. One program a block.
"""

import sys  # noqa: F401

from stage1_capture.tests.programs.registry import enter_blocks


def chain(error):
    """The classes of an exception and of all that it remembers, with what they say."""
    found = []
    while error is not None and len(found) < 6:
        found.append(
            (type(error).__name__, str(error), error.__suppress_context__, type(error.__cause__).__name__)
        )
        error = error.__context__
    return found


def fails(cls, *words):
    raise cls(*words)


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return chain(error)


enter_blocks(
    __name__,
    """
    made_but_not_raised:
        y = x + 1
        try:
            fails(ValueError, 'a')
        except ValueError:
            mark()
            made = KeyError('b')
        return y, chain(made), made.__context__ is None

    made_in_a_handler_and_raised_later:
        y = x + 1
        try:
            fails(ValueError, 'a')
        except ValueError:
            made = KeyError('b')
            mark()
        try:
            raise made
        except KeyError as error:
            return y, chain(error)

    made_before_and_raised_in_a_handler:
        y = x + 1
        made = KeyError('b')
        try:
            try:
                fails(ValueError, 'a')
            except ValueError:
                mark()
                raise made
        except KeyError as error:
            return y, chain(error), error is made

    raised_again_in_its_own_handler:
        y = x + 1
        try:
            try:
                fails(ValueError, 'a')
            except ValueError as first:
                try:
                    fails(KeyError, 'b')
                except KeyError:
                    mark()
                    raise first
        except ValueError as error:
            return y, chain(error)

    raised_twice_keeps_the_last_context:
        y = x + 1
        made = KeyError('b')
        for cls in (ValueError, TypeError):
            try:
                try:
                    fails(cls, 'a')
                except Exception:
                    mark()
                    raise made
            except KeyError as error:
                last = chain(error)
        return y, last

    raised_from:
        y = x + 1
        def inner():
            try:
                fails(ValueError, 'a')
            except ValueError as error:
                mark()
                raise KeyError('b') from error
        return y, outcome(inner)

    raised_from_none:
        y = x + 1
        def inner():
            try:
                fails(ValueError, 'a')
            except ValueError:
                mark()
                raise KeyError('b') from None
        return y, outcome(inner)

    raised_from_a_class:
        y = x + 1
        def inner():
            mark()
            raise KeyError('b') from ValueError
        return y, outcome(inner)

    raised_from_no_exception:
        y = x + 1
        def inner():
            mark()
            raise KeyError('b') from 3
        return y, outcome(inner)

    raised_what_is_none:
        y = x + 1
        def inner(value):
            mark()
            raise value
        return y, outcome(inner, 3), outcome(inner, int), outcome(inner, None)

    raised_in_finally:
        y = x + 1
        def inner():
            try:
                fails(ValueError, 'a')
            finally:
                mark()
                fails(KeyError, 'b')
        return y, outcome(inner)

    finally_overrides:
        def inner(how):
            for i in range(2):
                try:
                    if how == 'return':
                        return 1
                    fails(ValueError, how)
                finally:
                    mark()
                    if how == 'break':
                        break
                    if how == 'continue':
                        continue
                    return 2
            return 3
        return x + 1, [inner(how) for how in ('return', 'raise', 'break', 'continue')]

    finally_changes_what_is_returned:
        def inner():
            y = x
            try:
                return y + 1
            finally:
                mark()
                y = y * 2
        return inner(), mark()

    else_is_outside:
        def inner():
            try:
                y = x + 1
            except ValueError:
                return 1
            else:
                mark()
                fails(ValueError, 'else')
            finally:
                mark()
        return x, outcome(inner)

    handled_state:
        seen = [sys.exc_info()[0]]
        try:
            fails(ValueError, 'a')
        except ValueError:
            seen.append(sys.exc_info()[0])
            try:
                fails(KeyError, 'b')
            except KeyError:
                mark()
                seen.append(sys.exc_info()[0])
            seen.append(sys.exc_info()[0])
            mark()
        seen.append(sys.exc_info()[0])
        return x + 1, seen

    context_that_a_caller_handles:
        def inner():
            mark()
            try:
                fails(TypeError, 'inner')
            except TypeError as error:
                raise ValueError('boom') from error
        try:
            fails(KeyError, 'k')
        except KeyError:
            return x + 1, outcome(inner)

    handled_state_in_a_call:
        def now():
            mark()
            return sys.exc_info()[0]
        def again():
            raise
        try:
            fails(ValueError, 'a')
        except ValueError:
            y = x + 1
            return y, now(), outcome(again), outcome(fails, KeyError, 'k')

    nothing_to_raise_again:
        y = x + 1
        def inner():
            mark()
            raise
        return y, outcome(inner)

    name_is_unbound_after:
        y = x + 1
        try:
            fails(ValueError, 'a')
        except ValueError as error:
            mark()
        try:
            error
        except NameError as other:
            return y, type(other).__name__, other.__context__ is None

    notes:
        y = x + 1
        try:
            try:
                fails(ValueError, 'a')
            except ValueError as error:
                error.add_note('first')
                mark()
                error.add_note('second')
                raise
        except ValueError as error:
            return y, error.__notes__, str(error), outcome(error.add_note, 3)

    line_of_the_error:
        y = x + 1
        try:
            mark()
            fails(ValueError, 'a')
        except ValueError as error:
            trace = error.__traceback__
            return y, trace.tb_lineno, trace.tb_next.tb_lineno, trace.tb_next.tb_next is None

    with_another_traceback:
        y = x + 1
        error = ValueError('a').with_traceback(None)
        mark()
        return y, error.__traceback__ is None, str(error)

    from_inside_a_generator:
        def items():
            try:
                yield 1
            except ValueError as error:
                mark()
                raise KeyError('b') from error
        g = items()
        y = x + next(g)
        return y, outcome(g.throw, ValueError('a')), outcome(next, g)

    thrown_in_a_handler:
        def items():
            yield 1
        g, h = items(), items()
        y = x + next(g)
        try:
            fails(ValueError, 'a')
        except ValueError:
            mark()
            return y, outcome(g.throw, KeyError('b')), outcome(h.throw, TypeError('c'))

    generator_in_a_handler:
        def items():
            yield sys.exc_info()[0]
            try:
                fails(KeyError, 'b')
            except KeyError:
                mark()
                yield sys.exc_info()[0]
            yield sys.exc_info()[0]
        try:
            fails(ValueError, 'a')
        except ValueError:
            return x + 1, list(items()), sys.exc_info()[0]

    stop_inside_a_generator:
        def items():
            yield 1
            mark()
            raise StopIteration(3)
        return x + 1, outcome(list, items())

    manager_chain:
        class Manager:
            def __enter__(self):
                return self
            def __exit__(self, kind, error, traceback):
                mark()
                raise KeyError('exit')
        def inner():
            with Manager():
                fails(ValueError, 'a')
        return x + 1, outcome(inner)

    group_split:
        y = x + 1
        try:
            raise ExceptionGroup('g', [ValueError('a'), TypeError('b'), KeyError('c')])
        except* ValueError as group:
            mark()
            y = y + len(group.exceptions)
        except* (TypeError, KeyError) as group:
            mark()
            y = y * len(group.exceptions)
        return y, mark()

    group_of_one:
        y = x + 1
        try:
            fails(ValueError, 'a')
        except* ValueError as group:
            mark()
            return_ = type(group).__name__, [str(e) for e in group.exceptions]
        else:
            return_ = None
        finally:
            y = y * 2
        return y, return_

    group_not_taken:
        y = x + 1
        def inner():
            try:
                raise ExceptionGroup('g', [ValueError('a'), ExceptionGroup('h', [TypeError('b')])])
            except* ValueError:
                mark()
        return y, outcome(inner)

    group_raised_inside:
        y = x + 1
        def inner():
            try:
                raise ExceptionGroup('g', [ValueError('a'), TypeError('b')])
            except* ValueError:
                mark()
                raise KeyError('c')
            except* TypeError:
                y = 1
        try:
            inner()
        except ExceptionGroup as group:
            return y, str(group), [type(e).__name__ for e in group.exceptions]

    groups_by_hand:
        y = x + 1
        g = ExceptionGroup('g', [ValueError('a'), TypeError('b')])
        mark()
        first, rest = g.split(ValueError)
        return y, str(first), len(rest.exceptions), g.subgroup(KeyError), g.message, outcome(ExceptionGroup, 'g', [])

    own_error_classes:
        class Base(Exception):
            def __init__(self, code, *more):
                super().__init__(code, *more)
                self.code = code
        class Sub(Base):
            pass
        y = x + 1
        try:
            raise Sub(3, 'more')
        except (KeyError, Base) as error:
            mark()
            return y + error.code, error.args, repr(error), isinstance(error, Sub)

    errors_of_python:
        y = x + 1
        def at(value, key):
            mark()
            return value[key]
        return (
            y, outcome(at, {}, 'k'), outcome(at, [], 3), outcome(at, 3, 1), outcome(at, [1], 'a'),
            outcome(lambda: 1 / 0), outcome(lambda: int('q')), outcome(lambda: nowhere), outcome(lambda: x.nowhere),
        )

    assertion:
        y = x + 1
        def inner(value, *words):
            mark()
            assert value > 3, words
            return value
        return y, outcome(inner, 4), outcome(inner, 2), outcome(inner, 2, 'w')
    """,
)
