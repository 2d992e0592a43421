"""`make explorer-check`: the explorer's pages of six programs in a browser, a walk by keyboard, a thousand nodes.

Input: the programs of tests/tour/test_explorer.py. The pages and their pictures are left in build/explorer, to be looked
at. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import time
from pathlib import Path

import cutaway
from cutaway.explorer import side_by_side
from stage_contracts.tests.report_heading import heading
from tests.browser import chromium
from tests.tour.test_explorer import PROGRAMS

FOLDER = chromium.ROOT / "build/explorer"
SECONDS = 2.0  # for a thousand nodes to open
MILLISECONDS = 50  # for what is under the pointer to light up
LINES = (
    """n => [...document.querySelectorAll('.source .ln[data-origins]')].filter(l => l.dataset.origins)[n]"""
)
HOVER = """async () => {
  const lines = [...document.querySelectorAll('.source .ln[data-origins]')].filter(l => l.dataset.origins).slice(0, 40);
  const times = [];
  for (const line of lines) {
    const begin = performance.now();
    line.dispatchEvent(new PointerEvent('pointerover', {bubbles: true, pointerType: 'mouse'}));
    document.body.getBoundingClientRect();
    times.push(performance.now() - begin);
  }
  return [times.length, Math.max(...times), document.querySelectorAll('.lit').length];
}"""
FOCUSED = """() => {
  const e = document.activeElement;
  const name = e.getAttribute('aria-label') || e.textContent.trim().split('\\n')[0];
  return `${e.tagName.toLowerCase()}.${e.className.split(' ')[0]}: ${name.slice(0, 60)}`;
}"""
STATE = """() => {
  const active = document.querySelector('.specimen:not([hidden]) .bead.active');
  return {lit: document.querySelectorAll('.lit').length, caption: document.querySelector('.caption').textContent.slice(0, 70),
          station: active ? active.dataset.station : '', pinned: !!document.querySelector('.pinned')};
}"""


def thousand_nodes():
    """A function of 1,000 operators, on lines of its own."""
    lines = [f"    x = x * {1 + k / 1000} + {k}" for k in range(500)]
    place = FOLDER / "thousand.py"
    place.write_text("def thousand(x):\n" + "\n".join(lines) + "\n    return x\n", encoding="utf-8")
    names: dict = {}
    exec(compile(place.read_text(encoding="utf-8"), str(place), "exec"), names)
    compiled = cutaway.compile(names["thousand"])
    compiled(cutaway.ones(8))
    return compiled


def opened(page, path: Path) -> float:
    """Seconds until the page has been drawn and its script has run."""
    begin = time.perf_counter()
    page.goto(path.resolve().as_uri(), wait_until="load")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return time.perf_counter() - begin


def thread_seconds(page, path: Path) -> float:
    """Seconds of processor time that the page's main thread takes to open it."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    opened(page, path)
    found = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
    return found["TaskDuration"]


def walk(page) -> list[str]:
    """What each key of a reader without a mouse does: to the source, down, on to the stations, away."""
    said, tabs = [], 0
    while not page.evaluate("() => document.activeElement.matches('.source .ln')") and tabs < 60:
        page.keyboard.press("Tab")
        tabs += 1
        said.append(f"Tab          {page.evaluate(FOCUSED)}")
    said = [*said[:4], f"...          {len(said) - 5} more", said[-1]] if len(said) > 6 else said
    for key in ("ArrowDown", "Enter", "ArrowRight", "ArrowRight", "ArrowDown", "Escape"):
        page.keyboard.press(key)
        page.wait_for_timeout(400)
        now = page.evaluate(STATE)
        kept = "kept lit" if now["pinned"] else "not kept"
        said.append(
            f"{key:12} {now['lit']} lit, {kept}, at {now['station'] or 'the top'}; caption: {now['caption'] or 'none'}"
        )
    return [f"{tabs} Tabs from the top to the first line of the source", *said]


def pictures(browser, paths: list[Path]) -> None:
    for path in paths:
        for size, theme in (("desktop", "light"), ("desktop", "dark"), ("phone", "light")):
            with chromium.window(browser, size, theme) as page:
                opened(page, path)
                page.screenshot(path=FOLDER / f"{path.stem}-{size}-{theme}.png", full_page=size == "phone")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="one program, no pictures")
    asked = options.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    cutaway.manual_seed(0)
    wrong: list[str] = []
    with contextlib.redirect_stdout(io.StringIO()):  # one of the programs prints
        made = {program.__name__: program() for program in PROGRAMS[: 1 if asked.quick else None]}
    paths = [compiled.explain_html(FOLDER / f"{name}.html") for name, compiled in made.items()]
    paths.append(side_by_side({"one": PROGRAMS[0](), "two": PROGRAMS[0]()}, FOLDER / "side_by_side.html"))
    large = thousand_nodes()
    big = large.explain_html(FOLDER / "thousand_nodes.html")
    with chromium.browser() as browser:
        version = browser.version
        visits = list(chromium.visited(browser, paths, [path.name for path in paths]))
        if not asked.quick:
            pictures(browser, paths)
        with chromium.window(browser, "desktop") as page:
            opened(page, paths[min(1, len(paths) - 1)])
            steps = walk(page)
            seconds = min(opened(page, big) for _ in range(3))
            busy = thread_seconds(page, big)
            lines, slowest, lit = page.evaluate(HOVER)
    more = f"Chromium {version}, axe-core {chromium.axe_version()}"
    print(heading("the explorer's pages in a browser", "make explorer-check", 0, more=more))
    print(f"\n{len(paths)} pages ({', '.join(path.stem for path in paths)}), {len(visits)} visits")
    for visit in visits:
        wrong += [f"{visit.path} ({visit.theme}, {visit.size}): {problem}" for problem in visit.problems]
    print(
        f"console errors, requests to another host, sideways scrolling, violations of axe-core's rules: {len(wrong)}"
    )
    print(*wrong, sep="\n") if wrong else None
    nodes, size = len(large.artifacts[-1].captured.calls), big.stat().st_size / 2**20
    print(f"\n{nodes} nodes, {size:.1f} MB: opens in {seconds:.2f} s (goal {SECONDS}), the least of three")
    print(f"of the page's own thread, {busy:.2f} s: what is more was spent waiting for a processor")
    print(
        f"pointing at {lines} lines, one after another: slowest {slowest:.1f} ms (goal {MILLISECONDS}), {lit} elements lit"
    )
    print("\nby keyboard alone:", *steps, sep="\n")
    load = f"{os.getloadavg()[0]:.1f} processes on {os.cpu_count()} processors"
    print(f"\nmeasured beside {load}" if os.getloadavg()[0] > 1.5 else "")
    sys.exit(bool(wrong) or busy > SECONDS or lit == 0)


if __name__ == "__main__":
    main()
