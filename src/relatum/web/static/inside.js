// The probe of a sentence: what every layer says, its relation table, and where its heads look.

import { byId, make } from "./dom.js";
import { partOf, spelled } from "./found.js";
import { canvas, HeatMap, paint } from "./heatmap.js";
import { count, hue, shownScore } from "./labels.js";
import { entityItem, relationItem } from "./lists.js";
import { moved, places } from "./offsets.js";
import { draw } from "./sentence.js";

const THUMBNAIL = 52;
const ATTENTION_HUE = 222;

export class Inside {
  constructor(onHead) {
    this.onHead = onHead;
    this.table = new HeatMap(byId("table"), "Relation table");
    this.attention = new HeatMap(byId("attention"), "Table-guided attention");
    this.box = make("div", { class: "lines" });
    byId("layer-drawing").replaceChildren(make("div", { class: "sentence" }, this.box));
  }

  // A new probe, of a part of the text.
  show(text, sentence, probe) {
    const place = places(text);
    this.text = text;
    this.probe = probe;
    const words = moved(place, probe.words);
    // A word of another script may reach over the end of a sentence that was trimmed; nothing is drawn outside.
    this.range = { start: place(sentence.start), end: place(sentence.end) };
    this.words = words;
    byId("inside-body").querySelector(".halves").classList.toggle("wide", words.length > 42);
    this.layers = probe.layers.map((layer) => {
      const entities = moved(place, layer.entities).map((entity) => ({
        ...entity,
        kind: layer.gained.entities.includes(entity.id) ? "gained" : "",
      }));
      const relations = spelled(entities, layer.relations).map((relation, index) => ({
        ...relation,
        kind: layer.gained.relations.includes(index) ? "gained" : "",
      }));
      return { ...layer, entities, relations };
    });
    return this.layers.length;
  }

  layer(number, head) {
    this.number = number;
    this.redraw();
    this.#changes();
    this.#table();
    this.#heads(head);
    this.head(head);
  }

  // The arcs again, where the width changed.
  redraw() {
    const { entities, relations } = this.#layer();
    draw([{ box: this.box, ...partOf(this.text, this.range, entities, relations) }]);
  }

  repaint() {
    this.table.draw();
    this.attention.draw();
    if (this.probe) this.#thumbnails();
  }

