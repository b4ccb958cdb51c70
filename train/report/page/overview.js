// SPDX-License-Identifier: BSD-3-Clause
// The sections of `tapestry report` about all runs, and the time of a run. For the data see
// train/report/report_data.h.
const runs = data.runs;
const color = (i) => `var(--c${i % 8})`;
const rate = (x) => (x == null ? 'not finite' : `${Number((100 * x).toFixed(2))} %`);
/** Whether the labels of a run are tokens. The labels of classifiers are whole examples. */
const hasTokens = (run) => (run.targets || 'tokens') === 'tokens';
/** "Target tokens per second", or "Images per second" for classifiers of images. */
function speedTitle() {
  const targets = new Set(runs.map((run) => run.targets || 'tokens'));
  if (targets.size > 1) return 'Targets per second';
  const [name] = targets;
  return name === 'tokens' ? 'Target tokens per second'
    : `${name[0].toUpperCase()}${name.slice(1)} per second`;
}
const titles = {
  loss: ['Loss', short],
  training_objective: ['Training objective (with label smoothing)', short],
  perplexity: ['Perplexity', short],
  token_accuracy: ['Accuracy', rate],
  exact_match: ['Exact match', rate],
  span_f1: ['Span F1', rate],
  bleu: ['BLEU', short],
  chrf: ['chrF', short],
  learning_rate: ['Learning rate', short],
  gradient_norm: ['Gradient norm', short],
  target_tokens_per_second: [speedTitle(), short],
  step_seconds: ['Seconds per step', short],
  memory_bytes: ['Memory', (x) => `${short(x / 1e6)} MB`],
};
/** Title and number format of a curve. A column of a custom task has its name as title. */
const titleOf = (name) => (Object.hasOwn(titles, name) ? titles[name] : [name, short]);

// ---- Curves

