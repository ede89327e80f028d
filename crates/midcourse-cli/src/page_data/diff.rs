//! Diffs: of the arguments of tools that edit files, and of patches in texts. A diff is a list of
//! lines, each with a sign: `-`, `+`, a space, or `@` for a line that says where the next ones are.

use std::time::Duration;

use serde_json::{Map, Value};
use similar::{ChangeTag, TextDiff};

use super::cut::start;

/// A line of a diff: its sign and its text.
pub(crate) type DiffLine = (&'static str, String);

/// The changes of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FileDiff {
    pub(super) path: Option<String>,
    pub(super) lines: Vec<DiffLine>,
    /// The characters of the texts from which the diff is made.
    pub(super) length: usize,
    pub(super) is_cut: bool,
}

/// How long the comparison of two texts may search for the shortest diff. After that it takes a
/// longer one.
const TIMEOUT: Duration = Duration::from_millis(200);

/// The names that hosts give to the old and the new text of an edit.
const EDIT_NAMES: [(&str, &str); 4] = [
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("old_str", "new_str"),
    ("oldText", "newText"),
];

/// The names that hosts give to the path of a file.
pub(super) const PATH_NAMES: [&str; 6] =
    ["file_path", "filePath", "path", "absolute_path", "notebook_path", "target_file"];

/// The names that hosts give to the whole content of a file.
const CONTENT_NAMES: [&str; 4] = ["content", "contents", "file_text", "new_source"];

/// The names of arguments that may contain a patch.
const PATCH_NAMES: [&str; 5] = ["patch", "input", "diff", "command", "cmd"];

/// Diffs that arguments of a call contain, and the names of these arguments.
pub(super) struct ArgumentDiffs {
    pub(super) files: Vec<FileDiff>,
    pub(super) names: Vec<&'static str>,
}

/// The diffs in the arguments of a call. `details` are data that the host adds to the result; with
/// them, Claude Code says which lines of the file changed.
pub(super) fn of_arguments(
    tool: &str,
    fields: &Map<String, Value>,
    details: Option<&Value>,
    max: usize,
) -> Option<ArgumentDiffs> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let path_name = PATH_NAMES.into_iter().find(|name| text(name).is_some());
    let path = path_name.and_then(text).map(|path| start(path, 1_000).to_owned());
    let mut names: Vec<&'static str> = path_name.into_iter().collect();
    let file = |diff: FileDiff| vec![FileDiff { path: path.clone(), ..diff }];
    if let Some((old, new)) = EDIT_NAMES.into_iter().find(|(old, new)| {
        text(new).is_some() && (text(old).is_some() || fields.get(*old).is_none())
    }) && (text(old).is_some() || path.is_some())
    {
        names.extend([old, new]);
        let diff = || of_texts(text(old).unwrap_or_default(), text(new).unwrap_or_default(), max);
        return Some(ArgumentDiffs {
            files: file(from_details(details, max).unwrap_or_else(diff)),
            names,
        });
    }
    if let Some(edits) = fields.get("edits").and_then(Value::as_array)
        && let Some(diff) = of_edits(edits, max)
    {
        names.push("edits");
        return Some(ArgumentDiffs {
            files: file(from_details(details, max).unwrap_or(diff)),
            names,
        });
    }
    for name in PATCH_NAMES {
        if let Some(files) = fields.get(name).and_then(|value| patch_in(value, name, max)) {
            return Some(ArgumentDiffs { files, names: vec![name] });
        }
    }
    let tool = tool.to_lowercase();
    let writes = ["write", "create", "str_replace", "notebook"].iter().any(|it| tool.contains(it));
    let content = CONTENT_NAMES.into_iter().find(|name| text(name).is_some())?;
    if !writes || path.is_none() {
        return None;
    }
    names.push(content);
    let diff = || of_texts("", text(content).unwrap_or_default(), max);
    Some(ArgumentDiffs { files: file(from_details(details, max).unwrap_or_else(diff)), names })
}

