// What is stored of one plan beside its answer: scores with reasons, events, turns, changed files, attempts.
import { foldable, h, table } from "./dom.js";
import { textOfMessage } from "./embedded.js";
import { amount, counted, milliseconds, money, moment, paidFor, UNKNOWN } from "./format.js";
import { eventList, eventsOf, timeLine } from "./events.js";
import { gradingForm, gradesOf } from "./grading.js";
import { fileDiff } from "./word_diff.js";

/** Return the parts of a plan, a conversation before its scores; what is long is folded. */
export function planDetails(plan, state) {
  const turns = plan.turns ?? [];
  const isConversation = turns.length > 1 || Boolean(plan.ended_by);
  const events = turns.flatMap(eventsOf);
  const changed = plan.file_changes ?? plan.changes;
  const happened = [
    isConversation && foldable(counted(turns.length, "turn"), () => [turnTable(turns), plan.ended_by && h("p", {}, `ended by ${plan.ended_by}`)], { open: true }),
    events.length > 0 && foldable(`${counted(events.length, "event")}, ${counted(events.filter((event) => event.kind === "tool_call").length, "tool call")}`, () => [timeLine(events), eventList(turns)], { open: isConversation }),
  ];
  const graded = [
    h("div.scores", {}, (plan.scores ?? []).map((score) => scorePart(score, plan, state))),
    gradesOf(state.grades ?? [], plan, null),
    gradingForm(plan, null),
  ];
  return [
    isConversation ? [happened, graded] : [graded, happened],
    changed && foldable("changed files", () => fileDiff(changed), { open: changed.length < 4000 }),
    (plan.attempt_log ?? []).length > 1 && foldable(counted(plan.attempt_log.length, "attempt"), () => attemptTable(plan.attempt_log)),
    foldable("execution", () => facts(plan)),
  ];
}

function scorePart(score, plan, state) {
  const sign = { true: "✓", false: "✗" }[score.passed] ?? "–";
  const tone = { true: "good", false: "bad" }[score.passed] ?? "odd";
  const gate = score.minimum !== undefined ? `required ≥ ${score.minimum}` : null;
  const weight = score.weight !== undefined && score.weight !== 1 ? `weight ${score.weight}` : null;
  return h("div.score", {},
    h("p", {}, h(`b.${tone}`, {}, `${sign} `), h("b", {}, score.evaluator), ` ${amount(score.value, 3)} `, h("span.quiet", {}, [score.type, gate, weight].filter(Boolean).join(" · "))),
    h("p.reason", {}, score.reason),
    (score.findings ?? []).map((finding) => h("p.finding", {}, finding.passed ? "✓ " : "✗ ", finding.text, finding.evidence && h("span.quiet", {}, ` — ${finding.evidence}`))),
    (score.members ?? []).map(memberPart),
    graderPart(score.details),
    gradesOf(state.grades ?? [], plan, score), gradingForm(plan, score));
}

function memberPart(member) {
  const by = member.grader && member.grader !== member.name ? ` by ${member.grader}` : "";
  return h("div.member", {}, h("p", {}, h("b", {}, member.name), `${by} ${amount(member.value, 3)} `, h("span.quiet", {}, member.reason)), graderPart(member.details));
}

/** Return the prompt that a grader got and its reply, and what else an evaluator reports. */
function graderPart(details) {
  if (!details) return null;
  const { prompt, reply, ...others } = details;
  const grader = [others.grader, others.model].filter(Boolean).join(" ");
  const rest = JSON.stringify(others, null, 1);
  return [
    reply !== undefined && foldable(`reply of the grader ${grader}`, () => h("pre", {}, typeof reply === "string" ? reply : JSON.stringify(reply, null, 1))),
    prompt && foldable("its prompt", () => [prompt].flat().map((message) => h("div", {}, h("b.role", {}, message.role), h("pre", {}, textOfMessage(message))))),
    rest !== "{}" && foldable("details", () => h("pre", {}, rest)),
  ];
}

function turnTable(turns) {
  const tokens = (usage) => (usage?.input_tokens === undefined || usage?.output_tokens === undefined ? null : usage.input_tokens + usage.output_tokens);
  const rows = turns.map((turn, place) => [place + 1, milliseconds(turn.duration_ms), milliseconds(turn.ttft_ms), amount(tokens(turn.usage)), money(turn.usage?.cost_usd), amount((turn.events ?? []).filter((event) => event.kind === "tool_call").length)]);
  return table(["turn", "latency", "first token", "tokens", "cost", "tool calls"], rows, { numbers: [0, 1, 2, 3, 4, 5] });
}

function attemptTable(attempts) {
  const outcome = (attempt) => (attempt.failure_class ? [attempt.failure_class, attempt.error].filter(Boolean).join(": ") : "completed");
  return table(["", "outcome", "took"], attempts.map((attempt, place) => [place + 1, outcome(attempt), milliseconds(attempt.duration_ms)]), { numbers: [2] });
}

/** Return the cost of a plan; where something was paid beside its answer, or may have been, each part by itself. */
function costs(plan) {
  const { cost_usd: cost, cost_source: source } = plan.usage ?? {};
  const answer = cost === undefined ? null : `${money(cost)} (${source ?? "source unknown"})`;
  const beside = plan.retries_cost_usd === undefined ? plan.retries_cost_note : "failed attempts, turns given up";
  if (!beside) return { cost: answer };
  return { cost: paidFor(plan), "cost of the answer": answer ?? UNKNOWN, "cost beside it": `${money(plan.retries_cost_usd)} (${beside})` };
}

function facts(plan) {
  const usage = plan.usage ?? {};
  const known = {
    execution: plan.execution_id, sweep: plan.sweep_id, started: plan.started_at && `${moment(plan.started_at)} UTC`,
    adapter: plan.adapter, model: plan.model, session: plan.session_id, "agent version": plan.agent_version,
    "exit code": plan.exit_code, attempts: plan.attempts, "input tokens": usage.input_tokens,
    "cached input": usage.cached_input_tokens, "output tokens": usage.output_tokens, "reasoning tokens": usage.reasoning_tokens,
    ...costs(plan),
    "model calls": plan.model_calls, "first token": plan.ttft_ms === undefined ? null : milliseconds(plan.ttft_ms),
    suite: plan.suite_path, "suite revision": plan.suite_revision?.slice(0, 16), "runner revision": plan.runner_revision?.slice(0, 16),
  };
  const rows = Object.entries(known).filter(([, value]) => value !== null && value !== undefined);
  const files = (plan.artifacts ?? []).filter((file) => file.bytes).map((file) => h("li", {}, `${file.path} (${amount(file.bytes)} bytes)`));
  return [table(["", ""], rows, { name: "facts" }), files.length > 0 && h("ul", {}, files)];
}
