// Failures by class, and the heat map of suites × runners.
import { href } from "./address.js";
import { shareBar } from "./charts.js";
import { foldable, h, table } from "./dom.js";
import { amount, percent, shortened } from "./format.js";

/** Return failure classes, the most frequent first, each with where it happened and examples. */
export function failuresByClass(failures) {
  const classes = new Map();
  for (const row of failures) classes.set(row.failure_class, [...(classes.get(row.failure_class) ?? []), row]);
  const counts = [...classes.values()].map((rows) => ({ rows, count: rows.reduce((sum, row) => sum + row.count, 0) }));
  const most = Math.max(1, ...counts.map((each) => each.count));
  counts.sort((a, b) => b.count - a.count);
  return counts.length ? counts.map((each) => failureClass(each, most)) : h("p.quiet", {}, "nothing failed");
}

function failureClass({ rows, count }, most) {
  const first = rows[0];
  const title = h("span.failure", {}, shareBar(count / most, `${count} plans`), h("span.count", {}, amount(count)),
    h("span", {}, h("b", {}, first.label ?? first.failure_class), h("span.quiet", {}, ` ${first.origin ?? ""}`)));
  return foldable(title, () => table(["suite", "runner", "plans", "of executed", "cases"],
    rows.map((row) => [row.suite, row.runner, amount(row.count), percent(row.share), examples(row)]), { numbers: [2, 3] }));
}

function examples(row) {
  const links = (row.examples ?? []).map((caseId) => h("a", { href: href("case", { suite: row.suite, case: caseId }), title: row.example_reason }, caseId));
  return h("span.list", {}, links);
}

/** Return a table of pass rates, coloured from red to green; what is apart of a board is pale. */
export function heatMap(suites) {
  const runners = [...new Set(suites.flatMap((suite) => suite.rows.map((row) => row.runner)))].sort();
  const rows = suites.map((suite) => [
    h("a", { href: href("suite", { suite: suite.suite }) }, suite.suite),
    ...runners.map((runner) => heat(suite, suite.rows.find((row) => row.runner === runner))),
  ]);
  const head = ["", ...runners.map((runner) => h("span.upright", { title: runner }, shortened(runner)))];
  return table(head, rows, { name: "heat" });
}

function heat(suite, row) {
  if (!row || row.pass_rate === null) return h("span.none", {}, "·");
  const place = Math.min(9, Math.floor(row.pass_rate * 10));
  const title = `${suite.suite} × ${row.runner}: ${percent(row.pass_rate)}, ${row.graded} of ${row.planned} graded${row.apart ? `; not ranked: ${row.apart}` : ""}`;
  return h(`a.warmth.w${place}`, { class: row.apart ? "apart" : "", title, href: href("suite", { suite: suite.suite, runner: row.runner }) },
    String(Math.round(100 * row.pass_rate)));
}
