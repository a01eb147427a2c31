// The view of engines: one line each, and of one engine its charts and the GPUs that it runs on.

import {h, put, table} from './dom.js';
import {figures} from './figures.js';
import * as format from './format.js';

// Quantiles of the last window, by the names of each kind of engine.
const kTtft = ['vllm.ttft', 'sglang.ttft'];
const kItl = ['vllm.itl', 'sglang.itl', 'nim.itl', 'tgi.tpot'];
const kLatency = ['vllm.request.latency', 'sglang.request.latency', 'nim.request.latency', 'triton.request.latency',
                  'tgi.request.latency'];
const kShown = ['p50', 'p95'];
// Attributes that name what an engine and its GPUs run in, the most exact first.
const kOwners = ['k8s.pod.uid', 'container.id', 'slurm.job.id', 'process.pid'];

// What an engine was when it was last up, so that it keeps its name and its GPUs while it is down.
const remembered = new Map();

// Sums numbers that are known; null without one.
const sum = (values) => values.reduce((all, value) => (value === null || value === undefined ? all : (all || 0) + value), null);

// What tells a series apart from others of its engine: of ranks, models, devices. Empty for the only one.
const kSame = ['quantile', 'cache.type', 'target'];
function apart(store, series) {
  const others = store.find(series.name, {target: series.attributes.target, quantile: series.attributes.quantile, 'cache.type': series.attributes['cache.type']});
  if (others.length < 2) return '';
  return Object.entries(series.attributes)
    .filter(([key, value]) => !kSame.includes(key) && others.some((one) => String(one.attributes[key]) !== String(value)))
    .map(([, value]) => ' ' + format.clean(value, 24)).join('');
}

function gpusOf(store, attributes) {
  for (const key of kOwners) {
    if (attributes[key] === undefined) continue;
    const found = new Set();
    for (const name of ['gpu.utilization', 'gpu.power.draw', 'gpu.process.memory.used']) {
      for (const series of store.find(name, {[key]: attributes[key]})) {
        if (series.attributes['gpu.index'] !== undefined) found.add(Number(series.attributes['gpu.index']));
      }
    }
    if (found.size) return [...found].sort((a, b) => a - b);
  }
  return [];
}

// Engines, routers and caches: {name, up, engine, layer, model, version, pod, tenant, gpus, and its numbers, null
// where not known}. A target without a word of inference is none.
export function engines(store) {
  const byTarget = new Map();
  for (const series of store.series.values()) {
    const target = series.attributes.target;
    if (target === undefined) continue;
    if (!byTarget.has(target)) byTarget.set(target, []);
    byTarget.get(target).push(series);
  }
  const found = [];
  for (const [target, all] of byTarget) {
    const name = String(target);
    const value = (metric, keep) => sum(all.filter((one) => one.name === metric && (!keep || keep(one.attributes))).map((one) => one.value));
    const rate = (metric, keep) => sum(all.filter((one) => one.name === metric && (!keep || keep(one.attributes))).map((one) => one.rate));
    // Of several models or ranks the worst.
    const quantile = (names, which) => all.filter((one) => names.includes(one.name) && one.attributes.quantile === which && one.value !== null)
      .reduce((most, one) => (most === null ? one.value : Math.max(most, one.value)), null);
    const caches = all.filter((one) => one.name === 'inference.kv_cache.usage' && one.value !== null && (one.attributes['cache.type'] || 'gpu') === 'gpu');
    const attribute = (key) => {
      const one = all.find((series) => series.attributes[key] !== undefined);
      return one ? String(one.attributes[key]) : null;
    };
    const seen = remembered.get(name);
    const own = all.find((series) => series.attributes['inference.engine'] !== undefined);
    const up = value('gpulens.scrape.up');
    if (!own && !seen && up !== 0) continue;
    const what = own ? {
      engine: attribute('inference.engine'), layer: attribute('inference.layer'),
      model: attribute('model.name') || attribute('gen_ai.request.model'),
      version: attribute('inference.engine.version') || attribute('model.version'),
      pod: attribute('k8s.pod.name'), tenant: attribute('tenant'), job: attribute('slurm.job.id'),
      gpus: gpusOf(store, own.attributes),
    } : seen || {engine: null, layer: null, model: null, version: null, pod: null, tenant: null, job: null, gpus: []};
    // A pod that ended has left its GPUs before its page counts as down.
    const gpus = what.gpus.length || !seen ? what.gpus : seen.gpus;
    if (own) remembered.set(name, {...what, gpus});
    if (up !== 1) what.gpus = gpus;
    const hits = rate('inference.prefix_cache.hits'), queries = rate('inference.prefix_cache.queries');
    const stated = all.find((one) => ['inference.cache.hit_ratio', 'vllm.cache.hit_rate', 'sglang.cache.hit_rate'].includes(one.name) && one.value !== null);
    found.push({
      name, up: up === null ? null : up === 1, ...what,
      running: value('inference.requests.running'), waiting: value('inference.requests.waiting'),
      kv: caches.reduce((most, one) => (most === null ? one.value : Math.max(most, one.value)), null),
      generated: rate('inference.tokens.generation'), prompted: rate('inference.tokens.prompt'),
      finished: rate('inference.requests.finished'), preemptions: rate('inference.scheduler.preemptions'),
      ttft: quantile(kTtft, 'p50'), ttft95: quantile(kTtft, 'p95'), itl: quantile(kItl, 'p50'), itl95: quantile(kItl, 'p95'),
      latency: quantile(kLatency, 'p50'), latency95: quantile(kLatency, 'p95'),
      hit: queries > 0 && hits !== null ? hits / queries : stated ? stated.value : null,
      joules: value('gpu.efficiency.joules_per_token'),
      // Seconds of its oldest value that is stale; null where all are fresh.
      age: all.filter((one) => one.stale !== null && one.value !== null && one.name.startsWith('inference.'))
        .reduce((oldest, one) => Math.max(oldest, store.age_s(one)), null),
    });
  }
  const rank = (one) => (one.up === false ? 0 : one.layer === 'engine' ? 1 : 2);
  return found.sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
}

