// What is under the mouse stands out, with its score in a small box beside it.

import { byId } from "./dom.js";

// Make one relation or one entity of a drawing stand out: {relation: key} or {entity: id}; null for none.
export function light(box, target) {
  for (const lit of box.querySelectorAll(".lit")) lit.classList.remove("lit");
  box.classList.toggle("lighting", Boolean(target));
  if (!target) return;
  const arcs = [...box.querySelectorAll(".arc")].filter(({ dataset }) =>
    target.relation ? dataset.relation === target.relation : [dataset.head, dataset.tail].includes(target.entity),
  );
  const entities = new Set(arcs.flatMap(({ dataset }) => [dataset.head, dataset.tail]));
  if (target.entity) entities.add(target.entity);
  for (const arc of arcs) arc.classList.add("lit");
  for (const part of box.querySelectorAll("[data-entity]")) {
    part.classList.toggle("lit", entities.has(part.dataset.entity));
  }
}

// Listen to the mouse over a drawing; `onLight` is told what it is over.
export function watch(box, onLight) {
  const tip = byId("tip");
  let over = null;
  const leave = () => {
    if (!over) return;
    over = null;
    tip.hidden = true;
    onLight(null);
  };
  box.addEventListener("pointerover", (event) => {
    const part = event.target.closest?.("[data-relation], [data-entity]");
    if (!part) return leave();
    if (part === over) return;
    over = part;
    onLight(part.dataset.relation ? { relation: part.dataset.relation } : { entity: part.dataset.entity });
    tip.textContent = part.told;
    tip.hidden = false;
  });
  box.addEventListener("pointermove", (event) => {
    if (tip.hidden) return;
    const { offsetWidth, offsetHeight } = tip;
    const left = Math.min(event.clientX + 12, document.documentElement.clientWidth - offsetWidth - 8);
    const above = event.clientY - offsetHeight - 12;
    tip.style.left = `${Math.max(left, 8)}px`;
    tip.style.top = `${above > 8 ? above : event.clientY + 18}px`;
  });
  box.addEventListener("pointerleave", leave);
}
