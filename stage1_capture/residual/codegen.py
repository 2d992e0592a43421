"""residualize: the code that runs in place of the user's function, as Python source and as a code object.

Input: what the frame returns, or where it broke, and the finished graph. The text gathers the graph's inputs by
their sources, calls the compiled graph, makes the objects that live on, replays the side effects, and returns
(or calls the break function); its parameters and free variables are the user's own. Parameters of modules are the same
tensors for as long as the structure epoch stands still, so they are read once and kept beside the epoch.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import Any

from stage0_eager import is_grad_enabled, set_grad_enabled
from stage0_eager.nn.module import structure_epoch
from stage0_eager.state import set_modes
from stage1_capture.higher_order.subgraph import check_followed
from stage1_capture.residual.mutation_guards import guard_mutation
from stage1_capture.residual.rebuild import Rebuilder
from stage1_capture.residual.replay import replay
from stage1_capture.state.graph_builder import OutputGraph, Restart
from stage1_capture.state.prototypes import of_a_prototype
from stage1_capture.state.side_effects import DELETED
from stage1_capture.variables.base import Variable
from stage_contracts.capture import CapturedFrame
from stage_contracts.controls import registered
from stage_contracts.generated_code import code_of
from stage_contracts.guard_text import past_parameters, without_numbers
from stage_contracts.signature import fresh_name, signature_text
from stage_contracts.source import AttrSource, CallSource, ClosureSource, ItemSource, Source, WatchedSource


def residualize(
    output: OutputGraph,
    function: types.FunctionType,
    values: list[Variable | None],
    finish: Callable[[list[str]], str],
    resume: Any,
) -> tuple[str, types.CodeType, dict[str, Any]]:
    """The residual function's source, its code, and the globals it needs. It ends in `finish` of what makes `values`.

    resume: breaks/resume.py, which makes generators and tracebacks that stand in the middle of a function.
    """
    check_followed(output)
    guard_mutation(output)
    codegen = PyCodegen(output, function, resume)
    return *codegen.generate(values, finish), codegen.globals


class PyCodegen:
    """Writes the residual function of one capture. Named as in Dynamo, which writes bytecode here."""

    def __init__(self, output: OutputGraph, function: types.FunctionType, resume: Any) -> None:
        self.output, self.function, self.resume = output, function, resume
        self.globals: dict[str, Any] = {}
        self.reads: list[str] = []  # values from outside, read before anything changes them
        self.read: dict[str, str] = {}
        taken = {*function.__code__.co_varnames, *function.__code__.co_freevars}
        self.name_of: Callable[[str], str] = lambda base: fresh_name(base, taken)
        self.claim: Callable[[str], None] = taken.add

    def generate(
        self, values: list[Variable | None], finish: Callable[[list[str]], str]
    ) -> tuple[str, types.CodeType]:
        self._draw()
        rebuilder = Rebuilder(self)
        effects = self.output.effects
        rebuilder.count([v for v in values if v is not None])
        for before in effects.changed.values():
            rebuilder.count_contents(before.variable)
        rebuilder.count([value for _, value in effects.globals.values() if value is not DELETED])
        rebuilder.count([*effects.hooks])
        for _, _, args, kwargs in effects.calls:
            rebuilder.count([*args, *kwargs.values()])
        words = [rebuilder.expression(v) if v is not None else "None" for v in values]
        lines = replay(self, rebuilder, effects)
        at_call, graph_state, after = self._states()
        body = self._switch(at_call, graph_state)
        lines += self._switch(graph_state, after)
        if self.output.graph.has_calls:
            self.output.add_size_inputs()
            self.output.graph.output(list(rebuilder.outputs))
            sources = [n.meta["source"] for n in self.output.graph.placeholders]
            first, arguments, needed = gather(sources, self.output.kept_inputs(), self._path, self.name_of)
            body += first
            self.globals |= needed
            call = f"{CapturedFrame.graph_name}({arguments})"
            body += self._restoring(
                f"{rebuilder.outputs_name} = {call}" if rebuilder.outputs else call,
                self._switch(graph_state, at_call),
            )
        self._keep_generators(rebuilder)
        last = finish(words)
        signature, bound = signature_text(self.function)
        name = self.function.__name__ if self.function.__name__.isidentifier() else "residual"
        written = [f"def {name}({signature}):", *self.reads, *body, *rebuilder.lines, *lines, last]
        text = "\n    ".join(written) + "\n"
        same_everywhere, numbers = without_numbers(text)
        self.globals |= numbers
        return text, _compile(same_everywhere, name, self.function, bound)

    def _draw(self) -> None:
        """Random numbers, in the program's order, before anything that is made of them is read."""
        for draw in self.output.draws:
            if draw.bound:
                method = self.named(draw.generator.real)
            else:
                assert draw.generator.source is not None
                method = f"{self.source(draw.generator.source, early=True)}.{draw.method}"
            words = [self.source(v.source, early=True) if v.source is not None else self._literal(v.value)
                     for v in draw.values]  # fmt: skip
            self.reads.append(f"{draw.name} = {method}({', '.join(words)})")

    def _literal(self, value: Any) -> str:
        return repr(value) if type(value) in (int, str) else self.named(value)

    def _states(self) -> tuple[dict[str, Any], ...]:
        """The state of the thread at the call, while the graph runs, and after the frame."""
        output = self.output
        at_call, now = output.options.modes, output.modes
        for_graph = {**at_call, **({"autocast": ()} if output.graph.has_calls else {})}  # its casts are in it
        return (
            {"grad_enabled": is_grad_enabled(), **at_call},
            {"grad_enabled": output.graph_mode, **for_graph},
            {"grad_enabled": output.grad_enabled, **now},
        )

    def _switch(self, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
        """The line that brings the thread from one state to another, if they differ."""
        changed = {name: value for name, value in new.items() if value != old[name]}
        if set(changed) == {"grad_enabled"}:
            return [f"{self.named(set_grad_enabled)}({changed['grad_enabled']})"]
        words = [f"{name}={self._constant(value)}" for name, value in changed.items()]
        return [f"{self.named(set_modes)}({', '.join(words)})"] if words else []

    def _constant(self, value: Any) -> str:
        return repr(value) if isinstance(value, bool) or value == () else self.named(value)

    def _restoring(self, call: str, restore: list[str]) -> list[str]:
        """The graph's call; when it raises, the program's blocks have put back the state."""
        if not restore:
            return [call]
        return [
            "try:",
            f"    {call}",
            "except BaseException:",
            *(f"    {line}" for line in restore),
            "    raise",
        ]

    def _keep_generators(self, rebuilder: Rebuilder) -> None:
        """A generator that is dropped runs the ends of its blocks: then Python must make it."""
        dropped = {g.frame.function.code for g in self.output.generators if g.inside_a_block()
                   and id(g) not in rebuilder.names}  # fmt: skip
        if dropped:
            options = self.output.options
            raise Restart(replace(options, stop_at=None, dropped=options.dropped | dropped))

    def source(self, source: Source, early: bool = False) -> str:
        """How residual code reaches a value from outside. Where something changes it is read before."""
        text = self._path(source)
        if text.isidentifier() or not (early or self.output.effects):
            return text
        if text not in self.read:
            name = self.read[text] = self.name_of(f"read_{len(self.read)}")
            self.reads.append(f"{name} = {text}")
        return self.read[text]

    def _path(self, source: Source) -> str:
        """As guards reach it, but closures by their own names."""
        match source:
            case ClosureSource(name=name):
                return name
            case WatchedSource(base=base):
                return self._path(base)
            case AttrSource(base=WatchedSource()):
                self.globals["registered"] = registered
                return source.written(self._read(source.base))
            case AttrSource(base=base, name=name):
                return f"{self._read(base)}.{name}"
            case ItemSource(base=base, key=key):
                return f"{self._read(base)}[{key!r}]"
            case CallSource(base=base):
                return f"{self._path(base)}({', '.join(source.words(self._path))})"
        text = past_parameters(source.expression(), signature_text(self.function)[0], self.globals)
        for name, value in {"__function__": self.function, "registered": registered}.items():
            if name in text:  # an expression of several sources may hold them too
                self.globals[name] = value
        return text

    def _read(self, source: Source) -> str:
        """The name of a value that was read before, or the expression that reaches it."""
        text = self._path(source)
        return self.read.get(text, text)

    def named(self, value: Any) -> str:
        """A name for an object that the text cannot spell: a global of the residual code."""
        if of_a_prototype(value):
            self.output.unsupported("GB0053", "returning what is made of a class of the frame")
        for name, known in self.globals.items():
            if known is value:
                return name
        name = self.name_of(f"__constant_{len(self.globals)}")
        self.globals[name] = value
        return name


def _compile(text: str, name: str, function: types.FunctionType, bound: dict[str, Any]) -> types.CodeType:
    """The code object of `text`, compiled inside a function that has the free variables as its locals."""
    free = function.__code__.co_freevars
    defaults = [n for n in bound if n.startswith("__default_")]
    inner = "\n".join("    " + line for line in text.splitlines())
    wrapped = f"def __outer__({', '.join((*free, *defaults))}):\n{inner}\n    return {name}\n"
    module = code_of(wrapped, f"<cutaway residual {function.__qualname__}>")
    outer = next(c for c in module.co_consts if isinstance(c, types.CodeType))
    return next(c for c in outer.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


FEW = 2  # fewer kept parameters than this are read each time


def gather(
    sources: list[Source], kept: set[Source], text_of: Callable[[Source], str], name_of: Callable[[str], str]
) -> tuple[list[str], str, dict[str, Any]]:
    """(lines to run first, the arguments of the graph's call, globals that these need).

    With an input and two parameters: `graph(*(x,) + kept[1])`, where `kept` is read again when the epoch moved. The
    list holds one tuple that is replaced as a whole, so that threads see the epoch and what was read at it together.
    """
    if sum(source in kept for source in sources) < FEW:
        return [], ", ".join(map(text_of, sources)), {}
    epoch, store, runs = (name_of(base) for base in ("module_epoch", "parameters", "kept"))
    words: list[str] = []
    gathered: list[str] = []
    groups = [(is_kept, [*map(text_of, group)]) for is_kept, group in groupby(sources, key=kept.__contains__)]
    runs_of_kept = [texts for is_kept, texts in groups if is_kept]
    alone = len(runs_of_kept) * 2 > sum(map(len, runs_of_kept))
    if alone:  # as an optimizer's, each between its gradient and its state: tuples would gain nothing
        groups = [(is_kept, [text]) for is_kept, texts in groups for text in texts]
    for is_kept, texts in groups:
        text = texts[0] if alone else f"({', '.join(texts)},)"
        if is_kept:
            gathered.append(text)
            text = f"{runs}[{len(gathered)}]"
        words.append(text)
    lines = [
        f"{runs} = {store}[0]",
        f"if {runs}[0] != {epoch}():",
        f"    {runs} = {store}[0] = ({epoch}(), {', '.join(gathered)})",
    ]
    # one concatenation of tuples: with `f(x, *kept)` Python would copy a thousand parameters twice
    arguments = ", ".join(words) if alone else f"*{' + '.join(words)}"
    return lines, arguments, {epoch: structure_epoch, store: [(-1,)]}
