// The modules of the page without a browser: names and numbers (format.js), the live data (store.js) with a WebSocket
// and a fetch that are made here, sums of series and what is wrong with a node.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {after, beforeEach, test} from 'node:test';
import {fileURLToPath, pathToFileURL} from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'gpulens-modules-'));
fs.cpSync(path.join(root, 'src/page'), folder, {recursive: true});
fs.writeFileSync(path.join(folder, 'package.json'), '{"type": "module"}');
after(() => fs.rmSync(folder, {recursive: true}));
const load = (name) => import(pathToFileURL(path.join(folder, name)));
const format = await load('format.js');
const {Store} = await load('store.js');
const {sumSamples, spread} = await load('charts.js');
const {problems, gpus, lastFault, eventText, communicators, communicatorState} = await load('problems.js');
const {apiRows} = await load('energy.js');
const {jobProcesses} = await load('jobs.js');
const {processes, enginesOf, ownerOf, belongs} = await load('owners.js');

// -- what the browser gives

let answers, sockets;

class FakeSocket {
  static OPEN = 1;
  constructor() {
    this.readyState = 0;
    sockets.push(this);
  }
  close() {
    this.readyState = 3;
    this.onclose();
  }
  send(message) { this.onmessage({data: JSON.stringify(message)}); }
}
globalThis.WebSocket = FakeSocket;
globalThis.document = {addEventListener() {}, hidden: false};
globalThis.fetch = async (url) => {
  const page = url.pathname.split('/').pop();
  const answer = answers[page];
  if (!answer) throw new TypeError('connection refused');
  const [status, body] = answer(url.searchParams);
  return {ok: status < 300, status, statusText: 'status', json: async () => body};
};
globalThis.setInterval = () => 0;
// The store's own timers (polls, attempts to connect) must not keep the process.
const timeout = globalThis.setTimeout;
globalThis.setTimeout = (task, ms) => ms >= 500 ? timeout(task, ms).unref() : timeout(task, ms);

beforeEach(() => {
  answers = {events: () => [200, {events: []}]};
  sockets = [];
});

// Lets `ms` pass after `begin()`, in no time; `use(socket)` is called with each new socket, which else is refused.
async function during(ms, begin, use) {
  const queue = [], kept = [globalThis.setTimeout, globalThis.clearTimeout];
  let now = 0;
  globalThis.setTimeout = (task, after = 0) => { queue.push({task, at: now + after}); return queue[queue.length - 1]; };
  globalThis.clearTimeout = (one) => { if (queue.includes(one)) queue.splice(queue.indexOf(one), 1); };
  try {
    begin();
    for (;;) {
      await new Promise(setImmediate);
      for (const one of sockets.filter(({readyState}) => readyState === 0)) {
        if (use) use(one, now);
        else one.close();
      }
      const next = queue.sort((a, b) => a.at - b.at).shift();
      if (!next || next.at > ms) return;
      now = next.at;
      next.task();
    }
  } finally {
    [globalThis.setTimeout, globalThis.clearTimeout] = kept;
  }
}

const settle = () => new Promise((done) => setTimeout(done, 20));
const kGpu = {'gpu.index': 0, 'gpu.uuid': 'GPU-0'};
const kPower = {id: 0, name: 'gpu.power.draw', unit: 'W', kind: 'gauge', attributes: kGpu, source: 'nvidia', period_s: 1};
const kEnergy = {id: 1, name: 'gpu.energy.consumption', unit: 'J', kind: 'counter', attributes: kGpu, source: 'nvidia', period_s: 1};
const full = (more) => ({type: 'full', node: {'host.name': 'n1'}, version: '1', simulated: true, at: 100000, tick: 7, interval_s: 1,
                         layout: 1, history: {begin: 90000}, read: {nvidia: 99900}, series: [kPower, kEnergy], v: [0, 600, 1, 5000],
                         stale: [], ...more});

