"""The page of messages: each row of the catalogue, with the program that makes it appear.

Input: stage_contracts/messages.py and tests/errors/message_examples.py, read as text, so that the site is built without
the library's dependencies.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEAD = """# The catalogue of messages

What Cutaway says when it is asked for something it cannot do. Fields in braces are filled in; the program below each
message makes it appear.
"""


def messages_page() -> str:
    """The page as Markdown."""
    source = (ROOT / "stage_contracts" / "messages.py").read_text(encoding="utf-8")
    table = next(
        ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "MESSAGES"
    )
    text = (ROOT / "tests" / "errors" / "message_examples.py").read_text(encoding="utf-8")
    programs = {n.name: ast.get_source_segment(text, n) for n in ast.parse(text).body if hasattr(n, "name")}
    parts = [HEAD]
    for row, (kind, when, says, do) in table.items():
        parts.append(f"## {row}\n\n**{when[0].upper()}{when[1:]}** ({kind}). What to do: {do}.\n")
        parts.append(f"```text\n{says}\n```\n\n```python\n{programs[row]}\n```\n")
    return "\n".join(parts)
