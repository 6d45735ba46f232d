// The frame of the page: which part is shown, its navigation, keys and colours.
import { go, href, place } from "./address.js";
import { showAgreement } from "./agreement.js";
import { showBoard } from "./board.js";
import { showCase } from "./case.js";
import { showCompare } from "./compare.js";
import { fill, h } from "./dom.js";
import { clearKeys, listenToKeys } from "./keys.js";
import { liveLine } from "./live.js";
import { recall, remember } from "./memory.js";
import { showRatings } from "./ratings.js";
import { showSuite } from "./suite.js";
import { showSweeps } from "./sweeps.js";

const PAGES = { board: showBoard, suite: showSuite, case: showCase, sweeps: showSweeps, compare: showCompare, ratings: showRatings, agreement: showAgreement };
const LINKS = { board: "Board", sweeps: "Sweeps", compare: "Compare", ratings: "Ratings", agreement: "Agreement" };
const KEYS = { b: "board", s: "sweeps", c: "compare", r: "ratings", a: "agreement" };
const PATIENCE_MS = 400;
const HELP = [
  ["b s c r a", "board, sweeps, compare, ratings, agreement"], ["j k", "next and previous row or case"], ["Enter", "open the row"],
  ["u", "from a case to its suite"], ["/", "find a text"], ["t", "light or dark"], ["?", "these keys"],
];

const main = h("main", { tabindex: -1 });
const nav = h("nav", { "aria-label": "pages" });
const help = h("dialog", { "aria-label": "keys" }, h("h2", {}, "Keys"),
  h("dl", {}, HELP.map(([keys, act]) => [h("dt", {}, keys), h("dd", {}, act)])),
  h("button", { onclick: () => help.close() }, "close"));
let shown = 0;

async function show() {
  const { page } = place();
  const number = (shown += 1);
  clearKeys();
  drawNavigation(page);
  const content = h("div");
  const patience = setTimeout(() => { if (number === shown) fill(main, h("p.empty", { role: "status" }, "loading …")); }, PATIENCE_MS);
  try {
    await (PAGES[page] ?? PAGES.board)(content);
  } catch (error) {
    fill(content, h("p.problem", { role: "alert" }, error.message));
  }
  clearTimeout(patience);
  if (number !== shown) return;  // another page was asked for meanwhile
  fill(main, content);
  window.scrollTo(0, 0);
  window.dispatchEvent(new Event("resize"));
  document.title = [place().query.get("case") ?? place().query.get("suite") ?? LINKS[page] ?? "", "eval-pipeline"].filter(Boolean).join(" · ");
}

function drawNavigation(page) {
  const link = (name) => h("a", { href: href(name), "aria-current": name === page ? "page" : null }, LINKS[name]);
  fill(nav, h("a.brand", { href: href("board") }, "eval-pipeline"), Object.keys(LINKS).map(link), h("span.room"),
    h("button", { title: "light or dark (t)", "aria-label": "light or dark", onclick: switchColours }, "◐"),
    h("button", { title: "keys (?)", "aria-label": "keys", onclick: () => help.showModal() }, "?"));
}

function isDark() {
  return document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
}

function switchColours() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  remember("theme", document.documentElement.dataset.theme);
  show();
}

/** Show newer results, unless somebody reads or writes in the present ones. */
function showNewer() {
  if (place().page === "board" || place().page === "sweeps") show();
}

function begin() {
  const theme = recall("theme");
  if (theme) document.documentElement.dataset.theme = theme;
  document.body.append(nav, liveLine(showNewer), main, help);  // beside the data of an exported page
  const pages = Object.fromEntries(Object.entries(KEYS).map(([key, page]) => [key, () => go(page)]));
  listenToKeys({ ...pages, t: switchColours, "?": () => help.showModal() });
  window.addEventListener("hashchange", show);
  show();
}

begin();
