// What became of the cases of two sweeps.
import { href } from "./address.js";
import { foldable, h } from "./dom.js";
import { amount } from "./format.js";

const KINDS = {
  regression: ["passed before, fails now", "bad"],
  error: ["graded before, not graded now", "odd"],
  fixed: ["failed before, passes now", "good"],
  graded: ["not graded before, graded now", "good"],
  score: ["another score", "plain"],
  new: ["new", "plain"],
  gone: ["gone", "plain"],
};

/** Return the kinds of changes with their cases. */
export function changesPart(changes) {
  if (!changes) return h("p.quiet", {}, "no earlier comparable sweep");
  const kinds = Object.keys(KINDS).filter((kind) => changes.counts[kind]);
  return kinds.length ? kinds.map((kind) => changeKind(kind, changes)) : h("p", {}, "nothing");
}

/** Return a link to the comparison of the sweeps that changes are of. */
export function changesLink(changes) {
  const link = () => h("a", { href: href("compare", { a: `sweep:${changes.before}`, b: `sweep:${changes.after}` }) }, "compare");
  return changes && h("p.quiet", {}, "between the newest two comparable sweeps: ", link());
}

function changeKind(kind, changes) {
  const [title, tone] = KINDS[kind];
  const cases = changes.cases.filter((row) => row.change === kind);
  const rest = changes.counts[kind] - cases.length;
  const head = h("span", {}, h(`b.${tone}`, {}, amount(changes.counts[kind])), ` ${title}`);
  return foldable(head, () => h("ul.cases", {}, cases.map(changedCase), rest > 0 && h("li.quiet", {}, `… and ${amount(rest)} more`)),
    { open: kind === "regression" });
}

function changedCase(row) {
  const name = `${row.suite}/${row.case_id}`;
  const again = row.repetition > 1 ? ` #${row.repetition}` : "";
  return h("li", {}, h("a", { href: href("case", { suite: row.suite, case: row.case_id }), title: row.reason }, name), h("span.quiet", {}, ` ${row.runner}${again}`));
}
