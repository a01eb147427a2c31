// Looks at the page with chromium: node demo_views.mjs CHROMIUM URL labels
//                                   node demo_views.mjs CHROMIUM URL shot FILE dark|light WIDTH HEIGHT
// Prints JSON. Labels are what the page writes itself: names of views, tiles, sections and charts.
import {createRequire} from 'node:module';
import path from 'node:path';
import {fileURLToPath} from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const {chromium} = createRequire(path.join(root, 'build/page_tests/package.json'))('playwright-core');
const [executablePath, url, what, file, colorScheme, width, height] = process.argv.slice(2);

const browser = await chromium.launch({executablePath, args: ['--no-sandbox', '--disable-gpu']});
try {
  const page = await browser.newPage({viewport: {width: Number(width) || 1280, height: Number(height) || 900}, colorScheme: colorScheme || 'dark', reducedMotion: 'reduce'});
  await page.goto(url);
  await page.locator('.verdict .bad').first().waitFor({timeout: 20000});
  await page.waitForTimeout(2500);  // charts have been drawn with all their samples
  if (what === 'shot') {
    await page.screenshot({path: file});
    console.log('{}');
  } else {
    const found = await page.evaluate(() => {
      const texts = (selector) => [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility()).map((one) => one.textContent.trim());
      return [...new Set([...texts('nav a:not([hidden])').map((text) => 'view ' + text), ...texts('.tile .label').map((text) => 'tile ' + text),
        ...texts('main h3').map((text) => 'section ' + text), ...texts('.chart-title').map((text) => 'chart ' + text)])].sort();
    });
    console.log(JSON.stringify(found));
  }
} finally {
  await browser.close();
}
