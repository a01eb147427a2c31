// Who uses GPUs: processes, and the pods, jobs and engines that they belong to, linked by equal attributes.

import * as format from './format.js';
import {engineName} from './problems.js';

// The pod, job or tenant of attributes: {kind, id: [parts of its address], text}, or null where nothing says.
export function ownerOf(attributes) {
  const a = attributes || {};
  if (a['k8s.pod.name'] !== undefined) {
    const space = String(a['k8s.namespace.name'] || '');
    return {kind: 'pod', id: ['pod', space, String(a['k8s.pod.name'])],
            text: format.clean((space ? space + '/' : '') + a['k8s.pod.name'], 80)};
  }
  if (a['slurm.job.id'] !== undefined) {
    return {kind: 'job', id: ['job', String(a['slurm.job.id'])],
            text: format.clean('slurm ' + a['slurm.job.id'] + (a['slurm.job.name'] ? ' ' + a['slurm.job.name'] : ''), 80)};
  }
  return null;
}

// Its name, else that of the tenant, else ''.
export function ownerText(attributes) {
  const owner = ownerOf(attributes);
  return owner ? owner.text : attributes && attributes.tenant ? format.clean(attributes.tenant, 60) : '';
}

// Whether attributes are those of an owner's parts, as in `ownerOf(…).id`.
export function belongs(attributes, [kind, ...parts]) {
  if (kind === 'pod') {
    return String(attributes['k8s.pod.name']) === parts[1] && String(attributes['k8s.namespace.name'] || '') === parts[0];
  }
  return kind === 'job' && String(attributes['slurm.job.id']) === parts[0];
}

// Processes on GPUs: [{pid, name, user, gpus: [index], attributes, memory, busy, energy}], by memory. `keep(attributes)`
// selects; memory and energy are sums over the GPUs, busy is their mean, null where unknown.
export function processes(store, keep) {
  const found = new Map();
  const add = (one, field) => {
    if (keep && !keep(one.attributes)) return;
    const pid = one.attributes['process.pid'];
    if (pid === undefined) return;
    let process = found.get(String(pid));
    if (!process) {
      process = {pid: String(pid), name: '', user: '', gpus: new Set(), attributes: one.attributes, memory: null, busy: null, energy: null, measured: 0};
      found.set(String(pid), process);
    }
    if (one.attributes['process.executable.name'] !== undefined) process.name = String(one.attributes['process.executable.name']);
    if (one.attributes['process.owner'] !== undefined) process.user = String(one.attributes['process.owner']);
    if (one.attributes['gpu.index'] !== undefined) process.gpus.add(String(one.attributes['gpu.index']));
    if (one.value !== null) process[field] = (process[field] || 0) + one.value;
    if (field === 'busy') process.measured++;
  };
  for (const one of store.find('gpu.process.memory.used')) if (one.value !== null) add(one, 'memory');
  for (const one of store.find('gpu.process.utilization')) {
    const task = one.attributes['gpu.task.type'];
    if (one.value !== null && (task === undefined || task === 'compute' || task === 'sm')) add(one, 'busy');
  }
  for (const one of store.find('gpu.process.energy')) {
    if (found.has(String(one.attributes['process.pid']))) add(one, 'energy');
  }
  return [...found.values()].map(({measured, ...one}) => ({...one, busy: one.busy === null ? null : one.busy / measured, gpus: [...one.gpus].sort((a, b) => a - b)}))
    .sort((a, b) => (b.memory || 0) - (a.memory || 0) || a.pid - b.pid);
}

// Names of the engines with the same pod, else of the same job, as these attributes.
export function enginesOf(store, attributes) {
  const a = attributes || {};
  const keys = [['k8s.pod.uid'], ['k8s.namespace.name', 'k8s.pod.name'], ['slurm.job.id'], ['process.pid']];
  const key = keys.find((parts) => parts.every((part) => a[part] !== undefined));
  if (!key) return [];
  const names = new Set();
  for (const name of ['inference.requests.running', 'inference.engine.info', 'inference.engine.version', 'inference.kv_cache.usage']) {
    for (const one of store.find(name)) {
      if (key.every((part) => String(one.attributes[part]) === String(a[part]))) names.add(engineName(one));
    }
  }
  return [...names].filter(Boolean).sort();
}
