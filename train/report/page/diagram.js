// The model as a picture: a box for each block, with its parameters and the shapes of tensors.

/** A box of a block at x, y: {group, height}. */
function diagramBox(block, x, y, width) {
  const lines = [];  // [text, text at the right, class]
  if (block.parameters) lines.push(['', `${count(block.parameters)} parameters${block.count > 1 ? ' each' : ''}`, '']);
  if (block.note) lines.push([block.note, '', '']);
  for (const module of block.modules) {
    // A block without modules of its own has its shapes in a row, without repeating the number of parameters.
    if (module.name) lines.push([module.name, count(module.parameters), 'module']);
    lines.push([module.shapes.join(', ').replaceAll(' x ', ' \u00d7 '), '', 'shapes']);
  }
  const pitch = 17, height = 30 + pitch * lines.length;
  const group = svg('g', {});
  // Layers that are alike are drawn as a pile.
  for (const offset of block.count > 2 ? [8, 4] : block.count > 1 ? [4] : []) {
    group.append(svg('rect', {class: 'box', x: x + offset, y: y + offset, width, height, rx: 4}));
  }
  group.append(svg('rect', {class: 'box', x, y, width, height, rx: 4}),
    svg('text', {class: 'title', x: x + 10, y: y + 20}, block.title));
  if (block.count > 1) group.append(svg('text', {class: 'title', x: x + width - 10, y: y + 20, 'text-anchor': 'end'}, `${block.count} \u00d7`));
  lines.forEach(([left, right, name], i) => {
    const at = y + 38 + pitch * i;
    group.append(svg('text', {class: name, x: x + (name === 'shapes' ? 22 : 10), y: at}, left));
    if (right) group.append(svg('text', {class: name, x: left || name ? x + width - 10 : x + 10, y: at, 'text-anchor': left || name ? 'end' : 'start'}, right));
  });
  return {group, height: height + (block.count > 2 ? 8 : block.count > 1 ? 4 : 0)};
}

/** An arrow along points [x, y]. */
function diagramArrow(points) {
  const [[fromX, fromY], [x, y]] = points.slice(-2);
  const tip = x === fromX ? `M${x - 4} ${y - 7}L${x} ${y}L${x + 4} ${y - 7}` : `M${x - 7} ${y - 4}L${x} ${y}L${x - 7} ${y + 4}`;
  return svg('path', {class: 'flow', d: `M${points.map((p) => p.join(' ')).join('L')}${tip}`, 'data-from': fromY});
}

/** The blocks from top to bottom; those of an encoder that a decoder reads stand at its left. */
function modelDiagram(blocks) {
  const width = 300, gap = 34, top = 6;
  const columns = blocks.some((b) => b.of_encoder) ? [blocks.filter((b) => b.of_encoder), blocks.filter((b) => !b.of_encoder)] : [blocks];
  const picture = svg('svg', {class: 'diagram', role: 'img'});
  const places = new Map();
  let bottom = 0;
  columns.forEach((column, c) => {
    const x = 1 + c * (width + 90), middle = x + width / 2;
    let y = top;
    column.forEach((block, i) => {
      const {group, height} = diagramBox(block, x, y, width);
      picture.append(group);
      places.set(block, {x, y, height});
      y += height;
      const last = i === column.length - 1;
      if (!last) picture.append(diagramArrow([[middle, y], [middle, y + gap]]));
      if (block.output) picture.append(svg('text', {x: middle + 10, y: y + (last ? 18 : 21)}, block.output));
      y += last ? 26 : gap;
    });
    bottom = Math.max(bottom, y);
  });
  const reader = blocks.find((b) => b.reads_encoder), memory = columns[0][columns[0].length - 1];
  if (columns.length === 2 && reader) {
    const from = places.get(memory), to = places.get(reader);
    const turn = from.x + width + 45, y = from.y + from.height / 2, end = to.y + 15;
    picture.append(diagramArrow([[from.x + width, y], [turn, y], [turn, end], [to.x, end]]));
  }
  const all = columns.length * width + (columns.length - 1) * 90 + 12;
  picture.setAttribute('viewBox', `0 0 ${all} ${bottom}`);
  picture.setAttribute('width', all);
  picture.setAttribute('height', bottom);
  picture.setAttribute('aria-label', `The model from input to output: ${blocks.map((b) => `${b.title}, ${count(b.count * b.parameters)} parameters` +
    `${b.output ? `, output ${b.output}` : ''}`).join('; ')}.`);
  return picture;
}

function diagramPart(run) {
  if (!run.diagram) return [];
  const of = (letter) => run.diagram.some((b) => b.output.includes(`${letter},`) || b.output.includes(`${letter})`));
  const letters = [['B', 'examples of a batch'], ['S', 'source tokens'], ['T', 'target tokens'],
    ['P', 'patches'], ['L', !run.patches ? 'tokens' : of('P') ? 'patches and the class token' : 'patches']].filter(([letter]) => of(letter)).map(([letter, text]) => `${letter}: ${text}`);
  return [el('p', {}, 'In a box: parameters and shapes of its tensors. ',
    letters.length ? `Beside an arrow: the shape of what a block computes (${letters.join(', ')}).` : ''),
  scrolling('Blocks of the model in the order of data', modelDiagram(run.diagram))];
}
