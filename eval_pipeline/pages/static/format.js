// Numbers as texts, as the command line prints them. Unknown is a dash, never 0.

export const UNKNOWN = "–";

/** Return a share as a percentage with one decimal. */
export function percent(value) {
  return isUnknown(value) ? UNKNOWN : `${(100 * value).toFixed(1)} %`;
}

/** Return an interval of shares. */
export function interval(low, high) {
  return isUnknown(low) || isUnknown(high) ? UNKNOWN : `${(100 * low).toFixed(1)}–${(100 * high).toFixed(1)}`;
}

/** Return a number with thousands separated. */
export function amount(value, digits = 0) {
  if (isUnknown(value)) return UNKNOWN;
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Return a change with its sign. */
export function change(value, digits = 3) {
  return isUnknown(value) ? UNKNOWN : `${value < 0 ? "-" : "+"}${Math.abs(value).toFixed(digits)}`;
}

/** Return a duration: `3.2 ms`, `850 ms`, `12.4 s`. */
export function milliseconds(value) {
  if (isUnknown(value)) return UNKNOWN;
  if (value >= 10000) return `${(value / 1000).toFixed(1)} s`;
  return value >= 10 ? `${value.toFixed(0)} ms` : `${value.toFixed(1)} ms`;
}

/** Return seconds for people: `42 s`, `3:05 min`, `2:04 h`. */
export function duration(seconds) {
  if (isUnknown(seconds)) return UNKNOWN;
  const total = Math.round(seconds);
  const two = (number) => String(number % 60).padStart(2, "0");
  if (total < 60) return `${total} s`;
  const minutes = Math.floor(total / 60);
  return minutes < 60 ? `${minutes}:${two(total)} min` : `${Math.floor(minutes / 60)}:${two(minutes)} h`;
}

/** Return US dollars, with four decimals below one. */
export function money(value) {
  if (isUnknown(value)) return UNKNOWN;
  if (value >= 1) return `$${amount(value, 2)}`;
  return value > 0 && value < 0.00005 ? "<$0.0001" : `$${value.toFixed(4)}`;
}

/** Return what was paid for a plan, and what of it beside its answer (failed attempts, turns given up); null where nothing is known. */
export function paidFor(plan) {
  const [answer, beside] = [plan.usage?.cost_usd, plan.retries_cost_usd];
  if (isUnknown(answer) && isUnknown(beside)) return null;
  const total = money((answer ?? 0) + (beside ?? 0));
  if (isUnknown(answer)) return `≥ ${total}, all beside the answer`;
  if (plan.retries_cost_note) return `≥ ${total}`;
  return isUnknown(beside) ? total : `${total}, ${money(beside)} of it beside the answer`;
}

/** Return a time (UTC) to the second. */
export function moment(text) {
  return text ? text.replace("T", " ").replace(/(\.\d+)?(Z|\+00(:00)?)?$/, "") : UNKNOWN;
}

/** Return a number with its noun. */
export function counted(number, noun, plural = `${noun}s`) {
  return `${amount(number)} ${number === 1 ? noun : plural}`;
}

const LONGEST_NAME = 24;

/** Return a name with its middle left out where it is long: names of versions differ at their end. */
export function shortened(name, longest = LONGEST_NAME) {
  const half = Math.floor((longest - 1) / 2);
  return name.length <= longest ? name : `${name.slice(0, half)}…${name.slice(-half)}`;
}

function isUnknown(value) {
  return value === null || value === undefined || Number.isNaN(value);
}
