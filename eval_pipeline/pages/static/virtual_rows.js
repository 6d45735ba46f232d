// A list of any length of which only the rows in sight are elements.
import { fill, h } from "./dom.js";

const BEYOND = 8;

/**
 * Return a list with `show(count)`, `select(place)` and `draw()`. All rows are `height` pixels high; `row(place)`
 * returns the element of one. It scrolls with the window.
 */
export function virtualRows(height, row) {
  const body = h("div.virtual");
  let count = 0;
  let shown = "";
  function draw() {
    const top = -body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / height) - BEYOND);
    const last = Math.min(count, Math.ceil((top + window.innerHeight) / height) + BEYOND);
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
  return { body, show, draw, redraw, scrollTo: (place) => scrollToRow(body, place * height, height) };
}

function scrollToRow(body, top, height) {
  const start = body.getBoundingClientRect().top + window.scrollY + top;
  const margin = 160;
  if (start - margin < window.scrollY) window.scrollTo(0, start - margin);
  else if (start + height + margin > window.scrollY + window.innerHeight) window.scrollTo(0, start + height + margin - window.innerHeight);
}
