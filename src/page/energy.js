// The view of energy and cost: what the GPUs used, what became of it, who it belongs to, and what it costs.

import {h, put, table} from './dom.js';
import * as format from './format.js';
import {figures} from './figures.js';

const kStates = ['active', 'held', 'idle', 'unattributed', 'unobserved'];
const kMeaning = {
  active: 'by processes at work', held: 'by a GPU that someone has and does not use', idle: 'by a GPU that none has',
  unattributed: 'by a GPU at work, for which no process is known', unobserved: 'while gpulens could not read, or did not run since the ledger\'s last entry',
};
const kMinuteMs = 60000;
const kOwners = ['tenant', 'pod', 'job', 'engine', 'model'];
// Energy that was not observed is known for the whole time without the agent, not for a minute of it.
const kObserved = kStates.filter((state) => state !== 'unobserved');
const kOwnerWords = {'(none)': 'without an owner', '(other)': 'further owners'};

const sum = (series, field) => series.reduce((all, one) => (one[field] === null ? all : (all || 0) + one[field]), null);

// Of each gateway that counts its spend a row, with provider null, and a row of each of its providers.
export function apiRows(store) {
  const gateways = [...new Set(store.find('inference.spend.usd').map((one) => String(one.attributes.target)))].sort();
  const rows = [];
  for (const gateway of gateways) {
    const spend = store.find('inference.spend.usd', {target: gateway}), finished = store.find('inference.requests.finished', {target: gateway});
    const second = sum(spend, 'rate');
    rows.push({gateway, provider: null, requests: sum(finished, 'value'), rate: sum(finished, 'rate'), charged: sum(spend, 'value'),
               hourly: second === null ? null : second * 3600});
    const providers = [...new Set(finished.map((one) => one.attributes.provider).filter((one) => one !== undefined).map(String))].sort();
    for (const provider of providers) {
      const some = finished.filter((one) => String(one.attributes.provider) === provider);
      rows.push({gateway, provider, requests: sum(some, 'value'), rate: sum(some, 'rate'), charged: null, hourly: null});
    }
  }
  return rows;
}

function noPrice(what) {
  return h('div', {class: 'card'}, h('h3', {}, 'No price is set, so nothing here has a cost'), h('p', {}, what),
    h('pre', {}, 'analyzers:\n  cost:\n    price_per_gpu_hour: 2.49'));
}

