// Tensors of the data, and matrices as tables of numbers or as heat maps.

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

const colorParts = (name) => {
  const rgb = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((i) => parseInt(rgb.slice(i, i + 2), 16));
};

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
    chosen = [Math.min(m.rows - 1, Math.max(0, i)), Math.min(m.columns - 1, Math.max(0, j))];
    view.mark(...chosen);
    readout.textContent = describe(...chosen);
  };
  view.listen(choose);
  const box = scrolling(`${title}: arrow keys choose a number`, view.element);
  box.addEventListener('keydown', (event) => {
    const move = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    if (!move) return;
    if (chosen) choose(chosen[0] + move[0], chosen[1] + move[1]); else choose(0, 0);
    event.preventDefault();
  });
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
    const colors = {true: colorParts('--positive').join(), false: colorParts('--negative').join()};
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
