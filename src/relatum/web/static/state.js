// The view as the part of the address after "#", which never leaves the browser.

export const START = { text: "", model: "", threshold: 0, sentence: null, layer: null, head: 0 };

const number = (value, lowest, highest) => {
  const parsed = Number(value);
  return value !== null && value !== "" && Number.isFinite(parsed) ? Math.min(Math.max(parsed, lowest), highest) : null;
};
const whole = (value, lowest) => {
  const parsed = number(value, lowest, 1e6);
  return parsed === null ? null : Math.round(parsed);
};

export function read(fragment) {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  const sentence = whole(parts.get("sentence"), 1);
  const head = whole(parts.get("head"), 1);
  return {
    text: parts.get("text") ?? "",
    model: parts.get("model") ?? "",
    threshold: number(parts.get("threshold"), 0, 1) ?? 0,
    sentence: sentence === null ? null : sentence - 1, // people count from one
    layer: whole(parts.get("layer"), 1),
    head: head === null ? 0 : head - 1,
  };
}

export function write(state) {
  const parts = new URLSearchParams();
  if (state.model) parts.set("model", state.model);
  if (state.threshold > 0) parts.set("threshold", String(state.threshold));
  if (state.sentence !== null) {
    parts.set("sentence", String(state.sentence + 1));
    if (state.layer !== null) parts.set("layer", String(state.layer));
    if (state.head > 0) parts.set("head", String(state.head + 1));
  }
  if (state.text) parts.set("text", state.text);
  return `#${parts}`;
}
