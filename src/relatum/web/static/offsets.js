// The server counts characters as Python does, by code points; JavaScript counts halves of some of them.

// A function from places in code points to places in the string.
export function places(text) {
  if (!/[\ud800-\udbff]/.test(text)) return (place) => place;
  const starts = [];
  let at = 0;
  for (const character of text) {
    starts.push(at);
    at += character.length;
  }
  starts.push(at);
  return (place) => starts[Math.min(place, starts.length - 1)];
}

// The same objects with `start` and `end` as places in the string.
export const moved = (place, spans) =>
  spans.map((span) => ({ ...span, start: place(span.start), end: place(span.end) }));
