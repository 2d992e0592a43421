"""try, except, else, finally, raise, raise from, assert; exceptions that leave; breaks inside all of them."""

from stage1_capture.tests.programs.registry import LOG, mark, program


class Trouble(Exception):
    """A user-defined exception, with state."""

    def __init__(self, code, detail=""):
        super().__init__(code, detail)
        self.code = code


class Worse(Trouble):
    pass


def fails(x, n):
    if n > 1:
        raise ValueError(f"too much: {n}")
    return x + n


@program()
def nothing_raised(x):
    try:
        y = x + 1
        mark()
    except ValueError:
        y = x
    return y * 2


@program()
def raised_and_caught(x):
    try:
        mark("before")
        raise ValueError("no")
    except ValueError:
        mark("inside")
        y = x + 1
    return y * 2


@program()
def caught_by_name(x):
    try:
        raise KeyError("k")
    except KeyError as error:
        name = error.args[0]
        mark(name)
    return x, name


@program()
def error_text(x):
    try:
        raise ValueError("some", 3)
    except ValueError as error:
        return x + 1, str(error), error.args


@program()
def second_clause(x):
    try:
        raise IndexError
    except KeyError:
        return x
    except (IndexError, TypeError):
        mark()
        return x + 1


@program()
def base_class(x):
    try:
        raise KeyError(1)
    except LookupError:
        mark()
        return x * 2


@program()
def not_caught_here(x):
    try:
        try:
            mark()
            raise KeyError(1)
        except ValueError:
            return x
    except KeyError:
        return x + 5


@program()
def else_clause(x):
    try:
        y = x + 1
    except ValueError:
        y = x
    else:
        mark()
        y = y * 2
    return y


@program()
def finally_clause(x):
    try:
        y = x + 1
        mark("try")
    finally:
        mark("finally")
        LOG.append("done")
    return y


@program()
def finally_with_return(x):
    try:
        mark()
        return x + 1
    finally:
        LOG.append("left")


@program()
def finally_overrides(x):
    try:
        raise ValueError
    finally:
        mark()
        return x + 1


@program()
def all_clauses(x):
    try:
        y = fails(x, 2)
    except ValueError as error:
        y = x
        mark(str(error))
    else:
        y = y * 2
    finally:
        LOG.append("end")
    return y


@program()
def raised_in_a_callee(x):
    try:
        return fails(x, 3)
    except ValueError as error:
        mark()
        return x + 1, str(error)


@program()
def raised_in_a_loop(x):
    for i in range(4):
        try:
            x = fails(x, i)
        except ValueError:
            mark(i)
            x = x * 2
    return x


@program()
def break_out_of_try(x):
    for i in range(3):
        try:
            if i == 1:
                mark()
                break
            x = x + i
        finally:
            LOG.append(i)
    return x


@program()
def continue_in_try(x):
    for i in range(3):
        try:
            if i == 1:
                continue
            mark(i)
            x = x + i
        except ValueError:
            pass
        finally:
            x = x + 1
    return x


@program()
def reraised(x):
    try:
        try:
            raise ValueError("inner")
        except ValueError:
            mark()
            raise
    except ValueError as error:
        return x + 1, str(error)


@program()
def raised_from(x):
    try:
        try:
            raise KeyError("a")
        except KeyError as error:
            mark()
            raise ValueError("b") from error
    except ValueError as error:
        return x + 1, type(error.__cause__).__name__


@program()
def raised_in_a_handler(x):
    try:
        try:
            raise KeyError("a")
        except KeyError:
            raise ValueError("b")
    except ValueError as error:
        mark()
        return x + 1, repr(error.__context__), error.__cause__


@program()
def own_exception(x):
    try:
        raise Trouble(7, "seven")
    except Trouble as error:
        mark()
        return x + error.code


@program()
def own_exception_subclass(x):
    try:
        raise Worse(3)
    except Trouble as error:
        return x * error.code, type(error).__name__, error.args


@program()
def nested_try_finally(x):
    try:
        try:
            x = x + 1
            mark("inner")
        finally:
            LOG.append("a")
            mark("between")
    finally:
        LOG.append("b")
    return x


@program()
def try_in_a_handler(x):
    try:
        raise ValueError(1)
    except ValueError:
        try:
            mark()
            raise KeyError(2)
        except KeyError:
            x = x + 2
        mark("after")
    return x


@program()
def error_name_is_unbound_after(x):
    error = 1
    try:
        raise ValueError
    except ValueError as error:
        mark()
    try:
        return error
    except UnboundLocalError:
        return x + 1


@program()
def stored_exception(x):
    kept = None
    try:
        raise Trouble(4)
    except Trouble as error:
        kept = error
    mark()
    return x + kept.code


@program()
def exception_as_value(x):
    errors = [ValueError("a"), KeyError("b")]
    mark()
    return x + len(errors), errors


@program()
def raise_class_or_instance(x):
    done = []
    for error in (ValueError, ValueError("made")):
        try:
            raise error
        except ValueError as caught:
            done.append(str(caught))
            mark(str(caught))
    return x, done


@program()
def exception_in_comprehension(x):
    try:
        return [fails(x, i) for i in range(4)]
    except ValueError:
        mark()
        return x * 2


@program()
def return_in_a_handler_in_a_loop(x):
    for i in range(3):
        try:
            fails(x, i)
        except ValueError:
            mark(i)
            return x + i
    return x


@program()
def break_in_both(x):
    try:
        y = x + 1
        mark("a")
        y = fails(y, 2)
    except ValueError:
        y = x - 1
        mark("b")
        y = y * 2
    mark("c")
    return y


@program()
def stop_iteration_by_hand(x):
    it = iter([1])
    next(it)
    try:
        next(it)
    except StopIteration:
        mark()
        return x + 1


@program()
def raise_none(x):
    try:
        raise ValueError("a") from None
    except ValueError as error:
        mark()
        return x + 1, error.__suppress_context__, error.__cause__


@program()
def not_an_exception(x):
    try:
        raise 3
    except TypeError as error:
        mark()
        return x + 1, str(error)
