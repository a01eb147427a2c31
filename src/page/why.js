// What holds GPUs, engines and jobs back: the panel of Overview and of one GPU or engine. The agent finds it (/api/why,
// docs/why.md); the panel shows each finding with its evidence, what was looked at, and what could not be.

import {h, keyed, put, setText} from './dom.js';
import * as format from './format.js';

const kEveryMs = 10_000;
const kSoonMs = 3_000;    // while the history is too short, or after an error

const text = (value, most = 300) => format.clean(value === undefined || value === null ? '' : value, most);
const list = (value) => Array.isArray(value) ? value : [];

function costText(cost) {
  if (!cost || !format.known(cost.share)) return 'cost not known';
  return 'costs ' + (cost.at_most ? 'at most ' : '') + format.text(cost.share, '1') + ' of useful time';
}

function seriesText(evidence) {
  const attributes = Object.entries(evidence.attributes || {}).map(([key, value]) => text(key, 60) + '=' + text(value, 60));
  return text(evidence.name, 80) + (attributes.length ? '{' + attributes.join(',') + '}' : '');
}

// Links to what the finding is about; the view that shows it already is left out.
function links(context, finding, about) {
  const found = [];
  for (const gpu of list(finding.gpus)) {
    if (!about || String(about.gpu) !== String(gpu)) found.push(h('a', {href: context.href('gpus', String(gpu))}, 'GPU ' + text(gpu, 10)));
  }
  for (const engine of list(finding.engines)) {
    if (!about || String(about.engine) !== String(engine)) found.push(h('a', {href: context.href('engines', String(engine))}, text(engine, 60)));
  }
  return found.flatMap((link, i) => i ? [' · ', link] : [link]);
}

function findingRow(context, about) {
  const title = h('strong'), who = h('span'), sentence = h('p'), cost = h('span', {class: 'dim'});
  const facts = h('dl', {class: 'facts'}), where = h('span');
  const element = h('li', {}, h('p', {}, who, ' ', title, ' ', cost), sentence,
    h('details', {}, h('summary', {}, 'evidence, and what to do'), facts), where);
  return {
    element,
    update(finding) {
      setText(who, text(finding.subject && finding.subject.text, 80) + (finding.job ? ', ' + text(finding.job, 80) : '') + ':');
      setText(title, text(finding.title, 80));
      setText(cost, '· ' + costText(finding.cost));
      setText(sentence, text(finding.sentence, 600));
      put(where, links(context, finding, about));
      const fact = (name, ...value) => [h('dt', {}, name), h('dd', {}, value)];
      put(facts,
        fact('since', format.clock(finding.since) + (finding.since_begin ? ' or before' : '')),
        list(finding.evidence).map((one) => fact('shown by', h('code', {}, seriesText(one)), ' ',
          format.text(one.value, one.unit), ', ' + text(one.is, 80))),
        fact('found when', text(finding.condition, 600)),
        format.known(finding.cost && finding.cost.share) ? fact('cost', text(finding.cost.formula, 300)) : null,
        fact('sure', text(finding.confidence, 20)),
        fact('what to do', text(finding.do, 600)),
        fact('source', text(finding.source, 300)));
    },
  };
}

// `about`: null, {gpu: '3'}, {engine: 'chat-a'}, {job: '48213'} or {pid: '4711'}.
export function panel(context, about) {
  const state = h('p', {class: 'dim', role: 'status'});
  const findings = h('ul', {class: 'why-list'});
  const looked = h('dl', {class: 'facts'}), unknown = h('dl', {class: 'facts'});
  const lookedTitle = h('summary'), unknownTitle = h('summary');
  const lookedBox = h('details', {hidden: true}, lookedTitle, looked);
  const unknownBox = h('details', {hidden: true}, unknownTitle, unknown);
  const element = h('section', {class: 'card why', 'aria-label': 'what holds work back'},
    h('h3', {}, 'What holds work back'), state, findings, lookedBox, unknownBox);
  let next = 0, asking = false, ended = false;

  function show(page) {
    const rows = list(page.findings);
    setText(state, page.wait_s
      ? 'The history has just begun: some causes can be looked for in ' + format.duration(page.wait_s) + '.'
      : rows.length ? '' : !list(page.looked).length ? 'Not known: no cause could be looked for.'
        : list(page.unknown).length ? 'Nothing was found in what could be looked at.' : 'Nothing was found.');
    state.hidden = state.textContent === '';
    keyed(findings, rows, (one) => one.rule + ' ' + (one.subject ? one.subject.text : ''), () => findingRow(context, about));
    const causes = new Set(list(page.looked).map((row) => row.rule));
    lookedBox.hidden = causes.size === 0;
    setText(lookedTitle, causes.size + (causes.size === 1 ? ' cause was' : ' causes were') + ' looked for and not found');
    put(looked, list(page.looked).map((row) => [h('dt', {}, text(row.title, 80)), h('dd', {}, text(row.subjects))]));
    const missing = new Set(list(page.unknown).map((row) => row.rule));
    unknownBox.hidden = missing.size === 0;
    setText(unknownTitle, missing.size + ' could not be looked for everywhere');
    put(unknown, list(page.unknown).map((row) => [h('dt', {}, text(row.title, 80)),
      h('dd', {}, [text(row.subjects), text(row.reason)].filter(Boolean).join(': '))]));
    return page.wait_s ? kSoonMs : kEveryMs;
  }

  async function load() {
    asking = true;
    let wait = kSoonMs;
    try {
      const page = await context.store.get('why', about || {});
      if (!ended) wait = show(page);
    } catch (error) {
      // What was found before is no longer known to hold.
      if (!ended) {
        keyed(findings, [], (one) => one, () => null);
        lookedBox.hidden = unknownBox.hidden = true;
        state.hidden = false;
        setText(state, 'Not known: ' + text(error.message));
      }
    }
    asking = false;
    next = performance.now() + wait;
  }

  return {
    element,
    update() {
      if (!asking && performance.now() >= next) load();
    },
    destroy() { ended = true; },
  };
}
