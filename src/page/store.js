// What the page knows: the latest value of each kept series, samples of those that charts show, and events. It is
// fed by the WebSocket /api/live; where there is none, by polling /api/now. docs/api.md has the messages.

const kPollMs = 2000;
const kSilentMs = 5000;           // without a tick for so long (and three intervals) the connection counts as lost
const kRetryMs = [500, 1000, 2000, 4000, 8000];
const kAnswerMs = 20000;          // an agent that has not answered for so long is away
const kClockMs = 30000;           // so far from what is expected, the node's clock was put to another time
const kAgainMs = 5000;            // after samples could not be had
const kEventsKept = 500;

// Errors of the agent's answers: `status` is that of HTTP, 0 without an answer.
export class ApiError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export class Store {
  // `base`: the URL of /api/, ending in a slash.
  constructor(base) {
    this.base = base;
    this.node = {};
    this.version = '';
    this.simulated = false;
    this.gateway = false;     // it has /api/fleet
    this.interval_s = 1;
    this.history = null;      // as in /api/now
    this.series = new Map();  // id -> series, see #add
    this.read = new Map();    // source -> ms, when it was read last
    this.events = [];         // newest first: {at, name, severity, body, attributes}
    this.eventsError = null;
    this.window_s = 300;
    // connecting: nothing yet; live: WebSocket; polling; lost: no data; denied: 401 or 403.
    this.state = 'connecting';
    this.error = '';          // why it is lost or denied, in the agent's or the browser's words
    this.at = 0;              // time of the latest tick, ms on the node's clock
    this.layout = -1;
    this.tick = 0;
    this.#received = 0;
  }

  #byName = new Map();
  #listeners = new Set();
  #eventListeners = new Set();
  #watched = new Map();  // name -> count of those who want its samples
  #wanted = new Set();   // names whose samples are asked for in the next request
  #loading = 0;
  #received;             // performance.now() of the latest tick
  #attempt = 0;
  #socket = null;
  #everLive = false;

