// The page in states that nobody wants: hostile names, no permission, no GPU, no engine.
import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import {after, before, test} from 'node:test';

import {Agent, checkAccess, checkSeen, checkWidth, openPage, shot, startBrowser, until} from './harness.mjs';

const script = '<img src=x onerror="window.hacked=1">';
const hostile = [script, `"'><svg onload=window.hacked=1>`, 'javascript:window.hacked=1', '\u202egnp.exe\u2066', 'x'.repeat(10000), '{{7*7}}${7*7}', '花火 ünï'];
// bcrypt of the passwords.
const kHash = {
  secret: '$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW',
  other: '$2b$04$abcdefghijklmnopqrstuu0HtfOlPbTiymk5tcV.3TsFPDd3SYZqu',
};
const views = ['overview', 'gpus', 'engines', 'events', 'energy', 'jobs', 'experiments', 'gpulens'];
const rename = 'import ctypes, sys; ctypes.CDLL(None).prctl(15, bytes.fromhex(sys.argv[1])); print("named", flush=True); sys.stdin.read()';

let browser;
const ends = [];

before(async () => { browser = await startBrowser(); });
after(async () => {
  if (browser) await browser.close();
  for (const end of ends.reverse()) await end();
});

// A process whose name is these bytes; its pid.
async function named(bytes) {
  const child = spawn('python3', ['-c', rename, Buffer.from(bytes).toString('hex')]);
  ends.push(async () => { child.stdin.end(); await new Promise((done) => (child.exitCode === null ? child.once('exit', done) : done())); });
  await new Promise((done) => child.stdout.once('data', done));
  return child.pid;
}

