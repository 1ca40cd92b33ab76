// Words × words as colours, with the words on both axes, that a mouse, a finger or the arrow keys can read.

import { make } from "./dom.js";

const LABELS = 96; // pixels that the words of an axis have
const SMALLEST = 11;
const LARGEST = 24;

export class HeatMap {
  // name: what it shows, for those who do not see it.
  constructor(box, name) {
    this.box = box;
    this.name = name;
    this.corner = make("div", { class: "corner", "aria-hidden": "true" });
    this.top = make("canvas", { class: "axis top", "aria-hidden": "true" });
    this.left = make("canvas", { class: "axis left", "aria-hidden": "true" });
    this.cells = make("canvas", { class: "cells" });
    this.cursor = make("div", { class: "cursor", hidden: true });
    this.field = make("div", { class: "field", tabindex: "0", role: "application" }, this.cells, this.cursor);
    this.field.setAttribute("aria-roledescription", "heat map");
    this.scroller = make("div", { class: "heatmap" }, this.corner, this.top, this.left, this.field);
    this.readout = make("p", { class: "readout", "aria-live": "polite" });
    this.box.replaceChildren(this.scroller, this.readout);
    this.at = null;
    this.field.addEventListener("pointermove", (event) => this.#point(event));
    this.field.addEventListener("pointerdown", (event) => this.#point(event));
    this.field.addEventListener("keydown", (event) => this.#key(event));
    this.field.addEventListener("focus", () => this.at ?? (this.shown && this.#move(0, 0)));
  }

  // What to show: {words: [{text, hue}], cell(row, column) → {hue, strength} (hue null: grey),
  // outlines: [{rows: [from, to], columns: [from, to]}], tell(row, column) → text, hint}.
  show(shown) {
    const spelled = ({ words }) => words.map(({ text }) => text).join("\n");
    const same = this.shown && spelled(this.shown) === spelled(shown);
    this.shown = shown;
    if (!same || !this.at) {
      this.at = null;
      this.cursor.hidden = true;
      this.readout.textContent = shown.hint;
    }
    this.draw();
    if (this.at) this.#tell();
  }

  draw() {
    if (!this.shown || !this.box.clientWidth) return;
    const { words, cell, outlines } = this.shown;
    const n = words.length;
    const style = getComputedStyle(this.box);
    const colours = Object.fromEntries(
      ["ink", "faint", "rule", "paper", "heat"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
    );
    const longest = this.#longest(words, style.fontFamily);
    this.labels = Math.min(longest + 10, LABELS);
    const room = this.box.clientWidth - this.labels - 2;
    this.size = Math.min(Math.max(Math.floor(room / n), SMALLEST), LARGEST);
    const side = this.size * n;
    this.scroller.style.gridTemplateColumns = `${this.labels}px ${side}px`;
    this.scroller.style.gridTemplateRows = `${this.labels}px ${side}px`;
    this.field.setAttribute("aria-label", `${this.name}, ${n} by ${n} words; arrow keys read its cells`);
    const pen = canvas(this.cells, side, side);
    paint(pen, n, this.size, colours, cell);
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 1.5;
    for (const { rows, columns } of outlines ?? []) {
      pen.strokeRect(
        columns[0] * this.size + 0.25,
        rows[0] * this.size + 0.25,
        (columns[1] - columns[0]) * this.size - 1,
        (rows[1] - rows[0]) * this.size - 1,
      );
    }
    this.#axes(words, side, style.fontFamily, colours);
    this.#place();
  }

  #font(family) {
    return `${Math.min(this.size ? this.size + 1 : 12, 13)}px ${family}`;
  }

  #longest(words, family) {
    const pen = this.left.getContext("2d");
    pen.font = `13px ${family}`;
    return Math.max(...words.map(({ text }) => pen.measureText(text).width), 20);
  }

  #axes(words, side, family, colours) {
    const rowPen = canvas(this.left, this.labels, side);
    const columnPen = canvas(this.top, side, this.labels);
    columnPen.rotate(-Math.PI / 2);
    columnPen.translate(-this.labels, 0);
    for (const [pen, rows] of [[rowPen, true], [columnPen, false]]) {
      pen.font = this.#font(family);
      pen.textBaseline = "middle";
      pen.textAlign = rows ? "right" : "left";
      words.forEach(({ text, hue }, index) => {
        const middle = (index + 0.5) * this.size;
        if (hue !== null) {
          pen.globalAlpha = 0.3;
          pen.fillStyle = `hsl(${hue} ${colours.heat})`;
          pen.fillRect(0, index * this.size, this.labels, this.size);
          pen.globalAlpha = 1;
        }
        pen.fillStyle = hue === null ? colours.faint : colours.ink;
        pen.fillText(cut(pen, text, this.labels - 8), rows ? this.labels - 5 : 5, middle + 0.5);
      });
    }
  }

  #point(event) {
    if (!this.shown) return;
    const rect = this.cells.getBoundingClientRect();
    const row = Math.floor((event.clientY - rect.top) / this.size);
    const column = Math.floor((event.clientX - rect.left) / this.size);
    const n = this.shown.words.length;
    if (row >= 0 && column >= 0 && row < n && column < n) this.#move(row, column);
  }

  #key(event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const step = steps[event.key];
    if (!step || !this.shown || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const last = this.shown.words.length - 1;
    const [row, column] = this.at ?? [0, 0];
    this.#move(Math.min(Math.max(row + step[0], 0), last), Math.min(Math.max(column + step[1], 0), last));
    this.#reveal();
  }

  #move(row, column) {
    if (this.at && this.at[0] === row && this.at[1] === column) return;
    this.at = [row, column];
    this.#place();
    this.#tell();
  }

  #tell() {
    this.readout.textContent = this.shown.tell(...this.at);
  }

