// The page of `midcourse serve`: signing in, choosing a project, what belongs to the project in the
// address, signing out. `MIDCOURSE_BROWSER_LOOK` names a folder for pictures to look at.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { createServer, get } from "node:http";
import { once } from "node:events";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { launch, seriousProblems, tooWide, watch } from "./browser.js";
import { LiveAgent, newFolder, nights, removeFolder, storeInBulk } from "./program.js";
import { forkedRuns } from "./stores.js";
import { TeamServer } from "./team_server.js";

let [folders, server, browser, ada, bob] = [];

before(async () => {
  folders = ["people", "web", "infra"].map((name) => newFolder(`serve-${name}`));
  const [home, web, infra] = folders;
  await storeInBulk(web, await nights());
  await storeInBulk(infra, forkedRuns());
  server = new TeamServer(home, { web, infra });
  ada = await server.add("Ada <b>L</b>", "web");
  bob = await server.add("bob", "*");
  await server.launch();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.kill();
  folders?.forEach(removeFolder);
});

async function open({ width = 1280, height = 800, colorScheme = "light" } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme });
  return watch(await context.newPage(), server.origin);
}

async function signIn(page, token) {
  await page.getByLabel("Your token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
}

/** Takes a picture, if somebody wants to look at it. */
async function take(page, name) {
  const folder = process.env.MIDCOURSE_BROWSER_LOOK;
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), animations: "disabled" });
}

test("a link on another site leads to no other site", async () => {
  const { hostname, port } = new URL(server.origin);
  const headers = { "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document" };
  for (const path of ["//elsewhere.example/sign-in", "//elsewhere.example/p/web/", "/p/web/"]) {
    const [response] = await once(get({ hostname, port, path, headers }), "response");
    const body = (await response.setEncoding("utf8").toArray()).join("");
    assert.ok(!body.includes("elsewhere") && !(response.headers.location ?? "").includes("elsewhere"), body);
    if (!path.startsWith("//")) assert.match(body, /url='\/p\/web\/'/);
  }
});

test("sign in, choose a project, open a run, sign out", async () => {
  const page = await open();
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await page.goto(`${server.origin}/p/web/run/night-looped`);
  assert.equal(new URL(page.url()).pathname, "/sign-in");
  await signIn(page, "wrong");
  await page.getByRole("alert").filter({ hasText: "not valid" }).waitFor();
  await signIn(page, bob);
  // The link leads where it was meant to.
  await page.getByRole("article").first().waitFor();
  assert.equal(page.url(), `${server.origin}/p/web/run/night-looped`);
  const line = page.getByRole("region", { name: "Your session" });
  await line.getByText("Project: web").waitFor();
  await line.getByText("Signed in as bob").waitFor();

  await line.getByRole("link", { name: "Change project" }).click();
  await page.getByRole("heading", { name: "Projects" }).waitFor();
  asked.length = 0;
  await page.getByRole("link", { name: "infra" }).click();
  await page.getByRole("link", { name: /night-looped|Make the integration tests/ }).waitFor({ state: "detached" });
  await page.getByRole("row").nth(1).getByRole("link").first().click();
  await page.getByRole("article").first().waitFor();
  assert.match(new URL(page.url()).pathname, /^\/p\/infra\/run\/fork-/);
  const href = await page.getByRole("link", { name: "Export HTML" }).getAttribute("href");
  assert.match(href, /^\/p\/infra\/api\/runs\/fork-.\/report\.html$/);
  await page.getByRole("link", { name: "Runs", exact: true }).click();
  await page.getByRole("row").nth(2).waitFor();
  assert.equal(new URL(page.url()).pathname, "/p/infra/");
  await page.getByRole("group", { name: "State" }).getByRole("button", { name: "Failed" }).click();
  await page.waitForURL(/\/p\/infra\/\?state=failed$/);
  await page.goto(`${server.origin}/p/infra/compare/fork-a/fork-b`);
  await page.getByText(/page12\.ts/).first().waitFor();
  const outside = asked.filter((path) => !path.startsWith("/p/infra/") && !path.startsWith("/assets/"));
  assert.deepEqual(outside, [], "everything belongs to the project in the address");

  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Your token").waitFor();
  await page.goto(`${server.origin}/p/infra/`);
  assert.equal(new URL(page.url()).pathname, "/sign-in");
  assert.deepEqual(page.incidents, []);
  await page.context().close();
});

