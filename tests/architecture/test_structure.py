"""The shape of the code, counted: no package has an import cycle, and a function that decides much is named with its reason.

Input: the source of every package. Complexity is 1 and one for each branch, loop, handler,
comprehension, match case and further operand of `and` and `or`.
"""

import ast
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "stage_contracts",
    "stage0_eager",
    "stage1_capture",
    "stage2_autograd",
    "stage3_lowering",
    "stage4_runtime",
    "cutaway",
)
LIMIT = 15
AT_MOST = 20  # functions above it, in all packages

TINY = "the idea of a stage on one screen: it is read from top to bottom, and frozen"
# (file, function) -> why it is in one piece. What goes below the limit leaves this list.
IN_ONE_PIECE = {
    ("stage_contracts/core_metas.py", "expand"): "one walk over three rows of sizes; its questions become guards in order",
    ("stage0_eager/autograd/tape.py", "record"): "every call on the tape runs it: functions for its parts cost a tenth",
    ("stage0_eager/kernels/eager.py", "numpy_pair"): "the cases of one kernel, decided when it is made and not per call",
    ("stage0_eager/functions/nn/loss_fast_paths.py", "_cross_entropy"): "a fast path: what it asks costs more in functions",
    ("stage0_eager/functions/indexing.py", "_getitem"): "a fast path: every x[i] runs it",
    ("stage1_capture/variables/arithmetic.py", "compare"): "whose turn it is in a comparison, in Python's order",
    ("stage1_capture/variables/store.py", "delete_plainly"): "Python's order for `del`: descriptor, slot, the object's dict",
    ("stage1_capture/variables/binding.py", "bind"): "what a class can hold and how an instance sees it, a line each",
    ("stage1_capture/variables/autocast.py", "with_casts"): "autocast's conditions, each of which leaves the call alone",
    ("stage1_capture/builtins/numpy/calls.py", "seen"): "what NumPy gives for a result: row, itself, scalar, array, view",
    ("stage1_capture/variables/tensor.py", "tensor_attribute"): "where an attribute of a tensor is found, in order",
    ("stage3_lowering/tiny/fuse.py", "merge"): TINY,
    ("stage3_lowering/tiny/emit.py", "cpp_kernel"): TINY,
    ("stage4_runtime/tiny/launch.py", "launch"): TINY,
}  # fmt: skip

BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.match_case)


def complexity(function):
    nodes = list(ast.walk(function))
    operands = sum(len(n.values) - 1 for n in nodes if isinstance(n, ast.BoolOp))
    return 1 + sum(isinstance(n, BRANCHES) for n in nodes) + operands


@functools.cache
def sources(package):
    """The package's files, tests apart, as (path from the root, tree)."""
    paths = [path for path in sorted((ROOT / package).rglob("*.py")) if "tests" not in path.parts]
    return [(path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))) for path in paths]


def test_complexity_counts_what_decides():
    source = "def f(x):\n    if x and x > 1 and x < 3:\n        return [y for y in x if y]\n    return 1 if x else 2\n"
    assert complexity(ast.parse(source)) == 6  # 1, if, two further operands, comprehension, conditional


def test_a_function_that_decides_much_is_listed_with_its_reason():
    counted = [
        (str(path), node.name, complexity(node))
        for package in PACKAGES
        for path, tree in sources(package)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    found = {(path, name): count for path, name, count in counted if count > LIMIT}
    new = {name: found[name] for name in found.keys() - IN_ONE_PIECE}
    assert not new, f"above {LIMIT}: {new}; cut each by what it does, or list it above with its reason"
    gone = IN_ONE_PIECE.keys() - found
    assert not gone, f"at most {LIMIT} by now, or gone: {sorted(gone)}; take them from the list"
    assert len(found) <= AT_MOST


# ---- import cycles --------------------------------------------------------------------------------------------


def name_of(path):
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def only_for_types(tree):
    """The imports under `if TYPE_CHECKING`, which never run."""
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]
    return {id(n) for block in blocks for n in ast.walk(block)}


def imported(node, package):
    """The names that an import asks for, relative ones spelled out."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    base = ".".join([*above, *([node.module] if node.module else [])])
    return [f"{base}.{alias.name}" for alias in node.names]


def imports_of(trees):
    """{module: the modules of `trees` that it imports, in functions too}."""
    edges = {}
    for module, (path, tree) in trees.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        never = only_for_types(tree)
        asked = [
            name
            for node in ast.walk(tree)
            if isinstance(node, (ast.Import, ast.ImportFrom)) and id(node) not in never
            for name in imported(node, package)
        ]
        found = {name if name in trees else name.rpartition(".")[0] for name in asked}
        edges[module] = (found & trees.keys()) - {module}
    return edges


def on_a_cycle(edges):
    """The modules from which a way leads back: what is left when those that import nobody left go, and then the others."""
    left = dict(edges)
    for towards in (edges, reverse(edges)):
        while gone := {m for m in left if not towards[m] & left.keys()}:
            left = {m: found for m, found in left.items() if m not in gone}
    return sorted(left)


def reverse(edges):
    return {m: {n for n, found in edges.items() if m in found} for m in edges}


def test_a_cycle_is_seen():
    edges = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}, "e": set()}
    assert on_a_cycle(edges) == ["b", "c"]
    assert on_a_cycle({"a": {"b"}, "b": set()}) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_cycle(package):
    trees = {name_of(path): (path, tree) for path, tree in sources(package)}
    assert on_a_cycle(imports_of(trees)) == []


def test_capture_imports_nothing_inside_functions():
    late = [
        f"{path}:{node.lineno}"
        for path, tree in sources("stage1_capture")
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    assert not late
