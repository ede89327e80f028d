// Why midcourse spoke, and two runs compared.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";

import { launch, openPage } from "./browser.js";
import { newFolder, nights, removeFolder, Server, storeInBulk } from "./program.js";
import { RunPage } from "./run_page.js";
import { forkedRuns } from "./stores.js";

const LOOPED = "night-looped";
let [folder, server, browser, page, run, messages] = [];

before(async () => {
  folder = newFolder("why");
  await storeInBulk(folder, [...(await nights()), ...forkedRuns()]);
  server = await Server.start(folder);
  browser = await launch();
  page = await openPage(browser, server);
  run = new RunPage(page, server);
  messages = (await server.steps(LOOPED)).filter(({ kind }) => kind === "message");
});
afterEach(() => {
  assert.deepEqual(page.incidents, []);
});
after(async () => {
  await browser?.close();
  await server?.kill();
  removeFolder(folder);
});

const focusedRow = () => page.locator("article:focus");
const panel = () => page.getByRole("region", { name: "Why midcourse spoke" });

test("the panel has the text, the problem, the evidence, the place and the outcome", async () => {
  const why = await server.json(`/api/runs/${LOOPED}/why/${messages[0].seq}`);
  assert.ok(why.evidence.length >= 2, "the loop has several calls as evidence");
  await run.open(LOOPED, messages[0].seq);
  await run.waitForSelected(messages[0].seq);
  await page.keyboard.press("w");
  await panel().waitFor();
  await panel().getByText(why.text).first().waitFor();
  await panel().getByText(why.pattern, { exact: true }).waitFor();
  await panel().getByText(why.pattern_text).first().waitFor();
  await panel().getByText(`${Math.round(why.confidence * 100)} %`).waitFor();
  for (const heading of ["What it said", "Why", "The calls that show it", "Where it landed", "What became of it"]) {
    await panel().getByRole("heading", { name: heading, exact: true }).waitFor();
  }
  await panel().getByText(why.outcome.text).first().waitFor();
  assert.doesNotMatch(await panel().innerText(), /rung|nudge|delivery|delivered/i);
});

test("evidence leads to the call", async () => {
  const why = await server.json(`/api/runs/${LOOPED}/why/${messages[0].seq}`);
  await run.open(LOOPED, messages[0].seq);
  await page.keyboard.press("w");
  await panel().getByRole("listitem").filter({ hasText: why.evidence[0].title }).first().getByRole("link").click();
  await run.waitForSelected(why.evidence[0].seq);
  await run.selected.filter({ hasText: "docker compose up -d postgres" }).waitFor();
});

test("all messages about the problem are listed, with what others would have said", async () => {
  const last = messages.at(-1);
  const why = await server.json(`/api/runs/${LOOPED}/why/${last.seq}`);
  const { rungs } = await server.json(`/api/runs/${LOOPED}/why/${last.seq}/rungs`);
  assert.ok(why.series.length >= 2 && rungs.length >= 2);
  await run.open(LOOPED, last.seq);
  await page.keyboard.press("w");
  await panel().getByRole("heading", { name: "All messages about this problem" }).waitFor();
  for (const rung of rungs.filter(({ is_this: isThis }) => !isThis)) await panel().getByText(rung.text).first().waitFor();
  const [first] = why.series;
  await panel().getByRole("list").getByRole("link").filter({ hasText: /\d\d:\d\d/ }).first().waitFor();
  await page.keyboard.press("M");
  assert.ok(first.seq < last.seq);
});

test("Escape closes the panel and keeps the step", async () => {
  await run.open(LOOPED, messages[0].seq);
  await page.keyboard.press("w");
  await panel().waitFor();
  await page.keyboard.press("Escape");
  await panel().waitFor({ state: "hidden" });
  await run.waitForSelected(messages[0].seq);
});

test("w beside a message explains the latest one before", async () => {
  const steps = await server.steps(LOOPED);
  const after = steps.find(({ kind, seq }) => kind === "tool" && seq > messages[0].seq);
  await run.open(LOOPED, after.seq);
  await run.waitForSelected(after.seq);
  await page.keyboard.press("w");
  await panel().waitFor();
  await run.waitForSelected(messages.filter(({ seq }) => seq < after.seq).at(-1).seq);
});

test("two runs are aligned, and the page begins at the first difference", async () => {
  const { rows, first_difference: first } = await server.json("/api/compare?a=fork-a&b=fork-b");
  const states = new Set(rows.map(({ state }) => state));
  for (const state of ["same", "other_result", "other_arguments", "only_b"]) assert.ok(states.has(state), `${state} in ${[...states]}`);
  assert.match(rows[first].a.title, /lighthouse --only lcp src\/page12\.ts/);
  await page.goto(`${server.origin}/compare/fork-a/fork-b`);
  const row = focusedRow();
  await row.filter({ hasText: "src/page12.ts" }).waitFor();
  assert.match(await row.getAttribute("aria-label"), /^other result/);
  const box = await row.boundingBox();
  assert.ok(box.y > 0 && box.y + box.height < 800, "the first difference is in the window");
  // Equal stretches are folded, and can be unfolded.
  assert.equal(await page.getByText("src/page3.ts").count(), 0);
  await page.getByRole("button", { name: /^Show \d+ equal steps/ }).first().click();
  await page.getByText("src/page3.ts").first().waitFor();
});

test("n and N go through the differences, and a row opens side by side", async () => {
  await page.goto(`${server.origin}/compare/fork-a/fork-b`);
  const row = focusedRow();
  await row.filter({ hasText: "src/page12.ts" }).waitFor();
  await page.keyboard.press("n");
  await row.filter({ hasText: "src/cache.ts" }).waitFor();
  assert.match(await row.getAttribute("aria-label"), /^other arguments/);
  await page.keyboard.press("n");
  await row.filter({ hasText: "src/a.ts" }).waitFor();
  assert.match(await row.getAttribute("aria-label"), /^only in B/);
  await page.keyboard.press("N");
  await page.keyboard.press("N");
  await row.filter({ hasText: "src/page12.ts" }).waitFor();
  await page.keyboard.press("Enter");
  await row.getByText("LCP 12 s").first().waitFor();
  await row.getByText("the page did not load").first().waitFor();
});

test("a run can be compared with another from its page", async () => {
  await run.open("fork-a");
  await page.getByRole("button", { name: "Compare with…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("searchbox").fill("fork-b");
  await dialog.getByRole("button", { name: /Make the login page load/ }).first().click();
  await page.waitForURL(/\/compare\/fork-a\/fork-b$/);
});
