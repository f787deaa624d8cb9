/* Sections about speed and memory: where the time went, the step's timeline, memory, predictions of the simulator. */

const partKinds = [['compute', 'computing', 'var(--c0)'], ['copies', 'copies', 'var(--c7)'],
  ['transfers', 'moving data between ranks', 'var(--c1)'], ['waiting', 'waiting for other ranks', 'var(--c4)'],
  ['loader', 'waiting for batches', 'var(--c6)'], ['other', 'other', 'var(--c9)']];

/* Seconds, or shares, by part of a step. */
function stack(parts, total, text) {
  const known = partKinds.filter(([key]) => finite(parts[key]) && parts[key] > 0);
  const label = known.map(([key, name]) => `${name} ${text(parts[key])}`).join(', ');
  return el('div', {class: 'stack', role: 'img', 'aria-label': label, title: label}, known.map(([key, , paint]) => {
    const piece = el('i');
    piece.style.width = 100 * parts[key] / total + '%';
    piece.style.background = paint;
    return piece;
  }));
}
function partsLegend(parts, total, text) {
  return el('div', {class: 'legend'}, partKinds.filter(([key]) => finite(parts[key]) && parts[key] > 0)
    .map(([key, name, paint]) => el('span', {}, svg('svg', {width: 11, height: 11, 'aria-hidden': 'true'},
      svg('rect', {width: 11, height: 11, rx: 2, fill: paint})),
    `${name} ${show.percent(parts[key] / total)}` + (text ? ` (${text(parts[key])})` : ''))));
}
const sumOf = parts => Object.values(parts).filter(finite).reduce((a, b) => a + b, 0);

