"""Exceptions that cross stages. Each message says what was seen, what was expected, and what to do.

Input: stages 3 and 4 raise them; cutaway/building.py and inductor.py catch them to choose a fallback. (Unsupported is
in breaks.py, GraphError in graph.py.)
"""

from __future__ import annotations


class BuildError(RuntimeError):
    """The compiler refused generated code: an internal error, with the compiler's own message."""


class CompilerMissing(RuntimeError):
    """There is no compiler for the target on this machine; run the graph another way."""


class OutOfRange(IndexError, RuntimeError):
    """An index tensor holds a place outside. torch raises the one or the other, by operator; a kernel cannot tell."""


class ForbiddenInGraph(RuntimeError):
    """A call that the program itself forbids in compiled code (forbid_in_graph, set_stance)."""


class SeamError(TypeError):
    """A function given for a seam does not keep the seam's contract: its parameters, or what it returns."""


class BackendFailed(RuntimeError):
    """A backend raised while compiling a graph; the cause is chained."""


class VerifyError(AssertionError):
    """A compiled graph gives other numbers than its operators do one by one, and debug.verify is on."""
