// The frame of the page: header, navigation, keys, theme, and the view that the address names. `/` loads it.
//
// A view is a module `export default {id, title, render(context)}`; kViews lists them. `render` is called when the
// address names the view, and again when its entity changes; it fills `context.root` and returns nothing, or a
// function that is called at each new data, at most once a second, and not while the page is paused. What
// `context.chart`, `context.spark` and `context.onEnd` made ends with the view.
//
//   context.root           an empty element
//   context.store          store.js: find(name, attributes), value(), sum(), one(), events, get(page, parameters)
//   context.entity         parts of the address after the view: ['3'] of #/gpus/3
//   context.parameters     URLSearchParams of the address
//   context.href(view, ...entity)     an address, with the window of now; parts may be any text
//   context.go(view, ...entity)       goes there
//   context.chart(options)            makes a chart (charts.js: Charts.make), returns its element
//   context.spark(options)            makes a small line without axes, returns its element
//   context.part(part)                adds {element, update(), destroy()}, returns its element: why.js has such a panel
//   context.onEnd(function)           called when the view ends
//   context.matches(...texts)         whether one of the texts has what was typed into the filter
//   context.filter()       what was typed, for views whose rows the agent filters
//   context.announce(text)            says something to screen readers
//   context.still()        whether what is shown stands still: paused, or the page is not seen. For views that ask by themselves
//   context.window_s                  the window of charts in seconds
//
// A view below another has its way up as `nav.crumbs`, whose last link Esc follows.
//
// An address is #/VIEW/ENTITY…?window=15m, so that it can be sent. The theme stays in the browser (localStorage).

import {h, put, setText} from './dom.js';
import * as format from './format.js';
import {Store} from './store.js';
import {Charts} from './charts.js';
import {problems} from './problems.js';

const kViews = [
  {id: 'overview', title: 'Overview', load: () => import('./overview.js')},
  {id: 'gpus', title: 'GPUs', load: () => import('./gpus.js')},
  {id: 'engines', title: 'Engines', load: () => import('./engines.js')},
  {id: 'events', title: 'Events', load: () => import('./events.js')},
  {id: 'energy', title: 'Energy & cost', load: () => import('./energy.js')},
  {id: 'jobs', title: 'Jobs', load: () => import('./jobs.js')},
  {id: 'experiments', title: 'Experiments', load: () => import('./experiments.js')},
  {id: 'gpulens', title: 'gpulens', load: () => import('./gpulens.js')},
  {id: 'fleet', title: 'Fleet', load: () => import('./fleet.js'), hidden: true},
];
const kWindows = [['5m', 300, '5 m'], ['15m', 900, '15 m'], ['1h', 3600, '1 h']];
const kThemes = ['auto', 'dark', 'light'];
const kKeys = [
  ['1 – 8', 'the views, in their order; 9: the fleet'],
  ['/', 'filter tables and lists; Esc empties it'],
  ['p', 'pause, and go on'],
  ['t', 'window: 5 m, 15 m, 1 h'],
  ['d', 'dark or light'],
  ['Tab, Enter', 'to what can be opened, and open it'],
  ['← →', 'in a chart: the time under the pointer; with Shift further; Home, End; Esc'],
  ['Esc', 'close, or one level up'],
  ['?', 'this list'],
];

const store = new Store(new URL('../api/', import.meta.url));
let pausedAt = null;
const charts = new Charts(store, () => pausedAt !== null);

// -- the address

function parseAddress() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').filter(Boolean).map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  const parameters = new URLSearchParams(query || '');
  const view = kViews.find(({id}) => id === parts[0]) || kViews[0];
  return {view, entity: view.id === parts[0] ? parts.slice(1) : [], parameters};
}

function currentWindow() {
  return kWindows.find(([, seconds]) => seconds === store.window_s) || kWindows[0];
}

function href(view, ...entity) {
  const [name] = currentWindow();
  return '#/' + [view, ...entity].map((part) => encodeURIComponent(part)).join('/') + (name === '5m' ? '' : '?window=' + name);
}

