// Charts over time. One Charts object per page: its charts share the time under the pointer, the window and the
// events. Drawn by dygraphs on a canvas; axes by its plugins, everything with text from outside by us.

import {h, put, setText, copy, save} from './dom.js';
import * as format from './format.js';

const kColours = 8;
// Dotted means stale, so that none of these is dotted.
const kDashes = [null, [9, 3], [9, 3, 3, 3]];
const kHeight = 170;
const kTableRows = 24;
const kEventReach = 9;  // pixels around an event's mark

let library = null;

// Loads dygraphs once. Its legend and labels write HTML with styles, which our policy refuses: only the axes and
// the grid are used.
function load() {
  if (!library) {
    library = import('./dygraph.js').then(() => {
      const Dygraph = window.Dygraph;
      Dygraph.PLUGINS = [Dygraph.Plugins.Axes, Dygraph.Plugins.Grid];
      return Dygraph;
    });
    // The agent is away, or refuses: the next chart tries again.
    library.catch(() => { library = null; });
  }
  return library;
}

export function severityRank(severity) {
  return {fatal: 4, critical: 4, error: 3, err: 3, warning: 2, warn: 2, info: 1}[String(severity).toLowerCase()] || 0;
}

export function severityMark(severity) {
  const rank = severityRank(severity);
  return rank >= 3 ? '✖' : rank === 2 ? '▲' : '●';
}

export class Charts {
  // `store` is a Store. `paused()`: whether charts stand still.
  constructor(store, paused) {
    this.store = store;
    this.paused = paused;
    this.all = new Set();
    this.time = null;  // under the pointer, in ms
    this.palette = null;
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', () => this.recolour());
    document.addEventListener('pointerdown', (event) => {
      for (const {menu} of this.all) if (menu.open && !menu.contains(event.target)) menu.open = false;
    });
  }

  // Makes a chart. Options:
  //   title    what it shows
  //   select   {name, attributes} or a list of them: series of the store
  //   label    (series) -> its text in the legend. Default: what tells them apart
  //   order    (series) -> number that chooses colour and place. Default: the position in the list
  //   keep     (series) -> whether it is shown. Default: all
  //   compute  () -> [{label, samples: {t, y, stale}, unit, source}] instead of select, of series that `names` lists
  //   names    names of series whose samples `compute` needs
  //   unit     of the axis. Default: that of the first series, of counters per second
  //   limits   () -> [{label, value}]: lines; null values are left out
  //   max      the axis reaches at least so far: 1 for shares
  //   spread_s of counters that grow in jumps: over how many seconds a jump may be spread
  //   floats   the axis does not begin at zero
  //   events   (event) -> whether it is marked. Default: warnings and worse
  //   note     a line below the title
  //   height   in pixels
  // Returns {element, update(), destroy()}.
  make(options) {
    const chart = new Chart(this, options);
    this.all.add(chart);
    return chart;
  }

  // A small line without axes: `samples` () -> {t, y}, from 0 to `max` (a number or a function; null: the largest).
  spark(options) {
    return new Spark(this, options);
  }

  // Puts the pointer of all charts to a time; null: none.
  point(time) {
    if (time === this.time) return;
    this.time = time;
    for (const chart of this.all) chart.showTime();
  }

  recolour() {
    this.palette = null;
    for (const chart of this.all) chart.update(true);
  }

  colours() {
    if (!this.palette) {
      const style = getComputedStyle(document.documentElement);
      const read = (name) => style.getPropertyValue(name).trim();
      this.palette = {series: [], ink: read('--ink'), dim: read('--dim'), line: read('--line'), bad: read('--bad'),
                      look: read('--look'), cyan: read('--link'), limit: read('--limit')};
      for (let i = 0; i < kColours; i++) this.palette.series.push(read('--series-' + i));
    }
    return this.palette;
  }

  range() {
    // Without data nothing moves.
    const to = ['lost', 'denied'].includes(this.store.state) && this.store.at ? this.store.at : this.store.now();
    return [to - 1000 * this.store.window_s, to];
  }
}

// What one chart shows of one series.
function fromSeries(series, label, order) {
  return {label, order, samples: series.samples, series, source: series.source, period_s: series.period_s,
          unit: series.kind === 'counter' ? format.rateUnit(series.unit) : series.unit};
}