/** Curves that are not smoothed: they have no noise from single batches. */
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
  // The perplexity of a classifier says nothing beyond its loss.
  const isShown = (run, curve) => curve.name !== 'perplexity' || hasTokens(run);
  runs.forEach((run, i) => run.curves.forEach((curve) => {
    if (!isShown(run, curve)) return;
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
    if (!isShown(runs[group.runs[0]], curve)) return;
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

/** The charts in the order of `titles`, then charts of other names. */
function makeCharts(byName) {
  const order = Object.keys(titles);
  const place = ([name]) => (order.includes(name) ? order.indexOf(name) : order.length);
  return [...byName].sort((a, b) => place(a) - place(b)).map(([name, series]) => {
    const [title, format] = titleOf(name);
    return new Chart(title, series, format);
  });
}

/** Explanations of curves whose titles are not enough. */
function curveNotes(byName) {
  const trainingAccuracy = byName.get('token_accuracy')?.some((series) => !series.dashed);
  return [
    quiet('Faint lines: values before smoothing. Red crosses: non-finite values. ',
      data.groups.length ? 'Bands: mean and standard deviation over seeds.' : null),
    byName.has('training_objective') ? quiet(
      'Losses exclude label smoothing, so training and validation can be compared. Training ' +
      'minimizes the training objective, which includes it.') : null,
    trainingAccuracy ? quiet(
      'Training accuracy: on a fixed sample of training examples, at each validation, without ' +
      'dropout.') : null,
    byName.has('step_seconds') ? quiet(
      'Speed: over the steps since the previous log line or validation, without validations, ' +
      'saves and reports.') : null,
  ];
}

function curvesSection() {
  const lengths = runs.flatMap((run) =>
    run.curves.filter((c) => !c.validation).map((c) => c.values.length));
  // Do not smooth few points: the average would lag.
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
      checkbox('logarithmic axis', false, set('log')),
      data.groups.length
        ? checkbox('mean and standard deviation over seeds', false, set('means')) : null,
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

/** The point of the best validation; null without validations. */
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

/** Columns of the table of runs for the keys in which they differ, if these are few. */
function keyColumns() {
  if (data.differences.length > 12) return [];
  return data.differences.map(({key, values}) =>
    ({title: key, cell: (run) => values[runs.indexOf(run)]}));
}

/** The name of a run, with a checkbox that shows its curves. */
function runToggle(run) {
  if (runs.length === 1) return run.name;
  const i = runs.indexOf(run);
  const toggle = (on) => { view.hidden[on ? 'delete' : 'add'](i); drawCharts(); };
  return checkbox(el('span', {}, swatch({color: color(i)}), run.name), true, toggle);
}

/** A note as a bold sentence and, after "hint: ", a line of advice. */
function noteItem(run, note) {
  // Capitalizes a first word, but not a path.
  const sentence = (text) => text.replace(/^[a-z](?=[a-z-]* )/, (letter) => letter.toUpperCase());
  const [problem, ...advice] = note.split('\nhint: ');
  return el('li', {}, runs.length > 1 ? `${run.name}: ` : null,
    el('strong', {}, sentence(problem)), advice.map((line) => el('div', {}, sentence(line))));
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
    {title: 'Checkpoint shown', cell: modelText}];
  const notes = runs.flatMap((run) => run.notes.map((note) => noteItem(run, note)));
  return section('Overview',
    notes.length ? el('div', {class: 'notes'}, el('ul', {}, notes)) : null,
    table(runs.length > 1 ? 'Runs of this report, best first' : '', columns, rankedRuns()));
}

/** The names of the first runs of a group. */
function namesOf(group) {
  const names = group.runs.slice(0, 4).map((i) => runs[i].name).join(', ');
  return group.runs.length > 4 ? `${names}, ...` : names;
}

/** Mean, standard deviation and 95 % confidence interval of the best scores over seeds. */
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
  return table('Best validation score over seeds', [
    {title: 'Runs', cell: (row) => row.name},
    {title: 'Score', cell: (row) => row.title},
    {title: 'Seeds', number: true, cell: (row) => count(row.n)},
    {title: 'Mean', number: true, cell: (row) => row.format(row.mean)},
    {title: 'Standard deviation', number: true, cell: (row) => row.format(row.deviation)},
    {title: '95 % confidence interval of the mean', number: true, cell: interval}], rows);
}

function comparisonSection() {
  if (data.differences.length === 0) {
    const none = el('p', {}, 'The configs of the runs do not differ, or are unknown.');
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
  anomaly_checks: 'Anomaly checks (train.detect_anomaly)',
  exchange: 'Gradient exchange',
  optimizer: 'Optimizer',
  validation: 'Validation and decoding',
  saving: 'Saving checkpoints',
  reports: 'Reports',
  recording: 'Recording of events',
};

/** A percentage above a bar that is filled to this fraction. */
const meter = (fraction) => [percent(fraction), el('span', {class: 'meter', 'aria-hidden': 'true'},
  el('i', {style: `width:${(100 * clamp(fraction, 0, 1)).toFixed(1)}%`}))];

/** Threads, mean number of busy cores and padding of a run. */
function timeNote(time) {
  const busy = (seconds) =>
    (seconds == null ? 'an unknown number' : (seconds / time.seconds).toFixed(2));
  const padding = time.positions > 0 ? ` Padding: ${percent(time.padding / time.positions)} of ` +
    `${count(time.positions)} token positions in batches.` : '';
  return quiet(`${time.threads} threads, ${time.cores} cores. Busy on average: ` +
    `${busy(time.processor_seconds)} cores by the run, ` +
    `${busy(time.other_seconds)} by other programs.${padding}`);
}

function timePart({time, history}) {
  const profile = history.profile ? scrolling('Profile', el('pre', {}, history.profile))
    : quiet('To see the time of each operation, train with ', code('--profile'), '.');
  if (!time || !(time.seconds > 0)) {
    return [el('p', {}, 'The run has not recorded its time use.'), profile];
  }
  const named = time.parts.reduce((sum, part) => sum + part.seconds, 0);
  const rest = {name: 'Other', seconds: Math.max(0, time.seconds - named)};
  const title = ({name}) => (Object.hasOwn(partTitles, name) ? partTitles[name] : name);
  return [
    table('Wall time of training', [
      {title: 'Part', cell: title},
      {title: 'Seconds', number: true, cell: (part) => short(part.seconds)},
      {title: 'Share of time', cell: (part) => meter(part.seconds / time.seconds)},
    ], [...time.parts.filter((part) => part.seconds > 0), rest]),
    timeNote(time),
    profile];
}
