// The benchmark of `midcourse ui`: makes the stores, starts the servers, and visits their pages in
// turns. Prints each visit as a JSON line, and the medians at the end.

import { createWriteStream } from "node:fs";
import { once } from "node:events";
import { join } from "node:path";

import { newFolder, removeFolder, Server, storeInBulk } from "../../tests/browser/program.js";
import { LONG_RUN, longRun, manyRuns } from "../../tests/browser/stores.js";
import { memoryOf, MLflow, Phoenix } from "./viewers.js";
import { visit } from "./visit.js";

const rounds = Number(process.argv[2] ?? 3);
/** Records of the run; a smaller run shows from where on a viewer has trouble. */
const SIZES = (process.env.MIDCOURSE_BENCH_RECORDS ?? "1500,100000").split(",").map(Number);
const RUNS = 10_000;
const READABLE_STEPS = `() => [...document.querySelectorAll("article .step-title")].some((title) => title.textContent.length > 5)`;
const READABLE_ROWS = `() => document.querySelectorAll("tbody a").length > 10`;

const folder = newFolder("bench");
const results = [];

async function main() {
  const pages = [];
  const servers = [];
  try {
    for (const size of SIZES) await addMidcourse(pages, servers, `run, ${size} records`, longRun(size), `/run/${LONG_RUN}`, READABLE_STEPS);
    await addMidcourse(pages, servers, `table, ${RUNS} runs`, manyRuns(RUNS), "/", READABLE_ROWS);
    if (process.env.MIDCOURSE_VIEWERS) {
      for (const Viewer of [Phoenix, MLflow]) await addViewer(pages, servers, Viewer);
    }
    for (let round = 1; round <= rounds; round += 1) {
      for (const page of pages) await measure(page, round);
    }
  } finally {
    for (const stop of servers) stop();
    removeFolder(folder);
  }
  summarize();
}

async function addMidcourse(pages, servers, name, lines, path, isReadable) {
  const home = newFolder("bench-store");
  const start = performance.now();
  await storeInBulk(home, lines);
  say({ viewer: "midcourse", name, storedInSeconds: (performance.now() - start) / 1000 });
  const server = await Server.start(home);
  servers.push(() => {
    server.child.kill("SIGKILL");
    removeFolder(home);
  });
  const [cookie, ...value] = (await server.signIn()).split("=");
  const cookies = [{ name: cookie, value: value.join("="), url: server.origin, httpOnly: true, sameSite: "Strict" }];
  const memory = () => memoryOf(server.child.pid);
  pages.push({ viewer: "midcourse", name, url: server.origin + path, cookies, isReadable, memory });
}

async function addViewer(pages, servers, Viewer) {
  const viewer = new Viewer(join(folder, Viewer.name));
  servers.push(() => viewer.stop());
  await viewer.ready();
  say({ viewer: viewer.name, name: "started", memory: viewer.memory() });
  for (const size of SIZES) {
    const lines = join(folder, `${size}.jsonl`);
    const file = createWriteStream(lines);
    // Each size is a run, and so a trace, of its own.
    for (const line of longRun(size)) {
      if (!file.write(`${JSON.stringify(line).replaceAll(LONG_RUN, `${LONG_RUN}-${size}`)}\n`)) await once(file, "drain");
    }
    await new Promise((done) => file.end(done));
    const trace = await viewer.load(lines);
    const name = `run, ${size} records`;
    say({ viewer: viewer.name, name, spans: trace.spans, storedInSeconds: trace.seconds, memory: viewer.memory() });
    pages.push({
      viewer: viewer.name, name, url: viewer.url(trace), isReadable: viewer.isReadable,
      settle: viewer.settle?.bind(viewer), memory: () => viewer.memory(),
    });
  }
}

async function measure(page, round) {
  // A page that could not be read once is not tried again: it takes minutes.
  if (results.some(({ viewer, name, readable }) => viewer === page.viewer && name === page.name && readable === null)) return;
  const before = page.memory();
  const figures = await visit(page).catch((error) => ({ readable: null, error: error.message.split("\n")[0] }));
  const result = { viewer: page.viewer, name: page.name, round, ...figures, memoryBefore: before, memoryAfter: page.memory() };
  results.push(result);
  say(result);
}

function say(object) {
  const rounded = Object.entries(object).map(([key, value]) => [key, typeof value === "number" ? Math.round(value * 10) / 10 : value]);
  console.log(JSON.stringify(Object.fromEntries(rounded)));
}

function summarize() {
  const median = (values) => {
    const known = values.filter((value) => typeof value === "number").sort((a, b) => a - b);
    return known.length > 0 ? Math.round(known[Math.floor(known.length / 2)]) : null;
  };
  const rows = Map.groupBy ? Map.groupBy(results, keyOf) : groupBy(results, keyOf);
  const columns = ["painted", "readable", "longest", "scrollLongest", "slowestFrame", "heap", "elements", "memoryBefore", "memoryAfter"];
  console.table(Object.fromEntries([...rows].map(([key, visits]) => [
    key, Object.fromEntries(columns.map((column) => [column, median(visits.map((one) => one[column]))])),
  ])));
}

const keyOf = ({ viewer, name }) => `${viewer}: ${name}`;

function groupBy(items, key) {
  const groups = new Map();
  for (const item of items) groups.set(key(item), [...(groups.get(key(item)) ?? []), item]);
  return groups;
}

await main();
