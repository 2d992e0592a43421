"""Why capture stopped: GraphBreak (a report), Unsupported (an exception), and the catalogue of codes.

Input: capture and the tiny stages raise or record these. The site's catalogue has a section for each code.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from stage_contracts.messages import say
from stage_contracts.origin import Origin

# Code: the cause (a title that fits after "graph break GB0003"), and what to do about it.
CATALOGUE: dict[str, tuple[str, str]] = {
    "GB0001": (
        "a statement that capture has no rule for",
        "use other statements, or move it into a function that is not compiled",
    ),
    "GB0002": (
        "a call of a function that capture cannot look into",
        "call it outside the compiled function, or register it as an operator",
    ),
    "GB0003": ("a branch on a tensor's data", "use cutaway.where, which computes both sides"),
    "GB0004": (
        "a tensor's data read into Python (item, float, numpy)",
        "keep the value as a tensor, or read it outside; or set capture_scalar_outputs",
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
        "nothing: the call is compiled for its own sizes; to get this from the first call, use mark_static",
    ),
    "GB0012": (
        "a backend that failed, with suppress_errors on",
        "set suppress_errors to False to see the traceback",
    ),
    "GB0013": (
        "random numbers inside a branch, a loop or a user-defined derivative",
        "draw them outside and pass them as operands",
    ),
    "GB0014": (
        "a result whose size depends on the data",
        "keep the full size: use cutaway.where(mask, x, 0), or multiply by the mask; or set "
        "capture_dynamic_output_shape_ops",
    ),
    "GB0015": (
        "an operator without a derivative",
        "call it under no_grad, or call detach() on the tensors that require grad",
    ),
    "GB0016": (
        "a question about a number that only the data knows",
        "check the answer before with torch._check, or compute both sides with cutaway.where",
    ),
    "GB0020": (
        "a call that disable or disallow_in_graph keeps out of graphs",
        "remove disable or disallow_in_graph if you can",
    ),
    "GB0021": ("a break that your code requests", "remove the call of graph_break()"),
    "GB0022": (
        "an attribute of a built-in object that capture has no rule for",
        "read it outside and pass the value",
    ),
    "GB0023": (
        "an object that capture cannot construct",
        "construct it outside and pass it, or remove __new__ and __del__ from its class",
    ),
    "GB0024": (
        "a gradient that the graph cannot compute",
        "return the loss, and call backward or autograd.grad outside",
    ),
    "GB0025": ("a hook that cannot be part of the graph", "register it outside the compiled function"),
    "GB0026": (
        "an autograd Function that cannot be part of the graph",
        "return new tensors from forward, and a gradient for each argument from backward",
    ),
    "GB0027": (
        "random numbers from outside Cutaway",
        "draw them with cutaway.rand and the like, which are part of the graph, or pass the number in",
    ),
    "GB0028": ("an object that capture cannot copy", "copy it outside, or make a new object from its parts"),
    "GB0029": (
        "the text of an object that capture cannot format",
        "format the object outside, or format its parts",
    ),
    "GB0030": (
        "a NumPy call that is not captured",
        "use the functions listed on the page about NumPy programs, on arrays of numbers",
    ),
    "GB0031": (
        "a coroutine or an async generator",
        "await it outside, and compile the functions that it calls",
    ),
    "GB0032": ("a generator that is left inside its try or with block", "iterate over it to the end"),
    "GB0033": (
        "a send or a throw that `yield from` passes on",
        "loop over the inner iterator, and yield its items one by one",
    ),
    "GB0035": ("calls nested deeper than the limit", "write the recursion as a loop"),
    "GB0036": (
        "a loop with too many steps to unroll",
        "use cutaway.while_loop or scan, or compile only the body of the loop",
    ),
    "GB0037": ("an exception from before a break", "avoid the break inside the except block"),
    "GB0038": (
        "an operator that capture cannot apply to these values",
        "convert both to tensors, numbers or containers first",
    ),
    "GB0039": (
        "a loop over something that capture cannot iterate",
        "convert it to a list outside, and pass that",
    ),
    "GB0040": (
        "an item of, or a search in, something that capture cannot index",
        "convert it to a list or a dict outside, and pass that",
    ),
    "GB0041": (
        "a with block over something that is not a context manager",
        "use an object whose class has __enter__ and __exit__",
    ),
    "GB0042": ("a ** of something that is not a dict", "convert it to a dict first, and unpack that"),
    "GB0043": ("a pattern of match that capture cannot test", "write the test with if and isinstance"),
    "GB0044": (
        "a value that must be known at compile time",
        "pass a plain number or string",
    ),
    "GB0045": (
        "a special method with a result that Python must check",
        "return a plain number, string or bool from it",
    ),
    "GB0046": (
        "the identity of a value that compiled code creates again",
        "compare with == instead of `is` and id()",
    ),
    "GB0047": ("a class test that capture cannot decide", "use isinstance with a plain class"),
    "GB0048": (
        "the class of a value that capture represents by another class",
        "use isinstance, or get the class outside",
    ),
    "GB0049": (
        "a super() on something that is not an object of the class",
        "call the method through its class: Base.method(self)",
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
        "an object whose class has a __getattribute__ that does more than rename",
        "pass the attributes that you need, or define __getattr__ instead",
    ),
    "GB0053": (
        "a result that compiled code cannot construct",
        "return tensors, numbers, and containers of them",
    ),
    "GB0054": (
        "an object with a __del__ that is dropped",
        "keep it in the caller until the compiled call returns",
    ),
    "GB0055": ("an import that would execute a module", "import it at the top of the file"),
    "GB0056": ("a class statement that capture cannot follow", "define the class outside"),
    "GB0057": (
        "a property or a method wrapper that capture cannot create",
        "create it outside, or from plain functions without a doc argument",
    ),
    "GB0058": ("a key whose class computes its hash", "use a string, a number or a tuple of them as the key"),
    "GB0059": (
        "a cached function with a result that is not known at compile time",
        "call the function behind the cache: f.__wrapped__",
    ),
    "GB0060": (
        "a call that prints, logs or warns",
        "move it after the compiled call, or under `if not compiler.is_compiling():`",
    ),
    "GB0061": (
        "a call that opens a file or waits for input",
        "read the file before the call, and pass in its contents",
    ),
    "GB0062": (
        "a call that reads the clock, or waits",
        "measure the time around the compiled call: inside, the clock would be read once, at compile time",
    ),
    "GB0063": (
        "a call that looks at the frame, or runs text as code",
        "pass the function what it needs as an argument: compiled code has no frame to look at",
    ),
    "GB0064": ("a garbage collection", "collect garbage before or after the compiled call"),
    "GB0065": (
        "a call that does not fit the function's parameters",
        "fix the call: without compile it raises a TypeError",
    ),
    "GB0066": ("a call that raises an error", "fix the call: without compile it raises the same error"),
    "GB0067": (
        "an `out` that does not fit the result",
        "pass an `out` with the result's shape and dtype that does not require grad",
    ),
    "GB0068": (
        "an option that the function does not have in a graph",
        "leave the option out, or get the same effect with other functions",
    ),
    "GB0069": (
        "an argument of a kind that the function does not accept in a graph",
        "pass tensors, numbers, and containers of them",
    ),
    "GB0070": (
        "a tensor from inference mode, used outside of it",
        "use it under inference_mode, or create it under no_grad instead",
    ),
    "GB0071": ("a method that capture has no rule for", "call it outside, and pass what it returns"),
    "GB0072": (
        "a module class with its own way to list submodules",
        "do not override named_modules or the registries of Module",
    ),
    "GB0073": (
        "a functional_call of a module with tied parameters",
        "give each parameter its own name, or call it outside",
    ),
    "GB0074": (
        "a step of a schedule that the function created",
        "create the schedule outside, and call its step inside or outside",
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
        "functions of cond, while_loop or scan with the wrong results",
        "return the same number of tensors, with the same shapes and dtypes",
    ),
    "GB0078": ("a while_loop whose condition is not one boolean", "return one boolean from cond_fn"),
    "GB0079": (
        "a scan or map over tensors of different lengths, or of length 0",
        "pass tensors of one length, at least 1, along the dimension",
    ),
    "GB0080": ("a scan whose combine_fn does not return a pair", "return the pair (carry, y)"),
    "GB0081": (
        "an assumed constant that is not a plain value",
        "return a number, a string, or a tuple, list or dict of them",
    ),
    "GB0082": (
        "a leaf tensor that the function creates",
        "create the leaf outside the compiled function, and pass it",
    ),
    "GB0083": ("a retain_grad of a value computed inside", "return the value, and use autograd.grad outside"),
    "GB0084": ("an autograd Function that returns an argument as it is", "return x.view_as(x)"),
    "GB0085": (
        "a loop that goes on after a break inside it",
        "avoid the break inside the loop; the whole loop is then captured",
    ),
    "GB0086": (
        "a backward through tensors that were computed outside",
        "compile the function that computes them too, or call backward outside",
    ),
    "GB0087": (
        "a read, after a schedule's step, of a value that the step changes",
        "read it before the step",
    ),
    "GB0088": ("a write to an input of a function of cond, scan or vmap", "write to a clone of it"),
    "GB0089": (
        "a program step that this launch does not run",
        'launch the program with stage4_runtime.runtime:launch, or set runtime.parallel_streams="off"',
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
        "let the hook read a value that the function does not change",
    ),
    "GB0096": ("the removal of a hook that was registered outside", "call remove() outside"),
    "GB0097": ("a pop from a set that comes from outside", "pass a list, which has an order"),
    "GB0098": (
        "a property or a descriptor that capture cannot follow",
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
    """One graph break: a stable code of CATALOGUE, what was seen, and the place in the user's code.

    error: it happened under error_on_graph_break(True), so it is an error even without fullgraph=True.
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
        """What to do, from the catalogue."""
        return CATALOGUE[self.code][1]

    @property
    def page(self) -> str:
        """Where the site explains this code, relative to its root."""
        return f"breaks/#{self.code.lower()}"

    @property
    def user_stack(self) -> list[traceback.FrameSummary]:
        """The place in the user's code in torch's form: a list of one frame, or empty if the place is unknown."""
        at = self.origin
        return [traceback.FrameSummary(at.file, at.line, "<user code>")] if at else []

    def __str__(self) -> str:
        title = CATALOGUE[self.code][0]
        lines = [say("graph_break", code=self.code, title=title, reason=self.reason)]
        if self.origin:
            lines.append(self.origin.caret())
        return "\n".join([*lines, f"  hint: {self.hint}"])


class Unsupported(RuntimeError):
    """A stage met a construct that it does not handle. It carries the GraphBreak that describes it.

    `Unsupported("a while loop", origin, code="GB0036")`; with `fullgraph=True` it reaches the user, otherwise the frame
    falls back to eager and the break is recorded.
    """

    def __init__(self, construct: str, origin: Origin | None = None, *, code: str) -> None:
        self.construct, self.origin = construct, origin
        self.graph_break = GraphBreak(code, construct, origin)
        super().__init__(str(self.graph_break))
