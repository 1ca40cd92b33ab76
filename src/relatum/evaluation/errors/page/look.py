"""The style of the page, and the script that filters it."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ink: #1a1c1f; --paper: #ffffff; --faint: #5d646c; --line: #d5dae0;
  --panel: #f5f7f9; --tint: 65% 88%; --deep: 60% 25%; --on-deep: #ffffff; --wrong: #b3261e; --hot: 179 38 30; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --paper: #15171a; --faint: #a3abb4; --line: #373d45;
  --panel: #1d2024; --tint: 40% 24%; --deep: 70% 82%; --on-deep: #101214; --wrong: #ff8a80; --hot: 255 120 110; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 76rem; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; } h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
h4 { font-size: .8rem; margin: 0; color: var(--faint); font-weight: 600; }
p { margin: .3rem 0; } .faint { color: var(--faint); } a { color: inherit; }
.tables { display: flex; flex-wrap: wrap; gap: .4rem 2.4rem; align-items: flex-start; }
.wide { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; margin: .4rem 0; }
caption { text-align: left; font-weight: 600; padding-bottom: .2rem; }
th, td { padding: .18rem .9rem .18rem 0; text-align: left; vertical-align: top; font-weight: normal;
  border-bottom: 1px solid var(--line); }
thead th { color: var(--faint); font-size: .85rem; vertical-align: bottom; }
.n { text-align: right; font-variant-numeric: tabular-nums; } tr.parted > * { border-top: 2px solid var(--line); }
.same { font-weight: 600; } sub { color: var(--faint); font-size: .7em; }
button { font: inherit; color: var(--ink); background: var(--paper); border: 1px solid var(--faint);
  border-radius: .3rem; padding: .25rem .8rem; cursor: pointer; }
.off { display: inline-block; min-width: 2.4em; padding: 0 .4em; border-radius: .25em;
  background: rgb(var(--hot) / calc(var(--heat) * .55)); }
form { display: flex; flex-wrap: wrap; gap: .5rem 1.2rem; align-items: end; position: sticky; top: 0; z-index: 1;
  padding: .6rem .8rem; background: var(--panel); border: 1px solid var(--line); border-radius: .4rem; }
form[hidden] { display: none; }
label { display: grid; font-size: .85rem; color: var(--faint); }
select { font: inherit; color: var(--ink); background: var(--paper); border: 1px solid var(--faint);
  border-radius: .3rem; padding: .25rem .4rem; max-width: 100%; }
output { margin-left: auto; font-variant-numeric: tabular-nums; }
article { border: 1px solid var(--line); border-radius: .5rem; padding: .8rem 1rem; margin: .8rem 0; }
article[hidden] { display: none; }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); gap: .2rem 1.4rem;
  margin: .4rem 0; }
.text { line-height: 2; white-space: pre-wrap; overflow-wrap: anywhere; }
mark { color: var(--ink); background: hsl(var(--hue) var(--tint)); border-radius: .3em; padding: .12em .3em;
  -webkit-box-decoration-break: clone; box-decoration-break: clone; }
mark.wrong { outline: 2px solid var(--wrong); outline-offset: -1px; }
mark small { color: var(--on-deep); background: hsl(var(--hue) var(--deep)); border-radius: .25em; font-size: .68em;
  font-weight: 600; padding: .1em .4em; margin-inline-start: .4em; white-space: nowrap; }
td small { color: var(--faint); border: 1px solid var(--line); border-radius: .25em; font-size: .72em;
  padding: 0 .3em; white-space: nowrap; }
.errors { width: 100%; } .errors tbody th { white-space: nowrap; color: var(--wrong); }
.errors td { width: 40%; overflow-wrap: anywhere; } tr.other { opacity: .6; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
:focus-visible { outline: 3px solid #4c8dff; outline-offset: 2px; }
@media print { form { display: none; } article { break-inside: avoid; } }
@media (max-width: 40rem) { .errors tbody th { white-space: normal; } th, td { padding-right: .5rem; } }
"""

SCRIPT = """
const form = document.querySelector("form"), count = document.querySelector("output");
const kind = form.elements.kind, type = form.elements.type;
const chosen = new URLSearchParams(location.hash.slice(1));
for (const choice of [kind, type]) {
  const wanted = chosen.get(choice.name) ?? "";
  if ([...choice.options].some(option => option.value === wanted)) choice.value = wanted;
}
const articles = [...document.querySelectorAll("article")];
const fits = row => (!kind.value || row.dataset.kind === kind.value || row.dataset.kind.startsWith(kind.value + ":"))
  && (!type.value || row.dataset.types.split(" ").includes(type.value));
function filter() {
  let shown = 0, errors = 0;
  for (const article of articles) {
    let own = 0;
    for (const row of article.querySelectorAll("tbody tr")) {
      const fit = fits(row);
      row.classList.toggle("other", !fit);
      own += fit;
    }
    article.hidden = !own;
    shown += own > 0;
    errors += own;
  }
  const choice = new URLSearchParams();
  for (const one of [kind, type]) if (one.value) choice.set(one.name, one.value);
  if (choice.size || location.hash) history.replaceState(null, "", `#${choice}`);
  count.textContent = `${errors} ${errors === 1 ? "error" : "errors"} in ${shown} of ${articles.length} sentences`;
}
form.hidden = false;
form.addEventListener("change", filter);
form.addEventListener("submit", event => event.preventDefault());
form.addEventListener("reset", () => setTimeout(filter));
filter();
"""