// [mark, word, class]
export function stateOf(engine) {
  if (engine.up === false) return ['✖', 'down', 'bad'];
  if (engine.up === null) return ['–', 'not known', 'dim'];
  if (engine.waiting > 0) return ['▲', 'requests wait', 'look'];
  if (engine.running === 0) return ['●', 'up, no request', 'good'];
  return ['●', 'up', 'good'];
}

function stateNode(engine) {
  const [mark, word, tone] = stateOf(engine);
  return h('span', {class: 'state ' + tone}, h('span', {'aria-hidden': 'true'}, mark), ' ' + word);
}

function gpuLinks(context, engine) {
  if (!engine.gpus.length) return format.kUnknown;
  return engine.gpus.map((gpu, i) => [i ? ' ' : '', h('a', {class: 'number', href: context.href('gpus', gpu), 'aria-label': 'GPU ' + gpu}, String(gpu))]);
}

function renderList(context) {
  const {store} = context;
  const ofTarget = (s) => format.clean(s.attributes.target, 32) + apart(store, s);
  const rows = table([
    {id: 'name', title: 'engine', value: (row) => format.clean(row.name, 40), sort: (row) => row.name},
    {id: 'state', title: 'state', value: (row) => [stateNode(row), row.age === null ? null : ' ~' + format.age(row.age)], sort: (row) => stateOf(row)[1]},
    {id: 'kind', title: 'kind', value: (row) => [format.clean(row.engine || format.kUnknown, 24),
      row.layer && row.layer !== 'engine' ? h('span', {class: 'dim'}, ' ' + format.clean(row.layer, 16)) : null,
      row.version ? h('span', {class: 'dim'}, ' ' + format.clean(row.version, 16)) : null], sort: (row) => row.engine},
    {id: 'model', title: 'model', value: (row) => (row.model ? h('span', {title: format.clean(row.model, 200)}, format.clean(row.model.split('/').pop() || row.model, 28)) : format.kUnknown), sort: (row) => row.model},
    {id: 'gpus', title: 'GPUs', value: (row) => gpuLinks(context, row), sort: (row) => row.gpus.length},
    {id: 'running', title: 'running', number: true, value: (row) => format.count(row.running), sort: (row) => row.running},
    {id: 'waiting', title: 'waiting', number: true, value: (row) => format.count(row.waiting), sort: (row) => row.waiting},
    {id: 'kv', title: 'KV', number: true, value: (row) => format.text(row.kv, '1'), sort: (row) => row.kv, hint: 'KV cache in use'},
    {id: 'tokens', title: 'tokens/s', number: true, value: (row) => format.count(row.generated), sort: (row) => row.generated, hint: 'generated'},
    {id: 'ttft', title: 'TTFT p95', number: true, value: (row) => format.text(row.ttft95, 's'), sort: (row) => row.ttft95, hint: 'time to the first token, of the last window'},
    {id: 'itl', title: 'ITL p95', number: true, value: (row) => format.text(row.itl95, 's'), sort: (row) => row.itl95, hint: 'time between two tokens'},
    {id: 'latency', title: 'E2E p95', number: true, value: (row) => format.text(row.latency95, 's'), sort: (row) => row.latency95, hint: 'arrival to the last token'},
    {id: 'hit', title: 'hits', hint: 'of the prefix cache', number: true, value: (row) => format.text(row.hit, '1'), sort: (row) => row.hit},
    {id: 'preemptions', title: 'preempted', hint: 'requests a second', number: true, value: (row) => format.count(row.preemptions), sort: (row) => row.preemptions},
    {id: 'joules', title: 'J/token', number: true, value: (row) => format.count(row.joules), sort: (row) => row.joules, hint: 'of all its GPUs, over the last minute'},
  ], {caption: 'Engines', key: (row) => row.name, href: (row) => context.href('engines', row.name),
      rowClass: (row) => (row.up === false ? 'bad' : row.age !== null ? 'stale' : ''), empty: ''});
  const none = h('div', {class: 'empty', hidden: true}, h('p', {}, 'No engine found. Engines that listen on this machine are found by themselves; name others in the configuration:'),
    h('pre', {}, 'targets:\n  - {kind: vllm, url: "http://gpu7:8000/metrics"}'));
  const filtered = h('p', {class: 'empty', hidden: true}, 'No engine has what is typed into the filter.');
  put(context.root, h('h2', {}, 'Engines'), none, filtered, rows.element,
    h('div', {class: 'charts'},
      context.chart({title: 'Tokens generated', select: {name: 'inference.tokens.generation'}, label: ofTarget}),
      context.chart({title: 'Requests that wait', select: {name: 'inference.requests.waiting'}, label: ofTarget}),
      context.chart({title: 'KV cache in use', select: {name: 'inference.kv_cache.usage'}, max: 1,
        keep: (s) => (s.attributes['cache.type'] || 'gpu') === 'gpu' && s.attributes['inference.layer'] !== 'router', label: ofTarget}),
      context.chart({title: 'TTFT p95', select: kTtft.map((name) => ({name, attributes: {quantile: 'p95'}})), label: ofTarget})));
  return () => {
    const all = engines(store);
    const shown = all.filter((one) => context.matches(one.name, one.engine, one.model, one.pod, one.tenant));
    none.hidden = all.length > 0;
    filtered.hidden = !all.length || shown.length > 0;
    rows.element.hidden = !shown.length;
    rows.update(shown);
  };
}

