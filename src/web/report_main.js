/* Puts the page together; with live data, asks for it every 2 seconds. */

let data = null;

function head(runs, run) {
  const facts = run.facts || {}, several = runs.length > 1, many = `${runs.length} ${setOf(runs) || 'runs'}`;
  document.title = (several ? many : run.name) + ' · Trident report';
  const pick = several && el('select', {id: 'run-select', onchange: () => { chosen.run = Number(pick.value); render(); }},
    runs.map((r, i) => el('option', {value: i, selected: r === run}, r.label)));
  at('top').replaceChildren(
    el('div', {class: 'row'}, el('h1', {}, several ? many : run.name),
      several ? null : el('span', {class: 'badge ' + run.state, id: 'state'}, run.state),
      data.live && el('span', {class: 'soft small', id: 'live', role: 'status'}, 'live')),
    several ? el('p', {}, el('label', {}, 'Details of ', pick)) : el('p', {id: 'verdict'}, run.words),
    several ? el('p', {class: 'soft small'}, `${run.label}: ${run.words}`) : el('p', {class: 'soft small'},
      [facts.version && 'Trident ' + facts.version, facts.device, layoutOf(run), finite(run.started) && 'started ' + show.time(run.started)]
        .filter(Boolean).join(' · ')));
}

/* Runs with the same name are told apart by their folders. */
function name(runs) {
  for (const run of runs)
    run.label = runs.some(other => other !== run && other.name === run.name) ? run.folder : run.name;
}

function render() {
  const runs = data.runs, focus = document.activeElement && document.activeElement.id, hover = chosen.hover;
  name(runs);
  const run = runs[Math.min(chosen.run, runs.length - 1)];
  for (const id of Object.keys(charts)) delete charts[id];
  head(runs, run);
  const several = runs.length > 1;
  const sections = [compare(runs), overview(run), curves(runs), validations(runs, run), predictions(run, render), time(run),
    timeline(run), memory(run), forecast(run), history(run), configuration(run)].filter(Boolean);
  if (several) for (const part of sections.slice(1)) {
    const title = part.querySelector('h2');
    if (!['s-curves', 's-validation'].includes(part.id)) title.append(el('span', {class: 'soft'}, ' · ' + run.label));
  }
  at('main').replaceChildren(...sections);
  at('nav').replaceChildren(...sections.map(part => el('a', {href: '#' + part.id},
    part.querySelector('h2').firstChild.textContent)));
  at('foot').replaceChildren(`Written by Trident ${data.version} on ${show.time(data.made)}. This page needs no network.`);
  for (const chart of Object.values(charts)) chart.draw();
  if (focus && at(focus)) at(focus).focus({preventScroll: true});
  if (hover && charts[hover.id]) restore(hover);
}
function restore(hover) {
  const box = charts[hover.id].figure.querySelector('svg.plot').getBoundingClientRect();
  charts[hover.id].hoverAt(hover.value, box.left + box.width / 2, box.top + box.height / 2);
}

async function poll() {
  try {
    const reply = await fetch('data.json', {cache: 'no-cache'});
    if (!reply.ok) throw new Error('status ' + reply.status);
    const text = await reply.text();
    if (!chosen.dragging && text !== poll.last) {
      poll.last = text;
      data = JSON.parse(text);
      window.trident.data = data;
      render();
    }
    if (at('live')) at('live').textContent = 'live, updated ' + show.time(data.made).slice(11);
  } catch (error) {
    if (at('live')) at('live').textContent = 'no answer from trident watch; trying again';
  }
  setTimeout(poll, 2000);
}

function begin() {
  data = JSON.parse(at('data').textContent);
  window.trident = {data, charts, chosen, render, show, ready: false};
  render();
  let width = innerWidth;
  addEventListener('resize', () => {
    if (innerWidth === width) return;
    width = innerWidth;
    for (const chart of Object.values(charts)) chart.draw();
  });
  addEventListener('beforeprint', () => {
    for (const box of document.querySelectorAll('details')) box.open = true;
    for (const chart of Object.values(charts)) chart.draw();
  });
  window.trident.ready = true;
  if (data.live) setTimeout(poll, 2000);
}
begin();