function moduleRows(root, total, ranks) {
  const rows = [];
  const add = (node, depth, parent) => {
    const children = (node.children || []).filter(c => c.seconds > 0 || c.parameters > 0);
    const row = {node, depth, parent, children, open: chosen.open['module-' + rows.length] ?? depth < 1, n: rows.length};
    rows.push(row);
    for (const child of children) add(child, depth + 1, row);
  };
  add(root, 0, null);
  const visible = row => !row.parent || (row.parent.open && visible(row.parent));
  const refresh = () => rows.forEach(row => {
    row.line.hidden = !visible(row);
    if (row.button) {
      row.button.textContent = row.open ? '▾' : '▸';
      row.button.setAttribute('aria-expanded', String(row.open));
    }
  });
  for (const row of rows) {
    const {node} = row, name = el('td', {});
    name.style.paddingLeft = 0.4 + 1.2 * row.depth + 'rem';
    row.button = row.children.length ? el('button', {type: 'button', class: 'toggle', 'aria-label': `parts of ${node.name}`,
      onclick: () => { row.open = chosen.open['module-' + row.n] = !row.open; refresh(); }}) : null;
    name.append(row.button || el('span', {class: 'toggle'}, ''), node.name);
    row.line = el('tr', {}, name, el('td', {class: 'n'}, node.parameters ? show.count(node.parameters) : '–'),
      el('td', {class: 'n'}, node.flops ? show.flops(node.flops) : '–'), el('td', {class: 'n'}, show.seconds(node.seconds)),
      el('td', {class: 'n'}, node.seconds > 0 && node.flops ? show.rate(node.flops / (node.seconds * ranks)) : '–'),
      el('td', {class: 'n'}, show.percent(node.seconds / total)), el('td', {}, meter(node.seconds / total)));
  }
  refresh();
  return rows.map(row => row.line);
}
function modules(p) {
  if (!p.modules || !(p.modules.seconds > 0)) return null;
  return [el('h4', {}, 'By module'), el('div', {class: 'scroll'}, el('table', {id: 'modules'},
    el('thead', {}, el('tr', {}, ['Module', 'Parameters', 'FLOPs a step', 'Time a step', 'Rate of a rank', 'Share', '']
      .map((name, i) => el('th', {class: i ? 'n' : undefined, scope: 'col'}, name)))),
    el('tbody', {}, moduleRows(p.modules, p.modules.seconds, p.n))))];
}
function operations(p) {
  const list = p.operations || [], total = list.reduce((sum, o) => sum + o.seconds, 0);
  if (!list.length || !total) return null;
  const body = rows => table([{name: 'Operation', of: o => el('code', {}, o.name)}, {name: 'Calls a step', n: true, of: o => show.number(o.calls, 3)},
    {name: 'Time a step', n: true, of: o => show.seconds(o.seconds)}, {name: 'Mean', n: true, of: o => show.seconds(o.seconds / o.calls)},
    {name: 'Rate', n: true, of: o => o.flops ? show.rate(o.flops / o.seconds) : '–'},
    {name: 'Memory traffic', n: true, of: o => o.bytes ? show.bytes(o.bytes / o.seconds) + '/s' : '–'},
    {name: 'Share', n: true, of: o => show.percent(o.seconds / total)}, {name: '', of: o => meter(o.seconds / total)}], rows, {id: 'operations'});
  return [el('h4', {}, 'By operation'), body(list.slice(0, 12)),
    list.length > 12 ? el('p', {class: 'soft small'}, `${list.length - 12} more take ` +
      show.percent(list.slice(12).reduce((sum, o) => sum + o.seconds, 0) / total) + ' together.') : null];
}
function transfers(p) {
  const list = p.transfers || [];
  return list.length ? [el('h4', {}, 'Communication, of a rank and step'), table([{name: 'Kind', of: t => el('code', {}, t.kind)},
    {name: 'Transfers', n: true, of: t => show.number(t.count, 3)}, {name: 'Sent', n: true, of: t => show.bytes(t.bytes)},
    {name: 'In flight', n: true, of: t => show.seconds(t.seconds)}, {name: 'Exposed', n: true, of: t => show.seconds(t.exposed_seconds)},
    {name: 'of it waiting', n: true, of: t => show.seconds(t.waiting_seconds)},
    {name: 'Exposed share', n: true, of: t => show.percent(t.exposed_seconds / p.seconds)}], list, {id: 'transfers'})] : null;
}
function time(run) {
  const p = run.profile, shares = run.shares && {compute: run.shares.compute, transfers: run.shares.comm,
    waiting: run.shares.idle, loader: run.shares.loader};
  if (!p && !shares) return null;
  const all = p ? sumOf(p.parts) : 0, ranks = p ? p.ranks.filter(r => r.parts) : [];
  return section('time', 'Where the time went',
    run.binding && el('div', {class: 'note', id: 'binding', 'data-kind': run.binding.kind}, el('p', {}, run.binding.words)),
    shares && sumOf(shares) > 0 ? [el('h4', {}, 'Median of the second half of the steps'), stack(shares, sumOf(shares), v => show.percent(v)), partsLegend(shares, sumOf(shares))] : null,
    p && all > 0 ? [el('h4', {}, `Recorded steps ${p.steps ? p.steps.map(s => show.number(s)).join(' to ') : ''}: ${show.seconds(p.seconds)} each, mean of ${p.n} of ${p.world || p.n} ranks`),
      stack(p.parts, all, show.seconds), partsLegend(p.parts, all, show.seconds)] : null,
    ranks.length > 1 ? fold('ranks', 'Each rank', ranks.length <= 8, table([{name: 'Rank', n: true, of: r => show.number(r.rank)},
      {name: 'Place', of: r => r.coords ? Object.entries(r.coords).map(([k, v]) => `${k} ${v}`).join(', ') : ''},
      {name: 'Step', n: true, of: r => show.seconds(r.seconds)}, {name: 'Computing', n: true, of: r => show.seconds(r.parts.compute)},
      {name: 'Moving data', n: true, of: r => show.seconds(r.parts.transfers)}, {name: 'Waiting', n: true, of: r => show.seconds(r.parts.waiting)},
      {name: 'Loading', n: true, of: r => show.seconds(r.parts.loader)},
      {name: 'Parts', wide: true, of: r => stack(r.parts, sumOf(r.parts), show.seconds)}], ranks, {id: 'ranks'})) : null,
    p && [modules(p), operations(p), transfers(p)]);
}

