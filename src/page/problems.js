// What is wrong with the node now, worst first: the first line of the page, its count in the header, and the state
// of each GPU and engine in tables.

import * as format from './format.js';
import {severityRank} from './charts.js';

const kEventMs = 15 * 60 * 1000;   // an event of a GPU counts for so long
const kStaleFactor = 4;            // a source is late after so many intervals

// The words for a state of a GPU that does not answer, and what to do.
const kGpuStates = {
  lost: ['is lost', 'drain the node and restart it; if it comes again, have the GPU replaced'],
  hung: ['hangs', 'end the process that uses it; if that does not help, reset it: nvidia-smi --gpu-reset'],
  reset_required: ['needs a reset', 'end its processes, then: nvidia-smi --gpu-reset'],
  no_permission: ['cannot be read: no permission', 'let the agent read /dev/nvidia*: gpulens doctor'],
  failed: ['failed', 'gpulens doctor'],
  left_out: ['is left out after faults', 'gpulens doctor'],
  unread: ['is not read', 'gpulens doctor'],
};
const kNoAnswer = ['does not answer', 'gpulens doctor'];
const kLostMs = 60 * 60 * 1000;    // an older event is not the reason

// The state of a stateset: the value of attribute `key` of the series that is 1; null where it is not known.
export function stateOf(store, name, key, attributes) {
  for (const series of store.find(name, attributes)) {
    if (series.value === 1) return String(series.attributes[key]);
  }
  return null;
}

// GPUs of the node, in the order of their index: {index, uuid, lost, state, health, model, attributes}.
export function gpus(store) {
  const found = new Map();
  for (const name of ['gpu.state', 'gpu.info', 'gpu.memory.total', 'gpu.power.draw', 'gpu.utilization']) {
    for (const series of store.find(name)) {
      const index = series.attributes['gpu.index'];
      if (index === undefined || series.attributes['gpu.mig.instance_id'] !== undefined) continue;
      if (!found.has(String(index))) {
        found.set(String(index), {index: String(index), uuid: series.attributes['gpu.uuid'] || null, attributes: series.attributes});
      }
      const gpu = found.get(String(index));
      if (name === 'gpu.info') gpu.info = series.attributes;
      if (series.attributes['gpu.model']) gpu.model = series.attributes['gpu.model'];
      if (series.value !== null && name !== 'gpu.state' && name !== 'gpu.info') gpu.read = true;
      if (Object.keys(series.attributes).length > Object.keys(gpu.attributes).length) gpu.attributes = series.attributes;
    }
  }
  const all = [...found.values()];
  for (const gpu of all) {
    const select = {'gpu.index': gpu.index};
    gpu.state = stateOf(store, 'gpu.state', 'gpu.state', select);
    gpu.health = stateOf(store, 'gpu.health.state', 'gpu.health.state', select);
    gpu.lost = gpu.state !== null ? gpu.state !== 'ok' : !gpu.read;
    if (!gpu.model && gpu.info) gpu.model = gpu.info['gpu.model'];
  }
  return all.sort((a, b) => a.index - b.index);
}

// Age in seconds of a GPU's oldest stale value of those that people look at first; null where they are fresh.
export function staleAge(store, index) {
  let oldest = null;
  for (const name of ['gpu.utilization', 'gpu.power.draw', 'gpu.memory.used', 'gpu.temperature']) {
    for (const series of store.find(name, {'gpu.index': index})) {
      if (series.stale && series.value !== null) oldest = Math.max(oldest || 0, store.age_s(series));
    }
  }
  return oldest;
}

// The newest event of a GPU that says what is wrong with it; null where there is none, or where the GPU came back,
// is healthy again, or an operator cleared it afterwards. Of a code and what followed within a minute it is the code.
export function lastFault(store, index) {
  let found = null;
  for (const event of store.events) {
    const a = event.attributes || {};
    if (String(a['gpu.index']) !== String(index)) continue;
    if (found && (found.name === 'gpu.xid' || found.at - event.at > 60000)) break;
    const over = event.name === 'gpu.xid.clear' || (event.name === 'gpu.found' && a['gpu.found.reason'] !== 'start') ||
      (event.name === 'gpu.health.change' && a['gpu.health.state'] === 'ok');
    if (!found && over) return null;
    if (severityRank(event.severity) < 3 || a['gpu.ecc.error_type'] === 'correctable') continue;
    if (!found || event.name === 'gpu.xid') found = event;
  }
  return found;
}

