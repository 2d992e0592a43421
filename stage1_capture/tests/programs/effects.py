"""Side effects: what is changed outside, in order, with what is one object staying one object."""

from collections import OrderedDict, defaultdict, deque

from stage1_capture.tests.harness import tensor
from stage1_capture.tests.programs.registry import LOG, mark, program

COUNTER = 0
SEEN = []
TABLE = {"n": 0}
MARKS = {1, 2}
WEIGHT = tensor(3, seed=9)


def reset():
    global COUNTER
    COUNTER = 0
    SEEN.clear()
    TABLE.clear()
    TABLE["n"] = 0
    MARKS.clear()
    MARKS.update((1, 2))
    globals().pop("CREATED", None)


def counter():
    n = 0

    def bump(by=1):
        nonlocal n
        n += by
        return n

    return bump


def remember(x):
    SEEN.append(x)
    return x


@program()
def global_stored(x):
    global COUNTER
    COUNTER = COUNTER + 1
    mark(COUNTER)
    return x + COUNTER


@program()
def global_created(x):
    global CREATED
    CREATED = 5
    mark()
    return x + CREATED


@program()
def global_stored_twice(x):
    global COUNTER
    COUNTER = 10
    mark()
    COUNTER += 1
    return x + COUNTER


@program()
def global_tensor(x):
    global COUNTER
    COUNTER = x + 1
    mark()
    return COUNTER * 2


@program()
def global_list_appended(x):
    SEEN.append(x)
    mark(len(SEEN))
    SEEN.append(x + 1)
    return len(SEEN)


@program()
def global_list_in_a_callee(x):
    y = remember(x + 1)
    mark()
    return y, SEEN[-1] is y


@program()
def global_dict_stored(x):
    TABLE["n"] += 1
    TABLE["x"] = x
    mark()
    return x + TABLE["n"]


@program()
def global_dict_deleted(x):
    TABLE["gone"] = 1
    mark()
    del TABLE["gone"]
    return x + 1, "gone" in TABLE


@program()
def global_set_changed(x):
    MARKS.add(3)
    mark()
    MARKS.discard(1)
    return x + len(MARKS)


@program((3,), list)
def argument_appended(x, items):
    items.append(x)
    mark()
    items.append(x + 1)
    return items


@program((3,), lambda: [1, 2, 3])
def argument_list_changed(x, items):
    items[0] = 10
    items.pop()
    items.insert(0, x)
    mark()
    items.reverse()
    return len(items)


@program((3,), lambda: [3, 1, 2])
def argument_list_sorted(x, items):
    items.sort()
    mark()
    items.sort(reverse=True)
    return x + items[0]


@program((3,), lambda: [1, 2, 3, 4])
def argument_slice_assigned(x, items):
    items[1:3] = [x]
    mark()
    del items[0]
    return len(items)


@program((3,), lambda: {"a": 1, "b": 2})
def argument_dict_changed(x, d):
    d["c"] = x
    d.pop("a")
    mark()
    d["a"] = 5
    return list(d)


@program((3,), lambda: {"a": 1})
def argument_dict_updated(x, d):
    d.update(b=x, c=2)
    mark()
    d.setdefault("d", []).append(1)
    return len(d)


@program((3,), lambda: {1, 2})
def argument_set_changed(x, s):
    s |= {3}
    mark()
    s.remove(1)
    return x + len(s)


@program((3,), lambda: [[1], [2]])
def nested_list_changed(x, rows):
    rows[0].append(x)
    mark()
    rows[1][0] = rows[0]
    return x


@program((3,), lambda: {"rows": [1]})
def list_in_a_dict_changed(x, d):
    d["rows"].append(x)
    mark()
    d["rows"] += [2]
    return len(d["rows"])


@program((3,), lambda: [0])
def same_list_twice(x, items):
    again = items
    again.append(x)
    mark()
    return items is again, len(items)


@program((3,), lambda: [])
def list_put_into_itself(x, items):
    items.append(items)
    mark()
    return x + len(items)


@program()
def list_made_here_is_shared(x):
    items = [x]
    SEEN.append(items)
    SEEN.append(items)
    mark()
    items.append(1)
    return SEEN[0] is SEEN[1]


@program((3,), counter)
def nonlocal_of_a_closure(x, bump):
    bump()
    mark()
    return x + bump(5), bump()


