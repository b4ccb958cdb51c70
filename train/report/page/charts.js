// SPDX-License-Identifier: BSD-3-Clause
// Charts of curves over steps.

/** The state of the controls, for all charts. */
const view = {smoothing: 0, log: false, means: false, hidden: new Set(), charts: []};
let undrawn = [];
/** Draws all charts, for about 40 ms of each frame: many long curves take longer than a frame. */
function drawCharts() {
  const isDrawing = undrawn.length > 0;
  undrawn = [...view.charts];
  if (!isDrawing) drawSome();
}
function drawSome() {
  const start = performance.now();
  do undrawn.shift()?.draw(); while (undrawn.length && performance.now() - start < 40);
  if (undrawn.length) requestAnimationFrame(drawSome);
}

/** The points {x, y} of a curve from differences of steps; y is null if it is not finite. */
function points(differences, values) {
  let x = 0;
  return differences.map((difference, i) => ({x: (x += difference), y: values[i]}));
}

/** Exponential moving average of points, corrected for its start. */
function smoothed(curve, weight) {
  let sum = 0, total = 0;
  return curve.filter((p) => p.y != null).map((p) => {
    sum = weight * sum + (1 - weight) * p.y;
    total = weight * total + (1 - weight);
    return {x: p.x, y: sum / total};
  });
}

/** Values that pixels can be computed from: spans of larger values are infinite, logarithms of
 * smaller ones coarse. */
const drawable = (value, log) => clamp(value, log ? 1e-300 : -1e300, 1e300);

/** The ends of an axis for the finite values, low < high. Stored numbers have six digits, so smaller
 * differences are rounding errors. */
function axisRange(values, log = false) {
  const finite = values.filter(Number.isFinite);
  if (!finite.length) return [1, 2];
  const low = drawable(finite.reduce((a, b) => Math.min(a, b)), log);
  const high = drawable(finite.reduce((a, b) => Math.max(a, b)), log);
  if (log) return [low / 1.05, high * 1.05];
  const size = Math.max(Math.abs(low), Math.abs(high)), span = high - low;
  const margin = span > 1e-6 * size ? 0.04 * span : size > 1e-300 ? size / 2 : 1;
  return [low >= 0 ? Math.max(0, low - margin) : low - margin, high + margin];
}

/** Round values between low and high, about `wanted` of them; the ends if no others are known.
 * Computes each from its number, since adding a step to a value may not change it. */
function ticks(low, high, wanted) {
  const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough * 0.999);
  const first = Math.ceil(low / step), last = Math.floor(high / step + 1e-6);
  if (!(last - first < 4 * wanted) || !Number.isSafeInteger(first)) {
    return [low, high].filter(Number.isFinite);
  }
  return Array.from({length: last - first + 1}, (_, i) => (first + i) * step || 0);
}

function logTicks(low, high) {
  const factors = high / low < 20 ? [1, 2, 3, 5, 7] : high / low < 1000 ? [1, 2, 5] : [1];
  const found = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); ++e) {
    found.push(...factors.map((f) => f * 10 ** e));
  }
  const inside = found.filter((t) => t >= low && t <= high);
  const every = Math.ceil(inside.length / 7);
  return inside.length > 1 ? inside.filter((_, i) => i % every === 0) : [low, high];
}

/** The point of a curve whose x is nearest. */
function nearest(curve, x) {
  const distance = (p) => Math.abs(p.x - x);
  return curve.reduce((best, p) => (distance(p) < distance(best) ? p : best), curve[0]);
}

const swatch = ({dashed, color}) =>
  el('span', {class: `swatch${dashed ? ' dashed' : ''}`, style: `border-color:${color}`});

/** A chart of series {label, color, dashed, run, raw, basis, band, best}: `raw` are points, `basis`
 * the points to smooth or null, `band` whether points have standard deviations, `best` the point to
 * mark or null. The caption is its legend. */
