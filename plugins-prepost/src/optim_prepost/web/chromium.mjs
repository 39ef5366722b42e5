// Opens the page of a run folder in headless Chromium, gives it a sample, and writes down what came out.
// usage: node chromium.mjs request.json answer.json

import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [asked, answered] = process.argv.slice(2);
const request = JSON.parse(fs.readFileSync(asked, 'utf-8'));
const required = createRequire(path.join(request.puppeteer, 'package.json'));
const puppeteer = (await import(pathToFileURL(required.resolve('puppeteer-core')).href)).default;

const browser = await puppeteer.launch({
  executablePath: request.browser, headless: true, userDataDir: request.profile,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--force-color-profile=srgb'],
});
let answer;
try {
  const page = await browser.newPage();
  await page.setViewport({ width: 900, height: 640, deviceScaleFactor: 1 });
  const outside = [];
  const said = [];
  page.on('request', (one) => { if (!/^(data|blob):/.test(one.url()) && !one.url().startsWith(request.url)) outside.push(one.url()); });
  page.on('pageerror', (error) => said.push(String(error)));
  await page.goto(request.url);
  await page.waitForFunction(() => document.body.dataset.ready || document.body.dataset.done, { timeout: 120000 });
  const failure = await page.evaluate(() => document.querySelector('.error')?.textContent ?? '');
  if (failure) throw new Error(failure);
  answer = { outputs: request.file ? await byPicker(page) : await byModule(page) };
  if (outside.length) throw new Error(`the page asked for ${outside[0]}, which is not in its folder`);
  if (said.length) throw new Error(said[0]);
  if (request.screenshot) await page.screenshot({ path: request.screenshot });
} catch (error) {
  answer = { error: String(error?.message ?? error) };
} finally {
  await browser.close();
}
fs.writeFileSync(answered, JSON.stringify(answer));

async function byPicker(page) {
  await (await page.$('#file')).uploadFile(request.file);
  await page.waitForFunction(() => document.body.dataset.done, { timeout: 120000 });
  const failure = await page.evaluate(() => document.querySelector('.error')?.textContent ?? '');
  if (failure) throw new Error(failure);
  return page.evaluate(listed, 'last', null);
}

async function byModule(page) {
  return page.evaluate(listed, 'run', request.feeds);
}

async function listed(what, feeds) {
  if (what === 'run') {
    const { loadModel } = await import('./model.mjs');
    globalThis.lastResults = await (await loadModel()).run(feeds);
  }
  const found = {};
  for (const [name, { type, dims, data }] of Object.entries(globalThis.lastResults)) {
    if (dims) found[name] = { type, dims, data: Array.from(data) };
  }
  return found;
}
