// Sentences with their entities marked and their relations as arcs above the lines.

import { make, makeSvg, token } from "./dom.js";
import { hue, shownScore } from "./labels.js";
import { LEVEL, arrange, path, pile } from "./layout.js";

const CHIP = token("chip-step"); // height of an entity's label, with the space below it
const ARROW = token("arc-arrow");
const ABOVE = token("arc-above"); // from the top of a line to its highest arc

// Draw all at once, so that the browser lays out the page three times and not three times a sentence.
// A drawing: {box, text, entities, relations}; entities have `start` and `end` in the text, `id`, `label` and `score`,
// relations `head` and `tail`, `label`, `score`, `key` and perhaps `kind`, a class of its own.
export function draw(drawings) {
  for (const drawing of drawings) {
    drawing.shown = drawing.text.replace(/\s/g, " ");
    drawing.flow = make("div", { class: "words flow" }, ...marked(drawing, 0, drawing.text.length));
    drawing.box.dir = "auto";
    drawing.box.replaceChildren(drawing.flow);
  }
  for (const drawing of drawings) {
    drawing.breaks = lineBreaks(drawing.flow, drawing.shown);
    drawing.rightToLeft = getComputedStyle(drawing.box).direction === "rtl";
  }
  // From here on labels are in the box, too, which say nothing of the direction of the text.
  for (const drawing of drawings) drawing.box.dir = drawing.rightToLeft ? "rtl" : "ltr";
  for (const drawing of drawings) drawing.box.replaceChildren(...buildLines(drawing));
  for (const drawing of drawings) measure(drawing);
  for (const drawing of drawings) drawArcs(drawing);
}

const told = (entity) => `${entity.text.replace(/\s+/g, " ")} · ${entity.label} · ${shownScore(entity.score)}`;

// The text from one place to another with a mark around each entity; one that crosses another's end is in two parts.
function marked({ shown, entities }, from, to) {
  const inside = entities
    .filter((entity) => entity.start < to && entity.end > from)
    .sort((a, b) => a.start - b.start || b.end - a.end);
  const cuts = [...new Set([from, to, ...inside.flatMap((e) => [Math.max(e.start, from), Math.min(e.end, to)])])];
  cuts.sort((a, b) => a - b);
  const root = make("div");
  for (let index = 0; index + 1 < cuts.length; index++) {
    let place = root;
    for (const entity of inside.filter((e) => e.start <= cuts[index] && e.end >= cuts[index + 1])) {
      const last = place.lastChild;
      if (last?.entity === entity) {
        place = last;
      } else {
        const mark = make("mark", { hue: hue(entity.label), "data-entity": entity.id });
        mark.entity = entity;
        mark.told = told(entity);
        place.append(mark);
        place = mark;
      }
    }
    place.append(shown.slice(cuts[index], cuts[index + 1]));
  }
  return [...root.childNodes];
}