// What an event says, without the GPU that is named beside it: "Xid 79: gpu has fallen off the bus".
export function eventText(event, most) {
  const a = event.attributes || {};
  const body = String(event.body || (a['gpulens.change'] === undefined ? event.name : 'reader process ' + a.reader + ': ' + a['gpulens.change'])).replace(/^GPU (\d+ \([A-Z]+-[0-9a-f-]+\):? ?|(?=health))/, '');
  const name = a['gpu.xid.name'];
  const text = event.name === 'gpu.xid' && name !== undefined
    ? 'Xid ' + a['gpu.xid.code'] + ': ' + String(name).replace(/^ROBUST_CHANNEL_/, '').replace(/_/g, ' ').toLowerCase().replace(/\b(gpu|mmu|ecc|fifo|pcie|dbe|sbe)\b/g, (word) => word.toUpperCase()) : body;
  return format.clean(text, most || 160);
}

// What to do about an event with a code; '' where the table of codes does not say.
export function eventAct(event) {
  const a = (event && event.attributes) || {};
  return {restart_app: 'restart the application', reset_gpu: 'reset the GPU', reboot: 'reboot the machine',
          drain: 'take the work off this GPU, then diagnose it', contact_vendor: 'ask the vendor',
          check_mechanicals: 'check power cables, seating and cooling'}[a['gpu.xid.action']] || '';
}

// Targets (engines, gateways, pages of others) and whether their page answers.
export function targets(store) {
  return store.find('gpulens.scrape.up').map((series) =>
    ({name: String(series.attributes.target), up: series.value === null ? null : series.value === 1}));
}

// Metrics of which one names a communicator.
const kOfCommunicator = ['nccl.communicator.hung', 'nccl.communicator.ranks', 'nccl.communicator.pending.age', 'nccl.rank.lateness', 'nccl.rank.straggler'];

const most = (series) => series.reduce((all, one) => (one.value === null || (all !== null && all.value >= one.value) ? all : one), null);
const rates = (series) => series.reduce((all, one) => (one.rate === null ? all : (all || 0) + one.rate), null);

// The name that the job gave it; '' without one.
function nameOf(store, of) {
  for (const name of kOfCommunicator) {
    for (const one of store.find(name, of)) if (one.attributes['nccl.communicator.name'] !== undefined) return String(one.attributes['nccl.communicator.name']);
  }
  return '';
}

// Communicators: {id, name, hung, pending, missing, ranks, late: series of the latest rank, stragglers: [series], rate}.
export function communicators(store) {
  const ids = new Set();
  for (const name of kOfCommunicator) {
    for (const one of store.find(name)) if (one.value !== null && one.attributes['nccl.communicator'] !== undefined) ids.add(String(one.attributes['nccl.communicator']));
  }
  return [...ids].sort().map((id) => {
    const of = {'nccl.communicator': id};
    return {
      id,
      name: nameOf(store, of) || id,
      hung: store.find('nccl.communicator.hung', of).some((one) => one.value === 1),
      pending: (most(store.find('nccl.communicator.pending.age', of)) || {value: null}).value,
      missing: (most(store.find('nccl.communicator.ranks.missing', of)) || {value: null}).value,
      ranks: (most(store.find('nccl.communicator.ranks', of)) || {value: null}).value,
      late: most(store.find('nccl.rank.lateness', of)),
      stragglers: store.find('nccl.rank.straggler', of).filter((one) => one.value === 1),
      rate: rates(store.find('nccl.collectives', {...of, 'nccl.stage': 'done'})),
      bus: (most(store.find('nccl.collective.bus_bandwidth', of)) || {value: null}).value,
    };
  });
}

export const rankOf = (series) => 'rank ' + format.clean(series.attributes['nccl.rank'], 12);

// [mark, words, class]
export function communicatorState(one) {
  if (one.hung) return ['✖', 'hangs', 'bad'];
  if (one.stragglers.length) return ['▲', one.stragglers.map(rankOf).join(', ') + (one.stragglers.length > 1 ? ' are late' : ' is late'), 'look'];
  return ['●', 'moves', 'good'];
}

