// Tables as the server renders them (parts.html.j2), and sorting by their heads.

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function head(column) {
  const cell = make("th", { scope: "col", class: "number", title: column.about }, column.label);
  if (column.better !== null) {
    cell.append(" ", make("span", { "aria-hidden": "true" }, column.better ? "↑" : "↓"));
    cell.append(make("span", { class: "sr" }, ` (${column.better ? "higher" : "lower"} is better)`));
  }
  return cell;
}

function line(row, view) {
  const name = make("th", { scope: "row" }, row.label);
  if (row.note) name.append(" ", make("small", {}, row.note));
  const cells = [name];
  if (view.by_group) cells.push(make("td", {}, row.group));
  cells.push(make("td", { "data-v": row.count }, row.seeds));
  for (const cell of row.cells) {
    const text = cell.best ? make("strong", {}, cell.text) : cell.text;
    cells.push(make("td", { "data-v": cell.value ?? "" }, text));
  }
  return make("tr", {}, ...cells);
}

function block(view, table, open) {
  const first = [make("th", { scope: "col" }, "method")];
  if (view.by_group) first.push(make("th", { scope: "col" }, "group"));
  first.push(make("th", { scope: "col", class: "number" }, "seeds"));
  const heads = make("thead", {}, make("tr", {}, ...first, ...table.columns.map(head)));
  const body = make("tbody", {}, ...table.rows.map((row) => line(row, view)));
  const caption = `${view.title}: ${table.title}. Seeds: ${table.seeds}.`;
  const grid = make("table", {}, make("caption", {}, caption), heads, body);
  const label = `${view.title}: ${table.title}`;
  const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, grid);
  const focus = { "data-focus": `${view.name}|${table.title}` };
  const details = make("details", {}, make("summary", focus, table.title), scroll);
  details.open = open;
  return details;
}

// What a table was sorted by, so that an update does not undo it.
const sorted = new Map();

function makeSortable(table, name) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((cell, i) => {
    const label = cell.firstChild.textContent.trim();
    const button = make("button", { type: "button", "data-focus": `${name}|${label}` }, ...cell.childNodes);
    cell.replaceChildren(button);
    cell.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const down = cell.getAttribute("aria-sort") === "ascending";
      sorted.set(name, [label, down]);
      sortBy(table, i, down);
    });
    const before = sorted.get(name);
    if (before && before[0] === label) sortBy(table, i, before[1]);
  });
}

// Numbers by value, words by name; what is undefined stays last in either direction.
function sortBy(table, i, down) {
  const key = (row) => {
    const cell = row.cells[i];
    if (cell.dataset.v === undefined) return cell.textContent;
    return cell.dataset.v === "" ? null : Number(cell.dataset.v);
  };
  const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
  const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return down ? compare(b, a) : compare(a, b);
  });
  table.tBodies[0].append(...rows.map(([, row]) => row));
  for (const cell of table.tHead.rows[0].cells) cell.setAttribute("aria-sort", "none");
  table.tHead.rows[0].cells[i].setAttribute("aria-sort", down ? "descending" : "ascending");
}