/* ---- the step's timeline ---- */

const legKinds = {F: ['forward', 'var(--forward)'], B: ['backward', 'var(--backward)'], W: ['gradients of weights', 'var(--weights)'],
  U: ['update', 'var(--update)']};
function timeline(run) {
  const t = run.profile && run.profile.timeline;
  if (!t || !t.ranks.length) return null;
  const rows = t.ranks, high = rows.length > 24 ? 12 : 22, ms = 1e3;
  const legend = () => el('div', {class: 'legend'}, Object.values(legKinds).concat([['transfer in flight', 'var(--moving)']])
    .map(([name, paint]) => el('span', {}, svg('svg', {width: 11, height: 11, 'aria-hidden': 'true'}, svg('rect', {width: 11, height: 11, rx: 2, fill: paint})), name)));
  const find = (list, value, from) => list.find(box => box[from] * ms <= value && value <= box[from + 1] * ms);
  const chart = plot({id: 'timeline', title: `Step ${show.number(t.step)}, ${show.seconds(t.seconds)}`, xLabel: 'milliseconds from the start of the step',
    yLabel: '', left: 76, height: 60 + rows.length * (high + 6), legend,
    series: rows.map(r => ({name: 'rank ' + r.rank, legs: r.legs.length, transfers: r.transfers.length})),
    full: () => [0, t.seconds * ms],
    draw(inner, x, y, now, area) {
      rows.forEach((r, i) => {
        const top = area.top + i * (high + 6) + 2;
        inner.append(svg('rect', {x: area.left, width: area.right - area.left, y: top, height: high, fill: 'var(--track)', opacity: 0.55}));
        for (const [kind, mb, begin, end] of r.legs) {
          if (end * ms < now[0] || begin * ms > now[1]) continue;
          const from = x(begin * ms), width = Math.max(0.6, x(end * ms) - from);
          inner.append(svg('rect', {class: 'leg', x: from.toFixed(2), y: top, width: width.toFixed(2), height: high - 4,
            fill: (legKinds[kind] || ['', 'var(--soft)'])[1], stroke: width > 4 ? 'var(--card)' : 'none', 'stroke-width': 0.6}));
          if (width > 17 && high > 14 && mb >= 0) {
            const text = svg('text', {x: from + width / 2, y: top + high - 8, 'text-anchor': 'middle'}, String(mb));
            text.style.fill = 'var(--card)';
            text.style.fontWeight = 650;
            inner.append(text);
          }
        }
        for (const [, begin, end] of r.transfers) if (end * ms >= now[0] && begin * ms <= now[1])
          inner.append(svg('rect', {class: 'transfer', x: x(begin * ms).toFixed(2), y: top + high - 3,
            width: Math.max(0.6, x(end * ms) - x(begin * ms)).toFixed(2), height: 3, fill: 'var(--moving)'}));
      });
      const labels = svg('g', {});
      rows.forEach((r, i) => labels.append(svg('text', {x: area.left - 7, y: area.top + i * (high + 6) + high * 0.7, 'text-anchor': 'end'}, 'rank ' + r.rank)));
      inner.parentNode ? inner.parentNode.append(labels) : queueMicrotask(() => inner.parentNode && inner.parentNode.append(labels));
    },
    stops: () => rows[0].legs.map(leg => (leg[2] + leg[3]) / 2 * ms),
    hover(value, pointer, {area}) {
      const i = pointer ? Math.floor((pointer.py - area.top) / (high + 6)) : 0, r = rows[i];
      if (!r) return null;
      const leg = find(r.legs, value, 2), moving = find(r.transfers, value, 1), list = [];
      if (leg) list.push({name: (legKinds[leg[0]] || [leg[0]])[0] + (leg[1] >= 0 ? `, microbatch ${leg[1]}` : ''),
        colour: (legKinds[leg[0]] || ['', ''])[1], text: show.seconds(leg[3] - leg[2])});
      if (moving) list.push({name: moving[0], colour: 'var(--moving)', text: show.seconds(moving[2] - moving[1])});
      if (!list.length) list.push({name: 'idle', text: ''});
      return {title: `rank ${r.rank} at ${show.number(value)} ms`, rows: list, at: value};
    }});
  return section('timeline', 'Timeline of a step', chart, t.left_out ? el('p', {class: 'soft small'},
    `${show.number(t.left_out)} boxes of the last ranks are left out.`) : null);
}

