// The table of runs: order, filters, thousands of rows, keys, live changes, and the full-text search.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";

import { launch, openPage } from "./browser.js";
import { LiveAgent, newFolder, nights, removeFolder, Server, storeInBulk } from "./program.js";
import { manyRuns } from "./stores.js";

const MANY = process.env.MIDCOURSE_BROWSER_FULL ? 10_000 : 2_000;
let [folder, server, browser, page, rows, status] = [];

before(async () => {
  folder = newFolder("runs");
  await storeInBulk(folder, await nights());
  await storeInBulk(folder, manyRuns(MANY));
  server = await Server.start(folder);
  browser = await launch();
  page = await openPage(browser, server);
  // The first row has the names of the columns.
  rows = page.getByRole("table", { name: "Runs" }).getByRole("row").filter({ has: page.getByRole("link") });
  status = page.getByRole("status").filter({ hasText: /run/ });
});
afterEach(() => {
  assert.deepEqual(page.incidents, []);
});
after(async () => {
  await browser?.close();
  await server?.kill();
  removeFolder(folder);
});

async function open(query = "") {
  await page.goto(`${server.origin}/${query}`);
  await rows.first().waitFor();
}

const column = (name) => page.getByRole("columnheader", { name });

test("the table has all runs that are no subagents, the newest first", async () => {
  await open();
  const { total } = await server.json("/api/runs?count=1");
  assert.equal(total, MANY + 3);
  await status.filter({ hasText: new RegExp(`${total.toLocaleString("en")}|${total}`) }).first().waitFor();
  assert.equal(await page.getByRole("table", { name: "Runs" }).getAttribute("aria-rowcount"), String(total + 1));
  const first = await rows.first().innerText();
  for (const text of [/Port the firmware to SDK 5\.2/, /claude-code/, /claude-opus-4-5/, /no end recorded/]) assert.match(first, text);
  assert.equal(await column("Started").getAttribute("aria-sort"), "descending");
  assert.ok((await page.locator("tbody tr").count()) < 100, "only rows near the window are in the document");
});

test("a column sorts, and sorts the other way round", async () => {
  await open();
  for (const [name, sort] of [["Calls", "calls"], ["Failed", "errors"], ["Duration", "duration"], ["Messages", "messages"], ["Tokens", "tokens"], ["Cost", "cost"], ["Started", "started"]]) {
    for (const [order, aria] of [["desc", "descending"], ["asc", "ascending"]]) {
      await column(name).getByRole("button").click();
      await page.locator(`th[aria-sort=${aria}]`).filter({ hasText: name }).waitFor();
      const { runs } = await server.json(`/api/runs?sort=${sort}&order=${order}&count=3`);
      for (const [index, run] of runs.entries()) {
        await rows.nth(index).getByRole("link", { name: run.task }).waitFor();
      }
    }
  }
});

test("the filter finds words of tasks, folders, models and ids", async () => {
  for (const [words, expected] of [["PORT THE FIRMWARE", 1], ["billing-web", 1], ["many-00017", 1], ["no such thing", 0]]) {
    await open();
    await page.getByRole("searchbox", { name: "Filter runs" }).fill(words);
    await status.filter({ hasText: expected === 0 ? /^0 runs/ : /^1 run match/ }).waitFor();
    assert.equal(await rows.count(), expected);
  }
  await page.getByRole("heading", { name: "No run matches" }).waitFor();
  await page.getByRole("button", { name: "Clear the filters" }).click();
  await rows.nth(5).waitFor();
});

test("runs can be limited to those that failed, in which midcourse spoke, or of one agent", async () => {
  await open();
  const state = page.getByRole("group", { name: "State" });
  for (const [name, query] of [["Failed", "state=failed"], ["midcourse spoke", "state=said"]]) {
    await state.getByRole("button", { name }).click();
    const { total } = await server.json(`/api/runs?${query}`);
    assert.ok(total > 0 && total < MANY);
    await page.locator(`table[aria-rowcount="${total + 1}"]`).waitFor();
    assert.equal(await state.getByRole("button", { name }).getAttribute("aria-pressed"), "true");
  }
  await state.getByRole("button", { name: "All" }).click();
  await page.getByRole("combobox", { name: "Agent" }).selectOption("codex");
  await page.locator(`table[aria-rowcount="${MANY / 5 + 1}"]`).waitFor();
  await page.reload();
  await page.locator(`table[aria-rowcount="${MANY / 5 + 1}"]`).waitFor();
});

