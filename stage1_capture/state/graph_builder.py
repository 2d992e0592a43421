"""What one capture accumulates: the graph, its inputs, the guards, and the frames being interpreted.

Input: the interpreter asks for guards, nodes and breaks here, so that each carries the user's line that
needed it.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from stage0_eager import is_grad_enabled
from stage0_eager.autograd.backward_pass import is_spent
from stage0_eager.state import followed, words_of
from stage0_eager.transforms.shadow_tape import ShadowTape, whole_of
from stage1_capture.state.hints import MODULES
from stage1_capture.state.open_sizes import OpenSizes
from stage1_capture.state.prototypes import empty_prototypes
from stage1_capture.state.side_effects import SideEffects
from stage_contracts import config, events
from stage_contracts.breaks import Unsupported
from stage_contracts.class_guards import facts_of
from stage_contracts.class_lookup import made_by_python
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_module import GraphModule
from stage_contracts.guard_constants import computes, lacks
from stage_contracts.guards import Guard
from stage_contracts.origin import Origin
from stage_contracts.sizes import STATIC, SizePolicy
from stage_contracts.source import Source
from stage_contracts.symbol_bindings import expression, symbol_bindings
from stage_contracts.symbolic import SymInt

if TYPE_CHECKING:
    from stage1_capture.variables.base import Variable
    from stage1_capture.variables.number import NumberVariable
    from stage1_capture.variables.tensor import TensorVariable

MAX_STEPS = 200_000  # instructions in one capture: a loop longer than this is not worth unrolling
_LIBRARY = ("stage0_eager", "stage_contracts", "stage1_capture")
# What runs compiled functions is not compiled itself when a frame calls one.
_NOT_THE_USERS = ("cutaway", "stage2_autograd", "stage3_lowering", "stage4_runtime", "numpy")


class Stopped(Exception):
    """The capture reached the instruction of the outermost frame that it was told to break before."""


@dataclass(frozen=True)
class Options:
    """What an earlier attempt at the same frame found out.

    stop_at: break before this step of the outermost frame.
    graph_mode: gradients are recorded in a part of the frame, so the graph runs in that mode.
    modes: the state at the call, which is not in force while it is captured.
    handles: a caller handles an exception, at the call.
    plain: the frame runs in Python, an instruction at a time; what it calls is compiled on its own.
    data_is_written: the frame reads `.data` and writes to a tensor, or lets a view out: it breaks at the read.
    dropped: generator functions whose generators are dropped inside a try or with block, which then runs its end.
    inlined: regions (nested_compile_region) that cannot be graphs of their own.
    """

    stop_at: int | None = None
    graph_mode: bool = False
    modes: dict[str, Any] = field(default_factory=followed)
    handles: bool = field(default_factory=lambda: sys.exception() is not None)
    plain: bool = False
    data_is_written: bool = False
    dropped: frozenset[types.CodeType] = frozenset()
    inlined: frozenset[Any] = frozenset()


class Restart(Exception):
    """Capture again, with `options` beside those there were."""

    def __init__(self, options: Options) -> None:
        self.options = options


class SkipFrame(Unsupported):
    """A break that is no use splitting the frame at: all of it runs in Python."""


@dataclass(eq=False)
class Draw:
    """A call of a random generator that the residual code makes before the graph runs; `name` is what it gives."""

    name: str
    generator: Variable
    method: str
    bound: bool  # `generator` is the module's own function
    values: list[Variable]
    hint: Any = None


class PlainGraph(Graph):
    """Of a frame that runs in Python: nothing enters it."""

    def __init__(self, output: OutputGraph) -> None:
        super().__init__()
        self.owner = output

    def call_function(self, *args: Any, **kwargs: Any) -> NoReturn:
        self.owner.unsupported("GB0020", "the frame is disabled")


class OutputGraph:
    """The state of one capture. `frames` is the stack of frames, outermost first."""

    def __init__(self, start: Origin, policy: SizePolicy = STATIC, options: Options = Options()) -> None:
        self.options = options
        self.start = start  # the function's first line, for what has no better place
        self.graph = PlainGraph(self) if options.plain else Graph()
        self.guards: dict[tuple, Guard] = {}
        self.frames: list[Any] = []
        self.steps = 0
        self.known: dict[int, Any] = {}  # id of a real object -> its variable: one object, one variable
        self.kept: list[Any] = []  # so that an id in `known` stays its object's
        self.module_sources: set[Source] = set()
        self.optimizer_sources: set[Source] = set()
        self.epoch_sources: set[Source] = set()  # what cannot change unless the structure epoch does
        self.mutated: dict[TensorVariable, None] = {}
        # objects from outside that are keys, each guarded to be no other: by their numbers in the register, or None
        self.keys: dict[Source | None, dict[Variable, None]] = {}
        # detached -> the input it is a view of
        self.mutable_through: dict[TensorVariable, TensorVariable] = {}
        self.detached_inside: set[Node] = set()  # by no_grad blocks
        self.data_of: dict[TensorVariable, TensorVariable] = {}  # x.data -> x: variables/tensor.py
        self.written_memory: set[Node] = set()  # what was written while there was a `.data`
        # set while higher_order/subgraph.py follows a function; and when it began, of one that runs in the backward
        self.taken: dict[TensorVariable, Node] | None = None
        self.follows_since: int | None = None
        # what runs in the backward: its name, and whether it still reads the same
        self.followed: list[tuple[str, Callable[[], bool]]] = []
        self.regions: dict[Any, GraphModule] = {}  # higher_order/regions.py: equal graphs are one
        self.followed_regions: dict[tuple, list[Any]] = {}  # higher_order/alike.py
        self.known_results: dict[tuple, Any] = {}  # variables/known_results.py: of operators' meta rules
        self.recipes: dict[tuple, Any] = {}  # builtins/torch/updates.py: of optimizers' updates
        self.relied = 0  # how often something asked for a guard of a value from outside
        self.written: list[TensorVariable] = []  # every write to a tensor, in order
        self.hooked: dict[TensorVariable, Node] = {}  # the node that computes it, under those of its hooks
        self.effects = SideEffects()
        self.class_stores: dict[type, dict[str, Any]] = {}  # what the program stored; None: deleted
        self.class_places: dict[type, Source] = {}  # where guards find a user-defined class
        self.prototypes: list[Any] = []  # of the classes that the program defines: variables/class_.py
        self.shadows: dict[Graph, ShadowTape] = {}  # where something asked for gradients
        self.root_steps = 0  # instructions of the outermost frame so far
        self.grad_enabled = is_grad_enabled()  # where the program is now
        self.graph_mode = self.grad_enabled  # the grad mode the graph runs in
        self.modes = dict(options.modes)  # likewise where the program is now: inference mode, autocast, ...
        self.casts: dict[tuple, TensorVariable] = {}  # weights that autocast has cast in the region under way
        self.inference: set[TensorVariable] = set()  # made in an inference mode of this frame
        self.exceptions: list[Any] = []  # being handled, outermost first
        self.generators: list[Any] = []  # all that were made
        self.policy = policy  # which sizes of the inputs are left open
        self.described: set[Source] = set()  # members of classes, of which a CLASS guard says what they are
        self.sizes = OpenSizes(self)
        self.strict: dict[Any, tuple[Source, int]] = {}  # sizes that must stay open: the tensor and dimension
        # equal numbers under one name in an optimizer's state: the first place
        self.alike: dict[tuple[Source, Any, type, Any], Source] = {}
        self.scalars: dict[Source, TensorVariable] = {}  # numbers that are inputs of the graph
        # optimizers, and parameters that they update for the first time
        self.without_state: list[tuple[Any, Any]] = []
        self.draws: list[Draw] = []  # of random numbers, in order: builtins/random.py
        self.reversals: list[Any] = []  # arrays that NumPy has as views with negative strides
        self.breaks_here = False  # the residual code ends in a break: Python goes on with what it makes
        self.guard("GRAD_MODE", None, is_grad_enabled())
        self.guard("MODES", None, words_of(options.modes))

    def let_go(self) -> None:
        """The capture is over: no object of the program lives longer because it was looked at."""
        for frame in self.frames:
            frame.locals.clear()
            frame.stack.clear()
        empty_prototypes(self.prototypes)
        for held in "known kept generators exceptions mutated prototypes recipes".split():
            getattr(self, held).clear()
        self.effects = SideEffects()

    @contextmanager
    def having(self, **fields: Any) -> Iterator[None]:
        """These fields are others for a while."""
        before = {name: getattr(self, name) for name in fields}
        vars(self).update(fields)
        try:
            yield
        finally:
            vars(self).update(before)

    def in_inference(self, tensor: TensorVariable) -> bool:
        """Whether a result was made in inference mode: one of this frame, or one that the call is in."""
        always = self.options.modes["inference"]
        if tensor.node is None or not (always or self.inference):
            return False
        whole = self.memory_of(tensor.node)  # a view is what its base is, wherever it was made
        if always:
            return whole.op != "placeholder"
        return any(made.node is whole for made in self.inference)

    def memory_of(self, node: Node) -> Node:
        """The node that made the memory of this one, by way of views and detach()."""
        whole = whole_of(node.graph, node)
        while getattr(whole.target, "name", "") == "detach":
            whole = whole_of(node.graph, whole.args[0])
        return whole

    # ---- where we are ----------------------------------------------------------------------------

    def origin(self) -> Origin:
        """The expression under way in the user's innermost frame; in the library's if there is none."""
        innermost = None
        for frame in reversed(self.frames):  # most often the first is the user's
            if frame.current is not None:
                if is_users(frame.function.globals):
                    return frame.current.origin
                innermost = innermost or frame
        return innermost.current.origin if innermost else self.start

    def unsupported(self, code: str, reason: str) -> NoReturn:
        """Stop: the frame breaks here, for this reason."""
        innermost = self.frames[-1] if self.frames else None
        if innermost and not is_users(innermost.function.globals) and len(self.frames) > 1:
            reason = f"{reason} (in {innermost.function.name})"
            code = MODULES.get(str(innermost.function.globals.get("__name__", "")), code)
        raise Unsupported(reason, self.origin(), code=code)

    def begin_root_step(self) -> None:
        if self.root_steps == self.options.stop_at:
            raise Stopped
        self.root_steps += 1

    def count_step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise SkipFrame(
                f"more than {MAX_STEPS} instructions: loops are unrolled here", self.origin(), code="GB0036"
            )

    # ---- what we rely on -------------------------------------------------------------------------

    def guard(
        self,
        kind: str,
        source: Source | None,
        expected: Any,
        under_epoch: bool = False,
        origin: Origin | None = None,
    ) -> None:
        """Rely on a fact. A value without a source is the library's or was made here: nothing to check."""
        if source is None and kind not in ("GRAD_MODE", "MODES", "SHAPE"):
            return
        self.relied += source is not None
        if kind == "IDENTITY" and source in self.described:
            return
        if self.draws:
            self._known_without_drawing(source, expected)
        key = (kind, source, expected if isinstance(expected, Source) or type(expected) is str else None)
        if key not in self.guards:
            self.guards[key] = guard = Guard(kind, source, expected, origin or self.origin(), under_epoch)
            # an assumption on sizes has its origin, and was told when it was made
            if origin is None and self.is_watched():
                self.tell("guard", guard.expression())

    def is_watched(self) -> bool:
        """Whether a tool asks to be told of guards and symbols."""
        debug = config.current().debug
        return bool(debug.guard_added or debug.symbol_made)

    def tell(self, what: str, *spellings: str) -> None:
        """Record that a guard or a symbol was made: an event with the user's stack. `what` is "guard" or "symbol",
        and `spellings` are its texts. A listener sees the compiler's own stack, because it is called here."""
        stack = [frame.current.origin for frame in self.frames if frame.current is not None]
        events.record(
            "trace", what, origin=self.origin(), text=spellings[0], spellings=spellings, stack=stack
        )

    def guard_plain(self, source: Source, cls: type, name: str) -> None:
        """Rely on a class to lack a name, or to have a plain value there."""
        same = lacks(cls, name) or computes(cls, name)
        self._look_into(source, cls, (name,) if same else (), () if same else (name,))

    def guard_members(self, source: Source | None, cls: type, *names: str) -> None:
        """Rely on what a class has under these names, as it lies there."""
        self._look_into(source, cls, names, ())

    def _look_into(self, source: Source | None, cls: type, names: tuple, plain: tuple) -> None:
        """One guard for all of a class. A name that is to be the same is plain too."""
        known = self.guards.get(("CLASS", source, None))
        asked, before = (known.expected.names, known.expected.plain) if known else ((), ())
        names = tuple(dict.fromkeys((*asked, *names)))
        plain = tuple(name for name in dict.fromkeys((*before, *plain)) if name not in names)
        if source is not None and (names, plain) != (asked, before):
            self.guard("CLASS", source, None)
            known = self.guards["CLASS", source, None]
            facts = facts_of(cls, names, _may_change, plain)
            self.guards["CLASS", source, None] = replace(known, expected=facts)

    def _known_without_drawing(self, source: Source | None, expected: Any) -> None:
        """A guard cannot check what a random generator is going to give."""
        texts = [source.expression() if source else "", expected if isinstance(expected, str) else ""]
        if any("__drawn_" in text for text in texts):
            self.unsupported("GB0004", "the program looks at a number that random draws")

    def will_change(self, variable: Variable) -> None:
        """To be called before a write to a container, object or cell."""
        variable = variable.changed_one()
        if variable.trusted:
            self.unsupported("GB0092", "a change of the library's own state")
        self.must_be_new(variable)
        if self.effects.in_the_end and variable.source is not None:
            self.unsupported("GB0094", "a change after a schedule's step that runs code of yours")
        self.effects.will_change(variable)

    def store_global(self, module: dict, name: str, value: Variable) -> None:
        if self.follows_since is not None:
            self.unsupported("GB0093", "a side effect in a function that runs in the backward")
        self.effects.store_global(module, name, value)

    def must_be_new(self, variable: Variable) -> None:
        """In a function that runs in the backward, later: it may change nothing but what it made itself."""
        if self.follows_since is not None and (
            variable.source is not None or variable.born < self.follows_since
        ):
            self.unsupported("GB0093", "a side effect in a function that runs in the backward")

    # ---- what is computed ------------------------------------------------------------------------

    def node_of(self, tensor: TensorVariable) -> Node:
        """The node that yields a tensor; an input becomes a placeholder when something first reads it."""
        if self.taken is not None and (tensor.node is None or tensor.node.graph is not self.graph):
            if tensor not in self.taken:  # from around the function that is followed into a graph of its own
                self.taken[tensor] = self.graph.placeholder(f"taken_{len(self.taken)}", tensor.meta)
            return self.taken[tensor]
        if tensor.node is None:
            assert tensor.source is not None, "a tensor without a node must have a source"
            tensor.node = self.graph.placeholder(
                _placeholder_name(tensor.source), tensor.meta, source=tensor.source
            )
        return tensor.node

    def shadow_tape(self) -> ShadowTape:
        """Eager's tape over what the graph under way has so far."""
        shadow = self.shadows.setdefault(self.graph, ShadowTape())
        shadow.follow(self.graph)
        return shadow

    def is_spent(self, tensor: TensorVariable) -> str | None:
        """If a backward has freed what the tensor was computed from: the name of the operator that gave it."""
        if self.graph not in self.shadows or not tensor.meta.requires_grad:
            return None
        shadow = self.shadows[self.graph].shadow_of(self.graph, self.node_of(tensor))
        return shadow._grad_fn.name if shadow._grad_fn is not None and is_spent(shadow) else None

    def late_guards(self) -> tuple[Guard, ...]:
        """Guards for what was assumed of open sizes since this was last asked."""
        before = set(self.guards)
        self.sizes.add_guards()
        self.sizes.closed = True
        return tuple(guard for key, guard in self.guards.items() if key not in before)

    def kept_inputs(self) -> set[Source]:
        """Inputs that stay the same tensors while the structure epoch stands still."""
        return {g.source for g in self.guards.values() if g.kind == "TENSOR" and g.under_epoch and g.source}

    def node_of_size(self, number: NumberVariable) -> Node:
        """An open size as an input of the graph."""
        assert number.source is not None
        if self.taken is not None:
            return number.value  # in a function with a graph of its own it is fixed
        known = next((n for n in self.graph.placeholders if n.meta["source"] == number.source), None)
        name = _placeholder_name(number.source)
        return known or self.graph.placeholder(name, number.sym, source=number.source)

    def add_size_inputs(self) -> None:
        """Of a number like `-n` or `n // 2` nobody can tell n: each n that no tensor shows is an input of its own."""
        given = [node.val for node in self.graph.placeholders]
        exprs = {expression(number) for number in given if isinstance(number, SymInt)}
        shown = exprs | {s.symbol for s in symbol_bindings(given)}
        made_of = {symbol for expr in exprs for symbol in expr.free_symbols}
        for symbol in sorted((made_of - shown) & self.sizes.sources.keys(), key=str):
            source = self.sizes.sources[symbol]
            self.graph.placeholder(_placeholder_name(source), SymInt(symbol, self.sizes), source=source)


