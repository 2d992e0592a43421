/* What scrolls sideways can be reached with the keyboard: code, tables and drawings that are wider than the window. The theme
   takes this away again where there is no mouse; a phone can have a keyboard, too. */
const reach = box => {
  const wanted = box.scrollWidth > box.clientWidth ? "0" : null
  if (box.getAttribute("tabindex") === wanted) return
  if (wanted) box.setAttribute("tabindex", wanted)
  else box.removeAttribute("tabindex")
}
const sizes = new ResizeObserver(changes => changes.forEach(change => reach(change.target)))
const taken = new MutationObserver(changes => changes.forEach(change => reach(change.target)))
addEventListener("load", () => { // the theme has put its tables into frames by then
  for (const box of document.querySelectorAll("pre > code, .md-typeset__scrollwrap, figure.drawing")) {
    reach(box)
    sizes.observe(box)
    taken.observe(box, { attributeFilter: ["tabindex"] })
  }
})
