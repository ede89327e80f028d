// Contents that attack the page: nothing is executed or loaded, and nothing breaks the layout.

import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, test } from "node:test";

import { launch, openPage, tooWide, wasAttacked, watch } from "./browser.js";
import { HOSTILE_RUN, hostileRuns, LONG_LINE, RUN_IDS } from "./hostile.js";
import { midcourse, newFolder, removeFolder, Server, storeInBulk } from "./program.js";
import { RunPage } from "./run_page.js";

let [folder, server, browser, page, run] = [];

before(async () => {
  folder = newFolder("hostile");
  await storeInBulk(folder, hostileRuns());
  // A line that is neither JSON nor UTF-8 is kept as a record that could not be read.
  const broken = Buffer.from("{\"payload\": <script>alert(1)</script> \xff\xfe\xc0\xaf\n", "latin1");
  await midcourse(folder, ["record", "--run", "unreadable"], [broken]).catch(() => {});
  server = await Server.start(folder);
  browser = await launch();
  page = await openPage(browser, server);
  run = new RunPage(page, server);
});
afterEach(async () => {
  assert.deepEqual(page.incidents, []);
  assert.equal(await wasAttacked(page), false);
});
after(async () => {
  await browser?.close();
  await server?.kill();
  removeFolder(folder);
});

/** Elements that only the content of a run could have made, and links that lead elsewhere. */
function strangers(shown) {
  return shown.evaluate(() => {
    const made = [...document.querySelectorAll("main :is(script, img, iframe, object, embed, form, style, link, meta, base, foreignObject)")];
    const links = [...document.querySelectorAll("a[href]")].filter(({ href }) => new URL(href).origin !== location.origin);
    return [...made, ...links].map((element) => element.outerHTML.slice(0, 200));
  });
}

async function assertSafe(shown, where) {
  assert.deepEqual(await strangers(shown), [], where);
  assert.deepEqual(await tooWide(shown), [], where);
  // Characters that reverse or hide text are shown as marks.
  const hidden = await shown.evaluate(() => /[\u202a-\u202e\u2066-\u2069\u200b\ufeff]/.exec(document.querySelector("main").textContent)?.[0] ?? null);
  assert.equal(hidden, null, `${where}: U+${hidden?.codePointAt(0).toString(16)} is in the text as it is`);
}

for (const width of [1280, 390]) {
  test(`the table is safe, ${width} px wide`, async () => {
    await page.setViewportSize({ width, height: 800 });
    await page.goto(`${server.origin}/`);
    await page.getByRole("link", { name: /Run with the id/ }).first().waitFor();
    await assertSafe(page, "table");
    await page.keyboard.press("G");
    await assertSafe(page, "end of the table");
  });

  test(`every step is safe when it is open, ${width} px wide`, async () => {
    await page.setViewportSize({ width, height: 800 });
    const steps = (await server.steps(HOSTILE_RUN)).filter(({ kind }) => kind !== "turn");
    await run.open(HOSTILE_RUN, steps[0].seq);
    for (const [index, { seq }] of steps.entries()) {
      if (index > 0) await page.keyboard.press("j");
      const step = await run.waitForSelected(seq);
      const closed = step.getByRole("button", { name: "Expand this step" });
      if ((await closed.count()) > 0) await closed.click();
      await step.locator(".step-body").waitFor();
      if (index % 10 === 0 || index > steps.length - 12) await assertSafe(page, `step ${seq}`);
    }
    await assertSafe(page, "end of the run");
  });
}

test("10 MB on one line are cut, and can be had whole", async () => {
  await page.setViewportSize({ width: 1280, height: 800 });
  const { entries } = await server.json(`/api/runs/${HOSTILE_RUN}/entries?from=${await seqOf("cat one-line")}&count=1`);
  const block = entries[0].blocks.find(({ length }) => length >= LONG_LINE);
  assert.ok(block, "the whole line is stored");
  assert.ok(block.is_cut && block.text.length <= 4_100);
  await run.open(HOSTILE_RUN, entries[0].seq);
  const step = await run.waitForSelected(entries[0].seq);
  await assertSafe(page, "cut line");
  const all = step.getByRole("button", { name: /^Show all/ });
  if ((await all.count()) > 0) {
    await all.first().click();
    await page.waitForFunction(() => document.querySelector("article[aria-current=true]").textContent.length > 100_000);
    await assertSafe(page, "whole line");
  }
  const path = `/api/runs/${HOSTILE_RUN}/text/${entries[0].seq}?pointer=${encodeURIComponent(block.pointer)}`;
  const whole = await server.request(path, { Cookie: server.cookie });
  assert.equal(whole.body.length, LONG_LINE);
});

