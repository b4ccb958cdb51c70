// The sections of curves, of the runs and of their comparison.
const share = (x) => (x == null ? 'not finite' : `${Number((100 * x).toFixed(2))} %`);
const titles = {
  loss: ['Loss', short], training_objective: ['Training objective (with label smoothing)', short], perplexity: ['Perplexity', short], token_accuracy: ['Accuracy', share],
  exact_match: ['Exact match', share], span_f1: ['Span F1', share], bleu: ['BLEU', short], chrf: ['chrF', short],
  learning_rate: ['Learning rate', short], gradient_norm: ['Gradient norm', short],
  target_tokens_per_second: ['Target tokens per second', short], step_seconds: ['Seconds per step', short],
  memory_bytes: ['Memory', (x) => `${short(x / 1e6)} MB`],
};
/** Title and format of the values of a curve; a column of a custom task may have any name. */
const titleOf = (name) => (Object.hasOwn(titles, name) ? titles[name] : [name, short]);

/** The series of all runs and groups, by name of the curve. */
function seriesByName() {
  const byName = new Map();
  const add = (name, series) => byName.set(name, [...(byName.get(name) || []), series]);
  const grouped = new Set(data.groups.flatMap((g) => g.runs));
  runs.forEach((run, i) => {
    for (const curve of run.curves) {
      const raw = points(curve.steps, curve.values);
      const exact = curve.validation || ['learning_rate', 'memory_bytes', 'token_accuracy'].includes(curve.name);
      const basis = exact ? null : curve.means ? points(curve.mean_steps, curve.means) : raw;
      const part = curve.validation ? 'validation' : 'training';
      add(curve.name, {raw, basis, run: i, grouped: grouped.has(i), dashed: curve.validation,
        color: color(runs.length === 1 && curve.validation ? 1 : i),
        label: runs.length === 1 ? part : `${run.name}, ${part}`});
    }
  });
  data.groups.forEach((group, g) => {
    for (const curve of group.curves) {
      const raw = points(curve.steps, curve.values);
      raw.forEach((p, i) => { p.deviation = curve.deviation[i]; });
      add(curve.name, {raw, basis: null, band: true, run: `group ${g}`, dashed: curve.validation,
        color: color(group.runs[0]),
        label: `mean of ${group.runs.length} seeds (${runs[group.runs[0]].name} ...), ${curve.validation ? 'validation' : 'training'}`});
    }
  });
  return byName;
}

function curvesSection() {
  // Few points are not smoothed: the average would lag behind them.
  const longest = Math.max(0, ...runs.flatMap((run) => run.curves.filter((c) => !c.validation).map((c) => c.values.length)));
  view.smoothing ??= longest < 25 ? 0 : 0.6;
  const order = Object.keys(titles);
  const place = (name) => (order.includes(name) ? order.indexOf(name) : order.length);
  const elsewhere = runs.length === 1 && data.details ? speedCurves : [];
  const names = [...seriesByName()].filter(([name]) => !elsewhere.includes(name)).sort(([a], [b]) => place(a) - place(b));
  const charts = names.map(([name, series]) => new Chart(titleOf(name)[0], series, titleOf(name)[1]));
  const slider = el('input', {type: 'range', min: 0, max: 0.99, step: 0.01, value: view.smoothing,
    oninput: () => { view.smoothing = Number(slider.value); redrawCharts(); }});
  const set = (key) => (on) => { view[key] = on; redrawCharts(); };
  const legend = runs.length === 1
    ? [swatch({color: color(0)}), 'training ', swatch({color: color(1), dashed: true}), 'validation']
    : [swatch({color: 'currentColor'}), 'training ', swatch({color: 'currentColor', dashed: true}), 'validation'];
  return section('Curves',
    el('p', {id: 'chart-keys', class: 'quiet'}, 'Drag to zoom all charts, double-click to reset. By keyboard: arrows show values, + and - zoom, Escape resets.'),
    el('div', {class: 'controls'},
      el('label', {class: 'field'}, 'Smoothing', slider),
      checkbox('log values', view.logY, set('logY')), checkbox('log steps', view.logX, set('logX')),
      data.groups.length ? checkbox('mean and deviation over seeds', view.means, set('means')) : null,
      el('button', {type: 'button', onclick: () => zoom(null, null)}, 'Reset zoom'),
      el('span', {}, legend)),
    seriesByName().has('training_objective') ? el('p', {}, 'Losses are without label smoothing, so that those of training and validation can be compared; what training minimizes is the training objective.') : null,
    runs.some((run) => find(run, 'token_accuracy', false)) ? el('p', {}, 'Accuracy of training is that of a fixed sample of training examples, scored at each validation like the validation set: without dropout.') : null,
    names.some(([name]) => speedCurves.includes(name)) ? el('p', {class: 'quiet'}, speedCurvesText) : null,
    charts.length ? el('div', {class: 'charts'}, charts.map((chart) => chart.host))
      : el('p', {}, 'No step has been logged and saved yet.'));
}

