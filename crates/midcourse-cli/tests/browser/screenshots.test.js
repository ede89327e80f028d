// Takes the pictures of the documentation, if `run --screenshots` asks for them.

import assert from "node:assert/strict";
import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { launch, openPage } from "./browser.js";
import { newFolder, nights, removeFolder, Server, storeInBulk } from "./program.js";
import { RunPage } from "./run_page.js";
import { forkedRuns, manyRuns } from "./stores.js";

const folder = process.env.MIDCOURSE_BROWSER_IMAGES;
const MAX_BYTES = 250_000;

test("pictures", { skip: folder ? false : "only with --screenshots" }, async () => {
  mkdirSync(folder, { recursive: true });
  const home = newFolder("screenshots");
  await storeInBulk(home, [...(await nights()), ...forkedRuns(), ...manyRuns(40)]);
  const server = await Server.start(home);
  const browser = await launch();
  try {
    for (const colorScheme of ["light", "dark"]) {
      const page = await openPage(browser, server, { colorScheme });
      const take = async (name) => {
        await page.evaluate(() => document.fonts.ready);
        await page.mouse.move(0, 0);
        const file = join(folder, `ui-${name}-${colorScheme}.png`);
        await page.screenshot({ path: file, animations: "disabled" });
        assert.ok(statSync(file).size < MAX_BYTES, `${file} has ${statSync(file).size} bytes`);
      };
      const run = new RunPage(page, server);
      const message = (await server.steps("night-looped")).findLast(({ kind }) => kind === "message");
      await page.goto(`${server.origin}/`);
      await page.getByRole("link", { name: /Make the integration tests/ }).first().waitFor();
      await take("runs");
      await run.open("night-looped");
      await page.getByRole("heading", { name: "Where it went wrong" }).waitFor();
      await page.getByRole("button", { name: "Next problem (p)" }).and(page.locator(":enabled")).waitFor();
      await take("run");
      await run.open("night-looped", message.seq);
      await page.keyboard.press("w");
      await page.getByRole("heading", { name: "What became of it" }).waitFor();
      await take("why");
      await page.goto(`${server.origin}/compare/fork-a/fork-b`);
      await page.getByText(/page12\.ts/).first().waitFor();
      await take("compare");
      await page.context().close();
    }
  } finally {
    await browser.close();
    await server.kill();
    removeFolder(home);
  }
});
