// SPDX-License-Identifier: BSD-3-Clause
// The page of `tapestry report`: the recordings, weights, history and config of a run.

// ---- During training

/** The boxes of histograms over steps: for each opacity the path of all its boxes. */
function histogramBoxes(found, left, column, y) {
  const boxes = new Map();
  found.forEach(({histogram}, i) => {
    const {counts} = histogram, low = drawable(histogram.low), high = drawable(histogram.high);
    const max = Math.max(...counts), bin = (high - low) / counts.length;
    const across = Math.max(1, column - (column > 4 ? 0.5 : 0)).toFixed(1);
    counts.forEach((n, k) => {
      if (n === 0) return;
      const top = y(low + bin * (k + 1)), height = Math.max(0.75, y(low + bin * k) - top);
      const opacity = (Math.ceil(25 * Math.sqrt(n / max)) / 25).toFixed(2);
      const box = `M${(left + column * i).toFixed(1)} ${top.toFixed(1)}` +
        `h${across}v${height.toFixed(1)}h-${across}z`;
      boxes.set(opacity, (boxes.get(opacity) ?? '') + box);
    });
  });
  return boxes;
}

/** A picture of histograms over steps: a column for each validation, opacity for the number of
 * values. */
function histogramsOverSteps(title, steps, histograms) {
  const found = histograms.map((histogram, i) => ({histogram, step: steps[i]}))
    .filter(({histogram}) => histogram && histogram.counts.length && histogram.low != null);
  if (found.length === 0) return el('p', {}, `${title}: not recorded.`);
  const [low, high] = axisRange(found.flatMap(({histogram}) => [histogram.low, histogram.high]));
  const left = 66, width = 430, height = 190, bottom = height - 22;
  const y = (value) => bottom - (bottom - 6) * (value - low) / (high - low);
  const first = found[0], last = found[found.length - 1];
  const rangeAt = ({histogram, step}) =>
    `from ${short(histogram.low)} to ${short(histogram.high)} at step ${count(step)}`;
  const picture = svg('svg', {
    role: 'img', width, height,
    viewBox: `0 0 ${width} ${height}`,
    style: 'max-width:100%',
    'aria-label': `${title} at ${found.length} validations: ${rangeAt(first)}, ${rangeAt(last)}.`,
  });
  for (const [opacity, d] of histogramBoxes(found, left, (width - left) / found.length, y)) {
    picture.append(svg('path', {d, style: 'fill:var(--heat)', 'fill-opacity': opacity}));
  }
  for (const value of ticks(low, high, 5)) {
    const place = {x: left - 6, y: y(value) + 4, 'text-anchor': 'end'};
    picture.append(svg('text', place, short(value)));
  }
  picture.append(svg('text', {x: left, y: height - 6}, `step ${count(first.step)}`),
    svg('text', {x: width, y: height - 6, 'text-anchor': 'end'}, count(last.step)));
  return el('figure', {}, picture, el('figcaption', {},
    `${title}: a histogram for each validation. Strong color: many values in the interval.`));
}

/** The distinct consecutive outputs of a sample, each with the steps of its first and last
 * validation. */
function distinctOutputs(sample) {
  const rows = [];
  sample.outputs.forEach((output, k) => {
    const step = sample.steps[k], before = rows[rows.length - 1];
    if (before && before.output === output) before.last = step;
    else rows.push({output, first: step, last: step});
  });
  return rows;
}

function recordedSamples(samples, hasLabels) {
  const host = el('div', {});
  const stepText = ({first, last}) => count(first) + (last > first ? ` to ${count(last)}` : '');
  const show = (i) => {
    const {input, expected} = samples[i];
    const output = ({output: text}) => (hasLabels ? labelledTokens({input, output: text, expected})
      : marked(align(expected, text)[1], 'wrong'));
    const columns = [
      {title: 'Step', number: true, cell: stepText},
      {title: 'Output', text: true, cell: output},
      {title: 'Result', cell: (row) => verdict(row.output === expected)}];
    host.replaceChildren(el('p', {}, `Input: ${input}`), el('p', {}, `Reference: ${expected}`),
      table('Outputs at validations', columns, distinctOutputs(samples[i])));
  };
  show(0);
  const numbers = samples.map((_, i) => String(i + 1));
  return [el('h3', {}, 'Outputs for samples of the validation set'),
    quiet(hasLabels ? labelsLegend : 'Marked in an output: words that the reference lacks.'),
    el('div', {class: 'controls'}, choice('Sample', numbers, show)), host];
}