function go(view, ...entity) {
  location.hash = href(view, ...entity);
}

// -- the view

let shown = null;  // {view, key, update, ends, parts}

function end() {
  if (!shown) return;
  for (const part of shown.parts) if (part.destroy) part.destroy();
  for (const last of shown.ends) last();
  shown = null;
  charts.point(null);
}

async function show() {
  const {view, entity, parameters} = parseAddress();
  const window_ = kWindows.find(([name]) => name === (parameters.get('window') || '5m'));
  if (window_) store.setWindow(window_[1]);
  frame.showWindow();
  const key = JSON.stringify([view.id, entity]);
  if (shown && shown.key === key) {
    refresh(true);
    return;
  }
  end();
  const root = h('div', {class: 'view view-' + view.id});
  const me = {view, key, update: null, ends: [], parts: []};
  shown = me;
  const inside = frame.main.contains(document.activeElement);
  frame.showView(view, entity);
  frame.main.replaceChildren(root);
  // Who followed a link within the view goes on at its begin, with the keyboard too.
  if (inside) frame.main.focus({preventScroll: true});
  window.scrollTo(0, 0);
  let module = null;
  try {
    module = (await view.load()).default;
  } catch (error) {
    if (shown === me) put(root, h('h2', {}, view.title), h('p', {class: 'empty'}, 'This view cannot be loaded: ' + error.message + '. Reload the page.'));
    return;
  }
  if (shown !== me) return;
  const part = (one) => {
    me.parts.push(one);
    return one.element;
  };
  const context = {
    root, store, entity, parameters, href, go, charts, part,
    chart: (options) => part(charts.make(options)),
    spark: (options) => part(charts.spark(options)),
    onEnd: (last) => me.ends.push(last),
    matches: (...texts) => {
      const wanted = frame.filter.value.trim().toLowerCase();
      return !wanted || texts.some((text) => text !== null && text !== undefined && String(text).toLowerCase().includes(wanted));
    },
    filter: () => frame.filter.value.trim(),
    announce: (text) => setText(frame.said, text),
    still: () => pausedAt !== null || document.hidden,
    get window_s() { return store.window_s; },
  };
  try {
    me.update = module.render(context) || null;
  } catch (error) {
    put(root, h('h2', {}, view.title), h('p', {class: 'empty'}, 'This view has a fault: ' + error.message));
    console.error(error);
  }
  refresh(true);
}

let refreshed = 0, waiting = null;

// Shows what is new: at most once a second, and not while paused.
function refresh(force) {
  frame.showState();
  if ((pausedAt !== null || document.hidden) && !force) return;
  const wait = refreshed + 900 - performance.now();
  if (!force && wait > 0) {
    if (!waiting) waiting = setTimeout(() => { waiting = null; refresh(); }, wait);
    return;
  }
  refreshed = performance.now();
  if (!shown) return;
  frame.showProblems();
  try {
    if (shown.update) shown.update();
    for (const part of shown.parts) if (part.update) part.update(force);
  } catch (error) {
    console.error(error);
  }
}

// -- the frame

