"""Exceptions that cross stages. Each message says what was seen, what was expected, and what to do.

Input: stages 3 and 4 raise them; cutaway/building.py and inductor.py catch them to choose a fallback. (Unsupported is
in breaks.py, GraphError in graph.py.)
"""

from __future__ import annotations


class BuildError(RuntimeError):
    """The compiler refused generated code: an internal error, with the compiler's own message."""


class CompilerMissing(RuntimeError):
    """This machine has no compiler for the target, so the graph has to run in another way."""


class DeviceError(RuntimeError):
    """A library refused a call on a GPU while a program ran. Inputs may be half-written, so nothing runs again."""


class OutOfRange(IndexError, RuntimeError):
    """An index tensor has an index out of bounds. In torch the operator decides the type of the error, which a kernel
    does not know."""


class ForbiddenInGraph(RuntimeError):
    """A call that is forbidden in compiled code (by forbid_in_graph, or set_stance itself)."""


class ComptimeError(RuntimeError):
    """A function that the program gave to comptime raised while the program was compiled; the cause is chained."""


class RecompileError(RuntimeError):
    """A call needs a compile, but the stance, error_on_recompile, or a limit under fullgraph=True forbids it."""


class SeamError(TypeError):
    """A function passed for a seam does not keep the seam's contract: its parameters, or what it returns."""


class BackendFailed(RuntimeError):
    """A backend raised while it compiled a graph; the cause is chained. Or its function returned something wrong."""


class VerifyError(AssertionError):
    """debug.verify is on, and a compiled graph gives other values than its operators run one by one."""
