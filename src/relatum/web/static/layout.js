// Where arcs go: which level of which line, and where on their entities they begin and end. The reference for all of it
// is relatum/extractor/drawing/arcs.py, which draws without a browser; a test compares the two.

import { token } from "./dom.js";

const APART = token("arc-apart"); // pixels between arcs side by side, on an entity and on a level
const MOST_LINES = token("arc-lines"); // lines over which an arc is drawn all the way; of a longer one there are the two ends
export const LEVEL = token("arc-level"); // from an arc to the one above it
const LIFT = token("arc-lift"); // how far above its arc a label stands that would leave nothing of it

// The arcs of a text whose entities stand on lines. boxes: Map of an entity's id to {line, left, right};
// arcs: [{head, tail, labelWidth}], ids of entities; lines: [{width}].
// Answers, for each line, {highest, segments: [{arc, rise, lift, left, right, middle, begins, ends}]}: `begins` and `ends`
// say what is at the left and right end of a segment, "head", "tail" or "edge" of the line. A segment is drawn `rise` above
// the lowest ones, at most `highest`; a label, at its `middle`, interrupts it or stands `lift` above it.
export function arrange(lines, boxes, arcs) {
  const places = attach(boxes, arcs, Math.max(...lines.map((line) => line.width), 1));
  const segments = lines.map(() => []);
  arcs.forEach((arc, index) => {
    const ends = [
      { role: "head", line: boxes.get(arc.head).line, x: places[index].head },
      { role: "tail", line: boxes.get(arc.tail).line, x: places[index].tail },
    ].sort((a, b) => a.line - b.line || a.x - b.x);
    const [first, last] = ends;
    for (let line = first.line; line <= last.line; line++) {
      if (last.line - first.line > MOST_LINES && line !== first.line && line !== last.line) continue;
      const left = line === first.line ? first.x : 0;
      const right = line === last.line ? last.x : lines[line].width;
      segments[line].push({
        arc: index,
        left,
        right: Math.max(right, left),
        begins: line === first.line ? first.role : "edge",
        ends: line === last.line ? last.role : "edge",
        labelWidth: arc.labelWidth,
      });
    }
  });
  return segments.map((onLine, line) => ({ segments: onLine, highest: stack(onLine, lines[line].width) }));
}

// Give every segment the lowest place above all shorter ones that it spans, and above their labels; answers the highest.
function stack(segments, width) {
  let highest = 0;
  const placed = [];
  for (const segment of [...segments].sort((a, b) => a.right - a.left - (b.right - b.left) || a.left - b.left)) {
    const half = segment.labelWidth / 2;
    segment.middle = Math.min(Math.max((segment.left + segment.right) / 2, half), width - half);
    segment.from = Math.min(segment.left, segment.middle - half) - APART / 2;
    segment.to = Math.max(segment.right, segment.middle + half) + APART / 2;
    const below = placed.filter((other) => other.from < segment.to && segment.from < other.to);
    segment.rise = Math.max(0, ...below.map((other) => other.rise + LEVEL + other.lift));
    segment.lift = segment.right - segment.left < segment.labelWidth + 2 * APART ? LIFT : 0;
    highest = Math.max(highest, segment.rise);
    placed.push(segment);
  }
  return highest;
}

// Spread the arcs of an entity over its width, so that arcs to the same side do not cross: the longer, the farther in.
function attach(boxes, arcs, width) {
  const ends = new Map([...boxes.keys()].map((id) => [id, []]));
  const middle = (box) => box.line * width * 2 + (box.left + box.right) / 2;
  arcs.forEach((arc, index) => {
    // Rounded, so that two arcs between the same entities reach equally far.
    const reach = Math.round((middle(boxes.get(arc.tail)) - middle(boxes.get(arc.head))) * 1000) / 1000;
    ends.get(arc.head).push({ index, role: "head", reach });
    ends.get(arc.tail).push({ index, role: "tail", reach: -reach });
  });
  const places = arcs.map(() => ({}));
  for (const [id, list] of ends) {
    const box = boxes.get(id);
    // From left to right: short to the left, long to the left, long to the right, short to the right.
    const leftward = (end) => end.reach < 0 || (end.reach === 0 && end.role === "head");
    const order = (end) => (leftward(end) ? -1 / (1 + Math.abs(end.reach)) : 1 / (1 + Math.abs(end.reach)));
    list.sort((a, b) => order(a) - order(b) || a.index - b.index);
    const wanted = Math.max(APART, Math.min((box.right - box.left) / list.length, 3 * APART));
    const step = Math.min(wanted, width / list.length);
    const span = (list.length - 1) * step;
    const first = Math.max(Math.min((box.left + box.right - span) / 2, width - span - 1), 1);
    list.forEach((end, place) => {
      places[end.index][end.role] = first + place * step;
    });
  }
  return places;
}

// Give boxes that stand above each other's x their own levels, in the order given; answers the number of levels.
export function pile(boxes, apart = 4) {
  let levels = 0;
  boxes.forEach((box, index) => {
    const meets = (other) => other.left < box.right + apart && box.left < other.right + apart;
    const taken = boxes.slice(0, index).filter(meets);
    box.level = 0;
    while (taken.some((other) => other.level === box.level)) box.level += 1;
    levels = Math.max(levels, box.level + 1);
  });
  return levels;
}

// The path of a segment: up, along at y, and down; each foot has its own height, where an edge has none.
export function path(segment, y, leftFoot, rightFoot) {
  const round = Math.min(7, Math.max((segment.right - segment.left) / 2, 0));
  const [left, right, above, below] = [segment.left, segment.right, y, y + round].map(fix);
  const begin =
    segment.begins === "edge"
      ? `M${left} ${above}`
      : `M${left} ${fix(leftFoot)}V${below}Q${left} ${above} ${fix(segment.left + round)} ${above}`;
  const end =
    segment.ends === "edge"
      ? `H${right}`
      : `H${fix(segment.right - round)}Q${right} ${above} ${right} ${below}V${fix(rightFoot)}`;
  return begin + end;
}

const fix = (number) => Math.round(number * 10) / 10;
