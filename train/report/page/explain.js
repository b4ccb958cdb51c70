// SPDX-License-Identifier: BSD-3-Clause
// The page of `tapestry explain`. For the data see train/report/computation.h.

// ---- Tensors, and matrices as tables of numbers or as heat maps

const tensors = new Map();
/** {shape, digits, values} of a tensor by its index. Values that were not computed are NaN. */
function tensor(id) {
  const {shape, digits, values} = data.tensors[id], infinite = {inf: Infinity, '-inf': -Infinity};
  if (!tensors.has(id)) {
    const numbers = Float64Array.from(values, (x) => (x === null ? NaN : infinite[x] ?? x));
    tensors.set(id, numbers);
  }
  return {shape, digits, values: tensors.get(id)};
}

const shapeText = (shape) => `(${shape.join(', ')})`;

/** A number with its stored digits. */
function numberText(x, digits) {
  if (Number.isNaN(x)) return 'not computed';
  if (!Number.isFinite(x)) return x > 0 ? '\u221e' : '\u2212\u221e';
  if (x === 0) return '0';
  const size = Math.abs(x);
  const exponential = size >= 1e5 || size < 1e-4;
  const text = exponential ? x.toExponential(digits - 1).replace('e+', 'e')
    : String(Number(x.toPrecision(digits)));
  return text.replaceAll('-', '\u2212');
}

/** A view of a tensor as a matrix: rows, columns, offset and stride from row to row. */
const whole = (id) => {
  const {shape, digits, values} = tensor(id);
  const columns = shape.length ? shape[shape.length - 1] : 1;
  const rows = columns ? values.length / columns : 0;
  return {values, digits, rows, columns, offset: 0, stride: columns};
};
/** Head h of attention scores (1, heads, n_q, n_k). */
const headOf = (id, h) => {
  const {shape, digits, values} = tensor(id), [rows, columns] = shape.slice(-2);
  return {values, digits, rows, columns, offset: h * rows * columns, stride: columns};
};
/** The columns of head h of a tensor (1, n, heads * width). */
const columnsOf = (id, h, heads) => {
  const {shape, digits, values} = tensor(id), width = shape[shape.length - 1];
  const rows = values.length / width, columns = width / heads;
  return {values, digits, rows, columns, offset: h * columns, stride: width};
};

const at = (m, i, j) => m.values[m.offset + i * m.stride + j];

/** The largest finite absolute value of a matrix. */
function maxAbs(m) {
  let max = 0;
  for (let i = 0; i < m.rows; ++i) {
    for (let j = 0; j < m.columns; ++j) {
      const size = Math.abs(at(m, i, j));
      if (size > max && size < Infinity) max = size;
    }
  }
  return max;
}

/** A matrix with a title. rowNames and columnNames may be absent or shorter than the matrix. */
function matrixView(title, m, rowNames, columnNames) {
  const max = maxAbs(m);
  const strength = (x) => (max && Number.isFinite(x) ? Math.sqrt(Math.abs(x) / max) : 0);
  const readout = el('output', {class: 'readout mono'});
  const name = (names, i) => (names && i < names.length ? `${names[i]} (${i})` : String(i));
  const describe = (i, j) => `row ${name(rowNames, i)}, column ${name(columnNames, j)}: ` +
    numberText(at(m, i, j), m.digits);
  const isSmall = m.columns <= 24 && m.rows * m.columns <= 600;
  const view = isSmall ? tableOf(m, strength, rowNames, columnNames)
    : pictureOf(title, m, max, strength, rowNames);
  let chosen = null;
  const choose = (i, j) => {
    chosen = [clamp(i, 0, m.rows - 1), clamp(j, 0, m.columns - 1)];
    view.mark(...chosen);
    readout.textContent = describe(...chosen);
  };
  view.listen(choose);
  const box = scrolling(`${title}: arrow keys choose a number`, view.element);
  onArrows(box, (down, right) =>
    (chosen ? choose(chosen[0] + down, chosen[1] + right) : choose(0, 0)));
  const size = el('span', {class: 'quiet'}, `${m.rows} \u00d7 ${m.columns}`);
  return el('div', {class: 'matrix'}, el('p', {class: 'name'}, title, ' ', size), box, readout);
}

