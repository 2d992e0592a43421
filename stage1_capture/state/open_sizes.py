"""The sizes of one capture that are left open: symbols, what was assumed of them, and the guards that say so.

Input: the policy of the call says which sizes to open; meta rules and comparisons of numbers then ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stage_contracts.size_text import python_text
from stage_contracts.source import Source
from stage_contracts.symbolic import ShapeEnv, SymInt
from stage_contracts.unbacked import answered, unbacked_in

if TYPE_CHECKING:
    from stage1_capture.state.graph_builder import OutputGraph
    from stage1_capture.variables.tensor import TensorVariable


class OpenSizes(ShapeEnv):
    """The sizes of one capture that are left open. Every assumption carries the user's line that forced it."""

    def __init__(self, output: OutputGraph) -> None:
        super().__init__()
        self.output = output
        self.closed = False  # the guards are made: nothing more may be assumed
        self.sources: dict[Any, Source] = {}  # symbol -> where its value is read
        self.texts: dict[Any, str] = {}  # of `text`
        self.makers: dict[Any, TensorVariable] = {}  # unbacked symbol -> the tensor that shows it

    def assume(self, condition: Any) -> bool:
        known = self.known(condition)
        if known is not None:
            return known
        if unbacked_in(self, condition):
            return answered(self, condition)
        if self.closed:
            raise RuntimeError(
                f"internal error: {condition} was asked after the guards were made; a stage must ask while it compiles"
            )
        self.origin = self.output.origin()
        before = len(self.assumptions)
        holds = super().assume(condition)
        if self.output.is_watched():
            for entry in self.assumptions[before:]:
                self.output.tell("guard", str(entry.condition), *self._as_python(entry.condition))
        return holds

    def _as_python(self, condition: Any) -> list[str]:
        try:
            return [self.text(condition)]
        except ValueError:  # no text over the arguments
            return []

    def dimension(self, name: str, hint: int | None, low: int = 0, high: int | None = None) -> SymInt:
        sym = super().dimension(name, hint, low, high)
        if self.output.is_watched():
            self.output.tell("symbol", name, f"{name} = {'of the data' if hint is None else hint}")
        return sym

    def open(
        self, source: Source, hint: int, name: str = "", low: int = 0, high: int | None = None
    ) -> SymInt:
        """The size read at `source`, as a symbol."""
        known = next((s for s, where in self.sources.items() if where == source), None)
        if known is not None:
            return SymInt(known, self)
        alike = next((s for s in self.sources if str(s) == name), None)
        if alike is not None and self.hints[alike] == hint:  # a name says that sizes are equal
            self.output.guard("SHAPE", None, f"{source.expression()} == {self.sources[alike].expression()}")
            return SymInt(alike, self)
        sym = self.dimension(name if name and alike is None else f"s{len(self.sources)}", hint, low, high)
        self.sources[sym.expr] = source
        if low > 0:
            self.output.guard("SHAPE", None, f"{source.expression()} >= {low}")
        if high is not None:
            self.output.guard("SHAPE", None, f"{source.expression()} <= {high}")
        return sym

    def unbacked(self, made_by: str, low: int | None = None) -> SymInt:
        """A new symbol for a number that only the data knows; `low`: its least value, if one is certain."""
        name = f"u{len(self.made_at)}"
        sym = self.dimension(name, None, -(2**63) if low is None else low)
        self.made_at[sym.expr] = made_by
        return sym

    def text(self, expr: Any) -> str:
        """A size, or a relation of sizes, as Python over the arguments; ValueError if there is no text."""
        found = self.texts.get(expr)
        if found is None:
            found = self.texts[expr] = python_text(expr, lambda symbol: self.sources[symbol].expression())
        return found

    def add_guards(self) -> None:
        """The assumptions as guards, each with the line that made it."""
        for entry in self.assumptions:
            if unbacked_in(self, entry.condition):  # the graph checks it
                continue
            try:
                texts = [self.text(entry.condition)]
            except ValueError:  # it holds at least for the sizes of this call
                symbols = sorted(entry.condition.free_symbols, key=str)
                texts = [f"{self.sources[s].expression()} == {self.hints[s]}" for s in symbols]
            for text in texts:
                self.output.guard("SHAPE", None, text, origin=entry.origin)