class Chart {
  constructor(charts, options) {
    this.charts = charts;
    this.options = options;
    this.hidden = new Set();
    this.floats = Boolean(options.floats);
    this.graph = null;
    this.items = [];
    this.visible = false;
    this.selects = options.select ? (Array.isArray(options.select) ? options.select : [options.select]) : [];
    const names = new Set([...this.selects.map((one) => one.name), ...(options.names || [])]);
    this.unwatch = charts.store.watch([...names]);
    this.#build();
    this.observer = new IntersectionObserver((entries) => {
      this.visible = entries.some((entry) => entry.isIntersecting);
      if (this.visible) this.update(true);
    }, {rootMargin: '200px'});
    this.observer.observe(this.element);
    this.sizes = new ResizeObserver(() => {
      if (this.graph && this.plot.offsetWidth) this.graph.resize();
    });
    this.sizes.observe(this.plot);
  }

  #build() {
    const {title, note, height} = this.options;
    this.when = h('span', {class: 'when'});
    this.plot = h('div', {class: 'plot', tabindex: '0', role: 'img', 'aria-label': title,
                          style: {height: (height || kHeight) + 'px'}});
    this.cursor = h('div', {class: 'cursor', hidden: true});
    this.empty = h('p', {class: 'nodata', hidden: true});
    this.legend = h('ul', {class: 'legend'});
    this.details = h('div', {class: 'chart-table', hidden: true});
    this.said = h('span', {class: 'hidden', 'aria-live': 'polite'});
    const item = (text, action) => h('button', {type: 'button', on: {click: (event) => action(event.currentTarget)}}, text);
    const zero = item(this.floats ? 'Begin at zero' : 'Fit the axis to the values', (button) => {
      this.floats = !this.floats;
      setText(button, this.floats ? 'Begin at zero' : 'Fit the axis to the values');
      this.update(true);
    });
    const tell = (button, done, text) => {
      const before = button.textContent;
      setText(button, done ? text : 'the browser refuses to copy');
      setTimeout(() => setText(button, before), 1500);
    };
    this.menu = h('details', {class: 'menu'},
      h('summary', {'aria-label': 'More of ' + title, title: 'copy, save, table'}, '⋯'),
      h('div', {class: 'menu-list'},
        item('Copy as PromQL', async (button) => tell(button, await copy(this.promql()), 'copied')),
        item('Download CSV', () => save('gpulens-' + title.toLowerCase().replace(/[^a-z0-9]+/g, '-') + '.csv', 'text/csv', this.csv())),
        item('Show as table', (button) => {
          this.details.hidden = !this.details.hidden;
          setText(button, this.details.hidden ? 'Show as table' : 'Hide the table');
          this.update(true);
        }),
        zero));
    this.menu.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.menu.open) {
        this.menu.open = false;
        this.menu.querySelector('summary').focus();
        event.stopPropagation();
      }
    });
    this.menu.addEventListener('focusout', (event) => {
      if (event.relatedTarget && !this.menu.contains(event.relatedTarget)) this.menu.open = false;
    });
    this.element = h('figure', {class: 'chart'},
      h('figcaption', {}, h('span', {class: 'chart-title'}, title), note ? h('span', {class: 'dim'}, ' ' + note) : null,
        this.when, this.menu),
      h('div', {class: 'plot-box'}, this.plot, this.cursor, this.empty),
      this.legend, this.said, this.details);
    this.plot.addEventListener('pointermove', (event) => this.#pointed(event));
    this.plot.addEventListener('pointerdown', (event) => this.#pointed(event));
    this.plot.addEventListener('pointerleave', () => this.charts.point(null));
    this.plot.addEventListener('blur', () => this.charts.point(null));
    this.plot.addEventListener('keydown', (event) => this.#key(event));
  }

  #pointed(event) {
    if (!this.graph) return;
    const area = this.graph.getArea();
    const x = event.clientX - this.plot.getBoundingClientRect().left;
    if (x < area.x - 4 || x > area.x + area.w + 4) return this.charts.point(null);
    this.charts.point(Math.round(this.graph.toDataXCoord(x)));
  }

  #key(event) {
    const [from, to] = this.shown || this.charts.range();
    const step = Math.max(1000, Math.round((to - from) / 100000) * 1000) * (event.shiftKey ? 10 : 1);
    let time = this.charts.time;
    if (event.key === 'ArrowLeft') time = (time === null ? to : time) - step;
    else if (event.key === 'ArrowRight') time = (time === null ? from : time) + step;
    else if (event.key === 'Home') time = from;
    else if (event.key === 'End') time = to;
    else if (event.key === 'Escape' && time !== null) time = null;
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.charts.point(time === null ? null : Math.min(to, Math.max(from, time)));
    setText(this.said, time === null ? '' : this.when.textContent + ': ' +
      this.items.slice(0, 12).map((one) => one.label + ' ' + this.#at(one, time).text).join(', '));
  }

  // The series that are shown now, in their order.
  #collect() {
    const {store} = this.charts;
    const {label, order, keep, compute} = this.options;
    if (compute) return compute().map((one, i) => ({order: i, ...one}));
    const found = this.selects.flatMap((one) => store.find(one.name, one.attributes).map((series) => [one, series]))
      .filter(([, series]) => !keep || keep(series));
    const apart = label ? null : telling(found.map(([, series]) => series));
    const items = found.map(([select, series], i) => fromSeries(series,
      format.clean(select.label ? (typeof select.label === 'function' ? select.label(series) : select.label)
        : label ? label(series) : apart(series)), order ? order(series) : i));
    const {spread_s} = this.options;
    for (const item of spread_s ? items : []) {
      if (item.samples) Object.assign(item, {samples: spread(item.samples, spread_s * 1000), series: null, of: item.series});
    }
    return items.sort((a, b) => a.order - b.order);
  }

  // Draws what is new. `force`: also while paused or unseen.
  update(force) {
    if (!force && (this.charts.paused() || (!this.visible && !this.waiting))) return;
    if (!this.element.isConnected) return;
    this.items = this.#collect();
    this.unit = this.options.unit !== undefined ? this.options.unit : this.items.length ? this.items[0].unit : '';
    this.#draw();
    this.#legend();
    if (!this.details.hidden) this.#table();
  }

  async #draw() {
    let Dygraph;
    try {
      Dygraph = await load();
    } catch {
      this.empty.hidden = false;
      setText(this.empty, 'dygraph.js cannot be loaded from the agent, trying again');
      return;
    }
    if (this.destroyed || !this.plot.offsetWidth) return;
    const colours = this.charts.colours();
    const shown = this.items.filter((item) => !this.hidden.has(item.label) && item.samples);
    const {window_s} = this.charts.store;
    const [from, to] = this.charts.paused() && this.shown && this.shown.window_s === window_s ? this.shown : this.charts.range();
    this.shown = Object.assign([from, to], {window_s});
    const any = shown.some((item) => item.samples.y.some((y) => y !== null));
    this.empty.hidden = any;
    this.waiting = !any && this.charts.store.loading;
    if (!any) setText(this.empty, this.#why());
    const columns = [];
    for (const item of shown) columns.push(...split(item));
    const rows = merge(columns, from, to);
    const limits = this.#limits();
    const options = {
      file: rows, labels: ['t', ...columns.map((_, i) => 's' + i)], dateWindow: [from, to],
      valueRange: this.#valueRange(shown, limits, from),
      colors: columns.map((column) => colours.series[column.order % kColours]),
      series: Object.fromEntries(columns.map((column, i) =>
        ['s' + i, {strokePattern: column.stale ? [2, 3] : kDashes[Math.floor(column.order / 4) % kDashes.length]}])),
      gridLineColor: colours.line, axisLineColor: colours.line,
    };
    if (!rows.length) {
      options.labels = ['t', 's0'];
      options.file = [[from, null], [to, null]];
      options.colors = [colours.dim];
      options.series = {};
    }
    this.limits = limits;
    if (this.graph) {
      this.graph.updateOptions(options);
    } else {
      this.graph = new Dygraph(this.plot, options.file, {
        ...options,
        legend: 'never', connectSeparatedPoints: true, strokeWidth: 1.5, highlightCircleSize: 0, drawPoints: false,
        interactionModel: {}, rightGap: 8, xRangePad: 0, animatedZooms: false, labelsUTC: false,
        drawGapEdgePoints: true, pointSize: 1.5,
        underlayCallback: (context, area, graph) => this.#underlay(context, area, graph),
        axes: {
          x: {axisLabelFormatter: (time) => timeLabel(+time, this.charts.store.window_s), axisLabelFontSize: 11, pixelsPerLabel: 80},
          y: {ticker: (low, high, pixels) => this.#ticks(low, high, pixels), axisLabelFontSize: 11, axisLabelWidth: 62, pixelsPerLabel: 34},
        },
      });
      // Its own reaction to the mouse would draw a second pointer.
      this.graph.setSelection = () => false;
    }
    this.showTime();
  }

  #why() {
    const {store} = this.charts;
    if (!store.at) return 'connecting';
    if (store.loading) return 'loading';
    if (this.hidden.size && this.items.every((item) => this.hidden.has(item.label))) return 'all series are switched off';
    return this.options.empty || (this.items.length ? 'no value in the last ' + store.window_s / 60 + ' m' : 'not measured here');
  }

  #limits() {
    return (this.options.limits ? this.options.limits() : []).filter((one) => one && format.known(one.value));
  }

  #valueRange(shown, limits, from) {
    let low = Infinity, high = -Infinity;
    for (const {samples} of shown) {
      for (let i = 0; i < samples.y.length; i++) {
        const y = samples.y[i];
        if (y === null || samples.t[i] < from) continue;
        if (y < low) low = y;
        if (y > high) high = y;
      }
    }
    for (const {value} of limits) high = Math.max(high, value);
    if (this.floats) {
      if (low === Infinity) return [0, 1];
      const pad = (high - low || Math.abs(high) || 1) * 0.08;
      return [low - pad, high + pad];
    }
    if (this.options.max !== undefined) high = Math.max(high, this.options.max);
    if (high <= 0 || high === -Infinity) high = this.unit === '1' ? 0.01 : 1;
    return [Math.min(0, low === Infinity ? 0 : low), high * (this.options.max !== undefined && high <= this.options.max ? 1.02 : 1.08)];
  }

  // Three to five lines at round values of the unit: of bytes at powers of two.
  #ticks(low, high, pixels) {
    const most = Math.max(2, Math.floor(pixels / 34));
    const raw = (high - low) / most;
    if (!(raw > 0) || !this.empty.hidden) return [];
    const binary = this.unit === 'By' && raw >= 1;
    const base = binary ? 2 ** (10 * Math.floor(Math.log2(raw) / 10)) : 1;
    const scaled = raw / base;
    const power = 10 ** Math.floor(Math.log10(scaled));
    const factor = [1, 2, 2.5, 5, 10].find((one) => one * power >= scaled && (one !== 2.5 || power >= 10 || this.unit === '1')) || 10;
    const step = factor * power * base;
    const ticks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-9); i++) ticks.push({v: i * step, label: this.#axisLabel(i * step, step)});
    return ticks;
  }

  #axisLabel(value, step) {
    if (Math.abs(value) < step / 1e6) return '0';
    if (this.unit === '1') return +(value * 100).toPrecision(6) + ' %';
    const whole = format.text(value, this.unit);
    const text = whole.length > 11 ? format.parts(value, this.unit)[0] : whole;  // there is room for so much
    return text.replace(/(\.\d*?)0+(?= |$)/, '$1').replace(/\.(?= |$)/, '');
  }

  #underlay(context, area, graph) {
    const colours = this.charts.colours();
    const [from, to] = this.shown;
    context.save();
    context.font = '11px system-ui, sans-serif';
    for (const limit of this.limits) {
      const y = graph.toDomYCoord(limit.value);
      if (y < area.y - 1 || y > area.y + area.h) continue;
      context.strokeStyle = colours.limit;
      context.setLineDash([6, 4]);
      context.beginPath();
      context.moveTo(area.x, Math.round(y) + 0.5);
      context.lineTo(area.x + area.w, Math.round(y) + 0.5);
      context.stroke();
      context.setLineDash([]);
      context.fillStyle = colours.limit;
      context.textAlign = 'left';
      context.textBaseline = y - area.y > 14 ? 'bottom' : 'top';
      context.fillText(format.clean(limit.label, 40) + ' ' + format.text(limit.value, this.unit), area.x + 6, y + (y - area.y > 14 ? -1 : 4));
    }
    // The time before the first sample is not zero: the history begins later.
    const begin = this.charts.store.history && this.charts.store.history.begin;
    if (begin && begin > from + 0.02 * (to - from) && begin < to) {
      const x = graph.toDomXCoord(begin);
      context.fillStyle = colours.line;
      context.globalAlpha = 0.35;
      context.fillRect(area.x, area.y, x - area.x, area.h);
      context.globalAlpha = 1;
      if (x - area.x > 110) {
        context.fillStyle = colours.dim;
        context.textAlign = 'right';
        context.textBaseline = 'bottom';
        context.fillText('history begins here', x - 6, area.y + area.h - 16);
      }
    }
    this.marks = [];
    const wanted = this.options.events || ((event) => severityRank(event.severity) >= 2);
    let most = 200;
    for (const event of this.charts.store.events) {
      if (event.at < from || event.at > to || !wanted(event)) continue;
      if (!most--) break;
      const x = graph.toDomXCoord(event.at);
      const rank = severityRank(event.severity);
      context.strokeStyle = context.fillStyle = rank >= 3 ? colours.bad : rank === 2 ? colours.look : colours.dim;
      context.globalAlpha = 0.6;
      context.beginPath();
      context.moveTo(Math.round(x) + 0.5, area.y);
      context.lineTo(Math.round(x) + 0.5, area.y + area.h);
      context.stroke();
      context.globalAlpha = 1;
      context.textAlign = 'center';
      context.textBaseline = 'bottom';
      context.fillText(severityMark(event.severity), x, area.y + area.h);
      this.marks.push({x, event});
    }
    context.restore();
  }

  // The value of an item at a time: {text, stale, at}.
  #at(item, time) {
    const {samples} = item;
    if (!samples || !samples.t.length) return {text: format.kUnknown};
    let low = 0, high = samples.t.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (samples.t[middle] <= time) low = middle + 1;
      else high = middle;
    }
    let i = low - 1;
    if (i + 1 < samples.t.length && (i < 0 || samples.t[i + 1] - time < time - samples.t[i])) i++;
    if (i < 0 || samples.y[i] === null) return {text: format.kUnknown};
    const reach = 2000 * Math.max(item.period_s || 0, this.charts.store.step_ms() / 1000) + 1000;
    if (Math.abs(samples.t[i] - time) > reach) return {text: format.kUnknown};
    return {text: format.text(samples.y[i], item.unit), stale: samples.stale[i], at: samples.t[i]};
  }

  #now(item) {
    const {store} = this.charts;
    if (item.series) {
      const series = item.series;
      const value = series.kind === 'counter' ? series.rate : series.value;
      if (value === null) return {text: format.kUnknown};
      return {text: format.text(value, item.unit), stale: Boolean(series.stale), age: store.age_s(series)};
    }
    const samples = item.samples;
    const last = samples ? samples.t.length - 1 : -1;
    if (last < 0 || samples.y[last] === null) return {text: format.kUnknown};
    return {text: format.text(samples.y[last], item.unit), stale: Boolean(samples.stale && samples.stale[last])};
  }

  // The legend: the value now, or that under the pointer with its age, quality and source.
  #legend() {
    const colours = this.charts.colours();
    const time = this.charts.time;
    const known = this.legendRows || new Map();
    const rows = new Map();
    const children = [];
    for (const item of this.items) {
      let row = known.get(item.label);
      if (!row) {
        const swatch = h('span', {class: 'swatch', 'aria-hidden': 'true'});
        const value = h('span', {class: 'value'});
        const extra = h('span', {class: 'dim'});
        const button = h('button', {type: 'button', 'aria-pressed': 'true', title: 'show or hide',
          on: {click: () => {
            if (this.hidden.has(item.label)) this.hidden.delete(item.label);
            else this.hidden.add(item.label);
            button.setAttribute('aria-pressed', String(!this.hidden.has(item.label)));
            this.update(true);
          }}}, swatch, h('span', {class: 'name'}, item.label), ' ', value, extra);
        row = {element: h('li', {}, button), swatch, value, extra};
      }
      rows.set(item.label, row);
      children.push(row.element);
      row.swatch.style.setProperty('border-top-color', colours.series[item.order % kColours]);
      row.swatch.style.setProperty('border-top-style', Math.floor(item.order / 4) % kDashes.length ? 'dashed' : 'solid');
      const shown = time !== null ? this.#at(item, time) : (this.charts.paused() && row.now) || this.#now(item);
      if (time === null) row.now = shown;
      setText(row.value, shown.text);
      row.value.classList.toggle('stale', Boolean(shown.stale));
      let extra = '';
      if (time === null) {
        const late = Math.max(3, 2.5 * (item.period_s || 1));
        if (shown.stale || shown.age > late) extra = ' ~' + format.age(shown.age);
      } else if (shown.at !== undefined) {
        const away = (time - shown.at) / 1000;
        extra = (shown.stale ? ' stale' : '') + (away >= 2 ? ' ' + format.age(away) + ' before' : '');
      }
      setText(row.extra, extra);
    }
    if (children.length !== this.legend.children.length || children.some((child, i) => this.legend.children[i] !== child)) {
      put(this.legend, children);
    }
    this.legendRows = rows;
    this.plot.setAttribute('aria-label', this.options.title + ': ' + (this.items.length ? this.items.slice(0, 12)
      .map((item) => item.label + ' ' + this.#now(item).text).join(', ') : 'no data'));
  }

  showTime() {
    const time = this.charts.time;
    const graph = this.graph;
    const on = time !== null && graph && this.shown && time >= this.shown[0] && time <= this.shown[1];
    this.cursor.hidden = !on;
    if (on) {
      const area = graph.getArea();
      this.cursor.style.setProperty('left', graph.toDomXCoord(time) + 'px');
      this.cursor.style.setProperty('top', area.y + 'px');
      this.cursor.style.setProperty('height', area.h + 'px');
    }
    // Time, quality and source once; the legend has only what differs from that.
    let text = time === null ? '' : format.clock(time);
    if (on) {
      const sources = new Set(this.items.map((item) => item.source).filter(Boolean));
      const stale = this.items.some((item) => this.#at(item, time).stale);
      text += (stale ? ' · some stale' : ' · ok') + (sources.size === 1 ? ' · ' + format.clean([...sources][0], 40) : sources.size ? ' · ' + sources.size + ' sources' : '');
    }
    if (on && this.marks) {
      const x = graph.toDomXCoord(time);
      const near = this.marks.filter((mark) => Math.abs(mark.x - x) <= kEventReach);
      if (near.length) {
        const {event} = near[0];
        text = format.clock(event.at) + ' ' + severityMark(event.severity) + ' ' + format.clean(event.body || event.name, 90) + (near.length > 1 ? ' +' + (near.length - 1) : '');
      }
    }
    setText(this.when, text);
    if (this.visible || time === null) this.#legend();
  }

  promql() {
    const lines = new Set();
    for (const item of this.items) {
      const series = item.series || item.of;
      if (!series || this.hidden.has(item.label)) continue;
      const select = this.selects.find((one) => one.name === series.name);
      const keys = select && select.attributes ? Object.keys(select.attributes) : [];
      lines.add(format.promql(series, keys));
    }
    for (const name of this.options.names || []) {
      const [series] = this.charts.store.find(name);
      if (series) lines.add(format.promql(series, []));
    }
    return [...lines].join('\n');
  }

  csv() {
    const cell = (value) => /[",\n\r]|^[=+\-@\t]/.test(value) ? '"' + value.replace(/^[=+\-@\t]/, "'$&").replace(/"/g, '""') + '"' : value;
    const items = this.items.filter((item) => item.samples);
    const [from, to] = this.shown || this.charts.range();
    const rows = merge(items.map((item) => ({t: item.samples.t, y: item.samples.y})), from, to);
    const head = ['time', ...items.map((item) => cell(item.label + (item.unit ? ' (' + item.unit + ')' : '')))];
    return [head.join(','), ...rows.map(([time, ...values]) =>
      [new Date(time).toISOString(), ...values.map((y) => format.known(y) ? String(y) : '')].join(','))].join('\r\n') + '\r\n';
  }

  #table() {
    const [from, to] = this.shown || this.charts.range();
    const step = (to - from) / kTableRows;
    const rows = [];
    for (let i = kTableRows; i >= 1; i--) rows.push(from + i * step);
    put(this.details, h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': this.options.title + ' as a table'},
      h('table', {}, h('caption', {}, this.options.title + ', newest first'),
        h('thead', {}, h('tr', {}, h('th', {scope: 'col'}, 'time'), this.items.map((item) => h('th', {scope: 'col', class: 'n'}, item.label)))),
        h('tbody', {}, rows.map((time) => h('tr', {}, h('th', {scope: 'row'}, format.clock(time)),
          this.items.map((item) => {
            const at = this.#at(item, time);
            return h('td', {class: at.stale ? 'n stale' : 'n'}, at.text + (at.stale ? ' ~' : ''));
          })))))));
  }

  destroy() {
    this.destroyed = true;
    this.observer.disconnect();
    this.sizes.disconnect();
    this.unwatch();
    if (this.graph) this.graph.destroy();
    this.charts.all.delete(this);
  }
}