// ---- Overview and comparison

/** Shows a run in the sections that are about one run; null if there is one run only. */
let showRun = null;

const find = (run, name, validation) => run.curves.find((c) => c.name === name && c.validation === validation);
const lastOf = (curve) => (curve ? points(curve.steps, curve.values).pop() : null);

const metricOf = (run) => run.best_metric || 'loss';
const isBetter = (metric, a, b) => (['loss', 'perplexity'].includes(metric) ? a < b : a > b);

/** The point of the best validation; null without any. */
function bestOf(run) {
  const curve = find(run, metricOf(run), true);
  const finite = curve ? points(curve.steps, curve.values).filter((p) => p.y != null) : [];
  return finite.length ? finite.reduce((a, b) => (isBetter(metricOf(run), b.y, a.y) ? b : a)) : null;
}

function bestText(run) {
  const best = bestOf(run);
  return best ? `${titleOf(metricOf(run))[1](best.y)} at step ${count(best.x)}` : '-';
}

/** The runs, best first, if all are compared by the same metric. */
function rankedRuns() {
  const metric = metricOf(runs[0]);
  if (runs.some((run) => metricOf(run) !== metric)) return runs;
  const values = new Map(runs.map((run) => [run, bestOf(run)?.y]));
  const rank = (a, b) => (values.get(a) == null || values.get(b) == null
    ? (values.get(a) == null) - (values.get(b) == null)
    : isBetter(metric, values.get(a), values.get(b)) ? -1 : values.get(a) === values.get(b) ? 0 : 1);
  return [...runs].sort(rank);
}

/** A sentence if the only key that differs is numeric and the best value is the least or greatest tried; else empty. */
function edgeText(best) {
  const keys = data.differences.filter(({key}) => key !== 'train.seed');
  const numbers = keys.length === 1 ? [...new Set(keys[0].values.map(Number))] : [];
  if (numbers.length < 3 || numbers.some((x) => !Number.isFinite(x))) return '';
  const value = Number(keys[0].values[runs.indexOf(best)]);
  if (value === Math.max(...numbers)) return ` ${value} is the largest ${keys[0].key} that was tried: a larger one may be better.`;
  return value === Math.min(...numbers) ? ` ${value} is the smallest ${keys[0].key} that was tried: a smaller one may be better.` : '';
}

/** A sentence that names the best of several runs, if all are compared by the same metric. */
function bestRunFinding() {
  const [first, second] = rankedRuns(), metric = metricOf(first);
  if (second == null || bestOf(second) == null || runs.some((run) => metricOf(run) !== metric)) return [];
  const [title, format] = titleOf(metric);
  const keys = data.differences.filter(({key}) => key !== 'train.seed').slice(0, 3)
    .map(({key, values}) => `${key} ${values[runs.indexOf(first)]}`).join(', ');
  const best = bestOf(first), next = bestOf(second);
  return [{section: 'Comparison', text: `Best run: ${first.name}${keys ? ` (${keys})` : ''}: ${title} of the validation set ${format(best.y)} at step ${count(best.x)}; next: ${second.name}, ${format(next.y)}.${edgeText(first)}`}];
}

/** The texts of all runs, each once, with the names of the runs that have it and the index of the first of them. */
function byText(entriesOf, textOf) {
  const found = new Map();
  runs.forEach((run, i) => {
    for (const entry of entriesOf(run)) {
      const same = found.get(textOf(entry));
      if (same) same.names.push(run.name); else found.set(textOf(entry), {entry, names: [run.name], run: i});
    }
  });
  const prefix = (names) => (runs.length === 1 ? '' : `${names.length === runs.length ? 'All runs' : names.join(', ')}: `);
  return [...found.values()].map(({entry, names, run}) => ({entry, run, text: prefix(names) + textOf(entry)}));
}

/** A finding with a link to the section that shows more, if the page has it. */
function findingItem(text, title, run) {
  const exists = ['Curves', 'Comparison'].includes(title) || data.details;
  return el('li', {}, text, exists ? [' See ', el('a', {href: `#${sectionId(title)}`, onclick: () => showRun?.(run)}, title), '.'] : null);
}

/** The keys in which the runs differ, as columns of the table of runs, if they are few. */
const keyColumns = () => (data.differences.length > 12 ? []
  : data.differences.map(({key, values}) => ({title: key, cell: (run) => values[runs.indexOf(run)]})));

const parameters = (run) => (run.weights || []).flatMap((b) => b.parameters)
  .reduce((sum, p) => sum + p.statistics.values, 0);

