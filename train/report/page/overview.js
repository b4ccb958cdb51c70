// SPDX-License-Identifier: BSD-3-Clause
// The runs of the page of `tapestry report`: curves, overview, comparison and time. The data are of
// train/report/report_data.h.
const runs = data.runs;
const color = (i) => `var(--c${i % 8})`;
const share = (x) => (x == null ? 'not finite' : `${Number((100 * x).toFixed(2))} %`);
/** The noun of the labels: "tokens", or "images"; "targets" if the runs differ. */
const targets = new Set(runs.map((run) => run.targets)).size === 1 && runs[0].targets || 'targets';
const capitalized = (text) => text[0].toUpperCase() + text.slice(1);
const titles = {
  loss: ['Loss', short],
  training_objective: ['Training objective (with label smoothing)', short],
  perplexity: ['Perplexity', short],
  token_accuracy: ['Accuracy', share],
  exact_match: ['Exact match', share],
  span_f1: ['Span F1', share],
  bleu: ['BLEU', short],
  chrf: ['chrF', short],
  learning_rate: ['Learning rate', short],
  gradient_norm: ['Gradient norm', short],
  target_tokens_per_second: [`${capitalized(targets)} per second`, short],
  step_seconds: ['Seconds per step', short],
  memory_bytes: ['Memory', (x) => `${short(x / 1e6)} MB`],
};
/** Title and format of the values of a curve; a column of a custom task may have any name. */
const titleOf = (name) => (Object.hasOwn(titles, name) ? titles[name] : [name, short]);

// ---- Curves

/** The curves that are not smoothed: they have no noise of single batches. */
const exactCurves = ['learning_rate', 'memory_bytes', 'token_accuracy'];

/** Perplexity is shown for tokens, not for the classes of images or sentences. */
const isShown = (run) => (curve) =>
  curve.name !== 'perplexity' || (run.targets ?? 'tokens') === 'tokens';

/** The series of all runs and groups, by name of the curve. */
function seriesByName() {
  const byName = new Map();
  const add = (curve, series) => {
    const all = {raw: points(curve.steps, curve.values), dashed: curve.validation, ...series};
    byName.set(curve.name, [...(byName.get(curve.name) || []), all]);
  };
  const grouped = new Set(data.groups.flatMap((g) => g.runs));
  const partOf = (curve) => (curve.validation ? 'validation' : 'training');
  runs.forEach((run, i) => run.curves.filter(isShown(run)).forEach((curve) => {
    const exact = curve.validation || exactCurves.includes(curve.name);
    add(curve, {
      run: i,
      grouped: grouped.has(i),
      color: color(runs.length === 1 && curve.validation ? 1 : i),
      basis: exact ? null : points(curve.mean_steps ?? curve.steps, curve.means ?? curve.values),
      label: runs.length === 1 ? partOf(curve) : `${run.name}, ${partOf(curve)}`,
    });
  }));
  data.groups.forEach((group) => group.curves.forEach((curve) => {
    const first = group.runs[0], seeds = group.runs.length;
    if (!isShown(runs[first])(curve)) return;
    add(curve, {
      band: true,
      color: color(first),
      raw: points(curve.steps, curve.values).map((p, i) => ({...p, deviation: curve.deviation[i]})),
      label: `mean of ${seeds} seeds (${runs[first].name} ...), ${partOf(curve)}`,
    });
  }));
  return byName;
}

/** The charts in the order of `titles`, then the others. */
function makeCharts(byName) {
  const order = Object.keys(titles);
  const place = ([name]) => (order.includes(name) ? order.indexOf(name) : order.length);
  return [...byName].sort((a, b) => place(a) - place(b)).map(([name, series]) => {
    const [title, format] = titleOf(name);
    return new Chart(title, series, format);
  });
}

/** Notes on curves whose meaning their titles do not tell. */
function curveNotes(byName) {
  const trainingAccuracy = byName.get('token_accuracy')?.some((series) => !series.dashed);
  return [
    byName.has('training_objective') ? quiet(
      'Losses are without label smoothing, so that those of training and validation can be ' +
      'compared; what training minimizes is the training objective.') : null,
    trainingAccuracy ? quiet(
      'Accuracy of training is that of a fixed sample of training examples, scored at each ' +
      'validation without dropout.') : null,
    byName.has('step_seconds') ? quiet(
      'Speed is measured over the steps since the previous log line or validation, without ' +
      'validations, saves and reports.') : null,
  ];
}

