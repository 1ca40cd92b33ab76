// The page: from what a person does to what is asked and shown.

import { byId, copy, make } from "./dom.js";
import { example } from "./examples.js";
import { above, Found } from "./found.js";
import { Inside } from "./inside.js";
import { count } from "./labels.js";
import { light, watch } from "./lights.js";
import { ask, Refused, setToken } from "./server.js";
import { read, START, write } from "./state.js";

const state = { ...START };
let models = [];
let result = null; // the server's answer about the text
let asked = null; // the question under way, which a newer one ends
let probing = null;
let width = 0; // that the sentences were laid out for
let again = null; // what to do once there is a token

const found = new Found(choose, (target) => lightUp(target));
const inside = new Inside((head) => {
  state.head = head;
  inside.head(head);
  remember();
});

function say(text) {
  byId("status").textContent = text;
}

function complain(error, retry) {
  if (error.name === "AbortError") return;
  if (error.code === undefined) console.error(error); // a mistake of this page
  const problem = byId("problem");
  problem.textContent = error.message;
  problem.hidden = false;
  say("");
  if (error.code === "unauthorised") {
    again = retry;
    byId("token-form").hidden = false;
    byId("token").focus();
  }
}

// What stays to be said of the view until the user asks for another.
let notice = "";

function calm() {
  byId("problem").hidden = !notice;
  byId("problem").textContent = notice;
}

// The address follows the view, a little later: browsers refuse to have it changed at every move of a slider.
let waiting = null;
function remember() {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    waiting = null;
    history.replaceState(null, "", write(state));
  }, 250);
}

function lightUp(target) {
  light(byId("sentences"), target);
  for (const row of document.querySelectorAll(".list li[data-key]")) {
    const key = row.dataset.key;
    row.classList.toggle("lit", Boolean(target) && (key === target.relation || key === target.entity));
  }
}

async function loadModels() {
  say("Loading…");
  ({ models } = await ask("models"));
  const select = byId("model");
  select.replaceChildren(...models.map(({ name }) => make("option", { value: name }, name)));
  select.disabled = models.length < 2;
  chooseModel(state.model);
  byId("token-form").hidden = true;
  say("");
}

function chooseModel(name) {
  const known = models.find((model) => model.name === name);
  const model = known ?? models.find((each) => each.default) ?? models[0];
  notice = name && !known ? `The server has no model “${name}”; “${model.name}” is used instead.` : "";
  calm();
  state.model = model.name;
  byId("model").value = model.name;
  const types = [model.entity_types, model.relation_types].map((names) => names.join(", ") || "none");
  byId("kinds").textContent = `Entities: ${types[0]}. Relations: ${types[1]}.`;
}

// Ask for what is in the text, and show it.
async function extract() {
  asked?.abort();
  probing?.abort();
  const question = (asked = new AbortController());
  calm();
  if (!state.text.trim()) {
    clear();
    complain(new Refused("There is no text yet: type or paste some first.", "empty"));
    byId("text").focus();
    return;
  }
  say("Reading…");
  byId("ask").setAttribute("aria-busy", "true");
  const began = performance.now();
  try {
    const answer = await ask("extract", { text: state.text, model: state.model }, question.signal);
    result = answer.results[0];
    byId("token-form").hidden = true;
    byId("found").hidden = false;
    byId("inside").hidden = result.sentences.length === 0;
    found.show(result);
    fillSentences();
    filter(performance.now() - began);
    width = byId("sentences").clientWidth;
    remember();
    if (state.sentence !== null) await probe();
  } catch (error) {
    complain(error, extract);
    if (error.name !== "AbortError") clear();
  } finally {
    if (asked === question) byId("ask").removeAttribute("aria-busy");
  }
}

function clear() {
  result = null;
  byId("found").hidden = true;
  byId("inside").hidden = true;
}

function filter(milliseconds) {
  byId("threshold").value = String(state.threshold);
  byId("threshold-shown").textContent = state.threshold.toFixed(2);
  const n = found.filter(state.threshold);
  const took = milliseconds === undefined ? "" : `, read in ${Math.round(milliseconds)} ms`;
  const where = count(result.sentences.length, "sentence");
  say(`${count(n.entities, "entity", "entities")} and ${count(n.relations, "relation")} in ${where}${took}.`);
}

function fillSentences() {
  const all = result.sentences.length;
  const choices = result.sentences.map((_, at) => make("option", { value: String(at) }, `${at + 1} of ${all}`));
  byId("sentence").replaceChildren(make("option", { value: "" }, "choose…"), ...choices);
  if (state.sentence !== null && state.sentence >= result.sentences.length) state.sentence = null;
  showChoice();
}

