// GPUs: a table of all; one GPU with its charts, processes and MIG parts; a process; a pod or job. The address:
//   #/gpus   #/gpus/3   #/gpus/3/process/41877   #/gpus/pod/NAMESPACE/NAME   #/gpus/job/ID

import {h, put, setText, table} from './dom.js';
import * as format from './format.js';
import {severityMark, severityRank, sumSamples} from './charts.js';
import {gpus, lastFault, problems, stateWords, staleAge, eventText} from './problems.js';
import {ownerOf, ownerText, belongs, processes, enginesOf} from './owners.js';

const kCauses = {
  power_software: 'power cap', power_brake: 'power brake', power: 'power', temp_software: 'heat', temp_hardware: 'heat, by hardware',
  temp_memory: 'heat of memory', temp_vr: 'heat of regulators', thermal: 'heat', slowdown_hardware: 'hardware slow-down',
  syncboost: 'sync boost', clock_setting: 'clock setting', prochot: 'board signal', vr: 'regulators',
};

function causeText(cause) {
  return kCauses[cause] || format.clean(cause, 30).replace(/_/g, ' ');
}

function isWhole(series) {
  return series.attributes['gpu.mig.instance_id'] === undefined;
}

// Values of one GPU by name; of the whole GPU, not of its MIG parts.
function reader(store, index) {
  const select = {'gpu.index': index};
  const all = (name, more) => store.find(name, {...select, ...more}).filter(isWhole);
  const one = (name, more) => {
    const found = all(name, more).find((series) => series.value !== null);
    return found || null;
  };
  const sum = (name, more, field) => {
    let total = null;
    for (const series of all(name, more)) if (series[field || 'value'] !== null) total = (total || 0) + series[field || 'value'];
    return total;
  };
  return {
    all, one, sum,
    value: (name, more) => { const found = one(name, more); return found ? found.value : null; },
  };
}

function powerLimit(gpu) {
  const enforced = gpu.value('gpu.power.limit', {'gpu.power.limit_type': 'enforced'});
  return enforced !== null ? enforced : gpu.value('gpu.power.limit');
}

function coreTemperature(gpu) {
  for (const sensor of ['edge', 'gpu', 'core', 'junction', 'hotspot']) {
    const value = gpu.value('gpu.temperature', {'gpu.temperature.sensor': sensor});
    if (value !== null) return value;
  }
  return null;
}

function memoryTemperature(gpu) {
  const value = gpu.value('gpu.temperature', {'gpu.temperature.sensor': 'memory'});
  return value !== null ? value : gpu.value('gpu.temperature', {'gpu.temperature.sensor': 'hbm'});
}

// What holds the clock down most now: [share, cause]; null where it is not measured.
function throttle(gpu) {
  let most = null;
  for (const series of [...gpu.all('gpu.throttle.time'), ...gpu.all('gpu.throttle.share')]) {
    const share = series.kind === 'counter' ? series.rate : series.value;
    const cause = String(series.attributes['gpu.throttle.cause']);
    if (share === null || cause === 'idle') continue;
    if (!most || share > most[0]) most = [Math.min(1, share), cause];
  }
  return most;
}

function throttleText(gpu) {
  const most = throttle(gpu);
  if (!most) return format.kUnknown;
  return most[0] < 0.001 ? '0 %' : causeText(most[1]) + ' ' + format.text(most[0], '1');
}

function pcie(gpu) {
  const gen = gpu.value('gpu.pcie.link.gen.current'), width = gpu.value('gpu.pcie.link.width.current');
  return gen === null && width === null ? format.kUnknown : 'gen' + (gen === null ? '–' : gen) + ' x' + (width === null ? '–' : width);
}

function meter(share, text) {
  return h('span', {}, h('span', {class: 'meter', 'aria-hidden': 'true'},
    h('span', {style: {width: Math.round(100 * Math.min(1, Math.max(0, share || 0))) + '%'}})), ' ' + text);
}

function ownerLink(context, attributes) {
  const owner = ownerOf(attributes);
  if (owner) return h('a', {href: context.href('gpus', ...owner.id), title: owner.text}, owner.text);
  return ownerText(attributes) || format.kUnknown;
}

