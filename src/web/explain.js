const data = JSON.parse(document.getElementById('data').textContent);
const main = document.getElementById('main');

function make(tag, attributes, ...inside) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  for (const child of inside) node.append(child);
  return node;
}
// Probabilities and their figures have four digits, numbers in any units five that count, or three below 1.
const isNumber = data.explanations ? 'number' in (data.explanations[0] ?? {}) : 'rmse' in data.importance.figures;
const shown = x => isNumber ? String(Number(x.toPrecision(Math.abs(x) < 1 ? 3 : 5))) : x.toFixed(4);
const signed = x => (x < 0 ? '\u2212' : '+') + shown(Math.abs(x));
const tint = (x, most) => `rgba(var(--${x < 0 ? 'against' : 'for'}), ${(0.75 * Math.min(1, Math.abs(x) / most)).toFixed(3)})`;

// A bar from the middle: to the right what speaks for the class, to the left what speaks against it.
function bar(x, most) {
  const width = 50 * Math.min(1, Math.abs(x) / most);
  const side = x < 0 ? `right: 50%; width: ${width}%` : `left: 50%; width: ${width}%`;
  return make('td', {class: 'sides'}, make('div', {}, make('i', {style: `${side}; background: rgba(var(--${x < 0 ? 'against' : 'for'}), .8)`})));
}

function inputs(list) {
  const most = Math.max(isNumber ? 0 : 0.01, ...list.map(i => Math.abs(i.effect)));
  const attends = list.some(i => i.attention !== undefined);
  const table = make('table', {class: 'effects'},
    make('tr', {}, ...['input', 'value', '', 'effect', ...attends ? ['attention'] : []].map(name => make('th', {}, name))));
  for (const input of [...list].sort((a, b) => Math.abs(b.effect) - Math.abs(a.effect))) {
    const note = input.shared_by ? ` (a share of ${input.shared_by} columns\u2019)` : '';
    table.append(make('tr', {}, make('td', {}, input.input + note), make('td', {}, input.value ?? ''),
      bar(input.effect, most), make('td', {class: 'n'}, signed(input.effect)),
      ...attends ? [make('td', {class: 'n'}, input.attention.toFixed(3))] : []));
  }
  return table;
}

// Words one after another, by column; the stronger the colour, the larger the effect.
function words(list) {
  const most = Math.max(isNumber ? 0 : 0.01, ...list.map(w => Math.abs(w.effect)));
  const box = make('div', {});
  let column = null, line = null;
  for (const word of list) {
    if (word.column !== column) {
      column = word.column;
      line = make('p', {class: 'words'});
      box.append(make('h4', {}, column), line);
    } else if (!word.joined) line.append(' ');
    const note = word.shared_by ? `, a share of ${word.shared_by} words\u2019` : '';
    line.append(make('span', {style: `background: ${tint(word.effect, most)}`, title: signed(word.effect) + note}, word.word));
  }
  return box;
}

function explanation(row) {
  const predicted = isNumber || row.label === row.explained ? '' : ` (predicted: ${row.label})`;
  const answer = isNumber ? ` ${shown(row.number)}` : `, probability ${shown(row.probability)}`;
  const parts = [make('h2', {}, `Row ${row.row}: ${row.explained}${answer}${predicted}`)];
  if (row.inputs.length) parts.push(inputs(row.inputs));
  if (row.words.length) parts.push(words(row.words));
  return make('section', {class: 'card'}, ...parts);
}

// retrained: the change in models that were trained without the input, rather than with it permuted.
function importance(facts, retrained) {
  const names = isNumber ? {rmse: 'RMSE', r2: 'R\u00b2', mae: 'MAE'} : {log_loss: 'log loss', accuracy: 'accuracy', roc_auc: 'ROC AUC'};
  const keys = Object.keys(names), first = keys[0];
  const list = facts.inputs.map(i => retrained ? {...i, ...{[first]: null}, ...i.retrained} : i).filter(i => i[first]).sort((a, b) => b[first].worse - a[first].worse);
  const most = Math.max(1e-6, ...list.map(i => Math.abs(i[first].worse)));
  const head = make('tr', {}, make('th', {}, retrained ? 'trained without' : 'input permuted'), make('th', {}, `${names[first]} rises by`), make('th', {}, ''),
    ...keys.slice(1).map(k => make('th', {}, `${names[k]} ${k === 'mae' ? 'rises' : 'falls'} by`)));
  const table = make('table', {class: 'effects'}, head);
  const range = f => f.interval ? ` (${signed(f.interval[0])} to ${signed(f.interval[1])})` : 'spread' in f ? ` \u00b1 ${shown(f.spread)}` : '';
  const cell = f => make('td', {class: 'n'}, f.worse === null ? '\u2013' : signed(f.worse) + range(f));
  for (const input of list)
    table.append(make('tr', {}, make('td', {}, input.input), bar(-input[first].worse, most), ...keys.map(k => cell(input[k]))));
  const whole = Object.entries(facts.figures).map(([k, v]) => `${names[k]} ${v === null ? '\u2013' : shown(v)}`).join(', ');
  const brackets = facts.retrained ? ' In brackets: 95 % intervals over other rows.' : '';
  const kept = facts.inputs.filter(i => retrained && i.retrained?.why).map(i => ` ${i.input} was not left out: ${i.retrained.why}.`).join('');
  const changed = Object.entries(facts.retrained?.changed ?? {}).map(([k, v]) => ` All were trained with ${k} ${v} in place of the run\u2019s.`).join('');
  const words = retrained
    ? `Trained again without an input: the models in ${facts.retrained.folder}; with all, ${facts.retrained.whole}: ${whole}.${kept}${changed}`
    : `${facts.rows} rows, ${facts.repeats} permutations of each input; with nothing permuted: ${whole}.`;
  return make('section', {class: 'card'}, make('h2', {}, retrained ? 'Trained without' : 'Permutation importance'),
    make('p', {class: 'soft'}, words + brackets), table);
}

const header = document.getElementById('top');
header.append(make('h1', {}, data.importance ? 'What matters to the model' : 'Why the model answers so'),
  make('p', {class: 'soft small'}, `${data.checkpoint}, on ${data.table}`));
if (data.explanations) {
  header.append(make('p', {class: 'small'}, `An effect is the change of the ${isNumber ? 'number' : 'probability'} that an input or a word makes by being there: `,
    make('span', {class: 'key', style: 'background: rgba(var(--for), .5)'}, isNumber ? 'more' : 'for the class'), ' ',
    make('span', {class: 'key', style: 'background: rgba(var(--against), .5)'}, isNumber ? 'less' : 'against it')));
  for (const row of data.explanations) main.append(explanation(row));
}
if (data.importance) main.append(importance(data.importance));
if (data.importance?.retrained) main.append(importance(data.importance, true));
