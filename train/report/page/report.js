// The page of `tapestry report`: draws the data of train/report/report_data.h.
const runs = data.runs;
const color = (i) => `var(--c${i % 8})`;
const share = (x) => (x == null ? 'not finite' : `${Number((100 * x).toFixed(2))} %`);
const titles = {
  loss: ['Loss', short], training_objective: ['Training objective (with label smoothing)', short], perplexity: ['Perplexity', short],
  token_accuracy: ['Accuracy', share], exact_match: ['Exact match', share], span_f1: ['Span F1', share], bleu: ['BLEU', short],
  chrf: ['chrF', short], learning_rate: ['Learning rate', short], gradient_norm: ['Gradient norm', short],
  target_tokens_per_second: ['Target tokens per second', short], step_seconds: ['Seconds per step', short],
  memory_bytes: ['Memory', (x) => `${short(x / 1e6)} MB`],
};
/** Title and format of the values of a curve; a column of a custom task may have any name. */
const titleOf = (name) => (Object.hasOwn(titles, name) ? titles[name] : [name, short]);

// ---- Curves

/** The series of all runs and groups, by name of the curve. */
function seriesByName() {
  const byName = new Map();
  const add = (curve, series) => {
    const all = {raw: points(curve.steps, curve.values), dashed: curve.validation, ...series};
    byName.set(curve.name, [...(byName.get(curve.name) || []), all]);
  };
  const grouped = new Set(data.groups.flatMap((g) => g.runs));
  runs.forEach((run, i) => run.curves.forEach((curve) => {
    const exact = curve.validation || ['learning_rate', 'memory_bytes', 'token_accuracy'].includes(curve.name);
    const part = curve.validation ? 'validation' : 'training';
    add(curve, {run: i, grouped: grouped.has(i), color: color(runs.length === 1 && curve.validation ? 1 : i),
      basis: exact ? null : points(curve.mean_steps ?? curve.steps, curve.means ?? curve.values),
      label: runs.length === 1 ? part : `${run.name}, ${part}`});
  }));
  data.groups.forEach((group) => group.curves.forEach((curve) => {
    add(curve, {band: true, color: color(group.runs[0]),
      raw: points(curve.steps, curve.values).map((p, i) => ({...p, deviation: curve.deviation[i]})),
      label: `mean of ${group.runs.length} seeds (${runs[group.runs[0]].name} ...), ${curve.validation ? 'validation' : 'training'}`});
  }));
  return byName;
}

function curvesSection() {
  // Few points are not smoothed: the average would lag behind them.
  const longest = Math.max(0, ...runs.flatMap((run) => run.curves.filter((c) => !c.validation).map((c) => c.values.length)));
  view.smoothing = longest < 25 ? 0 : 0.6;
  const byName = seriesByName(), order = Object.keys(titles);
  const place = (name) => (order.includes(name) ? order.indexOf(name) : order.length);
  const charts = [...byName].sort(([a], [b]) => place(a) - place(b)).map(([name, series]) => new Chart(titleOf(name)[0], series, titleOf(name)[1]));
  const slider = el('input', {type: 'range', min: 0, max: 0.99, step: 0.01, value: view.smoothing,
    oninput: () => { view.smoothing = Number(slider.value); drawCharts(); }});
  const set = (key) => (on) => { view[key] = on; drawCharts(); };
  const [first, second] = runs.length === 1 ? [color(0), color(1)] : ['currentColor', 'currentColor'];
  return section('Curves',
    el('div', {class: 'controls'}, el('label', {class: 'field'}, 'Smoothing', slider), checkbox('log values', false, set('log')),
      data.groups.length ? checkbox('mean and deviation over seeds', false, set('means')) : null,
      el('span', {}, swatch({color: first}), 'training ', swatch({color: second, dashed: true}), 'validation')),
    byName.has('training_objective') ? quiet('Losses are without label smoothing, so that those of training and validation can be compared; what training minimizes is the training objective.') : null,
    byName.get('token_accuracy')?.some((s) => !s.dashed) ? quiet('Accuracy of training is that of a fixed sample of training examples, scored at each validation without dropout.') : null,
    byName.has('step_seconds') ? quiet('Speed is measured over the steps since the previous log line or validation, without validations, saves and reports.') : null,
    charts.length ? el('div', {class: 'charts'}, charts.map((chart) => chart.host)) : el('p', {}, 'No step has been logged and saved yet.'));
}

// ---- Overview and comparison

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

/** "Loss 1.2 at step 500" */
const scoreText = (run, p) => (p ? `${titleOf(metricOf(run))[0]} ${titleOf(metricOf(run))[1](p.y)} at step ${count(p.x)}` : '-');

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
const keyColumns = () => (data.differences.length > 12 ? []
  : data.differences.map(({key, values}) => ({title: key, cell: (run) => values[runs.indexOf(run)]})));