test("runs with odd ids can be opened by link and by address", async () => {
  for (const id of RUN_IDS) {
    await page.goto(`${server.origin}/?text=${encodeURIComponent(id.slice(0, 40))}`);
    const task = `Run with the id ${id.slice(0, 60)}`;
    const links = page.locator("tbody a");
    await links.first().waitFor();
    // An id such as `.` is part of many; the row of this run has its id as the value of its checkbox.
    const row = page.locator("tbody tr").filter({ has: page.locator(`input[value=${JSON.stringify(id)}]`) });
    await row.getByRole("link").click();
    const title = page.getByRole("heading", { level: 1 });
    await title.filter({ hasText: "Run with the id" }).waitFor();
    await run.steps.first().waitFor();
    await page.keyboard.press("j");
    await run.selected.waitFor();
    const address = page.url();
    assert.equal(new URL(address).origin, server.origin, task);
    await page.goto(address);
    await title.filter({ hasText: "Run with the id" }).waitFor();
    await run.selected.waitFor();
    assert.equal(page.url(), address, task);
    assert.deepEqual(await tooWide(page), [], task);
  }
});

test("what could not be read is shown as it is", async () => {
  await run.open("unreadable");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.getByText(/\\xff\\xfe/).first().waitFor();
  await assertSafe(page, "unreadable");
});

test("the messages of midcourse and their reasons are safe", async () => {
  const message = (await server.steps(HOSTILE_RUN)).find(({ kind }) => kind === "message");
  assert.ok(message, "midcourse spoke");
  await run.open(HOSTILE_RUN, message.seq);
  await page.keyboard.press("w");
  await page.getByRole("heading", { name: "What it said" }).waitFor();
  await assertSafe(page, "why");
});

test("search results are safe", async () => {
  await page.goto(`${server.origin}/`);
  await page.keyboard.press("/");
  const dialog = page.getByRole("dialog", { name: "Search" });
  await dialog.getByRole("searchbox").fill("onerror attacked");
  await dialog.getByRole("link").first().waitFor({ timeout: 60_000 });
  await assertSafe(page, "search");
  assert.equal(await dialog.locator("script, img, iframe, svg, style").count(), 0);
});

test("a comparison is safe", async () => {
  await page.goto(`${server.origin}/compare/${HOSTILE_RUN}/unreadable`);
  await page.getByRole("heading", { level: 1 }).waitFor();
  await assertSafe(page, "compare");
});

test("the exported page executes and loads nothing when it is opened from the disk", async () => {
  await run.open(HOSTILE_RUN);
  const downloading = page.waitForEvent("download");
  await page.getByRole("link", { name: "Export HTML" }).click();
  const download = await downloading;
  const file = join(folder, "exported.html");
  await download.saveAs(file);
  assert.ok(statSync(file).size > 1_000);
  const html = readFileSync(file, "utf8");
  assert.doesNotMatch(html, /<script(?! type="application\/json")/i);
  const context = await browser.newContext({ viewport: { width: 390, height: 800 } });
  const exported = await watch(await context.newPage(), "file://");
  await exported.goto(`file://${file}`);
  await exported.getByRole("heading", { level: 1 }).waitFor();
  assert.equal(await wasAttacked(exported), false);
  assert.deepEqual(await tooWide(exported), [], "layout of the exported page");
  assert.deepEqual(exported.incidents, []);
  await context.close();
});

test("the terminal of the server shows no escape of a tool", () => {
  assert.doesNotMatch(server.output, /\u001b\]|\u009b|\u202e/);
});

/** The record of the call with this command. */
async function seqOf(command) {
  for (let from = 0; from !== null; ) {
    const { entries, next } = await server.json(`/api/runs/${HOSTILE_RUN}/entries?from=${from}&count=200`);
    const found = entries.find(({ title }) => title.includes(command));
    if (found) return found.seq;
    from = next;
  }
  throw new Error(`no call ${command}`);
}