  #layer() {
    return this.layers[this.number - 1];
  }

  #changes() {
    const { layer, entities, relations, gained, lost } = this.#layer();
    const n = [count(entities.length, "entity", "entities"), count(relations.length, "relation")];
    const newEntities = entities.filter(({ id }) => gained.entities.includes(id));
    const newRelations = relations.filter((_, index) => gained.relations.includes(index));
    const spelledOut = (relation) => ({ ...relation, headText: relation.head.text, tailText: relation.tail.text });
    const news = [
      ...newEntities.map((entity) => change("+", "gained", entityItem(entity))),
      ...newRelations.map((relation) => change("+", "gained", relationItem(relation))),
      ...lost.entities.map((entity) => change("−", "lost", entityItem(entity))),
      ...lost.relations.map((relation) => change("−", "lost", relationItem(spelledOut(relation)))),
    ];
    const before = `layer ${layer - 1}`;
    const compared = layer === 1 ? "." : news.length ? `; compared with ${before}:` : `, as ${before} does.`;
    const said = make("p", {}, `Layer ${layer} finds ${n.join(" and ")}${compared}`);
    byId("changes").replaceChildren(said, ...(news.length ? [make("ul", {}, ...news)] : []));
  }

  #axis() {
    const { entities } = this.#layer();
    return this.words.map((word) => {
      const entity = entities.find(({ start, end }) => start <= word.start && word.end <= end);
      return { text: word.text, hue: entity ? hue(entity.label) : null };
    });
  }

  #wordsOf(entity) {
    const inside = ({ start, end }) => start >= entity.start && end <= entity.end;
    const first = this.words.findIndex(inside);
    return first < 0 ? null : [first, this.words.findLastIndex(inside) + 1];
  }

  #table() {
    const { cells, no_relation: none, entities, relations, layer } = this.#layer();
    const { relation_tags: tags, relation_labels: names, independent_tags: independent } = this.probe;
    const nothing = independent ? "no tag" : "no relation"; // independent tags stand for entities, too
    byId("table-title").textContent = `Relation table of layer ${layer}`;
    byId("table").hidden = !cells.length;
    const labels = [...new Set(names.slice(1))];
    const explained = labels.map((label) => make("span", {}, make("i", { class: "dot", hue: hue(label) }), label));
    byId("table-legend").replaceChildren(...(cells.length ? explained : ["This model scores no relations."]));
    if (!cells.length) return;
    const named = new Map(entities.map((entity) => [entity.id, entity]));
    const outlines = relations
      .map(({ head, tail }) => ({ rows: this.#wordsOf(named.get(head)), columns: this.#wordsOf(named.get(tail)) }))
      .filter(({ rows, columns }) => rows && columns);
    this.table.show({
      words: this.#axis(),
      outlines,
      cell: (row, column) => {
        const [tag] = cells[row][column];
        return { hue: tag === 0 ? null : hue(names[tag]), strength: 1 - none[row][column] };
      },
      tell: (row, column) => {
        const [tag, probability] = cells[row][column];
        const said = tag === 0 ? nothing : tags[tag];
        const rest = tag === 0 ? "" : `, ${nothing} ${shownScore(none[row][column])}`;
        return `${this.words[row].text} × ${this.words[column].text}: ${said} ${shownScore(probability)}${rest}`;
      },
      hint: "Point at a cell, or use the arrow keys.",
    });
  }

  #heads(chosen) {
    const maps = this.probe.attention?.[this.number - 1];
    const box = byId("heads");
    box.hidden = !maps;
    byId("attention").hidden = !maps;
    byId("attention-hint").textContent = maps
      ? "How much each word, a row, looks at the others; rows sum to 1."
      : "This model has no sequence encoder, and so no attention of this kind.";
    if (!maps) return;
    if (box.querySelectorAll("input").length !== maps.length) {
      const choices = maps.map((_, index) => {
        const input = make("input", { type: "radio", name: "head", value: String(index), id: `head-${index}` });
        input.addEventListener("change", () => this.onHead(index));
        const picture = make("canvas", { class: "thumbnail", "aria-hidden": "true" });
        const number = make("span", {}, String(index + 1));
        return make("label", { class: "head", for: `head-${index}` }, input, picture, number);
      });
      box.replaceChildren(box.querySelector("legend"), ...choices);
    }
    const inputs = box.querySelectorAll("input");
    inputs[Math.min(chosen, inputs.length - 1)].checked = true;
    this.#thumbnails();
  }

  #thumbnails() {
    const maps = this.probe.attention?.[this.number - 1];
    if (!maps) return;
    const colours = { heat: getComputedStyle(document.body).getPropertyValue("--heat").trim(), faint: "#888888" };
    byId("heads").querySelectorAll("canvas").forEach((picture, index) => {
      const n = maps[index].length;
      paint(canvas(picture, THUMBNAIL, THUMBNAIL), n, THUMBNAIL / n, colours, shades(maps[index]));
    });
  }

  head(chosen) {
    const maps = this.probe.attention?.[this.number - 1];
    if (!maps) {
      byId("attention-title").textContent = "Table-guided attention";
      return;
    }
    const index = Math.min(chosen, maps.length - 1);
    byId("attention-title").textContent = `Table-guided attention of layer ${this.number}, head ${index + 1}`;
    this.attention.show({
      words: this.#axis(),
      cell: shades(maps[index]),
      tell: (row, column) =>
        `${this.words[row].text} → ${this.words[column].text}: ${shownScore(maps[index][row][column])}`,
      hint: "Point at a cell, or use the arrow keys.",
    });
  }
}

// The strongest colour is the highest weight of a head: what it prefers is seen however evenly it looks.
function shades(map) {
  const most = Math.max(...map.map((row) => Math.max(...row)), 1e-4);
  return (row, column) => ({ hue: ATTENTION_HUE, strength: Math.sqrt(map[row][column] / most) });
}

function change(sign, kind, content) {
  const meaning = make("span", { class: "unseen" }, `${kind}: `);
  return make("li", { class: kind }, make("span", { class: "sign", "aria-hidden": "true" }, sign), meaning, content);
}
