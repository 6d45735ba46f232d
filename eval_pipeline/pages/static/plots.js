// The plots of a suite: cost × quality, latency × quality, and the trend of pass rates.
import { colour, MEASURES, scatter, trendLines } from "./charts.js";
import { h } from "./dom.js";

/** Return the plots of a suite that there is data for. */
export function plotsOf(suite, history) {
  const runners = suite.rows.map((row) => row.runner);
  const plots = Object.values(MEASURES).map((measure) => measured(suite.rows, runners, measure));
  const shown = [...plots, trendOf(suite.suite, runners, history)].filter(Boolean);
  return h("div.plots", {}, shown.length ? shown : h("p.quiet", {}, "no cost, no latency and no earlier board is known"));
}

function measured(rows, runners, measure) {
  const known = rows.filter((row) => row.pass_rate !== null && measure.of(row) !== null && measure.of(row) !== undefined);
  const points = known.map((row) => ({
    name: row.runner, x: measure.of(row), y: row.pass_rate, low: row.pass_rate_low, high: row.pass_rate_high,
    reach: measure.reach(row), colour: colour(runners.indexOf(row.runner)),
  }));
  return points.length ? h("figure", {}, h("figcaption", {}, measure.title), scatter(points, measure.label, measure.text)) : null;
}

function trendOf(suite, runners, history) {
  const rows = history.filter((row) => row.suite === suite && runners.includes(row.runner));
  const boards = [...new Set(rows.map((row) => row.board_id))];
  if (boards.length < 2) return null;
  const times = boards.map((board) => rows.find((row) => row.board_id === board).computed_at);
  const rate = (runner, board) => rows.find((row) => row.runner === runner && row.board_id === board)?.pass_rate ?? null;
  const lines = runners.map((name, number) => ({ name, colour: colour(number), values: boards.map((board) => rate(name, board)) }));
  return h("figure", {}, h("figcaption", {}, "pass rate on each board"), trendLines(times, lines));
}
