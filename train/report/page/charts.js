// Charts of curves over steps, which share one view.

/** What all charts share. */
const view = {from: null, to: null, smoothing: null, logX: false, logY: false, means: false,
  hidden: new Set(), charts: []};
const redrawCharts = () => view.charts.forEach((chart) => chart.draw());

/** Exponential moving average of points, corrected for its start; null values are left out. */
function smoothed(curve, weight) {
  let sum = 0, total = 0;
  return curve.filter((p) => p.y != null).map((p) => {
    sum = weight * sum + (1 - weight) * p.y;
    total = weight * total + (1 - weight);
    return {x: p.x, y: sum / total};
  });
}

/** Round values between low and high, about `most` of them. */
function ticks(low, high, most, log) {
  if (log) {
    const decades = Math.log10(high / low);
    const factors = decades < 1.2 ? [1, 2, 3, 5, 7] : decades < 3 ? [1, 2, 5] : [1];
    const every = Math.max(1, Math.ceil(decades / most));
    const found = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); ++e) {
      if (e % every === 0) for (const f of factors) found.push(f * 10 ** e);
    }
    const inside = found.filter((t) => t >= low * 0.9999 && t <= high * 1.0001);
    if (inside.length > 1) return inside;
  }
  const rough = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-6; t += step) {
    found.push(Math.abs(t) < step * 1e-6 ? 0 : t);
  }
  return found;
}

/**
 * A chart of series {label, color, dashed, run, raw, basis, band}: `raw` are points, `basis` the
 * points to smooth or null, `band` the deviations of the points or null.
 */
class Chart {
  constructor(title, series, format) {
    Object.assign(this, {title, series, format, cursor: null, drag: null});
    const id = newId();
    this.picture = svg('svg', {role: 'img', tabindex: 0, 'aria-describedby': 'chart-keys',
      onpointermove: (e) => this.move(e), onpointerleave: () => this.point(null),
      onpointerdown: (e) => this.press(e), onpointerup: (e) => this.release(e),
      onpointercancel: () => { this.drag = null; this.draw(); },
      ondblclick: () => zoom(null, null), onkeydown: (e) => this.key(e),
      onblur: () => this.point(null)});
    this.tip = el('div', {class: 'tip', hidden: true});
    this.live = el('p', {class: 'skip', 'aria-live': 'polite'});
    this.host = el('div', {class: 'chart'}, el('h3', {id}, title), this.picture, this.tip, this.live);
    view.charts.push(this);
  }

  shown() {
    return this.series.filter((s) => view.hidden.has(s.run) === false &&
      (s.band == null ? !(view.means && s.grouped) : view.means));
  }

  /** The smallest and greatest finite value of what is drawn. */
  extent(lines) {
    let low = Infinity, high = -Infinity;
    for (const {curve} of lines) {
      for (const p of curve) {
        if (p.y == null || p.x < this.x0 || p.x > this.x1 || (view.logY && p.y <= 0)) continue;
        low = Math.min(low, p.y);
        high = Math.max(high, p.y);
      }
    }
    if (low > high) return view.logY ? [0.1, 1] : [0, 1];
    const most = this.format === share ? 1 : Infinity;
    if (view.logY) return low === high ? [low / 2, Math.min(most, high * 2)] : [low / 1.05, Math.min(most, high * 1.05)];
    const margin = low === high ? Math.abs(low || 1) / 2 : (high - low) * 0.04;
    return [low >= 0 ? Math.max(0, low - margin) : low - margin, Math.min(most, high + margin)];
  }

