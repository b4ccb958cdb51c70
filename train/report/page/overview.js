// SPDX-License-Identifier: BSD-3-Clause
// The sections of `tapestry report` about all runs, and the time of a run. For the data see
// train/report/report_data.h.
const runs = data.runs;
const color = (i) => `var(--c${i % 8})`;
const rate = (x) => (x == null ? 'not finite' : `${Number((100 * x).toFixed(2))} %`);
/** The kinds of models in the order of the runs; null if the config of a run is unknown. */
const kinds = [...new Set(runs.map((run) => run.kind ?? null))];
/** "Target tokens per second", or "Images per second" for classifiers of images. */
function speedTitle(runsOfChart) {
  const targets = new Set(runsOfChart.map((run) => run.targets || 'tokens'));
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
  target_tokens_per_second: [speedTitle(runs), short],
  step_seconds: ['Seconds per step', short],
  memory_bytes: ['Memory', (x) => `${short(x / 1e6)} MB`],
};
/** Title and number format of a curve. A column of a custom task has its name as title. */
const titleOf = (name) => (Object.hasOwn(titles, name) ? titles[name] : [name, short]);

// ---- Curves

/** Curves that are not smoothed: they have no noise from single batches. */
const exactCurves = ['learning_rate', 'memory_bytes', 'token_accuracy'];

/** Curves that are compared between runs of all kinds. */
const commonCurves = ['learning_rate', 'step_seconds', 'memory_bytes'];

/** Whether to show a curve of a run. The perplexity of labels says nothing beyond their loss. */
const isShown = (run, curve) => curve.name !== 'perplexity' || metricOf(run) === 'perplexity' ||
  ((run.targets || 'tokens') === 'tokens' && !run.labels_tokens);

/** The charts {name, kind, series} of all runs and groups. The loss of a classifier and the loss of
 * a translator cannot be compared: each kind has its own charts. `kind` is undefined in a chart of
 * all runs. */
function findCharts() {
  const byKey = new Map();
  const add = (run, curve, series) => {
    const isCommon = kinds.length === 1 || commonCurves.includes(curve.name);
    const kind = isCommon ? undefined : run.kind ?? null, key = `${curve.name}\n${kind}`;
    const all = {raw: points(curve.steps, curve.values), dashed: curve.validation, ...series};
    if (!byKey.has(key)) byKey.set(key, {name: curve.name, kind, series: []});
    byKey.get(key).series.push(all);
  };
  const grouped = new Set(data.groups.flatMap((g) => g.runs));
  const partOf = (curve) => (curve.validation ? 'validation' : 'training');
  runs.forEach((run, i) => run.curves.forEach((curve) => {
    if (!isShown(run, curve)) return;
    const exact = curve.validation || exactCurves.includes(curve.name);
    add(run, curve, {
      run: i,
      grouped: grouped.has(i),
      color: color(runs.length === 1 && curve.validation ? 1 : i),
      basis: exact ? null : points(curve.mean_steps ?? curve.steps, curve.means ?? curve.values),
      best: curve.validation && curve.name === metricOf(run) ? bestOf(run) : null,
      label: runs.length === 1 ? partOf(curve) : `${run.name}, ${partOf(curve)}`,
    });
  }));
  data.groups.forEach((group) => group.curves.forEach((curve) => {
    if (!isShown(runs[group.runs[0]], curve)) return;
    const first = group.runs[0], seeds = group.runs.length;
    add(runs[first], curve, {
      band: true,
      color: color(first),
      raw: points(curve.steps, curve.values).map((p, i) => ({...p, deviation: curve.deviation[i]})),
      label: `${settingText(first) || namesOf(group)}, mean of ${seeds} seeds, ${partOf(curve)}`,
    });
  }));
  return [...byKey.values()];
}

/** Title and number format of a chart: "Loss", or "Loss, classifier" beside other kinds. */
function chartTitle({name, kind}) {
  const [title, format] = titleOf(name);
  if (kind === undefined) return [title, format];
  const isSpeed = name === 'target_tokens_per_second';
  const own = isSpeed ? speedTitle(runs.filter((run) => (run.kind ?? null) === kind)) : title;
  return [`${own}, ${kind ?? 'unknown kind'}`, format];
}

