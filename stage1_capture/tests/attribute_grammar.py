"""A grammar of attribute programs: read, asked for, written and deleted in every order, on every kind of object.

Input: a seed. `write_program(seed)` is the source of classes, of functions that make the objects, of `f(x, o, l)` and of
`change1(w)`, ... which run between its calls; attribute_vocabulary.py has the names. A `<word>` is one of its forms.
"""

import random
import re

# ---- words: one form a line, or between two bars -------------------------------------------------------

FORMS = {
    "name": "foo | foo | foo | foo | foo | foo | bar | bar | bar | bar | baz | baz | sum",
    "to": "o | o | o | P | P | x | l[0] | own_class(o) | own_class(P) | c",
    "on": "o | o | o | P | P | x | l[0] | type(o) | type(P) | c",
    # ---- values: those that are equal and not the same, not equal to themselves, or objects with their own `==`
    "value": "<constant> | <constant> | <constant> | <object>",
    # (no np.finfo itself: NumPy keeps one of each, so that both worlds, and later programs, would write to the same object)
    "constant": """1 | True | 1.0 | 0.0 | -0.0 | float('nan') | 'z' | None | 2 | -3 | (1, True) | (0.0, float('nan')) | b'b'
        np.float32(1.5) | np.float64('nan') | np.float32(-0.0) | np.float64(0.0) | complex(0.0, -0.0) | complex('nan')
        np.finfo(np.float32).eps | np.iinfo(np.int8) | np.finfo(np.float64).tiny | np.float64(2.5) | np.int64(1) | np.bool_(True) | np.float16(1) | np.longdouble(0.1)
        np.dtype('float32') | Fraction(1, 2) | range(2) | frozenset({1}) | frozenset({True}) | ... | slice(1, True)
        {1: 2} | {True: 2} | {1.0: 2} | [1, 2] | {1, 2} | np.complex64(1) | np.str_('z') | np.datetime64('2020-01-01')
        frozenset({float('nan')}) | {0.0: 1} | {-0.0: 1} | range(0) | range(1, 1)
        {float('nan'): 1} | {(1, True): 2} | {(True, 1): 2} | ((), -0.0) | {None: 1} | 10**20 | float('inf') | ''""",
    "object": """tensor(2, 3, seed=5) | Color.RED | Level.LOW | Level.HIGH | Pair(1) | Pair(True) | OwnTuple((1, 2)) | Own(1)
        OwnText('z') | OwnInt(1) | OwnFloat(0.5) | OwnFloat('nan') | OwnList([1, 2]) | OwnDict({'k': 1}) | OwnSet({1, 2})
        np.arange(3.0) | fresh_function() | Record(2) | types.SimpleNamespace(foo=1) | C() | C | OwnPair(1, 2) | len | [].append
        OwnFrozen({1}) | OwnFloat(-0.0) | OwnLevel.LOW | np.ones(3).view(OwnArray) | OwnNumpy(1.5) | OwnBytes(b'b')""",
    # ---- kinds: what `o`, `P` and `l[0]` are
    "kind": """C() | C() | C() | C() | C() | C | Own(1) | Own(2) | tensor(2, 3, seed=2) | Parameter(tensor(2, 3, seed=2))
        Net() | Net() | fresh_function() | fresh_function(<value>) | functools.partial(max, 1) | np.arange(4.0) | np.ones(3).view(OwnArray)
        Record() | Record(<value>) | Frozen(<value>) | Slotted(<value>) | types.SimpleNamespace() | Other()
        types.SimpleNamespace(foo=<value>) | Pair(<value>) | OldPair(1, <value>) | OwnPair(1, <value>) | <derived>
        Registered() | Registered() | Blend() | OwnPartial(max, 1)
        <derived> | <derived> | Color.RED | Level.LOW | OwnLevel.HIGH | Trouble(1) | python_module(foo=<value>) | C().method
        <constant> | {'foo': <value>} | [<value>, 2] | (<value>, 2) | Holder(<value>) | Holder(C()) | len | [].append""",
    "derived": """OwnTuple((1, <value>)) | OwnText('z') | OwnInt(1) | OwnFloat(0.5) | OwnList([1, <value>]) | OwnSet({1, 2})
        OwnDict({'k': <value>}) | OwnFrozen({1}) | OwnBytes(b'b') | OwnNumpy(1.5) | OwnFloat('nan') | OwnDict({1: 2})
        OwnOrdered({'k': <value>}) | OwnDefault(list, {'k': <value>}) | OwnDeque([1, <value>]) | OwnComplex(1)""",
    # ---- reading
    "read": """<on>.<name> | <on>.<name> | o.<name> | getattr(<on>, '<name>') | getattr(<on>, '<name>', 'none')
        getattr(<on>, '<name>', None) | vars(<on>)['<name>'] | <on>.__dict__['<name>'] | <on>.__dict__.get('<name>', 'none')
        operator.attrgetter('<name>')(<on>) | object.__getattribute__(<on>, '<name>') | type(<on>).<name> | o._<name>
        <on>.__class__.<name> | inspect.getattr_static(<on>, '<name>', 'none') | sorted(vars(<on>)) | list(<on>.__dict__)
        copy.copy(<on>).<name> | <on>.method() | <on>.__doc__ | <on>.__class__ | type(<on>) | dict(vars(<on>)) | <use>
        vars(type(<on>)).get('<name>', 'none') | getattr(super(C, some(<on>)), '<name>', 'none') | <on>.<name>.<name>
        operator.attrgetter('<name>', '<name>')(<on>) | <on>.__getattribute__('<name>') | {**vars(<on>)}
        same(<on>.<name>, <on>.<name>) | len(vars(<on>)) | list(vars(<on>).items()) | <on>.__class__.__name__ | list(vars(<on>).values())
        copy.deepcopy(<on>).<name> | [k for k in <on>.__dict__] | getattr(<on>, '<name>', <constant>) | <on>.held
        <on>.__defaults__ | <on>.__kwdefaults__ | <on>(x) | <on>.shape | <on>.dtype | <on>.requires_grad | Registered.<name>
        [getattr(v, '<name>', 'none') for v in (o, P, o)] | (C().<name>, o.<name>) | number(<on>.<name>) + number(<on>.<name>)""",
    "ask": """hasattr(<on>, '<name>') | hasattr(<on>, '<name>') | hasattr(<on>, '<name>') | '<name>' in vars(<on>)
        '<name>' in <on>.__dict__ | '<name>' in dir(<on>) | getattr(<on>, '<name>', None) is None | callable(<on>)
        isinstance(<on>, HasFoo) | isinstance(<on>, HasBarMethod) | isinstance(<on>, Sized) | isinstance(<on>, Hashable)
        isinstance(<on>, Callable) | isinstance(<on>, Iterable) | isinstance(<on>, Hooked) | isinstance(<on>, AskedFor)
        isinstance(<on>, Container) | isinstance(<on>, C) | isinstance(<on>, (Other, Base)) | hasattr(<on>, '__dict__')
        '<name>' in type(<on>).__dict__ | hasattr(type(<on>), '<name>') | '<name>' in sorted(vars(<on>)) | issubclass(C, Hooked)
        inspect.getattr_static(<on>, '<name>', 'none') == 'none' | vars(<on>) == {} | '<name>' not in vars(<on>)
        bool(<on>.__dict__) | hasattr(<on>, '__len__') | hasattr(<on>, '__call__') | type(<on>) is C | <on>.__class__ is Other
        hasattr(<on>, 'held') | hasattr(o, 'method') | isinstance(<on>, Mapping) | isinstance(<on>, Sequence)
        issubclass(type(<on>), HasBarMethod) | issubclass(type(<on>), Sized) | issubclass(type(<on>), (Base, Second))""",
    # what a value is by methods that its class may have of its own
    "use": """len(<on>) | bool(<on>) | <on>[0] | <on>['k'] | list(<on>) | <on> == 1 | <on> == <on> | hash(<on>) is None | <on> + 1
        [*<on>] | [v for v in <on>] | 1 in <on> | tuple(<on>) | str(<on>)[:1] | <on> != 2 | sorted(<on>) | <on>() | float(<on>)
        {**<on>} | <on>.keys() | <on>.value | number(<on>.max) | x.sum() | <on>.view(-1) | <on>._fields | int(<on>) | isinstance(<on>, (int, float, str)) | <on>[-1:]
        tuple.__getitem__(<on>, 0) | list.__len__(<on>) | dict.__getitem__(<on>, 'k') | max(<on>) | <on>.real | <on>.eps
        dict(<on>) | zip(<on>, <on>) and 1 | (<on> or 5) | not <on> | <on> is P | <on> in (1, 2) | <on>.items() | -<on>""",
    # ---- writing
    "write": """<to>.<name> = <value> | <to>.<name> = <value> | <to>.<name> = out[-1] | setattr(<to>, '<name>', <value>)
        object.__setattr__(<to>, '<name>', <value>) | vars(<to>)['<name>'] = <value> | <to>.__dict__['<name>'] = <value>
        <to>.__dict__.update(<name>=<value>) | <to>.__dict__.setdefault('<name>', <value>) | <to>.__dict__.pop('<name>', None)
        del <to>.<name> | del <to>.<name> | delattr(<to>, '<name>') | object.__delattr__(<to>, '<name>') | <to>.<name> += 1
        del <to>.__dict__['<name>'] | own_class(<to>).<name> = <value> | del own_class(<to>).<name> | <to>.method()
        <to>.__dict__ = {'<name>': <value>} | <to>.__class__ = Other | <to>.<name>.append(1) | <to>.<name>[0] = 1
        <to>.__setattr__('<name>', <value>) | <to>.__dict__ |= {'<name>': <value>} | <to>._<name> = <value> | <to>.held = <value>
        <to>.<name>.<name> = <value> | d = vars(<to>); d['<name>'] = <value> | super(C, some(<to>)).__setattr__('<name>', <value>)
        vars(<to>).popitem() | C.<name> = <value> | Base.<name> = <value> | <to>.__delattr__('<name>') | <to>[0] = 1
        C.<name> = <descriptor>""",
    "descriptor": """SetOnly('<name>') | SetOnly('<name>') | SetHidden('<name>') | DeleteOnly('<name>') | GetOnly('<name>', 7)
        GetSet('<name>', 8) | GetRaising('<name>') | property(lambda self: 9) | property(lambda self: self.baz)
        functools.cached_property(fresh_function()) | staticmethod(fresh_function()) | classmethod(fresh_function())
        property() | GetOnly('<name>', [1]) | SetOnly('baz') | operator.attrgetter('baz')""",
    # what is seen each time it is asked: a guard may not ask it
    "watched": """property(noted('get <name>', <value>)) | property(noted('get <name>', 1), noted('set <name>'), noted('del <name>'))
        property(noted('get <name>', AttributeError('not now'))) | Watched('<name>', <value>) | WatchedRead('<name>', <value>)
        property(noted('get <name>', from_dict('<name>'))) | Watched('<name>', from_dict('<name>'))
        functools.cached_property(noted('made <name>', 4)) | noted('called <name>', 2) | classmethod(noted('on the class', 3))""",
    "watcher": """__getattr__ = noted('getattr', <value>) | __getattr__ = noted('getattr', AttributeError('none'))
        __getattribute__ = watched_read | __getattribute__ = watched_read | __setattr__ = watched_write
        __delattr__ = watched_delete | __getattribute__ = object.__getattribute__""",
    # ---- between calls, in plain Python, on both worlds: `w.o`, `w.x`, `w.l[0]`, `P` and the classes
    "target": "w.o | w.o | w.o | P | P | w.x | w.l[0]",
    "change": """<target>.<name> = <value> | <target>.<name> = <value> | del <target>.<name> | vars(<target>)['<name>'] = <value>
        vars(<target>).pop('<name>', None) | object.__setattr__(<target>, '<name>', <value>) | C.<name> = <value> | del C.<name>
        C.<name> = <descriptor> | C.<name> = <descriptor> | C.<name> = <descriptor> | Base.<name> = <value>
        Base.<name> = <descriptor> | Meta.<name> = <value> | Meta.<name> = property(lambda cls: 'meta') | del Base.<name>
        <target>.__class__ = Other | C.__getattr__ = lambda self, name: 'computed ' + name | del C.__getattr__
        w.o = <kind> | w.o = <kind> | globals().update(P=<kind>) | w.l[0] = <kind> | w.o = made_o() | w.x = Parameter(tensor(2, 3))
        C.__len__ = lambda self: 1 | C.__call__ = lambda self: 'called' | C.__bool__ = lambda self: False | C.__bases__ = (Second,)
        C.__setattr__ = lambda self, name, value: object.__setattr__(self, name, ['own', value]) | w.l[0] = w.o
        own_class(<target>).<name> = <value> | own_class(<target>).<name> = <descriptor> | del own_class(<target>).<name> | w.o.held = <value>
        w.o.held.<name> = <value> | SetOnly.__get__ = lambda self, owner, cls=None: 'now got' | del SetOnly.__get__ | P.held = <value>
        GetOnly.__set__ = lambda self, owner, value: None | w.o[0] = <value> | w.o['k'] = <value>
        C.__eq__ = lambda self, other: False | C.__iter__ = lambda self: iter([1]) | C.__hash__ = None | Second.<name> = <value>
        C.__getattribute__ = lambda self, name: object.__getattribute__(self, name) | <target>._<name> = <value>
        <of>.<name> = <watched> | <of>.<name> = <watched> | <of>.<name> = <watched> | C.<name> = <watched> | Meta.<name> = <watched>
        <of>.<watcher> | <of>.<watcher> | del <of>.__getattr__ | del <of>.__getattribute__ | del <of>.<name> | Meta.<watcher>
        <target>.__getattr__ = noted('on the object', 5) | C.__bases__ = (Base, Second) | C.__bases__ = (Second, Base)
        <of>.__bases__ = (Second,) | <target>.__class__ = derived_from(<target>, <name>=<value>)
        <target>.__class__ = derived_from(<target>, <name>=<watched>) | <target>.__class__ = C
        <target>.__defaults__ = (<constant>,) | <target>.__kwdefaults__ = {'by': 3} | <target>.__code__ = (lambda v=0, by=1: by).__code__
        <target>.forward = lambda x: x - 1 | <of>.forward = lambda self, x: x + 1 | <target>.shape = (2, 2) | <target>.requires_grad_()
        <target>.register_buffer('<name>', tensor(2, 3)) | <target>.<name> = Parameter(tensor(2)) | <target>.<name> = submodule()
        del Meta.<name> | del <of>.__bases__ | Other.<name> = <watched>""",
    "of": "own_class(<target>) | own_class(<target>) | C | Base | Second",
    # ---- classes
    "member": """<name> = <value> | <name> = <value> | <name> = <descriptor> | <name> = <descriptor>
        def <name>(self): return self.baz | def __len__(self): return 3 | __call__ = fresh_function()
        def __bool__(self): return False | def __getitem__(self, key): return ['item'][key]""",
    "dunder": """def __eq__(self, other): return False | def __eq__(self, other): SEEN.append('eq'); return True
        def __getitem__(self, key): return ['own item'][key] | def __len__(self): return 7 | def __iter__(self): return iter([5])
        def __hash__(self): return 1 | def __bool__(self): return False | def __ne__(self, other): return False
        def keys(self): return ['own'] | def __contains__(self, item): return True | def __repr__(self): return 'own'
        def __eq__(self, other): raise ValueError('not to be compared') | __hash__ = None | def __int__(self): return 9
        def __float__(self): return 9.0 | def __str__(self): return 'own' | bar = 'on the class' | def __getattr__(self, name): return 4
        def __len__(self): raise ValueError('not to be counted') | def __getitem__(self, key): raise KeyError('own')
        @property // def foo(self): return 'property' | def items(self): return [('own', 1)]""",
}  # fmt: skip