/// The patch in one argument: a text, or a command as a list of words.
fn patch_in(value: &Value, name: &str, max: usize) -> Option<Vec<FileDiff>> {
    let text = match value {
        Value::String(text) => text.as_str(),
        Value::Array(words) => {
            words.iter().filter_map(Value::as_str).find(|word| has_patch(word))?
        }
        _ => return None,
    };
    if has_patch(text) {
        return Some(of_patch(text, max));
    }
    let is_command = name == "command" || name == "cmd";
    if is_command { None } else { of_unified_diff(text, max).map(|(_, files)| files) }
}

/// How far into a text the start of a patch is searched.
const SEARCHED_CHARS: usize = 4_000;

fn has_patch(text: &str) -> bool {
    start(text, SEARCHED_CHARS).contains("*** Begin Patch")
}

/// Compares two texts line by line. Each is cut to `max` characters first.
pub(super) fn of_texts(old: &str, new: &str, max: usize) -> FileDiff {
    let (from, to) = (start(old, max), start(new, max));
    let is_cut = from.len() < old.len() || to.len() < new.len();
    let length = old.chars().count().saturating_add(new.chars().count());
    let line = |text: &str| text.strip_suffix('\n').unwrap_or(text).to_owned();
    let lines = if from.is_empty() {
        to.split_inclusive('\n').map(|text| ("+", line(text))).collect()
    } else {
        let diff = TextDiff::configure().timeout(TIMEOUT).diff_lines(from, to);
        let sign = |tag| match tag {
            ChangeTag::Delete => "-",
            ChangeTag::Insert => "+",
            ChangeTag::Equal => " ",
        };
        diff.iter_all_changes().map(|change| (sign(change.tag()), line(change.value()))).collect()
    };
    FileDiff { path: None, lines, length, is_cut }
}

/// Several edits of one file; `None` if none of them is known.
fn of_edits(edits: &[Value], max: usize) -> Option<FileDiff> {
    let mut all = FileDiff::default();
    let mut left = max;
    for (number, edit) in edits.iter().enumerate() {
        let text = |name: &str| edit.get(name).and_then(Value::as_str);
        let names = EDIT_NAMES.into_iter().find(|(_, new)| text(new).is_some());
        let Some((old, new)) = names else { continue };
        let (old, new) = (text(old).unwrap_or_default(), text(new).unwrap_or_default());
        let diff = of_texts(old, new, left);
        left = left.saturating_sub(diff.length);
        all.length = all.length.saturating_add(diff.length);
        all.is_cut |= diff.is_cut;
        if !diff.lines.is_empty() {
            all.lines.push(("@", format!("edit {} of {}", number + 1, edits.len())));
            all.lines.extend(diff.lines);
        }
    }
    (all.length > 0).then_some(all)
}

/// The patch in the details of a result, as Claude Code writes it: hunks with line numbers.
fn from_details(details: Option<&Value>, max: usize) -> Option<FileDiff> {
    let hunks = details?.get("structuredPatch")?.as_array()?;
    let mut diff = FileDiff::default();
    for hunk in hunks {
        let number = |name: &str| hunk.get(name).and_then(Value::as_u64);
        let place = format!(
            "@@ -{},{} +{},{} @@",
            number("oldStart")?,
            number("oldLines")?,
            number("newStart")?,
            number("newLines")?
        );
        diff.lines.push(("@", place));
        for line in hunk.get("lines")?.as_array()? {
            diff.add(line.as_str()?, max);
        }
    }
    (diff.length > 0).then_some(diff)
}

impl FileDiff {
    /// Adds a line that begins with its sign, unless the diff has `max` characters already.
    fn add(&mut self, line: &str, max: usize) {
        let (sign, text) = match (line.strip_prefix('+'), line.strip_prefix('-')) {
            (Some(text), _) => ("+", text),
            (_, Some(text)) => ("-", text),
            _ if line.starts_with("@@") || line.starts_with('\\') => ("@", line),
            _ => (" ", line.strip_prefix(' ').unwrap_or(line)),
        };
        self.push(sign, text, max);
    }

    fn push(&mut self, sign: &'static str, text: &str, max: usize) {
        let left = max.saturating_sub(self.length);
        // An empty line counts, too: else a text of newlines would have no limit.
        let length = text.chars().count().saturating_add(1);
        self.length = self.length.saturating_add(length);
        if left == 0 {
            self.is_cut = true;
            return;
        }
        let kept = start(text, left);
        self.is_cut |= kept.len() < text.len();
        self.lines.push((sign, kept.to_owned()));
    }
}

