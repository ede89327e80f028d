// Servers that show traces, each with a data folder of its own and without a network: Arize Phoenix
// and MLflow.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const folder = process.env.MIDCOURSE_VIEWERS;
/** How long the button for more is pressed. */
const LOAD_MORE_MS = 60_000;
const spans = new URL("./spans.py", import.meta.url).pathname;

class Viewer {
  constructor(scratch, command, args, env) {
    mkdirSync(scratch, { recursive: true });
    const shared = { PATH: process.env.PATH, HOME: scratch, DO_NOT_TRACK: "true" };
    this.child = spawn(command, args, { cwd: scratch, env: { ...shared, ...env }, stdio: "ignore", detached: true });
  }

  /** Waits until the server answers. */
  async ready() {
    for (;;) {
      const response = await fetch(this.origin).catch(() => null);
      if (response?.ok) return;
      if (this.child.exitCode !== null) throw new Error(`${this.name} ended with ${this.child.exitCode}`);
      await new Promise((done) => setTimeout(done, 500));
    }
  }

  /** Sends the lines as spans, and waits until the server has them. Returns the trace and the time that it took. */
  async load(lines) {
    const start = performance.now();
    const python = join(folder, this.name, "bin", "python");
    const sender = spawn(python, [spans, `${this.origin}/v1/traces`, ...this.headers], { stdio: ["pipe", "pipe", "inherit"] });
    createReadStream(lines).pipe(sender.stdin);
    let output = "";
    sender.stdout.on("data", (text) => (output += text));
    const [code] = await once(sender, "close");
    if (code !== 0) throw new Error(`${this.name}: sending the spans failed`);
    const trace = JSON.parse(output);
    while (!(await this.hasAll(trace))) await new Promise((done) => setTimeout(done, 500));
    return { ...trace, seconds: (performance.now() - start) / 1000 };
  }

  memory() {
    return memoryOf(this.child.pid);
  }

  stop() {
    process.kill(-this.child.pid, "SIGKILL");
  }
}

export class Phoenix extends Viewer {
  name = "phoenix";
  origin = "http://127.0.0.1:16006";
  headers = [];
  isReadable = `() => document.body.textContent.includes("Grep") && document.body.textContent.includes("assistant")`;

  constructor(scratch) {
    super(scratch, join(folder, "phoenix/bin/phoenix"), ["serve"], {
      PHOENIX_WORKING_DIR: scratch, PHOENIX_HOST: "127.0.0.1", PHOENIX_PORT: "16006", PHOENIX_GRPC_PORT: "14317",
      PHOENIX_TELEMETRY_ENABLED: "false", PHOENIX_ALLOW_EXTERNAL_RESOURCES: "false", PHOENIX_DISABLE_AGENT_ASSISTANT: "true",
    });
  }

  async query(text) {
    const response = await fetch(`${this.origin}/graphql`, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ query: text }),
    });
    return (await response.json()).data;
  }

  async hasAll({ trace_id: trace, spans: count }) {
    const data = await this.query(`{ projects { edges { node { id trace(traceId: "${trace}") { numSpans } } } } }`);
    const found = data?.projects.edges.find(({ node }) => node.trace);
    this.project = found?.node.id;
    return found?.node.trace.numSpans >= count;
  }

  url({ trace_id: trace }) {
    return `${this.origin}/projects/${this.project}/traces/${trace}`;
  }

  /** The page shows a part of a long trace, and a button for more. */
  async settle(page) {
    const notice = page.getByText(/Viewing [\d,]+ of [\d,]+ spans/);
    const shown = async () => ((await notice.count()) > 0 ? await notice.first().innerText() : "all");
    const first = await shown();
    const until = Date.now() + LOAD_MORE_MS;
    const more = page.getByRole("button", { name: "Load More" });
    let clicks = 0;
    while (Date.now() < until && (await more.count()) > 0) {
      const before = await shown();
      await more.click({ timeout: 60_000 });
      clicks += 1;
      await page.waitForFunction((was) => !document.body.textContent.includes(was), before, { timeout: 120_000 }).catch(() => {});
    }
    return { first, clicks, afterOneMinute: await shown() };
  }
}

export class MLflow extends Viewer {
  name = "mlflow";
  origin = "http://127.0.0.1:15000";
  headers = ["--header", "x-mlflow-experiment-id=0"];
  isReadable = `() => document.body.textContent.includes("Grep") && document.body.textContent.includes("assistant")`;

  constructor(scratch) {
    super(scratch, join(folder, "mlflow/bin/mlflow"), [
      "server", "--backend-store-uri", `sqlite:///${scratch}/mlflow.db`, "--default-artifact-root", `${scratch}/artifacts`,
      "--host", "127.0.0.1", "--port", "15000", "--workers", "1",
    ], { MLFLOW_DISABLE_TELEMETRY: "true" });
  }

  /** MLflow stores the spans of a request before it answers. */
  async hasAll() {
    return true;
  }

  url({ trace_id: trace }) {
    return `${this.origin}/#/experiments/0/traces?selectedEvaluationId=tr-${trace}`;
  }
}

/** Memory of a process and its children in MB, memory that they share counted once. */
export function memoryOf(pid) {
  const children = new Map();
  for (const name of readdirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const parent = Number(readFileSync(`/proc/${name}/stat`, "utf8").split(") ").pop().split(" ")[1]);
      children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
    } catch {
      // It ended meanwhile.
    }
  }
  const all = [pid];
  for (let at = 0; at < all.length; at += 1) all.push(...(children.get(all[at]) ?? []));
  let sum = 0;
  for (const process of all) {
    try {
      sum += Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${process}/smaps_rollup`, "utf8"))[1]);
    } catch {
      // It ended meanwhile.
    }
  }
  return sum / 1024;
}
