// SPDX-License-Identifier: BSD-3-Clause
// Opens pages of `tapestry report` and `tapestry explain` with random data in Chromium. The data must
// not cause console messages or create elements. In the fastest of four tries, a page must open
// within 2 s, and an event may take at most 500 ms. The report of a small run is at most 6,000 px
// high on a phone. Usage: node random_pages.js TAPESTRY [PAGES [FIRST]]; exits with 77 (skipped)
// without Chromium.
'use strict';
const assert = require('node:assert');
const {execFileSync, spawn} = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const chromium = ['chromium', 'chromium-browser', 'google-chrome'].find((name) =>
  process.env.PATH.split(':').some((folder) => fs.existsSync(path.join(folder, name))));
if (!chromium) {
  console.log('skipped: Chromium is not installed');
  process.exit(77);
}

// ---- In the browser

/** Opens `count` pages with random data, from number `first`, and prints a summary as a message of
 * the console. `bases` are pages of the program as {name, html}. */
async function openPages(bases, first, count) {
  let state = 1;
  const random = () => {  // xorshift32
    state ^= state << 13; state ^= state >>> 17; state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  const below = (n) => Math.floor(random() * n);
  const among = (...values) => values[below(values.length)];
  const list = (n, make) => Array.from({length: n}, make);

  const pieces = ['', ' ', 'a', 'step', '</script>', '<script>parent.ran = 1</script>', '<!--',
    ']]>', '<img src=x onerror="parent.ran = 1">', '&amp;', '\u2028', '\u2029', '\u0000', '\u0007',
    '\u001b[31m', '\u007f', '\u05e9\u05dc\u05d5\u05dd', '\u202e', '\u0645\u0631\u062d\u0628\u0627',
    '\u{1f469}\u200d\u{1f467}', '\u{1f1e9}\u{1f1ea}', '\ud800', 'e\u0301\u0323', '\u65e5\u672c',
    '__proto__', 'constructor', 'toString', '<newline>', '<space>', '\u2581the', '"', '\'', '\\',
    '\n', '\t', '$&', '$1', '%s', '{}', ': ', 'NaN', '-1e400', '0', '1e-5'];
  const text = () => among(
    () => among(...pieces),
    () => list(1 + below(6), () => among(...pieces)).join(among('', ' ')),
    () => among('W', '\u{1f600}', '\u05d0').repeat(1 + below(3000)),
    () => list(below(300), () => among('the', 'a', ...pieces)).join(' '))();
  const special = [null, null, 0, -0, 1, -1, 1 + Number.EPSILON, 5e-324, -5e-324, 1e-310,
    2.2e-308, 1e300, Number.MAX_VALUE, -Number.MAX_VALUE, 1e16, 0.1];
  const number = () => among(() => among(...special), random, () => 10 ** (600 * random() - 300),
    () => -(10 ** (40 * random() - 20)))();

  // The program computes the other numbers: indices, steps, shapes, counts.
  const measured = new Set(['values', 'means', 'deviation', 'low', 'high', 'norm', 'rms', 'mean',
    'seconds', 'loss', 'probability', 'logit', 'gradient_norm', 'update_ratio', 'weight_norm',
    't_975', 'processor_seconds', 'other_seconds']);
  const named = new Set(['name', 'path', 'key', 'values', 'notes', 'input', 'output', 'outputs',
    'expected', 'tokens', 'token', 'text', 'config', 'changed_keys', 'log', 'profile', 'file',
    'choice', 'classes', 'noun', 'targets', 'best_metric', 'program', 'time', 'model', 'labels',
    'encoder', 'decoder', 'changes', 'started', 'layer', 'operation', 'formula',
    'gradient_formula', 'set', 'overrides']);
  const infinite = ['inf', '-inf'];  // in tensors of `explain`

  /** Replaces texts and numbers with this probability; `constant` replaces numbers if not null. */
  function mutate(value, key, rate, constant, inTensor) {
    if (Array.isArray(value)) return value.map((v) => mutate(v, key, rate, constant, inTensor));
    if (typeof value === 'string') {
      return named.has(key) && !infinite.includes(value) && random() < rate ? text() : value;
    }
    if (typeof value === 'number' && measured.has(key) && random() < rate) {
      if (constant != null) return constant;
      return inTensor && random() < 0.1 ? among(...infinite) : number();
    }
    if (value == null || typeof value !== 'object') return value;
    const isTensor = 'digits' in value;
    return Object.fromEntries(Object.entries(value).map(([name, v]) =>
      [name, mutate(v, name, rate, constant, isTensor)]));
  }

  /** Makes a curve as long as the longest that the program writes for so many runs. */
  function lengthen(curve, numRuns) {
    const n = Math.max(100, Math.floor(2000 / numRuns));
    const y = random() < 0.5 ? () => number() : () => 5 + random();
    const made = {...curve, steps: list(n, () => 1 + below(50)), values: list(n, y)};
    if (curve.deviation) made.deviation = list(n, random);
    return made;
  }

  function randomData(base) {
    const rate = among(0, 0.02, 0.3, 1), constant = random() < 0.15 ? among(...special) : null;
    const data = mutate(base, '', rate, constant, false);
    for (const run of [...(data.runs ?? []), ...(data.groups ?? [])]) {
      if (random() < 0.2) run.curves = run.curves.map((curve) => lengthen(curve, data.runs.length));
    }
    // A run whose config is unknown has no kind. Each kind has separate charts.
    const kinds = list(3, () => (random() < 0.3 ? undefined : text()));
    if (random() < 0.5) (data.runs ?? [data]).forEach((run) => { run.kind = among(...kinds); });
    return data;
  }

  const escape = (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`;
  const dataElement =
    /^([^]*<script type="application\/json" id="data">)([^]*?)(<\/script>[^]*)$/;
  const parsed = bases.map(({name, html}) => {
    const [, before, json, after] = dataElement.exec(html);
    return {name, before, data: JSON.parse(json), after};
  });
  const pageOf = ({before, after}, data) => {
    const json = JSON.stringify(data).replace(/[<>&\u2028\u2029]/g, escape);
    return before.replace('<head>', () => '<head><script>const began = performance.now();' +
      'onerror = (message) => parent.failed(message);</script>') + json + after;
  };

  const failures = [], slow = [];
  let slowest = 0, slowestToOpen = 0, events = 0;
  self.failed = (message) => failures.push(String(message));
  const frame = document.createElement('iframe');
  document.body.append(frame);

  /** Uses a page; returns the times of events, each with its layout. */
  function use() {
    const {document: shown} = frame.contentWindow, times = [[0, 'no event']];
    const timed = (what, task) => {
      const start = performance.now();
      task();
      shown.body.offsetHeight;
      times.push([performance.now() - start, what]);
      ++events;
    };
    for (const details of shown.querySelectorAll('details')) {
      if (random() < 0.7) continue;
      timed('details', () => { details.open = true; details.dispatchEvent(new Event('toggle')); });
    }
    for (const select of shown.querySelectorAll('select')) {
      timed('select', () => {
        select.selectedIndex = below(select.options.length);
        select.dispatchEvent(new Event('change'));
      });
    }
    for (const input of shown.querySelectorAll('input, button')) {
      timed('control', () => { input.click(); input.dispatchEvent(new Event('input')); });
    }
    const places = [...shown.querySelectorAll('[tabindex="0"], canvas, td')];
    for (const place of list(Math.min(12, places.length), () => places[below(places.length)])) {
      const key = among('ArrowRight', 'ArrowDown', 'ArrowLeft', 'ArrowUp');
      timed('key', () => place.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true})));
      const box = place.getBoundingClientRect();
      const [clientX, clientY] = [box.left + random() * box.width, box.top + random() * box.height];
      const name = among('pointermove', 'pointerenter');
      const event = new PointerEvent(name, {clientX, clientY, bubbles: true});
      timed('pointer', () => place.dispatchEvent(event));
    }
    return times;
  }

  async function tryPage(seed) {
    state = seed * 2654435761 | 1;
    for (let k = 0; k < 5; ++k) random();
    const base = parsed[seed % parsed.length], data = randomData(base.data);
    frame.style = `width:${among(400, 1280)}px;height:900px;visibility:hidden`;  // not painted
    const html = pageOf(base, data);
    const loaded = new Promise((done) => { frame.onload = done; });
    const ready = new Promise((done) => { self.ready = done; });
    // The scripts of a page are one task. `built` is its time until the page is laid out.
    frame.srcdoc = html.replace('</body>', () => '<script>document.body.offsetHeight;' +
      'parent.ready(performance.now() - began)</script></body>');
    const built = await ready;
    await loaded;
    const shown = frame.contentWindow.document, before = failures.length;
    if (!shown.querySelector('main').childElementCount) failures.push('an empty page');
    const times = use();
    const isClean = !self.ran && shown.querySelectorAll('script').length === 4;
    if (!isClean) failures.push('data became an element');
    for (let k = before; k < failures.length; ++k) failures[k] += ` (page ${seed}, ${base.name})`;
    return [built, ...times.reduce((a, b) => (b[0] > a[0] ? b : a))];
  }

  frame.style = 'width:500px;height:900px';
  const phone = new Promise((done) => { frame.onload = done; });
  frame.srcdoc = bases[0].html;
  await phone;
  const height = frame.contentWindow.document.documentElement.scrollHeight;
  if (height > 6000) failures.push(`the report is ${height} px high at a width of 500 px`);

  // How much slower a loop is now than at its fastest: other programs may use the processor.
  const loop = () => {
    const start = performance.now();
    let x = 0;
    for (let k = 0; k < 1e6; ++k) x = (x * 31 + k) | 0;
    return performance.now() - start + (x === 0.5);
  };
  const fastest = Math.min(...list(300, loop));
  const slowdown = () => Math.max(1, list(30, loop).reduce((a, b) => a + b) / 30 / fastest);

  for (let seed = first; seed < first + count; ++seed) {
    let opening = Infinity, event = Infinity, kind = '';
    for (let tries = 0; tries < 4 && (opening > 2000 || event > 500); ++tries) {
      const [built, time, what] = await tryPage(seed);
      const ratio = built > 2000 || time > 500 ? slowdown() : 1;
      opening = Math.min(opening, built / ratio);
      if (time / ratio < event) [event, kind] = [time / ratio, what];
    }
    slowest = Math.max(slowest, event);
    slowestToOpen = Math.max(slowestToOpen, opening);
    const name = `page ${seed}, ${parsed[seed % parsed.length].name}`;
    if (opening > 2000) slow.push(`${name}: opening took ${Math.round(opening)} ms`);
    if (event > 500) slow.push(`${name}: ${kind} took ${Math.round(event)} ms`);
  }
  const summary = {failures, slow, slowest, slowestToOpen, events, height};
  console.log(`SUMMARY ${JSON.stringify(summary)}`);
}

// ---- Pages of the program

const tapestry = path.resolve(process.argv[2]);
const count = Number(process.argv[3] ?? 2000), first = Number(process.argv[4] ?? 0);
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tapestry-pages-'));
process.on('exit', () => fs.rmSync(folder, {recursive: true, force: true}));
const run = (...words) =>
  execFileSync(tapestry, words, {cwd: folder, stdio: ['ignore', 'pipe', 'ignore']});
const write = (name, content) => fs.writeFileSync(path.join(folder, name), content);

write('copy.yaml', `
data: {num_symbols: 5, max_length: 4, train_size: 200, validation_size: 20, test_size: 10}
model: {d_model: 8, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, max_length: 8}
train: {steps: 12, batch_size: 8, log_every: 4, validate_every: 6, save_every: 6, threads: 1}
`);
const sentence = 'Ada\tB-PER\n</script>\tI-PER\n\u{1f600}\tO\n\u05e9\u05dc\u05d5\u05dd\tO\n\n';
write('tags.txt', sentence.repeat(9));
write('tags.yaml', `
data: {task: tagged_text, train_text: tags.txt, validation_text: tags.txt}
model: {kind: tagger, d_model: 8, num_heads: 2, num_encoder_layers: 1, d_ff: 16}
train: {steps: 4, batch_size: 8, validate_every: 2, threads: 1}
`);
const line = 'the <!-- \u202e cat </script> \u{1f469}\u200d\u{1f467} &amp; \u0645\u0631\u062d';
write('words.txt', `${line} ${'W'.repeat(3000)}\n`.repeat(40));
write('words.yaml', `
data: {task: text, train_text: words.txt, validation_text: words.txt, context: 32, unit: word}
model: {kind: language_model, d_model: 8, num_heads: 2, num_decoder_layers: 1, max_length: 32}
train: {steps: 4, batch_size: 8, validate_every: 2, threads: 1}
`);
run('train', 'copy.yaml');
const taggerRun = 'runs/<!--\u05e9\u05dc\u05d5\u05dd &amp; <script>';
run('train', 'tags.yaml', `train.run_dir=${taggerRun}`);
run('train', 'words.yaml');
run('sweep', 'copy.yaml', 'model.dropout=0,0.3', 'model.d_ff=8,16', 'train.seed=1..2');
run('report', 'runs/copy');
run('report', 'runs/copy', taggerRun, '--output', 'kinds.html');
run('report', 'runs/words', '--output', 'words.html');
run('explain', 'runs/copy', 'a b c', '--output', 'copy.html');
run('explain', 'runs/words', line, '--output', 'explain.html');
const names = ['runs/copy/report.html', 'kinds.html', 'words.html', 'runs/copy-sweep/report.html',
  'copy.html', 'explain.html'];
const bases = names.map((name) => ({name, html: fs.readFileSync(path.join(folder, name), 'utf8')}));
const code = `(${openPages})(${JSON.stringify(bases)}, ${first}, ${count})`
  .replace(/<(?=[/!s])/g, '\\x3c');
write('harness.html', `<!DOCTYPE html><meta charset="utf-8"><body><script>${code}</script></body>`);

const started = Date.now();
const options = ['--headless=new', '--no-sandbox', '--disable-gpu', '--enable-logging=stderr',
  `--user-data-dir=${path.join(folder, 'profile')}`];
const browser = spawn(chromium, [...options, `file://${folder}/harness.html`],
  {stdio: ['ignore', 'ignore', 'pipe']});
const messages = [];
let text = '', done = false;
browser.stderr.setEncoding('utf8').on('data', (part) => {
  text += part;
  for (let end; (end = text.indexOf('\n')) >= 0; text = text.slice(end + 1)) {
    const line = text.slice(0, end);
    if (!line.includes('CONSOLE')) continue;
    const summary = /"SUMMARY (\{.*\})", source/.exec(line);
    if (!summary) { messages.push(line); continue; }
    done = true;
    browser.kill();
    const {failures, slow, slowest, slowestToOpen, events, height} = JSON.parse(summary[1]);
    const seconds = Math.round((Date.now() - started) / 1000);
    console.log(`${count} pages, ${events} events in ${seconds} s; at most ` +
      `${slowestToOpen.toFixed(0)} ms to open, ${slowest.toFixed(0)} ms for an event; ` +
      `${height} px high on a phone`);
    const found = [...failures, ...slow, ...messages];
    found.slice(0, Number(process.env.SHOWN ?? 20)).forEach((message) => console.log(message));
    assert(found.length === 0, `${found.length} findings`);
  }
});
browser.on('exit', () => assert(done, `Chromium ended early: ${messages.slice(0, 5).join('\n')}`));
