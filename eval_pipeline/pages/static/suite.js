// The page *Suite*: a grid of cases × runners with answers, and its filters, which are part of the address.
import { adjust, href, place } from "./address.js";
import { load } from "./data.js";
import { fill, foldable, h } from "./dom.js";
import { amount, counted, shortened } from "./format.js";
import { FILTERS, placesOf } from "./grid_filters.js";
import { onKeys } from "./keys.js";
import { markBadges } from "./marks.js";
import { virtualRows } from "./virtual_rows.js";

const HEIGHT = 74;
const AT_ONCE = 50;

/** Show the grid of a suite. */
export async function showSuite(main) {
  const { query } = place();
  const parameters = { suite: query.get("suite"), of: query.get("of") ?? "current" };
  const grid = await load("suite", parameters);
  const state = { grid, parameters, rows: new Map(), waiting: new Set(), places: [], at: -1, found: null };
  const runners = grid.runners.filter((runner) => !query.get("runner") || query.getAll("runner").includes(runner.name));
  state.runners = runners.length ? runners : grid.runners;
  state.count = h("span.quiet", { role: "status" });
  const head = h("div.gridrow.head", {}, h("div", {}, "case"), state.runners.map((runner) => columnHead(runner)));
  state.list = virtualRows(HEIGHT, head, (number) => gridRow(state, number));
  layOut(state.list.scroller.firstChild, state.runners.length);
  fill(main,
    h("div.title", {}, h("h1", {}, grid.suite), ofText(grid.of), state.count),
    grid.summaries && foldable("rates", () => h("ul.remarks", {}, Object.entries(grid.summaries).map(([runner, text]) => h("li", {}, `${runner}: ${text}`))), { open: true }),
    toolbar(state),
    state.list.scroller);
  listen(state);
  await applyFilters(state);
}

/** The name of a runner and how many of its cases passed: those that it passed in every graded repetition. */
function columnHead({ name, marks }) {
  const graded = marks.filter((each) => /[pefu]/.test(each));
  const passed = graded.filter((each) => !/[fu]/.test(each)).length;
  return h("div", {}, h("span", { title: name }, shortened(name, 40)), h("div.tally", {}, graded.length ? `${amount(passed)} of ${amount(graded.length)} passed` : "nothing graded"));
}

function layOut(grid, runners) {
  const first = document.documentElement.clientWidth < 640 ? 9 : 13;
  grid.style.setProperty("--columns", `minmax(${first}rem, 1.2fr) repeat(${runners}, minmax(11rem, 1fr))`);
  grid.style.minWidth = `${first + 12 * runners}rem`;
}

function ofText(of) {
  return of === "current" ? null : h("span.quiet", {}, `of ${of}`);
}

function toolbar(state) {
  const { query } = place();
  const chosen = query.get("show") ?? "all";
  const buttons = Object.keys(FILTERS).map((name) => h("button", {
    "aria-pressed": name === chosen, "data-filter": name,
    onclick: () => changeFilter(state, { show: name === "all" ? null : name }),
  }, FILTERS[name].title));
  const tags = h("select", { "aria-label": "tag", onchange: (event) => changeFilter(state, { tag: event.target.value || null }) },
    h("option", { value: "" }, "every tag"), state.grid.tags.map((tag) => h("option", { value: tag, selected: tag === query.get("tag") }, tag)));
  const text = h("input", {
    type: "search", id: "text", placeholder: "find in question, answer, reason", value: query.get("text") ?? "", "aria-label": "text",
    oninput: later((event) => changeFilter(state, { text: event.target.value || null }), 250),
  });
  return h("div.toolbar", { role: "toolbar" }, h("div.chips", {}, buttons), state.grid.runners.length > 1 && runnerChips(state), state.grid.tags.length > 0 && tags, text);
}

