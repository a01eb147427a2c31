// The view of what runs inside jobs: processes with their phases and launches, and communicators with the rank that is late or hangs.
// The address:   #/jobs   #/jobs/process/41877   #/jobs/communicator/NAME

import {h, put, table} from './dom.js';
import * as format from './format.js';
import {lastOf, lineOf, minuteOf} from './energy.js';
import {figures} from './figures.js';
import {ownerOf} from './owners.js';
import {communicators, communicatorState, rankOf} from './problems.js';

const kPhases = ['data_loading', 'gpu_compute', 'nccl_collective', 'optimizer_step', 'checkpoint', 'prefill', 'decode', 'queued', 'idle', 'unknown'];
// Metrics of which one names a process.
const kOfProcess = ['process.phase', 'process.phase.time', 'cuda.launches', 'process.phase.energy', 'process.disk.io'];

const words = (phase) => format.clean(phase, 24).replace(/_/g, ' ');
const sum = (series, field) => series.reduce((all, one) => (one[field] === null ? all : (all || 0) + one[field]), null);

// Processes that report from inside, by pid: {pid, name, user, attributes, phase, confidence, shares, waits, launches, p50, p99, power, disk};
// null where not known. `shares` is [phase, share of the time now], the largest first; p50 and p99 are of launch calls, in seconds.
export function jobProcesses(store) {
  const found = new Map();
  for (const name of kOfProcess) {
    for (const one of store.find(name)) {
      const pid = one.attributes['process.pid'];
      if (pid === undefined || one.value === null) continue;
      if (!found.has(String(pid))) found.set(String(pid), {pid: String(pid), name: '', user: '', attributes: one.attributes});
      const process = found.get(String(pid));
      if (one.attributes['process.executable.name'] !== undefined) process.name = String(one.attributes['process.executable.name']);
      if (one.attributes['process.owner'] !== undefined) process.user = String(one.attributes['process.owner']);
      if (ownerOf(one.attributes)) process.attributes = one.attributes;
    }
  }
  for (const process of found.values()) {
    const of = {'process.pid': process.pid};
    const now = store.find('process.phase', of).find((one) => one.value === 1);
    const times = store.find('process.phase.time', of);
    const rates = new Map();
    for (const one of times) {
      if (one.rate === null) continue;
      const phase = String(one.attributes['process.phase']);
      rates.set(phase, (rates.get(phase) || 0) + one.rate);
    }
    const total = [...rates.values()].reduce((all, rate) => all + rate, 0);
    process.phase = now ? String(now.attributes['process.phase']) : null;
    process.shares = total > 0 ? [...rates].map(([phase, rate]) => [phase, rate / total]).filter(([, share]) => share >= 0.005).sort((a, b) => b[1] - a[1]) : [];
    // Of a process that never loaded data nothing is known of it: it may have no loader.
    process.waits = rates.has('data_loading') && total > 0 ? rates.get('data_loading') / total : null;
    process.confidence = process.phase === 'unknown' ? null : store.value('process.phase.confidence', of);
    process.launches = sum(store.find('cuda.launches', of), 'rate');
    process.p50 = store.value('process.recent.launch_latency', {...of, 'launch.quantile': 'p50'});
    process.p99 = store.value('process.recent.launch_latency', {...of, 'launch.quantile': 'p99'});
    // The account of energy is closed every ten seconds: between two readings of a second there is mostly no change.
    process.power = lastOf(minuteOf(store.find('process.phase.energy', of)));
    process.disk = sum(store.find('process.disk.io', of), 'rate');
  }
  return [...found.values()].sort((a, b) => (b.launches || 0) - (a.launches || 0) || a.pid - b.pid);
}

function stateNode([mark, text, tone]) {
  return h('span', {class: 'state ' + tone}, h('span', {'aria-hidden': 'true'}, mark), ' ' + text);
}

function sharesText(process) {
  return process.shares.slice(0, 2).map(([phase, share]) => words(phase) + ' ' + format.text(share, '1')).join(', ') || format.kUnknown;
}

