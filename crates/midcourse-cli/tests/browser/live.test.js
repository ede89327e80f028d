// A page that is open while an agent works: it grows by itself, and survives a restart of the server.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";

import { launch, openPage } from "./browser.js";
import { LiveAgent, newFolder, removeFolder, Server } from "./program.js";
import { RunPage } from "./run_page.js";

let [folder, server, browser, page, run, agent] = [];
let loads = 0;

before(async () => {
  folder = newFolder("live");
  agent = new LiveAgent(folder, "live-run");
  await agent.report({ kind: "run_started", identity: { run_id: "live-run" } });
  await agent.report({ kind: "message_appended", message: { role: "user", content: "Make the tests pass" } });
  await agent.call("c1", "Bash", { command: "ls" }, "Makefile");
  server = await Server.start(folder);
  browser = await launch();
  page = await openPage(browser, server);
  page.on("load", () => (loads += 1));
  run = new RunPage(page, server);
  await run.open("live-run");
  loads = 0;
});
afterEach(() => {
  assert.deepEqual(page.incidents, []);
  assert.equal(loads, 0, "the page was never loaded again");
});
after(async () => {
  await browser?.close();
  await agent?.stop();
  await server?.kill();
  removeFolder(folder);
});

const call = (name) => run.steps.filter({ hasText: name });

test("a call appears while it runs, and gets its result", async () => {
  await page.getByText("Live", { exact: true }).waitFor();
  await agent.report({ kind: "tool_started", tool_call_id: "c2", tool_name: "Bash", args: { command: "make everything" } });
  const step = call("make everything");
  await step.getByText(/^running/).waitFor();
  const seconds = () => step.locator("[data-since]").innerText();
  const before = await seconds();
  await page.waitForFunction((was) => document.querySelector("[data-since]")?.textContent !== was, before);
  await agent.finish("c2", "Bash", "everything is made");
  await step.getByText(/^running/).waitFor({ state: "hidden" });
  await step.getByText("everything is made").waitFor();
  assert.equal(await step.count(), 1, "the call is one step");
});

test("a message of midcourse appears when it is delivered", async () => {
  let texts = [];
  for (let again = 0; texts.length === 0 && again < 12; again += 1) {
    const reply = await agent.call(`loop-${again}`, "Bash", { command: "docker compose up" }, "Exit code 1\nport is already allocated", true);
    texts = reply.deliveries.map(({ text }) => text);
  }
  assert.ok(texts.length > 0, "midcourse spoke");
  await page.keyboard.press("G");
  await run.steps.filter({ hasText: texts[0].split("\n")[0].slice(0, 60) }).first().waitFor();
  await page.keyboard.press("m");
  await page.keyboard.press("M");
});

test("a reader in the middle is not moved, and is told what is new", async () => {
  for (let more = 0; more < 40; more += 1) await agent.call(`more-${more}`, "Read", { file_path: `src/${more}.rs` }, `text ${more}`);
  await page.keyboard.press("G");
  await call("src/39.rs").first().waitFor();
  await page.keyboard.press("g");
  await page.waitForFunction(() => scrollY === 0);
  const first = await run.selectedSeq();
  await agent.call("later-1", "Read", { file_path: "src/later1.rs" }, "text");
  await agent.call("later-2", "Read", { file_path: "src/later2.rs" }, "text");
  const news = page.getByRole("button", { name: /new steps?/ });
  await news.waitFor();
  assert.equal(await page.evaluate(() => scrollY), 0);
  assert.equal(await run.selectedSeq(), first);
  await news.click();
  await call("src/later2.rs").first().waitFor();
  await news.waitFor({ state: "hidden" });
});

test("a reader at the end follows the run", async () => {
  await page.keyboard.press("G");
  await agent.call("follow", "Read", { file_path: "src/followed.rs" }, "text");
  const step = call("src/followed.rs").first();
  await step.waitFor();
  await page.waitForFunction(() => {
    const step = [...document.querySelectorAll("article")].find((one) => one.textContent.includes("src/followed.rs"));
    const box = step?.getBoundingClientRect();
    return box && box.top < innerHeight && box.bottom > 0;
  });
});

test("a subagent appears while it works", async () => {
  await agent.report({ kind: "tool_started", tool_call_id: "task", tool_name: "Task", args: { description: "Review" } });
  const sub = { run_id: "live-sub", parent_run_id: "live-run", depth: 1 };
  await agent.report({ kind: "message_appended", message: { role: "user", content: "Review the tests of live-run" } }, sub);
  await agent.report({ kind: "tool_started", tool_call_id: "s1", tool_name: "Read", args: { file_path: "a" } }, sub);
  await page.getByRole("link", { name: "Review the tests of live-run" }).first().waitFor();
  await agent.finish("task", "Task", "reviewed");
});

test("a restart of the server is survived", async () => {
  await server.kill();
  await page.getByText("Reconnecting…").waitFor();
  // The agent does not need the server.
  await agent.call("during", "Read", { file_path: "src/during.rs" }, "text");
  await server.restart();
  await page.getByText("Live", { exact: true }).waitFor();
  await page.keyboard.press("G");
  await call("src/during.rs").first().waitFor();
  await agent.call("afterwards", "Read", { file_path: "src/afterwards.rs" }, "text");
  await call("src/afterwards.rs").first().waitFor();
});

test("the end of the run is seen", async () => {
  await agent.report({ kind: "run_ended", outcome: "completed", new_messages: [] });
  await page.getByRole("heading", { level: 1 }).getByText("finished").waitFor();
  await page.getByText("Live", { exact: true }).waitFor({ state: "hidden" });
});
