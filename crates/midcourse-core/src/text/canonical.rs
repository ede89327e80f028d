//! Reads the arguments of a tool call. `write_canonical` writes them in a canonical form, by which
//! calls are compared; `ArgsView` finds the arguments that say what the call works on.
//!
//! The canonical form does not depend on the order of the keys. Quotes in an argument are doubled,
//! so that a text in quotes cannot look like further arguments.

use std::borrow::Cow;

use serde_json::Value;

use crate::digest::Digest;

/// In a patch, a line that names a changed file begins with one of these.
const PATCH_HEADERS: [&str; 3] = ["*** Update File: ", "*** Add File: ", "*** Delete File: "];

/// How many lines a call is assumed to show if it says only where to start.
const DEFAULT_LINES_SHOWN: u32 = 2000;

/// Appends `args` to `out` with sorted keys, without the top-level keys that `skip` selects.
pub(crate) fn write_canonical(args: &Value, skip: impl Fn(&str) -> bool, out: &mut Vec<u8>) {
    match args {
        // Some tools take a single string instead of an object; it is written as it is.
        Value::String(text) => out.extend_from_slice(text.as_bytes()),
        Value::Object(map) => {
            out.push(b'{');
            write_entries(map, skip, out);
            out.push(b'}');
        }
        other => write_value(other, out),
    }
}

fn write_entries(
    map: &serde_json::Map<String, Value>,
    skip: impl Fn(&str) -> bool,
    out: &mut Vec<u8>,
) {
    let mut write = |key: &String, value: &Value| {
        if skip(key) {
            return;
        }
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        write_text(key, out);
        out.push(b':');
        write_value(value, out);
    };
    // With the feature `preserve_order`, which this workspace turns on, a `serde_json` map keeps
    // the order of the JSON text. Keys that are in order already are not sorted again.
    if map.keys().is_sorted() {
        map.iter().for_each(|(key, value)| write(key, value));
    } else {
        let mut entries: Vec<_> = map.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| key.as_str());
        entries.into_iter().for_each(|(key, value)| write(key, value));
    }
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(map) => {
            out.push(b'{');
            write_entries(map, |_| false, out);
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(item, out);
            }
            out.push(b']');
        }
        Value::String(text) => write_text(text, out),
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => {
            // Writing to a `Vec` cannot fail.
            let _ = serde_json::to_writer(out, number);
        }
    }
}

/// Appends arguments to `out` without layout, so that calls that differ only in layout are equal:
/// several whitespace characters in a row become one space, or one line end if a line end is among
/// them; comment lines and whitespace next to quotes are removed.
pub(crate) fn write_without_layout(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some((byte, following)) = rest.split_first() {
        rest = following;
        let is_line_start = matches!(out.last(), None | Some(b'"' | b'\n'));
        let is_comment = is_line_start
            && (matches!((byte, following.first()), (b'#', Some(b' ')) | (b'/', Some(b'/'))));
        if is_comment {
            let end = rest.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            // A comment on the last line is kept, because the text may consist of nothing else.
            if end > 0 {
                rest = rest.get(end..).unwrap_or_default();
                continue;
            }
        }
        if !byte.is_ascii_whitespace() {
            if *byte == b'"' && matches!(out.last(), Some(b' ' | b'\n')) {
                out.pop();
            }
            out.push(*byte);
        } else if matches!(out.last(), Some(b' ')) && *byte == b'\n' {
            out.pop();
            out.push(b'\n');
        } else if !matches!(out.last(), None | Some(b' ' | b'\n' | b'"')) {
            out.push(if *byte == b'\n' { b'\n' } else { b' ' });
        }
    }
}

/// Appends a string in quotes. Quotes inside it are doubled, so that no text can imitate the end of
/// the string.
fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = memchr::memchr(b'"', rest) {
        let (head, tail) = rest.split_at(at + 1);
        out.extend_from_slice(head);
        out.push(b'"');
        rest = tail;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// The well-known arguments of a call, such as `command` or `file_path`; `None` if the call does
/// not have the argument.
#[derive(Debug, Clone, Default)]
pub(crate) struct ArgsView<'a> {
    /// The command of a shell call.
    pub(crate) command: Option<Cow<'a, str>>,
    /// The file, URL or other object the call works on.
    pub(crate) target: Option<&'a str>,
    /// The text that an editing call replaces.
    pub(crate) old_text: Option<&'a str>,
    /// The text that an editing call writes.
    pub(crate) new_text: Option<&'a str>,
    /// The pattern or query of a search.
    pub(crate) search_term: Option<&'a str>,
    /// What a general tool shall do, such as `light.turn_on` or `POST`.
    pub(crate) action: Option<&'a str>,
    /// Whether an argument describes an element of a page.
    pub(crate) has_element: bool,
    /// Input for a process that is already running.
    pub(crate) input: Option<&'a str>,
    /// Digest of the arguments that hold the id of the call's object, such as `order_id`; the
    /// default digest if there are none.
    pub(crate) identity: Digest,
    /// Digest of the arguments that say what the call changes: ids, and others such as `range` or
    /// `panel`.
    pub(crate) subject: Option<Digest>,
    /// The first argument that looks like an id: `D-309`.
    first_id: Option<&'a str>,
    first_line: Option<u32>,
    last_line: Option<u32>,
    line_count: Option<u32>,
}

