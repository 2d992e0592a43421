"""A reader who has the site alone finds every command of the walks on a page of it.

Input: reports/lab-walk.txt, whose steps labs/tests/test_walk.py replays, and the site's pages.
"""

import re

import pytest

from tests.docs import site_walk
from tests.docs.site_files import SITE

REPORT = (SITE.parent / "reports/lab-walk.txt").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"min  \$ (.*)", REPORT)))


def test_every_command_of_the_walks_stands_on_a_page():
    texts = site_walk.pages()
    assert len(COMMANDS) > 6
    for command in COMMANDS:
        page = site_walk.page_of(command, texts, ["labs/index.md"])
        assert site_walk.as_shown(command) in texts[page]
        assert f"(on the page {page}: " in REPORT


def test_a_command_that_no_page_shows_is_named():
    with pytest.raises(AssertionError, match="no page of the site shows `cutaway lab begin 1`"):
        site_walk.page_of("cutaway lab begin 1", site_walk.pages(), [])


def test_the_walks_begin_on_the_site():
    assert set(site_walk.BEFORE) == set(site_walk.walk.WALKS)
    assert REPORT.count("read the site's page") == len(site_walk.BEFORE)
