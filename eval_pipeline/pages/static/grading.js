// What people say about grades: stored beside the scores, which stay as they are.
import { askAgain, forget, send } from "./data.js";
import { fill, foldable, h } from "./dom.js";
import { isEmbedded } from "./embedded.js";
import { moment } from "./format.js";
import { recall, remember } from "./memory.js";

/** Return the grades that people gave to a score of a plan, or to its verdict (`score` null). */
export function gradesOf(grades, plan, score) {
  const own = grades.filter((grade) => grade.execution_id === plan.execution_id && (grade.spec_key ?? null) === (score?.spec_key ?? null));
  return h("div.grades", { "data-grades": score?.spec_key ?? "verdict" }, own.map(gradePart));
}

function gradePart(grade) {
  const said = { true: ["✓ passes it", "good"], false: ["✗ fails it", "bad"] }[grade.passed] ?? ["comments", "odd"];
  return h("div.grade", {}, h("p", {}, h("b", {}, grade.person), " ", h(`b.${said[1]}`, {}, said[0]), h("span.quiet", {}, ` ${moment(grade.graded_at)} UTC`)),
    grade.comment && h("p", {}, grade.comment));
}

/** Return the form by which a person grades a score or a verdict; nothing in an exported page. */
export function gradingForm(plan, score) {
  if (isEmbedded()) return null;
  return foldable(score ? "grade this score" : "grade this verdict", () => form(plan, score), { name: "ask" });
}

function form(plan, score) {
  const message = h("p", { role: "status" });
  const person = h("input", { name: "person", value: recall("person") ?? "", placeholder: "your name", "aria-label": "your name", autocomplete: "name" });
  const comment = h("textarea", { name: "comment", rows: 2, placeholder: "why", "aria-label": "why" });
  const store = (passed) => async (event) => {
    event.preventDefault();
    remember("person", person.value);
    const grade = { execution_id: plan.execution_id, spec_key: score?.spec_key ?? null, passed, comment: comment.value, person: person.value };
    await storeGrade(grade, plan, score, message, comment);
  };
  const button = (text, passed) => h("button", { type: "button", onclick: store(passed) }, text);
  askAgain("live").then(({ read_only: reason }) => reason && fill(message, h("span.odd", {}, reason))).catch(() => {});
  return h("form.grading", { onsubmit: (event) => event.preventDefault() }, person, comment,
    h("span.chips", {}, button("passes", true), button("fails", false), button("comment only", null)), message);
}

async function storeGrade(grade, plan, score, message, comment) {
  fill(message, "storing …");
  try {
    const address = `grades?${new URLSearchParams({ suite: plan.suite, case: plan.case_id })}`;
    const { grades } = await send(address, grade);
    forget();
    const article = message.closest("article");
    const list = [...article.querySelectorAll("[data-grades]")].find((each) => each.dataset.grades === (score?.spec_key ?? "verdict"));
    fill(list, gradesOf(grades, plan, score).childNodes.length ? [...gradesOf(grades, plan, score).childNodes] : []);
    comment.value = "";
    fill(message, h("span.good", {}, "stored"));
  } catch (error) {
    fill(message, h("span.bad", {}, error.message));
  }
}
