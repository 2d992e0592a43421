// Long texts stand in the page as text, a hundred lines a piece, and become elements when the reader comes near: a
// program of a thousand nodes has 25,000 lines. Without JavaScript they are elements from the start: a <noscript>.
"use strict";

const pieceLines = /<span class="ln[^>]* data-origins="([^"]*)"|<span class="ln/g;

function plain(html) {
  if (!html.includes("&")) return html;
  const area = document.createElement("textarea");
  area.innerHTML = html;
  return area.value;
}

// drawn(element): called with each piece when it has become elements.
function later(root, drawn) {
  const waiting = new Map();
  for (const holder of root.querySelectorAll(".later")) {
    const panel = holder.closest(".panel");
    const station = holder.closest("[data-station]").dataset.station;
    waiting.set(holder, { text: one("noscript", holder).textContent, station, panel: panel && panel.id });
  }
  let index = null;  // id -> the pieces it has lines in, and their numbers; made when the page has been drawn
  function indexed() {
    index = new Map();
    for (const [holder, piece] of waiting) {
      let number = 0;
      for (const [, origins] of piece.text.matchAll(pieceLines)) {
        number += 1;
        for (const id of origins ? plain(origins).split(" ") : []) {
          if (!index.has(id)) index.set(id, []);
          index.get(id).push([holder, number]);
        }
      }
    }
    return index;
  }
  // The lines that would be lit, were they drawn: piece -> their numbers.
  function linesOf(ids) {
    const found = new Map();
    for (const id of ids) {
      for (const [holder, number] of (index || indexed()).get(id) || []) {
        if (!waiting.has(holder)) continue;
        if (!found.has(holder)) found.set(holder, new Set());
        found.get(holder).add(number);
      }
    }
    return [...found].map(([holder, numbers]) => ({ ...waiting.get(holder), holder, count: numbers.size }));
  }
  function draw(holder) {
    if (!waiting.has(holder)) return;
    const { text } = waiting.get(holder);
    waiting.delete(holder);
    watcher.unobserve(holder);
    holder.className = "piece";
    holder.innerHTML = text;
    drawn(holder);
  }
  const drawAll = (within = root) => { for (const holder of within.querySelectorAll(".later")) draw(holder); };
  const margins = { rootMargin: "900px 0px", scrollMargin: "900px 0px" };
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) draw(target);
  }, margins);
  for (const holder of waiting.keys()) watcher.observe(holder);
  if (waiting.size) (window.requestIdleCallback || setTimeout)(() => index || indexed());
  // What is selected, printed or searched is the whole text.
  root.addEventListener("selectstart", (event) => {
    const pane = event.target.parentElement && event.target.parentElement.closest(".code");
    if (pane) drawAll(pane);
  });
  addEventListener("beforeprint", () => drawAll());
  addEventListener("keydown", (event) => { if ((event.ctrlKey || event.metaKey) && event.key === "f") drawAll(); });
  return { linesOf, draw };
}
