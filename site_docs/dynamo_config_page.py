"""The page of torch._dynamo.config: every field, and whether it is honoured or refused, made of the code's own tables.

Input: cutaway.debug's tables. hooks.py adds it to the site.
"""

from cutaway.debug.dynamo_fields import ALSO, DYNAMO_KEPT, UNREAD
from cutaway.debug.switches import default_of, meanings
from cutaway.debug.torch_fields import FIELDS, FIXED, LOGGED

_DYNAMO = "torch._dynamo.config"
_LOGGED = {
    "reorder": "calls of these functions are made after the graph, in order",
    "ignore": "calls of these functions are left out",
}
_ABOVE = """# torch._dynamo.config

Every field of torch 2.13's `torch._dynamo.config` is on this page. It is honoured, or refused with the reason. No field
is accepted without effect, but those that torch itself does not read any more.

A refused field accepts torch's default, which asks for nothing, and the values under "also accepted", which say what
happens here in any case. Any other value raises `NotImplementedError` with the reason in the table.

`torch._dynamo.config.patch(...)` and `unittest.mock.patch.object(torch._dynamo.config, ...)` restore every field.
"""


def _table(title, head, rows):
    lines = [f"## {title}", "", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), ""])


def _value(value):
    if isinstance(value, set):
        return f"`{{{', '.join(map(repr, sorted(value)))}}}`" if value else "`set()`"
    return f"`{value!r}`"


def dynamo_config_page():
    """The page, as Markdown."""
    honoured = [
        (f"`{name}`", f"`{field}`", _value(default_of(field)), meanings()[field].replace("|", "\\|"))
        for name, field in FIELDS[_DYNAMO].items()
    ]
    honoured += [(f"`{name}`", "", "`set()`", _LOGGED[kind]) for name, kind in LOGGED[_DYNAMO].items()]
    fixed = [(f"`{name}`", _value(value)) for name, value in FIXED[_DYNAMO].items()]
    refused = [
        (f"`{name}`", _value(default), ", ".join(map(_value, ALSO.get(name, ()))), reason)
        for name, (default, reason) in DYNAMO_KEPT.items()
        if name not in UNREAD
    ]
    unread = [(f"`{name}`", _value(DYNAMO_KEPT[name][0])) for name in sorted(UNREAD)]
    return "\n".join(
        [
            _ABOVE,
            _table("Honoured", ("field", "of Cutaway's configuration", "default", "is"), honoured),
            _table("One value only", ("field", "is"), fixed),
            _table("Refused", ("field", "torch's default", "also accepted", "reason"), refused),
            _table("Not read by torch 2.13 either", ("field", "torch's default"), unread),
        ]
    )