test("a person with one project goes straight there, and sees no other", async () => {
  const page = await open();
  await page.goto(server.origin);
  await signIn(page, ada);
  await page.getByRole("link", { name: /Make the integration tests/ }).first().waitFor();
  assert.equal(page.url(), `${server.origin}/p/web/`);
  await page.getByText("Signed in as Ada <b>L</b>").waitFor();
  assert.equal(await page.getByRole("link", { name: "Change project" }).count(), 0);
  await page.goto(`${server.origin}/p/infra/`);
  await page.getByRole("heading", { name: "Not found" }).waitFor();
  assert.deepEqual(page.incidents, []);
  await page.context().close();
});

test("a link on another site works, and changes come live until the person is removed", async () => {
  const carol = await server.add("carol", "web");
  const page = await open();
  await page.goto(`${server.origin}/sign-in`);
  await signIn(page, carol);
  await page.getByRole("link", { name: /Make the integration tests/ }).first().waitFor();
  // `localhost` and `127.0.0.1` are two sites.
  const other = createServer((_, response) => {
    response.setHeader("content-type", "text/html");
    response.end(`<a href="${server.origin}/p/web/?text=tests">The runs</a>`);
  }).listen(0, "127.0.0.1");
  await once(other, "listening");
  try {
    await page.goto(`http://localhost:${other.address().port}/`);
    await page.getByRole("link", { name: "The runs" }).click();
    await page.getByRole("link", { name: /Make the integration tests/ }).first().waitFor();
    assert.equal(page.url(), `${server.origin}/p/web/?text=tests`);
  } finally {
    other.close();
  }
  await page.goto(`${server.origin}/p/web/`);
  await page.getByRole("link", { name: /Make the integration tests/ }).first().waitFor();
  const agent = new LiveAgent(folders[1], "live-run");
  await agent.report({ kind: "run_started", identity: { run_id: "live-run" } });
  await agent.report({ kind: "message_appended", message: { role: "user", content: "Paint it blue" } });
  await page.getByRole("link", { name: /Paint it blue|live-run/ }).first().waitFor();
  await agent.stop();
  await server.remove("carol");
  await page.goto(`${server.origin}/p/web/`);
  await page.getByLabel("Your token").waitFor();
  await page.context().close();
});

test("the pages fit narrow windows, and axe finds nothing serious", async () => {
  for (const [name, options] of Object.entries({
    wide: {},
    narrow: { width: 360, height: 640 },
    dark: { colorScheme: "dark" },
  })) {
    const page = await open(options);
    const examine = async (view) => {
      await take(page, `${view}-${name}`);
      assert.deepEqual(await tooWide(page), [], `${view}, ${name}`);
      assert.deepEqual(await seriousProblems(page), [], `${view}, ${name}`);
    };
    await page.goto(`${server.origin}/sign-in`);
    await examine("sign-in");
    await signIn(page, "wrong");
    await page.getByRole("alert").waitFor();
    await examine("wrong-token");
    await signIn(page, bob);
    await page.getByRole("heading", { name: "Projects" }).waitFor();
    await examine("chooser");
    await page.getByRole("link", { name: "web" }).click();
    await page.getByRole("region", { name: "Your session" }).waitFor();
    await page.getByRole("link", { name: /Make the integration tests/ }).first().waitFor();
    await examine("runs");
    await page.goto(`${server.origin}/p/web/run/night-looped`);
    await page.getByRole("heading", { name: "Where it went wrong" }).waitFor();
    await page.getByRole("region", { name: "Your session" }).waitFor();
    await examine("run");
    assert.deepEqual(page.incidents, []);
    await page.context().close();
  }
});