  #place() {
    this.cursor.hidden = this.at === null;
    if (!this.at) return;
    this.cursor.style.left = `${this.at[1] * this.size}px`;
    this.cursor.style.top = `${this.at[0] * this.size}px`;
    this.cursor.style.width = `${this.size}px`;
    this.cursor.style.height = `${this.size}px`;
  }

  // Bring the cell that the keys chose out from under the axes.
  #reveal() {
    const [y, x] = this.at.map((index) => index * this.size);
    const { clientWidth, clientHeight, scrollLeft, scrollTop } = this.scroller;
    const width = clientWidth - this.labels - this.size;
    const height = clientHeight - this.labels - this.size;
    this.scroller.scrollTo(Math.max(Math.min(scrollLeft, x), x - width), Math.max(Math.min(scrollTop, y), y - height));
  }
}

// One pixel a cell, made larger by the browser: a hundred words have ten thousand cells.
export function paint(pen, n, size, colours, cell) {
  const pixels = new ImageData(n, n);
  const known = new Map([[null, rgb(colours.faint)]]);
  for (let row = 0; row < n; row++) {
    for (let column = 0; column < n; column++) {
      const { hue, strength } = cell(row, column);
      if (!known.has(hue)) known.set(hue, rgb(`hsl(${hue} ${colours.heat})`));
      pixels.data.set([...known.get(hue), Math.round(255 * strength)], 4 * (row * n + column));
    }
  }
  const small = document.createElement("canvas");
  small.width = small.height = n;
  small.getContext("2d").putImageData(pixels, 0, 0);
  pen.imageSmoothingEnabled = false;
  pen.drawImage(small, 0, 0, n * size, n * size);
  if (size < 4) return;
  pen.fillStyle = colours.rule;
  pen.globalAlpha = 0.55;
  for (let line = 0; line <= n; line++) {
    pen.fillRect(line * size - 0.5, 0, 0.5, n * size);
    pen.fillRect(0, line * size - 0.5, n * size, 0.5);
  }
  pen.globalAlpha = 1;
}

// Any colour of CSS as three numbers.
function rgb(colour) {
  const one = document.createElement("canvas");
  one.width = one.height = 1;
  const pen = one.getContext("2d", { willReadFrequently: true });
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}

// Size a canvas for the screen's pixels and answer its pen in CSS pixels.
export function canvas(element, width, height) {
  const ratio = window.devicePixelRatio || 1;
  element.width = Math.round(width * ratio);
  element.height = Math.round(height * ratio);
  element.style.width = `${width}px`;
  element.style.height = `${height}px`;
  const pen = element.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  return pen;
}

function cut(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let kept = [...text];
  while (kept.length > 1 && pen.measureText(`${kept.join("")}…`).width > room) kept = kept.slice(0, -1);
  return `${kept.join("")}…`;
}
