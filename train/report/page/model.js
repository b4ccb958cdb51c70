// The model, its weights, and the history of a run.

function histogram(s) {
  const width = 170, height = 34, most = Math.max(...s.counts, 1);
  const bar = width / Math.max(s.counts.length, 1), shown = Math.max(1, bar - 0.5).toFixed(1);
  // All bars are one element, since a large model has hundreds of histograms.
  const bars = s.counts.map((n, i) => (n === 0 ? '' :
    `M${(i * bar).toFixed(1)} ${height}V${(height * (1 - n / most)).toFixed(1)}h${shown}V${height}z`));
  return svg('svg', {class: 'histogram', role: 'img', width, height, viewBox: `0 0 ${width} ${height}`,
    'aria-label': `from ${short(s.low)} to ${short(s.high)}, mean ${short(s.mean)}, deviation ${short(s.deviation)}`},
  svg('path', {d: bars.join('')}),
  svg('line', {class: 'axis', x1: 0, x2: width, y1: height, y2: height}));
}

function weightsPart(run) {
  if (!run.weights) return el('p', {}, 'No model: see the notes of the overview.');
  const size = (block) => block.parameters.reduce((sum, p) => sum + p.statistics.values, 0);
  const total = parameters(run), largest = Math.max(...run.weights.map((b) => b.matrices.rms));
  const bar = (share) => el('span', {class: 'meter', 'aria-hidden': 'true'}, el('i', {style: `width:${Math.max(0.5, 100 * share)}%`}));
  const distribution = (get) => [
    {title: 'Norm', number: true, cell: (r) => short(get(r).norm)},
    {title: 'RMS', number: true, cell: (r) => short(get(r).rms)},
    {title: 'Smallest', number: true, cell: (r) => short(get(r).low)},
    {title: 'Greatest', number: true, cell: (r) => short(get(r).high)},
    {title: 'Histogram', cell: (r) => [histogram(get(r)), get(r).not_finite ? `${count(get(r).not_finite)} not finite` : '']}];
  const frozen = run.weights.flatMap((b) => b.parameters).filter((p) => p.frozen).reduce((sum, p) => sum + p.statistics.values, 0);
  return [el('p', {}, `${count(total)} parameters in ${count(run.weights.flatMap((b) => b.parameters).length)} tensors` +
    `${frozen ? `, ${count(frozen)} of them frozen` : ''}, of step ${count(run.checkpoint.step)}. Distributions of a block are those of its matrices.`),
  diagramPart(run),
  table('Blocks of the model', [
    {title: 'Block', cell: (b) => b.path},
    {title: 'Parameters', number: true, cell: (b) => count(size(b))},
    {title: 'Share', cell: (b) => bar(size(b) / total)},
    ...distribution((b) => b.matrices).toSpliced(2, 0, {title: 'RMS, relative', cell: (b) => bar(largest ? b.matrices.rms / largest : 0)})],
  run.weights, 'middle'),
  el('h3', {}, 'Tensors'),
  run.weights.map((block) => {
    const host = el('div', {});
    return el('details', {ontoggle: () => {
      if (host.childElementCount) return;
      host.append(table(`Tensors of ${block.path}`, [
        {title: 'Tensor', cell: (p) => p.name + (p.frozen ? ' (frozen)' : '')},
        {title: 'Shape', cell: (p) => p.shape.join(' \u00d7 ') || 'scalar'},
        {title: 'Parameters', number: true, cell: (p) => count(p.statistics.values)},
        ...distribution((p) => p.statistics)], block.parameters, 'middle'));
    }}, el('summary', {}, `${block.path}: ${count(size(block))} in ${block.parameters.length === 1 ? '1 tensor' : `${block.parameters.length} tensors`}`), host);
  })];
}

/** The config with the keys whose values are not the defaults marked. */
function configPart(run) {
  if (!run.config) return el('p', {}, 'The config cannot be read.');
  const changed = new Set(run.changed_keys), host = el('div', {});
  let section = '';
  const lines = run.config.trimEnd().split('\n').map((text) => {
    const [, indent, key] = /^( *)([^:]*):/.exec(text) ?? [null, '', ''];
    if (indent === '') section = key;
    return {text, section, isHeading: indent === '', isChanged: indent !== '' && changed.has(`${section}.${key}`)};
  });
  const show = (only) => {
    const shown = only ? lines.filter((line) => line.isChanged || (line.isHeading && lines.some((l) => l.isChanged && l.section === line.section))) : lines;
    host.replaceChildren(el('pre', {tabindex: 0, 'aria-label': 'Config', role: 'group'},
      shown.map((line) => [line.isChanged ? el('mark', {class: 'changed'}, line.text) : line.text, '\n'])));
  };
  show(false);
  return [el('p', {}, `${count(changed.size)} keys have other values than the defaults: they are `, el('mark', {class: 'changed'}, 'marked'), '.'),
    el('div', {class: 'controls'}, checkbox('only these', false, show)), host];
}

function historyPart(run) {
  const h = run.history;
  const parts = [];
  if (h.processes.length) {
    parts.push(table('Processes that trained the run', [
      {title: 'Process', number: true, cell: (p) => count(h.processes.indexOf(p) + 1)},
      {title: 'Logged steps', number: true, cell: (p) => `${count(p.first_step)} to ${count(p.last_step)}`},
      {title: 'Time', number: true, cell: (p) => duration(p.seconds)},
      {title: 'In training steps', number: true, cell: (p) => (p.seconds > 0 ? percent(Math.min(1, p.step_seconds / p.seconds)) : '-')},
      {title: 'Last logged step at', cell: (p) => p.ended}], h.processes));
  }
  if (h.changes.length) {
    parts.push(table('Changes of the run', [
      {title: 'After step', number: true, cell: (c) => count(c.step)},
      {title: 'Change', text: true, cell: (c) => c.text}], h.changes));
  }
  if (h.log.length) {
    const list = el('ul', {class: 'log'});
    const show = (warnings) => list.replaceChildren(...h.log.filter((line) => !warnings || line.warning).map((line) =>
      el('li', {class: line.warning ? 'warning' : null}, el('time', {}, line.time), line.text)));
    show(false);
    parts.push(el('h3', {}, 'Log'), el('p', {class: 'quiet'}, 'train.log without steps and validations' +
      (h.log_lines_left_out ? `; ${count(h.log_lines_left_out)} lines in the middle are left out` : '')),
    el('div', {class: 'controls'}, checkbox('only warnings', false, show)), scrolling('Log', list, 'tall'));
  }
  return parts.length ? parts : el('p', {}, 'The run has no timing.csv, history.txt or train.log.');
}
