// Pointing, pinning, walking. Every line carries the ids of the expressions it came from (data-origins); to light an
// id is to light every element that has it. Nothing else of the compiler is known here.
"use strict";
document.documentElement.classList.add("scripted");

const one = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const wide = matchMedia("(min-width: 901px)");
const still = matchMedia("(prefers-reduced-motion: reduce)");
const address = new URLSearchParams(location.search);

// ---- light and dark: the system's choice until the reader makes one -------------------------------------------

const dark = matchMedia("(prefers-color-scheme: dark)");
let chosen = address.get("theme") || remembered();
function remembered(value) {
  try {
    if (value) localStorage.setItem("cutaway-theme", value);
    return localStorage.getItem("cutaway-theme");
  } catch { return null; }  // a page opened from a file may have no storage
}
const paint = () => { document.documentElement.dataset.theme = chosen || (dark.matches ? "dark" : "light"); };
paint();
dark.addEventListener("change", paint);
one(".theme").addEventListener("click", () => {
  chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  remembered(chosen);
  paint();
});

// ---- one specimen: its elements by origin, its stations, its pin -----------------------------------------------

const caption = one(".caption");

function specimen(root) {
  const marked = all("[data-origins]", root).filter((element) => element.dataset.origins);
  const byId = new Map();
  function know(element) {
    for (const id of element.dataset.origins.split(" ")) {
      if (!byId.has(id)) byId.set(id, []);
      byId.get(id).push(element);
    }
  }
  marked.forEach(know);
  let now = [];  // the ids that are lit
  const undrawn = later(root, (piece) => {
    for (const element of all("[data-origins]", piece)) {
      const own = element.dataset.origins;
      if (own) know(element);
      if (own && own.split(" ").some((id) => now.includes(id))) brighten(element);
    }
  });
  const lines = all(".source .ln[data-origins]", root).filter((line) => line.dataset.origins);
  const onlyRead = new Set(root.dataset.read.split(" "));  // expressions that guards read and nothing computed
  if (lines.length) lines[0].tabIndex = 0;
  const panelTabs = all(".tabs [role=tab]", root);
  let lit = new Set();
  let pinned = null;

  // What pointing at an element means: in the source the innermost expression, elsewhere all that it came from.
  const idsOf = (element) => (element.dataset.point || element.dataset.origins).split(" ");

  function brighten(element) {
    lit.add(element);
    // A line of several origins, of which not all are meant, is shown as one that others share.
    const whole = element.dataset.origins.split(" ").every((id) => now.includes(id) || onlyRead.has(id));
    element.classList.add("lit");
    if (!whole) element.classList.add("part");
  }

  function light(ids, here) {
    for (const element of lit) element.classList.remove("lit", "part", "here");
    lit = new Set();
    now = ids;
    ids.flatMap((id) => byId.get(id) || []).forEach(brighten);
    if (here && lit.has(here)) here.classList.add("here");
    count();
    if (here !== "beside") {
      describe(ids);
      for (const other of beside) if (other.root !== root) other.light(ids, "beside");
    }
  }

  function count() {
    const counts = new Map();
    const inPanel = new Map();  // all that is lit is walked once: a search in a page of a thousand nodes takes too long
    for (const element of lit) {
      const panel = element.closest(".panel");
      if (panel) inPanel.set(panel.id, (inPanel.get(panel.id) || 0) + 1);
      if (element.matches(".x, .arc, .node")) continue;
      const station = element.closest("[data-station]");
      const key = station ? station.dataset.station : "source";
      counts.set(key, (counts.get(key) || 0) + 1);
    }
    for (const { station, panel, count } of undrawn.linesOf(now)) {
      if (panel) inPanel.set(panel, (inPanel.get(panel) || 0) + count);
      counts.set(station, (counts.get(station) || 0) + count);
    }
    for (const bead of all(".bead", root)) {
      const found = counts.get(bead.dataset.station) || 0;
      bead.classList.toggle("lit", found > 0);
      one("b", bead).textContent = found || "";
    }
    for (const button of panelTabs) {
      one(".lit-count", button).textContent = inPanel.get(button.getAttribute("aria-controls")) || "";
    }
  }

  function describe(ids) {
    caption.hidden = ids.length === 0;
    if (!ids.length) return;
    const computed = ids.filter((id) => !onlyRead.has(id));
    ids = computed.length ? computed : ids;
    const lines = ids.slice(0, 3).map((id) => {
      const parts = (byId.get(id) || []).filter((e) => e.matches(".x"));  // its pieces in the source
      const text = parts.map((e) => e.textContent).join("") || id;
      const color = parts.length ? getComputedStyle(parts[0]).getPropertyValue("--c") : "";
      const [file, line] = id.split(":");
      return element("span", "line", [element("span", "", `${file}:${line}`), element("code", "", text)], color);
    });
    if (ids.length > 3) lines.push(element("span", "", `and ${ids.length - 3} more`));
    const words = pinned ? (wide.matches ? "kept lit; Esc lets go" : "tap it again to let go") : "";
    caption.replaceChildren(...lines, element("span", "trail", words));
  }

  function pin(ids, here) {
    pinned = ids;
    root.classList.toggle("pinned", Boolean(ids));
    light(ids || [], here);
    if (ids) bringIntoView(here);
  }

  // Of each pane, the first piece that has a lit line.
  function drawFirst(within) {
    const panes = new Set();
    const order = (a, b) => (a.holder.compareDocumentPosition(b.holder) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1);
    for (const { holder } of undrawn.linesOf(now).sort(order)) {
      const pane = holder.closest(".code");
      if (!within.contains(pane) || panes.has(pane)) continue;
      panes.add(pane);
      undrawn.draw(holder);
    }
  }

  // Each pane scrolls to its first lit line by itself; the page does not move.
  function bringIntoView(here) {
    drawFirst(root);
    for (const code of all(".stages .code", root)) {
      if (here && code.contains(here)) continue;
      const first = one(".ln.lit", code);
      if (!first) continue;
      const down = first.getBoundingClientRect().top - code.getBoundingClientRect().top;
      if (down < 0 || down > code.clientHeight - 60) code.scrollTop += down - code.clientHeight / 3;
    }
    const line = one(".source .ln.lit", root);
    const aside = one(".python", root);
    if (line && !(here && aside.contains(here)) && wide.matches) {
      const offset = line.getBoundingClientRect().top - aside.getBoundingClientRect().top;
      if (offset < 0 || offset > aside.clientHeight - 30) aside.scrollTop += offset - aside.clientHeight / 3;
    }
  }

  const target = (event) => {
    const found = event.target.closest("[data-origins]");
    return found && found.dataset.origins ? found : null;
  };

  root.addEventListener("pointerover", (event) => {
    if (pinned || event.pointerType === "touch") return;
    const element = target(event);
    light(element ? idsOf(element) : [], element);
  });
  root.addEventListener("pointerleave", () => { if (!pinned) light([]); });
  root.addEventListener("focusin", (event) => {
    if (!pinned && target(event)) light(idsOf(target(event)), target(event));
  });
  root.addEventListener("click", (event) => {
    const element = target(event);
    if (event.target.closest("a, button") || !getSelection().isCollapsed) return;
    if (!element) { if (pinned) pin(null); return; }
    const same = pinned && idsOf(element).join() === pinned.join();
    pin(same ? null : idsOf(element), element);
  });

  // ---- the keyboard ----
  function walk(by) {
    const at = lines.findIndex((line) => line === document.activeElement || line.matches(".here, :has(.here)"));
    const next = lines[at < 0 ? (by > 0 ? 0 : lines.length - 1) : (at + by + lines.length) % lines.length];
    next.focus({ preventScroll: false });
    if (pinned) pin(idsOf(next), next); else light(idsOf(next), next);
  }
  function travel(by) {
    const beads = all(".bead", root);
    const at = beads.findIndex((bead) => bead.classList.contains("active"));
    let next = at + by;
    while (lit.size && beads[next] && !beads[next].classList.contains("lit")) next += by;
    if (beads[next]) beads[next].click();
  }
  const keys = {
    ArrowDown: () => walk(1), ArrowUp: () => walk(-1), ArrowRight: () => travel(1), ArrowLeft: () => travel(-1),
    Escape: () => { pin(null); document.activeElement.blur(); },
    Enter: () => { const line = document.activeElement; if (lines.includes(line)) pin(pinned ? null : idsOf(line), line); },
  };
  function key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || !(event.key in keys)) return;
    const aside = one(".python", root);
    const arrow = event.key.startsWith("Arrow");
    // Arrows scroll the page as ever, unless the reader is in the source or has something pinned.
    if (arrow && !(pinned || aside.contains(document.activeElement) || aside.matches(":hover"))) return;
    if (arrow && document.activeElement.matches("[role=tab], .stages .code")) return;
    if (arrow) event.preventDefault();
    keys[event.key]();
  }

  // ---- where the reader is ----
  const beads = new Map(all(".bead", root).map((bead) => [bead.dataset.station, bead]));
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      beads.get(target.dataset.station).classList.toggle("active", isIntersecting);
    }
    const active = one(".bead.active", root);
    guide(active);
    const strip = one(".machine", root);
    if (active && strip.scrollWidth > strip.clientWidth) {
      const middle = active.getBoundingClientRect().left - strip.getBoundingClientRect().left + active.offsetWidth / 2;
      strip.scrollBy({ left: middle - strip.clientWidth / 2, behavior: still.matches ? "auto" : "smooth" });
    }
  }, { rootMargin: "-30% 0px -60% 0px" });
  for (const station of all(".station", root)) watcher.observe(station);
  // In the left column: what to look at in the station that the reader is in.
  function guide(bead) {
    const station = bead && one(bead.getAttribute("href"), root);
    const words = station && one(".guide", station);
    const here = one(".guide-here", root);
    if (words && here.dataset.of !== station.id) {
      here.dataset.of = station.id;
      const title = one("h3", station).cloneNode(true);
      here.replaceChildren(title, ...[...words.children].map((each) => each.cloneNode(true)));
    }
  }
  guide(all(".bead", root).find((bead) => bead.dataset.station !== "source"));
  for (const bead of beads.values()) {
    // A lit bead leads to the first lit line of its station, in whichever tab that is.
    bead.addEventListener("click", () => {
      const station = one(bead.getAttribute("href"));
      drawFirst(station);
      const hidden = one(".panel[hidden] .lit", station);
      if (hidden && !one(".panel:not([hidden]) .lit", station)) show(hidden.closest(".panel"));
      if (pinned) bringIntoView();
    });
  }
  return { root, key, pin, light, has: (id) => byId.has(id), first: (id) => byId.get(id)[0] };
}