function tableOf(m, strength, rowNames, columnNames) {
  const shade = (x) => {
    const share = Math.round(45 * strength(x)), color = x > 0 ? '--positive' : '--negative';
    return share ? `background:color-mix(in srgb, var(${color}) ${share}%, transparent)` : null;
  };
  const heading = (names, i, scope) => {
    const named = names != null && i < names.length;
    return el('th', {scope, title: named ? names[i] : null}, named ? label(names[i]) : i);
  };
  const cells = [];
  const body = Array.from({length: m.rows}, (_, i) => {
    cells.push(Array.from({length: m.columns}, (_, j) => {
      const x = at(m, i, j);
      return el('td', {style: shade(x)}, Number.isNaN(x) ? '\u2013' : numberText(x, 4));
    }));
    return el('tr', {}, heading(rowNames, i, 'row'), cells[i]);
  });
  const head = Array.from({length: m.columns}, (_, j) => heading(columnNames, j, 'col'));
  const element = el('table', {}, el('thead', {}, el('tr', {}, el('td', {}), head)),
    el('tbody', {}, body));
  let marked = null;
  const mark = (i, j) => {
    if (marked) marked.classList.remove('chosen');
    marked = cells[i][j];
    marked.classList.add('chosen');
    marked.scrollIntoView({block: 'nearest', inline: 'nearest'});
  };
  const listen = (choose) => cells.forEach((row, i) => row.forEach((cell, j) =>
    cell.addEventListener('pointerenter', () => choose(i, j))));
  return {element, mark, listen};
}

/** The names of the rows, to the left of a heat map. */
function rowNamesOf(m, rowNames) {
  const style = 'height:16px;line-height:16px';
  const names = Array.from({length: m.rows}, (_, i) =>
    el('div', {style, title: rowNames[i] ?? null}, i < rowNames.length ? label(rowNames[i]) : i));
  return el('div', {class: 'names mono', 'aria-hidden': 'true'}, names);
}

function pictureOf(title, m, max, strength, rowNames) {
  const across = Math.max(1, Math.min(14, Math.floor(560 / m.columns)));
  const down = m.rows <= 64 ? 16 : 5, width = across * m.columns, height = down * m.rows;
  const canvas = el('canvas', {
    role: 'img',
    'aria-label': `${title}: heat map of ${m.rows} rows and ${m.columns} columns, ` +
      `largest absolute value ${numberText(max, 4)}`,
    width, height,
    style: `width:${width}px;height:${height}px`,
  });
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
    const style = getComputedStyle(document.documentElement);
    context.strokeStyle = style.getPropertyValue('--text').trim();
    context.lineWidth = 2;
    context.strokeRect(across * marked[1] - 1, down * marked[0] + 1, across + 2, down - 2);
  };
  draw();
  redrawWithTheme.push(draw);
  const names = down === 16 && rowNames ? rowNamesOf(m, rowNames) : null;
  const mark = (i, j) => { marked = [i, j]; draw(); };
  const listen = (choose) => canvas.addEventListener('pointermove', (event) => {
    const box = canvas.getBoundingClientRect();
    const i = Math.floor((event.clientY - box.top) / down);
    const j = Math.floor((event.clientX - box.left) / across);
    if (i >= 0 && j >= 0 && i < m.rows && j < m.columns) choose(i, j);
  });
  const legend = el('figcaption', {}, `${numberText(-max, 4)} `,
    el('span', {class: 'scale signed', 'aria-hidden': 'true'}), ` ${numberText(max, 4)}`);
  const picture = el('div', {class: 'picture'}, names, canvas);
  return {element: el('figure', {}, picture, legend), mark, listen};
}

// ---- The steps

/** The names of the rows of a step, or null. */
function rowNames(rows) {
  if (rows === 'patches') return data.tokens.encoder.slice(1);
  return rows ? data.tokens[rows] : null;
}

/** The part of the model that a layer belongs to. */
function groupOf(step) {
  if (data.custom) return step.layer.split('.')[0] || 'Outside layers';
  const layer = step.layer.match(/^(?:(?:.*\.)?(?:encoder|decoder)\.layers\.\d+|layers\.\d+)/);
  if (layer) return layer[0];
  const embedsSource =
    step.operation === 'embedding' && step.rows === 'encoder' && data.has_two_stacks;
  if (/^source_/.test(step.layer) || embedsSource) return 'Source embedding';
  if (/^target_/.test(step.layer)) return 'Target embedding';
  if (/^(embedding|positions|patches)/.test(step.layer)) return 'Embedding';
  if (/^encoder\.norm/.test(step.layer) && data.has_two_stacks) return 'Encoder output';
  return 'Output and loss';
}