  draw() {
    const shown = this.shown();
    const all = shown.flatMap((s) => s.raw);
    const first = all.reduce((least, p) => Math.min(least, p.x), Infinity);
    const last = all.reduce((most, p) => Math.max(most, p.x), 1);
    this.x0 = view.from ?? (view.logX ? Math.max(1, Math.min(first, last)) : 0);
    this.x1 = view.to ?? last;
    if (!(this.x1 > this.x0)) this.x1 = this.x0 + 1;
    const lines = [];
    for (const s of shown) {
      const smooth = s.basis && view.smoothing > 0;
      lines.push({curve: s.raw, s, faint: smooth});
      if (smooth) lines.push({curve: smoothed(s.basis, view.smoothing), s, faint: false});
    }
    [this.y0, this.y1] = this.extent(lines);
    this.width = Math.max(260, this.host.clientWidth || 400);
    this.height = 236;
    this.left = 58;
    this.bottom = 200;
    const w = this.width, left = this.left, right = w - 8, top = 8, bottom = this.bottom;
    const scale = (value, a, b, log) => (log ? Math.log(value / a) / Math.log(b / a) : (value - a) / (b - a));
    this.px = (x) => left + (right - left) * scale(Math.max(x, view.logX ? 1e-9 : x), this.x0, this.x1, view.logX);
    this.py = (y) => bottom - (bottom - top) * scale(y, this.y0, this.y1, view.logY);
    const parts = [];
    for (const t of ticks(this.y0, this.y1, 5, view.logY)) {
      const y = this.py(t);
      parts.push(svg('line', {class: 'grid', x1: left, x2: right, y1: y, y2: y}),
        svg('text', {x: left - 6, y: y + 4, 'text-anchor': 'end'}, this.format(t)));
    }
    for (const t of ticks(this.x0, this.x1, w < 500 ? 4 : 6, view.logX)) {
      const x = this.px(t);
      parts.push(svg('line', {class: 'grid', x1: x, x2: x, y1: top, y2: bottom}),
        svg('text', {x, y: bottom + 16, 'text-anchor': x > right - 24 ? 'end' : 'middle'}, count(t)));
    }
    parts.push(svg('line', {class: 'axis', x1: left, x2: right, y1: bottom, y2: bottom}),
      svg('text', {x: right, y: bottom + 29, 'text-anchor': 'end'}, 'step'));
    const clip = newId();
    parts.push(svg('clipPath', {id: clip}, svg('rect', {x: left - 4, y: top - 4, width: right - left + 8, height: bottom - top + 8})));
    const drawn = svg('g', {'clip-path': `url(#${clip})`});
    for (const line of lines) this.drawLine(line, drawn, top);
    this.overlay = svg('g', {});
    this.picture.setAttribute('viewBox', `0 0 ${w} ${this.height}`);
    this.picture.setAttribute('height', this.height);
    this.picture.setAttribute('aria-label', this.summary(shown));
    this.picture.replaceChildren(...parts, drawn, this.overlay);
  }

  drawLine({curve, s, faint}, host, top) {
    const inside = curve.filter((p, i) => (curve[i + 1] || p).x >= this.x0 && (curve[i - 1] || p).x <= this.x1);
    let path = '', pen = 'M';
    for (const p of inside) {
      if (p.y == null) {
        const x = this.px(p.x);
        host.append(svg('path', {class: 'odd', d: `M${x - 4} ${top}l8 8m0 -8l-8 8`}));
      }
      if (p.y == null || (view.logY && p.y <= 0)) { pen = 'M'; continue; }
      path += `${pen}${this.px(p.x).toFixed(1)} ${this.py(p.y).toFixed(1)}`;
      pen = 'L';
    }
    if (s.band && !faint) {
      const y = (v) => this.py(view.logY ? Math.max(v, this.y0) : v).toFixed(1);
      const finite = inside.filter((p) => p.y != null);
      const upper = finite.map((p) => `${this.px(p.x).toFixed(1)} ${y(p.y + p.deviation)}`);
      const lower = finite.map((p) => `${this.px(p.x).toFixed(1)} ${y(p.y - p.deviation)}`).reverse();
      if (upper.length > 1) host.append(svg('path', {d: `M${upper.concat(lower).join('L')}Z`, style: `fill:${s.color}`, 'fill-opacity': 0.2}));
    }
    host.append(svg('path', {d: path, fill: 'none', style: `stroke:${s.color}`, 'stroke-width': faint ? 1 : 1.75,
      'stroke-opacity': !faint ? 1 : inside.length > this.width ? 0.15 : 0.35, 'stroke-dasharray': s.dashed ? '6 3' : null}));
    // A line needs two values: one between others that are not drawn is a point.
    const visible = (p) => p != null && p.y != null && !(view.logY && p.y <= 0);
    inside.forEach((p, i) => {
      const alone = !visible(inside[i - 1]) && !visible(inside[i + 1]);
      if (!visible(p) || !(alone || (s.dashed && inside.length <= 60))) return;
      host.append(svg('circle', {cx: this.px(p.x), cy: this.py(p.y), r: 2.5, style: `fill:${s.color}`}));
    });
  }

  summary(shown) {
    const each = shown.map((s) => {
      const finite = s.raw.filter((p) => p.y != null);
      if (finite.length === 0) return `${s.label}: no finite values`;
      const least = finite.reduce((a, b) => (b.y < a.y ? b : a));
      const most = finite.reduce((a, b) => (b.y > a.y ? b : a));
      const last = finite[finite.length - 1];
      return `${s.label}: ${this.format(last.y)} at step ${count(last.x)}, lowest ${this.format(least.y)} at step ` +
        `${count(least.x)}, highest ${this.format(most.y)} at step ${count(most.x)}`;
    });
    return `${this.title} over steps. ${each.join('; ') || 'No values'}.`;
  }

  // ---- Values under the pointer or the keyboard's cursor