/** The charts in the order of `titles`, then charts of other names: large ones of the loss and the
 * metrics that choose the best step, small ones of the rest, and a line for values that never
 * change. */
function makeCharts(charts) {
  const order = Object.keys(titles), metrics = new Set(['loss', ...runs.map(metricOf)]);
  const place = ({name}) => (order.includes(name) ? order.indexOf(name) : order.length);
  const large = [], small = [], constants = [];
  for (const chart of [...charts].sort((a, b) => place(a) - place(b))) {
    const {name, series} = chart, [title, format] = chartTitle(chart), isMain = metrics.has(name);
    const values = new Set(series.flatMap((s) => s.raw.map((p) => p.y)));
    const [value] = values, isCurve = series.some((s) => s.raw.length > 1);
    if (isCurve && values.size === 1 && value != null && !isMain) {
      constants.push(`${title} ${format(value)}`);
    } else {
      (isMain ? large : small).push(new Chart(title, series, format, isMain ? 260 : 160).host);
    }
  }
  return [
    el('div', {class: 'charts'}, large),
    small.length ? el('details', {open: innerWidth > 600, ontoggle: drawCharts},
      el('summary', {}, 'Other curves'), el('div', {class: 'charts small'}, small)) : null,
    constants.length ? quiet(`Constant: ${constants.join('; ')}.`) : null];
}

/** Explanations of curves whose titles are not enough. */
function curveNotes(charts) {
  const has = (wanted) => charts.some(({name}) => name === wanted);
  const trainingAccuracy = charts.some(({name, series}) =>
    name === 'token_accuracy' && series.some(({dashed}) => !dashed));
  return [
    quiet('Faint lines: values before smoothing. Red crosses: non-finite values. ',
      data.groups.length ? 'Bands: mean and standard deviation over seeds.' : null),
    has('training_objective') ? quiet(
      'Losses exclude label smoothing, so training and validation can be compared. Training ' +
      'minimizes the training objective, which includes it.') : null,
    trainingAccuracy ? quiet(
      'Training accuracy: on a fixed sample of training examples, at each validation, without ' +
      'dropout.') : null,
    has('step_seconds') ? quiet(
      'Speed: over the steps since the previous log line or validation, without validations, ' +
      'saves and reports.') : null,
  ];
}

function curvesSection() {
  const lengths = runs.flatMap((run) =>
    run.curves.filter((c) => !c.validation).map((c) => c.values.length));
  // Do not smooth a curve of few points: the average would lag behind the curve.
  view.smoothing = Math.max(0, ...lengths) < 25 ? 0 : 0.6;
  view.means = data.groups.length > 0;
  const charts = findCharts();
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
        ? checkbox('mean and standard deviation over seeds', true, set('means')) : null,
      el('span', {}, swatch({color: first}), 'training ',
        swatch({color: second, dashed: true}), 'validation')),
    curveNotes(charts),
    charts.length ? makeCharts(charts) : el('p', {}, 'No step has been logged and saved yet.'));
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

/** Whether all runs are of one kind and compared by the same metric. */
const isComparable = () =>
  kinds.length === 1 && runs.every((run) => metricOf(run) === metricOf(runs[0]));

/** The config keys in which settings differ. Runs of a setting differ in their seeds only. */
const settingKeys = data.differences.filter(({key}) => key !== 'train.seed');
const settingText = (i) => settingKeys.map(({key, values}) => `${key}=${values[i]}`).join(' ');

/** The settings of the runs in the order of their values: {runs: indices, scores, mean, half}.
 * `half` is half the width of the 95 % confidence interval of the mean, or null. */