/// The files of a patch in the format of Codex's `apply_patch`.
fn of_patch(text: &str, max: usize) -> Vec<FileDiff> {
    let mut files: Vec<FileDiff> = Vec::new();
    let lines = text.lines().skip_while(|line| !line.contains("*** Begin Patch")).skip(1);
    for line in lines.take_while(|line| *line != "*** End Patch") {
        let header = line.strip_prefix("*** ").and_then(|header| header.split_once(": "));
        match (header, files.last_mut()) {
            (Some(("Add File" | "Update File" | "Delete File", path)), _) => {
                let path = Some(start(path, 1_000).to_owned());
                let mut file = FileDiff { path, ..FileDiff::default() };
                if line.starts_with("*** Delete") {
                    file.push("@", "the file is deleted", max);
                }
                files.push(file);
            }
            (Some(("Move to", path)), Some(file)) => {
                file.push("@", &format!("moved to {path}"), max)
            }
            (_, Some(file)) => file.add(line, max),
            (_, None) => {}
        }
    }
    files
}

/// The files of a unified diff in a text, and the text before the first one; `None` if the text
/// contains no diff. `git show`, for example, writes the message of the commit before the diff.
pub(super) fn of_unified_diff(text: &str, max: usize) -> Option<(&str, Vec<FileDiff>)> {
    let at = diff_start(start(text, SEARCHED_CHARS))?;
    let (before, diff) = text.split_at_checked(at)?;
    let mut files: Vec<FileDiff> = Vec::new();
    // How many lines of the hunk are left, in the old and in the new file.
    let mut left = (0_u64, 0_u64);
    let mut has_header = false;
    for line in diff.split('\n') {
        let is_in_hunk = left != (0, 0);
        let begins = line.starts_with("diff --git ") || line.starts_with("--- ") && !has_header;
        if !is_in_hunk && begins {
            has_header = line.starts_with("diff ");
            let path = line.rsplit_once(" b/").map(|(_, path)| path.to_owned());
            files.push(FileDiff { path: path.filter(|_| has_header), ..FileDiff::default() });
            if has_header {
                continue;
            }
        }
        let Some(file) = files.last_mut() else { continue };
        if let Some(counts) = line.strip_prefix("@@ ").filter(|_| !is_in_hunk).and_then(hunk_counts)
        {
            (left, has_header) = (counts, false);
            file.push("@", line, max);
        } else if is_in_hunk {
            let old = u64::from(!line.starts_with(['+', '\\']));
            let new = u64::from(!line.starts_with(['-', '\\']));
            left = (left.0.saturating_sub(old), left.1.saturating_sub(new));
            file.add(line, max);
        } else if let Some(path) = line.strip_prefix("--- ").or_else(|| line.strip_prefix("+++ ")) {
            let path = path.split('\t').next().unwrap_or(path);
            let path = ["a/", "b/"].iter().find_map(|it| path.strip_prefix(it)).unwrap_or(path);
            if path != "/dev/null" {
                file.path = Some(start(path, 1_000).to_owned());
            }
        } else if !line.is_empty() {
            // Such as `new file mode`, or a text after the diff.
            file.push("@", line, max);
        }
    }
    Some((before, files))
}

/// Where the first file of a unified diff begins.
fn diff_start(text: &str) -> Option<usize> {
    let mut at = 0;
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let is_pair = line.starts_with("--- ")
            && lines.peek().is_some_and(|next| next.starts_with("+++ "))
            && text.get(at..).is_some_and(|rest| rest.contains("\n@@ "));
        if line.starts_with("diff --git ") || is_pair {
            return Some(at);
        }
        at += line.len();
    }
    None
}

/// The numbers of lines in a hunk's header: `-1,3 +1,4 @@ …`.
fn hunk_counts(header: &str) -> Option<(u64, u64)> {
    let mut words = header.split(' ');
    let mut count = |sign: char| {
        let range = words.next()?.strip_prefix(sign)?;
        range.split_once(',').map_or(Some(1), |(_, count)| count.parse().ok())
    };
    Some((count('-')?, count('+')?))
}

#[cfg(test)]
mod tests;