impl<'a> ArgsView<'a> {
    /// Examines every top-level argument once. If `args` is a single string instead of an object,
    /// the string is the command of a shell tool (`is_shell`), or a patch that names a file.
    pub(crate) fn of(args: &'a Value, is_shell: bool) -> Self {
        let mut view = Self::default();
        match args {
            Value::String(text) if is_shell => view.read_text("command", text),
            Value::String(text) => view.target = patched_file(text),
            Value::Object(map) => {
                view.has_element = map.contains_key("element");
                for (key, value) in map {
                    match value {
                        Value::String(text) => view.read_text(key, text),
                        Value::Number(number) => view.read_number(key, number.as_u64()),
                        Value::Array(items) => view.read_list(key, items),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        view.subject = view.subject.or(view.first_id.map(|id| Digest::of(id.as_bytes())));
        view
    }

    /// The first and last line of a file that the call asks for; `None` if it names no lines.
    pub(crate) fn lines(&self) -> Option<(u32, u32)> {
        let first = self.first_line.or(self.line_count.map(|_| 1))?;
        let after_first = self.line_count.unwrap_or(DEFAULT_LINES_SHOWN).saturating_sub(1);
        Some((first, self.last_line.unwrap_or_else(|| first.saturating_add(after_first))))
    }

    /// The command that the call runs; `None` if it runs none. The argument `command` of an editor
    /// names its action.
    pub(crate) fn shell_command(&self) -> Option<&str> {
        let is_editor = self.target.is_some()
            && matches!(
                self.command.as_deref(),
                Some("view" | "create" | "str_replace" | "insert" | "undo_edit")
            );
        self.command.as_deref().filter(|_| !is_editor)
    }

    fn read_text(&mut self, key: &str, text: &'a str) {
        let is_id = names_object(key) && !(key == "ref" && self.has_element);
        if is_id || is_subject(key) {
            self.subject = Some(self.subject.unwrap_or_default().then(text.as_bytes()));
        }
        if is_id {
            self.identity = self.identity.then(text.as_bytes());
        }
        if self.first_id.is_none() && is_id_like(text) {
            self.first_id = Some(text);
        }
        match key {
            "command" | "cmd" | "script" => self.command = Some(Cow::Borrowed(text)),
            "file_path" | "path" | "notebook_path" | "target_file" | "filename" | "file"
            | "url" | "uri" | "target" | "relative_path" | "absolute_path" => {
                // If several arguments name a target, the first of them counts.
                self.target.get_or_insert(text);
            }
            "old_string" | "old_str" | "old" => self.old_text = Some(text),
            "new_string" | "new_str" | "new" | "content" | "file_text" | "text" => {
                self.new_text = Some(text);
            }
            "pattern" | "query" | "q" | "regex" | "search" | "search_term" | "keyword"
            | "keywords" | "glob" | "sql" | "statement" => self.search_term = Some(text),
            "chars" | "input" | "keys" => self.input = Some(text),
            "action" | "method" | "operation" => self.action = Some(text),
            // `light.turn_on`. Without a dot, it is the name of a service.
            "service" if text.contains('.') => self.action = Some(text),
            _ => {}
        }
        if let Some(file) = patched_file(text) {
            self.target = Some(file);
            self.new_text = Some(text);
        }
    }

    fn read_number(&mut self, key: &str, number: Option<u64>) {
        if names_object(key) || is_subject(key) {
            let bytes = number.unwrap_or_default().to_le_bytes();
            self.subject = Some(self.subject.unwrap_or_default().then(&bytes));
        }
        let number = number.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        match key {
            "offset" | "start_line" | "line_start" | "start" | "from_line" | "line_number" => {
                self.first_line = number;
            }
            "end_line" | "line_end" | "end" | "to_line" => self.last_line = number,
            "limit" | "num_lines" | "lines" => self.line_count = number,
            _ => {}
        }
    }

    fn read_list(&mut self, key: &str, items: &'a [Value]) {
        match (key, items) {
            ("view_range" | "range" | "line_range", [first, last]) => {
                self.read_number("start", first.as_u64());
                // Editors write -1 for the end of the file. `as_u64` returns `None` for -1.
                self.read_number("end", last.as_u64().or(Some(u64::MAX)));
            }
            // `["bash", "-lc", "make"]`: the last item is the command line.
            ("command" | "cmd", [.., Value::String(flag), Value::String(command)])
                if flag.starts_with('-') && flag.ends_with('c') =>
            {
                self.read_text("command", command);
            }
            ("command" | "cmd" | "argv", words) => {
                let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                self.command = Some(Cow::Owned(words.join(" ")));
            }
            _ => {}
        }
    }
}

/// Whether an argument of this name says, without being an id, what a call changes.
fn is_subject(key: &str) -> bool {
    matches!(
        key,
        "range"
            | "cell"
            | "panel"
            | "selector"
            | "element"
            | "index"
            | "field"
            | "name"
            | "title"
            | "uid"
            | "resource"
            | "table"
            | "column"
            | "issue"
            | "ticket"
            | "page"
            | "to"
            | "from"
            | "source"
            | "destination"
    )
}

/// Whether a text looks like the id of an object: a short word with a digit and a capital letter, and
/// with nothing but these and dashes. Dates have no letter.
fn is_id_like(text: &str) -> bool {
    const LENGTHS: std::ops::RangeInclusive<usize> = 3..=24;
    LENGTHS.contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase() || b == b'-')
        && text.bytes().any(|b| b.is_ascii_digit())
        && text.bytes().any(|b| b.is_ascii_uppercase())
}

/// Whether an argument of this name holds the id of the call's object: `order_id`, `sha`. The id of
/// a request or a trace does not count, because it is new in each call.
fn names_object(key: &str) -> bool {
    const NOISE: [&str; 7] =
        ["request", "trace", "span", "correlation", "session", "idempotency", "call"];
    // A quick test: most names end in another letter.
    if !matches!(key.as_bytes().last(), Some(b'd' | b'a' | b'h' | b'y' | b't' | b'f')) {
        return false;
    }
    let is_id = matches!(key, "id" | "uuid" | "sha" | "commit" | "hash" | "ref" | "key")
        || ["_id", "Id", "_uuid", "_sha", "_hash", "_key"].iter().any(|end| key.ends_with(end));
    is_id && !NOISE.iter().any(|noise| key.contains(noise))
}

/// The first file that a patch in the `*** Begin Patch` format changes.
fn patched_file(text: &str) -> Option<&str> {
    if !text.starts_with("*** Begin Patch") {
        return None;
    }
    text.lines()
        .find_map(|line| PATCH_HEADERS.iter().find_map(|header| line.strip_prefix(header)))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn canonical(args: &Value) -> String {
        let mut out = Vec::new();
        write_canonical(args, |key| key == "description", &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn key_order_and_skipped_keys_do_not_change_the_canonical_form() {
        let a: Value =
            serde_json::from_str(r#"{"b":[1,{"y":2,"x":null}],"a":"t","description":"p"}"#)
                .unwrap();
        let b: Value = serde_json::from_str(r#"{"a":"t","b":[1,{"x":null,"y":2}]}"#).unwrap();
        assert_eq!(canonical(&a), canonical(&b));
        assert_eq!(canonical(&a), r#"{"a":"t","b":[1,{"x":null,"y":2}]}"#);
    }

    #[test]
    fn a_string_cannot_imitate_the_structure_around_it() {
        let one = json!({"a": "1\",\"b\":\"2"});
        let two = json!({"a": "1", "b": "2"});
        assert_ne!(canonical(&one), canonical(&two));
    }

    #[test]
    fn layout_and_comment_lines_are_dropped() {
        let plain = |text: &str| {
            let mut out = Vec::new();
            write_without_layout(text.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        };
        let sql = plain(r#"{"sql":"SELECT 1 FROM a"}"#);
        assert_eq!(plain("{\"sql\":\" SELECT  1\tFROM a \"}"), sql);
        let code = plain("{\"code\":\"print(x)\"}");
        assert_eq!(plain("{\"code\":\"# look at it\nprint(x)\"}"), code);
        assert_eq!(plain("{\"code\":\"  # again\n\n  print(x)\n\"}"), code);
        assert_ne!(plain("# only this"), plain("# only that"));
        assert_ne!(plain("a b"), plain("ab"));
    }

    #[test]
    fn the_target_comes_from_a_path_argument_or_a_patch() {
        let target = |args: Value| ArgsView::of(&args, false).target.map(str::to_owned);
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(target(json!({"file_path": "a.rs", "content": "x"})), some("a.rs"));
        let patch = "*** Begin Patch\n*** Update File: src/lib.rs\n@@\n";
        assert_eq!(target(json!({"command": patch})), some("src/lib.rs"));
        assert_eq!(target(json!({"command": "make"})), None);
    }

    #[test]
    fn command_lists_and_line_ranges_are_read() {
        let command = |args: Value| ArgsView::of(&args, false).command.map(Cow::into_owned);
        assert_eq!(command(json!({"cmd": ["bash", "-lc", "make x"]})), Some("make x".to_owned()));
        assert_eq!(command(json!({"command": ["ls", "-l"]})), Some("ls -l".to_owned()));
        assert_eq!(ArgsView::of(&json!("ls"), true).command.as_deref(), Some("ls"));
        let lines = |args: Value| ArgsView::of(&args, false).lines();
        assert_eq!(lines(json!({"offset": 10, "limit": 5})), Some((10, 14)));
        assert_eq!(lines(json!({"view_range": [3, -1]})), Some((3, u32::MAX)));
        assert_eq!(lines(json!({"limit": 50})), Some((1, 50)));
        assert_eq!(lines(json!({"path": "a"})), None);
    }
}
