// The overview's charts: budget curves and trade-offs of the runs that the filters leave.

function chooser(metrics, chosen, onChange) {
  const options = metrics.map((metric, i) => make("option", { value: i }, metric.label));
  const select = make("select", { id: "metric", "data-focus": "metric" }, ...options);
  select.value = String(chosen);
  select.addEventListener("change", () => onChange(Number(select.value)));
  return make("p", {}, make("label", { for: "metric" }, "Shown against the budget, accuracy, drift and bits: "), select);
}

// The rows of every table, on the seeds that the table shows: a point is a cell of it.
function everyLine(runs, data) {
  return byTable(runs, data).flatMap((group, table) =>
    linesOf(group, { by_group: false }, data).map((line) => ({ ...line, table, run: group.find((run) => run.row === line.row) })));
}

function collect(lines, nameOf) {
  const groups = new Map();
  for (const line of lines) {
    const name = nameOf(line);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(line);
  }
  return [...groups].sort(([a], [b]) => a - b);
}

function curve(lines, metric) {
  const points = [];
  for (const line of lines.filter((one) => one.run.budget !== "-")) {
    const values = valuesOf(line, metric.key).filter((value) => value != null);
    if (!values.length) continue;
    const [mean, sd] = meanAndSd(values);
    const seeds = `${values.length} seed${values.length > 1 ? "s" : ""}`;
    const note = `${spread(values, metric.form, values.length).text} (${seeds})`;
    points.push({ x: Number(line.run.budget), y: mean, sd, note });
  }
  return points.sort((a, b) => a.x - b.x);
}

function curveFigures(runs, data, metric) {
  const figures = [];
  for (const [i, chart] of collect(everyLine(runs, data), (line) => line.run.curve)) {
    const series = collect(chart, (line) => line.row)
      .map(([row, lines]) => ({ name: data.rows[row], look: row, line: true, points: curve(lines, metric) }))
      .filter((one) => one.points.length > 1);
    if (!series.length) continue;
    const ticks = [...new Set(series.flatMap((one) => one.points.map((p) => p.x)))].sort((a, b) => a - b);
    figures.push(figure({ title: data.curves[i], x: "budget, average weight bits", y: metric.label, ticks, series }));
  }
  return figures;
}

function tradeoffFigures(runs, data, metric) {
  const against = ["task/acc", "task/favourable_drift", "deploy/avg_bits"];
  const labels = { "task/acc": "accuracy", "task/favourable_drift": "drift", "deploy/avg_bits": "average weight bits" };
  const rows = collect(everyLine(runs, data), (line) => line.row);
  return against.map((key) => {
    const series = [];
    for (const [row, lines] of rows) {
      const points = [];
      for (const line of lines) {
        const [x, y] = [meanOf(line, key), meanOf(line, metric.key)];
        if (x === null || y === null) continue;
        const note = spread(valuesOf(line, metric.key), metric.form, line.used.length).text;
        points.push({ x, y, note: `${note}, ${data.tables[line.table]}` });
      }
      if (points.length) series.push({ name: data.rows[row], look: row, points });
    }
    const spec = { title: `${metric.label} against ${labels[key]}`, x: labels[key], y: metric.label, series };
    if (key !== "deploy/avg_bits") return spec;
    const most = Math.max(...series.flatMap((one) => one.points.map((p) => p.x)));
    return { ...spec, log: true, ticks: [2, 3, 4, 6, 8, 16, 32].filter((bits) => bits <= most) };
  }).filter((spec) => spec.series.length).map(figure);
}
