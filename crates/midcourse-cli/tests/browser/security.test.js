// Who may read the recorded runs: only a browser that followed the link, only from the page itself.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { launchWithProfile, watch } from "./browser.js";
import { newFolder, nights, removeFolder, Server, storeInBulk } from "./program.js";

const PATHS = [
  "/", "/run/night-looped", "/run/night-looped/3", "/compare/night-clean/night-looped", "/nowhere",
  "/assets/app.js", "/assets/base.css", "/assets/nothing.js", "/favicon.ico", "/index.html",
  "/api/runs", "/api/runs/night-looped", "/api/runs/night-looped/outline", "/api/runs/night-looped/entries",
  "/api/runs/night-looped/entries/3", "/api/runs/night-looped/text/3?pointer=/args", "/api/runs/night-looped/records/3",
  "/api/runs/night-looped/report", "/api/runs/night-looped/report.html", "/api/runs/night-looped/why/3",
  "/api/runs/night-looped/why/3/rungs",
  "/api/search?words=postgres", "/api/compare?a=night-clean&b=night-looped", "/api/events", "/api/events?run=night-looped",
  "/api/nothing",
];

let [folder, server, cookie] = [];
before(async () => {
  folder = newFolder("security");
  await storeInBulk(folder, await nights());
  server = await Server.start(folder);
  cookie = await server.signIn();
});
after(async () => {
  await server?.kill();
  removeFolder(folder);
});

test("every path needs the cookie", async () => {
  for (const path of PATHS) {
    for (const headers of [{}, { Cookie: `${cookie.split("=")[0]}=0123456789abcdef` }, { Cookie: cookie.slice(0, -1) }]) {
      const { status, body } = await server.request(path, headers);
      assert.equal(status, 401, `${path} with ${JSON.stringify(headers)}`);
      assert.doesNotMatch(body, /night-looped|postgres/i, path);
    }
  }
});

test("the token is refused as a header or a parameter of other paths", async () => {
  const value = cookie.split("=").slice(1).join("=");
  for (const headers of [{ Authorization: `Bearer ${value}` }, { "X-Token": value }]) {
    assert.equal((await server.request("/api/runs", headers)).status, 401);
  }
  assert.equal((await server.request(`/api/runs?token=${value}&${cookie}`)).status, 401);
});

test("the link works once", async () => {
  const { pathname, search } = new URL(server.link);
  const again = await server.request(pathname + search);
  assert.ok(again.status >= 400 && again.status < 500, `status ${again.status}`);
  assert.equal(again.headers["set-cookie"], undefined);
  // A reader who opens an old link in the browser that followed it is signed in already.
  const reader = await server.request(pathname + search, { Cookie: cookie });
  assert.equal(reader.headers["set-cookie"], undefined);
});

