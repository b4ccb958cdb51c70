// Draws the report of the data in the element #data, see train/report/report_data.h. Texts of the
// data are inserted as text nodes and attributes only. All scripts share one function, see page.html.
const data = JSON.parse(document.getElementById('data').textContent);
const runs = data.runs;

/** An element with attributes, event handlers (on...) and children: elements, texts, null. */
function element(space, name, attributes, children) {
  const made = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, '');
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child != null));
  return made;
}
const el = (name, attributes, ...children) => element(null, name, attributes, children);
const svg = (name, attributes, ...children) =>
  element('http://www.w3.org/2000/svg', name, attributes, children);

let lastId = 0;
const newId = () => `e${++lastId}`;

const sectionIds = new Set();
/** The id of the heading of the first section with this title. */
const sectionId = (title) => `section-${title.toLowerCase().replace(/[^a-z0-9]+/g, '-')}`;

/** A section with a heading that the navigation lists. */
function section(title, ...children) {
  const id = sectionIds.has(sectionId(title)) ? newId() : sectionId(title);
  sectionIds.add(id);
  document.getElementById('sections').append(el('li', {}, el('a', {href: `#${id}`}, title)));
  return el('section', {}, el('h2', {id}, title), children);
}

/** A table from columns {title, number, cell(row)}; the first column is the header of its row. */
function table(caption, columns, rows, name = '') {
  const numeric = (column) => (column.number ? 'number' : null);
  // In a narrow window each row of a wide table is a block of cells with the titles of their columns. The roles say
  // that it still is a table.
  const stacked = columns.length > 3 || columns.some((c) => c.text);
  const role = (text) => (stacked ? text : null);
  const head = columns.map((c) => el('th', {scope: 'col', class: numeric(c), role: role('columnheader')}, c.title));
  const body = rows.map((row) => el('tr', {role: role('row')}, columns.map((c, i) => i === 0
    ? el('th', {scope: 'row', role: role('rowheader'), class: numeric(c), 'data-title': c.title}, c.cell(row))
    : el('td', {role: role('cell'), class: c.number ? 'number' : c.text ? 'text' : null, 'data-title': c.title}, c.cell(row)))));
  return scrolling(caption, el('table', {class: `${name}${stacked ? ' stacked' : ''}`, role: role('table')},
    caption ? el('caption', {}, caption) : null,
    el('thead', {role: role('rowgroup')}, el('tr', {role: role('row')}, head)), el('tbody', {role: role('rowgroup')}, body)));
}

/** Marks regions whose content is wider than they are, for the hint that they scroll sideways, see page.css. */
const widthObserver = new ResizeObserver((entries) => requestAnimationFrame(() => {
  for (const box of new Set(entries.map(({target}) => target.closest('.scroll')))) {
    box?.classList.toggle('overflows', box.scrollWidth > box.clientWidth + 1);
  }
}));
function withHint(box) {
  for (const part of [box, ...box.children]) widthObserver.observe(part);
  return box;
}

/** A region that scrolls by mouse, touch and keyboard. */
const scrolling = (label, content, more = '') =>
  withHint(el('div', {class: `scroll ${more}`, tabindex: 0, role: 'group', 'aria-label': label}, content));

/** A name that fits beside or above a heat map; what shows a value there has the whole name. */
function label(name) {
  const most = document.documentElement.clientWidth < 600 ? 7 : 14;
  const letters = [...name.replace('<newline>', '\u23ce').replace('<space>', '\u2423')];
  return letters.length > most ? `${letters.slice(0, most - 1).join('')}\u2026` : letters.join('');
}

function checkbox(label, checked, change) {
  const input = el('input', {type: 'checkbox', checked,
    onchange: () => change(input.checked)});
  return el('label', {class: 'field'}, input, label);
}

function choice(label, options, change, value = 0) {
  const list = el('select', {onchange: () => change(Number(list.value))},
    options.map((text, i) => el('option', {value: i, selected: i === value}, text)));
  return el('label', {class: 'field'}, label, list);
}

// ---- Numbers

const count = (n) => Math.round(n).toLocaleString('en-US');
const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;

/** A number with four significant digits. */
function short(x) {
  if (x == null || Number.isNaN(x)) return 'not finite';
  if (x === 0) return '0';
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-4) return x.toExponential(2).replace('e+', 'e');
  return size >= 1000 ? count(x) : String(Number(x.toPrecision(4)));
}

function duration(seconds) {
  const s = Math.round(seconds);
  const two = (n) => String(n).padStart(2, '0');
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}`
    : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

/** The points {x, y} of a curve, whose steps are differences; y is null if it is not finite. */
function points(differences, values) {
  let x = 0;
  return differences.map((difference, i) => ({x: (x += difference), y: values[i]}));
}

const color = (i) => `var(--c${i % 8})`;

// ---- Theme

const redrawWithTheme = [];
function setTheme(theme) {
  const dark = theme === 'dark' ||
    (theme === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  for (const redraw of redrawWithTheme) redraw();
}
function startTheme() {
  const list = document.getElementById('theme');
  const remember = (text) => { try { localStorage.setItem('tapestry-theme', text); } catch { /* a file may have no storage */ } };
  try { list.value = localStorage.getItem('tapestry-theme') || 'auto'; } catch { /* the same */ }
  list.addEventListener('change', () => { remember(list.value); setTheme(list.value); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => setTheme(list.value));
  setTheme(list.value);
}