const frame = (() => {
  const node = h('span', {class: 'node'});
  const simulated = h('span', {class: 'simulated', hidden: true}, 'SIMULATED');
  const faults = h('a', {class: 'faults', href: '#/overview'});
  const live = h('span', {class: 'live'});
  const said = h('div', {class: 'hidden', 'aria-live': 'polite'});
  const windows = h('div', {class: 'choice', role: 'group', 'aria-label': 'window of the charts'},
    kWindows.map(([name, , text]) => h('button', {type: 'button', 'data-window': name, on: {click: () => setWindow(name)}}, text)));
  const pause = h('button', {type: 'button', class: 'pause', on: {click: () => togglePause()}, title: 'p'}, 'pause');
  const theme = h('button', {type: 'button', on: {click: () => nextTheme()}, title: 'd'}, 'theme');
  const help = h('button', {type: 'button', on: {click: () => showHelp()}, title: '?'}, 'keys');
  const filter = h('input', {type: 'search', placeholder: 'filter  /', 'aria-label': 'filter tables and lists', autocomplete: 'off', spellcheck: 'false'});
  const links = new Map(kViews.map((view, i) =>
    [view.id, h('a', {href: href(view.id), title: String(i + 1), hidden: Boolean(view.hidden)}, view.title)]));
  const bar = h('div', {class: 'bar', role: 'region', 'aria-label': 'connection', hidden: true});
  const main = h('main', {id: 'main', tabindex: '-1'});
  const keys = h('dialog', {'aria-labelledby': 'keys-title'},
    h('h2', {id: 'keys-title'}, 'Keys'),
    h('dl', {class: 'keys'}, kKeys.map(([key, text]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, text)])),
    h('p', {class: 'dim'}, '● ok   ▲ look   ✖ act   ~ stale, with its age   – not known'),
    h('form', {method: 'dialog'}, h('button', {}, 'Close')));
  const skip = h('a', {class: 'skip', href: '#main', on: {click: (event) => { event.preventDefault(); main.focus(); }}}, 'Skip to the content');
  const header = h('header', {},
    h('div', {class: 'head'},
      h('h1', {}, h('a', {class: 'brand', href: '#/overview'}, 'gpulens'), node), simulated, faults,
      h('div', {class: 'tools'}, windows, live, pause, theme, help)),
    h('nav', {'aria-label': 'views'}, [...links.values()], filter));
  const parts = [skip, header, bar, main, said, keys];

  filter.addEventListener('input', () => refresh(true));
  filter.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape') return;
    event.stopPropagation();
    filter.value = '';
    refresh(true);
    main.focus();
  });

  return {
    parts, main, said, filter, keys, links, node,
    showView(view, entity) {
      for (const [id, link] of links) {
        if (id === view.id) link.setAttribute('aria-current', 'page');
        else link.removeAttribute('aria-current');
      }
      const current = links.get(view.id);
      if (current.offsetParent) current.scrollIntoView({block: 'nearest', inline: 'nearest'});
      this.place = [view.title, ...entity.map((part) => format.clean(part, 40))].join(' ');
      this.showTitle();
    },
    showTitle() {
      const name = store.node['host.name'];
      document.title = [pausedAt ? 'PAUSED' : null, this.place, name ? format.clean(name, 40) : null, 'gpulens'].filter(Boolean).join(' · ');
    },
    showWindow() {
      const [name] = currentWindow();
      for (const button of windows.children) button.setAttribute('aria-pressed', String(button.dataset.window === name));
      for (const [id, link] of links) link.setAttribute('href', href(id));
    },
    showState() {
      setText(node, store.node['host.name'] ? format.clean(store.node['host.name'], 60) : '');
      simulated.hidden = !store.simulated;
      const lost = store.state === 'lost' || store.state === 'denied';
      // Said once, at a change; what is seen counts each second.
      if (lost !== this.wasLost) {
        if (this.wasLost !== undefined) setText(said, lost ? store.state === 'denied' ? 'No permission' : 'No data arrives' : 'Data arrives again');
        if (lost || store.at) this.wasLost = lost;
      }
      const words = {connecting: 'connecting', live: 'live ●', polling: 'every 2 s ●', lost: 'lost ✖', denied: 'no permission ✖'};
      setText(live, pausedAt !== null ? 'PAUSED ' + format.duration((performance.now() - pausedAt) / 1000) : words[store.state]);
      live.className = 'live ' + (pausedAt !== null ? 'paused' : store.state);
      document.documentElement.classList.toggle('lost', lost);
      bar.hidden = !lost;
      if (store.state === 'denied') {
        setText(bar, '✖ No permission: the agent wants a password or a certificate (http.web_config), and refused this one. '
          + 'Reload the page to enter it again.');
      } else if (store.state === 'lost') {
        const silence = store.silence_s();
        setText(bar, silence ? '✖ no data for ' + format.duration(silence) + ', trying again. What is shown is as old as that.'
          : '✖ the agent does not answer, trying again' + (store.error ? ': ' + format.clean(store.error) : ''));
      }
      this.showTitle();
    },
    showProblems() {
      const all = problems(store);
      const count = (level, word) => {
        const number = all.filter((one) => one.level === level).length;
        return number ? (level === 'fault' ? '✖ ' : '▲ ') + number + ' ' + word + (number > 1 ? 's' : '') : '';
      };
      const text = [count('fault', 'fault'), count('warning', 'warning')].filter(Boolean).join('  ');
      setText(faults, text);
      faults.className = 'faults ' + (all.some((one) => one.level === 'fault') ? 'bad' : 'look');
      faults.hidden = !text;
    },
    showPause() {
      setText(pause, pausedAt !== null ? 'go on' : 'pause');
      pause.setAttribute('aria-pressed', String(pausedAt !== null));
    },
    showTheme(name) {
      setText(theme, '◐ ' + name);
      theme.setAttribute('aria-label', '◐ ' + name + ': theme ' + (name === 'auto' ? 'as the system' : name));
    },
  };
})();

