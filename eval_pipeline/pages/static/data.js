// Where documents come from: the server that the page was loaded from, or the page itself (`export --format html`).
import { embeddedDocument, isEmbedded } from "./embedded.js";

const kept = new Map();

/** Return a document of the server, or of the page. Throws an Error with the reason when there is none. */
export async function load(name, parameters = {}) {
  if (isEmbedded()) return embeddedDocument(name, parameters);
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) [value].flat().forEach((each) => query.append(key, each));
  const url = `api/${name}?${query}`;
  if (!kept.has(url)) kept.set(url, request(url));
  return kept.get(url).catch((error) => { kept.delete(url); throw error; });
}

/** Forget all documents: newer results were published. */
export function forget() {
  kept.clear();
}

/** Send a value to the server and return its answer. */
export function send(name, value) {
  return request(`api/${name}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(value) });
}

/** Return a document that changes all the time. */
export function askAgain(name) {
  return request(`api/${name}`);
}

async function request(url, options) {
  const response = await fetch(url, options);
  const document_ = await response.json();
  if (!response.ok) throw new Error(document_.error ?? `the server answered ${response.status}`);
  return document_;
}
