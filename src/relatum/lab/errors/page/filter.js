// Show the sentences that have errors of the chosen kind and type; the choice is kept in the address.

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
