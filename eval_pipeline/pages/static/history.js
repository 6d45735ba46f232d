// The verdicts of a case in every sweep.
import { href } from "./address.js";
import { h, table } from "./dom.js";
import { isEmbedded } from "./embedded.js";
import { amount, moment, shortened } from "./format.js";
import { statusBadge } from "./marks.js";

/** Return a table with a row for each sweep, the newest first, and a column for each runner. */
export function historyTable(history, suite, caseId) {
  if (!history.length) return null;
  const runners = [...new Set(history.map((row) => row.runner))];
  const sweeps = [...new Set(history.map((row) => row.sweep_id))].sort().reverse();
  const rows = sweeps.map((sweep) => {
    const own = history.filter((row) => row.sweep_id === sweep);
    const address = href("case", { suite, case: caseId, of: `sweep:${sweep}` });
    const time = moment(own[0].decided_at);
    return [isEmbedded() ? time : h("a", { href: address, title: `the case as sweep ${sweep} left it` }, time), ...runners.map((runner) => own.filter((row) => row.runner === runner).map(verdict))];
  });
  return table(["sweep", ...runners.map((runner) => h("span", { title: runner }, shortened(runner)))], rows, { name: "history" });
}

function verdict(row) {
  return h("span.verdict", {}, statusBadge(row.status), h("span.quiet", {}, ` ${amount(row.score, 2)}`));
}