# Members of more than one line. `?`: that line or not.
LONG_MEMBERS = """
@property
def <name>(self):
    ? SEEN.append('<name>')
    return <got>
? @<name>.setter // def <name>(self, value): <put>
? @<name>.deleter // def <name>(self): <dropped>

@functools.cached_property
def <name>(self):
    return <got>

def __getattr__(self, name):
    ? SEEN.append(name)
    ? if name == 'baz': raise AttributeError('no baz here')
    return 'computed ' + name

def __setattr__(self, name, value):
    ? if name == 'baz': raise AttributeError('baz is fixed')
    ? value = ['wrapped', value]
    <put_any>

def __delattr__(self, name):
    ? SEEN.append(name)
    object.__delattr__(self, name)

def __init__(self):
    ? self.<name> = <value>
    ? vars(self)['<name>'] = <value>
    ? self._<name> = <value>
    pass

def method(self, k=1):
    ? self.<name> = <value>
    ? vars(self)['<name>'] = <value>
    ? if hasattr(self, '<name>'): return self.<name>
    ? mark('method')
    return getattr(self, '<name>', 'none')

def __getattribute__(self, name):
    ? SEEN.append(name)
    return object.__getattribute__(self, name)
"""
FORMS |= {
    "got": "vars(self).get('<name>', 'from a property') | self._<name> | self.<name> | 'got' | [1] | getattr(self, 'baz', 6)",
    "put": "vars(self).update(<name>=value) | self._<name> = value | object.__setattr__(self, '_<name>', value) | pass",
    "dropped": "del vars(self)['<name>'] | self._<name> = None | vars(self).pop('_<name>', None)",
    "put_any": "object.__setattr__(self, name, value) | vars(self)[name] = value | super().__setattr__(name, value)",
}

