// Elements of the page. Texts become text nodes only: nothing that a suite or a model says is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element: `tag.class.class`, properties (listeners begin with `on`), and children (texts or elements). */
export function h(name, properties, ...children) {
  const [tag, ...classes] = name.split(".");
  return filled(document.createElement(tag), classes, properties, children);
}

/** Return an element of a drawing. */
export function svg(name, properties, ...children) {
  const [tag, ...classes] = name.split(".");
  return filled(document.createElementNS(SVG, tag), classes, properties, children);
}

function filled(element, classes, properties, children) {
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(properties ?? {})) setProperty(element, key, value);
  element.append(...children.flat(3).filter(isShown).map(asNode));
  return element;
}

function setProperty(element, key, value) {
  if (value === null || value === undefined) return;
  if (key.startsWith("aria-")) element.setAttribute(key, String(value));
  else if (value === false) return;
  else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
  else if (key === "class") element.classList.add(...value.split(" ").filter(Boolean));
  else element.setAttribute(key, value === true ? "" : String(value));
}

function isShown(child) {
  return child !== null && child !== undefined && child !== false && child !== true && child !== "";
}

function asNode(child) {
  return child instanceof Node ? child : visibleText(String(child));
}

const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Return a text node in which characters that hide or reorder text are visible. */
function visibleText(text) {
  return document.createTextNode(text.replace(CONTROLS, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`));
}

/** Replace what an element contains. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(3).filter(isShown).map(asNode));
  return element;
}

/** Return a titled part of a page; nothing without content. */
export function section(title, ...content) {
  const shown = content.flat(3).filter(isShown);
  return shown.length ? h("section", {}, h("h2", {}, title), shown) : null;
}

/** Return a table with a head; cells are texts or elements, `numbers` the places of right-aligned columns. */
export function table(head, rows, { numbers = [], name = "" } = {}) {
  const cell = (tag) => (content, place) => h(tag, { class: numbers.includes(place) ? "number" : "" }, content);
  return h("div.scrolls", {}, h(`table${name ? `.${name}` : ""}`, {},
    h("thead", {}, h("tr", {}, head.map(cell("th")))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell("td")))))));
}

/** Return a part that opens on a click; `content` is a function that is called when it is first opened. */
export function foldable(title, content, { open = false, name = "" } = {}) {
  const body = h("div.folded");
  const details = h(`details${name ? `.${name}` : ""}`, { open }, h("summary", {}, title), body);
  const show = () => { if (details.open && !body.childNodes.length) fill(body, content()); };
  details.addEventListener("toggle", show);
  show();
  return details;
}
