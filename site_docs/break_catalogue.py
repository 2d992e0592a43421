"""The page of the catalogue of breaks: every code, why it happens, a program that shows it, what to write instead.

Input: the table in stage_contracts/breaks.py and the programs in tests/break_examples.py, read as text, so that the
site is built without the library's dependencies.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEAD = """# The catalogue of breaks

Where capture meets something a graph cannot hold, it ends the graph, lets Python do that one thing, and goes on after
it: a *graph break*. The program does what it always did; it only costs a graph more. `cutaway.explain(fn)(*args)`
lists the breaks of a call with the line of each, and `fullgraph=True` makes the first one an error.
"""


def catalogue_page() -> str:
    """The page as Markdown."""
    breaks = ast.parse((ROOT / "stage_contracts" / "breaks.py").read_text(encoding="utf-8"))
    table = next(
        ast.literal_eval(node.value)
        for node in breaks.body
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "CATALOGUE"
    )
    examples = _functions((ROOT / "tests" / "break_examples.py").read_text(encoding="utf-8"))
    parts = [HEAD]
    for code, (title, hint) in sorted(table.items()):
        parts.append(f"## {code}\n\n**{title[0].upper()}{title[1:]}.** What to do: {hint}.\n")
        for name, caption in ((code.lower(), "breaks"), (f"{code.lower()}_instead", "is captured whole")):
            if name in examples:
                parts.append(f"```python\n# {caption}\n{examples[name]}\n```\n")
    return "\n".join(parts)


def _functions(text: str) -> dict[str, str]:
    """The source of each top-level function, called `f` or, of a replacement, the same."""
    lines = text.splitlines()
    return {
        node.name: re.sub(
            r"def gb\d+(_instead)?", "def f", "\n".join(lines[node.lineno - 1 : node.end_lineno])
        )
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }
