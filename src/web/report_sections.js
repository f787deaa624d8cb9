/* The sections of the page, each made from the data of runs (src/report/runs/run_data.h). A section without data is null. */

function section(id, title, ...children) {
  const inner = children.flat(2).filter(Boolean);
  return inner.length ? el('section', {id: 's-' + id, class: 'card', 'aria-labelledby': 'h-' + id},
    el('h2', {id: 'h-' + id}, title), ...inner) : null;
}
/* columns: [{name, of: row => text or node, n: right-aligned, wide}] */
function table(columns, rows, options = {}) {
  return el('div', {class: 'scroll', tabindex: rows.length > 8 ? '0' : undefined}, el('table', {id: options.id},
    options.caption && el('caption', {class: 'soft small'}, options.caption),
    el('thead', {}, el('tr', {}, columns.map(c => el('th', {class: c.n ? 'n' : undefined, scope: 'col'}, c.name)))),
    el('tbody', {}, rows.map(row => el('tr', {class: options.mark && options.mark(row) ? 'best' : undefined},
      columns.map(c => el('td', {class: [c.n && 'n', c.wide && 'wide'].filter(Boolean).join(' ') || undefined},
        c.of(row))))))));
}
function meter(share, paint) {
  const fill = el('i');
  fill.style.width = 100 * Math.max(0, Math.min(1, share || 0)) + '%';
  if (paint) fill.style.background = paint;
  return el('span', {class: 'meter', 'aria-hidden': 'true'}, fill);
}
function pairs(rows) {
  return el('dl', {class: 'pairs'}, rows.filter(row => row[1] !== undefined && row[1] !== null && row[1] !== '')
    .map(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
}
/* A part that can be closed; whether it is open survives a redraw. */
function fold(id, title, open, ...children) {
  const box = el('details', {id: 'd-' + id, ontoggle: () => {
    chosen.open[id] = box.open;
    if (box.open) for (const chart of Object.values(charts)) if (box.contains(chart.figure)) chart.draw();
  }}, el('summary', {}, title), ...children.flat());
  box.open = chosen.open[id] ?? open;
  return box;
}
const textOf = value => value === null || value === undefined ? '–' : typeof value === 'string' ? value :
  typeof value === 'number' ? show.number(value, 9) : JSON.stringify(value);

function layoutOf(run) {
  const c = run.config || {}, world = c.world_size || 1, pp = c.pp_size || 1, tp = c.tp_size || 1;
  if (world <= 1) return '1 rank';
  const parts = [pp > 1 && `pp ${pp}`, tp > 1 && `tp ${tp}`, `dp ${Math.round(world / (pp * tp))}`].filter(Boolean);
  return `${world} ranks: ${parts.join(' × ')}` + (c.shard && c.shard !== 'none' ? `, ${c.shard}` : '');
}
const lastOf = list => list && list.length ? list[list.length - 1] : undefined;
const seconds = run => run.summary && run.summary.seconds ||
  (finite(run.started) && finite(run.updated) ? run.updated - run.started : undefined);
const bestOf = run => run.summary && run.summary.best && run.summary.best.figures ||
  (run.validations || []).filter(v => v.best).pop() || lastOf(run.validations);
const endedEarly = run => run.state === 'finished' && run.summary && run.summary.stopped_early;
/* The figure that decides which validation is the best, and its key in a validation. */
const bestBy = run => run.config && run.config.best_by || 'loss';
const bestKey = by => ({loss: 'valid_loss', f1: 'f1_macro'})[by] || by;

/* ---- overview ---- */

function tile(name, value, more) {
  return value === undefined || value === '–' ? null : el('div', {class: 'tile'}, el('dt', {}, name),
    el('dd', {}, value, more && el('small', {}, more)));
}
function overview(run) {
  const rates = run.rates || {}, facts = run.facts || {}, best = bestOf(run) || {}, loss = run.curves && run.curves.loss;
  const left = run.state === 'running' && run.steps > run.step && rates.step_seconds ?
    (run.steps - run.step) * rates.step_seconds : undefined;
  const error = run.error || {};
  return section('overview', 'Overview',
    run.state === 'failed' && el('div', {class: 'note bad', id: 'error'}, el('p', {}, run.words),
      error.cause && el('p', {}, 'Cause: ' + textOf(error.cause)), error.try && el('p', {}, 'Try: ' + textOf(error.try))),
    run.missing.length ? el('div', {class: 'note warn', id: 'missing'}, el('strong', {}, 'What is missing here'),
      el('ul', {}, run.missing.map(text => el('li', {}, text)))) : null,
    el('dl', {class: 'tiles'},
      tile('Steps', run.step === undefined ? undefined : show.number(run.step),
        run.steps ? `of ${show.number(run.steps)}` + (endedEarly(run) ? ', stopped early' : '') + (finite(run.epoch) ? `, ${show.number(run.epoch, 3)} epochs` : '') : null),
      left !== undefined && tile('Time left', show.seconds(left), 'at the present speed'),
      tile('Duration', show.seconds(seconds(run)), finite(run.started) ? 'from ' + show.time(run.started) : null),
      loss && tile('Training loss', show.number(lastOf(loss.value)), 'of the last step'),
      finite(best.valid_loss) && tile(bestBy(run) === 'loss' ? 'Best validation loss' : 'Validation loss',
        show.number(best.valid_loss), [bestBy(run) !== 'loss' && `of the best model by ${bestBy(run)}`,
          run.summary && run.summary.best && `at step ${show.number(run.summary.best.step)}`].filter(Boolean).join(', ')),
      finite(best.accuracy) && tile('Accuracy', show.percent(best.accuracy, 2), 'validation, best model'),
      finite(best.r2) && tile('R²', show.number(best.r2), 'validation, best model'),
      finite(best.rmse) && tile('RMSE', show.number(best.rmse), `mean absolute error ${show.number(best.mae)}`),
      finite(best.pr_auc) && tile('PR AUC', show.number(best.pr_auc),
        best.positive_label !== undefined && best.positive_label !== null ? `of label ${best.positive_label}` : 'mean over labels'),
      tile('Step time', show.seconds(rates.step_seconds), 'median'),
      finite(rates.samples_per_second) && tile('Samples a second', show.number(rates.samples_per_second, 3), 'median'),
      finite(rates.tokens_per_second) && tile('Tokens a second', show.count(rates.tokens_per_second), 'median'),
      finite(rates.mfu) && tile('MFU', show.percent(rates.mfu), rates.mfu > 1 ? 'the peak is too low' : 'of the device’s peak'),
      finite(facts.parameters) && tile('Parameters', show.count(facts.parameters), `${show.number(facts.rows)} training rows`),
      tile('Layout', layoutOf(run), facts.device ? `${facts.device}, ${facts.threads} thread${facts.threads === 1 ? '' : 's'} a rank` : null),
      facts.memory && tile('Planned memory', show.bytes(facts.memory.total), 'of rank 0')));
}

/* ---- several runs ---- */

/* Whether the runs learn numbers, not classes. */
const ofNumbers = runs => runs.some(r => (r.validations || []).some(v => finite(v.rmse)));
const setOf = runs => new Set(runs.map(r => r.set)).size === 1 ? runs[0].set : undefined;
/* Mean and spread (the standard deviation of a sample) of folds and seeds, as rows beside theirs. */
function moments(runs) {
  if (!['folds', 'members'].includes(setOf(runs))) return [];
  const mean = {best: true}, spread = {best: true};
  for (const key of ['valid_loss', 'accuracy', 'f1_macro', 'pr_auc', 'roc_auc', 'r2', 'rmse', 'mae']) {
    const values = runs.map(r => (bestOf(r) || {})[key]);
    if (!values.every(finite)) continue;
    mean[key] = values.reduce((a, b) => a + b, 0) / values.length;
    spread[key] = Math.sqrt(values.reduce((a, b) => a + (b - mean[key]) ** 2, 0) / (values.length - 1));
  }
  return [{label: 'mean', validations: [mean]}, {label: 'spread', validations: [spread]}];
}
function compare(runs) {
  if (runs.length < 2) return null;
  const columns = [
    {name: 'Run', of: (r) => !r.state ? r.label : el('span', {class: 'run'}, svg('svg', {width: 18, height: 10, 'aria-hidden': 'true'},
      svg('line', {x1: 0, x2: 18, y1: 5, y2: 5, stroke: colour(runs.indexOf(r)), 'stroke-width': 3,
        'stroke-dasharray': dashOf(runs.indexOf(r)) || 'none'})), ' ' + r.label)},
    {name: 'State', of: r => r.state ? el('span', {class: 'badge ' + r.state}, r.state) : null},
    {name: 'Steps', n: true, of: r => show.number(r.step)},
    {name: runs.every(r => bestBy(r) === 'loss') ? 'Best valid. loss' : 'Valid. loss', n: true, of: r => show.number((bestOf(r) || {}).valid_loss)},
    ...(ofNumbers(runs) ? [
      {name: 'R²', n: true, of: r => show.number((bestOf(r) || {}).r2)},
      {name: 'RMSE', n: true, of: r => show.number((bestOf(r) || {}).rmse)},
      {name: 'MAE', n: true, of: r => show.number((bestOf(r) || {}).mae)}] : [
      {name: 'Accuracy', n: true, of: r => show.percent((bestOf(r) || {}).accuracy, 2)},
      {name: 'F1 (macro)', n: true, of: r => show.number((bestOf(r) || {}).f1_macro)},
      {name: 'PR AUC', n: true, of: r => show.number((bestOf(r) || {}).pr_auc)},
      {name: 'ROC AUC', n: true, of: r => show.number((bestOf(r) || {}).roc_auc)}]),
    {name: 'Samples/s', n: true, of: r => show.number((r.rates || {}).samples_per_second, 3)},
    {name: 'Step', n: true, of: r => show.seconds((r.rates || {}).step_seconds)},
    {name: 'Duration', n: true, of: r => show.seconds(seconds(r))},
    {name: 'Layout', of: r => r.state ? layoutOf(r) : null},
  ];
  /* The best run, by the figure that all of them go by; else by the loss. */
  const by = new Set(runs.map(bestBy)).size === 1 ? bestBy(runs[0]) : 'loss';
  const figure = r => (bestOf(r) || {})[bestKey(by)], all = runs.map(figure).filter(finite);
  const best = by === 'loss' ? Math.min(...all) : Math.max(...all);
  const keys = new Set(runs.flatMap(r => Object.keys(r.config || {})));
  const known = runs.filter(r => r.config);
  const differ = [...keys].filter(key => key !== 'output_dir' &&
    new Set(known.map(r => JSON.stringify(r.config[key] ?? null))).size > 1);
  const settings = differ.map(key => ({key}));
  return section('compare', `${{folds: 'Folds', members: 'Members', trials: 'Trials'}[setOf(runs)] || 'Runs'} side by side`,
    table(columns, [...runs, ...moments(runs)], {id: 'results', mark: r => figure(r) === best}),
    el('h4', {}, differ.length ? 'Settings that differ' : 'All settings are the same'),
    differ.length ? table([{name: 'Setting', of: row => el('code', {}, row.key)}, ...runs.map(r => ({name: r.label,
      wide: true, of: row => r.config ? textOf(r.config[row.key]) : 'unknown'}))], settings, {id: 'differences'}) : null);
}

/* ---- curves ---- */

const curveKinds = [
  {key: 'loss', title: 'Loss', y: 'loss (nats)', log: true},
  {key: 'learning_rate', title: 'Learning rate', y: 'learning rate', rough: true, zero: true},
  {key: 'grad_norm', title: 'Gradient norm', y: 'global norm', log: true},
  {key: 'samples_per_second', title: 'Throughput', y: 'samples / s', zero: true},
  {key: 'step_ms', title: 'Step time', y: 'milliseconds', log: true, zero: true},
  {key: 'mfu', title: 'Model FLOP utilisation', y: 'share of the peak', text: v => show.percent(v), zero: true},
  {key: 'idle_share', title: 'Waiting for other ranks', y: 'share of the step', text: v => show.percent(v), zero: true, share: true},
  {key: 'comm_share', title: 'Moving data between ranks', y: 'share of the step', text: v => show.percent(v), zero: true, share: true},
  {key: 'loader_share', title: 'Waiting for batches', y: 'share of the step', text: v => show.percent(v), zero: true, share: true},
  {key: 'tokens_per_second', title: 'Tokens', y: 'tokens / s', zero: true, more: true},
  {key: 'gflops', title: 'Arithmetic', y: 'GFLOP/s', zero: true, more: true},
  {key: 'device_share', title: 'GPU busy', y: 'share of the step', text: v => show.percent(v), zero: true},
  {key: 'device_bytes', title: 'GPU memory in use', y: 'bytes', text: show.bytes, zero: true, more: true},
  {key: 'loss_scale', title: 'Loss scale', y: 'factor', log: true, rough: true},
  {key: 'skipped_steps', title: 'Skipped steps', y: 'steps so far', rough: true, zero: true, more: true},
  {key: 'mem_bytes', title: 'Planned memory', y: 'bytes', text: show.bytes, zero: true, more: true, rough: true},
];
const knownCurves = new Set(curveKinds.map(kind => kind.key));

function seriesOf(runs, key) {
  return runs.flatMap((run, i) => {
    const curve = run.curves && run.curves[key];
    return curve ? [{name: runs.length > 1 ? run.label : key.replaceAll('_', ' '), run: i, x: curve.step, y: curve.value,
      colour: colour(i), dash: dashOf(i), of: curve.of}] : [];
  });
}
function validationSeries(runs) {
  return runs.flatMap((run, i) => {
    const rows = (run.validations || []).filter(v => finite(v.valid_loss));
    return rows.length ? [{name: runs.length > 1 ? run.label + ', validation' : 'validation', dots: true, smooth: false,
      x: rows.map(v => v.step), y: rows.map(v => v.valid_loss), colour: runs.length > 1 ? colour(i) : colour(1),
      onlyDots: rows.length === 1}] : [];
  });
}
function curveChart(runs, kind) {
  const series = seriesOf(runs, kind.key);
  if (!series.length) return null;
  if (kind.share && series.every(one => one.y.every(v => v === 0))) return null;
  if (kind.key === 'loss') {
    if (runs.length === 1) series[0].name = 'training';
    series.push(...validationSeries(runs));
  }
  const thinned = series.find(one => one.of > one.x.length);
  return lineChart({id: kind.key, title: kind.title, xLabel: 'step', yLabel: kind.y, yText: kind.text, log: kind.log,
    zero: kind.zero, smooth: !kind.rough, group: 'steps', series,
    note: thinned ? `${show.number(thinned.x.length)} of ${show.number(thinned.of)} points: the smallest and the ` +
      'largest of each stretch' : null});
}
function curves(runs) {
  const all = curveKinds.map(kind => ({kind, chart: curveChart(runs, kind)})).filter(one => one.chart);
  const keys = new Set(runs.flatMap(run => Object.keys(run.curves || {})));
  const rest = [...keys].filter(key => !knownCurves.has(key)).map(key =>
    curveChart(runs, {key, title: key.replaceAll('_', ' '), y: key.replaceAll('_', ' '), more: true})).filter(Boolean);
  const more = [...all.filter(one => one.kind.more).map(one => one.chart), ...rest];
  if (!all.length) return section('curves', 'Curves', el('p', {class: 'soft'}, 'No step has been recorded yet.'));
  const value = el('output', {}, chosen.smoothing ? chosen.smoothing.toFixed(2) : 'off');
  const slider = el('input', {type: 'range', id: 'smoothing', min: 0, max: 0.99, step: 0.01, value: chosen.smoothing,
    oninput: () => {
      chosen.smoothing = Number(slider.value);
      value.textContent = chosen.smoothing ? chosen.smoothing.toFixed(2) : 'off';
      for (const chart of Object.values(charts)) if (chart.group === 'steps') chart.draw();
    }});
  return section('curves', 'Curves',
    el('div', {class: 'bar'}, el('label', {}, 'Smoothing', slider, value),
      el('span', {class: 'soft small'}, 'Drag across a chart to zoom all of them; double-click shows everything.')),
    el('div', {class: 'grid'}, all.filter(one => !one.kind.more).map(one => one.chart)),
    more.length ? fold('more', 'More curves', false, el('div', {class: 'grid'}, more)) : null);
}

/* ---- validation by epoch ---- */

const figuresOf = runs => (ofNumbers(runs)
  ? [['r2', 'R²'], ['rmse', 'RMSE'], ['mae', 'MAE'], ['median_error', 'median error'], ['pinball', 'pinball loss'],
    ['coverage', 'coverage']]
  : [['accuracy', 'accuracy'], ['f1_macro', 'F1 (macro)'], ['f1_micro', 'F1 (micro)'], ['f1_samples', 'F1 (rows)'],
    ['lrap', 'LRAP'], ['pr_auc', 'PR AUC'], ['average_precision', 'average precision'], ['roc_auc', 'ROC AUC']])
  .filter(([key]) => runs.some(r => (r.validations || []).some(v => finite(v[key]))));
function validations(runs, run) {
  const numbers = ofNumbers(runs), figures = figuresOf(runs);
  const rows = (run.validations || []).filter(v => finite(v.valid_loss));
  if (!runs.some(r => (r.validations || []).some(v => finite(v.valid_loss)))) return null;
  const series = (r, key, name, i) => {
    const list = (r.validations || []).filter(v => finite(v[key]));
    return {name, x: list.map(v => v.epoch), y: list.map(v => v[key]), colour: colour(i), dash: dashOf(i), dots: true};
  };
  const spec = {xLabel: 'epoch', yLabel: 'score (0 to 1)', group: 'epochs', showLegend: true};
  const drawn = runs.length === 1 ? [
    lineChart({...spec, id: 'scores', title: numbers ? 'R²' : 'Scores', yLabel: numbers ? 'R²' : spec.yLabel,
      series: (numbers ? figures.slice(0, 1) : figures).map(([key, name], i) => series(run, key, name, i))}),
    lineChart({...spec, id: 'losses', title: 'Loss', yLabel: numbers ? 'loss' : 'loss (nats)', series: [
      series(run, 'train_loss', 'training, mean of the epoch', 0), series(run, 'valid_loss', 'validation', 1)]})]
    : [...(numbers ? [['r2', 'R²'], ['rmse', 'RMSE'], ['mae', 'MAE']]
      : [['accuracy', 'Accuracy'], ['f1_macro', 'F1 (macro)'], ['pr_auc', 'PR AUC']]), ['valid_loss', 'Validation loss']]
      .map(([key, name]) => lineChart({...spec, id: 'score-' + key, title: name,
        yLabel: numbers ? name : key === 'valid_loss' ? 'loss (nats)' : spec.yLabel, series: runs.map((r, i) => series(r, key, r.label, i))}));
  const shown = rows.slice(-40);
  const decided = [['temperature', 'Temperature'], ['threshold', 'Threshold']].filter(([key]) => shown.some(v => finite(v[key])));
  return section('validation', 'Validation by epoch', el('div', {class: 'grid'}, drawn),
    shown.length ? fold('validations', `Table of ${rows.length > 40 ? 'the last 40' : 'all'} validations of ${run.label}`,
      rows.length <= 8 && runs.length === 1, table([
        {name: 'Epoch', n: true, of: v => show.number(v.epoch)}, {name: 'Step', n: true, of: v => show.number(v.step)},
        {name: 'Training loss', n: true, of: v => show.number(v.train_loss)},
        {name: 'Validation loss', n: true, of: v => show.number(v.valid_loss)},
        ...[...figures, ...decided].map(([key, name]) => ({name, n: true, of: v => show.number(v[key])})),
        {name: 'Time', n: true, of: v => show.seconds(v.seconds)}, {name: '', of: v => v.best ? 'best so far' + (v.best_by ? ` by ${v.best_by}` : '') : ''}],
      shown, {id: 'validation-table', mark: v => v.best})) : null);
}

/* ---- predictions ---- */

function matrix(p) {
  const labels = p.classes.map(c => c.label), most = p.confusion.map(row => row.reduce((a, b) => a + b, 0));
  const cell = (n, i, j) => {
    const share = most[i] ? n / most[i] : 0, td = el('td', {title: `${n} rows of label ${labels[i]} were predicted ${labels[j]}`},
      show.number(n), el('small', {}, most[i] ? show.percent(share) : ''));
    td.style.background = `rgba(var(--${i === j ? 'heat' : 'miss'}), ${(0.08 + 0.4 * share).toFixed(3)})`;
    return td;
  };
  return el('figure', {}, el('div', {class: 'head'}, el('h3', {}, 'Confusion matrix')),
    el('div', {class: 'scroll'}, el('table', {class: 'matrix', id: 'confusion'},
      el('thead', {}, el('tr', {}, el('th', {}, 'label \\ predicted'), labels.map(l => el('th', {class: 'n', scope: 'col'}, l)))),
      el('tbody', {}, p.confusion.map((row, i) => el('tr', {}, el('th', {scope: 'row'}, labels[i]), row.map((n, j) => cell(n, i, j))))))),
    el('figcaption', {class: 'soft small'}, 'Rows; below, their share of the label.'));
}
function areaChart(id, title, list, xLabel, yLabel, extra) {
  const series = list.map((c, i) => ({name: `${c.label} (area ${show.number(c.area)})`, x: c.x, y: c.y,
    colour: colour(i), dash: dashOf(i)}));
  return lineChart({id, title, xLabel, yLabel, series, top: 1, bottom: 0, span: [0, 1], showLegend: true, height: 260, ...extra});
}
function reliability(r) {
  const each = [{...r, name: r.calibrated ? 'own probabilities' : 'probabilities'},
    ...r.calibrated ? [{...r.calibrated, name: `temperature ${show.number(r.calibrated.temperature, 3)}`}] : []];
  const bins = lastOf(each).bins, most = Math.max(...bins.map(b => b.rows));
  return lineChart({id: 'reliability', title: 'Reliability', xLabel: 'probability of the likeliest label', yLabel: 'rate of being right',
    top: 1, bottom: 0, span: [0, 1], height: 260, diagonal: true, showLegend: true,
    note: 'ECE: expected calibration error, 15 bins; bars: rows of each.' + (r.calibrated ? ' eval applies the temperature.' : ''),
    series: each.map((e, i) => ({name: `${e.name}: ECE ${show.number(e.ece, 3)}`, x: e.bins.map(b => b.confidence),
      y: e.bins.map(b => b.accuracy), colour: colour(i), dash: dashOf(i), dots: true})),
    over(inner, x, y) {
      for (const b of bins) inner.prepend(svg('rect', {x: x(b.from) + 1, width: Math.max(1, x(b.to) - x(b.from) - 2),
        y: y(0.3 * b.rows / most), height: y(0) - y(0.3 * b.rows / most), fill: 'var(--track)'}));
    }});
}
function rowsTable(id, title, rows) {
  return rows && rows.length ? fold(id, title, true, table([
    {name: 'Row', n: true, of: r => show.number(r.row)}, {name: 'Label', of: r => r.label}, {name: 'Predicted', of: r => r.predicted},
    {name: 'p(label)', n: true, of: r => show.number(r.probability, 3)}, {name: 'Loss', n: true, of: r => show.number(r.loss, 3)},
    {name: 'Margin', n: true, of: r => show.number(r.margin, 3)},
    {name: 'Fields', wide: true, of: r => r.fields ? Object.entries(r.fields).map(([key, value]) =>
      el('div', {}, el('span', {class: 'soft'}, key + ': '), value)) : el('span', {class: 'soft'}, 'not shown')}],
  rows, {id})) : null;
}
function predictions(run, redraw) {
  const both = run.predictions || {}, kinds = ['best', 'last'].filter(kind => both[kind]);
  if (!kinds.length) return null;
  const kind = kinds.includes(chosen.kind) ? chosen.kind : kinds[0], p = both[kind];
  const choose = el('select', {id: 'which-model', onchange: () => { chosen.kind = choose.value; redraw(); }},
    kinds.map(k => el('option', {value: k, selected: k === kind}, k === 'best' ? 'best model' : 'last model')));
  return section('predictions', 'Predictions on the validation rows',
    el('div', {class: 'bar'}, el('label', {}, 'Of the', choose),
      el('span', {class: 'soft small'}, `${show.number(p.rows)} rows, accuracy ${show.percent(p.accuracy, 2)}, mean −log p ${show.number(p.loss)}`)),
    el('div', {class: 'grid'},
      p.confusion ? matrix(p) : null,
      areaChart('pr', 'Precision and recall', p.pr, 'recall', 'precision'),
      areaChart('roc', 'ROC', p.roc, 'false positive rate', 'true positive rate', {diagonal: true}),
      reliability(p.reliability)),
    el('h4', {}, 'By label'),
    table([{name: 'Label', of: c => c.label}, {name: 'Rows (support)', n: true, of: c => show.number(c.rows)},
      {name: 'Precision', n: true, of: c => show.number(c.precision)}, {name: 'Recall', n: true, of: c => show.number(c.recall)},
      {name: 'F1', n: true, of: c => show.number(c.f1)}, {name: '', of: c => meter(c.f1)}], p.classes, {id: 'classes'}),
    p.confused && p.confused.length ? [el('h4', {}, 'Most frequent errors'), table([{name: 'Label', of: c => c.label},
      {name: 'Predicted', of: c => c.predicted}, {name: 'Rows', n: true, of: c => show.number(c.rows)}], p.confused)] : null,
    rowsTable('worst', 'Rows with the largest loss', p.worst), rowsTable('uncertain', 'Rows the model is least sure of', p.uncertain));
}