function ownerLink(context, attributes) {
  const owner = ownerOf(attributes);
  return owner ? h('a', {href: context.href('gpus', ...owner.id), title: owner.text}, owner.text) : format.kUnknown;
}

// What to do where no job reports.
function none() {
  return h('div', {class: 'card'}, h('h3', {}, 'No job reports from inside'),
    h('p', {}, 'Nothing inside a job is measured unless it is requested. A job that is started so reports its collectives, launches, waits for data and phases:'),
    h('pre', {}, 'gpulens run --probes=nccl,cuda,torch -- python train.py'),
    h('p', {}, 'A process that runs already can be looked at from outside for a while, with the rights for it:'),
    h('pre', {}, 'gpulens probe list\ngpulens probe attach PID --for 1m'));
}

function renderList(context) {
  const {store} = context;
  const jobs = table([
    {id: 'pid', title: 'process', value: (row) => (row.name ? format.clean(row.name, 24) + ' ' : '') + row.pid, sort: (row) => Number(row.pid)},
    {id: 'owner', title: 'pod or job', value: (row) => ownerLink(context, row.attributes), sort: (row) => (ownerOf(row.attributes) || {text: ''}).text},
    {id: 'phase', title: 'phase', value: (row) => (row.phase === null ? format.kUnknown : words(row.phase)), sort: (row) => row.phase || ''},
    {id: 'shares', title: 'time now', value: sharesText, hint: 'the two largest shares of the time since the reading before'},
    {id: 'sure', title: 'sure', number: true, value: (row) => format.text(row.confidence, '1'), sort: (row) => row.confidence, hint: '100 %: the job marks its phases; 40 %: by the utilisation of the GPU alone'},
    {id: 'launches', title: 'launches/s', number: true, value: (row) => format.count(row.launches), sort: (row) => row.launches},
    {id: 'p50', title: 'p50', number: true, value: (row) => format.text(row.p50, 's'), sort: (row) => row.p50, hint: 'time of a launch call in the last minute: half of them take less'},
    {id: 'p99', title: 'p99', number: true, value: (row) => format.text(row.p99, 's'), sort: (row) => row.p99, hint: 'one of a hundred launch calls takes longer'},
    {id: 'waits', title: 'data wait', number: true, value: (row) => format.text(row.waits, '1'), sort: (row) => row.waits, hint: 'share of the time'},
    {id: 'power', title: 'power', number: true, value: (row) => format.text(row.power, 'W'), sort: (row) => row.power, hint: 'of the energy that it is charged with: average of one minute'},
  ], {caption: 'Processes that report from inside', key: (row) => row.pid, href: (row) => context.href('jobs', 'process', row.pid), empty: ''});
  const groups = table([
    {id: 'name', title: 'communicator', value: (row) => format.clean(row.name, 40), sort: (row) => row.name},
    {id: 'state', title: 'state', value: (row) => stateNode(communicatorState(row)), sort: (row) => communicatorState(row)[1]},
    {id: 'ranks', title: 'ranks', number: true, value: (row) => format.count(row.ranks), sort: (row) => row.ranks},
    {id: 'late', title: 'latest rank', value: (row) => (row.late ? rankOf(row.late) + ' by ' + format.text(row.late.value, 's') : format.kUnknown), sort: (row) => row.late && row.late.value, hint: 'how much later than the median it arrives'},
    {id: 'pending', title: 'waiting', number: true, value: (row) => format.text(row.pending, 's'), sort: (row) => row.pending, hint: 'a collective in which no rank moves'},
    {id: 'missing', title: 'missing', number: true, value: (row) => format.count(row.missing), sort: (row) => row.missing, hint: 'ranks that have not arrived'},
    {id: 'rate', title: 'collectives/s', number: true, value: (row) => format.count(row.rate), sort: (row) => row.rate},
    {id: 'bus', title: 'bus bandwidth', number: true, value: (row) => format.text(row.bus, 'By/s'), sort: (row) => row.bus},
  ], {caption: 'Communicators', key: (row) => row.id, href: (row) => context.href('jobs', 'communicator', row.id), empty: ''});
  const ofJobs = h('div', {hidden: true}, h('h3', {}, 'Processes'), jobs.element);
  const ofGroups = h('div', {hidden: true}, h('h3', {}, 'Communicators'), groups.element);
  const note = h('div', {});
  context.onEnd(store.watch(['process.phase.energy']));
  put(context.root, h('h2', {}, 'Jobs'), note, ofGroups, ofJobs);
  return () => {
    const processes = jobProcesses(store), all = communicators(store);
    const rows = processes.filter((row) => context.matches(row.pid, row.name, row.user, row.phase, (ownerOf(row.attributes) || {text: ''}).text));
    const shown = all.filter((row) => context.matches(row.name, row.id, communicatorState(row)[1]));
    jobs.update(rows);
    groups.update(shown);
    ofJobs.hidden = !rows.length;
    ofGroups.hidden = !shown.length;
    put(note, !processes.length && !all.length ? none()
      : !rows.length && !shown.length ? h('p', {class: 'empty'}, 'Nothing has what is typed into the filter.') : '');
  };
}