export default {
  id: 'energy',
  title: 'Energy & cost',
  render(context) {
    const {store} = context;
    const tiles = figures();
    const none = h('p', {class: 'empty', hidden: true});
    const bar = h('div', {class: 'stack', role: 'img'});
    const balance = h('p', {class: 'dim'});
    const states = table([
      {id: 'state', title: 'what became of it', value: (row) => [h('span', {class: 'swatch part-' + kStates.indexOf(row.state), 'aria-hidden': 'true'}), ' ' + row.state]},
      {id: 'energy', title: 'energy', number: true, value: (row) => format.text(row.value, 'J')},
      {id: 'share', title: 'share', number: true, value: (row) => format.text(row.share, '1')},
      {id: 'power', title: 'last minute', number: true, value: (row) => format.text(row.power, 'W')},
      {id: 'means', title: 'energy used', value: (row) => kMeaning[row.state]},
    ], {caption: 'Energy by what became of it', key: (row) => row.state, empty: ''});
    let kind = kOwners[0];
    const buttons = kOwners.map((one) => h('button', {type: 'button', on: {click: () => { kind = one; show(); }}}, one));
    const owners = table([
      {id: 'owner', title: 'owner', value: (row) => format.clean(kOwnerWords[row.owner] || row.owner, 60), sort: (row) => row.owner},
      {id: 'energy', title: 'energy', number: true, value: (row) => format.text(row.energy, 'J'), sort: (row) => row.energy},
      {id: 'share', title: 'share', number: true, value: (row) => format.text(row.share, '1'), sort: (row) => row.share},
      {id: 'power', title: 'last minute', number: true, value: (row) => format.text(row.power, 'W'), sort: (row) => row.power},
      {id: 'had', title: 'cost by allocation', number: true, value: (row) => format.text(row.allocation, 'USD'), sort: (row) => row.allocation, hint: 'who had the GPU'},
      {id: 'used', title: 'cost by use', number: true, value: (row) => format.text(row.usage, 'USD'), sort: (row) => row.usage, hint: 'who used it'},
      {id: 'rate', title: 'USD/h', number: true, value: (row) => format.text(row.hourly, 'USD'), sort: (row) => row.hourly, hint: 'by allocation, now'},
    ], {caption: 'Energy and cost by owner', key: (row) => row.owner, empty: 'No owner of this kind is known on this node.'});
    const apis = table([
      {id: 'gateway', title: 'gateway', value: (row) => format.clean(row.gateway, 40), sort: (row) => row.gateway},
      {id: 'provider', title: 'provider', value: (row) => (row.provider === null ? 'all' : format.clean(row.provider, 40)), sort: (row) => row.provider || ''},
      {id: 'requests', title: 'requests', number: true, value: (row) => format.count(row.requests), sort: (row) => row.requests},
      {id: 'rate', title: 'requests/s', number: true, value: (row) => format.count(row.rate), sort: (row) => row.rate},
      {id: 'charged', title: 'charged', number: true, value: (row) => (row.provider === null ? format.text(row.charged, 'USD') : ''), sort: (row) => row.charged, hint: 'since the gateway was started'},
      {id: 'hourly', title: 'USD/h', number: true, value: (row) => (row.provider === null ? format.text(row.hourly, 'USD') : ''), sort: (row) => row.hourly, hint: 'now'},
    ], {caption: 'Requests to LLM APIs', key: (row) => row.gateway + '\n' + (row.provider || ''), empty: ''});
    const ofApis = h('div', {hidden: true}, h('h3', {}, 'Requests to LLM APIs'), apis.element,
      h('p', {class: 'dim'}, 'As gateways charge them. By tenant, key, model and budget: ', h('code', {}, 'gpulens cost report --charges'),
        '; TTFT by provider: ', h('code', {}, 'gpulens telemetry stats --by engine')));
    const price = h('div', {hidden: true}, noPrice('Energy is measured all the same. A price of an hour of a GPU in the configuration begins the account:'));
    const priced = h('p', {class: 'dim'});
    context.onEnd(store.watch(['energy.ledger', 'energy.ledger.owner', 'cost.ledger.owner.usd', 'inference.spend.usd', 'inference.requests.finished']));
    put(context.root, h('h2', {}, 'Energy & cost'), none, tiles.element,
      h('h3', {}, 'What became of the energy'), bar, states.element, balance,
      h('h3', {}, 'Whose it is'), h('div', {class: 'choice', role: 'group', 'aria-label': 'by'}, buttons), owners.element, priced, price, ofApis,
      h('div', {class: 'charts'},
        context.chart({title: 'Power by what it is used for', note: 'averages of one minute', names: ['energy.ledger'], unit: 'W',
          compute: () => {
            const all = kObserved.map((state, i) => lineOf(store.find('energy.ledger', {state}), state, i));
            const used = all.filter((one) => one.samples.y.some((y) => y > 0));
            return used.length ? used : all;
          }}),
        context.chart({title: 'Power by tenant', note: 'averages of one minute', names: ['energy.ledger.owner'], unit: 'W',
          compute: () => store.find('energy.ledger.owner', {'owner.kind': 'tenant'}).map((one, i) =>
            lineOf([one], format.clean(kOwnerWords[one.attributes.owner] || one.attributes.owner, 32), i, unobservedOf(store, one)))}),
        context.chart({title: 'Energy of a token', select: {name: 'gpu.efficiency.joules_per_token'}, label: (series) => format.clean(series.attributes.target || '', 32)})));

    function show() {
      const gateways = apiRows(store);
      ofApis.hidden = !gateways.length;
      apis.update(gateways.filter((row) => context.matches(row.gateway, row.provider)));
      const ledger = store.find('energy.ledger');
      const rows = kStates.map((state) => {
        const series = ledger.filter((one) => one.attributes.state === state);
        return {state, value: sum(series, 'value'), power: state === 'unobserved' ? null : lastOf(minuteOf(series))};
      }).filter((row) => row.value !== null);
      const total = sum(rows, 'value');
      for (const row of rows) row.share = total > 0 ? row.value / total : null;
      const power = store.find('gpu.power.draw');
      const answering = power.filter((one) => one.value !== null).length;
      const hourly = store.find('gpu.cost.rate'), idle = store.find('gpu.cost.idle_rate');
      const perHour = (series) => { const value = sum(series, 'value'); return value === null ? null : value * 3600; };
      const co2 = sum(store.find('gpu.energy.co2_rate'), 'value');
      const cost = perHour(hourly);
      none.hidden = power.length > 0 || ledger.length > 0;
      put(none, 'No GPU on this machine, so no energy of one. See what it looks like: ', h('code', {}, 'gpulens agent --demo'));
      tiles.update([
        ['power now', sum(power, 'value'), 'W', answering === power.length ? format.count(answering) + ' GPUs' : format.count(answering) + ' of ' + format.count(power.length) + ' GPUs'],
        ['energy', total, 'J', 'in closed windows'],
        ['not used', total > 0 ? ((rows.find((row) => row.state === 'idle') || {value: 0}).value + (rows.find((row) => row.state === 'held') || {value: 0}).value) / total : null, '1', 'idle and held'],
        ['cost', cost, 'USD', cost === null ? 'no price is set' : 'an hour'],
        ['cost of idle GPUs', cost === null ? null : perHour(idle), 'USD', cost === null ? '' : 'an hour'],
        ['CO2', co2 === null ? null : co2 * 3.6, 'kg/h', co2 === null ? 'set carbon_zone' : ''],
      ]);
      put(bar, rows.map((row) => h('span', {class: 'part-' + kStates.indexOf(row.state), style: {'flex-grow': String(row.share || 0)}})));
      bar.setAttribute('aria-label', rows.map((row) => row.state + ' ' + format.text(row.share, '1')).join(', ') || 'nothing yet');
      bar.hidden = !(total > 0);
      states.update(rows);
      const residual = store.value('ledger.residual');
      put(balance, total === null ? 'The first window has not closed yet.' : ['Together ' + format.text(total, 'J') + '. ',
        residual === null ? '' : Math.abs(residual) < 0.001 ? 'In the last closed windows they add up to the growth of the GPUs\' counters.'
          : 'In the last closed windows they differ from the growth of the GPUs\' counters by ' + format.text(residual, 'J') + ': report it, please.']);

      const byOwner = new Map();
      const of = (owner) => {
        if (!byOwner.has(owner)) byOwner.set(owner, {owner, energy: null, power: null, allocation: null, usage: null, hourly: null});
        return byOwner.get(owner);
      };
      for (const one of store.find('energy.ledger.owner', {'owner.kind': kind})) {
        const row = of(String(one.attributes.owner));
        row.energy = one.value;
        row.power = lastOf(minuteOf([one], unobservedOf(store, one)));
      }
      for (const one of store.find('cost.ledger.owner.usd', {'owner.kind': kind})) {
        const row = of(String(one.attributes.owner));
        const basis = String(one.attributes['cost.basis']);
        if (basis === 'allocation') {
          row.allocation = one.value;
          const rate = lastOf(minuteOf([one]));
          row.hourly = rate === null ? null : rate * 3600;
        } else {
          row.usage = one.value;
        }
      }
      const list = [...byOwner.values()].sort((a, b) => (b.energy || 0) - (a.energy || 0));
      const all = sum(list, 'energy');
      for (const row of list) row.share = all > 0 && row.energy !== null ? row.energy / all : null;
      buttons.forEach((button, i) => button.setAttribute('aria-pressed', String(kOwners[i] === kind)));
      owners.update(list.filter((row) => context.matches(row.owner, kOwnerWords[row.owner])));
      price.hidden = hourly.length > 0 || store.find('cost.ledger.owner.usd').length > 0 || !ledger.length;
      const missing = power.length - hourly.length;
      put(priced, !price.hidden || !hourly.length ? '' : missing > 0
        ? format.count(missing) + ' of ' + format.count(power.length) + ' GPUs have no price: their time is in no cost.' : '',
        ' The full account, with causes and statements: ', h('code', {}, 'gpulens cost report'));
    }
    return show;
  },
};

