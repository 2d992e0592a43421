"""The code of long generated texts in the cache: found again, of the path that is asked for, or made anew."""

import marshal
import traceback
import types

import pytest

from stage4_runtime.runtime import cache, kept_code
from stage_contracts import config, events
from stage_contracts.generated_code import LONG, code_of, keep_by

TEXT = "\n".join(["def outer():", "    def inner(x):", "        return x.missing", "    return inner"])
LONG_TEXT = TEXT + "\n" + "\n".join(f"x{k} = {k}" for k in range(LONG // 8))


@pytest.fixture
def made(monkeypatch, tmp_path):
    """A cache folder of the test's own, and the texts that were compiled."""
    compiled = []

    def keeper(text, make):
        return kept_code.kept_code(text, lambda: compiled.append(text) or make())

    monkeypatch.setattr("stage_contracts.generated_code._KEEPER", [])
    keep_by(keeper)
    with config.patch({"runtime.cache_dir": str(tmp_path / "cache")}):
        yield compiled


def raised_at(code):
    names = {}
    exec(code, names)
    with pytest.raises(AttributeError) as caught:
        names["outer"]()(1)
    return [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)][-1], names


def test_a_long_text_is_compiled_once_and_has_the_path_of_each_call(made):
    assert raised_at(code_of(LONG_TEXT, "<first>"))[0] == "<first>"
    path, names = raised_at(code_of(LONG_TEXT, "<second>"))
    assert path == "<second>" and names["x7"] == 7 and made == [LONG_TEXT]


def test_other_texts_are_other_entries_and_short_ones_are_none(made):
    for text in (LONG_TEXT, LONG_TEXT + "\ny = 1", TEXT):
        exec(code_of(text, "<here>"), {})
    assert made == [LONG_TEXT, LONG_TEXT + "\ny = 1"]


@pytest.mark.parametrize("damage", [b"", b"\0", marshal.dumps(3), b"cut"])
def test_what_is_no_code_is_compiled_anew(made, damage, monkeypatch):
    code_of(LONG_TEXT, "<first>")
    load = cache.load
    monkeypatch.setattr(cache, "load", lambda key: load(key) and {"code": damage})
    code = code_of(LONG_TEXT, "<second>")
    assert isinstance(code, types.CodeType) and len(made) == 2 and raised_at(code)[0] == "<second>"


def test_without_a_cache_nothing_is_kept(made):
    with config.patch({"runtime.cache": False}):
        code_of(LONG_TEXT, "<first>")
        code_of(LONG_TEXT, "<second>")
    assert len(made) == 2


def test_a_text_that_is_no_python_says_where(made):
    mark = events.EVENT_LOG.mark()
    with pytest.raises(SyntaxError):
        code_of(LONG_TEXT + "\n)", "<here>")
    assert not events.EVENT_LOG.since(mark, "fallback")