/** The operation in words. */
const titleOf = (step) => step.operation.replaceAll('_', ' ');

/** What a step is for, by its operation and layer: the first match. */
const purposes = [
  [/embedding/, /./, 'Looks up a vector for each token.'],
  [/add/, /positions/, 'Adds a vector for each position: attention alone does not know the order.'],
  [/add|residual/, /residual/, 'Adds the result to the input of the block, so that gradients also ' +
    'reach earlier layers past the block.'],
  [/layer_norm/, /./, 'Gives each vector mean 0 and variance 1, then scales and shifts it.'],
  [/rms_norm/, /./, 'Scales each vector to the same size.'],
  [/linear/, /q_proj/, 'Computes the queries: what each token looks for.'],
  [/linear/, /k_proj/, 'Computes the keys: what each token can be found by.'],
  [/linear/, /v_proj/, 'Computes the values: what each token passes on.'],
  [/attention/, /cross_attn/, 'Each token of the decoder collects the values of the encoder ' +
    'tokens whose keys fit its query.'],
  [/attention/, /./, 'Each token collects the values of the tokens whose keys fit its query.'],
  [/linear/, /out_proj/, 'Mixes the results of all heads.'],
  [/linear/, /ff\.linear1/, 'Maps each vector to more features, for the activation.'],
  [/linear/, /ff\.linear2/, 'Maps each vector back to the width of the model.'],
  [/relu|gelu|silu|glu/, /./, 'Makes the block nonlinear; otherwise two linear maps would be one.'],
  [/linear/, /^output/, 'Computes a score (logit) for each entry of the vocabulary or each class.'],
  [/cross_entropy/, /./, 'Measures how improbable the labels are. Training minimizes this loss.']];
const purposeOf = ({operation, layer}) =>
  purposes.find(([name, place]) => name.test(operation) && place.test(layer))?.[2];

/** Consecutive steps in the same part of the model: {title, steps: [indices]}. */
function groupSteps() {
  const groups = [];
  data.steps.forEach((step, i) => {
    const title = groupOf(step), last = groups[groups.length - 1];
    if (last && last.title === title) last.steps.push(i);
    else groups.push({title, steps: [i]});
  });
  return groups;
}

const stepHosts = [];  // for each step, the details element of its group
const stepId = (i) => `step${i}`;

/** A link to a step, which opens its part of the page. */
function stepLink(i, text) {
  return el('a', {href: `#${stepId(i)}`, onclick: () => openStep(i)}, text);
}

function openStep(i) {
  stepHosts[i].open = true;
  fill(stepHosts[i]);
}

// ---- The map of the model

const mapPlaces = new Map();  // for each step, the elements of the map that show it
const partNames = {self_attn: 'self-attention', cross_attn: 'cross-attention', ff: 'feed-forward'};

/** The part of a group that a step belongs to: a block of a layer, otherwise the operation. */
function partOf(step, title) {
  if (!step.layer.startsWith(`${title}.`)) return titleOf(step);
  const name = step.layer.slice(title.length + 1).split('.')[0].replace(/_residual$/, '');
  return Object.hasOwn(partNames, name) ? partNames[name] : name || titleOf(step);
}

/** Consecutive steps in the same part of a group: {name, steps: [indices]}. */
function partsOf({title, steps}) {
  const parts = [];
  for (const i of steps) {
    const name = partOf(data.steps[i], title), last = parts[parts.length - 1];
    if (last && last.name === name) last.steps.push(i);
    else parts.push({name, steps: [i]});
  }
  return parts;
}

const isOfEncoder = ({title}) => data.has_two_stacks && /encoder|source/i.test(title);

/** The layers of the model in their order, with links to their steps: a column for the encoder and
 * one for the decoder. Layers with the same parts as the layer before have no list of parts. */
