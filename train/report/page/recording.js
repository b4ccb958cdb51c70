// What recording.jsonl has: samples, weights and gradients at the validations of a run.

/** A small picture of a curve; of the logarithms if all values are positive and `log` is set. */
function sparkline(steps, values, log) {
  const width = 130, height = 26;
  const shown = steps.map((x, i) => ({x, y: values[i]})).filter((p) => p.y != null && (!log || p.y > 0));
  if (shown.length === 0) return '-';
  const y = (p) => (log ? Math.log(p.y) : p.y);
  const low = Math.min(...shown.map(y)), high = Math.max(...shown.map(y));
  const first = steps[0], range = steps[steps.length - 1] - first || 1;
  const place = (p) => `${(2 + (width - 4) * (p.x - first) / range).toFixed(1)} ` +
    `${(height - 3 - (height - 6) * (high > low ? (y(p) - low) / (high - low) : 0.5)).toFixed(1)}`;
  const last = shown[shown.length - 1], [x, at] = place(last).split(' ');
  return svg('svg', {role: 'img', width, height, viewBox: `0 0 ${width} ${height}`,
    'aria-label': `from ${short(shown[0].y)} at step ${count(shown[0].x)} to ${short(last.y)} at step ${count(last.x)}`},
  svg('path', {d: `M${shown.map(place).join('L')}`, fill: 'none', style: 'stroke:var(--c0)', 'stroke-width': 1.5}),
  svg('circle', {cx: x, cy: at, r: 2.5, style: 'fill:var(--c0)'}));
}

/** Histograms over steps as a picture: a column for each record, the opacity is the share of values. */
function histogramsOverSteps(title, steps, histograms) {
  const found = histograms.map((h, i) => ({h, step: steps[i]})).filter(({h}) => h && h.counts.length && h.low != null);
  if (found.length === 0) return el('p', {}, `${title}: not recorded.`);
  let low = Math.min(...found.map(({h}) => h.low)), high = Math.max(...found.map(({h}) => h.high));
  if (low === high) { low -= 1; high += 1; }
  const left = 66, width = 430, height = 190, top = 6, bottom = height - 22;
  const y = (value) => bottom - (bottom - top) * (value - low) / (high - low);
  const column = (width - left) / found.length;
  const last = found[found.length - 1];
  const picture = svg('svg', {role: 'img', width, height, viewBox: `0 0 ${width} ${height}`, style: 'max-width:100%',
    'aria-label': `${title} at ${found.length} validations: from ${short(found[0].h.low)} to ${short(found[0].h.high)} at step ` +
      `${count(found[0].step)}, from ${short(last.h.low)} to ${short(last.h.high)} at step ${count(last.step)}.`});
  const boxes = new Map();  // those of the same opacity are one element
  const shown = Math.max(1, column - (column > 4 ? 0.5 : 0)).toFixed(1);
  found.forEach(({h}, i) => {
    const most = Math.max(...h.counts), bin = (h.high - h.low) / h.counts.length;
    h.counts.forEach((n, k) => {
      if (n === 0) return;
      const from = y(h.low + bin * (k + 1)), opacity = (Math.ceil(25 * Math.sqrt(n / most)) / 25).toFixed(2);
      const size = Math.max(0.75, y(h.low + bin * k) - from).toFixed(1);
      const box = `M${(left + column * i).toFixed(1)} ${from.toFixed(1)}h${shown}v${size}h-${shown}z`;
      boxes.set(opacity, (boxes.get(opacity) ?? '') + box);
    });
  });
  for (const [opacity, d] of boxes) picture.append(svg('path', {d, style: 'fill:var(--heat)', 'fill-opacity': opacity}));
  for (const value of ticks(low, high, 5, false)) {
    picture.append(svg('text', {x: left - 6, y: y(value) + 4, 'text-anchor': 'end'}, short(value)));
  }
  picture.append(svg('text', {x: left, y: height - 6}, `step ${count(found[0].step)}`),
    svg('text', {x: width, y: height - 6, 'text-anchor': 'end'}, count(last.step)));
  return el('figure', {}, el('figcaption', {}, title), picture);
}

function recordedSamples(samples) {
  const host = el('div', {});
  const show = (i) => {
    const sample = samples[i];
    const rows = [];  // of validations with the same output
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
  const recording = run.recording;
  if (!recording) return el('p', {}, 'The run has no recording.jsonl, or no validation yet.');
  const parts = recording.samples.length ? recordedSamples(recording.samples) : [];
  const last = (values) => values[values.length - 1];
  /** The last ratio of a block. One of 0, of a step with a learning rate of 0, says nothing: then the one before, with its step. */
  const ratio = (b) => {
    const i = b.update_ratio.findLastIndex((x) => x > 0), end = b.steps.length - 1;
    if (i >= 0 && i < end && last(b.update_ratio) === 0) return `${short(b.update_ratio[i])} (step ${count(b.steps[i])})`;
    return last(b.update_ratio) == null ? '-' : short(last(b.update_ratio));
  };
  const both = (title, name, log, cell = (b) => (last(b[name]) == null ? '-' : short(last(b[name])))) => [
    {title, number: true, cell},
    {title: `${title} over steps`, cell: (b) => sparkline(b.steps, b[name], log)}];
  parts.push(el('h3', {}, 'Weights and gradients'),
    table('Blocks at the last validation', [{title: 'Block', cell: (b) => b.path}, ...both('Update ratio', 'update_ratio', true, ratio),
      ...both('Gradient norm', 'gradient_norm', true), ...both('Weight norm', 'weight_norm', false)], recording.blocks, 'middle'),
    el('p', {class: 'quiet'}, 'Update ratio: the norm of the change of the weights in one step, divided by the norm of the weights. All norms are Euclidean norms over the matrices of a block, at the last step before each validation; gradient norms are from before clipping. Where a schedule ends at a learning rate of 0, the last step changes nothing; the table then has the ratio at the validation before, with its step. Ratios and gradients are drawn on a log scale.'));
  const host = el('div', {class: 'gallery'});
  const show = (i) => {
    const block = recording.blocks[i];
    host.replaceChildren(histogramsOverSteps(`Weights of ${block.path}`, block.steps, block.weights),
      histogramsOverSteps(`Gradients of ${block.path}`, block.steps, block.gradients));
  };
  if (recording.blocks.length) {
    show(0);
    parts.push(el('div', {class: 'controls'}, choice('Histograms of', recording.blocks.map((b) => b.path), show)), host);
  }
  return parts;
}
