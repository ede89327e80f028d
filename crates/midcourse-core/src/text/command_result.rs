//! Reads the result of a finished command. Agents wrap the output of a command in a form that adds
//! the exit code; this module finds the exit code, and the output without the form.
//!
//! Agents put the exit code on the first or the last line, in a JSON object, in tags or in a list
//! of labelled lines. Some of these forms also contain numbers that differ each time, such as the
//! id of the shell. The rest of the crate compares only the output, so that it recognizes a failure
//! that occurs again although these numbers differ. An exit code in the middle of a text is part of
//! the output.

use std::borrow::Cow;

use serde_json::Value;

use super::failure::strip_phrase;

/// A longer JSON object is not parsed; only its beginning and end are searched for an exit code.
const MAX_PARSED_JSON_BYTES: usize = 32 * 1024;

/// How many bytes at each end of a long JSON object are searched for an exit code.
const JSON_END_BYTES: usize = 400;

/// How many lines at the beginning or at the end of a result may belong to a form.
const MAX_FORM_LINES: usize = 8;

/// Names of the fields with an exit code in a JSON result.
const EXIT_CODE_FIELDS: [&str; 5] =
    ["exit_code", "exitCode", "returncode", "return_code", "exit_status"];

/// Names of the fields with the output of a command in a JSON result.
const OUTPUT_FIELDS: [&str; 7] =
    ["stdout", "stderr", "output", "aggregated_output", "content", "error", "message"];

/// The words that may stand before the exit code in a statement such as `Command failed with exit
/// code 3`.
const STATEMENT_WORDS: [&str; 24] = [
    "the",
    "a",
    "command",
    "process",
    "shell",
    "program",
    "script",
    "execution",
    "error",
    "failed",
    "completed",
    "finished",
    "terminated",
    "ended",
    "returned",
    "exited",
    "exit",
    "with",
    "code",
    "status",
    "exitcode",
    "exit_code",
    "returncode",
    "non-zero",
];

/// How the lines begin that Codex writes before the output of a command.
const CODEX_LABELS: [&str; 4] =
    ["Chunk ID:", "Wall time:", "Original token count:", "Total output"];

/// How the lines begin that Gemini CLI and Qwen Code write about a command.
const GEMINI_LABELS: [&str; 6] = [
    "Error:",
    "Exit Code:",
    "Signal:",
    "Background PIDs:",
    "Process Group PGID:",
    "Process Group ID:",
];

/// A finished command, as its agent reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandResult<'a> {
    pub(crate) exit_code: i64,
    /// The output of the command, without the exit code and the other parts of the form.
    pub(crate) output: Cow<'a, str>,
    pub(crate) form: Form,
}

/// How the exit code was given. This determines how sure it is that the agent wrote it, because the
/// output of a command may contain a similar text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Tags or labels that only an agent writes.
    Envelope,
    /// A statement on the first line, or a JSON object. A file may have the same content.
    FirstLine,
    /// A statement on the last line. A log may end with the same line.
    LastLine,
}

impl<'a> CommandResult<'a> {
    /// Reads a result; `None` if it reports no exit code.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim();
        // smolagents and other agents that write results as user messages put this label first.
        let text = text.strip_prefix("Observation:").map_or(text, str::trim_start);
        // Gemini CLI puts these tags around output that the model should not trust.
        let inner = text.strip_prefix("<untrusted_context>");
        let inner = inner.and_then(|text| text.strip_suffix("</untrusted_context>"));
        let text = inner.map_or(text, str::trim);
        if text.starts_with('{') {
            return json(text);
        }
        tagged(text)
            .or_else(|| codex_sandbox(text))
            .or_else(|| codex(text))
            .or_else(|| gemini(text))
            .or_else(|| gptme(text))
            .or_else(|| aider(text))
            .or_else(|| continue_cli(text))
            .or_else(|| match last_line(text) {
                Some(result) if result.form == Form::Envelope => Some(result),
                other => first_line(text).or(other),
            })
    }

    /// Whether the command printed nothing.
    pub(crate) fn is_silent(&self) -> bool {
        is_silence(&self.output)
    }
}

