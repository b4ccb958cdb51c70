// Held-out examples and accuracy.

/** The words of two texts that are in their longest common subsequence: two lists of [word, common]. */
function align(a, b) {
  const x = a.split(/\s+/).filter(Boolean).slice(0, 400), y = b.split(/\s+/).filter(Boolean).slice(0, 400);
  const best = Array.from({length: x.length + 1}, () => new Uint16Array(y.length + 1));
  for (let i = x.length - 1; i >= 0; --i) {
    for (let j = y.length - 1; j >= 0; --j) {
      best[i][j] = x[i] === y[j] ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    }
  }
  const left = x.map((word) => [word, false]), right = y.map((word) => [word, false]);
  for (let i = 0, j = 0; i < x.length && j < y.length;) {
    if (x[i] === y[j]) { left[i++][1] = true; right[j++][1] = true; }
    else if (best[i + 1][j] >= best[i][j + 1]) ++i;
    else ++j;
  }
  return [left, right];
}

const marked = (words, name) => words.flatMap(([word, common]) =>
  [common ? word : el('mark', {class: name}, word), ' ']);

function bytesOf(image) {
  return Uint8Array.from(atob(image.bytes), (c) => c.charCodeAt(0));
}

/** The image as a canvas of the given width in CSS pixels. */
function imageCanvas(image, width, label) {
  const canvas = el('canvas', {width: image.width, height: image.height, role: 'img', 'aria-label': label,
    style: `width:${width}px;height:${Math.round(width * image.height / image.width)}px`});
  const context = canvas.getContext('2d');
  const pixels = context.createImageData(image.width, image.height);
  const bytes = bytesOf(image), c = image.channels;
  for (let i = 0; i < image.width * image.height; ++i) {
    for (let k = 0; k < 3; ++k) pixels.data[4 * i + k] = bytes[i * c + (c >= 3 ? k : 0)];
    pixels.data[4 * i + 3] = 255;
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}

const verdict = (right) => el('span', {class: `verdict ${right ? 'yes' : 'no'}`}, right ? 'correct' : 'wrong');

const shownTokens = new Map([['<newline>', '\u23ce\n'], ['<space>', ' ']]);

/** Tokens of a text, colored by how unlikely the model finds them. */
function tokenExample(example, readout) {
  let chosen = -1;
  const spans = example.tokens.map(([expected, predicted, probability]) => {
    const surprise = predicted === '' ? 0 : Math.min(1, -Math.log(Math.max(probability, 1e-9)) / 5);
    const text = shownTokens.get(expected) ?? expected.replaceAll('\u2581', ' ');
    return el('span', {class: `token${predicted !== '' && predicted !== expected ? ' wrong' : ''}`,
      style: `background:color-mix(in srgb, var(--error-fill) ${Math.round(100 * surprise)}%, transparent)`}, text);
  });
  const choose = (i) => {
    spans[chosen]?.classList.remove('chosen');
    chosen = i;
    spans[i]?.classList.add('chosen');
    const [expected, predicted, probability] = example.tokens[i];
    readout.textContent = predicted === '' ? `${expected}: not predicted`
      : `${JSON.stringify(expected)}: probability ${percent(probability, 2)}, most likely ${JSON.stringify(predicted)}`;
  };
  spans.forEach((span, i) => span.addEventListener('pointerenter', () => choose(i)));
  const isWords = example.tokens.some(([t]) => t.length > 1 && !t.startsWith('<')) &&
    !example.tokens.some(([t]) => t.startsWith('\u2581'));
  const text = el('div', {class: 'tokens', tabindex: 0, role: 'group', 'aria-label': `Tokens of example ${example.number}`,
    onkeydown: (event) => {
      const move = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (!move) return;
      choose(Math.min(spans.length - 1, Math.max(0, chosen + move)));
      event.preventDefault();
    }}, isWords ? spans.flatMap((s) => [s, ' ']) : spans);
  return el('div', {}, el('p', {class: 'quiet'}, `Example ${count(example.number)}: loss ${short(example.loss)}, ${count(example.hits)} of ${count(example.labels)} right`), text);
}

function examplesPart(run) {
  const held = run.held_out;
  if (!held || held.shown.length === 0) return el('p', {}, 'No held-out examples: see the notes of the overview.');
  const worst = Math.ceil(held.shown.length / 2), scored = held.accuracy.examples;
  const intro = el('p', {class: 'quiet'}, `${held.shown.length} ${held.noun} of the ${held.set} set, worst first: ` +
    (held.shown.length < scored ? `the ${worst} with the greatest loss of ${count(scored)}${scored < held.examples ? ` that were scored (of ${count(held.examples)})` : ''}, then others, spread evenly over the rest. ` : '') +
    'Loss: the mean of -log p(label), in nats, without label smoothing.');
  if (held.shown[0].tokens) {
    const readout = el('output', {class: 'readout'}, 'No token is chosen.');
    return [intro, el('p', {}, 'The stronger the color of a token, the less likely the model finds it after those before it; underlined: another token is most likely. Point at a token, or use the arrow keys.'),
      el('div', {class: 'sticky'}, readout), el('div', {class: 'texts'}, held.shown.map((example) => tokenExample(example, readout)))];
  }
  const right = (e) => e.output === e.expected;
  if (held.shown[0].image) {
    return [intro, el('div', {class: 'gallery'}, held.shown.map((e) => el('figure', {},
      imageCanvas(e.image, 96, `Image ${e.number}`),
      el('figcaption', {}, `image ${e.number}`, el('br'), `label ${e.expected}`, el('br'), verdict(right(e)), right(e) ? '' : `: ${e.output}`, el('br'), `loss ${short(e.loss)}`))))];
  }
  const host = el('div', {});
  const columns = [
    {title: 'Example', number: true, cell: (e) => count(e.number)},
    {title: 'Loss', number: true, cell: (e) => short(e.loss)},
    {title: 'Source', text: true, cell: (e) => e.input},
    {title: 'Reference', text: true, cell: (e) => marked(align(e.expected, e.output)[0], 'missing')},
    {title: 'Output', text: true, cell: (e) => marked(align(e.expected, e.output)[1], 'wrong')},
    {title: 'Result', cell: (e) => verdict(right(e))}];
  const show = (wrongOnly) => host.replaceChildren(table('Held-out examples', columns,
    held.shown.filter((e) => !wrongOnly || !right(e))));
  show(false);
  return [intro, el('p', {}, 'Words of the output that the reference does not have in this order are ', el('mark', {class: 'wrong'}, 'marked'),
    ', and so are words of the ', el('mark', {class: 'missing'}, 'reference'), ' that the output lacks.'),
  el('div', {class: 'controls'}, checkbox('only with errors', false, show)), host];
}

function accuracyPart(run) {
  const accuracy = run.held_out?.accuracy;
  if (!accuracy || accuracy.labels === 0) return el('p', {}, 'No scores: see the notes of the overview.');
  const parts = [el('p', {}, `Accuracy ${percent(accuracy.hits / accuracy.labels, 2)}: the most likely prediction` +
    `${accuracy.classes.length ? '' : ', given the tokens before or around it,'} is the label for ${count(accuracy.hits)} of ` +
    `${count(accuracy.labels)} labels, in ${count(accuracy.examples)} ${run.held_out.noun} of the ${run.held_out.set} set.`)];
  const groups = (caption, title, rows) => table(caption, [
    {title, cell: (g) => g.name},
    {title: 'Labels', number: true, cell: (g) => count(g.labels)},
    {title: 'Accuracy', number: true, cell: (g) => percent(g.hits / g.labels)},
    {title: 'Share', cell: (g) => el('span', {class: 'meter', 'aria-hidden': 'true'}, el('i', {style: `width:${100 * g.hits / g.labels}%`}))}], rows);
  const both = el('div', {class: 'attention'});
  if (accuracy.by_length.length > 1) both.append(el('div', {}, groups('Accuracy by length of the example', 'Tokens', accuracy.by_length)));
  if (accuracy.by_frequency.length > 1) both.append(el('div', {}, groups('Accuracy by frequency of the token', `In the ${accuracy.frequency_of_training ? 'training' : run.held_out.set} set`, accuracy.by_frequency)));
  parts.push(both);
  const n = accuracy.classes.length;
  if (n) {
    const row = (i) => accuracy.confusion.slice(i * n, (i + 1) * n);
    const cell = (value, total, diagonal) => el('td', {style: value === 0 ? null
      : `background:color-mix(in srgb, var(${diagonal ? '--bar' : '--error-fill'}) ${Math.round(25 + 75 * value / total)}%, transparent)`},
    value ? count(value) : el('span', {class: 'quiet'}, '0'));
    parts.push(scrolling('Confusion matrix', el('table', {class: 'confusion'},
      el('caption', {}, 'Confusion matrix: rows are labels, columns are predictions'),
      el('thead', {}, el('tr', {}, el('th', {scope: 'col'}, 'Label'), accuracy.classes.map((c) => el('th', {scope: 'col'}, c)), el('th', {scope: 'col'}, 'Recall'))),
      el('tbody', {}, accuracy.classes.map((c, i) => {
        const total = row(i).reduce((a, b) => a + b, 0);
        return el('tr', {}, el('th', {scope: 'row'}, c), row(i).map((v, j) => cell(v, total, i === j)), el('td', {}, total ? percent(row(i)[i] / total) : '-'));
      })))));
  }
  return parts;
}