function modelMap(groups) {
  const groupOfStep = new Map();
  for (const group of groups) for (const i of group.steps) groupOfStep.set(i, group);
  const place = (made, steps) => {
    for (const i of steps) mapPlaces.set(i, [...(mapPlaces.get(i) ?? []), made]);
    return made;
  };
  /** The groups of the encoder that a part of the decoder reads. */
  const sources = (group, steps) => {
    const read = steps.flatMap((i) => data.steps[i].inputs).filter(({step}) => step != null)
      .map(({step}) => groupOfStep.get(step));
    return [...new Set(read)].filter((from) => isOfEncoder(from) && !isOfEncoder(group));
  };
  const arrow = (from) => el('span', {class: 'quiet'}, ` \u2190 ${from.title}`);
  const column = (stack) => {
    let before = '';
    return el('ol', {}, stack.map((group) => {
      const parts = partsOf(group), names = parts.map(({name}) => name).join();
      const isRepeated = names === before && parts.length > 1;
      before = names;
      const list = parts.map(({name, steps}) => el('li', {},
        place(stepLink(steps[0], name), steps), sources(group, steps).map(arrow)));
      return place(el('li', {}, stepLink(group.steps[0], group.title),
        isRepeated ? null : el('ul', {}, list)), group.steps);
    }));
  };
  const stacks = [groups.filter(isOfEncoder), groups.filter((group) => !isOfEncoder(group))];
  return el('nav', {class: 'map', 'aria-label': 'Map of the model'},
    stacks.filter((stack) => stack.length).map(column));
}

let markedPlaces = [];
/** Marks the place of a step on the map. */
function markOnMap(i) {
  for (const place of markedPlaces) place.removeAttribute('aria-current');
  markedPlaces = mapPlaces.get(i) ?? [];
  for (const place of markedPlaces) place.setAttribute('aria-current', 'step');
}

/** Marks the step that is read: the one in the upper part of the window. */
const readSteps = new IntersectionObserver((entries) => {
  const read = entries.find((entry) => entry.isIntersecting);
  if (read) markOnMap(Number(read.target.id.slice(stepId('').length)));
}, {rootMargin: '-15% 0px -75% 0px'});

/** Functions that make the content of details elements when these open. */
const contents = new Map();
function fill(details) {
  const make = contents.get(details);
  if (!make) return;
  contents.delete(details);
  details.append(...[make()].flat(Infinity).filter((part) => part != null));
}
function lazyDetails(summary, make, name = '') {
  const ontoggle = () => { if (details.open) fill(details); };
  const details = el('details', {class: name, ontoggle}, el('summary', {}, summary));
  contents.set(details, make);
  return details;
}

/** A list of titles and values. Leaves out titles without a value. */
function facts(rows) {
  const known = rows.filter(([, value]) => value != null && value.length !== 0);
  return el('dl', {class: 'facts'},
    known.map(([title, value]) => [el('dt', {}, title), el('dd', {}, value)]));
}

const joined = (parts, separator = ', ') =>
  parts.flatMap((part, i) => (i ? [separator, part] : [part]));

function inputText(input) {
  const shape = ` ${shapeText(input.shape)}`;
  if (input.step != null) {
    const text = `step ${input.step + 1}, ${titleOf(data.steps[input.step])}`;
    return el('span', {}, stepLink(input.step, text), shape);
  }
  if (input.parameter) return el('span', {}, code(input.parameter), shape);
  return `constant${shape}`;
}

/** A parameter with its norm, and its values if the page has them. */
function parameterView(path) {
  const p = data.parameters[path];
  const gradient =
    p.gradient_norm == null ? 'no gradient' : `gradient norm ${short(p.gradient_norm)}`;
  const sizes = `${path} ${shapeText(p.shape)}: norm ${short(p.norm)}, ${gradient}`;
  if (p.value == null) return quiet(`${sizes}; too large to show.`);
  return lazyDetails(sizes, () => el('div', {class: 'matrices'}, matrixView(path, whole(p.value)),
    p.gradient == null ? null : matrixView(`dL/d ${path}`, whole(p.gradient))));
}

