// The view of experiments: recorded runs, and of one run its figures and curves.

import {h, s, put, setText, table} from './dom.js';
import * as format from './format.js';
import {figures} from './figures.js';

const kAgainMs = 10000;
const kHeight = 150, kWidth = 640;  // of a curve, in its own units
const kTone = {running: 'look', done: 'good', failed: 'bad', crashed: 'bad'};
const kMark = {running: '▲', done: '●', failed: '✖', crashed: '✖'};

function number(value) {
  if (!format.known(value)) return format.kUnknown;
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? format.count(value) : String(Number(value.toPrecision(5)));
}

function status(run) {
  return h('span', {class: kTone[run.status] || ''}, h('span', {'aria-hidden': 'true'}, (kMark[run.status] || '–') + ' '), format.clean(run.status || format.kUnknown, 16));
}

// "15.96 kJ ± 1.2 kJ"
function energy(run) {
  const one = run.energy || {};
  if (!format.known(one.energy_joules)) return format.kUnknown;
  return format.text(one.energy_joules, 'J') + (format.known(one.uncertainty_joules) ? ' ± ' + format.text(one.uncertainty_joules, 'J') : '');
}

// The last value of the first metric whose key has the word.
function metric(run, ...words) {
  const entries = Object.entries(run.metrics || {});
  const found = words.map((word) => entries.find(([key]) => key.toLowerCase().split(/[/_.]/).includes(word))).find(Boolean);
  return found ? number(found[1].last) : format.kUnknown;
}

// Lines of points; a point that is no number ends a line.
function curve(one) {
  const points = one.step.map((step, i) => [step, one.value[i]]);
  const numbers = points.filter(([, value]) => value !== null);
  if (!numbers.length) return h('figure', {class: 'chart'}, h('figcaption', {}, h('span', {class: 'chart-title'}, format.clean(one.key, 60))), h('p', {class: 'empty'}, 'no number'));
  const values = numbers.map(([, value]) => value);
  const least = Math.min(...values), most = Math.max(...values), from = points[0][0], to = points[points.length - 1][0];
  const x = (step) => (to > from ? (step - from) / (to - from) * kWidth : kWidth / 2);
  const y = (value) => (most > least ? (1 - (value - least) / (most - least)) * (kHeight - 8) + 4 : kHeight / 2);
  let path = '', begun = false;
  for (const [step, value] of points) {
    if (value === null) {
      begun = false;
      continue;
    }
    path += (begun ? 'L' : 'M') + x(step).toFixed(1) + ' ' + y(value).toFixed(1);
    begun = true;
  }
  const last = numbers[numbers.length - 1];
  return h('figure', {class: 'chart'},
    h('figcaption', {}, h('span', {class: 'chart-title'}, format.clean(one.key, 60)), h('span', {class: 'when'}, 'last ' + number(last[1]) + ' at step ' + format.count(last[0]))),
    s('svg', {class: 'curve', viewBox: '0 0 ' + kWidth + ' ' + kHeight, preserveAspectRatio: 'none', role: 'img',
              'aria-label': format.clean(one.key, 60) + ' from ' + number(numbers[0][1]) + ' to ' + number(last[1]) + ', least ' + number(least) + ', greatest ' + number(most)},
      s('path', {d: path, class: 'line'})),
    h('div', {class: 'curve-ends'}, h('span', {}, 'step ' + format.count(from)), h('span', {}, number(least) + ' to ' + number(most)), h('span', {}, format.count(to))));
}

function absent(answer) {
  if (!answer.absent) return null;
  const where = answer.file ? [' Looked for ', h('code', {}, format.clean(answer.file, 200)), '.'] : '';
  return h('div', {class: 'card'}, h('h3', {}, 'No recorded run can be read'), h('p', {}, format.clean(answer.absent, 300) + '.', where),
    h('p', {}, 'A run of a program is recorded by:'), h('pre', {}, 'gpulens run train.py --epochs 3'),
    h('p', {}, 'An agent that runs as a service has another home folder: name the file in its configuration, and let its user read it.'),
    h('pre', {}, 'experiments:\n  db: /home/ada/.gpulens/experiments.db'));
}

// Loads an answer of /api/experiments now, and again while the view is shown.
function follow(context, parameters, show) {
  let stopped = false, timer = null;
  let asked = false;
  const load = async () => {
    if (asked && context.still()) {
      timer = setTimeout(load, kAgainMs);
      return;
    }
    asked = true;
    try {
      const answer = await context.store.get('experiments', parameters);
      if (!stopped) show(answer, null);
    } catch (error) {
      if (!stopped) show(null, error);
    }
    if (!stopped) timer = setTimeout(load, kAgainMs);
  };
  context.onEnd(() => {
    stopped = true;
    clearTimeout(timer);
  });
  load();
}

