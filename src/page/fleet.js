// Fleet: the nodes that send through this gateway, worst first, or grouped by model, rack or job. An agent without
// receivers has no such page. #/fleet/model, #/fleet/node/ID, …
//
// The gateway sorts, groups and filters, and answers with a limit: a browser shows a hundred rows at once.

import {h, s, put, setText, keyed, table} from './dom.js';
import * as format from './format.js';

const kPollMs = 5000;
const kRows = 100, kMoreRows = 1000;
const kBy = [['node', 'nodes'], ['model', 'by model'], ['rack', 'by rack'], ['job', 'by pod or job']];
const kMarks = {fault: ['✖', 'bad'], warning: ['▲', 'look'], ok: ['●', 'good']};

const mark = (state) => {
  const [sign, colour] = kMarks[state] || ['', 'dim'];
  return h('span', {class: 'mark ' + colour, title: state}, sign);
};

// An address of the configuration, with or without names from outside in it: http and https alone.
export function safeUrl(text) {
  try {
    const url = new URL(String(text));
    return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : null;
  } catch {
    return null;
  }
}

function outside(url, ...text) {
  return url ? h('a', {href: url, rel: 'noreferrer', target: '_blank'}, ...text) : null;
}

// The dashboard of a node, by the names of deploy/dashboards.
function dashboard(base, uid, variables) {
  const root = safeUrl(base);
  if (!root) return null;
  const url = new URL('d/' + uid, root.endsWith('/') ? root : root + '/');
  for (const [name, value] of Object.entries(variables)) if (value) url.searchParams.set('var-' + name, value);
  return url.href;
}

// A line of the last quarter of an hour; gaps stay gaps.
function course(values, most, label) {
  const width = 90, height = 20;
  const top = most || Math.max(1, ...values.filter((value) => value !== null));
  const x = (i) => (i * width / Math.max(1, values.length - 1)).toFixed(1);
  const y = (value) => (height - 1 - Math.min(1, value / top) * (height - 2)).toFixed(1);
  let path = '', before = false;
  values.forEach((value, i) => {
    if (value !== null) path += (before ? 'L' : 'M') + x(i) + ' ' + y(value) + (before || (values[i + 1] ?? null) !== null ? '' : 'h1.5');
    before = value !== null;
  });
  return s('svg', {class: 'course', viewBox: '0 0 ' + width + ' ' + height, role: 'img', 'aria-label': label}, s('path', {d: path}));
}

const last = (values) => [...values].reverse().find((value) => value !== null) ?? null;
const courseOf = (row) => course(row.busy_course, 100,
  'busy, last 15 minutes: now ' + (last(row.busy_course) === null ? 'unknown' : last(row.busy_course) + ' %'));
const owners = (names, most) => names.slice(0, most).map((name) => format.clean(name, 40)).join(', ') + (names.length > most ? ' +' + (names.length - most) : '');
const gpusText = (row) => row.answering === row.gpus ? format.count(row.gpus) : format.count(row.answering) + '/' + format.count(row.gpus);
const none = (value) => value === undefined ? null : value;
const seen = (row, at) => format.age((at - row.seen_at) / 1000);

function problemText(row) {
  const texts = (row.problems || []).map((one) => (one.gpu === undefined ? '' : 'GPU ' + one.gpu + ' ') + format.clean(one.text, 120));
  return texts.join(' · ') + (row.problems_more ? ' · ' + row.problems_more + ' more' : '');
}

function numbers() {
  return [
    {id: 'gpus', title: 'GPUs', number: true, value: gpusText, sort: (row) => row.gpus, hint: 'that answer, of those that are known'},
    {id: 'busy', title: 'busy', number: true, value: (row) => format.text(row.busy, '1'), sort: (row) => none(row.busy)},
    {id: 'memory', title: 'memory', number: true, value: (row) => format.of(row.memory_used, row.memory_total, 'By'), sort: (row) => none(row.memory_used)},
    {id: 'power', title: 'power', number: true, value: (row) => format.text(row.power, 'W'), sort: (row) => none(row.power)},
    {id: 'heat', title: 'hottest', number: true, value: (row) => format.text(row.temperature, 'Cel'), sort: (row) => none(row.temperature)},
  ];
}

