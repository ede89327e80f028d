//! Reads the model's messages: whether a message repeats itself or only announces an action.
//!
//! `analysis` calls these functions once per message.

use super::phrases::{Phrases, WHOLE};
use crate::digest::Digest;

/// How many bytes at the end of a message are examined. A model that is caught in a repetition does
/// not stop before the message ends.
const TAIL_BYTES: usize = 2048;

/// A piece of text that is repeated at least `MIN_REPEATS` times, over at least this many bytes in
/// total, is a repetition. Less than that may be emphasis, a list or a table.
const MIN_REPETITION_BYTES: usize = 160;
const MIN_REPEATS: usize = 8;

/// If the repeated piece has at least this many bytes, like a paragraph, `MIN_PARAGRAPH_REPEATS`
/// repeats are enough.
const MIN_PARAGRAPH_BYTES: usize = 80;
const MIN_PARAGRAPH_REPEATS: usize = 4;

/// A cheap test before the thorough search: if the last bytes of the message (this many) do not
/// also occur earlier in it, the message does not end in a repetition.
const ENDING_BYTES: usize = 20;

/// A repeated piece with fewer letters than this, such as a row of dashes or digits, is layout and
/// not a repetition.
const MIN_LETTERS_IN_PIECE: usize = 3;

/// A sentence of at least this many bytes is a repetition if it occurs at least
/// `MIN_SENTENCE_REPEATS` times in one message, and if at least three in five sentences of the
/// message are this sentence.
const MIN_SENTENCE_BYTES: usize = 16;
const MIN_SENTENCE_REPEATS: usize = 6;

/// A message with more bytes than this is not an announcement: it says more than what the model
/// will do next.
const MAX_ANNOUNCEMENT_BYTES: usize = 320;

/// Flag of a phrase that announces an action.
const ANNOUNCES: u16 = 1;
/// Flag of a phrase that asks for a decision, thanks the user or says that the work is done.
const IDLES: u16 = 2;
/// Flag of a phrase that says that the model waits, or that asks the user to wait.
const WAITS: u16 = 8;
/// Flag of a phrase that says that the model needs something from the user before it can act.
const ASKS: u16 = 16;
/// Flag of "I am" and "I'm", which announce an action if a verb such as "checking" follows.
const BEFORE_VERB: u16 = 4;

/// A message begins with an announcement if the announcement starts within this many bytes.
const MAX_LEAD_BYTES: usize = 40;

/// Phrases by which a model says what it will do next, or that it waits, asks or is done.
static INTENTS: Phrases<89> = Phrases::new([
    ("let me", ANNOUNCES),
    ("i will", ANNOUNCES),
    ("i'll", ANNOUNCES),
    ("i am going to", ANNOUNCES),
    ("i'm going to", ANNOUNCES),
    ("i'm about to", ANNOUNCES),
    ("i need to", ANNOUNCES),
    ("i should", ANNOUNCES),
    ("i shall", ANNOUNCES),
    ("i plan to", ANNOUNCES),
    ("i can now", ANNOUNCES),
    ("i'm now", ANNOUNCES),
    ("i am now", ANNOUNCES),
    ("now i", ANNOUNCES),
    ("let's", ANNOUNCES),
    ("next step", ANNOUNCES),
    ("going to", ANNOUNCES),
    ("proceeding", ANNOUNCES),
    ("about to", ANNOUNCES),
    ("time to", ANNOUNCES),
    ("starting with", ANNOUNCES),
    ("waiting", WAITS),
    ("i'm waiting", WAITS),
    ("please hold", WAITS),
    ("hold on", WAITS),
    ("one moment", WAITS),
    ("still running", WAITS),
    ("wait for", WAITS),
    ("please confirm", IDLES),
    ("confirm whether", IDLES),
    ("let me know", IDLES),
    ("shall i", IDLES),
    ("should i", IDLES),
    ("do you want", IDLES),
    ("would you like", IDLES),
    ("could you", IDLES),
    ("which option", IDLES),
    ("your decision", IDLES),
    ("your confirmation", IDLES),
    ("your answer", IDLES),
    ("is complete", IDLES),
    ("i have completed", IDLES),
    ("i've completed", IDLES),
    ("is completed", IDLES),
    ("been completed", IDLES),
    ("is done", IDLES | WHOLE),
    ("all done", IDLES),
    ("is finished", IDLES),
    ("nothing left to do", IDLES),
    ("no further", IDLES),
    ("task complete", IDLES),
    ("work is complete", IDLES),
    ("everything is", IDLES),
    ("as mentioned", IDLES),
    ("already done", IDLES),
    ("thank you", IDLES),
    ("thanks", IDLES | WHOLE),
    ("goodbye", IDLES),
    ("bye", IDLES | WHOLE),
    ("you're welcome", IDLES),
    ("you are welcome", IDLES),
    ("my pleasure", IDLES),
    ("take care", IDLES),
    ("have a nice", IDLES),
    ("have a great", IDLES),
    ("have a wonderful", IDLES),
    ("have a good", IDLES),
    ("until next time", IDLES),
    ("look forward", IDLES),
    ("so do i", IDLES | WHOLE),
    ("likewise", IDLES),
    ("happy to help", IDLES),
    ("glad to help", IDLES),
    ("you too", IDLES | WHOLE),
    ("please provide", ASKS),
    ("please check", ASKS),
    ("once you", ASKS),
    ("once we", ASKS),
    ("if you", ASKS),
    ("when you", ASKS),
    ("i'll need", ASKS),
    ("i will need", ASKS),
    ("i need your", ASKS),
    ("i need the", ASKS),
    ("i need both", ASKS),
    ("i'll be here", ASKS),
    ("feel free", ASKS),
    ("i am", BEFORE_VERB),
    ("i'm", BEFORE_VERB),
]);