def is_library(module_globals: dict[str, Any]) -> bool:
    """Whether a function's globals are a module of stage 0 or the contracts, which nobody rebinds."""
    name = module_globals.get("__name__", "")
    return type(name) is str and _is_library(name)


def is_users(module_globals: dict[str, Any]) -> bool:
    """Whether a line is the user's to change: neither the library's nor Python's own, nor NumPy's."""
    return _is_users(str(module_globals.get("__name__", "")))


@cache
def _is_library(name: str) -> bool:
    return name.split(".")[0] in _LIBRARY and ".tests" not in name


@cache
def _is_users(name: str) -> bool:
    top = name.split(".")[0]
    if _is_library(name) or top in sys.stdlib_module_names:
        return False
    return top not in _NOT_THE_USERS or ".tests" in name


def is_library_class(cls: type) -> bool:
    """As is_library, of the module that a class says it is from. A class made without a module says none."""
    return is_library({"__name__": getattr(cls, "__module__", "")})


def is_users_class(cls: type) -> bool:
    """As is_users, of the module that a class says it is from."""
    return is_users({"__name__": getattr(cls, "__module__", "")})


def _may_change(cls: type) -> bool:
    """Whether a class may get another member: the library's are trusted, and those of C's do not change."""
    return made_by_python(cls) and not is_library_class(cls)


# The number of an object is another in each process: a name with it would hide that a graph is known to the cache.
_NUMBERED = re.compile(r"registered\(\d+\)")
_ARITHMETIC = re.compile(r" [-+*/]+ ")  # a number that Python computes before the graph
_NO_WORD = re.compile(r"[\W_]+")
_PATH = re.compile(r"[A-Za-z_]\w*(?:\.\w+|\[[^\]]*\])+")


def _last_word(path: re.Match[str]) -> str:
    """`opt.param_groups[0]['lr']` -> `lr`."""
    return [word for word in re.findall(r"\w+", path[0]) if not word.isdigit()][-1]


def _placeholder_name(source: Source) -> str:
    """`self.fc.weight` -> `fc_weight`, `1 - opt.defaults['lr']` -> `number_1_lr`: short, readable in the graph."""
    text = _NUMBERED.sub("tensor", str(source)).replace("._modules[", "[")
    text = _PATH.sub(_last_word, text) if _ARITHMETIC.search(text) else text
    parts = _NO_WORD.sub(" ", text).split()
    short = parts[1:] if parts[0] == "self" else parts
    name = "_".join(short if short and not short[0].isdigit() else parts)
    return name if name.isidentifier() else f"number_{name}"
