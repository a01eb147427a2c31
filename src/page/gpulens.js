// The view of gpulens itself: what it costs, what it reads and refuses, where it sends, what it keeps.

import {h, put, table} from './dom.js';
import * as format from './format.js';
import {figures} from './figures.js';

const kHistoryMs = 10000;

const sum = (series, field = 'value') => series.reduce((all, one) => (one[field] === null ? all : (all || 0) + one[field]), null);

function mark(up) {
  if (up === null) return [h('span', {class: 'dim'}, '– not known')];
  return up ? h('span', {class: 'good'}, h('span', {'aria-hidden': 'true'}, '● '), 'ok') : h('span', {class: 'dim'}, h('span', {'aria-hidden': 'true'}, '– '), 'absent');
}

export default {
  id: 'gpulens',
  title: 'gpulens',
  render(context) {
    const {store} = context;
    const tiles = figures();
    const history = h('p', {});
    const collectors = table([
      {id: 'name', title: 'collector', value: (row) => format.clean(row.name, 40), sort: (row) => row.name},
      {id: 'state', title: 'state', value: (row) => mark(row.up), sort: (row) => String(row.up)},
      {id: 'series', title: 'series', number: true, value: (row) => format.count(row.series), sort: (row) => row.series},
      {id: 'age', title: 'read', number: true, value: (row) => (row.age === null ? format.kUnknown : format.age(row.age) + ' ago'), sort: (row) => row.age},
      {id: 'took', title: 'took', number: true, value: (row) => format.text(row.took, 's'), sort: (row) => row.took},
      {id: 'errors', title: 'errors', number: true, value: (row) => format.count(row.errors), sort: (row) => row.errors},
      {id: 'rejected', title: 'rejected', number: true, value: (row) => format.count(row.rejected), sort: (row) => row.rejected, hint: 'readings that a rule did not let through'},
    ], {caption: 'Collectors', key: (row) => row.name, rowClass: (row) => (row.up ? '' : 'dim'), empty: 'No collector matches.'});
    const sinks = table([
      {id: 'name', title: 'sink', value: (row) => format.clean(row.name, 40), sort: (row) => row.name},
      {id: 'state', title: 'state', value: (row) => (row.up === false ? h('span', {class: 'bad'}, '✖ does not deliver') : mark(row.up))},
      {id: 'queue', title: 'in memory', number: true, value: (row) => format.count(row.queue)},
      {id: 'disk', title: 'on disk', number: true, value: (row) => format.text(row.disk, 'By')},
      {id: 'sent', title: 'delivered', number: true, value: (row) => format.count(row.delivered), hint: 'points'},
      {id: 'dropped', title: 'dropped', number: true, value: (row) => format.count(row.dropped)},
    ], {caption: 'Sinks', key: (row) => row.name, empty: 'No sink is configured.'});
    const pages = table([
      {id: 'name', title: 'page', value: (row) => format.clean(row.name, 60), sort: (row) => row.name},
      {id: 'state', title: 'state', value: (row) => (row.up === false ? h('span', {class: 'bad'}, '✖ no answer') : mark(row.up))},
      {id: 'series', title: 'series', number: true, value: (row) => format.count(row.series), sort: (row) => row.series},
      {id: 'took', title: 'took', number: true, value: (row) => format.text(row.took, 's'), sort: (row) => row.took},
    ], {caption: 'Pages of other programs', key: (row) => row.name, empty: 'No page of another program is read.'});
    const reader = h('p', {});
    put(context.root, h('h2', {}, 'gpulens itself'), tiles.element, history, reader,
      h('h3', {}, 'Collectors'), collectors.element,
      h('div', {class: 'columns'}, h('section', {}, h('h3', {}, 'Sinks'), sinks.element), h('section', {}, h('h3', {}, 'Pages of other programs'), pages.element)),
      h('div', {class: 'charts'},
        context.chart({title: 'CPU, of one core', select: {name: 'gpulens.overhead.cpu'}, label: () => 'all processes'}),
        context.chart({title: 'Memory', select: {name: 'gpulens.process.memory'}, keep: (one) => one.attributes['gpulens.memory.type'] === memoryKind(store),
          label: (one) => format.clean(one.attributes.process, 24)}),
        context.chart({title: 'Length of a tick', select: {name: 'gpulens.tick.duration'}, label: () => 'tick'})),
      h('p', {class: 'dim'}, 'What is not found and what to do: ', h('code', {}, 'gpulens doctor'), '. Everything as text: ', h('a', {href: new URL('../metrics', import.meta.url).href}, '/metrics')));

    const load = () => store.loadHistory().catch(() => { /* the bar says that the agent is away */ });
    const timer = setInterval(() => { if (!context.still() && store.state === 'live') load(); }, kHistoryMs);
    context.onEnd(() => clearInterval(timer));
    if (store.state === 'live') load();
    return () => {
      const series = store.find('gpulens.series');
      const rejected = store.find('gpulens.samples').filter((one) => one.attributes.result === 'rejected');
      const memory = store.find('gpulens.process.memory').filter((one) => one.attributes['gpulens.memory.type'] === memoryKind(store));
      const limit = store.value('gpulens.memory.limit');
      const most = store.value('gpulens.series.limit', {limit: 'total'});
      tiles.update([
        ['memory', sum(memory), 'By', limit ? 'limit ' + format.text(limit, 'By') : memoryKind(store)],
        ['CPU', store.value('gpulens.overhead.cpu'), '1', 'of one core'],
        ['series', sum(series), '', most ? 'of ' + format.count(most) : ''],
        ['rejected', sum(rejected), '', 'readings'],
        ['refused', sum(store.find('gpulens.series.refused')), '', 'series'],
        ['events', sum(store.find('gpulens.events')), '', format.count(sum(store.find('gpulens.events.dropped'))) + ' dropped'],
        ['connections', sum(store.find('gpulens.http.connections')), '', 'of HTTP'],
        ['late ticks', store.value('gpulens.tick.late'), '', 'since the start'],
      ]);
      const kept = store.history;
      put(history, kept ? ['History: ' + format.count(kept.series) + ' series, ' + format.count(kept.samples) + ' samples in ' + format.text(kept.bytes, 'By') +
        (kept.samples ? ' (' + (kept.bytes / kept.samples).toFixed(2) + ' bytes each)' : '') + ', kept in memory for ' + format.duration(kept.window_s) + '; ',
        kept.begin ? 'it begins ' + format.duration((store.now() - kept.begin) / 1000) + ' ago.' : 'it has not begun.',
        kept.refused ? ' ' + format.count(kept.refused) + ' series are not kept: there is no more room.' : ''] : '');
      const readers = store.find('gpulens.reader.up');
      put(reader, readers.map((one) => [h('span', {class: one.value === 1 ? 'good' : 'bad'}, one.value === 1 ? '● ' : '✖ '),
        'reader process ' + format.clean(one.attributes.reader, 24) + (one.value === 1 ? ' answers' : ' does not answer'), ' ']),
      (sum(store.find('gpulens.reader.calls.hung')) || 0) > 0 ? h('span', {class: 'bad'}, format.count(sum(store.find('gpulens.reader.calls.hung'))) + ' calls of a driver hang') : '');
      const of = (name, key, value, keep) => store.find(name, {[key]: value}).filter((one) => !keep || keep(one));
      const ages = new Map();
      for (const [source, at] of store.read) ages.set(source, Math.max(0, (store.now() - at) / 1000));
      const inside = store.find('gpulens.collector.up').map((one) => {
        const name = String(one.attributes.collector);
        return {
          name, up: one.value === null ? null : one.value === 1,
          series: sum(of('gpulens.series', 'collector', name)), age: one.value === 1 && ages.has(name) ? ages.get(name) : null,
          took: sum(of('gpulens.collector.duration', 'collector', name)), errors: sum(of('gpulens.collector.errors', 'collector', name)),
          rejected: sum(of('gpulens.samples', 'collector', name, (s) => s.attributes.result === 'rejected')),
        };
      });
      collectors.update(inside.filter((row) => context.matches(row.name)).sort((a, b) => Number(b.up) - Number(a.up) || (a.name < b.name ? -1 : 1)));
      sinks.update(store.find('gpulens.sink.up').map((one) => {
        const name = String(one.attributes.sink);
        return {
          name, up: one.value === null ? null : one.value === 1, queue: sum(of('gpulens.sink.queue.length', 'sink', name)),
          disk: sum(of('gpulens.sink.disk_queue.size', 'sink', name)), delivered: sum(of('gpulens.sink.delivered', 'sink', name)),
          dropped: sum(of('gpulens.sink.dropped', 'sink', name)),
        };
      }).filter((row) => context.matches(row.name)));
      pages.update(store.find('gpulens.scrape.up').map((one) => {
        const name = String(one.attributes.target);
        return {name, up: one.value === null ? null : one.value === 1, series: sum(of('gpulens.series', 'collector', 'targets/' + name)),
                took: sum(of('gpulens.scrape.duration', 'target', name))};
      }).filter((row) => context.matches(row.name)));
    };
  },
};

// Proportional memory where it is read: it counts shared pages once.
function memoryKind(store) {
  return store.find('gpulens.process.memory', {'gpulens.memory.type': 'pss'}).some((one) => one.value !== null) ? 'pss' : 'rss';
}