function renderList(context) {
  let answer = null;
  const note = h('div', {}, h('p', {class: 'dim'}, 'asking the agent'));
  const rows = table([
    {id: 'name', title: 'name', value: (run) => format.clean(run.name || run.id, 60), sort: (run) => run.name},
    {id: 'status', title: 'status', value: status, sort: (run) => run.status},
    {id: 'started', title: 'started', value: (run) => format.dateTime(Date.parse(run.started)), sort: (run) => Date.parse(run.started)},
    {id: 'duration', title: 'duration', number: true, value: (run) => format.duration(run.duration_seconds), sort: (run) => run.duration_seconds},
    {id: 'step', title: 'step', number: true, value: (run) => format.count(run.step), sort: (run) => run.step},
    {id: 'loss', title: 'loss', number: true, value: (run) => metric(run, 'loss')},
    {id: 'acc', title: 'acc', number: true, value: (run) => metric(run, 'accuracy', 'acc')},
    {id: 'gpus', title: 'GPUs', number: true, value: (run) => format.count(run.gpus), sort: (run) => run.gpus},
    {id: 'energy', title: 'energy', number: true, value: energy, sort: (run) => (run.energy || {}).energy_joules},
    {id: 'joules', title: 'J/step', number: true, value: (run) => number(run.joules_per_step), sort: (run) => run.joules_per_step},
    {id: 'id', title: 'id', value: (run) => h('span', {class: 'mono'}, format.clean(run.id, 64))},
  ], {caption: 'Runs, the newest first', key: (run) => run.id, href: (run) => context.href('experiments', run.id), empty: ''});
  put(context.root, h('h2', {}, 'Experiments'), note, rows.element);
  const show = () => {
    if (!answer) return;
    const shown = answer.runs.filter((run) => context.matches(run.name, run.id, run.status, run.host));
    rows.update(shown);
    rows.element.hidden = !shown.length;
    put(note, absent(answer) || (!answer.runs.length ? h('p', {class: 'empty'}, 'No run is recorded yet: gpulens run train.py')
      : !shown.length ? h('p', {class: 'empty'}, 'No run has what is typed into the filter.')
        : h('p', {class: 'dim'}, format.count(answer.runs.length) + (answer.more ? ' newest' : '') + ' runs of ', h('span', {class: 'mono'}, format.clean(answer.file, 200)))));
  };
  follow(context, {}, (next, error) => {
    if (next) answer = next;
    show();
    if (error) put(note, h('p', {class: 'bad'}, 'Runs cannot be read: ' + error.message));
  });
  return show;
}

function renderOne(context, id) {
  const crumbs = h('nav', {class: 'crumbs', 'aria-label': 'where this is'}, h('a', {href: context.href('experiments')}, 'Experiments'), ' › ', format.clean(id, 64));
  const head = h('h2', {}, format.clean(id, 64));
  const note = h('div', {}, h('p', {class: 'dim'}, 'asking the agent'));
  const tiles = figures();
  const curves = h('div', {class: 'charts'});
  const facts = h('dl', {class: 'facts'});
  const metrics = table([
    {id: 'key', title: 'metric', value: (row) => format.clean(row.key, 80), sort: (row) => row.key},
    {id: 'last', title: 'last', number: true, value: (row) => number(row.last)},
    {id: 'min', title: 'least', number: true, value: (row) => number(row.min)},
    {id: 'max', title: 'greatest', number: true, value: (row) => number(row.max)},
    {id: 'count', title: 'points', number: true, value: (row) => format.count(row.count)},
    {id: 'step', title: 'last step', number: true, value: (row) => format.count(row.last_step)},
  ], {caption: 'Metrics', key: (row) => row.key, empty: 'This run has no metric.'});
  const below = h('div', {hidden: true}, h('h3', {}, 'Metrics'), metrics.element, h('h3', {}, 'The run'), facts);
  put(context.root, crumbs, head, note, tiles.element, curves, below);
  follow(context, {id}, (answer, error) => {
    if (error || !answer.run) {
      put(note, error ? h('p', {class: 'bad'}, format.clean(error.message, 300)) : absent(answer));
      return;
    }
    const {run} = answer;
    setText(head, format.clean(run.name || run.id, 80));
    put(note, h('p', {}, status(run), run.reason ? ' · ' + format.clean(run.reason, 300) : '', ' · started ' + format.dateTime(Date.parse(run.started)), ' · ', h('span', {class: 'mono'}, format.clean(run.id, 64))));
    const one = run.energy || {};
    tiles.update([
      ['step', run.step === undefined ? null : run.step, ''], ['duration', format.duration(run.duration_seconds), ''],
      ['GPUs', run.gpus === undefined ? null : run.gpus, ''],
      ['energy', format.known(one.energy_joules) ? one.energy_joules : null, 'J', format.known(one.uncertainty_joules) ? '± ' + format.text(one.uncertainty_joules, 'J') : one.reason || one.validity || ''],
      ['J/step', number(run.joules_per_step), ''],
      ['mean power', format.known(one.mean_power_watts) ? one.mean_power_watts : null, 'W', format.known(one.peak_power_watts) ? 'peak ' + format.text(one.peak_power_watts, 'W') : ''],
    ]);
    put(curves, answer.curves.map(curve));
    metrics.update(Object.entries(run.metrics || {}).map(([key, row]) => ({key, ...row})).filter((row) => context.matches(row.key)));
    const rows = [['energy', one.method ? [one.method === 'none' ? '' : one.method, one.attribution, one.reason].filter(Boolean).join(', ') : one.validity], ['host', run.host],
      ['git commit', run.git_commit], ...Object.entries(run.params || {}), ...Object.entries(run.tags || {}).map(([key, value]) => ['tag ' + key, value]),
      ...(run.children || []).map((child) => ['within it', child.name + ' ' + child.id + ' ' + child.status])];
    put(facts, rows.filter(([, value]) => value !== undefined && value !== null && value !== '')
      .map(([key, value]) => [h('dt', {}, format.clean(key, 60)), h('dd', {}, format.clean(value, 400))]));
    below.hidden = false;
  });
}

export default {
  id: 'experiments',
  title: 'Experiments',
  render: (context) => (context.entity.length ? renderOne(context, context.entity[0]) : renderList(context)),
};
