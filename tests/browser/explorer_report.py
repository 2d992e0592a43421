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
from statistics import median

import cutaway
from cutaway.explorer import side_by_side
from stage_contracts.tests.report_heading import heading
from tests.browser import chromium
from tests.tour.test_explorer import PROGRAMS

FOLDER = chromium.ROOT / "build/explorer"
TRIES = 7
SECONDS = 2.0  # for a thousand nodes to open
MILLISECONDS = 50  # for what is under the pointer to light up
LINES = (
    """n => [...document.querySelectorAll('.source .ln[data-origins]')].filter(l => l.dataset.origins)[n]"""
)
# Pointing at lines, one after another: milliseconds of script, style and layout for each.
HOVER = """async () => {
  const lines = [...document.querySelectorAll('.source .ln[data-origins]')].filter(l => l.dataset.origins).slice(0, 40);
  const times = [];
  for (const line of lines) {
    const begin = performance.now();
    line.dispatchEvent(new PointerEvent('pointerover', {bubbles: true, pointerType: 'mouse'}));
    document.body.getBoundingClientRect();
    times.push(performance.now() - begin);
  }
  return [times, document.querySelectorAll('.lit').length];
}"""
# From here on the browser keeps how long a movement of the pointer waits for what it lights up to be painted.
WATCH_POINTER = """() => {
  window.waits = [];
  new PerformanceObserver(list => {
    for (const e of list.getEntries()) if (e.name === 'pointerover') window.waits.push(e.duration);
  }).observe({type: 'event', durationThreshold: 16});
}"""
# How many lines of each station each of these lines of the source lights up.
COUNTS = """() => [...document.querySelectorAll('.source .ln[data-origins]')].filter(l => l.dataset.origins).slice(0, 200).map(
  (line) => {
    line.dispatchEvent(new PointerEvent('pointerover', {bubbles: true, pointerType: 'mouse'}));
    return [...document.querySelectorAll('.bead')].map(b => b.textContent).join(' ');
  })"""