function stepView(i) {
  const step = data.steps[i], names = rowNames(step.rows), output = data.tensors[step.output];
  const named = step.inputs.filter((input) => input.parameter);
  const parameters = [...new Set(named.map((input) => input.parameter))];
  const constants = step.inputs.filter((input) => input.constant != null);
  const columns = step.logits ? data.outputs : null;
  const layer = step.layer.replace(/\.dropout$/, '');  // dropout is disabled
  const matrices = [
    ...constants.map((input) => matrixView('constant input', whole(input.constant), names)),
    matrixView('output y', whole(step.output), names, columns),
    step.gradient == null ? quiet('The loss does not depend on this output.')
      : matrixView('gradient dL/dy', whole(step.gradient), names, columns)];
  const article = el('article', {class: 'step', id: stepId(i), tabindex: -1},
    el('h3', {}, `${i + 1}. ${titleOf(step)} `, el('span', {class: 'quiet mono'}, layer)),
    purposeOf(step) ? el('p', {}, purposeOf(step)) : null,
    step.formula ? el('p', {class: 'formula'}, code(step.formula)) : null,
    facts([
      ['inputs', joined(step.inputs.map(inputText), '; ')],
      ['output', `${shapeText(output.shape)}, ${data.dtype}, ${output.digits} digits`],
      ['backward', step.gradient_formula ? code(step.gradient_formula) : null]]),
    step.attention ? attentionView(step) : el('div', {class: 'matrices'}, matrices),
    parameters.map(parameterView));
  readSteps.observe(article);
  return article;
}

/** The number of inputs of steps that are the output of step i. */
const uses = (i) =>
  data.steps.flatMap((step) => step.inputs).filter((input) => input.step === i).length;

/** The intermediate values of attention for one head, forward and backward. */
function attentionView(step) {
  const a = step.attention, queries = data.tokens[a.queries], keys = data.tokens[a.keys];
  const [q, k, v] = step.inputs.map((input) => data.steps[input.step]);
  const host = el('div', {});
  const part = (title, formula, ...views) =>
    [el('h4', {}, title, ': ', code(formula)), el('div', {class: 'matrices'}, views)];
  const ofHead = (title, id, h, names) =>
    (id == null ? null : matrixView(`${title}, head ${h}`, columnsOf(id, h, a.heads), names));
  const operand = (letter, from, h, names) => {
    // If several operations read an output, its gradient is the sum of their gradients.
    const sum = uses(data.steps.indexOf(from)) === 1 ? '' : ', summed over all uses';
    return [ofHead(letter, from.output, h, names),
      ofHead(`dL/d${letter}${sum}`, from.gradient, h, names)];
  };
  const scores = (title, id, h) =>
    (id == null ? null : matrixView(title, headOf(id, h), queries, keys));
  function show(h) {
    const parts = [];
    if (q && k && v) {
      parts.push(part('Queries, keys and values', 'the columns of this head',
        operand('Q', q, h, queries), operand('K', k, h, keys), operand('V', v, h, keys)));
    }
    parts.push(
      part('Scores before scaling', 'S, which the formula multiplies by scale',
        scores('S', a.products, h)),
      part('Scaled scores', `S \u00b7 ${short(a.scale)}`, scores('scaled', a.scores, h),
        scores('dL/d scaled', a.dscores, h)),
      a.biased == null ? null : part('ALiBi', 'scaled \u2212 slope \u00b7 |i \u2212 j|',
        scores('with distances', a.biased, h)),
      part('Mask', '\u2212\u221e where a query may not attend to a key',
        scores('masked', a.masked, h)),
      part('Weights', 'P = softmax(masked), row by row; ' +
        'dL/dscaled = P \u00b7 (dL/dP \u2212 \u03a3\u2c7c P \u00b7 dL/dP)',
      scores('P', a.weights, h), scores('dL/dP = dL/dy V\u1d40', a.dweights, h)),
      part('Weighted sum of the values', 'y = P V', ofHead('y', step.output, h, queries),
        ofHead('dL/dy', step.gradient, h, queries)));
    host.replaceChildren(...parts.flat(Infinity).filter((x) => x != null));
  }
  show(0);
  const heads = Array.from({length: a.heads}, (_, h) => `head ${h}`);
  return [el('div', {class: 'controls'}, choice('Head', heads, show)), host];
}

// ---- The input and the predictions

function imageView(image) {
  const cell = Math.max(1, Math.floor(224 / Math.max(image.height, image.width)));
  const canvas = el('canvas', {
    role: 'img',
    'aria-label': `Image of ${image.height} by ${image.width} pixels`,
    width: image.width * cell,
    height: image.height * cell,
  });
  const context = canvas.getContext('2d');
  let low = Infinity, high = -Infinity;
  for (const p of image.pixels) { low = Math.min(low, p); high = Math.max(high, p); }
  const level = (p) => Math.round(255 * (high > low ? (p - low) / (high - low) : 0));
  for (let i = 0; i < image.height * image.width; ++i) {
    const first = i * image.channels, last = image.channels - 1;
    const channel = (c) => level(image.pixels[first + Math.min(c, last)]);
    context.fillStyle = `rgb(${channel(0)},${channel(1)},${channel(2)})`;
    context.fillRect((i % image.width) * cell, Math.floor(i / image.width) * cell, cell, cell);
  }
  const text = `${image.height} \u00d7 ${image.width} pixels, ` +
    `patches of ${image.patch_size} \u00d7 ${image.patch_size}`;
  return el('figure', {}, canvas, el('figcaption', {}, text));
}