function links(context, view, names) {
  return names.length ? names.map((name, i) => [i ? ', ' : '', h('a', {href: context.href(view, name)}, format.clean(name, 60))]) : format.kUnknown;
}

function crumbs(context, ...steps) {
  return h('nav', {class: 'crumbs', 'aria-label': 'where this is'}, steps.map(([text, ...address], i) =>
    [i ? ' › ' : '', i === steps.length - 1 ? h('span', {'aria-current': 'page'}, text) : h('a', {href: context.href(...address)}, text)]));
}

// -- all of them

function renderAll(context) {
  const {root, store} = context;
  const level = (row) => !row.problem ? 0 : row.problem.level === 'fault' ? 2 : 1;
  const number = (get) => (row) => row.lost ? null : get(row.read);
  const shown = (get, unit) => (row) => row.lost ? format.kUnknown : format.text(get(row.read), unit);
  const column = (id, title, get, unit, hint) => ({id, title, number: true, hint, value: shown(get, unit), sort: number(get)});
  const rows = table([
    {id: 'gpu', title: 'GPU', value: (row) => row.index, sort: (row) => -Number(row.index)},
    {id: 'state', title: 'state', sort: level, value: (row) => h('span', {class: ['good', 'look', 'bad'][level(row)]},
      ['●', '▲', '✖'][level(row)] + (row.lost ? ' ' + stateWords(row.state) : row.problem ? ' ' + (row.health && row.health !== 'ok' ? format.clean(row.health, 20).replace(/_/g, ' ') : 'look') : ' ok') + (row.age === null ? '' : ' ~' + format.age(row.age)))},
    {id: 'busy', title: 'busy', hint: 'gpu.utilization: a kernel ran', sort: number((gpu) => gpu.value('gpu.utilization')),
      value: (row) => {
        if (row.lost) return format.kUnknown;
        const series = row.read.one('gpu.utilization');
        return series ? meter(series.value, format.text(series.value, '1'))
          : row.info && String(row.info['gpu.mig.enabled']) === 'true' ? 'in MIG parts' : format.kUnknown;
      }},
    column('sm', 'SM', (gpu) => gpu.value('gpu.sm.active'), '1', 'gpu.sm.active: share of SM cycles with a warp'),
    column('tensor', 'tensor', (gpu) => gpu.value('gpu.pipe.tensor.active'), '1', 'gpu.pipe.tensor.active'),
    {id: 'memory', title: 'memory', number: true, sort: number((gpu) => gpu.value('gpu.memory.used')),
      value: (row) => format.of(row.lost ? null : row.read.value('gpu.memory.used'), row.read.value('gpu.memory.total'), 'By')},
    {id: 'power', title: 'power', number: true, sort: number((gpu) => gpu.value('gpu.power.draw')),
      value: (row) => row.lost ? format.kUnknown : format.of(row.read.value('gpu.power.draw'), powerLimit(row.read), 'W')},
    column('core', 'core', coreTemperature, 'Cel', 'temperature of the chip'),
    column('hbm', 'mem', memoryTemperature, 'Cel', 'temperature of its memory'),
    column('clock', 'SM clock', (gpu) => gpu.value('gpu.clock.frequency', {'gpu.clock.type': 'sm'}), 'MHz'),
    column('nvlink', 'NVLink', (gpu) => gpu.sum('gpu.interconnect.throughput'), 'By/s', 'both directions'),
    {id: 'pcie', title: 'PCIe', value: (row) => row.lost ? format.kUnknown : pcie(row.read)},
    {id: 'throttled', title: 'held back by', sort: number((gpu) => (throttle(gpu) || [null])[0]), value: (row) => row.lost ? format.kUnknown : throttleText(row.read)},
    {id: 'runs', title: 'runs', style: 'short', value: (row) => ownerLink(context, row.attributes)},
  ], {caption: 'GPUs', key: (row) => row.index, href: (row) => context.href('gpus', row.index),
      rowClass: (row) => row.age === null ? '' : 'stale',
      empty: 'No GPU on this machine. See what it looks like: gpulens agent --demo. Why none was found: gpulens doctor'});
  const owners = table([
    {id: 'who', title: 'who', value: (row) => h('a', {href: context.href('gpus', ...row.owner.id)}, row.owner.text)},
    {id: 'kind', title: 'kind', value: (row) => row.owner.kind},
    {id: 'tenant', title: 'tenant', value: (row) => row.tenant || format.kUnknown},
    {id: 'gpus', title: 'GPUs', value: (row) => row.gpus.join(', ')},
    {id: 'busy', title: 'busy', number: true, value: (row) => format.text(row.busy, '1'), sort: (row) => row.busy},
    {id: 'power', title: 'power', number: true, value: (row) => format.text(row.power, 'W'), sort: (row) => row.power},
    {id: 'engines', title: 'engine', value: (row) => links(context, 'engines', row.engines)},
  ], {caption: 'Pods and jobs', key: (row) => row.owner.id.join('\n'), empty: 'No pod or job is known on these GPUs.'});
  const all = processTable(context, true);
  const charts = h('div', {class: 'charts'},
    context.chart({title: 'Busy', select: {name: 'gpu.utilization'}, order: byIndex, keep: isWhole, max: 1}),
    context.chart({title: 'Power', select: {name: 'gpu.power.draw'}, order: byIndex, keep: isWhole}),
    context.chart({title: 'Temperature', note: 'of the chip', select: {name: 'gpu.temperature', attributes: {'gpu.temperature.sensor': 'edge'}}, order: byIndex}),
    context.chart({title: 'Memory', select: {name: 'gpu.memory.used'}, order: byIndex, keep: isWhole}),
    context.chart({title: 'Tensor pipes', select: {name: 'gpu.pipe.tensor.active'}, order: byIndex, keep: isWhole, max: 1,
      empty: 'the driver does not measure it here'}),
    context.chart({title: 'NVLink', note: 'sent and received', names: ['gpu.interconnect.throughput'], compute: () => gpus(store).map((gpu) => ({
      label: 'GPU ' + gpu.index, order: Number(gpu.index), unit: 'By/s', source: 'nvidia',
      samples: sumSamples(store.find('gpu.interconnect.throughput', {'gpu.index': gpu.index}).map((one) => one.samples))})),
      empty: 'no link is measured here'}));
  const users = h('section', {class: 'card'}, h('h3', {}, 'Pods and jobs'), owners.element);
  const running = h('section', {class: 'card'}, h('h3', {}, 'Processes'), all.element);
  put(root, h('h2', {}, 'GPUs'), h('div', {class: 'card'}, rows.element), charts, users, running);

  return () => {
    const found = problems(store);
    const list = gpus(store).map((gpu) => ({...gpu, read: reader(store, gpu.index),
      age: gpu.lost ? null : staleAge(store, gpu.index),
      problem: found.find((one) => one.view[0] === 'gpus' && one.view[1] === gpu.index)}));
    const filtered = list.filter((row) => context.matches('gpu ' + row.index, row.model, row.uuid, ownerText(row.attributes), row.state));
    charts.hidden = users.hidden = running.hidden = !list.length;
    rows.update(filtered);
    const who = new Map();
    for (const gpu of list) {
      const owner = ownerOf(gpu.attributes);
      if (!owner || !context.matches(owner.text, gpu.attributes.tenant)) continue;
      const key = owner.id.join('\n');
      if (!who.has(key)) who.set(key, {owner, gpus: [], values: [], power: null, engines: enginesOf(store, gpu.attributes),
        tenant: gpu.attributes.tenant ? format.clean(gpu.attributes.tenant, 40) : ''});
      const row = who.get(key);
      row.gpus.push(gpu.index + (gpu.lost ? ' ✖' : ''));
      const busy = gpu.lost ? null : gpu.read.value('gpu.utilization'), power = gpu.lost ? null : gpu.read.value('gpu.power.draw');
      if (busy !== null) row.values.push(busy);
      if (power !== null) row.power = (row.power || 0) + power;
    }
    // Others have a part of a GPU, or share it.
    const share = (attributes, gpu) => {
      const owner = ownerOf(attributes);
      if (!owner || !context.matches(owner.text, attributes.tenant)) return;
      const key = owner.id.join('\n');
      if (!who.has(key)) who.set(key, {owner, gpus: [], values: [], power: null, engines: enginesOf(store, attributes), shares: true,
        tenant: attributes.tenant ? format.clean(attributes.tenant, 40) : ''});
      const row = who.get(key);
      if (row.shares && !row.gpus.includes(gpu)) row.gpus.push(gpu);
    };
    for (const {value, attributes} of store.find('gpu.mig.info')) {
      if (value !== null) share(attributes, attributes['gpu.index'] + ' part ' + attributes['gpu.mig.instance_id']);
    }
    for (const one of processes(store, (attributes) => attributes['gpu.mig.instance_id'] === undefined)) for (const gpu of one.gpus) share(one.attributes, gpu);
    owners.update([...who.values()].map((row) => ({...row, busy: row.values.length ? row.values.reduce((a, b) => a + b, 0) / row.values.length : null})));
    all.update(processes(store).filter((one) => context.matches(one.name, one.pid, one.user, ownerText(one.attributes))));
  };
}

