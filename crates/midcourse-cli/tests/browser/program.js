// Starts `midcourse` with a data directory of its own: stores made from JSON lines, agents that
// report step by step, and the server of the page.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";

const scratch = join(process.env.MIDCOURSE_BROWSER_PACKAGES ?? "target/browser", "scratch");

/** A new empty folder, which `removeFolder` deletes. */
export function newFolder(name) {
  mkdirSync(scratch, { recursive: true });
  return mkdtempSync(join(scratch, `${name}-`));
}

export function removeFolder(folder) {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}

export function start(program, args, home, stdio) {
  // Nothing of the surroundings may reach the program but what it needs to run.
  const env = { PATH: process.env.PATH, HOME: home, MIDCOURSE_HOME: home, TMPDIR: scratch, LANG: "C.UTF-8" };
  return spawn(program, args, { cwd: home, env, stdio });
}

/** Runs a command of midcourse, optionally with input, and returns what it printed. */
export async function midcourse(home, args, input) {
  return run(process.env.MIDCOURSE_BINARY, args, home, input);
}

async function run(program, args, home, lines) {
  const child = start(program, args, home, ["pipe", "pipe", "pipe"]);
  let [output, errors] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text) => (errors += text));
  const closed = once(child, "close");
  for (const line of lines ?? []) {
    if (!child.stdin.write(line)) await once(child.stdin, "drain");
  }
  child.stdin.end();
  const [code] = await closed;
  if (code !== 0) throw new Error(`${program} ${args.join(" ")} failed (${code}): ${errors}${output}`);
  return output;
}

/** Stores lines for `midcourse record` quickly: many events in each commit. */
export async function storeInBulk(home, lines) {
  const asText = function* () {
    for (const line of lines) yield `${JSON.stringify(line)}\n`;
  };
  await run(process.env.MIDCOURSE_RECORD_IN_BULK, [], home, asText());
}

/** The lines of the three nights of examples/nights.rs. */
export async function nights() {
  const output = await run(process.env.MIDCOURSE_NIGHTS, [], scratch);
  return output.trimEnd().split("\n").map((line) => JSON.parse(line));
}

/** An agent that reports its steps to `midcourse record` while the test goes on. */
export class LiveAgent {
  constructor(home, run, host = "claude-code") {
    this.child = start(process.env.MIDCOURSE_BINARY, ["record", "--run", run, "--host", host], home, [
      "pipe", "pipe", "inherit",
    ]);
    this.replies = createInterface({ input: this.child.stdout })[Symbol.asyncIterator]();
  }

  /** Reports one payload, and returns the reply: it is on disk then. */
  async report(payload, fields = {}) {
    this.child.stdin.write(`${JSON.stringify({ ...fields, payload })}\n`);
    const { value } = await this.replies.next();
    return JSON.parse(value);
  }

  async call(id, tool, args, result, isError = false) {
    await this.report({ kind: "tool_started", tool_call_id: id, tool_name: tool, args });
    return this.finish(id, tool, result, isError);
  }

  finish(id, tool, result, isError = false) {
    const content = [{ type: "text", text: result }];
    return this.report({
      kind: "tool_ended", tool_call_id: id, tool_name: tool, result: { content, is_error: isError }, is_error: isError,
    });
  }

  async stop() {
    const closed = once(this.child, "close");
    this.child.stdin.end();
    await closed;
  }
}

/** `midcourse ui`: the server of the page. */
export class Server {
  constructor(home) {
    this.home = home;
  }

  /** Starts the server, on a free port unless one is given, and waits for its link. */
  static async start(home, port = 0) {
    const server = new Server(home);
    await server.launch(port);
    return server;
  }

  async launch(port) {
    const args = ["ui", "--no-open", "--port", String(port)];
    this.child = start(process.env.MIDCOURSE_BINARY, args, this.home, ["ignore", "pipe", "pipe"]);
    this.output = "";
    this.link = await new Promise((resolve, reject) => {
      const read = (text) => {
        this.output += text;
        const link = /https?:\/\/\S+(?=\s)/.exec(this.output);
        if (link) resolve(link[0]);
      };
      this.child.stdout.setEncoding("utf8").on("data", read);
      this.child.stderr.setEncoding("utf8").on("data", read);
      this.child.once("close", (code) => reject(new Error(`midcourse ui ended (${code}): ${this.output}`)));
    });
    this.origin = new URL(this.link).origin;
    this.port = Number(new URL(this.link).port);
  }

  /** Kills the server as a crash would. */
  async kill() {
    const closed = once(this.child, "close");
    this.child.kill("SIGKILL");
    await closed;
  }

  /** Starts the server again on the port that it had. */
  async restart() {
    await this.launch(this.port);
  }

  /** A GET request with exactly these headers. */
  request(path, headers = {}, method = "GET") {
    const host = new URL(this.origin).hostname;
    return new Promise((resolve, reject) => {
      const sent = httpRequest({ host, port: this.port, path, method, headers, agent: false }, (response) => {
        const { statusCode: status, headers: received } = response;
        // The stream of events has no end.
        if (String(received["content-type"]).startsWith("text/event-stream")) {
          response.destroy();
          resolve({ status, headers: received, body: "" });
          return;
        }
        let body = "";
        response.setEncoding("utf8").on("data", (text) => (body += text));
        response.on("end", () => resolve({ status, headers: received, body }));
        response.on("error", reject);
      });
      sent.on("error", reject);
      sent.end();
    });
  }

  /** Follows the link once, and returns the session cookie as a header value. */
  async signIn() {
    const { pathname, search } = new URL(this.link);
    const { headers } = await this.request(pathname + search);
    const [cookie] = headers["set-cookie"] ?? [];
    if (!cookie) throw new Error("the link set no cookie");
    return cookie.split(";")[0];
  }

  /** What the API says, for comparison with what the page shows. */
  async json(path) {
    this.cookie ??= await this.signIn();
    const { status, body } = await this.request(path, { Cookie: this.cookie });
    if (status !== 200) throw new Error(`${path}: status ${status}: ${body.slice(0, 300)}`);
    return JSON.parse(body);
  }

  /** The steps of a run, as objects. */
  async steps(run) {
    const steps = [];
    for (let from = 0; from !== null; ) {
      const page = await this.json(`/api/runs/${encodeURIComponent(run)}/outline?from=${from}`);
      page.seq.forEach((seq, at) => {
        const tool = page.tools[page.tool[at]] ?? null;
        steps.push({ seq, end: page.end_seq[at], kind: page.kinds[page.kind[at]], tool, state: page.state[at] });
      });
      from = page.next;
    }
    return steps;
  }

  /** Memory of the server that is not shared with other processes' files, in KiB; Linux only. */
  async memory() {
    const { readFile } = await import("node:fs/promises");
    const status = await readFile(`/proc/${this.child.pid}/status`, "utf8");
    return Number(/^VmRSS:\s+(\d+)/m.exec(status)[1]);
  }
}