function setWindow(name) {
  const [path] = location.hash.split('?');
  location.hash = (path || '#/overview') + (name === '5m' ? '' : '?window=' + name);
}

function togglePause() {
  pausedAt = pausedAt === null ? performance.now() : null;
  frame.showPause();
  refresh(true);
}

function showHelp() {
  if (frame.keys.open) frame.keys.close();
  else frame.keys.showModal();
}

// -- the theme

function readTheme() {
  try {
    const name = localStorage.getItem('gpulens.theme');
    return kThemes.includes(name) ? name : 'auto';
  } catch {
    return 'auto';
  }
}

function setTheme(name) {
  if (name === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem('gpulens.theme', name);
  } catch { /* a browser that keeps nothing */ }
  frame.showTheme(name);
  charts.recolour();
}

function nextTheme() {
  setTheme(kThemes[(kThemes.indexOf(readTheme()) + 1) % kThemes.length]);
}

// -- keys

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || frame.keys.open) return;
  const typing = event.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (typing) return;
  if (event.key >= '1' && event.key <= '9') {
    const view = kViews[event.key - 1];
    if (!frame.links.get(view.id).hidden) go(view.id);
  } else if (event.key === '/') {
    frame.filter.focus();
    frame.filter.select();
  } else if (event.key === 'p') {
    togglePause();
  } else if (event.key === 't') {
    const at = kWindows.indexOf(currentWindow());
    setWindow(kWindows[(at + 1) % kWindows.length][0]);
  } else if (event.key === 'd') {
    nextTheme();
  } else if (event.key === '?') {
    showHelp();
  } else if (event.key === 'Escape') {
    if (frame.filter.value) {
      frame.filter.value = '';
      refresh(true);
      return;
    }
    const up = [...frame.main.querySelectorAll('.crumbs a')].pop();
    const {view, entity} = parseAddress();
    if (up) location.hash = up.getAttribute('href');
    else if (entity.length) go(view.id);
    else return;
  } else {
    return;
  }
  event.preventDefault();
});

// -- the beginning

document.documentElement.dataset.app = 'loaded';
document.body.className = 'app';
put(document.body, frame.parts);
setTheme(readTheme());
frame.showPause();
window.addEventListener('hashchange', show);
document.addEventListener('visibilitychange', () => refresh());
store.subscribe(() => refresh());
store.onEvent((event) => {
  if (pausedAt === null) setText(frame.said, format.clean(event.body || event.name));
});
setInterval(() => frame.showState(), 1000);
show();
store.start();
// A gateway without GPUs of its own opens with its fleet.
const ofGateway = store.subscribe(() => {
  if (!store.at) return;
  ofGateway();
  if (!store.gateway) return;
  frame.links.get('fleet').hidden = false;
  if (location.hash || store.find('gpu.state').length) return;
  store.get('fleet', {limit: 1}).then((body) => {
    if (!location.hash && body && Array.isArray(body.nodes) && body.nodes.length) go('fleet');
  }, () => { /* the view itself says why */ });
});
