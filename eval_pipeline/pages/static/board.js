// The page *Board*: standings with intervals and groups, what changed, failures, the heat map, and plots.
import { href, place } from "./address.js";
import { intervalBar, shareBar } from "./charts.js";
import { load } from "./data.js";
import { fill, foldable, h, section, table } from "./dom.js";
import { failuresByClass, heatMap } from "./failures.js";
import { moment, percent, shortened } from "./format.js";
import { changesLink, changesPart } from "./changes.js";
import { plotsOf } from "./plots.js";

const ROOM_FOR = 7;
const LONGEST = 34;
const HEAD = ["#", "runner", "group", "pass rate", "interval", "mean", "coverage", "errors", "p50", "p95", "tokens", "cost", "answered"];
const NUMBERS = ["pass rate", "mean", "errors", "p50", "p95", "tokens", "cost"];
const GROUP = "group: runners with a letter in common are not told apart (paired tests of all pairs, Holm's adjustment)";

/** Show the board. */
export async function showBoard(main) {
  const board = await load("board", Object.fromEntries(place().query));
  main.style.setProperty("--name", `${longestName(board)}ch`);
  if (!board.suites.length) return fill(main, h("p.empty", {}, "No standings yet: run eval-pipeline run."));
  return fill(main,
    h("div.title", {}, h("h1", {}, "Board"), chooser(board)),
    (board.judge_drift ?? []).map((text) => h("p.flag", {}, h("b", {}, "judge drift: "), text)),
    h("div.columns", {},
      section("What changed", changesLink(board.changes), changesPart(board.changes)),
      section("Failures by class", failuresByClass(board.failures)),
      isWide(board.suites) || heatSection(board.suites)),
    board.suites.length > 1 && overall(board.overall),
    isWide(board.suites) && heatSection(board.suites),
    board.suites.map((suite) => standings(suite, board)),
    legend(board));
}

/** The room that names of runners take in every table, so that intervals are below each other. */
function longestName(board) {
  return Math.min(LONGEST, Math.max(8, ...board.suites.flatMap((suite) => suite.rows.map((row) => row.runner.length))));
}

/** Whether the heat map needs the whole page: it is below what is smaller then. */
function isWide(suites) {
  return new Set(suites.flatMap((suite) => suite.rows.map((row) => row.runner))).size > ROOM_FOR;
}

function heatSection(suites) {
  return section("Suite × runner", h("p.quiet", {}, "pass rate in %; dashed: not ranked"), heatMap(suites));
}

function chooser(board) {
  const current = board.boards.find((each) => each.board_id === board.board_id);
  if (board.boards.length < 2) return h("p.quiet", {}, `computed ${moment(current?.computed_at)} UTC`);
  const options = board.boards.map((each) => h("option", { value: each.board_id, selected: each === current }, `board of ${moment(each.computed_at)} UTC`));
  return h("select", { "aria-label": "board", onchange: (event) => { location.hash = href("board", { board: event.target.value }); } }, options);
}

function standings(suite, board) {
  return h("section.standings", {},
    h("h2", {}, h("a", { href: href("suite", { suite: suite.suite }) }, suite.suite)),
    standingsTable(suite.rows, suite.suite, board.suites.some(isGrouped) ? [] : ["group"]),
    remarks(suite.remarks),
    foldable("cost, latency and trend", () => plotsOf(suite, board.history), { open: suite === board.suites[0] }));
}

function isGrouped(suite) {
  return suite.rows.some((row) => row.groups);
}

/** A table of standings without the columns that nobody has anything in. */
function standingsTable(rows, suite, without) {
  const shown = HEAD.filter((name) => !without.includes(name));
  const numbers = NUMBERS.map((name) => shown.indexOf(name)).filter((column) => column >= 0);
  const titles = shown.map((name) => (name === "interval" ? scale() : name));
  return table(titles, rows.map((row) => { const all = cells(row, suite); return shown.map((name) => all[name]); }), { numbers, name: "board" });
}

function scale() {
  return h("span.scale", { title: "dot: pass rate; bar: 95 % interval; pale: from all that is not graded failed to all of it passed" },
    h("span", {}, "0"), h("span", {}, "95 % interval"), h("span", {}, "100 %"));
}

/** The texts of a standing are the command line's; drawings are of its numbers. */
function cells(row, suite) {
  const [rank, runner, rate, , mean, graded, errors, p50, p95, tokens, cost, answered] = row.texts;
  const shown = shortened(runner, LONGEST);
  const name = suite ? h("a", { href: href("suite", { suite, runner }) }, shown) : shown;
  const coverage = h("span.coverage", {}, shareBar(row.coverage ?? 0, `${percent(row.coverage)} graded`), graded);
  return { "#": rank, runner: h("span.name", { title: runner }, name), group: groupLetters(row.groups), "pass rate": rate, interval: intervalBar(row), mean, coverage, errors, p50, p95, tokens, cost, answered };
}

function groupLetters(letters) {
  return h("span.groups", { title: "runners with a letter in common are not told apart by these cases" },
    [...(letters ?? "")].map((letter) => h(`span.letter.${"abcdef".includes(letter) ? letter : "more"}`, {}, letter)));
}

function remarks(texts) {
  return texts.length ? h("ul.remarks", {}, texts.map((text) => h("li", {}, text))) : null;
}

/** What ranks and groups are, once for all tables. */
function legend(board) {
  const texts = new Set([board.overall, ...board.suites].flatMap((each) => each.legend ?? []));
  const grouped = board.suites.some((suite) => isGrouped(suite) && suite.rows.length > 1);
  return remarks([...texts, ...(grouped ? [GROUP] : [])]);
}

/** A median of several suites would be of other questions for each runner: there is none. */
function overall(board) {
  return h("section.standings", {}, h("h2", {}, "Overall: the mean over the suites of each runner"),
    standingsTable(board.rows, null, ["group", "p50", "p95"]), remarks(board.remarks));
}
