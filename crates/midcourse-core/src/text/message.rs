//! What a model's words are like: a chant that repeats itself within one message, or an
//! announcement of something that a call would do.

use super::phrases::Phrases;
use crate::digest::Digest;

/// What is looked at of a message: its end, which is where a chant goes on.
const TAIL_BYTES: usize = 2048;

/// A chant has at least so many bytes, and repeats at least so often: fewer is emphasis, a list or
/// a table.
const CHANT_BYTES: usize = 160;
const CHANT_TIMES: usize = 8;

/// Of a whole paragraph fewer repetitions are a chant.
const PARAGRAPH_BYTES: usize = 80;
const PARAGRAPH_TIMES: usize = 4;

/// The last bytes of a message, which in a chant have been said before.
const LAST_BYTES: usize = 20;

/// Letters in what is repeated: rulers, numbers and brackets are layout.
const CHANT_LETTERS: usize = 3;

/// A sentence this long, said this often within one message, is a chant too.
const SENTENCE_BYTES: usize = 16;
const SENTENCE_TIMES: usize = 6;

/// The longest announcement, in bytes: a longer message carries something.
const ANNOUNCEMENT_MAX: usize = 320;

/// What is looked at of a person's word, in bytes: longer ones are pasted documents.
const REQUEST_MAX: usize = 2048;

/// Words for the same several times: alone, or behind a number.
const REPEATED: u16 = 1;
const COUNTED: u16 = 2;
/// Alone, where it is a question.
const DOUBTED: u16 = 4;
static REQUESTS: Phrases<7> = Phrases::new([
    ("repeatedly", REPEATED),
    ("flaky", DOUBTED),
    ("flakiness", DOUBTED),
    ("times", COUNTED),
    ("samples", COUNTED),
    ("runs", COUNTED),
    ("iterations", COUNTED),
]);

/// Words before and behind "three times" that make it something else.
const REPORTS: [&str; 7] = ["failed", "crashed", "tried", "happened", "occurred", "broke", "died"];
const MEASURES: [&str; 10] =
    ["faster", "slower", "as", "more", "less", "larger", "smaller", "bigger", "better", "the"];

/// Words for how often.
const COUNTS: [&str; 14] = [
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twenty", "fifty",
    "hundred", "several", "multiple",
];

/// How one announces.
static INTENTS: Phrases<21> = Phrases::new([
    ("let me", 1),
    ("i will", 1),
    ("i'll", 1),
    ("i am going to", 1),
    ("i'm going to", 1),
    ("i'm about to", 1),
    ("i need to", 1),
    ("i should", 1),
    ("i shall", 1),
    ("i plan to", 1),
    ("i can now", 1),
    ("i'm now", 1),
    ("i am now", 1),
    ("now i", 1),
    ("let's", 1),
    ("next step", 1),
    ("going to", 1),
    ("proceeding to", 1),
    ("about to", 1),
    ("time to", 1),
    ("starting with", 1),
]);

/// Whether a message repeats itself over and over.
pub(crate) fn repeats_itself(text: &str) -> bool {
    if text.len() < CHANT_BYTES {
        return false;
    }
    let start = text.ceil_char_boundary(text.len().saturating_sub(TAIL_BYTES));
    let tail = text.get(start..).unwrap_or_default();
    (comes_again(tail) && ends_in_a_chant(&backwards(tail))) || says_one_sentence(tail)
}

/// Whether the last words of a text stand in it twice: most texts are no chant, and this tells.
fn comes_again(text: &str) -> bool {
    let text = text.trim_end();
    let last = text.ceil_char_boundary(text.len().saturating_sub(LAST_BYTES));
    let end = text.floor_char_boundary(text.len().saturating_sub(1));
    let (before, last) = (text.get(..end), text.get(last..));
    before.zip(last).is_some_and(|(before, last)| before.contains(last))
}

/// A text from its end to its beginning, without case and with single blanks.
fn backwards(tail: &str) -> Vec<u8> {
    let mut plain: Vec<u8> = Vec::with_capacity(tail.len());
    for byte in tail.bytes().rev() {
        let byte = if byte.is_ascii_whitespace() { b' ' } else { byte.to_ascii_lowercase() };
        if byte != b' ' || plain.last() != Some(&b' ') {
            plain.push(byte);
        }
    }
    plain
}

