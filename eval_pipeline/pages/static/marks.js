// Verdicts as small signs: a sign and a word, never a colour alone.
import { h } from "./dom.js";

export const MARKS = {
  p: ["passed", "✓", "good"],
  e: ["expected-failed", "✓", "good"],
  f: ["failed", "✗", "bad"],
  u: ["unexpected-passed", "✗", "bad"],
  x: ["error", "!", "odd"],
};

/** Why a sign does not follow from the score beside it. */
const AGAINST = { e: "expected", u: "unexpected" };

/** Return the signs of the repetitions of a case; of many, how many passed. */
export function markBadges(marks) {
  if (marks.length === 1) return statusBadge(MARKS[marks][0]);
  if (marks.length > 6) return h("span.badge", {}, `${[...marks].filter((mark) => "pe".includes(mark)).length}/${marks.length}`);
  const against = [...new Set(marks)].map((mark) => AGAINST[mark]).filter(Boolean);
  return h("span.badges", {}, [...marks].map((mark) => h(`span.badge.${MARKS[mark][2]}`, { title: MARKS[mark][0] }, MARKS[mark][1])),
    against.map((word) => h("span.word", {}, word)));
}

/** Return a verdict as a sign with its word. */
export function statusBadge(status) {
  const [, sign, tone] = Object.values(MARKS).find(([name]) => name === status) ?? [status, "?", "odd"];
  return h(`span.badge.${tone}`, {}, `${sign} ${status}`);
}