class Chart {
  constructor(title, series, format, height) {
    Object.assign(this, {title, series, format, height, at: null});
    this.picture = svg('svg', {
      role: 'img', tabindex: 0,
      onpointermove: (e) => this.show(this.stepAt(e)),
      onpointerleave: () => this.show(null),
      onblur: () => this.show(null),
    });
    this.tip = el('div', {class: 'tip', hidden: true, 'aria-live': 'polite'});
    this.legend = el('figcaption', {class: 'quiet'});
    this.host =
      el('figure', {class: 'chart'}, el('h3', {}, title), this.picture, this.tip, this.legend);
    onArrows(this.picture, (_, right) => {
      const all = this.shown().flatMap((s) => s.raw.map((p) => p.x));
      const steps = [...new Set(all)].sort((a, b) => a - b);
      const now = this.at == null ? steps.length - 1 - right : steps.indexOf(this.at);
      if (steps.length) this.show(steps[clamp(now + right, 0, steps.length - 1)]);
    });
    view.charts.push(this);
  }

  shown() {
    const isChosen = (s) => (s.band ? view.means : !(view.means && s.grouped));
    return this.series.filter((s) => !view.hidden.has(s.run) && isChosen(s));
  }

  /** The lines to draw: {curve, s, faint}. */
  lines() {
    return this.shown().flatMap((s) => {
      const smooth = s.basis && view.smoothing > 0, raw = {curve: s.raw, s, faint: smooth};
      return smooth ? [raw, {curve: smoothed(s.basis, view.smoothing), s}] : [raw];
    });
  }

  /** Sets the functions px and py from values to pixels; returns the ticks of the vertical axis. */
  setScales(lines) {
    const all = lines.flatMap(({curve}) => curve);
    const values = all.map((p) => p.y).filter((y) => y != null && (!view.log || y > 0));
    const [y0, y1] = axisRange(values, view.log);
    const x1 = all.reduce((max, p) => Math.max(max, p.x), 1);
    const y = (v) => (view.log ? Math.log(drawable(v, true)) : drawable(v));
    const width = Math.max(260, this.host.clientWidth || 400);
    Object.assign(this, {width, left: 66, top: 8, bottom: this.height - 22, x1});
    this.right = this.width - 8;
    this.px = (x) => this.left + (this.right - this.left) * x / x1;
    this.py = (v) => this.bottom - (this.bottom - this.top) * (y(v) - y(y0)) / (y(y1) - y(y0));
    return view.log ? logTicks(y0, y1) : ticks(y0, y1, this.height / 40);
  }

  /** The elements of both axes. */
  drawAxes(values) {
    const across = (y) => ({x1: this.left, x2: this.right, y1: y, y2: y});
    const lines = values.flatMap((t) => [
      svg('line', {class: 'grid', ...across(this.py(t))}),
      svg('text', {x: this.left - 6, y: this.py(t) + 4, 'text-anchor': 'end'}, this.format(t))]);
    const steps = ticks(0, this.x1, this.width < 500 ? 4 : 6).filter(Number.isInteger).map((t) => {
      const anchor = this.px(t) > this.right - 24 ? 'end' : 'middle';
      return svg('text', {x: this.px(t), y: this.bottom + 16, 'text-anchor': anchor}, count(t));
    });
    const place = {x: this.left - 12, y: this.bottom + 16, 'text-anchor': 'end'};
    const name = svg('text', place, 'step');
    return [...lines, name, ...steps, svg('line', {class: 'axis', ...across(this.bottom)})];
  }

  draw() {
    const lines = this.lines(), parts = this.drawAxes(this.setScales(lines));
    this.overlay = svg('g', {});
    const {width, height} = this;
    const size = {viewBox: `0 0 ${width} ${height}`, height, 'aria-label': this.summary()};
    for (const [key, value] of Object.entries(size)) this.picture.setAttribute(key, value);
    const drawn = lines.flatMap((line) => this.drawLine(line));
    this.picture.replaceChildren(...parts, ...drawn, this.overlay);
    this.legend.replaceChildren(...this.legendParts());
  }

  /** The legend of the first series. */
  legendParts() {
    const maxSeries = 6, shown = this.shown(), rest = shown.length - maxSeries;
    const key = (s) => el('span', {class: 'key'}, swatch(s), s.label);
    const others = rest > 0 ? `and ${rest} more, in the colors of the overview. ` : '';
    const best = shown.some((s) => s.best) ? '\u25ef best validation' : '';
    return [...shown.slice(0, maxSeries).map(key), others, best];
  }

