"""Which rows of the tables break, and why: everything else is captured in one graph.

Input: nothing. A reason and the rows it holds for; `row/way` for one way of coming by `v`, `row@3.13` for one version.
Rows that end in `:error` or are of names without a row have to be right, and may break.
"""

import sys

REASONS = {
    "its order is Python's own, which the set here has not": "set.pop/outside set.pop/broken",
    "an object of C's is made, whose state is nowhere to be read": """
        functools.GenericAlias functools.RLock functools.lru_cache:inside builtins.bytearray builtins.memoryview
        random.Random random.SystemRandom others.weakref.ref others.weakref.ref:outside others.weakref.WeakKeyDictionary
        others.weakref.proxy others.threading.Lock others.decimal.Decimal others.types.SimpleNamespace
        others.types.MappingProxyType others.io.StringIO others.hashlib.md5 others.queue.Queue others.array.array
        contextlib.redirect_stderr contextlib.redirect_stdout others.pprint.pformat others.shlex.split""",
    "a lock may wait for another thread": """
        others.threading.Lock:outside others.threading.Lock:acquire others.threading.RLock others.logging.debug""",
    "it belongs to a thread or the process, and may change at any time": """
        functools.get_cache_token others.threading.local others.threading.get_ident others.time.time others.time.sleep
        others.os.environ others.os.path others.os.getpid others.datetime.now others.sys.version_info contextlib.chdir
        others.warnings.warn builtins.open others.dataclasses.is_dataclass""",
    "a class is made, or code": """
        functools.namedtuple collections.namedtuple builtins.type:made builtins.compile builtins.eval builtins.exec""",
    "it asks for the frame": "builtins.dir builtins.globals builtins.locals",
    "it prints, or shows where something lies in memory": """
        builtins.print itertools.living contextlib.ExitStack:break_inside random.random:between
        functools.recursive_repr""",
    "asynchronous code is not captured": "builtins.aiter builtins.anext",
    "it writes attributes of a partial or a function of another's": """
        functools.partialmethod functools.singledispatchmethod""",
    "a user function is called back by C": "others.re.sub others.string.ascii_letters",
    "it looks at the number that is drawn": """
        random.betavariate random.binomialvariate@3.12 random.binomialvariate@3.13 random.choice random.choices
        random.gammavariate random.lognormvariate random.paretovariate random.randbytes random.randint:index
        random.random:branch random.random:text random.sample random.seed random.shuffle random.triangular
        random.vonmisesvariate random.weibullvariate""",
    "the state of a generator of random numbers is an object of C's": "random.getstate random.setstate",
    "a copy of a tensor's memory, which is its history's too": "copy.deepcopy:tensor",
    "C code that nobody has written in Python here": """
        others.re.finditer others.heapq.heapify others.typing.cast
        others.pathlib.Path@3.13""",
}
VERSION = "{}.{}".format(*sys.version_info)
BREAKS = {
    row.partition("@")[0]
    for rows in REASONS.values()
    for row in rows.split()
    if row.partition("@")[2] in ("", VERSION)
}