// What tells series apart, in the order in which people name it.
const kTelling = ['gpu.index', 'target', 'owner', 'process.pid', 'k8s.deployment.name', 'k8s.pod.name', 'slurm.job.id', 'quantile', 'model.name'];

// A function from a series to its label: of the attributes whose values differ, as few as tell all apart.
function telling(all) {
  const ignored = new Set(['gpu.uuid', 'k8s.pod.uid', 'container.id', 'simulated']);
  const keys = [...new Set(all.flatMap((series) => Object.keys(series.attributes)))].filter((key) => !ignored.has(key));
  const rank = (key) => kTelling.includes(key) ? kTelling.indexOf(key) : kTelling.length;
  const values = (key) => new Set(all.map((series) => series.name + ' ' + series.attributes[key])).size;
  const names = new Set(all.map((series) => series.name)).size;
  const differ = keys.filter((key) => values(key) > names).sort((a, b) => rank(a) - rank(b));
  let used = differ.filter((key) => values(key) === all.length).slice(0, 1);
  for (const key of used.length ? [] : differ) {
    const soFar = new Set(all.map((series) => series.name + used.map((one) => ' ' + series.attributes[one]).join(''))).size;
    if (soFar === all.length) break;
    const withIt = new Set(all.map((series) => series.name + [...used, key].map((one) => ' ' + series.attributes[one]).join(''))).size;
    if (withIt > soFar) used = [...used, key];
  }
  return (series) => {
    const words = used.filter((key) => series.attributes[key] !== undefined)
      .map((key) => key === 'gpu.index' ? 'GPU ' + series.attributes[key] : String(series.attributes[key]));
    if (!words.length && names === 1 && series.attributes['gpu.index'] !== undefined) return 'GPU ' + series.attributes['gpu.index'];
    if (names > 1 || !words.length) words.unshift(series.name);
    return words.join(' ');
  };
}

