// The page of `tapestry explain`: draws the data of train/report/computation.h.

// ---- Tensors, and matrices as tables of numbers or as heat maps

const tensors = new Map();
/** {shape, digits, values} of a tensor by its number; what was not computed is NaN. */
function tensor(id) {
  const {shape, digits, values} = data.tensors[id], infinite = {inf: Infinity, '-inf': -Infinity};
  if (!tensors.has(id)) tensors.set(id, Float64Array.from(values, (x) => x === null ? NaN : infinite[x] ?? x));
  return {shape, digits, values: tensors.get(id)};
}

const shapeText = (shape) => `(${shape.join(', ')})`;

/** A number with its stored digits. */
function numberText(x, digits) {
  if (Number.isNaN(x)) return 'not computed';
  if (!Number.isFinite(x)) return x > 0 ? '\u221e' : '\u2212\u221e';
  if (x === 0) return '0';
  const size = Math.abs(x);
  const text = size >= 1e5 || size < 1e-4 ? x.toExponential(digits - 1).replace('e+', 'e') : String(Number(x.toPrecision(digits)));
  return text.replaceAll('-', '\u2212');
}

/** A matrix of a tensor: rows and columns at an offset, a distance from row to row. */
const whole = (id) => {
  const {shape, digits, values} = tensor(id);
  const columns = shape.length ? shape[shape.length - 1] : 1;
  return {values, digits, rows: columns ? values.length / columns : 0, columns, offset: 0, stride: columns};
};
/** Head h of attention scores (1, heads, n_q, n_k). */
const headOf = (id, h) => {
  const {shape, digits, values} = tensor(id), [rows, columns] = shape.slice(-2);
  return {values, digits, rows, columns, offset: h * rows * columns, stride: columns};
};
/** The columns of head h of a tensor (1, n, heads * width). */
const columnsOf = (id, h, heads) => {
  const {shape, digits, values} = tensor(id), width = shape[shape.length - 1];
  return {values, digits, rows: values.length / width, columns: width / heads, offset: h * width / heads, stride: width};
};

const at = (m, i, j) => m.values[m.offset + i * m.stride + j];

function greatest(m) {
  let most = 0;
  for (let i = 0; i < m.rows; ++i) {
    for (let j = 0; j < m.columns; ++j) {
      const size = Math.abs(at(m, i, j));
      if (size > most && size < Infinity) most = size;
    }
  }
  return most;
}

/** A matrix with a title; rowNames and columnNames may be shorter than it, or absent. */
function matrixView(title, m, rowNames, columnNames) {
  const most = greatest(m), strength = (x) => (most && Number.isFinite(x) ? Math.sqrt(Math.abs(x) / most) : 0);
  const readout = el('output', {class: 'readout mono'});
  const name = (names, i) => (names && i < names.length ? `${names[i]} (${i})` : String(i));
  const describe = (i, j) => `row ${name(rowNames, i)}, column ${name(columnNames, j)}: ${numberText(at(m, i, j), m.digits)}`;
  const view = m.columns <= 24 && m.rows * m.columns <= 600
    ? tableOf(m, strength, rowNames, columnNames) : pictureOf(title, m, most, strength, rowNames);
  let chosen = null;
  const choose = (i, j) => {
    chosen = [clamp(i, 0, m.rows - 1), clamp(j, 0, m.columns - 1)];
    view.mark(...chosen);
    readout.textContent = describe(...chosen);
  };
  view.listen(choose);
  const box = scrolling(`${title}: arrow keys choose a number`, view.element);
  onArrows(box, (down, right) => (chosen ? choose(chosen[0] + down, chosen[1] + right) : choose(0, 0)));
  return el('div', {class: 'matrix'},
    el('p', {class: 'name'}, title, ' ', el('span', {class: 'quiet'}, `${m.rows} \u00d7 ${m.columns}`)), box, readout);
}

