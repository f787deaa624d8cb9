const data = JSON.parse(document.getElementById('data').textContent);
const main = document.getElementById('main');

function make(tag, attributes, ...inside) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  for (const child of inside) node.append(child);
  return node;
}

function bytes(x) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let k = 0;
  for (; x >= 1024 && k < units.length - 1; k++) x /= 1024;
  return `${x.toFixed(k ? 1 : 0)} ${units[k]}`;
}
const percent = x => `${(100 * x).toFixed(1)} %`;
const milliseconds = x => `${(1e3 * x).toFixed(x < 0.1 ? 1 : 0)} ms`;

// What is told of a layout: key, title, how a value reads, and whether a bar shows it beside the others.
const columns = [
  ['model', 'model'], ['hardware', 'hardware'], ['ranks', 'ranks', String], ['layout', 'layout'],
  ['memory_bytes', 'memory of a rank', bytes, 'c0'], ['held_bytes', 'measured', bytes, 'c0'], ['state_bytes', 'its states', bytes, 'c2'],
  ['step_seconds', 'step', milliseconds, 'c1'],
  ['samples_per_second', 'samples/s', x => x.toPrecision(4), 'c3'],
  ['times', '\u00d7 one device', x => x.toFixed(2), 'c5'], ['efficiency', 'efficiency', percent, 'c7', 1],
  ['gather', 'gather', percent, 'c4', 1], ['reduce_scatter', 'reduce-scatter', percent, 'c4', 1],
  ['all_reduce', 'all-reduce', percent, 'c4', 1], ['recv', 'receive', percent, 'c4', 1],
  ['exposed', 'waits for bytes', percent, 'c6', 1], ['waiting', 'waits for others', percent, 'c6', 1],
  ['sent_bytes', 'sent', bytes, 'c9'], ['note', 'note'],
];

function cell(column, value, most) {
  const [key, , read, colour, whole] = column;
  if (!read) return make('td', {class: key === 'note' || key === 'layout' ? 'wide' : ''}, value ?? '');
  const node = make('td', {class: 'n'}, value ? read(value) : '\u2013');
  if (!value || !colour) return node;
  const width = 100 * Math.min(1, value / (whole || most || 1));
  node.append(make('span', {class: 'meter', 'aria-hidden': 'true'},
    make('i', {style: `width: ${width.toFixed(2)}%; background: var(--${colour})`})));
  return node;
}

function table(rows) {
  const shown = columns.filter(c => rows.some(r => r[c[0]]));
  const most = Object.fromEntries(shown.map(c => [c[0], Math.max(...rows.map(r => Number(r[c[0]]) || 0))]));
  const body = make('tbody');
  for (const row of rows)
    body.append(make('tr', {class: row.fits ? '' : 'unfit'}, ...shown.map(c => cell(c, row[c[0]], most[c[0]]))));
  const head = make('tr', {}, ...shown.map(c => make('th', {class: c[2] ? 'n' : '', scope: 'col'}, c[1])));
  return make('div', {class: 'scroll'}, make('table', {}, make('thead', {}, head), body));
}

document.getElementById('top').append(make('h1', {}, data.title), make('p', {class: 'soft small'}, data.rule));
// One section for each model, hardware and number of ranks: bars compare what is beside each other.
const sections = new Map();
for (const row of data.rows) {
  const parts = [row.model, row.hardware, `${row.ranks} rank${row.ranks === 1 ? '' : 's'}`];
  const name = data.apart ? parts.filter(Boolean).join(', ') : '';
  if (!sections.has(name)) sections.set(name, []);
  sections.get(name).push(row);
}
for (const [name, rows] of sections)
  main.append(make('section', {class: 'card'}, ...(name ? [make('h2', {}, name)] : []), table(rows)));
