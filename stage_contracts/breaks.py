"""Why capture stopped: GraphBreak (a report), Unsupported (an exception), and the catalogue of codes.

Input: capture and the tiny stages raise or record these. Each code has one page in the site's catalogue.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from stage_contracts.messages import say
from stage_contracts.origin import Origin

# Code: what was met (a title that fits after "graph break GB0003"), and what to do about it.
CATALOGUE: dict[str, tuple[str, str]] = {
    "GB0001": (
        "a statement that capture has no rule for",
        "write it with other statements, or move it into a function that is not compiled",
    ),
    "GB0002": (
        "a call of a function that capture cannot look into",
        "call it outside, or register it as an operator",
    ),
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
        "an assignment to an attribute of a built-in object",
        "return the value, and store it in the caller",
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
        "random numbers inside a branch, a loop or a user-defined derivative",
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
        "an attribute of a built-in object that capture has no rule for",
        "read it outside and pass the value",
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
        "draw with cutaway.rand and the like, whose numbers are part of the graph, or pass the number in",
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
    "GB0031": (
        "a coroutine or an async generator",
        "await it outside, and compile the functions that it calls",
    ),
    "GB0032": ("a generator that is left inside its try or with block", "walk it to its end"),
    "GB0033": (
        "a send or a throw that `yield from` passes on",
        "loop over the inner iterator, and yield its items one by one",
    ),
    "GB0035": ("calls inside each other beyond the limit", "write the recursion as a loop"),
    "GB0036": (
        "a loop with too many steps to unroll",
        "use cutaway.while_loop or scan, or compile the body of the loop alone",
    ),
    "GB0037": ("an exception from before a break", "avoid the break inside the except block"),
    "GB0038": (
        "an operator that capture cannot apply to these values",
        "convert both to tensors, numbers or containers first",
    ),
    "GB0039": (
        "a loop over something that capture cannot iterate",
        "make a list of it outside, and pass that",
    ),
    "GB0040": (
        "an item of, or a search in, something that capture cannot index",
        "make a list or a dict of it outside, and pass that",
    ),
    "GB0041": (
        "a with block over something that is not a context manager",
        "give it an object whose class has __enter__ and __exit__",
    ),
    "GB0042": ("a ** of something that is not a dict", "make a dict of it first, and unpack that"),
    "GB0043": ("a pattern of match that capture cannot test", "write the test with if and isinstance"),
    "GB0044": (
        "a value that must be known while the function is compiled",
        "pass a plain number or string there",
    ),
    "GB0045": (
        "a special method that returns what Python must check",
        "return a plain number, string or bool from it",
    ),
    "GB0046": (
        "the identity of a value that compiled code makes anew",
        "compare with == instead of `is` and id()",
    ),
    "GB0047": ("a test of a class that only Python can decide", "test with isinstance for a plain class"),
    "GB0048": (
        "the class of a value that capture models by another",
        "test with isinstance, or ask for the class outside",
    ),
    "GB0049": (
        "a super() on something that is not an object of the class",
        "call the method by its class: Base.method(self)",
    ),
    "GB0050": (
        "a tensor's place on the tape (grad_fn, is_leaf) or its raw data",
        "read it outside, or use detach() for the values",
    ),
    "GB0051": (
        "an attribute of an object whose __dict__ the program changed",
        "set the attribute on the object: obj.name = value",
    ),
    "GB0052": (
        "an object whose class has a __getattribute__",
        "pass what you need of it, or define __getattr__ instead",
    ),
    "GB0053": (
        "a result that compiled code cannot make again",
        "return tensors, numbers, and containers of them",
    ),
    "GB0054": (
        "an object with a __del__ that is dropped",
        "keep it in the caller until the compiled call is over",
    ),
    "GB0055": ("an import that would run a module", "import it at the top of the file"),
    "GB0056": ("a class statement that only Python can run", "define the class outside"),
    "GB0057": (
        "a property or a method wrapper that capture cannot make",
        "make it outside, or of plain functions and without a doc",
    ),
    "GB0058": ("a key whose class computes its hash", "use a string, a number or a tuple of them as the key"),
    "GB0059": (
        "a cached function whose answer the cache cannot give ahead",
        "call the function behind the cache: f.__wrapped__",
    ),
    "GB0060": (
        "a call that prints, logs or warns",
        "move it behind the compiled call, or under `if not compiler.is_compiling():`",
    ),
    "GB0061": (
        "a call that opens a file or waits for input",
        "read the file before, and pass in what it holds",
    ),
    "GB0062": (
        "a call that reads the clock, or waits",
        "take the time around the compiled call: inside, the clock would be read once, while it is compiled",
    ),
    "GB0063": (
        "a call that looks at the frame, or runs text as code",
        "give the function what it needs as an argument: compiled code has no frame of its own to look at",
    ),
    "GB0064": ("a collection of garbage", "collect before or after the compiled call"),
    "GB0065": (
        "a call that does not fit the function's parameters",
        "fix the call: run without compile it raises a TypeError",
    ),
    "GB0066": ("a call that raises an error", "fix the call: run without compile it raises this error"),
    "GB0067": (
        "an `out` that does not fit the result",
        "give an `out` of the result's shape and dtype that does not require grad",
    ),
    "GB0068": (
        "an option that the function does not have in a graph",
        "leave the option out, or compute what it means with other functions",
    ),
    "GB0069": (
        "an argument of a kind that the function does not take in a graph",
        "pass tensors, numbers, and containers of them",
    ),
    "GB0070": (
        "a tensor of inference mode, used outside of it",
        "use it under inference_mode, or make it under no_grad instead",
    ),
    "GB0071": ("a method that capture has no rule for", "call it outside, and pass what it returns"),
    "GB0072": (
        "a walk over modules that the class defines for itself",
        "leave named_modules and the registries as Module has them",
    ),
    "GB0073": (
        "a functional_call of a module with tied parameters",
        "give each parameter a name of its own, or call it outside",
    ),
    "GB0074": (
        "a step of a schedule that the function made",
        "make the schedule outside, and call its step inside or outside",
    ),
    "GB0075": (
        "an operand or a result of a followed function that is not a tensor",
        "pass and return tensors, or tuples, lists and dicts of them",
    ),
    "GB0076": (
        "a cond on a predicate of several elements",
        "reduce the predicate to one element with all() or any()",
    ),
    "GB0077": (
        "functions of cond, while_loop or scan that do not return what is expected",
        "return as many tensors, of the same shapes and dtypes",
    ),
    "GB0078": ("a while_loop whose condition is not one boolean", "return one boolean from cond_fn"),
    "GB0079": (
        "a scan or map over tensors without one common length",
        "give tensors of one length, at least 1, along the dimension",
    ),
    "GB0080": ("a scan whose combine_fn does not return a pair", "return the pair (carry, y)"),
    "GB0081": (
        "an assumed constant that is not a plain value",
        "return a number, a string, or a tuple, list or dict of them",
    ),
    "GB0082": (
        "a leaf of the tape that the function makes",
        "make the leaf outside of the compiled function, and pass it",
    ),
    "GB0083": ("a retain_grad of a value computed inside", "return the value, and use autograd.grad outside"),
    "GB0084": ("an autograd Function that returns an argument as it is", "return x.view_as(x)"),
    "GB0085": (
        "a loop that goes on after a break inside it",
        "avoid the break inside the loop, and all of the loop is captured",
    ),
    "GB0086": (
        "a backward through what was computed outside",
        "compile the function that computes it too, or call backward outside",
    ),
    "GB0087": ("a read of what a schedule's step changes, after the step", "read it before the step"),
    "GB0088": ("a write to an input of a function of cond, scan or vmap", "write to a clone of it"),
    "GB0089": (
        "a step that this launch does not run",
        "launch it with stage4_runtime.runtime:launch, on one stream",
    ),
    "GB0090": (
        "an in-place write to a tensor that requires grad, or to a view that the tape follows",
        "compute a new tensor, or write under no_grad",
    ),
    "GB0091": (
        "a call that changes what a tensor is (requires_grad_, set_, detach_)",
        "make this call outside, before the compiled function",
    ),
    "GB0092": ("a change of the library's own state", "change it before the compiled call"),
    "GB0093": (
        "a side effect inside a function that becomes a graph of its own",
        "return the value from that function instead of storing it",
    ),
    "GB0094": (
        "a change beside a schedule's step",
        "call the step outside, or change the schedule and its optimizer there",
    ),
    "GB0095": (
        "a value that a hook or a backward reads, changed after the call",
        "give the hook a value that the function does not change",
    ),
    "GB0096": ("the removal of a hook from outside", "call remove() outside"),
    "GB0097": ("a pop from a set from outside", "pass a list, which has an order"),
    "GB0098": (
        "a property or a descriptor that only Python can call",
        "read or set it outside, or write it as a property with a plain function",
    ),
    "GB0099": (
        "a name that a module computes in its __getattr__",
        "import the name itself at the top of the file",
    ),
    "GB0100": (
        "an assignment to, or a del of, an item of something that is not a container",
        "convert it to a list or a dict first, and change that",
    ),
    "GB0101": (
        "an assignment to an attribute of a tensor",
        "set it outside the compiled function, or use copy_() to change the tensor's values",
    ),
    "GB0102": (
        "a change of a class or a module that compiled code cannot make",
        "change it before the compiled call, or store the value on an object",
    ),
    "GB0103": (
        "a __setattr__ or a __delattr__ that is not a Python function",
        "define it with def in the class",
    ),
    "GB0104": (
        "an empty slot of a class with a __getattr__",
        "give the slot a value in __init__",
    ),
    "GB0105": (
        "an attribute that a class gets from its metaclass",
        "define the attribute in the class itself",
    ),
    "GB0106": (
        "a field of a named tuple that the program replaced in its class",
        "leave the field as it is, and give your attribute another name",
    ),
}


@dataclass(frozen=True)
class GraphBreak:
    """One break: a stable code of CATALOGUE, what was seen there, the user's place.

    error: it happened where error_on_graph_break(True) holds, so it is an error whatever compile() was told.
    """

    code: str
    reason: str
    origin: Origin | None = None
    error: bool = False

    def __post_init__(self) -> None:
        if self.code not in CATALOGUE:
            raise ValueError(f"unknown graph break code {self.code!r}")

    @property
    def hint(self) -> str:
        """What to do: the catalogue's one answer to this code."""
        return CATALOGUE[self.code][1]

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
        title = CATALOGUE[self.code][0]
        lines = [say("graph_break", code=self.code, title=title, reason=self.reason)]
        if self.origin:
            lines.append(self.origin.caret())
        return "\n".join([*lines, f"  hint: {self.hint}"])


class Unsupported(RuntimeError):
    """A stage met a construct it does not handle. Carries the GraphBreak that describes it.

    `Unsupported("a while loop", origin, code="GB0036")`; with `fullgraph=True` it reaches the user, otherwise the frame
    falls back to eager and the break is recorded.
    """

    def __init__(self, construct: str, origin: Origin | None = None, *, code: str) -> None:
        self.construct, self.origin = construct, origin
        self.graph_break = GraphBreak(code, construct, origin)
        super().__init__(str(self.graph_break))