/* ---- memory ---- */

const classNames = {param: 'parameters', grad: 'gradients', state: 'optimizer state', act: 'activations', gather: 'gathered weights',
  comm: 'communication buffers', staging: 'staging', result: 'results', host: 'host', work: 'workspace', total: 'total'};
function memory(run) {
  const p = run.profile, of = p && p.memory, ranks = run.ranks || [], planned = run.facts && run.facts.memory;
  const rows = of ? Object.entries(of).filter(([key, m]) => key !== 'process' && m && typeof m === 'object')
    .map(([key, m]) => ({key, planned: m.planned, held: m.held, peak: m.peak}))
    : planned ? Object.entries(planned).map(([key, bytes]) => ({key, planned: bytes})) : [];
  const shown = rows.filter(r => (r.planned || 0) + (r.held || 0) + (r.peak || 0) > 0 && r.key !== 'total');
  const total = rows.find(r => r.key === 'total'), most = Math.max(1, ...shown.map(r => Math.max(r.planned || 0, r.held || 0)));
  if (!shown.length) return null;
  const process = of && of.process || {};
  return section('memory', 'Memory', el('p', {class: 'soft small'}, of ? `Of rank ${p.memory_rank ?? 0}, which holds most` : 'Of rank 0, as planned'),
    table([{name: 'Class', of: r => classNames[r.key] || r.key}, {name: 'Planned for a step', n: true, of: r => show.bytes(r.planned)},
      {name: 'Allocated', n: true, of: r => show.bytes(r.held)}, {name: 'Peak in use', n: true, of: r => show.bytes(r.peak)},
      {name: '', wide: true, of: r => r.key === 'total' ? '' : [meter((r.held ?? r.planned) / most), finite(r.peak) ? meter(r.peak / most, 'var(--c3)') : null]}],
    total ? [...shown, total] : shown, {id: 'memory', mark: r => r.key === 'total'}),
    of ? el('p', {class: 'soft small'}, 'Bars: allocated, and below it the peak in use.') : null,
    pairs([['Largest resident set', finite(process.max_rss) ? show.bytes(process.max_rss) : run.summary && finite(run.summary.max_rss_bytes) ? show.bytes(run.summary.max_rss_bytes) : ''],
      ['In use on the device', finite(process.device) ? show.bytes(process.device) : ''],
      ['Data in memory', run.summary && finite(run.summary.data_bytes) ? show.bytes(run.summary.data_bytes) : '']]),
    ranks.length > 1 ? fold('rank-memory', 'Each rank', false, table([{name: 'Rank', n: true, of: r => show.number(r.rank)},
      {name: 'Planned', n: true, of: r => show.bytes((r.bytes || {}).total)}, {name: 'Allocated', n: true, of: r => show.bytes(r.allocated_bytes)},
      {name: 'Resident set', n: true, of: r => show.bytes(r.max_rss_bytes)}, {name: 'Offloaded', n: true, of: r => show.bytes(r.offload_bytes)}], ranks)) : null);
}

/* ---- predicted against measured ---- */

