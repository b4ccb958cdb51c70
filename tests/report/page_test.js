// SPDX-License-Identifier: BSD-3-Clause
// Runs the scripts of pages in Node.js with a small document. Building and using a page must not
// throw, and axes must fit any values. Usage: node page_test.js TAPESTRY
'use strict';
const assert = require('node:assert');
const {execFileSync} = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const vm = require('node:vm');

// ---- A document

/** An element with the parts of the DOM that the pages use. */
class Element {
  constructor(name) {
    Object.assign(this, {name, attributes: {}, children: [], listeners: {}, style: {}, text: ''});
    this.classList = {add() {}, remove() {}};
    this.clientWidth = 400;
    this.hidden = false;
  }
  setAttribute(key, value) {
    assert(!/NaN|Infinity|undefined/.test(String(value)), `${key}="${value}"`);
    this.attributes[key] = String(value);
  }
  removeAttribute(key) { delete this.attributes[key]; }
  addEventListener(event, listener) { (this.listeners[event] ??= []).push(listener); }
  append(...children) { this.children.push(...children); }
  replaceChildren(...children) { this.children = children; }
  get childElementCount() { return this.children.filter((c) => c instanceof Element).length; }
  set textContent(text) { this.children = [text]; }
  get textContent() { return this.children.map((c) => c.textContent ?? String(c)).join(''); }
  get value() { return this.attributes.value ?? '0'; }
  get checked() { return 'checked' in this.attributes; }
  get options() { return this.children; }
  getContext() {
    return {createImageData: (w, h) => ({data: new Uint8Array(4 * w * h)}), putImageData() {},
      clearRect() {}, fillRect() {}, strokeRect() {}};
  }
  getBoundingClientRect() { return {left: 0, top: 0, width: 400, height: 200}; }
  querySelector(name) { return this.all().find((e) => e.name === name) ?? null; }
  scrollIntoView() {}
  /** This element and all elements in it. */
  all() { return [this, ...this.children.flatMap((c) => (c instanceof Element ? c.all() : []))]; }
}

/** Runs the scripts of a page; returns its main element and `names`, which the scripts define. */
function open(html, names = [], innerWidth = 1000) {
  const text = /<script type="application\/json" id="data">([^]*?)<\/script>/.exec(html)[1];
  const script = /\(\(\) => \{([^]*)\}\)\(\);\s*<\/script>/.exec(html)[1];
  const roots = new Map(), byId = (id) => {
    if (!roots.has(id)) roots.set(id, new Element(id));
    return roots.get(id);
  };
  byId('data').append(text);
  const document = {
    documentElement: byId('html'),
    createElement: (name) => new Element(name),
    createElementNS: (_, name) => new Element(name),
    getElementById: byId,
    querySelector: byId,
    querySelectorAll: () => [],
  };
  const found = vm.runInNewContext(`${script}\n;({${names}})`, {
    document, performance: {mark() {}, now: () => 0}, setInterval() {}, location: {}, innerWidth,
    ResizeObserver: class { observe() {} },
    IntersectionObserver: class { observe() {} },
    matchMedia: () => ({addEventListener() {}}),
    getComputedStyle: () => ({getPropertyValue: () => '#102030'}),
    atob: (s) => Buffer.from(s, 'base64').toString('latin1'),
  });
  return {main: byId('main'), ...found};
}

/** Opens, chooses and presses everything on a page, and once more what this has made. Returns the
 * number of elements. */
function use(page) {
  const used = new Set();
  const send = (element, event, details = {}) => {
    const listeners = element.listeners[event] ?? [];
    listeners.forEach((f) => f({clientX: 90, clientY: 90, preventDefault() {}, ...details}));
  };
  for (let round = 0; round < 2; ++round) {
    for (const element of page.main.all().filter((e) => !used.has(e))) {
      used.add(element);
      element.open = true;
      for (const key of ['ArrowRight', 'ArrowDown']) send(element, 'keydown', {key});
      for (const event of ['toggle', 'change', 'click', 'input', 'pointermove', 'pointerleave']) {
        send(element, event);
      }
    }
  }
  return used.size;
}

// ---- Pages

const tapestry = path.resolve(process.argv[2]);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tapestry-pages-'));
process.on('exit', () => fs.rmSync(folder, {recursive: true}));
const run = (...words) =>
  execFileSync(tapestry, words, {cwd: folder, stdio: ['ignore', 'pipe', 'ignore']}).toString();
const page = (file) => fs.readFileSync(path.join(folder, file), 'utf8');
fs.writeFileSync(path.join(folder, 'copy.yaml'), `
data: {num_symbols: 5, max_length: 4, train_size: 200, validation_size: 20, test_size: 10}
model: {d_model: 8, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, max_length: 8}
train: {steps: 12, batch_size: 8, log_every: 4, validate_every: 6, save_every: 6, threads: 1}
`);
const sentence = 'Ada\tB-PER\nLovelace\tI-PER\nlived\tO\n\n';
fs.writeFileSync(path.join(folder, 'tags.txt'), sentence.repeat(9));
fs.writeFileSync(path.join(folder, 'tags.yaml'), `
data: {task: tagged_text, train_text: tags.txt, validation_text: tags.txt}
model: {kind: tagger, d_model: 8, num_heads: 2, num_encoder_layers: 1, d_ff: 16}
train: {steps: 4, batch_size: 8, validate_every: 2, threads: 1}
`);