function tableOf(m, strength, rowNames, columnNames) {
  const shade = (x) => {
    const share = Math.round(45 * strength(x));
    return share ? `background:color-mix(in srgb, var(${x > 0 ? '--positive' : '--negative'}) ${share}%, transparent)` : null;
  };
  const named = (names, i) => names != null && i < names.length;
  const heading = (names, i, scope) => el('th', {scope, title: named(names, i) ? names[i] : null}, named(names, i) ? label(names[i]) : i);
  const cells = [];
  const body = Array.from({length: m.rows}, (_, i) => {
    cells.push(Array.from({length: m.columns}, (_, j) => {
      const x = at(m, i, j);
      return el('td', {style: shade(x)}, Number.isNaN(x) ? '\u2013' : numberText(x, 4));
    }));
    return el('tr', {}, heading(rowNames, i, 'row'), cells[i]);
  });
  const element = el('table', {},
    el('thead', {}, el('tr', {}, el('td', {}), Array.from({length: m.columns}, (_, j) => heading(columnNames, j, 'col')))),
    el('tbody', {}, body));
  let marked = null;
  return {element,
    mark: (i, j) => {
      if (marked) marked.classList.remove('chosen');
      marked = cells[i][j];
      marked.classList.add('chosen');
      marked.scrollIntoView({block: 'nearest', inline: 'nearest'});
    },
    listen: (choose) => cells.forEach((row, i) => row.forEach((cell, j) => cell.addEventListener('pointerenter', () => choose(i, j))))};
}

function pictureOf(title, m, most, strength, rowNames) {
  const across = Math.max(1, Math.min(14, Math.floor(560 / m.columns))), down = m.rows <= 64 ? 16 : 5;
  const width = across * m.columns, height = down * m.rows;
  const canvas = el('canvas', {role: 'img', 'aria-label': `${title}: heat map of ${m.rows} rows and ${m.columns} columns, greatest size ${numberText(most, 4)}`,
    width, height, style: `width:${width}px;height:${height}px`});
  let marked = null;
  const draw = () => {
    const colors = {true: rgbOf('--positive').join(), false: rgbOf('--negative').join()};
    const context = canvas.getContext('2d');
    context.clearRect(0, 0, width, height);
    for (let i = 0; i < m.rows; ++i) {
      for (let j = 0; j < m.columns; ++j) {
        const x = at(m, i, j), alpha = strength(x);
        if (alpha < 0.02) continue;
        context.fillStyle = `rgba(${colors[x > 0]},${alpha.toFixed(2)})`;
        context.fillRect(across * j, down * i, across, down);
      }
    }
    if (!marked) return;
    context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue('--text').trim();
    context.lineWidth = 2;
    context.strokeRect(across * marked[1] - 1, down * marked[0] + 1, across + 2, down - 2);
  };
  draw();
  redrawWithTheme.push(draw);
  const names = down === 16 && rowNames
    ? el('div', {class: 'names mono', 'aria-hidden': 'true'}, Array.from({length: m.rows}, (_, i) =>
      el('div', {style: 'height:16px;line-height:16px', title: rowNames[i] ?? null}, i < rowNames.length ? label(rowNames[i]) : i))) : null;
  return {element: el('div', {class: 'picture'}, names, canvas),
    mark: (i, j) => { marked = [i, j]; draw(); },
    listen: (choose) => canvas.addEventListener('pointermove', (event) => {
      const box = canvas.getBoundingClientRect();
      const j = Math.floor((event.clientX - box.left) / across), i = Math.floor((event.clientY - box.top) / down);
      if (i >= 0 && j >= 0 && i < m.rows && j < m.columns) choose(i, j);
    })};
}

// ---- The steps

/** The names of the rows of a step, or null. */
function rowNames(rows) {
  if (rows === 'patches') return data.tokens.encoder.slice(1);
  return rows ? data.tokens[rows] : null;
}

