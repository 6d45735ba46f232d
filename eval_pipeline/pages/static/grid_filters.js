// Which cases of a grid are shown. Marks are one letter per repetition: p e passed, f u failed, x not graded.

const FAILED = /[fu]/;
const PASSED = /[pe]/;

/** The filters by name: a title, and whether the marks of a case's runners are shown. */
export const FILTERS = {
  all: { title: "all", shows: () => true },
  failed: { title: "not passed", shows: (marks) => marks.some((each) => FAILED.test(each) || each.includes("x")) },
  differ: { title: "runners differ", shows: runnersDiffer },
  errors: { title: "errors", shows: (marks) => marks.some((each) => each.includes("x")) },
  flaky: { title: "flaky", shows: (marks) => marks.some((each) => FAILED.test(each) && PASSED.test(each)) },
};

/** Return whether some runner passed a case (every repetition that was graded) and another did not. */
function runnersDiffer(marks) {
  const graded = marks.filter((each) => FAILED.test(each) || PASSED.test(each));
  return graded.some((each) => !FAILED.test(each)) && graded.some((each) => FAILED.test(each));
}

/** Return the places of the cases that the filters show; `found` are the cases with the text, null without one. */
export function placesOf(grid, runners, { show, tag, found }) {
  const shows = (FILTERS[show] ?? FILTERS.all).shows;
  const wanted = tag ? grid.tags.indexOf(tag) : null;
  const places = [];
  for (let place = 0; place < grid.cases.length; place += 1) {
    if (wanted !== null && !grid.tags_of[place].includes(wanted)) continue;
    if (found && !found.has(grid.cases[place])) continue;
    if (shows(runners.map((runner) => runner.marks[place] ?? ""))) places.push(place);
  }
  return places;
}
