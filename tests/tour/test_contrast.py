"""Every colour of text on the explorer's page, on every ground: at least 4.5 to 1 in both themes (WCAG 2.2, AA)."""

import re
from pathlib import Path

import pytest

import cutaway.page

CSS = (Path(cutaway.page.__file__).parent / "page.css").read_text(encoding="utf-8")
THEMES = {"light": r":root \{(.*?)\n\}", "dark": r':root\[data-theme="dark"\] \{(.*?)\n\}'}
TEXT = "ink soft faint accent k s n t f m".split()
GROUNDS = "paper sheet well lit here".split()


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read(theme):
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", re.search(THEMES[theme], CSS, re.S)[1]))
    for text in TEXT:
        for ground in GROUNDS:
            dark, light = sorted(luminance(colours[name]) for name in (text, ground))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (theme, text, ground)