const parameters = (run) => (run.weights || []).flatMap((b) => b.parameters).reduce((sum, p) => sum + p.statistics.values, 0);

function overviewSection() {
  const step = (run) => Math.max(0, ...run.curves.map((c) => lastOf(c)?.x || 0), run.checkpoint?.step || 0);
  const nameOf = (run) => {
    const i = runs.indexOf(run), toggle = (on) => { view.hidden[on ? 'delete' : 'add'](i); drawCharts(); };
    return runs.length === 1 ? run.name : checkbox(el('span', {}, swatch({color: color(i)}), run.name), true, toggle);
  };
  const lastScore = (run) => scoreText(run, lastOf(find(run, metricOf(run), true)));
  const columns = [
    {title: 'Run', cell: nameOf}, ...keyColumns(), {title: 'Kind', cell: (run) => run.kind || '-'},
    {title: 'Step', number: true, cell: (run) => count(step(run)) + (run.steps ? ` of ${count(run.steps)}` : '')},
    {title: 'Best validation', cell: (run) => scoreText(run, bestOf(run))}, {title: 'Last validation', cell: lastScore},
    {title: 'Last training loss', number: true, cell: (run) => (find(run, 'loss', false) ? short(lastOf(find(run, 'loss', false)).y) : '-')},
    {title: 'Parameters', number: true, cell: (run) => (run.weights ? count(parameters(run)) : '-')},
    {title: 'Training time', number: true, cell: (run) => (run.time ? duration(run.time.seconds) : '-')},
    {title: 'Model shown', cell: (run) => (run.checkpoint ? `step ${count(run.checkpoint.step)}${run.checkpoint.choice ? `, ${run.checkpoint.choice}` : ''}` : 'none')}];
  const notes = runs.flatMap((run) => run.notes.map((note) => el('li', {}, runs.length > 1 ? `${run.name}: ${note}` : note)));
  return section('Overview', notes.length ? el('div', {class: 'notes'}, el('p', {}, 'Left out or noteworthy:'), el('ul', {}, notes)) : null,
    table(runs.length > 1 ? 'Runs of this report, best first' : '', columns, rankedRuns()));
}

/** The names of the runs of a group, the first ones of many. */
const namesOf = (group) => group.runs.slice(0, 4).map((i) => runs[i].name).join(', ') + (group.runs.length > 4 ? ', ...' : '');

/** Mean, deviation and 95 % confidence interval of the best values of runs with several seeds. */
function seedTable() {
  const keys = data.differences.filter(({key}) => key !== 'train.seed');
  const rows = data.groups.map((group) => {
    const values = group.runs.map((i) => bestOf(runs[i])?.y).filter((y) => y != null);
    const n = values.length, mean = values.reduce((a, b) => a + b, 0) / n, run = runs[group.runs[0]];
    const deviation = Math.sqrt(values.reduce((sum, y) => sum + (y - mean) ** 2, 0) / (n - 1));
    // The quantile is for all runs of the group.
    const half = n === group.runs.length ? group.t_975 * deviation / Math.sqrt(n) : null;
    const name = keys.map(({key, values: all}) => `${key}=${all[group.runs[0]]}`).join(' ') || namesOf(group);
    return {name, run, format: titleOf(metricOf(run))[1], n, mean, deviation, half};
  }).filter((row) => row.n > 1);
  if (rows.length === 0) return null;
  return table('Best values over seeds', [
    {title: 'Runs', cell: (row) => row.name}, {title: 'Score', cell: (row) => titleOf(metricOf(row.run))[0]},
    {title: 'Seeds', number: true, cell: (row) => count(row.n)}, {title: 'Mean', number: true, cell: (row) => row.format(row.mean)},
    {title: 'Deviation (n - 1)', number: true, cell: (row) => row.format(row.deviation)},
    {title: '95 % interval', number: true, cell: (row) => (row.half == null ? '-' : `${row.format(row.mean - row.half)} to ${row.format(row.mean + row.half)}`)}], rows);
}

function comparisonSection() {
  const columns = [{title: 'Key', cell: (row) => row.key}, ...runs.map((run, i) => ({title: run.name, cell: (row) => row.values[i]}))];
  if (data.differences.length === 0) return section('Comparison', seedTable(), el('p', {}, 'The configs of the runs do not differ, or are not known.'));
  const shown = runs.length <= 8 || keyColumns().length === 0;
  return section('Comparison', seedTable(), shown ? table('Config keys in which the runs differ', columns, data.differences) : null);
}

// ---- Time

