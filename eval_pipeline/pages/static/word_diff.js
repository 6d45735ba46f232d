// Differences between two texts by words, and unified diffs of files.
import { h } from "./dom.js";

const MOST_WORDS = 3000;

/** Return the parts of two texts: [kind, text] with kind `same`, `less` (only before) or `more` (only after). */
export function wordDiff(before, after) {
  const [a, b] = [words(before), words(after)];
  if (a.length > MOST_WORDS || b.length > MOST_WORDS) return before === after ? [["same", after]] : [["less", before], ["more", after]];
  const start = commonLength(a, b, (list, place) => list[place]);
  const end = commonLength(a.slice(start), b.slice(start), (list, place) => list[list.length - 1 - place]);
  const middle = longestCommon(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const same = (list) => list.map((word) => ["same", word]);
  return joined([...same(b.slice(0, start)), ...middle, ...same(b.slice(b.length - end))]);
}

function words(text) {
  return text.match(/\s+|[\p{L}\p{N}_]+(?:(?<=\p{N})[.,]\p{N}+)*|[^\s\p{L}\p{N}_]/gu) ?? [];
}

function commonLength(a, b, at) {
  let length = 0;
  while (length < Math.min(a.length, b.length) && at(a, length) === at(b, length)) length += 1;
  return length;
}

/** By the table of longest common subsequences. */
function longestCommon(a, b) {
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const longest = Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
      lengths[i * width + j] = a[i] === b[j] ? lengths[(i + 1) * width + j + 1] + 1 : longest;
    }
  }
  const parts = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { parts.push(["same", b[j]]); i += 1; j += 1; }
    else if (j >= b.length || (i < a.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) { parts.push(["less", a[i]]); i += 1; }
    else { parts.push(["more", b[j]]); j += 1; }
  }
  return parts;
}

function joined(parts) {
  const out = [];
  for (const [kind, text] of parts) {
    if (out.length && out.at(-1)[0] === kind) out.at(-1)[1] += text;
    else out.push([kind, text]);
  }
  return out;
}

/** Return a text with what differs from another one marked. */
export function markedDiff(before, after) {
  const tags = { same: "span", less: "del", more: "ins" };
  return h("pre.diff", {}, wordDiff(before, after).map(([kind, text]) => h(tags[kind], {}, text)));
}

/** Return a unified diff with its lines coloured. */
export function fileDiff(text) {
  const kinds = [[/^(\+\+\+|---|diff |index )/, "file"], [/^@@/, "place"], [/^\+/, "more"], [/^-/, "less"]];
  const kind = (line) => kinds.find(([pattern]) => pattern.test(line))?.[1] ?? "same";
  return h("pre.filediff", {}, text.split("\n").map((line) => h(`span.${kind(line)}`, {}, `${line}\n`)));
}
