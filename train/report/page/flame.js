// Where the time of a run went, as a flame graph: the width of a part is its share of the time.

/** The parts of a tree {name, seconds, parts} in rows: [{part, depth, from, path}], from 0 to 1. */
function flameCells(tree) {
  const cells = [];
  const place = (part, depth, from, path) => {
    cells.push({part, depth, from, path});
    let at = from;
    for (const inner of part.parts) {
      place(inner, depth + 1, at, [...path, inner.name]);
      at += inner.seconds / tree.seconds;
    }
  };
  place(tree, 0, 0, [tree.name]);
  return cells;
}

function flameGraph(tree) {
  const width = Math.max(300, Math.min(1100, document.getElementById('main').clientWidth)), pitch = 26, cells = flameCells(tree);
  const depth = Math.max(...cells.map((c) => c.depth)) + 1;
  const readout = el('output', {class: 'readout'}, 'Point at a part, or use the arrow keys in the graph.');
  const picture = svg('svg', {class: 'flame', role: 'img', tabindex: 0, width, height: depth * pitch,
    viewBox: `0 0 ${width} ${depth * pitch}`});
  const text = ({part, path}) => `${path.join(', ')}: ${part.seconds.toFixed(part.seconds < 1 ? 3 : 1)} s, ${percent(part.seconds / tree.seconds)}`;
  let chosen = 0;
  const choose = (i) => {
    cells[chosen].box?.classList.remove('chosen');
    chosen = i;
    cells[chosen].box?.classList.add('chosen');
    readout.textContent = text(cells[i]);
  };
  // Parts of less than half a pixel are not drawn; the table has them.
  const drawn = cells.filter((cell) => cell.part.seconds / tree.seconds * width >= 0.5);
  for (const cell of drawn) {
    const x = cell.from * width, w = cell.part.seconds / tree.seconds * width, y = cell.depth * pitch;
    const letters = Math.floor((w - 10) / 7.6), name = cell.part.name;
    cell.box = svg('rect', {class: `part depth${cell.depth}`, x: x.toFixed(1), y, width: Math.max(0.5, w - 1).toFixed(1), height: pitch - 2});
    picture.append(svg('g', {onpointerenter: () => choose(cells.indexOf(cell))}, cell.box,
      letters >= 3 ? svg('text', {x: x + 5, y: y + 16}, name.length > letters ? `${name.slice(0, letters - 1)}\u2026` : name) : null));
  }
  const move = {
    ArrowDown: (now) => drawn.find((c) => c.depth === now.depth + 1 && c.from >= now.from - 1e-9 && c.path[now.depth] === now.part.name),
    ArrowUp: (now) => drawn.findLast((c) => c.depth === now.depth - 1 && c.from <= now.from + 1e-9),
    ArrowRight: (now) => drawn.find((c) => c.depth === now.depth && c.from > now.from),
    ArrowLeft: (now) => drawn.findLast((c) => c.depth === now.depth && c.from < now.from)};
  picture.addEventListener('keydown', (event) => {
    if (!Object.hasOwn(move, event.key)) return;
    choose(cells.indexOf(move[event.key](cells[chosen]) ?? cells[chosen]));
    event.preventDefault();
  });
  picture.setAttribute('aria-label', `Time by part: ${cells.filter((c) => c.depth < 3).map(text).join('; ')}.`);
  return [readout, scrolling('Time by part', picture)];
}

function profilePart(run) {
  const h = run.history;
  if (!h.profile) return [];
  const rows = el('pre', {tabindex: 0, role: 'group', 'aria-label': 'Time by operation'}, h.profile);
  return [el('h3', {}, 'Time by operation'),
    el('p', {class: 'quiet'}, 'Of the last process with --profile. Each part is drawn below the part that it belongs to, the longest at the left.'),
    h.profile_tree?.seconds > 0 ? flameGraph(h.profile_tree) : null,
    el('details', {}, el('summary', {}, 'Calls, speed and bytes of each operation'), rows)];
}
