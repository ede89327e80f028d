// The page of a run: what it says, its permalinks, its keys, its timeline, and runs of any length.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";

import { launch, openPage } from "./browser.js";
import { newFolder, nights, removeFolder, Server, storeInBulk } from "./program.js";
import { RunPage } from "./run_page.js";
import { LONG_RUN, longRun } from "./stores.js";

const LOOPED = "night-looped";
let [folder, server, browser, page, run, steps] = [];

before(async () => {
  folder = newFolder("run");
  await storeInBulk(folder, await nights());
  await storeInBulk(folder, longRun(process.env.MIDCOURSE_BROWSER_FULL ? 100_000 : 20_000));
  server = await Server.start(folder);
  browser = await launch();
  page = await openPage(browser, server);
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  run = new RunPage(page, server);
  steps = (await server.steps(LOOPED)).filter(({ kind }) => kind !== "turn");
});
afterEach(() => {
  assert.deepEqual(page.incidents, []);
});
after(async () => {
  await browser?.close();
  await server?.kill();
  removeFolder(folder);
});

const isFailed = ({ state }) => state === 1 || state === 2;
const isMessage = ({ kind }) => kind === "message";

test("the head says in words how the run went", async () => {
  await run.open(LOOPED);
  await page.getByRole("heading", { level: 1, name: /Make the integration tests of the billing service pass/ }).waitFor();
  const { headline } = await server.json(`/api/runs/${LOOPED}/report`);
  await page.getByText(headline.split("\n")[0]).first().waitFor();
  for (const fact of ["claude-code", "claude-sonnet-4-5-20250929", "/home/ada/src/billing"]) {
    await page.getByRole("definition").filter({ hasText: fact }).first().waitFor();
  }
  await page.getByRole("link", { name: "Export HTML" }).waitFor();
  await page.getByRole("link", { name: /Review the migrations/ }).first().waitFor();
});

test("the timeline shows the whole run, and says so to a screen reader", async () => {
  await run.open(LOOPED);
  await run.timeline.waitFor();
  assert.equal(await run.timeline.getAttribute("aria-valuemax"), String(steps.length));
  await page.waitForFunction(() => /155 calls, 17 failed/.test(document.querySelector("#timeline-text")?.textContent ?? ""));
  assert.ok((await run.colours()) > 8, "marks of several kinds are painted");
});

test("a step is linked with its mark, both ways", async () => {
  await run.open(LOOPED, steps[20].seq);
  const before = await run.timeline.getAttribute("aria-valuenow");
  await page.keyboard.press("j");
  await page.waitForFunction((was) => document.querySelector("[role=slider]").getAttribute("aria-valuenow") !== was, before);
  // Somewhere in the second half of the row of commands there is a mark.
  const box = await run.timeline.boundingBox();
  const value = async () => Number(await run.timeline.getAttribute("aria-valuenow"));
  for (let x = 0.6; x < 0.95 && (await value()) < Number(before) + 50; x += 0.004) {
    await page.mouse.click(box.x + box.width * x, box.y + box.height * 0.54);
  }
  assert.ok((await value()) > Number(before) + 50, "a click on a mark selects its step");
  await run.waitForSelected(await run.selectedSeq());
});

test("a permalink selects its step, also by the record of the result", async () => {
  const call = steps.filter(({ kind, end }) => kind === "tool" && end > 0).at(-5);
  await run.open(LOOPED, call.seq);
  await run.waitForSelected(call.seq);
  await run.open(LOOPED, call.end);
  await run.waitForSelected(call.seq);
});

test("a permalink of a record that does not exist still shows the run", async () => {
  await run.open(LOOPED, 999_999);
  await page.getByRole("heading", { level: 1 }).waitFor();
});

test("an unknown run says what to do", async () => {
  await page.goto(`${server.origin}/run/no-such-run`);
  await page.getByText(/no such run/).first().waitFor();
  await page.getByRole("link", { name: /runs/i }).first().waitFor();
});

test("back and forward work", async () => {
  await page.goto(`${server.origin}/`);
  await page.getByRole("link", { name: /Make the integration tests/ }).first().click();
  await page.waitForURL(/\/run\/night-looped/);
  await run.steps.first().waitFor();
  await page.keyboard.press("e");
  const seq = steps.find(isFailed).seq;
  await run.waitForSelected(seq);
  await page.goBack();
  await page.waitForURL(`${server.origin}/`);
  await page.getByRole("link", { name: /Make the integration tests/ }).first().waitFor();
  await page.goForward();
  await run.waitForSelected(seq);
});

test("j and k go through the steps", async () => {
  await run.open(LOOPED, steps[3].seq);
  await run.waitForSelected(steps[3].seq);
  await run.press("j", steps[4].seq);
  await run.press("j", steps[5].seq);
  await run.press("k", steps[4].seq);
});

test("e and E go to failed calls, m and M to messages", async () => {
  await run.open(LOOPED, steps[0].seq);
  await run.waitForSelected(steps[0].seq);
  const failed = steps.filter(isFailed);
  for (const { seq } of failed.slice(0, 4)) await run.press("e", seq);
  await run.press("E", failed[2].seq);
  await run.press("g", steps[0].seq);
  const messages = steps.filter(isMessage);
  assert.ok(messages.length >= 2, "the night has messages");
  for (const { seq } of messages) await run.press("m", seq);
  await run.press("M", messages.at(-2).seq);
});