function curvesSection() {
  const lengths = runs.flatMap((run) =>
    run.curves.filter((c) => !c.validation).map((c) => c.values.length));
  // Few points are not smoothed: the average would lag.
  view.smoothing = Math.max(0, ...lengths) < 25 ? 0 : 0.6;
  const byName = seriesByName(), charts = makeCharts(byName);
  const smooth = () => { view.smoothing = Number(slider.value); drawCharts(); };
  const slider = el('input',
    {type: 'range', min: 0, max: 0.99, step: 0.01, value: view.smoothing, oninput: smooth});
  const set = (key) => (on) => { view[key] = on; drawCharts(); };
  const [first, second] =
    runs.length === 1 ? [color(0), color(1)] : ['currentColor', 'currentColor'];
  return section('Curves',
    el('div', {class: 'controls'},
      el('label', {class: 'field'}, 'Smoothing', slider),
      checkbox('log values', false, set('log')),
      data.groups.length ? checkbox('mean and deviation over seeds', false, set('means')) : null,
      el('span', {}, swatch({color: first}), 'training ',
        swatch({color: second, dashed: true}), 'validation')),
    curveNotes(byName),
    charts.length ? el('div', {class: 'charts'}, charts.map((chart) => chart.host))
      : el('p', {}, 'No step has been logged and saved yet.'));
}

// ---- Overview and comparison

const find = (run, name, validation) =>
  run.curves.find((c) => c.name === name && c.validation === validation);
const lastOf = (curve) => (curve ? points(curve.steps, curve.values).pop() : null);
const metricOf = (run) => run.best_metric || 'loss';
const isBetter = (metric, a, b) => (['loss', 'perplexity'].includes(metric) ? a < b : a > b);

/** The point of the best validation; null without any. */
function bestOf(run) {
  const curve = find(run, metricOf(run), true);
  const finite = curve ? points(curve.steps, curve.values).filter((p) => p.y != null) : [];
  if (finite.length === 0) return null;
  return finite.reduce((a, b) => (isBetter(metricOf(run), b.y, a.y) ? b : a));
}

/** "Loss 1.2 at step 500" */
function scoreText(run, point) {
  if (!point) return '-';
  const [title, format] = titleOf(metricOf(run));
  return `${title} ${format(point.y)} at step ${count(point.x)}`;
}

/** The runs, best first, if all are compared by the same metric. */
function rankedRuns() {
  const metric = metricOf(runs[0]), value = (run) => bestOf(run)?.y;
  if (runs.some((run) => metricOf(run) !== metric)) return runs;
  return [...runs].sort((a, b) => {
    if (value(a) == null || value(b) == null) return (value(a) == null) - (value(b) == null);
    return isBetter(metric, value(a), value(b)) ? -1 : value(a) === value(b) ? 0 : 1;
  });
}

/** The keys in which the runs differ, as columns of the table of runs, if they are few. */
function keyColumns() {
  if (data.differences.length > 12) return [];
  return data.differences.map(({key, values}) =>
    ({title: key, cell: (run) => values[runs.indexOf(run)]}));
}

/** The name of a run, with a box that hides its curves. */
function runToggle(run) {
  if (runs.length === 1) return run.name;
  const i = runs.indexOf(run);
  const toggle = (on) => { view.hidden[on ? 'delete' : 'add'](i); drawCharts(); };
  return checkbox(el('span', {}, swatch({color: color(i)}), run.name), true, toggle);
}

function overviewSection() {
  const stepText = (run) => {
    const steps = run.curves.map((c) => lastOf(c)?.x || 0);
    const step = Math.max(0, ...steps, run.checkpoint?.step || 0);
    return count(step) + (run.steps ? ` of ${count(run.steps)}` : '');
  };
  const lastValidation = (run) => scoreText(run, lastOf(find(run, metricOf(run), true)));
  const trainingLoss = (run) => {
    const loss = find(run, 'loss', false);
    return loss ? short(lastOf(loss).y) : '-';
  };
  const parameters = (run) => {
    if (!run.weights) return '-';
    const tensors = run.weights.flatMap((block) => block.parameters);
    return count(tensors.reduce((sum, tensor) => sum + tensor.statistics.values, 0));
  };
  const trainingTime = ({time}) => (time ? duration(time.seconds) : '-');
  const modelText = ({checkpoint}) => {
    if (!checkpoint) return 'none';
    return `step ${count(checkpoint.step)}${checkpoint.choice ? `, ${checkpoint.choice}` : ''}`;
  };
  const columns = [
    {title: 'Run', cell: runToggle},
    ...keyColumns(),
    {title: 'Kind', cell: (run) => run.kind || '-'},
    {title: 'Step', number: true, cell: stepText},
    {title: 'Best validation', cell: (run) => scoreText(run, bestOf(run))},
    {title: 'Last validation', cell: lastValidation},
    {title: 'Last training loss', number: true, cell: trainingLoss},
    {title: 'Parameters', number: true, cell: parameters},
    {title: 'Training time', number: true, cell: trainingTime},
    {title: 'Model shown', cell: modelText}];
  const notes = runs.flatMap((run) => run.notes.map((note) =>
    el('li', {}, runs.length > 1 ? `${run.name}: ${note}` : note)));
  return section('Overview',
    notes.length ? el('div', {class: 'notes'},
      el('p', {}, 'Left out or noteworthy:'), el('ul', {}, notes)) : null,
    table(runs.length > 1 ? 'Runs of this report, best first' : '', columns, rankedRuns()));
}