# Statements of f.
STATEMENTS = """
out.append(<read>)

out.append(<ask>)

if <ask>:
    y = y * 2 + 1
else:
    y = y - 0.5

try:
    out.append(<read>)
except AttributeError as error:
    y = y + 0.25
    ? out.append(str(error))
else:
    y = y * number(out[-1])

y = y * number(<read>)

<write>

<write>

<write>
out.append(<read>)

<write>
<write>
<write>
out.append(<read>)

match <on>:
    case object(<name>=1 | 2):
        y = y + 4
    case C(<name>=v):
        out.append(v)
        y = y + 5
    ? case object(<name>=v, kept=w):
        out.append(v)
        y = y - 2
    case _:
        y = y + 6

mark()

c = C()
<write>

out.append(shown(<on>).<name>)

for v in [<on>, <on>]:
    out.append(getattr(v, '<name>', 'none'))
"""

TABLE = {
    word: [f.strip() for f in re.split(r"\s\|\s|\n", forms) if f.strip()] for word, forms in FORMS.items()
}
STATEMENT = [text.splitlines() for text in STATEMENTS.strip().split("\n\n")]
LONG_MEMBER = [text.splitlines() for text in LONG_MEMBERS.strip().split("\n\n")]
CALLS = 5
# What the classes that stand for Python's own are derived from.
DERIVED = {
    "OwnTuple": "tuple", "OwnText": "str", "OwnInt": "int", "OwnFloat": "float", "OwnList": "list", "OwnDict": "dict",
    "OwnSet": "set", "OwnFrozen": "frozenset", "OwnBytes": "bytes", "OwnNumpy": "np.float64", "OwnPair": "Pair",
    "OwnOrdered": "collections.OrderedDict", "OwnDefault": "collections.defaultdict", "OwnDeque": "collections.deque",
    "OwnComplex": "complex", "OwnPartial": "functools.partial",
}  # fmt: skip


