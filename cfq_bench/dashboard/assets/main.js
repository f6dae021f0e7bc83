// The page's behaviour: filters, sorting, charts, and news from the server while a suite runs.

const POLL_MS = 2000, POLL_LATER_MS = 15000;
const OPEN_TABLES = 6;
const exported = location.protocol === "file:";
let data = null, metricChosen = 0;

function chosen() {
  const form = new FormData(document.getElementById("filters"));
  const names = ["data", "method", "budget", "seed"];
  return Object.fromEntries(names.map((name) => [name, form.getAll(name)]));
}

function selected() {
  const filter = Object.entries(chosen()).filter(([, values]) => values.length);
  return data.runs.filter((run) => filter.every(([name, values]) => values.includes(run[name])));
}

function say(text) {
  document.getElementById("status").textContent = text;
}

function count(runs) {
  const broken = runs.filter((run) => run.status !== "ok").length;
  const rest = broken ? `, ${broken} of them skipped or failed` : "";
  return `${runs.length} of ${data.runs.length} runs shown${rest}.`;
}

function showTables(runs) {
  for (const view of data.views) {
    const place = document.querySelector(`section[data-view="${view.name}"] .tables`);
    const blocks = tablesOf(runs, view, data).map((table, i) => block(view, table, i < OPEN_TABLES));
    const empty = make("p", { class: "empty" }, "No finished run here has these numbers.");
    place.replaceChildren(...(blocks.length ? blocks : [empty]));
  }
}

function sortable() {
  for (const table of document.querySelectorAll("main table")) {
    if (!table.querySelector("thead button") && table.closest("section[data-view], #content")) {
      makeSortable(table, table.caption.textContent.split(". Seeds")[0]);
    }
  }
}

function showCharts(runs) {
  const finished = runs.filter((run) => run.status === "ok");
  const metric = data.metrics[metricChosen];
  const curves = curveFigures(finished, data, metric);
  const none = make("p", {}, "No method has been run at two budgets under one setting.");
  const choice = chooser(data.metrics, metricChosen, (i) => {
    metricChosen = i;
    keepingFocus(() => showCharts(selected()));
  });
  document.getElementById("curve-charts").replaceChildren(choice, ...(curves.length ? curves : [none]));
  document.getElementById("tradeoff-charts").replaceChildren(...tradeoffFigures(finished, data, metric));
}

function showRuns(runs) {
  const names = new Set(runs.map((run) => run.id));
  for (const row of document.querySelectorAll("#run-table tbody tr")) row.hidden = !names.has(row.dataset.run);
}

function keepingFocus(change) {
  const name = document.activeElement?.dataset?.focus;
  change();
  if (!name || document.activeElement?.dataset?.focus === name) return;
  const again = [...document.querySelectorAll("[data-focus]")].find((one) => one.dataset.focus === name);
  again?.focus({ preventScroll: true });
}

function applyFilters() {
  const runs = selected();
  showTables(runs);
  showRuns(runs);
  showCharts(runs);
  sortable();
  say(count(runs));
  if (exported) return;
  const query = new URLSearchParams(new FormData(document.getElementById("filters"))).toString();
  history.replaceState(null, "", query ? `?${query}` : location.pathname);
}

function readData(root) {
  data = JSON.parse(root.getElementById("data").textContent);
}

async function update() {
  const answer = await fetch(location.pathname + location.search, { cache: "no-store" });
  const news = new DOMParser().parseFromString(await answer.text(), "text/html");
  const before = new Set(data.runs.map((run) => run.id));
  readData(news);
  const open = new Map([...document.querySelectorAll("#content details")].map((one) => [one.firstChild.dataset.focus, one.open]));
  keepingFocus(() => {
    const boxes = [...document.querySelectorAll("#filters fieldset")];
    const fresh = [...news.querySelectorAll("#filters fieldset")];
    boxes.forEach((box, i) => box.replaceWith(fresh[i]));
    document.getElementById("content").replaceWith(news.getElementById("content"));
    showCharts(selected());
    sortable();
    for (const one of document.querySelectorAll("#content details")) {
      const state = open.get(one.firstChild.dataset.focus);
      if (state !== undefined) one.open = state;
    }
  });
  const added = data.runs.filter((run) => !before.has(run.id)).length;
  say(`${added} new. ${count(selected())}`);
}

async function poll() {
  let wait = POLL_MS;
  try {
    if (!document.hidden) {
      const answer = await fetch("/version", { cache: "no-store" });
      if ((await answer.json()).version !== data.version) await update();
    }
  } catch {
    say("The dashboard's server does not answer; this is what it said last.");
    wait = POLL_LATER_MS;
  }
  setTimeout(poll, wait);
}

function startOverview() {
  readData(document);
  const form = document.getElementById("filters");
  form.hidden = false;
  form.querySelector("[type=submit]").hidden = true;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", () => keepingFocus(applyFilters));
  form.addEventListener("reset", (event) => {
    event.preventDefault();  // a reset would go back to what the address said
    for (const box of form.querySelectorAll("input")) box.checked = false;
    keepingFocus(applyFilters);
  });
  showCharts(selected());
  sortable();
  if (!exported) setTimeout(poll, POLL_MS);
}

// A page that comes back from the history may have ticks that the server did not render.
window.addEventListener("pageshow", (event) => {
  const form = document.getElementById("filters");
  const changed = form && [...form.querySelectorAll("input")].some((box) => box.checked !== box.defaultChecked);
  if (event.persisted || changed) if (data) applyFilters();
});

if (document.getElementById("data")) startOverview();
drawEmbedded(document);