@program()
def nonlocal_inside(x):
    total = 0

    def add(n):
        nonlocal total
        total += n
        mark(total)

    add(2)
    add(3)
    return x + total


@program()
def closure_sees_later_changes(x):
    n = 1

    def scaled():
        return x * n

    a = scaled()
    n = 5
    mark()
    return a, scaled()


@program()
def late_binding(x):
    functions = [lambda: x * i for i in range(3)]
    mark()
    return [f() for f in functions]


@program()
def written_tensor(x):
    x.add_(1)
    mark()
    x.mul_(2)
    return x


@program()
def written_by_index(x):
    x[0] = 5
    mark()
    x[1:] = 7
    return x + 1


@program()
def written_augmented(x):
    x += 1
    mark()
    x *= 2
    return x


@program()
def written_copy(x):
    y = x * 1
    y.add_(3)
    mark()
    y.mul_(2)
    return x, y


@program()
def view_of_a_copy_written(x):
    y = x * 1
    z = y[1:]
    z.add_(10)
    mark()
    z.mul_(2)
    return y, z


@program()
def global_tensor_written(x):
    WEIGHT.copy_(x)
    mark()
    return WEIGHT + x


@program()
def effect_before_an_exception(x):
    SEEN.append(1)
    TABLE["n"] = 5
    mark()
    SEEN.append(x + 1)
    raise ValueError("after")


@program()
def effect_in_a_loop(x):
    for i in range(3):
        SEEN.append(i)
        mark(i)
    return x + len(SEEN)


@program()
def effects_on_both_sides(x):
    LOG.append("a")
    y = x + 1
    mark()
    LOG.append("b")
    z = y * 2
    LOG.append("c")
    return z


@program()
def printed_in_order(x):
    LOG.append(1)
    print("one", x.shape)
    LOG.append(2)
    print("two")
    return x + 1


@program((3,), lambda: OrderedDict(a=1, b=2))
def ordered_dict_changed(x, d):
    d.move_to_end("a")
    mark()
    d["c"] = x
    return list(d)


@program((3,), lambda: defaultdict(list))
def default_dict_argument(x, d):
    d["k"].append(x)
    mark()
    d["k"].append(1)
    return len(d["k"])


@program((3,), lambda: deque([1, 2], maxlen=3))
def deque_argument(x, q):
    q.append(x)
    mark()
    q.appendleft(0)
    return len(q)


@program((3,), lambda: [1])
def list_read_after_it_changed(x, items):
    items.append(2)
    total = sum(items)
    mark()
    items.clear()
    return x + total


@program((3,), lambda: {"x": 1}, lambda: {"y": 2})
def moved_between(x, a, b):
    b["x"] = a.pop("x")
    a["y"] = b.pop("y")
    mark()
    return x + a["y"] + b["x"]


@program((3,), lambda: [1, 2])
def swapped_items(x, items):
    items[0], items[1] = items[1], items[0]
    mark()
    return x + items[0]


@program()
def default_argument_changed(x, kept=[]):
    kept.append(len(kept))
    mark()
    del kept[1:]
    kept.clear()
    return x + 1


@program()
def function_attribute(x):
    def f(y):
        return y + f.by

    f.by = 3
    mark()
    return f(x)


@program((3,), list, grad=True)
def write_through_a_view_of_a_leaf(x, seen):
    seen.append("before")
    view = x[:1]
    view.add_(1)
    seen.append("after")


@program((3,), list, grad=True)
def write_through_a_view_of_a_leaf_caught(x, seen):
    try:
        mark()
        whole = x.view(3)
        whole[0].mul_(2)
    except RuntimeError as error:
        seen.append(str(error))
    return x * 2


@program((3,), grad=True)
def write_through_a_view_of_a_result(x):
    y = x * 2
    y[:1].add_(1)
    return y


@program()
def list_in_its_own_sort(x):
    items, said = [3, 1, 2], []

    def adding(item):
        items.append(item)
        return item

    def failing(item):
        items.append(item)
        raise KeyError(item)

    for key in (adding, failing, lambda item: len(items) - item, lambda item: mark() or item):
        try:
            items.sort(key=key)
        except (KeyError, ValueError) as error:
            said.append(str(error))
        said.append(items.copy())
    return x + items[0], said