/// Whether an output is empty, or is a text such as `(no output)` that hosts show instead of an
/// empty output.
pub(crate) fn is_silence(output: &str) -> bool {
    let output = output.trim();
    output.is_empty() || ["(no output)", "(empty)", "(none)"].contains(&output)
}

/// `<returncode>1</returncode>` before or after the output, which may be in `<output>` tags.
fn tagged(text: &str) -> Option<CommandResult<'_>> {
    const START: &str = "<returncode>";
    const END: &str = "</returncode>";
    let first = text.strip_prefix(START).and_then(|text| text.split_once(END));
    let last = || {
        let (rest, code) = text.strip_suffix(END)?.rsplit_once(START)?;
        Some((code, rest))
    };
    let (code, rest) = first.or_else(last)?;
    let exit_code = code.trim().parse().ok()?;
    let rest = rest.trim();
    let output = rest.strip_prefix("<output>").unwrap_or(rest);
    let output = output.strip_suffix("</output>").unwrap_or(output);
    Some(CommandResult { exit_code, output: Cow::Borrowed(output), form: Form::Envelope })
}

/// Codex's header: `Chunk ID`, `Wall time`, `Process exited with code`, and `Output:` before the
/// output.
fn codex(text: &str) -> Option<CommandResult<'_>> {
    // Most results are not from Codex. They return here, before the whole text is searched.
    let first = text.lines().next()?;
    if !CODEX_LABELS.iter().any(|label| first.starts_with(label)) && statement(first).is_none() {
        return None;
    }
    let (header, output) = match text.split_once("\nOutput:") {
        Some((header, output)) => (header, output),
        None => (text, ""),
    };
    let mut exit_code = None;
    let mut has_label = false;
    for (index, line) in header.lines().enumerate() {
        if index == MAX_FORM_LINES {
            return None;
        }
        let is_label = CODEX_LABELS.iter().any(|label| line.starts_with(label));
        has_label |= is_label;
        match statement(line) {
            Some((code, _)) => exit_code = Some(code),
            None if is_label => {}
            None => return None,
        }
    }
    let exit_code = exit_code.filter(|_| has_label)?;
    Some(CommandResult { exit_code, output: Cow::Borrowed(output), form: Form::Envelope })
}

/// Codex's report of a command that its sandbox stopped: `failed in sandbox NAME with execution
/// error: …, exit code: 1, stdout: …, stderr: …`.
fn codex_sandbox(text: &str) -> Option<CommandResult<'_>> {
    let (_, rest) = text.strip_prefix("failed in sandbox ")?.split_once(", exit code: ")?;
    let (code, output) = rest.split_once(", stdout: ")?;
    let exit_code = code.parse().ok()?;
    let output = output.strip_prefix(", stderr: ").unwrap_or(output);
    Some(CommandResult { exit_code, output: Cow::Borrowed(output), form: Form::Envelope })
}

/// Gemini CLI's labelled lines: `Output: …`, then `Error: …`, `Exit Code: …`, `Signal: …` and
/// `Process Group PGID: …`. After a success there may be only the last one.
fn gemini(text: &str) -> Option<CommandResult<'_>> {
    if !["Command:", "Output:"].iter().any(|label| text.starts_with(label)) {
        return None;
    }
    let (mut code, mut signal, mut error) = (None, None, None);
    let mut has_group = false;
    let mut end = text.len();
    let mut start = text.len().saturating_add(1);
    for line in text.rsplit('\n').take(MAX_FORM_LINES) {
        start = start.saturating_sub(line.len().saturating_add(1));
        let Some(label) = GEMINI_LABELS.iter().find(|label| line.starts_with(*label)) else {
            // The loop goes from the last line up. A line without a label may be a further line of
            // an error, whose label is above it.
            continue;
        };
        let value = line.get(label.len()..).unwrap_or_default().trim();
        end = start;
        match *label {
            "Exit Code:" => code = value.parse::<i64>().ok(),
            "Signal:" => signal = value.parse::<i64>().ok(),
            "Error:" => error = (value != "(none)" && !value.is_empty()).then_some(value),
            "Process Group PGID:" => has_group = true,
            _ => {}
        }
        // `Error:` is the label directly after the output. All lines above it are output, even
        // those that begin like a label.
        if *label == "Error:" {
            break;
        }
    }
    let exit_code = code
        .or_else(|| signal.map(|signal| signal.saturating_add(128)))
        .or_else(|| error.map(|_| 1))
        .or_else(|| has_group.then_some(0))?;
    let output = text.get(..end).unwrap_or(text);
    let output =
        output.find("Output:").and_then(|at| output.get(at + 7..)).unwrap_or(output).trim();
    let output = if output == "(empty)" { "" } else { output };
    let output = match error {
        Some(error) if output.is_empty() => Cow::Borrowed(error),
        Some(error) if !output.contains(error) => Cow::Owned(format!("{output}\n{error}")),
        _ => Cow::Borrowed(output),
    };
    Some(CommandResult { exit_code, output, form: Form::Envelope })
}

