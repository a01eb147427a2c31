// Overview: whether it is fine, what is not, the node in six figures, its GPUs worst first, why work is slow, and
// the newest events.

import {h, put, setText, keyed} from './dom.js';
import * as format from './format.js';
import {sumSamples, severityMark, severityRank} from './charts.js';
import {ownerText} from './owners.js';
import {problems, gpus, targets, p95, stateWords, staleAge, eventText} from './problems.js';

const kEvents = 8;

function tile(context, {label, href, spark}) {
  const figure = h('div', {class: 'figure'}, format.kUnknown);
  const under = h('div', {class: 'under'});
  const line = spark ? context.spark(spark) : null;
  const element = h(href ? 'a' : 'div', {class: 'tile', href}, h('div', {class: 'label'}, label), figure, line, under);
  return {
    element,
    set([number, unit], below) {
      setText(figure, number + (unit ? ' ' + unit : ''));
      setText(under, below || '');
    },
  };
}

export default {
  id: 'overview',
  title: 'Overview',
  render(context) {
    const {root, store} = context;
    const verdict = h('p', {class: 'verdict', role: 'status'});
    const list = h('ul', {class: 'problems'});
    const all = (name) => () => sumSamples(store.find(name).filter(isWhole).map((one) => one.samples));
    const mean = (name) => () => {
      const sum = all(name)();
      return {t: sum.t, y: sum.y.map((y, i) => y === null ? null : y / sum.n[i]), stale: sum.stale};
    };
    const limit = () => sumOf(store, 'gpu.power.limit', (one) => (one.attributes['gpu.power.limit_type'] || 'enforced') === 'enforced');
    const tiles = {
      up: tile(context, {label: 'GPUs up', href: context.href('gpus')}),
      busy: tile(context, {label: 'busy', href: context.href('gpus'),
        spark: {label: 'busy', names: ['gpu.utilization'], samples: mean('gpu.utilization'), max: 1}}),
      power: tile(context, {label: 'power', href: context.href('energy'),
        spark: {label: 'power', order: 1, names: ['gpu.power.draw'], samples: all('gpu.power.draw'), max: () => limit()}}),
      memory: tile(context, {label: 'GPU memory', href: context.href('gpus'),
        spark: {label: 'memory', order: 4, names: ['gpu.memory.used'], samples: all('gpu.memory.used'), max: () => sumOf(store, 'gpu.memory.total')}}),
      tokens: tile(context, {label: 'tokens out', href: context.href('engines'),
        spark: {label: 'tokens', order: 2, names: ['inference.tokens.generation'], samples: () => sumSamples(engineSeries(store, 'inference.tokens.generation').map((one) => one.samples)), max: null}}),
      ttft: tile(context, {label: 'TTFT p95, worst engine', href: context.href('engines')}),
    };
    const strip = h('div', {class: 'strip'});
    const none = h('p', {class: 'empty card', hidden: true});
    const why = h('div', {});
    const events = h('ul', {class: 'event-list'});
    const noEvents = h('p', {class: 'empty'});
    const gpuTitle = h('h3', {}, 'GPUs, worst first');
    const gpuCharts = [
      context.chart({title: 'Busy', select: {name: 'gpu.utilization'}, keep: isWhole, order: gpuOrder, max: 1}),
      context.chart({title: 'Power', select: {name: 'gpu.power.draw'}, keep: isWhole, order: gpuOrder}),
    ];
    const engineChart = context.chart({title: 'Tokens out', select: {name: 'inference.tokens.generation'}, keep: isEngine});
    put(root,
      h('h2', {class: 'hidden'}, 'Overview'), verdict, list,
      h('div', {class: 'tiles'}, Object.values(tiles).map((one) => one.element)),
      gpuTitle, strip, none,
      h('div', {class: 'columns'},
        why,
        h('section', {class: 'card', 'aria-label': 'newest events'}, h('h3', {}, 'Newest events'), events, noEvents,
          h('p', {}, h('a', {href: context.href('events')}, 'all events')))),
      h('h3', {}, 'The last minutes'),
      h('div', {class: 'charts'}, gpuCharts, engineChart,
        context.chart({title: 'CPU of the host', select: {name: 'system.cpu.utilization'}, max: 1,
          keep: (one) => !['idle', 'iowait', 'steal', 'nice'].includes(String(one.attributes['cpu.mode']))}),
        context.chart({title: 'Memory of the host', select: {name: 'system.memory.usage', attributes: {'system.memory.state': 'used'}, label: 'used'},
          limits: () => [{label: 'all', value: store.value('system.memory.limit')}]}),
        context.chart({title: 'Network of the host', names: ['system.network.io'], compute: () => ['receive', 'transmit'].map((way) => ({
          label: way === 'receive' ? 'received' : 'sent', unit: 'By/s', source: 'host', samples: sumSamples(store.find('system.network.io',
            {'network.io.direction': way}).filter((one) => one.attributes['network.interface.name'] !== 'lo').map((one) => one.samples))}))})));
    import('./why.js').then(({panel}) => {
      if (root.isConnected) put(why, context.part(panel(context, null)));
    }, () => why.remove());

    return () => {
      const found = problems(store);
      const cards = gpus(store);
      const up = cards.filter((one) => !one.lost);
      const faults = found.filter((one) => one.level === 'fault').length;
      const warnings = found.length - faults;
      const count = (n, word) => n + ' ' + word + (n === 1 ? '' : 's');
      const engines = targets(store).filter((one) => one.up).length;
      if (store.state === 'connecting' || !store.at) {
        put(verdict, h('span', {class: 'dim'}, 'connecting to the agent'));
      } else if (store.state === 'lost' || store.state === 'denied') {
        put(verdict, h('span', {class: 'bad'}, '– Not known'), h('span', {class: 'dim'}, 'what follows was read at ' + format.dateTime(store.at)));
      } else {
        const word = faults ? h('span', {class: 'bad'}, '✖ ' + count(faults, 'fault') + (warnings ? ', ' + count(warnings, 'warning') : ''))
          : warnings ? h('span', {class: 'look'}, '▲ ' + count(warnings, 'warning') + ', no fault')
            : cards.length ? h('span', {class: 'good'}, '● Fine') : h('span', {class: 'dim'}, '– No GPU');
        put(verdict, word, h('span', {class: 'dim'}, [
          cards.length ? (up.length === cards.length ? 'all ' + count(up.length, 'GPU') + ' answer' : up.length + ' of ' + cards.length + ' GPUs answer') : 'none was found on this machine',
          engines ? count(engines, 'engine page') + ' read' : null,
        ].filter(Boolean).join(', ')));
      }
      keyed(list, found, (one) => one.what + one.level, () => {
        const what = h('a', {class: 'what'}), whyText = h('span', {}), act = h('span', {class: 'dim'});
        const element = h('li', {}, what, ' ', whyText, ' ', act);
        return {
          element,
          update(one) {
            element.className = one.level;
            what.setAttribute('href', context.href(...one.view));
            setText(what, (one.level === 'fault' ? '✖ ' : '▲ ') + one.what);
            setText(whyText, one.why ? '· ' + one.why : '');
            setText(act, one.act ? '→ ' + one.act : '');
          },
        };
      });

      tiles.up.set([cards.length ? up.length + '/' + cards.length : '0', ''], model(cards));
      const busy = meanOf(store, 'gpu.utilization');
      tiles.busy.set(format.parts(busy, '1'), busy === null ? '' : idle(store));
      tiles.power.set(format.parts(sumOf(store, 'gpu.power.draw'), 'W'), limit() === null ? '' : 'limit ' + format.text(limit(), 'W'));
      const used = sumOf(store, 'gpu.memory.used'), total = sumOf(store, 'gpu.memory.total');
      tiles.memory.set(format.parts(used, 'By'), total === null ? '' : 'of ' + format.text(total, 'By'));
      const tokens = engineSeries(store, 'inference.tokens.generation');
      const rates = tokens.map((one) => one.rate).filter((rate) => rate !== null);
      tiles.tokens.set(rates.length ? [format.count(rates.reduce((a, b) => a + b, 0)), 'tok/s'] : [format.kUnknown, ''],
        tokens.length ? '' : 'no engine found');
      const worst = p95(store, 'ttft');
      tiles.ttft.set(worst ? format.parts(worst.value, 's') : [format.kUnknown, ''], worst ? format.clean(worst.engine, 40) : tokens.length ? 'no request in the last minutes' : '');

      // What a machine does not have takes no place.
      const bare = Boolean(store.at) && !cards.length;
      for (const one of [tiles.up, tiles.busy, tiles.power, tiles.memory]) one.element.hidden = bare;
      for (const one of gpuCharts) one.hidden = bare;
      for (const one of [tiles.tokens.element, tiles.ttft.element, engineChart]) one.hidden = Boolean(store.at) && !tokens.length;
      gpuTitle.hidden = !cards.length;
      const level = (gpu) => {
        const problem = found.find((one) => one.view[0] === 'gpus' && one.view[1] === gpu.index);
        return !problem ? 2 : problem.level === 'fault' ? 0 : 1;
      };
      keyed(strip, cards.filter((one) => context.matches(one.index, one.model, ownerText(one.attributes)))
        .sort((a, b) => level(a) - level(b) || a.index - b.index), (one) => one.index, () => gpuCard(context));
      for (const [i, row] of [...strip.keyedRows.values()].entries()) if (i >= 0) row.level(level);
      none.hidden = cards.length > 0 || !store.at;
      if (!cards.length) {
        if (!none.firstChild) put(none, 'No GPU on this machine. See what it looks like: ', h('code', {}, 'gpulens agent --demo'), '. Why none was found: ', h('code', {}, 'gpulens doctor'));
      }

      const newest = alike(store.events).slice(0, kEvents);
      keyed(events, newest, ({event}) => event.at + event.name + event.body, ({event}) => {
        const rank = severityRank(event.severity);
        const index = event.attributes && event.attributes['gpu.index'];
        const more = h('span', {class: 'dim'});
        const element = h('li', {},
          h('span', {class: rank >= 3 ? 'bad' : rank === 2 ? 'look' : 'dim', title: event.severity}, severityMark(event.severity)),
          h('span', {class: 'dim'}, format.clock(event.at)),
          h('span', {}, index === undefined ? null : [h('a', {href: context.href('gpus', index)}, 'GPU ' + format.clean(index, 8)), ' '],
            eventText(event, 200), more));
        return {element, update({others}) { setText(more, others ? ', and ' + others + ' more of the same' : ''); }};
      });
      noEvents.hidden = newest.length > 0;
      setText(noEvents, store.eventsError ? 'Events cannot be read: ' + format.clean(store.eventsError.message)
        : 'No event in the last hour.');
    };
  },
};

