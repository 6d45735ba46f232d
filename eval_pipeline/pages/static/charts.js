// Charts: small drawings in tables, and plots by uPlot.
import { h, svg } from "./dom.js";
import { milliseconds, money, percent, shortened } from "./format.js";

/** Return a bar from 0 to 1: bounds (every plan that is not graded failed, or passed), 95 % interval, and the rate. */
export function intervalBar(row) {
  const x = (value) => 4 + 192 * value;
  const title = `${percent(row.pass_rate)}, 95 %: ${percent(row.pass_rate_low)} to ${percent(row.pass_rate_high)}; with what is not graded: ${percent(row.pass_rate_worst)} to ${percent(row.pass_rate_best)}`;
  const span = (low, high, name) => svg(`line.${name}`, { x1: x(low), x2: x(high), y1: 8, y2: 8 });
  const known = (value) => value !== null && value !== undefined;
  return svg("svg.interval", { viewBox: "0 0 200 16", role: "img", "aria-label": title },
    svg("title", {}, title),
    svg("line.track", { x1: 4, x2: 196, y1: 8, y2: 8 }),
    known(row.pass_rate_worst) && span(row.pass_rate_worst, row.pass_rate_best, "bounds"),
    known(row.pass_rate_low) && span(row.pass_rate_low, row.pass_rate_high, "likely"),
    known(row.pass_rate) && svg("circle", { cx: x(row.pass_rate), cy: 8, r: 4.5 }));
}