  /** The elements of a line. */
  drawLine({curve, s, faint}) {
    const isDrawn = (p) => p != null && p.y != null && !(view.log && p.y <= 0);
    const place = (p, difference = 0) => {
      const y = this.py(p.y + difference);
      return `${this.px(p.x).toFixed(1)} ${clamp(y, this.top, this.bottom).toFixed(1)}`;
    };
    const parts = [], drawn = curve.filter(isDrawn), fill = `fill:${s.color}`;
    if (s.band && drawn.length > 1) {
      const above = drawn.map((p) => place(p, p.deviation));
      const below = drawn.map((p) => place(p, -p.deviation)).reverse();
      const d = `M${[...above, ...below].join('L')}Z`;
      parts.push(svg('path', {d, style: fill, 'fill-opacity': 0.2}));
    }
    let path = '';
    curve.forEach((p, i) => {
      if (isDrawn(p)) path += `${isDrawn(curve[i - 1]) ? 'L' : 'M'}${place(p)}`;
      else if (p.y == null) {
        const d = `M${this.px(p.x) - 4} ${this.top}l8 8m0 -8l-8 8`;
        parts.push(svg('path', {class: 'odd', d}));
      }
      // A line needs two values: draw a value between two gaps as a point.
      const alone = isDrawn(p) && !isDrawn(curve[i - 1]) && !isDrawn(curve[i + 1]);
      if (alone || (isDrawn(p) && s.dashed && curve.length <= 60)) {
        parts.push(svg('circle', {cx: this.px(p.x), cy: this.py(p.y), r: 2.5, style: fill}));
      }
    });
    parts.push(svg('path', {
      d: path,
      fill: 'none',
      style: `stroke:${s.color}`,
      'stroke-width': faint ? 1 : 1.75,
      'stroke-opacity': faint ? 0.3 : 1,
      'stroke-dasharray': s.dashed ? '6 3' : null,
    }));
    if (s.best && isDrawn(s.best)) {
      const place = {cx: this.px(s.best.x), cy: this.py(s.best.y), r: 6};
      const title = `best: ${this.format(s.best.y)} at step ${count(s.best.x)}`;
      parts.push(svg('circle', {...place, fill: 'none', style: `stroke:${s.color}`,
        'stroke-width': 2}, svg('title', {}, title)));
    }
    return parts;
  }

  summary() {
    const each = this.shown().map((s) => {
      const finite = s.raw.filter((p) => p.y != null), last = finite[finite.length - 1];
      if (!last) return `${s.label}: no finite values`;
      const lowest = finite.reduce((a, b) => (b.y < a.y ? b : a));
      const highest = finite.reduce((a, b) => (b.y > a.y ? b : a));
      const at = (p) => `${this.format(p.y)} at step ${count(p.x)}`;
      return `${s.label}: ${at(last)}, lowest ${at(lowest)}, highest ${at(highest)}`;
    });
    return `${this.title} over steps. ${each.join('; ') || 'No values'}.`;
  }

  stepAt(event) {
    const box = this.picture.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * this.width;
    return this.x1 * clamp((x - this.left) / (this.right - this.left), 0, 1);
  }

  /** Shows the values nearest to a step; null hides them. */
  show(step) {
    if (!this.overlay) return;  // the chart is not drawn yet
    const shown = step == null ? [] : this.shown().filter((s) => s.raw.length);
    const found = shown.map((s) => ({s, near: nearest(s.raw, step)}));
    this.overlay.replaceChildren();
    this.tip.hidden = found.length === 0;
    this.at = null;
    if (!found.length) return;
    this.at = nearest(found.map(({near}) => near), step).x;
    const x = this.px(this.at);
    this.overlay.append(
      svg('line', {class: 'cursor', x1: x, x2: x, y1: this.top, y2: this.bottom}));
    const text = ({x: at, y, deviation}) => this.format(y) +
      (deviation == null ? '' : ` \u00b1 ${this.format(deviation)}`) +
      (at === this.at ? '' : ` (step ${count(at)})`);
    const lines = found.map(({s, near}) =>
      el('div', {}, swatch(s), `${s.label} `, el('b', {}, text(near))));
    this.tip.replaceChildren(el('div', {}, `step ${count(this.at)}`), ...lines);
    const onRight = x > this.width / 2;
    this.tip.style.left = onRight ? '4rem' : 'auto';
    this.tip.style.right = onRight ? 'auto' : '0.5rem';
  }
}
