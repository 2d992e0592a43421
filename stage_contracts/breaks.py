"""Why capture stopped: GraphBreak (a report), Unsupported (an exception), and the catalogue of codes.

Input: capture and the tiny stages raise or record these. Each code has one page in the site's catalogue.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from stage_contracts.origin import Origin

# Code: what was met (a title that fits after "graph break GB0003"), and what to do about it.
CATALOGUE: dict[str, tuple[str, str]] = {
    "GB0001": ("a construct the capturer does not handle", "move it out of the compiled function"),
    "GB0002": ("a call that cannot be captured", "call it outside, or register it as an operator"),
    "GB0003": ("a branch on a tensor's data", "use cutaway.where, which computes both sides"),
    "GB0004": (
        "a tensor's data read into Python (item, float, numpy)",
        "keep the value a tensor, or read it outside",
    ),
    "GB0005": (
        "a kind of argument that cannot be guarded",
        "pass tensors, modules, numbers, or containers of them",
    ),
    "GB0006": (
        "a side effect on an object from outside",
        "return the value instead and store it in the caller",
    ),
    "GB0007": ("an unknown Python version", "use CPython 3.11, 3.12 or 3.13"),
    "GB0008": (
        "a write or a constant that a graph without writes cannot express",
        "compute a new tensor instead of writing into an old one",
    ),
    "GB0009": ("an exception that leaves the frame", "catch it inside the compiled function"),
    "GB0010": ("an iterator from outside", "pass the container itself"),
    "GB0011": (
        "an open size where compiled code needs a number",
        "nothing: the call is compiled for its own sizes; mark_static says so from the start",
    ),
    "GB0012": (
        "a backend that failed, with suppress_errors on",
        "set suppress_errors to False to see where it was raised",
    ),
    "GB0013": (
        "random numbers inside a branch, a loop or a derivative of one's own",
        "draw them outside and pass them as operands",
    ),
    "GB0014": (
        "a result whose size depends on the data",
        "keep the full size: cutaway.where(mask, x, 0), or a product with the mask",
    ),
    "GB0015": (
        "an operator without a derivative",
        "call it under no_grad, or on detach() of what requires grad",
    ),
    "GB0020": (
        "a call that the program keeps out of graphs",
        "lift disable or disallow_in_graph where you can",
    ),
    "GB0021": ("a break that the program asks for", "remove the call of graph_break()"),
    "GB0022": (
        "an attribute that only Python can look up",
        "read it outside and pass what it gives, or store a plain value",
    ),
    "GB0023": (
        "an object that only Python can make",
        "make it outside and pass it, or leave __new__ and __del__ out of its class",
    ),
    "GB0024": (
        "a gradient that the graph cannot hold",
        "return the loss, and call backward or autograd.grad outside",
    ),
    "GB0025": ("a hook that the graph cannot hold", "register it outside the compiled function"),
    "GB0026": (
        "an autograd Function that the graph cannot hold",
        "return new tensors from forward, and a gradient for each argument from backward",
    ),
    "GB0027": (
        "random numbers that the graph does not draw",
        "draw with cutaway.rand and its kin, whose numbers are part of the graph, or pass the number in",
    ),
    "GB0028": ("a copy that only Python can make", "copy it outside, or make a new object of its parts"),
    "GB0029": (
        "the text of an object that only Python can write",
        "write the text outside, or of the object's parts",
    ),
    "GB0030": (
        "a part of NumPy that runs in NumPy",
        "use the functions that the page on NumPy programs lists, on arrays of numbers",
    ),
}


@dataclass(frozen=True)
class GraphBreak:
    """One break: a stable code of CATALOGUE, what was seen there, the user's place, what to do.

    error: it happened where error_on_graph_break(True) holds, so it is an error whatever compile() was told.
    """

    code: str
    reason: str
    origin: Origin | None = None
    hint: str = ""
    error: bool = False

    def __post_init__(self) -> None:
        if self.code not in CATALOGUE:
            raise ValueError(f"unknown graph break code {self.code!r}")

    @property
    def page(self) -> str:
        """Where the site explains this code, relative to its root."""
        return f"breaks/#{self.code.lower()}"

    @property
    def user_stack(self) -> list[traceback.FrameSummary]:
        """The user's place as torch's reasons have it: a list of one frame, empty where the place is unknown."""
        at = self.origin
        return [traceback.FrameSummary(at.file, at.line, "<user code>")] if at else []

    def __str__(self) -> str:
        title, hint = CATALOGUE[self.code]
        lines = [f"graph break {self.code} ({title}): {self.reason}"]
        if self.origin:
            lines.append(self.origin.caret())
        return "\n".join([*lines, f"  hint: {self.hint or hint}"])


class Unsupported(RuntimeError):
    """A stage met a construct it does not handle. Carries the GraphBreak that describes it.

    `Unsupported("a while loop", origin)`; with `fullgraph=True` it reaches the user, otherwise the frame
    falls back to eager and the break is recorded.
    """

    def __init__(
        self, construct: str, origin: Origin | None = None, *, code: str = "GB0001", hint: str = ""
    ) -> None:
        self.construct, self.origin = construct, origin
        self.graph_break = GraphBreak(code, construct, origin, hint)
        super().__init__(str(self.graph_break))