const engineNumbers = [
  {id: 'running', title: 'running', number: true, value: (row) => format.count(row.running), sort: (row) => none(row.running), hint: 'requests'},
  {id: 'waiting', title: 'waiting', number: true, value: (row) => format.count(row.waiting), sort: (row) => none(row.waiting), hint: 'requests'},
  {id: 'ttft', title: 'TTFT', number: true, value: (row) => format.text(row.first_token, 's'), sort: (row) => none(row.first_token),
    hint: 'mean time to the first token since the sample before; of several engines the longest'},
];

export default {
  id: 'fleet',
  title: 'Fleet',
  render(context) {
    const {root, store} = context;
    const [first, id] = context.entity;
    if (first === 'node' && id) return renderNode(context, id);
    const by = kBy.some(([word]) => word === first) ? first : 'node';
    let rows = kRows, page = null, failed = '', asked = null, at = 0;

    const verdict = h('p', {class: 'verdict', role: 'status'}, h('span', {class: 'dim'}, 'asking the gateway'));
    const tiles = h('div', {class: 'tiles'});
    const group = h('div', {class: 'choice', role: 'group', 'aria-label': 'grouped by'}, kBy.map(([word, title]) =>
      h('button', {type: 'button', 'aria-pressed': String(word === by), on: {click: () => word === 'node' ? context.go('fleet') : context.go('fleet', word)}}, title)));
    const links = h('span', {});
    const under = h('p', {class: 'dim'});
    const more = h('button', {type: 'button', hidden: true, on: {click: () => { rows = kMoreRows; ask(); }}}, '');
    const nodes = table([
      {id: 'node', title: 'node', value: (row) => format.clean(row.name, 60), sort: (row) => row.name},
      {id: 'state', title: 'state', value: (row) => [mark(row.state), ' ', row.presence === 'here' ? row.state : row.presence], sort: (row) => ({ok: 0, warning: 1, fault: 2})[row.state]},
      {id: 'why', title: 'what is wrong', value: (row) => problemText(row)},
      ...numbers(),
      {id: 'course', title: 'busy, 15 m', value: courseOf},
      {id: 'model', title: 'model', value: (row) => owners(row.models, 1), sort: (row) => row.models[0] || null},
      {id: 'place', title: 'rack, cluster', value: (row) => format.clean([row.rack, row.cluster].filter(Boolean).join(', ') || format.kUnknown, 40), sort: (row) => row.rack || null},
      ...engineNumbers,
      {id: 'jobs', title: 'pods, jobs', value: (row) => owners(row.jobs, 2) || format.kUnknown},
      {id: 'seen', title: 'seen', number: true, value: (row) => h('span', {class: row.presence === 'here' ? null : 'stale'}, seen(row, at)), sort: (row) => -row.seen_at, hint: 'since its data came'},
      {id: 'page', title: 'pages', value: (row) => [outside(safeUrl(row.url), 'node'), ' ',
        outside(page && dashboard(page.dashboards, 'gpulens-node', {cluster: row.cluster, node: row.instance || row.name}), 'dashboard')]},
    ], {caption: 'nodes, worst first', key: (row) => row.id, href: (row) => context.href('fleet', 'node', row.id),
      empty: 'No node matches.'});
    const groups = table([
      {id: 'name', title: by, value: (row) => row.name === '' ? (by === 'job' ? 'no pod or job' : 'unknown') : format.clean(row.name, 80), sort: (row) => row.name},
      {id: 'state', title: 'state', value: (row) => [mark(row.state), ' ', row.state]},
      {id: 'nodes', title: 'nodes', number: true, value: (row) => format.count(row.nodes), sort: (row) => row.nodes},
      {id: 'away', title: 'away', number: true, value: (row) => format.count(row.away), sort: (row) => row.away},
      {id: 'faults', title: 'faults', number: true, value: (row) => format.count(row.faults), sort: (row) => row.faults, hint: 'nodes and GPUs'},
      {id: 'warnings', title: 'warnings', number: true, value: (row) => format.count(row.warnings), sort: (row) => row.warnings},
      ...numbers(),
      ...(by === 'rack' ? engineNumbers : []),
    ], {caption: 'GPUs of nodes, ' + by + ' by ' + by, key: (row) => row.name, empty: 'Nothing matches.'});
    put(root, h('h2', {}, 'Fleet'), verdict, tiles, h('p', {class: 'fleet-tools'}, group, ' ', links),
      by === 'node' ? nodes.element : groups.element, under, more);

    const tile = (label, [number, unit], below) => h('div', {class: 'tile'}, h('div', {class: 'label'}, label),
      h('div', {class: 'figure'}, number + (unit ? ' ' + unit : '')), h('div', {class: 'under'}, below || ''));

    function show() {
      if (failed) put(verdict, h('span', {class: 'bad'}, failed));
      if (!page) return;
      const {fleet} = page;
      const count = (number, word) => format.count(number) + ' ' + word + (number === 1 ? '' : 's');
      if (!failed) {
        put(verdict, fleet.faults ? h('span', {class: 'bad'}, '✖ ' + count(fleet.faults, 'node') + ' with a fault')
          : fleet.warnings ? h('span', {class: 'look'}, '▲ ' + count(fleet.warnings, 'node') + ' with a warning')
            : fleet.refused_samples ? h('span', {class: 'look'}, '▲ Not all nodes are shown; those that are, are fine')
            : fleet.nodes ? h('span', {class: 'good'}, '● Fine') : h('span', {class: 'dim'}, 'No node has sent anything yet.'),
        h('span', {class: 'dim'}, fleet.nodes ? [count(fleet.nodes, 'node'), fleet.away ? fleet.away + ' away' : null, fleet.late ? fleet.late + ' late' : null,
          fleet.forgotten ? format.count(fleet.forgotten) + ' sent no more and are forgotten' : null,
          fleet.simulated ? (fleet.simulated === fleet.nodes ? 'all' : format.count(fleet.simulated)) + ' simulated' : null].filter(Boolean).join(', ')
          : 'Nodes send by OTLP or remote write: docs/fleet.md has their configuration.'));
      }
      put(tiles, tile('GPUs answer', [format.count(fleet.answering) + '/' + format.count(fleet.gpus), ''], ''),
        tile('busy', format.parts(fleet.busy, '1'), 'mean of GPUs'), tile('power', format.parts(fleet.power, 'W'), 'sum'),
        tile('GPU memory', format.parts(fleet.memory_used, 'By'), fleet.memory_total === undefined ? '' : 'of ' + format.text(fleet.memory_total, 'By')),
        tile('requests', format.parts(fleet.running, ''), fleet.waiting === undefined ? 'no engine' : format.count(fleet.waiting) + ' waiting'));
      put(links, outside(dashboard(page.dashboards, 'gpulens-fleet', {}), 'dashboard of the fleet'));
      const list = by === 'node' ? page.nodes : page.groups;
      (by === 'node' ? nodes : groups).update(list);
      const refused = fleet.refused_samples ? ' More than ' + format.count(fleet.limit) + ' nodes send: further ones are passed on and not shown (fleet.nodes).' : '';
      setText(under, format.count(list.length) + ' of ' + format.count(page.total) + ' shown' + (by === 'node' ? ', worst first.' : '.') + refused);
      more.hidden = list.length >= page.total || rows === kMoreRows;
      setText(more, 'show up to ' + format.count(kMoreRows));
    }

    async function ask() {
      const filter = context.filter ? context.filter() : '';
      const question = JSON.stringify([by, rows, filter]);
      asked = question;
      try {
        const answer = await store.get('fleet', {by, limit: rows, filter: filter || null});
        if (asked !== question || !root.isConnected) return;
        page = answer, at = answer.at, failed = '';
      } catch (error) {
        failed = error.status === 404 ? 'This agent is no gateway: it has no receivers, so no node sends through it.'
          : 'The gateway does not answer: ' + format.clean(error.message);
      }
      show();
    }
    const timer = setInterval(() => { if (!context.still()) ask(); }, kPollMs);
    context.onEnd(() => clearInterval(timer));
    ask();
    let filtered = '';
    return () => {
      const filter = context.filter ? context.filter() : '';
      if (filter !== filtered) filtered = filter, ask();
    };
  },
};

