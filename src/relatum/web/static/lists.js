// Lists of what was found, in words; one stop for the Tab key, arrow keys inside.

import { make } from "./dom.js";
import { hue, shownScore } from "./labels.js";

const dot = (label) => make("span", { class: "dot", hue: hue(label), "aria-hidden": "true" });

export function relationItem(relation) {
  return make(
    "span",
    { class: "triple" },
    make("b", {}, relation.headText),
    " ",
    make("span", { class: "link", hue: hue(relation.label) }, `—${relation.label}→`),
    " ",
    make("b", {}, relation.tailText),
    " ",
    make("span", { class: "score" }, shownScore(relation.score)),
  );
}

export function entityItem(entity) {
  return make(
    "span",
    { class: "triple" },
    dot(entity.label),
    make("b", {}, entity.text.replace(/\s+/g, " ")),
    " ",
    make("span", { class: "kind" }, entity.label),
    " ",
    make("span", { class: "score" }, shownScore(entity.score)),
  );
}

// Fill a list: items are {key, content}; `onLight` is told the key of the item under the mouse or the focus, or null.
export function fillList(list, items, empty, onLight) {
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  if (!items.length) {
    list.replaceChildren(make("li", { class: "nothing" }, empty));
    return;
  }
  const rows = items.map(({ key, content }) => make("li", { "data-key": key, tabindex: "-1" }, content));
  list.replaceChildren(...rows);
  const again = rows.find((row) => row.dataset.key === focused);
  (again ?? rows[0]).tabIndex = 0;
  again?.focus();
  for (const row of rows) {
    row.addEventListener("pointerenter", () => onLight(row.dataset.key));
    row.addEventListener("pointerleave", () => onLight(null));
    row.addEventListener("focus", () => onLight(row.dataset.key));
    row.addEventListener("blur", () => onLight(null));
  }
}

// Once for a box: arrow keys go from one to another of what is chosen, and Tab goes past all.
export function arrowKeys(box, chosen = "li[data-key]") {
  box.addEventListener("keydown", (event) => {
    const rows = [...box.querySelectorAll(chosen)];
    const at = rows.indexOf(document.activeElement);
    const [before, after] = [at - 1, at + 1];
    const keys = { ArrowDown: after, ArrowRight: after, ArrowUp: before, ArrowLeft: before, Home: 0, End: rows.length - 1 };
    const to = keys[event.key];
    if (at < 0 || to === undefined || !rows[to]) return;
    event.preventDefault();
    rows[at].tabIndex = -1;
    rows[to].tabIndex = 0;
    rows[to].focus();
  });
}
