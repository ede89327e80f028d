//! The task of a run in one line: the first message of its user, for lists and reports.

use midcourse_core::{UserBlock, UserContent};

/// Maximum number of characters of a task.
const MAX_CHARS: usize = 200;

/// The most bytes at the start of a message that are searched for the task.
const MAX_BYTES: usize = 64 * 1024;

/// The task that a message of the user gives. `None` if the message has no text of the user: hosts
/// also send messages with the user's role that contain only their own texts in tags, such as
/// `<environment_context>…</environment_context>`.
pub(super) fn task_of(content: &UserContent) -> Option<String> {
    match content {
        UserContent::Text(text) => of_text(text),
        UserContent::Blocks(blocks) => blocks.iter().find_map(|block| match block {
            UserBlock::Text(text) => of_text(&text.text),
            UserBlock::Image(_) => None,
        }),
    }
}

fn of_text(text: &str) -> Option<String> {
    let text = text.get(..text.floor_char_boundary(MAX_BYTES)).unwrap_or_default();
    let mut line = String::new();
    let mut chars = 0_usize;
    for word in without_tags(text).split_whitespace() {
        if chars > 0 {
            line.push(' ');
            chars += 1;
        }
        for c in word.chars() {
            if chars >= MAX_CHARS {
                line.push('…');
                return Some(line);
            }
            line.push(c);
            chars += 1;
        }
    }
    (!line.is_empty()).then_some(line)
}

/// The text after the host's own texts in tags at its start.
fn without_tags(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        let Some(after_tag) = text.strip_prefix('<') else { return text };
        let end = after_tag.find(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c)));
        let name = after_tag.get(..end.unwrap_or_default()).unwrap_or_default();
        if name.is_empty() {
            return text;
        }
        let closing = format!("</{name}>");
        match text.split_once(closing.as_str()) {
            Some((_, rest)) => text = rest,
            None => return text,
        }
    }
}

#[cfg(test)]
mod tests {
    use midcourse_core::UserContent;

    use super::task_of;

    fn task(text: &str) -> Option<String> {
        task_of(&UserContent::Text(text.to_owned()))
    }

    #[test]
    fn a_task_is_one_line_of_bounded_length() {
        assert_eq!(task("  Fix the\n\n tests.\t").as_deref(), Some("Fix the tests."));
        assert_eq!(task(" \n "), None);
        let long = task(&"größer ".repeat(200)).unwrap();
        assert_eq!(long.chars().count(), 201);
        assert!(long.ends_with('…') && long.starts_with("größer größer"), "{long}");
        assert_eq!(task(&"x".repeat(200)).unwrap().chars().count(), 200);
    }

    #[test]
    fn texts_of_the_host_in_tags_are_not_the_task() {
        let context = "<environment_context>\n<cwd>/a</cwd>\n</environment_context>";
        assert_eq!(task(context), None);
        assert_eq!(task(&format!("{context}\nFix it")).as_deref(), Some("Fix it"));
        let reminders = "<system-reminder>a</system-reminder><system-reminder>b</system-reminder>";
        assert_eq!(task(&format!("{reminders} Go <on>")).as_deref(), Some("Go <on>"));
        for text in ["<div> is not closed", "< 3 tests fail", "<", "<é>x</é>"] {
            assert_eq!(task(text).as_deref(), Some(text));
        }
    }
}