const partTitles = {
  batches: 'Waiting for batches', forward: 'Forward', backward: 'Backward', anomaly_checks: 'Checks of train.detect_anomaly',
  exchange: 'Exchange of gradients', optimizer: 'Optimizer', validation: 'Validation and decoding', saving: 'Saving checkpoints',
  reports: 'Reports', recording: 'Recording'};

const meter = (part) => el('span', {class: 'meter', 'aria-hidden': 'true'}, el('i', {style: `width:${(100 * clamp(part, 0, 1)).toFixed(1)}%`}));

function timePart(run) {
  const {time, history} = run;
  const profile = history.profile ? scrolling('Profile', el('pre', {}, history.profile)) : quiet('Train with ', code('--profile'), ' for the time of each operation.');
  if (!time || !(time.seconds > 0)) return [el('p', {}, 'The run has not recorded where its time went.'), profile];
  const named = time.parts.reduce((sum, p) => sum + p.seconds, 0), cores = (s) => (s == null ? 'not known' : `${(s / time.seconds).toFixed(2)} cores`);
  const rows = [...time.parts.filter((p) => p.seconds > 0), {name: 'Everything else', seconds: Math.max(0, time.seconds - named)}];
  return [
    table('Where the time of training went', [
      {title: 'Part', cell: (p) => (Object.hasOwn(partTitles, p.name) ? partTitles[p.name] : p.name)},
      {title: 'Share', number: true, cell: (p) => percent(p.seconds / time.seconds)},
      {title: 'Seconds', number: true, cell: (p) => short(p.seconds)}, {title: 'Of all', cell: (p) => meter(p.seconds / time.seconds)}], rows),
    quiet(`${time.threads} threads on ${time.cores} cores. Mean processor time of the run: ${cores(time.processor_seconds)}, of other programs on these cores: ${cores(time.other_seconds)}.` +
      (time.positions > 0 ? ` Padding is ${percent(time.padding / time.positions)} of ${count(time.positions)} positions of batches.` : '')),
    profile];
}

// ---- Held-out examples