function findSettings() {
  const byText = new Map();
  runs.forEach((_, i) => {
    const text = data.differences.length ? settingText(i) : i;  // the configs may be unknown
    byText.set(text, [...(byText.get(text) ?? []), i]);
  });
  return [...byText.values()].map((indices) => {
    const scores = indices.map((i) => bestOf(runs[i])?.y).filter((y) => y != null);
    const n = scores.length, mean = n ? scores.reduce((a, b) => a + b, 0) / n : null;
    const squares = scores.reduce((sum, y) => sum + (y - mean) ** 2, 0);
    // The quantile of the group is valid only for the mean over all of its runs.
    const isOfSetting = (g) => g.runs.length === n && g.runs.every((i) => indices.includes(i));
    const group = data.groups.find(isOfSetting);
    const half = group ? group.t_975 * Math.sqrt(squares / (n - 1) / n) : null;
    return {runs: indices, scores, mean, half};
  }).sort((a, b) => byValues(a.runs[0], b.runs[0]));
}

/** Compares two values of a key, numbers by their size. */
const compareValues = (a, b) => Number(a) - Number(b) || a.localeCompare(b);

/** Compares the settings of two runs key by key. */
function byValues(i, j) {
  for (const {values} of settingKeys) {
    const order = compareValues(values[i], values[j]);
    if (order) return order;
  }
  return 0;
}

/** The runs, best first, if all are compared by the same metric. Runs that differ in their seeds
 * only are ranked by their mean: the best of many seeds is the luckiest one. */
function rankedRuns() {
  if (!isComparable()) return runs;
  const metric = metricOf(runs[0]), settings = findSettings();
  const order = (a, b) => {
    if (a == null || b == null) return (a == null) - (b == null);
    return isBetter(metric, a, b) ? -1 : a === b ? 0 : 1;
  };
  settings.sort((a, b) => order(a.mean, b.mean));
  return settings.flatMap((setting) => setting.runs.map((i) => runs[i])
    .sort((a, b) => order(bestOf(a)?.y, bestOf(b)?.y)));
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
  // Capitalizes the first word unless it is a path.
  const sentence = (text) => text.replace(/^[a-z](?=[a-z-]* )/, (letter) => letter.toUpperCase());
  const [problem, ...advice] = note.split('\nhint: ');
  return el('li', {}, runs.length > 1 ? `${run.name}: ` : null,
    el('strong', {}, sentence(problem)), advice.map((line) => el('div', {}, sentence(line))));
}

/** The score of the test set in the last `tapestry evaluate`, whose file a user may have edited. */
function testText(run) {
  const {test, step, overrides} = run.evaluation ?? {}, [title, format] = titleOf(metricOf(run));
  const value = test?.[metricOf(run) === 'token_accuracy' ? 'accuracy' : metricOf(run)];
  if (!Number.isFinite(value) || !Number.isFinite(step)) return '-';
  const changes = Array.isArray(overrides) && overrides.length ? ` with ${overrides.join(' ')}` : '';
  return `${title} ${format(value)} at step ${count(step)}${changes}`;
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
    if (!checkpoint) return '-';
    return `step ${count(checkpoint.step)}${checkpoint.choice ? `, ${checkpoint.choice}` : ''}`;
  };
  const columns = [
    {title: 'Run', cell: runToggle},
    ...keyColumns(),
    {title: 'Kind', cell: (run) => run.kind || '-'},
    {title: 'Step', number: true, cell: stepText},
    {title: 'Best validation', number: true, cell: (run) => scoreText(run, bestOf(run))},
    {title: 'Last validation', number: true, cell: lastValidation},
    {title: 'Test (last evaluate)', number: true, cell: testText},
    {title: 'Last training loss', number: true, cell: trainingLoss},
    {title: 'Parameters', number: true, cell: parameters},
    {title: 'Training time', number: true, cell: trainingTime},
    {title: 'Checkpoint shown', cell: modelText}];
  const notes = runs.flatMap((run) => run.notes.map((note) => noteItem(run, note)));
  const isKnown = ({cell}) => runs.some((run) => cell(run) !== '-');
  const order = !isComparable() ? ''
    : data.groups.length ? ', best mean over seeds first' : ', best first';
  const caption = runs.length === 1 ? '' : `Runs of this report${order}`;
  return section('Overview',
    notes.length ? el('div', {class: 'notes'}, el('ul', {}, notes)) : null,
    table(caption, columns.filter(isKnown), rankedRuns()));
}