FOCUSED = """() => {
  const e = document.activeElement;
  if (e === document.body) return 'the page, at ' + location.hash;
  const name = e.getAttribute('aria-label') || e.textContent.trim().split('\\n')[0];
  return `${e.tagName.toLowerCase()}.${e.className.split(' ')[0]}: ${name.slice(0, 60)}`;
}"""
STATE = """() => {
  const active = document.querySelector('.specimen:not([hidden]) .bead.active');
  const caption = document.querySelector('.caption');
  const beads = [...document.querySelectorAll('.specimen:not([hidden]) .bead b')];
  return {lit: beads.reduce((sum, b) => sum + Number(b.textContent), 0),
          caption: caption.hidden ? '' : [...caption.querySelectorAll('.line')].map(l => l.innerText.replace(/\\s+/g, ' ')).join('; ').slice(0, 90),
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


def pointed(page) -> list[float]:
    """Milliseconds from each of 30 movements of a real pointer over the source to the next painted frame; 16 or more."""
    page.evaluate(WATCH_POINTER)
    lines = page.locator(".source .ln.ln[data-point], .source .ln .x").all()[:120:4]
    for line in lines:
        line.hover(force=True)
        page.wait_for_timeout(60)
    waits = page.evaluate("() => window.waits")
    return [*waits, *[16.0] * (len(lines) - len(waits))]  # what is quicker is not told


def undrawn_lines_are_counted(page) -> bool:
    """Whether what is not drawn yet counts as it does once it is: Ctrl+F draws all, so that a search finds it."""
    before = page.evaluate(COUNTS)
    waiting = page.locator(".later").count()
    page.keyboard.press("Control+f")
    return bool(waiting) and page.locator(".later").count() == 0 and page.evaluate(COUNTS) == before


def walk(page) -> list[str]:
    """What each key of a reader without a mouse does: to the source, down, on to the stations, away."""
    said: list[str] = []

    def press(key: str) -> None:
        page.keyboard.press(key)
        page.wait_for_timeout(300)
        said.append(f"{key:12} {page.evaluate(FOCUSED)}")

    while (
        not page.evaluate("() => document.activeElement.matches('[data-station=source]')") and len(said) < 9
    ):
        press("Tab")
    for key in ("Enter", "Tab"):  # the machine's first bead leads to the source
        press(key)
    if not page.evaluate("() => document.activeElement.matches('.source .ln')"):
        said.append("WRONG: this is not a line of the source")
    for (
        key
    ) in "ArrowDown ArrowDown Enter ArrowRight ArrowRight ArrowRight ArrowLeft ArrowDown Escape".split():
        page.keyboard.press(key)
        page.wait_for_timeout(600)
        now = page.evaluate(STATE)
        kept = "kept lit" if now["pinned"] else "not kept"
        said.append(
            f"{key:12} {now['lit']} lines lit, {kept}, at {now['station'] or 'the top'}; caption: {now['caption'] or 'none'}"
        )
    tabs = 0
    while not page.evaluate("() => document.activeElement.matches('[role=tab]')") and tabs < 60:
        page.keyboard.press("Tab")
        tabs += 1
    said.append(f"{f'Tab x {tabs}':12} {page.evaluate(FOCUSED)}")
    page.keyboard.press("ArrowRight")
    said.append(f"{'ArrowRight':12} {page.evaluate(FOCUSED)}")
    return said


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
        visits = list(chromium.visited(browser, paths, [path.name for path in paths], fold=True))
        if not asked.quick:
            pictures(browser, paths)
        with chromium.window(browser, "desktop") as page:
            opened(page, paths[min(2, len(paths) - 1)])
            steps = walk(page)
            tries = [opened(page, big) for _ in range(TRIES)]
            busy = thread_seconds(page, big)
            page.wait_for_timeout(500)
            elements = page.evaluate("() => document.querySelectorAll('*').length")
            times, lit = page.evaluate(HOVER)
            waits = pointed(page)
            counted = undrawn_lines_are_counted(page)
    more = f"Chromium {version}, axe-core {chromium.axe_version()}"
    print(heading("the explorer's pages in a browser", "make explorer-check", 0, more=more))
    print(f"\n{len(paths)} pages ({', '.join(path.stem for path in paths)}), {len(visits)} visits")
    for visit in visits:
        wrong += [f"{visit.path} ({visit.theme}, {visit.size}): {problem}" for problem in visit.problems]
    print(
        f"console errors, requests to another host, sideways scrolling, violations of axe-core's rules: {len(wrong)}"
    )
    print("  (in the dark the rules of colour; of words in code that look the same, three a page)")
    print(*wrong, sep="\n") if wrong else None
    nodes, size = len(large.artifacts[-1].captured.calls), big.stat().st_size / 2**20
    print(
        f"\n{nodes} nodes, {size:.1f} MB, {elements} elements at first: opens in {min(tries):.2f} s, median {median(tries):.2f} "
        f"of {TRIES} (goal {SECONDS})"
    )
    print(f"of the page's own thread, {busy:.2f} s: what is more was spent waiting for a processor")
    print(
        f"pointing at {len(times)} lines: script, style and layout {min(times):.1f} to {max(times):.1f} ms, median "
        f"{median(times):.1f} (goal {MILLISECONDS}); {lit} elements lit"
    )
    print(
        f"a real pointer over {len(waits)} expressions: to the next frame at most {max(waits):.0f} ms, median {median(waits):.0f}"
    )
    print(f"lines that are not drawn yet count as they do once they are drawn: {'yes' if counted else 'NO'}")
    print(f"\nby keyboard alone, on {paths[min(2, len(paths) - 1)].name}:", *steps, sep="\n")
    load = f"{os.getloadavg()[0]:.1f} processes on {os.cpu_count()} processors"
    print(f"\nmeasured beside {load}" if os.getloadavg()[0] > 1.5 else "")
    sys.exit(
        bool(wrong)
        or any(step.startswith("WRONG") for step in steps)
        or min(tries) > SECONDS
        or median(times) > MILLISECONDS
        or lit == 0
        or not counted
    )


if __name__ == "__main__":
    main()
