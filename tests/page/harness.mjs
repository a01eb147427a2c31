// Starts agents and Debian's chromium for the tests of the page, and reports what a page did: errors, violations of
// its Content-Security-Policy, and every request. test_page.py gives the ports and the folder.
import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import fs from 'node:fs';
import {createRequire} from 'node:module';
import os from 'node:os';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import zlib from 'node:zlib';

export const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..');
const modules = createRequire(path.join(root, 'build/page_tests/package.json'));
const {chromium} = modules('playwright-core');
const axeSource = fs.readFileSync(modules.resolve('axe-core/axe.min.js'), 'utf8');

const binary = process.env.GPULENS_BIN || path.join(root, 'build/release/gpulens');
const ports = (process.env.GPULENS_PAGE_PORTS || '').split(',').filter(Boolean).map(Number);
const shots = process.env.GPULENS_PAGE_SHOTS;  // a folder for screenshots; none: they are not made

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// Calls `question` until its answer is true, and returns it.
export async function until(question, what, ms = 20000) {
  const end = Date.now() + ms;
  for (;;) {
    const answer = await question();
    if (answer) return answer;
    assert.ok(Date.now() < end, `${what} did not come within ${ms} ms`);
    await sleep(50);
  }
}

// `gpulens agent` with a folder, ports and a control socket of its own. stop() and start() keep them.
export class Agent {
  constructor(options = {}) {
    assert.ok(ports.length >= 2, 'no ports left: GPULENS_PAGE_PORTS, which test_page.py sets');
    this.port = ports.shift();
    this.streamPort = ports.shift();
    this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'gpulens-page-'));
    fs.mkdirSync(path.join(this.folder, 'state'));
    fs.writeFileSync(path.join(this.folder, 'gpulens.yaml'), options.config || '');
    this.socket = path.join(this.folder, 'control.sock');
    this.origin = `http://127.0.0.1:${this.port}`;
    this.arguments = ['agent', '--config', path.join(this.folder, 'gpulens.yaml'), '--http-listen',
      `127.0.0.1:${this.port}`, '--ws-listen', `127.0.0.1:${this.streamPort}`, ...(options.arguments || [])];
    this.environment = {
      ...process.env, HOME: this.folder, GPULENS_DISCOVERY_LOCAL_ENABLED: 'false',
      STATE_DIRECTORY: path.join(this.folder, 'state'), GPULENS_CONTROL_SOCKET: this.socket,
      GPULENS_EXPERIMENTS_DB: path.join(this.folder, 'experiments.db'), ...options.environment,
    };
    this.authorization = options.authorization;
  }

  async start() {
    const log = fs.openSync(path.join(this.folder, 'stderr'), 'a');
    this.process = spawn(binary, this.arguments, {env: this.environment, stdio: ['ignore', 'ignore', log]});
    fs.closeSync(log);
    this.ended = new Promise((done) => this.process.once('exit', (code) => done(code)));
    await until(async () => {
      assert.equal(this.process.exitCode, null, `the agent ended: ${this.log()}`);
      return (await this.get('/-/ready')).status === 200 && (await this.get('/metrics')).status !== 503;
    }, 'a first page');
    return this;
  }

  log() { return fs.readFileSync(path.join(this.folder, 'stderr'), 'utf8'); }

  async get(target, headers = {}) {
    const authorization = this.authorization ? {Authorization: this.authorization} : {};
    try {
      const answer = await fetch(this.origin + target, {headers: {...authorization, ...headers}});
      return {status: answer.status, headers: answer.headers, text: await answer.text()};
    } catch {
      return {status: 0, text: ''};
    }
  }
  async json(target) {
    const answer = await this.get(target);
    assert.equal(answer.status, 200, `${target}: ${answer.text}`);
    return JSON.parse(answer.text);
  }

  // A command of gpulens for this agent; its output.
  command(...words) {
    return new Promise((done, fail) => {
      const child = spawn(binary, words, {env: this.environment});
      let output = '';
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes) => { output += bytes; });
      child.once('exit', (code) => (code === 0 ? done(output) : fail(new Error(`${words.join(' ')}: ${code} ${output}`))));
    });
  }

  async stop(signal = 'SIGTERM') {
    if (!this.process || this.process.exitCode !== null || this.process.signalCode !== null) return null;
    this.process.kill(signal);
    return this.ended;
  }
  async end() {
    await this.stop();
    fs.rmSync(this.folder, {recursive: true, force: true});
  }
}