function byIndex(series) {
  return Number(series.attributes['gpu.index']) || 0;
}

function processTable(context, withGpu, index) {
  const {store} = context;
  return table([
    {id: 'pid', title: 'pid', value: (row) => row.pid},
    {id: 'name', title: 'process', value: (row) => format.clean(row.name || format.kUnknown, 60)},
    {id: 'user', title: 'user', value: (row) => format.clean(row.user || format.kUnknown, 40)},
    withGpu ? {id: 'gpus', title: 'GPUs', value: (row) => row.gpus.map((gpu, i) => [i ? ', ' : '', h('a', {href: context.href('gpus', gpu)}, gpu)])} : null,
    {id: 'memory', title: 'GPU memory', number: true, value: (row) => format.text(row.memory, 'By'), sort: (row) => row.memory},
    {id: 'busy', title: 'busy', number: true, value: (row) => format.text(row.busy, '1'), sort: (row) => row.busy},
    {id: 'energy', title: 'energy', hint: 'since the agent saw the process', number: true, value: (row) => format.text(row.energy, 'J'), sort: (row) => row.energy},
    {id: 'who', title: 'pod or job', value: (row) => ownerLink(context, row.attributes)},
    {id: 'engine', title: 'engine', value: (row) => links(context, 'engines', enginesOf(store, row.attributes))},
  ].filter(Boolean), {caption: 'Processes', key: (row) => row.pid, empty: 'No process is known to use it. What may not be read: gpulens doctor',
    href: (row) => context.href('gpus', index === undefined ? row.gpus[0] || '0' : index, 'process', row.pid)});
}