function crumbs(context, text) {
  return h('nav', {class: 'crumbs', 'aria-label': 'where this is'}, h('a', {href: context.href('jobs')}, 'Jobs'), ' › ', text);
}

function renderProcess(context, pid) {
  const {store} = context;
  const tiles = figures(), head = h('p', {class: 'dim'}), note = h('p', {class: 'empty', hidden: true});
  const of = {'process.pid': pid};
  const phaseOf = (s) => words(s.attributes['process.phase']);
  const order = (s) => kPhases.indexOf(String(s.attributes['process.phase']));
  const select = (name, more) => [{name, attributes: {...of, ...more}}];
  put(context.root, crumbs(context, 'process ' + format.clean(pid, 20)), h('h2', {}, 'Process ' + format.clean(pid, 20)), head, note, tiles.element,
    h('div', {class: 'charts'},
      context.chart({title: 'Time by phase', note: 'share of the time in each phase', select: select('process.phase.time'), label: (s) => phaseOf(s) + ' (' + format.clean(s.attributes['phase.source'], 16) + ')', order}),
      context.chart({title: 'Launches', note: 'calls that launch work on a GPU', select: select('cuda.launches'), label: (s) => format.clean(s.attributes['cuda.launch.type'], 20)}),
      context.chart({title: 'Time of a launch call', note: 'of the last minute', select: select('process.recent.launch_latency'), label: (s) => format.clean(s.attributes['launch.quantile'], 8)}),
      context.chart({title: 'Power by phase', note: 'averages of one minute', names: ['process.phase.energy'], unit: 'W',
        compute: () => store.find('process.phase.energy', of).map((one) => lineOf([one], phaseOf(one), order(one)))}),
      context.chart({title: 'Storage', note: 'bytes that it made the storage read and write', select: select('process.disk.io'), label: (s) => format.clean(s.attributes['disk.io.direction'], 16)})));
  return () => {
    const process = jobProcesses(store).find((one) => one.pid === pid);
    note.hidden = Boolean(process);
    if (!process) {
      put(note, 'No process ' + format.clean(pid, 20) + ' reports here. ', h('a', {href: context.href('jobs')}, 'All jobs'));
      put(head);
      tiles.update([]);
      return;
    }
    put(head, [process.name, process.user].filter(Boolean).map((one) => format.clean(one, 60)).join(' · '), ' ', ownerLink(context, process.attributes));
    tiles.update([['phase', process.phase === null ? null : words(process.phase), '', process.confidence === null ? '' : format.text(process.confidence, '1') + ' sure'],
      ['launches', process.launches, '{launch}/s'], ['launch call p50', process.p50, 's', process.p99 === null ? '' : 'p99 ' + format.text(process.p99, 's')], ['data wait', process.waits, '1'], ['power', process.power, 'W'], ['storage', process.disk, 'By/s']]);
  };
}

