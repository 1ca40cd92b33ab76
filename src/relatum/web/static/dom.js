// Elements without markup in strings: text is always text.

const SVG = "http://www.w3.org/2000/svg";

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, properties);
  element.append(...children);
  return element;
}

export function makeSvg(tag, properties = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  fill(element, properties);
  element.append(...children);
  return element;
}

function fill(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (name === "hue") element.style.setProperty("--hue", value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
}

// A size of tokens.css, as a number.
export const token = (name) => parseFloat(getComputedStyle(document.documentElement).getPropertyValue(`--${name}`));

export const byId = (id) => document.getElementById(id);

// Copy a text, also where the page was not loaded from this machine or over TLS and browsers keep the clipboard away.
export async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // The person said no, or the page is not in front; the old way may still work.
    }
  }
  const focused = document.activeElement;
  const box = make("textarea", { class: "unseen", "aria-hidden": "true" });
  box.value = text;
  document.body.append(box);
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  focused?.focus();
  return done;
}