/** The part of the model that a layer belongs to. */
function groupOf(step) {
  if (data.custom) return step.layer.split('.')[0] || 'Outside of layers';
  const layer = step.layer.match(/^(?:(?:.*\.)?(?:encoder|decoder)\.layers\.\d+|layers\.\d+)/);
  if (layer) return layer[0];
  if (/^source_/.test(step.layer) || (step.operation === 'embedding' && step.rows === 'encoder' && data.has_two_stacks)) return 'Source embedding';
  if (/^target_/.test(step.layer)) return 'Target embedding';
  if (/^(embedding|positions|patches)/.test(step.layer)) return 'Embedding';
  if (/^encoder\.norm/.test(step.layer) && data.has_two_stacks) return 'Encoder output';
  return 'Output and loss';
}

/** The operation in words. */
const titleOf = (step) => step.operation.replaceAll('_', ' ');

/** Steps one after another in the same part of the model: {title, steps: [numbers]}. */
function groupSteps() {
  const groups = [];
  data.steps.forEach((step, i) => {
    const title = groupOf(step), last = groups[groups.length - 1];
    if (last && last.title === title) last.steps.push(i);
    else groups.push({title, steps: [i]});
  });
  return groups;
}

const stepHosts = [];  // per step: its group's details element
const stepId = (i) => `step${i}`;

/** A link to a step, which opens the part of the page that has it. */
function stepLink(i, text) {
  return el('a', {href: `#${stepId(i)}`, onclick: () => { stepHosts[i].open = true; fill(stepHosts[i]); }}, text);
}

/** Contents of details elements that are made when they open. */
const contents = new Map();
function fill(details) {
  const make = contents.get(details);
  if (!make) return;
  contents.delete(details);
  details.append(...[make()].flat(Infinity).filter((part) => part != null));
}
function lazyDetails(summary, make, name = '') {
  const details = el('details', {class: name, ontoggle: () => { if (details.open) fill(details); }}, el('summary', {}, summary));
  contents.set(details, make);
  return details;
}

const facts = (rows) => el('dl', {class: 'facts'}, rows.filter(([, value]) => value != null && value.length !== 0)
  .map(([title, value]) => [el('dt', {}, title), el('dd', {}, value)]));
const joined = (parts, separator = ', ') => parts.flatMap((part, i) => (i ? [separator, part] : [part]));

function inputText(input) {
  const shape = ` ${shapeText(input.shape)}`;
  if (input.step != null) return el('span', {}, stepLink(input.step, `step ${input.step + 1}, ${titleOf(data.steps[input.step])}`), shape);
  if (input.parameter) return el('span', {}, code(input.parameter), shape);
  return `constant${shape}`;
}

/** A parameter with its norm, and its values if the page has them. */
function parameterView(path) {
  const p = data.parameters[path];
  const sizes = `${path} ${shapeText(p.shape)}: norm ${short(p.norm)}, norm of the gradient ${p.gradient_norm == null ? 'none' : short(p.gradient_norm)}`;
  if (p.value == null) return quiet(`${sizes}; too large to be shown.`);
  return lazyDetails(sizes, () => el('div', {class: 'matrices'}, matrixView(path, whole(p.value)),
    p.gradient == null ? null : matrixView(`dL/d ${path}`, whole(p.gradient))));
}

function stepView(i) {
  const step = data.steps[i], names = rowNames(step.rows), output = data.tensors[step.output];
  const parameters = [...new Set(step.inputs.filter((input) => input.parameter).map((input) => input.parameter))];
  const constants = step.inputs.filter((input) => input.constant != null);
  const columns = step.logits ? data.outputs : null;
  const matrices = [
    ...constants.map((input) => matrixView('constant input', whole(input.constant), names)),
    matrixView('output y', whole(step.output), names, columns),
    step.gradient == null ? quiet('The loss does not depend on this output.')
      : matrixView('gradient dL/dy', whole(step.gradient), names, columns)];
  return el('article', {class: 'step', id: stepId(i), tabindex: -1},
    el('h3', {}, `${i + 1}. ${titleOf(step)} `, el('span', {class: 'quiet mono'}, step.layer)),
    step.formula ? el('p', {class: 'formula'}, code(step.formula)) : null,
    facts([
      ['inputs', joined(step.inputs.map(inputText), '; ')],
      ['output', `${shapeText(output.shape)}, ${data.dtype}, ${output.digits} digits`],
      ['backward', step.gradient_formula ? code(step.gradient_formula) : null]]),
    step.attention ? attentionView(step) : el('div', {class: 'matrices'}, matrices),
    parameters.map(parameterView));
}

