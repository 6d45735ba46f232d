// Documents that are part of the page itself: what `export --format html` writes.

/** Return whether the page has its data inside. */
export function isEmbedded() {
  return document.getElementById("documents") !== null;
}

/** Return a document of the page. Throws an Error for one that only the server can make. */
export function embeddedDocument(name, parameters) {
  const make = { suite: gridOf, rows: rowsOf, search: foundIn, case: caseOf, compare: comparisonOf, ratings: ratingsOf }[name];
  const found = make ? make(parameters) : documents()[name];
  if (found === undefined || found === null) throw new Error("this page has no such data: eval-pipeline view shows it");
  return found;
}

let parsed = null;

function documents() {
  parsed ??= JSON.parse(document.getElementById("documents").textContent);
  return parsed;
}

const batches = new Map();

/** Return the plans of one batch, which is parsed when it is first needed. */
function batch(number) {
  if (!batches.has(number)) batches.set(number, JSON.parse(document.getElementById(`plans-${number}`).textContent));
  return batches.get(number);
}

function gridOf({ suite }) {
  return documents().grids[suite];
}

function comparisonOf({ a, b }) {
  const only = documents().compare;
  return only && only.baseline === a && only.candidate === b ? only : null;
}

function ratingsOf({ suite }) {
  return documents().ratings?.[suite ?? ""];
}

function plansOf(suite, caseId) {
  const places = documents().places[suite]?.[caseId] ?? [];
  return places.map(([number, index]) => batch(number)[index]);
}

function caseOf({ suite, case: caseId }) {
  const plans = plansOf(suite, caseId);
  return { suite, case_id: caseId, of: "current", plans, history: documents().history?.[suite]?.[caseId] ?? [], grades: [] };
}

function rowsOf({ suite, case: cases }) {
  const rows = {};
  for (const caseId of [cases].flat()) {
    const plans = plansOf(suite, caseId);
    const answers = {};
    for (const plan of plans) answers[plan.runner] ??= { ...plan, output: plan.output?.slice(0, 400) };
    rows[caseId] = { question: textOfMessage(plans[0]?.input?.at(-1)), answers };
  }
  return { suite, rows };
}

function foundIn({ suite, text }) {
  const wanted = text.toLowerCase();
  const cases = Object.keys(documents().places[suite] ?? {});
  const has = (plan) => JSON.stringify([plan.case_id, plan.input, plan.criteria, plan.output, plan.reason]).toLowerCase().includes(wanted);
  return { cases: cases.filter((caseId) => plansOf(suite, caseId).some(has)) };
}

/** Return the text of a message, whatever parts it has. */
export function textOfMessage(message) {
  const content = message?.content;
  if (typeof content === "string" || content === null || content === undefined) return content ?? "";
  if (!Array.isArray(content)) return JSON.stringify(content, null, 1);
  return content.map((part) => part.text ?? part.value ?? JSON.stringify(part)).join("\n");
}