function element(name, className, content, color) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (color) made.style.setProperty("--c", color);
  if (Array.isArray(content)) made.append(...content); else made.textContent = content;
  return made;
}

// ---- tabs -------------------------------------------------------------------------------------------------------

function show(panel) {
  const group = panel.parentElement;
  for (const other of all(":scope > .panel", group)) other.hidden = other !== panel;
  for (const tab of all(":scope > figcaption [role=tab]", group)) {
    const selected = tab.getAttribute("aria-controls") === panel.id;
    tab.setAttribute("aria-selected", selected);
    tab.tabIndex = selected ? 0 : -1;
  }
}
for (const group of all(".tabs")) {
  const tabs = all("[role=tab]", group);
  show(one(".panel", group));
  for (const tab of tabs) {
    tab.addEventListener("click", () => show(document.getElementById(tab.getAttribute("aria-controls"))));
  }
  arrows(tabs);
}
// Of a row of tabs one is reached by Tab, the others by arrows.
function arrows(tabs) {
  tabs.forEach((tab, at) => tab.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = tabs[(at + by + tabs.length) % tabs.length];
    next.focus();
    next.click();
  }));
}

// ---- specimens --------------------------------------------------------------------------------------------------

let beside = [];  // two specimens that are shown side by side
const specimens = all(".specimen").map(specimen);
let current = specimens[0];
let before = specimens[1] || current;
const both = one(".beside");
function choose(name) {
  const chosen = specimens.find((each) => each.root.id === name);
  if (chosen !== current) [current, before] = [chosen, current];
  beside = both && both.getAttribute("aria-pressed") === "true" ? [current, before] : [];
  document.body.classList.toggle("both", beside.length > 0);
  for (const each of specimens) each.root.hidden = each !== current && !beside.includes(each);
  for (const button of all(".choice [role=tab]")) {
    button.setAttribute("aria-selected", button.dataset.specimen === name);
    button.tabIndex = button.dataset.specimen === name ? 0 : -1;
  }
}
arrows(all(".choice [role=tab]"));
for (const button of all(".choice [role=tab]")) {
  button.addEventListener("click", () => { current.pin(null); choose(button.dataset.specimen); });
}
if (both) both.addEventListener("click", () => {
  current.pin(null);
  both.setAttribute("aria-pressed", both.getAttribute("aria-pressed") !== "true");
  choose(current.root.id);
});
if (both && address.has("both")) both.setAttribute("aria-pressed", "true");
const asked = location.hash.slice(1).split("-")[0];
choose(specimens.some((each) => each.root.id === asked) ? asked : specimens[0].root.id);
document.addEventListener("keydown", (event) => current.key(event));

// A link may pin: ?pin=block.py:12:8-40
const kept = address.get("pin");
if (kept && current.has(kept)) current.pin([kept], current.first(kept));
if (location.hash) requestAnimationFrame(() => { const at = one(location.hash); if (at) at.scrollIntoView(); });
