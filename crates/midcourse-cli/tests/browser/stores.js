// The runs that the tests look at, as lines for `midcourse record`. The same in every execution.

/** Writes the lines of one run. */
export class RunWriter {
  constructor(run, { host = "claude-code", at = 1_772_492_460_000, parent, seed = 7 } = {}) {
    Object.assign(this, { run, host, at, parent, calls: 0, lines: [], state: Math.imul(seed + 1, 2_654_435_761) >>> 0 });
  }

  /** A number from 0 to `below` - 1. */
  number(below) {
    this.state = (Math.imul(this.state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((this.state / 2 ** 32) * below);
  }

  wait(seconds) {
    this.at += Math.round(seconds * 1000);
    return this;
  }

  event(payload) {
    const nesting = this.parent ? { parent_run_id: this.parent, depth: 1 } : {};
    this.lines.push({ run_id: this.run, host: this.host, recorded_at_unix_ms: this.at, ...nesting, payload });
    return this;
  }

  begin(task, { folder = "/home/ada/src/billing", model = "claude-sonnet-4-5-20250929", command = "claude -p …" } = {}) {
    const identity = { run_id: this.run, ...(this.parent ? { parent_run_id: this.parent, depth: 1 } : {}) };
    this.event({ kind: "run_started", identity });
    this.event({ kind: "run_described", folder, command, model, host_version: "2.1.34" });
    return this.user(task);
  }

  user(text) {
    return this.event({ kind: "message_appended", message: { role: "user", content: text } });
  }

  assistant(text) {
    const usage = { input_tokens: 12, output_tokens: 40 + this.number(400), cache_read_input_tokens: 20_000 };
    const content = [{ type: "text", text }];
    return this.event({ kind: "message_appended", message: { role: "assistant", content, stop_reason: "end_turn", usage } });
  }

  turn() {
    return this.event({ kind: "turn_started" });
  }

  start(tool, args) {
    this.calls += 1;
    this.event({ kind: "tool_started", tool_call_id: `call-${this.calls}`, tool_name: tool, args });
    return `call-${this.calls}`;
  }

  finish(id, tool, result, isError = false) {
    const content = typeof result === "string" ? [{ type: "text", text: result }] : result;
    return this.event({ kind: "tool_ended", tool_call_id: id, tool_name: tool, result: { content, is_error: isError }, is_error: isError });
  }

  call(tool, args, result, { isError = false, seconds = 1 } = {}) {
    const id = this.start(tool, args);
    return this.wait(seconds).finish(id, tool, result, isError);
  }

  deny(tool, args, reason) {
    const id = this.start(tool, args);
    return this.event({ kind: "denied", tool_call_id: id, tool_name: tool, reason });
  }

  end(outcome = "completed") {
    return this.event({ kind: "run_ended", outcome, new_messages: [] });
  }
}

/** The id of the run that `longRun` writes. */
export const LONG_RUN = "long-run";

/**
 * A run with about this many records, those of subagents not counted: turns, calls of several tools, failures, loops that midcourse
 * speaks about, refused calls, subagents, pauses of hours, and at its end a call without a result.
 */
export function* longRun(records) {
  const run = new RunWriter(LONG_RUN);
  run.begin("Port the whole repository to the new storage layer, module by module, and keep the tests green");
  let written = 0;
  for (let round = 0; written + run.lines.length < records; round += 1) {
    if (round % 40 === 13) {
      // A loop: the same command fails in the same way.
      for (let again = 0; again < 6 + run.number(8); again += 1) {
        run.turn().assistant("I start the database again.");
        run.call("Bash", { command: `docker compose up -d postgres-${round}` },
          "Exit code 1\nBind for 0.0.0.0:5432 failed: port is already allocated", { isError: true, seconds: 20 });
      }
    }
    if (round % 50 === 20) {
      const sub = new RunWriter(`${LONG_RUN}-review-${round}`, { at: run.at, parent: LONG_RUN, seed: round });
      sub.begin(`Review module ${round} for leftovers of the old storage layer`, { model: "claude-haiku-4-5-20251001" });
      for (let file = 0; file < 12; file += 1) {
        sub.call("Read", { file_path: `src/module${round}/file${file}.rs` }, `pub fn f${file}() -> u32 { ${sub.number(1000)} }`, { seconds: 3 });
      }
      sub.assistant("Nothing is left over.").end();
      const id = run.turn().start("Task", { description: `Review module ${round}` });
      written += run.lines.length;
      yield* run.lines.splice(0);
      yield* sub.lines;
      run.at = sub.at + 2_000;
      run.finish(id, "Task", "Nothing is left over.");
    }
    if (round % 120 === 77) run.wait(3_600 * (2 + run.number(6)));
    if (round % 90 === 31) run.deny("Bash", { command: "sudo reboot" }, "not allowed by the policy");
    if (round % 200 === 150) run.event({ kind: "context_compacted", trigger: "auto" });
    portModule(run, round);
    written += run.lines.length;
    yield* run.lines.splice(0);
  }
  run.turn().assistant("The last build is still running.");
  run.start("Bash", { command: "cargo build --release" });
  yield* run.lines;
}

function portModule(run, round) {
  const file = `src/module${round % 97}/part${round}.rs`;
  const lines = 50 + run.number(400);
  run.turn().assistant(`Module part ${round}: I read it, change the queries and run its tests.`);
  run.call("Read", { file_path: file }, `//! part ${round}\n`.repeat(3 + run.number(20)), { seconds: 1 });
  run.call("Edit", { file_path: file, old_string: `old_store(${lines})`, new_string: `store.query(${lines})` },
    `The file ${file} has been updated.`, { seconds: 1 });
  run.call("Grep", { pattern: `old_store\\(${round}`, path: "src" }, `src/a.rs:${lines}: old_store(${round})`, { seconds: 2 });
  const isError = run.number(6) === 0;
  run.call("Bash", { command: `cargo test --test part${round}` },
    isError ? `Exit code 101\ntest part${round}::sums_${lines} ... FAILED\nassertion failed: left: ${lines} right: ${lines + 1}`
      : `\u001b[32mtest result: ok.\u001b[0m ${lines} passed; finished in ${run.number(60)}s`, { isError, seconds: 5 + run.number(60) });
  run.wait(2 + run.number(20));
}

const HOSTS = ["claude-code", "codex", "gemini-cli", "opencode", "my-agent"];
const WORK = ["Fix the flaky test in", "Port", "Write documentation for", "Find the memory leak in", "Speed up", "Review"];
const PARTS = ["billing", "the importer", "the scheduler", "checkout", "the mail queue", "the search index", "the parser"];

/** This many short runs of several agents, some of which failed or have a subagent. */
export function* manyRuns(runs) {
  for (let index = 0; index < runs; index += 1) {
    const run = new RunWriter(`many-${String(index).padStart(5, "0")}`, {
      host: HOSTS[index % HOSTS.length], at: 1_760_000_000_000 + index * 600_000, seed: index,
    });
    const task = `${WORK[run.number(WORK.length)]} ${PARTS[run.number(PARTS.length)]}, ticket ${4000 + index}`;
    run.begin(task, { folder: `/home/ada/src/project-${index % 40}`, model: `model-${index % 6}` });
    for (let call = 0; call < 1 + run.number(4); call += 1) {
      const isError = run.number(5) === 0;
      run.call("Bash", { command: `make target-${call}` }, isError ? "make: *** [target] Error 1" : `built ${run.number(90)} files`,
        { isError, seconds: 3 + run.number(400) });
    }
    if (index % 7 !== 3) run.assistant("Done.").end(index % 11 === 5 ? "failed" : "completed");
    yield* run.lines;
    if (index % 25 === 4) {
      const sub = new RunWriter(`${run.run}-sub`, { host: run.host, at: run.at, parent: run.run });
      yield* sub.begin("Look at the logs").call("Read", { file_path: "build.log" }, "ok").end().lines;
    }
  }
}

/** Two attempts at the same task: other results from call 12 on, other arguments at call 20, and more calls in `b`. */
export function forkedRuns() {
  const attempt = (name) => {
    const run = new RunWriter(`fork-${name}`, { at: 1_772_700_000_000 + (name === "b" ? 86_400_000 : 0) });
    run.begin("Make the login page load in under a second", { folder: "/home/ada/src/shop" });
    for (let call = 1; call <= 30; call += 1) {
      const other = name === "b" && call === 20 ? "src/cache.ts" : `src/page${call}.ts`;
      const result = name === "b" && call === 12 ? "the page did not load" : `LCP ${call} s`;
      if (call % 2) run.call("Read", { file_path: other }, `export const page = ${call};`);
      else run.call("Bash", { command: `npx lighthouse --only lcp ${other}` }, result, { seconds: 8 });
    }
    if (name === "b") {
      for (const file of ["a", "b", "c"]) {
        run.call("Edit", { file_path: `src/${file}.ts`, old_string: "await load()", new_string: "preload()" }, "updated");
      }
    }
    return run.assistant(name === "b" ? "The page loads in 0.8 s." : "The page still needs 1.4 s.").end().lines;
  };
  return [...attempt("a"), ...attempt("b")];
}