/** The names of the first runs of a group. */
function namesOf(group) {
  const names = group.runs.slice(0, 4).map((i) => runs[i].name).join(', ');
  return group.runs.length > 4 ? `${names}, ...` : names;
}

/** The scores of a setting on an axis: a ring for each run, a bar for the confidence interval and a
 * line for the mean. */
function scoreStrip({scores, mean, half}, [low, high], format) {
  const width = 260, height = 22, y = height / 2;
  // Halves of finite numbers, since sums and differences of very large scores overflow.
  const halved = (value) => clamp(value, -Number.MAX_VALUE, Number.MAX_VALUE) / 2;
  const share = (value) => (halved(value) - halved(low)) / (halved(high) - halved(low));
  const x = (value) => 8 + (width - 16) * clamp(share(value), 0, 1);
  const text = scores.length ? scores.map(format).join(', ') : 'no scores';
  const ring = (score) =>
    svg('circle', {cx: x(score), cy: y, r: 4}, svg('title', {}, format(score)));
  const size = {role: 'img', width, height, viewBox: `0 0 ${width} ${height}`, 'aria-label': text};
  const interval = half == null ? null : svg('rect', {class: 'interval', x: x(mean - half),
    y: 4, width: Math.max(1, x(mean + half) - x(mean - half)), height: height - 8});
  return svg('svg', {class: 'strip', ...size},
    svg('line', {class: 'grid', x1: 8, x2: width - 8, y1: y, y2: y}), interval,
    scores.length > 1 ? svg('line', {class: 'mean', x1: x(mean), x2: x(mean), y1: 2, y2: height - 2})
      : null,
    scores.map(ring));
}

/** The mean scores of a grid of two keys, as a table with colors; null for other settings. */
function scoreGrid(settings, best, [title, format]) {
  if (settingKeys.length !== 2) return null;
  const [rows, columns] =
    settingKeys.map(({values}) => [...new Set(values)].sort(compareValues));
  if (settings.length <= Math.max(rows.length, columns.length)) return null;  // not a grid
  const keyOf = (row, column) => JSON.stringify([row, column]);
  const byValue = new Map(settings.map((setting) =>
    [keyOf(...settingKeys.map(({values}) => values[setting.runs[0]])), setting]));
  const means = settings.map(({mean}) => mean).filter((mean) => mean != null);
  const worst = means.reduce((a, b) => (isBetter(metricOf(runs[0]), a, b) ? b : a));
  const cell = (row, column) => {
    const mean = byValue.get(keyOf(row, column))?.mean;
    if (mean == null) return el('td', {}, '-');
    // 0 if all scores are equal; halves, because differences of the largest numbers overflow
    const share = (mean / 2 - worst / 2) / (best / 2 - worst / 2) || 0;
    const strength = Math.round(100 * share);
    const style = `background:color-mix(in srgb, var(--bar) ${strength}%, transparent)`;
    return el('td', {style}, el(mean === best ? 'strong' : 'span', {}, format(mean)));
  };
  const heading = (scope, name) => el('th', {scope, class: 'number'}, name);
  const [down, across] = settingKeys.map(({key}) => key);
  const hasSeeds = settings.some(({runs: indices}) => indices.length > 1);
  return el('figure', {},
    scrolling(`${title} by ${down} and ${across}`, el('table', {class: 'confusion'},
      el('caption', {}, `Best validation ${title}${hasSeeds ? ', mean over seeds,' : ''} by ` +
        `${down} (rows) and ${across} (columns)`),
      el('thead', {}, el('tr', {}, heading('col', `${down} \u2193 ${across} \u2192`),
        columns.map((name) => heading('col', name)))),
      el('tbody', {}, rows.map((row) => el('tr', {}, heading('row', row),
        columns.map((column) => cell(row, column))))))),
    el('figcaption', {}, `worst ${format(worst)} `,
      el('span', {class: 'scale grid', 'aria-hidden': 'true'}), ` best ${format(best)}`));
}