// -- one GPU

function renderOne(context, index) {
  const {root, store} = context;
  const select = {'gpu.index': index};
  const gpu = reader(store, index);
  const mine = (event) => String(event.attributes && event.attributes['gpu.index']) === index && severityRank(event.severity) >= 2;
  const chart = (options) => context.chart({keep: isWhole, events: mine, ...options});
  const title = h('h2', {}, 'GPU ' + format.clean(index, 10));
  const state = h('p', {role: 'status'});
  const sick = h('section', {class: 'card', hidden: true, 'aria-label': 'what is wrong'});
  const facts = h('dl', {class: 'facts'});
  const errors = h('dl', {class: 'facts'});
  const who = h('p');
  const why = h('div');
  const running = processTable(context, false, index);
  const parts = table([
    {id: 'id', title: 'instance', value: (row) => row.id},
    {id: 'profile', title: 'profile', value: (row) => row.profile},
    {id: 'memory', title: 'memory', number: true, value: (row) => format.of(row.used, row.total, 'By')},
    {id: 'sm', title: 'SM', number: true, value: (row) => format.text(row.sm, '1')},
    {id: 'tensor', title: 'tensor', number: true, value: (row) => format.text(row.tensor, '1')},
    {id: 'who', title: 'pod or job', value: (row) => ownerLink(context, row.attributes)},
  ], {caption: 'MIG parts', key: (row) => row.id});
  const mig = h('section', {class: 'card', hidden: true}, h('h3', {}, 'MIG parts'), parts.element);
  const events = h('ul', {class: 'event-list'});
  const noEvents = h('p', {class: 'empty'}, 'No event of this GPU in the last hour.');
  put(root, crumbs(context, ['GPUs', 'gpus'], ['GPU ' + format.clean(index, 10)]), title, state, sick, who, why,
    h('div', {class: 'charts'},
      chart({title: 'Busy', note: 'and what of it was used', max: 1, select: [
        {name: 'gpu.utilization', attributes: select, label: 'busy'}, {name: 'gpu.sm.active', attributes: select, label: ofPart('SM')},
        {name: 'gpu.pipe.tensor.active', attributes: select, label: ofPart('tensor')},
        {name: 'gpu.dram.active', attributes: select, label: ofPart('memory bandwidth')}], keep: () => true}),
      chart({title: 'Power', select: {name: 'gpu.power.draw', attributes: select, label: 'power'},
        limits: () => [{label: 'limit', value: powerLimit(gpu)}]}),
      chart({title: 'Temperature', select: {name: 'gpu.temperature', attributes: select,
        label: (one) => ({edge: 'core', memory: 'memory'}[one.attributes['gpu.temperature.sensor']] || String(one.attributes['gpu.temperature.sensor']))},
        limits: () => ['slowdown', 'shutdown'].map((kind) => ({label: kind,
          value: gpu.value('gpu.temperature.limit', {'gpu.temperature.limit_type': kind, 'gpu.temperature.sensor': 'edge'})
            || gpu.value('gpu.temperature.limit', {'gpu.temperature.limit_type': kind})}))}),
      chart({title: 'Memory', select: {name: 'gpu.memory.used', attributes: select, label: 'used'},
        limits: () => [{label: 'all', value: gpu.value('gpu.memory.total')}]}),
      chart({title: 'NVLink', select: {name: 'gpu.interconnect.throughput', attributes: select, label: (one) => direction(one)},
        empty: 'no link is measured here'}),
      chart({title: 'PCIe', select: {name: 'gpu.pcie.io', attributes: select, label: (one) => direction(one)}, empty: 'the driver does not measure it here'}),
      chart({title: 'Held back', note: 'share of time', max: 0.1, unit: '1', select: {name: 'gpu.throttle.time', attributes: select,
        label: (one) => causeText(one.attributes['gpu.throttle.cause'])}}),
      chart({title: 'Clocks', select: {name: 'gpu.clock.frequency', attributes: select, label: (one) => ({sm: 'SM', memory: 'memory'}[one.attributes['gpu.clock.type']])},
        keep: (one) => isWhole(one) && ['sm', 'memory'].includes(String(one.attributes['gpu.clock.type']))}),
      chart({title: 'Errors', note: 'a second', unit: '', compute: () => errorLines(store, select), names: kErrorNames})),
    h('section', {class: 'card'}, h('h3', {}, 'Processes'), running.element), mig,
    h('div', {class: 'columns'},
      h('section', {class: 'card'}, h('h3', {}, 'Events'), events, noEvents),
      h('section', {class: 'card'}, h('h3', {}, 'Counts'), errors),
      h('section', {class: 'card'}, h('h3', {}, 'What it is'), facts)));
  showWhy(context, why, {gpu: index});

  return () => {
    const me = gpus(store).find((one) => one.index === index);
    if (!me) {
      put(state, store.at ? h('span', {}, 'There is no GPU ' + format.clean(index, 10) + ' on this machine. ', h('a', {href: context.href('gpus')}, 'All GPUs')) : 'connecting to the agent');
      return;
    }
    setText(title, 'GPU ' + index + (me.model ? ' · ' + format.clean(me.model, 60) : ''));
    const found = problems(store).find((one) => one.view[0] === 'gpus' && one.view[1] === index);
    const last = lastFault(store, index);
    put(state, h('span', {class: found ? found.level === 'fault' ? 'bad' : 'look' : 'good'},
      found ? (found.level === 'fault' ? '✖ ' : '▲ ') + found.what : '● ok'),
      !me.lost && staleAge(store, index) !== null ? h('span', {class: 'stale'}, ' values are stale: ~' + format.age(staleAge(store, index))) : null);
    sick.hidden = !found;
    if (found) {
      const code = last && last.attributes['gpu.xid.code'];
      put(sick, h('dl', {class: 'facts'},
        found.why ? [h('dt', {}, 'why'), h('dd', {}, found.why)] : null,
        me.lost && last ? [h('dt', {}, 'since'), h('dd', {}, format.dateTime(last.at) + ', ' + format.duration((store.now() - last.at) / 1000) + ' ago')] : null,
        code !== undefined && code !== null ? [h('dt', {}, 'code'), h('dd', {}, 'Xid ' + format.clean(code, 8) + ': ', h('code', {}, 'gpulens events explain ' + format.clean(code, 8)))] : null,
        ownerText(me.attributes) ? [h('dt', {}, me.lost ? 'it ran' : 'runs'), h('dd', {}, ownerLink(context, me.attributes))] : null,
        found.act ? [h('dt', {}, 'do'), h('dd', {}, found.act)] : null));
    }
    who.hidden = me.lost;
    put(who, ownerText(me.attributes) ? ['Runs ', ownerLink(context, me.attributes)] : 'No pod or job is known on it.',
      me.attributes.tenant ? ' of tenant ' + format.clean(me.attributes.tenant, 40) : null);
    const info = me.info || {};
    const limit = powerLimit(gpu);
    const rows = [
      ['uuid', me.uuid], ['PCI', info['gpu.pci.bus_id']], ['NUMA node', info['gpu.numa_node']], ['architecture', info['gpu.architecture']],
      ['VBIOS', info['gpu.vbios.version']], ['serial', info['gpu.serial']], ['MIG', info['gpu.mig.enabled'] === undefined ? undefined : String(info['gpu.mig.enabled']) === 'true' ? 'on' : 'off'],
      ['memory', me.lost ? undefined : format.text(gpu.value('gpu.memory.total'), 'By')], ['power limit', me.lost ? undefined : format.text(limit, 'W')],
      ['PCIe', me.lost ? undefined : pcie(gpu)], ['driver', driver(store)],
    ].filter(([, value]) => value !== undefined && value !== null);
    put(facts, rows.map(([name, value]) => [h('dt', {}, name), h('dd', {class: 'mono'}, format.clean(value, 80))]));
    const counter = (name, more) => gpu.sum(name, more);
    const counts = [
      ['memory errors, corrected', counter('gpu.ecc.errors', {'gpu.ecc.error_type': 'correctable', 'gpu.ecc.count_type': 'volatile'})],
      ['memory errors, uncorrected', counter('gpu.ecc.errors', {'gpu.ecc.error_type': 'uncorrectable', 'gpu.ecc.count_type': 'volatile'})],
      ['rows remapped', counter('gpu.row_remap.count')], ['pages retired', counter('gpu.retired_pages')],
      ['PCIe replays', counter('gpu.pcie.replay.count')], ['NVLink errors', counter('gpu.interconnect.errors')],
      ['Xids since the agent began', counter('gpu.xid.errors')], ['health score', gpu.value('gpu.health.score'), '1'],
    ].filter(([, value]) => value !== null);
    put(errors, counts.length ? counts.map(([name, value, unit]) => [h('dt', {}, name),
      h('dd', {class: value && !unit ? 'look' : null}, format.text(value, unit || ''))]) : h('dd', {class: 'empty'}, 'no counter can be read now'));
    running.update(processes(store, (a) => String(a['gpu.index']) === index)
      .filter((one) => context.matches(one.name, one.pid, one.user, ownerText(one.attributes))));
    showParts(parts, mig, store, index);
    const happened = store.events.filter((event) => String(event.attributes && event.attributes['gpu.index']) === index).slice(0, 12);
    put(events, happened.map((event) => {
      const rank = severityRank(event.severity);
      return h('li', {}, h('span', {class: rank >= 3 ? 'bad' : rank === 2 ? 'look' : 'dim', title: event.severity}, severityMark(event.severity)),
        h('span', {class: 'dim'}, format.clock(event.at)), h('span', {}, eventText(event, 200)));
    }));
    noEvents.hidden = happened.length > 0;
  };
}

