// Lays out and draws the graph, and filters the list of edges by what is clicked.
"use strict";
(() => {
  const { nodes, edges } = JSON.parse(document.getElementById("graph").textContent);
  const svg = document.querySelector(".drawing svg");
  const items = [...document.querySelectorAll("[data-edge]")];
  const said = document.querySelector("output");
  const all = document.querySelector(".all");
  if (!nodes.length) return;

  function element(parent, name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "hue") made.style.setProperty("--hue", value);
      else made.setAttribute(key, value);
    }
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  // The layout: nodes repel each other, edges pull, and everything is drawn to the centre. It starts from a spiral, so
  // that the same graph always looks the same.
  const length = nodes.length > 150 ? 60 : 120;
  nodes.forEach((node, number) => {
    const radius = length * 0.6 * Math.sqrt(number + 0.5), angle = number * 2.39996;
    Object.assign(node, { x: radius * Math.cos(angle), y: radius * Math.sin(angle), dx: 0, dy: 0, degree: 0 });
    node.radius = 5 + Math.min(11, 2 * Math.sqrt(node.count));
  });
  for (const [head, tail] of edges) {
    nodes[head].degree += 1;
    nodes[tail].degree += 1;
  }
  const steps = 300;
  for (let step = 0; step < steps; step++) {
    for (let i = 0; i < nodes.length; i++) {
      for (let j = i + 1; j < nodes.length; j++) {
        const a = nodes[i], b = nodes[j];
        const x = a.x - b.x || 0.1, y = a.y - b.y || 0.1;
        const force = (length * length) / (x * x + y * y + 1);
        a.dx += x * force; a.dy += y * force;
        b.dx -= x * force; b.dy -= y * force;
      }
    }
    for (const [head, tail] of edges) {
      const a = nodes[head], b = nodes[tail];
      const x = b.x - a.x, y = b.y - a.y;
      const force = Math.sqrt(x * x + y * y) / length / Math.sqrt(Math.max(1, Math.min(a.degree, b.degree)));
      a.dx += x * force; a.dy += y * force;
      b.dx -= x * force; b.dy -= y * force;
    }
    const most = length * (1 - step / steps);
    for (const node of nodes) {
      node.dx -= node.x * 0.6; node.dy -= node.y * 0.9;
      const size = Math.hypot(node.dx, node.dy) || 1, move = Math.min(size, most) / size;
      node.x += node.dx * move; node.y += node.dy * move;
      node.dx = node.dy = 0;
    }
  }

  // The drawing. Edges between the same two nodes are bent apart.
  const marker = element(element(svg, "defs", {}), "marker", {
    id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto",
  });
  element(marker, "path", { d: "M0 0L8 4L0 8z" });
  const view = element(svg, "g", {});
  if (nodes.length > 60) view.classList.add("many");
  const beside = new Map();
  const hues = new Map(items.map((item, number) => [number, item.querySelector(".link").style.getPropertyValue("--hue")]));
  const lines = edges.map(([head, tail, label], number) => {
    const pair = head < tail ? `${head} ${tail}` : `${tail} ${head}`;
    const rank = beside.get(pair) || 0;
    beside.set(pair, rank + 1);
    const hue = hues.get(number);
    const line = element(view, "path", { class: "edge", "marker-end": "url(#tip)", hue });
    const text = element(view, "text", { class: "edge-label", hue }, label);
    return { head, tail, line, text, bend: 12 + 22 * rank };
  });
  const marks = nodes.map((node, number) => {
    const group = element(view, "g", { class: "node", tabindex: 0, role: "button", hue: node.hue });
    element(group, "circle", { r: node.radius });
    element(group, "title", {}, `${node.name} (${node.label}), ${node.count} ${node.count === 1 ? "mention" : "mentions"}`);
    element(group, "text", { y: -node.radius - 4 }, node.name.length > 40 ? `${node.name.slice(0, 39)}…` : node.name);
    group.dataset.node = number;
    return group;
  });
  const large = [...nodes.keys()].sort((a, b) => nodes[b].degree - nodes[a].degree).slice(0, 20);
  for (const number of large) marks[number].classList.add("large");

  function place() {
    nodes.forEach((node, number) => marks[number].setAttribute("transform", `translate(${node.x},${node.y})`));
    for (const { head, tail, line, text, bend } of lines) {
      const a = nodes[head], b = nodes[tail];
      if (a === b) {
        const r = a.radius, top = a.y - r - 30 - bend;
        line.setAttribute("d", `M${a.x - r * 0.7} ${a.y - r * 0.7}C${a.x - 45} ${top} ${a.x + 45} ${top} ${a.x + r * 0.7} ${a.y - r * 0.7}`);
        text.setAttribute("x", a.x); text.setAttribute("y", top + bend * 0.4);
        continue;
      }
      const x = b.x - a.x, y = b.y - a.y, size = Math.hypot(x, y) || 1;
      const cx = (a.x + b.x) / 2 - (y / size) * bend, cy = (a.y + b.y) / 2 + (x / size) * bend;
      const end = (from, gap) => {
        const ex = cx - from.x, ey = cy - from.y, es = Math.hypot(ex, ey) || 1;
        return `${from.x + (ex / es) * gap} ${from.y + (ey / es) * gap}`;
      };
      line.setAttribute("d", `M${end(a, a.radius)}Q${cx} ${cy} ${end(b, b.radius + 2)}`);
      text.setAttribute("x", (a.x + b.x) / 4 + cx / 2); text.setAttribute("y", (a.y + b.y) / 4 + cy / 2 + 3);
    }
  }

  // Pan and zoom by the view box; a node can be dragged.
  let box = { x: 0, y: 0, width: 1, height: 1 };
  function show() {
    svg.setAttribute("viewBox", `${box.x} ${box.y} ${box.width} ${box.height}`);
    svg.style.setProperty("--unit", box.width / Math.max(1, svg.clientWidth)); // letters keep their size on the screen
  }
  function fit() {
    const xs = nodes.map((node) => node.x), ys = nodes.map((node) => node.y);
    const least = Math.min(...xs) - 70, top = Math.min(...ys) - 50;
    const width = Math.max(...xs) + 70 - least, height = Math.max(...ys) + 40 - top;
    const shape = svg.clientWidth / Math.max(1, svg.clientHeight);
    const wide = Math.max(width, height * shape, svg.clientWidth * 0.8);
    box = { x: least + (width - wide) / 2, y: top + (height - wide / shape) / 2, width: wide, height: wide / shape };
    show();
  }
  function zoom(by, x = box.x + box.width / 2, y = box.y + box.height / 2) {
    if (box.width / by < 20 || box.width / by > 1e6) return;
    box = { x: x - (x - box.x) / by, y: y - (y - box.y) / by, width: box.width / by, height: box.height / by };
    show();
  }
  function at(event) {
    const frame = svg.getBoundingClientRect();
    return [box.x + ((event.clientX - frame.left) / frame.width) * box.width,
      box.y + ((event.clientY - frame.top) / frame.height) * box.height];
  }
  const pointers = new Map();
  let held = null, moved = false;
  svg.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, at(event));
    held = event.target.closest(".node");
    moved = false;
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (!before) return;
    const now = at(event);
    if (Math.hypot(now[0] - before[0], now[1] - before[1]) * svg.clientWidth / box.width > 4) moved = true;
    if (!moved) return;
    if (pointers.size === 2) {
      const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
      const was = Math.hypot(before[0] - other[0], before[1] - other[1]);
      zoom(Math.hypot(now[0] - other[0], now[1] - other[1]) / (was || 1), ...other);
    } else if (held) {
      [nodes[held.dataset.node].x, nodes[held.dataset.node].y] = now;
      place();
    } else {
      box.x -= now[0] - before[0]; box.y -= now[1] - before[1];
      show();
    }
    pointers.set(event.pointerId, at(event));
  });
  const release = (event) => {
    if (pointers.delete(event.pointerId) && !moved && event.type === "pointerup") select(held ? +held.dataset.node : null);
  };
  svg.addEventListener("pointerup", release);
  svg.addEventListener("pointercancel", release);
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 200), ...at(event));
  }, { passive: false });

  // A name that is selected leaves its edges alone in the list.
  function select(number) {
    const near = new Set();
    let shown = 0;
    lines.forEach(({ head, tail, line, text }, index) => {
      const is = number === null || head === number || tail === number;
      if (is && number !== null) near.add(head).add(tail);
      line.classList.toggle("dim", !is);
      text.classList.toggle("dim", !is);
      line.classList.toggle("near", number !== null && is);
      text.classList.toggle("near", number !== null && is);
      items[index].hidden = !is;
      shown += is;
    });
    if (number !== null) near.add(number);
    marks.forEach((mark, index) => {
      mark.classList.toggle("dim", number !== null && !near.has(index));
      mark.classList.toggle("near", number !== null && near.has(index));
      mark.setAttribute("aria-pressed", index === number);
    });
    all.hidden = number === null;
    said.textContent = number === null ? "" : `${shown} of ${edges.length}: ${nodes[number].name}`;
  }
  svg.addEventListener("keydown", (event) => {
    const mark = event.target.closest(".node");
    if (mark && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      select(+mark.dataset.node);
    } else if (event.key === "Escape") select(null);
  });
  all.addEventListener("click", () => select(null));
  document.getElementById("find").addEventListener("input", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    marks.forEach((mark, index) => {
      mark.classList.toggle("found", wanted !== "" && nodes[index].name.toLowerCase().includes(wanted));
    });
  });
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => (+button.dataset.zoom ? zoom(+button.dataset.zoom) : fit()));
  }

  document.querySelector(".drawing").hidden = false;
  place();
  fit();
})();