/** The words of two texts that are in their longest common subsequence: two lists of [word, common]. */
function align(a, b) {
  const x = a.split(/\s+/).filter(Boolean).slice(0, 400), y = b.split(/\s+/).filter(Boolean).slice(0, 400);
  const best = Array.from({length: x.length + 1}, () => new Uint16Array(y.length + 1));
  for (let i = x.length - 1; i >= 0; --i) {
    for (let j = y.length - 1; j >= 0; --j) best[i][j] = x[i] === y[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
  }
  const left = x.map((word) => [word, false]), right = y.map((word) => [word, false]);
  for (let i = 0, j = 0; i < x.length && j < y.length;) {
    if (x[i] === y[j]) left[i++][1] = right[j++][1] = true;
    else if (best[i + 1][j] >= best[i][j + 1]) ++i;
    else ++j;
  }
  return [left, right];
}

const marked = (words, name) => words.flatMap(([word, common]) => [common ? word : el('mark', {class: name}, word), ' ']);
const verdict = (right) => el('span', {class: `verdict ${right ? 'yes' : 'no'}`}, right ? 'correct' : 'wrong');

/** The image as a canvas of the given width in CSS pixels. */
function imageCanvas(image, width, text) {
  const canvas = el('canvas', {width: image.width, height: image.height, role: 'img', 'aria-label': text,
    style: `width:${width}px;height:${Math.round(width * image.height / image.width)}px`});
  const context = canvas.getContext('2d'), pixels = context.createImageData(image.width, image.height);
  const bytes = Uint8Array.from(atob(image.bytes), (c) => c.charCodeAt(0)), c = image.channels;
  for (let i = 0; i < image.width * image.height; ++i) {
    for (let k = 0; k < 3; ++k) pixels.data[4 * i + k] = bytes[i * c + (c >= 3 ? k : 0)];
    pixels.data[4 * i + 3] = 255;
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

const shownTokens = new Map([['<newline>', '\u23ce\n'], ['<space>', ' ']]);

/** Tokens of a text, colored by how unlikely the model finds them. */
function tokenExample(example) {
  const spans = example.tokens.map(([expected, predicted, probability]) => {
    const surprise = predicted === '' ? 0 : Math.min(1, -Math.log(Math.max(probability, 1e-9)) / 5);
    return el('span', {class: `token${predicted !== '' && predicted !== expected ? ' wrong' : ''}`,
      title: predicted === '' ? 'not predicted' : `probability ${percent(probability, 2)}, most likely ${JSON.stringify(predicted)}`,
      style: `background:color-mix(in srgb, var(--error-fill) ${Math.round(100 * surprise)}%, transparent)`},
    shownTokens.get(expected) ?? expected.replaceAll('\u2581', ' '));
  });
  const isWords = example.tokens.some(([t]) => t.length > 1 && !t.startsWith('<')) && !example.tokens.some(([t]) => t.startsWith('\u2581'));
  return el('div', {}, quiet(`Example ${count(example.number)}: loss ${short(example.loss)}, ${count(example.hits)} of ${count(example.labels)} right`),
    el('div', {class: 'tokens'}, isWords ? spans.flatMap((s) => [s, ' ']) : spans));
}

function examplesPart(run) {
  const held = run.held_out;
  if (!held || held.shown.length === 0) return el('p', {}, 'No held-out examples: see the notes of the overview.');
  const worst = Math.ceil(held.shown.length / 2), scored = held.accuracy.examples;
  const intro = quiet(`${held.shown.length} ${held.noun} of the ${held.set} set, worst first: ` +
    (held.shown.length < scored ? `the ${worst} with the greatest loss of ${count(scored)}${scored < held.examples ? ` that were scored (of ${count(held.examples)})` : ''}, then others, evenly spaced over the rest. ` : '') +
    'Loss: the mean of -log p(label), in nats, without label smoothing.');
  if (held.shown[0].tokens) {
    return [intro, el('p', {}, 'The stronger the color of a token, the less likely the model finds it after those before it; underlined: another token is most likely.'),
      el('div', {class: 'texts'}, held.shown.map(tokenExample))];
  }
  const right = (e) => e.output === e.expected;
  if (held.shown[0].image) {
    return [intro, el('div', {class: 'gallery'}, held.shown.map((e) => el('figure', {}, imageCanvas(e.image, 96, `Image ${e.number}`),
      el('figcaption', {}, `image ${e.number}`, el('br'), `label ${e.expected}`, el('br'), verdict(right(e)), right(e) ? '' : `: ${e.output}`, el('br'), `loss ${short(e.loss)}`))))];
  }
  const host = el('div', {}), columns = [
    {title: 'Example', number: true, cell: (e) => count(e.number)}, {title: 'Loss', number: true, cell: (e) => short(e.loss)},
    {title: 'Source', text: true, cell: (e) => e.input},
    {title: 'Reference', text: true, cell: (e) => marked(align(e.expected, e.output)[0], 'missing')},
    {title: 'Output', text: true, cell: (e) => marked(align(e.expected, e.output)[1], 'wrong')}, {title: 'Result', cell: (e) => verdict(right(e))}];
  const show = (wrongOnly) => host.replaceChildren(table('Held-out examples', columns, held.shown.filter((e) => !wrongOnly || !right(e))));
  show(false);
  return [intro, el('div', {class: 'controls'}, checkbox('only with errors', false, show)), host];
}

function accuracyPart(run) {
  const accuracy = run.held_out?.accuracy;
  if (!accuracy || accuracy.labels === 0) return el('p', {}, 'No scores: see the notes of the overview.');
  const groups = (caption, title, rows) => (rows.length < 2 ? null : table(caption, [
    {title, cell: (g) => g.name}, {title: 'Labels', number: true, cell: (g) => count(g.labels)},
    {title: 'Accuracy', number: true, cell: (g) => percent(g.hits / g.labels)}, {title: 'Share', cell: (g) => meter(g.hits / g.labels)}], rows));
  const n = accuracy.classes.length, row = (i) => accuracy.confusion.slice(i * n, (i + 1) * n);
  const cell = (value, total, fill) => el('td', {style: value ? `background:color-mix(in srgb, var(${fill}) ${Math.round(25 + 75 * value / total)}%, transparent)` : null}, count(value));
  const confusion = () => scrolling('Confusion matrix', el('table', {class: 'confusion'}, el('caption', {}, 'Confusion matrix: rows are labels, columns are predictions'),
    el('thead', {}, el('tr', {}, ['Label', ...accuracy.classes, 'Recall'].map((c) => el('th', {scope: 'col'}, c)))),
    el('tbody', {}, accuracy.classes.map((c, i) => {
      const total = row(i).reduce((a, b) => a + b, 0);
      return el('tr', {}, el('th', {scope: 'row'}, c), row(i).map((v, j) => cell(v, total, i === j ? '--bar' : '--error-fill')), el('td', {}, total ? percent(row(i)[i] / total) : '-'));
    }))));
  return [el('p', {}, `Accuracy ${percent(accuracy.hits / accuracy.labels, 2)}: the most likely prediction${n ? '' : ', given the tokens before or around it,'} is the label for ` +
    `${count(accuracy.hits)} of ${count(accuracy.labels)} labels, in ${count(accuracy.examples)} ${run.held_out.noun} of the ${run.held_out.set} set.`),
  el('div', {class: 'side'}, groups('Accuracy by length of the example', 'Tokens', accuracy.by_length),
    groups('Accuracy by frequency of the token', `In the ${accuracy.frequency_of_training ? 'training' : run.held_out.set} set`, accuracy.by_frequency)),
  n ? confusion() : null];
}

// ---- Attention

/** The heat map of one head with its tokens, of weights in thousandths; calls chosen(query) when a row is chosen. */
function heatMap(title, queries, keys, weights, readout, chosen) {
  const cell = keys.length <= 16 ? 28 : keys.length <= 42 ? 18 : 12, font = cell > 16 ? 13 : 11;
  const longest = (names) => Math.max(4, ...names.map((name) => label(name).length));
  const left = 12 + 8 * longest(queries), top = 14 + 8 * longest(keys);
  const width = left + cell * keys.length + 8, height = top + cell * queries.length + 8;
  const picture = svg('svg', {class: 'heat', role: 'img', tabindex: 0, width, height, viewBox: `0 0 ${width} ${height}`});
  keys.forEach((name, j) => {
    const x = left + cell * (j + 0.5) + font / 3;
    picture.append(svg('text', {x, y: top - 6, transform: `rotate(-90 ${x} ${top - 6})`, style: `font-size:${font}px`}, label(name), svg('title', {}, name)));
  });
  queries.forEach((name, i) => {
    picture.append(svg('text', {x: left - 6, y: top + cell * (i + 0.5) + font / 3, 'text-anchor': 'end', style: `font-size:${font}px`}, label(name), svg('title', {}, name)));
  });
  picture.append(svg('rect', {x: left, y: top, width: cell * keys.length, height: cell * queries.length, fill: 'none', class: 'axis'}));
  weights.forEach((w, k) => {
    if (w === 0) return;
    const y = top + cell * Math.floor(k / keys.length), x = left + cell * (k % keys.length);
    picture.append(svg('rect', {class: 'weight', x, y, width: cell, height: cell, 'fill-opacity': Math.sqrt(w / 1000).toFixed(2)}));
  });
  const frame = svg('rect', {class: 'chosen', width: cell, height: cell, visibility: 'hidden'});
  picture.append(frame);
  const strongest = queries.map((q, i) => {
    const row = weights.slice(i * keys.length, (i + 1) * keys.length), most = Math.max(...row);
    return `${q}: ${keys[row.indexOf(most)]} ${percent(most / 1000, 0)}`;
  });
  picture.setAttribute('aria-label', `${title}. The key with the greatest weight of each query: ${strongest.join('; ')}.`);
  let at = null;
  const choose = (i, j) => {
    at = [clamp(i, 0, queries.length - 1), clamp(j, 0, keys.length - 1)];
    const w = weights[at[0] * keys.length + at[1]];
    for (const [key, value] of Object.entries({x: left + cell * at[1], y: top + cell * at[0], visibility: 'visible'})) frame.setAttribute(key, value);
    readout.textContent = `query ${queries[at[0]]} (${at[0] + 1}), key ${keys[at[1]]} (${at[1] + 1}): ${w === 0 ? 'exactly 0' : percent(w / 1000)}`;
    chosen(at[0]);
  };
  picture.addEventListener('pointermove', (event) => {
    const box = picture.getBoundingClientRect();
    const j = Math.floor((event.clientX - box.left - left) / cell), i = Math.floor((event.clientY - box.top - top) / cell);
    if (i >= 0 && j >= 0 && i < queries.length && j < keys.length) choose(i, j);
  });
  onArrows(picture, (down, right) => (at ? choose(at[0] + down, at[1] + right) : choose(0, 0)));
  return picture;
}

/** The image with the patches that a query attends to; show(weights of a row) draws them. */
function patchView(sample, patches) {
  const width = 288, columns = patches.width / patches.size, rows = patches.height / patches.size;
  const side = width / columns, height = Math.round(width * patches.height / patches.width);
  const overlay = svg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true', style: 'position:absolute;left:0;top:0'});
  const caption = el('figcaption', {});
  const canvas = imageCanvas(sample.image, width, `Image ${sample.number} with the weights of its patches`);
  const show = (row, query) => {
    const strongest = Math.max(...row.slice(1), 1);
    overlay.replaceChildren(...Array.from({length: rows * columns}, (_, k) => svg('rect', {
      x: (k % columns) * side, y: Math.floor(k / columns) * side, width: side, height: side, style: 'fill:#ff5a00', 'fill-opacity': (0.75 * row[k + 1] / strongest).toFixed(2)})));
    caption.textContent = `Weights of the query ${query}, relative to the greatest`;
  };
  return {figure: el('figure', {}, el('div', {style: `position:relative;width:${width}px`}, canvas, overlay), caption), show};
}

function attentionPart(run) {
  if (!run.attention || run.attention.length === 0) return el('p', {}, 'No attention weights: see the notes of the overview.');
  const state = {sample: 0, layer: 0, head: 0}, host = el('div', {}), heads = el('span', {});
  /** The weights of a head; those behind the last one are the mean of all. */
  const weightsOf = (layer, h) => layer.heads[h] ?? layer.heads[0].map((_, i) => layer.heads.reduce((sum, w) => sum + w[i], 0) / layer.heads.length);
  function show() {
    const sample = run.attention[state.sample], layer = sample.layers[Math.min(state.layer, sample.layers.length - 1)];
    const names = [...layer.heads.map((_, h) => `head ${h + 1}`), 'mean of all heads'];
    state.head = Math.min(state.head, layer.heads.length);
    heads.replaceChildren(choice('Head', names, (h) => { state.head = h; show(); }, state.head));
    const queries = sample.tokens[layer.queries], keys = sample.tokens[layer.keys], weights = weightsOf(layer, state.head);
    const readout = el('output', {class: 'readout'}, 'Point at a cell, or use the arrow keys in the heat map.');
    const patches = sample.image && run.patches ? patchView(sample, run.patches) : null;
    const chosen = (i) => patches?.show(weights.slice(i * keys.length, (i + 1) * keys.length), queries[i]);
    const map = heatMap(`${layer.layer}, ${names[state.head]}`, queries, keys, weights, readout, chosen);
    host.replaceChildren(readout, el('div', {class: 'side'}, el('div', {class: 'scroll'}, map), patches?.figure ?? ''));
    chosen(0);
  }
  show();
  const samples = run.attention.map((s) => `${s.number} (${Math.max(...s.tokens.map((t) => t.length))} tokens)`);
  return [el('p', {}, 'Rows are queries, columns are keys. ', run.has_two_stacks ? 'The decoder reads the reference: the query of a row is a token that was read, and the next token is predicted from it. ' : '',
    'Weights from 0 ', el('span', {class: 'scale', 'aria-hidden': 'true'}), ' to 1 (opacity: square root of the weight); empty: exactly 0 (masked).'),
  el('div', {class: 'controls'}, choice('Example', samples, (i) => { state.sample = i; show(); }),
    choice('Layer', run.attention[0].layers.map((layer) => layer.layer), (i) => { state.layer = i; show(); }), heads), host];
}

// ---- Over training

/** Histograms over steps as a picture: a column for each record, the opacity is the share of values. */
function histogramsOverSteps(title, steps, histograms) {
  const found = histograms.map((h, i) => ({h, step: steps[i]})).filter(({h}) => h && h.counts.length && h.low != null);
  if (found.length === 0) return el('p', {}, `${title}: not recorded.`);
  let low = Math.min(...found.map(({h}) => h.low)), high = Math.max(...found.map(({h}) => h.high));
  if (low === high) { low -= 1; high += 1; }
  const left = 66, width = 430, height = 190, bottom = height - 22, last = found[found.length - 1];
  const y = (value) => bottom - (bottom - 6) * (value - low) / (high - low), column = (width - left) / found.length;
  const picture = svg('svg', {role: 'img', width, height, viewBox: `0 0 ${width} ${height}`, style: 'max-width:100%',
    'aria-label': `${title} at ${found.length} validations: from ${short(found[0].h.low)} to ${short(found[0].h.high)} at step ` +
      `${count(found[0].step)}, from ${short(last.h.low)} to ${short(last.h.high)} at step ${count(last.step)}.`});
  const boxes = new Map();  // boxes of the same opacity are one element
  found.forEach(({h}, i) => {
    const most = Math.max(...h.counts), bin = (h.high - h.low) / h.counts.length, across = Math.max(1, column - (column > 4 ? 0.5 : 0)).toFixed(1);
    h.counts.forEach((n, k) => {
      if (n === 0) return;
      const from = y(h.low + bin * (k + 1)), opacity = (Math.ceil(25 * Math.sqrt(n / most)) / 25).toFixed(2);
      const box = `M${(left + column * i).toFixed(1)} ${from.toFixed(1)}h${across}v${Math.max(0.75, y(h.low + bin * k) - from).toFixed(1)}h-${across}z`;
      boxes.set(opacity, (boxes.get(opacity) ?? '') + box);
    });
  });
  for (const [opacity, d] of boxes) picture.append(svg('path', {d, style: 'fill:var(--heat)', 'fill-opacity': opacity}));
  for (const value of ticks(low, high, 5)) picture.append(svg('text', {x: left - 6, y: y(value) + 4, 'text-anchor': 'end'}, short(value)));
  picture.append(svg('text', {x: left, y: height - 6}, `step ${count(found[0].step)}`), svg('text', {x: width, y: height - 6, 'text-anchor': 'end'}, count(last.step)));
  return el('figure', {}, el('figcaption', {}, title), picture);
}

function recordedSamples(samples) {
  const host = el('div', {});
  const show = (i) => {
    const sample = samples[i], rows = [];  // of validations with the same output
    sample.outputs.forEach((output, k) => {
      const before = rows[rows.length - 1];
      if (before && before.output === output) before.last = sample.steps[k];
      else rows.push({output, first: sample.steps[k], last: sample.steps[k]});
    });
    host.replaceChildren(el('p', {}, `Source: ${sample.input}`), el('p', {}, `Reference: ${sample.expected}`),
      table('Output at each validation', [
        {title: 'Step', number: true, cell: (row) => count(row.first) + (row.last > row.first ? ` to ${count(row.last)}` : '')},
        {title: 'Output', text: true, cell: (row) => marked(align(sample.expected, row.output)[1], 'wrong')},
        {title: 'Result', cell: (row) => verdict(row.output === sample.expected)}], rows));
  };
  show(0);
  return [el('h3', {}, 'Outputs'), el('div', {class: 'controls'}, choice('Sample', samples.map((_, i) => String(i + 1)), show)), host];
}

function recordingPart(run) {
  const {recording} = run;
  if (!recording) return el('p', {}, 'The run has recorded no validation.');
  const last = (title, name) => ({title, number: true, cell: (b) => {
    const value = b[name][b[name].length - 1];
    return value == null ? '-' : short(value);
  }});
  const host = el('div', {class: 'gallery'});
  const show = (i) => {
    const block = recording.blocks[i];
    host.replaceChildren(histogramsOverSteps(`Weights of ${block.path}`, block.steps, block.weights), histogramsOverSteps(`Gradients of ${block.path}`, block.steps, block.gradients));
  };
  if (recording.blocks.length) show(0);
  return [recording.samples.length ? recordedSamples(recording.samples) : null,
    el('h3', {}, 'Weights and gradients'),
    table('Blocks at the last validation', [{title: 'Block', cell: (b) => b.path}, last('Update ratio', 'update_ratio'), last('Gradient norm', 'gradient_norm'), last('Weight norm', 'weight_norm')], recording.blocks),
    quiet('Update ratio: the norm of the change of the weights in one step, divided by the norm of the weights. All norms are Euclidean norms over the matrices of a block, at the last step before the validation; gradient norms are from before clipping.'),
    recording.blocks.length ? el('div', {class: 'controls'}, choice('Histograms of', recording.blocks.map((b) => b.path), show)) : null, host];
}

// ---- Weights, history, config

function histogram(s) {
  const width = 170, height = 34, most = Math.max(...s.counts, 1), bar = width / Math.max(s.counts.length, 1);
  const bars = s.counts.map((n, i) => (n === 0 ? '' : `M${(i * bar).toFixed(1)} ${height}V${(height * (1 - n / most)).toFixed(1)}h${Math.max(1, bar - 0.5).toFixed(1)}V${height}z`));
  return svg('svg', {class: 'histogram', role: 'img', width, height, viewBox: `0 0 ${width} ${height}`,
    'aria-label': `from ${short(s.low)} to ${short(s.high)}, mean ${short(s.mean)}, deviation ${short(s.deviation)}`}, svg('path', {d: bars.join('')}));
}

function weightsPart(run) {
  if (!run.weights) return el('p', {}, 'No model: see the notes of the overview.');
  const tensors = run.weights.flatMap((b) => b.parameters), size = (list) => list.reduce((sum, p) => sum + p.statistics.values, 0);
  const frozen = size(tensors.filter((p) => p.frozen));
  const distribution = (get) => [
    {title: 'Norm', number: true, cell: (r) => short(get(r).norm)}, {title: 'RMS', number: true, cell: (r) => short(get(r).rms)},
    {title: 'Smallest', number: true, cell: (r) => short(get(r).low)}, {title: 'Greatest', number: true, cell: (r) => short(get(r).high)},
    {title: 'Histogram', cell: (r) => [histogram(get(r)), get(r).not_finite ? `${count(get(r).not_finite)} not finite` : '']}];
  const detail = (block) => {
    const make = () => table(`Tensors of ${block.path}`, [
      {title: 'Tensor', cell: (p) => p.name + (p.frozen ? ' (frozen)' : '')}, {title: 'Shape', cell: (p) => p.shape.join(' \u00d7 ') || 'scalar'},
      {title: 'Parameters', number: true, cell: (p) => count(p.statistics.values)}, ...distribution((p) => p.statistics)], block.parameters);
    const details = el('details', {ontoggle: () => { if (details.childElementCount === 1) details.append(make()); }},
      el('summary', {}, `${block.path}: ${count(size(block.parameters))} in ${block.parameters.length === 1 ? '1 tensor' : `${block.parameters.length} tensors`}`));
    return details;
  };
  return [el('p', {}, `${count(size(tensors))} parameters in ${count(tensors.length)} tensors${frozen ? `, ${count(frozen)} of them frozen` : ''}, ` +
    `of step ${count(run.checkpoint.step)}. Distributions of a block are those of its matrices.`),
  table('Blocks of the model', [{title: 'Block', cell: (b) => b.path}, {title: 'Parameters', number: true, cell: (b) => count(size(b.parameters))}, ...distribution((b) => b.matrices)], run.weights),
  el('h3', {}, 'Tensors'), run.weights.map(detail)];
}

function historyPart(run) {
  const h = run.history, list = el('ul', {class: 'log'});
  const show = (warnings) => list.replaceChildren(...h.log.filter((line) => !warnings || line.warning).map((line) =>
    el('li', {class: line.warning ? 'warning' : null}, el('time', {}, line.time), line.text)));
  show(false);
  return [
    h.processes.length ? table('Processes that trained the run', [
      {title: 'Started', cell: (p) => p.started}, {title: 'Last step', number: true, cell: (p) => count(p.last_step)},
      {title: 'Threads', number: true, cell: (p) => count(p.threads)}, {title: 'Time', number: true, cell: (p) => duration(p.seconds)}], h.processes) : null,
    h.changes.length ? [el('h3', {}, 'Changes of the run'), el('ul', {}, h.changes.map((line) => el('li', {}, line)))] : null,
    h.log.length ? [el('h3', {}, 'Log'), quiet(`train.log without steps and validations${h.log_lines_left_out ? `; the first ${count(h.log_lines_left_out)} lines are left out` : ''}`),
      el('div', {class: 'controls'}, checkbox('only warnings', false, show)), scrolling('Log', list, 'tall')] : null,
    h.processes.length || h.log.length ? null : el('p', {}, 'The run has no events.jsonl or train.log.')];
}

/** The config with the keys whose values are not the defaults marked. */
function configPart(run) {
  if (!run.config) return el('p', {}, 'The config cannot be read.');
  const changed = new Set(run.changed_keys);
  let group = '';
  const lines = run.config.trimEnd().split('\n').map((text) => {
    const [, indent, key] = /^( *)([^:]*):/.exec(text) ?? [null, '', ''];
    if (indent === '') group = key;
    return [indent !== '' && changed.has(`${group}.${key}`) ? el('mark', {class: 'changed'}, text) : text, '\n'];
  });
  return [el('p', {}, `${count(changed.size)} keys have other values than the defaults: they are `, el('mark', {class: 'changed'}, 'marked'), '.'),
    scrolling('Config', el('pre', {}, lines), 'tall')];
}

// ---- The page

const detailParts = [['Time', timePart], ['Held-out examples', examplesPart], ['Accuracy', accuracyPart], ['Over training', recordingPart],
  ['Attention', attentionPart], ['Weights', weightsPart], ['History', historyPart], ['Config', configPart]];

function addDetails(main) {
  const hosts = detailParts.map(([title]) => {
    const host = el('div', {});
    return [section(title, host), host];
  });
  const show = (i) => detailParts.forEach(([, part], k) => hosts[k][1].replaceChildren(...[part(runs[i])].flat(Infinity).filter((x) => x != null)));
  const best = runs.indexOf(rankedRuns()[0]);
  if (runs.length > 1) main.append(el('div', {class: 'controls'}, choice('Sections below are about the run', runs.map((run) => run.name), show, best)));
  main.append(...hosts.map(([part]) => part));
  show(best);
}

/** Reloads the page while a run is in progress. */
function startReload() {
  if (!runs.some((run) => run.in_progress)) return;
  const box = checkbox('reload every 20 seconds', true, () => {});
  document.getElementById('subtitle').append('. The run is in progress: ', box);
  setInterval(() => { if (box.querySelector('input').checked && !document.hidden) location.reload(); }, 20_000);
}

function build() {
  const names = runs.map((run) => run.name).join(', '), main = document.getElementById('main');
  setTitle(runs.length === 1 ? `Run ${names}` : `${runs.length} runs: ${names}`, `${runs[0].kind ?? ''}; written ${data.time} by ${data.program}`);
  startReload();
  main.append(overviewSection(), curvesSection());
  if (runs.length > 1) main.append(comparisonSection());
  if (data.details) addDetails(main);
  else main.append(el('p', {}, 'Models, examples, attention and logs of the runs are left out: ', code('tapestry report RUN'), ' shows those of a run.'));
  drawCharts();
  performance.mark('charts drawn');  // see tests/report/check_pages.py
  let width = 0;
  new ResizeObserver(() => {
    if (main.clientWidth !== width) { width = main.clientWidth; drawCharts(); }
  }).observe(main);
}

build();
