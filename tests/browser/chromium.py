"""A headless Chromium that is told to open files, and what it must find there: nothing wrong.

Input: the extra `browser` (playwright), a Chromium of this machine, and npm's axe-core in build/npm. What is missing is
said, with the command that installs it.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "build/npm/package/axe.min.js"
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
THEMES = ("light", "dark")
WINDOWS = tuple(itertools.product(SIZES, THEMES))
TWO = (("desktop", "dark"), ("phone", "light"))  # of pages that are alike, such as those of source code
# The rules of WCAG 2.0 to 2.2, levels A and AA.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
_RUN_AXE = """async rules => {
  const found = await axe.run(document, {runOnly: rules, resultTypes: ["violations"]});
  return found.violations.map(v => [v.id, v.nodes.length, v.nodes[0].target.join(" "),
                                    (v.nodes[0].any[0] || v.nodes[0].all[0] || v.nodes[0].none[0] || {}).message || ""]);
}"""
# What a theme can change: nothing else is looked for in the dark.
OF_COLOUR = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
# Of words in code blocks that have the same colours, size and weight, three stay elements; the others become text, where
# they stand. A contrast that holds for three holds for ten thousand, which take axe-core minutes.
_FOLD = """() => {
  const behind = new Map(), seen = new Map();
  const background = (e) => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (colour !== "rgba(0, 0, 0, 0)" && colour !== "transparent") return colour;
    }
  };
  const spans = [...document.querySelectorAll("pre span:not([id]):not([tabindex]), pre i")].filter(e => !e.childElementCount);
  const same = spans.filter(span => {
    const pre = span.closest("pre"), style = getComputedStyle(span);
    if (!behind.has(pre)) behind.set(pre, background(pre));
    const own = style.backgroundColor;
    const key = [behind.get(pre), own, style.color, style.fontSize, style.fontWeight, style.opacity].join();
    seen.set(key, (seen.get(key) || 0) + 1);
    return seen.get(key) > 3;
  });
  for (const span of same) span.replaceWith(span.textContent);
  for (const pre of behind.keys()) pre.normalize();
}"""
_WIDER = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return null;
  const out = [...document.querySelectorAll("body *")].find(e => e.getBoundingClientRect().right > width + 1);
  return `${document.documentElement.scrollWidth} > ${width}: ` + (out ? out.outerHTML.slice(0, 80) : "?");
}"""


@dataclass
class Visit:
    """One page in one theme and one size. `problems` are lines to print; none means that it is clean."""

    path: str
    theme: str
    size: str
    problems: list[str] = field(default_factory=list)


def missing() -> list[str]:
    """What to install, a line each."""
    lines = []
    try:
        import playwright  # noqa: F401
    except ImportError:
        lines.append("playwright: pip install 'playwright>=1.50', or the extra: pip install -e '.[browser]'")
    if chromium() is None:
        lines.append(
            "a Chromium: on Debian, apt-get install chromium; put it on the PATH as chromium or google-chrome"
        )
    if not AXE.exists() and shutil.which("npm") is None:
        lines.append("npm, which brings axe-core: on Debian, apt-get install npm")
    return lines


def chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((found for name in names if (found := shutil.which(name))), None)


def axe_source() -> str:
    """axe-core's script, from npm; packed into build/npm once."""
    if not AXE.exists():
        folder = AXE.parent.parent
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["npm", "pack", "axe-core@4", "--silent"], cwd=folder, check=True, stdout=subprocess.DEVNULL
        )
        (packed,) = folder.glob("axe-core-*.tgz")
        shutil.unpack_archive(packed, folder, filter="data")
    return AXE.read_text(encoding="utf-8")


def axe_version() -> str:
    import json

    return str(json.loads((AXE.parent / "package.json").read_text(encoding="utf-8"))["version"])


@contextmanager
def browser() -> Iterator:
    """Chromium, started; ends the program with a list where something is not installed."""
    if lines := missing():
        sys.exit("\n  ".join(["the browser checks need what is not installed here:", *lines]))
    from playwright.sync_api import sync_playwright

    axe_source()
    with sync_playwright() as play:
        opened = play.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--allow-file-access-from-files"]
        )
        yield opened
        opened.close()


@contextmanager
def window(browser, size: str, theme: str = "light", found: list[str] | None = None) -> Iterator:
    """A window of that size. What goes wrong in it is added to `found`: errors, warnings, requests that are not for a file."""
    width, height = SIZES[size]
    phone = size == "phone"
    context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": height}, has_touch=phone,
                                  is_mobile=phone, reduced_motion="reduce")  # fmt: skip
    page = context.new_page()
    if found is not None:
        page.on(
            "console",
            lambda m: found.append(f"console: {m.text}") if m.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: found.append(f"error: {error}"))
        page.on("request", lambda r: None if _is_local(r.url) else found.append(f"request: {r.url}"))
        page.on("requestfailed", lambda r: found.append(f"failed: {Path(r.url).name}: {r.failure}"))
    yield page
    context.close()


def visited(
    browser, paths: list[Path], names: list[str], windows: Sequence = WINDOWS, *, fold: bool = False
) -> Iterator[Visit]:
    """What is wrong with pages, each in every window: both sizes and both themes. fold: words of code that look alike."""
    for size, theme in windows:
        said: list[str] = []
        with window(browser, size, theme, said) as page:
            for path, name in zip(paths, names, strict=True):
                page.goto(path.resolve().as_uri(), wait_until="load")
                page.wait_for_timeout(100)
                page.evaluate(axe_source() + ";undefined")
                visit = Visit(name, theme, size, [*said, *_looked_at(page, fold, theme)])
                said.clear()
                yield visit


def _looked_at(page, fold: bool, theme: str) -> Iterator[str]:
    if wide := page.evaluate(_WIDER):
        yield f"scrolls sideways: {wide}"
    if fold:
        page.evaluate(_FOLD)
    rules = OF_COLOUR if fold and theme == "dark" else RULES
    for rule, count, where, message in page.evaluate(_RUN_AXE, rules):
        yield f"axe {rule} ({count}): {where[:90]}: {message[:140]}"


def _is_local(url: str) -> bool:
    return url.startswith(("file:", "data:", "blob:", "about:"))