// Rates of a counter that grows in jumps, as a line: each jump (rates above 0 that follow one another) is spread over
// the samples of 0 before it, `ms` at most, and then the mean of `ms` around each sample is taken, since samples do not
// begin where jumps do. What came after the last jump is not known yet.
export function spread({t, y, stale}, ms) {
  const out = y.slice();
  let begin = 0;  // the last sample before the present zeros
  for (let i = 1; i < y.length; i++) {
    if (y[i] === 0 && t[i] - t[begin] <= ms) continue;
    let last = i;
    while (y[i] > 0 && last + 1 < y.length && y[last + 1] > 0) last++;
    if (y[i] > 0 && t[last] - t[begin] <= ms) {
      let sum = 0;
      for (let j = i; j <= last; j++) sum += y[j] * (t[j] - t[j - 1]);
      for (let j = begin + 1; j <= last; j++) out[j] = sum / (t[last] - t[begin]);
    }
    begin = i = last;
  }
  const end = t.length && t[t.length - 1] - t[begin] <= ms ? begin + 1 : t.length;
  const mean = [];
  for (let i = 0, first = 0, after = 0, sum = 0; i < end; i++) {
    while (after < end && t[after] - t[i] <= ms / 2) sum += out[after++] || 0;
    while (t[i] - t[first] > ms / 2) sum -= out[first++] || 0;
    mean.push(out[i] === null ? null : Math.max(0, sum / (after - first)));
  }
  return {t: t.slice(0, end), y: mean, stale: stale.slice(0, end)};
}