test("p and P go to problems", async () => {
  await run.open(LOOPED, steps[0].seq);
  await page.getByRole("button", { name: "Next problem (p)" }).and(page.locator(":enabled")).waitFor();
  const { trouble } = await server.json(`/api/runs/${LOOPED}/report`);
  await page.keyboard.press("p");
  await page.waitForFunction((first) => document.querySelector("article[aria-current=true]")?.dataset.seq !== first, String(steps[0].seq));
  const seq = await run.selectedSeq();
  assert.ok(seq > steps[0].seq && trouble.length > 0);
  await page.keyboard.press("G");
  await run.waitForSelected(steps.at(-1).seq);
  await page.keyboard.press("P");
  await page.waitForFunction((last) => document.querySelector("article[aria-current=true]")?.dataset.seq !== last, String(steps.at(-1).seq));
});

test("Enter opens and closes a call; its parts are readable", async () => {
  const edit = steps.find(({ tool }) => tool === "Edit");
  await run.open(LOOPED, edit.seq);
  const step = await run.waitForSelected(edit.seq);
  const toggle = step.getByRole("button", { name: /step$/ });
  const was = await toggle.getAttribute("aria-expanded");
  if (was === "true") await page.keyboard.press("Enter");
  await step.locator("[aria-expanded=false]").first().waitFor();
  await page.keyboard.press("Enter");
  await step.locator("[aria-expanded=true]").first().waitFor();
  // A change of a file is shown as removed and added lines.
  await step.getByText(/workaround_pg12\(pool, \d+\)/).first().waitFor();
  await step.getByText(/query\(pool, \d+\)/).first().waitFor();
});

test("t goes to the timeline; plus, minus and 0 zoom", async () => {
  await run.open(LOOPED, steps[40].seq);
  await run.waitForSelected(steps[40].seq);
  await page.keyboard.press("t");
  await page.waitForFunction(() => document.activeElement?.getAttribute("role") === "slider");
  const whole = await picture(run);
  await page.keyboard.press("+");
  await page.keyboard.press("+");
  await waitForPicture(run, (now) => now !== whole);
  await page.keyboard.press("-");
  await page.keyboard.press("0");
  await waitForPicture(run, (now) => now === whole);
  await page.keyboard.press("ArrowRight");
  await run.waitForSelected(steps[41].seq);
});

test("? lists the keys, Escape closes the list", async () => {
  await run.open(LOOPED);
  await page.keyboard.press("?");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  const text = await dialog.innerText();
  for (const word of ["failed call", "message", "problem", "link", "search", "timeline"]) {
    assert.match(text, new RegExp(word, "i"));
  }
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
});

test("y copies the permalink", async () => {
  await run.open(LOOPED, steps[7].seq);
  await run.waitForSelected(steps[7].seq);
  await page.keyboard.press("y");
  await page.waitForFunction(async () => (await navigator.clipboard.readText()).includes("/run/"));
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), `${server.origin}/run/${LOOPED}/${steps[7].seq}`);
});

test("keys do nothing while somebody writes", async () => {
  await run.open(LOOPED, steps[7].seq);
  await run.waitForSelected(steps[7].seq);
  await page.keyboard.press("/");
  await page.getByRole("searchbox").first().waitFor();
  await page.keyboard.type("jem");
  assert.match(await page.evaluate(() => document.activeElement.value), /jem$/);
});

test("a long run: its end, its middle, its messages", async () => {
  const long = (await server.steps(LONG_RUN)).filter(({ kind }) => kind !== "turn");
  await run.open(LONG_RUN);
  await page.waitForFunction((all) => document.querySelector("[role=slider]")?.getAttribute("aria-valuemax") === all, String(long.length));
  await run.press("G", long.at(-1).seq);
  await run.selected.filter({ hasText: "cargo build --release" }).waitFor();
  await run.press("g", long[0].seq);
  const middle = long[Math.floor(long.length / 2)];
  await run.open(LONG_RUN, middle.seq);
  await run.waitForSelected(middle.seq);
  const message = long.find(({ kind, seq }) => kind === "message" && seq > middle.seq);
  await run.press("m", message.seq);
  // Only what is near the window is in the document.
  assert.ok((await page.locator("article").count()) < 200);
});

test("colours of the terminal are colours", async () => {
  const long = await server.steps(LONG_RUN);
  const { entries } = await server.json(`/api/runs/${LONG_RUN}/entries?from=0&count=60`);
  const coloured = entries.find(({ blocks }) => blocks.some(({ text }) => text?.includes("\u001b[32m")));
  assert.ok(coloured && long.length > 0);
  await run.open(LONG_RUN, coloured.seq);
  const step = await run.waitForSelected(coloured.seq);
  if ((await step.getByRole("button", { name: "Expand this step" }).count()) > 0) await page.keyboard.press("Enter");
  const green = step.getByText("test result: ok.", { exact: true }).first();
  await green.waitFor();
  // An element that the page has just replaced by a new one has no style; then the new one is asked.
  const colour = () => green.evaluate((element) => getComputedStyle(element).color.match(/\d+/g)?.map(Number));
  let channels = await colour();
  while (!channels) channels = await colour();
  const [red, greenness] = channels;
  assert.ok(greenness > red, "the text is green");
  assert.doesNotMatch(await step.innerText(), /\[32m|\u001b/);
});

/** What the canvas shows, as a text that can be compared. */
function picture({ timeline }) {
  return timeline.locator("canvas").first().evaluate((canvas) => canvas.toDataURL());
}

async function waitForPicture(shown, test) {
  for (const until = Date.now() + 10_000; !test(await picture(shown)); ) {
    assert.ok(Date.now() < until, "the timeline did not change as expected");
    await shown.page.evaluate(() => new Promise(requestAnimationFrame));
  }
}