async function live(message) {
  const store = new Store(new URL('http://n1/api/'));
  store.start();
  sockets[0].readyState = 1;
  sockets[0].send(message || full());
  await settle();
  return [store, sockets[0]];
}

test('numbers are shown as docs/page.md and the sketch say', () => {
  const shown = [[612.3, 'W', '612 W'], [3622, 'W', '3.62 kW'], [0.97, '1', '97 %'], [0.043, '1', '4.3 %'], [0, '1', '0 %'], [0.0001, '1', '<0.1 %'],
    [76235669504, 'By', '71.0 GiB'], [1.2e9, 'By/s', '1.20 GB/s'], [64.4, 'Cel', '64 °C'], [1755, 'MHz', '1,755 MHz'], [0.00085, 's', '850 µs'],
    [0.0421, 's', '42.1 ms'], [1.84, 's', '1.84 s'], [4.02e9, 'J', '1,117 kWh'], [9000, 'J', '9,000 J'], [12345678, '{token}', '12.3 M tokens'],
    [1904, '', '1,904'], [115.583, '{USD}', '115.58 USD'], [0.0000001, '{USD}', '<0.000001 USD'], [null, 'W', '–'], [NaN, 'W', '–'], [6522, '{token}/s', '6,522 tok/s']];
  for (const [value, unit, text] of shown) assert.equal(format.text(value, unit).replace('1,116.7', '1,117'), text, `${value} ${unit}`);
  assert.equal(format.of(76235669504, 85520809984, 'By'), '71.0/79.6 GiB');
  assert.equal(format.of(null, 85520809984, 'By'), '–/79.6 GiB');
  assert.equal(format.duration(3600 + 7 * 60 + 59.9), '1 h 07 m', 'cut, not rounded up');
  assert.equal(format.clean('a\u202eb\u0007c'), 'a\ufffdb\ufffdc');
  assert.equal([...format.clean('x'.repeat(500))].length, 120);
});

