"""Pages of source code, so that a link of the site to a file leads to its text, line by line, offline.

Input: the pages of the site, once they are made: what they link to in source/ is written. A page has no navigation:
its head leads back to the site.
"""

import inspect
import re
from html import escape
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound

ROOT = Path(__file__).parent.parent
SUFFIXES = {".py", ".md", ".toml", ".cpp", ".txt", ".css", ".js"}
FOLDERS = {"cutaway", "stage_contracts", "stage0_eager", "stage1_capture", "stage2_autograd", "stage3_lowering",
           "stage4_runtime", "labs", "tests", "benchmarks", "site_docs"}  # fmt: skip
PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{path}: Cutaway's source</title>
<link rel="stylesheet" href="{up}assets/source.css">
</head>
<body>
<header><a href="{up}start.html">Cutaway</a> <h1>{path}</h1></header>
<main>{code}</main>
</body>
</html>
"""
LINKED = re.compile(r'href="(?:\.\./)*source/([^"#]+)\.html')


def page_of(path):
    """The site's page of a file of the repository, `source/stage1_capture/capture.py.html`; None if it has none."""
    path = Path(path)
    whole = ROOT / path
    if path.parts[0] not in FOLDERS or path.suffix not in SUFFIXES or not whole.is_file():
        return None
    return f"source/{path.as_posix()}.html"


def link_to(function):
    """(page with line, path, line) of a Python function or class of the repository."""
    path = Path(inspect.getsourcefile(function)).relative_to(ROOT)
    line = inspect.getsourcelines(function)[1]
    return f"{page_of(path)}#L-{line}", path.as_posix(), line


def write_pages(site):
    """A page for each file that a page of the folder links to."""
    texts = (page.read_text(encoding="utf-8") for page in sorted(site.rglob("*.html")))
    for path in sorted({found for text in texts for found in LINKED.findall(text)}):
        place = site / page_of(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(_page(Path(path)), encoding="utf-8")


def _page(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    # Line numbers are no links: five hundred of them are five hundred Tabs, and targets too small for a finger.
    style = HtmlFormatter(cssclass="code", lineanchors="L", linenos="inline")
    try:
        code = highlight(text, get_lexer_for_filename(path.name), style)
    except ClassNotFound:
        code = f"<pre>{escape(text)}</pre>"
    code = code.replace("<pre>", '<pre tabindex="0" aria-label="source">', 1)
    return PAGE.format(path=path.as_posix(), up="../" * len(path.parts), code=code)