class Writer:
    """One program: each choice is the seed's."""

    def __init__(self, seed):
        chosen = random.Random(seed)
        self.choice, self.chance, self.count = chosen.choice, chosen.random, chosen.randint
        self.lines = []

    def put(self, indent, text):
        self.lines.append("    " * indent + text)

    def filled(self, text, always=False):
        """Each word replaced by a form of it. A `<name>` is the same in all of one statement, as a rule."""
        name = self.choice(TABLE["name"]) if always or self.chance() < 0.8 else None
        return re.sub(
            r"<(\w+)>",
            lambda m: name if name and m[1] == "name" else self.filled_with(self.choice(TABLE[m[1]]), name),
            text,
        )

    def filled_with(self, text, name):
        text = text.replace("<name>", name) if name else text
        return re.sub(r"<(\w+)>", lambda m: self.filled_with(self.choice(TABLE[m[1]]), name), text)

    def paragraph(self, lines, indent, always=False):
        """One statement or member; a line with `?` is there or not, with what is inside it; `//` ends a line too."""
        left_out = None
        for line in self.filled("\n".join(lines), always).splitlines():
            inside = (len(line) - len(line.lstrip())) // 4
            if left_out is not None and inside > left_out:
                continue
            left_out, line = None, line.strip()
            if line.startswith("? "):
                line = line[2:]
                if self.chance() < 0.5:
                    left_out = inside
                    continue
            for part in line.split(" // "):
                self.put(indent + inside, part)

    def members(self, indent, most, kinds=LONG_MEMBER):
        for _ in range(self.count(0, most)):
            if self.chance() < 0.55:
                self.paragraph([self.choice(TABLE["member"])], indent)
            else:
                long = self.choice(kinds)
                if (
                    "__getattribute__" not in long[0] or self.chance() < 0.2
                ):  # whose objects capture leaves alone
                    self.paragraph(long, indent, always=True)
        self.put(indent, "kept = 1")

    def body(self, indent, most):
        """Statements; most catch what they raise, so that the program goes on."""
        for _ in range(self.count(1, most)):
            lines = self.choice(STATEMENT)
            if self.chance() < 0.85:
                self.put(indent, "try:")
                self.paragraph(lines, indent + 1)
                self.put(
                    indent, "except (AttributeError, TypeError, KeyError, ValueError, IndexError) as error:"
                )
                self.put(indent + 1, "out.append((type(error).__name__, str(error)))")
            else:
                self.paragraph(lines, indent)