// The panel of why.js, where it is served.
function showWhy(context, box, about) {
  import('./why.js').then(({panel}) => {
    if (box.isConnected) put(box, context.part(panel(context, about)));
  }, () => box.remove());
}

// The label of a series that is the GPU's, or while MIG is on that of each part.
function ofPart(text) {
  return (series) => isWhole(series) ? text : text + ' of part ' + series.attributes['gpu.mig.instance_id'];
}

function direction(series) {
  const way = String(series.attributes['gpu.interconnect.direction'] || '');
  return {transmit: 'sent', receive: 'received'}[way] || way;
}

const kErrorNames = ['gpu.ecc.errors', 'gpu.pcie.replay.count', 'gpu.interconnect.errors'];

// Counters of errors, added up by what a person would do about them.
function errorLines(store, select) {
  const rows = [
    ['memory, corrected', 'gpu.ecc.errors', {'gpu.ecc.error_type': 'correctable', 'gpu.ecc.count_type': 'volatile'}],
    ['memory, uncorrected', 'gpu.ecc.errors', {'gpu.ecc.error_type': 'uncorrectable', 'gpu.ecc.count_type': 'volatile'}],
    ['PCIe replays', 'gpu.pcie.replay.count', {}],
    ['NVLink', 'gpu.interconnect.errors', {}],
  ];
  return rows.map(([label, name, more], order) => {
    const found = store.find(name, {...select, ...more}).filter(isWhole);
    return found.length ? {label, order, unit: '', source: found[0].source, samples: sumSamples(found.map((one) => one.samples))} : null;
  }).filter(Boolean);
}

