// The page *Compare*: two sides, paired by case, as `eval-pipeline compare A B` has them.
import { go, href, place } from "./address.js";
import { changesPart } from "./changes.js";
import { isEmbedded } from "./embedded.js";
import { load } from "./data.js";
import { fill, h, section, svg, table } from "./dom.js";
import { amount, change, moment, percent, UNKNOWN } from "./format.js";

/** Show a comparison; without sides, that of the newest two sweeps. */
export async function showCompare(main) {
  const { query } = place();
  const { sweeps, runners, comparable } = await load("sweeps");
  const names = { a: query.get("a") ?? nameOf(comparable[1]), b: query.get("b") ?? nameOf(comparable[0]) };
  fill(main, h("div.title", {}, h("h1", {}, "Compare")), sides(names, sweeps, runners));
  if (!names.a || !names.b) return main.append(h("p.empty", {}, "There are no two sweeps yet; two runners can be compared."));
  const found = await load("compare", names);
  const isSweeps = [names.a, names.b].every((name) => name.startsWith("sweep:") && !name.includes("@"));
  const changes = isSweeps && !isEmbedded() ? await load("changes", { a: names.a.slice(6), b: names.b.slice(6) }) : null;
  main.append(verdictOf(found), summaryTable(found), casesTable(found));
  if (changes) main.append(section("What became of each plan", changesPart(changes)));
  return main;
}

function nameOf(id) {
  return id ? `sweep:${id}` : null;
}

function sides(names, sweeps, runners) {
  const known = [
    ...runners.map((name) => [name, name]), ["current", "current results"], ["baseline", "baseline"],
    ...sweeps.map((sweep) => [nameOf(sweep.sweep_id), `sweep of ${moment(sweep.started_at)}${sweep.name ? ` (${sweep.name})` : ""}`]),
  ];
  const others = Object.values(names).filter((name) => name && !known.some(([value]) => value === name)); // such as nightly@latest
  const options = [...others.map((name) => [name, name]), ...known];
  const select = (side) => h("label", {}, `${side} `, h("select", { onchange: (event) => go("compare", { ...names, [side]: event.target.value }) },
    options.map(([value, text]) => h("option", { value, selected: value === names[side] }, text))));
  return h("div.toolbar", {}, select("a"), select("b"));
}

function verdictOf(found) {
  const { interval, mean_delta: delta } = found.summary;
  if (!found.summary.paired) return h("p", {}, "No case could be paired.");
  const shown = interval && (interval[0] > 0 || interval[1] < 0);
  const text = shown ? `b is ${delta > 0 ? "better" : "worse"} than a: the interval of the mean change excludes 0.`
    : "These cases do not show which side is better: the interval of the mean change includes 0.";
  return h("p", {}, text, found.evidence_of_regression === "regressed" && h("b.bad", {}, " More cases fell than chance explains."));
}

function summaryTable(found) {
  const summaries = found.suites.length > 1 ? [...found.suites, found.summary] : found.suites;
  const reach = Math.max(0.1, ...summaries.flatMap((each) => (each.interval ?? []).map(Math.abs)));
  const rows = summaries.map((each) => [each.suite ?? "all", change(each.mean_delta), changeBar(each, reach), intervalText(each.interval),
    amount(each.wins), amount(each.losses), amount(each.ties), amount(each.paired),
    `${amount(each.mean_baseline, 3)} → ${amount(each.mean_candidate, 3)}`, `${percent(each.pass_rate_baseline)} → ${percent(each.pass_rate_candidate)}`,
    unpaired(each)]);
  return table(["suite", "mean change", "", "95 %", "wins", "losses", "ties", "paired", "mean", "pass rate", "not paired"], rows, { numbers: [1, 4, 5, 6, 7], name: "board" });
}

function intervalText(interval) {
  return interval ? `${change(interval[0])} to ${change(interval[1])}` : UNKNOWN;
}

function changeBar(summary, reach) {
  const x = (value) => 100 + (92 * value) / reach;
  const title = `${change(summary.mean_delta)}, 95 %: ${intervalText(summary.interval)}`;
  return svg("svg.interval", { viewBox: "0 0 200 16", role: "img", "aria-label": title }, svg("title", {}, title),
    svg("line.track", { x1: 8, x2: 192, y1: 8, y2: 8 }), svg("line.zero", { x1: 100, x2: 100, y1: 0, y2: 16 }),
    summary.interval && svg("line.likely", { x1: x(summary.interval[0]), x2: x(summary.interval[1]), y1: 8, y2: 8 }),
    summary.mean_delta !== null && svg("circle", { cx: x(summary.mean_delta), cy: 8, r: 4.5 }));
}

function unpaired(summary) {
  const reasons = { ungraded: "not graded", changed: "other content", only_baseline: "only in a", only_candidate: "only in b" };
  return Object.keys(reasons).filter((name) => summary[name]).map((name) => `${summary[name]} ${reasons[name]}`).join(", ");
}

function casesTable(found) {
  if (!found.cases.length) return h("p.quiet", {}, "no case changed by 0.1 or more");
  const rows = found.cases.map((row) => [
    h("a", { href: href("case", { suite: row.suite, case: row.case_id }) }, `${row.suite}/${row.case_id}`), row.runner ?? "",
    h(`b.${row.outcome === "win" ? "good" : "bad"}`, {}, change(row.delta)), row.outcome, amount(row.score_baseline, 3), amount(row.score_candidate, 3)]);
  return section("Cases with the largest change", table(["case", "runner", "change", "outcome", "a", "b"], rows, { numbers: [2, 4, 5] }));
}