/// Whether a text, given backwards, begins with a stretch that repeats one piece.
fn ends_in_a_chant(backwards: &[u8]) -> bool {
    // For each length, how long a beginning is also an ending (Knuth, Morris, Pratt): the rest is
    // the shortest piece that the stretch is made of.
    let mut borders: Vec<usize> = Vec::with_capacity(backwards.len());
    let mut border = 0;
    for (at, byte) in backwards.iter().enumerate() {
        if at == 0 {
            borders.push(0);
            continue;
        }
        while border > 0 && backwards.get(border) != Some(byte) {
            border = borders.get(border - 1).copied().unwrap_or(0);
        }
        if backwards.get(border) == Some(byte) {
            border += 1;
        }
        borders.push(border);
        let length = at + 1;
        let piece = length - border;
        let times = if piece >= PARAGRAPH_BYTES { PARAGRAPH_TIMES } else { CHANT_TIMES };
        if length >= CHANT_BYTES && length / piece >= times {
            let repeated = backwards.get(..piece).unwrap_or_default();
            let is_letter = |byte: &&u8| byte.is_ascii_alphabetic() || **byte >= 0x80;
            if repeated.iter().filter(is_letter).count() >= CHANT_LETTERS {
                return true;
            }
        }
    }
    false
}

/// Whether most sentences of a text are one and the same.
fn says_one_sentence(text: &str) -> bool {
    let mut sentences: Vec<Digest> = text
        .split(['.', '!', '?', '\n', '。', '！', '？', '…'])
        .map(|sentence| sentence.trim().as_bytes())
        .filter(|sentence| sentence.len() >= SENTENCE_BYTES)
        .filter(|sentence| sentence.iter().any(|byte| byte.is_ascii_alphabetic() || *byte >= 0x80))
        .map(Digest::of)
        .collect();
    let all = sentences.len();
    sentences.sort_unstable();
    let most = sentences.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap_or(0);
    most >= SENTENCE_TIMES && most * 5 >= all * 3
}

/// Whether a person asks for the same several times: "run it ten times", "is it flaky?".
pub(crate) fn asks_to_repeat(text: &str) -> bool {
    let text = text.get(..text.floor_char_boundary(REQUEST_MAX)).unwrap_or_default();
    REQUESTS.find_in(text.as_bytes()).any(|(at, meaning)| {
        let (before, behind) = text.split_at_checked(at).unwrap_or_default();
        let is_word = |word: &&str| !word.is_empty();
        let not_word = |c: char| !c.is_alphanumeric();
        if meaning == REPEATED {
            return true;
        }
        if meaning == DOUBTED {
            return text.contains('?') || text.contains("whether");
        }
        let mut before = before.rsplit(not_word).filter(is_word);
        let is_counted = before.next().is_some_and(is_count);
        // "failed three times" is a report, "ten times faster" a measure.
        let is_report = before.next().is_some_and(|word| among(word, &REPORTS));
        let next = behind.split(not_word).filter(is_word).nth(1);
        is_counted && !is_report && !next.is_some_and(|word| among(word, &MEASURES))
    })
}

fn among(word: &str, list: &[&str]) -> bool {
    list.iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn is_count(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit()) || among(word, &COUNTS)
}

/// Whether a message only says what will be done.
pub(crate) fn is_announcement(text: &str) -> bool {
    let text = text.trim();
    if text.len() > ANNOUNCEMENT_MAX || text.contains("```") {
        return false;
    }
    INTENTS.find_in(text.as_bytes()).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn chants() {
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
    fn what_repeats_for_a_reason() {
        assert!(!repeats_itself(&"-".repeat(400)));
        assert!(!repeats_itself(&"| 0 | 0 | 0 |\n".repeat(40)));
        let table: String =
            (0..30).map(|n| format!("| file_{n}.rs | {} | ok |\n", n * 7)).collect();
        assert!(!repeats_itself(&table));
        assert!(!repeats_itself(
            "A thoughtful message that goes through the options one by one, says what each of them \
             costs and which of them was chosen, and then ends. It is long enough to be looked at, \
             and nothing in it is said more than once or twice, which is quite usual."
        ));
    }

    #[test]
    fn wishes_for_the_same_again() {
        assert!(asks_to_repeat("Run TestReconnect ten times, I want to know whether it is stable"));
        assert!(asks_to_repeat("take 5 samples of it"));
        assert!(asks_to_repeat("is the login test flaky?"));
        assert!(!asks_to_repeat("it failed two days ago; keep going until the tests pass"));
        assert!(!asks_to_repeat("sometimes it runs, sometimes not"));
        assert!(!asks_to_repeat("make the parser 10 times faster"));
        assert!(!asks_to_repeat("CI failed 3 times, please fix it"));
        assert!(!asks_to_repeat("fix the flaky login test"));
    }

    #[test]
    fn announcements() {
        assert!(is_announcement("Let me read the file now."));
        assert!(is_announcement("Next, I'll run the tests."));
        assert!(!is_announcement("The outlet metal is warm."));
        assert!(!is_announcement("Which file do you mean?"));
        assert!(!is_announcement(&format!("I will now. {}", "Here is what I found: ".repeat(30))));
    }

    proptest! {
        #[test]
        fn any_message_can_be_heard(text in "[ab é\n.]{0,400}") {
            repeats_itself(&text);
            is_announcement(&text);
        }
    }
}