function forecast(run) {
  const p = run.summary && run.summary.prediction;
  if (!p || typeof p !== 'object') return null;
  const measured = {step_seconds: 'measured_step_seconds', run_seconds: 'measured_seconds'};
  const rows = Object.keys(p).filter(key => finite(p[key]) && !/^measured|error$|^made_in/.test(key))
    .map(key => ({key, was: p[key], is: p[measured[key] || 'measured_' + key] ?? (run.rates || {})[key]}));
  const unit = key => key.endsWith('seconds') ? show.seconds : key.endsWith('bytes') ? show.bytes : v => show.number(v);
  return section('forecast', 'Predicted and measured',
    el('p', {class: 'soft'}, `Hardware: ${textOf(p.hardware)}` + (p.origin ? ` (${textOf(p.origin)})` : '') +
      (finite(p.error) ? `. Error of the step time: ${show.percent(p.error)}` : '')),
    table([{name: 'Quantity', of: r => r.key.replaceAll('_', ' ')}, {name: 'Predicted', n: true, of: r => unit(r.key)(r.was)},
      {name: 'Measured', n: true, of: r => finite(r.is) ? unit(r.key)(r.is) : '–'},
      {name: 'Predicted − measured', n: true, of: r => finite(r.is) && r.is ? show.percent(r.was / r.is - 1) : '–'}], rows, {id: 'forecast'}));
}

/* ---- checkpoints, restarts, warnings ---- */

function history(run) {
  const saved = run.checkpoints || [], starts = run.starts || [], warnings = run.warnings || [];
  const changed = start => Object.entries(start.changed || {}).filter(([key]) => key !== 'output_dir');
  return section('history', 'Checkpoints and restarts',
    saved.length ? table([{name: 'Step', n: true, of: c => show.number(c.step)}, {name: 'Saved', of: c => show.time(c.time)},
      {name: 'Size', n: true, of: c => finite(c.bytes) ? show.bytes(c.bytes) : '–'},
      {name: 'Mesh', of: c => c.mesh ? `pp ${c.mesh.pp} × tp ${c.mesh.tp} × dp ${c.mesh.dp}` : '–'},
      {name: 'State', wide: true, of: c => c.valid === true ? (c.best ? 'best' : 'complete') : c.valid === false ? 'damaged: ' + (c.reason || '') : 'removed since'}],
    saved.slice(-30), {id: 'checkpoints', mark: c => c.best}) : el('p', {class: 'soft'}, 'No checkpoint was saved.'),
    starts.length ? [el('h4', {}, starts.length > 1 ? `Started ${starts.length} times` : 'Started once'), table([
      {name: 'Time', of: s => show.time(s.time)}, {name: 'After step', n: true, of: s => show.number(s.step)}, {name: 'Version', of: s => textOf(s.version)},
      {name: 'Changed settings', wide: true, of: s => changed(s).length ? changed(s).map(([key, [was, now]]) =>
        el('div', {}, el('code', {}, key), `: ${textOf(was)} → ${textOf(now)}`)) : '–'}], starts, {id: 'starts'})] : null,
    warnings.length ? [el('h4', {}, `Warnings (${show.number(run.n_warnings)})`), table([{name: 'Step', n: true, of: w => show.number(w.step)},
      {name: 'Message', wide: true, of: w => textOf(w.message)}], warnings, {id: 'warnings'})] : null);
}

/* ---- configuration ---- */

function configuration(run) {
  const facts = run.facts || {}, config = run.config || {};
  const keys = Object.keys(config);
  if (!keys.length && !Object.keys(facts).length) return null;
  const half = Math.ceil(keys.length / 2), list = part => pairs(part.map(key => [el('code', {}, key), el('code', {}, textOf(config[key]))]));
  return section('configuration', 'Configuration and machine',
    pairs([['Run folder', el('code', {}, run.folder)], ['Trident', facts.version], ['Device', facts.device], ['Layout', layoutOf(run)],
      ['Threads a rank', facts.threads], ['Microbatches', facts.microbatches], ['Training rows', finite(facts.rows) ? show.number(facts.rows) : ''],
      ['Validation rows', finite(facts.valid_rows) ? show.number(facts.valid_rows) : ''], ['Parameters', finite(facts.parameters) ? show.number(facts.parameters) : ''],
      ['Positive label', facts.positive_label]]),
    keys.length ? fold('config', `All ${keys.length} settings`, false, el('div', {class: 'grid', id: 'config'}, list(keys.slice(0, half)), list(keys.slice(half)))) : null);
}
