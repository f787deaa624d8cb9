/* Elements, numbers and charts. Text from a run enters the page only as text nodes and attributes, never as HTML. */

const at = id => document.getElementById(id);
const finite = value => typeof value === 'number' && Number.isFinite(value);

/* el('td', {class: 'n', title: 'x'}, 'text', child, [more]) */
function el(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.flat(3).filter(child => child !== null && child !== undefined && child !== false));
  return node;
}
function svg(name, attributes, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes || {})) if (value !== undefined) node.setAttribute(key, value);
  node.append(...children.flat(2).filter(child => child !== null && child !== undefined));
  return node;
}

/* ---- numbers with their units ---- */

const show = {
  number(value, digits = 4) {
    if (!finite(value)) return '–';
    if (value === 0) return '0';
    const size = Math.abs(value);
    if (Number.isInteger(value) && size < 1e15) return value.toLocaleString('en-US');
    if (size >= 1e15 || size < 1e-4) return value.toExponential(digits - 1).replace('e+', 'e').replace('-', '−');
    if (size >= 10 ** digits) return Math.round(value).toLocaleString('en-US');
    return String(Number(value.toPrecision(digits))).replace('-', '−');
  },
  percent(value, digits = 1) { return finite(value) ? (100 * value).toFixed(digits) + ' %' : '–'; },
  prefixed(value, base, names, unit) {
    if (!finite(value)) return '–';
    let at = 0, size = value;
    while (Math.abs(size) >= base && at < names.length - 1) { size /= base; at++; }
    return show.number(Number(size.toPrecision(3)), 3) + ' ' + names[at] + unit;
  },
  bytes(value) { return show.prefixed(value, 1024, ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi'], 'B'); },
  count(value) { return show.prefixed(value, 1000, ['', 'k', 'M', 'G', 'T', 'P', 'E'], '').trim(); },
  flops(value) { return show.prefixed(value, 1000, ['', 'k', 'M', 'G', 'T', 'P', 'E'], 'FLOP'); },
  rate(value) { return show.prefixed(value, 1000, ['', 'k', 'M', 'G', 'T', 'P'], 'FLOP/s'); },
  seconds(value) {
    if (!finite(value)) return '–';
    const size = Math.abs(value);
    if (size === 0) return '0 s';
    if (size < 1e-3) return show.number(1e6 * value, 3) + ' µs';
    if (size < 1) return show.number(1e3 * value, 3) + ' ms';
    if (size < 90) return show.number(value, 3) + ' s';
    const whole = Math.round(size), h = Math.floor(whole / 3600), m = Math.floor(whole % 3600 / 60), s = whole % 60;
    return (value < 0 ? '−' : '') + (h ? `${h} h ${String(m).padStart(2, '0')} min` : `${m} min ${s} s`);
  },
  time(value) {
    if (!finite(value) || value <= 0) return '–';
    const date = new Date(1000 * value), two = n => String(n).padStart(2, '0');
    return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
      `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  },
};

/* ---- scales ---- */

function ticksOf(low, high, wanted) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / Math.max(1, wanted), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map(f => f * power).find(s => s >= rough - 1e-12 * power);
  const all = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * span; k++)
    all.push(Number((k * step).toPrecision(12)));
  return all;
}
function logTicks(low, high) {
  const all = [], from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
  const wide = to - from > 8 ? Math.ceil((to - from) / 8) : 1;
  for (let p = from; p <= to; p += wide)
    for (const f of to - from <= 2 ? [1, 2, 5] : [1]) {
      const value = f * 10 ** p;
      if (value >= low * 0.9999 && value <= high * 1.0001) all.push(value);
    }
  return all.length > 1 ? all : [low, high];
}
function scaleOf(domain, from, to, log) {
  const f = log ? Math.log10 : x => x, a = f(domain[0]), b = f(domain[1]), k = b > a ? (to - from) / (b - a) : 0;
  const scale = value => from + (f(value) - a) * k;
  scale.back = pixel => log ? 10 ** (a + (pixel - from) / (k || 1)) : a + (pixel - from) / (k || 1);
  return scale;
}
/* The index of the last x at or below `value`; 0 if none is. */
function below(xs, value) {
  let low = 0, high = xs.length - 1;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (xs[mid] <= value) low = mid; else high = mid - 1;
  }
  return low;
}
function nearest(xs, value) {
  const i = below(xs, value);
  return i + 1 < xs.length && xs[i + 1] - value < value - xs[i] ? i + 1 : i;
}

/* The exponential mean, with the weight of what came before the first point removed. Points of a thinned curve are
   not equally far apart: a gap of k steps forgets as much as k steps would. */
function smoothed(xs, ys, weight) {
  if (!weight || xs.length < 3) return ys;
  const gap = Math.max(1e-9, (xs[xs.length - 1] - xs[0]) / (xs.length - 1));
  let mean = 0, rest = 1;
  return ys.map((y, i) => {
    const keep = i ? weight ** ((xs[i] - xs[i - 1]) / gap) : weight;
    mean = keep * mean + (1 - keep) * y;
    rest *= keep;
    return mean / (1 - rest);
  });
}

/* ---- what the user chose, kept when the page is drawn again ---- */

const chosen = {smoothing: 0, log: {}, view: {}, open: {}, run: 0, kind: 'best', hover: null, dragging: false};
const charts = {}; /* by id: what is drawn, for tests and for keys */

const colour = i => `var(--c${i % 10})`;
const dashes = ['', '6 3', '2 3', '8 3 2 3'];
const dashOf = i => dashes[Math.floor(i / 10) % dashes.length];

/* ---- the box beside the pointer ---- */

function tip(title, rows, x, y) {
  const box = at('tip');
  if (!title) { box.hidden = true; return; }
  box.replaceChildren(el('b', {}, title), ...rows.map(row => {
    const mark = el('i');
    mark.style.background = row.colour || 'transparent';
    return el('div', {}, mark, el('span', {}, row.name), el('span', {}, row.text));
  }));
  box.hidden = false;
  const width = box.offsetWidth, height = box.offsetHeight;
  box.style.left = Math.max(4, x + 18 + width > innerWidth ? x - width - 14 : x + 18) + 'px';
  box.style.top = Math.max(4, Math.min(innerHeight - height - 6, y - height / 2)) + 'px';
}

/* ---- a plot: axes, zoom, crosshair. `spec`:
     id, title, note, height, left (margin), xLabel, yLabel, group (plots that zoom together)
     full() the whole range of x          range(x0, x1) the range of y over it
     draw(area, x, y, view) paints        hover(value, area) -> {title, rows, at, dots}
     xText, yText formats of ticks        log: the y axis may be logarithmic     stops(): x values for arrow keys ---- */

function plot(spec) {
  const canvas = svg('svg', {class: 'plot', id: 'plot-' + spec.id, tabindex: '0', role: 'img',
    'aria-label': `${spec.title}: ${spec.yLabel || ''} by ${spec.xLabel}. Arrow keys read values, + and - zoom, ` +
      'Escape shows everything'});
  const reset = el('button', {type: 'button', class: 'reset', disabled: true, onclick: () => zoom(null)}, 'Reset zoom');
  const logButton = spec.log && el('button', {type: 'button', class: 'log',
    'aria-pressed': String(!!chosen.log[spec.id]), onclick: () => {
      chosen.log[spec.id] = !chosen.log[spec.id];
      logButton.setAttribute('aria-pressed', String(chosen.log[spec.id]));
      draw();
    }}, 'Log');
  const figure = el('figure', {id: 'chart-' + spec.id, class: 'chart'},
    el('div', {class: 'head'}, el('h3', {}, spec.title), el('div', {class: 'buttons'}, logButton, reset)),
    spec.legend && spec.legend(), canvas, spec.note && el('figcaption', {class: 'soft small'}, spec.note));
  const group = spec.group || spec.id;
  let area = null, x = null, y = null, cross = null, cursor = null;

  function view() {
    const full = spec.full(), kept = chosen.view[group];
    if (!kept) return full;
    const low = Math.max(full[0], kept[0]), high = Math.min(full[1], kept[1]);
    return high > low ? [low, high] : full;
  }
  function zoom(range) {
    if (range) chosen.view[group] = range; else delete chosen.view[group];
    for (const other of Object.values(charts)) if (other.group === group) other.draw();
  }
  function draw() {
    const width = Math.max(240, canvas.clientWidth || figure.clientWidth || 480), height = spec.height || 230;
    const now = view(), log = spec.log && chosen.log[spec.id], range = spec.range ? spec.range(now[0], now[1], log) : [0, 1];
    const ticks = spec.range ? (log ? logTicks(...range) : ticksOf(range[0], range[1], height / 48))
      .map(value => ({value, text: (spec.yText || show.number)(value)})) : [];
    /* Room for the longest number, and the axis' name before it. */
    const left = spec.left || Math.max(46, 30 + 6.8 * Math.max(0, ...ticks.map(tick => tick.text.length)));
    area = {left, top: 8, right: width - 12, bottom: height - 40};
    canvas.setAttribute('viewBox', `0 0 ${width} ${height}`);
    canvas.style.height = height + 'px';
    x = scaleOf(now, area.left, area.right);
    y = scaleOf(range, area.bottom, area.top, log);
    const parts = [];
    for (const {value, text} of ticks)
      parts.push(svg('line', {class: 'gridline', x1: area.left, x2: area.right, y1: y(value), y2: y(value)}),
        svg('text', {x: area.left - 7, y: y(value) + 4, 'text-anchor': 'end'}, text));
    for (const value of ticksOf(now[0], now[1], (area.right - area.left) / 90))
      parts.push(svg('line', {class: 'gridline', x1: x(value), x2: x(value), y1: area.top, y2: area.bottom}),
        svg('text', {x: x(value), y: area.bottom + 16, 'text-anchor': 'middle'}, (spec.xText || show.number)(value)));
    parts.push(svg('text', {class: 'axis', x: (area.left + area.right) / 2, y: height - 6, 'text-anchor': 'middle'},
      spec.xLabel));
    if (spec.yLabel) parts.push(svg('text', {class: 'axis', 'text-anchor': 'middle',
      transform: `translate(13 ${(area.top + area.bottom) / 2}) rotate(-90)`}, spec.yLabel));
    const clip = 'clip-' + spec.id;
    parts.push(svg('clipPath', {id: clip}, svg('rect', {x: area.left - 4, y: area.top - 4,
      width: area.right - area.left + 8, height: area.bottom - area.top + 8})));
    const inner = svg('g', {'clip-path': `url(#${clip})`, class: 'inner'});
    spec.draw(inner, x, y, now, area);
    cross = svg('g', {class: 'hover'});
    parts.push(inner, svg('path', {class: 'frame', d: `M${area.left} ${area.top}V${area.bottom}H${area.right}`}), cross);
    canvas.replaceChildren(...parts);
    reset.disabled = !chosen.view[group];
    Object.assign(charts[spec.id], {view: now, log: !!log, range});
  }
  function point(value, clientX, clientY, pointer) {
    const found = spec.hover && spec.hover(value, pointer, {x, y, area});
    cross.replaceChildren();
    chosen.hover = found ? {id: spec.id, value} : null;
    if (!found) { tip(null); return; }
    if (finite(found.at)) cross.append(svg('line', {class: 'cross', x1: x(found.at), x2: x(found.at), y1: area.top,
      y2: area.bottom}));
    for (const dot of found.dots || []) cross.append(svg('circle', {cx: x(dot.x), cy: y(dot.y), r: 3.5,
      fill: dot.colour, stroke: 'var(--card)', 'stroke-width': 1.5}));
    tip(found.title, found.rows, clientX, clientY);
  }
  /* A point of the picture, in its own units, of an event. */
  function place(event) {
    const box = canvas.getBoundingClientRect(), k = canvas.viewBox.baseVal.width / box.width;
    return {px: (event.clientX - box.left) * k, py: (event.clientY - box.top) * k};
  }
  let begin = null, mark = null;
  canvas.addEventListener('pointerdown', event => {
    if (event.button) return;
    const {px} = place(event);
    if (px < area.left || px > area.right) return;
    begin = px;
    chosen.dragging = true;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', event => {
    const {px, py} = place(event), inside = px >= area.left - 3 && px <= area.right + 3;
    if (begin !== null) {
      const end = Math.min(area.right, Math.max(area.left, px));
      if (!mark) canvas.append(mark = svg('rect', {class: 'select', y: area.top, height: area.bottom - area.top}));
      mark.setAttribute('x', Math.min(begin, end));
      mark.setAttribute('width', Math.abs(end - begin));
      tip(null);
    } else if (inside) {
      cursor = x.back(px);
      point(cursor, event.clientX, event.clientY, {px, py});
    } else { cross.replaceChildren(); tip(null); }
  });
  function release(event) {
    if (begin === null) return;
    const {px} = place(event), end = Math.min(area.right, Math.max(area.left, px)), from = begin;
    begin = null;
    chosen.dragging = false;
    if (mark) mark.remove();
    mark = null;
    if (Math.abs(end - from) >= 6) zoom([x.back(Math.min(from, end)), x.back(Math.max(from, end))]);
  }
  canvas.addEventListener('pointerup', release);
  canvas.addEventListener('pointercancel', () => { begin = null; chosen.dragging = false; if (mark) mark.remove(); mark = null; });
  canvas.addEventListener('pointerleave', () => { if (begin === null) { cross.replaceChildren(); chosen.hover = null; tip(null); } });
  canvas.addEventListener('dblclick', () => zoom(null));
  canvas.addEventListener('blur', () => { cross.replaceChildren(); tip(null); });
  canvas.addEventListener('keydown', event => {
    const now = view(), stops = spec.stops ? spec.stops().filter(v => v >= now[0] && v <= now[1]) : [];
    const middle = finite(cursor) ? cursor : (now[0] + now[1]) / 2, span = now[1] - now[0];
    const keys = {
      ArrowRight: () => stops.length && (cursor = stops[Math.min(stops.length - 1, nearest(stops, middle) + 1)]),
      ArrowLeft: () => stops.length && (cursor = stops[Math.max(0, nearest(stops, middle) - 1)]),
      Home: () => stops.length && (cursor = stops[0]),
      End: () => stops.length && (cursor = stops[stops.length - 1]),
      '+': () => zoom([middle - span / 4, middle + span / 4]),
      '-': () => zoom([middle - span, middle + span]),
      Escape: () => zoom(null),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
    if (!finite(cursor)) return;
    const box = canvas.getBoundingClientRect(), k = box.width / canvas.viewBox.baseVal.width;
    point(cursor, box.left + x(cursor) * k, box.top + box.height / 2, null);
  });
  charts[spec.id] = {id: spec.id, title: spec.title, group, xLabel: spec.xLabel, yLabel: spec.yLabel,
    series: spec.series || [], draw, zoom, figure, full: spec.full,
    hoverAt: (value, clientX, clientY) => point(value, clientX, clientY, null)};
  return figure;
}

/* ---- lines. series: [{name, x, y, colour, dash, dots, smooth}] ---- */

function pathOf(xs, ys, x, y, from, to, log) {
  const parts = [];
  let pen = false;
  for (let i = from; i <= to; i++) {
    if (!finite(ys[i]) || (log && ys[i] <= 0)) { pen = false; continue; }
    parts.push((pen ? 'L' : 'M') + x(xs[i]).toFixed(1) + ' ' + y(ys[i]).toFixed(1));
    pen = true;
  }
  return parts.join('');
}

function legendOf(series) {
  return el('div', {class: 'legend'}, series.map(one => el('span', {},
    svg('svg', {width: 20, height: 10, 'aria-hidden': 'true'},
      one.dots ? svg('circle', {cx: 10, cy: 5, r: 3.5, fill: one.colour})
        : svg('line', {x1: 0, x2: 20, y1: 5, y2: 5, stroke: one.colour, 'stroke-width': 2.4,
          'stroke-dasharray': one.dash || 'none'})), one.name)));
}

function lineChart(spec) {
  const series = spec.series.filter(one => one.x.length);
  if (!series.length) return null;
  const text = spec.yText || show.number;
  const full = () => {
    if (spec.span) return spec.span;
    const low = Math.min(...series.map(one => one.x[0])), high = Math.max(...series.map(one => one.x[one.x.length - 1]));
    return high > low ? [low, high] : [low - 0.5, low + 0.5];
  };
  const lineOf = one => spec.smooth && one.smooth !== false ? smoothed(one.x, one.y, chosen.smoothing) : one.y;
  return plot({...spec, series, full,
    legend: () => series.length > 1 || spec.showLegend ? legendOf(series) : null,
    range(x0, x1, log) {
      let low = Infinity, high = -Infinity;
      for (const one of series)
        for (let i = 0; i < one.x.length; i++)
          if (one.x[i] >= x0 && one.x[i] <= x1 && finite(one.y[i]) && (!log || one.y[i] > 0)) {
            if (one.y[i] < low) low = one.y[i];
            if (one.y[i] > high) high = one.y[i];
          }
      if (!(high >= low)) return log ? [0.1, 1] : [0, 1];
      if (log) return high > low ? [low / 1.08, high * 1.08] : [low / 2, high * 2];
      if (spec.zero && low >= 0) low = 0;
      if (finite(spec.top)) return [Math.min(low, spec.bottom ?? low), Math.max(high, spec.top)];
      const pad = high > low ? 0.04 * (high - low) : Math.abs(high) * 0.1 || 1;
      return [low === 0 || (spec.zero && low >= 0) ? low : low - pad, high + pad];
    },
    draw(inner, x, y, now) {
      const log = spec.log && chosen.log[spec.id];
      for (const one of series) {
        const from = below(one.x, now[0]), to = Math.min(one.x.length - 1, below(one.x, now[1]) + 1);
        const line = lineOf(one), many = line !== one.y;
        if (many) inner.append(svg('path', {class: 'raw', d: pathOf(one.x, one.y, x, y, from, to, log),
          stroke: one.colour, 'stroke-opacity': 0.28}));
        if (!one.onlyDots) inner.append(svg('path', {class: many || to - from < 300 ? 'smooth' : 'raw',
          d: pathOf(one.x, line, x, y, from, to, log), stroke: one.colour,
          'stroke-dasharray': one.dash || 'none'}));
        if (one.dots || to - from < 40) for (let i = from; i <= to; i++)
          if (finite(one.y[i]) && (!log || one.y[i] > 0)) inner.append(svg('circle', {cx: x(one.x[i]).toFixed(1),
            cy: y(one.y[i]).toFixed(1), r: one.dots ? 3.6 : 2, fill: one.colour}));
      }
      if (spec.diagonal) inner.append(svg('line', {x1: x(0), y1: y(0), x2: x(1), y2: y(1), stroke: 'var(--soft)',
        'stroke-dasharray': '4 4'}));
      if (spec.over) spec.over(inner, x, y);
    },
    stops: () => series.reduce((most, one) => one.x.length > most.length ? one.x : most, []),
    hover(value) {
      const main = series.reduce((best, one) => {
        const far = Math.abs(one.x[nearest(one.x, value)] - value);
        return !best || far < best.far ? {far, at: one.x[nearest(one.x, value)]} : best;
      }, null);
      if (!main) return null;
      const rows = [], dots = [], reach = (view => (view[1] - view[0]) / 25)(charts[spec.id].view);
      for (const one of series) {
        const i = nearest(one.x, main.at), line = lineOf(one);
        if (Math.abs(one.x[i] - main.at) > reach || !finite(one.y[i])) continue;
        rows.push({name: one.name, colour: one.colour,
          text: text(one.y[i]) + (line !== one.y ? ` (smoothed ${text(line[i])})` : '')});
        dots.push({x: one.x[i], y: line[i], colour: one.colour});
      }
      return rows.length ? {title: `${spec.xName || spec.xLabel} ${(spec.xText || show.number)(main.at)}`, rows, dots,
        at: main.at} : null;
    }});
}
