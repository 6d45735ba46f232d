// The page *Ratings*: how strong each runner is by its wins over the others, as `eval-pipeline compare --ratings` has it.
import { go, href, place } from "./address.js";
import { load } from "./data.js";
import { fill, h, section, svg, table } from "./dom.js";
import { amount, shortened, UNKNOWN } from "./format.js";

const LEAD = "Each two runners are compared case by case: the higher score wins, a tie counts half a win for both (Bradley and Terry). Strengths have "
  + "geometric mean 1; a runner of strength 2 wins twice as often against one of strength 1. Intervals: 95 %.";

/** Show the ratings of all runners, on one suite or on all. */
export async function showRatings(main) {
  const suite = place().query.get("suite");
  fill(main, h("p.quiet", {}, "comparing runners …"));
  const found = await load("ratings", suite ? { suite } : {});
  const left = found.left_out ? h("p.quiet", {}, `${found.left_out} further runners with lower scores are not rated here: eval-pipeline compare --ratings rates any`) : null;
  fill(main, h("div.title", {}, h("h1", {}, "Ratings"), suiteChooser(found)), h("p.quiet.lead", {}, LEAD));
  if (!found.ratings.length) return main.append(...noRatings(found, suite));
  return main.append(...[strengths(found.ratings), left, section("How likely the one in the row wins a case", chances(found.ratings))].filter(Boolean));
}

/** Why there are no ratings, and the suites that may have some. */
function noRatings(found, suite) {
  const problem = h("p", {}, `No ratings: ${(found.problem ?? "nothing to rate yet").replace(/^ratings: /, "")}.`);
  if (suite || found.suites.length < 2) return [problem];
  const links = found.suites.map((name) => h("li", {}, h("a", { href: href("ratings", { suite: name }) }, name)));
  return [problem, h("p.quiet", {}, "Runners of different suites have no cases in common. The ratings on one suite:"), h("ul.cases", {}, links)];
}

function suiteChooser(found) {
  if (found.suites.length < 2) return null;
  const options = [["", "all suites"], ...found.suites.map((name) => [name, name])];
  return h("select", { "aria-label": "suite", onchange: (event) => go("ratings", { suite: event.target.value }) },
    options.map(([value, text]) => h("option", { value, selected: value === (found.suite ?? "") }, text)));
}

function strengths(rated) {
  const reach = Math.max(1.5, ...rated.flatMap(({ strength, interval }) => [strength, ...(interval ?? [])].map((value) => Math.exp(Math.abs(Math.log(value))))));
  const rows = rated.map((each) => [each.runner, amount(each.strength, 3), strengthBar(each, Math.min(reach, 1000)),
    each.interval ? `${short(each.interval[0])} to ${short(each.interval[1])}` : UNKNOWN, amount(each.wins), amount(each.losses), amount(each.ties)]);
  return table(["runner", "strength", "", "95 %", "wins", "losses", "ties"], rows, { numbers: [1, 4, 5, 6], name: "ratings" });
}

/** The bar has strength 1 in its middle, and is logarithmic. */
function strengthBar({ strength, interval }, reach) {
  const x = (value) => 100 + 92 * Math.max(-1, Math.min(1, Math.log(value) / Math.log(reach)));
  const title = `strength ${short(strength)}, 95 %: ${interval ? `${short(interval[0])} to ${short(interval[1])}` : UNKNOWN}`;
  return svg("svg.interval", { viewBox: "0 0 200 16", role: "img", "aria-label": title }, svg("title", {}, title),
    svg("line.track", { x1: 8, x2: 192, y1: 8, y2: 8 }), svg("line.zero", { x1: 100, x2: 100, y1: 0, y2: 16 }),
    interval && svg("line.likely", { x1: x(interval[0]), x2: x(interval[1]), y1: 8, y2: 8 }),
    svg("circle", { cx: x(strength), cy: 8, r: 4.5 }));
}

function short(value) {
  return Number(value.toPrecision(3)).toString();
}

function chances(rated) {
  const cell = (one, other) => {
    if (one === other) return h("span.none", {}, "");
    const chance = one.strength / (one.strength + other.strength);
    return h(`span.warmth.w${Math.min(9, Math.floor(10 * chance))}`, { title: `${one.runner} against ${other.runner}` }, `${Math.round(100 * chance)} %`);
  };
  return table(["", ...rated.map((each) => h("span.upright", { title: each.runner }, shortened(each.runner)))], rated.map((one) => [h("span", { title: one.runner }, shortened(one.runner)), ...rated.map((other) => cell(one, other))]), { name: "heat" });
}
