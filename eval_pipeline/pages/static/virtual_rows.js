// A list of any length of which only the rows in sight are elements.
import { fill, h } from "./dom.js";

const BEYOND = 8;

/**
 * Return a list with `scroller` (the element to show, which has `head` above the rows), `show(count)`, `draw()`,
 * `redraw()` and `scrollTo(place)`. All rows are `height` pixels high; `row(place)` returns the element of one.
 */
export function virtualRows(height, head, row) {
  const body = h("div.virtual");
  const scroller = h("div.rows", { tabindex: 0 }, h("div.grid", {}, head, body));
  let count = 0;
  let shown = "";
  function draw() {
    const first = Math.max(0, Math.floor(scroller.scrollTop / height) - BEYOND);
    const last = Math.min(count, Math.ceil((scroller.scrollTop + scroller.clientHeight) / height) + BEYOND);
    const key = `${first}-${last}`;
    if (key === shown) return;
    shown = key;
    const rows = Array.from({ length: Math.max(0, last - first) }, (_, place) => placed(first + place));
    fill(body, rows);
  }
  function placed(place) {
    const element = row(place);
    element.style.top = `${place * height}px`;
    element.style.height = `${height}px`;
    return element;
  }
  function show(rows) {
    count = rows;
    shown = "";
    body.style.height = `${rows * height}px`;
    draw();
  }
  function redraw() {
    shown = "";
    draw();
  }
  scroller.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  return { scroller, show, draw, redraw, scrollTo: (place) => scrollToRow(scroller, head.offsetHeight, place * height, height) };
}

function scrollToRow(scroller, above, top, height) {
  const room = scroller.clientHeight - above - height;
  const margin = Math.max(0, Math.min(160, room / 2));
  if (top - margin < scroller.scrollTop) scroller.scrollTop = top - margin;
  else if (top + margin > scroller.scrollTop + room) scroller.scrollTop = top + margin - room;
}