// The page of a run names the held-out set, and shows the test score that evaluate has recorded.
run('train', 'copy.yaml');
run('report', 'runs/copy');
let opened = open(page('runs/copy/report.html'));
assert(use(opened) > 500);
let text = opened.main.textContent;
const isFolded = (p, wanted) =>
  p.main.all().some((e) => e.name === 'details' && e.textContent.includes(wanted));
for (const width of [500, 1000]) {
  opened = open(page('runs/copy/report.html'), [], width);
  assert.strictEqual(isFolded(opened, 'Blocks of the model'), width === 500);
  assert(!isFolded(opened, 'Held-out examples'));
  assert.strictEqual(isFolded(opened, 'More held-out examples'), width === 500);
}
assert(text.includes('of the validation set') && !text.includes('of the test set'));
assert(!text.includes('Loss 9.5'));
const scores = JSON.parse(run('evaluate', 'runs/copy', '--json'));
run('report', 'runs/copy', '--set', 'test');
text = open(page('runs/copy/report.html')).main.textContent;
assert(text.includes('of the test set') && !text.includes('20 pairs of the validation set'));
const loss = String(Number(scores.test.loss.toPrecision(4)));
assert(text.includes(`Loss ${loss} at step ${scores.step}`), loss);

// The page of a sweep sorts settings by their values, and runs by the mean of their setting.
run('sweep', 'copy.yaml', 'model.dropout=0,0.3', 'train.seed=1..2');
opened = open(page('runs/copy-sweep/report.html'),
  ['findSettings', 'rankedRuns', 'settingText', 'bestOf', 'scoreStrip']);
assert(use(opened) > 200);
// Sums and differences of the largest scores overflow.
for (const scores of [[1.7e308, -1.7e308], [1.7e308, 1.6e308]]) {
  for (const range of [scores.slice().sort((x, y) => x - y), [-Infinity, Infinity]]) {
    const strip = opened.scoreStrip({scores, mean: scores[0], half: 1.7e308}, range, String);
    for (const {attributes} of strip.all()) {
      for (const name of ['x', 'x1', 'x2', 'cx', 'width']) {
        if (name in attributes) assert(Number.isFinite(Number(attributes[name])), name);
      }
    }
  }
}
assert.deepStrictEqual(opened.findSettings().map((s) => opened.settingText(s.runs[0])).join(),
  'model.dropout=0,model.dropout=0.3');
assert(opened.main.textContent.includes('model.dropout=0.3, mean of 2 seeds'));
const [a, b] = opened.findSettings().sort((x, y) => x.mean - y.mean);
assert(a.mean < b.mean);
assert(opened.rankedRuns().slice(0, 2).every((r) => a.scores.includes(opened.bestOf(r).y)));
run('report', 'runs/copy', 'runs/copy-sweep/run-01');
use(open(page('report.html')));

// A sweep of two keys has a table with a cell for each mean; the best mean is bold.
run('sweep', 'copy.yaml', 'model.dropout=0,0.3', 'model.d_ff=16,8', 'train.seed=1..2',
  'train.steps=4', '--output', 'runs/grid');
opened = open(page('runs/grid/report.html'), ['findSettings', 'scoreTable', 'short']);
use(opened);
const cellsOf = (table) => table.all().filter((e) => e.name === 'td');
const texts = (elements) => elements.map((e) => e.textContent).join();
const gridTable = opened.main.all().find((e) => e.attributes.class === 'confusion');
const ordered = opened.findSettings().map((s) => s.mean);
assert.strictEqual(texts(gridTable.all().filter((e) => e.name === 'th').slice(1)), '0,0.3,8,16');
assert.strictEqual(texts(cellsOf(gridTable)), ordered.map(opened.short).join());
assert.strictEqual(texts(gridTable.all().filter((e) => e.name === 'strong')),
  opened.short(Math.min(...ordered)));

// In the page of a tagger, each label is below its token, and only wrong labels are marked.
run('train', 'tags.yaml');
run('report', 'runs/tags');
opened = open(page('runs/tags/report.html'), ['labelledTokens', 'align']);
assert(use(opened) > 100);
const tokens = opened.labelledTokens({input: 'a b c', expected: 'X O O', output: 'O O O'});
const marks = tokens.children.map((token) => token.all().filter((e) => e.name === 'mark').length);
assert.deepStrictEqual(marks.join(), '2,0,0');
assert.deepStrictEqual(tokens.children.map((e) => e.children[0]).join(), 'a,b,c');

