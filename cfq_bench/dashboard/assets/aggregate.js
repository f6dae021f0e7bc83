"use strict";
// Tables of the runs that the filters leave: the seeds that rows are compared on, means, spreads,
// paired differences and best values, the same as cfq_bench/aggregate. Titles, labels, order and
// baselines come from there.

const META = { bits: [2, false], rate: [3, false], signed: [3, true], seconds: [2, false] };

// What rounds to 0 has no sign.
function written(value, form) {
  const [digits, signed] = META[form];
  const text = fixed(Math.abs(value), digits);
  const sign = Number(text) === 0 ? "" : value < 0 ? "-" : signed ? "+" : "";
  return sign + text + (form === "seconds" ? " s" : "");
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

function spread(values, form, expected) {
  const known = values.filter((value) => value != null);
  if (known.length === 0) return { text: "-", value: null, best: false };
  const [mean, sd] = meanAndSd(known);
  let text = written(mean, form);
  if (sd !== null) text += " ± " + written(sd, form === "signed" ? "rate" : form);
  if (known.length < expected) text += ` (${known.length})`;
  return { text, value: mean, best: false };
}

// Of the rows' own sets of seeds, the one with most (rows that have all of it) x (seeds).
function comparedSeeds(rows) {
  const sets = rows.map((row) => [...row].sort((a, b) => a - b));
  sets.sort((a, b) => {
    const i = a.findIndex((seed, k) => seed !== b[k]);
    if (i < 0) return a.length - b.length;
    return i >= b.length ? 1 : a[i] - b[i];
  });
  let best = [], most = [0, 0];
  for (const candidate of sets) {
    const having = sets.filter((row) => candidate.every((seed) => row.includes(seed))).length;
    const score = [having * candidate.length, candidate.length];
    if (score[0] > most[0] || (score[0] === most[0] && score[1] > most[1])) {
      most = score;
      best = candidate;
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
    lines.get(name).seeds.set(Number(seed), value);
  };
  for (const run of [...runs].sort((a, b) => a.row - b.row)) {
    if (!view.by_group) add(run.row, "", run.seed, (key) => run.values[place.get(key)]);
    for (const group of view.by_group ? run.groups : []) {
      add(run.row, `${group[0]}: ${group[1]}`, run.seed, (key) => group[groupPlace.get(key)]);
    }
  }
  return selectSeeds([...lines.values()]);
}

// Says of every line on which seeds it is shown: those of the table, or its own if it lacks one.
function selectSeeds(lines) {
  const common = comparedSeeds(lines.map((line) => [...line.seeds.keys()]));
  for (const line of lines) {
    line.common = common;
    line.whole = common.every((seed) => line.seeds.has(seed));
    line.used = line.whole ? common : [...line.seeds.keys()].sort((a, b) => a - b);
  }
  return lines;
}

function valuesOf(line, key) {
  return line.used.map((seed) => line.seeds.get(seed)(key));
}

function meanOf(line, key) {
  const known = valuesOf(line, key).filter((value) => value != null);
  return known.length ? meanAndSd(known)[0] : null;
}

// PAIRED less the baseline's at the seeds that a line is shown on and both have.
function differencesOf(line, baseline, data) {
  if (!baseline || line === baseline) return [];
  const differences = [];
  for (const seed of line.used) {
    const ours = line.seeds.get(seed)(data.paired.key);
    const theirs = baseline.seeds.has(seed) ? baseline.seeds.get(seed)(data.paired.key) : null;
    if (ours != null && theirs != null) differences.push(ours - theirs);
  }
  return differences;
}

// Quantized lines at the baseline's bits; without one, at those that most lines have.
function comparableLines(lines, baseline, data) {
  const bits = new Map();
  for (const line of lines) {
    const mean = meanOf(line, data.bits.key);
    if (mean !== null && mean < data.bits.full) bits.set(line, mean);
  }
  const nearTo = (one) => [...bits.keys()].filter(
    (line) => Math.abs(bits.get(line) - bits.get(one)) <= data.bits.near * bits.get(one) + 1e-9);
  if (bits.has(baseline)) return new Set(nearTo(baseline));
  let most = [];
  for (const line of bits.keys()) {
    const group = nearTo(line);
    if (group.length > most.length) most = group;
  }
  return new Set(most);
}

function bestLines(lines, column, baseline, data) {
  if (!column.marked) return new Set();
  const comparable = comparableLines(lines, baseline, data);
  const printed = new Map();
  for (const line of lines) {
    const values = valuesOf(line, column.key);
    if (!comparable.has(line) || !line.whole || values.some((value) => value == null)) continue;
    printed.set(line, Number.parseFloat(written(meanAndSd(values)[0], column.form)));
  }
  const values = [...printed.values()];
  if (new Set(values).size < 2) return new Set();
  const top = column.better ? Math.max(...values) : Math.min(...values);
  const above = (line) => {
    const differences = differencesOf(line, baseline, data);
    return differences.length > 0 && Number(written(meanAndSd(differences)[0], "signed")) > 0;
  };
  return new Set([...printed.keys()].filter((line) =>
    printed.get(line) === top && !(column.key === data.paired.key && above(line))));
}

function tableOf(place, runs, view, data) {
  const lines = linesOf(runs, view, data);
  const common = lines.length ? lines[0].common : [];
  const name = data.baselines[place];
  const baseline = lines.find((line) => data.rows[line.row] === name && line.group === "");
  let columns = view.columns;
  if (!view.whole) {
    const every = lines.flatMap((line) => [...line.seeds.values()]);
    columns = columns.filter((column) => every.some((value) => value(column.key) != null));
  }
  const best = columns.map((column) => bestLines(lines, column, baseline, data));
  const rows = lines.map((line) => {
    const count = line.used.length, own = line.seeds.size;
    const cells = columns.map((column, i) =>
      ({ ...spread(valuesOf(line, column.key), column.form, count), best: best[i].has(line) }));
    if (view.paired) cells.push(spread(differencesOf(line, baseline, data), "signed", common.length));
    return {
      label: data.rows[line.row], group: line.group, count,
      seeds: !line.whole ? `${own} (own)` : count === own ? String(count) : `${count} of ${own}`,
      note: line.whole ? "" : `own seeds: ${line.used.join(", ")}`, cells,
    };
  });
  if (view.paired) {
    const put = (text) => text.replace("{}", () => name ?? "-");
    columns = [...columns, { label: put(data.paired.label), about: put(data.paired.about), better: false }];
  }
  return { title: data.tables[place], seeds: common.join(", "), columns, rows };
}

// Finished runs by table; a run without a seed has no place in a mean.
function byTable(runs, data) {
  const groups = data.tables.map(() => []);
  for (const run of runs) if (run.status === "ok" && /^\d+$/.test(run.seed)) groups[run.table].push(run);
  return groups;
}

function tablesOf(runs, view, data) {
  return byTable(runs, data)
    .map((group, i) => tableOf(i, group, view, data))
    .filter((table) => table.rows.length && table.columns.length);
}
