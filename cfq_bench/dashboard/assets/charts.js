// Charts as SVG. Colour never stands alone: series also differ in their marks and dashes.

const SIZE = { width: 560, height: 300, left: 64, right: 14, top: 12, bottom: 44 };
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];
const MARKS = [
  (x, y) => `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z`,
  (x, y) => `M${x - 4} ${y - 4}h8v8h-8z`,
  (x, y) => `M${x} ${y - 5}l5 9h-10z`,
  (x, y) => `M${x} ${y - 5}l5 5l-5 5l-5 -5z`,
];

function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// Colour and mark of the i-th name: 8 colours, then the next mark and dash.
function look(i) {
  return { colour: `k${i % 8}`, mark: MARKS[(i + Math.floor(i / 8)) % 4], dash: DASHES[Math.floor(i / 8) % 4] };
}

function ticks(low, high) {
  const rough = (high - low) / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
  return found;
}

function short(value) {
  return String(Number(value.toPrecision(6)));
}

function range(values) {
  let low = Math.min(...values), high = Math.max(...values);
  const pad = high > low ? 0.06 * (high - low) : Math.abs(high) * 0.1 || 0.5;
  return [low - pad, high + pad];
}

function axes(x, y, [x0, x1], [y0, y1], spec) {
  const { width, height, left, right, top, bottom } = SIZE;
  const all = svg("g", { "aria-hidden": "true" });
  for (const value of ticks(y0, y1)) {
    all.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }));
    all.append(svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)));
  }
  for (const value of spec.ticks ?? ticks(x0, x1)) {
    all.append(svg("text", { x: x(value), y: height - bottom + 16, "text-anchor": "middle" }, short(value)));
  }
  all.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
  all.append(svg("text", { x: (left + width) / 2, y: height - 8, "text-anchor": "middle" }, spec.x));
  const turn = `rotate(-90 14 ${(top + height - bottom) / 2})`;
  all.append(svg("text", { x: 14, y: (top + height - bottom) / 2, "text-anchor": "middle", transform: turn }, spec.y));
  return all;
}

// A series: {name, look, points: [{x, y, sd, note}], line}.
function drawSeries(series, x, y) {
  const { colour, mark, dash } = look(series.look);
  const group = svg("g", { class: `series ${colour}` });
  const points = series.points;
  if (series.line && points.length > 1) {
    const edge = (sign) => points.map((p) => `${x(p.x)} ${y(p.y + sign * (p.sd ?? 0))}`);
    if (points.some((p) => p.sd)) {
      group.append(svg("path", { class: "band", d: `M${edge(1).join("L")}L${edge(-1).reverse().join("L")}z` }));
    }
    group.append(svg("path", { d: `M${edge(0).join("L")}`, "stroke-dasharray": dash }));
  }
  for (const p of series.bare && points.length > 1 ? [] : points) {
    const title = svg("title", {}, `${series.name}: ${short(p.x)}, ${p.note ?? short(p.y)}`);
    group.append(svg("path", { class: "mark", d: mark(x(p.x), y(p.y)) }, title));
  }
  return group;
}

function draw(spec) {
  const { width, height, left, right, top, bottom } = SIZE;
  const every = spec.series.flatMap((series) => series.points);
  const scale = spec.log ? Math.log2 : (value) => value;
  const xs = range(every.map((p) => scale(p.x)));
  const ys = range(every.flatMap((p) => [p.y - (p.sd ?? 0), p.y + (p.sd ?? 0)]));
  const x = (value) => left + ((scale(value) - xs[0]) / (xs[1] - xs[0])) * (width - left - right);
  const y = (value) => height - bottom - ((value - ys[0]) / (ys[1] - ys[0])) * (height - top - bottom);
  const label = `${spec.title}: ${spec.y} against ${spec.x}, ${spec.series.length} series. The numbers follow as a table.`;
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  picture.append(axes(x, y, xs, ys, spec), ...spec.series.map((series) => drawSeries(series, x, y)));
  return picture;
}

function legend(spec) {
  return make("ul", { class: "legend" }, ...spec.series.map((series) => {
    const { colour, mark, dash } = look(series.look);
    const swatch = svg("svg", { viewBox: "0 0 28 12", class: colour, "aria-hidden": "true" });
    if (series.line) swatch.append(svg("path", { d: "M1 6H27", "stroke-dasharray": dash }));
    if (!series.bare) swatch.append(svg("path", { class: "mark", d: mark(14, 6) }));
    return make("li", {}, swatch, " ", series.name);
  }));
}

function numbers(spec) {
  const rows = spec.series.flatMap((series) => series.points.map((p) =>
    make("tr", {}, make("th", { scope: "row" }, series.name), make("td", {}, short(p.x)),
      make("td", {}, p.note ?? short(p.y)))));
  const heads = ["series", spec.x, spec.y].map((name) => make("th", { scope: "col" }, name));
  const table = make("table", {}, make("caption", {}, spec.title), make("thead", {}, make("tr", {}, ...heads)),
    make("tbody", {}, ...rows));
  const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Numbers: ${spec.title}` }, table);
  const summary = make("summary", { "data-focus": `numbers|${spec.title}` }, `Numbers: ${spec.title}`);
  return make("details", {}, summary, scroll);
}

function figure(spec) {
  return make("figure", {}, make("figcaption", {}, spec.title), draw(spec), legend(spec), numbers(spec));
}

// The charts of one run's page: their numbers are beside them already.
function drawEmbedded(root) {
  for (const place of root.querySelectorAll("figure[data-chart]")) {
    if (!place.querySelector("svg")) place.querySelector("figcaption").after(draw(JSON.parse(place.dataset.chart)));
  }
}