function renderOne(context, name) {
  const {store} = context;
  const of = (names) => (Array.isArray(names) ? names : [names]).map((one) => ({name: one, attributes: {target: name}}));
  const head = h('p', {});
  const note = h('p', {class: 'empty', hidden: true});
  const tiles = figures();
  const quantiles = {keep: (s) => kShown.includes(s.attributes.quantile), label: (s) => String(s.attributes.quantile) + apart(store, s),
                     order: (s) => kShown.indexOf(s.attributes.quantile)};
  const kindOf = (s) => format.clean(s.attributes['cache.type'] || 'in use', 16) + apart(store, s);
  const last = {'inference.requests.running': 'running', 'inference.requests.waiting': 'waiting', 'inference.tokens.prompt': 'prompt',
                'inference.tokens.generation': 'generated', 'inference.prefix_cache.hits': 'hits', 'inference.prefix_cache.queries': 'looked up'};
  const byName = (s) => last[s.name] + (s.attributes['cache.type'] ? ' ' + format.clean(s.attributes['cache.type'], 16) : '') + apart(store, s);
  put(context.root, h('nav', {class: 'crumbs', 'aria-label': 'where this is'}, h('a', {href: context.href('engines')}, 'Engines'), ' › ', format.clean(name, 60)), h('h2', {}, format.clean(name, 60)), head, note, tiles.element,
    h('div', {class: 'charts'},
      context.chart({title: 'Requests', select: of(['inference.requests.running', 'inference.requests.waiting']), label: byName}),
      context.chart({title: 'Tokens', select: of(['inference.tokens.generation', 'inference.tokens.prompt']), label: byName}),
      context.chart({title: 'TTFT', note: 'time to the first token; quantiles of the last window', select: of(kTtft), ...quantiles}),
      context.chart({title: 'ITL', note: 'time between two tokens', select: of(kItl), ...quantiles}),
      context.chart({title: 'E2E', note: 'arrival to the last token', select: of(kLatency), ...quantiles}),
      context.chart({title: 'KV cache in use', select: of('inference.kv_cache.usage'), max: 1, label: kindOf}),
      context.chart({title: 'Prefix cache', select: of(['inference.prefix_cache.hits', 'inference.prefix_cache.queries']), label: byName}),
      context.chart({title: 'Preemptions', select: of('inference.scheduler.preemptions'), label: (s) => 'preempted' + apart(store, s)}),
      context.chart({title: 'Energy of a token', select: of('gpu.efficiency.joules_per_token'), label: (s) => 'J/token' + apart(store, s)})));
  const unwatch = store.watch(['inference.requests.running']);
  context.onEnd(unwatch);
  return () => {
    const engine = engines(store).find((one) => one.name === name);
    if (!engine) {
      note.hidden = false;
      put(note, 'No engine ' + format.clean(name, 60) + ' is read here. ', h('a', {href: context.href('engines')}, 'All engines'));
      put(head);
      tiles.update([]);
      return;
    }
    put(head, stateNode(engine), ' · ', [engine.engine, engine.version, engine.model].filter(Boolean).map((one) => format.clean(one, 60)).join(' ') || format.kUnknown,
      ' · GPUs ', gpuLinks(context, engine),
      engine.pod ? ' · pod ' + format.clean(engine.pod, 60) : engine.job ? ' · job ' + format.clean(engine.job, 40) : '',
      engine.tenant ? ' · tenant ' + format.clean(engine.tenant, 40) : '',
      engine.age === null ? null : h('span', {class: 'stale'}, ' · values are stale: ~' + format.age(engine.age)));
    tiles.element.classList.toggle('stale', engine.age !== null);
    const series = store.find('inference.requests.running', {target: name});
    const samples = series.map((one) => one.samples).filter((one) => one && one.y.length > 3);
    const quiet = engine.up && engine.running === 0 && samples.length && samples.every((one) => one.y.every((y) => y === 0 || y === null));
    note.hidden = engine.up !== false && !quiet;
    put(note, engine.up === false
      ? format.clean(name, 60) + ' does not answer: its charts stop where it did. gpulens doctor says why.'
      : quiet ? format.clean(name, 60) + ' is up, no request in the last ' + format.duration(context.window_s) + '.' : '');
    tiles.update([
      ['running', engine.running, ''], ['waiting', engine.waiting, ''], ['KV cache', engine.kv, '1'],
      ['generated', engine.generated, '{token}/s'], ['prompt', engine.prompted, '{token}/s'], ['finished', engine.finished, '{request}/s'],
      ['TTFT p50', engine.ttft, 's', 'p95 ' + format.text(engine.ttft95, 's')],
      ['ITL p50', engine.itl, 's', 'p95 ' + format.text(engine.itl95, 's')],
      ['E2E p50', engine.latency, 's', 'p95 ' + format.text(engine.latency95, 's')],
      ['cache hits', engine.hit, '1'], ['preempted', engine.preemptions, '{request}/s'], ['energy', engine.joules, 'J/{token}'],
    ]);
  };
}

export default {
  id: 'engines',
  title: 'Engines',
  render: (context) => (context.entity.length ? renderOne(context, context.entity[0]) : renderList(context)),
};
