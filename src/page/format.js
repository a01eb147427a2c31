// Numbers, units and times as people read them. The only place of the page that knows units.
// A number that is not known is "–", never 0.

export const kUnknown = '–';

function group(text) {
  const [whole, rest] = text.split('.');
  const grouped = whole.replace(/\B(?=(\d{3})+(?!\d))/g, ',');
  return rest === undefined ? grouped : grouped + '.' + rest;
}

export function known(value) {
  return typeof value === 'number' && Number.isFinite(value);
}

// Three or four figures: 0.402, 4.02, 40.2, 402, 4,020, 12.3 M.
export function count(value) {
  if (!known(value)) return kUnknown;
  const size = Math.abs(value);
  if (size >= 1e13) return group((value / 1e12).toFixed(0)) + ' T';
  if (size >= 1e12) return (value / 1e12).toFixed(1) + ' T';
  if (size >= 1e9) return (value / 1e9).toFixed(1) + ' G';
  if (size >= 1e7) return (value / 1e6).toFixed(1) + ' M';
  if (Number.isInteger(value) || size >= 1000) return group(value.toFixed(0));
  if (size >= 100) return value.toFixed(0);
  if (size >= 10) return value.toFixed(1);
  if (size >= 1) return value.toFixed(2);
  if (size < 0.0005) return size === 0 ? '0' : '<0.001';
  return value.toFixed(3);
}

function binary(value) {
  const size = Math.abs(value);
  if (size >= 1024 ** 4) return [(value / 1024 ** 4).toFixed(1), 'TiB'];
  if (size >= 1024 ** 3) return [(value / 1024 ** 3).toFixed(1), 'GiB'];
  if (size >= 1024 ** 2) return [(value / 1024 ** 2).toFixed(1), 'MiB'];
  if (size >= 1024) return [(value / 1024).toFixed(1), 'KiB'];
  return [value.toFixed(0), 'B'];
}

function decimal(value, unit) {
  const size = Math.abs(value);
  for (const [factor, prefix] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
    if (size >= factor) {
      const scaled = value / factor;
      return [Math.abs(scaled) >= 100 ? scaled.toFixed(0) : scaled.toFixed(Math.abs(scaled) >= 10 ? 1 : 2), prefix + unit];
    }
  }
  return [size >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(1), unit];
}

function share(value) {
  const percent = value * 100;
  if (percent === 0) return '0';
  if (Math.abs(percent) < 0.05) return '<0.1';
  return Math.abs(percent) < 9.95 ? percent.toFixed(1) : percent.toFixed(0);
}

// A latency: one or two units below, three or four figures.
function latency(seconds) {
  const size = Math.abs(seconds);
  if (size === 0) return ['0', 's'];
  if (size < 1e-6) return ['<1', 'µs'];
  if (size < 1e-3) return [(seconds * 1e6).toFixed(0), 'µs'];
  if (size < 1) {
    const ms = seconds * 1e3;
    return [ms >= 100 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : ms.toFixed(2), 'ms'];
  }
  if (size < 100) return [seconds.toFixed(size < 10 ? 2 : 1), 's'];
  return [duration(seconds), ''];
}

// What is written after an amount of `{thing}`.
function thing(unit, value) {
  const match = /^\{([^}]*)\}(.*)$/.exec(unit);
  if (!match) return unit;
  const [, name, rest] = match;
  if (['bool', 'state', 'mask', 'gen', 'percent', 'ratio'].includes(name)) return name === 'percent' ? '%' : '';
  if (name === 'token') return (rest === '/s' ? 'tok' : value === 1 ? 'token' : 'tokens') + rest;
  if (rest === '/s') return name + (/(ch|s|x)$/.test(name) ? 'es/s' : 's/s');
  return rest ? name + rest : '';
}

// [number, unit], both as text: ['612', 'W'].
export function parts(value, unit) {
  if (!known(value)) return [kUnknown, ''];
  switch (unit) {
    case 'By': return binary(value);
    case 'By/s': return decimal(value, 'B/s');
    case '1': return [share(value), '%'];
    case 'W': if (Math.abs(value) >= 1e6) return [(value / 1e6).toFixed(2), 'MW'];
      return Math.abs(value) >= 1000 ? [(value / 1000).toFixed(2), 'kW'] : [value.toFixed(Math.abs(value) < 10 ? 1 : 0), 'W'];
    case 'J':
      if (Math.abs(value) >= 3.6e6) return [group((value / 3.6e6).toFixed(value >= 3.6e7 ? 1 : 2)), 'kWh'];
      if (Math.abs(value) >= 1e4) return [group((value / 1e3).toFixed(0)), 'kJ'];
      return [count(value), 'J'];
    case 'Cel': return [value.toFixed(0), '°C'];
    case 'MHz': return [group(value.toFixed(0)), 'MHz'];
    case 'Hz': return [group((value / 1e6).toFixed(0)), 'MHz'];
    case 's': return latency(value);
    case 'us': return latency(value / 1e6);
    case 'V': return [value.toFixed(3), 'V'];
    case '{USD}': case 'USD': return [money(value), 'USD'];
    case 'J/{token}': return [count(value), 'J/token'];
    case '{token}/W': return [count(value), 'tokens/W'];
    case '': return [count(value), ''];
    default: return [count(value), thing(unit, value)];
  }
}

function money(value) {
  if (value !== 0 && Math.abs(value) < 0.000001) return '<0.000001';
  return Math.abs(value) < 1 && value !== 0 ? value.toFixed(6) : group(value.toFixed(2));
}

