// The overview's charts: budget curves and trade-offs of the runs that the filters leave.

function chooser(metrics, chosen, onChange) {
  const options = metrics.map((metric, i) => make("option", { value: i }, metric.label));
  const select = make("select", { id: "metric", "data-focus": "metric" }, ...options);
  select.value = String(chosen);
  select.addEventListener("change", () => onChange(Number(select.value)));
  return make("p", {}, make("label", { for: "metric" }, "Shown against the budget, accuracy, drift and bits: "), select);
}

function collect(runs, nameOf) {
  const groups = new Map();
  for (const run of runs) {
    const name = nameOf(run);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(run);
  }
  return groups;
}

function known(runs, data, key) {
  const i = data.keys.indexOf(key);
  return runs.map((run) => run.values[i]).filter((value) => value != null);
}

// Means at the seeds that all budgets of a row share: a point must not move for another seed.
function curve(runs, data, metric) {
  const budgets = collect(runs.filter((run) => run.budget !== "-"), (run) => run.budget);
  const common = commonSeeds([...budgets.values()].map((group) => group.map((run) => run.seed)));
  const points = [];
  for (const [budget, group] of budgets) {
    const used = group.filter((run) => common.includes(run.seed));
    const values = known(used.length ? used : group, data, metric.key);
    if (!values.length) continue;
    const [mean, sd] = meanAndSd(values);
    const seeds = `${values.length} seed${values.length > 1 ? "s" : ""}`;
    points.push({ x: Number(budget), y: mean, sd, note: `${spread(values, metric.form).text} (${seeds})` });
  }
  return points.sort((a, b) => a.x - b.x);
}

function curveFigures(runs, data, metric) {
  const figures = [];
  const charts = collect(runs, (run) => run.curve);
  for (const i of [...charts.keys()].sort((a, b) => a - b)) {
    const lines = collect(charts.get(i), (run) => run.row);
    const series = [...lines.keys()].sort((a, b) => a - b)
      .map((row) => ({ name: data.rows[row], look: row, line: true, points: curve(lines.get(row), data, metric) }))
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
  return against.map((key) => {
    const series = [];
    for (const [row, group] of [...collect(runs, (run) => run.row)].sort(([a], [b]) => a - b)) {
      const points = [];
      for (const [table, part] of collect(group, (run) => run.table)) {
        const [xs, ys] = [known(part, data, key), known(part, data, metric.key)];
        if (!xs.length || !ys.length) continue;
        const [[x], [y]] = [meanAndSd(xs), meanAndSd(ys)];
        points.push({ x, y, note: `${spread(ys, metric.form).text}, ${data.tables[table]}` });
      }
      if (points.length) series.push({ name: data.rows[row], look: row, points });
    }
    const spec = { title: `${metric.label} against ${labels[key]}`, x: labels[key], y: metric.label, series };
    if (key !== "deploy/avg_bits") return spec;
    const most = Math.max(...series.flatMap((one) => one.points.map((p) => p.x)));
    return { ...spec, log: true, ticks: [2, 3, 4, 6, 8, 16, 32].filter((bits) => bits <= most) };
  }).filter((spec) => spec.series.length).map(figure);
}