/** Return a bar of a share of a whole. */
export function shareBar(share, title) {
  return svg("svg.share", { viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": title },
    svg("title", {}, title), svg("rect.track", { width: 100, height: 8, rx: 2 }),
    svg("rect.part", { width: 100 * share, height: 8, rx: 2 }));
}

const COLOURS = 8;
const DASHES = [[], [7, 4], [2, 3]];

/** Return the colour of a runner by its place; they repeat, then lines are dashed. */
export function colour(place) {
  return ink(`--line-${place % COLOURS}`);
}

function dashes(place) {
  return DASHES[Math.floor(place / COLOURS) % DASHES.length];
}

/** Three beside each other where they stay readable. */
function plotWidth() {
  const room = document.documentElement.clientWidth - 64;
  return room < 900 ? Math.min(405, Math.max(280, room)) : Math.min(480, Math.floor(room / 3) - 24);
}

function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function axes(label, values) {
  const common = { stroke: ink("--quiet"), grid: { stroke: ink("--line"), width: 1 }, ticks: { stroke: ink("--line"), width: 1 }, font: "12px system-ui" };
  const rate = { ...common, size: 52, values: (_, ticks) => ticks.map((tick) => `${Math.round(100 * tick)} %`) };
  return [{ ...common, label, labelFont: "12px system-ui", labelSize: 18, ...values }, rate];
}

/**
 * Return a plot of pass rates with their intervals against a measure: `points` have name, x, y, low, high and, where
 * the measure has a range, `reach` (its upper end).
 */
export function scatter(points, label, asText) {
  const sorted = [...points].sort((a, b) => a.x - b.x);
  const most = Math.max(...sorted.map((point) => point.reach ?? point.x));
  const width = plotWidth();
  const options = {
    width, height: 280, legend: { show: false }, cursor: { show: false }, padding: [16, 24, 0, 0],
    scales: { x: { time: false, range: [0, (most || 1) * 1.15] }, y: { range: [-0.03, 1.03] } },
    axes: axes(label, { values: (_, ticks) => ticks.map(asText), space: 80 }),
    series: [{}, { paths: () => null, points: { show: false } }],
    hooks: { draw: [(plot) => { const names = []; sorted.forEach((point) => drawPoint(plot, point, names)); }] },
  };
  return mounted(options, [sorted.map((point) => point.x), sorted.map((point) => point.y)]);
}

function drawPoint(plot, point, names) {
  const context = plot.ctx;
  const [x, y] = [plot.valToPos(point.x, "x", true), plot.valToPos(point.y, "y", true)];
  const ratio = devicePixelRatio || 1;
  context.save();
  context.strokeStyle = point.colour;
  context.fillStyle = point.colour;
  context.lineWidth = 2 * ratio;
  context.globalAlpha = 0.55;
  if (point.low !== null) stroke(context, x, plot.valToPos(point.low, "y", true), x, plot.valToPos(point.high, "y", true));
  if (point.reach) stroke(context, x, y, plot.valToPos(point.reach, "x", true), y);
  context.globalAlpha = 1;
  context.beginPath();
  context.arc(x, y, 4.5 * ratio, 0, 2 * Math.PI);
  context.fill();
  drawName(context, shortened(point.name), { x, y: y + 16 * ratio }, plot.bbox, names);
  context.restore();
}

/** Draw a name beside its point, further down where another name is, or above where no room is left below. */
function drawName(context, name, at, box, names) {
  const ratio = devicePixelRatio || 1;
  const step = 14 * ratio;
  context.font = `${12 * ratio}px system-ui`;
  context.textAlign = "left";
  const width = context.measureText(name).width;
  const left = at.x + 8 * ratio + width > box.left + box.width ? at.x - 8 * ratio - width : at.x + 8 * ratio;
  const taken = (y) => names.some((each) => Math.abs(each.y - y) < step && each.left < left + width && left < each.right);
  const bottom = box.top + box.height + step;
  const rows = Array.from({ length: 40 }, (_, row) => at.y + row * step).filter((y) => y <= bottom);
  const above = Array.from({ length: 40 }, (_, row) => at.y - 2 * step - row * step).filter((y) => y >= box.top);
  const y = [...rows, ...above].find((each) => !taken(each)) ?? at.y;
  names.push({ y, left, right: left + width });
  context.lineWidth = 3 * ratio;
  context.strokeStyle = ink("--back");
  context.strokeText(name, left, y);
  context.fillText(name, left, y);
}

function stroke(context, x1, y1, x2, y2) {
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}

/** Return a plot of pass rates over boards: `lines` have name, colour and the values at `times` (seconds). */
export function trendLines(times, lines) {
  const width = plotWidth();
  const names = times.map((_, place) => place);
  const day = (place) => (Number.isInteger(place) && times[place] ? times[place].slice(5, 16) : "");
  const options = {
    width, height: 280, cursor: { show: false }, legend: { show: false }, padding: [16, 24, 0, 0],
    scales: { x: { time: false, range: [-0.4, Math.max(0.6, times.length - 0.6)] }, y: { range: [-0.03, 1.03] } },
    axes: axes("board (UTC)", { values: (_, ticks) => ticks.map(day), space: 90, incrs: [1, 2, 5, 10, 20] }),
    series: [{}, ...lines.map((line, place) => lineSeries(line, place, alike(lines, place)))],
  };
  const legend = h("p.legend", {}, lines.map((line, place) => h("span", {}, swatch(line.colour, dashes(place)), line.name)));
  return h("div", {}, mounted(options, [names, ...lines.map((line) => line.values)]), legend);
}

/** How many later lines have the same values: a line is wider than those that would hide it. */
function alike(lines, place) {
  const values = lines[place].values.join();
  return lines.slice(place + 1).filter((line) => line.values.join() === values).length;
}

function lineSeries(line, place, hidden) {
  const more = 3 * Math.min(hidden, 3);
  const points = { show: true, size: 7 + more, fill: line.colour };
  return { label: line.name, stroke: line.colour, width: 2 + more, dash: dashes(place), spanGaps: true, points };
}

function swatch(stroke, dash) {
  return svg("svg.swatch", { viewBox: "0 0 24 10" }, svg("line", { x1: 0, x2: 24, y1: 5, y2: 5, stroke, "stroke-width": 3, "stroke-dasharray": dash.join(" ") }));
}

function mounted(options, data) {
  const holder = h("div.plot");
  // uPlot measures its parent, which is in the page a moment later
  requestAnimationFrame(() => new uPlot(options, data, holder));
  return holder;
}

/** Return how a measure of runners is plotted: its label, where it is, and its text. */
export const MEASURES = {
  cost: { title: "cost × quality", label: "mean cost of an answer (USD)", text: money, of: costOf, reach: () => null },
  latency: { title: "latency × quality", label: "median latency, line to the 95th percentile", text: milliseconds, of: (row) => row.latency_p50_ms, reach: (row) => row.latency_p95_ms },
};

function costOf(row) {
  return row.cost_known ? row.cost_usd / row.cost_known : null;
}