  start() {
    this.#connect();
    this.#poll();
    setInterval(() => this.#watchSilence(), 1000);
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden && this.state === 'lost') this.#connect();
    });
  }

  // Calls `listener()` after each tick and each change of the state. Returns a function that ends it.
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  // Calls `listener(event)` for events that happen from now on.
  onEvent(listener) {
    this.#eventListeners.add(listener);
    return () => this.#eventListeners.delete(listener);
  }

  // The node's time now, in ms; of a lost connection too.
  now() {
    return this.at ? this.at + (performance.now() - this.#received) : Date.now();
  }

  // Seconds since the latest tick came.
  silence_s() {
    return this.#received ? (performance.now() - this.#received) / 1000 : 0;
  }

  // GET below /api/: store.get('why', {gpu: 3}). Throws ApiError.
  async get(page, parameters) {
    const url = new URL(page, this.base);
    for (const [key, value] of Object.entries(parameters || {})) {
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one !== null && one !== undefined) url.searchParams.append(key, one);
      }
    }
    let answer;
    try {
      answer = await fetch(url, {cache: 'no-store', credentials: 'same-origin', signal: AbortSignal.timeout(kAnswerMs)});
    } catch (error) {
      throw new ApiError(0, error.name === 'TimeoutError' ? 'no answer within ' + kAnswerMs / 1000 + ' s' : String(error.message || error));
    }
    let body = null;
    try {
      body = await answer.json();
    } catch {
      if (answer.ok) throw new ApiError(answer.status, 'the answer is not JSON');
    }
    if (!answer.ok) throw new ApiError(answer.status, (body && body.error) || answer.statusText || 'status ' + answer.status);
    return body;
  }

  // Series of this name, in the order of the layout; `attributes` (optional) must be equal, compared as text.
  find(name, attributes) {
    const all = this.#byName.get(name) || [];
    if (!attributes) return all;
    const wanted = Object.entries(attributes).filter(([, value]) => value !== undefined && value !== null);
    return all.filter((series) => wanted.every(([key, value]) => String(series.attributes[key]) === String(value)));
  }

  // The first of them that has a value now, else the first, else null.
  one(name, attributes) {
    const all = this.find(name, attributes);
    return all.find((series) => series.value !== null) || all[0] || null;
  }

  // The value of `one`, or null where it is not known.
  value(name, attributes) {
    const series = this.one(name, attributes);
    return series ? series.value : null;
  }

  // Sum of the values, or of the rates of counters; null where none is known.
  sum(name, attributes) {
    let total = null;
    for (const series of this.find(name, attributes)) {
      const value = series.kind === 'counter' ? series.rate : series.value;
      if (value !== null) total = (total === null ? 0 : total) + value;
    }
    return total;
  }

  // Reads `history` again, which a live connection has from its begin. Throws ApiError.
  async loadHistory() {
    const body = await this.get('now', {known: this.layout >= 0 ? this.layout : null});
    this.history = body.history || null;
  }

  // Age of a series' value in seconds: since its source read it.
  age_s(series) {
    const read = this.read.get(series.source);
    if (!read || series.value === null) return null;
    return Math.max(0, (this.now() - read + (series.stale || 0)) / 1000);
  }

  // Asks for samples of these names, of all their series, from now on. Returns a function that ends it.
  watch(names) {
    for (const name of names) {
      const count = this.#watched.get(name) || 0;
      this.#watched.set(name, count + 1);
      if (count === 0) this.#want(name);
    }
    return () => {
      for (const name of names) {
        const count = this.#watched.get(name) - 1;
        if (count > 0) {
          this.#watched.set(name, count);
          continue;
        }
        this.#watched.delete(name);
        for (const series of this.find(name)) series.samples = null;
      }
    };
  }

  // The length of what charts show.
  setWindow(seconds) {
    if (seconds === this.window_s) return;
    this.window_s = seconds;
    for (const name of this.#watched.keys()) this.#want(name);
    this.#loadEvents();
    this.#tell();
  }

  // Width of one sample of the window in ms.
  step_ms() {
    return Math.max(1000 * this.interval_s, Math.ceil(this.window_s / 300) * 1000);
  }

  // One step over a path in the agent's history is loading.
  get loading() { return this.#loading > 0; }

  // -- the connection

  #connect() {
    if (this.#socket && this.#socket.readyState <= WebSocket.OPEN) return;
    const url = new URL('live', this.base);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    let socket;
    try {
      socket = new WebSocket(url);
    } catch {
      return;
    }
    this.#socket = socket;
    let opened = false;
    socket.onmessage = (message) => {
      opened = true;
      this.#attempt = 0;
      this.#everLive = true;
      let body;
      try {
        body = JSON.parse(message.data);
      } catch {
        return;
      }
      if (this.#isOld(body)) return;
      this.#setState('live', '');
      this.#take(body);
    };
    socket.onclose = () => {
      if (this.#socket !== socket) return;
      this.#socket = null;
      if (opened) this.#poll();
      const wait = kRetryMs[Math.min(this.#attempt++, kRetryMs.length - 1)];
      this.#connectIn(this.#everLive || this.state === 'lost' ? wait : 30000);
    };
  }

  #retry = null;

  // One attempt is waited for at a time: an agent may be away for days.
  #connectIn(ms) {
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => this.#connect(), ms);
  }

  #polling = false;

  // Polls while the WebSocket is not there.
  async #poll() {
    if (this.#polling) return;
    this.#polling = true;
    try {
      while (this.state !== 'live' || !this.#socket) {
        try {
          // After a long sleep the agent may be another one, which counts its layouts anew.
          const known = this.layout >= 0 && this.silence_s() < 30;
          const body = await this.get('now', {known: known ? this.layout : null});
          if (this.#isOld(body)) {
            this.#setState('lost', 'the agent reads nothing');
          } else if (!(this.state === 'live' && this.#socket)) {
            this.#setState('polling', '');
            this.#take(body);
            if (this.#everLive) this.#connect();
          }
        } catch (error) {
          if (this.state === 'live' && this.#socket) break;
          const denied = error.status === 401 || error.status === 403;
          this.#setState(denied ? 'denied' : 'lost', error.message);
          this.layout = -1;
          // The browser asks for a password at each refusal; the WebSocket is refused, or accepted, without that.
          if (error.status === 401) break;
        }
        await new Promise((resolve) => setTimeout(resolve, kPollMs));
      }
    } finally {
      this.#polling = false;
    }
  }

  #longest() { return Math.max(kSilentMs, 3000 * this.interval_s); }

  // Whether an agent answers that has not read anything for too long.
  #isOld(body) {
    return body.type === 'full' && body.at === this.at && this.silence_s() * 1000 > this.#longest() + kPollMs;
  }

  #watchSilence() {
    const longest = this.#longest();
    if (this.state === 'live' && this.silence_s() * 1000 > longest) {
      const socket = this.#socket;
      this.#socket = null;
      if (socket) socket.close();
      this.#setState('lost', 'the agent sends nothing');
      this.#poll();
      this.#connectIn(1000);
    } else if (this.state === 'polling' && this.silence_s() * 1000 > longest + kPollMs) {
      this.#setState('lost', 'the agent does not answer');
    } else if (this.state === 'lost' || this.state === 'denied') {
      this.#tell();  // the bar counts
    }
  }

  #setState(state, error) {
    const before = this.state;
    this.error = error;
    if (state === before) return;
    this.state = state;
    const back = (state === 'live' || state === 'polling') && (before === 'lost' || before === 'denied' || before === 'connecting');
    if (back) {
      for (const name of this.#watched.keys()) this.#want(name);
      this.#loadEvents();
    }
    this.#tell();
  }

  // -- messages

  #take(body) {
    switch (body.type) {
      case 'full': this.#takeFull(body); break;
      case 'tick': this.#takeTick(body); break;
      case 'series':
        for (const one of body.add || []) this.#add(one);
        for (const id of body.remove || []) this.#remove(id);
        this.layout = body.layout;
        return;
      case 'event': this.#takeEvent(body.event); break;
      default: return;
    }
    this.#tell();
  }

  #takeFull(body) {
    if (!body.series && (body.layout !== this.layout || body.tick < this.tick)) {
      this.layout = -1;  // the agent was started again, and may use the same numbers for other series
      return;
    }
    this.tick = body.tick;
    this.node = body.node || {};
    this.version = body.version || '';
    this.simulated = Boolean(body.simulated);
    this.gateway = Boolean(body.gateway);
    this.interval_s = body.interval_s || 1;
    this.history = body.history || null;
    if (body.series) {
      const ids = new Set();
      for (const one of body.series) {
        ids.add(one.id);
        this.#add(one);
      }
      for (const id of [...this.series.keys()]) if (!ids.has(id)) this.#remove(id);
    }
    this.layout = body.layout;
    const present = new Map();
    for (let i = 0; i + 1 < (body.v || []).length; i += 2) present.set(body.v[i], body.v[i + 1]);
    const stale = new Map();
    for (let i = 0; i + 1 < (body.stale || []).length; i += 2) stale.set(body.stale[i], body.stale[i + 1]);
    const values = new Map();
    for (const id of this.series.keys()) values.set(id, present.has(id) ? present.get(id) : null);
    this.#tick(body, values, stale, true);
  }

  #takeTick(body) {
    const values = new Map();
    for (let i = 0; i + 1 < (body.v || []).length; i += 2) values.set(body.v[i], body.v[i + 1]);
    for (const id of body.gone || []) values.set(id, null);
    const stale = new Map();
    for (let i = 0; i + 1 < (body.stale || []).length; i += 2) stale.set(body.stale[i], body.stale[i + 1]);
    for (const id of body.fresh || []) stale.set(id, null);
    this.#tick(body, values, stale, false);
  }

  #tick(body, values, stale, full) {
    const same = body.at === this.at && this.#received > 0;  // polled twice
    if (this.at && !same && Math.abs(body.at - this.now()) > kClockMs) this.#otherClock();
    this.at = body.at;
    this.tick = body.tick;
    if (!same) this.#received = performance.now();
    const advanced = new Set();
    for (const [source, ms] of Object.entries(body.read || {})) {
      if (ms === null) this.read.delete(source);
      else if (this.read.get(source) !== ms) {
        this.read.set(source, ms);
        advanced.add(source);
      }
    }
    for (const series of this.series.values()) {
      if (full) series.stale = stale.get(series.id) || null;
      else if (stale.has(series.id)) series.stale = stale.get(series.id);
      const changed = values.has(series.id);
      if (!changed && !advanced.has(series.source)) continue;
      const before = series.value;
      const value = changed ? values.get(series.id) : before;
      const at = value === null ? body.at : (this.read.get(series.source) || body.at) - (series.stale || 0);
      if (value !== null && series.kind === 'counter') {
        if (before !== null && series.at > 0 && !series.stale && at > series.at) {
          // Of a counter that began again, maybe at another one's value, it is not known.
          series.rate = value >= before ? (value - before) / ((at - series.at) / 1000) : null;
        }
      } else if (value === null) {
        series.rate = null;
      }
      series.value = value;
      if (at > series.at || value === null) this.#sample(series, at);
      series.at = Math.max(series.at, at);
    }
  }

  // The node's clock was put to another time. The agent shows its history as if it had always been right.
  #otherClock() {
    for (const series of this.series.values()) {
      series.at = 0;
      series.samples = null;
    }
    for (const name of this.#watched.keys()) this.#want(name);
    this.#loadEvents();
  }

  // A series: {id, name, unit, kind, attributes, source, period_s} as the agent sends it, and
  //   value    the latest value, null where it is not known
  //   at       when that was read, ms on the node's clock
  //   stale    age in ms before the latest reading of its source, null where it is fresh
  //   rate     of counters: increase a second between the two latest readings, else null
  //   samples  null, or {t: [ms], y: [number or null], stale: [bool]}: values, of counters rates
  #add(one) {
    const old = this.series.get(one.id);
    if (old && old.name === one.name && JSON.stringify(old.attributes) === JSON.stringify(one.attributes)) return;
    if (old) this.#remove(one.id);  // of an agent that was started again
    const series = {attributes: {}, source: '', unit: '', kind: 'gauge', period_s: 0, ...one,
                    value: null, at: 0, stale: null, rate: null, samples: null};
    series.unit = series.unit || '';
    this.series.set(series.id, series);
    if (!this.#byName.has(series.name)) this.#byName.set(series.name, []);
    this.#byName.get(series.name).push(series);
    if (this.#watched.has(series.name)) this.#want(series.name);
  }

  // A series that ended is shown no more.
  #remove(id) {
    const series = this.series.get(id);
    if (!series) return;
    series.value = null;
    series.rate = null;
    this.series.delete(id);
    const all = this.#byName.get(series.name);
    all.splice(all.indexOf(series), 1);
    if (!all.length) this.#byName.delete(series.name);
  }

  // -- samples

  #sample(series, at) {
    const samples = series.samples;
    if (!samples) return;
    const y = series.value === null ? null : series.kind === 'counter' ? series.rate : series.value;
    // The first reading of a counter has no rate yet, and a stale one is no reading.
    if (series.kind === 'counter' && series.value !== null && (y === null || series.stale)) return;
    const last = samples.t.length - 1;
    if (last >= 0 && at <= samples.t[last] && y !== null) return;
    const step = this.step_ms();
    if (last >= 0 && y !== null && samples.y[last] !== null && step > 1000 &&
        Math.floor(samples.t[last] / step) === Math.floor(at / step)) {
      samples.n++;
      samples.y[last] += (y - samples.y[last]) / samples.n;
      return;
    }
    if (y === null && last >= 0 && samples.y[last] === null) return;
    samples.t.push(at);
    samples.y.push(y);
    samples.stale.push(Boolean(series.stale));
    samples.n = 1;
    const begin = at - 1000 * this.window_s - 10 * step;
    let drop = 0;
    while (drop < samples.t.length && samples.t[drop] < begin) drop++;
    if (drop > 60) for (const list of [samples.t, samples.y, samples.stale]) list.splice(0, drop);
  }

  #want(name) {
    if (!this.#wanted.size) queueMicrotask(() => this.#load());
    this.#wanted.add(name);
  }

  async #load() {
    const names = [...this.#wanted].filter((name) => this.#watched.has(name));
    this.#wanted.clear();
    if (!names.length || this.state === 'connecting' || this.state === 'lost' || this.state === 'denied') return;
    const window_s = this.window_s;
    const step_s = this.step_ms() / 1000;
    // Live samples are collected from now on, and what the answer has before them is put in front.
    for (const name of names) {
      for (const series of this.find(name)) {
        if (!series.samples) series.samples = {t: [], y: [], stale: [], n: 0};
      }
    }
    this.#loading++;
    try {
      for (let i = 0; i < names.length; i += 24) {
        const body = await this.get('history',
          {select: names.slice(i, i + 24), window: window_s + 's', step: step_s + 's', values: 'avg,rate'});
        if (window_s !== this.window_s) return;
        for (const one of body.series || []) this.#takeHistory(one, body, step_s * 1000);
        this.#tell();
      }
    } catch (error) {
      // Charts have what came live meanwhile. A question that was refused is not asked again.
      if (error.status === 0 || error.status === 429 || error.status >= 500) setTimeout(() => names.forEach((name) => this.#watched.has(name) && this.#want(name)), kAgainMs);
    } finally {
      this.#loading--;
      this.#tell();
    }
  }

  #takeHistory(one, body, step) {
    const series = this.series.get(one.id);
    if (!series) return;
    const list = one.kind === 'counter' ? one.rate || one.avg : one.avg || one.rate;
    if (!list) return;
    const stale = new Set(one.stale || []);
    const t = [], y = [], old = [];
    const from = body.begin ? Math.max(body.begin, one.start) : one.start;
    const first = Math.max(0, Math.floor((from - one.start) / step) - 1);
    for (let i = first; i < list.length; i++) {
      const value = list[i] === undefined ? null : list[i];
      if (value === null && (!y.length || y[y.length - 1] === null)) continue;
      t.push(one.start + (i + 0.5) * step);
      y.push(value);
      old.push(stale.has(i));
    }
    // Nothing since its latest reading is no gap while it still has a value.
    while (series.value !== null && y.length && y[y.length - 1] === null) {
      for (const list of [t, y, old]) list.pop();
    }
    const end = Math.max(t.length ? t[t.length - 1] : 0, body.to - 1.5 * step);
    const live = series.samples || {t: [], y: [], stale: [], n: 0};
    let keep = 0;
    while (keep < live.t.length && live.t[keep] <= end) keep++;
    series.samples = {t: t.concat(live.t.slice(keep)), y: y.concat(live.y.slice(keep)),
                      stale: old.concat(live.stale.slice(keep)), n: 1};
    const last = y.length ? y[y.length - 1] : null;
    if (one.kind === 'counter' && series.rate === null && series.value !== null && last !== null) series.rate = last;
  }

  // -- events

  #takeEvent(event) {
    if (!event || this.events.some((one) => same(one, event))) return;
    this.events.unshift(event);
    this.events.length = Math.min(this.events.length, kEventsKept);
    for (const listener of this.#eventListeners) listener(event);
  }

  async #loadEvents() {
    try {
      const body = await this.get('events', {since: Math.max(3600, this.window_s) + 's', limit: kEventsKept});
      this.events = body.events || [];
      this.eventsError = null;
    } catch (error) {
      this.eventsError = error;
    }
    this.#tell();
  }

  #told = false;

  #tell() {
    if (this.#told) return;
    this.#told = true;
    // Not requestAnimationFrame: a hidden page keeps its state, too.
    setTimeout(() => {
      this.#told = false;
      for (const listener of [...this.#listeners]) listener();
    }, 0);
  }
}

function same(a, b) {
  return a.at === b.at && a.name === b.name && a.body === b.body;
}