function recordingPart({recording, labels_tokens: hasLabels}) {
  if (!recording) return el('p', {}, 'The run has recorded no validation.');
  const {samples, blocks} = recording;
  const last = (title, name) => ({title, number: true, cell: (block) => {
    const value = block[name][block[name].length - 1];
    return value == null ? '-' : short(value);
  }});
  const host = el('div', {class: 'gallery'});
  const show = (i) => {
    const {path, steps, weights, gradients} = blocks[i];
    host.replaceChildren(histogramsOverSteps(`Weights of ${path}`, steps, weights),
      histogramsOverSteps(`Gradients of ${path}`, steps, gradients));
  };
  if (blocks.length) show(0);
  const paths = blocks.map((block) => block.path);
  return [
    samples.length ? recordedSamples(samples, hasLabels) : null,
    el('h3', {}, 'Weights and gradients'),
    table('Blocks at the last validation', [
      {title: 'Block', cell: (block) => block.path},
      last('Update ratio', 'update_ratio'),
      last('Gradient norm', 'gradient_norm'),
      last('Weight norm', 'weight_norm')], blocks),
    quiet('Update ratio: the norm of the weight change in one step, divided by the norm of the ' +
      'weights. Norms are Euclidean norms over the matrices of a block, at the last step before ' +
      'the validation. Gradient norms are taken before clipping.'),
    blocks.length ? el('details', {open: innerWidth > 600}, el('summary', {}, 'Histograms'),
      el('div', {class: 'controls'}, choice('Histograms of', paths, show)), host) : null];
}

// ---- Weights

function histogram({counts, low, high, mean, deviation}) {
  const width = 170, height = 34;
  const max = Math.max(...counts, 1), bar = width / Math.max(counts.length, 1);
  const across = Math.max(1, bar - 0.5).toFixed(1);
  const bars = counts.map((n, i) => (n === 0 ? '' : `M${(i * bar).toFixed(1)} ${height}` +
    `V${(height * (1 - n / max)).toFixed(1)}h${across}V${height}z`));
  const text = `from ${short(low)} to ${short(high)}, mean ${short(mean)}, ` +
    `standard deviation ${short(deviation)}`;
  const viewBox = `0 0 ${width} ${height}`;
  return svg('svg',
    {class: 'histogram', role: 'img', width, height, viewBox, 'aria-label': text},
    svg('path', {d: bars.join('')}));
}

/** The columns of the statistics that get(row) returns. */
function distributionColumns(get) {
  const histogramOf = (row) => {
    const statistics = get(row), {not_finite: notFinite} = statistics;
    return [histogram(statistics), notFinite ? `${count(notFinite)} not finite` : ''];
  };
  return [
    {title: 'Norm', number: true, cell: (row) => short(get(row).norm)},
    {title: 'RMS', number: true, cell: (row) => short(get(row).rms)},
    {title: 'Minimum', number: true, cell: (row) => short(get(row).low)},
    {title: 'Maximum', number: true, cell: (row) => short(get(row).high)},
    {title: 'Histogram', cell: histogramOf}];
}

const sizeOf = (tensors) => tensors.reduce((sum, tensor) => sum + tensor.statistics.values, 0);

/** The table of the tensors of a block, which is made when the user opens it. */
function tensorDetails({path, parameters}) {
  const make = () => table(`Tensors of ${path}`, [
    {title: 'Tensor', cell: (tensor) => tensor.name + (tensor.frozen ? ' (frozen)' : '')},
    {title: 'Shape', cell: (tensor) => tensor.shape.join(' \u00d7 ') || 'scalar'},
    {title: 'Parameters', number: true, cell: (tensor) => count(tensor.statistics.values)},
    ...distributionColumns((tensor) => tensor.statistics)], parameters);
  const ontoggle = () => { if (details.childElementCount === 1) details.append(make()); };
  const tensors = parameters.length === 1 ? '1 tensor' : `${parameters.length} tensors`;
  const details = el('details', {ontoggle},
    el('summary', {}, `${path}: ${count(sizeOf(parameters))} parameters in ${tensors}`));
  return details;
}

function weightsPart(run) {
  if (!run.weights) return el('p', {}, 'No weights: see the notes in the overview.');
  const tensors = run.weights.flatMap((block) => block.parameters);
  const frozen = sizeOf(tensors.filter((tensor) => tensor.frozen));
  return [
    el('p', {}, `${count(sizeOf(tensors))} parameters in ${count(tensors.length)} tensors` +
      `${frozen ? `, ${count(frozen)} parameters frozen` : ''}, at step ` +
      `${count(run.checkpoint.step)}.`),
    quiet('Statistics of a block cover its matrices only. RMS: root mean square. Histogram: ' +
      'number of values in equal intervals from the minimum to the maximum.'),
    table('Blocks of the model', [
      {title: 'Block', cell: (block) => block.path},
      {title: 'Parameters', number: true, cell: (block) => count(sizeOf(block.parameters))},
      ...distributionColumns((block) => block.matrices)], run.weights),
    el('h3', {}, 'Tensors'),
    run.weights.map(tensorDetails)];
}

// ---- History and config

function logOf({log, log_lines_left_out: leftOut}) {
  const list = el('ul', {class: 'log'});
  const item = ({warning, time, text}) =>
    el('li', {class: warning ? 'warning' : null}, el('time', {}, time), text);
  const show = (warnings) =>
    list.replaceChildren(...log.filter((line) => !warnings || line.warning).map(item));
  show(false);
  const rest = leftOut ? `; the first ${count(leftOut)} lines are left out` : '';
  return [el('h3', {}, 'Log'), quiet(`train.log without progress and validations${rest}`),
    el('div', {class: 'controls'}, checkbox('only warnings', false, show)),
    scrolling('Log', list, 'tall')];
}