/// Whether a message repeats one piece of text or one sentence over and over.
pub(crate) fn repeats_itself(text: &str) -> bool {
    if text.len() < MIN_REPETITION_BYTES {
        return false;
    }
    let start = text.ceil_char_boundary(text.len().saturating_sub(TAIL_BYTES));
    let tail = text.get(start..).unwrap_or_default();
    (ending_occurs_earlier(tail) && ends_in_repetition(&reversed(tail)))
        || repeats_one_sentence(tail)
}

/// Whether the last bytes of a text also occur earlier in it.
fn ending_occurs_earlier(text: &str) -> bool {
    let text = text.trim_end();
    let last = text.ceil_char_boundary(text.len().saturating_sub(ENDING_BYTES));
    let end = text.floor_char_boundary(text.len().saturating_sub(1));
    let (before, last) = (text.get(..end), text.get(last..));
    before.zip(last).is_some_and(|(before, last)| before.contains(last))
}

/// The bytes of a text in reverse, in lowercase, with whitespace runs as one space.
fn reversed(tail: &str) -> Vec<u8> {
    let mut plain: Vec<u8> = Vec::with_capacity(tail.len());
    for byte in tail.bytes().rev() {
        let byte = if byte.is_ascii_whitespace() { b' ' } else { byte.to_ascii_lowercase() };
        if byte != b' ' || plain.last() != Some(&b' ') {
            plain.push(byte);
        }
    }
    plain
}

/// Whether a text ends with the same piece several times in a row. Pass the text reversed, because
/// the search starts at its end.
fn ends_in_repetition(reversed: &[u8]) -> bool {
    // The failure function of Knuth-Morris-Pratt: for each prefix, the longest shorter prefix that
    // is also its suffix. The difference of the two lengths is the length of the repeated piece.
    let mut borders: Vec<usize> = Vec::with_capacity(reversed.len());
    let mut border = 0;
    for (at, byte) in reversed.iter().enumerate() {
        if at == 0 {
            borders.push(0);
            continue;
        }
        while border > 0 && reversed.get(border) != Some(byte) {
            border = borders.get(border - 1).copied().unwrap_or(0);
        }
        if reversed.get(border) == Some(byte) {
            border += 1;
        }
        borders.push(border);
        let length = at + 1;
        let piece = length - border;
        let min_repeats =
            if piece >= MIN_PARAGRAPH_BYTES { MIN_PARAGRAPH_REPEATS } else { MIN_REPEATS };
        if length >= MIN_REPETITION_BYTES && length / piece >= min_repeats {
            let repeated = reversed.get(..piece).unwrap_or_default();
            let is_letter = |byte: &&u8| byte.is_ascii_alphabetic() || **byte >= 0x80;
            if repeated.iter().filter(is_letter).count() >= MIN_LETTERS_IN_PIECE {
                return true;
            }
        }
    }
    false
}

/// Whether at least three in five sentences of a text are the same sentence.
fn repeats_one_sentence(text: &str) -> bool {
    let mut sentences: Vec<Digest> = text
        .split(['.', '!', '?', '\n', '。', '！', '？', '…'])
        .map(|sentence| sentence.trim().as_bytes())
        .filter(|sentence| sentence.len() >= MIN_SENTENCE_BYTES)
        .filter(|sentence| sentence.iter().any(|byte| byte.is_ascii_alphabetic() || *byte >= 0x80))
        .map(Digest::of)
        .collect();
    let all = sentences.len();
    sentences.sort_unstable();
    let most = sentences.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap_or(0);
    most >= MIN_SENTENCE_REPEATS && most * 5 >= all * 3
}