test("the cookie cannot be read by scripts or sent by other sites", async () => {
  const other = await Server.start(folder);
  try {
    const { pathname, search } = new URL(other.link);
    const { status, headers } = await other.request(pathname + search);
    assert.ok(status >= 300 && status < 400, `status ${status}`);
    assert.doesNotMatch(headers.location, /token|code|[0-9a-f]{16}/i);
    const [line] = headers["set-cookie"];
    assert.match(line, /; *HttpOnly/i);
    assert.match(line, /; *SameSite=Strict/i);
    assert.match(line, /; *Path=\//i);
    assert.doesNotMatch(line, /Domain=/i);
    // Two servers on one host share their cookies, and must not overwrite them.
    assert.notEqual(line.split("=")[0], cookie.split("=")[0]);
    assert.equal((await server.request("/api/runs", { Cookie: `${line.split(";")[0]}` })).status, 401);
  } finally {
    await other.kill();
  }
});

test("requests of other sites are refused, with the cookie too", async () => {
  const own = { Cookie: cookie };
  for (const path of ["/api/runs", "/", "/assets/app.js", "/api/events"]) {
    for (const headers of [
      { Origin: "https://example.com" },
      { Origin: "null" },
      { Origin: `http://127.0.0.1:${server.port + 1}` },
      { "Sec-Fetch-Site": "cross-site" },
      { "Sec-Fetch-Site": "same-site" },
    ]) {
      const { status } = await server.request(path, { ...own, ...headers });
      assert.ok(status >= 400 && status < 500, `${path} with ${JSON.stringify(headers)}: ${status}`);
    }
  }
  const same = { ...own, Origin: server.origin, "Sec-Fetch-Site": "same-origin" };
  assert.equal((await server.request("/api/runs", same)).status, 200);
});

test("other names of the host are refused", async () => {
  for (const host of ["example.com", `example.com:${server.port}`, `127.0.0.1.nip.io:${server.port}`,
    `evil@127.0.0.1:${server.port}`]) {
    for (const path of ["/api/runs", "/", "/assets/app.js"]) {
      const { status } = await server.request(path, { Cookie: cookie, Host: host });
      assert.ok(status >= 400 && status < 500, `${path} with the host \`${host}\`: ${status}`);
    }
  }
});

test("a request without a host, or with two, is refused", async () => {
  for (const hosts of ["", "Host: \r\n", `Host: ${new URL(server.origin).host}\r\nHost: example.com\r\n`]) {
    const answer = await raw(`GET /api/runs HTTP/1.1\r\n${hosts}Cookie: ${cookie}\r\nConnection: close\r\n\r\n`);
    assert.match(answer, /^HTTP\/1\.1 4\d\d /, answer.slice(0, 80));
  }
});

test("nothing can be changed: only GET is answered", async () => {
  for (const method of ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"]) {
    const { status, headers } = await server.request("/api/runs", { Cookie: cookie }, method);
    assert.ok(status >= 400 && status < 500, `${method}: ${status}`);
    assert.equal(headers["access-control-allow-origin"], undefined);
  }
});

test("paths do not lead out of the assets", async () => {
  for (const path of ["/assets/../Cargo.toml", "/assets/..%2f..%2fstore.db", "/assets/%2e%2e/store.db", "/assets//etc/passwd",
    "/assets/%00", "/../../etc/passwd"]) {
    const { status, body } = await server.request(path, { Cookie: cookie });
    assert.ok(status >= 400 || /<!doctype html>/i.test(body), `${path}: ${status}`);
    assert.doesNotMatch(body, /root:|SQLite format/);
  }
});

test("every response has the headers that confine the page", async () => {
  for (const path of PATHS) {
    const { status, headers } = await server.request(path, { Cookie: cookie });
    assert.notEqual(status, 401, path);
    const policy = headers["content-security-policy"] ?? "";
    assert.match(policy, /default-src 'none'/, path);
    // A download is never shown, and if it were, it would be in a sandbox.
    assert.match(policy, /frame-ancestors 'none'|sandbox/, path);
    assert.doesNotMatch(policy, /unsafe|\*|https?:/, path);
    assert.equal(headers["x-content-type-options"], "nosniff", path);
    assert.match(headers["cache-control"] ?? "", /no-store/, path);
    assert.equal(headers["referrer-policy"], "no-referrer", path);
    assert.equal(headers["cross-origin-resource-policy"], "same-origin", path);
    for (const name of Object.keys(headers)) assert.doesNotMatch(name, /^access-control-/, path);
  }
});

test("exported HTML and whole texts are downloads", async () => {
  const report = await server.request("/api/runs/night-looped/report.html", { Cookie: cookie });
  assert.match(report.headers["content-disposition"], /^attachment/);
  const { body } = await server.request("/api/runs/night-looped/entries?count=200", { Cookie: cookie });
  const entry = JSON.parse(body).entries.find(({ blocks }) => blocks.some(({ pointer }) => pointer));
  const { pointer } = entry.blocks.find((block) => block.pointer);
  const text = await server.request(`/api/runs/night-looped/text/${entry.seq}?pointer=${encodeURIComponent(pointer)}`, { Cookie: cookie });
  assert.equal(text.status, 200);
  assert.match(text.headers["content-type"], /^text\/plain/);
  assert.match(text.headers["content-disposition"], /^attachment/);
});

test("the token is neither in the address nor in the history of the browser", async () => {
  const other = await Server.start(folder);
  const profile = join(folder, "profile");
  const browser = await launchWithProfile(profile);
  try {
    const page = await watch(await browser.newPage(), other.origin);
    await page.goto(other.link);
    await page.getByRole("heading", { level: 1 }).waitFor();
    const { pathname, search, hash } = new URL(other.link);
    const code = `${search}${hash}`.length > 8 ? /[=]([^&]+)/.exec(`${search}${hash}`)[1] : pathname.split("/").pop();
    assert.ok(code.length >= 16, `the link has a code that cannot be guessed: ${code.length} characters`);
    assert.ok(!page.url().includes(code), page.url());
    const [{ value: session }] = await browser.cookies(other.origin);
    const debug = await browser.newCDPSession(page);
    const { entries } = await debug.send("Page.getNavigationHistory");
    for (const { url } of entries) assert.ok(!url.includes(code), url);
    const resources = await page.evaluate(() => performance.getEntries().map(({ name }) => name));
    for (const name of resources) assert.ok(!name.includes(code), name);
    assert.equal(await page.evaluate(() => document.cookie), "");
    assert.equal(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage })).then((text) => text.includes(code)), false);
    assert.deepEqual(page.incidents, []);
    await browser.close();
    assertHistory(join(profile, "Default", "History"), other, code, session);
  } finally {
    await browser.close().catch(() => {});
    await other.kill();
  }
});

/**
 * Reads the file in which Chromium keeps its history. A browser also writes down addresses that only
 * redirect; it shows none of them, and the code in such an address is used up.
 */
function assertHistory(file, { origin }, code, session) {
  const CHAIN_END = 0x20000000;
  const copy = join(folder, "History");
  copyFileSync(file, copy);
  const read = (sql) => execFileSync("sqlite3", [copy, sql], { encoding: "utf8" });
  let all;
  try {
    all = read("select url, title from urls");
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
    return;
  }
  const shown = read(`select urls.url from urls join visits on visits.url = urls.id where visits.transition & ${CHAIN_END}`);
  assert.ok(shown.includes(origin), `the history has the page: ${shown}`);
  assert.ok(!shown.includes(code), shown);
  assert.ok(!all.includes(session), "the session is in the history");
}

/** Sends bytes and returns what comes back. */
function raw(bytes) {
  return new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect(server.port, "127.0.0.1", () => socket.write(bytes));
    socket.setEncoding("utf8").on("data", (text) => (answer += text)).on("end", () => resolve(answer)).on("error", reject);
  });
}
