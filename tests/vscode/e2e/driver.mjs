// Drives one page of a headless Chromium for the tests: a command per line on standard input, an answer per line on
// standard output. It knows of pages only; what VS Code is made of is written in the tests (browser.py).
import { createRequire } from 'node:module';
import readline from 'node:readline';

const { modules, chromium: executablePath } = JSON.parse(process.argv[2]);
const { chromium } = createRequire(`${modules}/`)('playwright-core');

const QUIET = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

const browser = await chromium.launch({ executablePath, headless: true, args: QUIET });
const page = await browser.newPage({ viewport: { width: 1280, height: 860 } });
// What the page complains of goes into the browser's log, for the report of a failure.
page.on('pageerror', (error) => process.stderr.write(`${error}\n`));
page.on('console', (line) => { if (line.type() === 'error') process.stderr.write(`${line.text()}\n`); });

const located = ({ selector, text }) => (text ? page.locator(selector, { hasText: text }) : page.locator(selector));

/**
 * The workbench page carries its options in an attribute: add some, as a host of VS Code would (editor 1). It is
 * done in the page, between its markup and its modules: Chromium holds a page that was answered by anything but the
 * server for a stranger, and a stranger may not open sockets to this machine.
 */
function addOptions(options) {
  const add = (_, watch) => {
    const mark = document.getElementById('vscode-workbench-web-configuration');
    if (!mark) return;
    watch.disconnect();
    mark.dataset.settings = JSON.stringify({ ...JSON.parse(mark.dataset.settings), ...options });
  };
  new MutationObserver(add).observe(document, { childList: true, subtree: true });
}

const MARGIN = 8;

/** The part of the page that these places take up together. */
async function around(selectors) {
  const boxes = await Promise.all(selectors.map((selector) => page.locator(selector).filter({ visible: true }).last().boundingBox()));
  const found = boxes.filter((box) => box !== null);
  if (found.length < selectors.length) throw new Error(`not all of these are shown: ${selectors}`);
  const { width, height } = page.viewportSize();
  const [left, top] = ['x', 'y'].map((side) => Math.max(0, Math.min(...found.map((box) => box[side])) - MARGIN));
  const right = Math.min(width, Math.max(...found.map((box) => box.x + box.width)) + MARGIN);
  const bottom = Math.min(height, Math.max(...found.map((box) => box.y + box.height)) + MARGIN);
  return { x: left, y: top, width: right - left, height: bottom - top };
}

const METHODS = {
  async open({ url, options }) {
    if (options) await page.addInitScript(addOptions, options);
    await page.goto(url, { waitUntil: 'domcontentloaded' });
  },
  wait: ({ state, limit, ...place }) => located(place).first().waitFor({ state: state ?? 'visible', timeout: limit }),
  click: ({ limit, ...place }) => located(place).last().click({ timeout: limit }),
  hover: ({ limit, ...place }) => located(place).last().hover({ timeout: limit }),
  press: ({ keys }) => page.keyboard.press(keys),
  type: ({ text }) => page.keyboard.insertText(text),
  texts: (place) => located(place).allInnerTexts(),
  attributes: ({ name, ...place }) => located(place).evaluateAll((all, key) => all.map((one) => one.getAttribute(key)), name),
  loaded: (place) => located(place).evaluateAll((all) => all.map((one) => one.complete && one.naturalWidth > 0)),
  // Pages of markdown are frames in frames of the page.
  frames: () => Promise.all(page.frames().map((frame) => frame.evaluate(() => document.body?.innerText ?? '').catch(() => ''))),
  async drag({ from, to }) {
    await page.mouse.move(...from);
    await page.mouse.down();
    await page.mouse.move(...to, { steps: 5 });
    await page.mouse.up();
  },
  box: (place) => located(place).first().boundingBox(),
  screenshot: async ({ path, selectors }) =>
    page.screenshot({ path, animations: 'disabled', clip: selectors?.length ? await around(selectors) : undefined }),
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { method, ...fields } = JSON.parse(line);
  let reply;
  try {
    reply = { result: (await METHODS[method](fields)) ?? null };
  } catch (error) {
    reply = { error: String(error.message ?? error) };
  }
  if (Buffer.isBuffer(reply.result)) reply.result = null;
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}
await browser.close();
