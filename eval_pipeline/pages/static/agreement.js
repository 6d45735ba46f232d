// The page *Agreement*: graders with people, with each other, simulators with each other; variance; judges over time.
import { load } from "./data.js";
import { fill, h, section, table } from "./dom.js";
import { amount, percent, UNKNOWN } from "./format.js";

const RATES = /rate|agreement$|^unanimous$|_share$/;
const DECIMALS = /kappa|alpha|difference|correlation|variance|score|^low$|^high$|^center$/;
const NUMBER = new RegExp(`${RATES.source}|${DECIMALS.source}`);
const WORDS = { krippendorffs_alpha: "α", krippendorffs_alpha_ordinal: "α of the order", krippendorffs_alpha_passed: "α of passing",
  cohens_kappa: "κ", sweep_name: "sweep", center: "base", left_out: "left out", judged_at: "judged at (UTC)" };
const TITLES = {
  people_agreement: ["Graders and people", "How far each grader, per revision, agrees with the newest grade of each person; κ is Cohen's: 1 full agreement, 0 as by chance.", "needs grades of people: open a case and grade a score that a model gave"],
  grader_agreement: ["Graders of a panel", "Krippendorff's α: 1 full agreement, 0 as by chance.", "needs an evaluator that several graders answer"],
  grader_pairs: ["Each two graders of a panel", "Cohen's κ on passing and failing, and which is stricter.", "needs an evaluator that several graders answer"],
  simulator_agreement: ["Who played the user", "How far verdicts depend on the simulator.", "needs simulated conversations with more than one simulator"],
  variance_components: ["Where the variance of scores comes from", "Between cases, between repetitions of a case, and between the graders of an answer; the case share is the intraclass correlation. With one repetition of each case the first two cannot be told apart: –.", "needs graded answers"],
  judge_drift: ["Judges over time", "Stored answers (anchors of a sweep) that graders grade again and again: a mean grade beyond its control limits shows that a judge is not what it was.", "needs a sweep with anchors that were judged again"],
};

/** Show how far those who grade agree. */
export async function showAgreement(main) {
  const views = await load("agreement");
  const all = Object.entries(TITLES).map(([view, words]) => ({ words, rows: views[view] ?? [] }));
  const [known, empty] = [true, false].map((has) => all.filter(({ rows }) => has === rows.length > 0));
  return fill(main, h("div.title", {}, h("h1", {}, "Agreement")),
    known.map(({ words: [title, lead], rows }) => part(title, lead, rows)),
    empty.length > 0 && section("Nothing to compare yet", h("dl.missing", {}, empty.map(({ words: [title, , needs] }) => [h("dt", {}, title), h("dd.quiet", {}, needs)]))));
}

function part(title, lead, rows) {
  const names = Object.keys(rows[0]);
  const isNumber = (name) => NUMBER.test(name) || rows.some((row) => typeof row[name] === "number");
  const numbers = names.map((name, number) => (isNumber(name) ? number : -1)).filter((number) => number >= 0);
  return section(title, h("p.quiet", {}, lead),
    table(names.map((name) => WORDS[name] ?? name.replaceAll("_", " ")), rows.map((row) => names.map((name) => text(name, row[name]))), { numbers, name: "figures" }));
}

function text(name, value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (typeof value === "boolean") return h(value ? "b.bad" : "span.good", {}, value ? "yes" : "no");
  if (typeof value !== "number") return value;
  return RATES.test(name) ? percent(value) : amount(value, DECIMALS.test(name) ? 3 : 0);
}