/** Return a button for each runner; those that are pressed have a column. */
function runnerChips(state) {
  const on = state.runners.map((runner) => runner.name);
  const toggled = (name) => state.grid.runners.map((runner) => runner.name).filter((each) => on.includes(each) !== (each === name));
  const press = (name) => () => {
    const chosen = toggled(name);
    adjust({ runner: chosen.length && chosen.length < state.grid.runners.length ? chosen : null });
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  };
  return h("div.chips", { "aria-label": "runners" }, state.grid.runners.map(({ name }) => h("button.runner", { "aria-pressed": on.includes(name), title: name, onclick: press(name) }, shortened(name))));
}

function later(act, ms) {
  let timer = 0;
  return (event) => { clearTimeout(timer); timer = setTimeout(() => act(event), ms); };
}

function changeFilter(state, parameters) {
  adjust(parameters);
  for (const button of document.querySelectorAll("[data-filter]")) {
    button.setAttribute("aria-pressed", String(button.dataset.filter === (place().query.get("show") ?? "all")));
  }
  return applyFilters(state);
}

async function applyFilters(state) {
  const { query } = place();
  const text = query.get("text");
  const found = text ? new Set((await load("search", { ...state.parameters, text })).cases) : null;
  if ((place().query.get("text") ?? null) !== text) return;  // another text was typed meanwhile
  state.places = placesOf(state.grid, state.runners, { show: query.get("show") ?? "all", tag: query.get("tag"), found });
  state.at = -1;
  fill(state.count, `${amount(state.places.length)} of ${counted(state.grid.cases.length, "case")}`);
  state.list.show(state.places.length);
}

function gridRow(state, number) {
  const index = state.places[number];
  const caseId = state.grid.cases[index];
  if (!state.rows.has(caseId)) askAnswers(state, number);
  const row = state.rows.get(caseId);
  const link = h("a", { href: href("case", { suite: state.grid.suite, case: caseId, of: ofParameter(state) }) }, caseId);
  const tags = (state.grid.tags_of[index] ?? []).map((tag) => h("span.tag", {}, state.grid.tags[tag]));
  return h("div.gridrow", { class: number === state.at ? "selected" : "" },
    h("div", {}, h("div.line", {}, link, tags), h("p", {}, row?.question)),
    state.runners.map((runner) => gridCell(runner, index, row?.answers[runner.name])));
}

function ofParameter(state) {
  return state.parameters.of === "current" ? null : state.parameters.of;
}

function gridCell(runner, index, answer) {
  const marks = runner.marks[index];
  if (!marks) return h("div.quiet", {}, "·");
  const text = answer?.output ?? answer?.error ?? answer?.reason ?? "";
  return h("div", {}, h("div.line", {}, markBadges(marks), h("span.quiet", {}, amount(runner.scores[index], 2))), h("p", { title: answer?.reason }, text));
}

/** Ask for the answers of the rows around one, once. */
function askAnswers(state, number) {
  const start = number - (number % AT_ONCE);
  const cases = state.places.slice(start, start + AT_ONCE).map((index) => state.grid.cases[index]);
  const missing = cases.filter((caseId) => !state.rows.has(caseId) && !state.waiting.has(caseId));
  if (!missing.length) return;
  missing.forEach((caseId) => state.waiting.add(caseId));
  load("rows", { ...state.parameters, case: missing }).then(({ rows }) => {
    for (const caseId of missing) state.rows.set(caseId, rows[caseId] ?? { question: null, answers: {} });
    requestAnimationFrame(() => state.list.redraw());
  });
}

function listen(state) {
  const draw = () => requestAnimationFrame(() => state.list.draw());
  window.addEventListener("resize", draw);
  const move = (by) => {
    state.at = Math.max(0, Math.min(state.places.length - 1, state.at + by));
    state.list.scrollTo(state.at);
    state.list.redraw();
  };
  const open = () => {
    const caseId = state.grid.cases[state.places[state.at]];
    if (caseId !== undefined) location.hash = href("case", { suite: state.grid.suite, case: caseId, of: ofParameter(state) });
  };
  onKeys({ j: () => move(1), k: () => move(-1), Enter: open, "/": () => document.getElementById("text").focus() }, () => {
    window.removeEventListener("resize", draw);
  });
}
