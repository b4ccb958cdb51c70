// Heat maps of attention weights.

/** Square roots of weights from weights_to_text() of attention_text.h. */
function roots(text) {
  const levels = data.levels, all = [];
  for (let i = 0; i < text.length; ++i) {
    if (text[i] === '~') {
      const before = all[all.length - 1];
      for (let n = levels.indexOf(text[++i]) + 1; n > 0; --n) all.push(before);
    } else {
      all.push(levels.indexOf(text[i]) / (levels.length - 1));
    }
  }
  return all;
}

function drawThumbnail(canvas, weights, columns) {
  const rgb = getComputedStyle(document.documentElement).getPropertyValue('--heat').trim();
  const parts = [1, 3, 5].map((i) => parseInt(rgb.slice(i, i + 2), 16));
  canvas.width = columns;
  canvas.height = weights.length / columns;
  const context = canvas.getContext('2d');
  const pixels = context.createImageData(canvas.width, canvas.height);
  weights.forEach((root, i) => pixels.data.set([...parts, Math.round(255 * root)], 4 * i));
  context.putImageData(pixels, 0, 0);
}

/** The heat map of one head with its tokens; calls onChoose(query) when a row is chosen. */
function heatMap(title, queries, keys, weights, readout, onChoose) {
  const cell = keys.length <= 16 ? 28 : keys.length <= 42 ? 18 : 12;
  const font = Math.min(13, cell - 1 < 12 ? 11 : cell - 4);
  const fullName = (name) => (label(name).endsWith('\u2026') ? svg('title', {}, name) : null);
  const longest = (names) => Math.max(...names.map((n) => label(n).length));
  const left = 12 + 8 * Math.max(5, longest(queries)), top = 14 + 8 * Math.max(4, longest(keys));
  const width = left + cell * keys.length + 8, height = top + cell * queries.length + 8;
  const picture = svg('svg', {class: 'heat', role: 'img', tabindex: 0, width, height, viewBox: `0 0 ${width} ${height}`});
  keys.forEach((name, j) => {
    const x = left + cell * (j + 0.5) + font / 3;
    picture.append(svg('text', {x, y: top - 6, transform: `rotate(-90 ${x} ${top - 6})`, style: `font-size:${font}px`}, label(name), fullName(name)));
  });
  queries.forEach((name, i) => {
    picture.append(svg('text', {x: left - 6, y: top + cell * (i + 0.5) + font / 3, 'text-anchor': 'end', style: `font-size:${font}px`}, label(name), fullName(name)));
  });
  picture.append(svg('rect', {x: left, y: top, width: cell * keys.length, height: cell * queries.length, fill: 'none', class: 'axis'}));
  weights.forEach((root, k) => {
    if (root === 0) return;
    const i = Math.floor(k / keys.length), j = k % keys.length;
    picture.append(svg('rect', {class: 'weight', x: left + cell * j, y: top + cell * i, width: cell, height: cell, 'fill-opacity': root.toFixed(2)}));
  });
  const frame = svg('rect', {class: 'chosen', width: cell, height: cell, visibility: 'hidden'});
  picture.append(frame);
  const strongest = queries.map((q, i) => {
    let best = 0;
    keys.forEach((_, j) => { if (weights[i * keys.length + j] > weights[i * keys.length + best]) best = j; });
    return `${q}: ${keys[best]} ${percent(weights[i * keys.length + best] ** 2, 0)}`;
  });
  picture.setAttribute('aria-label', `${title}. The key with the greatest weight of each query: ${strongest.join('; ')}.`);
  let at = null;
  const choose = (i, j) => {
    at = [Math.min(queries.length - 1, Math.max(0, i)), Math.min(keys.length - 1, Math.max(0, j))];
    const root = weights[at[0] * keys.length + at[1]];
    frame.setAttribute('x', left + cell * at[1]);
    frame.setAttribute('y', top + cell * at[0]);
    frame.setAttribute('visibility', 'visible');
    readout.textContent = `query ${queries[at[0]]} (${at[0] + 1}), key ${keys[at[1]]} (${at[1] + 1}): ` +
      (root === 0 ? 'exactly 0' : `${percent(root * root)}`);
    onChoose(at[0]);
  };
  picture.addEventListener('pointermove', (event) => {
    const box = picture.getBoundingClientRect();
    const j = Math.floor((event.clientX - box.left - left) / cell), i = Math.floor((event.clientY - box.top - top) / cell);
    if (i >= 0 && j >= 0 && i < queries.length && j < keys.length) choose(i, j);
  });
  picture.addEventListener('keydown', (event) => {
    const move = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    if (!move) return;
    if (at) choose(at[0] + move[0], at[1] + move[1]); else choose(0, 0);
    frame.scrollIntoView({block: 'nearest', inline: 'nearest'});
    event.preventDefault();
  });
  return picture;
}

