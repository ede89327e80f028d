// The plugin with which opencode reports its steps to midcourse. `midcourse run` writes this file for one
// process and `midcourse install opencode` for good, with the command to start. Whatever fails here, opencode continues as without it: no
// function throws, none waits longer than the time limit, and nothing is changed without a message.
import { spawn } from "node:child_process";

const COMMAND = "{{command}}";
const TIME_LIMIT_MS = "{{time limit}}";

// How many of the latest messages of a model request are searched for calls and tokens.
const MAX_MESSAGES = 8;

// Starts the hook with a payload. Resolves to its reply, or to "" if there is none in time. A hook that
// takes longer is not killed: it still records the event.
function report(payload) {
  return new Promise((resolve) => {
    let reply = "";
    const timer = setTimeout(() => resolve(""), TIME_LIMIT_MS);
    const end = (text) => {
      clearTimeout(timer);
      resolve(text);
    };
    try {
      const hook = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "pipe", "ignore"] });
      hook.on("error", () => end(""));
      hook.stdout.on("error", () => {});
      hook.stdout.on("data", (data) => (reply += data));
      hook.on("close", () => end(reply));
      hook.stdin.on("error", () => {});
      hook.stdin.end(JSON.stringify(payload));
    } catch {
      end("");
    }
  });
}

// The part of a message to whose text a message for the agent can be added: its last tool result, or
// the text of a user. -1 if there is none.
function place(message) {
  return (message?.parts ?? []).findLastIndex(
    (part) =>
      (part.type === "tool" && (typeof part.state?.output === "string" || typeof part.state?.error === "string")) ||
      (part.type === "text" && message.info?.role === "user" && typeof part.text === "string"),
  );
}

// Adds a text to the end of a model request. opencode builds these messages for one request, and copies
// are changed here, so the text is gone in the next request.
function insert(messages, text) {
  const last = messages[messages.length - 1];
  const at = place(last);
  const part = last.parts[at];
  const parts = [...last.parts];
  if (part.type === "text") {
    parts[at] = { ...part, text: `${part.text}\n\n${text}` };
  } else {
    const field = typeof part.state.output === "string" ? "output" : "error";
    parts[at] = { ...part, state: { ...part.state, [field]: `${part.state[field]}\n\n${text}` } };
  }
  messages[messages.length - 1] = { ...last, parts };
}

// A call that ended with an error. The hook tool.execute.after does not run for it.
function failedCall(part) {
  return { call_id: part.callID, tool: part.tool, args: part.state.input, error: part.state.error };
}

const hasFailed = (part) => part?.type === "tool" && part.state?.status === "error";

export const Midcourse = async ({ directory }) => {
  const parents = new Map();
  const lastTexts = new Map();
  // Parts of failed calls, by session. The next model request contains these calls; there is none if
  // the call ended the turn, as a refused call does.
  const failed = new Map();
  // Ids of failed calls and of messages with tokens that were reported already.
  const reported = new Set();
  const isNew = (id) => !reported.has(id) && reported.add(id);
  const send = (session, event, fields) =>
    report({
      session_id: session,
      hook_event_name: event,
      parent_session_id: parents.get(session),
      cwd: directory,
      ...fields,
    });
  const quietly = (handler) => async (input, output) => {
    try {
      await handler(input, output);
    } catch {
      // What cannot be reported is not recorded.
    }
  };
  return {
    "chat.message": quietly(async (input, output) => {
      const texts = output.parts.filter((part) => part.type === "text" && !part.synthetic);
      const prompt = texts.map((part) => part.text).join("\n");
      const model = output.message.model?.modelID ?? input.model?.modelID;
      await send(input.sessionID, "chat.message", { message_id: output.message.id, prompt, model });
    }),
    "tool.execute.before": quietly(async (input, output) => {
      const fields = { call_id: input.callID, tool: input.tool, args: output.args };
      await send(input.sessionID, "tool.execute.before", fields);
    }),
    "tool.execute.after": quietly(async (input, output) => {
      const { exit } = output.metadata ?? {};
      await send(input.sessionID, "tool.execute.after", {
        call_id: input.callID,
        tool: input.tool,
        args: input.args,
        output: output.output,
        // Only commands have an exit code. It is null if the command was killed.
        exit: exit === null ? "none" : exit,
      });
    }),
    "experimental.chat.messages.transform": quietly(async (_, output) => {
      const recent = output.messages.slice(-MAX_MESSAGES);
      const last = recent[recent.length - 1];
      const parts = recent.flatMap((message) => message.parts);
      failed.delete(last.info.sessionID);
      const reply = await send(last.info.sessionID, "chat.messages.transform", {
        after_message: last.info.id,
        accepts_message: place(last) >= 0,
        failed_calls: parts.filter((part) => hasFailed(part) && isNew(part.callID)).map(failedCall),
        usage: recent
          .filter(({ info }) => info.role === "assistant" && info.finish && isNew(info.id))
          .map((message) => ({ message_id: message.info.id, tokens: message.info.tokens })),
      });
      const { text } = reply ? JSON.parse(reply) : {};
      if (typeof text === "string") insert(output.messages, text);
    }),
    "experimental.text.complete": quietly(async (input, output) => {
      lastTexts.set(input.sessionID, output.text);
    }),
    event: quietly(async ({ event }) => {
      const session = event.properties?.sessionID;
      if (event.type === "session.created") {
        parents.set(session, event.properties.info?.parentID);
      } else if (event.type === "message.part.updated" && hasFailed(event.properties.part)) {
        const { part } = event.properties;
        failed.set(part.sessionID, [...(failed.get(part.sessionID) ?? []), part]);
      } else if (event.type === "session.idle") {
        const parts = (failed.get(session) ?? []).filter((part) => isNew(part.callID));
        failed.delete(session);
        await send(session, "session.idle", {
          failed_calls: parts.map(failedCall),
          last_assistant_message: lastTexts.get(session),
        });
        lastTexts.delete(session);
      } else if (event.type === "session.compacted") {
        await send(session, "session.compacted", {});
      }
    }),
  };
};