const escaped = (text) => text.replace(/\\/g, '\\\\').replace(/"/g, '\\"').replace(/\n/g, '\\n');

// An engine's page whose models and labels are hostile.
function engine() {
  const lines = ['# TYPE vllm:num_requests_running gauge', '# TYPE vllm:num_requests_waiting gauge', '# TYPE vllm:kv_cache_usage_perc gauge', '# TYPE vllm:generation_tokens_total counter'];
  hostile.forEach((name, i) => {
    const labels = `{model_name="${escaped(name.slice(0, 900))}",engine="${i}"}`;
    lines.push(`vllm:num_requests_running${labels} ${i}`, `vllm:num_requests_waiting${labels} 1`, `vllm:kv_cache_usage_perc${labels} 0.5`, `vllm:generation_tokens_total${labels} ${Date.now() % 1e6}`);
  });
  return Buffer.concat([Buffer.from(lines.join('\n') + '\nvllm:num_requests_running{model_name="'), Buffer.from([0xff, 0xfe]), Buffer.from('",engine="9"} 1\n')]);
}

async function serve(answer) {
  const server = http.createServer((request, response) => {
    response.setHeader('Content-Type', 'text/plain; version=0.0.4');
    response.end(answer());
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  ends.push(() => new Promise((done) => { server.closeAllConnections(); server.close(done); }));
  return server.address().port;
}

async function started(options) {
  const agent = new Agent(options);
  ends.push(() => agent.end());
  return agent.start();
}

test('hostile names are texts: nothing runs, nothing is wider than the window', async () => {
  const pids = [];
  for (const name of [script.slice(0, 15), '"\'><svg/onload', '\u202egnp', Buffer.from([0xff, 0xfe]), 'line\nbreak']) pids.push(await named(name));
  const port = await serve(engine);
  const agent = new Agent({
    config: `interval: 500ms\ncollectors:\n  nvidia: {interval: 500ms}\nresource: {attributes: {"rack": '${script}'}}\n` +
      `targets: [{name: 'x1', kind: vllm, url: 'http://127.0.0.1:${port}/metrics', interval: 500ms, attributes: {tenant: '${script}'}}]\n`,
    arguments: ['--demo'],
  });
  ends.push(() => agent.end());
  const profile = path.join(agent.folder, 'profile.yaml');
  fs.writeFileSync(profile, 'model: H100\ngpus: 2\nprocesses:\n' + pids.map((pid) => `  - {gpu: 0, pid: ${pid}, memory: 1GiB}\n`).join(''));
  agent.environment.GPULENS_FAKE_NVML = profile;
  await agent.start();
  for (const name of hostile) {
    await agent.command('run', '--no-energy', '--name', name.slice(0, 8000), '--tag', 'a=' + name.slice(0, 8000), '--', 'echo', 'loss=1').catch((error) => {
      if (!/too long|UTF-8|control/.test(error.message)) throw error;
    });
  }
  const page = await openPage(browser, agent);
  page.on('dialog', (dialog) => { page.seen.errors.push('a dialog: ' + dialog.message()); dialog.dismiss(); });
  const runs = (await agent.json('/api/experiments')).runs;
  assert.ok(runs.length >= 3, JSON.stringify(runs).slice(0, 300));
  const places = [...views, 'gpus/0', ...pids.map((pid) => `gpus/0/process/${pid}`), 'engines/x1', ...runs.map((run) => 'experiments/' + run.id),
    'engines/' + encodeURIComponent(script), 'gpus/' + encodeURIComponent(script), 'experiments/' + encodeURIComponent(script), encodeURIComponent(script), 'gpus/%E0%A4%A'];
  for (const [i, place] of places.entries()) {
    await page.evaluate((hash) => { location.hash = hash; }, '#/' + place);
    await page.waitForTimeout(i < views.length ? 1200 : 350);
    const what = place.slice(0, 40);
    assert.equal(await page.evaluate(() => window.hacked), undefined, what);
    assert.equal(await page.locator('img, iframe, object, embed, body svg[onload]').count(), 0, what);
    await checkWidth(page, what);
    await page.setViewportSize({width: 390, height: 800});
    await checkWidth(page, what + ', 390 px');
    if (i < 7 || place === 'engines/x1') await shot(page, 'hostile-' + what.replace(/\W/g, '_'));
    await page.setViewportSize({width: 1280, height: 800});
  }
  // Seven models of one engine: sums, the worst, and a line for each.
  await page.evaluate(() => { location.hash = '#/engines/x1'; });
  await until(async () => /KV cache\s+50 %/.test(await page.locator('.tiles').innerText()), 'the fullest of the caches');
  await until(async () => (await page.locator('figure', {hasText: 'KV cache in use'}).locator('.legend button').count()) >= 7, 'a line for each model');
  await page.evaluate(() => { location.hash = '#/experiments'; });
  await until(async () => (await page.locator('main').innerText()).includes(script), 'the name as a text');
  await checkAccess(page, 'hostile names');
  // What is on the page of metrics is read by it, and names are there as texts.
  // What is asked about such a name is refused, or not there.
  checkSeen(page, agent, ['status of 400', 'status of 404']);
  await page.context().close();
});

test('without permission nothing is shown, and a page whose password changed says so', async () => {
  const agent = new Agent();
  ends.push(() => agent.end());
  const web = path.join(agent.folder, 'web.yaml');
  fs.writeFileSync(web, `basic_auth_users: {ada: '${kHash.secret}'}\n`);
  fs.writeFileSync(path.join(agent.folder, 'gpulens.yaml'), `http: {web_config: ${web}}\n`);
  agent.arguments.push('--demo');
  agent.environment.GPULENS_DEMO_SCENARIO = 'none';
  agent.authorization = 'Basic ' + Buffer.from('ada:secret').toString('base64');
  await agent.start();
  const stranger = await (await browser.newContext()).newPage();
  const answer = await stranger.goto(agent.origin + '/').catch(() => null);
  for (const target of ['/', '/page/app.js', '/api/now', '/api/experiments', '/api/explain?event=gpu.xid', '/metrics'])
    assert.equal((await fetch(agent.origin + target)).status, 401, target);
  assert.ok(!answer || answer.status() === 401);
  await stranger.context().close();
  const page = await openPage(browser, agent, '/', {httpCredentials: {username: 'ada', password: 'secret'}});
  await page.locator('.live', {hasText: 'live'}).waitFor({timeout: 20000});
  await agent.stop();
  fs.writeFileSync(web, `basic_auth_users: {ada: '${kHash.other}'}\n`);
  agent.authorization = 'Basic ' + Buffer.from('ada:other').toString('base64');
  await agent.start();
  await page.locator('.bar', {hasText: 'No permission'}).waitFor({timeout: 30000});
  await checkAccess(page, 'no permission');
  await shot(page, 'denied-dark');
  checkSeen(page, agent, ['401', 'WebSocket connection', 'ERR_', 'Failed to load resource']);
  await page.context().close();
});

test('without a GPU and an engine each view says why it is empty and what to do', async () => {
  const agent = await started({config: 'collectors: {nvidia: {enabled: false}, amd: {enabled: false}}\n', environment: {GPULENS_EXPERIMENTS_DB: '/nonexistent/experiments.db'}});
  const page = await openPage(browser, agent);
  const expected = {
    overview: /no GPU/i, gpus: /gpulens agent --demo/, engines: /No engine found[\s\S]*targets:/, events: /No event in the last|events of the last/,
    energy: /gpulens agent --demo/, jobs: /gpulens run --probes/, experiments: /gpulens run[\s\S]*experiments:\s+db:/, gpulens: /host/,
  };
  for (const [view, words] of Object.entries(expected)) {
    await page.evaluate((hash) => { location.hash = hash; }, '#/' + view);
    await until(async () => words.test(await page.locator('main').innerText()), `${view}: ${words}`);
    await checkAccess(page, `${view}, empty`);
    await shot(page, `empty-${view}`);
  }
  checkSeen(page, agent);
  await page.context().close();
});