/// gptme's result: ``Ran command: `cat a` `` (or `Ran allowlisted command`), the output between
/// backticks, and the last line `Return code: 1`, which is missing if the command succeeded.
fn gptme(text: &str) -> Option<CommandResult<'_>> {
    let rest = text.strip_prefix("Ran ")?;
    let rest = rest.strip_prefix("allowlisted ").unwrap_or(rest).strip_prefix("command: `")?;
    let (_, rest) = rest.split_once("\n\n")?;
    let (output, code) = match rest.rsplit_once("\nReturn code: ") {
        Some((output, code)) => (output, code.trim().parse().ok()?),
        None => (rest, 0),
    };
    let output = Cow::Borrowed(output.trim().trim_matches('`'));
    Some(CommandResult { exit_code: code, output, form: Form::Envelope })
}

/// What aider sends after an edit: the output of a check that failed. It does not send the output of
/// one that succeeded, and never names an exit code.
fn aider(text: &str) -> Option<CommandResult<'_>> {
    let (_, output) =
        text.strip_prefix("I ran this command:\n\n")?.split_once("\n\nAnd got this output:\n\n")?;
    Some(CommandResult { exit_code: 1, output: Cow::Borrowed(output), form: Form::Envelope })
}

/// Continue's result of a failed command: `Error executing tool Bash: Error (exit code 1): …`.
fn continue_cli(text: &str) -> Option<CommandResult<'_>> {
    let (_, rest) =
        text.strip_prefix("Error executing tool ")?.split_once(": Error (exit code ")?;
    let (code, output) = rest.split_once("):")?;
    let exit_code = code.parse().ok()?;
    Some(CommandResult { exit_code, output: Cow::Borrowed(output.trim()), form: Form::Envelope })
}

fn first_line(text: &str) -> Option<CommandResult<'_>> {
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    let (exit_code, form) = statement(line)?;
    let rest = rest.trim_start();
    let label = ["code output:", "command output:", "output:"];
    let output = label.iter().find_map(|label| strip_phrase(rest, label)).unwrap_or(rest);
    let form = if form == Form::Envelope { form } else { Form::FirstLine };
    Some(CommandResult { exit_code, output: Cow::Borrowed(output), form })
}

/// A statement on the last line, which may be followed by further lines in brackets.
fn last_line(text: &str) -> Option<CommandResult<'_>> {
    let mut end = text.len();
    for _ in 0..MAX_FORM_LINES {
        let before = text.get(..end)?.trim_end();
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.get(start..)?;
        if let Some((exit_code, form)) = statement(line) {
            let output = Cow::Borrowed(text.get(..start)?.trim_end());
            return Some(CommandResult { exit_code, output, form });
        }
        if start == 0 || !(line.starts_with('[') && line.ends_with(']')) {
            return None;
        }
        end = start;
    }
    None
}