function renderCommunicator(context, id) {
  const {store} = context;
  const tiles = figures(), head = h('p', {}), note = h('p', {class: 'empty', hidden: true});
  const select = (metric, more) => [{name: metric, attributes: {'nccl.communicator': id, ...more}}];
  const ranks = table([
    {id: 'rank', title: 'rank', value: (row) => format.clean(row.attributes['nccl.rank'], 12), sort: (row) => Number(row.attributes['nccl.rank'])},
    {id: 'late', title: 'lateness', number: true, value: (row) => format.text(row.value, 's'), sort: (row) => row.value, hint: 'how much later than the median it arrives; negative: earlier'},
    {id: 'lost', title: 'lost', number: true, value: (row) => format.text((store.one('nccl.rank.lost_time', {'nccl.communicator': id, 'nccl.rank': row.attributes['nccl.rank']}) || {rate: null}).rate, '1'), hint: 'share of the time for which the others wait for it alone'},
    {id: 'where', title: 'where', value: (row) => [row.attributes['nccl.host'], row.attributes['gpu.index'] !== undefined ? 'GPU ' + row.attributes['gpu.index'] : row.attributes['gpu.uuid'],
      row.attributes['process.pid'] !== undefined ? 'pid ' + row.attributes['process.pid'] : null].filter(Boolean).map((one) => format.clean(one, 48)).join(' · ') || format.kUnknown},
  ], {caption: 'Ranks by lateness', key: (row) => String(row.id), empty: 'No durations are known: the level of the plugin is count, or the ranks are on other nodes.'});
  const title = h('h2', {}, format.clean(id, 60));
  put(context.root, crumbs(context, format.clean(id, 48)), title, head, note, tiles.element,
    h('div', {class: 'charts'},
      context.chart({title: 'Lateness of ranks', note: 'the rank that comes last waits least: the others wait for it', select: select('nccl.rank.lateness'), label: rankOf}),
      context.chart({title: 'Bus bandwidth', select: select('nccl.collective.bus_bandwidth'), label: (s) => format.clean(s.attributes['nccl.collective.type'], 24) + ' ' + rankOf(s)}),
      context.chart({title: 'Collectives', select: select('nccl.collectives', {'nccl.stage': 'done'}), label: (s) => format.clean(s.attributes['nccl.collective.type'], 24) + ' ' + rankOf(s)})),
    h('h3', {}, 'Ranks'), ranks.element);
  return () => {
    const one = communicators(store).find((row) => row.id === id);
    note.hidden = Boolean(one);
    if (!one) {
      put(note, 'No communicator ' + format.clean(id, 60) + ' is known here. ', h('a', {href: context.href('jobs')}, 'All jobs'));
      put(head);
      tiles.update([]);
      ranks.update([]);
      return;
    }
    put(title, format.clean(one.name, 60));
    put(head, stateNode(communicatorState(one)), one.name === id ? '' : h('span', {class: 'dim'}, ' ' + format.clean(id, 24)));
    tiles.update([['ranks', one.ranks, ''], ['missing', one.missing, ''], ['waiting', one.pending, 's'], ['latest rank', one.late ? one.late.value : null, 's', one.late ? rankOf(one.late) : ''],
      ['collectives', one.rate, '{operation}/s'], ['bus bandwidth', one.bus, 'By/s']]);
    ranks.update(store.find('nccl.rank.lateness', {'nccl.communicator': id}).filter((row) => row.value !== null).sort((a, b) => b.value - a.value));
  };
}

export default {
  id: 'jobs',
  title: 'Jobs',
  render(context) {
    const [kind, ...rest] = context.entity;
    if (kind === 'process' && rest.length) return renderProcess(context, rest[0]);
    if (kind === 'communicator' && rest.length) return renderCommunicator(context, rest.join('/'));
    return renderList(context);
  },
};