// Divides samples into a line of good values and, where there are any, a dotted one of stale ones, which begins at
// the last good value. NaN ends a line; a null is a time at which only others have a sample.
function split({samples, order}) {
  const good = {t: samples.t, y: samples.y.slice(), order};
  const any = samples.stale && samples.stale.some(Boolean);
  for (let i = 0; i < good.y.length; i++) if (good.y[i] === null || (any && samples.stale[i])) good.y[i] = NaN;
  if (!any) return [good];
  const stale = {t: samples.t, y: samples.y.map((y, i) => {
    const edge = samples.stale[i] || (i + 1 < samples.stale.length && samples.stale[i + 1]);
    return edge && y !== null ? y : NaN;
  }), order, stale: true};
  return [good, stale];
}

// Rows of dygraphs: [time, value…], in the order of time; from one sample before `from` on.
function merge(columns, from, to) {
  const at = columns.map(({t}) => {
    let i = 0;
    while (i < t.length && t[i] < from) i++;
    return Math.max(0, i - 1);
  });
  const rows = [];
  for (;;) {
    let next = Infinity;
    for (let c = 0; c < columns.length; c++) if (at[c] < columns[c].t.length) next = Math.min(next, columns[c].t[at[c]]);
    if (next === Infinity || next > to + 5000) return rows;
    const row = [next];
    for (let c = 0; c < columns.length; c++) {
      let value = null;
      while (at[c] < columns[c].t.length && columns[c].t[at[c]] <= next) value = columns[c].y[at[c]++];
      row.push(value);
    }
    rows.push(row);
  }
}