// Events of one name that follow one another within five seconds are one line: [{event, others}].
function alike(events) {
  const lines = [];
  for (const event of events) {
    const last = lines[lines.length - 1];
    if (last && last.event.name === event.name && last.begin - event.at < 5000) {
      last.others++;
      last.begin = event.at;
    } else {
      lines.push({event, others: 0, begin: event.at});
    }
  }
  return lines;
}

function gpuCard(context) {
  const {store} = context;
  const mark = h('span', {}), value = h('span', {}), first = h('div', {class: 'line'}), second = h('div', {class: 'line'}), third = h('div', {class: 'line'});
  let index = null;
  const line = context.spark({label: 'busy', samples: () => {
    const series = index === null ? null : store.one('gpu.utilization', {'gpu.index': index});
    return series ? series.samples : null;
  }, max: 1});
  const element = h('a', {class: 'gpu'}, h('div', {class: 'top'}, mark, value), line, first, second, third);
  let gpu = null;
  return {
    element,
    update(next) {
      gpu = next;
      index = gpu.index;
      element.setAttribute('href', context.href('gpus', index));
      const select = {'gpu.index': index};
      if (gpu.lost) {
        setText(value, stateWords(gpu.state));
        setText(first, format.kUnknown);
        setText(second, '');
      } else {
        const get = (name, more) => store.value(name, {...select, ...more});
        const age = staleAge(store, index);
        setText(value, format.text(get('gpu.utilization'), '1') + (age === null ? '' : ' ~' + format.age(age)));
        value.className = age === null ? '' : 'stale';
        setText(first, format.text(get('gpu.power.draw'), 'W') + ' · ' + format.text(get('gpu.temperature', {'gpu.temperature.sensor': 'edge'}), 'Cel'));
        setText(second, format.of(get('gpu.memory.used'), get('gpu.memory.total'), 'By'));
      }
      setText(third, ownerText(gpu.attributes) || (gpu.lost ? '' : 'no owner'));
    },
    level(of) {
      const now = gpu ? of(gpu) : 2;
      element.className = 'gpu' + (now === 0 ? ' fault' : now === 1 ? ' warning' : '');
      setText(mark, (now === 0 ? '✖' : now === 1 ? '▲' : '●') + ' GPU ' + (gpu ? gpu.index : ''));
      mark.className = now === 0 ? 'bad' : now === 1 ? 'look' : '';
    },
  };
}



export function gpuOrder(series) {
  return Number(series.attributes['gpu.index']) || 0;
}

function isWhole(series) {
  return series.attributes['gpu.mig.instance_id'] === undefined;
}

function whole(store, name) {
  return store.find(name).filter((one) => one.value !== null && isWhole(one));
}

function sumOf(store, name, keep) {
  const all = whole(store, name).filter(keep || (() => true));
  return all.length ? all.reduce((sum, one) => sum + one.value, 0) : null;
}

function meanOf(store, name) {
  const all = whole(store, name);
  return all.length ? all.reduce((sum, one) => sum + one.value, 0) / all.length : null;
}

// Series of engines alone: a gateway counts the same tokens again.
function engineSeries(store, name) {
  return store.find(name).filter(isEngine);
}

function isEngine(series) {
  return (series.attributes['inference.layer'] || 'engine') === 'engine';
}

function model(cards) {
  const names = new Set(cards.map((one) => one.model).filter(Boolean));
  return names.size === 1 ? [...names][0] : names.size ? names.size + ' models' : '';
}

function idle(store) {
  const none = whole(store, 'gpu.utilization').filter((one) => one.value < 0.005).length;
  return none ? none + ' idle' : 'none idle';
}
