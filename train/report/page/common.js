// SPDX-License-Identifier: BSD-3-Clause
// Elements and numbers for the pages of `tapestry report` and `tapestry explain`, which draw the
// JSON in the element #data. Insert texts of the data only as text nodes and attributes. All
// scripts run in one function, see page.html.
const data = JSON.parse(document.getElementById('data').textContent);

/** Creates an element with attributes, event handlers (on...) and children: elements, texts or
 * null. */
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
const code = (text) => el('code', {}, text);
const quiet = (...children) => el('p', {class: 'quiet'}, children);

/** Sets the heading of the page, its subtitle and the title of the tab. */
function setTitle(title, subtitle) {
  document.title = `${title} - Tapestry`;
  document.querySelector('h1').textContent = title;
  document.getElementById('subtitle').textContent = subtitle;
}

let sections = 0;
/** A section with a heading that the navigation lists. */
function section(title, ...children) {
  const id = `section${++sections}`;
  document.getElementById('sections').append(el('li', {}, el('a', {href: `#${id}`}, title)));
  return el('section', {}, el('h2', {id}, title), children);
}

/** A region that scrolls by mouse, touch and keyboard. */
const scrolling = (label, content, more = '') =>
  el('div', {class: `scroll ${more}`, tabindex: 0, role: 'group', 'aria-label': label}, content);

/** A table from columns {title, number, text, cell(row)}. The first column has the row headers. */
function table(caption, columns, rows) {
  const kind = (column) => (column.number ? 'number' : column.text ? 'text' : null);
  const head = columns.map((c) => el('th', {scope: 'col', class: kind(c)}, c.title));
  const body = rows.map((row) => el('tr', {}, columns.map((c, i) =>
    el(i ? 'td' : 'th', {scope: i ? null : 'row', class: kind(c)}, c.cell(row)))));
  return scrolling(caption, el('table', {}, caption ? el('caption', {}, caption) : null,
    el('thead', {}, el('tr', {}, head)), el('tbody', {}, body)));
}

/** Shortens a name to fit next to or above a heat map. The readout shows the full name. */
function label(name) {
  const maxLetters = document.documentElement.clientWidth < 600 ? 7 : 14;
  const letters = [...name.replace('<newline>', '\u23ce').replace('<space>', '\u2423')];
  if (letters.length <= maxLetters) return letters.join('');
  return `${letters.slice(0, maxLetters - 1).join('')}\u2026`;
}

function checkbox(text, checked, change) {
  const input = el('input', {type: 'checkbox', checked, onchange: () => change(input.checked)});
  return el('label', {class: 'field'}, input, text);
}

function choice(text, options, change, value = 0) {
  const list = el('select', {onchange: () => change(Number(list.value))},
    options.map((option, i) => el('option', {value: i, selected: i === value}, option)));
  return el('label', {class: 'field'}, text, list);
}

/** Calls move(down, right) for the arrow keys of an element. */
function onArrows(target, move) {
  const moves = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
  target.addEventListener('keydown', (event) => {
    if (!moves[event.key]) return;
    move(...moves[event.key]);
    event.preventDefault();
  });
}

// ---- Numbers

const count = (n) => Math.round(n).toLocaleString('en-US');
const percent = (fraction, digits = 1) => `${(100 * fraction).toFixed(digits)} %`;
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));

/** A number with four significant digits. */
function short(x) {
  if (x == null || Number.isNaN(x)) return 'not finite';
  const size = Math.abs(x);
  if (x !== 0 && (size >= 1e6 || size < 1e-4)) return x.toExponential(2).replace('e+', 'e');
  return size >= 1000 ? count(x) : String(Number(x.toPrecision(4)));
}

function duration(seconds) {
  const s = Math.round(seconds), two = (n) => String(n).padStart(2, '0');
  const minutes = `${s < 3600 ? Math.floor(s / 60) : two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  return s < 3600 ? minutes : `${Math.floor(s / 3600)}:${minutes}`;
}

/** Red, green and blue of a color of the style. */
function rgbOf(name) {
  const color = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
}

/** Functions that redraw canvases when the system changes between light and dark. */
const redrawWithTheme = [];
matchMedia('(prefers-color-scheme: dark)')
  .addEventListener('change', () => redrawWithTheme.forEach((draw) => draw()));