// Where the browser broke the text: the first place of every line.
function lineBreaks(flow, text) {
  const breaks = [0];
  const walker = document.createTreeWalker(flow, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  let bottom = null;
  let offset = 0;
  const see = (node, from, to) => {
    range.setStart(node, from);
    range.setEnd(node, to);
    const rects = range.getClientRects();
    if (!rects.length) return;
    if (rects.length > 1 && rects[rects.length - 1].top >= rects[0].bottom - 2 && to - from > 1) {
      for (let at = from; at < to; ) {
        const size = text.codePointAt(offset + at) > 0xffff ? 2 : 1;
        see(node, at, at + size);
        at += size;
      }
      return;
    }
    const rect = rects[0];
    if (bottom !== null && rect.top >= bottom - 2) breaks.push(offset + from);
    if (bottom === null || rect.bottom > bottom) bottom = rect.bottom;
  };
  while (walker.nextNode()) {
    const node = walker.currentNode;
    for (const word of node.data.matchAll(/[^ ]+/g)) see(node, word.index, word.index + word[0].length);
    offset += node.data.length;
  }
  return breaks;
}

function buildLines(drawing) {
  drawing.chips = new Map();
  drawing.lines = drawing.breaks.map((from, number) => {
    const to = drawing.breaks[number + 1] ?? drawing.text.length;
    const seen = from + drawing.shown.slice(from, to).trimEnd().length; // the space at a line's end takes no room
    const words = make("div", { class: "words" }, ...marked(drawing, from, seen));
    const chips = make("div", { class: "chips", "aria-hidden": "true" });
    for (const entity of drawing.entities.filter((e) => e.start >= from && e.start < to)) {
      const kinds = ["chip", entity.kind].filter(Boolean).join(" ");
      const chip = make("span", { class: kinds, hue: hue(entity.label), "data-entity": entity.id }, entity.label);
      chip.told = told(entity);
      chips.append(chip);
      drawing.chips.set(entity.id, { chip, line: number, entity });
    }
    const arcs = makeSvg("svg", { class: "arcs", "aria-hidden": "true" });
    const line = make("div", { class: "line" }, arcs, chips, words);
    return { line, arcs, words, chips };
  });
  return drawing.lines.map(({ line }) => line);
}

function measure(drawing) {
  drawing.width = drawing.box.clientWidth;
  drawing.font ??= getComputedStyle(drawing.box).fontFamily;
  const left = drawing.box.getBoundingClientRect().left;
  for (const { words } of drawing.lines) {
    for (const mark of words.querySelectorAll("mark")) {
      const found = drawing.chips.get(mark.entity.id);
      if (found.middle !== undefined) continue; // its first part counts
      const rect = mark.getBoundingClientRect();
      const width = found.chip.offsetWidth;
      found.middle = (rect.left + rect.right) / 2 - left;
      found.left = Math.min(Math.max(found.middle - width / 2, 0), Math.max(drawing.width - width, 0));
      found.right = found.left + width;
    }
  }
}

const pen = document.createElement("canvas").getContext("2d");

function labelWidth(text, font) {
  pen.font = `600 ${token("arc-text")}px ${font}`;
  return pen.measureText(text).width + 8;
}

function drawArcs(drawing) {
  const { chips, lines, width } = drawing;
  const heights = lines.map((_, number) => pile([...chips.values()].filter((found) => found.line === number)));
  const mirror = (x) => (drawing.rightToLeft ? width - x : x);
  const boxes = new Map();
  for (const [id, { line, left, right }] of chips) {
    const ends = [mirror(left), mirror(right)];
    boxes.set(id, { line, left: Math.min(...ends), right: Math.max(...ends) });
  }
  const relations = drawing.relations.filter(({ head, tail }) => chips.has(head) && chips.has(tail));
  const arcs = relations.map(({ head, tail, label }) => ({ head, tail, labelWidth: labelWidth(label, drawing.font) }));
  const arranged = arrange(lines.map(() => ({ width })), boxes, arcs);
  arranged.forEach(({ highest, segments }, number) => {
    const { line, arcs: svg } = lines[number];
    const top = segments.length ? highest + LEVEL + ABOVE - 2 : 0;
    const height = top + heights[number] * CHIP;
    line.style.paddingTop = `${height}px`;
    if (number === 0) drawing.box.parentElement.style.setProperty("--rise", `${height}px`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    for (const found of chips.values()) {
      if (found.line !== number) continue;
      found.chip.style.left = `${found.left}px`;
      found.chip.style.top = `${top + (heights[number] - 1 - found.level) * CHIP}px`;
    }
    const foot = (id) => top + (heights[number] - 1 - chips.get(id).level) * CHIP;
    // High arcs first: the labels of low ones stay in front of the feet of high ones.
    for (const segment of [...segments].sort((a, b) => b.rise - a.rise)) {
      const relation = relations[segment.arc];
      const y = highest - segment.rise + ABOVE;
      svg.append(arc(segment, relation, y, foot, mirror, arcs[segment.arc].labelWidth, drawing));
    }
  });
}

function arc(segment, relation, y, foot, mirror, width, drawing) {
  const at = { head: () => foot(relation.head), tail: () => foot(relation.tail) - ARROW, edge: () => y };
  const line = path(segment, y, at[segment.begins](), at[segment.ends]());
  const group = makeSvg("g", {
    class: ["arc", relation.kind].filter(Boolean).join(" "),
    hue: hue(relation.label),
    "data-relation": relation.key,
    "data-head": relation.head,
    "data-tail": relation.tail,
  });
  const drawn = makeSvg("g", drawing.rightToLeft ? { transform: `matrix(-1 0 0 1 ${drawing.width} 0)` } : {});
  drawn.append(makeSvg("path", { class: "hit", d: line }), makeSvg("path", { class: "bow", d: line }));
  for (const [end, x] of [[segment.begins, segment.left], [segment.ends, segment.right]]) {
    if (end !== "tail") continue;
    const tip = foot(relation.tail) - 1;
    drawn.append(makeSvg("path", { class: "arrow", d: `M${x} ${tip}l-3.6 -6.5h7.2z` }));
  }
  const middle = mirror(segment.middle);
  const { lift } = segment;
  const gap = { x: middle - width / 2 + 2, y: y - 6 - lift, width: width - 4, height: lift ? 11 : 12, rx: 3 };
  group.append(drawn, makeSvg("rect", { class: "gap", ...gap }));
  const label = makeSvg("text", { x: middle, y: y + 4 - lift });
  label.textContent = relation.label;
  group.append(label);
  group.told = `${relation.headText} —${relation.label}→ ${relation.tailText} · ${shownScore(relation.score)}`;
  return group;
}
