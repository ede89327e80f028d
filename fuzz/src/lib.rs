//! The properties that the fuzz targets check, one public function per target.
//!
//! The modules below, except `properties`, are those of the command `midcourse`, which has no
//! library: links in this folder lead to its source. So the command's own code is fuzzed as it is,
//! and nothing in it is public for the sake of fuzzing.

#![expect(dead_code, unused_imports, reason = "the command uses more of its modules")]

mod apis;
mod blocks;
mod config;
mod duration;
mod formats;
mod hosts;
mod input_line;
mod json_edit;
mod properties;
mod session_file;
mod session_format;
mod shell;
mod size;

use apis::Api;
use hosts::Host;

/// Hook payloads of Claude Code, and the end of its transcript.
pub fn hook_claude_code(data: &[u8]) {
    properties::hook::check(Host::ClaudeCode, data);
}

/// Hook payloads of Codex, and the end of its rollout.
pub fn hook_codex(data: &[u8]) {
    properties::hook::check(Host::Codex, data);
}

/// Hook payloads of Qwen Code, and the end of its transcript.
pub fn hook_qwen(data: &[u8]) {
    properties::hook::check(Host::Qwen, data);
}

/// Hook payloads of Gemini CLI, and the end of its transcript.
pub fn hook_gemini(data: &[u8]) {
    properties::hook::check(Host::Gemini, data);
}

/// Payloads of midcourse's plugin for opencode.
pub fn hook_opencode(data: &[u8]) {
    properties::hook::check(Host::Opencode, data);
}

/// Hook payloads of Copilot CLI.
pub fn hook_copilot(data: &[u8]) {
    properties::hook::check(Host::Copilot, data);
}

/// Conversations over Anthropic's Messages API.
pub fn api_messages(data: &[u8]) {
    properties::api::check(Api::Messages, data);
}

/// Conversations over OpenAI's Chat Completions API.
pub fn api_chat_completions(data: &[u8]) {
    properties::api::check(Api::ChatCompletions, data);
}

/// Conversations over OpenAI's Responses API.
pub fn api_responses(data: &[u8]) {
    properties::api::check(Api::Responses, data);
}

/// Conversations over Gemini's API.
pub fn api_gemini(data: &[u8]) {
    properties::api::check(Api::Gemini, data);
}

/// Redaction of secrets.
pub fn redact(data: &[u8]) {
    properties::redact::check(data);
}

/// The text notation of trajectories.
pub fn notation(data: &[u8]) {
    properties::notation::check(data);
}

/// Configuration files.
pub fn config(data: &[u8]) {
    properties::config::check(data);
}

/// Lines of `midcourse record` and `midcourse import`: one record each.
pub fn record(data: &[u8]) {
    properties::record::check(data);
}

/// Lines of the `events` format: one run each.
pub fn events(data: &[u8]) {
    properties::events::check(data);
}

/// Session files of other programs, of any format.
pub fn session_files(data: &[u8]) {
    properties::session_files::check(data);
}

/// Files with OpenTelemetry spans.
pub fn otel(data: &[u8]) {
    properties::otel::check(data);
}