  stepAt(event) {
    const box = this.picture.getBoundingClientRect();
    const share = ((event.clientX - box.left) / box.width * this.width - this.left) / (this.width - 8 - this.left);
    const inside = Math.min(1, Math.max(0, share));
    return view.logX ? this.x0 * (this.x1 / this.x0) ** inside : this.x0 + inside * (this.x1 - this.x0);
  }

  /** Shows the values nearest to a step; null hides them. Returns them as text. */
  point(step) {
    this.cursor = step;
    this.overlay.replaceChildren();
    this.tip.hidden = true;
    if (step == null) return '';
    const found = [];
    for (const s of this.shown()) {
      const near = nearest(s.raw, step);
      if (near) found.push({s, near});
    }
    if (found.length === 0) return '';
    const x = found.reduce((a, b) => (Math.abs(b.near.x - step) < Math.abs(a.near.x - step) ? b : a)).near.x;
    this.overlay.append(svg('line', {class: 'cursor', x1: this.px(x), x2: this.px(x), y1: 8, y2: this.bottom}));
    const rows = found.map(({s, near}) => {
      const deviation = near.deviation == null ? '' : ` ± ${this.format(near.deviation)}`;
      const at = near.x === x ? '' : ` (step ${count(near.x)})`;
      if (near.y != null && (!view.logY || near.y > 0)) {
        this.overlay.append(svg('circle', {cx: this.px(near.x), cy: this.py(near.y), r: 4, style: `fill:${s.color}`}));
      }
      return {s, text: `${this.format(near.y)}${deviation}${at}`};
    });
    this.tip.replaceChildren(el('div', {}, `step ${count(x)}`), ...rows.map(({s, text}) =>
      el('div', {}, swatch(s), `${s.label} `, el('b', {}, text))));
    this.tip.hidden = false;
    const onRight = this.px(x) > this.width / 2;
    this.tip.style.left = onRight ? '4rem' : 'auto';
    this.tip.style.right = onRight ? 'auto' : '0.5rem';
    return `step ${count(x)}: ${rows.map(({s, text}) => `${s.label} ${text}`).join(', ')}`;
  }

  move(event) {
    const step = this.stepAt(event);
    this.point(step);
    if (this.drag == null) return;
    const [a, b] = [this.px(this.drag), this.px(step)].sort((p, q) => p - q);
    this.overlay.append(svg('rect', {class: 'zoom', x: a, y: 8, width: b - a, height: this.bottom - 8}));
  }
  press(event) {
    if (event.button !== 0) return;
    this.drag = this.stepAt(event);
    if (event.pointerType === 'mouse') this.picture.setPointerCapture(event.pointerId);
  }
  release(event) {
    if (this.drag == null) return;
    const [a, b] = [this.drag, this.stepAt(event)].sort((p, q) => p - q);
    this.drag = null;
    if (Math.abs(this.px(b) - this.px(a)) > 6) zoom(a, b);
  }

  key(event) {
    const steps = [...new Set(this.shown().flatMap((s) => s.raw.map((p) => p.x)))]
      .filter((x) => x >= this.x0 && x <= this.x1).sort((a, b) => a - b);
    if (steps.length === 0) return;
    const now = this.cursor == null ? steps.length - 1 : steps.reduce((best, x, i) =>
      (Math.abs(x - this.cursor) < Math.abs(steps[best] - this.cursor) ? i : best), 0);
    const jump = event.shiftKey ? 10 : 1;
    const moves = {ArrowLeft: now - jump, ArrowRight: now + jump, Home: 0, End: steps.length - 1};
    if (event.key in moves) {
      const next = Math.min(steps.length - 1, Math.max(0, this.cursor == null && event.key === 'ArrowLeft' ? now : moves[event.key]));
      this.live.textContent = this.point(steps[next]);
    } else if (event.key === '+' || event.key === '-') {
      const middle = this.cursor ?? (this.x0 + this.x1) / 2;
      const half = (this.x1 - this.x0) * (event.key === '+' ? 0.25 : 1);
      zoom(Math.max(view.logX ? 1 : 0, middle - half), middle + half);
      this.point(middle);
    } else if (event.key === 'Escape' || event.key === '0') {
      zoom(null, null);
    } else {
      return;
    }
    event.preventDefault();
  }
}

/** The point of a curve whose x is nearest. */
function nearest(curve, x) {
  let low = 0, high = curve.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (curve[middle].x < x) low = middle + 1; else high = middle;
  }
  const after = curve[low], before = curve[low - 1];
  if (!after || !before) return after || before;
  return after.x - x < x - before.x ? after : before;
}

function zoom(from, to) {
  view.from = from;
  view.to = to;
  redrawCharts();
}

const swatch = (s) => el('span', {class: `swatch${s.dashed ? ' dashed' : ''}`, style: `border-color:${s.color}`});
