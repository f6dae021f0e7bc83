"use strict";
// Means and spreads over seeds: the same as aggregate.py, for the runs that the filters leave.

const META = { bits: [2, false], rate: [3, false], signed: [3, true] };

function written(value, form) {
  const [digits, signed] = META[form];
  const negative = value < 0 || Object.is(value, -0);
  const sign = negative ? "-" : signed ? "+" : "";
  return sign + fixed(Math.abs(value), digits);
}

// toFixed rounds ties up and Python rounds them to even; both are exact otherwise.
function fixed(value, digits) {
  const rest = value.toFixed(60).split(".")[1].slice(digits);
  if (!/^50*$/.test(rest)) return value.toFixed(digits);
  const down = value.toFixed(digits + 1).slice(0, -1);
  return "02468".includes(down.at(-1)) ? down : value.toFixed(digits);
}

function meanAndSd(values) {
  let total = 0;
  for (const value of values) total += value;
  const mean = total / values.length;
  if (values.length === 1) return [mean, null];
  let squares = 0;
  for (const value of values) squares += (value - mean) * (value - mean);
  return [mean, Math.sqrt(squares / (values.length - 1))];
}

function spread(values, form) {
  const known = values.filter((value) => value != null);
  if (known.length === 0) return { text: "-", value: null };
  const [mean, sd] = meanAndSd(known);
  let text = written(mean, form);
  if (sd !== null) text += " ± " + written(sd, form === "bits" ? "bits" : "rate");
  if (known.length < values.length) text += ` (${known.length})`;
  return { text, value: mean };
}

function bySeed(a, b) {
  const number = (seed) => (/^\d+$/.test(seed) ? Number(seed) : Infinity);
  if (number(a) !== number(b)) return number(a) < number(b) ? -1 : 1;
  return a < b ? -1 : a > b ? 1 : 0;
}

function commonSeeds(rows) {
  let best = [], most = [0, 0];
  for (const candidate of rows) {
    const having = rows.filter((row) => candidate.every((seed) => row.includes(seed))).length;
    const score = [having * candidate.length, candidate.length];
    if (score[0] > most[0] || (score[0] === most[0] && score[1] > most[1])) {
      most = score;
      best = [...candidate].sort(bySeed);
    }
  }
  return best;
}

// One line for each row of a table: {row, group, seeds: Map(seed -> function of a key)}.
function linesOf(runs, view, data) {
  const place = new Map(data.keys.map((key, i) => [key, i]));
  const groupPlace = new Map(data.groupKeys.map((key, i) => [key, i + 2]));
  const lines = new Map();
  const add = (row, group, seed, value) => {
    const name = JSON.stringify([row, group]);
    if (!lines.has(name)) lines.set(name, { row, group, seeds: new Map() });
    lines.get(name).seeds.set(seed, value);
  };
  for (const run of [...runs].sort((a, b) => a.row - b.row)) {
    if (!view.by_group) add(run.row, "", run.seed, (key) => run.values[place.get(key)]);
    for (const group of view.by_group ? run.groups : []) {
      add(run.row, `${group[0]}: ${group[1]}`, run.seed, (key) => group[groupPlace.get(key)]);
    }
  }
  return [...lines.values()];
}

function paired(line, baseline, used, data) {
  if (!baseline || line === baseline) return { text: "-", value: null };
  const differences = [];
  for (const seed of used) {
    const ours = line.seeds.get(seed)(data.paired.key);
    const theirs = baseline.seeds.has(seed) ? baseline.seeds.get(seed)(data.paired.key) : null;
    if (ours != null && theirs != null) differences.push(ours - theirs);
  }
  return spread(differences, "signed");
}

function tableOf(title, runs, view, data) {
  const lines = linesOf(runs, view, data);
  const common = commonSeeds(lines.map((line) => [...line.seeds.keys()]));
  let columns = view.columns;
  if (!view.whole) {
    const every = lines.flatMap((line) => [...line.seeds.values()]);
    columns = columns.filter((column) => every.some((value) => value(column.key) != null));
  }
  const baseline = lines.find((line) => data.rows[line.row] === data.paired.baseline);
  const rows = lines.map((line) => {
    let used = common.filter((seed) => line.seeds.has(seed)), note = "";
    if (used.length < common.length) {
      used = [...line.seeds.keys()].sort(bySeed);
      note = `own seeds: ${used.join(", ")}`;
    }
    const cells = columns.map((column) =>
      spread(used.map((seed) => line.seeds.get(seed)(column.key)), column.form));
    if (view.paired) cells.push(paired(line, baseline, used, data));
    return { label: data.rows[line.row], group: line.group, seeds: used.length, note, cells };
  });
  if (view.paired) {
    const name = data.paired.baseline;
    columns = [...columns, {
      label: `paired vs ${name}`, about: `boundary error less that of ${name}, at the same seeds`,
      better: false,
    }];
  }
  return { title, seeds: common.join(", "), columns, rows };
}

function tablesOf(runs, view, data) {
  const groups = data.tables.map(() => []);
  for (const run of runs) if (run.status === "ok") groups[run.table].push(run);
  return groups
    .map((group, i) => tableOf(data.tables[i], group, view, data))
    .filter((table) => table.rows.length && table.columns.length);
}