// The perplexity of a tagger is not shown, and its loss is not in the chart of a translator.
const titlesOf = (p) => p.main.all().filter((e) => e.name === 'h3').map((e) => e.textContent);
assert(!titlesOf(opened).includes('Perplexity'));
run('report', 'runs/copy', 'runs/tags');
opened = open(page('report.html'), ['view', 'rankedRuns', 'runs']);
use(opened);
for (const kind of ['seq2seq', 'tagger']) {
  const chart = opened.view.charts.find(({title}) => title === `Loss, ${kind}`);
  assert(chart.series.length > 0 && chart.series.every((s) => opened.runs[s.run].kind === kind));
}
const shown = titlesOf(opened);
assert(shown.includes('Perplexity, seq2seq') && !shown.includes('Perplexity, tagger'));
assert(shown.includes('Seconds per step') && !shown.includes('Loss'));
assert(!opened.main.textContent.includes('best first'));

run('explain', 'runs/copy', 'a b c', '--output', 'explain.html');
opened = open(page('explain.html'), ['markOnMap']);
assert(use(opened) > 500);
text = opened.main.textContent;
assert(text.includes('a b c'));
// The map has the parts of the layers in their order, and marks the step that is read.
const map = opened.main.all().find((e) => e.attributes.class === 'map');
const links = map.all().filter((e) => e.name === 'a');
const layer = links.findIndex((e) => e.textContent === 'decoder.layers.0');
assert.strictEqual(texts(links.slice(layer + 1, layer + 4)),
  'self-attention,cross-attention,feed-forward');
assert(map.textContent.includes('cross-attention \u2190 Encoder output'));
const target = Number(links[layer + 2].attributes.href.slice('#step'.length));
const current = () => texts(links.filter((e) => e.attributes['aria-current']));
opened.markOnMap(target);
assert.strictEqual(current(), 'cross-attention');
opened.markOnMap(0);
assert.strictEqual(current(), 'embedding');

// ---- Axes and charts of random series

const {Chart, axisRange, ticks, logTicks, view} = open(page('runs/copy/report.html'),
  ['Chart', 'axisRange', 'ticks', 'logTicks', 'view']);
let state = 12345;
const random = () => {  // xorshift32
  state ^= state << 13; state ^= state >>> 17; state ^= state << 5;
  return (state >>> 0) / 2 ** 32;
};
const among = (...values) => values[Math.floor(random() * values.length)];
const special = [0, -0, 1, -1, 1 + Number.EPSILON, 5e-324, -5e-324, 1e-310, 2.2e-308, 1e-300, 1e300,
  Number.MAX_VALUE, -Number.MAX_VALUE, null, 1e16, 0.1, 1 / 3];
const value = () => among(among(...special), random(), 10 ** (600 * random() - 300),
  -(10 ** (40 * random() - 20)), 1 + 1e-15 * random());
function checkTicks(found, low, high) {
  assert(found.length > 0 && found.length <= 40, `${found.length} ticks from ${low} to ${high}`);
  const ascends = found.every((t, i) => Number.isFinite(t) && (i === 0 || t > found[i - 1]));
  assert(ascends, `ticks from ${low} to ${high}: ${found}`);
}
let slowest = 0;
for (let i = 0; i < 10000; ++i) {
  const scale = value() ?? 1, constant = random() < 0.2;
  const near = () => scale * (1 + Number.EPSILON * Math.floor(3 * random()));
  const series = Array.from({length: 1 + Math.floor(random() * 12)}, () =>
    (constant ? scale : random() < 0.5 ? value() : near()));
  const values = series.map((y) => (Number.isFinite(y) ? y : null));
  Object.assign(view, {log: random() < 0.3, smoothing: among(0, 0.6, 0.99), means: false});
  const positive = values.filter((y) => y != null && (!view.log || y > 0));
  const [low, high] = axisRange(positive, view.log);
  assert(low < high && Number.isFinite(high - low), `${values}: ${low} to ${high}`);
  checkTicks(view.log ? logTicks(low, high) : ticks(low, high, 5), low, high);
  const start = performance.now(), raw = values.map((y, k) => ({x: k * among(1, 1, 1e3, 1e15), y}));
  raw.sort((p, q) => p.x - q.x);
  const chart = new Chart('a', [{label: 'a', color: 'red', raw, basis: among(raw, null), run: 0,
    best: raw.find((p) => p.y != null)}], String, 160);
  chart.draw();
  chart.show(raw[0].x);
  slowest = Math.max(slowest, performance.now() - start);
}
assert(slowest < 1000, `a chart took ${slowest} ms`);
for (const [low, high] of [[1, 1 + Number.EPSILON], [0, 5e-324], [1, 1], [-Infinity, Infinity],
  [NaN, NaN], [0, Infinity], [1e16, 1e16 + 2], [-Number.MAX_VALUE, Number.MAX_VALUE]]) {
  assert(ticks(low, high, 5).length <= 40);
}
const tenths = ticks(0, 1, 5).map((t) => t.toFixed(1));
assert.deepStrictEqual(tenths.join(), '0.0,0.2,0.4,0.6,0.8,1.0');
console.log(`pages, and 10,000 charts of at most ${slowest.toFixed(1)} ms`);