/** The names of the runs of a group, the first ones of many. */
function namesOf(group) {
  const names = group.runs.slice(0, 4).map((i) => runs[i].name).join(', ');
  return group.runs.length > 4 ? `${names}, ...` : names;
}

/** Mean, deviation and 95 % confidence interval of the best values of runs with several seeds. */
function seedTable() {
  const keys = data.differences.filter(({key}) => key !== 'train.seed');
  const rows = data.groups.map((group) => {
    const values = group.runs.map((i) => bestOf(runs[i])?.y).filter((y) => y != null);
    const n = values.length, mean = values.reduce((a, b) => a + b, 0) / n;
    const squares = values.reduce((sum, y) => sum + (y - mean) ** 2, 0);
    const deviation = Math.sqrt(squares / (n - 1));
    // The quantile is for all runs of the group.
    const half = n === group.runs.length ? group.t_975 * deviation / Math.sqrt(n) : null;
    const settings = keys.map(({key, values: all}) => `${key}=${all[group.runs[0]]}`).join(' ');
    const [title, format] = titleOf(metricOf(runs[group.runs[0]]));
    return {name: settings || namesOf(group), title, format, n, mean, deviation, half};
  }).filter((row) => row.n > 1);
  if (rows.length === 0) return null;
  const interval = ({format, mean, half}) =>
    (half == null ? '-' : `${format(mean - half)} to ${format(mean + half)}`);
  return table('Best values over seeds', [
    {title: 'Runs', cell: (row) => row.name},
    {title: 'Score', cell: (row) => row.title},
    {title: 'Seeds', number: true, cell: (row) => count(row.n)},
    {title: 'Mean', number: true, cell: (row) => row.format(row.mean)},
    {title: 'Deviation (n - 1)', number: true, cell: (row) => row.format(row.deviation)},
    {title: '95 % interval', number: true, cell: interval}], rows);
}

function comparisonSection() {
  if (data.differences.length === 0) {
    const none = el('p', {}, 'The configs of the runs do not differ, or are not known.');
    return section('Comparison', seedTable(), none);
  }
  const columns = [
    {title: 'Key', cell: (row) => row.key},
    ...runs.map((run, i) => ({title: run.name, cell: (row) => row.values[i]}))];
  const shown = runs.length <= 8 || keyColumns().length === 0;
  return section('Comparison', seedTable(),
    shown ? table('Config keys in which the runs differ', columns, data.differences) : null);
}

// ---- Time

const partTitles = {
  batches: 'Waiting for batches',
  forward: 'Forward',
  backward: 'Backward',
  anomaly_checks: 'Checks of train.detect_anomaly',
  exchange: 'Exchange of gradients',
  optimizer: 'Optimizer',
  validation: 'Validation and decoding',
  saving: 'Saving checkpoints',
  reports: 'Reports',
  recording: 'Recording',
};

/** A bar of this part of its full width. */
const meter = (part) => el('span', {class: 'meter', 'aria-hidden': 'true'},
  el('i', {style: `width:${(100 * clamp(part, 0, 1)).toFixed(1)}%`}));

/** Threads, processor time and padding of a run. */
function timeNote(time) {
  const cores = (seconds) =>
    (seconds == null ? 'not known' : `${(seconds / time.seconds).toFixed(2)} cores`);
  const padding = time.positions > 0 ? ` Padding is ${percent(time.padding / time.positions)} of ` +
    `${count(time.positions)} positions of batches.` : '';
  return quiet(`${time.threads} threads on ${time.cores} cores. Mean processor time of the run: ` +
    `${cores(time.processor_seconds)}, of other programs on these cores: ` +
    `${cores(time.other_seconds)}.${padding}`);
}

function timePart({time, history}) {
  const profile = history.profile ? scrolling('Profile', el('pre', {}, history.profile))
    : quiet('Train with ', code('--profile'), ' for the time of each operation.');
  if (!time || !(time.seconds > 0)) {
    return [el('p', {}, 'The run has not recorded where its time went.'), profile];
  }
  const named = time.parts.reduce((sum, part) => sum + part.seconds, 0);
  const rest = {name: 'Everything else', seconds: Math.max(0, time.seconds - named)};
  const title = ({name}) => (Object.hasOwn(partTitles, name) ? partTitles[name] : name);
  return [
    table('Where the time of training went', [
      {title: 'Part', cell: title},
      {title: 'Share', number: true, cell: (part) => percent(part.seconds / time.seconds)},
      {title: 'Seconds', number: true, cell: (part) => short(part.seconds)},
      {title: 'Of all', cell: (part) => meter(part.seconds / time.seconds)},
    ], [...time.parts.filter((part) => part.seconds > 0), rest]),
    timeNote(time),
    profile];
}