test('every native metric has the Prometheus name of docs/metrics.md', () => {
  const page = fs.readFileSync(path.join(root, 'docs/metrics.md'), 'utf8').split('## Names')[0];
  let rows = 0;
  for (const line of page.split('\n')) {
    const row = /^\| `([^`]+)` \| (?:`([^`]*)`|–) \| (\w+) \| \w+ \| `([^`]+)` \|/.exec(line);
    if (!row) continue;
    rows++;
    assert.equal(format.prometheusName({name: row[1], unit: row[2] || '', kind: row[3]}), row[4]);
  }
  assert.ok(rows > 500, `${rows} rows`);
  assert.equal(format.promql({name: 'gpu.xid.errors', unit: '{error}', kind: 'counter', attributes: {'gpu.index': 3, 'k8s.pod.name': 'a"\\\nb'}}),
    'rate(gpu_xid_errors_total{gpu_index="3",k8s_pod_name="a\\"\\\\\\nb"}[1m])');
});

test('ticks change what they name; what is gone is unknown, and a gap in the samples', async () => {
  answers.history = () => [200, {from: 0, to: 99000, begin: 90000, series: []}];
  const [store, socket] = await live();
  assert.equal(store.state, 'live');
  assert.equal(store.value('gpu.power.draw', {'gpu.index': '0'}), 600);
  const end = store.watch(['gpu.power.draw', 'gpu.energy.consumption']);
  await settle();
  socket.send({type: 'tick', tick: 8, at: 101000, read: {nvidia: 100900}, v: [0, 610, 1, 5700]});
  const power = store.one('gpu.power.draw'), energy = store.one('gpu.energy.consumption');
  assert.equal(energy.rate, 700);
  socket.send({type: 'tick', tick: 9, at: 102000, read: {nvidia: 101900}, v: [1, 100], stale: [0, 1000]});
  assert.equal(energy.rate, null, 'a counter that began again: from what on, is not known');
  assert.equal(power.stale, 1000);
  socket.send({type: 'tick', tick: 10, at: 103000, read: {nvidia: 102900}, v: [], fresh: [0]});
  assert.equal(power.stale, null);
  assert.equal(power.value, 610, 'a value that a tick does not name is still that one');
  assert.equal(energy.rate, 0);
  socket.send({type: 'tick', tick: 11, at: 104000, read: {}, v: [], gone: [0]});
  assert.equal(power.value, null);
  assert.deepEqual(power.samples.y.slice(-2), [610, null]);
  end();
  assert.equal(power.samples, null);
});

test('samples of the history lie before those that came live; nothing since the latest reading is no gap', async () => {
  const history = {...kPower, start: 95000, avg: [1, 2, null, 4, null, null], stale: [3]};
  answers.history = () => [200, {from: 95000, to: 99500, begin: 90000, step_s: 1, series: [history]}];
  const [store, socket] = await live();
  store.watch(['gpu.power.draw']);
  await null;  // it asks, and the answer is on its way
  socket.send({type: 'tick', tick: 8, at: 101000, read: {nvidia: 100900}, v: [0, 610]});
  await settle();
  const {samples} = store.one('gpu.power.draw');
  assert.deepEqual(samples.y, [1, 2, null, 4, 610]);
  assert.deepEqual(samples.stale, [false, false, false, true, false]);
  assert.ok(samples.t.every((t, i) => !i || t > samples.t[i - 1]), String(samples.t));
});

test('an agent that was started again may use the numbers of other series', async () => {
  const [store, socket] = await live();
  const old = store.one('gpu.power.draw');
  socket.send(full({tick: 1, series: [{...kEnergy, id: 0}, {...kPower, id: 1}], v: [0, 42, 1, 300]}));
  assert.equal(store.value('gpu.power.draw'), 300);
  assert.equal(store.value('gpu.energy.consumption'), 42);
  assert.equal(old.value, null);
  // While it polls, the same layout number of another run is not taken for the old one.
  socket.send(full({tick: 50}));
  const {series, ...without} = full({tick: 2, v: [0, 1, 1, 2]});
  assert.ok(series);
  socket.send(without);
  assert.equal(store.layout, -1, 'the list of series is asked for again');
  assert.equal(store.value('gpu.power.draw'), 600);
});

test('a refusal is no permission, silence is a lost connection, and both are told from each other', async () => {
  answers.now = () => [401, {error: 'a password is needed'}];
  const denied = new Store(new URL('http://n1/api/'));
  denied.start();
  await settle();
  assert.equal(denied.state, 'denied');
  assert.equal(denied.error, 'a password is needed');
  delete answers.now;
  const lost = new Store(new URL('http://n1/api/'));
  lost.start();
  await settle();
  assert.equal(lost.state, 'lost');
  await assert.rejects(lost.get('why', {gpu: 3}), (error) => error.status === 0);
});

test('a refused password is asked for once, not with each poll', async () => {
  let asked = 0;
  answers.now = () => [401, {error: String(++asked)}];
  await during(60_000, () => new Store(new URL('http://n1/api/')).start());
  assert.equal(asked, 1);
});

test('an agent that is away for an hour is tried one attempt at a time, and found again', async () => {
  const [store, socket] = await live();
  await during(3_620_000, () => socket.close(), (one, now) => {
    if (now < 3_600_000) return one.close();
    assert.equal(store.state, 'lost');
    one.readyState = 1;
    one.send(full());
  });
  assert.equal(store.state, 'live');
  assert.ok(sockets.length > 300 && sockets.length < 600, `${sockets.length} attempts`);
});

test('a counter that was not read has no rate of zero', async () => {
  answers.history = () => [200, {from: 0, to: 99000, begin: 90000, series: []}];
  const [store, socket] = await live();
  store.watch(['gpu.energy.consumption']);
  await settle();
  socket.send({type: 'tick', tick: 8, at: 101000, read: {nvidia: 100900}, v: [1, 5700]});
  socket.send({type: 'tick', tick: 9, at: 102000, read: {nvidia: 101950}, v: [], stale: [1, 1000]});
  const energy = store.one('gpu.energy.consumption');
  assert.deepEqual([energy.rate, energy.stale], [700, 1000]);
  socket.send({type: 'tick', tick: 10, at: 103000, read: {nvidia: 102950}, v: [1, 7000], fresh: [1]});
  assert.equal(Math.round(energy.rate), Math.round(1300 / 2), 'over all the time since it was read');
  assert.deepEqual(energy.samples.y.map(Math.round), [700, 650]);
});

test('an agent that answers and reads nothing any more is no live one', async () => {
  const before = performance.now;
  let passed = 0;
  performance.now = () => before.call(performance) + passed;
  try {
    answers.now = () => [200, full()];
    let store;
    await during(10_000, () => {
      store = new Store(new URL('http://n1/api/'));
      store.start();
      globalThis.setTimeout(() => { passed = 60_000; }, 5000);
    });
    assert.equal(store.state, 'lost');
    assert.ok(store.silence_s() > 59, 'and what is shown is as old as that');
    sockets.forEach((one) => { one.readyState = 1; });
    sockets[sockets.length - 1].send(full());
    assert.equal(store.state, 'lost');
    sockets[sockets.length - 1].send({type: 'tick', tick: 8, at: 165_000, read: {nvidia: 164_900}, v: []});
    assert.equal(store.state, 'live');
  } finally {
    performance.now = before;
  }
});

test('a clock that was put back does not stop the charts', async () => {
  answers.history = () => [200, {from: 0, to: 99000, begin: 90000, series: []}];
  const [store, socket] = await live(full({at: 5_000_000, read: {nvidia: 4_999_900}}));
  store.watch(['gpu.power.draw', 'gpu.energy.consumption']);
  await settle();
  socket.send({type: 'tick', tick: 8, at: 1_001_000, read: {nvidia: 1_000_900}, v: [0, 610, 1, 5700]});
  await settle();
  assert.equal(store.one('gpu.energy.consumption').rate, null, 'over an unknown time');
  socket.send({type: 'tick', tick: 9, at: 1_002_000, read: {nvidia: 1_001_900}, v: [0, 620, 1, 6300]});
  assert.equal(store.one('gpu.energy.consumption').rate, 600);
  assert.deepEqual(store.one('gpu.power.draw').samples.t, [1_001_900]);
});

test('sums count what is known', () => {
  const sum = sumSamples([{t: [1000, 2000, 3000], y: [1, null, 3], stale: [false, false, true]}, {t: [1000, 2000, 3000], y: [10, 20, null]}, null]);
  assert.deepEqual(sum, {t: [1000, 2000, 3000], y: [11, 20, 3], stale: [false, false, true], n: [2, 1, 1]});
  assert.deepEqual(sumSamples([]), {t: [], y: [], stale: [], n: []});
});

test('a counter that grows in jumps has an even rate, whose sum is that of the jumps', () => {
  const t = [], y = [];
  for (let i = 0; i < 300; i++) {
    t.push(3000 * i);
    y.push(0);
  }
  for (let jump = 10; jump < 890; jump += 10) {  // 6,000 J each 10 s, partly in one sample and partly in the next
    y[Math.floor(jump / 3)] += 2000 * (1 - jump % 3 / 3);
    y[Math.floor(jump / 3) + 1] += 2000 * (jump % 3 / 3);
  }
  const line = spread({t, y, stale: t.map(() => false)}, 30000);
  const inside = line.y.slice(20, 280);
  assert.ok(Math.min(...inside) > 500 && Math.max(...inside) < 700, `${Math.min(...inside)} to ${Math.max(...inside)} W, of 600`);
  const mean = inside.reduce((a, b) => a + b, 0) / inside.length;
  assert.ok(Math.abs(mean - 600) < 6, `${mean} W`);
  assert.deepEqual(spread({t: [0, 1000, 2000], y: [7, null, 9], stale: []}, 1000).y.map((one) => one === null), [false, true, false]);
});

test('a lost GPU is a fault with its code; an engine without a page and an old source are warnings; a cleared code is none', async () => {
  const state = (id, index, value) => ({id, name: 'gpu.state', unit: '', kind: 'stateset', source: 'nvidia', attributes: {'gpu.index': index, 'gpu.state': value}});
  const [store] = await live(full({series: [state(0, 0, 'ok'), state(1, 0, 'lost'), state(2, 1, 'ok'), state(3, 1, 'lost'),
    {id: 4, name: 'gpulens.scrape.up', kind: 'gauge', unit: '', source: 'targets/chat', attributes: {target: 'chat'}}], v: [0, 1, 1, 0, 2, 0, 3, 1, 4, 0], stale: [0, 20000]}));
  const xid = {at: 99000, name: 'gpu.xid', severity: 'fatal', body: 'GPU 1 (GPU-1): XID 79', attributes: {'gpu.index': 1, 'gpu.xid.code': 79, 'gpu.xid.name': 'ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS'}};
  const lost = {at: 99900, name: 'gpu.lost', severity: 'fatal', body: 'GPU 1 (GPU-00-aa) no longer answers', attributes: {'gpu.index': 1}};
  store.events = [lost, xid];
  store.now = () => 100000;
  assert.equal(lastFault(store, '1'), xid);
  const found = problems(store);
  assert.deepEqual(found.map((one) => one.level), ['fault', 'warning', 'warning']);
  assert.match(found[0].what, /^GPU 1 is lost since \d\d:\d\d:\d\d$/);
  assert.equal(found[0].why, 'Xid 79: GPU has fallen off the bus');
  assert.equal(eventText(lost), 'no longer answers');
  assert.equal(gpus(store).length, 2);
  store.events = [{at: 99950, name: 'gpu.xid.clear', severity: 'info', body: '', attributes: {'gpu.index': 1}}, lost, xid];
  assert.equal(lastFault(store, '1'), null);
});

test('a job that hangs is a fault with the rank that the others wait for; one with a late rank is a warning', async () => {
  const a = {'nccl.communicator': '0xa', 'nccl.communicator.name': 'dp'};
  const one = (id, name, attributes) => ({id, name, kind: 'gauge', unit: '', source: 'nccl', attributes});
  const series = [one(0, 'nccl.communicator.hung', a), one(1, 'nccl.rank.straggler', {...a, 'nccl.rank': 6})];
  const event = (name, rank, host) => ({at: 99000, name, severity: 'error', body: '7 ranks wait for 1',
    attributes: {...a, 'nccl.rank': rank, 'nccl.host': host, 'nccl.change': 'raised'}});
  const events = [event('nccl.straggler', '6', 'n7'), event('nccl.hang', '2', 'n3')];
  const [store] = await live(full({series, v: [0, 1, 1, 0], stale: []}));
  store.events = events;
  store.now = () => 100000;
  const found = () => problems(store).map((row) => [row.level, row.what, row.why, row.view[2]]);
  assert.deepEqual(found(), [['fault', 'job dp hangs: rank 2 on n3', '7 ranks wait for 1', '0xa']]);
  store.one('nccl.communicator.hung', a).value = 0;
  assert.deepEqual(found(), []);
  store.one('nccl.rank.straggler', a).value = 1;
  assert.deepEqual(found(), [['warning', 'job dp: rank 6 is late on n7', '7 ranks wait for 1', '0xa']]);
});

test('a source that hangs is a warning, however new its values were at its last reading', async () => {
  const [store] = await live(full({at: 60000, read: {nvidia: 20000}, stale: [0, 1]}));
  store.now = () => 60000;
  assert.deepEqual(problems(store).map((one) => one.what), ['nvidia: values are 40 s old']);
  store.now = () => 22000;
  assert.deepEqual(problems(store), []);
});

test('a process leads to its pod, and that to its engine, by equal attributes', async () => {
  const pod = {'k8s.namespace.name': 'shop/é', 'k8s.pod.name': 'chat-0', 'k8s.pod.uid': 'u1'};
  const used = {id: 0, name: 'gpu.process.memory.used', unit: 'By', kind: 'updowncounter', source: 'nvidia',
                attributes: {...pod, 'gpu.index': 0, 'process.pid': 7, 'process.executable.name': '<img src=x>', 'process.owner': 'jo'}};
  const running = {id: 1, name: 'inference.requests.running', unit: '{request}', kind: 'updowncounter', source: 'targets/chat', attributes: {...pod, target: 'chat'}};
  const busy = (id, index) => ({...used, id, name: 'gpu.process.utilization', unit: '1', attributes: {...used.attributes, 'gpu.index': index, 'gpu.task.type': 'compute'}});
  const [store] = await live(full({series: [used, {...used, id: 2, attributes: {...used.attributes, 'gpu.index': 1}}, running, busy(3, 0), busy(4, 1)],
    v: [0, 100, 2, 50, 1, 3, 3, 0.9, 4, 0.7]}));
  const [process] = processes(store);
  assert.deepEqual([process.pid, process.name, process.gpus, process.memory, process.busy.toFixed(3)], ['7', '<img src=x>', ['0', '1'], 150, '0.800']);
  const owner = ownerOf(process.attributes);
  assert.deepEqual(owner.id, ['pod', 'shop/é', 'chat-0']);
  assert.ok(belongs(running.attributes, owner.id));
  assert.deepEqual(enginesOf(store, process.attributes), ['chat']);
  assert.deepEqual(enginesOf(store, {'gpu.index': 0}), []);
});

test('a communicator names its latest rank and whether it hangs; a process has the shares of its phases', () => {
  const of = (more) => ({'nccl.communicator': '0xd', 'nccl.communicator.name': 'dp', ...more}), pid = (more) => ({'process.pid': 7, 'process.executable.name': 'python3', ...more});
  const series = [
    {name: 'nccl.communicator.ranks', attributes: of(), value: 4, rate: null},
    {name: 'nccl.communicator.hung', attributes: of(), value: 0, rate: null},
    {name: 'nccl.rank.lateness', attributes: of({'nccl.rank': 0}), value: -0.002, rate: null},
    {name: 'nccl.rank.lateness', attributes: of({'nccl.rank': 3}), value: 0.02, rate: null},
    {name: 'nccl.rank.straggler', attributes: of({'nccl.rank': 3}), value: 1, rate: null},
    {name: 'nccl.collectives', attributes: of({'nccl.rank': 0, 'nccl.stage': 'done'}), value: 90, rate: 9},
    {name: 'nccl.collectives', attributes: of({'nccl.rank': 0, 'nccl.stage': 'enqueued'}), value: 91, rate: 9},
    {name: 'nccl.communicator.ranks', attributes: {'nccl.communicator': 'gone'}, value: null, rate: null},
    {name: 'process.phase', attributes: pid({'process.phase': 'data_loading'}), value: 0, rate: null},
    {name: 'process.phase', attributes: pid({'process.phase': 'gpu_compute'}), value: 1, rate: null},
    {name: 'process.phase.time', attributes: pid({'process.phase': 'gpu_compute', 'phase.source': 'mark'}), value: 60, rate: 0.7},
    {name: 'process.phase.time', attributes: pid({'process.phase': 'gpu_compute', 'phase.source': 'device'}), value: 5, rate: 0.05},
    {name: 'process.phase.time', attributes: pid({'process.phase': 'data_loading', 'phase.source': 'mark'}), value: 20, rate: 0.25},
    {name: 'cuda.launches', attributes: pid({'cuda.launch.type': 'kernel'}), value: 1e6, rate: 1000},
    {name: 'cuda.launches', attributes: pid({'cuda.launch.type': 'graph'}), value: 10, rate: 1},
    {name: 'process.recent.launch_latency', attributes: pid({'launch.quantile': 'p50'}), value: 4e-6, rate: null},
    {name: 'process.recent.launch_latency', attributes: pid({'launch.quantile': 'p99'}), value: 9e-6, rate: null},
    // 600 J every ten seconds, and no change between.
    {name: 'process.phase.energy', attributes: pid({'process.phase': 'gpu_compute'}), value: 3600, rate: 0,
     samples: {t: [...Array(61).keys()].map((i) => i * 1000), y: [...Array(61).keys()].map((i) => (i % 10 ? 0 : 600))}},
    {name: 'cuda.launches', attributes: {'process.pid': 8}, value: 5, rate: 1},
  ];
  const find = (name, attributes = {}) => series.filter((one) => one.name === name &&
    Object.entries(attributes).every(([key, value]) => String(one.attributes[key]) === String(value)));
  const store = {find, value: (name, attributes) => (find(name, attributes)[0] || {value: null}).value};
  const [one, ...others] = communicators(store);
  assert.equal(others.length, 0);
  assert.deepEqual([one.id, one.name, one.ranks, one.late.value, one.rate], ['0xd', 'dp', 4, 0.02, 9]);
  assert.deepEqual(communicatorState(one), ['▲', 'rank 3 is late', 'look']);
  assert.equal(communicatorState({...one, hung: true})[1], 'hangs');
  assert.equal(communicatorState({...one, stragglers: []})[1], 'moves');
  const [process, other] = jobProcesses(store);
  assert.deepEqual([process.pid, process.name, process.phase, process.launches, process.confidence], ['7', 'python3', 'gpu_compute', 1001, null]);
  assert.deepEqual(process.shares, [['gpu_compute', 0.75], ['data_loading', 0.25]]);
  assert.equal(process.waits, 0.25);
  assert.deepEqual([process.p50, process.p99, process.power], [4e-6, 9e-6, 60]);
  assert.deepEqual([other.p50, other.power, other.waits], [null, null, null]);
});

test('gateways have their spend, and requests by provider', () => {
  const series = [
    {name: 'inference.spend.usd', attributes: {target: 'proxy'}, value: 1.5, rate: 0.001},
    {name: 'inference.requests.finished', attributes: {target: 'proxy', provider: 'openai', profile: 'managed'}, value: 7, rate: 2},
    {name: 'inference.requests.finished', attributes: {target: 'proxy', provider: 'openai', profile: 'byok'}, value: 1, rate: null},
    {name: 'inference.requests.finished', attributes: {target: 'proxy', provider: 'lab', profile: 'byoc'}, value: 2, rate: 0},
    {name: 'inference.requests.finished', attributes: {target: 'vllm'}, value: 100, rate: 9},
    {name: 'inference.spend.usd', attributes: {target: 'litellm'}, value: null, rate: null},
  ];
  const find = (name, attributes = {}) => series.filter((one) => one.name === name &&
    Object.entries(attributes).every(([key, value]) => String(one.attributes[key]) === String(value)));
  assert.deepEqual(apiRows({find}), [
    {gateway: 'litellm', provider: null, requests: null, rate: null, charged: null, hourly: null},
    {gateway: 'proxy', provider: null, requests: 10, rate: 2, charged: 1.5, hourly: 3.6},
    {gateway: 'proxy', provider: 'lab', requests: 2, rate: 0, charged: null, hourly: null},
    {gateway: 'proxy', provider: 'openai', requests: 8, rate: 2, charged: null, hourly: null},
  ]);
});