/** The best validation scores of all settings; null for one setting without seeds. */
function scoreTable() {
  const settings = findSettings();
  if (!isComparable() || (settings.length < 2 && data.groups.length === 0)) return null;
  const metric = metricOf(runs[0]), [title, format] = titleOf(metric);
  const all = settings.flatMap(({scores}) => scores);
  if (all.length < 2) return null;
  // With few seeds, intervals may be much wider than the range of the scores: draw at most twice
  // this range on each side of the mean.
  const span = Math.max(...all) - Math.min(...all), ends = settings.flatMap(({mean, half}) =>
    (half == null ? [] : [mean - Math.min(half, 2 * span), mean + Math.min(half, 2 * span)]));
  const range = axisRange([...all, ...ends]);
  const means = settings.map(({mean}) => mean).filter((mean) => mean != null);
  const best = means.reduce((a, b) => (isBetter(metric, b, a) ? b : a));
  const interval = ({mean, half}) =>
    (half == null ? '-' : `${format(mean - half)} to ${format(mean + half)}`);
  const hasSeeds = settings.some(({runs: indices}) => indices.length > 1);
  const meanText = ({mean}) => (mean == null ? '-'
    : el(mean === best ? 'strong' : 'span', {}, format(mean), mean === best ? bestText : ''));
  const keys = settingKeys.length && settingKeys.length <= 4
    ? settingKeys.map(({key, values}) => ({title: key, cell: (row) => values[row.runs[0]]}))
    : [{title: 'Runs', cell: (row) => namesOf(row)}];
  const strip = (row) => scoreStrip(row, range, format);
  const bestText = hasSeeds ? ' (best mean)' : ' (best)';
  const ofSeeds = [
    {title: 'Runs with a score', number: true, cell: (row) => count(row.scores.length)},
    {title: '95 % interval', number: true, cell: interval}];
  const caption = `Best validation ${title} by setting.` + (hasSeeds
    ? ' Rings: runs. Line: mean. Bar: 95 % confidence interval of the mean.' : '');
  return [scoreGrid(settings, best, [title, format]), table(caption, [
    ...keys,
    {title: range.map(format).join(' to '), cell: strip},
    {title: hasSeeds ? `Mean ${title}` : title, number: true, cell: meanText},
    ...(hasSeeds ? ofSeeds : [])], settings)];
}

function comparisonSection() {
  if (data.differences.length === 0) {
    const none = el('p', {}, 'The configs of the runs do not differ, or are unknown.');
    return section('Comparison', scoreTable(), none);
  }
  const columns = [
    {title: 'Key', cell: (row) => row.key},
    ...runs.map((run, i) => ({title: run.name, cell: (row) => row.values[i]}))];
  return section('Comparison', scoreTable(), keyColumns().length === 0
    ? table('Config keys in which the runs differ', columns, data.differences) : null);
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

/** A percentage next to a bar that is filled to this fraction. */
const meter = (fraction) => [percent(fraction).padStart(7, '\u2007'), el('span', {class: 'meter', 'aria-hidden': 'true'},
  el('i', {style: `width:${(100 * clamp(fraction, 0, 1)).toFixed(1)}%`}))];

/** Threads, mean number of busy cores and padding of a run. */
function timeNote(time) {
  const busy = (seconds) =>
    (seconds == null ? 'an unknown number' : (seconds / time.seconds).toFixed(2));
  const padding = time.positions > 0 ? ` Padding: ${percent(time.padding / time.positions)} of ` +
    `${count(time.positions)} token positions in batches.` : '';
  const counted = (n, noun) => `${count(n)} ${noun}${n === 1 ? '' : 's'}`;
  return quiet(`${counted(time.threads, 'thread')}, ${counted(time.cores, 'core')}. ` +
    `Busy on average: ${busy(time.processor_seconds)} cores by the run, ` +
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
