// The view of events: filters, and of each event what it means, what to do, and its attributes.

import {h, put, keyed, setText} from './dom.js';
import * as format from './format.js';
import {severityMark, severityRank} from './charts.js';
import {eventText} from './problems.js';

const kSince = [['1h', '1 hour'], ['24h', '24 hours'], ['168h', '7 days']];
const kLevels = [['0', 'all'], ['2', 'warnings and worse'], ['3', 'errors and worse']];
const kMost = 1000;

// Answers of /api/explain by their address.
const explained = new Map();

function question(event) {
  const attributes = event.attributes || {};
  return {event: event.name, xid: attributes['gpu.xid.code'], sxid: attributes['nvswitch.sxid.code']};
}

function explain(store, event) {
  const asked = question(event);
  const key = JSON.stringify(asked);
  if (!explained.has(key)) {
    explained.set(key, store.get('explain', asked).catch((error) => {
      explained.delete(key);
      return {error: error.message};
    }));
  }
  return explained.get(key);
}

function tone(event) {
  const rank = severityRank(event.severity);
  return rank >= 3 ? 'bad' : rank === 2 ? 'look' : 'dim';
}

function toDo(context, event, code) {
  if (code && code.do) return code.do;
  if (severityRank(event.severity) < 2) return 'nothing';
  if (String(event.name).startsWith('nccl.')) return [h('a', {href: context.href('jobs')}, 'Jobs'), ' shows who holds the job up now; ', h('code', {}, 'gpulens why'), ' names the commands that show what each rank does'];
  return 'nothing is known for this event; gpulens doctor looks at the machine';
}

function makeRow(context, event) {
  const inside = h('div', {class: 'event-body'});
  const gpu = (event.attributes || {})['gpu.index'];
  const details = h('details', {class: 'event'},
    h('summary', {},
      h('span', {class: 'mark ' + tone(event), 'aria-hidden': 'true'}, severityMark(event.severity)),
      h('time', {datetime: new Date(event.at).toISOString()}, format.dateTime(event.at)),
      h('span', {class: tone(event)}, format.clean(event.severity, 16)),
      h('span', {}, gpu === undefined ? '' : 'GPU ' + format.clean(gpu, 8)),
      h('span', {class: 'mono'}, format.clean(event.name, 40)),
      h('span', {class: 'text'}, event.body ? format.clean(event.body, 300) : eventText(event, 300))),
    inside);
  details.addEventListener('toggle', async () => {
    if (!details.open || inside.hasChildNodes()) return;
    put(inside, h('p', {class: 'dim'}, 'asking what it means'));
    const {event: known, code, error} = await explain(context.store, event);
    const attributes = Object.entries(event.attributes || {});
    put(inside,
      h('dl', {class: 'facts'},
        known ? [h('dt', {}, 'is'), h('dd', {}, known.help)] : null,
        code ? [h('dt', {}, code.kind), h('dd', {}, [code.code, code.name].filter(Boolean).join(' '))] : null,
        code && code.meaning ? [h('dt', {}, 'means'), h('dd', {}, code.meaning)] : null,
        [h('dt', {}, 'to do'), h('dd', {}, toDo(context, event, code))],
        error ? [h('dt', {}, 'not explained'), h('dd', {}, error)] : null,
        gpu === undefined ? null : [h('dt', {}, 'GPU'), h('dd', {}, h('a', {href: context.href('gpus', gpu)}, 'GPU ' + format.clean(gpu, 8)))],
        event.body && event.body.length > 300 ? [h('dt', {}, 'text'), h('dd', {}, format.clean(event.body, 4000))] : null,
        attributes.map(([key, value]) => [h('dt', {class: 'mono'}, format.clean(key, 60)), h('dd', {class: 'mono'}, format.clean(value, 400))])));
  });
  return {element: h('li', {}, details), update() {}};
}

function choice(label, options, change) {
  const select = h('select', {'aria-label': label, on: {change: () => change(select.value)}}, options.map(([value, text]) => h('option', {value}, text)));
  return {element: h('label', {class: 'choose'}, label + ' ', select), select};
}