function tokenTable(caption, tokens) {
  return table(caption, [
    {title: 'position', number: true, cell: ([, i]) => i},
    {title: 'token', cell: ([t]) => el('span', {class: 'mono'}, t.token)},
    {title: 'id', number: true, cell: ([t]) => t.id}], tokens.map((t, i) => [t, i]));
}

const mono = (text) => el('span', {class: 'mono'}, text);
const likely = (p) => el('span', {}, mono(p.token), ` ${percent(p.probability)}`);

function inputSection() {
  const {source, target, image} = data.input;
  return section('Input', el('div', {class: 'side'},
    source ? tokenTable(target ? 'Encoder input' : 'Tokens', source) : null,
    target ? tokenTable(source ? 'Decoder input' : 'Tokens', target) : null,
    image ? imageView(image) : null));
}

function predictionSection() {
  const read = data.input.target, several = data.predictions.length > 1;
  const place = several ? (data.causal ? 'after token' : 'at token') : 'output for';
  const placeText = (i) => (!several ? 'input' : read ? read[i].token : i);
  const ofLabel = (key) => ([{label}]) => (label ? numberText(label[key], 6) : '');
  const columns = [
    {title: place, cell: ([, i]) => mono(placeText(i))},
    {title: 'label', cell: ([{label}]) => (label ? mono(label.token) : 'none')},
    {title: 'p(label)', number: true, cell: ofLabel('probability')},
    {title: '\u2212log p(label)', number: true, cell: ofLabel('loss')},
    {title: 'most likely predictions', cell: ([p]) => joined(p.top.map(likely))}];
  const loss = data.loss == null ? 'not finite' : numberText(data.loss, 6);
  return section('Prediction and loss',
    el('p', {}, `Labels: ${data.labels}. Loss: `, el('b', {}, loss),
      ', see ', stepLink(data.steps.length - 1, 'its formula'), '. ',
      'The table computes probabilities and losses in float64 from the logits of the model.'),
    table('', columns, data.predictions.map((p, i) => [p, i])));
}

function groupSection({title, steps}) {
  const titles = [...new Set(steps.map((i) => titleOf(data.steps[i])))].join(', ');
  const summary = `${steps.length} ${steps.length === 1 ? 'step' : 'steps'}: ${titles}`;
  const details = lazyDetails(summary, () => steps.map(stepView), 'group');
  for (const i of steps) stepHosts[i] = details;
  return section(title, details);
}

function build() {
  setTitle(`One input through ${data.model.split('/checkpoints/')[0]}`,
    `${data.model} (${data.kind}, ${data.dtype}); ` +
    `written ${data.time} by ${data.program}`);
  const main = document.getElementById('main'), groups = groupSteps();
  const toggle = (open) => () => {
    for (const details of document.querySelectorAll('details.group')) details.open = open;
  };
  main.append(
    data.text ? el('p', {class: 'sentence'}, data.text) : '',
    el('p', {},
      'The forward pass of one input, operation by operation, with the gradient of the loss with ',
      'respect to each output. Dropout and label smoothing are off. Colors: negative ',
      el('span', {class: 'scale signed', 'aria-hidden': 'true'}),
      ' positive; the intensity is the square root of |value| / max |value| of the matrix. ',
      'Point at a number, or choose one with the arrow keys, to see its digits.'),
    el('div', {class: 'with-map'}, modelMap(groups), el('div', {},
      inputSection(), predictionSection(),
      el('div', {class: 'controls'},
        el('button', {type: 'button', onclick: toggle(true)}, 'Open all steps'),
        el('button', {type: 'button', onclick: toggle(false)}, 'Close all steps'),
        el('span', {class: 'quiet'}, 'Only open steps are printed.')),
      groups.map(groupSection))));
  const first = Math.max(0, groups.findIndex(({title}) => /layers\.\d+$/.test(title)));
  groups.slice(0, first + 1).forEach(({steps}) => openStep(steps[0]));
}

build();