/// The exit code in a line that says nothing else, such as `Exit code 3`,
/// `[The command completed with exit code 3.]` or `<shellId: 7 completed with exit code 3>`.
fn statement(line: &str) -> Option<(i64, Form)> {
    let line = line.trim();
    let mut rest = line.trim_start_matches(['[', '<', '(', '*', '`']);
    let is_bracketed = rest.len() < line.len() && line.ends_with([']', '>']);
    let mut form = if is_bracketed { Form::Envelope } else { Form::LastLine };
    if let Some(after) = strip_phrase(rest, "shellid:") {
        let after = after.trim_start();
        rest = after.trim_start_matches(|c: char| !c.is_whitespace());
        form = Form::Envelope;
    }
    // Read the words before the code. One of them must be a word such as `code` or `exited`,
    // because `exit 3` may be a line of a script.
    let (mut says_exit, mut has_label) = (false, false);
    loop {
        rest = rest.trim_start_matches([' ', ':', '=', '\t']);
        let end = rest.find([' ', ':', '=', '\t']).unwrap_or(rest.len());
        let (word, after) = rest.split_at_checked(end)?;
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            break;
        }
        let is = |known: &&&str| word.eq_ignore_ascii_case(known);
        let known = STATEMENT_WORDS.iter().find(is)?;
        says_exit |= known.contains("exit") || *known == "returncode";
        has_label |= matches!(*known, "code" | "status" | "exited")
            || matches!(*known, "exitcode" | "exit_code" | "returncode");
        rest = after;
    }
    let digits = rest.strip_prefix('-').unwrap_or(rest);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let (code, after) = digits.split_at_checked(end)?;
    let is_fraction =
        after.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let after = after.trim_start();
    let is_end =
        after.is_empty() || after.starts_with(['.', ')', ']', '>', ':', ',', ';', '(', '`']);
    if !(says_exit && has_label && is_end && !is_fraction) {
        return None;
    }
    let code: i64 = code.parse().ok()?;
    Some((if rest.starts_with('-') { -code } else { code }, form))
}

/// A JSON object with an exit code, at the top or in `metadata`.
fn json(text: &str) -> Option<CommandResult<'_>> {
    if !text.ends_with('}') {
        return None;
    }
    let parsed: Option<Value> =
        if text.len() <= MAX_PARSED_JSON_BYTES { serde_json::from_str(text).ok() } else { None };
    let Some(value) = parsed else {
        // A long object, one with a part left out, or a dictionary as Python writes it.
        let head = text.get(..text.floor_char_boundary(JSON_END_BYTES)).unwrap_or(text);
        let tail = text.len().saturating_sub(JSON_END_BYTES);
        let tail = text.get(text.ceil_char_boundary(tail)..).unwrap_or(text);
        let exit_code = exit_code_in(head).or_else(|| exit_code_in(tail))?;
        return Some(CommandResult {
            exit_code,
            output: Cow::Borrowed(text),
            form: Form::FirstLine,
        });
    };
    let code = |of: &Value| EXIT_CODE_FIELDS.iter().find_map(|name| of.get(name)?.as_i64());
    let metadata = value.get("metadata");
    let exit_code = code(&value)
        .or_else(|| metadata.and_then(code))
        .or_else(|| metadata?.get("exit")?.as_i64())?;
    let outputs = OUTPUT_FIELDS.iter().filter_map(|name| value.get(name)?.as_str());
    let outputs: Vec<&str> = outputs.filter(|output| !output.trim().is_empty()).collect();
    // If the output is in a field of another name, the whole object is compared.
    let has_output = OUTPUT_FIELDS.iter().any(|name| value.get(name).is_some());
    let has_only_code = value.as_object().is_some_and(|fields| fields.len() == 1);
    let output = if has_output || has_only_code {
        Cow::Owned(outputs.join("\n"))
    } else {
        Cow::Borrowed(text)
    };
    Some(CommandResult { exit_code, output, form: Form::FirstLine })
}

/// The number after a field such as `"exit_code":` or `'returncode':` in a part of an object.
fn exit_code_in(text: &str) -> Option<i64> {
    EXIT_CODE_FIELDS.iter().find_map(|name| {
        text.match_indices(name).find_map(|(at, _)| {
            let is_quote = |c: Option<char>| matches!(c, Some('"' | '\''));
            let after = text.get(at + name.len()..)?;
            let is_field =
                is_quote(text.get(..at)?.chars().next_back()) && is_quote(after.chars().next());
            let value = after.get(1..)?.trim_start().strip_prefix(':').filter(|_| is_field)?;
            let value = value.trim_start();
            let sign = usize::from(value.starts_with('-'));
            let digits = value.get(sign..)?;
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            value.get(..sign + end)?.parse().ok()
        })
    })
}

#[cfg(test)]
mod tests;