function showChoice() {
  const chosen = state.sentence;
  found.choose(chosen);
  byId("sentence").value = chosen === null ? "" : String(chosen);
  if (chosen === null) {
    hint("Choose a sentence, here or by its number above, to see what every layer of the network says of it.");
    byId("inside-body").hidden = true;
    byId("layer-control").hidden = true;
  }
}

function hint(text) {
  byId("inside-hint").textContent = text;
  byId("inside-hint").hidden = !text;
}

async function choose(sentence, scroll = true) {
  state.sentence = sentence;
  showChoice();
  remember();
  if (sentence === null) return;
  await probe();
  const calmly = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (scroll) byId("inside").scrollIntoView({ block: "start", behavior: calmly ? "auto" : "smooth" });
}

async function probe() {
  probing?.abort();
  const question = (probing = new AbortController());
  calm();
  hint("Looking inside…");
  byId("inside-body").setAttribute("aria-busy", "true");
  try {
    const body = { text: result.text, model: state.model, sentence: state.sentence };
    const answer = await ask("probe", body, question.signal);
    const layers = inside.show(result.text, answer.sentences[answer.sentence], answer.probe);
    state.layer = Math.min(state.layer ?? layers, layers);
    const slider = byId("layer");
    slider.max = String(layers);
    slider.disabled = layers < 2;
    hint("");
    byId("inside-body").hidden = false;
    byId("layer-control").hidden = false;
    showLayer();
  } catch (error) {
    if (error.name === "AbortError") return;
    byId("inside-body").hidden = true;
    byId("layer-control").hidden = true;
    hint("This sentence cannot be looked into.");
    complain(error, probe);
  }
  byId("inside-body").removeAttribute("aria-busy");
}

function showLayer() {
  const slider = byId("layer");
  slider.value = String(state.layer);
  slider.setAttribute("aria-valuetext", `layer ${state.layer} of ${slider.max}`);
  byId("layer-shown").textContent = `${state.layer} of ${slider.max}`;
  inside.layer(state.layer, state.head);
}

async function begin() {
  try {
    calm();
    await loadModels();
  } catch (error) {
    complain(error, begin);
    return;
  }
  if (state.text) await extract();
}

async function restore() {
  Object.assign(state, read(location.hash));
  byId("text").value = state.text;
  if (!models.length) return begin();
  calm();
  chooseModel(state.model);
  if (state.text) return extract();
  return clear();
}

async function told(button, text) {
  const said = button.textContent;
  const done = await copy(text);
  say(done ? "Copied." : "The browser does not allow copying here.");
  button.textContent = done ? "Copied ✓" : "Not allowed";
  setTimeout(() => (button.textContent = said), 1500);
}

byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address holds the view
  byId("text").focus();
});
byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!models.length) return void begin();
  const text = byId("text").value;
  if (text !== state.text) Object.assign(state, { text, sentence: null, layer: null });
  notice = "";
  void extract();
});
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    byId("ask").requestSubmit();
  }
});
byId("example").addEventListener("click", () => {
  byId("text").value = example(models.find(({ name }) => name === state.model));
  byId("ask").requestSubmit();
});
byId("model").addEventListener("change", (event) => {
  chooseModel(event.target.value);
  state.layer = null;
  remember();
  if (result) void extract();
});
byId("threshold").addEventListener("input", (event) => {
  state.threshold = Number(event.target.value);
  filter();
  remember();
});
byId("sentence").addEventListener("change", (event) => {
  void choose(event.target.value === "" ? null : Number(event.target.value), false);
});
byId("layer").addEventListener("input", (event) => {
  state.layer = Number(event.target.value);
  showLayer();
  remember();
});
byId("copy-json").addEventListener("click", (event) => {
  void told(event.currentTarget, JSON.stringify(above(result, state.threshold), null, 2));
});
byId("copy-link").addEventListener("click", (event) => {
  void told(event.currentTarget, new URL(write(state), location.href).href);
});
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(byId("token").value);
  byId("token").value = "";
  calm();
  void (again ?? begin)();
});
window.addEventListener("hashchange", () => {
  if (location.hash !== write(state)) void restore();
});

watch(byId("sentences"), lightUp);
watch(byId("layer-drawing"), (target) => light(byId("layer-drawing"), target));

new ResizeObserver(() => {
  const now = byId("sentences").clientWidth;
  if (!result || !now || now === width) return;
  width = now;
  found.filter(state.threshold, true);
  if (state.sentence === null || byId("inside-body").hidden) return;
  inside.redraw();
  inside.repaint();
}).observe(byId("sentences"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => inside.repaint());

void restore();
