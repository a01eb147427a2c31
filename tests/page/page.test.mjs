// The page of a demo: every view, on the way that a person takes. One browser, one agent, in this order.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import {after, before, test} from 'node:test';

import {Agent, checkAccess, checkSeen, checkWidth, openPage, root, shot, startBrowser, until} from './harness.mjs';

const views = ['overview', 'gpus', 'engines', 'events', 'energy', 'jobs', 'experiments', 'gpulens'];
const mostBytes = 150_000, mostRequests = 30;
// What each view must show, as texts, once it has data.
const shows = {
  overview: ['GPU 7', 'Newest events'], gpus: ['storefront/chat-a', 'slurm 48211'], engines: ['chat-a', 'search-c', 'Llama-3.3-70B'],
  events: ['events of the last'], energy: ['active', 'unattributed', 'storefront', 'price_per_gpu_hour'],
  jobs: ['pt_main_thread', 'gpu compute'], experiments: ['ft-8b', 'exp-'], gpulens: ['nvidia', 'targets/chat-a', 'prometheus', 'History'],
};

let agent, browser, page;

before(async () => {
  // Of every level, so that /metrics has each series that a chart shows.
  agent = await new Agent({arguments: ['--demo'], environment: {GPULENS_METRICS: 'all'}}).start();
  browser = await startBrowser();
  const script = path.join(agent.folder, 'train.py');
  fs.writeFileSync(script, 'for s in range(1, 1500):\n    print(f"step {s}: loss {2 / s + 0.4:.5f}")\n');
  await agent.command('run', '--no-energy', '--name', 'ft-8b', script);
  page = await openPage(browser, agent);
});

after(async () => {
  if (browser) await browser.close();
  if (agent) await agent.end();
});

const text = () => page.locator('main').innerText();
const go = async (where) => {
  await page.evaluate((hash) => { location.hash = hash; }, '#/' + where);
};
async function untilShown(words, ms) {
  let missing = words;
  await until(async () => {
    const shown = await text();
    missing = words.filter((word) => !shown.includes(word));
    return missing.length === 0;
  }, `in ${page.url()} the text ${JSON.stringify(words)}`, ms).catch(async (error) => {
    throw new Error(`${error.message}; missing ${JSON.stringify(missing)} in:\n${(await text()).slice(0, 1500)}`);
  });
}

// The bytes of an answer's body as they come over the network.
function size(target) {
  return new Promise((done, fail) => {
    http.get(agent.origin + target, {headers: {'Accept-Encoding': 'gzip'}}, (answer) => {
      let bytes = 0;
      answer.on('data', (part) => { bytes += part.length; });
      answer.on('end', () => done({bytes, status: answer.statusCode}));
    }).on('error', fail);
  });
}

test('opens with few bytes and few requests, all to the agent', async (t) => {
  await untilShown(shows.overview);
  await page.locator('.live', {hasText: 'live'}).waitFor();
  const files = fs.readdirSync(path.join(root, 'src/page')).map((name) => '/page/' + name);
  let bytes = (await size('/')).bytes;
  for (const file of [...files, '/page/dygraph.js']) {
    const one = await size(file);
    assert.equal(one.status, 200, file);
    bytes += one.bytes;
  }
  const requests = page.seen.requests.filter((url) => !url.startsWith('blob:'));
  const paint = await page.evaluate(() => Math.round(performance.getEntriesByName('first-contentful-paint')[0].startTime));
  t.diagnostic(`${bytes} bytes of ${mostBytes}, packed, with every view; ${requests.length} requests of ${mostRequests} for the first; first paint after ${paint} ms`);
  assert.ok(bytes <= mostBytes, `${bytes} bytes`);
  assert.ok(requests.length <= mostRequests, `${requests.length} requests:\n${requests.join('\n')}`);
  checkSeen(page, agent);
});

