// SPDX-License-Identifier: BSD-3-Clause
// Held-out examples, accuracy and attention of a run on the page of `tapestry report`.

// ---- Examples

/** The lengths of the longest common subsequences of the ends of two lists of words. */
function commonLengths(x, y) {
  const lengths = Array.from({length: x.length + 1}, () => new Uint16Array(y.length + 1));
  for (let i = x.length - 1; i >= 0; --i) {
    for (let j = y.length - 1; j >= 0; --j) {
      lengths[i][j] = x[i] === y[j] ? lengths[i + 1][j + 1] + 1
        : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
    }
  }
  return lengths;
}

/** The words of two texts as lists of [word, common]. The common words are a longest common
 * subsequence. */
function align(a, b) {
  const [x, y] = [a, b].map((text) => text.split(/\s+/).filter(Boolean).slice(0, 400));
  const lengths = commonLengths(x, y);
  const left = x.map((word) => [word, false]), right = y.map((word) => [word, false]);
  for (let i = 0, j = 0; i < x.length && j < y.length;) {
    if (x[i] === y[j]) left[i++][1] = right[j++][1] = true;
    else if (lengths[i + 1][j] >= lengths[i][j + 1]) ++i;
    else ++j;
  }
  return [left, right];
}

const marked = (words, name) =>
  words.flatMap(([word, common]) => [common ? word : el('mark', {class: name}, word), ' ']);
const isRight = (example) => example.output === example.expected;
const verdict = (right) =>
  el('span', {class: `verdict ${right ? 'yes' : 'no'}`}, right ? 'correct' : 'wrong');