function driver(store) {
  const series = store.one('gpu.driver.info');
  return series ? series.attributes['gpu.driver.version'] : undefined;
}

function showParts(parts, box, store, index) {
  const found = new Map();
  const fields = {'gpu.mig.info': null, 'gpu.mig.memory.used': 'used', 'gpu.mig.memory.total': 'total', 'gpu.sm.active': 'sm', 'gpu.pipe.tensor.active': 'tensor'};
  for (const [name, field] of Object.entries(fields)) {
    for (const series of store.find(name, {'gpu.index': index})) {
      const a = series.attributes;
      if (a['gpu.mig.instance_id'] === undefined) continue;
      const compute = a['gpu.mig.compute_instance_id'];
      const id = a['gpu.mig.instance_id'] + (compute === undefined ? '' : '.' + compute);
      const row = found.get(id) || {id, profile: format.kUnknown, used: null, total: null, sm: null, tensor: null, attributes: a};
      if (a['gpu.mig.profile'] !== undefined) row.profile = format.clean(a['gpu.mig.profile'], 30);
      if (field && series.value !== null) row[field] = series.value;
      if (ownerOf(a)) row.attributes = a;
      found.set(id, row);
    }
  }
  box.hidden = !found.size;
  parts.update([...found.values()].sort((a, b) => a.id < b.id ? -1 : 1));
}

