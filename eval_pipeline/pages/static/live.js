// The sweep that is under way: a line above every page, which opens to its pairs and latest failures.
import { shareBar } from "./charts.js";
import { askAgain, forget } from "./data.js";
import { fill, h, table } from "./dom.js";
import { isEmbedded } from "./embedded.js";
import { amount, duration, money, percent, UNKNOWN } from "./format.js";

const EVERY_MS = 2000;

/** Return the line, and keep it up to date; `changed` is called when newer results are published. */
export function liveLine(changed) {
  const line = h("div.live", { role: "status", hidden: true });
  if (!isEmbedded()) watch(line, changed, { version: undefined, open: false });
  return line;
}

async function watch(line, changed, state) {
  try {
    if (!document.hidden) update(line, await askAgain("live"), changed, state);
  } catch {
    line.hidden = false;
    fill(line, h("p.problem", {}, "the server does not answer: was eval-pipeline view ended?"));
  }
  setTimeout(() => watch(line, changed, state), EVERY_MS);
}

function update(line, { version, sweep }, changed, state) {
  line.hidden = sweep === null;
  if (state.version !== undefined && version !== state.version) {
    forget();
    changed();
  }
  state.version = version;
  state.open = line.querySelector("details")?.open ?? state.open; // its own event comes later than it may be replaced
  if (sweep) fill(line, details(sweep, state));
}

function details(sweep, state) {
  const all = sweep.overall;
  const share = all.total ? all.done / all.total : 0;
  const lead = sweep.ended ? "A sweep was interrupted; the next run goes on from there" : "A sweep is under way";
  const summary = h("summary", {}, h("b", {}, lead), shareBar(share, percent(share)),
    `${amount(all.done)} of ${amount(all.total)} plans in ${amount(sweep.pairs.length)} of ${amount(sweep.pairs_in_all)} pairs`,
    h("span.quiet", {}, rateOf(all)), h("span.quiet", {}, `${amount(all.passed)} passed, ${amount(all.failed)} failed, ${amount(all.errored)} not graded`));
  return h("details", { open: state.open }, summary, pairTable(sweep.pairs), failureList(sweep.failures));
}

function rateOf(all) {
  const rate = all.per_second === null ? UNKNOWN : `${amount(all.per_second, 1)}/s`;
  return `${rate}, about ${duration(all.seconds_left)} left, ${money(all.cost_usd)}`;
}

function pairTable(pairs) {
  const rows = pairs.map((pair) => [pair.suite, pair.runner, shareBar(pair.total ? pair.done / pair.total : 0, ""), `${amount(pair.done)}/${amount(pair.total)}`,
    amount(pair.passed), amount(pair.failed), amount(pair.errored), pair.per_second === null ? UNKNOWN : `${amount(pair.per_second, 1)}/s`,
    pair.finished ? "done" : duration(pair.seconds_left), amount(pair.tokens), money(pair.cost_usd), h("span.quiet", {}, pair.talking)]);
  return table(["suite", "runner", "", "plans", "passed", "failed", "errors", "rate", "left", "tokens", "cost", ""], rows, { numbers: [3, 4, 5, 6, 7, 8, 9, 10] });
}

function failureList(failures) {
  if (!failures.length) return null;
  const item = (each) => h("li", {}, h("b", {}, `${each.suite}/${each.case_id}`), ` ${each.runner} `, h("span.quiet", {}, [each.failure_class ?? each.status, each.reason].filter(Boolean).join(": ")));
  return [h("h2", {}, "Latest failures"), h("ul.cases", {}, failures.map(item))];
}