/** The image as a canvas of the given width in CSS pixels. */
function imageCanvas(image, width, text) {
  const shownHeight = Math.round(width * image.height / image.width);
  const canvas = el('canvas', {
    width: image.width,
    height: image.height,
    role: 'img',
    'aria-label': text,
    style: `width:${width}px;height:${shownHeight}px`,
  });
  const context = canvas.getContext('2d');
  const pixels = context.createImageData(image.width, image.height);
  const bytes = Uint8Array.from(atob(image.bytes), (c) => c.charCodeAt(0)), n = image.channels;
  for (let i = 0; i < image.width * image.height; ++i) {
    for (let k = 0; k < 3; ++k) pixels.data[4 * i + k] = bytes[i * n + (n >= 3 ? k : 0)];
    pixels.data[4 * i + 3] = 255;
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

const shownTokens = new Map([['<newline>', '\u23ce\n'], ['<space>', ' ']]);

/** A token, colored more strongly the less probable it is for the model. */
function tokenSpan([expected, predicted, probability]) {
  const known = predicted !== '';
  const surprise = known ? Math.min(1, -Math.log(Math.max(probability, 1e-9)) / 5) : 0;
  const strength = Math.round(100 * surprise);
  const likely = `most likely ${JSON.stringify(predicted)}`;
  return el('span', {
    class: `token${known && predicted !== expected ? ' wrong' : ''}`,
    title: known ? `probability ${percent(probability, 2)}, ${likely}` : 'not predicted',
    style: `background:color-mix(in srgb, var(--error-fill) ${strength}%, transparent)`,
  }, shownTokens.get(expected) ?? expected.replaceAll('\u2581', ' '));
}

/** The tokens of a text. */
function tokenExample(example) {
  const spans = example.tokens.map(tokenSpan);
  const isWords = example.tokens.some(([t]) => t.length > 1 && !t.startsWith('<')) &&
    !example.tokens.some(([t]) => t.startsWith('\u2581'));
  return el('div', {},
    quiet(`Example ${count(example.number)}: loss ${short(example.loss)}, ` +
      `${count(example.hits)} of ${count(example.labels)} tokens correct`),
    el('div', {class: 'tokens'}, isWords ? spans.flatMap((span) => [span, ' ']) : spans));
}

function imageExample(example) {
  const right = isRight(example);
  return el('figure', {}, imageCanvas(example.image, 96, `Image ${example.number}`),
    el('figcaption', {},
      `image ${example.number}`, el('br'), `label ${example.expected}`, el('br'),
      verdict(right), right ? '' : `, predicted ${example.output}`, el('br'),
      `loss ${short(example.loss)}`));
}

/** The tokens of an input, each above its label in the output and, if that is wrong, in the
 * reference. */
function labelledTokens({input, output, expected}) {
  const [tokens, found, labels] = [input, output, expected].map((text) => text.split(' '));
  const mark = (name, label) => el('mark', {class: name}, label ?? '-');
  const label = (i) => (found[i] === labels[i] ? el('span', {}, found[i])
    : [mark('wrong', found[i]), mark('missing', labels[i])]);
  return el('div', {class: 'labelled'}, tokens.map((token, i) => el('span', {}, token, label(i))));
}

const labelsLegend = 'Below each token: its label. Where the output is wrong: the label of the ' +
  'output, underlined in red, and the label of the reference.';
const wordsLegend = 'Marked in the reference: words that the output lacks. Marked in the output: ' +
  'words that the reference lacks.';

/** A table of texts, with a checkbox that leaves out the correct ones. A phone folds some. */
function textExamples(examples, hasLabels) {
  const aligned = (e) => align(e.expected, e.output);
  const texts = hasLabels ? [{title: 'Tokens and labels', text: true, cell: labelledTokens}] : [
    {title: 'Input', text: true, cell: (e) => e.input},
    {title: 'Reference', text: true, cell: (e) => marked(aligned(e)[0], 'missing')},
    {title: 'Output', text: true, cell: (e) => marked(aligned(e)[1], 'wrong')}];
  const columns = [
    {title: 'Example', number: true, cell: (e) => count(e.number)},
    {title: 'Loss', number: true, cell: (e) => short(e.loss)},
    ...texts,
    {title: 'Result', cell: (e) => verdict(isRight(e))}];
  const host = el('div', {});
  const show = (wrongOnly) => {
    const chosen = examples.filter((e) => !wrongOnly || !isRight(e));
    const shown = chosen.slice(0, innerWidth > 600 ? chosen.length : 8);
    const rest = chosen.slice(shown.length);
    host.replaceChildren(table('Held-out examples', columns, shown));
    if (rest.length === 0) return;
    host.append(el('details', {}, el('summary', {}, `Show ${count(rest.length)} more`),
      table('More held-out examples', columns, rest)));
  };
  show(false);
  return [
    quiet(hasLabels ? labelsLegend : wordsLegend),
    el('div', {class: 'controls'}, checkbox('only errors', false, show)), host];
}

/** How the shown examples were chosen. */
function examplesNote({shown, noun, set, accuracy, examples}) {
  const worst = Math.ceil(shown.length / 2), scored = accuracy.examples;
  const part = scored < examples ? `${count(scored)} of ${count(examples)} were scored. ` : '';
  const choice = shown.length < scored ? `The first ${worst} have the highest losses, the others ` +
    'are evenly spaced over the remaining losses. ' : '';
  return quiet(`${shown.length} ${noun} of the ${set} set, highest loss first. ${part}${choice}` +
    'Loss: mean of -log p(label), in nats, without label smoothing.');
}

function examplesPart(run) {
  const shown = run.held_out?.shown ?? [];
  if (shown.length === 0) {
    return el('p', {}, 'No held-out examples: see the notes in the overview.');
  }
  const note = examplesNote(run.held_out);
  if (shown[0].tokens) {
    const legend = 'Strong color: the token has a low probability given the tokens that the ' +
      'model reads. Underlined: another token is more probable.';
    return [note, quiet(legend), el('div', {class: 'texts'}, shown.map(tokenExample))];
  }
  if (shown[0].image) return [note, el('div', {class: 'gallery'}, shown.map(imageExample))];
  return [note, ...textExamples(shown, run.labels_tokens)];
}

// ---- Accuracy

function confusionTable({classes, confusion}) {
  const n = classes.length;
  const cell = (value, total, fill) => {
    const strength = Math.round(25 + 75 * value / total);
    const style = `background:color-mix(in srgb, var(${fill}) ${strength}%, transparent)`;
    return el('td', {style: value ? style : null}, count(value));
  };
  const row = (name, i) => {
    const values = confusion.slice(i * n, (i + 1) * n), total = values.reduce((a, b) => a + b, 0);
    return el('tr', {}, el('th', {scope: 'row'}, name),
      values.map((value, j) => cell(value, total, i === j ? '--bar' : '--error-fill')),
      el('td', {}, total ? percent(values[i] / total) : '-'));
  };
  const head = ['Label', ...classes, 'Recall'].map((name) => el('th', {scope: 'col'}, name));
  return scrolling('Confusion matrix', el('table', {class: 'confusion'},
    el('caption', {}, 'Confusion matrix: rows are labels, columns are predictions. ' +
      'Blue: correct, red: wrong. Strong color: large share of the row.'),
    el('thead', {}, el('tr', {}, head)),
    el('tbody', {}, classes.map(row))));
}

/** A table of groups of labels; null for one group. */
function groupTable(caption, title, groups) {
  if (groups.length < 2) return null;
  return table(caption, [
    {title, cell: (group) => group.name},
    {title: 'Labels', number: true, cell: (group) => count(group.labels)},
    {title: 'Accuracy', cell: (group) => meter(group.hits / group.labels)}], groups);
}

function accuracyPart({held_out: heldOut}) {
  const accuracy = heldOut?.accuracy;
  if (!accuracy || accuracy.labels === 0) {
    return el('p', {}, 'No scores: see the notes in the overview.');
  }
  const hasClasses = accuracy.classes.length > 0;
  const given = hasClasses ? '' : ', given the correct tokens before or around each label';
  const counted = accuracy.frequency_of_training ? 'training' : heldOut.set;
  return [
    el('p', {}, `Accuracy ${percent(accuracy.hits / accuracy.labels, 2)}: the model predicts ` +
      `${count(accuracy.hits)} of ${count(accuracy.labels)} labels correctly in ` +
      `${count(accuracy.examples)} ${heldOut.noun} of the ${heldOut.set} set${given}.`),
    el('div', {class: 'side'},
      groupTable('Accuracy by length of the example', 'Tokens', accuracy.by_length),
      groupTable('Accuracy by frequency of the token', `Occurrences in the ${counted} set`,
        accuracy.by_frequency)),
    hasClasses ? confusionTable(accuracy) : null];
}

// ---- Attention

/** The sizes of a heat map in pixels. */
function heatMapLayout(queries, keys) {
  const cell = keys.length <= 16 ? 28 : keys.length <= 42 ? 18 : 12;
  const maxLength = (names) => Math.max(4, ...names.map((name) => label(name).length));
  const left = 12 + 8 * maxLength(queries), top = 14 + 8 * maxLength(keys);
  return {
    cell, left, top,
    font: cell > 16 ? 13 : 11,
    width: left + cell * keys.length + 8,
    height: top + cell * queries.length + 8,
  };
}

/** The names of the keys above a heat map, and of the queries to its left. */
function heatMapNames(queries, keys, {cell, left, top, font}) {
  const style = `font-size:${font}px`;
  const above = keys.map((name, j) => {
    const x = left + cell * (j + 0.5) + font / 3, y = top - 6;
    return svg('text', {x, y, transform: `rotate(-90 ${x} ${y})`, style}, label(name),
      svg('title', {}, name));
  });
  const beside = queries.map((name, i) => {
    const y = top + cell * (i + 0.5) + font / 3;
    return svg('text', {x: left - 6, y, 'text-anchor': 'end', style}, label(name),
      svg('title', {}, name));
  });
  return [...above, ...beside];
}

/** The cells of a heat map with nonzero weights. */
function heatMapCells(columns, weights, {cell, left, top}) {
  return weights.flatMap((weight, k) => (weight === 0 ? [] : svg('rect', {
    class: 'weight',
    x: left + cell * (k % columns),
    y: top + cell * Math.floor(k / columns),
    width: cell,
    height: cell,
    'fill-opacity': Math.sqrt(weight / 1000).toFixed(2),
  })));
}

/** The heat map of one head with its tokens. Weights are in thousandths. Calls onQuery(row) when a
 * cell is chosen. */
function heatMap(title, queries, keys, weights, readout, onQuery) {
  const layout = heatMapLayout(queries, keys), {cell, left, top, width, height} = layout;
  const viewBox = `0 0 ${width} ${height}`;
  const picture = svg('svg', {class: 'heat', role: 'img', tabindex: 0, width, height, viewBox});
  const border = {x: left, y: top, width: cell * keys.length, height: cell * queries.length};
  const frame = svg('rect', {class: 'chosen', width: cell, height: cell, visibility: 'hidden'});
  picture.append(...heatMapNames(queries, keys, layout),
    svg('rect', {...border, fill: 'none', class: 'axis'}),
    ...heatMapCells(keys.length, weights, layout), frame);
  const strongest = queries.map((query, i) => {
    const row = weights.slice(i * keys.length, (i + 1) * keys.length), max = Math.max(...row);
    return `${query}: ${keys[row.indexOf(max)]} ${percent(max / 1000, 0)}`;
  });
  picture.setAttribute('aria-label',
    `${title}. The key with the largest weight for each query: ${strongest.join('; ')}.`);
  let at = null;
  const choose = (row, column) => {
    const i = clamp(row, 0, queries.length - 1), j = clamp(column, 0, keys.length - 1);
    at = [i, j];
    const weight = weights[i * keys.length + j];
    const place = {x: left + cell * j, y: top + cell * i, visibility: 'visible'};
    for (const [key, value] of Object.entries(place)) frame.setAttribute(key, value);
    readout.textContent = `query ${i} ${queries[i]}, key ${j} ${keys[j]}: ` +
      (weight === 0 ? 'exactly 0' : percent(weight / 1000));
    onQuery(i);
  };
  picture.addEventListener('pointermove', (event) => {
    const box = picture.getBoundingClientRect();
    const i = Math.floor((event.clientY - box.top - top) / cell);
    const j = Math.floor((event.clientX - box.left - left) / cell);
    if (i >= 0 && j >= 0 && i < queries.length && j < keys.length) choose(i, j);
  });
  onArrows(picture, (down, right) => (at ? choose(at[0] + down, at[1] + right) : choose(0, 0)));
  return picture;
}

/** The image with the weights of its patches; show(weights of a row, query) draws them. */
function patchView(sample, patches) {
  const width = 288, columns = patches.width / patches.size, rows = patches.height / patches.size;
  const side = width / columns, height = Math.round(width * patches.height / patches.width);
  const overlay = svg('svg', {
    width, height,
    viewBox: `0 0 ${width} ${height}`,
    'aria-hidden': 'true',
    style: 'position:absolute;left:0;top:0',
  });
  const caption = el('figcaption', {});
  const text = `Image ${sample.number} with the attention weights of its patches`;
  const canvas = imageCanvas(sample.image, width, text);
  const show = (row, query) => {
    const strongest = Math.max(...row.slice(1), 1);
    overlay.replaceChildren(...Array.from({length: rows * columns}, (_, k) => svg('rect', {
      x: (k % columns) * side,
      y: Math.floor(k / columns) * side,
      width: side,
      height: side,
      style: 'fill:#ff5a00',
      'fill-opacity': (0.75 * row[k + 1] / strongest).toFixed(2),
    })));
    caption.textContent = `Attention weights of the patches for query ${query}. ` +
      'Strong color: large weight, relative to the largest.';
  };
  const frame = el('div', {style: `position:relative;width:${width}px`}, canvas, overlay);
  return {figure: el('figure', {}, frame, caption), show};
}

/** The weights of a head; the mean over the heads for an index after the last head. */
function headWeights({heads}, head) {
  if (heads[head]) return heads[head];
  return heads[0].map((_, i) => heads.reduce((sum, weights) => sum + weights[i], 0) / heads.length);
}

function attentionPart(run) {
  if (!run.attention || run.attention.length === 0) {
    return el('p', {}, 'No attention weights: see the notes in the overview.');
  }
  const state = {sample: 0, layer: 0, head: 0}, host = el('div', {}), heads = el('span', {});
  const set = (key) => (value) => { state[key] = value; show(); };
  function show() {
    const sample = run.attention[state.sample];
    const layer = sample.layers[Math.min(state.layer, sample.layers.length - 1)];
    const names = [...layer.heads.map((_, h) => `head ${h}`), 'mean over heads'];
    state.head = Math.min(state.head, layer.heads.length);
    heads.replaceChildren(choice('Head', names, set('head'), state.head));
    const queries = sample.tokens[layer.queries], keys = sample.tokens[layer.keys];
    const weights = headWeights(layer, state.head);
    const hint = 'Point at a cell, or use the arrow keys in the heat map.';
    const readout = el('output', {class: 'readout'}, hint);
    const patches = sample.image && run.patches ? patchView(sample, run.patches) : null;
    const onQuery = (i) =>
      patches?.show(weights.slice(i * keys.length, (i + 1) * keys.length), queries[i]);
    const title = `${layer.layer}, ${names[state.head]}`;
    const map = heatMap(title, queries, keys, weights, readout, onQuery);
    const caption = el('figcaption', {},
      `${title}. Rows are queries, columns are keys. Weights: 0 `,
      el('span', {class: 'scale', 'aria-hidden': 'true'}),
      ' 1 (opacity: square root of the weight). Empty cells: exactly 0, masked.');
    const figure = el('figure', {}, el('div', {class: 'scroll'}, map), caption);
    host.replaceChildren(readout, el('div', {class: 'side'}, figure, patches?.figure ?? ''));
    onQuery(0);
  }
  show();
  const samples = run.attention.map((sample) =>
    `${sample.number} (${Math.max(...sample.tokens.map((tokens) => tokens.length))} tokens)`);
  const layers = run.attention[0].layers.map((layer) => layer.layer);
  return [
    quiet(`Examples of the ${run.held_out?.set ?? 'held-out'} set.`),
    run.has_two_stacks ? quiet('The decoder reads the reference. A query of the decoder is a ' +
      'token that it has read; the model predicts the next token from it.') : null,
    el('div', {class: 'controls'},
      choice('Example', samples, set('sample')), choice('Layer', layers, set('layer')), heads),
    host];
}
