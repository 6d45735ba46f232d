// The page *Board*: standings with intervals and groups, what changed, failures, the heat map, and plots.
import { href, place } from "./address.js";
import { intervalBar, shareBar } from "./charts.js";
import { load } from "./data.js";
import { fill, foldable, h, section, table } from "./dom.js";
import { failuresByClass, heatMap } from "./failures.js";
import { moment, percent } from "./format.js";
import { changesLink, changesPart } from "./changes.js";
import { plotsOf } from "./plots.js";

/** Show the board. */
export async function showBoard(main) {
  const board = await load("board", Object.fromEntries(place().query));
  if (!board.suites.length) return fill(main, h("p.empty", {}, "No standings yet: run eval-pipeline run."));
  return fill(main,
    h("div.title", {}, h("h1", {}, "Board"), chooser(board)),
    (board.judge_drift ?? []).map((text) => h("p.flag", {}, h("b", {}, "judge drift: "), text)),
    h("div.columns", {},
      section("What changed", changesLink(board.changes), changesPart(board.changes)),
      section("Failures by class", failuresByClass(board.failures)),
      section("Suite × runner", heatMap(board.suites))),
    board.suites.map((suite) => standings(suite, board)),
    board.suites.length > 1 && overall(board.overall));
}

function chooser(board) {
  const current = board.boards.find((each) => each.board_id === board.board_id);
  if (board.boards.length < 2) return h("p.quiet", {}, `computed ${moment(current?.computed_at)} UTC`);
  const options = board.boards.map((each) => h("option", { value: each.board_id, selected: each === current }, `board of ${moment(each.computed_at)} UTC`));
  return h("select", { "aria-label": "board", onchange: (event) => { location.hash = href("board", { board: event.target.value }); } }, options);
}

function standings(suite, board) {
  const grouped = suite.rows.some((row) => row.groups);
  const head = ["#", "runner", ...(grouped ? ["group"] : []), "pass rate", "95 % interval", "mean", "coverage", "errors", "p50", "p95", "tokens", "cost", "answered"];
  const rows = suite.rows.map((row) => cells(row, suite.suite, grouped));
  const numbers = grouped ? [3, 5, 7, 8, 9, 10, 11] : [2, 4, 6, 7, 8, 9, 10];
  return h("section.standings", {},
    h("h2", {}, h("a", { href: href("suite", { suite: suite.suite }) }, suite.suite)),
    table(head, rows, { numbers, name: "board" }),
    remarks(suite, grouped),
    foldable("cost, latency and trend", () => plotsOf(suite, board.history), { open: suite === board.suites[0] }));
}

/** The texts of a standing are the command line's; drawings are of its numbers. */
function cells(row, suite, grouped) {
  const [rank, runner, rate, , mean, graded, errors, p50, p95, tokens, cost, answered] = row.texts;
  const name = suite ? h("a", { href: href("suite", { suite, runner }) }, runner) : runner;
  return [rank, name, ...(grouped ? [groupLetters(row.groups)] : []), rate, intervalBar(row), mean,
    h("span.coverage", {}, shareBar(row.coverage ?? 0, `${percent(row.coverage)} graded`), graded), errors, p50, p95, tokens, cost, answered];
}

function groupLetters(letters) {
  return h("span.groups", { title: "runners with a letter in common are not told apart by these cases" },
    [...(letters ?? "")].map((letter) => h(`span.letter.${"abcdef".includes(letter) ? letter : "more"}`, {}, letter)));
}

function remarks(suite, grouped) {
  const group = grouped && suite.rows.length > 1 ? ["group: runners with a letter in common are not told apart (paired tests of all pairs, Holm's adjustment)"] : [];
  return h("ul.remarks", {}, [...suite.remarks, ...suite.legend, ...group].map((text) => h("li", {}, text)));
}

function overall(board) {
  const head = ["#", "runner", "pass rate", "95 % interval", "mean", "coverage", "errors", "p50", "p95", "tokens", "cost", "answered"];
  const rows = board.rows.map((row) => cells(row, null, false));
  return section("Overall: the mean over the suites of each runner",
    table(head, rows, { numbers: [2, 4, 6, 7, 8, 9, 10], name: "board" }), remarks(board, false));
}