// -- a process, a pod or a job

function renderProcess(context, index, pid) {
  const {root, store} = context;
  const title = h('h2', {}, 'Process ' + format.clean(pid, 12));
  const facts = h('dl', {class: 'facts'});
  const select = {'process.pid': pid};
  const why = h('div');
  put(root, crumbs(context, ['GPUs', 'gpus'], ['GPU ' + format.clean(index, 10), 'gpus', index], ['process ' + format.clean(pid, 12)]), title,
    h('div', {class: 'card'}, facts), why,
    h('div', {class: 'charts'},
      context.chart({title: 'GPU memory of the process', select: {name: 'gpu.process.memory.used', attributes: select}, order: byIndex}),
      context.chart({title: 'Busy by the process', max: 1, select: {name: 'gpu.process.utilization', attributes: {...select, 'gpu.task.type': 'compute'}}, order: byIndex,
        empty: 'the driver does not measure it for this process'}),
      context.chart({title: 'Power of the process', note: 'its part of the GPU’s', spread_s: 30, select: {name: 'gpu.process.energy', attributes: select}, order: byIndex}),
      context.chart({title: 'Power of the GPU', select: {name: 'gpu.power.draw', attributes: {'gpu.index': index}}, keep: isWhole, order: byIndex})));
  showWhy(context, why, {pid});
  return () => {
    const [one] = processes(store, (a) => String(a['process.pid']) === pid);
    if (!one) {
      put(facts, h('dt', {}, 'state'), h('dd', {}, store.at ? 'it uses no GPU now: it ended, or another agent saw it' : 'connecting'));
      return;
    }
    setText(title, format.clean(one.name || 'process', 60) + ' · ' + one.pid);
    const engines = enginesOf(store, one.attributes);
    put(facts, [
      ['user', format.clean(one.user || format.kUnknown, 40)],
      ['GPUs', one.gpus.map((gpu, i) => [i ? ', ' : '', h('a', {href: context.href('gpus', gpu)}, 'GPU ' + gpu)])],
      ['GPU memory', format.text(one.memory, 'By')], ['busy', format.text(one.busy, '1')],
      ['energy', format.text(one.energy, 'J')],
      ['pod or job', ownerLink(context, one.attributes)], ['tenant', format.clean(one.attributes.tenant || format.kUnknown, 40)],
      ['engine', links(context, 'engines', engines)],
    ].map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
  };
}

function renderOwner(context, id) {
  const {root, store} = context;
  const name = id[0] === 'pod' ? 'Pod ' + id.slice(1).filter(Boolean).join('/') : 'Job ' + id[1];
  const keep = (series) => belongs(series.attributes, id);
  const title = h('h2', {}, format.clean(name, 100));
  const facts = h('dl', {class: 'facts'});
  const running = processTable(context, true);
  const why = h('div');
  put(root, crumbs(context, ['GPUs', 'gpus'], [format.clean(name, 100)]), title, h('div', {class: 'card'}, facts), why,
    h('div', {class: 'charts'},
      context.chart({title: 'Busy', select: {name: 'gpu.utilization'}, keep, order: byIndex, max: 1}),
      context.chart({title: 'Power', select: {name: 'gpu.power.draw'}, keep, order: byIndex}),
      context.chart({title: 'Memory', select: {name: 'gpu.memory.used'}, keep, order: byIndex}),
      context.chart({title: 'SM', select: {name: 'gpu.sm.active'}, keep, order: byIndex, max: 1}),
      context.chart({title: 'Tensor pipes', select: {name: 'gpu.pipe.tensor.active'}, keep, order: byIndex, max: 1}),
      context.chart({title: 'Temperature', note: 'of the chip', select: {name: 'gpu.temperature', attributes: {'gpu.temperature.sensor': 'edge'}}, keep, order: byIndex})),
    h('section', {class: 'card'}, h('h3', {}, 'Processes'), running.element));
  if (id[0] === 'job') showWhy(context, why, {job: id[1]});
  return () => {
    const mine = gpus(store).filter((gpu) => belongs(gpu.attributes, id));
    const all = processes(store, (a) => belongs(a, id));
    const parts = store.find('gpu.mig.info').filter((one) => one.value !== null && belongs(one.attributes, id));
    const attributes = (mine[0] || all[0] || parts[0] || {attributes: {}}).attributes;
    const on = [...new Set([...mine.map((gpu) => gpu.index), ...all.flatMap((one) => one.gpus), ...parts.map((one) => String(one.attributes['gpu.index']))])];
    const words = {'k8s.deployment.name': 'deployment', 'k8s.container.name': 'container', 'slurm.job.name': 'name', 'slurm.job.user': 'user',
                   'slurm.job.account': 'account', 'slurm.job.partition': 'partition', tenant: 'tenant'};
    put(facts, !on.length ? [h('dt', {}, 'state'), h('dd', {}, store.at ? 'it uses no GPU of this machine now' : 'connecting')] : null,
      Object.entries(words).filter(([key]) => attributes[key] !== undefined)
        .map(([key, word]) => [h('dt', {}, word), h('dd', {}, format.clean(attributes[key], 80))]),
      h('dt', {}, 'GPUs'), h('dd', {}, on.length ? on.map((gpu, i) => [i ? ', ' : '', h('a', {href: context.href('gpus', gpu)}, 'GPU ' + gpu + (mine.some((one) => one.index === gpu && one.lost) ? ' ✖' : ''))]) : format.kUnknown),
      h('dt', {}, 'engine'), h('dd', {}, links(context, 'engines', enginesOf(store, attributes))));
    running.update(all.filter((one) => context.matches(one.name, one.pid, one.user)));
  };
}

export default {
  id: 'gpus',
  title: 'GPUs',
  render(context) {
    const [first, ...rest] = context.entity;
    if (first === undefined) return renderAll(context);
    if ((first === 'pod' && rest.length === 2) || (first === 'job' && rest.length === 1)) return renderOwner(context, context.entity);
    if (rest[0] === 'process' && rest[1] !== undefined) return renderProcess(context, first, rest[1]);
    return renderOne(context, first);
  },
};