def write_program(seed):
    """The source of one program."""
    writer = Writer(seed)
    put = writer.put
    put(0, "def f(x, o, l):")
    put(1, "y, out = x * 1.5, []")
    put(1, "c = C()" if writer.chance() < 0.3 else "c = None")
    writer.body(1, 6)
    put(1, "return y, out")
    for name in ("o", "P", "l"):
        put(0, f"def made_{name}(): return {writer.filled(writer.choice(TABLE['kind']))}")
    for at in range(1, CALLS):
        put(0, f"def change{at}(w):")
        for _ in range(writer.count(0, 2)):
            put(1, writer.filled(writer.choice(TABLE["change"])))
        put(1, "pass")
    functions, writer.lines[:] = list(writer.lines), []
    classes(writer, "\n".join(functions))
    return "\n".join(writer.lines + functions) + "\n"


def classes(writer, used):
    """The program's own classes, and those that it names of the ones derived from Python's with methods of their own."""
    put = writer.put
    put(0, "class Meta(type):")
    writer.members(1, writer.chance() < 0.3, LONG_MEMBER[:1])
    slots = writer.choice(("", "", "", "__slots__ = ('foo', '__dict__')", "__slots__ = ('foo',)"))
    for name, bases, most in (("Second", "", 2), ("Base", "", 2), ("Other", "Base, ", 2), ("C", "Base, ", 4)):
        put(0, f"class {name}({bases}metaclass=Meta):")
        begun = len(writer.lines)
        writer.members(1, most)
        if slots and not bases:  # whose name no other member may have
            writer.lines[begun:] = [line.replace("foo", "bar") for line in writer.lines[begun:]]
            put(1, slots)
        elif slots == "__slots__ = ('foo',)" and writer.chance() < 0.6:
            put(1, "__slots__ = ('_foo',)")
    put(0, "try:")
    put(1, "class Blend(Base, Registered, metaclass=Meta):")
    writer.members(2, 2)
    put(0, "except TypeError:  # the slots of both")
    put(1, "Blend = Registered")
    # in a class body the classes that come later have no name yet
    made = [
        re.sub(r"(?<![\w.])C(\(\))?(?![\w(])", "Own(2)", line) if line[0] == " " else line
        for line in writer.lines
    ]
    writer.lines[:] = []
    for name, base in {"Own": "Holder", **DERIVED}.items():
        if not re.search(rf"\b{name}\b", "\n".join((used, *made))):
            continue
        put(0, f"class {name}({base}):")
        for _ in range(writer.count(0, 2)):
            writer.paragraph([writer.choice(TABLE["dunder"])], 1)
        put(1, "kept = 1")
    put(0, "class OwnLevel(enum.IntEnum):")
    if writer.chance() < 0.5:
        put(1, writer.choice(("def __eq__(self, other): return False", "def __bool__(self): return False")))
        put(1, "__hash__ = object.__hash__")
    put(1, "LOW = 1")
    put(1, "HIGH = 2")
    writer.lines += made