// What nobody is known to have used has the energy that was not observed, too.
const unobservedOf = (store, one) => (one.attributes.owner === '(none)' ? store.find('energy.ledger', {state: 'unobserved'}) : []);

// Power of the last minute at each time: the ledger closes its windows of several seconds at once, so that its
// counters stand still and jump. Of several series the sum, without that of `less`.
export function minuteOf(series, less = []) {
  const sums = new Map();
  const add = (sign) => ({samples}) => {
    if (!samples) return;
    samples.t.forEach((t, i) => {
      if (samples.y[i] !== null && (sign > 0 || sums.has(t))) sums.set(t, (sums.get(t) || 0) + sign * samples.y[i]);
    });
  };
  series.forEach(add(1));
  less.forEach(add(-1));
  const t = [...sums.keys()].sort((a, b) => a - b);
  const y = [];
  let from = 0, joules = 0;
  // A sample is the rate since the one before, so it counts for that long.
  const length = t.map((at, i) => (i ? Math.min(at - t[i - 1], kMinuteMs) : 0));
  t.forEach((at, i) => {
    joules += sums.get(at) * length[i];
    while (at - t[from] >= kMinuteMs) joules -= sums.get(t[from]) * length[from++];
    const span = at - t[from] + length[from];
    y.push(span >= kMinuteMs / 3 ? Math.max(0, joules) / span : null);
  });
  return {t, y, stale: t.map(() => false)};
}

export const lastOf = ({y}) => (y.length ? y[y.length - 1] : null);

export function lineOf(series, label, order, less) {
  return {label, order, unit: 'W', source: series.length ? series[0].source : '', samples: minuteOf(series, less)};
}
