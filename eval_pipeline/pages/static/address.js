// The address of what is shown: `#page?name=value`. Filters are part of it, so that a link shows the same to others.

/** Return the page and the parameters of the present address. */
export function place() {
  const [page, query = ""] = location.hash.slice(1).split("?");
  return { page: page || "board", query: new URLSearchParams(query) };
}

/** Return the address of a page; parameters without a value are left out, lists are repeated. */
export function href(page, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of [value].flat()) if (each !== null && each !== undefined && each !== "") query.append(name, each);
  }
  const text = query.toString();
  return `#${page}${text ? `?${text}` : ""}`;
}

/** Go to a page. */
export function go(page, parameters) {
  location.hash = href(page, parameters);
}

/** Change parameters of the present address without a new entry in the browser's history; null removes one. */
export function adjust(parameters) {
  const { page, query } = place();
  const values = Object.fromEntries([...new Set(query.keys())].map((name) => [name, query.getAll(name)]));
  history.replaceState(null, "", href(page, { ...values, ...parameters }));
}
