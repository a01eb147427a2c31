// The view of the fleet, at a gateway that got data of 150 nodes: one with a fault, one with a hostile name.
import assert from 'node:assert/strict';
import test from 'node:test';

import {Agent, checkAccess, checkSeen, checkWidth, openPage, shot, startBrowser, until} from './harness.mjs';

const hostile = '<img src=x onerror="document.title=\'owned\'">\u202e';

const attribute = (key, value) => ({key, value: typeof value === 'number' ? {intValue: String(value)} : {stringValue: value}});
const gauge = (name, value, ...attributes) =>
  ({name, gauge: {dataPoints: [{asDouble: value, timeUnixNano: String(BigInt(Date.now()) * 1000000n), attributes}]}});

function metricsOf(name, number) {
  const gpus = [0, 1].flatMap((index) => {
    const of = [attribute('gpu.index', index), attribute('gpu.uuid', `GPU-${number}-${index}`)];
    const state = number === 42 && index === 1 ? 'lost' : 'ok';
    const known = [gauge('gpu.info', 1, ...of, attribute('gpu.model', number % 2 ? 'B200' : 'H100')),
      gauge('gpu.state', 1, ...of, attribute('gpu.state', state), attribute('k8s.pod.name', name), attribute('k8s.namespace.name', 'prod'))];
    return state === 'lost' ? known : [...known, gauge('gpu.power.draw', 300 + number, ...of), gauge('gpu.utilization', 0.5, ...of)];
  });
  return {resource: {attributes: [attribute('host.name', name), attribute('rack', `r${number % 3}`), attribute('k8s.cluster.name', 'c1')]},
    scopeMetrics: [{metrics: gpus}]};
}

test('the fleet', async (t) => {
  const receiver = Number(process.env.GPULENS_RECEIVER_PORT);
  const gateway = await new Agent({arguments: ['--demo'], config: `
receivers: {otlp: {http: {listen: ["127.0.0.1:${receiver}"]}, grpc: {listen: []}}}
sinks: {do_nothing: {}}
fleet: {node_url: "https://{name}:9091/", dashboards: "https://grafana.example.org/grafana"}
`}).start();
  const browser = await startBrowser();
  t.after(async () => { await browser.close(); await gateway.end(); });
  const names = [...Array(149).keys()].map((number) => `n${number}`).concat(hostile);
  const sent = await fetch(`http://127.0.0.1:${receiver}/v1/metrics`, {method: 'POST', headers: {'Content-Type': 'application/json'},
    body: JSON.stringify({resourceMetrics: names.map(metricsOf)})});
  assert.equal(sent.status, 200, await sent.text());

  const page = await openPage(browser, gateway, '/#/fleet');
  const rows = page.locator('main tbody tr');
  await until(async () => await rows.count() === 100, 'a hundred rows');
  await t.test('worst first, a hundred of all', async () => {
    assert.match(await rows.first().textContent(), /^n42✖ faultGPU 1 lost/);
    assert.match(await page.locator('main').textContent(), /100 of 150 shown, worst first/);
    assert.equal(await rows.nth(1).locator('td').nth(4).textContent(), '–', 'memory that nobody sent is unknown');
    await page.getByRole('button', {name: 'show up to'}).click();
    await until(async () => await rows.count() === 150, 'all rows');
  });
  await t.test('names from outside are text, links are http', async () => {
    const texts = await rows.locator('th').allTextContents();
    assert.ok(texts.includes('<img src=x onerror="document.title=\'owned\'">\ufffd'), 'the hostile name');
    assert.doesNotMatch(await page.title(), /owned/);
    const links = await page.locator('main a').evaluateAll((all) => all.map((one) => one.href));
    assert.ok(links.includes('https://n42:9091/'));
    assert.ok(links.some((link) => link.startsWith('https://grafana.example.org/grafana/d/gpulens-node?var-cluster=c1&var-node=n42')));
    assert.deepEqual(links.filter((link) => !/^https?:\/\//.test(link)), []);
  });
  await t.test('a filter, groups, one node', async () => {
    await page.keyboard.press('/');
    await page.keyboard.type('n14');
    await until(async () => await rows.count() === 10, 'n14, n140 … n148');
    await page.keyboard.press('Escape');
    await page.getByRole('button', {name: 'by model'}).click();
    await until(async () => await rows.count() === 2, 'two models');
    assert.match(await rows.first().textContent(), /^H100✖ fault75/);
    await page.getByRole('button', {name: 'by rack'}).click();
    await until(async () => await rows.count() === 3, 'three racks');
    await page.getByLabel('grouped by').getByRole('button', {name: 'nodes'}).click();
    await page.getByRole('link', {name: 'n42', exact: true}).click();
    await until(async () => /GPU 1: lost/.test(await page.locator('.problems').textContent()), 'the node');
    assert.equal(await rows.first().locator('td').nth(4).textContent(), '342 W');
  });
  await t.test('it can be read by all, and at the width of a phone', async () => {
    await checkAccess(page, 'a node');
    await shot(page, 'fleet-node');
    await page.goto(gateway.origin + '/#/fleet');
    await until(async () => await rows.count() === 100, 'the nodes again');
    await checkAccess(page, 'the fleet');
    await shot(page, 'fleet');
    await page.setViewportSize({width: 390, height: 800});
    await checkWidth(page, 'the fleet');
    checkSeen(page, gateway);
  });
});