/** The image with the patches that a query attends to; show(roots of a row) draws them. */
function patchView(sample, patches) {
  const width = 288, canvas = imageCanvas(sample.image, width, `Image ${sample.number} with the weights of its patches`);
  const columns = patches.width / patches.size, rows = patches.height / patches.size;
  const side = width / columns, height = Math.round(width * patches.height / patches.width);
  const overlay = svg('svg', {width, height, viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true', style: 'position:absolute;left:0;top:0'});
  const caption = el('figcaption', {});
  const figure = el('figure', {}, el('div', {style: `position:relative;width:${width}px`}, canvas, overlay), caption);
  const show = (row, query) => {
    const strongest = Math.max(...row.slice(1), 1e-9);
    overlay.replaceChildren(...Array.from({length: rows * columns}, (_, k) => svg('rect', {
      x: (k % columns) * side, y: Math.floor(k / columns) * side, width: side, height: side,
      style: 'fill:#ff5a00', 'fill-opacity': (0.75 * (row[k + 1] / strongest) ** 2).toFixed(2)})));
    caption.textContent = `Weights of the query ${query}, relative to the greatest`;
  };
  return {figure, show};
}

/** "88 % of the attention on the previous position (by chance 12 %)" */
const patternText = (p) => (p.share > p.chance ? `${percent(p.share, 0)} of the attention on ${p.pattern}, by chance ${percent(p.chance, 0)}` : 'no pattern');

/** The heads by their share above chance; a head is a button that shows its heat map. */
function headTable(heads, show) {
  const copying = heads.filter((p) => p.copies != null).sort((a, b) => b.copies - a.copies);
  const columns = [
    {title: 'Head', cell: (p) => el('button', {type: 'button', class: 'link', onclick: () => show(p.layer, p.head)}, p.name)},
    {title: 'Attends to', text: true, cell: (p) => p.pattern},
    {title: 'Share', number: true, cell: (p) => percent(p.share, 0)},
    {title: 'By chance', number: true, cell: (p) => percent(p.chance, 0)},
    {title: 'Keys used', number: true, cell: (p) => p.keys_used.toFixed(1)}];
  if (copying.length) columns.push({title: 'Copies', number: true, cell: (p) => (p.copies == null ? '-' : percent(p.copies, 0))});
  return [el('div', {class: 'tall'}, table('What each head attends to, sorted by the share above chance: choose a head to see it below', columns, heads)),
    el('p', {class: 'quiet'}, 'Share: the mean attention weight on the pattern, over the queries of the examples below; by chance: what it would be if all keys had the same weight. ' +
      'Keys used: exp(entropy), the number of keys that share the attention.' + (copying.length ? ' Copies: the mean weight on keys with the token that is the next output.' : '')),
    copying.length ? el('p', {}, `The head that copies most: ${copying[0].name}, with ${percent(copying[0].copies, 0)} of its attention on the token of the next output.`) : null];
}

function attentionPart(run) {
  if (!run.attention || run.attention.length === 0) return el('p', {}, 'No attention weights: see the notes of the overview.');
  // The head that is shown first has the strongest pattern.
  const [strongest] = (run.attention_heads || []).filter((p) => p.share > p.chance);
  const strongestLayer = strongest ? run.attention[0].layers.findIndex((layer) => layer.layer === strongest.layer) : -1;
  const state = {sample: 0, layer: Math.max(0, strongestLayer), head: strongestLayer < 0 ? 0 : strongest.head};
  const host = el('div', {class: 'attention'});
  const nouns = new Map([['images', 'Image'], ['windows', 'Window'], ['sentences', 'Sentence'], ['pairs', 'Pair']]);
  const noun = nouns.get(run.held_out.noun) || 'Example';
  const headWeights = (layer, h) => {
    if (h < layer.heads.length) return roots(layer.heads[h]);
    const all = layer.heads.map(roots);  // the mean of the weights
    return all[0].map((_, i) => Math.sqrt(all.reduce((sum, w) => sum + w[i] * w[i], 0) / all.length));
  };
  const headName = (layer, h) => (h < layer.heads.length ? `head ${h + 1}` : 'mean of all heads');

  function show() {
    const sample = run.attention[state.sample];
    const buttons = [];
    const detail = el('div', {});
    const rows = sample.layers.map((layer, l) => el('tr', {}, el('th', {scope: 'row', title: layer.layer}, layer.name),
      Array.from({length: layer.heads.length + 1}, (_, h) => {
        const canvas = el('canvas', {'aria-hidden': 'true'});
        const weights = headWeights(layer, h), columns = sample.tokens[layer.keys].length;
        const draw = () => drawThumbnail(canvas, weights, columns);
        draw();
        redraw.push(draw);
        const button = el('button', {type: 'button', 'aria-label': `${layer.name}, ${headName(layer, h)}`,
          'aria-pressed': 'false', onclick: () => choose(l, h)}, canvas);
        buttons.push({button, l, h});
        return el('td', {}, button);
      })));
    const most = Math.max(...sample.layers.map((layer) => layer.heads.length));
    const heading = [...Array.from({length: most}, (_, h) => `head ${h + 1}`), 'mean'];
    function choose(l, h) {
      state.layer = l;
      state.head = h;
      const layer = sample.layers[l], queries = sample.tokens[layer.queries], keys = sample.tokens[layer.keys];
      const weights = headWeights(layer, h);
      for (const b of buttons) b.button.setAttribute('aria-pressed', String(b.l === l && b.h === h));
      const readout = el('output', {class: 'readout'}, 'Point at a cell, or use the arrow keys in the heat map.');
      const patches = sample.image && run.patches ? patchView(sample, run.patches) : null;
      const onChoose = (i) => patches?.show(weights.slice(i * keys.length, (i + 1) * keys.length), queries[i]);
      const title = `${layer.name}, ${headName(layer, h)}`;
      const pattern = run.attention_heads?.find((p) => p.layer === layer.layer && p.head === h);
      detail.replaceChildren(el('h3', {}, title), el('p', {class: 'quiet'}, layer.layer, pattern ? `: ${patternText(pattern)}` : ''), readout, el('div', {class: 'attention'},
        withHint(el('div', {class: 'scroll'}, heatMap(title, queries, keys, weights, readout, onChoose))), patches?.figure ?? ''));
      onChoose(0);
    }
    host.replaceChildren(scrolling('Heads', el('table', {class: 'heads'},
      el('caption', {}, 'All layers and heads: choose one to see it with its tokens'),
      el('thead', {}, el('tr', {}, el('th', {scope: 'col'}, 'Layer'), heading.map((text) => el('th', {scope: 'col'}, text)))),
      el('tbody', {}, rows))), detail);
    const layer = Math.min(state.layer, sample.layers.length - 1);
    choose(layer, Math.min(state.head, sample.layers[layer].heads.length));
    chooseHead = (path, h) => {
      choose(Math.max(0, sample.layers.findIndex((layer) => layer.layer === path)), h);
      detail.scrollIntoView({block: 'nearest'});
    };
  }
  let chooseHead = null;
  const redraw = [];
  redrawWithTheme.push(() => redraw.forEach((draw) => draw()));
  show();
  return [el('p', {}, 'Rows are queries, columns are keys. ', run.has_two_stacks ? 'The decoder reads the reference: the query of a row is a token that was read, and the next token is predicted from it. ' : '',
    el('span', {class: 'legend'}, 'Weights from 0 ', el('span', {class: 'scale', 'aria-hidden': 'true'}), ' to 1'), ' (opacity: square root of the weight); empty: exactly 0 (masked).'),
  run.attention_heads?.length ? headTable(run.attention_heads, (path, h) => chooseHead(path, h)) : '',
  el('div', {class: 'controls'}, choice('Example', run.attention.map((s) => `${noun} ${s.number} (${Math.max(...s.tokens.map((t) => t.length))} tokens)`),
    (i) => { state.sample = i; redraw.length = 0; show(); })), host];
}