function overviewSection() {
  const trained = (run) => run.history.processes.reduce((sum, p) => sum + p.seconds, 0);
  const step = (run) => Math.max(0, ...run.curves.map((c) => lastOf(c)?.x || 0), run.checkpoint?.step || 0);
  const columns = [
    {title: 'Run', cell: (run) => {
      const i = runs.indexOf(run);
      const name = [swatch({color: color(i)}), run.name];
      if (runs.length === 1) return run.name;
      return checkbox(el('span', {}, name), true, (on) => { view.hidden[on ? 'delete' : 'add'](i); redrawCharts(); });
    }},
    ...keyColumns(),
    {title: 'Kind', cell: (run) => run.kind || '-'},
    {title: 'Step', number: true, cell: (run) => count(step(run)) + (run.steps ? ` of ${count(run.steps)}` : '')},
    {title: 'Best validation', cell: bestText},
    {title: 'Last training loss', number: true, cell: (run) => (find(run, 'loss', false) ? short(lastOf(find(run, 'loss', false)).y) : '-')},
    ...(data.details ? [{title: 'Parameters', number: true, cell: (run) => (run.weights ? count(parameters(run)) : '-')}] : []),
    {title: 'Training time', number: true, cell: (run) => (run.history.processes.length ? duration(trained(run)) : '-')},
    ...(data.details ? [{title: 'Model shown', cell: (run) => (run.checkpoint ? `step ${count(run.checkpoint.step)}${run.checkpoint.choice ? `, ${run.checkpoint.choice}` : ''}` : 'none')}] : []),
  ];
  const list = (title, items) => (items.length ? el('div', {class: 'notes'}, el('p', {}, title), el('ul', {}, items)) : null);
  const findings = byText((run) => run.findings, (finding) => finding.text).map(({entry, run, text}) => findingItem(text, entry.section, run));
  const notes = byText((run) => run.notes, (note) => note).map(({text}) => el('li', {}, text));
  return section('Overview',
    list('Findings:', [...bestRunFinding().map(({text, section: title}) => findingItem(text, title)), ...findings]), list('Left out or noteworthy:', notes),
    table(runs.length > 1 ? 'Runs of this report, best first' : 'Runs of this report', columns, rankedRuns()));
}

/** The names of the runs of a group, the first ones of many. */
const namesOf = (group) => group.runs.slice(0, 4).map((i) => runs[i].name).join(', ') + (group.runs.length > 4 ? ', ...' : '');

/** Mean, deviation and 95 % confidence interval of the best values of runs with several seeds. */
function seedTable() {
  const keys = data.differences.filter(({key}) => key !== 'train.seed');
  const rows = data.groups.map((group) => {
    const values = group.runs.map((i) => bestOf(runs[i])?.y).filter((y) => y != null);
    const n = values.length, mean = values.reduce((a, b) => a + b, 0) / n;
    const deviation = Math.sqrt(values.reduce((sum, y) => sum + (y - mean) ** 2, 0) / (n - 1));
    // The quantile is that of all runs of the group.
    const half = n === group.runs.length ? group.t_975 * deviation / Math.sqrt(n) : null;
    const run = runs[group.runs[0]];
    return {name: keys.map(({key, values: all}) => `${key}=${all[group.runs[0]]}`).join(' ') || namesOf(group),
      metric: metricOf(run), format: titleOf(metricOf(run))[1], n, mean, deviation, half};
  }).filter((row) => row.n > 1);
  if (rows.length === 0) return null;
  return table('Best values over seeds', [
    {title: 'Runs', cell: (row) => row.name},
    {title: 'Score', cell: (row) => titleOf(row.metric)[0]},
    {title: 'Seeds', number: true, cell: (row) => count(row.n)},
    {title: 'Mean', number: true, cell: (row) => row.format(row.mean)},
    {title: 'Deviation', number: true, cell: (row) => row.format(row.deviation)},
    {title: '95 % interval', number: true, cell: (row) => (row.half == null ? '-' : `${row.format(row.mean - row.half)} to ${row.format(row.mean + row.half)}`)}], rows);
}

function comparisonSection() {
  const columns = (title) => [{title, cell: (row) => row.key},
    ...runs.map((run, i) => ({title: run.name, text: false, cell: (row) => row.values[i]}))];
  const parts = [seedTable()];
  if (data.differences.length === 0) {
    parts.push(el('p', {}, 'The configs of the runs do not differ, or are not known.'));
  } else if (runs.length <= 8 || keyColumns().length === 0) {
    parts.push(table('Config keys in which the runs differ', columns('Key'), data.differences));
  }
  for (const group of data.groups) {
    const rows = group.curves.filter((c) => c.validation).map((c) => ({name: c.name, last: lastOf(c), deviation: c.deviation[c.deviation.length - 1]}));
    const format = (row) => titleOf(row.name)[1];
    parts.push(table(`Mean and standard deviation (n - 1) over seeds: ${namesOf(group)}`, [
      {title: 'Validation score', cell: (row) => titleOf(row.name)[0]},
      {title: 'Step', number: true, cell: (row) => count(row.last.x)},
      {title: 'Mean', number: true, cell: (row) => format(row)(row.last.y)},
      {title: 'Deviation', number: true, cell: (row) => format(row)(row.deviation)}], rows));
  }
  return section('Comparison', parts.filter((part) => part != null));
}