// [{level: 'fault' | 'warning', what, why, act, view: [view, entity…]}]
export function problems(store) {
  const all = [];
  const now = store.now();
  for (const gpu of gpus(store)) {
    const last = lastFault(store, gpu.index);
    if (gpu.lost) {
      const [words, act] = kGpuStates[gpu.state] || kNoAnswer;
      const since = last && now - last.at < kLostMs ? ' since ' + format.clock(last.at) : '';
      all.push({level: 'fault', what: 'GPU ' + gpu.index + ' ' + words + since,
                why: since ? eventText(last) : 'the driver does not answer for it',
                act, view: ['gpus', gpu.index]});
      continue;
    }
    if (gpu.health && gpu.health !== 'ok') {
      const conditions = store.find('gpu.health.condition', {'gpu.index': gpu.index}).filter((one) => one.value === 1)
        .map((one) => format.clean(one.attributes['gpu.health.reason'], 40).replace(/_/g, ' '));
      all.push({level: gpu.health === 'failed' ? 'fault' : 'warning', what: 'GPU ' + gpu.index + ': ' + format.clean(gpu.health.replace(/_/g, ' ')),
                why: conditions.join(', ') || (last ? eventText(last) : ''), act: eventAct(last) || 'gpulens check', view: ['gpus', gpu.index]});
    } else if (last && now - last.at < kEventMs) {
      all.push({level: 'warning', what: 'GPU ' + gpu.index + ': ' + eventText(last),
                why: 'at ' + format.clock(last.at) + ', ' + format.duration((now - last.at) / 1000) + ' ago', act: eventAct(last), view: ['gpus', gpu.index]});
    }
  }
  for (const one of store.find('gpu.driver.mismatch')) {
    if (one.value === 1) {
      all.push({level: 'fault', what: format.clean(one.attributes['gpu.vendor'] || 'GPU', 20) + ': the library is of another version than the driver',
                why: 'programs that start now cannot use the GPUs', act: 'restart the machine, or load the driver again', view: ['gpus']});
    }
  }
  for (const target of targets(store)) {
    if (target.up === false) {
      all.push({level: 'warning', what: format.clean(target.name, 60) + ' does not answer', why: 'its page of metrics cannot be read',
                act: 'look at the end of its log', view: ['engines', target.name]});
    }
  }
  for (const one of communicators(store)) {
    if (!one.hung && !one.stragglers.length) continue;
    // The event names the ranks that others wait for.
    const event = store.events.find((last) => last.name === (one.hung ? 'nccl.hang' : 'nccl.straggler') && (last.attributes || {})['nccl.communicator'] === one.id);
    const a = event && event.attributes['nccl.change'] !== 'cleared' ? event.attributes : {};
    const whose = one.hung && a['nccl.rank'] !== undefined ? ': rank ' + format.clean(a['nccl.rank'], 24) : '';
    all.push({level: one.hung ? 'fault' : 'warning', what: 'job ' + format.clean(one.name, 40) + (one.hung ? ' ' : ': ') + communicatorState(one)[1] + whose + (a['nccl.host'] === undefined ? '' : ' on ' + format.clean(a['nccl.host'], 40)),
              why: event ? format.clean(event.body, 200) : '', act: 'gpulens why', view: ['jobs', 'communicator', one.id]});
  }
  for (const series of store.find('gpulens.sink.up')) {
    if (series.value === 0) {
      all.push({level: 'warning', what: 'sink ' + format.clean(series.attributes.sink, 60) + ' cannot deliver', why: '',
                act: 'gpulens doctor', view: ['gpulens']});
    }
  }
  const late = new Map();
  for (const series of store.series.values()) {
    if (!series.stale || series.value === null) continue;
    const after = kStaleFactor * 1000 * Math.max(1, series.period_s || store.interval_s);
    // `stale` is the age at the last reading of the source, which may be long ago.
    const ms = store.read.has(series.source) ? 1000 * store.age_s(series) : series.stale;
    if (ms > after) late.set(series.source, Math.max(late.get(series.source) || 0, ms));
  }
  for (const [source, ms] of late) {
    all.push({level: 'warning', what: format.clean(source, 60) + ': values are ' + format.duration(ms / 1000) + ' old',
              why: 'it does not answer', act: 'gpulens doctor', view: ['gpulens']});
  }
  return all.sort((a, b) => (a.level === 'fault' ? 0 : 1) - (b.level === 'fault' ? 0 : 1));
}

// A state of a GPU in a word or three: "lost", "needs a reset".
export function stateWords(state) {
  return (state === 'ok' ? ['ok'] : kGpuStates[state] || kNoAnswer)[0].replace(/^is /, '');
}

// The worst 95th percentile over engines: {value, engine} or null. `what`: 'ttft', 'itl', 'request.latency'.
export function p95(store, what) {
  let worst = null;
  for (const engine of ['vllm', 'sglang', 'nim', 'triton', 'tgi']) {
    for (const series of store.find(engine + '.' + what, {quantile: 'p95'})) {
      if (series.value !== null && (!worst || series.value > worst.value)) {
        worst = {value: series.value, engine: engineName(series)};
      }
    }
  }
  return worst;
}

// The name of the engine that a series is of: that of its target, as in the address of its page.
export function engineName(series) {
  const a = series.attributes;
  return String(a.target || a['k8s.deployment.name'] || series.source.replace(/^targets\//, '') || '');
}
