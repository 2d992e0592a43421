"""Finds the pointers that a Triton kernel writes to, from its source: those in a store, and where they come from.

Input: a Python function decorated with triton.jit. If the source does not tell (pointers passed to other functions, no
source), every parameter counts as written, which is never wrong, only slower.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable

# Calls of triton.language whose first argument is written to ...
WRITES = ("store", "make_tensor_descriptor")
# ... and those whose result points nowhere, whatever they are given.
VALUES = (
    "load", "program_id", "num_programs", "arange", "zeros", "zeros_like", "full", "cdiv", "dot", "sum", "max", "min",
    "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "abs", "sigmoid", "softmax", "maximum", "minimum",
    "reduce", "associative_scan", "cumsum", "argmax", "argmin", "rand", "randn", "randint", "static_range", "range",
    "static_assert", "static_print", "device_print", "device_assert", "debug_barrier", "fma", "clamp", "erf", "len",
    "float", "int",
)  # fmt: skip
# Calls that hand on what they are given, pointers too.
PASSES = ("multiple_of", "max_contiguous", "max_constancy", "broadcast_to", "where", "make_block_ptr", "advance",
          "reshape", "view", "expand_dims", "trans", "cast", "to")  # fmt: skip


def written_parameters(function: Callable) -> tuple[str, ...]:
    """The names of the parameters that may point to what the kernel writes, in order."""
    signature = inspect.signature(function).parameters
    params = tuple(p for p in signature if "constexpr" not in str(signature[p].annotation))
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return params
    found = _Flow(params)
    while True:  # loops carry pointers round: until nothing new is found
        before = {name: set(of) for name, of in found.leads.items()}, set(found.written)
        found.visit(tree)
        if before == ({name: set(of) for name, of in found.leads.items()}, found.written):
            return tuple(p for p in params if p in found.written)


class _Flow(ast.NodeVisitor):
    """For each name the parameters that its value may be a pointer of."""

    def __init__(self, params: tuple[str, ...]) -> None:
        self.leads: dict[str, set[str]] = {p: {p} for p in params}
        self.written: set[str] = set()

    def of(self, tree: ast.AST | None) -> set[str]:
        """The parameters behind an expression."""
        if tree is None:
            return set()
        if isinstance(tree, ast.Name):
            return self.leads.get(tree.id, set())
        if isinstance(tree, ast.Call):
            name = _last(tree.func)
            if name in VALUES or name in WRITES[:1] or name.startswith("atomic_"):
                return set()
            given = [*tree.args, *(k.value for k in tree.keywords), *_receiver(tree)]
            return set().union(*map(self.of, given))
        if isinstance(tree, ast.Compare):
            return set()
        return set().union(*map(self.of, ast.iter_child_nodes(tree)))

    def assign(self, target: ast.AST, value: set[str]) -> None:
        for name in ast.walk(target):
            if isinstance(name, ast.Name):
                self.leads.setdefault(name.id, set()).update(value)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self.assign(target, self.of(node.value))
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.assign(node.target, self.of(node.value))
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.assign(node.target, self.of(node.value))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = _last(node.func)
        first = node.args[:1] or [k.value for k in node.keywords if k.arg in ("pointer", "base", "ptr")]
        if name in WRITES or name.startswith("atomic_"):
            # tl.store(pointer), or descriptor.store()
            self.written.update(*map(self.of, [*first, *_receiver(node)]))
        elif name not in VALUES and name not in PASSES:  # a user function: it may write to what it is given
            self.written.update(*map(self.of, [*node.args, *(k.value for k in node.keywords)]))
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for statement in node.body:  # not the decorators, nor annotations
            self.visit(statement)


def _last(function: ast.AST) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _receiver(call: ast.Call) -> list[ast.expr]:
    return [call.func.value] if isinstance(call.func, ast.Attribute) else []
