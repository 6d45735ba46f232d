// Keys of the page that is shown. Keys that are typed into a field are left alone.

let bound = {};
let leave = () => {};

/** Bind keys until another page is shown; `leaving` is called then. */
export function onKeys(keys, leaving = () => {}) {
  bound = keys;
  leave = leaving;
}

/** Unbind the keys of the page that was shown. */
export function clearKeys() {
  leave();
  bound = {};
  leave = () => {};
}

/** Listen to keys: those of the page, then `common` ones. */
export function listenToKeys(common) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const act = bound[event.key] ?? common[event.key];
    const presses = event.key === "Enter" && event.target.closest("a, button, summary");
    if (!act || presses) return;
    event.preventDefault();
    act();
  });
}
