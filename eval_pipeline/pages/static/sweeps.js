// The page *Sweeps*: what each did, and which two are compared.
import { go, href } from "./address.js";
import { load } from "./data.js";
import { fill, h, table } from "./dom.js";
import { amount, counted, duration, money, moment } from "./format.js";

/** Show the sweeps. */
export async function showSweeps(main) {
  const { sweeps, comparable } = await load("sweeps");
  if (!sweeps.length) return fill(main, h("p.empty", {}, "No sweep yet: run eval-pipeline run."));
  const chosen = { a: sweeps[1]?.sweep_id ?? sweeps[0].sweep_id, b: sweeps[0].sweep_id };
  const compare = () => go("compare", { a: `sweep:${chosen.a}`, b: `sweep:${chosen.b}` });
  const radio = (side, sweep) => h("input", {
    type: "radio", name: side, checked: chosen[side] === sweep.sweep_id, "aria-label": `${side} is ${sweep.sweep_id}`,
    onchange: () => { chosen[side] = sweep.sweep_id; },
  });
  const head = ["a", "b", "started (UTC)", "name", "status", "took", "pairs", "planned", "executed", "reused", "passed", "failed", "errors", "cost", "Dagster run"];
  const rows = sweeps.map((sweep) => [radio("a", sweep), radio("b", sweep), startOf(sweep, comparable ?? []), ...cellsOf(sweep)]);
  return fill(main,
    h("div.title", {}, h("h1", {}, "Sweeps"), h("span.quiet", {}, counted(sweeps.length, "sweep"))),
    h("div.toolbar", {}, h("button", { onclick: compare, disabled: sweeps.length < 2 }, "compare a with b")),
    table(head, rows, { numbers: [5, 6, 7, 8, 9, 10, 11, 12, 13], name: "board" }));
}

/** When a sweep began; of one with a comparable sweep before it, a link to what became different. */
function startOf(sweep, comparable) {
  const place = comparable.indexOf(sweep.sweep_id);
  const before = place < 0 ? undefined : comparable[place + 1];
  const text = moment(sweep.started_at);
  if (!before) return h("span", { title: sweep.sweep_id }, text);
  return h("a", { href: href("compare", { a: `sweep:${before}`, b: `sweep:${sweep.sweep_id}` }), title: `${sweep.sweep_id}: compare with the sweep before` }, text);
}

function cellsOf(sweep) {
  const seconds = sweep.finished_at ? (Date.parse(isoTime(sweep.finished_at)) - Date.parse(isoTime(sweep.started_at))) / 1000 : null;
  const tone = { finished: "good", running: "odd" }[sweep.status] ?? "bad";
  return [sweep.name, h(`span.${tone}`, {}, sweep.status), duration(seconds),
    ...["pairs", "planned", "executed", "reused", "passed", "failed", "errored"].map((name) => amount(sweep[name])),
    costOfSweep(sweep), h("span.quiet", {}, sweep.dagster_run_id?.slice(0, 8))];
}

/** The cost of a sweep; where that of some executions is unknown, at least this much. */
function costOfSweep(sweep) {
  if (!sweep.cost_known) return money(null);
  return sweep.cost_known < sweep.cost_of ? `≥ ${money(sweep.cost_usd)}` : money(sweep.cost_usd);
}

/** DuckDB writes a zone of hours only. */
function isoTime(text) {
  return text.replace(" ", "T").replace(/([+-]\d\d)$/, "$1:00");
}