/// What a short message of the model does, judged by the phrases in it. All fields are false for a
/// long message and for one with a code block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Talk {
    /// The message says what the model will do next.
    pub(crate) announces: bool,
    /// The message begins with the announcement, not with a report of what was done.
    pub(crate) begins_with_announcement: bool,
    /// The model waits, or asks the user to wait.
    pub(crate) waits: bool,
    /// The message asks for a decision, thanks the user or says that the work is done.
    pub(crate) idles: bool,
    /// The message asks a question, or says that the model needs something from the user.
    pub(crate) asks: bool,
}

impl Talk {
    pub(crate) fn of(text: &str) -> Self {
        let text = text.trim();
        if text.len() > MAX_ANNOUNCEMENT_BYTES || text.contains("```") {
            return Self::default();
        }
        let mut talk = Self { asks: text.contains('?'), ..Self::default() };
        for (at, meaning) in INTENTS.find_in(text.as_bytes()) {
            // "I am transferring you" announces something, "I am sure" does not.
            if meaning == BEFORE_VERB && !is_followed_by_verb(text, at) {
                continue;
            }
            match meaning {
                IDLES => talk.idles = true,
                WAITS => talk.waits = true,
                ASKS => talk.asks = true,
                _ => {
                    talk.announces = true;
                    talk.begins_with_announcement |= at <= MAX_LEAD_BYTES;
                }
            }
        }
        talk
    }
}

/// Whether the "I am" or "I'm" at position `at` is followed by a word that ends in "ing". A "now"
/// or "still" in between is skipped.
fn is_followed_by_verb(text: &str, at: usize) -> bool {
    let after = text.get(at..).unwrap_or_default();
    let word = after.split_whitespace().skip_while(|word| {
        matches!(word.to_ascii_lowercase().as_str(), "i" | "am" | "i'm" | "now" | "still")
    });
    word.take(1).any(|word| word.trim_matches(|c: char| !c.is_alphabetic()).ends_with("ing"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_that_repeats_itself_is_recognized() {
        assert!(repeats_itself(&"I will fix it now. ".repeat(12)));
        assert!(repeats_itself(&format!("First a plan.\n{}", "check the file again\n".repeat(20))));
        assert!(repeats_itself(&"the the ".repeat(60)));
        assert!(repeats_itself(&"我现在就去修复这个测试。".repeat(40)));
        assert!(repeats_itself(&"I will now fix the failing test in the parser… ".repeat(30)));
        assert!(repeats_itself(&format!(
            "{}Done, I think",
            "Let me check the output again. ".repeat(9)
        )));
    }

    #[test]
    fn tables_rulers_and_normal_prose_do_not_repeat_themselves() {
        assert!(!repeats_itself(&"-".repeat(400)));
        assert!(!repeats_itself(&"| 0 | 0 | 0 |\n".repeat(40)));
        let table: String =
            (0..30).map(|n| format!("| file_{n}.rs | {} | ok |\n", n * 7)).collect();
        assert!(!repeats_itself(&table));
        assert!(!repeats_itself(
            "A message that lists the options one by one, gives the cost of each of them and the \
             reason for the choice, and then ends. It is long enough to be examined, and nothing \
             in it occurs more than once or twice, as is usual in prose."
        ));
    }

    #[test]
    fn announcements_are_recognized() {
        for text in [
            "Let me read the file now.",
            "Next, I'll run the tests.",
            "I am transferring you to a colleague.",
        ] {
            assert!(Talk::of(text).announces, "{text}");
        }
        let long = format!("I will now. {}", "Here is what I found: ".repeat(30));
        for text in
            ["The outlet metal is warm.", "Which file do you mean?", "I am sure about it.", &long]
        {
            assert!(!Talk::of(text).announces, "{text}");
        }
        let report = "The clock is converted and all of its tests pass. Next I will do the rest.";
        assert!(Talk::of(report).announces && !Talk::of(report).begins_with_announcement);
    }

    #[test]
    fn idle_talk_is_recognized() {
        for text in [
            "Please confirm whether I should go ahead.",
            "As mentioned, the task is complete.",
            "Thank you! Until next time!",
        ] {
            assert!(Talk::of(text).idles, "{text}");
        }
        assert!(Talk::of("Waiting for the result of the check.").waits);
        assert!(Talk::of("I'll need your user id.").asks);
        assert!(!Talk::of("The museum costs 20 dollars.").idles);
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "[ab é\n.]{0,400}") {
            repeats_itself(&text);
            Talk::of(&text);
        }
    }
}