// Keeps the chosen value, and puts other options where they changed.
function setOptions({select}, options) {
  const key = JSON.stringify(options);
  if (select.dataset.key === key) return;
  const chosen = select.value;
  put(select, options.map(([value, text]) => h('option', {value}, text)));
  select.dataset.key = key;
  if (options.some(([value]) => value === chosen)) select.value = chosen;
}

export default {
  id: 'events',
  title: 'Events',
  render(context) {
    const {store} = context;
    const wanted = {since: kSince[1][0], level: '0', name: '', gpu: context.parameters.get('gpu') || ''};
    let events = [], error = null, loaded = false, asked = 0;
    const list = h('ol', {class: 'events'});
    const status = h('p', {class: 'dim', role: 'status'});
    const none = h('p', {class: 'empty', hidden: true});
    const show = () => {
      const shown = events.filter((event) => severityRank(event.severity) >= Number(wanted.level) &&
        (!wanted.name || event.name === wanted.name) &&
        (!wanted.gpu || String((event.attributes || {})['gpu.index']) === wanted.gpu) &&
        context.matches(event.name, event.body, event.severity, JSON.stringify(event.attributes)));
      keyed(list, shown, (event) => event.key, (event) => makeRow(context, event));
      const words = (kSince.find(([value]) => value === wanted.since) || kSince[0])[1];
      setText(status, error || !loaded ? '' : format.count(shown.length) + ' of ' + format.count(events.length) + ' events of the last ' + words +
        (events.length >= kMost ? '; older ones: gpulens events' : '') + '. Times are ' + format.offset() + '.');
      none.hidden = shown.length > 0;
      setText(none, error ? 'Events cannot be read: ' + error : !loaded ? 'asking the agent' : events.length
        ? 'No event matches the filters.' : 'No event in the last ' + words + '. Faults of GPUs, resets, throttling and lost sinks come here.');
      setOptions(name, [['', 'all'], ...[...new Set(events.map((event) => event.name))].sort().map((one) => [one, one])]);
      setOptions(gpu, [['', 'all'], ...[...new Set([...events.map((event) => (event.attributes || {})['gpu.index']),
        ...store.find('gpu.state').map((series) => series.attributes['gpu.index'])].filter((one) => one !== undefined).map(String))]
        .sort((a, b) => a - b).map((one) => [one, 'GPU ' + one])]);
    };
    // Equal events of one moment are told apart by their number.
    const take = (all) => {
      const seen = new Map();
      events = all.map((event) => {
        const base = JSON.stringify([event.at, event.name, event.body, event.attributes]);
        seen.set(base, (seen.get(base) || 0) + 1);
        return {...event, key: base + seen.get(base)};
      });
    };
    const load = async () => {
      const mine = ++asked;
      try {
        const answer = await store.get('events', {since: wanted.since, limit: kMost});
        if (mine !== asked) return;
        take(answer.events || []);
        error = null;
      } catch (problem) {
        if (mine !== asked) return;
        error = problem.message;
      }
      loaded = true;
      show();
    };
    const since = choice('of the last', kSince, (value) => { wanted.since = value; load(); });
    since.select.value = wanted.since;
    const gpu = choice('GPU', [['', 'all']], (value) => { wanted.gpu = value; show(); });
    const level = choice('level', kLevels, (value) => { wanted.level = value; show(); });
    const name = choice('name', [['', 'all']], (value) => { wanted.name = value; show(); });
    put(context.root, h('h2', {}, 'Events'), h('div', {class: 'filters'}, since.element, gpu.element, level.element, name.element), status, none, list);
    load();
    context.onEnd(store.onEvent((event) => {
      take([event, ...events].slice(0, kMost));
      if (!context.still()) show();
    }));
    let state = store.state;
    return () => {
      const back = state !== store.state && (store.state === 'live' || store.state === 'polling');
      state = store.state;
      if (back) load();
      else show();
    };
  },
};