function timeLabel(ms, window_s) {
  const text = format.clock(ms);
  return window_s <= 600 ? text : text.slice(0, 5);
}

class Spark {
  constructor(charts, {samples, max, label, order, names}) {
    this.charts = charts;
    this.samples = samples;
    this.max = max;
    this.order = order || 0;
    this.unwatch = names ? charts.store.watch(names) : () => {};
    this.element = h('canvas', {class: 'spark', role: 'img', 'aria-label': label || 'course of the last minutes'});
  }

  update() {
    const canvas = this.element;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width || this.charts.paused()) return;
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    const context = canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const samples = this.samples();
    if (!samples || !samples.t.length) return;
    const [from, to] = this.charts.range();
    let max = typeof this.max === 'function' ? this.max() : this.max;
    if (!format.known(max) || max <= 0) max = Math.max(...samples.y.filter((y) => y !== null), 0) * 1.1 || 1;
    const colour = this.charts.colours().series[this.order];
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = 1.25;
    const x = (t) => (t - from) / (to - from) * width;
    const y = (value) => height - 1 - Math.min(1, Math.max(0, value / max)) * (height - 2);
    let begin = null, last = null;
    const close = () => {
      if (begin === null) return;
      context.stroke();
      context.lineTo(last, height);
      context.lineTo(begin, height);
      context.closePath();
      context.globalAlpha = 0.18;
      context.fill();
      context.globalAlpha = 1;
      begin = null;
    };
    for (let i = 0; i < samples.t.length; i++) {
      if (samples.t[i] < from - 5000) continue;
      if (samples.y[i] === null) {
        close();
        continue;
      }
      const at = Math.max(0, x(samples.t[i]));
      if (begin === null) {
        context.beginPath();
        context.moveTo(at, y(samples.y[i]));
        begin = at;
      } else {
        context.lineTo(at, y(samples.y[i]));
      }
      last = at;
    }
    close();
  }

  destroy() { this.unwatch(); }
}

// Adds samples of several series, time by time of the first: for sums over GPUs or engines. A time at which one of
// them is not known counts the others; `n` is of how many a sum is.
export function sumSamples(all) {
  const lists = all.filter((samples) => samples && samples.t.length);
  if (!lists.length) return {t: [], y: [], stale: [], n: []};
  const longest = lists.reduce((a, b) => b.t.length > a.t.length ? b : a);
  const at = lists.map(() => 0);
  const out = {t: [], y: [], stale: [], n: []};
  for (let i = 0; i < longest.t.length; i++) {
    const time = longest.t[i];
    let total = null, stale = false, n = 0;
    lists.forEach((samples, c) => {
      while (at[c] + 1 < samples.t.length && samples.t[at[c] + 1] <= time + 500) at[c]++;
      const value = samples.t[at[c]] <= time + 500 ? samples.y[at[c]] : null;
      if (value === null) return;
      total = (total === null ? 0 : total) + value;
      n++;
      stale = stale || Boolean(samples.stale && samples.stale[at[c]]);
    });
    out.t.push(time);
    out.y.push(total);
    out.stale.push(stale);
    out.n.push(n);
  }
  return out;
}