test('has every view, in each theme and at the width of a phone', async () => {
  for (const view of views) {
    await page.setViewportSize({width: 1280, height: 800});
    await page.emulateMedia({colorScheme: 'dark'});
    await page.locator(`nav a[href^="#/${view}"]`).first().click();
    await page.locator(`nav a[href^="#/${view}"][aria-current="page"]`).waitFor();
    await untilShown(shows[view]);
    await checkAccess(page, `${view}, dark`);
    await checkWidth(page, view);
    await shot(page, `${view}-dark`);
    await page.emulateMedia({colorScheme: 'light'});
    await checkAccess(page, `${view}, light`);
    await shot(page, `${view}-light`);
    await page.setViewportSize({width: 390, height: 800});
    await checkWidth(page, `${view}, 390 px`);
    await shot(page, `${view}-390`);
  }
  await page.setViewportSize({width: 1280, height: 800});
  checkSeen(page, agent);
});

test('leads from the node to a GPU, its process, its pod and its engine, and back', async () => {
  await go('overview');
  await page.locator('main a[href^="#/gpus/0"]').first().click();
  await untilShown(['GPU 0', 'VLLM::Worker_TP']);
  await checkAccess(page, 'a GPU');
  await shot(page, 'gpu-dark');
  await page.locator('main table a', {hasText: /^\d+$|VLLM/}).first().click();
  await page.waitForURL(/#\/gpus\/.+/);
  await untilShown(['VLLM::Worker_TP']);
  await page.locator('main a', {hasText: 'chat-a-7d9f6c5b8'}).first().click();
  await untilShown(['storefront', 'chat-a']);
  await shot(page, 'pod-dark');
  await page.locator('main a[href^="#/engines/"]').first().click();
  await page.waitForURL(/#\/engines\/chat-a/);
  await untilShown(['Llama-3.3-70B', 'pod chat-a', 'TTFT']);
  await checkAccess(page, 'an engine');
  await shot(page, 'engine-dark');
  await page.locator('main a[href^="#/gpus/1"]').first().click();
  await untilShown(['GPU 1']);
  await page.goBack();
  await page.waitForURL(/#\/engines\/chat-a/);
  await go('experiments');
  await page.locator('main a', {hasText: 'ft-8b'}).click();
  await untilShown(['Metrics', 'loss', '1,499']);
  assert.ok(await page.locator('svg.curve path').getAttribute('d').then((d) => d.length > 3000), 'a curve of points');
  await checkAccess(page, 'a run');
  await shot(page, 'run-dark');
  checkSeen(page, agent);
});

test('an address that was sent opens the same view', async () => {
  const other = await openPage(browser, agent, '/#/engines/search-c?window=15m');
  await other.locator('h2', {hasText: 'search-c'}).waitFor();
  await other.locator('button[aria-pressed="true"]', {hasText: '15 m'}).waitFor();
  checkSeen(other, agent);
  await other.context().close();
});

test('keys do what the list of keys says', async () => {
  await go('overview');
  for (const [i, view] of views.entries()) {
    await page.keyboard.press(String(i + 1));
    await page.locator(`nav a[href^="#/${view}"][aria-current="page"]`).waitFor();
  }
  await page.keyboard.press('3');
  await untilShown(['search-c']);
  await page.keyboard.press('/');
  await page.keyboard.type('search-c');
  await until(async () => !(await text()).includes('kv-store'), 'a filtered list');
  await page.keyboard.press('Escape');
  await untilShown(['kv-store']);
  await page.keyboard.press('?');
  await page.locator('dialog[open]').waitFor();
  await checkAccess(page, 'the list of keys');
  await page.keyboard.press('Escape');
  await page.locator('dialog[open]').waitFor({state: 'detached'});
  await page.keyboard.press('t');
  await page.locator('button[aria-pressed="true"]', {hasText: '15 m'}).waitFor();
  await page.keyboard.press('t');
  await page.locator('button[aria-pressed="true"]', {hasText: '1 h'}).waitFor();
  await page.keyboard.press('t');
  await page.locator('button[aria-pressed="true"]', {hasText: /^5 m/}).waitFor();
  await page.keyboard.press('p');
  await page.locator('.live', {hasText: 'PAUSED'}).waitFor();
  await page.keyboard.press('p');
  await page.locator('.live', {hasText: 'live'}).waitFor();
  const themes = new Set();
  for (let i = 0; i < 3; i++) {
    await page.keyboard.press('d');
    themes.add(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
  }
  assert.equal(themes.size, 2, 'dark and light');
  // Everything that a pointer reaches is reached by Tab, visibly.
  await go('engines');
  await untilShown(['chat-a']);
  await page.locator('nav a').first().focus();
  const reached = [];
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press('Tab');
    reached.push(await page.evaluate(() => {
      const element = document.activeElement;
      const style = getComputedStyle(element);
      return {what: (element.getAttribute('href') || element.textContent || '').slice(0, 40), seen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0};
    }));
  }
  assert.ok(reached.some(({what}) => what.startsWith('#/engines/chat-a')), JSON.stringify(reached.map(({what}) => what)));
  assert.deepEqual(reached.filter(({seen}) => !seen).map(({what}) => what), [], 'the focus is visible');
  checkSeen(page, agent);
});

// Series of a page of metrics: [{name, labels}].
function seriesOf(metrics) {
  return metrics.split('\n').map((line) => /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? /.exec(line)).filter(Boolean).map(([, name, labels]) => ({
    name, labels: Object.fromEntries([...(labels || '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, value]) => [key, value]))}));
}

test('a chart copies as PromQL that the agent\'s own page satisfies, and saves all its samples', async () => {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], {origin: agent.origin});
  for (const [view, least] of [['overview', 3], ['engines/chat-a', 5]]) {
    await go(view);
    await untilShown([view === 'overview' ? 'GPU 7' : 'TTFT']);
    const charts = page.locator('figure.chart:has(summary)');
    await until(async () => (await charts.count()) >= least, 'charts');
    for (let i = 0; i < await charts.count(); i++) {
      const chart = charts.nth(i);
      await chart.scrollIntoViewIfNeeded();
      const title = await chart.locator('.chart-title').innerText();
      await until(async () => (await chart.locator('.legend button').count()) > 0, `series of ${title}`);
      await chart.locator('summary').click();
      await page.evaluate(() => navigator.clipboard.writeText(''));
      await chart.getByText('Copy as PromQL').click();
      const query = await until(() => page.evaluate(() => navigator.clipboard.readText()), 'a query');
      const selectors = [...query.matchAll(/([a-zA-Z_:]\w*_\w*)(?:\{((?:"(?:[^"\\]|\\.)*"|[^}])*)\})?/g)].map(([, name, matchers]) => [name, name, matchers || '']);
      assert.ok(selectors.length, `${title}: ${query}`);
      for (const [, name, matchers] of selectors) {
        const wanted = [...matchers.matchAll(/(\w+)(=~?)"((?:[^"\\]|\\.)*)"/g)];
        await until(async () => seriesOf((await agent.get('/metrics')).text).some((one) => one.name === name && wanted.every(([, key, operator, value]) =>
          (operator === '=' ? one.labels[key] === value : new RegExp(`^(?:${value.replace(/\\\\/g, '\\')})$`).test(one.labels[key] || '')))),
        `${title}: a series at /metrics that is ${name}{${matchers}}`);
      }
    }
  }
  await go('overview');
  const chart = page.locator('figure.chart', {hasText: 'Power'}).first();
  await chart.scrollIntoViewIfNeeded();
  await until(async () => / W/.test(await chart.locator('.legend').innerText()) && await chart.locator('.nodata').isHidden(), 'samples');
  await chart.locator('summary').click();
  const [saved] = await Promise.all([page.waitForEvent('download'), chart.getByText('Download CSV').click()]);
  const lines = fs.readFileSync(await saved.path(), 'utf8').trim().split(/\r?\n/);
  const head = lines[0];
  for (let gpu = 0; gpu < 8; gpu++) assert.ok(head.includes(`GPU ${gpu}`) || lines.some((line) => line.includes(`GPU ${gpu}`)), `GPU ${gpu} in ${head}`);
  const history = await agent.json('/api/history?select=gpu.power.draw{gpu.index="0"}&window=5m');
  const samples = history.series[0].at.length;
  const rows = head.includes('GPU 0') ? lines.length - 1 : (lines.length - 1) / 8;
  assert.ok(rows >= samples - 5, `${rows} rows for ${samples} samples`);
  checkSeen(page, agent);
});

test('shows a stopped engine as down and goes on when it is back', async () => {
  await go('engines');
  await untilShown(['search-c']);
  await agent.command('sim', 'stop', 'engine=search-c');
  await agent.command('sim', 'fail', 'gpu=3', 'mode=fallen_off_bus');  // for the next test: it takes seconds to be seen
  const row = page.locator('main tbody tr', {hasText: 'search-c'}).first();
  await until(async () => (await row.innerText()).includes('down'), 'the word down', 30000);
  await row.locator('a').first().click();
  await untilShown(['search-c does not answer', 'sglang', 'GPUs 4']);
  await shot(page, 'engine-down-dark');
  await agent.command('sim', 'heal', 'engine=search-c');
  await until(async () => !(await text()).includes('does not answer'), 'the engine', 30000);
  checkSeen(page, agent);
});

test('shows a lost GPU first, with what to do, and its event explained', async () => {
  await go('overview');
  await until(async () => /GPU 3 is lost/.test(await page.locator('.problems').innerText()), 'the fault', 30000);
  await page.locator('.faults', {hasText: 'fault'}).waitFor();
  await shot(page, 'lost-gpu-dark');
  await checkAccess(page, 'a lost GPU');
  await go('gpus/3');
  await untilShown(['GPU 3', 'lost']);
  await shot(page, 'lost-gpu-one-dark');
  await go('events');
  await page.getByLabel('GPU', {exact: true}).selectOption('3');  // the demo has XIDs of its own
  const event = page.locator('details.event', {hasText: 'gpu.xid'}).first();
  await event.waitFor({timeout: 20000});
  await event.locator('summary').click();
  await untilShown(['Reboot the machine.', 'GPU no longer answers on PCIe']);
  await checkAccess(page, 'an event');
  await shot(page, 'event-dark');
  await agent.command('sim', 'heal');
  await go('overview');
  await until(async () => !/GPU 3 is lost/.test(await text()), 'the GPU', 30000);
  checkSeen(page, agent);
});

test('says when the agent is away, draws nothing on, and goes on when it is back', async () => {
  await go('overview');
  await page.evaluate(() => { window.before = true; });
  await agent.stop('SIGKILL');
  const bar = page.locator('.bar');
  await bar.waitFor({timeout: 20000});
  await until(async () => /no data for \d+ s|does not answer/.test(await bar.innerText()), 'a count');
  const drawn = () => page.evaluate(() => [...document.querySelectorAll('figure.chart canvas')].map((canvas) => canvas.toDataURL()).join());
  // The panel asks each 10 s; when it is shorter, charts below it come into view and are drawn.
  await until(async () => (await page.locator('.why').innerText()).includes('Not known'), 'a panel that knows nothing');
  await new Promise((done) => setTimeout(done, 1500));  // what was under way
  const first = await drawn();
  await new Promise((done) => setTimeout(done, 2500));
  assert.ok(await drawn() === first, 'charts stand still');
  await shot(page, 'away-dark');
  await checkAccess(page, 'the agent is away');
  await agent.start();
  await bar.waitFor({state: 'hidden', timeout: 20000});
  await page.locator('.live', {hasText: 'live'}).waitFor({timeout: 20000});
  await untilShown(shows.overview);
  assert.equal(await page.evaluate(() => window.before), true, 'the page was not loaded again');
  checkSeen(page, agent, ['WebSocket connection', 'Failed to load resource', 'ERR_CONNECTION']);
});

test('is complete without JavaScript', async () => {
  // The agent was just started again, and its first page comes before the first GPU was read.
  await until(async () => (await (await fetch(agent.origin + '/')).text()).includes('H100'), 'a plain page with GPUs');
  const plain = await openPage(browser, agent, '/', {javaScriptEnabled: false});
  const words = await plain.locator('body').innerText();
  for (const word of ['SIMULATED', 'H100', 'nvidia', '/metrics', 'scrape_configs', 'gpulens doctor']) assert.ok(words.includes(word), word);
  assert.equal(await plain.locator('table').first().locator('tr').count(), 9, 'a head and eight GPUs');
  await plain.locator('a[href="/metrics"]').click();
  assert.ok((await plain.locator('body').innerText()).includes('gpu_power_draw_watts'));
  await plain.context().close();
});
