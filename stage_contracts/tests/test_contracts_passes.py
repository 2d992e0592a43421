"""A table of passes: its order is checked, its switches are names, each pass is timed, kept, shown and checked.

Input: a table over lists of words, so no stage is needed.
"""

import pytest

from stage_contracts import events
from stage_contracts.graph import GraphError
from stage_contracts.passes import Pass, PassTable, keeping


class Words(list):
    def copy(self):
        return Words(self)

    def verify(self):
        return self

    def __str__(self):
        return "\n".join(self)


def adds(word, **more):
    return Pass(word, lambda words: words.append(word), f"adds {word}", **more)


TABLE = PassTable("words", (adds("a", needed=True), adds("b"), adds("c")), (("a", "c", "an alphabet"),))


def test_the_order_is_checked_when_the_table_is_made():
    with pytest.raises(ValueError, match="a must come before c: an alphabet"):
        PassTable("words", TABLE.passes[::-1], TABLE.order)
    with pytest.raises(ValueError, match="not one of"):
        PassTable("words", TABLE.passes[1:], TABLE.order)
    with pytest.raises(ValueError, match="share a name"):
        PassTable("words", (*TABLE.passes, adds("b")))


def test_a_run_is_timed_and_may_leave_passes_out():
    mark = events.EVENT_LOG.mark()
    assert TABLE.run(Words(), off={"b"}) == ["a", "c"]
    assert [e.name for e in events.EVENT_LOG.since(mark, "pass")] == ["words.a", "words.c"]
    with pytest.raises(ValueError, match="a of words cannot be switched off"):
        TABLE.run(Words(), off={"a"})


def test_a_setting_names_passes():
    assert TABLE.chosen("some.option", " b, c") == {"b", "c"}
    assert TABLE.chosen("some.option", "all") == {"a", "b", "c"}
    with pytest.raises(ValueError, match="some.option names 'd'; expected some of a, b, c"):
        TABLE.chosen("some.option", "d")


def test_results_are_kept_as_they_were(capsys):
    with keeping() as kept:
        TABLE.run(Words(), shown={"b"})
    assert [str(r) for r in kept] == ["a", "a\nb", "a\nb\nc"]
    assert "after b: adds b" in capsys.readouterr().err


def test_a_wrong_pass_is_named():
    def verify(name, before, after):
        if "z" in after:
            raise GraphError(f"pass {name} changed {before}")

    wrong = PassTable("words", (adds("a"), adds("z")))
    with pytest.raises(GraphError, match="pass z changed a"):
        wrong.run(Words(), verify=verify)
