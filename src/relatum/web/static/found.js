// What was found in a text: filtered by score, drawn sentence by sentence, and listed in words.

import { byId, make } from "./dom.js";
import { arrowKeys, entityItem, fillList, relationItem } from "./lists.js";
import { moved, places } from "./offsets.js";
import { draw } from "./sentence.js";

// As `Extraction.above` does it: a relation goes with its entities, and ids are given anew.
export function above(result, threshold) {
  const stays = ({ score }) => score === null || score >= threshold;
  const entities = result.entities.filter(stays);
  const names = new Map(entities.map((entity, index) => [entity.id, `e${index + 1}`]));
  return {
    text: result.text,
    entities: entities.map((entity) => ({ ...entity, id: names.get(entity.id) })),
    relations: result.relations
      .filter((relation) => stays(relation) && names.has(relation.head) && names.has(relation.tail))
      .map((relation) => ({ ...relation, head: names.get(relation.head), tail: names.get(relation.tail) })),
    sentences: result.sentences,
  };
}

const oneLine = (text) => text.replace(/\s+/g, " ");

// What stands in one part of a text, as `draw` takes it; places are counted from the start of the part.
export function partOf(text, { start, end }, entities, relations) {
  const inside = entities.filter((entity) => entity.start >= start && entity.end <= end);
  const named = new Map(inside.map((entity) => [entity.id, entity]));
  return {
    text: text.slice(start, end),
    entities: inside.map((entity) => ({ ...entity, start: entity.start - start, end: entity.end - start })),
    relations: relations.filter(({ head, tail }) => named.has(head) && named.has(tail)),
  };
}

// Relations with the words of their ends, and a key that stays whatever is filtered.
export function spelled(entities, relations) {
  const named = new Map(entities.map((entity) => [entity.id, entity]));
  return relations.map((relation, index) => ({
    ...relation,
    key: relation.key ?? `r${index + 1}`,
    headText: oneLine(named.get(relation.head).text),
    tailText: oneLine(named.get(relation.tail).text),
  }));
}

export class Found {
  constructor(onChoose, onLight) {
    this.box = byId("sentences");
    this.onChoose = onChoose;
    this.onLight = onLight;
    for (const name of ["relations", "entities"]) arrowKeys(byId(name));
    arrowKeys(this.box, ".number");
  }

  // A new answer of the server.
  show(result) {
    const place = places(result.text);
    this.text = result.text;
    this.entities = moved(place, result.entities);
    this.relations = spelled(result.entities, result.relations);
    this.sentences = moved(place, result.sentences);
    this.shown = this.sentences.map(() => null);
    this.numbers = [];
    this.boxes = [];
    const rows = this.sentences.map((sentence, index) => {
      const number = make("button", { type: "button", class: "number" }, String(index + 1));
      number.setAttribute("aria-label", `Look inside sentence ${index + 1}`);
      number.tabIndex = index ? -1 : 0;
      number.addEventListener("click", () => this.onChoose(index));
      const box = make("div", { class: "lines" });
      this.numbers.push(number);
      this.boxes.push(box);
      const before = index ? this.text.slice(this.sentences[index - 1].end, sentence.start) : "";
      const paragraph = /\n\s*\n/.test(before) ? " paragraph" : "";
      return make("div", { class: `sentence${paragraph}` }, number, box);
    });
    this.box.replaceChildren(...rows);
  }

  // Only what has that score; `afresh` where the width changed and all must be laid out again.
  filter(threshold, afresh = false) {
    const stays = ({ score }) => score === null || score >= threshold;
    const entities = this.entities.filter(stays);
    const ids = new Set(entities.map(({ id }) => id));
    const relations = this.relations.filter((r) => stays(r) && ids.has(r.head) && ids.has(r.tail));
    const drawings = [];
    this.sentences.forEach((sentence, index) => {
      const drawing = partOf(this.text, sentence, entities, relations);
      const key = [...drawing.entities.map(({ id }) => id), ...drawing.relations.map((r) => r.key)].join(" ");
      if (key === this.shown[index] && !afresh) return;
      this.shown[index] = key;
      drawings.push({ box: this.boxes[index], ...drawing });
    });
    draw(drawings);
    this.#list(entities, relations);
    return { entities: entities.length, relations: relations.length };
  }

  #list(entities, relations) {
    const rows = relations.map((relation) => ({ key: relation.key, content: relationItem(relation) }));
    fillList(byId("relations"), rows, "None.", (key) => this.onLight(key && { relation: key }));
    const kinds = entities.map((entity) => ({ key: entity.id, content: entityItem(entity) }));
    fillList(byId("entities"), kinds, "None.", (key) => this.onLight(key && { entity: key }));
  }

  // Show which sentence is looked into; null for none.
  choose(chosen) {
    this.numbers?.forEach((number, index) => {
      number.classList.toggle("chosen", index === chosen);
      number.setAttribute("aria-pressed", String(index === chosen));
    });
  }
}