function renderNode(context, id) {
  const {root, store} = context;
  const title = h('h2', {}, 'Node'), problems = h('ul', {class: 'problems'}), facts = h('dl', {class: 'facts'}), said = h('p', {class: 'dim', role: 'status'});
  let node = null, at = 0;
  const gpus = table([
    {id: 'gpu', title: 'GPU', value: (row) => row.index === undefined ? format.clean(row.uuid, 44) : String(row.index), sort: (row) => row.index},
    {id: 'state', title: 'state', value: (row) => format.clean(row.state || format.kUnknown, 20)},
    {id: 'busy', title: 'busy', number: true, value: (row) => format.text(row.busy, '1'), sort: (row) => none(row.busy)},
    {id: 'course', title: 'busy, 15 m', value: courseOf},
    {id: 'memory', title: 'memory', number: true, value: (row) => format.of(row.memory_used, row.memory_total, 'By'), sort: (row) => none(row.memory_used)},
    {id: 'power', title: 'power', number: true, value: (row) => format.of(row.power, row.power_limit, 'W'), sort: (row) => none(row.power)},
    {id: 'heat', title: 'temperature', number: true, value: (row) => format.text(row.temperature, 'Cel'), sort: (row) => none(row.temperature)},
    {id: 'health', title: 'health', value: (row) => format.clean(row.health || format.kUnknown, 24)},
    {id: 'xids', title: 'Xids', number: true, value: (row) => format.count(row.xids) + (row.xid_at ? ', last ' + format.count(row.xid_code) + ' ' + format.age((at - row.xid_at) / 1000) + ' ago' : '')},
    {id: 'job', title: 'pod, job', value: (row) => format.clean(row.job || format.kUnknown, 60)},
    {id: 'model', title: 'model', value: (row) => format.clean(row.model || format.kUnknown, 40)},
  ], {caption: 'GPUs of the node', key: (row) => String(row.index) + row.uuid, empty: 'No GPU of this node is known.'});
  const engines = table([
    {id: 'target', title: 'engine', value: (row) => format.clean([row.target, row.engine].filter(Boolean).join(', ') || format.kUnknown, 60)},
    {id: 'model', title: 'model', value: (row) => format.clean(row.model || format.kUnknown, 60)},
    ...engineNumbers.slice(0, 2),
    {id: 'cache', title: 'KV cache', number: true, value: (row) => format.text(row.cache, '1')},
    engineNumbers[2],
  ], {caption: 'engines of the node', key: (row) => [row.target, row.model, row.rank].join('\n'), empty: 'No engine of this node is known.'});
  put(root, h('p', {class: 'crumbs'}, h('a', {href: context.href('fleet')}, 'Fleet'), ' › node'), title, problems, said, facts,
    h('h3', {}, 'GPUs'), gpus.element, h('h3', {}, 'Engines'), engines.element);

  function show(page) {
    node = page.node, at = page.at;
    setText(title, format.clean(node.name, 80));
    setText(said, node.presence === 'here' ? '' : 'No data for ' + seen(node, at) + ': what follows was its state then, where it is shown at all.');
    keyed(problems, node.problems, (one) => one.severity + one.gpu + one.text, () => {
      const element = h('li', {});
      return {element, update(one) {
        element.className = one.severity;
        put(element, mark(one.severity), ' ', one.gpu === undefined ? null : 'GPU ' + one.gpu + ': ', format.clean(one.text, 200));
      }};
    });
    const rows = [['instance', node.instance], ['cluster', node.cluster], ['rack', node.rack], ['gpulens', node.version],
      ['sends each', node.interval_s === undefined ? null : format.duration(node.interval_s)], ['seen', seen(node, at) + ' ago, ' + format.dateTime(node.seen_at)],
      ['power', format.text(node.power, 'W')], ['simulated', node.simulated ? 'yes' : null]];
    put(facts, rows.filter(([, value]) => value).map(([name, value]) => [h('dt', {}, name), h('dd', {}, format.clean(value, 100))]),
      safeUrl(node.url) || safeUrl(page.dashboards) ? [h('dt', {}, 'pages'), h('dd', {}, outside(safeUrl(node.url), 'its own page'), ' ',
        outside(dashboard(page.dashboards, 'gpulens-node', {cluster: node.cluster, node: node.instance || node.name}), 'dashboard'))] : null);
    gpus.update(node.gpu_list);
    engines.update(node.engine_list);
  }
  async function ask() {
    try {
      const page = await store.get('fleet', {node: id});
      if (root.isConnected) show(page);
    } catch (error) {
      if (root.isConnected) setText(said, error.status === 404 ? 'This node is not known any more.' : 'The gateway does not answer: ' + format.clean(error.message));
    }
  }
  const timer = setInterval(() => { if (!context.still()) ask(); }, kPollMs);
  context.onEnd(() => clearInterval(timer));
  ask();
}