/** How often steps read the output of step i. */
const uses = (i) => data.steps.reduce((n, step) => n + step.inputs.filter((input) => input.step === i).length, 0);

/** The steps of attention for one head, forward and backward. */
function attentionView(step) {
  const a = step.attention, queries = data.tokens[a.queries], keys = data.tokens[a.keys];
  const [q, k, v] = step.inputs.map((input) => data.steps[input.step]);
  const host = el('div', {});
  const part = (title, formula, ...views) => [el('h4', {}, title, ': ', code(formula)), el('div', {class: 'matrices'}, views)];
  // A step that several operations read has the sum of their gradients.
  const gradientName = (letter, from) => (uses(data.steps.indexOf(from)) === 1 ? `dL/d${letter}` : `dL/d${letter} of all that read it`);
  const operand = (letter, from, h, names) => [
    matrixView(`${letter}, head ${h}`, columnsOf(from.output, h, a.heads), names),
    from.gradient == null ? null : matrixView(`${gradientName(letter, from)}, head ${h}`, columnsOf(from.gradient, h, a.heads), names)];
  const scores = (title, id, h) => (id == null ? null : matrixView(title, headOf(id, h), queries, keys));
  function show(h) {
    const parts = [];
    if (q && k && v) {
      parts.push(part('Queries, keys and values of the head', 'the columns of the head',
        operand('Q', q, h, queries), operand('K', k, h, keys), operand('V', v, h, keys)));
    }
    parts.push(
      part('Scores before scaling', 'S, the products in the formula above', scores('S', a.products, h)),
      part('Scaled scores', `S \u00b7 ${short(a.scale)}`, scores('scaled', a.scores, h),
        scores('dL/d scaled', a.dscores, h)),
      a.biased == null ? null : part('ALiBi', 'scaled \u2212 slope \u00b7 |i \u2212 j|', scores('with distances', a.biased, h)),
      part('Mask', '\u2212\u221e where a query may not attend to a key', scores('masked', a.masked, h)),
      part('Weights', 'P = softmax(masked), row by row; dL/dscaled = P \u00b7 (dL/dP \u2212 \u03a3\u2c7c P \u00b7 dL/dP)', scores('P', a.weights, h),
        scores('dL/dP = dL/dy V\u1d40', a.dweights, h)),
      part('Weighted sum of the values', 'y = P V', matrixView(`y, head ${h}`, columnsOf(step.output, h, a.heads), queries),
        step.gradient == null ? null : matrixView(`dL/dy, head ${h}`, columnsOf(step.gradient, h, a.heads), queries)));
    host.replaceChildren(...parts.flat(Infinity).filter((x) => x != null));
  }
  show(0);
  const heads = Array.from({length: a.heads}, (_, h) => `head ${h}`);
  return [el('div', {class: 'controls'}, choice('Head', heads, show)), host];
}

// ---- The input and the predictions

function imageView(image) {
  const cell = Math.max(1, Math.floor(224 / Math.max(image.height, image.width)));
  const canvas = el('canvas', {role: 'img', 'aria-label': `Image of ${image.height} by ${image.width} pixels`,
    width: image.width * cell, height: image.height * cell});
  const context = canvas.getContext('2d');
  let low = Infinity, high = -Infinity;
  for (const p of image.pixels) { low = Math.min(low, p); high = Math.max(high, p); }
  const level = (p) => Math.round(255 * (high > low ? (p - low) / (high - low) : 0));
  for (let i = 0; i < image.height * image.width; ++i) {
    const channel = (c) => level(image.pixels[i * image.channels + Math.min(c, image.channels - 1)]);
    context.fillStyle = `rgb(${channel(0)},${channel(1)},${channel(2)})`;
    context.fillRect((i % image.width) * cell, Math.floor(i / image.width) * cell, cell, cell);
  }
  return el('figure', {}, canvas, el('figcaption', {}, `${image.height} \u00d7 ${image.width} pixels, patches of ${image.patch_size} \u00d7 ${image.patch_size}`));
}

