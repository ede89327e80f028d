// One visit of a page in a new browser: when something is painted, when it can be read, the longest
// task, and what happens while somebody scrolls from the start to the end.

import { launch } from "../../tests/browser/browser.js";

/** A page that cannot be read by then is given up. */
const LIMIT_MS = 300_000;
const SCROLL_STEPS = 400;

/**
 * `isReadable` is the text of a function that runs in the page. `settle` may press buttons before
 * the scrolling, and returns figures of its own.
 */
export async function visit({ url, cookies = [], isReadable, settle, limit = LIMIT_MS }) {
  const browser = await launch();
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    await context.addCookies(cookies);
    const page = await context.newPage();
    await page.addInitScript(observe, isReadable);
    await page.goto(url, { waitUntil: "commit" });
    const isThere = await page
      .waitForFunction(() => window.readableAt, null, { timeout: limit, polling: 100 })
      .then(() => true, () => false);
    if (!isThere) return { readable: null, limit };
    await quiet(page);
    const loaded = await figures(page);
    const more = settle ? await settle(page) : {};
    await page.evaluate(() => (window.tasks.length = 0));
    const scrolled = await page.evaluate(scroll, SCROLL_STEPS);
    await quiet(page);
    const { longest } = await figures(page);
    return { ...loaded, ...more, ...scrolled, scrollLongest: longest };
  } finally {
    // A page that hangs does not close by itself.
    await Promise.race([browser.close(), new Promise((done) => setTimeout(done, 5_000))]);
    browser.process?.()?.kill("SIGKILL");
  }
}

/** Runs in the page before its own scripts. */
function observe(isReadable) {
  window.tasks = [];
  new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map(({ startTime, duration }) => [startTime, duration])))
    .observe({ type: "longtask", buffered: true });
  const test = new Function(`return (${isReadable})()`);
  const look = () => {
    if (document.body && test()) requestAnimationFrame(() => setTimeout(() => (window.readableAt = performance.now())));
    else setTimeout(look, 10);
  };
  look();
}

/** Waits until no long task has ended for two seconds. */
async function quiet(page) {
  await page.waitForFunction(() => {
    const last = window.tasks.at(-1);
    return performance.now() - Math.max(window.readableAt, last ? last[0] + last[1] : 0) > 2_000;
  }, null, { timeout: 120_000, polling: 200 });
}

function figures(page) {
  return page.evaluate(() => ({
    painted: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
    readable: window.readableAt,
    longest: Math.max(0, ...window.tasks.map(([, duration]) => duration)),
    heap: performance.memory?.usedJSHeapSize ?? null,
    elements: document.querySelectorAll("*").length,
  }));
}

/** Runs in the page: scrolls whatever is longest, one step in every other frame. */
async function scroll(steps) {
  const canScroll = (element) => element.scrollHeight - element.clientHeight;
  let box = document.scrollingElement;
  for (const element of document.querySelectorAll("*")) {
    if (canScroll(element) > canScroll(box) && /auto|scroll/.test(getComputedStyle(element).overflowY)) box = element;
  }
  const frame = () => new Promise(requestAnimationFrame);
  let slowest = 0;
  let before = await frame();
  for (let step = 1; step <= steps; step += 1) {
    box.scrollTop = (canScroll(box) * step) / steps;
    for (let wait = 0; wait < 2; wait += 1) {
      const now = await frame();
      slowest = Math.max(slowest, now - before);
      before = now;
    }
  }
  return { height: box.scrollHeight, slowestFrame: slowest };
}
