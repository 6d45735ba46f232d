// The page *Case*: what was asked, and what each runner answered, side by side.
import { adjust, href, place } from "./address.js";
import { load } from "./data.js";
import { fill, foldable, h, section } from "./dom.js";
import { textOfMessage } from "./embedded.js";
import { amount, milliseconds, paidFor, shortened } from "./format.js";
import { historyTable } from "./history.js";
import { onKeys } from "./keys.js";
import { statusBadge } from "./marks.js";
import { planDetails } from "./plan_details.js";
import { markedDiff } from "./word_diff.js";

/** Show a case. */
export async function showCase(main) {
  const { query } = place();
  const [suite, caseId, of] = [query.get("suite"), query.get("case"), query.get("of") ?? "current"];
  const [found, grid] = await Promise.all([load("case", { suite, case: caseId, of }), load("suite", { suite, of })]);
  const state = { ...found, shown: chosenRunners(found.plans, query), baseline: query.get("diff"), repetition: Number(query.get("repetition") ?? 1) };
  const first = found.plans[0];
  fill(main, heading(suite, caseId, grid, of), ofLine(suite, caseId, of), first ? question(first) : h("p.empty", {}, "no results of this case"),
    first && controls(state, main), first && answers(state),
    section("History over sweeps", historyTable(found.history, suite, caseId)));
}

function chosenRunners(plans, query) {
  const runners = [...new Set(plans.map((plan) => plan.runner))];
  const wanted = query.getAll("runner").filter((name) => runners.includes(name));
  return { all: runners, on: wanted.length ? wanted : runners };
}

function heading(suite, caseId, grid, of) {
  const at = grid.cases.indexOf(caseId);
  const to = (number) => (grid.cases[number] === undefined ? null : href("case", { suite, case: grid.cases[number], of: of === "current" ? null : of }));
  const [before, after] = [at > 0 ? to(at - 1) : null, to(at + 1)];
  const step = (address) => () => { if (address) location.hash = address; };
  onKeys({ j: step(after), k: step(before), ArrowRight: step(after), ArrowLeft: step(before), u: step(href("suite", { suite })) });
  const arrow = (address, sign, title) => h("a.step", { href: address, title, class: address ? "" : "off", "aria-label": title }, sign);
  return h("div.title", {}, h("h1", {}, h("a", { href: href("suite", { suite }) }, suite), " / ", caseId),
    h("span.steps", {}, arrow(before, "←", "case before (k)"), h("span.quiet", {}, `${at + 1} of ${grid.cases.length}`), arrow(after, "→", "next case (j)")));
}

/** Say that past results are shown, and lead back to the current ones. */
function ofLine(suite, caseId, of) {
  return of === "current" ? null : h("p.quiet", {}, `as ${of} left it · `, h("a", { href: href("case", { suite, case: caseId }) }, "current results"));
}

function question(plan) {
  const expected = (plan.expected_output ?? []).map(textOfMessage).join("\n");
  const tags = (plan.tags ?? []).map((tag) => h("a.tag", { href: href("suite", { suite: plan.suite, tag }) }, tag));
  return h("div.question", {}, tags.length > 0 && h("p", {}, tags),
    section("Asked", plan.input.map((message) => spoken(message, plan.input.length > 1))),
    plan.criteria && section("Criteria", h("pre", {}, plan.criteria)),
    expected && section("Expected", h("pre", {}, expected)));
}

function spoken(message, named) {
  return h("div", {}, named && h("b.role", {}, message.role), h("pre", {}, textOfMessage(message)));
}

function controls(state, main) {
  const toggle = (runner) => () => {
    const on = state.shown.all.filter((name) => state.shown.on.includes(name) !== (name === runner));
    again({ runner: on.length && on.length < state.shown.all.length ? on : null }, main);
  };
  const chips = state.shown.all.map((runner) => h("button.runner", { "aria-pressed": state.shown.on.includes(runner), title: runner, onclick: toggle(runner) }, shortened(runner)));
  const repetitions = [...new Set(state.plans.map((plan) => plan.repetition))].sort((a, b) => a - b);
  const select = (label, name, options) => h("label", {}, `${label} `, h("select", { onchange: (event) => again({ [name]: event.target.value || null }, main) }, options));
  const option = (value, text, chosen) => h("option", { value, selected: chosen }, text);
  return h("div.toolbar", {},
    state.shown.all.length > 1 && h("div.chips", {}, chips),
    state.shown.all.length > 1 && select("word diff against", "diff", [option("", "nothing", !state.baseline), ...state.shown.all.map((name) => option(name, name, name === state.baseline))]),
    repetitions.length > 1 && select("repetition", "repetition", repetitions.map((number) => option(number, number, number === state.repetition))));
}

function again(parameters, main) {
  adjust(parameters);
  showCase(main);
}

function answers(state) {
  const plans = state.plans.filter((plan) => plan.repetition === state.repetition && state.shown.on.includes(plan.runner));
  const baseline = state.plans.find((plan) => plan.runner === state.baseline && plan.repetition === state.repetition);
  return h("div.scrolls.wide", {}, h("div.runners", {}, plans.map((plan) => answer(plan, baseline, state))));
}

function answer(plan, baseline, state) {
  const more = state.plans.filter((other) => other.runner === plan.runner).length;
  const again_ = more > 1 ? h("span.quiet", {}, ` repetition ${plan.repetition} of ${more}`) : null;
  return h("article.plan", { "data-runner": plan.runner },
    h("h3", {}, plan.runner, again_),
    h("p", {}, statusBadge(plan.status), " ", h("b", {}, amount(plan.score, 3)), h("span.quiet", {}, thresholdOf(plan), failureOf(plan))),
    h("p.measures", {}, measures(plan).join(" · ")),
    plan.reason && h("p.reason", {}, plan.reason),
    plan.error && h("pre.error", {}, plan.error),
    conversationOr(plan, baseline),
    planDetails(plan, state));
}

function thresholdOf(plan) {
  return isKnown(plan.threshold) ? ` passes from ${plan.threshold}` : "";
}

function failureOf(plan) {
  return plan.failure_class ? ` · ${plan.failure_class}` : "";
}

function isKnown(value) {
  return value !== undefined && value !== null;
}

/** Return the answer, with the words that differ from the baseline's; a conversation is shown turn by turn below. */
function conversationOr(plan, baseline) {
  if (plan.output === undefined) return h("p.quiet", {}, "no output");
  if (baseline && baseline !== plan) return markedDiff(baseline.output ?? "", plan.output);
  return plan.output.length > 4000 ? foldable(`answer, ${amount(plan.output.length)} characters`, () => h("pre", {}, plan.output)) : h("pre.answer", {}, plan.output);
}

function measures(plan) {
  const usage = plan.usage ?? {};
  const known = {
    [milliseconds(plan.duration_ms)]: plan.duration_ms,
    [`${amount(tokensOf(usage))} tokens`]: tokensOf(usage),
    [paidFor(plan)]: paidFor(plan),
    [plan.model]: plan.model,
    [`answered by ${plan.answered_by}`]: plan.answered_by,
  };
  return Object.entries(known).filter(([, value]) => isKnown(value)).map(([text]) => text);
}

function tokensOf(usage) {
  return usage.input_tokens === undefined || usage.output_tokens === undefined ? null : usage.input_tokens + usage.output_tokens;
}
