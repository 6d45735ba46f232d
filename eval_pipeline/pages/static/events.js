// The events of a session: a time line of its tool calls, and the list of everything that happened.
import { foldable, h, svg } from "./dom.js";
import { amount, milliseconds } from "./format.js";

const WIDTH = 600;
const MOST_LANES = 12;
const LONG = 600;

/** Return everything that happened in a turn: the messages that began it, then the events. */
export function eventsOf(turn) {
  return [...(turn.messages ?? []).map((message) => ({ kind: "message", ...message })), ...(turn.events ?? [])];
}

function timeOf(event) {
  const time = Date.parse(event.at ?? "");
  return Number.isNaN(time) ? null : time;
}

/** Return a drawing with a bar for each tool call from its call to its result; nothing without times. */
export function timeLine(events) {
  const times = events.map(timeOf).filter((time) => time !== null);
  const calls = events.filter((event) => event.kind === "tool_call" && timeOf(event) !== null);
  const [start, end] = [Math.min(...times), Math.max(...times)];
  if (!calls.length || end <= start) return null;
  const results = new Map(events.filter((event) => event.kind === "tool_result" && event.call_id).map((event) => [event.call_id, event]));
  const tools = [...new Set(calls.map((event) => event.tool))].slice(0, MOST_LANES);
  const x = (time) => 110 + ((WIDTH - 120) * (time - start)) / (end - start);
  const bars = calls.filter((event) => tools.includes(event.tool)).map((event) => callBar(event, results.get(event.call_id), x, tools.indexOf(event.tool), end));
  const height = 18 * tools.length + 22;
  return svg("svg.timeline", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `tool calls over ${milliseconds(end - start)}` },
    tools.map((tool, lane) => [svg("text", { x: 104, y: 18 * lane + 13, "text-anchor": "end" }, tool.slice(0, 16)), svg("line.track", { x1: 110, x2: WIDTH - 10, y1: 18 * lane + 9, y2: 18 * lane + 9 })]),
    bars,
    svg("text", { x: 110, y: height - 6 }, "0"), svg("text", { x: WIDTH - 10, y: height - 6, "text-anchor": "end" }, milliseconds(end - start)));
}

function callBar(event, result, x, lane, end) {
  const begin = timeOf(event);
  const stop = result ? timeOf(result) ?? begin : begin;
  const title = `${event.tool}: ${result ? milliseconds(result.duration_ms ?? stop - begin) : "no result"}`;
  const width = Math.max(3, x(Math.min(stop, end)) - x(begin));
  return svg(`rect.call${result?.is_error ? ".bad" : ""}`, { x: x(begin), y: 18 * lane + 3, width, height: 12, rx: 2 }, svg("title", {}, title));
}

/** Return every event with the seconds since the first one, turn by turn. */
export function eventList(turns) {
  const events = turns.flatMap((turn, place) => eventsOf(turn).map((event) => ({ ...event, turn: place + 1 })));
  const start = events.map(timeOf).find((time) => time !== null) ?? null;
  let turn = 0;
  return h("ol.events", { class: start === null ? "untimed" : "" }, events.flatMap((event) => {
    const begins = event.turn !== turn && turns.length > 1;
    turn = event.turn;
    return [begins && h("li.turn", {}, `turn ${turn}`, h("span.quiet", {}, ` ${milliseconds(turns[turn - 1].duration_ms)}`)), eventLine(event, start)];
  }));
}

function eventLine(event, start) {
  const time = timeOf(event);
  const at = time === null || start === null ? "" : `${((time - start) / 1000).toFixed(1)} s`;
  const [name, text] = (SHOWN[event.kind] ?? (() => [event.kind, JSON.stringify(event)]))(event);
  const failed = event.is_error || event.kind === "error" || (event.exit_code ?? 0) !== 0;
  return h(`li.event.${event.kind}`, {}, h("span.at", {}, at), h("span.kind", { class: failed ? "bad" : "" }, name), body(text ?? ""));
}

function body(text) {
  if (text.length <= LONG) return h("pre", {}, text);
  return foldable(`${text.slice(0, 160)}… ${amount(text.length)} characters`, () => h("pre", {}, text));
}

function argumentsOf(event) {
  if (event.arguments === undefined) return "";
  return typeof event.arguments === "string" ? event.arguments : JSON.stringify(event.arguments, null, 1);
}

const SHOWN = {
  message: (event) => [event.phase === "thinking" ? `${event.role} thinks` : event.role, event.text],
  tool_call: (event) => [`calls ${event.tool}`, argumentsOf(event)],
  tool_result: (event) => [`${event.tool ?? "tool"} returns`, event.output],
  command: (event) => ["command", [event.command, event.output].filter(Boolean).join("\n")],
  file_read: (event) => ["reads", event.path],
  file_write: (event) => [`${event.how ?? "edit"}s`, event.path],
  skill: (event) => ["skill", `${event.skill} (${event.strength})`],
  retry: (event) => [`retry ${event.attempt ?? ""}`, event.message ?? String(event.status ?? "")],
  error: (event) => ["error", event.message],
  recorded_score: (event) => [`score ${event.name}`, [String(event.value ?? JSON.stringify(event.raw)), event.message].filter(Boolean).join("\n")],
};
