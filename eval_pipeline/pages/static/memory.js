// What the browser remembers for this person. Pages of files may have no storage.

/** Remember a value. */
export function remember(name, value) {
  try { localStorage.setItem(`eval-pipeline-${name}`, value); } catch { /* nothing is remembered */ }
}

/** Return what was remembered, null without it. */
export function recall(name) {
  try { return localStorage.getItem(`eval-pipeline-${name}`); } catch { return null; }
}