function historyPart({history}) {
  const {processes, changes, log} = history;
  return [
    processes.length ? table('Processes that trained the run', [
      {title: 'Started', cell: (process) => process.started},
      {title: 'Last step', number: true, cell: (process) => count(process.last_step)},
      {title: 'Threads', number: true, cell: (process) => count(process.threads)},
      {title: 'Time', number: true, cell: (process) => duration(process.seconds)},
    ], processes) : null,
    changes.length ? [el('h3', {}, 'Changes of the run'),
      el('ul', {}, changes.map((line) => el('li', {}, line)))] : null,
    log.length ? logOf(history) : null,
    processes.length || log.length ? null
      : el('p', {}, 'The run has no events.jsonl or train.log.')];
}

/** The config: the values that differ from the defaults, or all of them with marks. */
function configPart(run) {
  if (!run.config) return el('p', {}, 'The config cannot be read.');
  const changed = new Set(run.changed_keys), changedGroups = new Set();
  for (const key of changed) changedGroups.add(key.split('.')[0]);
  let group = '';
  const lines = run.config.trimEnd().split('\n').map((text) => {
    const [, indent, key] = /^( *)([^:]*):/.exec(text) ?? [null, '', ''];
    if (indent === '') group = key;
    const isChanged = indent !== '' && changed.has(`${group}.${key}`);
    return {text, isChanged, isHeading: indent === '' && changedGroups.has(key)};
  });
  const pre = el('pre', {});
  const show = (all) => pre.replaceChildren(...lines
    .filter(({isChanged, isHeading}) => all || isChanged || isHeading)
    .flatMap(({text, isChanged}) =>
      [all && isChanged ? el('mark', {class: 'changed'}, text) : text, '\n']));
  show(false);
  return [
    el('p', {}, `${count(changed.size)} values differ from the defaults.`),
    el('div', {class: 'controls'}, checkbox('all keys, with changed values marked', false, show)),
    scrolling('Config', pre, 'tall')];
}

// ---- The page

const detailParts = [
  ['Time', timePart], ['Held-out examples', examplesPart], ['Accuracy', accuracyPart],
  ['During training', recordingPart], ['Attention', attentionPart], ['Weights', weightsPart],
  ['History', historyPart], ['Config', configPart]];

/** The parts that a phone shows folded. */
const foldedParts = ['Time', 'Weights', 'History', 'Config'];

function addDetails(main) {
  const hosts = detailParts.map(() => el('div', {}));
  const sectionsOfRun = detailParts.map(([title], k) => {
    const isFolded = innerWidth <= 600 && foldedParts.includes(title);
    return section(title, isFolded ? el('details', {},
      el('summary', {}, `Show ${title.toLowerCase()}`), hosts[k]) : hosts[k]);
  });
  const show = (i) => detailParts.forEach(([, part], k) => {
    const children = [part(runs[i])].flat(Infinity).filter((child) => child != null);
    hosts[k].replaceChildren(...children);
  });
  const best = runs.indexOf(rankedRuns()[0]);
  if (runs.length > 1) {
    const names = runs.map((run) => run.name);
    main.append(el('div', {class: 'controls'},
      choice('Run shown below', names, show, best)));
  }
  main.append(...sectionsOfRun);
  show(best);
}

/** Reloads the page every 20 seconds while a run is in progress. */
function startReload() {
  if (!runs.some((run) => run.in_progress)) return;
  const box = checkbox('reload every 20 seconds', true, () => {});
  document.getElementById('subtitle').append('. The run is in progress: ', box);
  setInterval(() => {
    if (box.querySelector('input').checked && !document.hidden) location.reload();
  }, 20_000);
}

function build() {
  const main = document.getElementById('main'), keys = data.differences.map(({key}) => key);
  const names = (runs.length > 4 && keys.length > 0 && keys.length <= 4 ? keys
    : runs.map((run) => run.name)).join(', ');
  const kinds = [...new Set(runs.map((run) => run.kind).filter(Boolean))].join(', ');
  setTitle(runs.length === 1 ? `Run ${names}` : `${runs.length} runs: ${names}`,
    `${kinds ? `${kinds}; ` : ''}written ${data.time} by ${data.program}`);
  startReload();
  main.append(overviewSection());
  if (runs.length > 1) main.append(comparisonSection());
  main.append(curvesSection());
  if (data.details) addDetails(main);
  else {
    main.append(el('p', {}, 'This report leaves out models, examples, attention and logs. ',
      code('tapestry report RUN'), ' shows them for one run.'));
  }
  drawCharts();
  performance.mark('charts drawn');  // see tests/report/check_pages.py
  let width = 0;
  new ResizeObserver(() => {
    if (main.clientWidth !== width) { width = main.clientWidth; drawCharts(); }
  }).observe(main);
}

build();
