// The page for everybody: axe finds nothing serious, the main path works with the keyboard alone,
// in light and dark, on a wide screen and on a phone.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { focused, launch, openPage, seriousProblems, tooWide } from "./browser.js";
import { newFolder, nights, removeFolder, Server, storeInBulk } from "./program.js";
import { forkedRuns } from "./stores.js";

let [folder, server, browser, message] = [];

before(async () => {
  folder = newFolder("accessibility");
  await storeInBulk(folder, [...(await nights()), ...forkedRuns()]);
  server = await Server.start(folder);
  browser = await launch();
  message = (await server.steps("night-looped")).find(({ kind }) => kind === "message");
});
after(async () => {
  await browser?.close();
  await server?.kill();
  removeFolder(folder);
});

/** What is to be examined: how to get there, and how to know that it is there. */
const VIEWS = {
  table: async (page) => {
    await page.goto(`${server.origin}/`);
    await page.getByRole("link", { name: /Make the integration tests/ }).first().waitFor();
  },
  run: async (page) => {
    await page.goto(`${server.origin}/run/night-looped`);
    // In a narrow window, only the first steps are on the screen, and the first call is not.
    await page.getByRole("article").filter({ hasText: /\w/ }).first().waitFor();
    await page.getByRole("heading", { name: "Where it went wrong" }).waitFor();
    await page.keyboard.press("e");
    await page.locator("article[aria-current=true]").filter({ hasText: "failed" }).waitFor();
    await page.keyboard.press("Enter");
    await page.locator("article[aria-current=true] .step-body").waitFor();
  },
  why: async (page) => {
    await page.goto(`${server.origin}/run/night-looped/${message.seq}`);
    await page.getByRole("article").filter({ hasText: "midcourse" }).first().waitFor();
    await page.keyboard.press("w");
    await page.getByRole("heading", { name: "What it said" }).waitFor();
  },
  compare: async (page) => {
    await page.goto(`${server.origin}/compare/fork-a/fork-b`);
    await page.getByText(/page12\.ts/).first().waitFor();
  },
  search: async (page) => {
    await page.goto(`${server.origin}/`);
    await page.keyboard.press("/");
    await page.getByRole("dialog").getByRole("searchbox").fill("postgres");
    await page.getByRole("dialog").getByRole("link").first().waitFor({ timeout: 60_000 });
  },
  help: async (page) => {
    await page.goto(`${server.origin}/`);
    await page.keyboard.press("?");
    await page.getByRole("dialog").waitFor();
  },
};

for (const [name, open] of Object.entries(VIEWS)) {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1280, 390]) {
      test(`${name}, ${colorScheme}, ${width} px`, async () => {
        const page = await openPage(browser, server, { width, colorScheme });
        try {
          await open(page);
          assert.deepEqual(await seriousProblems(page), []);
          assert.deepEqual(await tooWide(page), []);
          assert.deepEqual(page.incidents, []);
        } finally {
          await page.context().close();
        }
      });
    }
  }
}

/** Presses Tab until something is focused that fits, and checks that each stop can be seen. */
async function tabTo(page, fits, limit = 60) {
  const stops = [];
  for (let stop = 0; stop < limit; stop += 1) {
    await page.keyboard.press("Tab");
    const at = await focused(page);
    stops.push(`${at.role} ${at.name}`);
    if (at.isBody) continue;
    assert.ok(at.isVisible, `the focus cannot be seen on ${stops.at(-1)}`);
    if (fits(at)) return at;
  }
  throw new Error(`not reached with Tab: ${stops.join(" → ")}`);
}

test("from the table to the evidence with the keyboard alone", async () => {
  const page = await openPage(browser, server);
  try {
    await VIEWS.table(page);
    await tabTo(page, ({ role, name }) => role === "a" && /Make the integration tests/.test(name));
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/run\/night-looped/);
    await page.getByRole("article").first().waitFor();
    await page.keyboard.press("m");
    await page.locator("article[aria-current=true]").filter({ hasText: "midcourse" }).waitFor();
    assert.ok((await focused(page)).isVisible, "the focus is on the message, and can be seen");
    await page.getByRole("button", { name: "Why it spoke" }).first().waitFor();
    await tabTo(page, ({ role, name }) => role === "button" && /Why it spoke/.test(name));
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "The calls that show it" }).waitFor();
    const { evidence } = await server.json(`/api/runs/night-looped/why/${message.seq}`);
    const isEvidence = await tabTo(page, ({ role, name }) => role === "a" && /^\d\d:\d\d/.test(name));
    assert.ok(isEvidence);
    await page.keyboard.press("Enter");
    await page.locator(`article[aria-current=true][data-seq="${evidence[0].seq}"]`).waitFor();
    const at = await focused(page);
    assert.ok(!at.isBody && at.isVisible, `the focus is on the call: ${at.role} ${at.name}`);
    assert.deepEqual(page.incidents, []);
  } finally {
    await page.context().close();
  }
});

test("the page has landmarks, one heading of the first level, and a way past the menu", async () => {
  const page = await openPage(browser, server);
  try {
    for (const name of ["table", "run", "compare"]) {
      await VIEWS[name](page);
      assert.equal(await page.getByRole("main").count(), 1, name);
      assert.equal(await page.getByRole("banner").count(), 1, name);
      assert.equal(await page.getByRole("heading", { level: 1 }).count(), 1, name);
      assert.match(await page.title(), /midcourse/, name);
    }
    await VIEWS.table(page);
    await page.keyboard.press("Tab");
    assert.match((await focused(page)).name, /Skip/);
  } finally {
    await page.context().close();
  }
});

test("nothing moves for readers who want no motion", async () => {
  const page = await openPage(browser, server);
  try {
    await page.emulateMedia({ reducedMotion: "reduce" });
    await VIEWS.run(page);
    const moving = await page.evaluate(() => document.getAnimations().filter(({ playState }) => playState === "running").length);
    assert.equal(moving, 0);
  } finally {
    await page.context().close();
  }
});