/** Waits until the rows in the window have their runs. Returns the tasks of these runs. */
async function waitForRowsInView() {
  const tasks = await page.waitForFunction(() => {
    const shown = [...document.querySelectorAll("tbody tr[data-index]")].filter((row) => {
      const { top, bottom } = row.getBoundingClientRect();
      return bottom > 0 && top < innerHeight;
    });
    const links = shown.map((row) => row.querySelector("a"));
    return links.length > 5 && links.every((link) => link) ? links.map((link) => link?.innerText ?? "") : null;
  });
  return tasks.jsonValue();
}

test("the end of the table is a scroll away", async () => {
  await open();
  await page.keyboard.press("G");
  await page.getByRole("link", { name: /ticket 4000$/ }).waitFor();
  await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight / 2));
  await waitForRowsInView();
});

test("a run can be opened, and the place in the table is kept", async () => {
  await open();
  await page.evaluate(() => scrollTo(0, 20_000));
  // By its name: the rows at a place change while the table follows the window.
  const name = (await waitForRowsInView())[3];
  await page.getByRole("link", { name, exact: true }).click();
  await page.getByRole("heading", { level: 1, name }).waitFor();
  await page.goBack();
  await page.getByRole("link", { name }).first().waitFor();
  await page.waitForFunction(() => scrollY > 15_000);
});

test("two runs are chosen with the keyboard and compared", async () => {
  await open("?text=ticket+400");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  const compare = page.getByRole("button", { name: "Compare", exact: true });
  await compare.waitFor();
  await compare.click();
  await page.waitForURL(/\/compare\/many-\d+\/many-\d+$/);
});

test("a new run appears by itself, and grows", async () => {
  await open();
  const agent = new LiveAgent(folder, "grows-now");
  try {
    await agent.report({ kind: "message_appended", message: { role: "user", content: "A run that begins while somebody looks" } });
    const row = rows.filter({ hasText: "A run that begins while somebody looks" });
    await row.waitFor();
    await row.getByText("running").waitFor();
    await agent.call("c1", "Bash", { command: "make" }, "done");
    await agent.call("c2", "Bash", { command: "make test" }, "no rule", true);
    await row.locator(".c-calls", { hasText: "2" }).waitFor();
    await row.locator(".c-errors", { hasText: "1" }).waitFor();
    await agent.report({ kind: "run_ended", outcome: "completed", new_messages: [] });
    await row.getByText("finished").waitFor();
  } finally {
    await agent.stop();
  }
});

test("the search finds words in results, and leads to the step", async () => {
  await open();
  await page.keyboard.press("/");
  const dialog = page.getByRole("dialog", { name: "Search" });
  await dialog.getByRole("searchbox").fill("port is already allocated");
  const hit = dialog.getByRole("link", { name: /docker compose up -d postgres/ }).first();
  await hit.waitFor({ timeout: 60_000 });
  await dialog.getByRole("status").filter({ hasText: /hit/ }).waitFor();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/run\/night-looped\/\d+$/);
  await page.locator("article[aria-current=true]").filter({ hasText: "docker compose up -d postgres" }).waitFor();
});

test("the search says when nothing is found, and Escape closes it", async () => {
  await open();
  await page.getByRole("button", { name: /^Search all runs/ }).click();
  const dialog = page.getByRole("dialog", { name: "Search" });
  await dialog.getByRole("searchbox").fill("xylophonquartz");
  await dialog.getByText("Nothing found.").waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  await rows.first().waitFor();
});

test("an empty store says what to do", async () => {
  const home = newFolder("empty");
  const empty = await Server.start(home);
  const other = await openPage(browser, empty);
  try {
    await other.goto(`${empty.origin}/`);
    await other.getByRole("heading", { name: "No runs yet" }).waitFor();
    await other.getByText(/midcourse doctor/).waitFor();
    assert.deepEqual(other.incidents, []);
  } finally {
    await other.context().close();
    await empty.kill();
    removeFolder(home);
  }
});
