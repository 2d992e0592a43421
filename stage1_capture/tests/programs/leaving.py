"""Exceptions that leave the compiled function, and errors Python itself raises."""

from stage1_capture.tests.programs.exceptions import Trouble, fails
from stage1_capture.tests.programs.registry import LOG, mark, program


@program()
def index_error(x):
    items = [x]
    try:
        return items[3]
    except IndexError as error:
        mark()
        return x + 1, str(error)


@program()
def key_error(x):
    try:
        return {}["missing"]
    except KeyError as error:
        mark()
        return x + 1, error.args


@program()
def zero_division(x):
    try:
        return x * (1 // 0)
    except ZeroDivisionError as error:
        mark()
        return x + 1, str(error)


@program()
def attribute_error(x):
    try:
        return x.nothing
    except AttributeError:
        mark()
        return x + 1


@program()
def name_error(x):
    try:
        return x + nothing_of_this_name
    except NameError as error:
        mark()
        return x + 1, str(error)


@program()
def unbound_local(x):
    try:
        y = y + x
    except UnboundLocalError as error:
        mark()
        return x + 1, str(error)


@program()
def value_error_of_int(x):
    try:
        n = int("three")
    except ValueError as error:
        mark(str(error))
        n = 3
    return x + n


@program()
def unpacking_error(x):
    try:
        a, b = [1, 2, 3]
    except ValueError as error:
        mark()
        return x + 1, str(error)
    return x + a + b


@program()
def assertion(x):
    assert x.shape == (3,), "three"
    mark()
    return x + 1


@program()
def failed_assertion_caught(x):
    try:
        assert x.shape == (4,), "four"
    except AssertionError as error:
        mark()
        return x + 1, str(error)


@program()
def failed_assertion(x):
    y = x + 1
    LOG.append("before")
    mark()
    assert y.shape == (4,), f"four, not {y.shape}"
    return y


@program()
def leaves(x):
    LOG.append("before")
    y = x + 1
    mark()
    raise ValueError(f"no {y.shape}")


@program()
def leaves_from_a_callee(x):
    LOG.append(1)
    mark()
    return fails(x + 1, 5)


@program()
def leaves_after_a_write(x):
    x.add_(1)
    mark()
    raise RuntimeError("written")


@program()
def leaves_with_a_cause(x):
    try:
        raise KeyError(1)
    except KeyError as error:
        mark()
        raise Trouble(2) from error


@program()
def leaves_through_finally(x):
    try:
        mark()
        raise KeyError("gone")
    finally:
        LOG.append("cleaned")


@program()
def leaves_by_index(x):
    y = [x + 1]
    mark()
    return y[9]


@program()
def leaves_by_shape(x):
    mark()
    return x @ x.reshape(1, 3)


@program()
def shape_error_caught(x):
    try:
        mark()
        return x @ x.reshape(1, 3)
    except (RuntimeError, ValueError):
        return x + 1


def _around_a_name_without_a_value():
    @program()
    def free_variable_caught(x):
        try:
            return x + y
        except NameError as error:
            mark()
            return x + 1, str(error), error.name

    @program()
    def leaves_by_a_free_variable(x):
        x = x + 1
        mark()
        return x + y

    @program()
    def leaves_by_deleting_a_free_variable(x):
        nonlocal y
        mark(x + 1)
        del y

    if LOG is None:
        y = 1


_around_a_name_without_a_value()


@program()
def super_without_a_class(x):
    class Method:
        def of_any(*words):
            return super()

    said = []
    for function in (lambda: super(), lambda words: super(), Method().of_any):
        try:
            function(*[x][: function.__code__.co_argcount])
        except RuntimeError as error:
            mark()
            said.append(str(error))
    return x + 1, said