function tokenTable(caption, tokens) {
  return table(caption, [
    {title: 'position', number: true, cell: ([, i]) => i},
    {title: 'token', cell: ([t]) => el('span', {class: 'mono'}, t.token)},
    {title: 'id', number: true, cell: ([t]) => t.id}], tokens.map((t, i) => [t, i]));
}

const likely = (p) => el('span', {}, el('span', {class: 'mono'}, p.token), ` ${percent(p.probability)}`);

function inputSection() {
  const {source, target, image} = data.input;
  return section('Input', el('div', {class: 'side'},
    source ? tokenTable(target ? 'Source' : 'Tokens', source) : null,
    target ? tokenTable(source ? 'Target, as the decoder reads it' : 'Tokens', target) : null,
    image ? imageView(image) : null));
}

function predictionSection() {
  const read = data.input.target, several = data.predictions.length > 1;
  const columns = [
    {title: several ? (data.causal ? 'after' : 'at') : 'output', cell: ([, i]) => el('span', {class: 'mono'}, several && read ? read[i].token : several ? i : 'input')},
    {title: 'label', cell: ([p]) => (p.label ? el('span', {class: 'mono'}, p.label.token) : 'none')},
    {title: 'p(label)', number: true, cell: ([p]) => (p.label ? numberText(p.label.probability, 6) : '')},
    {title: '\u2212log p(label)', number: true, cell: ([p]) => (p.label ? numberText(p.label.loss, 6) : '')},
    {title: 'most likely', cell: ([p]) => joined(p.top.map(likely))}];
  return section('Prediction and loss',
    el('p', {}, `Labels: ${data.labels}. Loss: `, el('b', {}, data.loss == null ? 'not finite' : numberText(data.loss, 6)),
      ', see ', stepLink(data.steps.length - 1, 'its formula'), '. ',
      'Probabilities and losses of the table are computed in float64 from the logits of the model.'),
    table('', columns, data.predictions.map((p, i) => [p, i])));
}

function groupSection({title, steps}) {
  const summary = `${steps.length} ${steps.length === 1 ? 'step' : 'steps'}: ${[...new Set(steps.map((i) => titleOf(data.steps[i])))].join(', ')}`;
  const details = lazyDetails(summary, () => steps.map(stepView), 'group');
  for (const i of steps) stepHosts[i] = details;
  return section(title, details);
}

function build() {
  setTitle('One input through a model', `${data.model} (${data.kind}, ${data.dtype}); written ${data.time} by ${data.program}`);
  const main = document.getElementById('main');
  const toggle = (open) => () => document.querySelectorAll('details.group').forEach((d) => { d.open = open; });
  main.append(
    el('p', {}, 'Every number is one that the model has computed for this input, without dropout and label smoothing, ',
      'or the gradient of the loss below with respect to it. Colors: ', el('span', {class: 'scale signed', 'aria-hidden': 'true'}),
      ' negative to positive, intensity: square root of |value| / largest |value| of the matrix. ',
      'Point at a number, or choose one with the arrow keys, to see its digits.'),
    inputSection(), predictionSection(),
    el('div', {class: 'controls'}, el('button', {type: 'button', onclick: toggle(true)}, 'Open all steps'),
      el('button', {type: 'button', onclick: toggle(false)}, 'Close all steps'),
      el('span', {class: 'quiet'}, 'Only open steps are printed.')));
  const groups = groupSteps();
  main.append(...groups.map(groupSection));
  const first = Math.max(0, groups.findIndex(({title}) => /layers\.\d+$/.test(title)));
  groups.slice(0, first + 1).forEach(({steps}) => { stepHosts[steps[0]].open = true; fill(stepHosts[steps[0]]); });
}

build();