// "612 W", "97 %", "71.2 GiB".
export function text(value, unit) {
  const [number, after] = parts(value, unit);
  return after ? number + ' ' + after : number;
}

// "71.2/79.6 GiB": the unit of the second.
export function of(value, limit, unit) {
  if (!known(limit)) return text(value, unit);
  const [number, after] = parts(limit, unit);
  if (!known(value)) return kUnknown + '/' + number + ' ' + after;
  if (unit === 'By') {
    const factor = {B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4}[after];
    return (value / factor).toFixed(after === 'B' ? 0 : 1) + '/' + number + ' ' + after;
  }
  if (unit === 'W') return (after === 'kW' ? (value / 1000).toFixed(2) : value.toFixed(0)) + '/' + number + ' ' + after;
  return text(value, unit) + '/' + number + ' ' + after;
}

// What a counter's increase per second is measured in.
export function rateUnit(unit) {
  if (unit === 'By') return 'By/s';
  if (unit === 'J') return 'W';
  if (unit === 's') return '1';
  if (/^\{[^}]*\}$/.test(unit)) return unit + '/s';
  return unit + '/s';
}

// A length of time, cut, never rounded up: "12 s", "4 m 10 s", "1 h 07 m", "3 d 4 h".
export function duration(seconds) {
  if (!known(seconds)) return kUnknown;
  const whole = Math.max(0, Math.floor(seconds));
  const two = (number) => String(number).padStart(2, '0');
  if (whole < 60) return whole + ' s';
  if (whole < 3600) return Math.floor(whole / 60) + ' m ' + two(whole % 60) + ' s';
  if (whole < 86400) return Math.floor(whole / 3600) + ' h ' + two(Math.floor(whole / 60) % 60) + ' m';
  return Math.floor(whole / 86400) + ' d ' + Math.floor(whole / 3600) % 24 + ' h';
}

// The age of a value: "0.4 s", "12 s".
export function age(seconds) {
  if (!known(seconds)) return kUnknown;
  return seconds < 9.95 ? Math.max(0, seconds).toFixed(1) + ' s' : duration(seconds);
}

const two = (number) => String(number).padStart(2, '0');

// Local time, 24 h: "03:12:44".
export function clock(ms) {
  if (!known(ms)) return kUnknown;
  const date = new Date(ms);
  return two(date.getHours()) + ':' + two(date.getMinutes()) + ':' + two(date.getSeconds());
}

export function day(ms) {
  const date = new Date(ms);
  return date.getFullYear() + '-' + two(date.getMonth() + 1) + '-' + two(date.getDate());
}

// "2026-11-26 03:12:44"
export function dateTime(ms) {
  return known(ms) ? day(ms) + ' ' + clock(ms) : kUnknown;
}

// The offset of local time: "+01:00".
export function offset(ms = Date.now()) {
  const minutes = -new Date(ms).getTimezoneOffset();
  const size = Math.abs(minutes);
  return (minutes < 0 ? '-' : '+') + two(Math.floor(size / 60)) + ':' + two(size % 60);
}

// Control characters and directions of writing become visible, and long texts are cut. For names from outside.
export function clean(value, most = 120) {
  const visible = String(value).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, '\ufffd');
  const points = [...visible];
  return points.length > most ? points.slice(0, most - 1).join('') + '…' : visible;
}

// The name of a series in Prometheus: catalogue names by the rules of OpenTelemetry.
export function prometheusName(series) {
  const words = {By: 'bytes', W: 'watts', J: 'joules', Cel: 'celsius', s: 'seconds', us: 'microseconds', V: 'volts', MHz: 'MHz',
                 Hz: 'hertz', g: 'grams', USD: 'USD', rpm: 'rpm', TFLOPS: 'TFLOPS'};
  const per = {s: 'second', h: 'hour'};
  const exceptions = {
    'process.cpu.time': 'process_cpu_seconds_total',
    'process.memory.usage': 'process_resident_memory_bytes',
    'process.memory.virtual': 'process_virtual_memory_bytes',
    'process.unix.file_descriptor.count': 'process_open_fds',
    'process.unix.file_descriptor.limit': 'process_max_fds',
  };
  if (exceptions[series.name]) return exceptions[series.name];
  let name = series.name.replace(/[^A-Za-z0-9_:]/g, '_');
  const end = (suffix) => { if (!name.split('_').includes(suffix)) name += '_' + suffix; };
  const counter = series.kind === 'counter';
  if (counter) name = name.replace(/_total$/, '');
  const unit = series.unit || '';
  const [above, below] = unit.replace(/\{[^}]*\}/g, '').split('/');
  if (unit === '1') {
    if (series.kind === 'gauge') end('ratio');
  } else {
    if (words[above]) end(words[above]);
    if (below && !name.split('_').includes(per[below])) name += '_per_' + (per[below] || below);
  }
  if (counter) name += '_total';
  if (series.kind === 'info') name = name.endsWith('_info') ? name : name + '_info';
  return name;
}

// `gpu_power_draw_watts{gpu_index="0"}`; of counters the rate.
export function promql(series, keys) {
  const quoted = (value) => '"' + String(value).replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n') + '"';
  const matchers = Object.entries(series.attributes)
    .filter(([key]) => !keys || keys.includes(key))
    .map(([key, value]) => key.replace(/[^A-Za-z0-9_]/g, '_') + '=' + quoted(value));
  const selector = prometheusName(series) + (matchers.length ? '{' + matchers.join(',') + '}' : '');
  return series.kind === 'counter' ? 'rate(' + selector + '[1m])' : selector;
}
