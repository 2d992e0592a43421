"""Two pages made of tables: the catalogue of breaks, with a program for each code, and the kinds of guards.

Input: stage_contracts/breaks.py and guards.py, and the programs in tests/break_examples*.py, read as text, so that the
site is built without the library's dependencies.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLES = "break_examples*.py"
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
    files = [_Programs(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "tests").glob(EXAMPLES))]
    parts = [HEAD]
    for code, (title, hint) in sorted(table.items()):
        parts.append(f"## {code}\n\n**{title[0].upper()}{title[1:]}.** What to do: {hint}.\n")
        programs = next(file for file in files if code.lower() in file.definitions)
        for name, what in ((code.lower(), "breaks"), (f"{code.lower()}_instead", "is captured whole")):
            parts.append(f"```python\n{programs.shown(name, what)}\n```\n")
    return "\n".join(parts)


GUARDS_HEAD = """# Guards

Compiled code relies on facts: each is a guard, a Python expression that is checked before the code runs again. When
one fails, the next entry is asked; when all do, the call is compiled anew, and the log says which fact changed.
`print(*fn.entries[0].guards, sep="\\n")` shows those of a compiled function, each with the line that needed it. In the
expressions below `{s}` is what the fact is about and `{e}` what is expected; cheap kinds are checked first.

| kind | the fact | the check |
|---|---|---|
"""


def guards_page() -> str:
    """The kinds of guards as Markdown."""
    text = (ROOT / "stage_contracts" / "guards.py").read_text(encoding="utf-8")
    table = next(
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "GUARD_KINDS"
    )
    rows = []
    for key, value in zip(table.keys, table.values, strict=True):
        rank, template, meaning = (ast.literal_eval(argument) for argument in value.args)
        rows.append((rank, f"| `{ast.literal_eval(key)}` | {meaning} | `{template}` |"))
    return GUARDS_HEAD + "\n".join(row for _, row in sorted(rows, key=lambda pair: pair[0])) + "\n"


class _Programs:
    """The examples as text, each a function `f` with what it uses, and how it is compiled and called."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        body = ast.parse(text).body
        self.definitions: dict[str, ast.stmt] = {
            n.name: n for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef))
        }
        self.definitions |= {
            n.targets[0].id: n
            for n in body
            if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)
        }
        self.tables = {
            n.targets[0].id: {
                ast.literal_eval(k): v for k, v in zip(n.value.keys, n.value.values, strict=True)
            }
            for n in body
            if isinstance(n, ast.Assign) and isinstance(n.value, ast.Dict)
        }

    def shown(self, name: str, what: str) -> str:
        settings = self.tables.get("SETTINGS", {})
        setting = settings.get(name) or settings.get(name.removesuffix("_instead"))
        called = self.tables.get("ARGUMENTS", {}).get(name)
        definition = self.definitions.get(name) or self.definitions[name.removesuffix("_instead")]
        caption = f"# {what}"
        if called is not None:
            caption += f", called as f({', '.join(map(ast.unparse, called.body.elts))})"
        if setting is not None:
            words = zip(map(ast.literal_eval, setting.keys), map(ast.unparse, setting.values), strict=True)
            caption += f"\n# compiled with {', '.join(f'{k}={v}' for k, v in words)}"
        roots = [definition] if setting is None else [definition, setting]
        used = {n.id for root in roots for n in ast.walk(root) if isinstance(n, ast.Name)}
        used |= {n.id for n in ast.walk(called or definition) if isinstance(n, ast.Name)}
        while (
            more := {
                n.id
                for k in used & {*self.definitions}
                for n in ast.walk(self.definitions[k])
                if isinstance(n, ast.Name)
            }
            - used
        ):
            used |= more
        helpers = [self.source(node) for key, node in self.definitions.items() if key in used]
        program = re.sub(r"def gb\d+(_instead)?", "def f", self.source(definition))
        return "\n\n\n".join([*helpers, f"{caption}\n{program}"])

    def source(self, node: ast.stmt) -> str:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        return "\n".join(self.lines[first - 1 : node.end_lineno])