export function startBrowser() {
  const executable = process.env.GPULENS_CHROMIUM || '/usr/bin/chromium';
  return chromium.launch({executablePath: executable, args: ['--no-sandbox', '--disable-gpu']});
}

// A page in a context of its own. `page.seen` has what it did.
export async function openPage(browser, agent, target = '/', options = {}) {
  const context = await browser.newContext({viewport: {width: 1280, height: 800}, colorScheme: 'dark', ...options});
  const page = await context.newPage();
  const seen = {errors: [], violations: [], requests: [], sockets: []};
  page.seen = seen;
  page.on('console', (message) => { if (message.type() === 'error') seen.errors.push(`${message.text()} ${message.location().url}`); });
  page.on('pageerror', (error) => seen.errors.push(String(error)));
  page.on('request', (request) => seen.requests.push(request.url()));
  page.on('websocket', (socket) => seen.sockets.push(socket.url()));
  await context.exposeFunction('reportViolation', (text) => seen.violations.push(text));
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) =>
      window.reportViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
  });
  await page.goto(agent.origin + target);
  return page;
}

// Fails unless everything the page asked for came from its own agent and nothing went wrong. `allowed`: errors
// that are expected, as texts that they contain.
export function checkSeen(page, agent, allowed = []) {
  const unexpected = page.seen.errors.filter((error) => !allowed.some((text) => error.includes(text)));
  assert.deepEqual(unexpected, [], 'errors of the page');
  assert.deepEqual(page.seen.violations, [], 'violations of the Content-Security-Policy');
  const own = [agent.origin + '/', agent.origin.replace('http', 'ws') + '/'];
  const elsewhere = [...page.seen.requests, ...page.seen.sockets].filter(
    (url) => !own.some((start) => url.startsWith(start)) && !url.startsWith('data:') && !url.startsWith('blob:'));
  assert.deepEqual(elsewhere, [], 'requests to elsewhere');
}

// Runs axe-core; fails with each violation, the element and what would help.
export async function checkAccess(page, what) {
  await page.evaluate(axeSource);
  const found = await page.evaluate(() => window.axe.run(document, {
    runOnly: {type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']},
  }));
  const problems = found.violations.map(({id, nodes: [first, ...more]}) =>
    `${id}: ${first.html.slice(0, 160)} — ${first.failureSummary.split('\n').slice(1, 3).join(';').trim()}${more.length ? `, and ${more.length} more` : ''}`);
  assert.ok(problems.length === 0, `axe-core: ${what}:\n${problems.join('\n')}`);
}

// The body is not wider than the window.
export async function checkWidth(page, what) {
  const [wide, window] = await page.evaluate(() => [
    Math.max(document.documentElement.scrollWidth, document.body.scrollWidth), document.documentElement.clientWidth]);
  if (wide <= window) return;
  const widest = await page.evaluate((limit) => [...document.querySelectorAll('body *')]
    .filter((e) => e.getBoundingClientRect().right > limit + 1)
    .slice(0, 5).map((e) => `${e.tagName}.${e.className} ${Math.round(e.getBoundingClientRect().right)}`), window);
  assert.fail(`${what}: the body is ${wide} px wide in a window of ${window}: ${widest.join(', ')}`);
}

export async function shot(page, name) {
  if (shots) await page.screenshot({path: path.join(shots, `${name}.png`), fullPage: true});
}

export const gzipped = (text) => zlib.gzipSync(text, {level: 9}).length;
